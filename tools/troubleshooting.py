# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/troubleshooting.md from the tables of the doctor's rules. With --check, says whether it is up to date."""

from __future__ import annotations

import importlib
import sys
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
COLLECTION = "ansible_collections.fabric.rdma"
sys.path.insert(0, str(ROOT / ".collections"))

INTRODUCTION = """# Troubleshooting

All problems that the doctor knows, by family. `ansible-playbook fabric.rdma.doctor` looks for each of them, and names the hosts, the lines
that prove it, and a remedy for what it found ([its role](../roles/doctor/README.md)). `ansible-playbook fabric.rdma.fabric` draws the map of
the fabric, and finds the problems with cables ([its role](../roles/fabric/README.md)). `tools/troubleshooting.py` writes this page from the
tables of rules.
"""


def section(rule: typing.Any) -> list[str]:
    looks_at = ", ".join(rule.looks_at)
    return [
        f"### {rule.title}",
        "",
        f"`{rule.id}`: {rule.severity}, found in: {looks_at}.",
        "",
        f"- Cause: {rule.cause}.",
        f"- Remedy: {rule.remedy}.",
        "",
    ]


def kind(found: typing.Any, looks_at: str) -> list[str]:
    return [
        f"### {found.title}",
        "",
        f"`{found.id}`: {found.severity}, found in: {looks_at}.",
        "",
        f"- Cause: {found.cause}.",
        f"- Remedy: {found.remedy}.",
        "",
    ]


def page() -> str:
    # their path is made above
    families = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils._doctor.rules").FAMILIES
    kinds = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils._health.kinds")
    lines = [INTRODUCTION]
    for family, rules in families.items():
        lines += [f"## {family}", "", *(line for rule in rules for line in section(rule))]
    lines += ["## Cards and links", "", *(line for each in kinds.LINKS for line in kind(each, "facts of a group"))]
    lines += ["## Cables", "", *(line for each in kinds.CABLES for line in kind(each, "the map of the fabric"))]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        if current != page():
            print(f"{PAGE.relative_to(ROOT)} is not up to date: run tools/troubleshooting.py")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

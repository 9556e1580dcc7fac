# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/troubleshooting.md out of the table of the doctor's rules, and docs/zh/troubleshooting.md with its translation.

With --check, says whether they are up to date. A rule without a translation, or a translation without a rule, is an error; so is one
that names other variables, commands, files or figures than the rule does.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import typing
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
CHINESE_PAGE = ROOT / "docs" / "zh" / "troubleshooting.md"
CHINESE = ROOT / "plugins" / "plugin_utils" / "_doctor" / "chinese.yml"
COLLECTION = "ansible_collections.fabric.rdma"
sys.path.insert(0, str(ROOT / ".collections"))

INTRODUCTION = """# Troubleshooting

All problems that the doctor knows, by family. `ansible-playbook fabric.rdma.doctor` looks for each of them, and names the hosts, the lines
that prove it, and a remedy for what it found ([its role](../roles/doctor/README.md)). `ansible-playbook fabric.rdma.fabric` draws the map of
the fabric, and finds the problems with cables ([its role](../roles/fabric/README.md)). `tools/troubleshooting.py` writes this page from the
tables of rules.
"""


# What a reader types, looks for or compares, which is the same in every language.
NAMES = re.compile(
    r"rdma_[a-z_]+(?:\.[a-z_]+)*|fabric\.rdma\.[a-z_]+|kubectl(?: -?[a-z-]+)+|--[a-z-]+|[A-Z]{3,}(?:_[A-Z0-9]+)+"
    r"|\b[a-z0-9]+(?:_[a-z0-9]+)+|/[a-z0-9_./-]{4,}|\b\d[\d.]*\b"
)

LINKS, CABLES = "Cards and links", "Cables"
# Kinds of findings do not say it themselves.
LOOKS_AT = {LINKS: "facts of a group", CABLES: "the map of the fabric"}


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


def tables() -> dict[str, typing.Any]:
    """All rules and kinds, by the heading of their family."""
    # their path is made above
    families = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils._doctor.rules").FAMILIES
    kinds = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils._health.kinds")
    return {**families, LINKS: kinds.LINKS, CABLES: kinds.CABLES}


def page() -> str:
    lines = [INTRODUCTION]
    for family, rules in tables().items():
        lines += [f"## {family}", ""]
        for rule in rules:
            lines += kind(rule, LOOKS_AT[family]) if family in LOOKS_AT else section(rule)
    return "\n".join(lines).rstrip() + "\n"


def translation_problems(chinese: typing.Any) -> list[str]:
    """What the translation lacks, and what it has too much."""
    families = tables()
    rules = {rule.id for rules in families.values() for rule in rules}
    pairs = (("family", set(families), chinese["families"]), ("rule", rules, chinese["rules"]))
    missing = [
        f"the {what} {name} is not translated" for what, known, found in pairs for name in sorted(known - set(found))
    ]
    more = [
        f"there is no {what} {name} to translate" for what, known, found in pairs for name in sorted(set(found) - known)
    ]
    keys = ("title", "cause", "remedy")
    parts = [
        f"the rule {name} needs {', '.join(keys)}" for name, entry in chinese["rules"].items() if tuple(entry) != keys
    ]
    severities = sorted({rule.severity for own in families.values() for rule in own} - set(chinese["words"]))
    words = [f"the severity '{each}' is not translated" for each in severities]
    problems = missing + more + parts + words or [
        f"the {part} of the rule {rule.id} and its translation differ in {', '.join(differences)}"
        for own in families.values()
        for rule in own
        for part in ("cause", "remedy")
        if (differences := different_names(getattr(rule, part), chinese["rules"][rule.id][part]))
    ]
    return [f"{CHINESE.relative_to(ROOT)}: {each}" for each in problems]


def different_names(text: str, translated: str) -> list[str]:
    """What only one of them names."""
    return sorted(set(NAMES.findall(text)) ^ set(NAMES.findall(translated)))


def chinese_page(chinese: typing.Any) -> str:
    """Its words are all in the table; here is what goes where."""
    words = chinese["words"]
    lines = [chinese["introduction"]]
    for family, rules in tables().items():
        lines += [f"## {chinese['families'][family]}", ""]
        for rule in rules:
            text = chinese["rules"][rule.id]
            looks_at = [LOOKS_AT[family]] if family in LOOKS_AT else rule.looks_at
            sources = words["and"].join(words[each] for each in looks_at)
            lines += [f"### {text['title']}", ""]
            lines += [
                each.format(id=rule.id, severity=words[rule.severity], sources=sources, **text)
                for each in chinese["lines"]
            ]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Writes the pages, or compares them; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, say whether they are up to date")
    given = parser.parse_args()
    chinese = yaml.safe_load(CHINESE.read_text(encoding="utf-8"))
    if problems := translation_problems(chinese):
        print("\n".join(problems))
        return 1
    status = 0
    for path, text in ((PAGE, page()), (CHINESE_PAGE, chinese_page(chinese))):
        if not given.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is not up to date: run tools/troubleshooting.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who installs a package on a node restarts no service of it: from Ubuntu 24.04 on, needrestart does so behind apt's back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"ansible.builtin.apt", "ansible.builtin.package"}
# Programs of the vendor that call apt or dpkg.
PROGRAMS = ("mlnxofedinstall", "ofed_uninstall.sh")


def tasks_of(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from tasks_of(entry.get(part, []))


def changes_packages(task: dict[str, Any]) -> bool:
    command = str(task.get("ansible.builtin.command", {}))
    with_apt = bool(MODULES & set(task)) and "!= 'apt'" not in str(task.get("when"))
    return with_apt or any(program in command for program in PROGRAMS)


def test_needrestart_only_lists_what_it_would_restart() -> None:
    found = [
        (f"{path.relative_to(ROOT)}: {task['name']}", task.get("environment"))
        for path in sorted(ROOT.glob("roles/*/tasks/*.yml"))
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8")) or [])
        if changes_packages(task)
    ]
    assert len(found) >= 7
    # as fabric.rdma.driver_packages tells it
    assert [name for name, environment in found if environment != {"NEEDRESTART_MODE": "l"}] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks and roles look at a host with costs no task that checks arguments: ib_facts checks what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.tests.unit.test_package_tasks import tasks_of

ROOT = Path(__file__).resolve().parents[2]
CALLS = ("ansible.builtin.import_role", "ansible.builtin.include_role")
FILES = [path for place in ("roles/*/tasks", "playbooks/tasks", "playbooks") for path in ROOT.glob(f"{place}/*.yml")]


@pytest.mark.parametrize("entry", ["before_change", "compare", "fresh", "gather", "show"])
def test_a_look_at_a_host_is_not_checked_twice(entry: str) -> None:
    found = []
    for path in sorted(FILES):
        content = DataLoader().load_from_file(str(path)) or []
        plays = content if path.parent.name == "playbooks" else [{"tasks": content}]
        tasks = [task for play in plays for task in tasks_of([*play.get("pre_tasks", []), *play.get("tasks", [])])]
        calls = [task[call] for task in tasks for call in CALLS if call in task]
        found += [(path.name, call) for call in calls if call.get("tasks_from") == entry]
    assert found
    assert [name for name, call in found if call.get("rolespec_validate") is not False] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a play is for that only some of the hosts need, and which hosts rdma_hosts names."""

from __future__ import annotations

import json
import re
import sys
import typing as t

import pytest

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

HOSTS = [f"n{number:03d}" for number in range(130)]
FAILED, LOST = "n001", "n003"
WELL = [host for host in HOSTS if host not in (FAILED, LOST)]


def told(
    user: User,
    directory: Path,
    chosen: list[str],
    *more: str,
    wanted: str | list[str] = "rdma",
    hosts: t.Sequence[str] = HOSTS,
    earlier: t.Sequence[str] | None = None,
) -> dict[str, int]:
    """Who is left in a play that begins with chosen.yml, and of how many parts its pattern is.

    One host fails before, and is brought back. Another one has been lost, and is in none of the plays that verify.yml begins with.
    earlier: whom an earlier play was for.
    """
    tasks = f"{user.collection}/playbooks/tasks"
    begin: dict[str, t.Any] = {"gather_facts": False}
    everyone = "{{ [rdma_hosts | fabric.rdma.rdma_pattern, '!rdma_lost', 'localhost'] }}"
    lost = {"ansible.builtin.add_host": {"name": LOST, "groups": ["rdma_lost"]}}
    fail = {"ansible.builtin.fail": {"msg": "failed"}, "when": f"inventory_hostname == '{FAILED}'"}
    choose = [
        {"ansible.builtin.import_tasks": f"{tasks}/choose.yml", "vars": {"__probe_chosen": each}}
        for each in (earlier, chosen)
        if each is not None
    ]
    pattern = "{{ (hostvars | default({})).localhost.__probe_pattern | default(['localhost'], true) }}"
    show = {
        "name": "Show who is left",
        "ansible.builtin.debug": {"msg": "one of {{ hostvars.localhost.__probe_pattern | length }}"},
    }
    same = {"ansible.builtin.assert": {"that": "groups['all'] | length == given | int"}}
    plays = [
        {"ansible.builtin.import_playbook": "fabric.rdma.wishes", "vars": {"wishes_plan": False}},
        {**begin, "hosts": "localhost", "tasks": [lost]},
        {**begin, "hosts": everyone, "tasks": [fail, *choose]},
        {"ansible.builtin.import_playbook": "fabric.rdma.everyone"},
        {**begin, "hosts": pattern, "tasks": [{"ansible.builtin.import_tasks": f"{tasks}/chosen.yml"}, show, same]},
    ]
    # a program's names are taken as they are, as AWX's
    inventory = {"rdma": {"hosts": list(hosts)}, "other": {"hosts": ["elsewhere"]}, "_meta": {"hostvars": {}}}
    (directory / "hosts").write_text(f"#!{sys.executable}\nprint({json.dumps(inventory)!r})\n")
    (directory / "hosts").chmod(0o755)
    (directory / "play.json").write_text(json.dumps(plays))
    extra = json.dumps({"rdma_hosts": wanted, "given": len(hosts) + 1})
    command = ["ansible-playbook", "-i", str(directory / "hosts"), str(directory / "play.json"), "-e", extra]
    done = user.run(*command, *more, check=False)
    assert "TASK [chosen | Leave the others out]" in done.stdout, done.stdout + done.stderr
    assert re.findall(r"^fatal: \[([^]]+)\]", done.stdout, re.MULTILINE) == [FAILED], done.stdout
    _before, _task, after = done.stdout.partition("TASK [Show who is left]")
    found = re.findall(r"^ok: \[([^]]+)\].*?one of (\d+)", after, re.MULTILINE | re.DOTALL)
    return {host: int(parts) for host, parts in sorted(found)}


@pytest.mark.parametrize("count", [1, 127])
@pytest.mark.parametrize("who", ["oldest_user", "newest_user"])
def test_a_play_for_some_is_for_these(request: pytest.FixtureRequest, tmp_path: Path, who: str, count: int) -> None:
    """Matched by their names where most are left out, or else by the pattern of all; not for those that had dropped out before."""
    assert list(told(request.getfixturevalue(who), tmp_path, WELL[:count])) == WELL[:count]


def test_a_play_for_all_of_a_part_does_not_name_each(user: User, tmp_path: Path) -> None:
    """Each event of it has its pattern."""
    chosen = [host for host in WELL if host < "n010"]
    assert told(user, tmp_path, chosen, "--limit", "n00*,localhost") == dict.fromkeys(chosen, 2)


def test_a_play_for_many_that_many_are_left_out_of_names_a_group(user: User, tmp_path: Path) -> None:
    """For those that were chosen last, whoever was before."""
    hosts = [f"n{number:03d}" for number in range(230)]
    chosen = [host for host in hosts if host not in (FAILED, LOST)][:110]
    seen = told(user, tmp_path, chosen, hosts=hosts, earlier=hosts[100:220])
    assert seen == dict.fromkeys(chosen, 2)


@pytest.mark.parametrize("whose", ["oldest_user", "newest_user"])
def test_names_that_ansible_would_take_apart_are_in_the_play_and_nobody_else_is(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Ports, lists and addresses. The controller is in no group by it, although the play is for all there are."""
    odd = ["a,b", "gpu:1", "node:22", "2001:db8::7"]
    hosts = [*(f"n{number:03d}" for number in range(230)), *odd]
    chosen = sorted([*odd, *(host for host in hosts if host not in (FAILED, LOST, *odd))][:110])
    seen = told(request.getfixturevalue(whose), tmp_path, chosen, hosts=hosts, wanted="all")
    # a pattern for each of the first three
    assert seen == dict.fromkeys(chosen, 5)


def test_a_play_for_nobody_ends_with_the_controller(user: User, tmp_path: Path) -> None:
    assert told(user, tmp_path, []) == {}


def test_hosts_that_are_named_by_a_list_are_all_of_it(user: User, tmp_path: Path) -> None:
    """Plays that have the controller, too, take a list as the others do."""
    chosen = [host for host in WELL if host not in ("n000", "n002")][:40]
    assert list(told(user, tmp_path, chosen, wanted=["rdma", "!n000:!n002"])) == chosen

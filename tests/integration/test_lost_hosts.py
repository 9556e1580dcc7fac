# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""verify.yml with a host that is gone: it is waited for once, its pairs have the reason, and the others are measured."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
HOSTS = ("ib-a100-1", "ib-a100-2", "ib-a100-3")
# The facts of a capture on hosts that are not replayed; then one of them is gone: nobody listens on that port.
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - fabric.rdma.ib_facts: {capture: "{{ capture }}"}
      check_mode: false
    - ansible.builtin.set_fact: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
      when: inventory_hostname == gone
- import_playbook: fabric.rdma.verify
"""


@pytest.mark.parametrize(("gone", "links"), [(HOSTS[0], True), (HOSTS[2], False)], ids=["links", "traffic"])
def test_a_host_that_is_gone_is_waited_for_once(user: User, tmp_path: Path, gone: str, links: bool) -> None:
    hosts = {name: {"ansible_connection": "local", "capture": str(CAPTURES / f"{name}.capture")} for name in HOSTS}
    variables = {
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "ansible_become": False,
        "gone": gone,
        "rdma_groups": ["rdma"],
        "rdma_resource": {"name": "rdma_a100"},
        "rdma_output_dir": str(tmp_path / "output"),
        "verify_tests": ["ib_write_bw"],
        "verify_timeout": 5,
        # everyone meets everyone
        "verify_topology": "full",
        "verify_settings": {"links": links},
    }
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"hosts": hosts, "vars": variables}}))
    (tmp_path / "play.yml").write_text(PLAY)
    done = user.run("ansible-playbook", "-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.yml"), check=False)
    assert done.returncode != 0
    # it has a part in two rounds of three
    assert (done.stdout + done.stderr).count("UNREACHABLE!") == 1, done.stdout
    tests = load(tmp_path / "output" / "evidence" / "rdma.json")["tests"]
    ends = [frozenset(test[side]["host"] for side in ("client", "server")) for test in tests]
    assert sorted(map(sorted, ends)) == sorted(
        map(sorted, ({one, other} for one in HOSTS for other in HOSTS if one < other))
    )
    for test, pair in zip(tests, ends, strict=True):
        assert test["verdict"] == "error"
        # the others come to their tests, which no device of this machine can do; as a client it is named after the server's own trouble
        if test["server"]["host"] == gone or gone not in pair:
            assert (f"{gone} could not be reached, so nothing was measured" in test["message"]) is (gone in pair)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_those_that_are_there_are_planned_whoever_a_limit_leaves_out(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Ansible ends the run when no host of a play is left; with a limit, the controller is in none."""
    user: User = request.getfixturevalue(whose)
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    there = {name: {"rdma_capture": str(CAPTURES / f"{name}.capture")} for name in HOSTS[:2]}
    groups = {
        "there": {"hosts": there, "vars": {"rdma_resource": {"name": "rdma_a100"}}},
        "gone": {"hosts": {"gone": gone}, "vars": {"rdma_resource": {"name": "rdma_gone"}}},
    }
    variables = {"rdma_groups": ["there", "gone"], "rdma_output_dir": str(tmp_path / "output")}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"children": groups, "vars": variables}}))
    plays = [
        {"ansible.builtin.import_playbook": "fabric.rdma.discover"},
        {"hosts": "rdma", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": "on we go"}}]},
        {"ansible.builtin.import_playbook": "fabric.rdma.plan"},
    ]
    (tmp_path / "play.json").write_text(json.dumps(plays))
    arguments = ["-i", str(tmp_path / "hosts.json"), "--limit", "rdma"]
    done = user.run("ansible-playbook", *arguments, str(tmp_path / "play.json"), check=False)
    assert done.returncode
    # each play of those that lack facts, or have failed, has none but the one that is gone
    assert done.stdout.count("on we go") == 2, done.stdout
    alone = user.run("ansible-playbook", *arguments, "fabric.rdma.plan", check=False)
    assert alone.returncode
    assert alone.stdout.count("UNREACHABLE!") == 1, alone.stdout
    for _run in (done, alone):
        planned = load(tmp_path / "output" / "plan.json")["groups"]
        assert {name: entry["planned"] for name, entry in planned.items()} == {"there": True, "gone": False}

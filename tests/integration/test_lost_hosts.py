# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are gone: each is waited for once and is told with its reason, the others go on, and nothing is untold when none is left."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.benchmarks.playbooks import lacking_hosts
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


# Leads to a stand-in on this machine, and no longer once a module has begun there.
SSH = """#!/bin/sh
for word; do case $word in node-*) host=$word ;; esac; last=$word; done
gone() { grep -qsx %(module)s "%(place)s/first/$host/calls"; }
gone || { sh -c "$last"; code=$?; gone || exit "$code"; }
echo "ssh: connect to host $host port 22: Connection timed out" >&2
exit 255
"""


def stand_ins(place: Path, gone_at: str = "apt") -> Path:
    """An inventory of two nodes that lack everything. Each is gone once a module has begun there. Where they are told: place / output."""
    inventory = json.loads(lacking_hosts(place, 2).read_text())
    ssh = place / "ssh"
    ssh.write_text(SSH % {"place": place, "module": gone_at})
    ssh.chmod(0o755)
    inventory["all"]["children"]["rdma"]["vars"] = {
        "ansible_connection": "ssh",
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
        "ansible_ssh_args": "",
        "ansible_pipelining": False,
        "ansible_remote_tmp": str(place / "remote"),
    }
    inventory["all"]["vars"] = {
        "ansible_become": False,
        "rdma_output_dir": str(place / "output"),
        "rdma_serial": ["100%"],
    }
    group = inventory["all"]["children"]["rdma"]["children"]["gpu"]["vars"]
    group["ansible_python_interpreter"] = f"{place}/first/{{{{ inventory_hostname }}}}/python"
    path = place / "hosts.json"
    path.write_text(json.dumps(inventory))
    return path


def outcomes(place: Path) -> dict[str, dict[str, t.Any]]:
    return dict(load(place / "output" / "outcomes.json")["hosts"])


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
@pytest.mark.parametrize("playbook", ["prepare", "site"])
def test_what_becomes_of_nodes_is_told_when_all_are_lost_in_their_change(
    whose: str, playbook: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Ansible gives no host back to a later play that it has lost: without them, there would be nobody to tell of."""
    user: User = request.getfixturevalue(whose)
    done = user.run("ansible-playbook", "-i", str(stand_ins(tmp_path)), f"fabric.rdma.{playbook}", check=False)
    # of the run, not of a connection
    assert done.returncode == 2, done.stdout + done.stderr
    # no later play waits for them once more
    assert done.stdout.count("UNREACHABLE!") == 2, done.stdout
    told = outcomes(tmp_path)
    assert {name: one["state"] for name, one in told.items()} == {"node-00001": "lost", "node-00002": "lost"}
    assert all(one["step"] == "ofed" and "no longer answer" in one["message"] for one in told.values())
    if playbook == "site":
        for file in ("summary.txt", "report.html"):
            text = " ".join((tmp_path / "output" / file).read_text().split())
            assert all(f"{name} was lost in the step ofed" in text for name in told), text
        assert set(load(tmp_path / "output" / "facts.json")) == set(told)
        assert load(tmp_path / "output" / "plan.json")["groups"]


def test_a_node_that_is_lost_where_no_play_is_left_is_not_what_it_was(newest_user: User, tmp_path: Path) -> None:
    """With a limit that does not name the controller, Ansible ends the run. What an earlier one has told no longer counts."""
    inventory = str(stand_ins(tmp_path))
    finished = {"state": "finished", "wave": 1, "step": None, "task": None, "message": None, "remedy": None}
    (tmp_path / "output").mkdir()
    document = {"schema": 1, "hosts": {"node-00001": finished, "node-00002": finished}}
    (tmp_path / "output" / "outcomes.json").write_text(json.dumps(document))
    words = ("ansible-playbook", "-i", inventory, "--limit", "node-00001")
    done = newest_user.run(*words, "fabric.rdma.prepare", check=False)
    assert done.returncode == 4, done.stdout
    (one,) = outcomes(tmp_path).values()
    assert (one["state"], one["message"]) == ("lost", "the run ended before it could tell what became of it")
    newest_user.run("ansible-playbook", "-i", inventory, "fabric.rdma.report", check=False)
    assert "node-00001 was lost" in " ".join((tmp_path / "output" / "summary.txt").read_text().split())


def test_one_that_has_no_turn_is_left_to_tell_of_the_others(newest_user: User, tmp_path: Path) -> None:
    """With such a limit, too: of a node that needs nothing, the run goes on."""
    path = stand_ins(tmp_path)
    inventory = json.loads(path.read_text())
    replayed = {"ansible_connection": "local", "rdma_capture": str(CAPTURES / "ib-a100-1.capture")}
    inventory["all"]["children"]["rdma"]["children"]["gpu"]["hosts"]["ib-a100-1"] = replayed
    path.write_text(json.dumps(inventory))
    done = newest_user.run("ansible-playbook", "-i", str(path), "--limit", "rdma", "fabric.rdma.prepare", check=False)
    assert done.returncode, done.stdout + done.stderr
    states = {name: one["state"] for name, one in outcomes(tmp_path).items()}
    assert states == {"node-00001": "lost", "node-00002": "lost"}
    assert "node-00001 was lost in the step ofed" in done.stdout.partition("TASK [Check that all nodes are well]")[2]


def test_a_node_that_fails_and_is_lost_when_it_is_looked_at_was_lost(newest_user: User, tmp_path: Path) -> None:
    path = stand_ins(tmp_path, "judged")
    for python in tmp_path.glob("first/*/python"):
        # apt fails; the look at the node after it is the end
        failure = 'if name == "apt":\n    print(json.dumps({"failed": True, "msg": "no apt here"}))\n    sys.exit(1)\n'
        text = python.read_text().replace("answer = ", failure + "answer = ", 1)
        text = text.replace(
            "calls = (here",
            'if name == "ib_facts" and "apt" in (here / "calls").read_text().split():\n'
            '    (here / "calls").open("a").write("judged\\n")\ncalls = (here',
            1,
        )
        python.write_text(text)
    done = newest_user.run("ansible-playbook", "-i", str(path), "fabric.rdma.prepare", check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    for one in outcomes(tmp_path).values():
        assert (one["state"], one["step"]) == ("lost", "ofed"), one
        assert one["message"].endswith("Afterwards it no longer answered")
        assert "no apt here" in one["message"]


def test_a_node_that_is_lost_last_says_what_became_of_all(newest_user: User, tmp_path: Path) -> None:
    """Those that are lost are taken back where nobody else is left. What held before their change is not what they remember."""
    path = stand_ins(tmp_path, "judged")
    lost, failed = (tmp_path / "first" / name / "python" for name in ("node-00001", "node-00002"))
    gone = 'if name == "apt":\n    (here / "calls").open("a").write("judged\\n")\n'
    lost.write_text(lost.read_text().replace("calls = (here", gone + "calls = (here", 1))
    failure = 'if name == "apt":\n    print(json.dumps({"failed": True, "msg": "no apt here"}))\n    sys.exit(1)\n'
    failed.write_text(failed.read_text().replace("answer = ", failure + "answer = ", 1))
    ping = {"ansible.builtin.ping": {}, "vars": {"ansible_ssh_executable": "/bin/false"}}
    plays = [
        {"ansible.builtin.import_playbook": "fabric.rdma.prepare", "vars": {"prepare_insist": False}},
        # the controller is left, so that the run goes on
        {
            "hosts": "node-00002:localhost",
            "gather_facts": False,
            "tasks": [{**ping, "when": "inventory_hostname != 'localhost'"}],
        },
        {"ansible.builtin.import_playbook": "fabric.rdma.report"},
    ]
    (tmp_path / "play.json").write_text(json.dumps(plays))
    newest_user.run("ansible-playbook", "-i", str(path), str(tmp_path / "play.json"), check=False)
    told = outcomes(tmp_path)
    assert [(name, one["state"], one["step"]) for name, one in told.items()] == [
        ("node-00001", "lost", "ofed"),
        ("node-00002", "failed", "ofed"),
    ]
    summary = " ".join((tmp_path / "output" / "summary.txt").read_text().split())
    assert "node-00001 was lost in the step ofed" in summary
    assert "node-00002 failed in the step ofed" in summary
    assert "no apt here" in summary


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_second_prepare_in_a_run_changes_nobody_once_more(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Where one was lost before, Ansible goes on after a task that fails for all others, to the play that changes nodes."""
    user: User = request.getfixturevalue(whose)
    path = stand_ins(tmp_path, "nothing")
    ping = {"ansible.builtin.ping": {}, "vars": {"ansible_ssh_executable": "/bin/false"}}
    plays = [
        {"ansible.builtin.import_playbook": "fabric.rdma.prepare", "vars": {"rdma_hosts": "node-00001"}},
        {
            "hosts": "node-00002:localhost",
            "gather_facts": False,
            "tasks": [{**ping, "when": "inventory_hostname != 'localhost'"}],
        },
        {"ansible.builtin.import_playbook": "fabric.rdma.prepare", "vars": {"rdma_hosts": "rdma"}},
    ]
    (tmp_path / "play.json").write_text(json.dumps(plays))
    words = ("ansible-playbook", "--check", "-i", str(path), str(tmp_path / "play.json"))
    done = user.run(*words, check=False)
    assert done.returncode
    assert "Nodes have been prepared in this run: node-00001." in " ".join((done.stdout + done.stderr).split())
    assert done.stdout.count("PLAY [Prepare the nodes]") == 1


def test_the_doctor_waits_once_for_a_host_that_is_gone(newest_user: User, tmp_path: Path) -> None:
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    variables = {"rdma_resource": {"name": "rdma_a100"}, "rdma_output_dir": str(tmp_path / "output")}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"hosts": {"gone": gone}, "vars": variables}}))
    words = ("ansible-playbook", "-i", str(tmp_path / "hosts.json"), "-e", '{"rdma_groups": ["rdma"]}')
    done = newest_user.run(*words, "fabric.rdma.doctor", check=False)
    assert done.stdout.count("UNREACHABLE!") == 1, done.stdout
    assert "port 1: Connection refused" in (tmp_path / "output" / "doctor.txt").read_text()

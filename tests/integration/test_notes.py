# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends whose change, and puts a node back into service: roles used alone, run after run, with real notes on the node.

The cluster is a file, which is there while the node is away; what the roles do with a real one, tests/cluster/test_drain.py shows.
"""

from __future__ import annotations

import json
import sys
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import (
    dump_mark,
    load_mark,
    open_change,
    snapshot,
)
from ansible_collections.fabric.rdma.tests.integration.conftest import ROOT
from ansible_collections.fabric.rdma.tests.integration.stand_ins import WISH
from ansible_collections.fabric.rdma.tests.integration.test_driver_role import INSTALLS, NEEDS_ACTIVATION, WORKS

if t.TYPE_CHECKING:
    from pathlib import Path

    from stand_ins import Node

pytestmark = pytest.mark.integration

UNKNOWN = "an unknown role"
# of a file that is there while the node is away
NODE = (
    "{{ {'resources': [{'metadata': {'labels': {'rdma.fabric/away': 'was-in-work'} if label.stat.exists else {}}}]} }}"
)
SINCE = "2026-01-31T12:00:00Z"


class World:
    """A node that has all that it should, its note, and what the cluster says of it."""

    def __init__(self, node: Node, noted: t.Sequence[str] | bytes, *, away: bool = True, out: bool = True) -> None:
        self.node = node
        self.note: Path = node.directory / "change.json"
        self.away: Path = node.directory / "away"
        self.note.write_bytes(
            noted if isinstance(noted, bytes) else dump_mark(SINCE, list(noted), snapshot(WORKS), out)
        )
        if away:
            self.away.touch()
        module = (ROOT / "plugins" / "modules" / "node_change.py").read_text()
        module = module.replace('"default": CHANGE', f'"default": "{self.note}"')
        (node.collection / "plugins" / "modules" / "node_change.py").write_text(module)
        look = [
            {"ansible.builtin.stat": {"path": str(self.away)}, "register": "label"},
            {"ansible.builtin.set_fact": {"__ofed_node": NODE}},
        ]
        drain = [
            *look,
            {"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": "{{ label.stat.exists }}"}},
            {"fabric.rdma.node_change": {"state": "left"}},
            {"ansible.builtin.file": {"path": str(self.away), "state": "touch"}},
            {"ansible.builtin.fail": {"msg": "a Pod stays"}, "when": "a_pod_stays | default(false)"},
        ]
        uncordon = [{"ansible.builtin.file": {"path": str(self.away), "state": "absent"}}]
        tasks = node.collection / "roles" / "ofed" / "tasks"
        for name, own in {"look": look, "drain": drain, "uncordon": uncordon, "doca": [INSTALLS], "prove": []}.items():
            (tasks / f"{name}.yml").write_text(json.dumps(own))

    @property
    def state(self) -> tuple[bool, list[str]]:
        """Whether it is out of service, and whose changes are open."""
        mark = load_mark(self.note.read_bytes() if self.note.exists() else None)
        return self.away.exists(), mark["roles"] if mark else []

    def run(self, *roles: str, due: t.Collection[str] = (), fails: bool = False, **more: t.Any) -> str:
        """What a play of these roles says; due: those that have something to do."""
        facts = json.loads(json.dumps(WORKS))
        facts["runtime"]["services"] = {"containerd": True, "kubelet": True}
        change = open_change(self.note.read_bytes() if self.note.exists() else None)
        self.node.answers["ib_facts"] = [
            {"ansible_facts": {"rdma": {**facts, **({"change": change} if change else {})}}}
        ]
        directory = self.node.directory
        (directory / "answers.json").write_text(json.dumps(self.node.answers))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
        driver = "ofed" in due
        extra = {
            "__ofed_needs": {**NEEDS_ACTIVATION, "activate": False, "driver": driver, "needed": driver},
            "__roce_host_needs": {
                "needed": "roce_host" in due,
                "reasons": ["mtu"],
                "blocked": [],
                "pending": [],
                "drain": True,
            },
            "rdma_kubeconfig": "/kubeconfig",
            **WISH,
            **more,
        }
        tasks = [{"ansible.builtin.include_role": {"name": f"fabric.rdma.{role}"}} for role in roles]
        (directory / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        arguments = ["-i", str(directory / "hosts.json"), "-e", json.dumps(extra), str(directory / "play.yml")]
        done = self.node.user.run("ansible-playbook", *arguments, check=False)
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode != 0) is fails, said
        return said


def test_a_role_that_is_through_leaves_the_node_to_the_one_whose_change_is_open(node: Node) -> None:
    """And not each to the other."""
    world = World(node, ["ofed"])
    said = world.run("roce_host", due=["roce_host"], fails=True)
    assert f"n1 stays out of service: a change of it by ofed, begun {SINCE}, never finished" in said
    assert world.state == (True, ["ofed"])
    # that nothing is left to do for this one does not mean that all is well
    assert f"n1 may be out of service: a change of it by ofed, begun {SINCE}, never finished" in world.run("roce_host")
    assert world.state == (True, ["ofed"])
    world.run("ofed")
    assert world.state == (False, [])
    assert "never finished" not in world.run("roce_host", "ofed")


def test_two_killed_runs_need_one_run_of_each_role(node: Node) -> None:
    world = World(node, ["ofed", "roce_host"])
    assert "n1 stays out of service: a change of it by roce_host" in world.run("ofed", "roce_host", fails=True)
    assert world.state == (True, ["roce_host"])
    world.run("ofed", "roce_host")
    assert world.state == (False, [])


@pytest.mark.parametrize("stays", [False, True])
def test_a_note_that_cannot_be_read_is_not_forgotten_by_roles_used_alone(node: Node, *, stays: bool) -> None:
    """What else it said, only somebody who looks at the node can tell, or the playbook prepare, which does all that is due."""
    world = World(node, b"{")
    world.run("ofed", due=["ofed"], fails=True, a_pod_stays=stays)
    assert world.state == (True, [UNKNOWN])
    assert f"n1 may be out of service: a change of it by {UNKNOWN}" in world.run("ofed")
    assert world.state == (True, [UNKNOWN])


def test_a_node_that_is_at_work_is_not_said_to_stay_out_of_it(node: Node) -> None:
    """A run was killed between the cluster and the note, or somebody has put it back by hand."""
    world = World(node, ["roce_host", "ofed"], away=False)
    assert "stays out of service" not in world.run("ofed")
    assert world.state == (False, ["roce_host"])
    world.run("roce_host")
    assert world.state == (False, [])


def test_what_one_role_has_put_back_does_not_keep_the_next_from_its_own(node: Node) -> None:
    world = World(node, ["roce_host", "ofed"], away=False)
    world.run("ofed", "roce_host")
    assert world.state == (False, [])


def test_a_node_that_the_cluster_does_not_know_keeps_its_note(node: Node) -> None:
    """It may be out of service in another one."""
    world = World(node, ["ofed"])
    look = (ROOT / "roles" / "ofed" / "tasks" / "look.yml").read_text()
    nothing = {"ansible.builtin.set_fact": {"__ofed_node": {"resources": []}}}
    tasks = [nothing if "fabric.rdma.kubernetes_info" in task else task for task in yaml.safe_load(look)]
    (node.collection / "roles" / "ofed" / "tasks" / "look.yml").write_text(json.dumps(tasks))
    assert "has no node n1, and a change may have left n1 out of service" in world.run("ofed", fails=True)
    assert world.state == (True, ["ofed"])


def test_a_node_that_another_role_has_left_out_of_work_stays_there(node: Node) -> None:
    world = World(node, ["roce_host", "ofed"], out=False)
    assert "n1 stays out of service: a change of it by roce_host" in world.run("ofed", fails=True)
    assert world.state == (True, ["roce_host"])

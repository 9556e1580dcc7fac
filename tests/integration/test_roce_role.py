# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the role roce_host takes a node out of service, and when it comes back: with stand-ins for the modules, and facts of real cards.

What the module does with a host, test_roce_host.py and test_roce_run.py show; how a node of a cluster is drained, tests/cluster/test_drain.py.
"""

from __future__ import annotations

import json
import sys
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.integration.stand_ins import CAPTURES
from ansible_collections.fabric.rdma.tests.integration.test_imex_role import recorder

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.integration.stand_ins import Node

pytestmark = pytest.mark.integration

FACTS = gather(open_tree(str(CAPTURES / "roce-rails-1.capture")))
HURTS, HARMLESS = {"mtu": 4200}, {"arp": {"ignore": 2}}
NO_ROOM = {"failed": True, "msg": "/etc/x: No space left on device"}


def play(
    node: Node, wish: dict[str, t.Any], answer: dict[str, t.Any], cluster: bool = True, drain: str = "", **more: t.Any
) -> str:
    """What a run of the role says, on one line. drain: tasks in place of those that only note that they ran."""
    facts = json.loads(json.dumps(FACTS))
    facts["runtime"]["services"] = {"containerd": True, "kubelet": cluster}
    node.answers.update({"ib_facts": [{"ansible_facts": {"rdma": facts}}], "roce_host": [answer]})
    (node.directory / "answers.json").write_text(json.dumps(node.answers))
    tasks = node.collection / "roles" / "ofed" / "tasks"
    (tasks / "drain.yml").write_text(drain or recorder(node.directory, "out", "ofed_kubeconfig == '/nowhere'"))
    (tasks / "uncordon.yml").write_text(recorder(node.directory, "back", "true"))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (node.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
    variables = {"roce_host_wish": {"persist": False, **wish}, "roce_host_want": {"link_layer": "Ethernet"}, **more}
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.roce_host"}}
    text = json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [role]}])
    (node.directory / "play.yml").write_text(text)
    arguments = ["-i", str(node.directory / "hosts.json"), str(node.directory / "play.yml")]
    done = node.user.run("ansible-playbook", *arguments, check=False)
    return " ".join((done.stdout + done.stderr).split())


def moves(node: Node) -> list[str]:
    path = node.directory / "moves"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    ("wish", "answer", "expected"),
    [
        (HURTS, {"changed": True}, ["out", "back"]),
        (HURTS, {**NO_ROOM, "restored": True}, ["out", "back"]),
        (HURTS, {**NO_ROOM, "restored": False}, ["out"]),
        # killed: nobody knows what it has left
        (HURTS, NO_ROOM, ["out"]),
        (HARMLESS, {"changed": True}, []),
        (HARMLESS, {**NO_ROOM, "restored": False}, []),
    ],
)
def test_pods_leave_before_what_hurts_them(
    node: Node, wish: dict[str, t.Any], answer: dict[str, t.Any], expected: list[str]
) -> None:
    said = play(node, wish, answer, rdma_kubeconfig="/nowhere")
    assert ("failed=0" in said) is ("failed" not in answer), said
    assert ("No space left" in said) is ("failed" in answer)
    assert moves(node) == expected
    assert "roce_host" in node.calls()


@pytest.mark.parametrize("away", [False, True])
def test_a_node_that_work_has_not_left_stays_as_it_is(node: Node, *, away: bool) -> None:
    """Where an earlier run has left it out of service, it stays there."""
    fails = [
        {"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": away}},
        {"ansible.builtin.fail": {"msg": "a Pod stays"}},
    ]
    said = play(node, HURTS, {"changed": True}, rdma_kubeconfig="/nowhere", drain=json.dumps(fails))
    assert "a Pod stays" in said
    assert "roce_host" not in node.calls()
    assert moves(node) == ([] if away else ["back"])


def test_a_node_of_a_cluster_that_nobody_drains_stays_as_it_is(node: Node) -> None:
    said = play(node, HURTS, {"changed": True})
    assert "n1: RoCE stays as it is. not_drained: mtu of " in said
    assert "the node is in a cluster and has not been drained" in said
    assert "roce_host" not in node.calls()


@pytest.mark.parametrize(
    ("wish", "more"),
    [(HARMLESS, {}), (HURTS, {"cluster": False}), (HURTS, {"roce_host_override": ["not_drained"]})],
)
def test_what_hurts_nobody_is_done_without_a_cluster(
    node: Node, wish: dict[str, t.Any], more: dict[str, t.Any]
) -> None:
    assert "failed=0" in play(node, wish, {"changed": True}, **more)
    assert "roce_host" in node.calls()
    assert moves(node) == []

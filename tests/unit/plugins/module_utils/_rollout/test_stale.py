# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which extended resources of a node go, which stay, and why."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.stale import Stale
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]
N1 = "/api/v1/nodes/n1"


def node(name: str, capacity: Json | None = None, allocatable: Json | None = None) -> Json:
    status = {"capacity": capacity or {}, "allocatable": allocatable if allocatable is not None else capacity or {}}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def pod(on: str, resource: str, phase: str = "Running") -> Json:
    container = {"resources": {"requests": {resource: "1"}}}
    metadata = {"name": f"train-{on}", "namespace": "ml"}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("capacity", "allocatable", "pods", "removable", "blocked"),
    [
        ({}, {}, [], {}, {}),
        ({"rdma/other": "0"}, None, [], {}, {}),
        ({"rdma/a": "0"}, None, [], {"n1": ["rdma/a"]}, {}),
        ({"rdma/a": "0", "rdma/b": "0"}, None, [], {"n1": ["rdma/a", "rdma/b"]}, {}),
        # in one of both only
        ({}, {"rdma/a": "0"}, [], {"n1": ["rdma/a"]}, {}),
        ({"rdma/a": "63"}, None, [], {}, {"rdma/a": "a device plugin advertises 63 of it"}),
        ({"rdma/a": "63"}, {"rdma/a": "0"}, [], {}, {"rdma/a": "its plugin went less than five minutes ago"}),
        ({"rdma/a": "0"}, None, [pod("n1", "rdma/a")], {}, {"rdma/a": "requested by Pod ml/train-n1"}),
        ({"rdma/a": "0"}, None, [pod("n2", "rdma/a")], {"n1": ["rdma/a"]}, {}),
        ({"rdma/a": "0"}, None, [pod("n1", "rdma/b")], {"n1": ["rdma/a"]}, {}),
        ({"rdma/a": "0"}, None, [pod("n1", "rdma/a", "Succeeded")], {"n1": ["rdma/a"]}, {}),
        (
            {"rdma/a": "0", "rdma/b": "8"},
            None,
            [],
            {"n1": ["rdma/a"]},
            {"rdma/b": "a device plugin advertises 8 of it"},
        ),
    ],
)
def test_what_nothing_advertises_and_nobody_uses_goes(
    capacity: Json, allocatable: Json | None, pods: list[Json], removable: Json, blocked: dict[str, str]
) -> None:
    server = Server(node("n1", capacity, allocatable), node("n2"), *pods)
    stale = Stale(server, ["rdma/a", "rdma/b"], [])
    assert stale.removable == removable
    assert set(stale.blocked) == ({"n1"} if blocked else set())
    for resource, words in blocked.items():
        assert stale.blocked["n1"][resource].startswith(words)


def test_only_the_nodes_that_are_named_are_looked_at() -> None:
    server = Server(*(node(name, {"rdma/a": "0"}) for name in ("n1", "n2", "n3")))
    assert set(Stale(server, ["rdma/a"], ["n2"]).removable) == {"n2"}
    assert set(Stale(server, ["rdma/a"], []).removable) == {"n1", "n2", "n3"}
    with pytest.raises(KubeError, match=r"nodes that do not exist: n8, n9\. The cluster has: n1, n2, n3$"):
        Stale(server, ["rdma/a"], ["n9", "n2", "n8"])
    with pytest.raises(KubeError, match=r"The cluster has: no node$"):
        Stale(Server(), ["rdma/a"], ["n1"])


def test_a_rehearsal_removes_nothing_and_a_removal_nothing_else() -> None:
    server = Server(node("n1", {"rdma/a": "0", "cpu": "64"}), node("n2", {"cpu": "64"}))
    stale = Stale(server, ["rdma/a"], [])
    stale.rehearse()
    assert server.items[N1]["status"]["capacity"] == {"rdma/a": "0", "cpu": "64"}
    assert server.asked == ["try remove rdma/a from node n1"]
    stale.perform()
    assert server.written == ["remove rdma/a from node n1"]
    assert server.items[N1]["status"] == {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "64"}}
    assert stale.returned() == {}
    again = Stale(server, ["rdma/a"], [])
    assert (again.removable, again.blocked, again.listed()) == ({}, {}, {})


def test_a_node_that_has_reported_meanwhile_is_looked_at_again() -> None:
    server = Server(node("n1", {"rdma/a": "0"}))
    stale = Stale(server, ["rdma/a"], [])
    server.before_change = lambda: server.report(N1, conditions=[{"type": "Ready"}])
    stale.perform()
    assert "rdma/a" not in server.items[N1]["status"]["capacity"]


def test_a_plugin_that_comes_meanwhile_keeps_its_resource() -> None:
    server = Server(node("n1", {"rdma/a": "0"}))
    stale = Stale(server, ["rdma/a"], [])
    back = {"rdma/a": "63"}
    server.before_change = lambda: server.report(N1, capacity=back, allocatable=back)
    stale.perform()
    assert server.written == []
    assert server.items[N1]["status"]["capacity"] == back
    assert stale.removable == {}
    assert stale.blocked == {"n1": {"rdma/a": "a device plugin advertises 63 of it"}}


def test_a_node_that_never_stops_reporting_is_given_up() -> None:
    server = Server(node("n1", {"rdma/a": "0"}))
    stale = Stale(server, ["rdma/a"], [])

    def report() -> None:
        server.report(N1)
        server.before_change = report

    server.before_change = report
    with pytest.raises(KubeError, match=r"cannot remove rdma/a from node n1: it is another by now"):
        stale.perform()
    assert server.written == []


@pytest.mark.parametrize("code", [404, 409])
def test_a_node_that_has_left_the_cluster_has_no_resources(code: int) -> None:
    """An autoscaler takes one while a removal goes from node to node; the API server says that it is not there, or is another."""
    server = Server(*(node(name, {"rdma/a": "0"}) for name in ("n1", "n2")))
    stale = Stale(server, ["rdma/a"], [])
    del server.items[N1]
    server.refusals[f"{N1}/status"] = KubeError("not there", code)
    before = stale.listed()
    stale.perform()
    assert server.written == ["remove rdma/a from node n2"]
    assert (stale.left(before), stale.returned()) == ({}, {})


def test_a_refusal_that_no_second_look_mends_is_told_at_once() -> None:
    server = Server(node("n1", {"rdma/a": "0"}))
    stale = Stale(server, ["rdma/a"], [])
    server.refusals[f"{N1}/status"] = KubeError("nodes/status is forbidden", 403)
    with pytest.raises(KubeError, match="forbidden"):
        stale.rehearse()
    assert server.refused == ["remove rdma/a from node n1"]


def test_what_a_kubelet_puts_back_is_named() -> None:
    server = Server(node("n1", {"rdma/a": "0", "rdma/b": "0"}), node("n2", {"rdma/a": "0"}))
    stale = Stale(server, ["rdma/a", "rdma/b"], [])
    stale.perform()
    assert stale.returned() == {}
    server.report(N1, capacity={"rdma/b": "0"})
    # a node that is gone has none
    del server.items["/api/v1/nodes/n2"]
    assert stale.returned() == {"n1": ["rdma/b"]}


RESOURCES = ("rdma/a", "rdma/b", "rdma/c")
COUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(["0", "1", "63"]))


@given(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.tuples(COUNTS, COUNTS), min_size=1))
def test_each_resource_that_is_listed_goes_or_stays_with_a_reason(nodes: dict[str, tuple[Json, Json]]) -> None:
    server = Server(*(node(name, capacity, allocatable) for name, (capacity, allocatable) in nodes.items()))
    stale = Stale(server, RESOURCES[:2], [])
    listed, left = stale.listed(), stale.left(stale.listed())
    for name, (capacity, allocatable) in nodes.items():
        there = {*capacity, *allocatable} & set(RESOURCES[:2])
        goes, stays = set(stale.removable.get(name, [])), set(stale.blocked.get(name, {}))
        assert goes | stays == there == set(listed.get(name, {}))
        assert not goes & stays
        assert set(left.get(name, {})) == stays
    stale.perform()
    assert Stale(server, RESOURCES[:2], []).listed() == left

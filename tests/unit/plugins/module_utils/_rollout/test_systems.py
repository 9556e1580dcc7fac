# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes that a system has set, and what is remembered of them. tests/cluster/test_systems.py asks a real API server for all else."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError, NotServed
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    DRA_LABEL,
    GROUP_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.records import grouped_lines, label_lines
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.standing import Scope, standing, strays_of_systems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]
LEAF = "topology.kubernetes.io/leaf"
RECORD = "/api/v1/namespaces/kube-system/configmaps/fabric-rdma-"


class Labelled(Server):
    """With nodes, whose labels are merged."""

    def merge(self, path: str, doing: str, body: Json, dry_run: bool, seen: Json | None = None) -> Json:
        del seen
        self.asked.append(f"{'try ' if dry_run else ''}{doing}")
        item = self.items[path]
        labels = {**item["metadata"].get("labels", {}), **body["metadata"]["labels"]}
        after = {**item["metadata"], "labels": {key: value for key, value in labels.items() if value is not None}}
        if not dry_run:
            self.items[path] = {**item, "metadata": after}
        return {**item, "metadata": after}

    def labels(self, node: str) -> Json:
        return dict(self.items["/api/v1/nodes/" + node]["metadata"].get("labels", {}))

    def objections(self, *hosts: str, groups: t.Sequence[str] = ("one", "two")) -> str:
        """What keeps an inventory of these hosts from a rollout."""
        return strays_of_systems(standing(self, "default"), Scope(hosts, groups, ()))


@pytest.fixture
def cluster() -> Labelled:
    return Labelled(
        {"kind": "Namespace", "metadata": {"name": "kube-system"}},
        *({"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2", "n3")),
    )


def dranet(group: str) -> Json:
    labels = {GROUP_LABEL: group, "app.kubernetes.io/instance": group + "-class"}
    metadata = {"name": "dranet-" + group, "namespace": "kube-system", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {}}


POOLS = "nv-ipam.nvidia.com/v1alpha1"


def pool(name: str, size: int, subnet: str = "192.0.2.0/24") -> Json:
    spec = {"subnet": subnet, "perNodeBlockSize": size}
    return {"apiVersion": POOLS, "kind": "IPPool", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def with_pool(cluster: Labelled, given: t.Any) -> None:
    """A pool of blocks of four addresses, of which nv-ipam has given some to nodes."""
    cluster.served["/apis/" + POOLS] = {"IPPool": "ippools"}  # type: ignore[index]
    roll_out(cluster, "secondary_network", pool("fabric", 4))
    cluster.report(f"/apis/{POOLS}/namespaces/kube-system/ippools/fabric", allocations=given)
    cluster.asked.clear()


GIVEN = [
    {"nodeName": "n1", "startIP": "192.0.2.1", "endIP": "192.0.2.4"},
    {"nodeName": "n2", "startIP": "192.0.2.5", "endIP": "192.0.2.8"},
]


def roll_out(cluster: Labelled, system: str, *objects: Json, **options: t.Any) -> SystemRollout:
    rollout = SystemRollout(cluster, system, "kube-system")
    rollout.look(objects, **options)
    rollout.rehearse()
    rollout.perform()
    return rollout


def test_a_group_that_leaves_takes_the_labels_of_its_classes_along(cluster: Labelled) -> None:
    """Before their objects, which tell of which group a class is. Later inventories need not know its nodes."""
    labels = {"n1": {DRA_LABEL: "one-class"}, "n2": {DRA_LABEL: "two-class"}}
    roll_out(cluster, "dra", dranet("one"), dranet("two"), labels=labels)
    cluster.asked.clear()
    rollout = roll_out(cluster, "dra", only=["one"])
    assert cluster.written == [
        "label node n1",
        "delete DaemonSet kube-system/dranet-one",
        "apply ConfigMap kube-system/fabric-rdma-dra",
    ]
    assert rollout.labels == {"n1": {DRA_LABEL: None}}
    assert (cluster.labels("n1"), cluster.labels("n2")) == ({}, {DRA_LABEL: "two-class"})
    assert cluster.objections("n2", groups=["two"]) == ""
    assert "node n2" in cluster.objections(groups=["two"])
    assert roll_out(cluster, "dra", only=["one"]).changed is False
    roll_out(cluster, "dra")
    assert RECORD + "dra" not in cluster.items


def test_a_group_that_leaves_takes_labels_of_its_nodes_along(cluster: Labelled) -> None:
    """Of leaves or disks, whose values say nothing of groups. What somebody has changed since stays, and is theirs."""
    roll_out(cluster, "topology", labels={name: {LEAF: "leaf-1"} for name in ("n1", "n2", "n3")})
    cluster.items["/api/v1/nodes/n2"]["metadata"]["labels"] = {LEAF: "by-hand"}
    rollout = roll_out(cluster, "topology", only=["one"], known=["n1", "n2"])
    assert rollout.labels == {"n1": {LEAF: None}}
    assert [cluster.labels(name) for name in ("n1", "n2", "n3")] == [{}, {LEAF: "by-hand"}, {LEAF: "leaf-1"}]
    assert cluster.objections("n3") == ""
    assert RECORD + "topology" in cluster.items


def test_a_group_without_labels_leaves_what_is_remembered_alone(cluster: Labelled) -> None:
    roll_out(cluster, "dra", dranet("one"), dranet("two"))
    cluster.asked.clear()
    assert roll_out(cluster, "dra", only=["one"], known=["n1"]).actions() == {
        "DaemonSet kube-system/dranet-one": "removed"
    }
    assert cluster.written == ["delete DaemonSet kube-system/dranet-one"]


def test_the_labels_of_a_large_cluster_fit_into_a_record_also_while_all_of_them_change(cluster: Labelled) -> None:
    """The API server takes a ConfigMap of 1 MiB. Until nodes are labelled, both values of each are remembered."""
    nodes = [f"gpu-{number:05d}.cluster1.dc2.example.com" for number in range(10_000)]
    lines = [f"{node} {LEAF} {way}-leaf-{index % 300}" for way in ("old", "new") for index, node in enumerate(nodes)]
    text = json.dumps(grouped_lines(lines), separators=(",", ":"))
    assert len(text) < 1024 * 1024
    assert label_lines(json.loads(text)) == sorted(lines, key=lambda line: line.split(" ")[1:] + line.split(" ")[:1])
    # and that is how it is written
    roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}, "n2": {LEAF: "a"}})
    data = cluster.items[RECORD + "topology"]["data"]
    assert data["labels"] == json.dumps({LEAF: {"a": ["n1", "n2"]}}, separators=(",", ":"))


def test_labels_that_an_earlier_version_has_remembered_are_known(cluster: Labelled) -> None:
    roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}, "n2": {LEAF: "a"}})
    cluster.items[RECORD + "topology"]["data"]["labels"] = json.dumps([f"n1 {LEAF} a", f"n2 {LEAF} a"])
    assert "2 that this inventory does not know: node n1, node n2" in cluster.objections()
    rollout = roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}})
    assert rollout.labels == {"n2": {LEAF: None}}
    assert cluster.objections("n1") == ""


@pytest.mark.parametrize("text", ["{", '{"k": []}', '{"k": {"v": "n1"}}', '{"k": {"v": [1]}}', '"n1 k v"', "[1]"])
def test_labels_that_somebody_has_spoilt_are_an_error(cluster: Labelled, text: str) -> None:
    roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}})
    cluster.items[RECORD + "topology"]["data"]["labels"] = text
    with pytest.raises(KubeError, match="is not what a rollout wrote"):
        roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}})
    assert cluster.objections() == ""


def test_a_difference_shows_labels_with_their_nodes(cluster: Labelled) -> None:
    roll_out(cluster, "topology", labels={"n1": {LEAF: "a"}})
    rollout = SystemRollout(cluster, "topology", "kube-system")
    rollout.look([], labels={"n1": {LEAF: "b"}})
    rollout.rehearse()
    shown = next(each for each in rollout.diff() if "ConfigMap" in each["before_header"])
    assert [shown[side]["data"]["labels"] for side in ("before", "after")] == [[f"n1 {LEAF} a"], [f"n1 {LEAF} b"]]


@pytest.mark.parametrize(
    ("name", "size", "subnet", "said"),
    [
        (
            "fabric",
            8,
            "192.0.2.0/24",
            "blocks of 4 addresses that it has given to nodes n1, n2, .* set ipam.block_size .* to 4",
        ),
        # of the block of n1, no Pod of another node gets anything
        ("fabric", 4, "192.0.2.8/29", "has given to node n2, since they do not fit 192.0.2.8/29"),
        ("fabric-v4", 4, "192.0.2.0/24", "IPPool kube-system/fabric-v4 takes the place of IPPool kube-system/fabric,"),
    ],
)
def test_no_pool_gives_out_addresses_that_pods_of_other_nodes_may_have(
    cluster: Labelled, name: str, size: int, subnet: str, said: str
) -> None:
    with_pool(cluster, GIVEN)
    with pytest.raises(KubeError, match=f"Nothing was changed. .*{said}"):
        roll_out(cluster, "secondary_network", pool(name, size, subnet))
    assert cluster.written == []


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (pool("fabric", 4), GIVEN),
        # what was given is still where blocks are
        (pool("fabric", 4, "192.0.2.0/23"), GIVEN),
        # nobody has an address of it
        (pool("fabric", 8, "198.51.100.0/24"), GIVEN),
        (pool("other", 8, "198.51.100.0/24"), GIVEN),
        (pool("fabric", 8), []),
        (pool("fabric", 8), None),
        (pool("fabric", 8), [{"nodeName": "n1", "startIP": "x"}, "n2", {"startIP": 7, "endIP": None}]),
    ],
)
def test_a_pool_changes_where_nobody_loses_a_block(cluster: Labelled, wanted: Json, given: t.Any) -> None:
    with_pool(cluster, given)
    roll_out(cluster, "secondary_network", wanted)
    path = f"/apis/{POOLS}/namespaces/kube-system/ippools/{wanted['metadata']['name']}"
    assert cluster.items[path]["spec"] == wanted["spec"]


def test_pools_go_with_their_network(cluster: Labelled) -> None:
    with_pool(cluster, GIVEN)
    roll_out(cluster, "secondary_network")
    assert not [path for path in cluster.items if "ippools" in path]


def test_a_group_that_is_listed_before_it_is_served_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment after its definition, the API server answers for it with a page: nothing before it is to blame."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    server = Server({"kind": "Namespace", "metadata": {"name": "rdma"}})
    rollout = SystemRollout(server, "test", "rdma")
    rollout._defined_here = {("test.example/v1", "Widget")}
    refusals = [NotServed("cannot look up test.example/v1")] * 2
    asked: list[str] = []

    def kinds(version: str) -> Json:
        asked.append(version)
        if refusals:
            raise refusals.pop()
        return {"Widget": ("widgets", True)}

    monkeypatch.setattr(server, "kinds", kinds)

    def step() -> str:
        return next(iter(server.kinds("test.example/v1")))

    rollout._once_served(step)
    assert (refusals, len(asked)) == ([], 3)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems have in a cluster, and an inventory that lacks some of it. tests/cluster/test_systems.py asks a real API server."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    DRA_LABEL,
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.standing import Scope, standing, strays_of_systems

Json = dict[str, t.Any]

NODES = {"v1": "ib-v100", "a1": "ib-a100", "a2": "ib-a100-2"}


def owned(name: str, system: str, manager: str = FIELD_MANAGER, **labels: str) -> Json:
    marks = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: "default", SYSTEM_LABEL: system}
    applied = [{"manager": manager, "operation": "Apply"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {**marks, **labels},
            "managedFields": applied,
        }
    }


class Cluster:
    """DRANET serves three classes of two groups."""

    def __init__(self) -> None:
        record = owned("fabric-rdma-dra", "dra")
        record["data"] = {
            "kinds": json.dumps(["apps/v1 DaemonSet", "resource.k8s.io/v1 DeviceClass"]),
            "labels": json.dumps([f"{node} {DRA_LABEL} {name}" for node, name in NODES.items()]),
        }
        self.records = [record]
        self.nodes = {node: {DRA_LABEL: name} for node, name in NODES.items()}
        groups = {"ib-v100": "ib-v100", "ib-a100": "ib-a100", "ib-a100-2": "ib-a100"}
        self.daemon_sets = [
            owned(f"dranet-{name}", "dra", **{GROUP_LABEL: group, "app.kubernetes.io/instance": name})
            for name, group in groups.items()
        ]

    def kinds(self, version: str) -> Json:
        # the definitions of the other kind are not there
        return {"DaemonSet": ("daemonsets", True)} if version == "apps/v1" else {}

    def list(self, path: str, _doing: str, metadata_only: bool = False, **_query: str) -> list[Json]:
        if path == "/api/v1/nodes":
            assert metadata_only
            return [{"metadata": {"name": node, "labels": labels}} for node, labels in self.nodes.items()]
        return {
            "/api/v1/namespaces/kube-system/configmaps": self.records,
            "/apis/apps/v1/daemonsets": self.daemon_sets,
        }[path]


def refusal(
    cluster: Cluster, hosts: t.Collection[str] = (*NODES,), groups: t.Any = ("ib-v100", "ib-a100"), remove: t.Any = ()
) -> str:
    return strays_of_systems(standing(t.cast("t.Any", cluster), "default"), Scope(hosts, groups, remove))


def test_a_complete_inventory_is_not_refused() -> None:
    assert refusal(Cluster()) == ""


def test_a_group_that_the_inventory_lacks_is_told() -> None:
    told = refusal(Cluster(), ["v1"], ["ib-v100"])
    assert told.startswith(
        "system dra has 4 that this inventory does not know: DaemonSet kube-system/dranet-ib-a100 (group ib-a100), "
        "DaemonSet kube-system/dranet-ib-a100-2 (group ib-a100), node a1, node a2. They would lose it."
    )
    assert "rdma_rollout.remove" in told


def test_a_host_that_the_inventory_lacks_is_told() -> None:
    assert "has 1 that this inventory does not know: node a2." in refusal(Cluster(), ["v1", "a1"])


@pytest.mark.parametrize("remove", [["ib-a100"], ["ib-a100", "a1"]])
def test_who_takes_a_group_out_says_so(remove: list[str]) -> None:
    assert refusal(Cluster(), ["v1"], ["ib-v100"], remove) == ""


def test_who_takes_a_host_out_says_so() -> None:
    assert refusal(Cluster(), ["v1", "a1"], remove=["a2"]) == ""


def test_nodes_of_a_group_are_those_of_its_classes() -> None:
    assert standing(t.cast("t.Any", Cluster()), "default")[0].nodes_of(["ib-a100"]) == ["a1", "a2"]


def test_a_node_that_is_gone_or_has_another_label_is_nobodys() -> None:
    cluster = Cluster()
    del cluster.nodes["a1"]
    cluster.nodes["a2"] = {DRA_LABEL: "somebody-elses"}
    assert refusal(cluster, ["v1"]) == ""


def test_an_object_that_others_have_made_is_theirs() -> None:
    cluster = Cluster()
    for item in cluster.daemon_sets[1:]:
        item["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply"}]
    assert refusal(cluster, NODES, ["ib-v100"]) == ""


@pytest.mark.parametrize(("manager", "data"), [("kubectl", None), (FIELD_MANAGER, {"kinds": "{", "labels": "[1, []]"})])
def test_of_a_record_that_others_have_made_or_spoilt_nothing_counts(manager: str, data: Json | None) -> None:
    cluster = Cluster()
    before = cluster.records[0]["data"]
    cluster.records = [{**owned("fabric-rdma-dra", "dra", manager), "data": data or before}]
    assert refusal(cluster, [], []) == ""


def test_one_system_is_asked_for() -> None:
    cluster = t.cast("t.Any", Cluster())
    assert [each.system for each in standing(cluster, "default", "dra")] == ["dra"]
    assert standing(cluster, "default", "secondary_network") == []

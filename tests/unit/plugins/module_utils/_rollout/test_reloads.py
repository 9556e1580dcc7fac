# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the Network Operator's driver leaves a node, that of the node is reloaded: not under anybody's feet."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    GROUP_LABEL,
    GROUPS_ANNOTATION,
    INVENTORY_LABEL,
    MANAGED_BY,
    POLICY_VERSION,
    RDMA_SECTION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import NIC_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.reloads import offered
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]
DRIVER = {"ofedDriver": {"image": "doca-driver"}}
PLUGIN = {
    RDMA_SECTION: {"config": json.dumps({"configList": [{"resourceName": "hca", "resourcePrefix": "example.com"}]})}
}
NODES = ("n1", "n2", "n3")


def managed(item: Json, *managers: str) -> Json:
    """With the managers of its whole specification."""
    fields = {"f:spec": {f"f:{key}": {} for key in item["spec"]}}
    entries = [{"manager": name, "operation": "Apply", "fieldsV1": fields} for name in managers]
    return {**item, "metadata": {**item["metadata"], "managedFields": entries, "uid": "u", "resourceVersion": "1"}}


def cluster_policy(**spec: t.Any) -> Json:
    notes = {GROUPS_ANNOTATION: "c1=g,c2=g", INVENTORY_LABEL: "default"}
    metadata = {"name": "nic-cluster-policy", "annotations": notes}
    return {"apiVersion": POLICY_VERSION, "kind": "NicClusterPolicy", "metadata": metadata, "spec": {**PLUGIN, **spec}}


def node_policy(name: str, **spec: t.Any) -> Json:
    labels = {
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/instance": name,
        GROUP_LABEL: "g",
        INVENTORY_LABEL: "default",
    }
    metadata = {"name": name, "labels": labels}
    body = {"nodeSelector": {CLASS_LABEL: name}, **PLUGIN, **spec}
    return {"apiVersion": POLICY_VERSION, "kind": "NicNodePolicy", "metadata": metadata, "spec": body}


def cluster(*policies: Json, managers: t.Sequence[str] = (FIELD_MANAGER,), drained: t.Collection[str] = ()) -> Server:
    """n1 and n2 are in class c1, n3 in c2; on n2 runs a Pod."""
    server = Server()
    server.served[f"/apis/{POLICY_VERSION}"] = {
        "NicClusterPolicy": "nicclusterpolicies",
        "NicNodePolicy": "nicnodepolicies",
    }
    for name, value in zip(NODES, ("c1", "c1", "c2"), strict=True):
        labels = {CLASS_LABEL: value, NIC_LABEL: "true"}
        spec = {"unschedulable": name in drained}
        server.put({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec})
    limits = {"containers": [{"resources": {"limits": {"example.com/hca": "1"}}}]}
    pod = {"kind": "Pod", "metadata": {"name": "train", "namespace": "ml"}, "spec": {"nodeName": "n2", **limits}}
    server.put(pod)
    for item in policies:
        server.items[server.path(item)] = managed(item, *managers)
    return server


def refusal(
    server: Server,
    *objects: Json,
    nodes: t.Mapping[str, str] | None = None,
    keep: t.Collection[str] = (),
    told: t.Mapping[str, t.Sequence[str]] | None = None,
    undrained: bool = False,
) -> str:
    """What a rollout says, "" where it may."""
    rollout = Rollout(server, place="nvidia-network-operator")
    rollout.look(objects, nodes or {}, keep)
    try:
        rollout.insist_on_drivers(dict.fromkeys(NODES, ()) if told is None else told, undrained)
    except KubeError as exc:
        assert server.written == []
        return str(exc)
    return ""


C1 = {"n1": "c1", "n2": "c1", "n3": "c2"}


@pytest.mark.parametrize(
    ("before", "after", "nodes", "left"),
    [
        ([cluster_policy(**DRIVER)], [], {}, "n1, n2, n3"),
        # the wish is taken out
        ([cluster_policy(**DRIVER)], [cluster_policy()], C1, "n1, n2, n3"),
        ([node_policy("c1", **DRIVER), node_policy("c2")], [node_policy("c1"), node_policy("c2")], C1, "n1, n2"),
        # from one policy to many, which have it, too
        ([cluster_policy(**DRIVER)], [node_policy("c1", **DRIVER), node_policy("c2", **DRIVER)], C1, "n1, n2, n3"),
        ([node_policy("c1", **DRIVER), node_policy("c2")], [cluster_policy(**DRIVER)], C1, "n1, n2"),
        # a class, or a node, leaves
        ([node_policy("c1", **DRIVER), node_policy("c2", **DRIVER)], [node_policy("c1", **DRIVER)], {"n1": "c1", "n2": "c1"}, "n3"),
        ([node_policy("c1", **DRIVER), node_policy("c2")], [node_policy("c1", **DRIVER), node_policy("c2")], {**C1, "n2": "c2"}, "n2"),
        # nothing leaves
        ([cluster_policy(**DRIVER)], [cluster_policy(**DRIVER)], C1, ""),
        ([cluster_policy()], [], {}, ""),
        ([node_policy("c1", **DRIVER), node_policy("c2")], [node_policy("c1", **DRIVER)], {"n1": "c1", "n2": "c1"}, ""),
    ],
)  # fmt: skip
def test_nodes_that_the_driver_would_leave_are_named(
    before: list[Json], after: list[Json], nodes: dict[str, str], left: str
) -> None:
    said = refusal(cluster(*before), *after, nodes=nodes)
    if not left:
        assert said == ""
        return
    assert said.startswith(
        f"No policy and no label was changed. The Network Operator's driver would leave {left}, and that reloads"
    )
    assert f"removal: {left} not cordoned" in said


def test_a_node_policy_of_a_group_that_stays_as_it_is_keeps_its_driver() -> None:
    assert refusal(cluster(node_policy("c1", **DRIVER)), keep=["g"]) == ""


def test_what_others_have_applied_too_stays() -> None:
    policy = cluster_policy(**DRIVER)
    assert refusal(cluster(policy, managers=(FIELD_MANAGER, "helm"))) == ""
    assert refusal(cluster(policy, managers=("helm",))) == ""


def test_a_node_has_to_be_drained_unless_somebody_says_otherwise() -> None:
    policy = cluster_policy(**DRIVER)
    said = refusal(cluster(policy, drained=("n1", "n2")))
    assert "removal: n3 not cordoned" in said
    assert "node n2 is cordoned, and Pods still use RDMA there: Pod ml/train" in said
    assert "node n1" not in said
    quiet = cluster(policy, drained=NODES)
    quiet.items.pop("/api/v1/namespaces/ml/pods/train")
    assert refusal(quiet) == ""
    assert refusal(cluster(policy), undrained=True) == ""


def test_routes_and_mounts_count_as_where_the_driver_comes() -> None:
    policy = cluster_policy(**DRIVER)
    told = {"n1": ["default_route: the default route of host n1 (eno1) goes over the driver (...)"], "n2": []}
    said = refusal(cluster(policy, drained=NODES), told=told)
    assert "default_route: the default route of host n1" in said
    assert "nothing is known of the routes and mounts of n3 (run discover" in said
    # a word for one reason is none for another
    assert "default_route: " in refusal(cluster(policy), told=told, undrained=True)


def test_where_it_leaves_nevertheless_that_is_said() -> None:
    rollout = Rollout(cluster(cluster_policy(**DRIVER)))
    rollout.look([], {}, [])
    rollout.insist_on_drivers({}, undrained=True)
    assert rollout.warnings[-1].startswith("the Network Operator's driver leaves n1, n2, n3, and that of the node is")


def test_a_configuration_of_others_tells_nothing() -> None:
    assert offered([{"spec": {RDMA_SECTION: {"config": text}}} for text in ("[", "[]", "{}", "null")]) == set()
    assert offered([{"spec": PLUGIN}]) == {"example.com/hca"}

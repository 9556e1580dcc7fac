# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import class_state, comparable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import (
    PolicyConflict,
    cluster_classes,
    goes_first,
    in_its_way,
    node_labels_missing,
    old_pods,
    owned,
    policy_state,
    retreat,
    side_effects,
    webhook_will_agree,
)

RDMA = "rdmaSharedDevicePlugin"
MINE = "fabric.rdma"
NODE_POLICY = {"kind": "NicNodePolicy", "metadata": {"name": "a"}, "spec": {"nodeSelector": {}, RDMA: {}}}
DAEMON_SET = {"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {}}


def cluster_policy(owners: dict[str, list[str]], groups: str = "a-x=a", **spec: Any) -> dict[str, Any]:
    """A NicClusterPolicy. owners: managers by the fields of spec that they have applied."""
    managers: dict[str, dict[str, Any]] = {}
    for field, names in owners.items():
        for name in names:
            managers.setdefault(name, {})["f:" + field] = {}
    fields = [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": found}} for name, found in managers.items()
    ]
    status = {"manager": "operator", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
    return {
        "kind": "NicClusterPolicy",
        "apiVersion": "mellanox.com/v1alpha1",
        "metadata": {
            "name": "nic-cluster-policy",
            "annotations": {"rdma.fabric/groups": groups},
            "managedFields": [*fields, status],
        },
        "spec": {field: {} for field in owners} | spec,
    }


# --- who is in whose way --------------------------------------------------------------------------------------------


def test_ours_alone_goes_as_a_whole() -> None:
    item = cluster_policy({RDMA: [MINE], "nodeAffinity": [MINE]})
    for desired in ([NODE_POLICY], [DAEMON_SET], []):
        (found,) = retreat(item, desired, [], False)
        assert (found.how, found.item) == ("whole", item)
    assert retreat(item, [{**item}], [], False) == [], "it is wanted"
    assert retreat(None, [NODE_POLICY], [], False) == []


def test_of_one_with_others_only_our_fields_go() -> None:
    item = cluster_policy({RDMA: [MINE], "secondaryNetwork": ["helm"]})
    (found,) = retreat(item, [NODE_POLICY], [], False)
    assert found.how == "fields"


def test_one_of_others_is_left_alone_unless_it_is_in_the_way() -> None:
    item = cluster_policy({"secondaryNetwork": ["helm"]})
    assert retreat(item, [NODE_POLICY], [], False) == []
    item = cluster_policy({RDMA: ["kubectl"]})
    assert retreat(item, [DAEMON_SET], [], False) == []
    with pytest.raises(PolicyConflict, match=r"has rdmaSharedDevicePlugin \(set by kubectl\)"):
        retreat(item, [NODE_POLICY], [], False)
    (found,) = retreat(item, [NODE_POLICY], [], True)
    assert (found.how, found.sections) == ("sections", (RDMA,))


def test_a_section_of_two_managers_is_left_alone_unless_forced() -> None:
    item = cluster_policy({RDMA: [MINE, "kubectl"]})
    with pytest.raises(PolicyConflict, match="set by kubectl"):
        retreat(item, [NODE_POLICY], [], False)
    assert [each.how for each in retreat(item, [NODE_POLICY], [], True)] == ["fields", "sections"]


def test_what_another_inventory_has_rolled_out_is_left_alone_unless_it_is_in_the_way() -> None:
    item = cluster_policy({RDMA: [MINE], "nodeAffinity": [MINE]})
    assert retreat(item, [DAEMON_SET], [], False, ours=False) == []
    with pytest.raises(PolicyConflict, match=r"has rdmaSharedDevicePlugin \(set by fabric.rdma\)"):
        retreat(item, [NODE_POLICY], [], False, ours=False)


def test_a_group_that_stays_keeps_the_policy_that_serves_it() -> None:
    item = cluster_policy({RDMA: [MINE]}, groups="a-x=a,b-x=b,b-y=b")
    with pytest.raises(PolicyConflict, match="serves b, too, which this run leaves as they are"):
        retreat(item, [NODE_POLICY], ["b", "c"], False)
    assert retreat(item, [], ["b"], False) == [], "nothing comes in its place"


def test_a_node_policy_that_stays_is_in_the_way_of_a_cluster_policy() -> None:
    desired = [cluster_policy({RDMA: [MINE]})]
    with pytest.raises(PolicyConflict, match="NicNodePolicy a has rdmaSharedDevicePlugin"):
        in_its_way(desired, [NODE_POLICY], [])
    in_its_way(desired, [NODE_POLICY], [NODE_POLICY])
    in_its_way(desired, [{**NODE_POLICY, "spec": {"ofedDriver": {}}}], [])
    in_its_way([NODE_POLICY], [NODE_POLICY], [])


@pytest.mark.parametrize(
    ("gone", "desired", "first"),
    [
        ("NicNodePolicy", "NicClusterPolicy", True),
        ("DaemonSet", "NicNodePolicy", True),
        ("ConfigMap", "NicNodePolicy", True),
        ("NicNodePolicy", "DaemonSet", True),
        ("NicNodePolicy", "NicNodePolicy", False),
        ("DaemonSet", "DaemonSet", False),
        ("ConfigMap", "DaemonSet", False),
        ("DaemonSet", "Namespace", False),
    ],
)
def test_a_policy_goes_before_the_one_that_replaces_it(gone: str, desired: str, first: bool) -> None:
    assert goes_first({"kind": gone}, [{"kind": desired}]) is first


def test_what_the_webhook_says_of_a_section_that_is_about_to_go() -> None:
    text = (
        'cannot apply: NicClusterPolicy already defines rdmaSharedDevicePlugin; NicNodePolicy "a" cannot also define it'
    )
    assert webhook_will_agree(text, ["a step"])
    assert not webhook_will_agree(text, [])
    assert not webhook_will_agree("cannot apply: invalid", ["a step"])


def test_what_would_move_pods_of_others() -> None:
    desired = cluster_policy({}, **{RDMA: {}, "nodeAffinity": {"x": 1}, "tolerations": [{}]})
    text = side_effects(cluster_policy({"secondaryNetwork": ["helm"]}), desired)
    assert text is not None
    assert "has secondaryNetwork of others, whose Pods nodeAffinity and tolerations would move" in text
    assert side_effects(None, desired) is None
    assert side_effects(cluster_policy({RDMA: ["helm"]}), desired) is None, "nothing but what we are to have"
    ours = cluster_policy({"secondaryNetwork": ["helm"], "nodeAffinity": [MINE], "tolerations": [MINE]})
    assert side_effects(ours, desired) is None, "ours already"
    same = cluster_policy({"nvIpam": ["helm"], "tolerations": ["helm"]}, nodeAffinity={"x": 1}, tolerations=[{}])
    assert side_effects(same, desired) is None
    assert side_effects(cluster_policy({"ofedDriver": [MINE]}), desired) is None, "a section of ours that goes"


def test_the_classes_that_a_cluster_policy_reaches() -> None:
    term = {"matchExpressions": [{"key": "rdma.fabric/class", "operator": "In", "values": ["a", "b"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert cluster_classes(cluster_policy({"nodeAffinity": [MINE]}, groups="", nodeAffinity=affinity)) == {"a", "b"}
    assert cluster_classes(cluster_policy({"nodeAffinity": ["kubectl"]}, nodeAffinity=affinity)) == set()
    assert cluster_classes(cluster_policy({RDMA: [MINE]}, groups="a-x=a,b-x=b")) == {"a-x", "b-x"}, (
        "without an affinity"
    )
    assert cluster_classes(cluster_policy({RDMA: [MINE]}, groups="")) == set()
    assert cluster_classes(None) == set()


def test_a_diff_shows_what_is_in_the_configuration() -> None:
    shown = comparable({"kind": "NicNodePolicy", "metadata": {"name": "a"}, "spec": {RDMA: {"config": '{"x": 1}'}}})
    assert shown is not None
    assert shown["spec"][RDMA]["config"] == {"x": 1}


# --- readiness ------------------------------------------------------------------------------------------------------

POLICY = {
    "metadata": {"name": "a", "uid": "1", "generation": 2},
    "spec": {RDMA: {"config": '{"a": 1}'}},
    "status": {"state": "ready", "appliedStates": [{"name": "state-RDMA-device-plugin", "state": "ready"}]},
}
CONFIG_MAP = {"metadata": {"name": "rdma-devices-a"}, "data": {"config.json": '{ "a":1 }'}}


def state(config_map: Any = None, **changes: Any) -> list[str]:
    return policy_state({**POLICY, **changes}, RDMA, config_map or CONFIG_MAP, "NicNodePolicy a")


def test_a_policy_that_is_done() -> None:
    assert state() == []
    seen = {"type": "RDMASharedDevicePluginReady", "observedGeneration": 2}
    assert state(status={**POLICY["status"], "conditions": [seen]}) == []


def test_a_policy_that_is_not_ready_says_why() -> None:
    assert policy_state(None, RDMA, None, "NicNodePolicy a") == ["its NicNodePolicy a does not exist"]
    (found,) = state(status={})
    assert "the operator has not looked at NicNodePolicy a yet" in found
    row = {"name": "state-RDMA-device-plugin", "state": "notReady", "message": "waiting"}
    (found,) = state(status={"state": "notReady", "appliedStates": [row]})
    assert found == "NicNodePolicy a: state-RDMA-device-plugin is notReady: waiting"
    overlap = {**POLICY["status"], "state": "error", "reason": "node selector overlap detected"}
    assert state(status=overlap) == ["NicNodePolicy a is in state error: node selector overlap detected"]
    seen = {"type": "RDMASharedDevicePluginReady", "observedGeneration": 1}
    (found,) = state(status={**POLICY["status"], "conditions": [seen]})
    assert found == "the operator has not seen the newest version of NicNodePolicy a yet"
    (found,) = state({**CONFIG_MAP, "data": {"config.json": "{}"}})
    assert found == "the operator has not put the configuration of NicNodePolicy a into ConfigMap rdma-devices-a yet"


def test_what_the_operator_made_is_found_by_its_owner() -> None:
    def made(uid: str) -> dict[str, Any]:
        return {"metadata": {"name": uid, "ownerReferences": [{"uid": uid}]}}

    assert owned([made("2"), made("1")], POLICY) == made("1")
    assert owned([made("2"), {"metadata": {"name": "x"}}], POLICY) is None


def test_labels_that_nodes_lack_are_named() -> None:
    nic, wait = "feature.node.kubernetes.io/pci-15b3.present", "network.nvidia.com/operator.mofed.wait"

    def node(**labels: str) -> dict[str, Any]:
        return {"metadata": {"labels": {{"nic": nic, "wait": wait}[key]: value for key, value in labels.items()}}}

    nodes = {
        "good": node(nic="true", wait="false"),
        "blind": node(wait="false"),
        "waiting": node(nic="true", wait="true"),
        "unmarked": node(nic="true"),
    }
    assert node_labels_missing(nodes, ["good"]) == []
    blind, unmarked, waiting = node_labels_missing(nodes, [*nodes, "unknown"])
    assert f"no label {nic}=true on blind, unknown" in blind
    assert unmarked == f"no label {wait} on unmarked, which the operator sets"
    assert waiting == f"{wait} says on waiting that the operator's driver is not ready there"


def test_pods_older_than_their_configuration_are_named() -> None:
    def plugin(**annotations: str) -> dict[str, Any]:
        template = {"metadata": {"annotations": annotations}}
        return {"metadata": {"namespace": "op", "name": "rdma-shared-dp-ds"}, "spec": {"template": template}}

    fields = [
        {"time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:data": {}}},
        {"time": "2026-01-09T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
    ]
    config_map = {"metadata": {"managedFields": fields}}
    pods = [
        {"metadata": {"name": "old"}, "status": {"startTime": "2026-01-01T00:00:00Z"}},
        {"metadata": {"name": "new"}, "status": {"startTime": "2026-01-03T00:00:00Z"}},
        {"metadata": {"name": "unborn"}, "status": {}},
    ]
    text = old_pods(plugin(), config_map, pods)
    assert text is not None
    assert text.startswith("old started before the configuration changed")
    assert "kubectl -n op rollout restart daemonset rdma-shared-dp-ds" in text
    assert old_pods(plugin(), config_map, pods[1:]) is None
    assert old_pods(plugin(**{"nvidia.network-operator.config-hash": "x"}), config_map, pods) is None


def daemon_set(count: int) -> dict[str, Any]:
    status = dict.fromkeys(("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"), count)
    return {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, **status}}


@pytest.mark.parametrize(
    ("count", "kind", "wanted", "words"),
    [
        (2, "NicNodePolicy", 2, []),
        (3, "NicNodePolicy", 2, ["the DaemonSet wants to run on 3 nodes, the class has 2"]),
        (5, "NicClusterPolicy", 5, []),
        (4, "NicClusterPolicy", 5, ["the DaemonSet wants to run on 4 nodes, the plan has 5"]),
        (9, "NicClusterPolicy", None, []),
        (1, "NicClusterPolicy", None, ["the DaemonSet wants to run on 1 nodes, the plan has 2"]),
    ],
)
def test_a_class_is_ready_when_as_many_nodes_run_it_as_wanted(
    count: int, kind: str, wanted: int | None, words: list[str]
) -> None:
    nodes = {name: {"status": {"allocatable": {"rdma/x": "63"}}} for name in ("a", "b")}
    expected = {"nodes": list(nodes), "resources": {"rdma/x": 63}, "policy": {"kind": kind, "nodes": wanted}}
    assert class_state(daemon_set(count), nodes, expected) == words


def test_nodes_that_offer_different_counts() -> None:
    nodes = {"a": {"status": {"allocatable": {"rdma/x": "4"}}}, "b": {"status": {"allocatable": {"rdma/x": "3"}}}}
    by_node = {"a": {"rdma/x": 4}, "b": {"rdma/x": 4}}
    expected = {"nodes": ["a", "b"], "resources": {}, "node_resources": by_node}
    assert class_state(daemon_set(2), nodes, expected) == ["rdma/x: allocatable is 3, not 4 on b"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure part of a rollout. What the API server answers to it is proved by tests/cluster."""

from __future__ import annotations

import typing as t
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    FIELD_MANAGER,
    changed_by,
    class_groups,
    class_state,
    comparable,
    explain,
    label_changes,
    lost_labels,
    pod_trouble,
    quantity,
    removals,
    same,
    stale_on_node,
    stranger,
    strays_in_words,
    value_at,
)


def thing(
    name: str,
    group: str | None = "g",
    kind: str = "DaemonSet",
    manager: str = FIELD_MANAGER,
    inventory: str | None = "i",
) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY}
    labels |= {GROUP_LABEL: group} if group else {}
    labels |= {INVENTORY_LABEL: inventory} if inventory else {}
    fields = [{"manager": manager, "operation": "Apply"}]
    return {"kind": kind, "metadata": {"name": name, "namespace": "n", "labels": labels, "managedFields": fields}}


def names(items: list[dict[str, Any]]) -> list[str]:
    return [f"{item['kind']} {item['metadata']['name']}" for item in items]


def test_only_what_is_ours_and_nobody_wants_is_removed() -> None:
    existing = [
        thing("a", kind="ConfigMap"),
        thing("a"),
        thing("wanted"),
        thing("kept", group="other"),
        thing("copied", manager="kubectl"),
        thing("bare", group=None),
        thing("another's", inventory="j"),
        thing("old", inventory=None),
    ]
    gone, warnings = removals(existing, [thing("wanted")], ["other"], "i")
    assert names(gone) == ["DaemonSet a", "ConfigMap a"], "what mounts before what is mounted"
    assert [warning.split(" ")[1] for warning in warnings] == ["n/copied", "n/bare", "n/old"]
    gone, warnings = removals(existing, [thing("wanted")], ["other"], "i", adopt=True)
    assert names(gone) == ["DaemonSet a", "DaemonSet old", "ConfigMap a"], "what an earlier version has left"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (thing("a"), None),
        (thing("a", manager="kubectl"), "made by kubectl"),
        (thing("a", inventory="j"), "of inventory 'j'"),
        (thing("a", inventory=None), "rolled out by an earlier version, which named no inventory"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "made by somebody else"),
    ],
)
def test_an_object_of_somebody_else_is_told(item: dict[str, Any], words: str | None) -> None:
    assert stranger(item, "i") == words


def test_an_object_is_the_same_until_somebody_else_changes_it() -> None:
    before = thing("a") | {"spec": {"x": 1}}
    counted = {"manager": "controller", "operation": "Update", "subresource": "status"}
    after = thing("a") | {"spec": {"x": 1}, "status": {"n": 1}}
    after["metadata"] |= {"resourceVersion": "2", "managedFields": [*after["metadata"]["managedFields"], counted]}
    assert same(before, after), "a status is its controller's"
    taken = thing("a") | {"spec": {"x": 1}}
    taken["metadata"]["managedFields"].append({"manager": "kubectl", "operation": "Apply"})
    assert not same(before, taken)
    assert changed_by(before, taken) == "kubectl"
    assert not same(before, {**before, "spec": {"x": 2}})
    assert not same(before, {**before, "metadata": {**before["metadata"], "uid": "2"}})


def test_labels_of_classes_that_this_run_knows_nothing_about_stay() -> None:
    nodes = {
        "new": {},
        "same": {CLASS_LABEL: "a"},
        "moved": {CLASS_LABEL: "b"},
        "left": {CLASS_LABEL: "a"},
        "gone": {CLASS_LABEL: "c"},
        "foreign": {CLASS_LABEL: "d"},
    }
    wanted = {"new": "a", "same": "a", "moved": "a", "absent": "a"}
    changes, missing = label_changes(nodes, wanted, ["c"])
    assert changes == {"new": "a", "moved": "a", "left": None, "gone": None}
    assert missing == ["absent"]


def test_a_label_goes_only_where_somebody_says_so() -> None:
    before = {"mine": "a", "out": "a", "stray": "a", "other": "b", "theirs": "c", "moved": "b"}
    changes: dict[str, str | None] = {**dict.fromkeys(before), "moved": "a"}
    groups = class_groups([thing("x", group="h"), {"metadata": {"name": "bare"}}])
    assert groups == {}, "an object that names no class"
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, "app.kubernetes.io/instance": "b", GROUP_LABEL: "gone"}
    groups = class_groups([{"metadata": {"labels": labels}}])
    assert lost_labels(before, changes, groups, ["mine"], ["out", "gone"]) == {"stray": "a", "theirs": "c"}


def test_whoever_takes_nodes_out_is_told_what_to_write() -> None:
    """Somebody may have taken what tells the group of a class from its object: the group in rdma_rollout.remove is not enough then."""
    groups = {"a-x": "a"}
    said = strays_in_words({"n2": "a-x", "n1": "a-x"}, groups)
    assert said.endswith("or say that they may go: rdma_rollout.remove: [n1, n2] (hosts or groups).")
    said = strays_in_words({"n1": "a-x", "n2": "b-x", "n3": "b-x"}, groups)
    assert said.endswith(
        "rdma_rollout.remove: [n1, n2, n3] (hosts or groups). Name the hosts: nothing in the cluster tells to which group b-x belongs."
    )
    assert ", ...] (hosts or groups)." in strays_in_words(dict.fromkeys(map(str, range(99)), "a-x"), groups)


EXPECTED = {"nodes": ["a", "b"], "resources": {"rdma/x": 63}}


def daemon_set(generation: int = 2, **status: int) -> dict[str, Any]:
    full = {"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}
    return {"metadata": {"generation": generation}, "status": {**full, **status}}


def offering(**counts: str) -> dict[str, Any]:
    return {name: {"status": {"allocatable": {"rdma/x": count}}} for name, count in counts.items()}


@pytest.mark.parametrize(
    ("found", "nodes", "reasons"),
    [
        (daemon_set(), offering(a="63", b="63"), []),
        (None, {}, ["its DaemonSet does not exist"]),
        (
            daemon_set(generation=3),
            offering(a="63", b="63"),
            ["the DaemonSet controller has not seen the new version yet (does kube-controller-manager run?)"],
        ),
        (
            daemon_set(desiredNumberScheduled=0, updatedNumberScheduled=0, numberAvailable=0),
            offering(a="63", b="63"),
            ["the DaemonSet wants to run on 0 nodes, the class has 2"],
        ),
        (daemon_set(updatedNumberScheduled=1), offering(a="63", b="63"), ["1 of 2 Pods have the new version"]),
        (daemon_set(numberAvailable=1), offering(a="63", b="63"), ["1 of 2 Pods are ready"]),
        (daemon_set(), offering(a="63", b="0"), ["rdma/x: allocatable is 0, not 63 on b"]),
        (daemon_set(), {}, ["rdma/x: allocatable is 0, not 63 on a, b"]),
    ],
)
def test_a_class_serves_when_all_of_it_does(found: Any, nodes: Any, reasons: list[str]) -> None:
    assert class_state(found, nodes, EXPECTED) == reasons


@pytest.mark.parametrize(
    ("text", "number"),
    # the last one as an object in a directory may have it; Python reads no number of more than 4300 digits
    [("63", 63), (0, 0), (None, 0), ("1k", 1000), ("2M", 2000000), ("1.5", 0), ("9" * 5000, 0)],
)
def test_a_quantity_is_read_as_kubernetes_writes_it(text: Any, number: int) -> None:
    assert quantity(text) == number


def test_a_diff_shows_the_configuration_and_not_what_the_server_writes() -> None:
    item = {
        "kind": "ConfigMap",
        "metadata": {"name": "a", "uid": "1", "resourceVersion": "2", "managedFields": []},
        "data": {"config.json": '{"a": [1]}', "text": "not json"},
    }
    assert comparable(item) == {
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"config.json": {"a": [1]}, "text": "not json"},
    }


def test_a_pod_that_is_not_ready_says_why() -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    pod: dict[str, Any] = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n"},
        "status": {"containerStatuses": [waiting]},
    }
    assert pod_trouble(pod) == "Pod p on n: ImagePullBackOff: no such image"
    pod["status"]["containerStatuses"] = [
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "bad config"}},
        }
    ]
    assert pod_trouble(pod) == "Pod p on n: CrashLoopBackOff: last exit code 1: bad config"
    pod["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert pod_trouble(pod) is None
    pod = {
        "metadata": {"name": "p"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]},
    }
    assert pod_trouble(pod) == "Pod p is not scheduled: 0/2 nodes are available"


def node(capacity: str | None, allocatable: str | None) -> dict[str, Any]:
    return {
        "status": {
            "capacity": {"rdma/x": capacity} if capacity else {},
            "allocatable": {"rdma/x": allocatable} if allocatable else {},
        }
    }


def test_only_what_nothing_advertises_or_requests_is_stale() -> None:
    assert stale_on_node(node(None, None), [], "rdma/x") == (False, None)
    assert stale_on_node(node("0", "0"), [], "rdma/x") == (True, None)
    assert stale_on_node(node("0", None), [], "rdma/x") == (True, None)
    assert stale_on_node(node("63", "63"), [], "rdma/x") == (True, "a device plugin advertises 63 of it")
    assert "less than five minutes ago" in str(stale_on_node(node("63", "0"), [], "rdma/x")[1])
    asks = {"spec": {"containers": [{"resources": {"limits": {"rdma/x": "1"}}}]}}
    pod = {"metadata": {"name": "p", "namespace": "train"}, **asks}
    assert stale_on_node(node("0", "0"), [pod], "rdma/x") == (True, "requested by Pod train/p")
    assert stale_on_node(node("0", "0"), [{**pod, "status": {"phase": "Succeeded"}}], "rdma/x") == (True, None)


def status(message: str, *causes: dict[str, str]) -> dict[str, Any]:
    return {"kind": "Status", "message": message, "details": {"causes": list(causes)}}


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (401, status("Unauthorized"), "does not accept the credentials of the kubeconfig. They may have expired"),
        (
            403,
            status(
                'daemonsets.apps "d" is forbidden: User "u" cannot patch resource "daemonsets" in API group "apps" '
                'in the namespace "n"'
            ),
            'user u may not patch daemonsets of API group "apps" in namespace n. Give it that right',
        ),
        (
            403,
            status('nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope'),
            "user u may not list nodes. Give it",
        ),
        (
            403,
            status("x is forbidden: exceeded quota: q, requested: pods=1"),
            "exceeded quota: q, requested: pods=1. Raise",
        ),
        (403, status("admission webhook denied"), "An admission policy or webhook of the cluster refused it"),
        (
            409,
            status("conflict", {"reason": "FieldManagerConflict", "field": ".spec.x", "message": 'conflict with "k"'}),
            'other values: .spec.x (set by "k"). Let the other one give them up',
        ),
        (409, status("the object has been modified"), "run again"),
        (
            400,
            status('strict decoding error: unknown field "spec.x"'),
            "does not know a field: spec.x. It may be misspelt",
        ),
        (500, status("failed: .spec.x: field not declared in schema"), "does not know a field: spec.x. It"),
        (422, status("spec.selector: field is immutable", {"field": "spec.selector"}), "spec.selector of the object"),
        (422, status("metadata.name: must be no more than 63 characters"), "A name is too long"),
        (422, status("metadata.name: Too long: may not be more than 253 bytes"), "A name is too long"),
        (
            422,
            status("[]: Too long: may not be more than 1048576 bytes"),
            "The object has more data than the API server keeps",
        ),
        (503, "upstream", "the API server could not do it (503): upstream"),
        (418, status("tea"), "tea (418). Nothing is known"),
    ],
)
def test_every_refusal_has_a_remedy(code: int, body: Any, words: str) -> None:
    sentence = explain(code, body, "apply ConfigMap n/c")
    assert sentence.startswith("cannot apply ConfigMap n/c: ")
    assert words in sentence


KEYS = st.text(st.characters(exclude_characters="."), max_size=3)
TREES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda each: st.dictionaries(KEYS, each, max_size=3), max_leaves=8
)


@given(tree=TREES, path=st.lists(KEYS, min_size=1, max_size=4))
def test_a_value_is_found_where_it_is_and_nowhere_else(tree: t.Any, path: list[str]) -> None:
    expected = tree
    for key in path:
        expected = expected[key] if isinstance(expected, dict) and key in expected else None
    assert value_at(tree, ".".join(path)) == expected

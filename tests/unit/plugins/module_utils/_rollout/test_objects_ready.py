# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When an object is as it should be, and what is said of one that is not."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects_ready import wait_for_objects
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]


def workload(kind: str, status: Json, **spec: t.Any) -> Json:
    selector = {"matchLabels": {"app": "x"}}
    metadata = {"name": "w", "namespace": "rdma", "generation": 2}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
        "status": status,
    }


def waiting_for(kind: str, **more: t.Any) -> Json:
    return {"apiVersion": "apps/v1", "kind": kind, "name": "w", "namespace": "rdma", **more}


def missing(server: Server, *waits: Json) -> list[str]:
    return wait_for_objects(server, waits, Patience(0, 1))[0]


SEEN = {"observedGeneration": 2}
DAEMONS = {**SEEN, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}
REPLICAS = {**SEEN, "updatedReplicas": 3, "availableReplicas": 3}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (workload("DaemonSet", DAEMONS), None),
        # no node has its label: it is complete
        (workload("DaemonSet", SEEN), None),
        (
            workload("DaemonSet", {**DAEMONS, "observedGeneration": 1}),
            "its controller has not seen the new version yet",
        ),
        (workload("DaemonSet", {}), "its controller has not seen the new version yet"),
        (workload("DaemonSet", {**DAEMONS, "updatedNumberScheduled": 1}), "1 of 2 Pods have the new version"),
        (workload("DaemonSet", {**DAEMONS, "numberAvailable": 1}), "1 of 2 Pods are ready"),
        (
            workload("DaemonSet", {**SEEN, "desiredNumberScheduled": 2}),
            "0 of 2 Pods have the new version, 0 of 2 Pods are ready",
        ),
        (workload("Deployment", REPLICAS, replicas=3), None),
        (workload("Deployment", {**SEEN, "updatedReplicas": 1, "availableReplicas": 1}), None),
        (workload("Deployment", SEEN, replicas=0), None),
        (workload("Deployment", {**REPLICAS, "availableReplicas": 2}, replicas=3), "2 of 3 Pods are ready"),
        # one of the old version that is left
        (workload("Deployment", {**REPLICAS, "availableReplicas": 4}, replicas=3), "4 of 3 Pods are ready"),
        # a new one is made before the old one goes, and never gets ready
        (
            workload("Deployment", {**SEEN, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}),
            "1 of 2 Pods are of the version before",
        ),
        (workload("Deployment", {**REPLICAS, "replicas": 3}, replicas=3), None),
        (workload("StatefulSet", {**REPLICAS, "updatedReplicas": 1}, replicas=3), "1 of 3 Pods have the new version"),
    ],
)
def test_what_is_rolled_out_is_complete_and_of_the_new_version(item: Json, words: str | None) -> None:
    expected = [] if words is None else [f"{item['kind']} rdma/w: {words}"]
    assert missing(Server(item), waiting_for(item["kind"])) == expected


@pytest.mark.parametrize(("nodes", "said"), [(None, []), (0, []), (2, []), (3, ["it is for 2 of 3 nodes"])])
def test_a_daemon_set_is_for_all_nodes_that_are_meant(nodes: int | None, said: list[str]) -> None:
    server = Server(workload("DaemonSet", DAEMONS))
    assert missing(server, waiting_for("DaemonSet", nodes=nodes)) == [f"DaemonSet rdma/w: {each}" for each in said]


def test_a_daemon_set_whose_nodes_have_no_label_yet_is_not_rolled_out() -> None:
    server = Server(workload("DaemonSet", SEEN))
    assert missing(server, waiting_for("DaemonSet", nodes=2)) == ["DaemonSet rdma/w: it is for 0 of 2 nodes"]


def test_what_does_not_exist_is_missing() -> None:
    assert missing(Server(), waiting_for("DaemonSet")) == ["DaemonSet rdma/w does not exist"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("status.state", "ready", None),
        # as the module is given it
        ("status.count", "3", None),
        ("status.count", 3, None),
        ("status.state", "gone", "status.state is ready, not gone"),
        ("status.nothing.at.all", "x", "status.nothing.at.all is None, not x"),
        ("status.state.deeper", "x", "status.state.deeper is None, not x"),
    ],
)
def test_a_value_is_compared_as_it_is_written(path: str, value: t.Any, words: str | None) -> None:
    server = Server(workload("Deployment", {"state": "ready", "count": 3}))
    expected = [] if words is None else [f"Deployment rdma/w: {words}"]
    assert missing(server, waiting_for("Deployment", path=path, value=value)) == expected


POLICIES = "nvidia.com/v1"
OLD = "its controller has not seen the new version yet"


class Now(Server):
    """At a minute past the hour."""

    def now(self) -> float:
        return 60.0


def operator(*daemon_sets: Json, written: str = "1969-12-31T00:00:00Z", **status: t.Any) -> Server:
    """A cluster with a policy of an operator, and what it has made of it."""
    server = Now()
    server.served[f"/apis/{POLICIES}"] = {"ClusterPolicy": "clusterpolicies"}  # type: ignore[index, assignment]
    metadata = {"name": "cluster-policy", "generation": 8}
    policy = server.put({"apiVersion": POLICIES, "kind": "ClusterPolicy", "metadata": metadata, "status": status})
    place = server.place(policy)
    server.items[place]["metadata"]["managedFields"] = [
        {"manager": "helm", "operation": "Update", "time": written},
        {"manager": "operator", "operation": "Update", "subresource": "status", "time": "1970-01-01T00:00:59Z"},
    ]
    for item in daemon_sets:
        owners = [{"kind": "ClusterPolicy", "uid": policy["metadata"]["uid"]}]
        server.put({**item, "metadata": {**item["metadata"], "ownerReferences": owners}})
    return server


def policy_missing(server: Server) -> list[str]:
    name = {"apiVersion": POLICIES, "kind": "ClusterPolicy", "namespace": None, "name": "cluster-policy"}
    return [
        each.replace("ClusterPolicy cluster-policy: ", "")
        for each in missing(server, {**name, "path": "status.state", "value": "ready"})
    ]


def condition(kind: str, generation: int | None) -> Json:
    return {"type": kind, "status": "True", **({"observedGeneration": generation} if generation else {})}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"observedGeneration": 7}, [OLD]),
        ({"observedGeneration": 8}, []),
        # its own counts
        ({"observedGeneration": 8, "conditions": [condition("Ready", 7)]}, []),
        ({"conditions": [condition("Ready", 7)]}, [OLD]),
        ({"conditions": [condition("Ready", 8)]}, []),
        # of several, the one that says the same
        ({"conditions": [condition("Ready", 7), condition("Error", 8)]}, [OLD]),
        ({"conditions": [condition("Error", 7), condition("Upgraded", 8)]}, []),
        ({"conditions": [condition("Ready", None)]}, []),
        ({"conditions": "spoilt", "observedGeneration": "spoilt"}, []),
    ],
)
def test_a_value_of_the_version_before_does_not_count(status: Json, words: list[str]) -> None:
    assert policy_missing(operator(**status, state="ready")) == words


def test_a_value_that_is_not_of_a_status_is_of_the_object_itself() -> None:
    server = Server(workload("DaemonSet", {"observedGeneration": 1}))
    assert missing(server, waiting_for("DaemonSet", path="metadata.name", value="w")) == []


def test_a_status_that_names_no_version_is_believed_once_its_controller_has_had_time() -> None:
    """The GPU Operator's says "ready" until it has seen the change, and does not tell of which version that is."""
    said = "status.state is ready, and may be of the version before: it does not name one, and the last change was 20 s ago"
    assert policy_missing(operator(state="ready", written="1970-01-01T00:00:40Z")) == [said]
    assert policy_missing(operator(state="ready", written="1970-01-01T00:00:30Z")) == []
    # nobody tells when it was
    assert policy_missing(operator(state="ready", written="spoilt")) == []
    # one that does name a version needs no time
    assert policy_missing(operator(state="ready", observedGeneration=8, written="1970-01-01T00:00:40Z")) == []


def test_an_operator_that_has_just_started_has_not_had_time_either() -> None:
    server = operator(state="ready")
    status = {**REPLICAS, "conditions": [{"type": "Available", "lastUpdateTime": "1970-01-01T00:00:55Z"}]}
    server.put(workload("Deployment", status, replicas=3))
    waits = [
        waiting_for("Deployment"),
        {
            "apiVersion": POLICIES,
            "kind": "ClusterPolicy",
            "name": "cluster-policy",
            "path": "status.state",
            "value": "ready",
        },
    ]
    (said,) = missing(server, *waits)
    assert said.endswith("the last change was 5 s ago")


def test_what_a_silent_status_stands_for_is_rolled_out() -> None:
    good, other = workload("DaemonSet", DAEMONS), workload("DaemonSet", {**DAEMONS, "numberAvailable": 1})
    other["metadata"]["name"] = "driver"
    assert policy_missing(operator(good, state="ready")) == []
    assert policy_missing(operator(good, other, state="ready")) == ["DaemonSet rdma/driver: 1 of 2 Pods are ready"]
    # of somebody else
    server = operator(good, state="ready")
    server.put(other)
    assert policy_missing(server) == []


def test_pods_that_only_their_owner_replaces_may_be_of_the_version_before() -> None:
    """kubectl rollout status judges no such DaemonSet: when the driver is replaced is up to the GPU Operator."""
    status = {**DAEMONS, "updatedNumberScheduled": 0}
    driver = workload("DaemonSet", status, updateStrategy={"type": "OnDelete"})
    assert policy_missing(operator(driver, state="ready")) == []
    late = workload("DaemonSet", {**status, "numberAvailable": 1}, updateStrategy={"type": "OnDelete"})
    assert policy_missing(operator(late, state="ready")) == ["DaemonSet rdma/w: 1 of 2 Pods are ready"]


def test_a_kind_is_served_a_moment_after_its_definition() -> None:
    """What the cluster serves is asked for once, and again while something is not served."""
    server = Server(workload("Deployment", REPLICAS, replicas=3))
    kinds = server.served.pop("/apis/apps/v1")  # type: ignore[attr-defined]
    server.forget_kinds()
    said = "Deployment rdma/w: the cluster does not serve Deployment of apps/v1"
    assert missing(server, waiting_for("Deployment")) == [said]
    server.served["/apis/apps/v1"] = kinds  # type: ignore[index]
    assert missing(server, waiting_for("Deployment")) == []


def crashing(name: str, **labels: str) -> Json:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    metadata = {"name": name, "namespace": "rdma", "labels": labels}
    spec = {"nodeName": "n1"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"containerStatuses": [{"state": state}]}}


def test_the_first_pods_of_a_workload_say_why() -> None:
    lacking = workload("DaemonSet", {**DAEMONS, "numberAvailable": 0})
    others = [crashing("other", app="y"), {**crashing("elsewhere", app="x"), "kind": "Pod"}]
    others[1]["metadata"]["namespace"] = "default"
    server = Server(lacking, *others, *(crashing(f"w-{number}", app="x") for number in range(5)))
    found = missing(server, waiting_for("DaemonSet"))
    assert found == [
        "DaemonSet rdma/w: 0 of 2 Pods are ready",
        *(f"Pod w-{number} on n1: CrashLoopBackOff: back-off" for number in range(3)),
    ]


def test_who_may_not_list_pods_learns_what_is_missing_all_the_same() -> None:
    server = Server(workload("DaemonSet", {**DAEMONS, "numberAvailable": 0}))
    server.refusals["/api/v1/namespaces/rdma/pods"] = KubeError("cannot list Pods: forbidden", 403)
    found = missing(server, waiting_for("DaemonSet"))
    assert found == ["DaemonSet rdma/w: 0 of 2 Pods are ready", "nothing more is known: cannot list Pods: forbidden"]


def test_all_that_is_waited_for_has_to_be_right() -> None:
    server = Server(workload("DaemonSet", DAEMONS))
    found = missing(server, waiting_for("DaemonSet"), waiting_for("Deployment"), waiting_for("StatefulSet"))
    assert found == ["Deployment rdma/w does not exist", "StatefulSet rdma/w does not exist"]

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
        (workload("StatefulSet", {**REPLICAS, "updatedReplicas": 1}, replicas=3), "1 of 3 Pods have the new version"),
    ],
)
def test_what_is_rolled_out_is_complete_and_of_the_new_version(item: Json, words: str | None) -> None:
    expected = [] if words is None else [f"{item['kind']} rdma/w: {words}"]
    assert missing(Server(item), waiting_for(item["kind"])) == expected


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

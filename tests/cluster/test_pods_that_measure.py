# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that measure, as a real API server sees them: nothing in them is unknown to it, and none is left. What they do is proved by
molecule/cluster."""

from __future__ import annotations

import time
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    TRAFFIC_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import checked_job
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import PROGRAMS
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ping import peer_body, ping_body
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import (
    CONTAINER,
    checked,
    look_words,
    pod_body,
    words_of,
)
from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.cluster.test_matrix import said
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs import manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import LABELS, a_pair, a_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import Site

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/default/pods"


def test_a_pod_is_what_the_api_server_knows(site: Site) -> None:
    pair = checked(a_pair(), {})
    for side in ("client", "server"):
        words = words_of(pair["tests"], side, a_wish(), 18515)
        body = pod_body(a_wish(labels={**LABELS, TRAFFIC_LABEL: "abc"}), side, "v100-1", ["rdma/r"], words)
        query = [("dryRun", "All"), ("fieldValidation", "Strict")]
        made = site.kube.request("POST", PODS, "make", query, body=body)
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"rdma/r": "1"}


def test_pods_that_look_and_ping_are_what_the_api_server_knows(site: Site) -> None:
    """With all that can be wished for: users, a capability, a limit of memory, networks."""
    wish = a_wish(labels={**LABELS, TRAFFIC_LABEL: "abc"}, ipc_lock=True, memory=1 << 30, networks=("default/rail1",))
    bodies = [pod_body(wish, f"look-{user}", "v100-1", ["rdma/r"], look_words(PROGRAMS), user) for user in (0, 1000)]
    bodies += [
        peer_body(wish, "peer", "v100-1", ["rdma/r"]),
        ping_body(wish, "ping", "v100-1", ["rdma/r"], ["192.0.2.1"]),
    ]
    for body in bodies:
        query = [("dryRun", "All"), ("fieldValidation", "Strict")]
        made = site.kube.request("POST", PODS, "make", query, body=body)
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"rdma/r": "1", "memory": str(1 << 30)}


def test_a_limit_that_a_namespace_puts_on_pods_is_seen(site: Site) -> None:
    """As the API server's admission does it: nothing in what we asked for says so."""
    ranges = "/api/v1/namespaces/default/limitranges"
    limits = [{"type": "Container", "default": {"memory": "512Mi"}}]
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}}
    site.kube.request("POST", ranges, "make", body=body)
    try:
        asked = pod_body(a_wish(labels={**LABELS, TRAFFIC_LABEL: "abc"}), "p", "v100-1", ["rdma/r"], look_words([]))
        made = site.kube.request("POST", PODS, "make", [("dryRun", "All")], body=asked)
    finally:
        site.kube.request("DELETE", f"{ranges}/small", "delete")
    (elsewhere,) = [each for each in made["spec"]["containers"] if each["name"] == CONTAINER]
    assert "memory" not in asked["spec"]["containers"][0]["resources"]["limits"]
    assert elsewhere["resources"]["limits"]["memory"] == "512Mi"


def test_a_node_without_the_resource_is_reported_with_what_was_seen(site: Site) -> None:
    """The real scheduler says so, and the rest is looked at."""
    looks = [{"host": "nowhere", "resources": ["rdma/none"]}]
    result = said(
        site, "pod_traffic", {"rounds": [], "looks": looks, "image": "registry.example/perftest:1", "timeout": 2}
    )
    insist_on_return("pod_traffic", result)
    assert [look["as_user"] for look in result["looks"]] == [1000, 0]
    for look in result["looks"]:
        assert "is Pending, without a place for 2 s" in look["problem"]["cause"]
    assert site.kube.list("/api/v1/pods", "list", labelSelector=TRAFFIC_LABEL) == []


def test_a_job_without_an_operator_ends_in_time_and_nothing_is_left(site: Site, tmp_path: Path) -> None:
    """The definition is the MPI Operator's own, and strict; nobody runs the job. What a killed run has left goes, another inventory's stays."""
    if not definitions.FOLDER.is_dir():
        pytest.skip(f"no definitions in {definitions.FOLDER}: no MPIJob was made {definitions.ELSEWHERE}")
    for item in definitions.read("kubeflow.org_*.yaml").values():
        site.kube.apply(item, dry_run=False)
    jobs = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
    wait_until(lambda: is_served(site, jobs))
    objects = manifests(namespace="default")["nccl-infiniband"]
    for name, inventory in (("left", "default"), ("theirs", "b")):
        labels = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: inventory, TRAFFIC_LABEL: "old"}
        (body,) = checked_job(objects, labels, 5).objects
        body["metadata"]["name"] = name
        site.kube.request("POST", jobs, "make", [("fieldValidation", "Strict")], body=body)
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump_all(objects))
    result = said(site, "mpi_traffic", {"file": str(manifest), "timeout": 3})
    insist_on_return("mpi_traffic", result)
    assert result["removed"] == ["MPIJob left"]
    assert result["collective"]["verdict"] == "error"
    assert "MPIJob nccl-infiniband-gb200 has not ended within 3 s" in result["collective"]["message"]
    assert [item["metadata"]["name"] for item in site.kube.list(jobs, "list")] == ["theirs"]


def is_served(site: Site, path: str) -> bool:
    try:
        return site.kube.find(path, "look") is not None
    except KubeError as exc:
        # "storage is (re)initializing": a definition that has just come
        if exc.code != 429:
            raise
        return False


def wait_until(there: t.Callable[[], bool]) -> None:
    end = time.monotonic() + limit(30)
    while not there():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_what_cannot_measure_is_reported_and_no_pod_is_left(site: Site) -> None:
    """Nodes that are played have no kubelet whose logs could be read, or none of these names is there at all."""
    given = {"rounds": [[a_pair()]], "image": "registry.example/perftest:1", "timeout": 2}
    for more in ({}, {"namespace": "nowhere"}):
        result = said(site, "pod_traffic", {**given, **more})
        insist_on_return("pod_traffic", result)
        ((pair,),) = result["results"]
        print(pair["client"]["problem"])
        assert pair["client"]["results"][0]["problem"]["cause"]
        assert site.kube.list("/api/v1/pods", "list", labelSelector=TRAFFIC_LABEL) == []

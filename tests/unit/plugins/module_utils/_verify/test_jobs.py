# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPIJobs that prove NVLink and RDMA: what a manifest asks for, and what a log proves."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.filter.rdma_evidence import rdma_evidence
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import (
    Job,
    checked_job,
    collective_of,
    judge_job,
    path_of,
    state_of,
    why_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_workloads import (
    Settings,
    group_workloads,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import class_labels
from ansible_collections.fabric.rdma.tests.unit.contracts import a_group
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nccl_tests import INFO, a_table
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nvbandwidth import (
    HEAD,
    a_test,
    square,
)

Json = dict[str, t.Any]
LABELS = {"app.kubernetes.io/managed-by": "fabric.rdma", "rdma.fabric/traffic": "abc"}


def manifests(**given: t.Any) -> dict[str, list[Json]]:
    """Those that the role compute_domain writes, by the way that the data is to take."""
    default = {
        "group": "gb200",
        "line": (25, 12),
        "dns_names": True,
        "namespace": "proof",
        "nodes": 2,
        "gpus_per_node": 4,
    }
    more = {"claims": None, "nvbandwidth_image": "i", "nccl_image": "n", "ethernet": False}
    plan = a_group(environment={"n1": {"NCCL_IB_HCA": "=mlx5_0"}}, resources=[{"resource": "rdma/gb200"}])
    more["labels"] = class_labels({}, "gb200", plan["classes"])
    found, _warnings = group_workloads(Settings(**{**default, **more, **given}), t.cast("t.Any", plan))
    return {name.rpartition("-")[0]: json.loads(json.dumps(objects)) for name, objects in found.items()}


def a_job(name: str, **given: t.Any) -> Job:
    return checked_job(manifests(**given)[name], LABELS, 500)


# --- manifests -------------------------------------------------------------------------------------------------------

WAYS = [
    ("nccl-mnnvl", "nccl-tests", "mnnvl"),
    ("nccl-infiniband", "nccl-tests", "rdma"),
    ("nccl-tcp", "nccl-tests", "tcp"),
    ("nvbandwidth", "nvbandwidth", None),
]


@pytest.mark.parametrize(("name", "tool", "way"), WAYS)
@pytest.mark.parametrize("claims", [None, "v1"])
def test_what_compute_domain_writes_can_be_run(name: str, tool: str, way: str | None, claims: str | None) -> None:
    """nvbandwidth, and each of the three transports by its name."""
    job = a_job(name, claims=claims)
    assert (job.name, job.namespace, job.tool, job.way) == (f"{name}-gb200", "proof", tool, way)
    assert {str(item["metadata"]["labels"]) for item in job.objects} == {str(LABELS)}
    (main,) = [item for item in job.objects if item["kind"] == "MPIJob"]
    assert main["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 500}
    assert path_of(main) == f"/apis/kubeflow.org/v2beta1/namespaces/proof/mpijobs/{name}-gb200"
    kinds = {item["kind"] for item in job.objects}
    assert ("ComputeDomain" in kinds) is (way in ("mnnvl", None))
    assert ("ResourceClaimTemplate" in kinds) is (claims is not None)


def test_a_roce_group_is_rdma_too() -> None:
    assert a_job("nccl-roce", ethernet=True).way == "rdma"


def test_a_manifest_stays_what_it_is() -> None:
    given_ = manifests()["nccl-tcp"]
    before = copy.deepcopy(given_)
    checked_job(given_, LABELS, 5)
    assert given_ == before


def broken(change: t.Callable[[list[Json]], t.Any]) -> t.Any:
    objects = manifests()["nccl-tcp"]
    return change(objects) or objects


BROKEN: list[tuple[t.Callable[[list[Json]], t.Any], str]] = [
    (lambda objects: objects * 2, "has one MPIJob .*, this one has MPIJobs: 2, namespaces: proof"),
    (lambda _objects: [None], "this one has MPIJobs: 0"),
    (lambda _objects: [5], "not an object of Kubernetes"),
    (lambda _objects: "text", "not an object of Kubernetes"),
    (
        lambda objects: [*objects, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}],
        "Secret of v1 is not made here",
    ),
    (lambda objects: objects[0]["metadata"].update(name="../x"), "are not names of Kubernetes"),
    (lambda objects: objects[0]["metadata"].update(namespace="a/b"), "are not names of Kubernetes"),
    (lambda objects: objects[0].update(apiVersion="kubeflow.org/v1"), "MPIJob of kubeflow.org/v1 is not made here"),
    (lambda objects: objects[0]["spec"].pop("mpiReplicaSpecs"), "has no launcher"),
    (
        lambda objects: objects[0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0].update(
            args=["sleep"]
        ),
        "runs neither nvbandwidth nor a program of nccl-tests",
    ),
]


@pytest.mark.parametrize(("change", "words"), BROKEN, ids=[words for _change, words in BROKEN])
def test_other_manifests_are_refused(change: t.Callable[[list[Json]], t.Any], words: str) -> None:
    objects = manifests()["nccl-tcp"]
    changed = change(objects)
    with pytest.raises(WishError, match=words):
        checked_job(changed if isinstance(changed, (list, str)) else objects, LABELS, 5)


# --- how it is doing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "running"),
        ([{"type": "Running", "status": "True"}], "running"),
        (
            [{"type": "Running", "status": "False"}, {"type": "Succeeded", "status": "True", "message": "m"}],
            "succeeded",
        ),
        ([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}], "failed"),
        ([5, None], "running"),
        ("odd", "running"),
    ],
)
def test_a_job_says_how_it_is_doing(conditions: t.Any, state: str) -> None:
    assert state_of({"status": {"conditions": conditions}})[0] == state


def test_a_pod_that_does_not_start_says_why() -> None:
    place = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes: Insufficient nvidia.com/gpu"}]
    }
    image = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]}
    fine = {"containerStatuses": [{"state": {"running": {}}}]}
    assert why_of([{"metadata": {"name": "w0"}, "status": fine}, {"metadata": {"name": "w1"}, "status": place}]) == (
        "Pod w1 has no place: 0/2 nodes: Insufficient nvidia.com/gpu"
    )
    assert why_of([{"metadata": {"name": "w1"}, "status": image}]) == "Pod w1 waits: ErrImagePull: no such image"
    assert why_of([{"metadata": {"name": "w0"}, "status": fine}, {}]) == ""


# --- what it proves --------------------------------------------------------------------------------------------------

VIA = {"mnnvl": "P2P/MNNVL", "rdma": "NET/IB/0/GDRDMA", "tcp": "NET/Socket/0"}
NAMES = {"mnnvl": "nccl-mnnvl", "rdma": "nccl-infiniband", "tcp": "nccl-tcp"}


@pytest.mark.parametrize("wished", VIA)
@pytest.mark.parametrize("taken", VIA)
def test_a_job_passes_by_the_way_that_it_is_to_take_alone(wished: str, taken: str) -> None:
    found = judge_job(a_job(NAMES[wished]), a_table(300.0, 480.0, more=INFO.format(0, VIA[taken])), None, None)
    assert (found["best_gbs"], found["average_gbs"], found["size_bytes"]) == (480.0, 390.0, 2)
    assert found["verdict"] == ("pass" if wished == taken else "fail")
    assert ("NCCL did not use" in found["message"]) is (wished != taken)
    assert bool(found["remedy"]) is (wished != taken)


@pytest.mark.parametrize("taken", ["NET/IBext_v10/0", "NET/gIB/3", "NET/AWS Libfabric/0", "NET/Libfabric/0"])
def test_plugins_of_nccl_go_over_rdma_too(taken: str) -> None:
    more = INFO.format(0, f"{taken}/GDRDMA")
    assert judge_job(a_job(NAMES["rdma"]), a_table(480.0, more=more), None, None)["verdict"] == "pass"
    assert "did not use TCP" in judge_job(a_job(NAMES["tcp"]), a_table(480.0, more=more), None, None)["message"]
    without = judge_job(a_job(NAMES["rdma"]), a_table(480.0, more=INFO.format(0, taken)), None, None)
    assert "without GPUDirect" in without["message"]


@pytest.mark.parametrize(("way", "verdict"), [("mnnvl", "pass"), ("rdma", "fail"), ("tcp", "pass")])
def test_a_job_that_needs_no_hca_may_find_none(way: str, verdict: str) -> None:
    none = "n1:7:7 [0] NCCL INFO NET/IB : No device found.\n"
    found = judge_job(a_job(NAMES[way]), a_table(9.0, more=none + INFO.format(0, VIA[way])), None, None)
    assert (found["verdict"], "NCCL found no HCA" in found["message"]) == (verdict, verdict == "fail")


@pytest.mark.parametrize(("floor", "verdict"), [(None, "pass"), (400.0, "pass"), (480.0, "pass"), (500.0, "fail")])
def test_the_best_bus_bandwidth_is_compared_with_the_floor(floor: float | None, verdict: str) -> None:
    found = judge_job(a_job("nccl-infiniband"), a_table(1.0, 480.0, more=INFO.format(0, VIA["rdma"])), None, floor)
    assert (found["verdict"], found["floor_gbs"]) == (verdict, floor)
    assert found["message"].startswith("480 GB/s")


def test_a_transport_that_no_log_names_is_not_proved() -> None:
    found = judge_job(a_job("nccl-infiniband"), a_table(480.0), None, None)
    assert (found["verdict"], found["remedy"]) == ("fail", "set NCCL_DEBUG=INFO in the job")


def test_no_figures_are_an_error_with_its_cause() -> None:
    log = "n1:1:2 [0] NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
    problem = {"cause": "MPIJob nccl-infiniband-gb200 has failed", "remedy": ""}
    found = judge_job(a_job("nccl-infiniband"), log, problem, None)
    assert found["verdict"] == "error"
    assert found["message"].startswith("MPIJob nccl-infiniband-gb200 has failed; NCCL could not register memory")
    assert "containerd_memlock" in str(found["remedy"])


def test_a_link_that_is_far_below_the_others_is_named() -> None:
    cells = square(4, 800.0)
    well = judge_job(a_job("nvbandwidth"), HEAD + a_test(cells), None, None)
    assert (well["verdict"], well["lowest_gbs"], well["best_gbs"]) == ("pass", 800.0, 800.0)
    cells[1][3] = 400.0
    found = judge_job(a_job("nvbandwidth"), HEAD + a_test(cells), None, 100.0)
    assert found["verdict"] == "fail"
    assert "GPUs 1 and 3 (400 GB/s) are far below the median of 800 GB/s" in found["message"]
    assert judge_job(a_job("nvbandwidth"), HEAD + a_test(square(2)), None, 100.0)["message"].startswith(
        "26.34 GB/s < 100 GB/s"
    )


def test_a_log_that_is_cut_off_proves_nothing() -> None:
    """A log is read up to a length, and a launcher may be killed: figures of the first sizes prove nothing of the last ones."""
    whole = a_table(1.0, 480.0, more=INFO.format(0, VIA["rdma"]))
    for end in ("# Out of bounds", "# Avg bus"):
        found = judge_job(a_job("nccl-infiniband"), whole.partition(end)[0], None, None)
        assert (found["verdict"], found["best_gbs"]) == ("fail", 480.0)
        assert "has no end" in found["message"]
    matrices = HEAD + a_test(square(4, 800.0), "one") + a_test(square(4, 800.0), "two")
    assert judge_job(a_job("nvbandwidth"), matrices, None, None)["verdict"] == "pass"
    found = judge_job(a_job("nvbandwidth"), matrices.rpartition("SUM")[0], None, 100.0)
    assert (found["verdict"], "two: the matrix has no sum" in found["message"]) == ("fail", True)


def test_a_job_that_measures_latencies_alone_says_why_it_is_not_judged() -> None:
    found = judge_job(a_job("nvbandwidth"), HEAD + a_test(square(2), unit="ns"), None, None)
    assert (found["verdict"], found["best_gbs"]) == ("error", None)
    assert found["message"] == "nvbandwidth measured latencies only, and what is judged is bandwidth"
    assert "device_to_device_memcpy_read_ce" in str(found["remedy"])


@given(st.text(max_size=300), st.sampled_from([name for name, _tool, _way in WAYS]))
def test_any_log_is_judged(log: str, name: str) -> None:
    found = judge_job(a_job(name), log, None, 5.0)
    assert found["verdict"] in ("fail", "error")
    assert found["message"]
    json.dumps(found, allow_nan=False)


# --- in the evidence -------------------------------------------------------------------------------------------------

PAIRS: Json = {"rounds": [], "jobs": {}, "untested": {"g": []}, "expected": []}


def test_jobs_are_in_evidence_table_and_failures() -> None:
    good = judge_job(a_job("nccl-tcp"), a_table(9.0, more=INFO.format(0, VIA["tcp"])), None, None)
    bad = judge_job(a_job("nccl-mnnvl"), a_table(9.0, more=INFO.format(0, VIA["tcp"])), None, None)
    item = {"file": "/x/y.yaml", "group": "g"}
    rows = [
        {"item": item, "collective": good},
        {"item": item, "collective": bad},
        {"item": item, "failed": True, "msg": "no file"},
    ]
    found = rdma_evidence(PAIRS, {}, PAIRS, {}, {"results": rows})
    assert [job["verdict"] for job in found["groups"]["g"]["collectives"]] == ["pass", "fail", "error"]
    assert len(found["failures"]) == 2
    assert found["failures"][0].startswith("g: nccl-tests (nccl-mnnvl-gb200): 9 GB/s; NCCL moved its data over TCP")
    assert (
        found["failures"][1] == "g: nccl-tests (/x/y.yaml): no file. Remedy: see the messages of this run about the job"
    )
    assert "NET/Socket/0" in found["tables"]["g"]
    assert all(len(line) <= 100 for line in found["tables"]["g"].splitlines())


@pytest.mark.parametrize("odd", [{}, {"collective": 5}, {"collective": {"name": "x"}}, {"item": 5}], ids=str)
def test_an_odd_answer_is_an_error(odd: Json) -> None:
    assert collective_of(odd)["verdict"] == "error"

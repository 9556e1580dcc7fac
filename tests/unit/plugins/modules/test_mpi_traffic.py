# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module mpi_traffic against an API server that plays: what it makes, returns and leaves."""

from __future__ import annotations

import importlib
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs import manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs_run import JobCluster
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nccl_tests import INFO, a_table
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import differs, insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import LEFT

Json = dict[str, t.Any]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "nccl-mnnvl-gb200.yaml"
    path.write_text(yaml.safe_dump_all(manifests()["nccl-mnnvl"]))
    return path


def said(path: Path, check: bool = False, prelude: str = "") -> Json:
    result = run("mpi_traffic", check, prelude, file=str(path), kubeconfig="/none", _ansible_diff=True)
    insist_on_return("mpi_traffic", result)
    return result


def test_a_check_asks_the_cluster_nothing(manifest: Path) -> None:
    result = said(manifest, check=True)
    assert result["changed"] is False
    assert result["msg"] == "MPIJob proof/nccl-mnnvl-gb200 (nccl-tests over mnnvl) would be run"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"a: [", "is not YAML that Kubernetes could read: while parsing"),
        (b"\xff\xfe\xff", "is not YAML that Kubernetes could read: "),
        (b"a: .nan", "is not YAML that Kubernetes could read: "),
        (b"a: !!binary YQ==", "is not YAML that Kubernetes could read: Object of type bytes"),
        (b"[" * 100_000, "is not YAML that Kubernetes could read: "),
        (b"a: !!int ''", "is not YAML that Kubernetes could read: "),
        (b"a: !!set {b}", "is not YAML that Kubernetes could read: "),
        (b"[a]: b", "is not YAML that Kubernetes could read: "),
        (b"&x [*x]", "is not YAML that Kubernetes could read: Circular reference"),
        (b"{apiVersion: v1, kind: [a], metadata: {name: x}}", "['a'] of v1 is not made here"),
        (b"{apiVersion: v1, kind: Secret, metadata: {name: x}}", "Secret of v1 is not made here"),
        (b"- a", "a manifest has something that is not an object of Kubernetes"),
        (
            b"",
            "a manifest has one MPIJob and what it needs in one namespace, this one has MPIJobs: 0, namespaces: none",
        ),
    ],
    ids=[
        "missing",
        "torn",
        "binary",
        "number",
        "bytes",
        "deep",
        "tag",
        "set",
        "key",
        "circle",
        "kinds",
        "kind",
        "list",
        "empty",
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, content: bytes | None, why: str, check: bool) -> None:
    path = tmp_path / "job.yaml"
    if content is not None:
        path.write_bytes(content)
    result = said(path, check)
    assert result["failed"] is True
    assert result["msg"].startswith(f"{path} {why}" if why.startswith(("is ", "cannot ")) else why)


def test_a_day_is_a_text_as_it_is_for_kubernetes(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("{a: 2024-01-01, 2024-99-99: 2024-01-01T00:00:00Z}")
    # not above: the process that plays puts its client in place before the module is imported
    module = importlib.import_module("ansible_collections.fabric.rdma.plugins.modules.mpi_traffic")
    assert module.documents(str(path)) == [{"a": "2024-01-01", "2024-99-99": "2024-01-01T00:00:00Z"}]


def test_no_cluster_is_a_result(manifest: Path) -> None:
    found = said(manifest)["collective"]
    assert found["verdict"] == "error"
    assert "does not exist" in found["message"]


class Kube(JobCluster):
    """As the client that the module makes for itself."""

    warnings: t.ClassVar[list[str]] = []

    def __init__(self, *_given: t.Any) -> None:
        super().__init__(looks=1, log=a_table(846.82, more=INFO.format(0, "P2P/MNNVL")))


class WithLeft(Kube):
    """Also with a job that a killed run has left, and with one of somebody else."""

    def __init__(self, *given: t.Any) -> None:
        super().__init__(*given)
        path = "/apis/kubeflow.org/v2beta1/namespaces/proof/mpijobs"
        for name, labels in (("left", LEFT), ("theirs", {})):
            body = {"kind": "MPIJob", "metadata": {"name": name, "namespace": "proof", "labels": labels}}
            self.request("POST", path, "leave", body=body)


def played(cluster: type[Kube]) -> str:
    """In the module's own process."""
    return (
        "import time\n"
        "from ansible_collections.fabric.rdma.plugins.module_utils._rollout import client\n"
        "from ansible_collections.fabric.rdma.tests.unit.plugins.modules import test_mpi_traffic\n"
        f"client.Kube = test_mpi_traffic.{cluster.__name__}\n"
        "time.sleep = lambda _seconds: None\n"
    )


def test_only_what_a_killed_run_had_left_is_a_change(manifest: Path) -> None:
    checked = said(manifest, check=True, prelude=played(WithLeft))
    first, second = (said(manifest, prelude=played(cluster)) for cluster in (WithLeft, Kube))
    removed = ["MPIJob left"]
    assert [each["removed"] for each in (checked, first, second)] == [[], removed, []]
    assert first["diff"] == {"before": "MPIJob left\n", "after": ""}
    assert {first["collective"]["verdict"], second["collective"]["verdict"]} == {"pass"}
    for each in (checked, first, second):
        assert differs(each.get("diff")) is each["changed"] is bool(each["removed"])


def test_the_examples_measure(manifest: Path) -> None:
    def call(module: str, given: Json) -> Json:
        assert given["file"].endswith(f"workloads/{manifest.name}")
        return run(module, prelude=played(Kube), **{**given, "file": str(manifest)})

    (result,) = run_examples("mpi_traffic", call)
    found = result["collective"]
    assert (found["verdict"], found["best_gbs"], found["floor_gbs"]) == ("pass", 846.82, 700.0)
    assert result["removed"] == []


def test_a_mistake_of_the_module_has_a_word() -> None:
    """The role goes on after a failure, and of a traceback ansible-core keeps nothing."""
    broken = (
        "from ansible_collections.fabric.rdma.plugins.module_utils._verify import jobs\n"
        "jobs.checked_job = lambda *_given: 1 / 0\n"
    )
    result = run("mpi_traffic", prelude=broken, file="/dev/null", kubeconfig="/none")
    assert result["failed"] is True
    assert result["msg"] == "a mistake of this module: ZeroDivisionError('division by zero')"

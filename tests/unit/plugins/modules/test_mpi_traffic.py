# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module mpi_traffic against an API server that plays: what it makes, returns and leaves."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs import manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs_run import JobCluster
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nccl_tests import INFO, a_table
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_matrix import insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

Json = dict[str, t.Any]


def said(check: bool = False, **given: t.Any) -> Json:
    arguments = {"objects": manifests()["nccl-mnnvl"], "kubeconfig": "/none", **given}
    result = run("mpi_traffic", check, **arguments)
    insist_on_return("mpi_traffic", result)
    return result


def test_a_check_asks_the_cluster_nothing() -> None:
    result = said(check=True)
    assert result["changed"] is False
    assert result["msg"] == "MPIJob proof/nccl-mnnvl-gb200 (nccl-tests over mnnvl) would be run"


@pytest.mark.parametrize("check", [True, False])
def test_bad_input_is_named_and_nothing_is_asked(check: bool) -> None:
    result = said(check, objects=[{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}])
    assert result["failed"] is True
    assert result["msg"].startswith("Secret of v1 is not made here")


def test_no_cluster_is_a_result() -> None:
    found = said()["collective"]
    assert found["verdict"] == "error"
    assert "does not exist" in found["message"]


class Kube(JobCluster):
    """As the client that the module makes for itself."""

    warnings: t.ClassVar[list[str]] = []

    def __init__(self, *_given: t.Any) -> None:
        super().__init__(looks=1, log=a_table(846.82, more=INFO.format(0, "P2P/MNNVL")))


# in the module's own process
PLAYED = (
    "import time\n"
    "from ansible_collections.fabric.rdma.plugins.module_utils._rollout import client\n"
    f"from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_mpi_traffic import {Kube.__name__}\n"
    "client.Kube = Kube\n"
    "time.sleep = lambda _seconds: None\n"
)


def test_the_examples_measure(tmp_path: Path) -> None:
    path = tmp_path / "nccl-mnnvl-gb200.yaml"
    path.write_text(yaml.safe_dump_all(manifests()["nccl-mnnvl"]))
    known = {"lookup": lambda _name, _path: path.read_text()}
    filters = {"from_yaml_all": yaml.safe_load_all}
    (result,) = run_examples(
        "mpi_traffic", lambda module, given: run(module, prelude=PLAYED, **given), filters, **known
    )
    found = result["collective"]
    assert (found["verdict"], found["best_gbs"], found["floor_gbs"]) == ("pass", 846.82, 700.0)
    assert result["removed"] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cluster_snapshot returns where no cluster answers. What it reads from a real API server is in tests/cluster."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import Served, healthy


def test_a_cluster_that_does_not_answer_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    with Served(healthy, lambda _pod: "") as cluster:
        stopped = cluster.kubeconfig(tmp_path)
    for kubeconfig, why in ((f"{tmp_path}/none", "no kubeconfig: "), (stopped, "no answer from the API server")):
        result = run("cluster_snapshot", kubeconfig=str(kubeconfig))
        insist_on_return("cluster_snapshot", result)
        assert (result["changed"], result["cluster"], result["logs"]) == (False, {}, [])
        (line,) = result["unread"]
        assert line.startswith("the cluster was not looked at: ")
        assert why in line


def test_a_pod_without_its_namespace_is_an_error(tmp_path: Path) -> None:
    """Whether a cluster answers or not."""
    result = run("cluster_snapshot", kubeconfig=f"{tmp_path}/none", pods=["train-0"])
    assert (result["failed"], result["msg"]) == (True, "pods has 'train-0'; expected NAMESPACE/NAME")

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that measure, as a real API server sees them: nothing in them is unknown to it, and none is left. What they do is proved by
molecule/cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import TRAFFIC_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import checked, pod_body, words_of
from ansible_collections.fabric.rdma.tests.cluster.test_matrix import said
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import LABELS, a_pair, a_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_matrix import insist_on_return

if t.TYPE_CHECKING:
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


def test_what_cannot_measure_is_told_and_no_pod_is_left(site: Site) -> None:
    """Nodes that are played have no kubelet whose logs could be read, or none of these names is there at all."""
    given = {"rounds": [[a_pair()]], "image": "registry.example/perftest:1", "timeout": 2}
    for more in ({}, {"namespace": "nowhere"}):
        result = said(site, "pod_traffic", {**given, **more})
        insist_on_return("pod_traffic", result)
        ((pair,),) = result["results"]
        print(pair["client"]["problem"])
        assert pair["client"]["results"][0]["problem"]["cause"]
        assert site.kube.list("/api/v1/pods", "list", labelSelector=TRAFFIC_LABEL) == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure part of waiting for a class. What nodes really offer is proved by tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.class_ready import refusal, wait_for_class
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

ENTRY = {"name": "c", "nodes": ["n1"], "resources": {"rdma/a": 63}, "node_resources": {"n1": {"rdma/a": 0}}}


def test_what_nodes_can_offer_is_waited_for() -> None:
    assert refusal(ENTRY) is None
    # functions of SR-IOV are counted node by node
    assert refusal({**ENTRY, "resources": {}, "node_resources": {"n1": {"rdma/a": 4}}}) is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": []}, "class c has no nodes"),
        ({"resources": {}, "node_resources": {}}, "class c has no resources"),
        ({"resources": {}, "node_resources": {"n1": {}}}, "class c has no resources"),
        ({"resources": {"rdma/a": "63"}}, "class c, resources: rdma/a is '63', which must be a whole number from 0"),
        ({"resources": {"rdma/a": True}}, "rdma/a is True"),
        ({"resources": {"rdma/a": 0.5}}, "rdma/a is 0.5"),
        ({"node_resources": {"n1": {"rdma/a": -1}}}, "class c, node_resources of n1: rdma/a is -1"),
        ({"node_resources": {"n1": 63}}, "class c, node_resources of n1: 63 must be a dictionary"),
    ],
)
def test_what_no_node_can_offer_is_refused(wrong: dict[str, Any], words: str) -> None:
    assert words in (refusal({**ENTRY, **wrong}) or "")


@pytest.mark.parametrize(("available", "told"), [(1, True), (0, False)])
def test_a_plugin_that_is_ready_and_offers_nothing_is_told_how_to_help(available: int, told: bool) -> None:
    """A plugin of the same resource that has ended after it had started has taken its socket away."""
    status = {"observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1}
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {CLASS_LABEL: "c"}}, "status": {"allocatable": {}}}
    server = Server(node)
    metadata = {"name": "d", "namespace": "rdma", "generation": 1}
    server.put({"kind": "DaemonSet", "metadata": metadata, "status": {**status, "numberAvailable": available}})
    server.served["/api/v1"]["Event"] = "events"  # type: ignore[call-overload]
    entry = {**ENTRY, "node_resources": {}, "namespace": "rdma", "daemon_set": "d"}
    missing, _waited = wait_for_class(server, entry, Patience(0, 1))
    assert ("kubectl -n rdma rollout restart daemonset d" in missing[-1]) is told

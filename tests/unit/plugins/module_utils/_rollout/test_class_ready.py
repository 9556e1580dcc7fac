# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure part of waiting for a class. What nodes really offer is proved by tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.class_ready import refusal

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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host answers costs that host, and no other."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_material import rdma_material

ODD = (5, "x", [5], {"x": 5}, [None], {"x": None}, {5: "x"}, True, ["x"])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("key", ["logs", "unread", "failed", "msg", None])
def test_anything_in_the_answer_of_a_node_costs_no_other(key: str | None, odd: t.Any) -> None:
    good = {"logs": {"kernel": "mlx5_core"}, "unread": ["containerd: no journal"]}
    bad = odd if key is None else {"failed": True, key: odd}
    found = rdma_material({"node_logs": {"bad": bad, "good": good}})
    assert {"name": "good kernel", "source": "kernel", "host": "good", "pod": None, "text": "mlx5_core"} in found[
        "logs"
    ]
    assert "good: containerd: no journal" in found["unread"]

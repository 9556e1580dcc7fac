# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure part of a Lease. What two rollouts do with it is proved by tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import (
    Lease,
    expires_in,
    new_holder,
    under_way,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError

# 2026-01-01 00:00:00 UTC
NOW = 1767225600.0


def lease(**spec: Any) -> dict[str, Any]:
    whole = {"holderIdentity": "a@b/1", "leaseDurationSeconds": 120, "renewTime": "2025-12-31T23:59:50.123456Z", **spec}
    return {"metadata": {"name": "l", "namespace": "n"}, "spec": whole}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 110),
        ({"renewTime": "2025-12-31T23:50:00Z"}, -480),
        ({"renewTime": None}, 0),
        ({"renewTime": "soon"}, 0),
        ({"holderIdentity": ""}, 0),
        ({"leaseDurationSeconds": None}, -10),
    ],
)
def test_a_lease_expires_after_its_last_renewal(spec: dict[str, Any], seconds: int) -> None:
    assert expires_in(lease(**spec), NOW) == seconds


def test_what_is_told_of_a_holder() -> None:
    text = under_way(lease(holderIdentity="x" * 500 + "\n\x1b", acquireTime="2025-12-31T23:00:00Z"), NOW)
    assert "taken 60 min ago, renewed 10 s ago" in text
    assert "expires in 110 s" in text
    assert len(text) < 600
    assert "\n" not in text


def test_no_two_holders_are_called_alike() -> None:
    assert new_holder() != new_holder()


@pytest.mark.parametrize("namespace", ["", "No Name", "a/../b", "x" * 64, "-a"])
def test_a_lease_is_in_a_namespace_that_can_be(namespace: str) -> None:
    with pytest.raises(ManifestError, match="No namespace can be called"):
        Lease(object.__new__(Kube), namespace, "me")

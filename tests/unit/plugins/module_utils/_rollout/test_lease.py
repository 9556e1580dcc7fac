# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure part of a Lease. What two rollouts do with it is proved by tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import (
    Lease,
    expires_in,
    new_holder,
    under_way,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import Refused

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


class Busy:
    """An API server with one Lease, which refuses with these statuses, 0 for no answer, before it answers.

    done: whether a renewal that it does not answer counts all the same.
    """

    def __init__(self, *codes: int, holder: str = "me", done: bool = False) -> None:
        self.codes, self.done, self.lease, self.puts = list(codes), done, lease(holderIdentity=holder), 0

    def now(self) -> float:
        return NOW

    def _insist(self, doing: str) -> None:
        if self.codes:
            raise Refused(f"cannot {doing}: refused", self.codes.pop(0))

    def find(self, _path: str, doing: str) -> dict[str, Any]:
        self._insist(doing)
        return self.lease

    def request(self, method: str, _path: str, doing: str, body: dict[str, Any]) -> None:
        assert method == "PUT"
        if not self.codes or self.done:
            self.lease, self.puts = body, self.puts + 1
        self._insist(doing)


@pytest.fixture
def _no_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.time, "sleep", lambda _seconds: None)


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("codes", [(503,), (0,), (429, 500)])
def test_a_busy_server_does_not_end_what_holds_a_lease(codes: tuple[int, ...]) -> None:
    kube = Busy(*codes)
    Lease(kube, "n", "me").renew()  # type: ignore[arg-type]  # what it is asked for, no more
    assert kube.lease["spec"]["renewTime"].startswith("2026-01-01T00:00:00")
    assert not kube.codes


@pytest.mark.usefixtures("_no_naps")
def test_a_renewal_that_was_not_answered_is_no_reason_to_stop() -> None:
    kube = Busy(done=True)
    find = kube.find

    def find_then_break(path: str, doing: str) -> dict[str, Any]:
        found = find(path, doing)
        if not kube.puts:
            kube.codes = [0]
        return found

    kube.find = find_then_break  # type: ignore[method-assign]
    Lease(kube, "n", "me").renew()  # type: ignore[arg-type]  # what it is asked for, no more
    assert kube.puts == 2


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize(
    ("codes", "holder", "words"), [((503,) * 3, "me", "refused"), ((503,), "other", "told to stop")]
)
def test_a_server_that_stays_away_and_a_lease_that_is_lost_end_it(
    codes: tuple[int, ...], holder: str, words: str
) -> None:
    with pytest.raises(KubeError, match=words):
        Lease(Busy(*codes, holder=holder), "n", "me").renew()  # type: ignore[arg-type]  # what it is asked for, no more

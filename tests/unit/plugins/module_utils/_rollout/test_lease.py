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

    def __init__(self, *codes: int, holder: str | None = "me", done: bool = False) -> None:
        self.codes, self.done, self.puts, self.deleted = list(codes), done, 0, 0
        self.lease = None if holder is None else lease(holderIdentity=holder)
        # seconds that a change takes until it is answered
        self.slow, self.passed = 0, 0

    def now(self) -> float:
        return NOW + self.passed

    def _insist(self, doing: str) -> None:
        if self.codes:
            raise Refused(f"cannot {doing}: refused", self.codes.pop(0))

    def find(self, path: str, doing: str) -> dict[str, Any] | None:
        self._insist(doing)
        return self.lease if "/namespaces/n/" in path else None

    def request(self, method: str, _path: str, doing: str, body: dict[str, Any]) -> None:
        assert method == ("POST" if self.lease is None else "PUT")
        if not self.codes or self.done:
            self.lease, self.puts = {**body, "metadata": {"name": "l", "namespace": "n"}}, self.puts + 1
        self.passed += self.slow
        self._insist(doing)

    def delete(self, item: dict[str, Any], dry_run: bool) -> None:
        assert self.lease is not None
        assert not dry_run
        assert item["spec"] == self.lease["spec"]
        if not self.codes or self.done:
            self.lease, self.deleted = None, self.deleted + 1
        self._insist("delete it")


class Lost(Busy):
    """Reads well, and does not answer the first change. done: whether it has made it."""

    def _change(self) -> None:
        if not self.puts + self.deleted + self.passed:
            self.codes, self.passed = [self.code], 1

    def __init__(self, code: int, holder: str | None, done: bool) -> None:
        super().__init__(holder=holder, done=done)
        self.code = code

    def request(self, method: str, path: str, doing: str, body: dict[str, Any]) -> None:
        self._change()
        super().request(method, path, doing, body)

    def delete(self, item: dict[str, Any], dry_run: bool) -> None:
        self._change()
        super().delete(item, dry_run)


def renewed(kube: Busy) -> str:
    assert kube.lease is not None
    assert kube.lease["spec"]["holderIdentity"] == "me"
    return str(kube.lease["spec"]["renewTime"])


@pytest.fixture
def _no_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.time, "sleep", lambda _seconds: None)


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("codes", [(503,), (0,), (429, 500)])
def test_a_busy_server_does_not_end_what_holds_a_lease(codes: tuple[int, ...]) -> None:
    kube = Busy(*codes)
    Lease(kube, "n", "me").renew()  # type: ignore[arg-type]  # what it is asked for, no more
    assert renewed(kube).startswith("2026-01-01T00:00:00")
    assert not kube.codes


@pytest.mark.usefixtures("_no_naps")
def test_a_renewal_that_was_not_answered_is_no_reason_to_stop() -> None:
    kube = Busy(done=True)
    find = kube.find

    def find_then_break(path: str, doing: str) -> dict[str, Any] | None:
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


def the_lease(kube: Busy) -> Lease:
    return Lease(kube, "n", "me")  # type: ignore[arg-type]  # what it is asked for, no more


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("holder", [None, ""], ids=["none", "nobody's"])
@pytest.mark.parametrize("codes", [(503,), (0,), (429, 500)])
def test_a_busy_server_does_not_keep_anybody_from_a_lease(codes: tuple[int, ...], holder: str | None) -> None:
    kube = Busy(*codes, holder=holder)
    assert the_lease(kube).take()
    assert renewed(kube)
    assert not kube.codes


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("holder", [None, ""], ids=["none", "nobody's"])
@pytest.mark.parametrize("code", [0, 500, 504])
@pytest.mark.parametrize("done", [True, False])
def test_a_lease_of_which_nobody_said_that_we_have_it_is_ours(code: int, holder: str | None, done: bool) -> None:
    kube = Lost(code, holder, done)
    lease = the_lease(kube)
    assert lease.take()
    assert renewed(kube)
    assert kube.puts == 1 + done
    # whose it was before
    assert lease.seen == holder


@pytest.mark.usefixtures("_no_naps")
def test_a_look_for_rollouts_elsewhere_is_patient_too() -> None:
    """They would leave a Lease behind under a name that nobody is told."""
    kube = Busy(holder=None)
    take = kube.request

    def take_then_break(method: str, path: str, doing: str, body: dict[str, Any]) -> None:
        take(method, path, doing, body)
        kube.codes = [503]

    kube.request = take_then_break  # type: ignore[method-assign]
    assert the_lease(kube).take()
    assert not kube.codes


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize(("holder", "left"), [(None, None), ("me", "me")], ids=["new", "ours before"])
def test_a_lease_is_not_left_behind_where_the_look_elsewhere_fails(holder: str | None, left: str | None) -> None:
    """Nobody would know under which name it is held. Whoever goes on with one keeps it."""
    kube = Busy(holder=holder)
    take = kube.request

    def take_then_break(method: str, path: str, doing: str, body: dict[str, Any]) -> None:
        take(method, path, doing, body)
        kube.codes = [503, 503, 503]

    kube.request = take_then_break  # type: ignore[method-assign]
    with pytest.raises(Refused, match="refused"):
        the_lease(kube).take()
    assert (kube.lease or {"spec": {"holderIdentity": None}})["spec"]["holderIdentity"] == left


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("codes", [(503,), (0,), (429, 500)])
def test_a_busy_server_does_not_keep_a_lease_that_is_given_up(codes: tuple[int, ...]) -> None:
    kube = Busy(*codes)
    assert the_lease(kube).release() == "me"
    assert (kube.lease, kube.codes) == (None, [])


@pytest.mark.usefixtures("_no_naps")
@pytest.mark.parametrize("whoever", [True, False])
@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("code", [0, 504])
def test_a_lease_whose_end_nobody_has_told_is_given_up(code: int, done: bool, whoever: bool) -> None:
    kube = Lost(code, "other" if whoever else "me", done)
    assert the_lease(kube).release(whoever) == ("other" if whoever else "me")
    assert (kube.lease, kube.deleted) == (None, 1)


@pytest.mark.usefixtures("_no_naps")
def test_a_lease_that_the_next_one_takes_meanwhile_is_not_broken() -> None:
    class Taken(Lost):
        def delete(self, item: dict[str, Any], dry_run: bool) -> None:
            try:
                super().delete(item, dry_run)
            finally:
                self.lease = lease(holderIdentity="next")

    kube = Taken(0, "other", True)
    assert the_lease(kube).release(whoever=True) == "other"
    assert kube.deleted == 1


class Homeless(Busy):
    """The namespace of the Lease is not there."""

    def request(self, method: str, _path: str, doing: str, body: dict[str, Any]) -> None:
        raise Refused(f"cannot {doing}: namespace not found", 404)


def test_a_lease_that_cannot_be_is_not_said_to_be_held() -> None:
    assert not the_lease(Homeless(holder=None)).take()
    with pytest.raises(KubeError, match="cannot be held: its namespace is not there"):
        the_lease(Homeless(holder=None)).take_there()


class Renewed(Busy):
    """Others write on the Lease between a look and these many deletions."""

    def __init__(self, times: int, holder: str) -> None:
        super().__init__(holder="other")
        self.times, self.holder = times, holder

    def delete(self, item: dict[str, Any], dry_run: bool) -> None:
        if self.times:
            self.times -= 1
            self.lease = lease(holderIdentity=self.holder)
            raise Refused("cannot delete it: it is another by now", 409)
        super().delete(item, dry_run)


@pytest.mark.parametrize("holder", ["other", "next"])
def test_a_lease_that_is_renewed_or_taken_meanwhile_is_broken_all_the_same(holder: str) -> None:
    kube = Renewed(2, holder)
    assert the_lease(kube).release(whoever=True) == holder
    assert (kube.lease, kube.deleted) == (None, 1)


def test_a_lease_that_cannot_be_broken_is_not_said_to_be() -> None:
    with pytest.raises(KubeError, match="another by now"):
        the_lease(Renewed(100, "other")).release(whoever=True)


def test_a_lease_that_another_takes_meanwhile_is_not_given_up_for_them() -> None:
    kube = Renewed(1, "next")
    kube.lease = lease(holderIdentity="me")
    assert the_lease(kube).release() is None
    assert kube.lease == lease(holderIdentity="next")


def test_what_is_not_ours_stays_and_what_is_only_tried_too() -> None:
    assert the_lease(Busy(holder="other")).release() is None
    assert the_lease(Busy(holder=None)).release(whoever=True) is None
    assert the_lease(Busy(holder="other")).release(whoever=True, dry_run=True) == "other"
    assert the_lease(Busy(holder="")).release(whoever=True, dry_run=True) == ""


@pytest.mark.usefixtures("_no_naps")
def test_a_lease_is_ours_from_when_it_was_asked_for_and_not_from_the_answer_on() -> None:
    """Others count from the time that is written on it."""
    kube = Busy(holder=None)
    kube.slow = 30
    lease = the_lease(kube)
    assert lease.take()
    for puts, seconds in ((2, 40), (2, 79), (3, 80)):
        kube.passed = seconds
        lease.renew()
        assert kube.puts == puts

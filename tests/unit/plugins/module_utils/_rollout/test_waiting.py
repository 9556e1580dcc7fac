# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a cluster is waited for, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self, timeout: float, interval: float = 3) -> Patience:
        return Patience(timeout, interval, lambda: self.now, self.sleep)


def looks(*answers: list[str] | KubeError) -> Callable[[], list[str]]:
    """A look at a cluster for each answer, the last one for good."""

    def each() -> Iterator[list[str] | KubeError]:
        yield from answers
        while True:
            yield answers[-1]

    told = each()

    def look() -> list[str]:
        answer = next(told)
        if isinstance(answer, KubeError):
            raise answer
        return answer

    return look


def test_what_is_right_is_not_waited_for() -> None:
    assert wait_until_right(looks([]), Clock().patience(0)) == ([], 0)


def test_the_last_look_is_reported_when_the_time_is_up() -> None:
    # one that would come after the end is not waited for
    assert wait_until_right(looks(["a"], ["b"], ["c"], ["d"]), Clock().patience(8)) == (["c"], 6)
    assert wait_until_right(looks(["a"]), Clock().patience(0)) == (["a"], 0)


@pytest.mark.parametrize(
    "away", [Unreachable("away"), *(KubeError("away", code) for code in (429, 500, 502, 503, 504))]
)
def test_a_cluster_that_is_away_for_a_moment_is_waited_for(away: KubeError) -> None:
    assert wait_until_right(looks(away, []), Clock().patience(60)) == ([], 3)
    assert wait_until_right(looks(away), Clock().patience(2)) == (["away"], 0)


@pytest.mark.parametrize("code", [0, 401, 403, 404, 409])
def test_what_time_does_not_mend_ends_it(code: int) -> None:
    with pytest.raises(KubeError, match=r"^refused"):
        wait_until_right(looks(KubeError("refused", code), []), Clock().patience(60))


def test_a_lease_that_was_broken_ends_it_before_the_next_look() -> None:
    renewals = iter([None, KubeError("Lease x is gone", 409)])
    seen: list[int] = []

    def renew() -> None:
        error = next(renewals)
        if error:
            raise error

    def look() -> list[str]:
        seen.append(1)
        return ["a"]

    with pytest.raises(KubeError, match=r"^Lease x is gone"):
        wait_until_right(look, Clock().patience(60), renew)
    assert len(seen) == 1

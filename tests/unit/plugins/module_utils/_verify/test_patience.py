# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as made, and when nothing is asked any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.patience import Patience, make_patiently
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._base.test_patience import Asked


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that have gone by: all that waits adds to them."""
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_what_an_attempt_without_an_answer_has_made_is_there() -> None:
    make = Asked(0, 409, reason="AlreadyExists")
    make_patiently(make, lambda: True)
    assert make.times == 2


@pytest.mark.parametrize(
    ("codes", "reason", "times"),
    [((409,), "AlreadyExists", 1), ((0, 409), "AlreadyExists", 2), ((409,) * 3, "Conflict", 3)],
)
def test_what_somebody_else_has_made_is_not_ours(codes: tuple[int, ...], reason: str, times: int) -> None:
    make = Asked(*codes, reason=reason)
    with pytest.raises(FabricError, match="refused"):
        make_patiently(make, lambda: False)
    assert make.times == times


def test_the_first_refusal_is_no_reason_to_look_whether_it_is_there() -> None:
    """It was not ours, whatever its labels say."""
    with pytest.raises(FabricError, match="refused"):
        make_patiently(Asked(409), lambda: pytest.fail("looked"))


def test_a_conflict_of_a_moment_makes_it_again() -> None:
    make = Asked(409, 409, reason="Conflict")
    make_patiently(make, lambda: False)
    assert make.times == 3


@pytest.mark.parametrize("way", [Patience.ask, Patience.once])
def test_nothing_is_asked_any_more_when_too_much_time_is_lost(
    way: Callable[[Patience, str, Asked], str], clock: list[float]
) -> None:
    bound = Patience(100)
    ask = Asked(*[0] * 999, seconds=30)
    while clock[0] < 100:
        with pytest.raises(FabricError, match="refused"):
            way(bound, "read it", ask)
    before = ask.times
    with pytest.raises(
        FabricError, match=r"cannot read it: not asked, \d+ s are lost already to requests that nobody answered"
    ):
        way(bound, "read it", ask)
    assert ask.times == before


def test_time_that_an_answer_takes_is_not_lost(clock: list[float]) -> None:
    bound = Patience(100)
    for _number in range(9):
        assert bound.ask("read it", Asked(seconds=30)) == "answer"
    # one refusal on the way to an answer is
    for _number in range(2):
        assert bound.ask("read it", Asked(500, seconds=30)) == "answer"
    with pytest.raises(FabricError, match="124 s are lost"):
        bound.make("make it", Asked(), lambda: True)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as made, and when nothing is asked any more."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._verify.patience import Patience, make_patiently
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._base.test_patience import Asked


@pytest.fixture(autouse=True)
def _time_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


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


def test_time_that_an_answer_takes_is_not_lost() -> None:
    bound = Patience(100)
    for _number in range(9):
        assert bound.take(patiently, Asked(seconds=30)) == "answer"
    assert not bound.spent
    # one refusal on the way to an answer is
    for _number in range(2):
        assert bound.take(patiently, Asked(500, seconds=30)) == "answer"
    assert bound.spent


@pytest.mark.parametrize("code", [0, 504, 500])
def test_what_is_spent_asks_once_and_whoever_is_well_is_asked(code: int) -> None:
    """A server that hangs itself says so after a minute: 504, or 500."""
    bound = Patience(100)
    with pytest.raises(FabricError, match="refused"):
        bound.take(patiently, Asked(code, code, code, seconds=60))
    assert bound.hopeless
    ask = Asked(403)
    with pytest.raises(FabricError, match="refused"):
        bound.take(patiently, ask)
    assert ask.times == 1
    # somebody has answered, if only with a refusal for good
    assert not bound.hopeless
    assert bound.take(patiently, Asked()) == "answer"
    assert bound.spent


def test_who_is_silent_for_long_is_not_asked_any_more_and_this_is_said() -> None:
    bound = Patience(100)
    for _number in range(3):
        assert not bound.hopeless
        with pytest.raises(FabricError, match="refused"):
            bound.take(lambda ask: ask(), Asked(0, seconds=60))
    assert bound.hopeless
    bound.try_once_more()
    assert not bound.hopeless
    with pytest.raises(FabricError, match="refused"):
        bound.take(patiently, Asked(0, seconds=60))
    assert bound.hopeless
    assert "cannot make it: not asked, the API server has not answered such requests for 240 s" in str(
        bound.given_up("make it")
    )

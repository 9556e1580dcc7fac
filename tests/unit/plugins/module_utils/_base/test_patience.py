# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is asked again, and how often."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import code_of, patiently
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import Refused


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that have gone by: all that waits adds to them."""
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


class Asked:
    """Refuses with these statuses, one after the other, 0 for no answer, and answers then. seconds: what a request takes."""

    def __init__(self, *codes: int, reason: str = "", seconds: float = 0) -> None:
        self.codes, self.times, self._reason, self._seconds = list(codes), 0, reason, seconds

    def __call__(self) -> str:
        self.times += 1
        patience.time.sleep(self._seconds)
        if self.codes:
            raise Refused("refused", self.codes.pop(0), self._reason)
        return "answer"


@pytest.mark.parametrize("codes", [(), (500,), (429, 0), (503, 504)])
def test_what_passes_by_itself_is_asked_again(codes: tuple[int, ...], clock: list[float]) -> None:
    ask = Asked(*codes)
    assert patiently(ask) == "answer"
    assert ask.times == len(codes) + 1
    assert clock[0] == 2 * len(codes)


@pytest.mark.parametrize(("codes", "last", "times"), [((500, 500, 429), 429, 3), ((403,), 403, 1), ((0, 404), 404, 2)])
def test_the_last_refusal_is_told(codes: tuple[int, ...], last: int, times: int) -> None:
    ask = Asked(*codes)
    with pytest.raises(FabricError, match="refused") as refused:
        patiently(ask)
    assert (code_of(refused.value), ask.times) == (last, times)


@pytest.mark.parametrize(
    ("refusals", "tries", "asked", "fails"), [(2, 3, 3, False), (3, 3, 3, True), (1, 1, 1, True), (0, 1, 1, False)]
)
def test_another_rule_says_what_passes(refusals: int, tries: int, asked: int, fails: bool) -> None:
    ask = Asked(*[409] * refusals)

    def run() -> None:
        patiently(ask, lambda exc: code_of(exc) == 409, tries, 0.5)

    if fails:
        with pytest.raises(FabricError, match="refused"):
            run()
    else:
        run()
    assert ask.times == asked


def test_as_long_as_the_server_wants_is_waited(clock: list[float]) -> None:
    class Later(FabricError):
        later = 7

    refusals = [Later("refused"), Later("refused")]

    def ask() -> str:
        if refusals:
            raise refusals.pop()
        return "answer"

    assert patiently(ask, lambda exc: exc.later > 0) == "answer"
    assert clock[0] == 14


def test_what_was_asked_again_already_is_not_once_more() -> None:
    """A client that does as the server says, and a caller that is patient itself, ask three times together, not nine."""
    times = [0]

    def ask() -> None:
        times[0] += 1
        exc = Refused("refused", 429)
        exc.later = 1
        raise exc

    with pytest.raises(Refused):
        patiently(lambda: patiently(ask, lambda each: each.later > 0))
    assert times == [3]

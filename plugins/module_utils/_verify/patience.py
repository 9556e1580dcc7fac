# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what may have been made already, and bounds for the time that patience costs. Private to the collection."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import PATIENCE, code_of, passing, patiently

__all__ = ["Patience", "Row", "make_patiently"]

T = t.TypeVar("T")

# An API server that starts again refuses at once, and is back after so many seconds.
_BACK_SECONDS = 30


def _make_again(exc: FabricError) -> bool:
    # "Conflict": a quota, say, that somebody else drew on at the same time; nothing was made
    return passing(exc) or getattr(exc, "reason", "") == "Conflict"


def make_patiently(make: t.Callable[[], t.Any], there: t.Callable[[], bool]) -> None:
    """Makes an object patiently. there: whether it is there, and ours, as it is where an attempt that nobody answered has made it."""
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        try:
            make()
        except FabricError as exc:
            if asked == 1 or code_of(exc) != 409 or not there():
                raise

    patiently(ask, _make_again)


class Row:
    """Refusals one after the other, of what is asked again and again while somebody waits."""

    def __init__(self) -> None:
        self._refusals, self._since = 0, 0.0

    def end(self) -> None:
        """There was an answer."""
        self._refusals = 0

    def enough(self, exc: FabricError) -> bool:
        """Whether to give up after one more: it is for good, or the server had both tries and time to come back."""
        now = time.monotonic()
        self._since = self._since if self._refusals else now
        self._refusals += 1
        spent = self._refusals >= PATIENCE and now - self._since >= _BACK_SECONDS
        return spent or code_of(exc) in (401, 403, 404)


class Patience:
    """Counts the seconds that are lost to requests of one kind that are refused, or not answered.

    So that what asks knows when it is enough: a rack without power must not cost hours, and no result of a node that is well.
    """

    def __init__(self, most: float) -> None:
        """most: seconds that may be lost."""
        self._lost, self._most, self._silent = 0.0, most, 0

    @property
    def spent(self) -> bool:
        """Whether nothing is asked a second time any more."""
        return self._lost >= self._most

    @property
    def hopeless(self) -> bool:
        """Whether nothing of it was done lately, either."""
        return self.spent and self._silent >= PATIENCE

    def try_once_more(self) -> None:
        """Lets one more request be sent where all was hopeless: it may be well by now."""
        self._silent = min(self._silent, PATIENCE - 1)

    def take(self, way: t.Callable[[t.Callable[[], T]], t.Any], ask: t.Callable[[], T]) -> t.Any:
        """What way makes of ask, such as patiently(ask); ask() where all patience is spent."""
        begun, refused = time.monotonic(), False

        def once() -> T:
            nonlocal refused
            try:
                answer = ask()
            except FabricError as exc:
                refused = True
                # also a server that waits for something itself, and says so after a while
                self._silent = self._silent + 1 if getattr(exc, "passing", False) else 0
                raise
            self._silent = 0
            return answer

        try:
            return once() if self.spent else way(once)
        finally:
            if refused:
                self._lost += time.monotonic() - begun

    def given_up(self, doing: str) -> FabricError:
        """Why something is not asked any more."""
        return FabricError(
            f"cannot {doing}: not asked, the API server has not answered such requests for {self._lost:.0f} s",
            "See why it does not answer, then run again",
        )

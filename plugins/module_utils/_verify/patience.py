# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what may have been made already, and a bound for the time that patience costs. Private to the collection."""

from __future__ import annotations

import time
import typing as t
from functools import partial

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import code_of, passing, patiently

__all__ = ["Patience", "make_patiently"]

T = t.TypeVar("T")


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


class Patience:
    """Asks again, until so much time is lost in all that nothing more is asked: a rack without power must not cost hours.

    most: seconds.
    """

    def __init__(self, most: float) -> None:
        self._lost, self._most = 0.0, most

    def _bounded(self, doing: str, way: t.Callable[[t.Callable[[], T]], t.Any], ask: t.Callable[[], T]) -> t.Any:
        """What way makes of ask. Its time counts as lost as soon as one request of it is refused."""
        if self._lost >= self._most:
            raise FabricError(
                f"cannot {doing}: not asked, {self._lost:.0f} s are lost already to requests that nobody answered",
                "See why the API server, or the kubelets behind it, do not answer, then run again",
            )
        begun = time.monotonic()
        refused: list[FabricError] = []

        def once() -> T:
            try:
                return ask()
            except FabricError as exc:
                refused.append(exc)
                raise

        try:
            return way(once)
        finally:
            if refused:
                self._lost += time.monotonic() - begun

    def once(self, doing: str, ask: t.Callable[[], T]) -> T:
        """What ask returns, asked once. doing: for the error that says that it is not."""
        return t.cast(T, self._bounded(doing, lambda ask: ask(), ask))

    def ask(self, doing: str, ask: t.Callable[[], T]) -> T:
        """What ask returns, asked patiently."""
        return t.cast(T, self._bounded(doing, patiently, ask))

    def make(self, doing: str, make: t.Callable[[], t.Any], there: t.Callable[[], bool]) -> None:
        """make_patiently()."""
        self._bounded(doing, partial(make_patiently, there=there), make)

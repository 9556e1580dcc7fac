# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking once more what a busy API server, or the kubelet behind it, did not answer. Private to the collection."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["PATIENCE", "code_of", "make_patiently", "patiently"]

T = t.TypeVar("T")

# Requests without an answer one after the other, before somebody gives up.
PATIENCE = 3
_PAUSE_SECONDS = 2.0


def code_of(exc: FabricError) -> int:
    """The HTTP status of a refusal, 0 where there was no answer."""
    return int(getattr(exc, "code", 0))


def patiently(ask: t.Callable[[], T]) -> T:
    """What ask returns; asked up to PATIENCE times, as long as nobody refuses for good."""
    for _number in range(1, PATIENCE):
        try:
            return ask()
        except FabricError as exc:
            if not getattr(exc, "passing", False):
                raise
        time.sleep(_PAUSE_SECONDS)
    return ask()


def make_patiently(make: t.Callable[[], t.Any]) -> None:
    """The same for an object of a name that nobody else uses: one that is there the second time (409) has been made the first time."""
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        try:
            make()
        except FabricError as exc:
            if asked == 1 or code_of(exc) != 409:
                raise

    patiently(ask)

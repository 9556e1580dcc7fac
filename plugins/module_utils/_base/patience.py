# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking once more what a busy API server, or the kubelet behind it, did not answer. Private to the collection."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["PATIENCE", "code_of", "passing", "patiently"]

T = t.TypeVar("T")

# Requests without an answer one after the other, before somebody gives up.
PATIENCE = 3
_PAUSE_SECONDS = 2.0


def code_of(exc: FabricError) -> int:
    """The HTTP status of a refusal, 0 where there was no answer."""
    return int(getattr(exc, "code", 0))


def passing(exc: FabricError) -> bool:
    """Whether the same request may go well in a moment. Not one that has been asked again already, as the server wanted it."""
    return bool(getattr(exc, "passing", False)) and not getattr(exc, "later", 0)


def patiently(
    ask: t.Callable[[], T],
    passes: t.Callable[[t.Any], bool] = passing,
    tries: int = PATIENCE,
    pause: float = _PAUSE_SECONDS,
) -> T:
    """What ask returns; asked up to `tries` times as long as its refusals pass, `pause` seconds apart, or as many as the server wants."""
    for _number in range(1, tries):
        try:
            return ask()
        except FabricError as exc:
            if not passes(exc):
                raise
            wanted = float(getattr(exc, "later", 0))
        time.sleep(max(pause, wanted))
    return ask()

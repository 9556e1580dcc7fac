# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python's collector of cycles, left alone while the facts of a whole cluster are gone through. Private to the collection."""

from __future__ import annotations

import contextlib
import gc
import typing as t

__all__ = ["paused"]


@contextlib.contextmanager
def paused() -> t.Iterator[None]:
    """Collects no cycles meanwhile, in this process.

    The collector starts after so and so many new objects, and looks through all that there are. With the facts of thousands of hosts in
    memory that takes as long as the plan itself, and finds nothing: facts and plans have no cycles.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()

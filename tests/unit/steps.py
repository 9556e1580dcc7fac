# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What code costs, in steps of the interpreter: a machine that is busy takes any time."""

from __future__ import annotations

import sys
import typing as t
from types import FrameType

Result = t.TypeVar("Result")


def counted(call: t.Callable[[], Result]) -> tuple[Result, int]:
    """(what a call returns, how many bytecodes it runs). What C does in one of them is one step."""
    steps = 0

    def trace(frame: FrameType, event: str, _what: object) -> t.Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, steps

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an output of a program says went wrong, in words. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["Finding", "explained", "head"]

# What a node sends is read line by line, and what no program prints is cut off. NCCL_DEBUG=INFO on 72 GPUs prints some hundred kB.
_MOST_OUTPUT = 2 << 20
_MOST_LINES = 40000
_MOST_LINE = 500


class Finding(t.NamedTuple):
    """cause: in words; remedy: what to do; line: what the program said, '' when it said nothing."""

    cause: str
    remedy: str
    line: str


def head(text: str) -> list[str]:
    """The lines of an output that are read: its beginning, and the beginning of each line."""
    return [line[:_MOST_LINE] for line in text[:_MOST_OUTPUT].splitlines()[:_MOST_LINES]]


def explained(causes: t.Sequence[tuple[str, str, str]], text: str) -> t.Iterator[Finding]:
    """A finding for each (pattern, cause, remedy) of a table that is in a text, once, with the line where it is first."""
    for pattern, cause, remedy in causes:
        found = re.search(pattern, text)
        if found:
            start = text.rfind("\n", 0, found.start()) + 1
            line = text[start:].split("\n", 1)[0].strip()
            values = {key: value or "" for key, value in found.groupdict().items()}
            yield Finding(cause.format(found.group(), **values), remedy, line[:_MOST_LINE])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log: its records, and how fast it grows. Private to the collection."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
import typing as t

__all__ = ["LogGrowth", "lines_since", "measure_log", "open_at_end", "parse_kmsg"]

_LOG = "/dev/kmsg"
# What a log that never ends is read for.
_READING_SECONDS = 5

# A record: "priority,sequence,microseconds,flags[,...];text" (kernel Documentation/ABI/testing/dev-kmsg).
_RECORD = re.compile(rb"\d+,(\d+),\d+,[^;]*;([^\n]*)")


class LogGrowth(t.NamedTuple):
    """Records that the kernel's log grew by, in how many seconds, and the text that came most often, and how many times."""

    records: int
    seconds: float
    text: str
    times: int


def parse_kmsg(record: bytes) -> t.Optional[tuple[int, str]]:
    """(sequence number, text) of a record of /dev/kmsg."""
    found = _RECORD.match(record)
    return (int(found.group(1)), found.group(2).decode("utf-8", "replace")) if found else None


def _records(handle: int, deadline: float) -> t.Iterator[tuple[int, str]]:
    """Up to the last record that there is, or was at the deadline: a writer may be faster than we are."""
    while time.monotonic() < deadline:
        try:
            found = parse_kmsg(os.read(handle, 8192))
        except BlockingIOError:
            break
        except OSError as exc:
            # EPIPE: records were overwritten before we came to them; reading goes on with the oldest that is left.
            # EINVAL: a record longer than what we read.
            if exc.errno not in (errno.EPIPE, errno.EINVAL):
                raise
            continue
        if found:
            yield found


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_at_end(path: str = _LOG) -> t.Optional[int]:
    """The log from now on, for lines_since(); None where it may not be read. The caller closes it."""
    try:
        handle = _open(path)
    except OSError:
        return None
    try:
        os.lseek(handle, 0, os.SEEK_END)
    except OSError:
        os.close(handle)
        return None
    return handle


def lines_since(handle: int, most: int = 200) -> list[str]:
    """What was logged since open_at_end(), so many lines of it; fewer where reading fails on the way."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        for _number, text in itertools.islice(_records(handle, time.monotonic() + _READING_SECONDS), most):
            lines.append(text)
    return lines


def _last(handle: int, texts: t.Optional[dict[str, int]] = None) -> t.Optional[int]:
    """The last sequence number. texts: how often each text came, which is added to."""
    last = None
    for number, said in _records(handle, time.monotonic() + _READING_SECONDS):
        last = number
        if texts is not None and len(texts) < 1000:
            # numbers differ from line to line
            text = re.sub(r"0x[0-9a-f]+|\d+", "N", said)
            texts[text] = texts.get(text, 0) + 1
    return last


def measure_log(seconds: float, path: str = _LOG) -> LogGrowth:
    """How much the kernel's log grows in a time. Counted by sequence numbers: also what is overwritten unread is counted.

    OSError when the log cannot be read (needs CAP_SYSLOG).
    """
    handle = _open(path)
    try:
        first = _last(handle)
        start = time.monotonic()
        time.sleep(seconds)
        texts: dict[str, int] = {}
        last = _last(handle, texts)
        elapsed = time.monotonic() - start
    finally:
        os.close(handle)
    text, count = max(texts.items(), key=lambda item: item[1], default=("", 0))
    return LogGrowth(0 if last is None else last - (-1 if first is None else first), elapsed, text[:200], count)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log: its records, and how fast it grows. Private to the collection."""

from __future__ import annotations

import errno
import os
import re
import time
import typing as t

__all__ = ["LogGrowth", "measure_log", "parse_kmsg"]

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


def _read_all(handle: int, deadline: float, texts: t.Optional[dict[str, int]]) -> t.Optional[int]:
    """The last sequence number there is, or was at the deadline: a writer may be faster than we are."""
    last = None
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
            last = found[0]
            if texts is not None and len(texts) < 1000:
                # numbers differ from line to line
                text = re.sub(r"0x[0-9a-f]+|\d+", "N", found[1])
                texts[text] = texts.get(text, 0) + 1
    return last


def measure_log(seconds: float, path: str = "/dev/kmsg") -> LogGrowth:
    """How much the kernel's log grows in a time. Counted by sequence numbers: also what is overwritten unread is counted.

    OSError when the log cannot be read (needs CAP_SYSLOG).
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        first = _read_all(handle, time.monotonic() + 5, None)
        start = time.monotonic()
        time.sleep(seconds)
        texts: dict[str, int] = {}
        last = _read_all(handle, time.monotonic() + 5, texts)
        elapsed = time.monotonic() - start
    finally:
        os.close(handle)
    text, count = max(texts.items(), key=lambda item: item[1], default=("", 0))
    return LogGrowth(0 if last is None else last - (-1 if first is None else first), elapsed, text[:200], count)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log: its records, what came since, and how fast it grows."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare import kernel_log as _log
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.kernel_log import (
    lines_since,
    measure_log,
    open_at_end,
    parse_kmsg,
)


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *answers: bytes | int) -> str:
    """The path of a log that gives these records, or errors, one after the other."""
    left = iter(answers)

    def read(_handle: int, _size: int) -> bytes:
        answer = next(left)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    monkeypatch.setattr(_log.os, "read", read)
    (tmp_path / "kmsg").write_bytes(b"old")
    return str(tmp_path / "kmsg")


@pytest.mark.parametrize(
    ("record", "parsed"),
    [
        (b"6,339,5140900,-;NET: Registered protocol family 10\n", (339, "NET: Registered protocol family 10")),
        (b"30,340,5690716,-;udevd[80]: starting\n SUBSYSTEM=acpi\n", (340, "udevd[80]: starting")),
        (b"4,1,2,-,caller=T1;x\xff\n", (1, "x�")),
        (b"4,1,2,-;\n", (1, "")),
        (b"nonsense\n", None),
        (b"", None),
    ],
)
def test_a_record_of_the_kernel_has_a_number_and_a_text(record: bytes, parsed: tuple[int, str] | None) -> None:
    assert parse_kmsg(record) == parsed


def record(number: int, text: str) -> bytes:
    return b"6,%d,1,-;%s\n" % (number, text.encode())


@pytest.mark.parametrize(
    ("before", "after", "records", "text"),
    [
        ([record(7, "old")], [], 0, ""),
        ([], [], 0, ""),
        ([], [record(0, "first")], 1, "first"),
        ([record(7, "old")], [record(8, "a"), record(9, "at 0x1f"), record(10, "at 0x2e")], 3, "at N"),
        # overwritten before anybody read them: counted all the same
        ([record(7, "old")], [errno.EPIPE, record(5000, "flood 5000"), record(5001, "flood 5001")], 4994, "flood N"),
        ([record(7, "old")], [errno.EINVAL, record(9, "b")], 2, "b"),
    ],
)
def test_a_log_is_measured_by_the_records_of_a_window(
    before: list[bytes | int],
    after: list[bytes | int],
    records: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = played(tmp_path, monkeypatch, *before, errno.EAGAIN, *after, errno.EAGAIN)
    growth = measure_log(0.01, path)
    assert (growth.records, growth.text) == (records, text)
    assert growth.seconds >= 0.01


def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="kmsg"):
        measure_log(0, str(tmp_path / "kmsg"))


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        ([errno.EAGAIN], []),
        ([record(7, "a"), b"nonsense", record(8, "b"), errno.EAGAIN], ["a", "b"]),
        # overwritten, or too long: reading goes on
        ([errno.EPIPE, record(7, "a"), errno.EINVAL, record(8, "b"), errno.EAGAIN], ["a", "b"]),
        # what was read before it failed counts
        ([record(7, "a"), errno.EPERM], ["a"]),
        ([record(number, "flood") for number in range(999)], ["flood"] * 200),
    ],
)
def test_what_was_logged_since_is_read(
    answers: list[bytes | int], lines: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handle = open_at_end(played(tmp_path, monkeypatch, *answers))
    assert handle is not None
    try:
        assert os.lseek(handle, 0, os.SEEK_CUR) == len(b"old"), "what is there is not read"
        assert lines_since(handle) == lines
    finally:
        os.close(handle)


def test_a_log_that_may_not_be_read_is_none(tmp_path: Path) -> None:
    assert open_at_end(str(tmp_path / "kmsg")) is None
    os.mkfifo(tmp_path / "pipe")
    # which has no end to go to
    assert open_at_end(str(tmp_path / "pipe")) is None

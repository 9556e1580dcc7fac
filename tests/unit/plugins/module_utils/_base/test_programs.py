# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import selectors
import signal
import sys
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base import programs
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program


def shell(text: str, **more: str) -> tuple[int, str, str]:
    return run_program(["/bin/sh", "-c", text], **more)


def test_status_output_and_errors_are_reported() -> None:
    assert shell("echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
    assert shell("kill -TERM $$")[0] == -15


def test_a_program_speaks_english_in_the_root_directory_and_is_asked_nothing() -> None:
    assert shell("pwd; echo $LC_ALL $MORE; cat", MORE="more") == (0, "/\nC more\n", "")


def test_bytes_that_are_no_text_are_kept_or_replaced() -> None:
    assert shell(r"printf 'a\377'")[1] == "a\udcff"
    assert shell(r"printf 'a\377'", errors="replace")[1] == "a\ufffd"


def test_much_output_on_both_is_read_whole() -> None:
    text = "import os; [os.write(n, b'x' * 65537) for _ in range(16) for n in (1, 2)]"
    status, output, error = run_program([sys.executable, "-c", text])
    assert (status, len(output), len(error)) == (0, 16 * 65537, 16 * 65537)


def test_nothing_is_lost_where_the_reader_is_kept_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program writes and ends after the reader has seen nothing, and before it asks whether the program has ended."""

    class Busy(selectors.DefaultSelector):
        waits = 2

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if self.waits:
                self.waits -= 1
                time.sleep(1)
                return []
            return super().select(timeout)

    monkeypatch.setattr(programs.selectors, "DefaultSelector", Busy)
    assert shell("sleep 1.5; echo out; echo err >&2") == (0, "out\n", "err\n")


@pytest.mark.parametrize("before", ["", "sleep 0.2;", "sleep 1;"])
def test_nothing_is_lost_where_the_reader_is_stopped(before: str) -> None:
    program = t.cast("str", programs.__file__)
    reader = (
        "import runpy, sys; run = runpy.run_path(sys.argv[1])['run_program']\n"
        "print(run(['/bin/sh', '-c', sys.argv[2]]))"
    )
    stops = f"{before} kill -STOP $PPID; (sleep 0.5; kill -CONT $PPID) > /dev/null 2>&1 & echo out"
    assert run_program([sys.executable, "-c", reader, program, stops]) == (0, "(0, 'out\\n', '')\n", "")


def test_what_a_program_leaves_behind_is_not_waited_for() -> None:
    begun = time.monotonic()
    status, output, error = shell("sleep 300 & echo $!")
    os.kill(int(output), signal.SIGKILL)
    assert (status, error) == (0, "")
    assert time.monotonic() - begun < limit(60)


def test_a_program_that_is_not_there_is_an_error_with_its_name() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run_program(["/nowhere/program"])

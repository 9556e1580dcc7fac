# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forked process tells what a fresh one would, and what goes wrong in one costs no other."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.forked import python


def assert_well() -> None:
    assert python("print('well')", [], limit(60)) == (0, "well\n", "")


def test_a_process_has_its_code_arguments_and_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRIC_RDMA_TEST", "here")
    code = "import os, sys; print(os.environ['FABRIC_RDMA_TEST'], os.getcwd(), *sys.argv[1:]); print('no', file=sys.stderr); sys.exit(3)"
    assert python(code, ["a", "b"], limit(60)) == (3, f"here {tmp_path} a b\n", "no\n")
    code, _out, said = python("raise ValueError('broken')", [], limit(60))
    assert (code, said.splitlines()[-1]) == (1, "ValueError: broken")
    assert python("import os; os.kill(os.getpid(), 9)", [], limit(60))[0] == -signal.SIGKILL
    assert python("import atexit; atexit.register(print, 'cleaned up')", [], limit(60))[1] == "cleaned up\n"


def test_what_a_process_leaves_behind_is_ended_and_told() -> None:
    with pytest.raises(AssertionError, match="outlives it"):
        python("import subprocess; subprocess.Popen(['sleep', '300'])", [], limit(60))
    assert_well()


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    code = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); time.sleep(300)"
    with pytest.raises(subprocess.TimeoutExpired):
        python(code, [], limit(5))
    end = time.monotonic() + limit(60)
    while Path("/proc", (tmp_path / "pid").read_text()).exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()
    assert_well()


def test_a_process_that_ends_its_parent_costs_no_other() -> None:
    with pytest.raises(AssertionError, match="ended the process that started it"):
        python("import os, time; os.kill(os.getppid(), 9); time.sleep(1)", [], limit(60))
    assert_well()

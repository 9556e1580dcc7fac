# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: what it ends, removes and says. (That its nodes boot is molecule's to prove.)"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import a_lab, spec


def test_absent_leaves_a_foreign_process_and_foreign_files_alone(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        try:
            mine = a_lab(directory, foreign.pid)
            (directory / "notes.txt").write_text("somebody's")
            assert mine.status().nodes[0].running is False
            assert mine.absent(check=True).changed is True
            assert (directory / "state.json").exists()
            result = mine.absent()
            assert (result.changed, result.before, result.after) == (True, ["lab1 stopped 198.51.100.1"], [])
            assert foreign.poll() is None
            assert [path.name for path in directory.iterdir()] == ["notes.txt"]
            assert mine.absent().changed is False
        finally:
            foreign.kill()


def test_absent_ends_our_process_and_removes_the_directory(tmp_path: Path) -> None:
    directory = (tmp_path / "lab").resolve()
    program = tmp_path / "qemu-system-x86_64"
    program.symlink_to("/bin/sh")
    # The arguments are what counts; sh takes what follows its script as parameters.
    command = [str(program), "-c", "sleep 60; :", "sh", "-pidfile", str(directory / "lab1/qemu.pid")]
    with subprocess.Popen(command) as process:
        mine = a_lab(directory, process.pid)
        # For a moment after exec(2) the kernel shows no arguments yet.
        deadline = time.monotonic() + limit(10)
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mine.status().nodes[0].pid == process.pid
        assert mine.absent().changed is True
        assert process.wait(limit(5)) < 0
    assert not directory.exists()


def test_an_engine_that_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "container_trouble", lambda: "containers that boot need root")
    told: list[str] = []
    mine, notes = Lab(str(tmp_path), told.append), list[str]()
    assert mine._engine(spec(tmp_path), notes) == "qemu"
    assert (notes, told) == ([], [])
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "qemu"
    assert notes == ["virtual machines: containers that boot need root"]
    assert told == ["lab: nodes are virtual machines, since containers that boot need root"]
    with pytest.raises(
        LabError, match=r"cannot be containers here: containers that boot need root; use engine: qemu, or auto"
    ):
        mine._engine(spec(tmp_path, engine="container"), notes)
    monkeypatch.setattr(lab, "container_trouble", lambda: None)
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "container"
    assert len(notes) == 1

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import processes, state
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import (
    control_plane_runs,
    stop_control_plane,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.processes import GUARD
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import (
    COLLECTIONS,
    a_lab,
    eventually,
    gone,
    held,
)


def test_guard_kills_what_a_killed_process_has_started(tmp_path: Path) -> None:
    pidfile = tmp_path / "qemu.pid"
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)", str(pidfile)]
    for word, survives in ((b"alive", True), (b"", False)):
        with subprocess.Popen(sleeper) as process:
            pidfile.write_text(str(process.pid))
            command = [sys.executable, "-I", "-c", GUARD, str(pidfile), str(pidfile)]
            subprocess.run(command, input=word, check=True, timeout=limit(30))
            assert (process.poll() is None) is survives
            process.kill()


def test_no_control_plane_is_left_of_a_lab_whose_start_was_killed(tmp_path: Path) -> None:
    """With SIGKILL, while its nodes boot."""
    mine = a_lab(tmp_path / "lab", 0)
    plane = tmp_path / "lab" / CLUSTER_DIRECTORY
    program = held(plane)
    try:
        lines = [f"from {processes.__name__} import guarded", f"from {state.__name__} import LabDirectory"]
        lines += ["import time", f"with guarded(LabDirectory({mine.directory!r}), ['lab1']):"]
        lines += ["    print('boots', flush=True)", "    time.sleep(1000)"]
        environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
        command = [sys.executable, "-c", "\n".join(lines)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == b"boots\n"
            starter.kill()
        assert eventually(lambda: gone(program))
        assert not control_plane_runs(str(plane))
        # what it has kept stays for the next attempt
        assert (plane / "word").exists()
    finally:
        stop_control_plane(str(plane), patience=limit(30))

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of nodes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.processes import GUARD


def test_guard_kills_what_a_killed_process_has_started(tmp_path: Path) -> None:
    pidfile = tmp_path / "qemu.pid"
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)", str(pidfile)]
    for word, survives in ((b"alive", True), (b"", False)):
        with subprocess.Popen(sleeper) as process:
            pidfile.write_text(str(process.pid))
            subprocess.run([sys.executable, "-I", "-c", GUARD, str(pidfile)], input=word, check=True, timeout=limit(30))
            assert (process.poll() is None) is survives
            process.kill()

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ratios of whole runs of playbooks: all rows for `make benchmark`, or those of SIZES; a few hosts for `make bounds`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.benchmark
def test_the_playbooks_keep_their_bounds(capfd: pytest.CaptureFixture[str]) -> None:
    """Rows are shown as they come: all of them take an hour or two."""
    script = Path(__file__).with_name("playbooks.py")
    generous = os.environ.get("FABRIC_RDMA_BOUNDS") == "generous"
    asked = ["--generous"] if generous else shlex.split(os.environ.get("FABRIC_RDMA_SIZES", ""))
    with capfd.disabled():
        print(flush=True)
        code = subprocess.run([sys.executable, str(script), *asked], check=False).returncode
    assert code == 0, "the rows above, or what is said below them, are the reason"

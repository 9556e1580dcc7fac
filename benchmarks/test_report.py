# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds on size and time of the report of 10,000 nodes, for `make benchmark`; generous ones for `make bounds`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.benchmark
def test_the_report_keeps_its_bounds() -> None:
    script = Path(__file__).with_name("report.py")
    generous = ["--generous"] if os.environ.get("FABRIC_RDMA_BOUNDS") == "generous" else []
    run = subprocess.run([sys.executable, str(script), *generous], capture_output=True, text=True, check=False)
    print(run.stdout, end="")
    assert run.returncode == 0, run.stdout + run.stderr

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make benchmark` measures runs, one part after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def test_no_part_is_in_the_way_of_the_next(tmp_path: Path) -> None:
    """Each has fewer hosts than the one before, of which a plan would lose some if they were of one cluster."""
    kept = tmp_path / "benchmark.json"
    sizes = ["--only", "facts,cached,site", "--hosts", "4", "--cached", "3", "--site", "2", "--json", str(kept)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "playbooks.py"), *sizes], capture_output=True, text=True, check=False
    )
    told = json.loads(kept.read_text())["playbooks"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["failures"] == []
    usual, own, *_cached, whole = told["rows"]
    assert (usual["what"].endswith("ibdev2netdev"), own["what"], own["hosts"]) == (True, "ib_facts", 4)
    assert own["compared_with"] == "commands"
    assert own["ratio"] > 0
    assert (whole["what"], whole["hosts"]) == ("site.yml under ansible-runner", 2)
    assert len(told["rows"]) == 6
    assert whole["largest_event_bytes"] > 0

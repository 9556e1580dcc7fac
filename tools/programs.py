# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the Go programs that scenarios run, where the cache has none, and starts each: Kubernetes in one, and the device plugin.

`make everything` does this at first, with the least priority beside what uses one core: what comes later finds them built.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / ".collections")]

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import (
    device_plugin_program,
    kubernetes_programs,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.tests.cluster.cluster import cache_directory, say


def starts(name: str, program: str, option: str) -> bool:
    """Whether a program says what it is."""
    done = subprocess.run(
        [program, option], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    first = (done.stdout + done.stderr).strip().partition("\n")[0]
    print(f"  {name:<24} {first}")
    return done.returncode == 0 and any(character.isdigit() for character in first)


def main() -> int:
    try:
        cache = str(cache_directory())
        rows = [(name, path, "--version") for name, path in kubernetes_programs(cache, say, lambda: None).items()]
        rows.append(("device plugin", device_plugin_program(cache, say, lambda: None), "-version"))
    except LabError as exc:
        say(f"error: {exc}")
        return 1
    wrong = [name for name, path, option in rows if not starts(name, path, option)]
    print(f"programs: {len(rows) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

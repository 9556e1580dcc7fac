# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time limits of tests, on a machine that does other things too: longer by how much longer it took to start what is tested.

A limit is written for two cores that have nothing else to do. The factor is measured once: by what the nodes of the lab took to
boot, by what the control plane took to start, or where neither is there by what a few processes take. It is never below 1, nor below
FABRIC_RDMA_PACE_LEAST, which is set where more will be going on later than when it is measured. Nodes get it in FABRIC_RDMA_PACE.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
import typing as t

# What each takes on two cores that have nothing else to do: two emulated nodes, a control plane, three interpreters.
BOOT_SECONDS = 40.0
START_SECONDS = 7.0
PROCESSES_SECONDS = 0.15
# Where even this is not enough, something hangs.
MOST = 20.0


def _seconds(path: str, key: str) -> t.Optional[float]:
    """A number that a file has under a key; None where there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream).get(key)
    except (OSError, ValueError, AttributeError):
        return None
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _processes() -> float:
    started = time.monotonic()
    for _number in range(3):
        subprocess.run([sys.executable, "-I", "-c", "import json, subprocess"], check=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - started


@functools.lru_cache(maxsize=None)
def factor() -> float:
    """How many times as long as on an idle machine everything takes here."""
    given = os.environ.get("FABRIC_RDMA_PACE")
    if given:
        return float(given)
    for variable, file, key, nominal in (
        ("FABRIC_RDMA_LAB", "state.json", "boot_seconds", BOOT_SECONDS),
        ("FABRIC_RDMA_CLUSTER", "started.json", "start_seconds", START_SECONDS),
    ):
        directory = os.environ.get(variable)
        seconds = _seconds(os.path.join(directory, file), key) if directory else None
        if seconds is not None:
            return _bounded(seconds / nominal)
    return _bounded(_processes() / PROCESSES_SECONDS)


def _bounded(measured: float) -> float:
    least = float(os.environ.get("FABRIC_RDMA_PACE_LEAST") or 1)
    return round(min(max(measured, least, 1.0), MOST), 2)


def limit(seconds: float) -> float:
    """A time limit for an idle machine as the one for this machine."""
    return seconds * factor()

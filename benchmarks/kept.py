# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of all measurements in one file, each with the machine on which it was taken, and of which sources."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import subprocess
import typing as t
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"


def place(generous: bool) -> Path:
    """Where figures are kept: the few hosts of make test do not take the place of what was measured before."""
    return CACHE / ("bounds.json" if generous else "benchmark.json")


def revision(root: Path = ROOT) -> t.Optional[str]:
    """The commit of the sources, with a plus where they differ from it; None outside of a checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@functools.lru_cache(maxsize=1)
def machine() -> dict[str, t.Any]:
    """What the figures are measured on; the load is that before the first of them."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "processors": os.cpu_count(),
        "model": models[0] if models else platform.processor(),
        "memory_mb": int(total.split()[1]) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "revision": revision(),
        "ansible": importlib.metadata.version("ansible-core"),
        "load_before": os.getloadavg()[0],
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def keep(path: Path, measurement: str, **figures: t.Any) -> None:
    """Puts the figures of one measurement in the place of its earlier ones; those of others stay, also where it is ended meanwhile."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[measurement] = {"machine": machine(), **figures}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(known, indent=1) + "\n")
    beside.replace(path)

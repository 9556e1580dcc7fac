# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what ib_facts itself costs on a node with eight HCAs and eight GPUs: its own code and the reads, on real files.

python benchmarks/ib_facts.py             exits 1 when the median of 50 runs is above the bound
python benchmarks/ib_facts.py --generous  above ten times the bound, as a part of make test
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.benchmarks.kept import keep, place
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import load_listing, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import SUBSETS, gather

CAPTURE = ROOT / "tests" / "captures" / "roce-rails-1.capture"
# What is on PCI and in the kernel has the bound; runtime, limits and storage come on top, and are told.
BOUNDED = ("devices", "gpus", "kernel", "management")
BOUND_MS = 10.0
RUNS = 50


def unpack(capture: Path, root: str) -> None:
    """A capture as files on a disk."""
    for path, entry in load_listing(capture.read_text(encoding="utf-8"), capture.name).items():
        place = root + path
        os.makedirs(place if entry.kind == "d" else os.path.dirname(place), exist_ok=True)
        if entry.kind == "l":
            os.symlink(entry.target, place)
        elif entry.kind == "f":
            Path(place).write_bytes(entry.data)


def run(root: str, subsets: tuple[str, ...] = BOUNDED) -> tuple[float, int]:
    """Milliseconds of one discovery, and how many devices it found: the processor's time, which a busy machine does not change."""
    start = time.process_time()
    facts = gather(open_tree(root), subsets)
    return (time.process_time() - start) * 1000, len(facts["devices"])


def main() -> int:
    generous = "--generous" in sys.argv[1:]
    bound = BOUND_MS * (10 if generous else 1)
    with tempfile.TemporaryDirectory() as root:
        unpack(CAPTURE, root)
        for _turn in range(5):
            run(root)
        gc.collect()
        times, devices = zip(*(run(root) for _turn in range(RUNS)), strict=True)
        whole = statistics.median(run(root, SUBSETS)[0] for _turn in range(RUNS))
    median = statistics.median(times)
    print(
        f"ib_facts: {devices[0]} HCAs, {RUNS} runs: median {median:.2f} ms, "
        f"best {min(times):.2f} ms, worst {max(times):.2f} ms (bound: {bound:g} ms); "
        f"with runtime, limits and storage {whole:.2f} ms"
    )
    keep(place(generous), "ib_facts", hcas=devices[0], runs=RUNS, median_ms=median, best_ms=min(times), whole_ms=whole)
    return 0 if median <= bound and set(devices) == {8} else 1


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how long the report of a large cluster takes to make, how large its page is, and how long Chromium takes to open it.

python benchmarks/report.py                 1,000 and 10,000 nodes with eight HCAs each; exits 1 beyond a bound
python benchmarks/report.py --generous      the same for a machine that does other things, too, as a part of make test
python benchmarks/report.py --nodes N       one size, as JSON, in a process of its own
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.benchmarks.kept import keep, place
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import document_of, render_json
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.metrics import render_metrics
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.browser import a_browser
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster

# Nodes: megabytes of the page, seconds until it is painted, seconds of the processor to make it.
BOUNDS = {1000: (5.0, 2.0, 20.0), 10_000: (15.0, 10.0, 200.0)}
GENEROUS_NODES = (1000,)
GENEROUS_FACTOR = 6.0
# The first page that a browser opens also starts what it needs; the best of a few is what a page costs.
TIMES = 3


def measure(nodes: int) -> dict[str, Any]:
    """Sizes in megabytes, times in seconds."""
    parts = a_cluster(nodes)
    started = time.process_time()
    model = build(**parts)
    page = render_html(model)
    made = time.process_time() - started
    document = document_of(model)
    sizes = {"page": page, "json": render_json(document), "metrics": render_metrics(document)}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "report.html"
        path.write_text(page, encoding="utf-8")
        with a_browser(Path(directory)) as browser:
            browser.look()
            opened = [browser.open(path) for _time in range(TIMES)]
            assert browser.complaints() == []
            elements = browser.value("document.querySelectorAll('*').length")
    return {
        "nodes": nodes,
        **{name: len(text.encode()) / 1e6 for name, text in sizes.items()},
        "made": made,
        "first": opened[0],
        "opened": min(opened),
        "elements": elements,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--generous", action="store_true")
    chosen = parser.parse_args()
    if chosen.nodes:
        print(json.dumps(measure(chosen.nodes)))
        return 0
    factor = GENEROUS_FACTOR if chosen.generous else 1.0
    good, rows = True, []
    print("  nodes  page MB  JSON MB  metrics MB  CPU s  elements  first s  opened s  peak MB")
    for nodes in GENEROUS_NODES if chosen.generous else BOUNDS:
        # what goes wrong there is shown here
        command = [sys.executable, __file__, "--nodes", str(nodes)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        rows.append(found)
        megabytes, seconds, made = BOUNDS[nodes]
        print(
            f"{nodes:7d} {found['page']:8.2f} {found['json']:8.2f} {found['metrics']:11.2f} {found['made']:6.1f} "
            f"{found['elements']:9d} {found['first']:8.2f} {found['opened']:9.2f} {found['mb']:8.0f}   "
            f"(bounds: {megabytes:g} MB, {seconds * factor:g} s to open, {made * factor:g} s to make)",
            flush=True,
        )
        good &= found["page"] <= megabytes and found["opened"] <= seconds * factor and found["made"] <= made * factor
    keep(place(chosen.generous), "report", rows=rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

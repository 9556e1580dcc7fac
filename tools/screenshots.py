# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take pictures of reports on made-up clusters: light, dark, on a phone, printed. `make screenshots` installs the browser first.

usage: python tools/screenshots.py [--nodes 2,72,1000] [--page report.html] [--out out/screenshots]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.browser import DESK, PHONE, Browser, a_browser
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history

LOOKS = {"light": (False, DESK), "dark": (True, DESK), "phone": (False, PHONE)}


def take(browser: Browser, page: Path, out: Path) -> bool:
    """All pictures of a page; whether its console stayed silent."""
    said: list[str] = []
    for look, (dark, width) in LOOKS.items():
        browser.look(dark, width)
        seconds = browser.open(page)
        said += browser.complaints()
        path = out / f"{page.stem}-{look}.png"
        browser.screenshot(path)
        print(
            f"{path}: {path.stat().st_size / 1e6:.2f} MB, the page ({page.stat().st_size / 1e6:.2f} MB) was there after {seconds:.2f} s"
        )
    browser.look()
    browser.open(page)
    browser.printed(out / f"{page.stem}.pdf")
    for text in said:
        print(f"console: {text}", file=sys.stderr)
    return not said


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", default="2,72,1000", help="sizes of the clusters")
    parser.add_argument("--page", type=Path, action="append", help="a page that is there, in place of made-up ones")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "screenshots")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    pages = chosen.page or []
    for nodes in () if pages else map(int, chosen.nodes.split(",")):
        model, _document = a_history(a_cluster(nodes))
        pages.append(chosen.out / f"{nodes}-nodes.html")
        pages[-1].write_text(render_html(model), encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory, a_browser(Path(directory)) as browser:
        silent = [take(browser, page, chosen.out) for page in pages]
    return 0 if all(silent) else 1


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take pictures of reports on made-up clusters: light, dark, on a phone, printed. `make screenshots` installs the browser first.

usage: python tools/screenshots.py [--nodes 2,72,1000] [--page report.html] [--out out/screenshots]
       python tools/screenshots.py --documentation     the picture in README.md and docs/report.md
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.browser import DESK, PHONE, Browser, a_browser
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history

PICTURE = ROOT / "docs" / "report.webp"
# Of what the picture was taken (made_of): a test tells when the page has become another one.
DIGEST = ROOT / "docs" / "report.webp.page"
# Of this picture: nodes of the cluster, width and height of what is seen, bytes at most.
NODES, WIDTH, HEIGHT, MOST = 12, 1000, 760, 200_000
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


def pictured() -> str:
    """The page that the documentation shows: of the same cluster, with the same times and versions, always."""
    return render_html(a_history(a_cluster(NODES))[0])


def made_of(page: str) -> str:
    """A digest of all that the picture shows, or is cut off by its end: the styles, and the page up to the end of its first section."""
    seen, end, _rest = page.partition("</section>")
    assert end
    return hashlib.sha256(f"{WIDTH} {HEIGHT} {seen}".encode()).hexdigest()


def take_picture(directory: Path, browser: Browser) -> int:
    """The beginning of a report, as the documentation shows it."""
    page = directory / "report.html"
    page.write_text(pictured(), encoding="utf-8")
    browser.look(width=WIDTH)
    browser.open(page)
    browser.screenshot(PICTURE, HEIGHT, "webp")
    DIGEST.write_text(f"{made_of(pictured())}\n")
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size / 1e3:.0f} kB")
    return 0 if size < MOST else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", default="2,72,1000", help="sizes of the clusters")
    parser.add_argument("--page", type=Path, action="append", help="a page that is there, in place of made-up ones")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "screenshots")
    parser.add_argument("--documentation", action="store_true", help="the picture in the documentation only")
    chosen = parser.parse_args()
    if chosen.documentation:
        with tempfile.TemporaryDirectory() as directory, a_browser(Path(directory)) as browser:
            return take_picture(Path(directory), browser)
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

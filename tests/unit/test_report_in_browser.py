# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser (profile browser of bindep.txt): silent console, what matters is there, readable, on a phone too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.browser import DESK, PHONE, Browser, a_browser
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history

pytestmark = pytest.mark.parts

# Text whose contrast to what is behind it is below what WCAG 2 asks of text of its size (4.5, large text 3), once a colour.
CONTRAST = """
(() => {
  const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = {};
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
    if (!own || node.closest("svg") || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    let behind = [255, 255, 255], up = node;
    for (; up; up = up.parentElement) {
      const colour = parts(getComputedStyle(up).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) { behind = colour; break; }
    }
    const [one, two] = [light(parts(style.color)), light(behind)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((one + 0.05) / (two + 0.05) < (large ? 3 : 4.5)) found[`${style.color} on ${behind}`] = node.textContent.trim().slice(0, 40);
  }
  return JSON.stringify(found);
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with a_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module", params=[2, 72, 1000])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    path.write_text(render_html(a_history(a_cluster(request.param))[0]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("dark", "width"), [(False, DESK), (True, DESK), (False, PHONE)], ids=["light", "dark", "phone"]
)
def test_a_page_is_silent_complete_and_readable(browser: Browser, page: Path, dark: bool, width: int) -> None:
    browser.look(dark, width)
    browser.open(page)
    assert browser.complaints() == []
    text = browser.value("document.body.innerText")
    nodes = int(page.stem)
    for words in (
        "What to do",
        "Remedy",
        "Since 2026-11-01",
        f"{nodes} of {nodes}",
        "Write bandwidth between Pods",
        "Fabric",
        "Versions",
    ):
        assert words in text, words
    # nothing sticks out to the side
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert json.loads(browser.value(CONTRAST)) == {}
    if nodes == 72:
        assert browser.value("document.querySelectorAll('svg.heat path.h5').length") > 0
        assert browser.value("document.querySelector('svg.heat path.h5').getBBox().width") > 300
        assert browser.value("document.querySelector('table.small tbody th').innerText") == "gpu-node-25"
    if width == PHONE:
        small = "[...document.querySelectorAll('body *')].filter(e => e.innerText && parseFloat(getComputedStyle(e).fontSize) < 10.5).length"
        assert browser.value(small) == 0


def test_on_paper_all_of_it_is_open_and_light(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_html(a_history(a_cluster(3))[0]), encoding="utf-8")
    browser.look(dark=True, medium="print")
    browser.open(path)
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert json.loads(browser.value(CONTRAST)) == {}
    hidden = "[...document.querySelectorAll('details > :not(summary)')].filter(e => !e.getClientRects().length).length"
    assert browser.value("document.querySelectorAll('details').length") > 0
    assert browser.value(hidden) == 0
    browser.printed(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_the_browser_tells_what_a_console_says(browser: Browser, tmp_path: Path) -> None:
    """The other tests would pass with a deaf one."""
    path = tmp_path / "loud.html"
    policy: Any = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    path.write_text(f"<!doctype html>{policy}<img src=x.png><p>text</p>")
    browser.look()
    browser.open(path)
    assert any("Content Security Policy" in text for text in browser.complaints())

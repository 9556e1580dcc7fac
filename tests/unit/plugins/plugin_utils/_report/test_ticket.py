# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown: short, and nothing but text where nodes speak."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.ticket import render_ticket
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import commands
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import measurement, model_of

# a reference to a ticket, which a page of tickets makes a link of
TICKET = f"#{12}"


def test_it_says_what_is_wrong_what_to_do_and_since_when() -> None:
    text = render_ticket(a_history(a_cluster(72))[0])
    assert len(text) < 6000
    for part in (
        "## RDMA report: ✕ Group gpu\\-roce has a problem",
        "### What to do",
        "   - Nodes: `gpu-node-05`",
        "   - Remedy: exchange the cables of mlx5\\_0 and mlx5\\_1",
        "### Since 2026\\-11\\-01 08\\:00 UTC",
        "| ✕ | `gpu-roce` | 72 of 72 | `rdma/roce_gpu1..8` |",
        "### Versions",
        "kernel `5.15.0-119-generic`",
    ):
        assert part in text, part


def test_a_command_in_a_remedy_can_be_copied_from_ticket_and_page() -> None:
    model = build(**a_cluster(6))
    command = "lspci -vv -s 0000:0d:00.0 | grep -e LnkSta -e LnkCap"
    assert f"look for errors of its slot \\(`{command}`" in render_ticket(model)
    assert f"<code>{command}</code>" in render_html(model)
    for text in ("a ` b", "a `` b", "`a` b `"):
        assert commands(text) == [text]


def test_a_report_without_findings_is_short(sample: dict[str, Any]) -> None:
    text = render_ticket(model_of(sample))
    assert "### What to do" not in text
    assert text.startswith("## RDMA report: ✓ Group ib\\-a100 is ready\n\n3 of 3 nodes have a usable port.")
    assert render_ticket(build({}, {}, [], {})).startswith("## RDMA report: ! No RDMA group to report on")


def test_hostile_text_is_no_markup_mention_or_link(sample: dict[str, Any]) -> None:
    hostile = f"<img src=x> ![a](http://e.x/p.png) [l](//e.x) `c` **b** @team {TICKET} | www.e.x \u202e\n# head\n- item"
    sample["evidence"][0]["tests"] = [measurement("ib-a100-1", "ib-a100-3", 1.0, "fail")]
    sample["evidence"][0]["tests"][0].update(message=hostile, remedy=hostile)
    sample["groups"] = {hostile: sample["groups"]["ib-a100"]}
    sample["evidence"][0]["group"] = hostile
    text = render_ticket(model_of(sample))
    assert "\u202e" not in text
    # outside code spans, which hold no backtick of others, each character of markup is escaped
    outside = re.sub(r"`[^`\n]*`", "", re.sub(r"\\`", "", text))
    for forbidden in ("@team", TICKET, "http:", "www.e"):
        assert forbidden not in outside
    for line in outside.splitlines():
        if not line.startswith("|"):
            assert not re.search(r"(?<!\\)[<>\[\]|]|(?<!\\)!\\?\[|https?:[^\\]|`", line), line
    assert [line for line in text.splitlines() if line.startswith(("# ", "- item"))] == []

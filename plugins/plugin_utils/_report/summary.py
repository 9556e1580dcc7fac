# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a few lines for a terminal. Private to the collection. Pure."""

from __future__ import annotations

import textwrap

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    STATES,
    WORSE,
    Json,
)

__all__ = ["SUMMARY_WIDTH", "render_summary"]

SUMMARY_WIDTH = 100
_MAX_NOTES = 8


def render_summary(model: Json) -> str:
    """At most 100 columns: a headline, a line for each group, the most important notes."""
    verdict = model["verdict"]
    lines = [
        _fit(f"{_symbol(verdict)}  {verdict['text']}", SUMMARY_WIDTH),
        *textwrap.wrap(verdict["detail"], SUMMARY_WIDTH, initial_indent="   ", subsequent_indent="   "),
    ]
    for block in (_table(model["groups"]), _notes(model)):
        if block:
            lines += ["", *block]
    return "\n".join(lines) + "\n"


def _symbol(item: Json) -> str:
    return STATES[item["state"]]["symbol"]


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _table(groups: list[Json]) -> list[str]:
    """A line for each group, below a head."""
    if not groups:
        return []
    rows = [("", "group", "nodes", "resource", "selected", "measured")]
    for group in groups:
        partly = group["planned"] and group["ready"] != group["hosts"]
        nodes = f"{group['ready']}/{group['hosts']}" if partly else str(group["hosts"])
        rows.append(
            (
                _symbol(group),
                _fit(group["name"], 18),
                nodes,
                _fit(group["resource"], 22),
                _fit(group["selected_short"], 30),
                group["measured_short"],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return [
        _fit("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), SUMMARY_WIDTH)
        for row in rows
    ]


def _notes(model: Json) -> list[str]:
    """The worst of all notes, and how many more there are."""
    notes = [
        *model["failures"],
        *model["nodes"],
        *(
            {**item, "text": f"{group['name']}: {item['text']}"}
            for group in model["groups"]
            for item in group["problems"]
        ),
        *model["notes"],
    ]
    notes.sort(key=lambda note: -WORSE[note["state"]])
    lines: list[str] = []
    for note in notes[:_MAX_NOTES]:
        most = 4 if note["state"] == "bad" else 2
        wrapped = textwrap.wrap(note["text"], SUMMARY_WIDTH - 3, max_lines=most, placeholder=" …")
        lines += [(f"{_symbol(note)}  " if not row else "   ") + line for row, line in enumerate(wrapped)]
    if len(notes) > _MAX_NOTES:
        lines.append(f"   and {len(notes) - _MAX_NOTES} more, in the report")
    return lines

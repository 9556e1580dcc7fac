# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as a few lines of Markdown, for a ticket. Private to the collection. Pure.

Names and messages come from nodes. Names stand in code spans; in sentences, everything that Markdown, or the tracker that shows it,
could take for markup, a mention, a reference or a link is taken apart.
"""

from __future__ import annotations

import re

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import STATES, Json, commands, plural

__all__ = ["render_ticket"]

_MAX_FINDINGS = 10
_MAX_CHANGES = 8
_MAX_HOSTS = 6
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()|~!&:#+=^$-])")


def render_ticket(model: Json) -> str:
    """Verdict, findings with their remedies, groups, what changed since another run, versions."""
    verdict = model["verdict"]
    blocks = [
        f"## {_text(model['title'])}: {STATES[verdict['state']]['symbol']} {_text(verdict['text'])}",
        _text(verdict["detail"]),
        *_findings(model),
        *_history(model["history"]),
        _groups(model["groups"]),
        _versions(model),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _text(text: str) -> str:
    """A sentence that is nothing but text."""
    text = re.sub(r"@(?=\S)", "@ ", re.sub(r"#(?=\d)", "# ", text))
    return re.sub(r"(?i)\b(www)\.", r"\1\\.", _MARKUP.sub(r"\\\1", text))


def _code(text: str, cell: bool = False) -> str:
    """A name, as it is but for what would end the code span, or the cell."""
    text = text.replace("`", "'")
    return f"`{text.replace('|', '/') if cell else text}`"


def _marked(text: str) -> str:
    """A sentence with commands in it, each in a code span."""
    return "".join(_code(piece) if number % 2 else _text(piece) for number, piece in enumerate(commands(text)))


def _hosts(hosts: Json | None) -> str:
    if hosts is None:
        return ""
    names = hosts["names"][:_MAX_HOSTS]
    more = hosts["count"] - len(names)
    return ", ".join(_code(name) for name in names) + (f" and {more} more" if more else "")


def _findings(model: Json) -> list[str]:
    found = [each for each in model["findings"] if each["severity"] != "note"]
    if not found:
        return []
    lines = ["### What to do", ""]
    for number, each in enumerate(found[:_MAX_FINDINGS], 1):
        group = f" in {_code(each['group'])}" if each["group"] else ""
        lines.append(f"{number}. **{each['word']}**{group}: {_text(each['cause'])}")
        if each["hosts"]:
            lines.append(f"   - Nodes: {_hosts(each['hosts'])}")
        lines += [f"   - Evidence: {_marked(line)}" for line in each["evidence"][:2]]
        if each["remedy"]:
            lines.append(f"   - Remedy: {_marked(each['remedy'])}")
    more = model["more_findings"] + max(0, len(found) - _MAX_FINDINGS)
    if more:
        lines += ["", f"and {more} more, in the report"]
    return ["\n".join(lines)]


def _history(history: Json | None) -> list[str]:
    if history is None:
        return []
    lines = [f"### Since {_text(history['with'])}", ""]
    for way in ("worse", "better"):
        if history[f"count_{way}"]:
            lines.append(f"- {history[f'count_{way}']} {way}:")
            lines += [f"  - {_text(row['text'])}" for row in history[way][:_MAX_CHANGES]]
    return ["\n".join(lines if lines[2:] else [*lines, "Nothing is worse, nothing is better."])]


def _groups(groups: list[Json]) -> str:
    if not groups:
        return ""
    lines = ["| | group | usable nodes | resource | measured |", "|---|---|---|---|---|"]
    for group in groups:
        cells = [
            STATES[group["state"]]["symbol"],
            _code(group["name"], True),
            f"{group['ready']} of {group['hosts']}",
            _code(group["resource"], True),
            _text(group["measured_words"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _versions(model: Json) -> str:
    """Versions that all nodes of a group share, and how many there are of the others."""
    lines = []
    for group in model["groups"]:
        told = []
        for row in group["versions"]:
            first = row["versions"][0]["text"]
            told.append(
                f"{_text(row['what'])} {_code(first)}"
                + (f" ({plural(len(row['versions']), 'version')})" if row["differs"] else "")
            )
        if told:
            lines.append(f"- {_code(group['name'])}: {'; '.join(told)}")
    own = [f"{name} {_code(str(version))}" for name, version in model["versions"].items() if version]
    return "\n".join(["### Versions", "", *lines, *([f"- {', '.join(own)}"] if own else [])]) if lines or own else ""

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of the report says things with: harmless text, figures, host names, states. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t
from datetime import datetime, timezone

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key

__all__ = [
    "MAX_MESSAGES",
    "MOST",
    "NOTHING",
    "STATES",
    "WORSE",
    "Json",
    "ReportError",
    "as_list",
    "as_map",
    "as_maps",
    "clean",
    "commands",
    "hosts_in_words",
    "in_figures",
    "in_utc",
    "plural",
]

Json = dict[str, t.Any]

# Messages of one kind that the page shows.
MAX_MESSAGES = 12
# Host names that stand in a line before the rest is folded.
_MAX_INLINE_HOSTS = 4
_MAX_TEXT = 600

# Stands where there is no value (an en dash).
NOTHING = "\u2013"

# Control characters, lone surrogates (bytes that were not UTF-8), and characters that reorder or hide text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")

# Worst last. "info" is neither good nor bad: nothing is wrong, but traffic has not proved it.
STATES = {
    "ok": {"symbol": "✓", "word": "Ready"},
    "info": {"symbol": "i", "word": "Planned, not measured"},
    "warn": {"symbol": "!", "word": "Ready, with warnings"},
    "bad": {"symbol": "✕", "word": "Problem"},
}
WORSE = {state: position for position, state in enumerate(STATES)}

# No rate, size, time or count is near it.
MOST = 1e18


class ReportError(FabricError):
    """Input that a report cannot be made of."""


def clean(value: t.Any, limit: int = _MAX_TEXT) -> str:
    """Any value as one line of harmless text: nothing that moves a cursor, reorders letters or cannot be encoded."""
    text = _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", str(value)))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def commands(text: str) -> list[str]:
    """A text in pieces: words, a command that stood between backticks, words, and so on. One piece where backticks make no pairs."""
    pieces = text.split("`")
    return pieces if len(pieces) % 2 and all(pieces[1::2]) else [text]


def in_figures(value: t.Any) -> str:
    """A measured or nominal value with three significant digits and without a useless fraction."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NOTHING
    # also what is not finite, or no number at all
    if not abs(value) < MOST:
        return NOTHING
    if abs(value) >= 100:
        return f"{round(value)}"
    return f"{value:.3g}"


def as_map(value: t.Any) -> Json:
    return t.cast("Json", value) if isinstance(value, t.Mapping) else {}


def as_list(value: t.Any) -> list[t.Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def as_maps(value: t.Any) -> list[Json]:
    return [as_map(item) for item in as_list(value) if isinstance(item, t.Mapping)]


def hosts_in_words(names: t.Iterable[str]) -> Json:
    ordered = [clean(name, 120) for name in sorted(names, key=natural_key)]
    inline = ordered if len(ordered) <= _MAX_INLINE_HOSTS + 1 else ordered[:_MAX_INLINE_HOSTS]
    return {"count": len(ordered), "inline": ", ".join(inline), "rest": ordered[len(inline) :], "names": ordered}


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def in_utc(seconds: t.Any) -> str:
    """When a file was written, for people."""
    try:
        return datetime.fromtimestamp(float(seconds), timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return "at an unknown time"

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements between many hosts as a picture: a cell for each pair, or for blocks of pairs. Private to the collection. Pure.

The picture is made of a few paths, one for each colour, so that some hundred hosts (tens of thousands of cells) stay small. A failure
has a cross beside its colour. All that goes into the page as drawing is made of numbers here.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import Json, clean, in_figures, plural

__all__ = ["heat_map", "slowest_hosts"]

# Cells in a row. More hosts than this share them.
_MOST_CELLS = 240
# Pixels.
_MOST_WIDTH = 720
_LEAST_CELL, _MOST_CELL = 3, 22
_LETTER, _LINE = 6.2, 11
_MOST_LABEL = 14
# Parts of the median: where the colours change. The middle one is as the median is, those before it are worse.
_STEPS = (0.5, 0.8, 0.9, 0.97, 1.03)
_MOST_SLOWEST = 12
# Of pictures that are larger than so many cells, this part has to be measured: a few dots in a field say nothing.
_SMALL = 32
_LEAST_FILLED = 0.04


class _Cell(t.NamedTuple):
    band: int
    failed: bool


def heat_map(rows: t.Sequence[Json], latency: bool, unit: str, fewest: int) -> Json | None:
    """The picture of the worst result of each pair, and its legend; None for fewer hosts than that, and where nearly all of it would
    be empty. rows: as bars show them."""
    hosts = sorted({host for row in rows for host in row["hosts"]}, key=natural_key)
    values = sorted(row["value"] for row in rows if row["value"] is not None)
    if len(hosts) < fewest:
        return None
    each = -(-len(hosts) // _MOST_CELLS)
    place = {host: position // each for position, host in enumerate(hosts)}
    median = quantile(values, 0.5) if values else 1.0
    cells: dict[tuple[int, int], _Cell] = {}
    for row in rows:
        at = (place[row["hosts"][0]], place[row["hosts"][1]])
        new = _Cell(_band(row["value"], median, latency), row["state"] != "ok")
        old = cells.get(at, new)
        cells[at] = _Cell(min(old.band, new.band), old.failed or new.failed)
    across = -(-len(hosts) // each)
    if across > _SMALL and len(cells) < _LEAST_FILLED * across * across:
        return None
    size = max(_LEAST_CELL, min(_MOST_CELL, _MOST_WIDTH // across))
    labels, without = _labels(hosts, each, size)
    margin = round(max((len(label["text"]) for label in labels), default=0) * _LETTER) + 8
    return {
        "size": size,
        "margin": margin,
        "width": margin + across * size + 1,
        "height": margin + across * size + 1,
        "side": across * size,
        "hosts": len(hosts),
        "each": each,
        "labels": labels,
        "without": without,
        "bands": _bands(cells, size, median, latency, unit),
        "crosses": _crosses(cells, size),
        "failed": sum(cell.failed for cell in cells.values()),
        "cells": len(cells),
    }


def _band(value: float | None, median: float, latency: bool) -> int:
    """0: no result, then from worst to best."""
    if value is None:
        return 0
    part = (median / value if latency else value / median) if value else 0.0
    return 1 + sum(part >= step for step in _STEPS)


def _bands(cells: t.Mapping[tuple[int, int], _Cell], size: int, median: float, latency: bool, unit: str) -> list[Json]:
    """Each colour that is there: its path and what it means."""
    limits = [median / step if latency else median * step for step in _STEPS]
    far, near = ("over", "up to") if latency else ("under", "from")
    words = [f"{far} {in_figures(limits[0])}"]
    words += [f"{in_figures(limits[i])} to {in_figures(limits[i + 1])}" for i in range(len(limits) - 1)]
    words.append(f"{near} {in_figures(limits[-1])}")
    bands = []
    for band in range(len(_STEPS) + 2):
        at = sorted((row, column) for (row, column), cell in cells.items() if cell.band == band)
        if at:
            text = f"{words[band - 1]} {unit}" if band else "no result"
            note = {0: "", 5: " (as the median)"}.get(band, "")
            bands.append({"look": f"h{band}", "path": _path(at, size), "text": text + note, "count": len(at)})
    return bands


def _path(at: t.Sequence[tuple[int, int]], size: int) -> str:
    """Rectangles for cells, those beside each other in one. at: in order."""
    parts: list[str] = []
    start = last = (-2, -2)
    for cell in [*at, (-1, -1)]:
        if cell == (last[0], last[1] + 1):
            last = cell
            continue
        if start[0] >= 0:
            gap = 1 if size > 5 else 0
            width = (last[1] - start[1] + 1) * size - gap
            parts.append(f"M{start[1] * size} {start[0] * size}h{width}v{size - gap}h-{width}z")
        start = last = cell
    return "".join(parts)


def _crosses(cells: t.Mapping[tuple[int, int], _Cell], size: int) -> str:
    """A cross on each pair that failed."""
    inner = max(1, size - 3)
    return "".join(
        f"M{column * size + 1} {row * size + 1}l{inner} {inner}m-{inner} 0l{inner} -{inner}"
        for (row, column), cell in sorted(cells.items())
        if cell.failed
    )


def _labels(hosts: t.Sequence[str], each: int, size: int) -> tuple[list[Json], str]:
    """Names beside rows and above columns, as many as there is room for; and what all begin with, which they go without."""
    # what the first and the last one begin with; a name keeps its digits together
    first, last = min(hosts), max(hosts)
    same = next(
        (i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), min(len(first), len(last))
    )
    prefix = first[:same].rstrip("0123456789")
    prefix = prefix if len(prefix) > 3 and all(len(host) > len(prefix) for host in hosts) else ""
    every = -(-_LINE // size)
    labels = []
    for position in range(0, len(hosts), each * every):
        cell = position // each
        text = clean(hosts[position][len(prefix) :].partition(".")[0] or hosts[position], _MOST_LABEL)
        labels.append({"at": round((cell + 0.5) * size, 1), "text": text})
    return labels, clean(prefix, 60)


def slowest_hosts(rows: t.Sequence[Json], latency: bool, unit: str) -> Json:
    """The table beside the picture: hosts by the median of what they had a part in, worst first, so that one that is slow with all
    others stands out."""
    own: dict[str, list[Json]] = {}
    for row in rows:
        for host in dict.fromkeys(row["hosts"]):
            own.setdefault(host, []).append(row)
    lines = []
    for host, parts in own.items():
        values = sorted(row["value"] for row in parts if row["value"] is not None)
        failed = sum(row["state"] != "ok" for row in parts)
        median = quantile(values, 0.5) if values else None
        worst = (values[-1] if latency else values[0]) if values else None
        lines.append(
            (median is not None, (-(median or 0) if latency else median or 0), host, median, worst, failed, len(parts))
        )
    lines.sort(key=lambda line: (line[0], line[1], -line[5], natural_key(line[2])))
    return {
        "rows": [
            {
                "host": clean(host, 120),
                "median": f"{in_figures(median)} {unit}" if median is not None else "no result",
                "worst": f"{in_figures(worst)} {unit}" if worst is not None else "no result",
                "failed": f"{failed} of {count} failed" if failed else plural(count, "result"),
                # one that fails with a single other one may be well
                "state": "bad" if 2 * failed > count else "ok",
            }
            for _known, _order, host, median, worst, failed, count in lines[:_MOST_SLOWEST]
        ],
        "more": max(0, len(lines) - _MOST_SLOWEST),
    }

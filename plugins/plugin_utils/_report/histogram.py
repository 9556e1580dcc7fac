# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A histogram of what was measured, with the limit and the median in it. Private to the collection. Pure."""

from __future__ import annotations

import bisect
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import Bin, bins_of, quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import Json, in_figures

__all__ = ["histogram"]

# Pixels of the drawing, without its labels.
_WIDTH, _HEIGHT = 640, 110
# Fewer values are seen better one by one.
_FEWEST = 8


def histogram(rows: t.Sequence[Json], limit: float | None, latency: bool, unit: str) -> Json | None:
    """Bars and marks in pixels, and the same as a table. rows: as bars show them; limit: where it is the same for all."""
    values = [row["value"] for row in rows if row["value"] is not None]
    if len(values) < _FEWEST:
        return None
    far = sorted(row["value"] for row in rows if row["far"])
    bins = bins_of(values)
    if not bins:
        return None
    ordered = sorted(values)
    median = quantile(ordered, 0.5)
    least, most = bins[0].least, bins[-1].most
    highest = max(each.size for each in bins)

    def x(value: float) -> float:
        return round((value - least) / (most - least) * _WIDTH, 1)

    marks = [{"x": x(median), "look": "median", "text": f"median {in_figures(median)}"}]
    if limit is not None and least <= limit <= most:
        marks.append({"x": x(limit), "look": "limit", "text": f"limit {in_figures(limit)}"})
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "bars": [_bar(each, x, highest, limit, far, latency) for each in bins if each.size],
        "marks": sorted(marks, key=lambda mark: float(str(mark["x"]))),
        "least": f"{in_figures(least)} {unit}",
        "most": f"{in_figures(most)} {unit}",
        "rows": [{"span": _span(each, unit), "count": each.size} for each in bins if each.size],
        "spoken": (
            f"{len(values)} values from {in_figures(ordered[0])} to {in_figures(ordered[-1])} {unit}, "
            f"median {in_figures(median)} {unit}, most of them {_span(max(bins, key=lambda each: each.size), unit)}"
        ),
    }


def _bar(
    each: Bin,
    x: t.Callable[[float], float],
    highest: int,
    limit: float | None,
    far: t.Sequence[float],
    latency: bool,
) -> Json:
    """One bar. One that is mostly of outliers looks like them. far: these, in order."""
    height = round(max(2.0, each.size / highest * _HEIGHT), 1)
    left, right = x(each.least), x(each.most)
    middle = (each.least + each.most) / 2
    beyond = limit is not None and (middle > limit if latency else middle < limit)
    of_far = bisect.bisect_right(far, each.most) - bisect.bisect_left(far, each.least)
    look = "bad" if beyond else "far" if 2 * of_far > each.size else "ok"
    width = round(max(1.0, right - left - 1), 1)
    return {"x": left, "y": round(_HEIGHT - height, 1), "width": width, "height": height, "look": look}


def _span(each: Bin, unit: str) -> str:
    return f"{in_figures(each.least)} to {in_figures(each.most)} {unit}"

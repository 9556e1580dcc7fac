# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How measured values spread: quantiles and a histogram. Private to the collection. Pure."""

from __future__ import annotations

import bisect
import typing as t

__all__ = ["Bin", "bins_of", "quantile"]

_MOST_BINS = 24
_CLOSE, _LEAST = 1e-9, 1e-30


class Bin(t.NamedTuple):
    """Values from least (inclusive) to most (exclusive; inclusive in the last one)."""

    least: float
    most: float
    size: int


def quantile(ordered: t.Sequence[float], part: float) -> float:
    """The value below which that part of the values lies, between two of them where it has to be. There is at least one."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def bins_of(values: t.Sequence[float]) -> list[Bin]:
    """At most 24 bins of the same width that begin at round values; none where all values are the same, or all but."""
    ordered = sorted(values)
    # closer than that, there are no numbers between them for the edges
    if not ordered or ordered[-1] - ordered[0] <= max(_CLOSE * ordered[-1], _LEAST):
        return []
    width = _round_width((ordered[-1] - ordered[0]) / _MOST_BINS)
    first = int(ordered[0] / width)
    edges = [width * first]
    while edges[-1] <= ordered[-1] and len(edges) <= 2 * _MOST_BINS:
        edges.append(width * (first + len(edges)))
    places = [bisect.bisect_left(ordered, edge) for edge in edges]
    places[-1] = len(ordered)
    return [Bin(edges[i], edges[i + 1], places[i + 1] - places[i]) for i in range(len(edges) - 1)]


def _round_width(least: float) -> float:
    """1, 2 or 5 times a power of ten, not below a width."""
    power = 1.0
    while power > least:
        power /= 10
    while power * 10 <= least:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least)

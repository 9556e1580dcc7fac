# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The histogram: nothing is lost in it, limit and median are where they belong."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.histogram import histogram
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import bins_of, quantile

VALUES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60)


def rows(*values: float, far: float | None = None) -> list[dict[str, Any]]:
    return [{"value": value, "far": value == far} for value in values]


@given(VALUES)
def test_every_value_is_in_one_bin(values: list[float]) -> None:
    bins = bins_of(values)
    assert len(bins) <= 50
    if max(values) - min(values) <= 1e-9 * max(values):
        assert bins == []
    else:
        assert sum(each.size for each in bins) == len(values)
        assert bins[0].least <= min(values) * (1 + 1e-9)
        assert bins[-1].most >= max(values) * (1 - 1e-9)


@pytest.mark.parametrize("most", [1e-323, 1.0 + 2**-52, 1e17 + 16])
def test_values_that_are_all_but_the_same_are_no_histogram(most: float) -> None:
    """A node may print what it likes, and nobody waits for a width between two numbers that have none."""
    values = [math.nextafter(most, 0)] * 9 + [most]
    assert bins_of(values) == []
    assert histogram(rows(*values), None, False, "Gb/s") is None


@given(VALUES)
def test_a_quantile_is_between_the_values(values: list[float]) -> None:
    ordered = sorted(values)
    found = [quantile(ordered, part) for part in (0.0, 0.05, 0.5, 0.95, 1.0)]
    assert found[0] == ordered[0]
    assert found[-1] == pytest.approx(ordered[-1])
    for one, other in itertools.pairwise(found):
        assert one <= other * (1 + 1e-9)


@given(VALUES, st.none() | st.floats(1e-3, 1e6))
def test_what_is_drawn_is_inside_the_drawing(values: list[float], limit: float | None) -> None:
    found = histogram(rows(*values), limit, False, "Gb/s")
    if found is not None:
        assert sum(row["count"] for row in found["rows"]) == len(values)
        for one in found["bars"]:
            assert -0.1 <= one["x"] <= one["x"] + one["width"] <= found["width"] + 1
            assert 0 <= one["y"] <= one["y"] + one["height"] <= found["height"] + 0.2
        for mark in found["marks"]:
            assert 0 <= mark["x"] <= found["width"]


def test_bars_beyond_the_limit_and_of_outliers_look_different() -> None:
    values = [100.0 + number for number in range(20)]
    found = histogram([*rows(*values), *rows(60.0), *rows(80.0, far=80.0)], 70.0, False, "Gb/s")
    assert found
    looks = [one["look"] for one in found["bars"]]
    assert looks[0] == "bad"
    assert looks[1] == "far"
    assert set(looks[2:]) == {"ok"}
    assert [mark["text"] for mark in found["marks"]] == ["limit 70", "median 108"]
    assert found["spoken"].startswith("22 values from 60 to 119 Gb/s, median 108 Gb/s")
    assert histogram(rows(1.0, 2.0), None, False, "Gb/s") is None

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of many pairs, and the table beside it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.heatmap import heat_map, slowest_hosts

Json = dict[str, Any]


def a_row(client: str, server: str, value: float | None, state: str = "ok") -> Json:
    return {"hosts": (client, server), "value": value, "state": state}


def all_pairs(count: int, value: float = 100.0) -> list[Json]:
    hosts = [f"node-{number:03}" for number in range(count)]
    return [a_row(one, other, value) for one in hosts for other in hosts if one != other]


def cells(path: str, size: int) -> set[tuple[int, int]]:
    """(row, column) of each cell that a path covers."""
    found = set()
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v\d+h-\d+z", path):
        for column in range(int(x), int(x) + int(width), size):
            found.add((int(y) // size, column // size))
    return found


@pytest.mark.parametrize("count", [13, 40, 72, 240])
def test_every_pair_has_its_cell(count: int) -> None:
    rows = all_pairs(count)
    heat = heat_map(rows, False, "Gb/s", 13)
    assert heat
    drawn = [cells(band["path"], heat["size"]) for band in heat["bands"]]
    assert set().union(*drawn) == {(at, to) for at in range(count) for to in range(count) if at != to}
    assert sum(map(len, drawn)) == heat["cells"] == count * (count - 1)
    assert heat["width"] < 900
    assert len("".join(band["path"] for band in heat["bands"])) < 30 * count * 2


@pytest.mark.parametrize("latency", [False, True])
def test_what_is_worse_than_the_median_has_another_colour_and_a_failure_a_cross(latency: bool) -> None:
    rows = all_pairs(20)
    bad = 250.0 if latency else 40.0
    rows[5].update(value=bad, state="bad")
    rows[7].update(value=None, state="bad")
    heat = heat_map(rows, latency, "us" if latency else "Gb/s", 13)
    assert heat
    looks = {band["look"]: band for band in heat["bands"]}
    assert set(looks) == {"h0", "h1", "h5"}
    assert cells(looks["h1"]["path"], heat["size"]) == {(0, 6)}
    assert cells(looks["h0"]["path"], heat["size"]) == {(0, 8)}
    assert heat["crosses"].count("M") == heat["failed"] == 2
    assert looks["h1"]["text"].startswith("over 200" if latency else "under 50")
    assert "as the median" in looks["h5"]["text"]


def test_more_hosts_than_cells_share_them_and_the_worst_counts() -> None:
    hosts = [f"node-{number:04}" for number in range(1000)]
    rows = [a_row(one, hosts[(at + step) % 1000], 100.0) for at, one in enumerate(hosts) for step in range(1, 400, 7)]
    rows[0].update(value=10.0, state="bad")
    heat = heat_map(rows, False, "Gb/s", 13)
    assert heat
    assert heat["each"] == 5
    assert heat["failed"] == 1
    assert cells({band["look"]: band for band in heat["bands"]}["h1"]["path"], heat["size"]) == {(0, 0)}


def test_there_is_no_picture_of_few_hosts_or_of_nearly_nothing() -> None:
    assert heat_map(all_pairs(12), False, "Gb/s", 13) is None
    hosts = [f"n{number}" for number in range(100)]
    chain = [a_row(one, other, 1.0) for one, other in itertools.pairwise(hosts)]
    assert heat_map(chain, False, "Gb/s", 13) is None


def test_names_are_as_short_as_they_can_be_and_keep_their_digits() -> None:
    rows = [
        a_row(f"gpu-node-{one}.example.org", f"gpu-node-{two}.example.org", 1.0)
        for one in range(10, 25)
        for two in range(10, 25)
    ]
    heat = heat_map(rows, False, "Gb/s", 13)
    assert heat
    assert heat["without"] == "gpu-node-"
    assert [label["text"] for label in heat["labels"]] == [str(number) for number in range(10, 25)]


def test_a_host_that_is_slow_with_all_others_is_first_and_its_partners_are_not_blamed() -> None:
    rows = all_pairs(20)
    for row in rows:
        if "node-007" in row["hosts"]:
            row.update(value=20.0, state="bad")
    found = slowest_hosts(rows, False, "Gb/s")
    assert found["rows"][0] == {
        "host": "node-007",
        "median": "20 Gb/s",
        "worst": "20 Gb/s",
        "failed": "38 of 38 failed",
        "state": "bad",
    }
    assert {row["state"] for row in found["rows"][1:]} == {"ok"}
    assert len(found["rows"]) + found["more"] == 20

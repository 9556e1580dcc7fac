# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports and pairs of a group are far from the others, whatever their floor says. Private to the collection. Pure.

A figure is compared with the median of its like (same program, size, direction, memory and floor), and with the median of all distances
from it (MAD), which a few sick links do not move. First ports: one that is bad with all that it met is to blame for these pairs. Then
pairs between ports that are well: what is between them is to blame.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Limits, Measurement, Outlier, Place
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import figure_of

__all__ = ["figure", "outliers", "touches", "unit"]

Spot = t.Tuple[str, str, int]

# Fewer figures have no median that means anything, and fewer than this no spread.
_LEAST, _LEAST_SPREAD = 3, 6
# So many standard deviations, of a normal distribution with this MAD.
_DEVIATIONS, _OF_MAD = 5.0, 1.4826

_SICK_PORT = (
    "look at this port: its counters of errors, its cable and switch port, the width and speed of its PCIe link, and whether its host does "
    "something else"
)
_SICK_PATH = (
    "both ports are well with others: look at the path between the two, such as a link between switches or its routing"
)
_SICK_PAIR = "measure both hosts against others (verify_topology: ring, sample or full): that tells which of them it is"


def figure(entry: Measurement) -> t.Optional[float]:
    """What a test is judged by: Gb/s, or the typical latency in microseconds."""
    bandwidth, latency = entry["bandwidth_gbps"], entry["latency_us"]
    if bandwidth:
        return bandwidth["average"]
    if latency:
        return float(latency["average"] if latency["typical"] is None else latency["typical"])
    return None


def unit(entry: Measurement) -> str:
    return "Gb/s" if entry["bandwidth_gbps"] else "us"


def _spot(entry: Measurement, side: t.Literal["client", "server"]) -> Spot:
    end = entry[side]
    return (end["host"], end["device"], end["port"])


def _spots(entry: Measurement) -> tuple[Spot, Spot]:
    return _spot(entry, "client"), _spot(entry, "server")


def _like(entry: Measurement) -> tuple[t.Any, ...]:
    """What figures have in common that can be compared."""
    return (
        entry.get("level", "hosts"),
        entry["test"],
        entry.get("memory", "host"),
        entry.get("bidirectional", False),
        entry["message_bytes"],
        entry["qps"],
        entry.get("software", False),
        tuple(sorted(entry["floor"].items())),
    )


def _far(value: float, values: t.Sequence[float], less: bool, share: float, least: float) -> bool:
    """Whether a figure is worse than the median by a share of it, by `least`, and by more than others differ from it.

    less: worse is less.
    """
    median = statistics.median(values)
    distance = median - value if less else value - median
    bound = median * share if less else median * share / max(1 - share, 1e-9)
    if distance <= max(bound, least):
        return False
    if len(values) < _LEAST_SPREAD:
        return True
    spread = statistics.median(abs(each - median) for each in values)
    return distance > _DEVIATIONS * _OF_MAD * spread


def outliers(entries: t.Sequence[Measurement], limits: Limits) -> list[Outlier]:
    """Ports and pairs of the tests of a group that are far from the others, in a stable order."""
    kinds: dict[tuple[t.Any, ...], list[tuple[Measurement, float]]] = {}
    for entry in entries:
        value = figure(entry)
        if value is not None and entry["verdict"] != "error":
            kinds.setdefault(_like(entry), []).append((entry, value))
    found: list[Outlier] = []
    for kind in sorted(kinds, key=repr):
        found += _of_kind(kinds[kind], limits)
    return found


def _of_kind(rows: t.Sequence[tuple[Measurement, float]], limits: Limits) -> list[Outlier]:
    first = rows[0][0]
    less = bool(first["bandwidth_gbps"])
    share = limits["software_share"] if first.get("software") else limits["share"]
    least = 0.0 if less else limits["us"]
    best: dict[Spot, float] = {}
    met: dict[Spot, set[Spot]] = {}
    for entry, value in rows:
        one, other = _spots(entry)
        for spot, peer in ((one, other), (other, one)):
            best[spot] = (max if less else min)(best.get(spot, value), value)
            met.setdefault(spot, set()).add(peer)
    found: list[Outlier] = []
    sick: set[Spot] = set()
    if len(best) >= _LEAST:
        values = list(best.values())
        for spot in sorted(best, key=_by_name):
            # one that has met one other only says nothing of which of the two it is
            if len(met[spot]) > 1 and _far(best[spot], values, less, share, least):
                sick.add(spot)
                found.append(_outlier(first, [spot], best[spot], values, _SICK_PORT))
    well = [(entry, value) for entry, value in rows if not sick & set(_spots(entry))]
    values = [value for _entry, value in (well if len(well) >= _LEAST else rows)]
    if len(values) < _LEAST:
        return found
    for entry, value in sorted(well, key=lambda row: [_by_name(spot) for spot in _spots(row[0])]):
        if _far(value, values, less, share, least):
            known = all(len(met[spot]) > 1 for spot in _spots(entry))
            found.append(_outlier(entry, _spots(entry), value, values, _SICK_PATH if known else _SICK_PAIR))
    return found


def _by_name(spot: Spot) -> tuple[t.Any, ...]:
    return natural_key(spot[0]), natural_key(spot[1]), spot[2]


def _outlier(
    entry: Measurement, spots: t.Sequence[Spot], value: float, values: t.Sequence[float], remedy: str
) -> Outlier:
    median = statistics.median(values)
    ends: list[Place] = [{"host": host, "device": device, "port": port} for host, device, port in spots]
    what = "at best, with all that it met" if len(spots) == 1 else "between the two"
    name = entry["test"] + (" (memory of GPUs)" if entry.get("memory", "host") != "host" else "")
    words = f"{name}: {figure_of(value)} {unit(entry)} {what}; the median of {len(values)} is {figure_of(median)} {unit(entry)}"
    found: Outlier = {
        "kind": "port" if len(spots) == 1 else "pair",
        "level": entry.get("level", "hosts"),
        "test": entry["test"],
        "ends": ends,
        "figure": value,
        "median": median,
        "unit": unit(entry),
        "of": len(values),
        "message": words,
        "remedy": remedy,
    }
    if "memory" in entry:
        found["memory"] = entry["memory"]
    return found


def touches(outlier: Outlier, entry: Measurement) -> bool:
    """Whether an entry is one of those that made an outlier."""
    places = {(end["host"], end["device"], end["port"]) for end in outlier["ends"]}
    own = (outlier["test"], outlier["level"], outlier.get("memory"))
    return own == (entry["test"], entry.get("level", "hosts"), entry.get("memory")) and places <= set(_spots(entry))

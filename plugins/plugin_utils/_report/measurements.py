# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured between nodes or Pods, as bars, a matrix and a few words. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Measurement
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.heatmap import heat_map, slowest_hosts
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.histogram import histogram
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    MOST,
    Json,
    as_list,
    as_map,
    as_maps,
    clean,
    in_figures,
)

__all__ = ["measured_views"]

# A table of more hosts than this is not readable, and a picture takes its place; nor are bars of more measurements than that.
_MAX_MATRIX_HOSTS = 12
_MAX_BARS = 32
# Where a table tells of the slowest of many hosts, the bars are only those that matter most.
_MAX_BARS_BESIDE = 8
# Sorts of what Pods were given.
_MAX_GIVEN = 4

_TITLES = {
    "ib_write_bw": "Write bandwidth",
    "ib_write_lat": "Write latency",
    "ib_read_bw": "Read bandwidth",
    "ib_read_lat": "Read latency",
    "ib_send_bw": "Send bandwidth",
    "ib_send_lat": "Send latency",
    "ib_atomic_bw": "Atomic bandwidth",
    "ib_atomic_lat": "Atomic latency",
}


def _end(side: t.Any) -> str:
    side = as_map(side)
    return clean(f"{side.get('host')} {side.get('device')}", 120)


def _is_latency(test: Measurement) -> bool:
    """What a test measures, by its limit, its figures or its name, whichever says it."""
    if "max_us" in as_map(test.get("floor")) or "min_gbps" in as_map(test.get("floor")):
        return "max_us" in as_map(test.get("floor"))
    if test.get("latency_us") or test.get("bandwidth_gbps"):
        return bool(test.get("latency_us"))
    return str(test.get("test")).endswith("_lat")


def _figure(value: t.Any) -> float | None:
    """What can have been measured, or be a limit: a number above 0. Everything else is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < MOST else None


class _Kind(t.NamedTuple):
    """What is shown together. hosts: between hosts, not Pods; variant: what differs from host memory in one direction, in words."""

    hosts: bool
    name: str
    latency: bool
    variant: str


def _kind(test: Measurement) -> _Kind:
    words = ["both directions"] if test.get("bidirectional") else []
    memory = test.get("memory")
    if memory:
        words.append(
            "GPU memory by " + {"cuda": "nvidia_peermem", "cuda_dmabuf": "DMA-BUF"}.get(str(memory), clean(memory, 40))
        )
    # what does not say it is of hosts, as in evidence of earlier versions
    return _Kind(test.get("level") != "pods", clean(test.get("test"), 80), _is_latency(test), ", ".join(words))


def measured_views(tests: t.Sequence[Measurement], outliers: t.Sequence[Json] = ()) -> list[Json]:
    """All tests, by their kind: those between Pods before those between hosts, the known ones first. outliers: as the evidence has them."""
    kinds: dict[_Kind, list[Measurement]] = {}
    for test in tests:
        kinds.setdefault(_kind(test), []).append(test)
    known = list(_TITLES)
    order = sorted(
        kinds, key=lambda kind: (kind.hosts, known.index(kind.name) if kind.name in known else len(known), kind[1:])
    )
    far = _far_ports(outliers)
    return [_measured(kinds[kind], kind, far) for kind in order]


# Level, test, memory ("" of hosts), and the port or both ports of the pair.
_Far = tuple[str, str, str, frozenset[tuple[str, str, str]]]


def _far_ports(outliers: t.Sequence[Json]) -> dict[_Far, str]:
    """Medians of outliers in words."""
    return {
        (
            str(each.get("level")),
            str(each.get("test")),
            str(each.get("memory") or ""),
            frozenset(_place(end) for end in as_maps(each.get("ends"))),
        ): f"{in_figures(each.get('median'))} {'µs' if each.get('unit') == 'us' else 'Gb/s'}"
        for each in outliers
    }


def _place(end: t.Any) -> tuple[str, str, str]:
    end = as_map(end)
    return str(end.get("host")), str(end.get("device")), str(end.get("port"))


def _measured(tests: list[Measurement], kind: _Kind, far: t.Mapping[_Far, str]) -> Json:
    """All that is shown of one kind of test: bars, and what shows many measurements at once. There is at least one."""
    latency, name = kind.latency, kind.name
    level, unit = "hosts" if kind.hosts else "pods", _unit(latency)
    rows = [_row(test, latency) for test in tests]
    for row in rows:
        ends = [_place(row["test"].get(side)) for side in ("client", "server")]
        memory = str(row["test"].get("memory") or "")
        medians = (
            [far.get((level, name, memory, frozenset(each))) for each in (ends, ends[:1], ends[1:])] if far else []
        )
        row["middle"] = next(filter(None, medians), "")
        row["far"] = bool(row["middle"]) and row["value"] is not None
    # failures first, of them those without a result; of the rest those far from the others; then what is nearest to its limit
    rows.sort(
        key=lambda row: (
            row["state"] == "ok",
            row["state"] == "ok" and not row["far"],
            row["value"] is not None,
            -(row["value"] or 0) if latency else row["value"] or 0,
            row["client"],
            row["server"],
        )
    )
    values = sorted(row["value"] for row in rows if row["value"] is not None)
    heat = heat_map(rows, latency, unit, _MAX_MATRIX_HOSTS + 1)
    many = len({host for row in rows for host in row["hosts"]}) > _MAX_MATRIX_HOSTS
    bars = rows[: _MAX_BARS_BESIDE if many else _MAX_BARS]
    _draw_bars(bars)
    floors = {row["floor"] for row in rows}
    return {
        "name": name,
        "title": _TITLES.get(name, name)
        + (" between Pods" if level == "pods" else "")
        + (f", {kind.variant}" if kind.variant else ""),
        "variant": kind.variant,
        "level": level,
        "latency": latency,
        "given": _given(tests) if level == "pods" else [],
        "better": "lower is better" if latency else "higher is better",
        "unit": unit,
        "all": rows,
        "rows": bars,
        "more": len(rows) - len(bars),
        "matrix": _matrix(rows),
        "heat": heat,
        "slowest": slowest_hosts(rows, latency, unit) if many else None,
        "histogram": histogram(rows, floors.pop() if len(floors) == 1 else None, latency, unit),
        "figures": _figures(values, [row["tail"] for row in rows if row["tail"] is not None], unit),
        "how": rows[0]["how"] if len({row["how"] for row in rows}) == 1 else "",
        "first_failure": next((_failure(name, level, row) for row in rows if row["state"] != "ok"), ""),
        "failures": [row for row in rows if row["state"] != "ok"],
        "outliers": [row for row in rows if row["far"]],
        "count": len(rows),
        "failed": sum(row["state"] != "ok" for row in rows),
        "span": _span(values, unit),
    }


def _figures(values: list[float], tails: list[float], unit: str) -> list[Json]:
    """What many values come to, as terms and figures. values: in order."""
    if len(values) < 3:
        return []
    named = (("least", 0.0), ("5 % below", 0.05), ("median", 0.5), ("95 % below", 0.95), ("most", 1.0))
    shown = [{"term": term, "text": f"{in_figures(quantile(values, part))} {unit}"} for term, part in named]
    if tails:
        shown.append({"term": "worst 99th percentile", "text": f"{in_figures(max(tails))} {unit}"})
    return shown


def _unit(latency: bool) -> str:
    return "µs" if latency else "Gb/s"


def _row(test: Measurement, latency: bool) -> Json:
    """One test, in words and figures."""
    value = _value(test, latency)
    floor = _figure(as_map(test.get("floor")).get("max_us" if latency else "min_gbps"))
    # Without a figure nothing has passed.
    verdict = test.get("verdict") if value is not None or test.get("verdict") != "pass" else "error"
    unit = _unit(latency)
    limit = (
        "{} {} {}".format("at most" if latency else "at least", in_figures(floor), unit) if floor is not None else ""
    )
    how = [f"{in_figures(test.get('message_bytes'))} B messages", f"{in_figures(test.get('iterations'))} iterations"]
    if test.get("mtu_bytes"):
        how.append(f"MTU {in_figures(test['mtu_bytes'])} B")
    return {
        "test": test,
        "client": _end(test.get("client")),
        "server": _end(test.get("server")),
        "hosts": (str(as_map(test.get("client")).get("host")), str(as_map(test.get("server")).get("host"))),
        "value": value,
        "text": f"{in_figures(value)} {unit}" if value is not None else "no result",
        "tail": _figure(as_map(test.get("latency_us")).get("p99")) if latency else None,
        "tail_text": f"{in_figures(_figure(as_map(test.get('latency_us')).get('p99')))} {unit}" if latency else "",
        "floor": floor,
        "limit": limit,
        "state": "ok" if verdict == "pass" else "bad",
        "word": {"pass": "passed", "fail": "failed"}.get(str(verdict), "error"),
        "message": clean(test.get("message") or ""),
        "remedy": clean(test.get("remedy") or ""),
        "how": clean(", ".join(how), 120),
    }


def _value(test: Measurement, latency: bool) -> float | None:
    """The figure that a test is judged by."""
    if not latency:
        return _figure(as_map(test.get("bandwidth_gbps")).get("average"))
    result = as_map(test.get("latency_us"))
    typical = result.get("typical")
    return _figure(result.get("average") if typical is None else typical)


def _draw_bars(rows: list[Json]) -> None:
    """Gives each row the width of its bar and the place of its limit, in percent."""
    top = _top(rows)
    for row in rows:
        row["width"] = f"{max(0.5, min(100.0, 100 * (row['value'] or 0) / top)):.1f}"
        inside = row["floor"] is not None and 0 < row["floor"] <= top and row["floor"] / top > 0.004
        row["tick"] = f"{100 * row['floor'] / top:.1f}" if inside else None


def _top(rows: list[Json]) -> float:
    """What a bar of full width stands for."""
    top: float = max((row["value"] for row in rows if row["value"] is not None), default=0.0)
    floors = [row["floor"] for row in rows if row["floor"] is not None]
    # a limit far beyond everything measured would flatten the bars; it is said in words then
    if floors and (top <= 0 or max(floors) <= 4 * top):
        top = max(top, *floors)
    return top or 1.0


def _matrix(rows: list[Json]) -> Json | None:
    """The worst result of each pair of hosts, where there are neither too few of them nor too many. rows: worst first."""
    hosts = sorted({host for row in rows for host in row["hosts"]}, key=natural_key)
    if not 3 <= len(hosts) <= _MAX_MATRIX_HOSTS:
        return None
    worst: dict[tuple[str, str], Json] = {}
    for row in rows:
        # the worst device of a pair is what the pair is worth
        worst.setdefault(row["hosts"], row)
    return {
        "hosts": [clean(host, 60) for host in hosts],
        "rows": [
            {"host": clean(client, 60), "cells": [worst.get((client, server)) for server in hosts]} for client in hosts
        ],
    }


def _span(values: list[float], unit: str) -> str:
    """From the least to the most that was measured."""
    if not values:
        return ""
    least, most = in_figures(min(values)), in_figures(max(values))
    return f"{in_figures(values[0])} {unit}" if least == most else f"{least} to {most} {unit}"


def _given(tests: list[Measurement]) -> list[str]:
    """What Pods were given, in a few words; those that were given the same are one."""
    words = set()
    for test in tests:
        pods = as_map(test.get("pods"))
        memlock, files = as_map(pods.get("memlock")), as_map(pods.get("files"))
        # both alike is the rule
        limits = dict.fromkeys(str(memlock.get(key)) for key in ("soft", "hard") if memlock.get(key) is not None)
        if pods.get("user") is None:
            continue
        told = [f"as user {pods['user']}"]
        if limits:
            shown = [each if each == "unlimited" else f"{each} KiB" for each in limits]
            told.append(f"locked memory {' (soft), '.join(shown)}{' (hard)' if len(shown) > 1 else ''}")
        names = {", ".join(map(str, as_list(files.get(side)))) for side in ("client", "server")} - {""}
        told.append("/dev/infiniband: " + (" or ".join(sorted(names)) or "empty"))
        words.add(clean("; ".join(told), 300))
    return sorted(words, key=natural_key)[:_MAX_GIVEN]


def _failure(name: str, level: str, row: Json) -> str:
    remedy = f". Remedy: {row['remedy']}" if row["remedy"] else ""
    said = row["message"] or row["word"]
    between = " between Pods" if level == "pods" else ""
    return clean(f"{name}{between} from {row['client']} to {row['server']}: {said}{remedy}")

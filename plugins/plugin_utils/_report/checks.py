# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was looked at beside pairs of ports: what Pods were given, whom they reach, what grew on links, what jobs over GPUs of several
nodes came to. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    Json,
    as_list,
    as_map,
    as_maps,
    clean,
    hosts_in_words,
    in_figures,
    plural,
)

__all__ = ["CHECKS", "checks_counted", "checks_view"]

# What is looked at beside pairs of ports, and what one of each is called.
CHECKS = {"inspections": "Pod", "pings": "ping", "links": "link", "collectives": "job"}
# Rows of the table.
_MAX_ROWS = 16
_STATES = {"pass": "ok", "note": "warn"}
_WORST = {"ok": 0, "warn": 1, "bad": 2}


def checks_counted(evidence: t.Mapping[str, t.Any]) -> Json:
    """How many of each sort came to which verdict; nothing of a sort that was not looked at."""
    counted: Json = {}
    for key in CHECKS:
        verdicts = [str(each.get("verdict")) for each in as_maps(evidence.get(key))]
        if verdicts:
            own = {verdict: verdicts.count(verdict) for verdict in ("pass", "note", "fail")}
            counted[key] = {**own, "error": len(verdicts) - sum(own.values())}
    return counted


def checks_view(evidence: t.Mapping[str, t.Any]) -> tuple[list[Json], int]:
    """(rows of a table: what was looked at, how it ended, on which hosts; those with the same share one; worst first, how many more
    there are)."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in as_maps(evidence.get("inspections")):
        key = ("what a Pod gets", _given(each), _state(each))
        rows.setdefault(key, []).append(str(each.get("host")))
    for network, pings in _by(evidence.get("pings"), "network").items():
        rows |= _pings(network, pings)
    for each in as_maps(evidence.get("links")):
        key = ("links while traffic moved", _grown(each), _state(each))
        rows.setdefault(key, []).append(str(each.get("host")))
    for each in as_maps(evidence.get("collectives")):
        # a job runs on nodes that the scheduler has picked
        rows.setdefault((_job(each), _came_to(each), _state(each)), [])
    ordered = sorted(rows, key=lambda key: (-_WORST[key[2]], key))
    shown = [
        {"what": what, "text": text, "state": state, "hosts": hosts_in_words(set(rows[what, text, state]))}
        for what, text, state in ordered[:_MAX_ROWS]
    ]
    return shown, len(ordered) - len(shown)


def _state(each: Json) -> str:
    return _STATES.get(str(each.get("verdict")), "bad")


def _grown(link: Json) -> str:
    """The counters that grew; of a link of which none did, and that is not well, what was said of it."""
    grown = [one for one in as_maps(link.get("grown")) if one.get("verdict") != "pass"]
    if not grown and _state(link) != "ok" and link.get("message"):
        return clean(link["message"], 200)
    words = ", ".join(sorted({str(one.get("counter")) for one in grown}, key=natural_key))
    return clean(f"{words or 'nothing that must not grow'} grew", 200)


def _by(items: t.Any, key: str) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for each in as_maps(items):
        found.setdefault(str(each.get(key)), []).append(each)
    return found


def _given(each: Json) -> str:
    """What a Pod was given, in a few words."""
    memlock = as_map(each.get("memlock"))
    limits = dict.fromkeys(str(memlock.get(key)) for key in ("soft", "hard") if memlock.get(key) is not None)
    told = [f"as user {each.get('user')}"]
    if limits:
        told.append("locked memory " + " to ".join(one if one == "unlimited" else f"{one} KiB" for one in limits))
    if each.get("ipc_lock"):
        told.append("IPC_LOCK")
    told.append("/dev/infiniband: " + (", ".join(map(str, as_list(each.get("files")))) or "empty"))
    if _state(each) != "ok" and each.get("message"):
        # hosts of which the same was said share a row
        told.append(str(each["message"]).replace(f"a Pod on {each.get('host')}", "it"))
    return clean("; ".join(told), 300)


def _job(each: Json) -> str:
    way = f" over {each['way']}" if each.get("way") else ""
    return clean(f"{each.get('test') or each.get('tool')}{way}", 120)


def _came_to(each: Json) -> str:
    """Figures of nccl-tests or nvbandwidth, in a few words."""
    told = [plural(each["ranks"], "GPU")] if isinstance(each.get("ranks"), int) else []
    for key, word in (("best_gbs", "best"), ("average_gbs", "mean"), ("lowest_gbs", "slowest link")):
        if each.get(key) is not None:
            told.append(f"{word} {in_figures(each[key])} GB/s")
    if each.get("floor_gbs") is not None:
        told.append(f"limit {in_figures(each['floor_gbs'])} GB/s")
    told += map(str, as_list(each.get("transports"))[:4])
    if _state(each) != "ok" and each.get("message"):
        told.append(str(each["message"]))
    return clean("; ".join(told), 300)


def _pings(network: str, pings: list[Json]) -> dict[tuple[str, str, str], list[str]]:
    """Pods of a network: those that reach each other in one row, the others with why."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    what = clean(f"ping over {network}", 120)
    times = sorted(
        float(one["average"])
        for one in (as_map(each.get("rtt_us")) for each in pings)
        if isinstance(one.get("average"), (int, float)) and not isinstance(one.get("average"), bool)
    )
    good = [each for each in pings if _state(each) == "ok"]
    if good:
        median = f", {in_figures(quantile(times, 0.5))} µs there and back" if times else ""
        hosts = [str(each.get(end)) for each in good for end in ("client", "server")]
        rows[what, f"{plural(len(good), 'pair')} of {len(pings)} reach each other{median}", "ok"] = hosts
    for each in pings:
        if _state(each) != "ok":
            ends = [str(each.get(end)) for end in ("client", "server")]
            rows.setdefault((what, clean(each.get("message") or "no answer", 300), "bad"), []).extend(ends)
    return rows

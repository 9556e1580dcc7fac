# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One page and a few lines of text that say what a cluster has. Private to the collection. Pure, but for reading the template.

Everything that comes in (facts, plan, measurements, even names of hosts) is untrusted text: it passes L(clean) on its way
into the model, the template escapes all of it (autoescape) and knows no raw output, and the page forbids itself scripts and
outside resources by a content security policy. Nodes that would look the same on the page share one card, so that a
thousand nodes cost about as much as their differences. The same input gives the same bytes: there is no time in it unless
the caller passes one, or measurements of an earlier run.
"""

from __future__ import annotations

import functools
import json
import re
import textwrap
import typing as t
from datetime import datetime, timezone
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import alike
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import outcome_lines

__all__ = ["ReportError", "build", "clean", "render_html", "render_summary"]

Json = dict[str, t.Any]

_TEMPLATES = Path(__file__).resolve().parents[2] / "roles" / "report" / "templates"

# What the page draws in full in each group; more kinds of nodes than this become one line each.
_MAX_CARDS = 24
# Host names that stand in a line before the rest is folded.
_MAX_INLINE_HOSTS = 4
# A matrix of more hosts than this is not readable; bars of more measurements than that neither.
_MAX_MATRIX_HOSTS = 12
_MAX_BARS = 32
_MAX_MESSAGES = 12
_MAX_NODES = 50
_MAX_TEXT = 600

SUMMARY_WIDTH = 100

# Stands where there is no value (an en dash).
_NOTHING = "\u2013"
_MAX_SUMMARY_NOTES = 8

# Control characters, lone surrogates (bytes that were no UTF-8), and characters that reorder or hide text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")

# Names of the GPUs that are usual in such clusters, by the PCI id of vendor 10de; others are shown by their id.
_GPU_MODELS = {
    "1db1": "V100 16 GB", "1db4": "V100 16 GB", "1db5": "V100 32 GB", "1db6": "V100 32 GB", "1eb8": "T4",
    "20b0": "A100 40 GB", "20b2": "A100 80 GB", "20b5": "A100 80 GB", "20f1": "A100 40 GB", "26b9": "L40S",
    "2330": "H100 80 GB", "2331": "H100 80 GB", "2335": "H200", "2342": "GH200", "2901": "B200", "2941": "GB200",
}  # fmt: skip

_SELECTOR_WORDS = {
    "vendors": "PCI vendor",
    "deviceIDs": "PCI device",
    "drivers": "driver",
    "linkTypes": "link type",
    "ifNames": "interface",
}

# What a port that is not Active is waiting for.
_PORT_HINTS = {
    ("Down", "Polling"): "no signal from the other end: cable, transceiver or switch port",
    ("Down", "Disabled"): "switched off here or by the switch",
    ("Down", "LinkUp"): "linked, but not brought up: subnet manager, or a virtual function without a GUID",
    ("Down", "Sleep"): "asleep",
    ("Init", "LinkUp"): "linked, waiting for a subnet manager",
    ("Armed", "LinkUp"): "configured by the subnet manager, not released for data yet",
}

# Worst last. "info" is neither good nor bad: nothing is wrong, but traffic has not proved it.
_STATES = {
    "ok": {"symbol": "✓", "word": "Ready"},
    "info": {"symbol": "i", "word": "Planned, not measured"},
    "warn": {"symbol": "!", "word": "Ready, read the notes"},
    "bad": {"symbol": "✕", "word": "Problem"},
}
_WORSE = {state: number for number, state in enumerate(_STATES)}

# Warnings of a plan that only tell how it is made.
_NEUTRAL = ("no single configuration is exact on every host",)

_TITLES = {
    "ib_write_bw": "Write bandwidth",
    "ib_write_lat": "Write latency",
    "ib_read_bw": "Read bandwidth",
    "ib_read_lat": "Read latency",
    "ib_send_bw": "Send bandwidth",
    "ib_send_lat": "Send latency",
}


# No rate, size, time or count is near it.
_MOST = 1e18


class ReportError(FabricError):
    """Input that is no report input."""


def clean(value: t.Any, limit: int = _MAX_TEXT) -> str:
    """Any value as one line of harmless text: nothing that moves a cursor, reorders letters or cannot be encoded."""
    text = _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", str(value)))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _number(value: t.Any) -> str:
    """A measured or nominal value with three significant digits and without a useless fraction."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _NOTHING
    # also what is not finite, or no number at all
    if not abs(value) < _MOST:
        return _NOTHING
    if abs(value) >= 100:
        return f"{round(value)}"
    return f"{value:.3g}"


def _map(value: t.Any) -> Json:
    return t.cast("Json", value) if isinstance(value, t.Mapping) else {}


def _list(value: t.Any) -> list[t.Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _maps(value: t.Any) -> list[Json]:
    return [_map(item) for item in _list(value) if isinstance(item, t.Mapping)]


def _hosts(names: t.Iterable[str]) -> Json:
    ordered = [clean(name, 120) for name in sorted(names, key=natural_key)]
    inline = ordered if len(ordered) <= _MAX_INLINE_HOSTS + 1 else ordered[:_MAX_INLINE_HOSTS]
    return {"count": len(ordered), "inline": ", ".join(inline), "rest": ordered[len(inline) :]}


def _plural(count: int, noun: str) -> str:
    return "%d %s" % (count, noun if count == 1 else noun + "s")


# --- one node ---------------------------------------------------------------------------------------------------------


class _Decisions:
    """What the plan says of the ports of one host."""

    def __init__(self, group: Json, index: Json, host: str) -> None:
        self.wanted = index["wanted"].get(host, set())
        self.offered = index["offered"].get(host, set())
        self.excluded = index["excluded"].get(host, {})
        self.planned = bool(group)

    def of(self, device: str, port: t.Any) -> tuple[str, str]:
        """(kind, words): selected, host (usable, but not through the plugin), out, none."""
        key = (device, str(port))
        if key in self.wanted:
            if device in self.offered:
                return "selected", "selected"
            return "host", "usable on the host, not offered by the plugin"
        reason = self.excluded.get(key) or self.excluded.get((device, str(None)))
        if reason is not None:
            return "out", clean(reason)
        return "none", "not considered" if self.planned else "no plan"


def _port_key(item: Json) -> tuple[str, str]:
    return str(item.get("device")), str(item.get("port"))


def _index(group: Json) -> Json:
    """The plan of a group by host, so that a node costs no search."""
    wanted: dict[str, set[tuple[str, str]]] = {}
    for host, ports in _map(group.get("wanted")).items():
        wanted[host] = {_port_key(port) for port in _maps(ports)}
    offered: dict[str, set[str]] = {}
    for item in _maps(group.get("classes")):
        for host, matches in _map(item.get("matches")).items():
            offered.setdefault(host, set()).update(str(match.get("device")) for match in _maps(matches))
    excluded: dict[str, dict[tuple[str, str], str]] = {}
    for item in _maps(group.get("exclusions")):
        excluded.setdefault(str(item.get("host")), {})[_port_key(item)] = str(item.get("reason"))
    return {"wanted": wanted, "offered": offered, "excluded": excluded}


def _port(device: Json, port: Json, decisions: _Decisions) -> Json:
    state, phys = port.get("state"), port.get("phys_state")
    active = state == "Active"
    kind, words = decisions.of(str(device.get("name")), port.get("number"))
    speed = " ".join(str(part) for part in (port.get("width"), port.get("speed")) if part)
    netdevs = []
    for netdev in _maps(port.get("netdevs")):
        notes = [str(netdev.get("operstate") or "state unknown")]
        if netdev.get("master"):
            notes.append(f"in {netdev['master']}")
        netdevs.append({"name": clean(netdev.get("name"), 80), "notes": clean(", ".join(notes), 80)})
    return {
        "number": clean(port.get("number"), 8),
        "link_layer": clean(port.get("link_layer") or "unknown", 20),
        "state": clean(state or "unknown", 20),
        "phys": clean(phys, 30) if phys and not (active and phys == "LinkUp") else "",
        "hint": _PORT_HINTS.get((str(state), str(phys)), ""),
        "look": "active" if active else ("down" if state in ("Down", "Nop", None) else "waiting"),
        # the rate of a port that is not Active is no statement about the link
        "rate": _number(port.get("rate_gbps")) + " Gb/s" if active and port.get("rate_gbps") else _NOTHING,
        "speed": clean(speed, 20) if active else "",
        "netdevs": netdevs,
        "decision": kind,
        "why": words,
    }


def _device(device: Json, decisions: _Decisions) -> Json:
    plugin = _map(device.get("plugin"))
    lag = _map(device.get("lag"))
    members = [str(member.get("netdev")) for member in _maps(lag.get("members"))]
    sriov = _map(device.get("sriov"))
    kind = {"vf": "virtual function", "sf": "sub-function", "software": "software", "smi": "management only"}
    notes = [kind[str(device.get("kind"))]] if str(device.get("kind")) in kind else []
    if lag:
        notes.append(f"{lag.get('netdev')}, {lag.get('mode') or 'bond'} of {' and '.join(members)}")
    if sriov.get("vfs"):
        notes.append(f"{sriov['vfs']} virtual functions in use")
    seen = plugin.get("if_name") or "no interface"
    return {
        "name": clean(device.get("name"), 80),
        "model": clean(device.get("model") or _map(device).get("driver") or "unknown model", 80),
        "pci": clean(device.get("pci") or _NOTHING, 20),
        "firmware": clean(device.get("firmware") or "", 40),
        "notes": clean("; ".join(notes), 200),
        "visible": bool(plugin.get("visible")),
        "link_type": clean(plugin.get("link_type") or "", 40),
        "seen": clean(seen if plugin.get("visible") else plugin.get("reason") or "invisible", 200),
        "ports": [_port(device, port, decisions) for port in _maps(device.get("ports"))],
    }


def _slot(pci: t.Any, name: str) -> str:
    """Functions of one card share everything but the function number."""
    return str(pci).rpartition(".")[0] if pci else name


def _panels(devices: list[Json], gpus: list[Json], views: dict[str, Json]) -> list[Json]:
    """The drawing: one panel a NUMA node; in it GPUs and cards, and frames around those that are nearest to each other."""
    card_of = {str(item.get("name")): _slot(item.get("pci"), str(item.get("name"))) for item in devices}

    def numa(item: Json) -> str:
        if item.get("kind") == "software":
            return "software"
        node = item.get("numa_node")
        return "unknown" if node is None else str(node)

    last = {"unknown": 1, "software": 2}
    keys = sorted({numa(item) for item in [*devices, *gpus]}, key=lambda key: (last.get(key, 0), natural_key(key)))
    panels = []
    for key in keys:
        cards: dict[str, list[Json]] = {}
        for item in devices:
            if numa(item) == key:
                cards.setdefault(card_of[str(item.get("name"))], []).append(views[str(item.get("name"))])
        frames: list[Json] = []
        alone: list[Json] = []
        framed: dict[tuple[str, ...], Json] = {}
        placed: set[str] = set()
        for gpu in gpus:
            if numa(gpu) != key:
                continue
            view = {
                "model": clean(_GPU_MODELS.get(str(gpu.get("device")), f"GPU {gpu.get('device')}"), 40),
                "pci": clean(gpu.get("pci"), 20),
            }
            near = tuple(sorted({card_of[name] for name in map(str, _list(gpu.get("nearest"))) if name in card_of}))
            # nearest to some cards of the panel, not to all of them: that is more than the NUMA node says
            if near and set(near) < set(cards) and (near in framed or not placed & set(near)):
                if near not in framed:
                    framed[near] = {"gpus": [], "cards": [cards[slot] for slot in near]}
                    frames.append(framed[near])
                    placed |= set(near)
                framed[near]["gpus"].append(view)
            else:
                alone.append(view)
        rest = [card for slot, card in cards.items() if slot not in placed]
        titles = {"software": "Software devices", "unknown": "NUMA node not reported"}
        title = titles.get(key, f"NUMA node {clean(key, 8)}")
        panels.append({"title": title, "frames": frames, "gpus": alone, "cards": rest})
    return panels


def _node(facts: Json, decisions: _Decisions) -> Json:
    """All that the page shows of a node, without anything that is its own by nature (name, addresses, GUIDs, LIDs)."""
    devices, gpus = _maps(facts.get("devices")), _maps(facts.get("gpus"))
    views = {str(device.get("name")): _device(device, decisions) for device in devices}
    kernel, ofed, management = (_map(facts.get(key)) for key in ("kernel", "ofed", "management"))
    about = []
    if kernel.get("release"):
        about.append(f"kernel {kernel['release']}")
    if isinstance(kernel.get("page_size"), int) and kernel["page_size"] != 4096:
        about.append(f"{kernel['page_size'] // 1024} KiB pages")
    if ofed.get("flavour"):
        words = {"inbox": "drivers of the distribution", "mlnx_ofed": "MLNX_OFED", "doca": "DOCA"}
        about.append(" ".join(str(part) for part in (words.get(str(ofed["flavour"])), ofed.get("version")) if part))
    routes = _list(management.get("default_route_netdevs"))
    if routes:
        about.append(f"default route over {', '.join(map(str, routes))}")
    notes = [clean(text) for text in _list(facts.get("warnings"))]
    if kernel.get("rdma_netns") == "exclusive":
        notes.append(
            "RDMA namespaces are exclusive: the shared device plugin refuses to start; boot with ib_core.netns_mode=1"
        )
    ports = [port for view in views.values() for port in view["ports"]]
    return {
        "about": [clean(text, 120) for text in about],
        "cautions": ["the default route runs over an RDMA driver: reloading it cuts the node off"]
        if management.get("rdma_backed")
        else [],
        "notes": notes,
        "panels": _panels(devices, gpus, views),
        "devices": list(views.values()),
        "gpus": len(gpus),
        "ports": len(ports),
        "active": sum(port["look"] == "active" for port in ports),
        "selected": sum(port["decision"] == "selected" for port in ports),
        "usable": sum(port["decision"] in ("selected", "host") for port in ports),
    }


# --- measurements -----------------------------------------------------------------------------------------------------


def _end(side: t.Any) -> str:
    side = _map(side)
    return clean(f"{side.get('host')} {side.get('device')}", 120)


def _is_latency(test: Json) -> bool:
    """What a test measures, by its limit, its figures or its name, whichever says it."""
    if "max_us" in _map(test.get("floor")) or "min_gbps" in _map(test.get("floor")):
        return "max_us" in _map(test.get("floor"))
    if test.get("latency_us") or test.get("bandwidth_gbps"):
        return bool(test.get("latency_us"))
    return str(test.get("test")).endswith("_lat")


def _figure(value: t.Any) -> float | None:
    """What can have been measured, or be a limit: a number above 0. Everything else is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < _MOST else None


def _measurements(tests: list[Json]) -> list[Json]:
    """All tests, by their kind: the known ones first."""
    kinds: dict[tuple[str, bool], list[Json]] = {}
    for test in tests:
        kinds.setdefault((clean(test.get("test"), 80), _is_latency(test)), []).append(test)
    known = list(_TITLES)
    order = sorted(kinds, key=lambda kind: (known.index(kind[0]) if kind[0] in known else len(known), kind))
    return [_measured(kinds[kind], *kind) for kind in order]


def _measured(tests: list[Json], name: str, latency: bool) -> Json:
    """Bars (and a matrix, where there are three hosts or more) of one kind of test. There is at least one."""
    bandwidth = not latency
    rows: list[Json] = []
    for test in tests:
        result = _map(test.get("bandwidth_gbps" if bandwidth else "latency_us"))
        value = result.get("average" if bandwidth else "typical")
        if latency and value is None:
            value = result.get("average")
        value = _figure(value)
        floor = _figure(_map(test.get("floor")).get("min_gbps" if bandwidth else "max_us"))
        # Without a figure nothing has passed.
        verdict = test.get("verdict") if value is not None or test.get("verdict") != "pass" else "error"
        unit = "Gb/s" if bandwidth else "µs"
        limit = "%s %s %s" % ("at least" if bandwidth else "at most", _number(floor), unit) if floor is not None else ""
        how = [f"{_number(test.get('message_bytes'))} B messages", f"{_number(test.get('iterations'))} iterations"]
        if test.get("mtu_bytes"):
            how.append(f"MTU {_number(test['mtu_bytes'])} B")
        rows.append(
            {
                "client": _end(test.get("client")),
                "server": _end(test.get("server")),
                "hosts": (str(_map(test.get("client")).get("host")), str(_map(test.get("server")).get("host"))),
                "value": value,
                "text": f"{_number(value)} {unit}" if value is not None else "no result",
                "floor": floor,
                "limit": limit,
                "state": "ok" if verdict == "pass" else "bad",
                "word": {"pass": "passed", "fail": "failed"}.get(str(verdict), "error"),
                "message": clean(test.get("message") or ""),
                "remedy": clean(test.get("remedy") or ""),
                "how": clean(", ".join(how), 120),
            }
        )
    # failures first, then what is nearest to its limit
    rows.sort(
        key=lambda row: (row["state"] == "ok", row["value"] or 0 if bandwidth else -(row["value"] or 0), row["client"])
    )
    values = [row["value"] for row in rows if row["value"] is not None]
    floors = [row["floor"] for row in rows if row["floor"] is not None]
    top = max(values, default=0.0)
    # a limit far beyond everything measured would flatten the bars; it is said in words then
    if floors and (top <= 0 or max(floors) <= 4 * top):
        top = max(top, *floors)
    top = top or 1.0
    for row in rows:
        row["width"] = f"{max(0.5, min(100.0, 100 * (row['value'] or 0) / top)):.1f}"
        inside = row["floor"] is not None and 0 < row["floor"] <= top and row["floor"] / top > 0.004
        row["tick"] = f"{100 * row['floor'] / top:.1f}" if inside else None
    matrix = None
    hosts = sorted({host for row in rows for host in row["hosts"]}, key=natural_key)
    if 3 <= len(hosts) <= _MAX_MATRIX_HOSTS:
        best: dict[tuple[str, str], Json] = {}
        for row in rows:
            # rows come worst first, and the worst device of a pair is what the pair is worth
            best.setdefault(row["hosts"], row)
        matrix = {
            "hosts": [clean(host, 60) for host in hosts],
            "rows": [
                {"host": clean(client, 60), "cells": [best.get((client, server)) for server in hosts]}
                for client in hosts
            ],
        }
    failed = sum(row["state"] != "ok" for row in rows)
    unit = "Gb/s" if bandwidth else "µs"
    span = f"{_number(min(values))} to {_number(max(values))} {unit}" if values else ""
    if values and _number(min(values)) == _number(max(values)):
        span = f"{_number(values[0])} {unit}"
    return {
        "title": _TITLES.get(name, name),
        "better": "higher is better" if bandwidth else "lower is better",
        "unit": unit,
        "rows": rows[:_MAX_BARS],
        "more": max(0, len(rows) - _MAX_BARS),
        "matrix": matrix,
        "how": rows[0]["how"] if len({row["how"] for row in rows}) == 1 else "",
        "first_failure": next((_failure(name, row) for row in rows if row["state"] != "ok"), ""),
        "count": len(rows),
        "failed": failed,
        "span": span,
    }


def _failure(name: str, row: Json) -> str:
    remedy = f". Remedy: {row['remedy']}" if row["remedy"] else ""
    said = row["message"] or row["word"]
    return clean(f"{name} from {row['client']} to {row['server']}: {said}{remedy}")


def _untested(evidence: Json) -> list[Json]:
    """Ports that were not measured: a defect is a problem, a port without a partner is not."""
    merged: dict[tuple[bool, str, str], list[str]] = {}
    for row in _maps(evidence.get("untested")):
        what = "" if row.get("device") is None else f" {row.get('device')} port {row.get('port')}"
        merged.setdefault((bool(row.get("defect")), what, str(row.get("reason"))), []).append(str(row.get("host")))
    items = []
    for (defect, what, reason), hosts in merged.items():
        one = len(hosts) == 1
        text = "%s%s: not measured, %s" % (hosts[0] if one else f"{len(hosts)} hosts", what, reason)
        items.append(
            {"state": "bad" if defect else "info", "text": clean(text), "hosts": None if one else _hosts(hosts)}
        )
    return items


def _earlier(saved: t.Any, groups: t.Mapping[str, list[str]], current: t.Collection[str]) -> tuple[Json, list[Json]]:
    """Evidence files of earlier runs by group, with their time, for groups that have none of this run; and notes.

    saved: [(stat with path and mtime, text of the file)]. One that cannot be used is a note, not an error: it may be of
    another version of the collection, or half written.
    """
    found: Json = {}
    notes: list[Json] = []
    strangers: list[str] = []
    for item in _list(saved):
        stat, text = (_map(item[0]), item[1]) if isinstance(item, (list, tuple)) and len(item) == 2 else ({}, "")
        name = Path(str(stat.get("path"))).name
        try:
            document = json.loads(str(text))
            if not isinstance(document, dict) or document.get("schema") != 1:
                raise ValueError("schema 1 was expected")
        except (ValueError, RecursionError) as exc:
            notes.append({"state": "warn", "text": clean(f"evidence/{name} is left out, it cannot be read: {exc}")})
            continue
        group = str(document.get("group"))
        if group in current:
            continue
        if group not in groups:
            strangers.append(clean(group, 80))
            continue
        hosts = set(groups[group])
        tests = _maps(document.get("tests"))
        kept = [
            test
            for test in tests
            if all(str(_map(test.get(side)).get("host")) in hosts for side in ("client", "server"))
        ]
        rows = [row for row in _maps(document.get("untested")) if str(row.get("host")) in hosts]
        if len(kept) < len(tests):
            gone = _plural(len(tests) - len(kept), "earlier measurement")
            notes.append({"state": "info", "text": clean(f"{group}: {gone} left out, of hosts that are not in it now")})
        found[group] = {"tests": kept, "untested": rows, "earlier": _time(stat.get("mtime"))}
    if strangers:
        names = ", ".join(sorted(strangers, key=natural_key)[:8]) + (", ..." if len(strangers) > 8 else "")
        text = f"Earlier measurements of what is no RDMA group any more are left out: {names}"
        notes.append({"state": "info", "text": clean(text)})
    return found, notes


def _time(seconds: t.Any) -> str:
    try:
        return datetime.fromtimestamp(float(seconds), timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return "at an unknown time"


# --- a group ----------------------------------------------------------------------------------------------------------


def _messages(texts: t.Iterable[t.Any], hosts: t.Collection[str], state: str) -> list[Json]:
    """Messages, those that differ only in the host that they name merged into one."""
    items: list[Json] = []
    for text, names in alike(texts, hosts):
        look = "info" if text.startswith(_NEUTRAL) else state
        if len(names) > 1:
            items.append({"state": look, "text": clean(f"{len(names)} hosts: {text}"), "hosts": _hosts(names)})
        else:
            items.append({"state": look, "text": clean(text[len("host ") :] if names else text), "hosts": None})
    return items


def _of_measurements(evidence: Json, measured: list[Json], expected: t.Collection[str]) -> list[Json]:
    """What there is to say of the measurements of a group. expected: hosts that were to be measured in this run."""
    items: list[Json] = []
    earlier = evidence.get("earlier")
    when = f" (measured earlier: {earlier})" if earlier else ""
    failed = sum(item["failed"] for item in measured)
    total = sum(item["count"] for item in measured)
    if failed:
        worst = next(item["first_failure"] for item in measured if item["failed"])
        text = f"{failed} of {_plural(total, 'measurement')} failed{when}, such as {worst}"
        items.append({"state": "bad", "text": clean(text), "hosts": None})
    for item in _untested(evidence):
        items.append({**item, "text": clean(item["text"] + when)})
    if expected and (earlier or not total):
        text = f"nothing was measured in this run, although {_plural(len(expected), 'host')} could have been"
        items.append({"state": "warn", "text": text, "hosts": _hosts(expected)})
    if earlier and total:
        text = f"measured earlier: {earlier}, not in this run"
        items.append({"state": "info", "text": text, "hosts": None})
    return items


def _selected_words(nodes: list[tuple[str, Json]]) -> tuple[str, str]:
    """What Pods get on a node, for the page and, shorter, for the summary."""
    counts = sorted({node["selected"] for _host, node in nodes})
    if not counts or counts == [0]:
        usable = sum(node["usable"] for _host, node in nodes)
        if not usable:
            return "none", "none"
        return f"none; {_plural(usable, 'port')} usable on the hosts", f"none ({usable} on hosts)"
    rates = sorted(
        {
            f"{port['rate']} {port['link_layer']}"
            for _host, node in nodes
            for device in node["devices"]
            for port in device["ports"]
            if port["decision"] == "selected"
        },
        key=natural_key,
    )
    amount = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    what = " or ".join(rates[:3])
    return f"{amount} a node, {what}", f"{amount.replace(' to ', '-')} x {what}"


def _resource(group: Json) -> str:
    """The resource of a group; those of its rails as rdma/name1..8."""
    text = str(group.get("resource") or _NOTHING)
    numbers = [row["rail"] for row in _maps(group.get("resources")) if isinstance(row.get("rail"), int)]
    if numbers and "{rail}" in text:
        text = text.replace("{rail}", f"{min(numbers)}..{max(numbers)}" if len(numbers) > 1 else str(numbers[0]))
    return clean(text, 120)


def _selectors_in_words(selectors: t.Any) -> list[Json]:
    return [
        {
            "kind": _SELECTOR_WORDS.get(str(kind), clean(kind, 40)),
            "values": clean(" or ".join(map(str, _list(values)))),
        }
        for kind, values in _map(selectors).items()
    ]


def _group(
    name: str,
    number: int,
    hosts: list[str],
    facts: Json,
    plan: t.Mapping[str, t.Any] | None,
    evidence: Json,
    expected: t.Collection[str],
) -> Json:
    group = _map(plan)
    index = _index(group)
    nodes = [(host, _node(_map(facts[host]), _Decisions(group, index, host))) for host in hosts if host in facts]
    missing = [host for host in hosts if host not in facts]
    problems = _messages(_list(group.get("errors")), set(hosts), "bad")
    if missing:
        text = f"{_plural(len(missing), 'host')} without facts: not reached, or not discovered yet"
        problems.append({"state": "bad", "text": text, "hosts": _hosts(missing)})
    if plan is None:
        problems.append({"state": "warn", "text": "there is no plan for this group", "hosts": None})
    by_note: dict[str, list[str]] = {}
    for host, node in nodes:
        for note in node["notes"]:
            by_note.setdefault(note, []).append(host)
    for note, names in by_note.items():
        problems.append({"state": "warn", "text": note, "hosts": _hosts(names)})
    problems += _messages(_list(group.get("warnings")), set(hosts), "warn")
    problems += _messages(_list(group.get("notes")), set(hosts), "info")
    if group.get("kept"):
        problems.append({"state": "warn", "text": clean(f"the plan is {group['kept']}"), "hosts": None})
    measured = _measurements(_maps(evidence.get("tests")))
    failed = sum(item["failed"] for item in measured)
    total = sum(item["count"] for item in measured)
    problems += _of_measurements(evidence, measured, expected)
    problems.sort(key=lambda item: -_WORSE[item["state"]])
    # A mere piece of information changes nothing; that nothing was measured is not the same as ready.
    state = max((item["state"] for item in problems if item["state"] != "info"), key=_WORSE.__getitem__, default="ok")
    if state == "ok" and not total:
        state = "info"
    words = [item["span"] for item in measured if item["span"]]
    if failed:
        words.insert(0, f"{failed} of {total} failed")

    alike: dict[str, list[str]] = {}
    first: dict[str, Json] = {}
    for host, node in nodes:
        key = json.dumps(node, sort_keys=True)
        alike.setdefault(key, []).append(host)
        first.setdefault(key, node)
    ordered = sorted(alike, key=lambda key: (-len(alike[key]), natural_key(alike[key][0])))
    kinds: list[Json] = [
        {"hosts": _hosts(alike[key]), "host": clean(alike[key][0], 120), "node": first[key]} for key in ordered
    ]

    left_out: dict[tuple[str, ...], list[str]] = {}
    for item in _maps(group.get("exclusions")):
        port = "" if item.get("port") is None else f" port {item['port']}"
        row = (f"{item.get('device')}{port}", str(item.get("netdev") or _NOTHING), str(item.get("reason")))
        left_out.setdefault(row, []).append(str(item.get("host")))
    classes = []
    for item in _maps(group.get("classes")):
        rails = [pool for pool in _maps(item.get("pools")) if pool.get("rail") is not None]
        selects = [
            {"resource": clean(pool.get("resource"), 120), "by": _selectors_in_words(pool.get("selectors"))}
            for pool in rails
        ] or [{"resource": "", "by": _selectors_in_words(item.get("selectors"))}]
        config = item.get("config")
        classes.append(
            {
                "name": clean(item.get("name"), 120),
                "hosts": _hosts(map(str, _list(item.get("hosts")))),
                "selects": selects,
                "config": _pretty(config) if config else None,
            }
        )
    environment: dict[str, list[str]] = {}
    for host, variables in _map(group.get("environment")).items():
        lines = [f"{key}={value}" for key, value in sorted(_map(variables).items())]
        environment.setdefault("\n".join(clean(line) for line in lines), []).append(host)
    return {
        "name": clean(name, 120),
        "anchor": f"group-{number}",
        "state": state,
        "resource": _resource(group),
        "hosts": len(hosts),
        "ready": sum(1 for _host, node in nodes if node["usable"]),
        "gpus": sum(node["gpus"] for _host, node in nodes),
        "ports": sum(node["ports"] for _host, node in nodes),
        "active": sum(node["active"] for _host, node in nodes),
        "selected": sum(node["selected"] for _host, node in nodes),
        "selected_words": _selected_words(nodes)[0],
        "selected_short": _selected_words(nodes)[1],
        "problems": problems[:_MAX_MESSAGES],
        "more_problems": max(0, len(problems) - _MAX_MESSAGES),
        "kinds": kinds[:_MAX_CARDS],
        "more_kinds": [
            {
                "hosts": kind["hosts"],
                "text": f"{_plural(kind['node']['ports'], 'port')}, {kind['node']['active']} active; {kind['node']['selected']} selected",
            }
            for kind in kinds[_MAX_CARDS:]
        ],
        "left_out": [
            {"port": clean(port, 80), "netdev": clean(netdev, 80), "why": clean(why), "hosts": _hosts(names)}
            for (port, netdev, why), names in sorted(left_out.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        "classes": classes,
        "environment": [{"text": text, "hosts": _hosts(names)} for text, names in environment.items() if text],
        "measured": measured,
        "measurements": total,
        "failed": failed,
        "untested": sum(bool(row.get("defect")) for row in _maps(evidence.get("untested"))),
        "earlier": clean(evidence.get("earlier") or "", 40),
        "measured_words": "; ".join(words) or "not measured",
        "measured_short": "; ".join(words[:2]) + ("; ..." if words[2:] else "") if words else "not measured",
    }


def _pretty(config: t.Any) -> str:
    """JSON over several lines, each harmless."""
    text = json.dumps(config, indent=2, ensure_ascii=False, default=str)
    return "\n".join(clean(line, 2000) for line in text.split("\n"))


# --- the whole --------------------------------------------------------------------------------------------------------


def _names(groups: list[Json]) -> str:
    return ", ".join(group["name"] for group in groups[:4]) + (" and others" if len(groups) > 4 else "")


def _readiness(groups: list[Json], unproved: list[Json]) -> str:
    """The headline where nothing is wrong."""
    which = {1: f"Group {groups[0]['name']} is", 2: "Both groups are"}.get(len(groups), f"All {len(groups)} groups are")
    if not unproved:
        return which + " ready"
    if len(unproved) == len(groups):
        return which + " planned, not measured"
    proved = len(groups) - len(unproved)
    return (
        f"{proved} of {len(groups)} groups {'is' if proved == 1 else 'are'} ready; not measured yet: {_names(unproved)}"
    )


def _verdict(groups: list[Json], notes: list[Json], fallen: t.Collection[str] = (), failed: bool = False) -> Json:
    bad = [group for group in groups if group["state"] == "bad"]
    if not groups:
        return {"state": "warn", "text": "No RDMA group to report on", "detail": "Set rdma_groups in the inventory."}
    if bad:
        state = "bad"
        text = "%d of %d groups %s a problem: %s" % (
            len(bad), len(groups), "has" if len(bad) == 1 else "have", _names(bad)
        )  # fmt: skip
        if len(groups) == 1:
            text = f"Group {_names(bad)} has a problem"
    else:
        state = max((item["state"] for item in [*groups, *notes]), key=_WORSE.__getitem__)
        unproved = [group for group in groups if not group["measurements"]]
        text = _readiness(groups, unproved)
        if state == "warn":
            text += ". Read the notes"
        elif not unproved:
            state = "ok"
    if fallen:
        text = "%s: %s%s" % (
            "1 node did not come to a good end"
            if len(fallen) == 1
            else f"{len(fallen)} nodes did not come to a good end",
            ", ".join(list(fallen)[:4]) + (" and others" if len(fallen) > 4 else ""),
            "; " + text[:1].lower() + text[1:] if bad else "",
        )
        state = "bad"
    elif failed:
        text = "The run did not do all of its work; " + text[:1].lower() + text[1:]
        state = "bad"
    nodes, ready = (sum(group[key] for group in groups) for key in ("hosts", "ready"))
    return {
        "state": state,
        "text": text,
        "detail": f"{ready} of {_plural(nodes, 'node')} have a usable port. {_traffic(groups)}",
    }


def _fallen(outcomes: t.Any) -> tuple[list[str], list[Json]]:
    """Names of the nodes whose change did not come to a good end, and notes that say at which step and what to do."""
    hosts = {str(host): _map(one) for host, one in _map(_map(outcomes).get("hosts")).items()}
    well = ("finished", "held")
    names = sorted((host for host, one in hosts.items() if str(one.get("state")) not in well), key=natural_key)
    lines = outcome_lines({"hosts": hosts})
    # the last line tells of those that were held back
    held = any(one.get("state") == "held" for one in hosts.values())
    notes = [{"state": "bad", "text": clean(line)} for line in (lines[:-1] if held else lines)]
    return names, notes + ([{"state": "warn", "text": clean(lines[-1])}] if held else [])


def _traffic(groups: list[Json]) -> str:
    """What is known of the traffic between the nodes, in a sentence or two."""
    measured, failed, untested = (sum(group[key] for group in groups) for key in ("measurements", "failed", "untested"))
    earlier = [group for group in groups if group["earlier"] and group["measurements"]]
    if measured:
        text = "%s between nodes, %s." % (
            _plural(measured, "measurement"),
            "all within their limits" if not failed else f"{failed} of them not within the limit",
        )
    else:
        text = "Nothing has been measured between nodes yet." if not untested else "Nothing was measured between nodes."
    if untested:
        text += f" {_plural(untested, 'port')} could not be measured."
    if earlier:
        text += f" Measured earlier, not in this run: {_names(earlier)}."
    return text


def build(
    facts: t.Any,
    plan: t.Any,
    evidence: t.Any,
    groups: t.Any,
    title: str = "RDMA report",
    generated: str = "",
    earlier: t.Any = (),
    expected: t.Any = (),
    outcomes: t.Any = None,
    failures: t.Any = (),
) -> Json:
    """The model that the page and the summary show: plain text and numbers, all of it passed through clean().

    facts by host; the plan (groups by name) or nothing; evidence documents of this run (schema 1); hosts by group. earlier:
    evidence files as pairs of their stat (path, mtime in seconds) and their text, for groups without evidence of this run;
    expected: hosts that were to be measured in this run; outcomes: what became of the nodes that were prepared (schema 1); failures:
    sentences on steps of this run that failed as a whole, which come before everything else. Raises ReportError when one of these
    documents has another shape. Missing parts are shown as missing.
    """
    for what, value in (("facts", facts), ("plan", plan), ("groups", groups), ("outcomes", outcomes)):
        if value is not None and not isinstance(value, t.Mapping):
            raise ReportError(f"{what}: expected a dictionary, found {type(value).__name__}")
    if evidence is not None and not isinstance(evidence, (list, tuple)):
        raise ReportError(f"evidence: expected a list of documents, found {type(evidence).__name__}")
    documents = [("plan", plan or {}), ("outcomes", outcomes or {}), *(("evidence", item) for item in evidence or ())]
    for what, document in documents:
        schema = _map(document).get("schema", 1)
        if schema != 1:
            raise ReportError(f"{what}: schema {schema!r} is not known; this version of the collection reads schema 1")
    facts = {str(host): value for host, value in _map(facts).items()}
    planned = _map(_map(plan).get("groups"))
    members = {str(name): sorted(map(str, _list(hosts)), key=natural_key) for name, hosts in _map(groups).items()}
    current: Json = {}
    for document in _maps(evidence):
        merged = current.setdefault(str(document.get("group")), {"tests": [], "untested": []})
        for key in merged:
            merged[key] += _maps(document.get(key))
    saved, left = _earlier(earlier, members, current)
    live = set(map(str, _list(expected)))
    views = []
    for number, name in enumerate(sorted(members, key=natural_key), 1):
        own = planned.get(name)
        views.append(
            _group(
                name,
                number,
                members[name],
                facts,
                own if isinstance(own, t.Mapping) else None,
                current.get(name) or saved.get(name) or {},
                [host for host in members[name] if host in live],
            )
        )
    fallen, nodes = _fallen(outcomes)
    failed = [{"state": "bad", "text": clean(text)} for text in _list(failures) if text]
    notes = [{"state": "warn", "text": clean(text)} for text in _list(_map(plan).get("warnings"))] + left
    total = {
        key: sum(view[key] for view in views)
        for key in ("hosts", "gpus", "ports", "active", "selected", "measurements")
    }
    return {
        "title": clean(title, 120),
        "generated": clean(generated, 60),
        "states": _STATES,
        "verdict": _verdict(views, notes, fallen, bool(failed)),
        "failures": failed[:_MAX_MESSAGES],
        "nodes": nodes[:_MAX_NODES],
        "more_nodes": max(0, len(nodes) - _MAX_NODES),
        "notes": notes[:_MAX_MESSAGES],
        "total": total,
        "groups": views,
    }


@functools.lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(str(_TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.j2")


def render_html(model: Json) -> str:
    """The page, self-contained."""
    return _template().render(**model)


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def render_summary(model: Json) -> str:
    """The same in at most 100 columns for a terminal: a headline, a line for each group, the most important notes."""
    verdict = model["verdict"]
    lines = [
        _fit(f"{_STATES[verdict['state']]['symbol']}  {verdict['text']}", SUMMARY_WIDTH),
        *textwrap.wrap(verdict["detail"], SUMMARY_WIDTH, initial_indent="   ", subsequent_indent="   "),
    ]
    groups = model["groups"]
    if groups:
        rows = [("", "group", "nodes", "resource", "selected", "measured")]
        for group in groups:
            nodes = f"{group['ready']}/{group['hosts']}" if group["ready"] != group["hosts"] else str(group["hosts"])
            rows.append(
                (
                    _STATES[group["state"]]["symbol"],
                    _fit(group["name"], 18),
                    nodes,
                    _fit(group["resource"], 22),
                    _fit(group["selected_short"], 30),
                    group["measured_short"],
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines.append("")
        lines += [
            _fit("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), SUMMARY_WIDTH)
            for row in rows
        ]
    notes = (
        [(item["state"], item["text"]) for item in model["failures"] + model["nodes"]]
        + [(item["state"], f"{group['name']}: {item['text']}") for group in groups for item in group["problems"]]
        + [(item["state"], item["text"]) for item in model["notes"]]
    )
    notes.sort(key=lambda note: -_WORSE[note[0]])
    if notes:
        lines.append("")
    for state, text in notes[:_MAX_SUMMARY_NOTES]:
        wrapped = textwrap.wrap(text, SUMMARY_WIDTH - 3, max_lines=4 if state == "bad" else 2, placeholder=" …")
        lines += [(f"{_STATES[state]['symbol']}  " if not row else "   ") + line for row, line in enumerate(wrapped)]
    if len(notes) > _MAX_SUMMARY_NOTES:
        lines.append(f"   and {len(notes) - _MAX_SUMMARY_NOTES} more, in the report")
    return "\n".join(lines) + "\n"

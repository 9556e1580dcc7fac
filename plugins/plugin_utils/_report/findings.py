# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was found wrong, each with its cause, evidence and remedy: of the doctor, of links, of the fabric, and of this run's traffic.
Private to the collection. Pure."""

from __future__ import annotations

import collections
import json
import re
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.rules import health_findings
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.checks import CHECKS
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    Json,
    as_list,
    as_map,
    as_maps,
    clean,
    hosts_in_words,
    in_utc,
    plural,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import sound_facts

__all__ = [
    "SEVERITIES",
    "Found",
    "findings_of_checks",
    "findings_of_facts",
    "findings_of_files",
    "findings_of_outliers",
    "findings_of_traffic",
    "gathered",
    "ordered_views",
]

# The state that a finding gives to its group, and what it is called; worst first.
SEVERITIES = {"error": ("bad", "Error"), "warning": ("warn", "Warning"), "note": ("info", "Note")}
_MAX_FINDINGS = 60
_MAX_EVIDENCE = 6
# So many findings that differ in host and figures only are shown as one.
_LEAST_ALIKE = 3
# PCI addresses, and numbers that are not part of a name.
_FIGURES = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|(?<![\w.])[0-9]+(?:\.[0-9]+)*(?![\w])")
# Findings of one file that are looked at; the rest has no room on a page.
_MOST = 20_000


class Found(t.TypedDict):
    """A finding as the report keeps it: clean, with the place that it is from ("" for this run)."""

    id: str
    severity: str
    group: str
    hosts: list[str]
    cause: str
    evidence: list[str]
    remedy: str
    source: str


def _findings_of_run(documents: t.Any, source: str = "") -> list[Found]:
    """Findings of documents, each a finding, a list of them, or a dictionary that has them under findings."""
    found: list[Found] = []
    for item in as_list(documents):
        if isinstance(item, (list, tuple)):
            found += _findings_of_run(item, source)
        elif "findings" in as_map(item):
            found += _findings_of_run(as_map(item)["findings"], source)
        elif as_map(item).get("cause"):
            found.append(_found(as_map(item), source))
    return found[:_MOST]


def _found(item: Json, source: str) -> Found:
    evidence = item.get("evidence")
    lines = as_list(evidence) if isinstance(evidence, (list, tuple)) else [] if evidence in (None, "") else [evidence]
    severity = str(item.get("severity"))
    return {
        "id": clean(item.get("id") or "finding", 80),
        "severity": severity if severity in SEVERITIES else "warning",
        "group": clean(item.get("group") or "", 120),
        "hosts": sorted({clean(host, 120) for host in as_list(item.get("hosts"))}, key=natural_key),
        "cause": clean(item["cause"]),
        "evidence": [clean(_line(each)) for each in lines[:_MAX_EVIDENCE]],
        "remedy": clean(item.get("remedy") or ""),
        "source": source,
    }


def _line(evidence: t.Any) -> t.Any:
    if isinstance(evidence, t.Mapping):
        return ", ".join(f"{key} {value}" for key, value in evidence.items())
    return evidence


def findings_of_files(saved: t.Any) -> tuple[list[Found], dict[str, tuple[Json, str]], list[Json]]:
    """(findings that playbooks of their own have left, the documents by the names of their files and with their times, notes on files
    that cannot be read).

    saved: pairs of the stat (path, mtime) and the text of each file.
    """
    found: list[Found] = []
    documents: dict[str, tuple[Json, str]] = {}
    notes: list[Json] = []
    for item in as_list(saved):
        stat, text = (as_map(item[0]), item[1]) if isinstance(item, (list, tuple)) and len(item) == 2 else ({}, "")
        name = clean(Path(str(stat.get("path"))).name, 80)
        try:
            document = as_map(json.loads(str(text)))
        except (ValueError, RecursionError) as exc:
            words = f"{name} is left out, it cannot be read: {exc}; make it again, or move it away"
            notes.append({"state": "warn", "text": clean(words)})
            continue
        when = in_utc(stat.get("mtime"))
        documents[name] = (document, when)
        found += _findings_of_run([document], f"{name}, {when}")
        notes += _not_looked_at(document, f"{name}, {when}")
    return found, documents, notes


def _not_looked_at(document: Json, source: str) -> list[Json]:
    """What the doctor could not look at: that it has found nothing there means nothing."""
    unread = as_list(document.get("unread"))
    if not unread:
        return []
    more = f" (and {len(unread) - 1} more, in the file)" if len(unread) > 1 else ""
    return [{"state": "info", "text": clean(f"{source}: not looked at: {clean(unread[0], 300)}{more}")}]


def findings_of_traffic(group: str, measured: t.Iterable[Json]) -> list[Found]:
    """What traffic of a group failed for and what to do, failures of one kind in one finding. measured: as measured_views() makes it."""
    found = []
    for view in measured:
        kinds: dict[tuple[str, str], list[Json]] = {}
        for row in view["failures"]:
            # what is beyond its limit differs in the figures only
            said = "" if row["word"] == "failed" else re.sub(r"[0-9.]+", "0", row["message"])
            kinds.setdefault((row["remedy"], said), []).append(row)
        found += [_of_traffic(group, view, rows) for rows in kinds.values()]
    return found


def _of_traffic(group: str, view: Json, rows: list[Json]) -> Found:
    """A finding of failures of one kind. rows: worst first."""
    name = view["name"] + (" between Pods" if view["level"] == "pods" else "")
    first = rows[0]
    what = "is not within its limit" if first["word"] == "failed" else "could not be measured"
    cause = f"{name} {what}: {first['message'] or first['word']}"
    hosts = list(dict.fromkeys(clean(host, 120) for row in rows for host in row["hosts"]))
    remedy = first["remedy"]
    if len(rows) > 1:
        cause = f"{name} {what} in {len(rows)} of {view['count']} measurements"
        common, times = _common_host(rows)
        if common:
            cause += f"; {common} has a part in {'all' if times == len(rows) else times} of them"
            hosts = [common]
            remedy = remedy or f"look at the ports, cables and PCIe links of {common} first"
    return {
        "id": f"traffic-{view['name']}",
        "severity": "error",
        "group": clean(group, 120),
        "hosts": hosts,
        "cause": clean(cause),
        "evidence": [_told(row) for row in rows[:_MAX_EVIDENCE]],
        "remedy": remedy,
        "source": "",
    }


def findings_of_facts(facts: t.Mapping[str, Json], members: t.Mapping[str, t.Sequence[str]]) -> list[Found]:
    """What the facts themselves say of cards and links; of hosts whose facts have another form, nothing."""
    sound, _malformed = sound_facts(facts)
    view = {"groups": {name: {"hosts": hosts} for name, hosts in members.items()}, "facts": sound}
    return _findings_of_run(health_findings(view))


def findings_of_checks(group: str, evidence: t.Mapping[str, t.Any]) -> list[Found]:
    """What Pods were given that is not as planned, whom they do not reach, links whose errors grew while traffic moved, and jobs
    over several nodes that fell short."""
    source = f"evidence, {evidence['earlier']}" if evidence.get("earlier") else ""
    found: dict[tuple[str, str, str], Found] = {}
    times: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for key in CHECKS:
        for each in as_maps(evidence.get(key)):
            if each.get("verdict") not in ("fail", "error"):
                continue
            hosts = [clean(each[end], 120) for end in ("host", "client", "server") if each.get(end)]
            said, remedy = clean(each.get("message") or f"{key} failed"), clean(each.get("remedy") or "")
            kind = (key, re.sub(r"[0-9.]+", "0", said), remedy)
            times[kind] += 1
            one = found.setdefault(
                kind,
                {
                    "id": f"verify-{key}",
                    "severity": "error",
                    "group": clean(group, 120),
                    "hosts": [],
                    "cause": clean(_of_what(key, each, said)),
                    "evidence": [],
                    "remedy": remedy,
                    "source": clean(source, 80),
                },
            )
            one["hosts"] = list(dict.fromkeys([*one["hosts"], *hosts]))
            if len(one["evidence"]) < _MAX_EVIDENCE:
                one["evidence"].append(_checked(each, hosts))
    for kind, one in found.items():
        if times[kind] > 1:
            one["cause"] += f" (and {plural(times[kind] - 1, f'more {CHECKS[kind[0]]}')})"
    return list(found.values())


def _of_what(key: str, each: Json, said: str) -> str:
    """What was said of a check, with what it was said of: a title is read alone, also in a ticket and in a comparison."""
    host = str(each.get("host"))
    if key == "links":
        return f"{host} {_link_name(each)}: {said}"
    if key == "pings":
        return f"ping from {each.get('client')} to {each.get('server')} over {each.get('network')}: {said}"
    if key == "collectives":
        return f"{each.get('tool')} ({each.get('name')}): {said}"
    # what a Pod was given mostly names its host
    return said if host in said else f"a Pod of user {each.get('user')} on {host}: {said}"


def _link_name(each: Json) -> str:
    """A port of a device, or a netdev of it."""
    return (
        f"{each.get('device')} ({each['netdev']})"
        if each.get("netdev")
        else f"{each.get('device')} port {each.get('port')}"
    )


def _checked(each: Json, hosts: t.Sequence[str]) -> str:
    """What was seen, in words: a Pod of a user, an address, counters that grew."""
    told = [" → ".join(hosts)] if hosts else []
    if each.get("tool"):
        told += [str(each["tool"]), str(each.get("name"))]
    if each.get("device") or each.get("netdev"):
        told.append(_link_name(each))
    if "user" in each:
        told.append(f"as user {each['user']}")
    if each.get("network"):
        told.append(f"{each['network']}, {each.get('address')}, {each.get('received')} of {each.get('sent')} answers")
    told += [f"{one.get('counter')} +{one.get('growth')}" for one in as_maps(each.get("grown"))[:4]]
    return clean(", ".join(told))


def findings_of_outliers(group: str, evidence: t.Mapping[str, t.Any]) -> list[Found]:
    """Ports, and pairs of them, that are far from the others: a warning each, whatever their limit says."""
    source = f"evidence, {evidence['earlier']}" if evidence.get("earlier") else ""
    return [
        {
            "id": f"outlier-{clean(each.get('kind'), 20)}",
            "severity": "warning",
            "group": clean(group, 120),
            "hosts": list(dict.fromkeys(clean(end.get("host"), 120) for end in as_maps(each.get("ends")))),
            "cause": clean(f"{_ends_of(each)}: {each.get('message')}"),
            "evidence": [clean(f"one of {each.get('of')} figures of {each.get('test')} that were compared")],
            "remedy": clean(each.get("remedy") or ""),
            "source": clean(source, 80),
        }
        for each in as_maps(evidence.get("outliers"))
    ]


def _ends_of(outlier: Json) -> str:
    """The port that is far from the others, or both ports of a pair."""
    return " and ".join(
        f"{end.get('host')} {end.get('device')} port {end.get('port')}" for end in as_maps(outlier.get("ends"))
    )


def _told(row: Json) -> str:
    said = f", {row['message']}" if row["message"] else ""
    return clean(f"{row['client']} → {row['server']}: {row['text']}{said}")


def _common_host(rows: list[Json]) -> tuple[str, int]:
    """The host that has a part in nearly all of three failures or more, where no other has in half as many."""
    counts = collections.Counter(host for row in rows for host in set(row["hosts"])).most_common(2)
    if len(rows) < 3 or len(counts) < 2 or counts[0][1] < 0.9 * len(rows) or 2 * counts[1][1] > counts[0][1]:
        return "", 0
    return clean(counts[0][0], 120), counts[0][1]


def gathered(found: t.Sequence[Found]) -> list[Found]:
    """Findings, those of many hosts that differ in host and figures only as one: it names all hosts, and shows what was seen on some."""
    kinds: dict[tuple[str, ...], list[Found]] = {}
    for each in found:
        about = (_without_hosts(each["cause"], each["hosts"]), _without_hosts(each["remedy"], each["hosts"]))
        kinds.setdefault((each["id"], each["severity"], each["group"], each["source"], *about), []).append(each)
    rows: list[Found] = []
    for own in kinds.values():
        if len(own) < _LEAST_ALIKE:
            rows += own
            continue
        own.sort(key=lambda each: natural_key(each["cause"]))
        rows.append(
            {
                **own[0],
                "hosts": list(dict.fromkeys(host for each in own for host in each["hosts"])),
                "cause": clean(f"{own[0]['cause']} (and {len(own) - 1} more like it)"),
                "evidence": [_seen(each) for each in own if each["evidence"]][:_MAX_EVIDENCE],
            }
        )
    return rows


def _without_hosts(text: str, hosts: t.Sequence[str]) -> str:
    """A text without its hosts, PCI addresses and figures; names of devices stay."""
    for host in hosts[:4]:
        text = text.replace(host, "")
    return _FIGURES.sub("0", text)


def _seen(each: Found) -> str:
    """The first line of evidence, with its hosts where it does not name them."""
    line = each["evidence"][0]
    hosts = each["hosts"][:2]
    return line if not hosts or any(host in line for host in hosts) else clean(f"{', '.join(hosts)}: {line}")


def ordered_views(found: t.Sequence[Found]) -> tuple[list[Json], int, list[Json]]:
    """(findings as the page shows them, worst first and those that reach the most hosts before others; how many more there are; all of
    them, none gathered)."""
    merged: dict[tuple[str, ...], Found] = {}
    for each in found:
        key = (each["id"], each["severity"], each["group"], each["cause"], each["remedy"], each["source"])
        one = merged.setdefault(key, {**each, "hosts": [], "evidence": []})
        one["hosts"] = list(dict.fromkeys([*one["hosts"], *each["hosts"]]))
        one["evidence"] = list(dict.fromkeys([*one["evidence"], *each["evidence"]]))[:_MAX_EVIDENCE]
    shown = _views(gathered(list(merged.values())))
    return shown[:_MAX_FINDINGS], max(0, len(shown) - _MAX_FINDINGS), _views(merged.values())


def _views(found: t.Iterable[Found]) -> list[Json]:
    place = list(SEVERITIES)
    rows = sorted(
        found,
        key=lambda each: (
            place.index(each["severity"]),
            not each["remedy"],
            -len(each["hosts"]),
            natural_key(each["group"]),
            each["id"],
            each["cause"],
        ),
    )
    return [
        {
            **each,
            "state": SEVERITIES[each["severity"]][0],
            "word": SEVERITIES[each["severity"]][1],
            "names": sorted(each["hosts"], key=natural_key),
            "hosts": hosts_in_words(each["hosts"]) if each["hosts"] else None,
        }
        for each in rows
    ]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of measurements: those of this run, those of earlier ones, and what was not measured. Private to the collection. Pure."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Evidence, Measurement, Untested
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import contract_problems
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

__all__ = ["Shown", "hosts_of", "of_earlier_runs", "of_this_run", "untested"]


# What is there beside measurements, in evidence that is new enough.
_OTHERS = ("outliers", "inspections", "pings", "links", "collectives")


class _Measured(t.TypedDict):
    tests: list[Measurement]
    untested: list[Untested]


class Shown(_Measured, total=False):
    """The evidence of a group as the page shows it. earlier: when it was measured, where that was not in this run; the others:
    as docs/evidence.schema.json has them, where the group has any.
    """

    earlier: str
    outliers: list[Json]
    inspections: list[Json]
    pings: list[Json]
    links: list[Json]
    collectives: list[Json]


def of_this_run(documents: t.Any) -> dict[str, Shown]:
    """Evidence by group; documents of the same group are one. Nobody relies on their values: the page shows what it can."""
    found: dict[str, Shown] = {}
    for document in as_maps(documents):
        merged = found.setdefault(str(document.get("group")), {"tests": [], "untested": []})
        merged["tests"] += t.cast(list[Measurement], as_maps(document.get("tests")))
        merged["untested"] += t.cast(list[Untested], as_maps(document.get("untested")))
        for key in _OTHERS:
            t.cast(Json, merged).setdefault(key, []).extend(as_maps(document.get(key)))
    return found


def of_earlier_runs(
    saved: t.Any, groups: t.Mapping[str, list[str]], current: t.Collection[str]
) -> tuple[dict[str, Shown], list[Json]]:
    """Evidence files of earlier runs by group, with their time, for groups that have none of this run; and notes.

    saved: [(stat with path and mtime, text of the file)]. One that has not the form of docs/evidence.schema.json is a note, not an
    error: it may be of another version of the collection, or half written.
    """
    found: dict[str, Shown] = {}
    notes: list[Json] = []
    strangers: list[str] = []
    for item in as_list(saved):
        stat, text = (as_map(item[0]), item[1]) if isinstance(item, (list, tuple)) and len(item) == 2 else ({}, "")
        name = Path(str(stat.get("path"))).name
        try:
            document = _document(text)
        except (ValueError, RecursionError) as exc:
            words = f"evidence/{name} is left out, it cannot be read: {exc}; put it right, or measure again"
            notes.append({"state": "warn", "text": clean(words)})
            continue
        group = document["group"]
        if group in current:
            continue
        if group not in groups:
            strangers.append(clean(group, 80))
            continue
        found[group], gone = _of_hosts(document, set(groups[group]))
        found[group]["earlier"] = in_utc(stat.get("mtime"))
        if gone:
            said = f"{plural(gone, 'earlier measurement')} left out, of hosts that are not in it now"
            notes.append({"state": "info", "text": clean(f"{group}: {said}")})
    if strangers:
        names = ", ".join(sorted(strangers, key=natural_key)[:8]) + (", ..." if len(strangers) > 8 else "")
        text = f"Earlier measurements of groups that are no longer RDMA groups are left out: {names}"
        notes.append({"state": "info", "text": clean(text)})
    return found, notes


def _document(text: t.Any) -> Evidence:
    document = json.loads(str(text))
    problems = contract_problems("evidence", document)
    if problems:
        raise ValueError("; ".join(problems))
    return t.cast(Evidence, document)


def _of_hosts(document: Evidence, hosts: t.Collection[str]) -> tuple[Shown, int]:
    """What a document says of these hosts, and how many of its measurements are of others."""
    tests = document["tests"]
    kept = [test for test in tests if {test["client"]["host"], test["server"]["host"]} <= set(hosts)]
    rows = [row for row in document["untested"] if row["host"] in hosts]
    shown: Shown = {"tests": kept, "untested": rows}
    for key in _OTHERS:
        items = as_maps(t.cast(Json, document).get(key))
        t.cast(Json, shown)[key] = [each for each in items if hosts_of(each) <= set(hosts)]
    return shown, len(tests) - len(kept)


def hosts_of(item: Json) -> set[str]:
    """The hosts that a row of evidence is of: a test, what was not measured, an outlier, an inspection, a ping or a link."""
    own = [item[key] for key in ("host", "client", "server") if key in item]
    ends = [*as_maps(item.get("ends")), *(each for each in own if isinstance(each, dict))]
    return {*(str(end.get("host")) for end in ends), *(str(each) for each in own if not isinstance(each, dict))}


def untested(evidence: Shown, told: t.Collection[str]) -> list[Json]:
    """Ports that were not measured: a defect is a problem, a port without a partner is not. told: hosts of which the plan says that they have none."""
    merged: dict[tuple[bool, str, str], list[str]] = {}
    for row in evidence["untested"]:
        what = "" if row.get("device") is None else f" {row.get('device')} port {row.get('port')}"
        defect = bool(row.get("defect")) and (what != "" or str(row.get("host")) not in told)
        merged.setdefault((defect, what, str(row.get("reason"))), []).append(str(row.get("host")))
    items = []
    for (defect, what, reason), hosts in merged.items():
        one = len(hosts) == 1
        text = "{}{}: not measured, {}".format(hosts[0] if one else f"{len(hosts)} hosts", what, reason)
        items.append(
            {"state": "bad" if defect else "info", "text": clean(text), "hosts": None if one else hosts_in_words(hosts)}
        )
    return items

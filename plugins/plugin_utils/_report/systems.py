# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster gets beside the device plugin: networks, drivers, storage. Private to the collection. Pure."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import contract_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    MAX_MESSAGES,
    Json,
    as_list,
    as_map,
    clean,
)

__all__ = ["system_views"]

# What state.json says, or that there is none yet, and how it looks.
_STATES = {
    "refused": ("bad", "Refused"),
    "applied": ("ok", "Applied"),
    "rendered": ("info", "Rendered, not applied"),
    "planned": ("info", "Planned"),
}
_MAX_SYSTEMS = 24
_MAX_ROWS = 40
_MAX_WORKLOADS = 24
_MAX_LINES = 400


def system_views(files: t.Any, wished: t.Any) -> tuple[list[Json], list[Json]]:
    """(systems as the page shows them, notes on those that were refused or cannot be shown).

    files: pairs of the stat and the text of each systems/NAME/state.json. wished: names of the systems that are asked for, in order.
    """
    records, notes = _read(files)
    asked = [str(name) for name in as_list(wished) if name != "device_plugin"]
    names = list(dict.fromkeys([*asked, *sorted(records)]))[:_MAX_SYSTEMS]
    views = [_view(name, records.get(name, {"state": "planned"}), name in asked) for name in names]
    for view in views:
        if view["state"] == "bad":
            why = view["notes"][0]["text"] if view["notes"] else "no reason given"
            notes.append({"state": "warn", "text": clean(f"{view['name']} was refused: {why}")})
    return views, notes


def _read(files: t.Any) -> tuple[dict[str, Json], list[Json]]:
    records, notes = {}, []
    for pair in as_list(files):
        told, text = (as_map(pair[0]), pair[1]) if len(as_list(pair)) == 2 else ({}, None)
        try:
            record = as_map(json.loads(str(text)))
        except (ValueError, RecursionError):
            record = {}
        if not contract_problems("state", record):
            records[clean(record["system"], 60)] = record
        else:
            notes.append({"state": "warn", "text": clean(f"{told.get('path')} is not what a run has written")})
    return records, notes


def _view(name: str, record: Json, asked: bool) -> Json:
    state, word = _STATES[str(record["state"])]
    notes = [{"state": "bad", "text": clean(text)} for text in as_list(record.get("problems"))]
    notes += [{"state": "warn", "text": clean(text)} for text in as_list(record.get("warnings"))]
    if not asked:
        notes.append({"state": "info", "text": "nobody asks for it any more; the playbook uninstall removes it"})
    rows = [row for row in as_list(record.get("summary")) if len(as_list(row)) == 2]
    workloads = as_map(record.get("workloads"))
    return {
        "name": clean(name, 60),
        "state": state,
        "word": word,
        "rows": [{"what": clean(what, 120), "text": clean(text)} for what, text in rows[:_MAX_ROWS]],
        "notes": notes[:MAX_MESSAGES],
        "more_notes": max(0, len(notes) - MAX_MESSAGES),
        "uses": _uses(as_map(record.get("uses"))),
        "workloads": [
            {"path": clean(f"systems/{name}/{path}", 200), "text": _lines(text)}
            for path, text in sorted(workloads.items())[:_MAX_WORKLOADS]
        ],
        "more_workloads": max(0, len(workloads) - _MAX_WORKLOADS),
    }


def _uses(uses: Json) -> list[Json]:
    """What Pods take of each network: annotations and resources, by the name of the Pod that is the example."""
    return [
        {
            "pod": clean(pod, 120),
            "annotations": [clean(f"{key}: {value}") for key, value in as_map(use.get("annotations")).items()],
            "resources": [clean(f"{key}: {value}") for key, value in as_map(use.get("resources")).items()],
        }
        for pod, use in [(pod, as_map(each)) for pod, each in uses.items()][:_MAX_ROWS]
    ]


def _lines(text: t.Any) -> str:
    lines = str(text).split("\n")
    return "\n".join([*(clean(line, 2000) for line in lines[:_MAX_LINES]), *(["…"] if lines[_MAX_LINES:] else [])])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a report as data (docs/report.schema.json): what other programs read, and what a later report is compared with.
Private to the collection. Pure."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.history import compared
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import MOST, Json, as_map, clean

__all__ = ["completed_with", "document_of", "render_json"]

SCHEMA = 1


def document_of(model: Json) -> Json:
    """The document of a model (_report/model.py)."""
    verdict = model["verdict"]
    return {
        "schema": SCHEMA,
        "title": model["title"],
        "generated": model["generated"],
        "versions": {"collection": model["versions"].get("collection"), "ansible": model["versions"].get("ansible")},
        "verdict": {key: verdict[key] for key in ("state", "text", "detail")},
        "failures": [item["text"] for item in model["failures"]],
        "notes": [{"state": item["state"], "text": item["text"]} for item in [*model["nodes"], *model["notes"]]],
        "findings": [_finding(each) for each in model["all_findings"]],
        "groups": {group["name"]: _group(group) for group in model["groups"]},
        "changes": [{"nodes": row["nodes"], "what": row["what"], "details": row["text"]} for row in model["changes"]],
        "systems": {system["name"]: system["word"] for system in model["systems"]},
        "history": None,
    }


def completed_with(model: Json, earlier: Json | None) -> tuple[Json, Json]:
    """(model, document) with what is worse and better than in an earlier document; None where there is none to compare with."""
    document = document_of(model)
    if earlier is None:
        return model, document
    history = compared(earlier, document)
    told = {
        "with": history["with"],
        "worse": history["count_worse"],
        "better": history["count_better"],
    }
    return {**model, "history": history}, {**document, "history": told}


def render_json(document: Json) -> str:
    """As a file."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finding(view: Json) -> Json:
    return {
        "id": view["id"],
        "severity": view["severity"],
        "group": view["group"] or None,
        "hosts": view["names"],
        "cause": view["cause"],
        "evidence": view["evidence"],
        "remedy": view["remedy"],
        "source": view["source"],
    }


def _group(group: Json) -> Json:
    return {
        "state": group["state"],
        "resource": group["resource"],
        "measured_earlier": group["earlier"],
        "problems": [
            {"state": item["state"], "text": item["text"], "hosts": (item["hosts"] or {}).get("names", [])}
            for item in group["all_problems"]
        ],
        "nodes": group["members"],
        "measurements": [
            _measurement(view, row) for view in group["measured"] for row in sorted(view["all"], key=_place)
        ],
        "collectives": [_collective(each) for each in group["collectives"]],
        "checks": group["checked"],
    }


def _collective(each: Json) -> Json:
    """A job over several nodes, as the evidence has it."""
    figures = {key: _figure(each.get(key)) for key in ("best_gbs", "average_gbs", "lowest_gbs")}
    return {
        "name": clean(each.get("name"), 120),
        "tool": clean(each.get("tool"), 40),
        **{key: None if each.get(key) is None else clean(each[key], 80) for key in ("way", "test")},
        "ranks": _whole(each.get("ranks")),
        **figures,
        "limit_gbs": _figure(each.get("floor_gbs")),
        "verdict": each["verdict"] if each.get("verdict") in ("pass", "fail") else "error",
        "message": clean(each.get("message") or ""),
        "remedy": clean(each["remedy"]) if each.get("remedy") else None,
    }


def _figure(value: t.Any) -> float | None:
    """A number that JSON has."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MOST else None


def _place(row: Json) -> tuple[str, ...]:
    return row["client"], row["server"], str(row["test"].get("message_bytes")), str(row["test"].get("qps")), row["text"]


def _measurement(view: Json, row: Json) -> Json:
    return {
        "level": view["level"],
        "test": view["name"],
        "variant": view["variant"],
        "client": _end(row["test"].get("client")),
        "server": _end(row["test"].get("server")),
        "message_bytes": _whole(row["test"].get("message_bytes")),
        "qps": _whole(row["test"].get("qps")),
        "unit": "us" if view["latency"] else "Gb/s",
        "value": row["value"],
        "limit": row["floor"],
        "verdict": {"passed": "pass", "failed": "fail"}.get(row["word"], "error"),
        "far": row["far"],
        "message": row["message"],
        "remedy": row["remedy"],
    }


def _end(side: t.Any) -> Json:
    side = as_map(side)
    return {
        "host": clean(side.get("host"), 120),
        "device": clean(side.get("device"), 80),
        "port": _whole(side.get("port")),
    }


def _whole(value: t.Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else None

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers of a change until it has come to its end. Private to the collection. Pure.

The state before a change lies in the memory of the controller, and is gone when that is killed. A copy on the node outlives
it: the next run begins with this node, and compares it with what it was before the change that never ended.
"""

from __future__ import annotations

import json
import typing as t

__all__ = ["PATH", "dump_mark", "load_mark", "open_change", "snapshot"]

Json = t.Dict[str, t.Any]

PATH = "/var/lib/fabric.rdma/change.json"
_VERSION = 1
_MAX_BYTES = 1 << 20


def snapshot(facts: t.Mapping[str, t.Any]) -> Json:
    """What of ansible_facts.rdma two states of a node are compared by (see `worse`): ports, services, a runtime that is ready."""
    found: Json = {
        "devices": [
            {
                "name": device["name"],
                "pci": device["pci"],
                "ports": [{key: port[key] for key in ("number", "state", "phys_state")} for port in device["ports"]],
            }
            for device in facts.get("devices") or []
        ]
    }
    runtime = facts.get("runtime")
    if runtime:
        running = (runtime["containerd"] or {}).get("running") or {}
        found["runtime"] = {
            "services": dict(runtime["services"]),
            "containerd": {"running": {"ready": running.get("ready")}},
        }
    return found


def dump_mark(since: str, roles: t.Sequence[str], before: t.Mapping[str, t.Any]) -> bytes:
    """The content of PATH. since: the time at which the change began, ISO 8601 in UTC."""
    mark = {"version": _VERSION, "since": since, "roles": list(roles), "before": before}
    return (json.dumps(mark, indent=2, sort_keys=True) + "\n").encode("utf-8")


def load_mark(data: t.Optional[bytes]) -> t.Optional[Json]:
    """{since, roles, before} of a change that has not ended; None without one.

    A mark that cannot be read says that much: before is None, since and roles are empty.
    """
    if data is None:
        return None
    unknown: Json = {"since": "", "roles": [], "before": None}
    try:
        mark = json.loads(data[:_MAX_BYTES].decode("utf-8"))
    except (ValueError, RecursionError):
        return unknown
    if not isinstance(mark, dict) or mark.get("version") != _VERSION or not isinstance(mark.get("before"), dict):
        return unknown
    roles = mark.get("roles")
    return {
        "since": str(mark.get("since") or "")[:40],
        "roles": [str(role)[:60] for role in roles[:20]] if isinstance(roles, list) else [],
        "before": mark["before"],
    }


def open_change(data: t.Optional[bytes]) -> t.Optional[Json]:
    """What the facts tell of it: {since, roles}; None when no change is open."""
    mark = load_mark(data)
    return None if mark is None else {"since": mark["since"], "roles": mark["roles"]}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map of the fabric as text for a terminal, at most 100 columns wide. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    WIDTH,
    fold_text,
    hosts_label,
    printable,
    table,
)

__all__ = ["fabric_table"]

Json = t.Mapping[str, t.Any]
_MOST_FINDINGS = 20


def _unplaced(rows: t.Iterable[Json]) -> list[str]:
    """By reason: which ports of how many hosts."""
    hosts: dict[str, set[str]] = {}
    for row in rows:
        hosts.setdefault(row["reason"], set()).add(row["host"])
    lines = []
    for reason, names in sorted(hosts.items()):
        lines += fold_text(printable(f"not on the map: ports of {hosts_label(names)}: {reason}"), WIDTH)
    return lines


def _findings(rows: t.Sequence[Json]) -> list[str]:
    lines = []
    for row in rows[:_MOST_FINDINGS]:
        lines += fold_text(printable(f"{row['severity']}: {row['cause']}. Remedy: {row['remedy']}"), WIDTH)
    return [*lines, f"and {len(rows) - _MOST_FINDINGS} more in fabric.json"] if len(rows) > _MOST_FINDINGS else lines


def fabric_table(found: Json) -> list[str]:
    """Leaves with their hosts, ports of which nobody tells, and what is wrong, the worst first."""
    rails: dict[str, set[int]] = {}
    for place in found["places"]:
        rails.setdefault(place["leaf"], set()).add(place["rail"])
    rows = [
        (
            switch["name"],
            switch["link_layer"],
            ", ".join(str(rail) for rail in sorted(rails[switch["id"]])),
            hosts_label(found["leaves"][switch["id"]]),
        )
        for switch in found["switches"]
        if switch["leaf"]
    ]
    lines = table(("LEAF", "LINK", "RAILS", "HOSTS"), rows) if rows else ["no port of a host is on the map"]
    lines += _unplaced(found["unplaced"])
    for warning in found["warnings"][:_MOST_FINDINGS]:
        lines += fold_text(printable(warning), WIDTH)
    return lines + _findings(found["findings"])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain-text tables for terminals, at most 100 columns wide. Private to the collection. Pure."""

from __future__ import annotations

import textwrap
import typing as t

__all__ = ["WIDTH", "device_table", "plan_table", "printable", "table"]

WIDTH = 100

_LINKS = {"InfiniBand": "IB", "Ethernet": "Eth", "Unknown": "?"}


def printable(value: t.Any) -> str:
    """A value as one line without control characters: a node's text must not move the cursor of a terminal."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


def table(
    header: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]], width: int = WIDTH, wrap: bool = False
) -> t.List[str]:
    """Lines of a left-aligned table. At the width, the last column is wrapped, or else the line cut with an ellipsis."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    sizes = [max(len(row[index]) for row in cells) for index in range(len(header))]
    left = sum(sizes[:-1]) + 2 * (len(sizes) - 1)
    if wrap and left <= width // 2:
        folded = []
        for row in cells:
            first, *more = textwrap.wrap(row[-1], width - left) or [""]
            folded += [[*row[:-1], first], *([""] * (len(row) - 1) + [rest] for rest in more)]
        cells = folded
    lines = []
    for row in cells:
        line = "  ".join(cell.ljust(size) for cell, size in zip(row, sizes)).rstrip()
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    return lines


def _rate(port: t.Mapping[str, t.Any]) -> str:
    return "-" if port["rate_gbps"] is None else "%g" % port["rate_gbps"]


def _view(device: t.Mapping[str, t.Any], netdevs: str) -> str:
    """The netlink type, with the interface where it is another one than the port's (a bond's first member)."""
    view = device["plugin"]
    if not view["visible"]:
        return "no: %s" % view["reason"].partition(":")[0]
    if not view["if_name"]:
        return "no netdev"
    return str(view["link_type"]) if view["if_name"] == netdevs else "%s %s" % (view["link_type"], view["if_name"])


def device_table(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[str]:
    """One line a port of every host: what it is, its state, and what the device plugin sees of it."""
    rows = []
    for host in sorted(facts_by_host):
        devices = facts_by_host[host].get("devices", [])
        first = host
        for device in devices:
            for port in device["ports"] or [None]:
                netdevs = ",".join(netdev["name"] for netdev in port["netdevs"]) if port else ""
                rows.append(
                    (
                        first,
                        device["name"],
                        port["number"] if port else "-",
                        _LINKS.get(port["link_layer"], "-") if port else "-",
                        (port["state"] or "-") if port else "-",
                        _rate(port) if port else "-",
                        netdevs or "-",
                        device["pci"] or "-",
                        _view(device, netdevs),
                    )
                )
                first = ""
        if not devices:
            rows.append((first, "no RDMA device", "", "", "", "", "", "", ""))
    return table(("HOST", "DEVICE", "P", "LINK", "STATE", "GB/S", "NETDEV", "PCI", "PLUGIN SEES"), rows)


def _some(hosts: t.Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else "%s and %d more" % (hosts[0], len(hosts) - 1)


def plan_table(plan: t.Mapping[str, t.Any]) -> t.List[str]:
    """What a group's plan selects by which selectors, what it leaves out and why, and its warnings and errors."""
    rows = []
    for entry in plan["classes"]:
        first = entry["matches"].get(entry["hosts"][0], [])
        selectors = "; ".join("%s %s" % (kind, ",".join(values)) for kind, values in entry["selectors"].items())
        matched = ",".join(row["device"] for row in first)
        rows.append(
            (entry["name"], _some(entry["hosts"]), matched or "-", selectors or "nothing: software devices only")
        )
    lines = table(("CLASS", "ON", "SELECTS", "BY"), rows) if rows else []
    left_out = _exclusion_lines(plan)
    lines += ["", *left_out] if lines and left_out else left_out
    for sort in ("warnings", "errors"):
        for text in plan[sort]:
            lines += ["", *textwrap.wrap("%s: %s" % (sort[:-1], printable(text)), WIDTH, subsequent_indent="  ")]
    return lines


def _exclusion_lines(plan: t.Mapping[str, t.Any]) -> t.List[str]:
    """What a group's plan leaves out and why; hosts with the same reason share a line."""
    hosts: t.Dict[t.Tuple[str, str], t.List[str]] = {}
    for row in plan["exclusions"]:
        what = row["device"] if row["port"] is None else "%s port %d" % (row["device"], row["port"])
        hosts.setdefault((what, row["reason"]), []).append(row["host"])
    rows = []
    for (what, reason), names in sorted(hosts.items()):
        rows.append((what, _some(names), reason))
    return table(("LEFT OUT", "ON", "BECAUSE"), rows, wrap=True) if rows else []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts have, as a table. Private to the collection. Pure.

Nothing is cut: what does not fit is continued on the next line. Hosts that would get the same lines share them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    WIDTH,
    column_widths,
    fold_text,
    hosts_label,
    printable,
    shared_domain,
    short,
    table,
)

__all__ = ["device_table"]

_LINKS = {"InfiniBand": "IB", "Ethernet": "Eth", "Unknown": "?"}


def _rate(port: t.Mapping[str, t.Any]) -> str:
    return "-" if port["rate_gbps"] is None else f"{port['rate_gbps']:g}"


def _view(device: t.Mapping[str, t.Any], netdevs: str) -> str:
    """The netlink type, with the interface where it is another one than the port's (a bond's first member)."""
    view = device["plugin"]
    if not view["visible"]:
        return f"no: {(view['reason'] or 'unknown').partition(':')[0]}"
    if not view["if_name"]:
        return "no netdev"
    return str(view["link_type"]) if view["if_name"] == netdevs else f"{view['link_type']} {view['if_name']}"


_COLUMNS = ("DEVICE", "P", "LINK", "STATE", "GB/S", "NETDEV", "PCI", "PLUGIN SEES")


def _device_rows(facts: t.Mapping[str, t.Any]) -> tuple[tuple[str, ...], ...]:
    """One row a port of a host."""
    rows = []
    for device in facts.get("devices", []):
        for port in device["ports"] or [None]:
            netdevs = ",".join(netdev["name"] for netdev in port["netdevs"]) if port else ""
            rows.append(
                (
                    str(device["name"]),
                    str(port["number"]) if port else "-",
                    _LINKS.get(port["link_layer"], "-") if port else "-",
                    (port["state"] or "-") if port else "-",
                    _rate(port) if port else "-",
                    netdevs or "-",
                    device["pci"] or "-",
                    _view(device, netdevs),
                )
            )
    return tuple(rows) or (("no RDMA device", "", "", "", "", "", "", ""),)


def device_table(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """One line a port: what it is, its state, and what the device plugin sees of it; hosts that look the same together.

    Names of hosts stand in the first column; where that leaves too little room for the others, on lines of their own.
    """
    if not facts_by_host:
        return []
    domain = shared_domain(facts_by_host)
    same: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for host in sorted(facts_by_host, key=natural_key):
        same.setdefault(_device_rows(facts_by_host[host]), []).append(short(host, domain))
    blocks = [(hosts_label(hosts), rows) for rows, hosts in same.items()]
    lines = [f"all hosts in {printable(domain[1:])}", ""] if domain else []
    cells = [_COLUMNS, *(row for _label, rows in blocks for row in rows)]
    needed = sum(max(len(printable(row[index])) for row in cells) for index in range(len(_COLUMNS)))
    needed += 2 * len(_COLUMNS) + max(len("HOST"), *(len(printable(label)) for label, _rows in blocks))
    if needed <= WIDTH:
        beside = [(label if number == 0 else "", *row) for label, rows in blocks for number, row in enumerate(rows)]
        return lines + table(("HOST", *_COLUMNS), beside)
    body = table(_COLUMNS, (row for _label, rows in blocks for row in rows), WIDTH - 2)
    # Lines that continue a cell belong to the row above: each row's own lines are found by making its table again.
    sizes = column_widths([[printable(cell) for cell in row] for row in cells], WIDTH - 2)
    lines.append("  " + body[0])
    at = 1
    for label, rows in blocks:
        count = sum(max(len(fold_text(printable(cell), size)) for cell, size in zip(row, sizes)) for row in rows)
        lines += fold_text(printable(label), WIDTH)
        lines += ["  " + line for line in body[at : at + count]]
        at += count
    return lines

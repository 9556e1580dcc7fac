# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs of hosts say about switches: ibnetdiscover (InfiniBand) and lldpctl -f json (Ethernet). Private. Pure.

infiniband-diags, src/ibnetdiscover.c (out_switch(), out_ca(), out_switch_port(), out_ca_port()); lldpd, src/client/json_writer.c. Both are what
a node says: lengths and numbers are bounded, and what has another form is left out.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable

__all__ = ["Fabric", "Neighbour", "Spot", "parse_ibnetdiscover", "parse_lldp"]

_MOST_LINES, _MOST_LINE = 500_000, 1024
_MOST_NETDEVS = 4096
_MOST_TEXT = 128
# The comment of a node is its description, in which anything may stand; it ends with the last quotation mark.
_NODE = re.compile(r'(Switch|Ca|Rt)\s+[0-9]{1,5}\s+"([SHR])-(?:0x)?([0-9a-f]{1,16})"\s*#\s*"(.*)"')
_LINK = re.compile(
    r'\[([0-9]{1,3})\](?:\((?:0x)?([0-9a-f]{1,16})\))?\s+"([SHR])-(?:0x)?([0-9a-f]{1,16})"\[([0-9]{1,3})\]'
    r"(?:\((?:0x)?([0-9a-f]{1,16})\))?"
)


class Spot(t.NamedTuple):
    """A port of a switch."""

    switch: str
    port: str


class Fabric(t.NamedTuple):
    """switches: names by GUID, as 16 digits. ends: where a port of an HCA is, by its GUID. trunks: cables of two switches, in order."""

    switches: dict[str, str]
    ends: dict[str, Spot]
    trunks: dict[tuple[str, str], int]


class Neighbour(t.NamedTuple):
    """The switch at the other end of a netdev's cable. id: what its chassis calls itself, such as a MAC address."""

    id: str
    name: str
    port: str


def _guid(digits: str) -> str:
    return digits.rjust(16, "0")


def _text(value: t.Any) -> str:
    return printable(value)[:_MOST_TEXT].strip() if isinstance(value, (str, int)) else ""


def parse_ibnetdiscover(text: str) -> Fabric:
    """The switches of one subnet, and what is plugged in there. Empty for a text that is not from ibnetdiscover."""
    found = Fabric({}, {}, {})
    here: t.Optional[tuple[str, str]] = None
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        line = line[:_MOST_LINE].strip()
        node = _NODE.match(line)
        if node:
            here = (node.group(2), _guid(node.group(3)))
            if here[0] == "S":
                found.switches[here[1]] = _text(node.group(4))
            continue
        link = _LINK.match(line)
        if not line or line.startswith(("vendid=", "devid=", "sysimgguid=")):
            # the next node
            here = here if link else None
        if link and here:
            _add_link(found, here, link)
    return found


def _add_link(found: Fabric, here: tuple[str, str], link: re.Match[str]) -> None:
    """One cable, as the node at one of its ends has it. A cable between switches is there twice, and counted once."""
    port, port_guid, sort, peer, peer_port, peer_guid = link.groups()
    other = _guid(peer)
    if here[0] == "S" and sort == "H" and peer_guid:
        found.ends[_guid(peer_guid)] = Spot(here[1], port)
    elif here[0] == "H" and sort == "S" and port_guid:
        found.ends[_guid(port_guid)] = Spot(other, peer_port)
    elif here[0] == sort == "S" and here[1] < other:
        found.trunks[(here[1], other)] = found.trunks.get((here[1], other), 0) + 1


def _one(value: t.Any) -> t.Mapping[str, t.Any]:
    """A dictionary, or the first of several."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, dict) else {}


def _neighbour(body: t.Mapping[str, t.Any]) -> t.Optional[tuple[Neighbour, bool]]:
    """A neighbour, and whether it says that it is a switch."""
    chassis, port = _one(body.get("chassis")), _one(body.get("port"))
    name = ""
    if not _one(chassis.get("id")) and len(chassis) == 1:
        # a chassis with a name is below it
        [(name, inner)] = chassis.items()
        chassis = _one(inner)
    own, there = _one(chassis.get("id")), _one(port.get("id"))
    chassis_id = _text(own.get("value"))
    description = _text(port.get("descr"))
    spot = _text(there.get("value"))
    # neither the address of a port nor a switch's own number for it tells anybody which one it is
    tells = there.get("type") != "mac" and not (there.get("type") == "local" and spot.isdigit())
    spot = (spot if tells else description or spot) or description
    return (Neighbour(chassis_id, _text(name) or chassis_id, spot), _is_switch(chassis)) if chassis_id else None


def _is_switch(chassis: t.Mapping[str, t.Any]) -> bool:
    able = chassis.get("capability")
    return any(
        isinstance(each, dict) and each.get("type") in ("Bridge", "Router") and each.get("enabled") is True
        for each in (able if isinstance(able, list) else [able])
    )


def parse_lldp(text: str) -> dict[str, Neighbour]:
    """The neighbours by netdev. Empty for a text that is not from lldpctl -f json."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    interfaces = _one(_one(value).get("lldp")).get("interface")
    rows = interfaces if isinstance(interfaces, list) else [interfaces]
    found: dict[str, tuple[Neighbour, bool]] = {}
    for row in rows[:_MOST_NETDEVS]:
        for netdev, body in row.items() if isinstance(row, dict) else ():
            neighbour = _neighbour(_one(body))
            name = _text(netdev)
            if neighbour is None or len(found) >= _MOST_NETDEVS:
                continue
            # of several on one cable the first that is a switch
            if name not in found or (neighbour[1] and not found[name][1]):
                found[name] = neighbour
    return {name: neighbour for name, (neighbour, _switch) in found.items()}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the captures with cables of any sort, and what ibnetdiscover and lldpctl say of them."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of

Json = dict[str, Any]
# By host: the leaf of each of its ports, a letter each; "-" for none.
Cables = Mapping[str, str]


@functools.cache
def recorded(name: str) -> Json:
    return facts_of(open_tree(str(CAPTURES / f"{name}.capture")))


def guid(host: int, port: int) -> str:
    return f"020000{host:06x}{port:04x}"


def switch(letter: str) -> str:
    return f"0300000000000{ord(letter):03x}"


def _infiniband(number: int, ports: int) -> Json:
    facts = copy.deepcopy(recorded("ib-v100-1"))
    first = facts["devices"][0]
    facts["devices"] = []
    for index in range(ports):
        device = copy.deepcopy(first)
        device.update(name=f"mlx5_{index}", pci=f"0000:{0x10 + index:02x}:00.0")
        digits = guid(number, index)
        words = ":".join(digits[at : at + 4] for at in range(0, 16, 4))
        device["ports"][0]["gids"] = [{**device["ports"][0]["gids"][0], "gid": f"fe80:0000:0000:0000:{words}"}]
        facts["devices"].append(device)
    return facts


def view_of(cables: Cables, ethernet: bool = False) -> Json:
    """The view of a group g of these hosts."""
    facts = {
        host: copy.deepcopy(recorded("roce-rails-1")) if ethernet else _infiniband(number, len(leaves))
        for number, (host, leaves) in enumerate(cables.items())
    }
    for host, leaves in cables.items() if ethernet else ():
        facts[host]["devices"] = facts[host]["devices"][: len(leaves)]
    want = {"link_layer": "Ethernet"} if ethernet else None
    return {"groups": {"g": {"hosts": list(cables), "want": want}}, "facts": facts}


def discovered(cables: Cables) -> Json:
    """What one host says of all: ibnetdiscover."""
    lines = ["#", "# Topology file: generated on some day", "#"]
    for letter in sorted({leaf for leaves in cables.values() for leaf in leaves} - {"-"}):
        key = switch(letter)
        lines += [
            "",
            f"switchguid=0x{key}({key})",
            f'Switch\t41 "S-{key}"\t\t# "leaf-{letter}" base port 0 lid 1 lmc 0',
        ]
        lines.append(f'[40]\t"S-0400000000000000"[{ord(letter) - 64}]\t\t# "spine" lid 9 4xHDR')
        port = 0
        for number, (host, leaves) in enumerate(cables.items()):
            for index, leaf in enumerate(leaves):
                if leaf == letter:
                    port += 1
                    own = guid(number, index)
                    lines.append(f'[{port}]\t"H-{own}"[1]({own.lstrip("0")}) \t\t# "{host} mlx5_{index}" lid 5 4xHDR')
    lines += [
        "",
        "switchguid=0x4000000(4000000)",
        'Switch\t41 "S-0400000000000000"\t\t# "spine" base port 0 lid 9 lmc 0',
    ]
    return {"programs": [{"program": "ibnetdiscover", "text": "\n".join(lines), "error": None}]}


def announced(leaves: Sequence[str], ports: Sequence[str]) -> Json:
    """What one host says of its own cables: lldpctl. ports: netdevs."""
    rows = []
    for index, (leaf, netdev) in enumerate(zip(leaves, ports, strict=False)):
        if leaf != "-":
            chassis = {f"leaf-{leaf}": {"id": {"type": "mac", "value": f"02:00:5e:00:00:{ord(leaf):02x}"}}}
            rows.append({netdev: {"chassis": chassis, "port": {"id": {"type": "ifname", "value": f"swp{index + 1}"}}}})
    text = json.dumps({"lldp": {"interface": rows[0] if len(rows) == 1 else rows}})
    return {"programs": [{"program": "lldpctl", "text": text, "error": None}]}


def answers_of(view: Json, cables: Cables, ethernet: bool = False) -> Json:
    if not ethernet:
        return {next(iter(cables)): discovered(cables)}
    return {
        host: announced(leaves, [device["netdevs"][0] for device in view["facts"][host]["devices"]])
        for host, leaves in cables.items()
    }

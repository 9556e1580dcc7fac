# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over which netdevs packets leave a host, and the connection of whoever changes it. Private to the collection."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.routes import routes_of

__all__ = ["address_of_text", "route_netdev", "ssh_connection", "ssh_netdevs"]

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


def address_of_text(text: str) -> t.Optional[Address]:
    """An address, also in brackets or with a zone; None for anything else. IPv4 in IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def route_netdev(tree: Tree, address: Address) -> t.Optional[str]:
    """The netdev over which packets to an address leave: longest prefix, then lowest metric. Policy routing is not looked at."""
    best: t.Optional[tuple[int, int, str]] = None
    for network, metric, netdev in routes_of(tree):
        if network.version == address.version and address in network:
            key = (-network.prefixlen, metric, netdev)
            best = key if best is None or key < best else best
    return best[2] if best else None


def ssh_netdevs(tree: Tree, connection: t.Optional[str]) -> set[str]:
    """Netdevs that carry an SSH connection, from SSH_CONNECTION ("client port server port"): to the client, and of our address."""
    words = (connection or "").split()
    found: set[str] = set()
    if len(words) != 4:
        return found
    for word in (words[0], words[2]):
        zone = word.partition("%")[2]
        address = address_of_text(word)
        netdev = zone or (route_netdev(tree, address) if address and not address.is_loopback else None)
        if netdev and netdev != "lo":
            found.add(netdev)
    return found


def ssh_connection(tree: Tree, pid: int) -> t.Optional[str]:
    """SSH_CONNECTION of a process, or of its nearest ancestor that has it: sudo takes it out of the environment."""
    for _dummy in range(64):
        found = re.search(rb"(?:^|\0)SSH_CONNECTION=([^\0]*)", tree.read(f"/proc/{pid}/environ") or b"")
        if found:
            return found.group(1).decode("utf-8", "replace")
        parent = re.search(r"^PPid:\s*(\d+)", tree.text(f"/proc/{pid}/status") or "", re.MULTILINE)
        if not parent or int(parent.group(1)) < 1:
            break
        pid = int(parent.group(1))
    return None

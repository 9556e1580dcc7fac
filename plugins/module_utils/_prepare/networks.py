# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over which netdevs packets leave a host, and the connection of whoever changes it. Private to the collection."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["address_of_text", "route_netdev", "ssh_connection", "ssh_netdevs"]

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def address_of_text(text: str) -> t.Optional[Address]:
    """An address, also in brackets or with a zone; None for anything else. IPv4 in IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _routes(tree: Tree) -> t.Iterator[tuple[Network, int, str]]:
    """(destination, metric, netdev) of the main table: /proc/net/route (net/ipv4/fib_trie.c) and /proc/net/ipv6_route.

    Of a route with several next hops, /proc/net/route tells the first.
    """
    for line in (tree.text("/proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        try:
            # in the byte order of the machine, and every machine with these cards is little-endian
            target, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
            # bit 0: up; a blackhole has the interface "*"
            if int(fields[3], 16) & 1 and fields[0] != "*":
                yield ipaddress.IPv4Network((target, bin(mask).count("1"))), int(fields[6]), fields[0]
        except (IndexError, ValueError):
            continue
    for line in (tree.text("/proc/net/ipv6_route") or "").splitlines():
        fields = line.split()
        try:
            # the kernel's own catch-all "unreachable" route points at lo
            if fields[9] != "lo" and int(fields[8], 16) & 1:
                network = ipaddress.IPv6Network((int(fields[0], 16), int(fields[1], 16)))
                yield network, int(fields[5], 16), fields[9]
        except (IndexError, ValueError):
            continue


def route_netdev(tree: Tree, address: Address) -> t.Optional[str]:
    """The netdev over which packets to an address leave: longest prefix, then lowest metric. Policy routing is not looked at."""
    best: t.Optional[tuple[int, int, str]] = None
    for network, metric, netdev in _routes(tree):
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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes of a host. Private to the collection."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["Network", "routes_of"]

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
_UP = 1


def routes_of(tree: Tree) -> t.Iterator[tuple[Network, int, str]]:
    """(destination, metric, netdev) of the main table: /proc/net/route (net/ipv4/fib_trie.c) and /proc/net/ipv6_route.

    Of a route with several next hops, /proc/net/route tells the first.
    """
    for line in (tree.text("/proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        try:
            # in the byte order of the machine, and every machine with these cards is little-endian
            target, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
            # a blackhole has the interface "*"
            if int(fields[3], 16) & _UP and fields[0] != "*":
                yield ipaddress.IPv4Network((target, bin(mask).count("1"))), int(fields[6]), fields[0]
        except (IndexError, ValueError):
            continue
    for line in (tree.text("/proc/net/ipv6_route") or "").splitlines():
        fields = line.split()
        try:
            # the kernel's own catch-all "unreachable" route points at lo
            if fields[9] != "lo" and int(fields[8], 16) & _UP:
                network = ipaddress.IPv6Network((int(fields[0], 16), int(fields[1], 16)))
                yield network, int(fields[5], 16), fields[9]
        except (IndexError, ValueError):
            continue

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Netdevs of the default routes of IPv6 in the main table. Private to the collection.

/proc/net/ipv6_route has the routes of all tables, and does not say which: a rail with a table of its own has a default route there. The
kernel tells through rtnetlink(7), without a program.
"""

from __future__ import annotations

import socket
import struct
import typing as t

__all__ = ["default6_answer", "default_netdevs", "routes_answer"]

# include/uapi/linux/netlink.h, include/uapi/linux/rtnetlink.h
_ERROR, _DONE, _GETROUTE, _NEWROUTE = 2, 3, 26, 24
_REQUEST, _DUMP = 1, 0x300
_MAIN, _UNICAST = 254, 1
_OIF, _MULTIPATH, _TABLE = 4, 9, 15
_SECONDS = 5


def _attributes(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """(type, value) of each struct rtattr."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def _hops(data: bytes) -> t.Iterator[int]:
    """Numbers of the netdevs of each struct rtnexthop."""
    while len(data) >= 8:
        length, _flags, _hops_left, index = struct.unpack_from("=HBBi", data)
        if length < 8:
            return
        yield index
        data = data[(length + 3) & ~3 :]


def _messages(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """(type, message with its header) of each. One that is cut off is an error."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if not 16 <= length <= len(data):
            yield _ERROR, b""
            return
        yield kind, data[:length]
        data = data[(length + 3) & ~3 :]


def default_netdevs(data: bytes) -> tuple[t.Optional[set[int]], bool]:
    """(numbers of the netdevs of default routes of the main table, whether these are the last ones) in messages of rtnetlink.

    None for an error among them, and for a route that has its netdev in an object alone: with net.ipv4.nexthop_compat_mode=0, which hosts that
    speak BGP have, the kernel says no more than RTA_NH_ID (rt6_fill_node() in net/ipv6/route.c).
    """
    found: set[int] = set()
    for kind, message in _messages(data):
        if kind == _ERROR:
            return None, True
        if kind == _DONE:
            return found, True
        if kind != _NEWROUTE or len(message) < 28:
            continue
        prefix, table, route = (message[16 + at] for at in (1, 4, 7))
        attributes = dict(_attributes(message[28:]))
        # a number above 255 is in the attribute alone
        wide = attributes.get(_TABLE, b"")
        table = struct.unpack("=I", wide)[0] if len(wide) == 4 else table
        if (prefix, table, route) == (0, _MAIN, _UNICAST):
            ways = set(_hops(attributes.get(_MULTIPATH, b"")))
            if len(attributes.get(_OIF, b"")) == 4:
                ways.add(struct.unpack("=i", attributes[_OIF])[0])
            if not ways:
                return None, True
            found |= ways
    return found, False


def default6_answer(_path: str) -> t.Optional[str]:
    """Names of these netdevs, a line each; None where nobody tells."""
    found: set[int] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as handle:
            handle.settimeout(_SECONDS)
            handle.bind((0, 0))
            body = struct.pack("=BBBBBBBBI", socket.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0)
            handle.send(struct.pack("=IHHII", 16 + len(body), _GETROUTE, _REQUEST | _DUMP, 1, 0) + body)
            done = False
            while not done:
                # the kernel sends at most 32 KiB at once (net/netlink/af_netlink.c, netlink_dump())
                here, done = default_netdevs(handle.recv(1 << 16))
                if here is None:
                    return None
                found |= here
        names = {socket.if_indextoname(index) for index in found}
    except (OSError, ValueError, AttributeError):
        return None
    return "".join(f"{name}\n" for name in sorted(names - {"lo"}))


def routes_answer(question: str, path: str) -> t.Optional[str]:
    """What answers a Tree of which routes alone are asked."""
    return default6_answer(path) if question == "default6" else None

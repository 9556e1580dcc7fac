# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP addresses of a node's netdevs that reach the fabric, or the world. Private to the collection.

No file says which netdev has an IPv4 address: SIOCGIFCONF does (net/ipv4/devinet.c, inet_gifconf()), without a program.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import stack_of

__all__ = ["addresses_answer", "read_addresses"]

_SIOCGIFCONF = 0x8912
# struct ifreq: a name, and what is as large as struct ifmap
_ROW = 40 if struct.calcsize("P") == 8 else 32
_MOST_ROWS = 1 << 16
_GLOBAL = "00"


def _ipv4() -> t.Iterator[tuple[str, str]]:
    rows = 64
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        while True:
            buffer = array.array("B", bytes(_ROW * rows))
            request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
            length = struct.unpack_from("i", fcntl.ioctl(handle.fileno(), _SIOCGIFCONF, request))[0]
            # a full buffer may have left something out
            if length < len(buffer) or rows >= _MOST_ROWS:
                break
            rows *= 2
    told = buffer.tobytes()
    for start in range(0, length - _ROW + 1, _ROW):
        name = told[start : start + 16].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        # a label is NAME:TEXT
        yield name.partition(":")[0], socket.inet_ntoa(told[start + 20 : start + 24])


def _ipv6() -> t.Iterator[tuple[str, str]]:
    """/proc/net/if_inet6 (net/ipv6/addrconf.c, if6_seq_show()), without addresses of a link or a host."""
    with open("/proc/net/if_inet6", encoding="utf-8", errors="surrogateescape") as handle:
        for fields in map(str.split, handle):
            if len(fields) == 6 and fields[3] == _GLOBAL:
                yield fields[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))


def addresses_answer(_path: str) -> t.Optional[str]:
    """``NETDEV ADDRESS``, a line each, of all netdevs; None where nobody tells."""
    found: set[tuple[str, str]] = set()
    told = False
    for rows in (_ipv4, _ipv6):
        try:
            found.update(rows())
            told = True
        except (OSError, ValueError):
            # a kernel without this family
            continue
    return "".join(f"{name} {address}\n" for name, address in sorted(found)) if told else None


def read_addresses(tree: Tree, netdevs: t.AbstractSet[str]) -> t.Optional[dict[str, list[str]]]:
    """{netdev: its addresses} of these netdevs and of what is above them (VLANs, bonds, IPoIB children); None where nobody tells."""
    answer = tree.answer("addresses", "")
    if answer is None:
        return None
    rows: dict[str, set[str]] = {}
    for name, _blank, address in (line.rpartition(" ") for line in answer.splitlines()):
        if name and _is_address(address):
            rows.setdefault(name, set()).add(address)
    return {name: sorted(own) for name, own in sorted(rows.items()) if not netdevs.isdisjoint(stack_of(tree, name))}


def _is_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
            return True
        except (OSError, ValueError):
            continue
    return False

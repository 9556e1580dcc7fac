# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel tells of a netdev through the ioctl of ethtool alone: counters of the wire, and the cable. Private to the collection.

include/uapi/linux/ethtool.h. Needs no program. The memory of a module is read with CAP_NET_ADMIN only, and not at all by drivers that
know pages alone (netlink); its form is SFF-8636 or SFF-8472 or CMIS, by its first byte.
"""

from __future__ import annotations

import array
import fcntl
import json
import socket
import struct
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import MOST_COUNTERS, PHY_COUNTER

__all__ = ["counters_answer", "ethtool_answer", "parse_module"]

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO, _GMODULEINFO, _GMODULEEEPROM = 0x1B, 0x1D, 0x37, 0x42, 0x43
_SS_STATS = 1
_STRING = 32
_MOST_STATS = 20_000
# The lower page and the upper page 0: they hold the identity.
_EEPROM = 256
# (vendor, part, serial) and the byte of the length. SFF-8024, table 4-1: identifiers
_SFP, _QSFP, _CMIS = {0x03}, {0x0C, 0x0D, 0x11}, {0x18, 0x19, 0x1E}
_PLACES = {
    "sfp": ((20, 16), (40, 16), (68, 16), 18),
    "qsfp": ((148, 16), (168, 16), (196, 16), 146),
    "cmis": ((129, 16), (148, 16), (166, 16), 202),
}


def parse_module(data: bytes) -> t.Optional[dict[str, t.Any]]:
    """{vendor, part, serial, length_m} of the first 256 bytes of a module's memory; None for one of another form."""
    if len(data) < _EEPROM:
        return None
    form = "sfp" if data[0] in _SFP else "qsfp" if data[0] in _QSFP else "cmis" if data[0] in _CMIS else None
    if form is None:
        return None
    *places, at = _PLACES[form]
    vendor, part, serial = (
        "".join(chr(byte) for byte in data[start : start + size] if 32 <= byte < 127).strip() for start, size in places
    )
    length = float(data[at])
    if form == "cmis":
        # CMIS 5.0, 8.3.10: two bits of a multiplier, six of a length
        length = round((0.1, 1, 10, 100)[data[at] >> 6] * (data[at] & 63), 1)
    return {"vendor": vendor, "part": part, "serial": serial, "length_m": length or None}


def _call(handle: socket.socket, netdev: str, buffer: array.array[int]) -> None:
    """One ioctl; OSError where the driver has no such thing, or nobody may ask."""
    request = struct.pack("16sP16x", netdev.encode("utf-8", "surrogateescape")[:15], buffer.buffer_info()[0])
    fcntl.ioctl(handle.fileno(), _SIOCETHTOOL, request)


def _counters(handle: socket.socket, netdev: str) -> dict[str, int]:
    info = array.array("B", struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_STATS, 0))
    _call(handle, netdev, info)
    _cmd, _reserved, mask, count = struct.unpack("=IIQI", info.tobytes())
    if not mask or not 0 < count <= _MOST_STATS:
        return {}
    # the kernel writes as many as there are by then, whatever it was asked for: queues may have come meanwhile
    room = 2 * count + 1024
    names = array.array("B", struct.pack("=III", _GSTRINGS, _SS_STATS, count) + bytes(_STRING * room))
    _call(handle, netdev, names)
    values = array.array("B", struct.pack("=II", _GSTATS, count) + bytes(8 * room))
    _call(handle, netdev, values)
    named, valued = names.tobytes(), values.tobytes()
    if struct.unpack_from("=II", valued)[1] != struct.unpack_from("=III", named)[2]:
        return {}
    found: dict[str, int] = {}
    for index in range(min(struct.unpack_from("=III", named)[2], room)):
        start = 12 + _STRING * index
        name = named[start : start + _STRING].partition(b"\0")[0].decode("ascii", "replace")
        if PHY_COUNTER.fullmatch(name) and len(found) < MOST_COUNTERS:
            found[name] = struct.unpack_from("=Q", valued, 8 + 8 * index)[0]
    return found


def _module(handle: socket.socket, netdev: str) -> t.Optional[dict[str, t.Any]]:
    info = array.array("B", struct.pack("=III32x", _GMODULEINFO, 0, 0))
    _call(handle, netdev, info)
    if struct.unpack_from("=III", info.tobytes())[2] < _EEPROM:
        return None
    memory = array.array("B", struct.pack("=IIII", _GMODULEEEPROM, 0, 0, _EEPROM) + bytes(_EEPROM))
    _call(handle, netdev, memory)
    return parse_module(memory.tobytes()[16:])


def counters_answer(question: str, netdev: str) -> t.Optional[str]:
    """What answers a Tree of which counters alone are asked: the memory of a module takes its time."""
    return _answer(netdev, ("counters",)) if question == "ethtool" else None


def ethtool_answer(netdev: str) -> t.Optional[str]:
    """NETDEV: JSON {counters, module}; what the driver does not tell is empty or null. None where it tells nothing."""
    return _answer(netdev, ("counters", "module"))


def _answer(netdev: str, wanted: t.Sequence[str]) -> t.Optional[str]:
    found: dict[str, t.Any] = {"counters": {}, "module": None}
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            for key, read in (("counters", _counters), ("module", _module)):
                if key not in wanted:
                    continue
                try:
                    found[key] = read(handle, netdev)
                except OSError:
                    continue
    except OSError:
        return None
    return json.dumps(found, sort_keys=True) if found["counters"] or found["module"] else None

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture without the numbers and names that identify a site. Private to the collection. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import MAPPED_IPV4
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import LONGHORN_PATH
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage_excerpt import anonymous

__all__ = ["NAMED", "anonymize"]

_LINK_LOCAL = "fe80000000000000"
_NO_LID = (0, 0xFFFF)
# What the kernel calls disks and their parts. Other names below /dev people have given: volumes, labels.
_DISK = re.compile(r"dm-\d+|(?:hd|sd|vd|xvd)[a-z]+\d*|(?:loop|md|mmcblk|nbd|rbd|zd)\d+(?:p\d+)?|nvme\d+n\d+(?:p\d+)?")

# What udev calls a netdev by its MAC address (enx0242ac110002, NamePolicy=mac of systemd.link(5)), and a device of RDMA by its GUID
# (rocex506b4b0300c2d1e4, NAME_GUID of rdma-core's rdma_rename).
NAMED = re.compile(r"(?<![A-Za-z0-9])((?:en|ib|iw|opa|rdma|roce)x)([0-9a-f]{16}|[0-9a-f]{12})(?![0-9a-f])")


class _Aliases:
    """Consistent stand-ins: equal things stay equal, different ones different, in the order of their first appearance."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._count: dict[str, int] = {}

    def index(self, sort: str, value: str) -> int:
        key = (sort, value)
        if key not in self._known:
            self._count[sort] = self._count.get(sort, 0) + 1
            self._known[key] = self._count[sort]
        return self._known[key]

    def guid(self, digits: str) -> str:
        """16 hex digits for 16 hex digits. 02 marks a locally administered identifier."""
        return digits if not digits.strip("0") else f"020000000000{self.index('guid', digits):04x}"

    def prefix(self, digits: str) -> str:
        """The upper half of a GID: a network of 2001:db8::/32 (RFC 3849) for one that a site was given."""
        if digits == _LINK_LOCAL or not digits.strip("0"):
            return digits
        return f"20010db8{self.index('prefix', digits):08x}"

    def mac(self, digits: str) -> str:
        """12 hex digits for 12."""
        return f"0200{self.index('mac', digits):08x}" if digits.strip("0") else digits

    def ipv4(self, digits: str) -> str:
        """8 hex digits for 8: an address of 198.18.0.0/15, which is kept for benchmarks (RFC 2544)."""
        number = self.index("ipv4", digits)
        return f"c612{number >> 8 & 255:02x}{number & 255:02x}"

    def lid(self, number: int) -> int:
        return number if number in _NO_LID else self.index("lid", str(number))


def _colons(digits: str, width: int) -> str:
    return ":".join(digits[start : start + width] for start in range(0, len(digits), width))


def _gid(text: str, aliases: _Aliases) -> str:
    if text.startswith(MAPPED_IPV4):
        return MAPPED_IPV4 + _colons(aliases.ipv4(text[len(MAPPED_IPV4) :].replace(":", "")), 4)
    digits = text.replace(":", "")
    return _colons(aliases.prefix(digits[:16]) + aliases.guid(digits[16:]), 4) if len(digits) == 32 else ""


def _address(text: str, aliases: _Aliases) -> str:
    """A MAC address, or the 20 bytes of IPoIB (flags, QPN, subnet prefix, port GUID)."""
    digits = text.replace(":", "")
    if len(digits) == 40:
        return _colons(digits[:8] + aliases.prefix(digits[8:24]) + aliases.guid(digits[24:]), 2)
    if len(digits) == 12 and digits.strip("0"):
        return _colons(aliases.mac(digits), 2)
    return text


def _renamed(entries: t.Mapping[str, Entry], aliases: _Aliases) -> dict[str, Entry]:
    """Entries in which names that are made of an address or a GUID have its stand-in, in paths, links and files."""

    def new(found: t.Match[str]) -> str:
        return found[1] + (aliases.guid if len(found[2]) == 16 else aliases.mac)(found[2])

    result: dict[str, Entry] = {}
    for path, entry in entries.items():
        text = entry.data.decode("utf-8", "surrogateescape")
        data = NAMED.sub(new, text).encode("utf-8", "surrogateescape")
        result[NAMED.sub(new, path)] = Entry(entry.kind, data, NAMED.sub(new, entry.target))
    return result


def _disk(path: str, aliases: _Aliases) -> str:
    """A disk below /dev under a name of the kernel, or as a map, which has the same stand-in in dm/name (storage_excerpt.py)."""
    parts = path[len("/dev/") :].split("/")
    if _DISK.fullmatch("/".join(parts)):
        return path
    # a dash in the name of a group or volume is doubled in the mapper's
    mapped = (
        parts[1] if parts[0] == "mapper" and len(parts) == 2 else "-".join(part.replace("-", "--") for part in parts)
    )
    return f"/dev/mapper/map{aliases.index('map', mapped)}"


def _device_links(entries: t.Mapping[str, Entry], aliases: _Aliases) -> tuple[dict[str, Entry], t.Mapping[str, Entry]]:
    """(links below /dev under their stand-ins, all that is not below /dev)."""
    found: dict[str, Entry] = {}
    for path in sorted(entries):
        if path.startswith("/dev/") and entries[path].kind == "l":
            name = entries[path].target.rstrip("/").rpartition("/")[2]
            found[_disk(path, aliases)] = Entry("l", target=".." + _disk("/dev/" + name, aliases)[len("/dev") :])
    return found, {path: entry for path, entry in entries.items() if not path.startswith("/dev/")}


def _mounts(text: str, aliases: _Aliases) -> str:
    """Only the mounts that a driver reload could cut, their servers, volumes and places under other names."""
    kept = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 4 or not (fields[2] in ("nfs", "nfs4", "lustre") or fields[0].startswith("/dev/")):
            continue
        if fields[2] in ("nfs", "nfs4"):
            fields[0] = f"server{aliases.index('server', fields[0].partition(':')[0])}:/export"
        elif fields[2] == "lustre":
            network = "o2ib" if "@o2ib" in fields[0] else "tcp"
            fields[0] = f"server{aliases.index('server', fields[0])}@{network}:/fs"
        else:
            fields[0] = _disk(fields[0], aliases)
        fields[1] = f"/mnt/{aliases.index('mount', fields[1])}"
        options = [option for option in fields[3].split(",") if option.startswith(("proto=", "vers=", "rw", "ro"))]
        kept.append(" ".join([*fields[:3], ",".join(options), "0", "0"]))
    return "".join(line + "\n" for line in kept)


def _routes(text: str) -> str:
    """Only the default routes, without their gateways."""
    lines = text.splitlines()
    kept = lines[:1]
    for line in lines[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            fields[2] = "00000000"
            kept.append("\t".join(fields))
    return "".join(line + "\n" for line in kept)


def _routes6(text: str) -> str:
    kept = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00":
            fields[4] = "0" * 32
            kept.append(" ".join(fields))
    return "".join(line + "\n" for line in kept)


def _ethtool(text: str, aliases: _Aliases) -> str:
    """The counters and the cable of a netdev, the cable with another serial number."""
    try:
        told = json.loads(text)
        cable = told["module"]
        if cable is not None:
            told["module"] = {**cable, "serial": f"serial{aliases.index('serial', str(cable['serial']))}"}
    except (ValueError, KeyError, TypeError, RecursionError):
        return "{}"
    return json.dumps(told, sort_keys=True)


def anonymize(entries: t.Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries with GUIDs, LIDs, MAC and IP addresses, iSCSI names, servers, volumes, mount points, serial numbers and host names replaced.

    Relations survive: the functions of one card still share a system image GUID, an IPoIB address still ends in its port's
    GUID, two ports with one subnet manager still name the same LID. Names of netdevs, models, firmware and the kernel
    release are kept; they are what a capture is for. A name that udev makes of a MAC address or a GUID has the stand-in of that.
    """
    aliases = _Aliases()
    result, entries = _device_links(entries, aliases)
    # the directory of volumes, and where it may lead
    places = [LONGHORN_PATH]
    for path, entry in entries.items():
        if entry.kind == "l" and (LONGHORN_PATH + "/").startswith(path + "/"):
            places.append(posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.target)))
    for path in sorted(entries):
        entry = entries[path]
        if entry.kind != "f":
            result[path] = entry
            continue
        text = entry.data.decode("utf-8", "replace")
        line = text.strip("\0 \t\r\n")
        name = path.rpartition("/")[2]
        storage = anonymous(path, text, aliases.index, places)
        if storage is not None:
            text = storage
        elif name in ("node_guid", "sys_image_guid"):
            text = _colons(aliases.guid(line.replace(":", "")), 4) + "\n"
        elif re.search(r"/gids/\d+$", path):
            text = _gid(line, aliases) + "\n"
        elif re.search(r"/net/[^/]+/address$", path):
            text = _address(line, aliases) + "\n"
        elif name in ("lid", "sm_lid") and "/ports/" in path:
            try:
                text = f"0x{aliases.lid(int(line, 16)):x}\n"
            except ValueError:
                text = "\n"
        elif path.startswith("/.answers/ethtool/"):
            text = _ethtool(text, aliases)
        elif path == "/.answers/addresses":
            text = ""
        elif name == "node_desc":
            # the kernel's tools write "HOSTNAME DEVICE" there; Soft-iWARP says what it is
            text = "Software iWARP stack\n" if line.startswith("Software iWARP") else f"host {path.split('/')[-2]}\n"
        # /proc/self is a link in the tree of a container's host: /proc/1234/mounts
        elif re.fullmatch(r"/proc/[^/]+/mounts", path):
            text = _mounts(text, aliases)
        elif re.fullmatch(r"/proc/(.+/)?net/route", path):
            text = _routes(text)
        elif re.fullmatch(r"/proc/(.+/)?net/ipv6_route", path):
            text = _routes6(text)
        elif "/modules-load.d/" in path or path == "/etc/modules":
            # comments tell who wrote the file, where and by what
            text = "".join(
                row.split()[0] + "\n" for row in text.splitlines() if row.strip() and row.strip()[0] not in "#;"
            )
        else:
            result[path] = entry
            continue
        result[path] = Entry("f", text.encode("utf-8"))
    return _renamed(result, aliases)

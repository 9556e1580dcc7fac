# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts without what identifies a site. Private to the collection. Pure.

Equal things stay equal, and hosts keep their order, so that rules find the same. Kept are names of groups, resources, namespaces, Pods,
devices and network devices, models, versions and images: these are what a diagnosis is about.
"""

from __future__ import annotations

import re

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import NAMED
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Material

__all__ = ["Names"]

# Each looks at a bounded number of characters from each place. What comes before decides.
_PATTERNS = (
    # the host that wrote a line of a journal or of syslog, behind the time
    (
        "writer",
        r"(?m:^)(?:\d{4}-\d\d-\d\dT[\d:.,+Z-]{6,30}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [A-Za-z0-9][A-Za-z0-9._-]{0,252}"
        r"(?= (?:kernel|[A-Za-z0-9(][^\s:\[]{0,64}\[\d{1,10}\]):)",
    ),
    # of a cable, in facts
    ("serial", r'(?<="serial": ")(?:[^"\\]|\\.){1,64}(?=")'),
    ("email", r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}\.[A-Za-z]{2,24}\b"),
    ("iqn", r"\biqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]{1,200}(?::[A-Za-z0-9._:-]{1,200})?"),
    # as perftest prints a GID: its 16 bytes as decimal numbers, of which the last four are an IPv4 address for RoCE
    ("bytes", r"(?<![\w:])\d{2,3}(?::\d{2,3}){15}(?![\w:])"),
    ("gid", r"\b(?:[0-9A-Fa-f]{4}:){7}[0-9A-Fa-f]{4}\b"),
    ("mac", r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?:(?::[0-9A-Fa-f]{2}){14})?(?![0-9A-Fa-f:])"),
    ("guid", r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?![0-9A-Fa-f])|\b0x[0-9A-Fa-f]{16}\b"),
    (
        "ipv6",
        r"(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}(?![\w:])"
        r"|(?:[0-9A-Fa-f]{1,4}:){1,7}:(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6})?)",
    ),
    ("range", r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}-\d{1,3}(?:\.\d{1,3}){3}(?![\w.-]*\d)"),
    ("ipv4", r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.-]*\d)"),
    ("home", r"/home/[A-Za-z0-9._-]{1,64}"),
    ("name", r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"),
)
_ANY = re.compile("|".join(f"(?P<{sort}>{pattern})" for sort, pattern in _PATTERNS))
_WRITER = re.compile(_PATTERNS[0][1])
_WORD = re.compile(r"[A-Za-z_]+")
_NO_HOST = "localhost"
_LOCAL = ("127.", "0.0.0.0", "255.")
_LINK_LOCAL = "fe80:0000:0000:0000"


def _short(name: str) -> str:
    """The name of a host without a domain; an address as it is."""
    return name if re.match(r"[\d.]+$", name) else name.partition(".")[0]


def _key_depth(match: re.Match[str]) -> int:
    """How deep in a document of JSON, indented by one blank a level, what matches is a key; 0 where it is none."""
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return len(before) - 1 if before.strip(" ") == '"' and match.string.startswith('":', match.end()) else 0


class Names:
    """Stand-ins for what identifies the site of some material."""

    def __init__(self, material: Material) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._count: dict[str, int] = {}
        nodes = set(material["cluster"].get("nodes") or {})
        hosts = {
            *material["facts"],
            *material["node_names"],
            *(host for group in material["groups"].values() for host in group),
            *(host for group in (material["plan"].get("groups") or {}).values() for host in group.get("hosts") or ()),
        }
        every = {*nodes, *hosts, *material["node_names"].values()}
        self._hosts: dict[str, str] = {}
        self._shorts: dict[str, str] = {}
        # whose name is a plain word, which may be a part of the facts, too: replaced only before :/ of what it exports
        self._servers: dict[str, str] = {}
        self._made = 0
        for name in sorted(every - {_NO_HOST}, key=natural_key):
            self._add(name)
        self._add_own_names(material)
        domains = {name[len(_short(name)) :] for name in self._hosts}
        # node.1 is a name that somebody likes, and versions end like that
        self._domains = tuple(sorted(domain for domain in domains if re.search(r"\.[A-Za-z][A-Za-z0-9-]*$", domain)))

    def _alias(self) -> str:
        self._made += 1
        return f"host-{self._made:05d}"

    def _add(self, name: str, alias: str = "") -> None:
        """A name of a host, and the same without its domain. alias: of a host that is known by another name."""
        short = _short(name)
        if short not in self._shorts:
            self._shorts[short] = alias or self._alias()
        alias = self._shorts[short]
        # a name with a domain stays another one than that without
        self._hosts.setdefault(name, alias if name == short else f"{alias}.example.com")
        self._hosts.setdefault(short, alias)

    def _add_own_names(self, material: Material) -> None:
        """What hosts call themselves, in their journals and for their kubelets, where the inventory has another name; and their servers."""
        for facts in material["facts"].values():
            for mount in (facts.get("management") or {}).get("mounts_over_rdma") or []:
                server = mount["source"].partition(":/")[0]
                if mount["via"] != "nfs-rdma" or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", server):
                    continue
                short = _short(server)
                if short in self._shorts or re.search(r"[\d-]", short):
                    self._add(server)
                    continue
                if short not in self._servers:
                    self._servers[short] = self._alias()
                if server != short:
                    self._hosts[server] = f"{self._servers[short]}.example.com"
        for node, each in (material["cluster"].get("nodes") or {}).items():
            own = ((each.get("metadata") or {}).get("labels") or {}).get("kubernetes.io/hostname")
            if isinstance(own, str) and own not in ("", _NO_HOST):
                self._add(own, self._shorts.get(_short(node), ""))
        for log in material["logs"]:
            if log["source"] == "pod":
                continue
            writers = {match[0].rpartition(" ")[2] for match in _WRITER.finditer(log["text"])}
            for name in sorted(writers - {_NO_HOST}, key=natural_key):
                # a plain word may mean something else elsewhere
                if re.search(r"[\d.-]", name):
                    self._add(name, self._shorts.get(_short(log["host"] or ""), "") if len(writers) == 1 else "")

    def _index(self, sort: str, value: str) -> int:
        key = (sort, value.lower())
        if key not in self._known:
            self._count[sort] = self._count.get(sort, 0) + 1
            self._known[key] = self._count[sort]
        return self._known[key]

    def _guid(self, digits: str) -> str:
        number = 0 if not digits.strip("0") else self._index("guid", digits)
        return "0" * 16 if not number else f"020000000000{number:04x}"

    def _gid(self, text: str) -> str:
        if text.startswith("0000:0000:0000:0000:0000:ffff:"):
            digits = text[-9:].replace(":", "")
            ipv4 = ".".join(str(int(digits[at : at + 2], 16)) for at in (0, 2, 4, 6))
            octets = [int(part) for part in self._ipv4(ipv4).split(".")]
            return text[:30] + "{:02x}{:02x}:{:02x}{:02x}".format(*octets)
        prefix, digits = text[:19], text[20:].replace(":", "")
        if prefix != _LINK_LOCAL and prefix.strip("0:"):
            number = self._index("prefix", prefix)
            prefix = f"2001:0db8:{number >> 16 & 65535:04x}:{number & 65535:04x}"
        guid = self._guid(digits)
        return ":".join([prefix, *(guid[at : at + 4] for at in (0, 4, 8, 12))])

    def _bytes(self, text: str) -> str:
        """A GID of decimal numbers."""
        numbers = [int(part) for part in text.split(":")]
        if any(number > 255 for number in numbers):
            return text
        digits = "".join(f"{number:02x}" for number in numbers)
        gid = self._gid(":".join(digits[at : at + 4] for at in range(0, 32, 4))).replace(":", "")
        return ":".join(f"{int(gid[at : at + 2], 16):02d}" for at in range(0, 32, 2))

    def _address(self, text: str) -> str:
        """An IPv4 address; a host may be called by it."""
        return self._hosts.get(text) or self._ipv4(text)

    def _ipv4(self, text: str) -> str:
        if text.startswith(_LOCAL) or any(int(part) > 255 for part in text.split(".")):
            return text
        number = self._index("ipv4", text)
        return f"198.{18 + (number >> 16 & 1)}.{number >> 8 & 255}.{number & 255}"

    def _name(self, text: str) -> str:
        found = self._hosts.get(text) or self._hosts.get(text.rstrip(".-"))
        if found is not None:
            return found + text[len(text.rstrip(".-")) :]
        first, _dot, rest = text.partition(".")
        if rest and first in self._hosts:
            # with another domain than it is known by; one word may be of a file: gpu-1.log
            own = "." in rest or text.endswith(self._domains)
            return self._hosts[first] + (".example.com" if own else f".{rest}")
        if text.endswith(self._domains):
            return f"name-{self._index('name', text)}.example.com"
        # a file may be called gpu-1_dmesg
        return "_".join(self._hosts.get(part) or NAMED.sub(self._of_udev, part) for part in text.split("_"))

    def _of_udev(self, match: re.Match[str]) -> str:
        """A name that udev made of a MAC address or a GUID, with the stand-in of that."""
        digits = match[2]
        if len(digits) == 16:
            return match[1] + self._guid(digits)
        address = ":".join(digits[at : at + 2] for at in range(0, 12, 2))
        return f"{match[1]}0200{self._index('mac', address):08x}"

    def _writer(self, name: str) -> str:
        found = self._address(name) if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", name) else self._name(name)
        return name if name == _NO_HOST else found if found != name else f"name-{self._index('name', name)}"

    def _stand_in(self, match: re.Match[str]) -> str:
        sort, text = str(match.lastgroup), match[0]
        if sort == "writer":
            when, _blank, name = text.rpartition(" ")
            return f"{when} {self._writer(name)}"
        if sort == "name":
            exports = text in self._servers and match.string.startswith(":/", match.end())
            return self._servers[text] if exports else self._name(text)
        if sort in ("ipv4", "range"):
            return "-".join(map(self._address, text.split("-")))
        if sort == "bytes":
            return self._bytes(text)
        if sort == "gid":
            return self._gid(text.lower())
        if sort == "guid":
            digits = self._guid(text.lower().removeprefix("0x").replace(":", ""))
            if text.startswith("0x"):
                return "0x" + digits
            return ":".join(digits[at : at + 4] for at in (0, 4, 8, 12))
        number = self._index(sort, text)
        if sort == "mac":
            digits = f"0200{number:08x}" if len(text) == 17 else f"{0:024x}020000000000{number:04x}"
            return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))
        forms = {
            "email": f"user{number}@example.com",
            "iqn": f"iqn.2000-01.com.example:{number}",
            "ipv6": f"2001:db8::{number:x}",
            "home": f"/home/user{number}",
            "serial": f"serial{number}",
        }
        return forms[sort]

    def text(self, text: str, hosts_at: int = 0) -> str:
        """A text without what identifies the site.

        hosts_at: of a JSON document, how deep hosts are keys, counting from 1. What is a key below that, and a plain word, is of its form.
        """

        def stand_in(match: re.Match[str]) -> str:
            if hosts_at and match["name"] and _WORD.fullmatch(match[0]) and _key_depth(match) > hosts_at:
                return match[0]
            return self._stand_in(match)

        return _ANY.sub(stand_in, text)

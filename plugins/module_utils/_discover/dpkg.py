# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages are of an RDMA stack, and which of them dpkg has. Private to the collection. Pure."""

from __future__ import annotations

import re

__all__ = ["dpkg_stack", "is_stack_package", "parse_dpkg_status"]

# What the vendor's releases hold, and what of the distribution they take the place of. A name that is not here is not told in the
# facts. Debian's names and those of RPMs.
_STACK = re.compile(
    r"(lib|python3-|kmod-|kernel-|perl-)*"
    r"(bluefield|clusterkit|collectx|doca|dpa|dpcp|flexio|fwctl|hcoll|ib|infiniband|iser|isert|knem|mft|mlnx|mlx|mpi|mstflint|mpitests"
    r"|ofed|opensm|openmpi|perftest|rdma|rshim|sharp|sockperf|srp|ucc|ucx|umad|verbs|vma|xlio|xpmem)"
    # of no network: libibus, which ibus brings, libiberty of the compiler, libsharpyuv of WebP, the mail server opensmtpd
    r"(?!us([0-9-]|$)|erty|yuv|tpd)",
)


def is_stack_package(name: str) -> bool:
    """Whether a package's name is one of the RDMA stack, the distribution's or a vendor's."""
    return _STACK.match(name) is not None


def parse_dpkg_status(text: str) -> dict[str, str]:
    """Versions by name of what /var/lib/dpkg/status says is installed (dpkg(1): the third word of Status)."""
    found = {}
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and not line[0].isspace())
        if fields.get("Status", "").endswith(" installed") and "Package" in fields and "Version" in fields:
            found[fields["Package"]] = fields["Version"]
    return found


def dpkg_stack(data: bytes) -> bytes:
    """Of /var/lib/dpkg/status only what tells the packages of the stack; a capture keeps no more."""
    kept = []
    for stanza in data.split(b"\n\n"):
        name = re.match(rb"\n*Package: (\S+)$", stanza, re.MULTILINE)
        if name and is_stack_package(name.group(1).decode("utf-8", "replace")):
            lines = [line for line in stanza.splitlines() if line.startswith((b"Package:", b"Status:", b"Version:"))]
            kept.append(b"\n".join(lines) + b"\n\n")
    return b"".join(kept)

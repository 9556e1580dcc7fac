# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a key is that RPM trusts: it knows a key by its fingerprint, not by the file that it came from. Private. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

__all__ = ["fingerprints", "is_key_of"]

_ARMOR = re.compile(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL)
_PUBLIC_KEY = 6


def _blocks(data: bytes) -> list[bytes]:
    """Keys without their armor (RFC 9580, 6.2): headers, an empty line, base64, a checksum behind an equals sign."""
    found = []
    for block in _ARMOR.findall(data):
        _headers, _empty, text = block.replace(b"\r", b"").partition(b"\n\n")
        try:
            found.append(base64.b64decode(re.split(rb"\n=", text)[0]))
        except binascii.Error:
            continue
    return found or [data]


def _packets(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """(type, body) of packets (RFC 9580, 4.2), up to the first bytes that are not one. One of a length in parts is not a key."""
    at = 0
    while at + 2 < len(data) and data[at] & 0x80:
        head, first = data[at], data[at + 1]
        if head & 0x40:
            kind, size = head & 0x3F, 1 if first < 192 else 2 if first < 224 else 5 if first == 255 else 0
            length = {1: first, 2: ((first - 192) << 8) + data[at + 2] + 192}.get(size)
            length = int.from_bytes(data[at + 2 : at + 6], "big") if length is None else length
        else:
            kind, size = (head >> 2) & 0x0F, {0: 1, 1: 2, 2: 4}.get(head & 3, 0)
            length = int.from_bytes(data[at + 1 : at + 1 + size], "big")
        at += 1 + size
        if not size or at + length > len(data):
            return
        yield kind, data[at : at + length]
        at += length


def fingerprints(data: bytes) -> list[str]:
    """Of the keys in a file, in armor or without, those of version 4, which RPM has; none where it holds none."""
    return [
        # RFC 9580, 5.5.4.2
        hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest()
        for block in _blocks(data)
        for kind, body in _packets(block)
        if kind == _PUBLIC_KEY and body[:1] == b"\x04" and len(body) < 1 << 16
    ]


def is_key_of(name: str, prints: t.Iterable[str]) -> bool:
    """Whether a package such as gpg-pubkey-549b7549-6b0667bb is one of these keys; from RPM 6, it has all of the fingerprint."""
    found = re.match(r"gpg-pubkey-([0-9a-f]{8,40})-", name)
    return found is not None and any(each.endswith(found.group(1)) for each in prints)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How requests name images, releases and several hosts. Private. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["mirrored", "named", "numbers_of"]


def numbers_of(version: t.Any) -> tuple[int, ...]:
    """The numbers at the head of a version; () where it has none."""
    match = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", str(version or ""))
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def mirrored(image: str, registry: t.Optional[str]) -> str:
    """An image that has its public registry at its head, below another one.

    With mirror.example.com/all, registry.example.com/nvidia/x:v1 is mirror.example.com/all/nvidia/x:v1.
    """
    return f"{registry.rstrip('/')}/{image.partition('/')[2]}" if registry else image


def named(what: str, names: t.Collection[str], most: int = 5) -> str:
    """``host a``, ``hosts a and b``, ``hosts a, b, c, d, e and 13 more``."""
    words = sorted(names)
    if len(words) == 1:
        return f"{what} {words[0]}"
    shown, more = words[:most], len(words) - most
    last = f"{more} more" if more > 0 else shown.pop()
    return f"{what}s {', '.join(shown)} and {last}"

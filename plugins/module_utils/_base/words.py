# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for people: the nearest right one, releases, and none that is secret. Private to the collection. Pure."""

from __future__ import annotations

import difflib
import re
import typing as t

__all__ = ["SHOWN", "first_of", "in_dots", "nearest", "unknown_keys", "without_password"]

SHOWN = 80
# A node may have said the text: no part of it is looked at more often than so many times.
_PASSWORD = re.compile(r"://([^/?#\s]*|[^/?#\s@:]{0,256}:(?!\d{1,9}([/?#]|$))[^\s@]{0,256})@")


def without_password(text: str) -> str:
    """A text whose addresses have lost their user and password.

    Also a password with ``/``, ``?`` or ``#``, which makes the address a wrong one, so that somebody will show it: what is behind
    the colon is not a port then.
    """
    return _PASSWORD.sub("://", text)


def in_dots(release: t.Iterable[t.Any]) -> str:
    """A release or a line of them, such as (26, 4), as people write it."""
    return ".".join(map(str, release))


def first_of(names: t.Sequence[str], most: int) -> str:
    """``a, b and 4 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def nearest(name: t.Any, known: t.Collection[str]) -> str:
    """``; did you mean state?`` where something that is known is near enough, else nothing."""
    if not isinstance(name, str) or len(name) > SHOWN:
        return ""
    found = difflib.get_close_matches(name.lower(), sorted(known), 1, 0.6)
    # of names that are as near, and of what differs in capitals only
    found = [each for each in known if each.lower() == name.lower()] or found
    return f"; did you mean {found[0]}?" if found else ""


def unknown_keys(where: str, given: t.Iterable[t.Any], known: t.Iterable[str], under: str = "") -> t.Optional[str]:
    """A sentence on the keys that nobody reads, None when there is none. under: what else has to be so, such as `` with engine: x``."""
    names = sorted(known)
    unknown = sorted(str(key) for key in set(given) - set(names))
    if not unknown:
        return None
    hints = [hint for hint in (nearest(key, names) for key in unknown) if hint]
    words = [without_password(key) for key in unknown[:10]]
    shown = ", ".join(key if len(key) <= SHOWN else key[:SHOWN] + "..." for key in words)
    return f"{where} has no key {shown}{under}; it knows {', '.join(names)}{hints[0] if hints else ''}"

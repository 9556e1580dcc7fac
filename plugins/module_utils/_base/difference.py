# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module shows of a file that it changes, in the form in which Ansible takes differences. Private to the collection. Pure."""

from __future__ import annotations

import hashlib
import typing as t

__all__ = ["content_difference", "difference", "mode_difference", "summary"]

# Bytes. As of ansible-core, which shows no larger ones either.
_MOST_SHOWN = 104448
_HIDDEN = "a user or password of an address, which is not shown, or none\n"


def summary(data: t.Optional[bytes]) -> str:
    """A file without its content; nothing for None, one that is not there."""
    return "" if data is None else f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})\n"


def _shown(data: t.Optional[bytes]) -> str:
    """The content of a file, or its summary where it is large or no text."""
    if data is None or len(data) > _MOST_SHOWN or b"\0" in data:
        return summary(data)
    return data.decode("utf-8", "replace")


def difference(path: str, before: str, after: str) -> dict[str, str]:
    """Two texts of one file."""
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def content_difference(
    path: str,
    before: t.Optional[bytes],
    after: t.Optional[bytes],
    hide: t.Callable[[str], str] = lambda text: text,
) -> dict[str, str]:
    """Two contents of a file, None where there is none, which are shown as different when they are.

    hide: takes out of a text what nobody may see, such as passwords of addresses.
    """
    texts = _shown(before), _shown(after)
    if texts[0] == texts[1]:
        # neither is text, or one file is not there and the other empty
        return difference(path, summary(before), summary(after))
    told = hide(texts[0]), hide(texts[1])
    if told[0] == told[1]:
        told = _HIDDEN, "another one, or none\n"
    return difference(path, *told)


def mode_difference(path: str, before: int, after: int) -> dict[str, str]:
    """Two modes of a file whose content stays."""
    return difference(path, f"mode {before:04o}\n", f"mode {after:04o}\n")

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module shows of a file that it changes, in the form in which Ansible takes differences. Private to the collection. Pure."""

from __future__ import annotations

import hashlib
import typing as t

__all__ = ["MOST_SHOWN", "difference", "mode_difference", "shown", "summary"]

# Bytes. As of ansible-core, which shows no larger ones either.
MOST_SHOWN = 104448


def summary(data: t.Optional[bytes]) -> str:
    """A file without its content; nothing for None, one that is not there."""
    return "" if data is None else f"({len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()})\n"


def shown(data: t.Optional[bytes]) -> str:
    """The content of a file, or its summary where it is large or no text."""
    if data is None or len(data) > MOST_SHOWN or b"\0" in data:
        return summary(data)
    return data.decode("utf-8", "replace")


def difference(path: str, before: str, after: str) -> dict[str, str]:
    """Two texts of one file."""
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def mode_difference(path: str, before: int, after: int) -> dict[str, str]:
    """Two modes of a file whose content stays."""
    return difference(path, f"mode {before:04o}\n", f"mode {after:04o}\n")

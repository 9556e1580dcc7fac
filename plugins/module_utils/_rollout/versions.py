# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of charts and operators. Private. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["Version", "parsed"]


class Version(t.NamedTuple):
    """A release: its text, its line such as (1, 15), its last number."""

    text: str
    line: tuple[int, int]
    patch: int


def parsed(version: t.Any) -> t.Optional[Version]:
    """A whole release such as 1.15.1, with or without a v; None for anything else, such as a preview."""
    match = re.fullmatch(r"v?([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})", str(version))
    if match is None:
        return None
    major, minor, patch = (int(part) for part in match.groups())
    return Version(f"{major}.{minor}.{patch}", (major, minor), patch)

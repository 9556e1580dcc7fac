# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of nodes, as wishes have them: so many, or a percentage. Private. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["share_of"]

_SHARE = re.compile(r"([0-9]{1,9})(%?)")


class _Share(t.NamedTuple):
    """number: of nodes, or, with percent, of a hundred of them."""

    number: int
    percent: bool


def share_of(value: t.Any) -> t.Optional[_Share]:
    """A number of nodes above 0, or a percentage of them up to 100; None for anything else.

    Templates of older Ansible make a text of a number.
    """
    found = None if isinstance(value, (bool, float)) else _SHARE.fullmatch(str(value))
    if found is None:
        return None
    share = _Share(int(found.group(1)), bool(found.group(2)))
    return share if share.number >= 1 and (not share.percent or share.number <= 100) else None

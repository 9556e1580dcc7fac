# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of names. Private to the collection. Pure."""

from __future__ import annotations

import re

__all__ = ["natural_key"]


def natural_key(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key under which mlx5_2 comes before mlx5_10. Numbers are compared by length and digits: they may be of any length."""
    parts = re.split(r"0*([0-9]+)", name)
    return [(0, len(part), part) if index % 2 else (1, 0, part) for index, part in enumerate(parts)], name

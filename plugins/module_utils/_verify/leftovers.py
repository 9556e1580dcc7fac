# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement says of objects that a killed run had left. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["removal"]


def removal(names: t.Sequence[str]) -> dict[str, t.Any]:
    """The part of a result on objects that were removed: {changed, removed}, with a diff where there were any."""
    found: dict[str, t.Any] = {"changed": bool(names), "removed": list(names)}
    if names:
        found["diff"] = {"before": "".join(f"{name}\n" for name in names), "after": ""}
    return found

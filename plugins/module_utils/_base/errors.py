# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors that users see. All others are mistakes of the code, and nothing catches them. Private to the collection. Pure."""

from __future__ import annotations

__all__ = ["FabricError", "WishError"]


class FabricError(Exception):
    """What is wrong, and what to do about it; str() is both. A remedy with a capital is a sentence of its own."""

    def __init__(self, message: str, remedy: str = "") -> None:
        end = ". " if remedy[:1].isupper() else "; "
        super().__init__(message + end + remedy if remedy else message)
        self.message = message
        self.remedy = remedy


class WishError(FabricError):
    """A wish or an argument that makes no sense, or not for this host."""

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one content of a file from another. Private. Pure."""

from __future__ import annotations

import hashlib
import typing as t

__all__ = ["digest"]


def digest(data: t.Optional[bytes]) -> t.Optional[str]:
    """Of the content of a file; None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one value from another. Private to the collection. Pure."""

from __future__ import annotations

import hashlib
import json
import typing as t

__all__ = ["fingerprint"]


def fingerprint(value: t.Any, digits: int) -> str:
    """So many hexadecimal digits that change with a value of JSON, and not with the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:digits]

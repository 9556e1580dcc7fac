# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of charts, and configurations that an operator takes as text. Private to the collection. Pure."""

from __future__ import annotations

import json
import typing as t

__all__ = ["config_text", "merged"]


def merged(base: t.Mapping[str, t.Any], over: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Values as Helm merges them: dictionaries key by key, everything else replaced."""
    found = dict(base)
    for key, value in over.items():
        both = isinstance(value, t.Mapping) and isinstance(found.get(key), t.Mapping)
        found[key] = merged(found[key], value) if both else value
    return found


def config_text(config: t.Any) -> str:
    """JSON for the Network Operator, which puts it between apostrophes: one inside would end it."""
    return json.dumps(config, sort_keys=True).replace("'", "\\u0027")

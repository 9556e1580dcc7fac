# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What multi-node NVLink needs of a node, from files alone. Private to the collection."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.places import IMEX_SERVICE
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.services import runs, units_of

__all__ = ["read_imex"]

Json = t.Dict[str, t.Any]


def read_imex(tree: Tree, warnings: list[str]) -> Json:
    """The value of ansible_facts.rdma.nvidia.imex (docs/facts.schema.json).

    The host's own service, the device that channels are made of, and what the service was before the role nvidia_imex masked it.
    """
    units = units_of(tree, "nvidia-imex.service")
    # "234 nvidia-caps-imex-channels" (fs/proc/devices.c)
    major = re.search(r"^ *([0-9]{1,9}) nvidia-caps-imex-channels$", tree.text("/proc/devices") or "", re.MULTILINE)
    remembered: t.Optional[Json] = None
    text = tree.text(IMEX_SERVICE)
    try:
        value = json.loads(text or "")
        remembered = {"enabled": value["enabled"] is True, "running": value["running"] is True}
    except (ValueError, KeyError, TypeError, RecursionError):
        if text is not None:
            warnings.append(
                f"{IMEX_SERVICE} makes no sense: repair it, so that `restore` finds what there was, or remove it"
            )
    state = "running" if runs(tree, "nvidia-imex") else "stopped"
    return {
        "service": state if state == "running" or units.units else None,
        "enabled": bool(units.enabled),
        "masked": bool(units.masked),
        "remembered": remembered,
        "channel_major": int(major.group(1)) if major else None,
    }

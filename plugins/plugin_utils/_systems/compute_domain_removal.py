# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who still has something of NVIDIA's DRA driver before it is removed. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import some_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import API_GROUP

__all__ = ["removal_problems"]

_DRIVERS = ("compute-domain.nvidia.com", "gpu.nvidia.com")
_DOMAIN_GROUP = "resource.nvidia.com"


def _name(item: t.Mapping[str, t.Any]) -> str:
    return f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"


def _held(claim: t.Mapping[str, t.Any]) -> set[str]:
    """Nodes of whose devices of the driver a claim has some."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    rows = (allocation.get("devices") or {}).get("results") or ()
    # the driver has a pool for each node, called like it
    return {str(row.get("pool")) for row in rows if row.get("driver") in _DRIVERS}


def removal_problems(
    claims: t.Optional[t.Sequence[Json]],
    domains: t.Optional[t.Sequence[Json]],
    served: t.Mapping[str, t.Sequence[str]],
) -> list[str]:
    """Why the driver cannot go: without it, the kubelet cannot take devices back from Pods, and ComputeDomains keep their finalizers.

    claims, domains: all ResourceClaims and ComputeDomains, None where they could not be asked for in a version that is known here.
    served: versions of each API group.
    """
    found = [
        f"it is not known which {what} there are: the API server has {group} ({', '.join(served[group])}), and does not tell it in a version that "
        "is known here. See that there are none of this driver, then remove its release with helm uninstall"
        for group, what, items in ((API_GROUP, "ResourceClaims", claims), (_DOMAIN_GROUP, "ComputeDomains", domains))
        if items is None and served.get(group)
    ]
    held = sorted(f"{_name(claim)} (node {node})" for claim in claims or () for node in _held(claim))
    if held:
        found.append(
            f"claims have devices of NVIDIA's DRA driver, so that their Pods could no longer end: {some_of(held)}. End these Pods first"
        )
    if domains:
        names = some_of(sorted(map(_name, domains)))
        found.append(
            f"there are ComputeDomains, which nobody could delete any more without the driver: {names}. Delete them first, with the Pods in them"
        )
    return found

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes that tell schedulers at which leaves a node is, by the map of the fabric. Private. Pure.

Nodes with one value have all their ports at the same leaves. Topology-aware schedulers (Kueue's TopologyAwareScheduling, Slinky, podAffinity
with a topologyKey) take such a label as a level.
"""

from __future__ import annotations

import hashlib
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import halted

__all__ = ["request"]


def _value(leaves: t.Sequence[str]) -> str:
    """The name of the leaf; of several one name for all of them, as they are no more than one place to a scheduler."""
    if len(leaves) == 1:
        return group_value(leaves[0])
    return "leaves-" + hashlib.sha256("\n".join(leaves).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def request(wish: t.Mapping[str, t.Any], site: Site) -> Request:
    """What rdma_topology asks of the cluster: labels on the nodes whose leaves are known. Nothing with an empty wish."""
    found = empty_request("topology")
    full = {**defaults_of("rdma_topology"), **wish}
    if not full["labels"]:
        return found
    leaves = site.get("leaves") or {}
    groups = site["plan"]["groups"].values()
    planned = {host for entry in groups if entry["planned"] for each in entry["classes"] for host in each["hosts"]}
    stay = halted(site)
    found["warnings"] += [
        f"group {group}: labels of its nodes stay as they are, since the group does: {why}"
        for group, why in stay.items()
    ]
    units: dict[str, list[str]] = {}
    for host in sorted(planned & set(leaves)):
        value = _value(leaves[host])
        found["node_labels"][site["node_names"].get(host, host)] = {full["label"]: value}
        units.setdefault(value, leaves[host])
    missing = sorted(planned - set(leaves))
    if not found["node_labels"] and (planned or not stay):
        found["problems"].append(
            "rdma_topology.labels: no planned host is on the map of the fabric: run the playbook fabric first (fabric.json of the output "
            "directory), or leave rdma_topology out"
        )
    elif missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        found["warnings"].append(
            f"topology: no label for {len(missing)} hosts that are not on the map of the fabric: {some}"
        )
    for value, own in sorted(units.items()):
        hosts = sum(value == labels[full["label"]] for labels in found["node_labels"].values())
        found["summary"].append((f"{full['label']}={value}", f"{hosts} nodes at {', '.join(own)}"))
    return found

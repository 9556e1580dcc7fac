# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that the Network Operator's driver leaves, and what keeps it there. Private. Pure.

Where spec.ofedDriver of a policy no longer reaches a node, the operator ends the driver's Pod there at once, and that restores the driver of
the node (RESTORE_DRIVER_ON_POD_TERMINATION): all netdevs of the cards disappear for a while, as when it came. Nobody drains a node for it.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    RDMA_SECTION,
    SRIOV_SECTION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import describe, requested, some
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import (
    NIC_LABEL,
    cluster_classes,
    served_groups,
)

__all__ = ["DRIVER_SECTION", "left_nodes", "offered", "removal_objections", "users"]

Json = t.Dict[str, t.Any]
# {node: its labels}
Labels = t.Mapping[str, t.Mapping[str, t.Any]]

DRIVER_SECTION = "ofedDriver"
# What the shared device plugin takes where a configuration names none.
_PREFIX = "rdma"


def _reached(policy: t.Optional[t.Mapping[str, t.Any]], labels: Labels) -> set[str]:
    """Nodes that the driver of a policy is for; none where it has none. A NicClusterPolicy that tells no classes is for all with such cards."""
    spec = (policy or {}).get("spec") or {}
    if policy is None or DRIVER_SECTION not in spec:
        return set()
    if policy["kind"] == "NicNodePolicy":
        wanted = (spec.get("nodeSelector") or {}).items()
        return {node for node, own in labels.items() if all(own.get(key) == value for key, value in wanted)}
    classes = cluster_classes(policy) | set(served_groups(policy))
    bound = bool(spec.get("nodeAffinity"))
    return {
        node
        for node, own in labels.items()
        if own.get(CLASS_LABEL) in classes or (not bound and own.get(NIC_LABEL) == "true")
    }


def left_nodes(
    policies: t.Iterable[tuple[Json, t.Optional[Json]]], before: Labels, after: t.Mapping[str, t.Optional[str]]
) -> list[str]:
    """Nodes that the driver of a policy leaves. policies: as they are, each with what becomes of it. after: new values of CLASS_LABEL."""
    later = {node: {**own, CLASS_LABEL: after.get(node, own.get(CLASS_LABEL))} for node, own in before.items()}
    return sorted({node for old, new in policies for node in _reached(old, before) - _reached(new, later)})


def offered(policies: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    """Resources that device plugins of policies offer, by the names that their configurations give them."""
    found = set()
    for policy in policies:
        for section, rows in ((RDMA_SECTION, "configList"), (SRIOV_SECTION, "resourceList")):
            try:
                config = json.loads((policy["spec"].get(section) or {}).get("config") or "{}")
                found |= {f"{row.get('resourcePrefix') or _PREFIX}/{row['resourceName']}" for row in config[rows]}
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                # of others, who may write what they like
                continue
    return found


def users(pods: t.Iterable[t.Mapping[str, t.Any]], resources: t.Collection[str]) -> list[str]:
    """Pods that ask for one of these resources, or for what is called like RDMA."""
    return [
        describe({**pod, "kind": "Pod"})
        for pod in pods
        if any(name in resources or ("/" in name and "rdma" in name) for name in requested(pod))
    ]


def removal_objections(
    nodes: t.Collection[str],
    told: t.Mapping[str, t.Sequence[str]],
    cordoned: t.Collection[str],
    busy: t.Mapping[str, t.Sequence[str]],
    undrained: bool,
) -> list[str]:
    """Sentences on nodes that the driver would leave, each begins with its reason; none where it may.

    told: what rules out a reload, of each node of which that is known. cordoned: nodes. busy: {node: Pods that use RDMA}. undrained: whether
    a node need not be drained, nor known.
    """
    found = [sentence for node in nodes for sentence in told.get(node, ())]
    if undrained:
        return found
    unknown = [node for node in nodes if node not in told]
    open_ones = [node for node in nodes if node not in cordoned]
    if unknown:
        found.append(
            f"removal: nothing is known of the routes and mounts of {some(unknown)} (run discover, which gathers all)"
        )
    if open_ones:
        found.append(f"removal: {some(open_ones)} not cordoned (drain them, as for any change of their driver)")
    found += [
        f"removal: node {node} is cordoned, and Pods still use RDMA there: {some(busy[node])} (end them)"
        for node in nodes
        if busy.get(node)
    ]
    return found

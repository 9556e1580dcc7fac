# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods of a node still have to go before it may be changed. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.node_views import tolerated
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import has_ended

__all__ = ["staying"]

Json = t.Dict[str, t.Any]

_MIRROR = "kubernetes.io/config.mirror"
# what the scheduler takes spec.unschedulable of a node for
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _stays_by_right(pod: Json) -> bool:
    """Whether a drain leaves a Pod where it is: it has ended, a DaemonSet would make it again, or the kubelet runs it from a file."""
    metadata = pod["metadata"]
    kinds = {owner["kind"] for owner in metadata.get("ownerReferences") or ()}
    return bool(has_ended(pod) or kinds & {"DaemonSet", "Node"} or _MIRROR in (metadata.get("annotations") or {}))


def staying(pods: t.Iterable[Json], before: t.Iterable[Json]) -> list[str]:
    """Pods of a node that is drained which have yet to go, as NAMESPACE/NAME, sorted. None of them: the node is drained.

    pods, before: Pods of the node as the API server gives them, now and before it was cordoned. A Pod that has come since, which
    nobody has told to go, and which tolerates a cordon, does not count: the scheduler would put the next one there as well.
    """
    there = {pod["metadata"]["uid"] for pod in before}
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        ends = metadata.get("deletionTimestamp")
        came = metadata["uid"] not in there and tolerated(_CORDON, pod["spec"].get("tolerations") or ())
        if not _stays_by_right(pod) and (ends or not came):
            told = f"told to end by {ends}" if ends else "not told to end"
            found.append(f"{metadata['namespace']}/{metadata['name']} ({told})")
    return sorted(found)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods of a node still have to go before it may be changed. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["staying"]

Json = t.Dict[str, t.Any]

_MIRROR = "kubernetes.io/config.mirror"
_CORDON = "node.kubernetes.io/unschedulable"


def _part(value: t.Any, key: str) -> t.Mapping[str, t.Any]:
    part = value.get(key) if isinstance(value, t.Mapping) else None
    return part if isinstance(part, t.Mapping) else {}


def _rows(value: t.Mapping[str, t.Any], key: str) -> list[t.Mapping[str, t.Any]]:
    rows = value.get(key)
    return [row for row in rows if isinstance(row, t.Mapping)] if isinstance(rows, (list, tuple)) else []


def _stays_by_right(pod: t.Mapping[str, t.Any]) -> bool:
    """Whether a drain leaves a Pod where it is: it has ended, a DaemonSet would make it again, or the kubelet runs it from a file."""
    metadata = _part(pod, "metadata")
    kinds = {str(owner.get("kind")) for owner in _rows(metadata, "ownerReferences")}
    ended = _part(pod, "status").get("phase") in ("Succeeded", "Failed")
    return bool(ended or kinds & {"DaemonSet", "Node"} or _MIRROR in _part(metadata, "annotations"))


def _tolerates_cordon(pod: t.Mapping[str, t.Any]) -> bool:
    """Whether the scheduler puts a Pod on a node that is cordoned (k8s.io/component-helpers, scheduling/corev1/helpers.go)."""
    return any(
        row.get("key") in (None, "", _CORDON)
        and row.get("effect") in (None, "", "NoSchedule")
        # of a key without Exists, the taint's own value is none
        and (row.get("operator") == "Exists" or (row.get("key") == _CORDON and not row.get("value")))
        for row in _rows(_part(pod, "spec"), "tolerations")
    )


def staying(pods: t.Sequence[t.Any], before: t.Sequence[t.Any]) -> list[str]:
    """Pods of a node that is drained which have yet to go, as NAMESPACE/NAME, sorted. None of them: the node is drained.

    pods, before: Pods of the node as the API server gives them, now and before it was cordoned. A Pod that has come since, which
    nobody has told to go, and which tolerates a cordon, does not count: the scheduler would put the next one there as well.
    """
    there = {_part(pod, "metadata").get("uid") for pod in before}
    found = []
    for pod in pods:
        metadata = _part(pod, "metadata")
        ends = metadata.get("deletionTimestamp")
        if _stays_by_right(pod) or not (ends or metadata.get("uid") in there or not _tolerates_cordon(pod)):
            continue
        told = f"told to end by {ends}" if ends else "not told to end"
        found.append(f"{metadata.get('namespace')}/{metadata.get('name')} ({told})")
    return sorted(found)

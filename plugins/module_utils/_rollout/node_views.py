# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems of the cluster side look at of nodes. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["node_views", "tolerated"]

Json = t.Dict[str, t.Any]


def node_views(nodes: t.Iterable[Json]) -> dict[str, Json]:
    """{node: {labels, kubelet: the version of its kubelet, addresses: also names, pod_cidrs: the networks of its Pods,
    taints: [{key, value, effect}]}}."""
    return {
        item["metadata"]["name"]: {
            "labels": item["metadata"].get("labels") or {},
            "kubelet": ((item.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"),
            "addresses": [row["address"] for row in (item.get("status") or {}).get("addresses") or ()],
            "pod_cidrs": list((item.get("spec") or {}).get("podCIDRs") or ()),
            "taints": [dict(taint) for taint in (item.get("spec") or {}).get("taints") or ()],
        }
        for item in nodes
    }


def tolerated(taint: t.Mapping[str, t.Any], tolerations: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """Whether one of these tolerations is for a taint (k8s.io/component-helpers, scheduling/corev1)."""
    for each in tolerations:
        if each.get("effect") not in (None, "", taint.get("effect")):
            continue
        if each.get("key") not in (None, "", taint.get("key")):
            continue
        if each.get("operator") == "Exists" or (
            each.get("key") and (each.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False

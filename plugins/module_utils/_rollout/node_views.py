# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems of the cluster side look at of nodes. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["node_views"]

Json = t.Dict[str, t.Any]


def node_views(nodes: t.Iterable[Json]) -> dict[str, Json]:
    """{node: {labels, kubelet: the version of its kubelet, addresses: also names, pod_cidrs: the networks of its Pods}}."""
    return {
        item["metadata"]["name"]: {
            "labels": item["metadata"].get("labels") or {},
            "kubelet": ((item.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"),
            "addresses": [row["address"] for row in (item.get("status") or {}).get("addresses") or ()],
            "pod_cidrs": list((item.get("spec") or {}).get("podCIDRs") or ()),
        }
        for item in nodes
    }

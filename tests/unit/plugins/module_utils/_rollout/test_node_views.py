# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as the API server returns them."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.node_views import node_views


def test_a_node_tells_its_addresses_and_the_networks_of_its_pods() -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    node = {
        "metadata": {"name": "gpu-1", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24", "fd00:3::/64"], "taints": [taint]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.11"}, {"type": "Hostname", "address": "gpu-1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }
    # one that has only just been made
    bare = {"metadata": {"name": "gpu-2"}, "spec": {}, "status": {}}
    assert node_views([node, bare]) == {
        "gpu-1": {
            "labels": {"a": "b"},
            "kubelet": "v1.36.3",
            "addresses": ["192.0.2.11", "gpu-1"],
            "pod_cidrs": ["10.244.3.0/24", "fd00:3::/64"],
            "taints": [taint],
        },
        "gpu-2": {"labels": {}, "kubelet": None, "addresses": [], "pod_cidrs": [], "taints": []},
    }

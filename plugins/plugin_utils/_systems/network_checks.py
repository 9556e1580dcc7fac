# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does not go together in the wish for one secondary network. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import (
    ETHERNET,
    ON_A_NETDEV,
    Attachment,
    Findings,
    Network,
    link_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_objects import spider_kind
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_pools import pods_per_node

__all__ = ["check_network"]

_ALL = {"name", "kind", "namespace", "rails", "ipam"}
# What each kind reads beside it.
_READ = {
    "hostdevice": {"operator", "isolate_rdma", "resource"},
    "sriov": {"mtu", "operator", "isolate_rdma", "resource", "spoofchk", "sriov", "trust", "vlan"},
    "macvlan": {"master", "mode", "mtu", "operator"},
    "ipoib": {"master", "operator"},
    "spiderpool": {"cni", "inject", "master", "mtu", "vlan"},
}
# Why another kind does not have it, and what to do.
_INSTEAD = {
    (
        "macvlan",
        "vlan",
    ): "macvlan makes no VLAN: make a netdev of the VLAN on the hosts (such as eth1.100), and name it with master",
    (
        "ipoib",
        "vlan",
    ): "InfiniBand has partitions in place of VLANs: make an IPoIB child (such as ib0.8001) and name it with master",
    ("ipoib", "mtu"): "the IPoIB CNI plugin takes the MTU of its master: set it there",
    ("hostdevice", "mtu"): "the netdev comes into the Pod as it is: set its MTU on the host",
    ("hostdevice", "vlan"): "the netdev comes into the Pod as it is: kind: sriov puts virtual functions into a VLAN",
}


def check_network(
    network: Network, rows: t.Sequence[Attachment], site: Site, rollout: t.Mapping[str, t.Any], found: Findings
) -> None:
    """What can be said without a look at hosts and addresses."""
    group = site["plan"]["groups"][network.group]
    ethernet = link_of(group) == ETHERNET
    kind = network.kind
    read = _READ.get(kind, set())
    if kind == "spiderpool" and any(spider_kind(network, row) == "ipoib" for row in rows):
        # its object has no field for what the IPoIB CNI plugin does not read
        kind, read = "ipoib", read - {"mtu", "vlan"}
    for key in sorted(set(network.wish) - _ALL - read):
        text = _INSTEAD.get((kind, key), f"kind {network.kind} does not read it: leave it out")
        found.problem(f"{network.words}: {key}: {text}")
    if network.kind == "sriov":
        _check_sriov(network, ethernet, found)
    if network.wish.get("operator"):
        _check_operator(network, rollout, found)
    if network.kind == "spiderpool" and network.ipam_type != "spiderpool":
        found.problem(
            f"{network.words}: kind spiderpool has its addresses of Spiderpool: leave ipam.type out, or take spiderpool"
        )
    if network.kind == "macvlan" and network.wish.get("mode") == "passthru" and pods_per_node(network, site) > 1:
        found.problem(
            f"{network.words}: mode passthru gives the netdev to one Pod, and ipam.pods_per_node is {pods_per_node(network, site)}: take "
            "mode bridge, or set it to 1"
        )
    if network.ipam_type == "none" and ethernet:
        found.warn(
            f"{network.words} has no addresses: RoCE v2 between hosts goes by a GID of an IP address, so Pods reach no other subnet, and "
            "only peers whose link-local GID they know"
        )
    if network.kind in ON_A_NETDEV:
        _check_shares(network, site, found)


def _check_shares(network: Network, site: Site, found: Findings) -> None:
    """Whether the shared device plugin offers what Pods of the network ask for."""
    for entry in site["plan"]["groups"][network.group]["classes"]:
        if not entry["config"]:
            found.warn(
                f"{network.words}: no device plugin serves class {entry['name']} ({entry['reason'] or 'the plan has no configuration'}), so "
                "Pods that ask for its resource find no node"
            )
        elif all(row["rdmaHcaMax"] == 0 for row in entry["config"]["configList"]):
            found.problem(
                f"{network.words}: rdma_resource.hca_max of the group is 0, so no Pod gets a share of its ports: raise it, or take kind: "
                "hostdevice"
            )


def _check_sriov(network: Network, ethernet: bool, found: Findings) -> None:
    for key in ("vlan", "trust", "spoofchk"):
        if not ethernet and key in network.wish:
            found.problem(
                f"{network.words}: {key} is of Ethernet, and the ports of the group are InfiniBand: leave it out"
            )
    sriov = network.wish.get("sriov") or {}
    if sriov and not sriov.get("vfs"):
        found.problem(f"{network.words}: sriov.vfs says how many virtual functions each port is to have: set it")
    if sriov and network.wish.get("resource"):
        found.problem(f"{network.words}: resource names what others offer, and sriov makes what is offered: keep one")
    if "mtu" in network.wish and not sriov:
        found.problem(f"{network.words}: mtu is that of the virtual functions, which sriov.vfs makes: leave it out")
    if network.wish.get("operator") and network.wish.get("resource") and "/" not in str(network.wish["resource"]):
        found.problem(f"{network.words}: resource {network.wish['resource']} has no prefix, such as openshift.io/")


def _check_operator(network: Network, rollout: t.Mapping[str, t.Any], found: Findings) -> None:
    """What the operator's own resources have no field for."""
    if network.kind == "sriov":
        return
    if rollout.get("engine") != "network_operator":
        found.problem(
            f"{network.words}: operator: true makes a resource of the Network Operator, and rdma_rollout.engine is "
            f"{rollout.get('engine') or defaults_of('rdma_rollout', 'engine')}: set it to network_operator, or leave operator out "
            "for a NetworkAttachmentDefinition"
        )
    if network.ipam_type == "static":
        found.problem(
            f"{network.words}: the operator's networks have no field for the capability ips, which ipam.type static needs: leave operator out"
        )
    if network.wish.get("isolate_rdma"):
        found.problem(
            f"{network.words}: the operator's networks have no field for the RDMA CNI plugin, which isolate_rdma needs: leave operator out"
        )

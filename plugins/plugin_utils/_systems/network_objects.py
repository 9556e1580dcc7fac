# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of secondary networks: definitions for Multus, resources of the Network Operator, pools of addresses. Private. Pure.

Follows the CNI plugins' own configuration (containernetworking/plugins: macvlan, host-device, host-local, static; Mellanox/ipoib-cni;
k8snetworkplumbingwg: sriov-cni, ib-sriov-cni, rdma-cni, whereabouts), and the templates of the Network Operator (manifests/state-*-network).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.blocks import NV_IPAM
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    GROUP_LABEL,
    POLICY_VERSION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import config_text
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.addresses import Pool, Span, cut, span_networks
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Wait
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import node_selections
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import INFINIBAND, Attachment, Network
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_pools import routes_of

__all__ = ["INJECT", "Places", "cni_plugins", "network_objects", "network_wait", "pool_objects", "spider_kind"]

_NETWORK_VERSION = "k8s.cni.cncf.io/v1"
# What all CNI plugins named here read, old ones too.
_CNI_VERSION = "0.3.1"
_POOLS = f"{NV_IPAM}/v1alpha1"
_SPIDERPOOL = "spiderpool.spidernet.io/v2beta1"
_SRIOV = "sriovnetwork.openshift.io/v1"
INJECT = "cni.spidernet.io/rdma-resource-inject"
_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
# A Pod in several networks answers for its addresses on each of them, as Linux does, if it is not told otherwise: what is sent on one rail
# would reach the other end's address of another rail. The same as of a node with several rails (roce_host).
_OWN_ADDRESSES = {
    f"net.ipv4.conf.IFNAME.{key}": value
    for key, value in (("arp_announce", "2"), ("arp_ignore", "1"), ("rp_filter", "2"))
}


class Places(t.NamedTuple):
    """Where others are. nv_ipam, sriov_operator: their namespaces. whereabouts: its file on the nodes where that is not the usual one."""

    nv_ipam: str
    sriov_operator: str
    whereabouts: t.Optional[str]


def _labels(network: Network) -> dict[str, str]:
    return {GROUP_LABEL: group_value(network.group)}


# --- IPAM ---------------------------------------------------------------------------------------------------------------


def _whereabouts_range(pool: Pool) -> Json:
    """One range. What is excluded between the first and the last address is said in networks: Whereabouts knows no other form."""
    whole = Span(pool.version, pool.spans[0].first, pool.spans[-1].last)
    found: Json = {
        "range": pool.network,
        "range_start": pool.text(whole.first),
        "range_end": pool.text(whole.last),
    }
    holes = cut([whole], pool.spans)
    if holes:
        found["exclude"] = [network for hole in holes for network in span_networks(hole)]
    return found


def _ipam_config(network: Network, pools: t.Sequence[Pool], places: Places) -> Json:
    """The section ipam of a CNI configuration; {} for none. pools: one of each family at most, none of them empty."""
    kind = network.ipam_type
    routes = [route for pool in pools for route in routes_of(network, pool)]
    if kind == "whereabouts":
        config: Json = {"type": "whereabouts"}
        if len(pools) == 1:
            config.update(_whereabouts_range(pools[0]))
            if pools[0].gateway is not None:
                config["gateway"] = pools[0].text(pools[0].gateway)
        else:
            # one gateway would be that of both families: the routes name theirs
            config["ipRanges"] = [_whereabouts_range(pool) for pool in pools]
        if routes:
            config["routes"] = routes
        if places.whereabouts:
            config["configuration_path"] = places.whereabouts
        return config
    if kind == "host_local":
        ranges = [[_local_range(pool, span) for span in pool.spans] for pool in pools]
        return {"type": "host-local", "ranges": ranges, **({"routes": routes} if routes else {})}
    if kind == "nv_ipam":
        return {"type": "nv-ipam", "poolName": ",".join(pool.name for pool in pools), "poolType": "ippool"}
    if kind == "spiderpool":
        return {"type": "spiderpool", **{f"default_ipv{pool.version}_ippool": [pool.name] for pool in pools}}
    return {"type": "static"} if kind == "static" else {}


def _local_range(pool: Pool, span: Span) -> Json:
    found = {"subnet": pool.network, "rangeStart": pool.text(span.first), "rangeEnd": pool.text(span.last)}
    return {**found, **({} if pool.gateway is None else {"gateway": pool.text(pool.gateway)})}


def pool_objects(
    network: Network,
    rows: t.Sequence[Attachment],
    pools: t.Sequence[Pool],
    labels: t.Mapping[str, str],
    block: int,
    places: Places,
) -> list[Json]:
    """Objects of the pools of a rail, for IPAM that keeps them as objects.

    rows: what takes addresses of them; labels: of nodes, by slug of class; block: of nv-ipam.
    """
    terms = [{"matchExpressions": own} for own in node_selections(labels)]
    if network.ipam_type == "nv_ipam":
        return [_nv_pool(network, pool, terms, block, places) for pool in pools]
    if network.ipam_type == "spiderpool":
        return [_spider_pool(network, rows, pool, terms) for pool in pools]
    return []


def _nv_pool(network: Network, pool: Pool, terms: t.Sequence[Json], block: int, places: Places) -> Json:
    spec: Json = {
        "subnet": pool.network,
        "perNodeBlockSize": block,
        # other nodes would be given blocks that nobody uses
        "nodeSelector": {"nodeSelectorTerms": list(terms)},
    }
    hosts = Span(
        pool.version, pool.address + 1, pool.address + (1 << ((32 if pool.version == 4 else 128) - pool.prefix)) - 2
    )
    holes = cut([hosts], pool.spans)
    if holes:
        spec["exclusions"] = [{"startIP": pool.text(hole.first), "endIP": pool.text(hole.last)} for hole in holes]
    if pool.gateway is not None:
        spec["gateway"] = pool.text(pool.gateway)
    routes = routes_of(network, pool)
    if routes:
        spec["routes"] = [{"dst": route["dst"]} for route in routes]
    metadata = {"name": pool.name, "namespace": places.nv_ipam, "labels": _labels(network)}
    return {"apiVersion": _POOLS, "kind": "IPPool", "metadata": metadata, "spec": spec}


def _spider_pool(network: Network, rows: t.Sequence[Attachment], pool: Pool, terms: t.Sequence[Json]) -> Json:
    ips = [
        pool.text(span.first) if span.first == span.last else f"{pool.text(span.first)}-{pool.text(span.last)}"
        for span in pool.spans
    ]
    spec: Json = {
        "ipVersion": pool.version,
        "subnet": pool.network,
        # without what is excluded, and without the gateway, which Spiderpool refuses in it
        "ips": ips,
        "multusName": [f"{network.namespace}/{row.name}" for row in rows],
        # a label selector, which knows no alternatives
        "nodeAffinity": terms[0],
    }
    if pool.gateway is not None:
        spec["gateway"] = pool.text(pool.gateway)
    routes = routes_of(network, pool)
    if routes:
        spec["routes"] = routes
    return {
        "apiVersion": _SPIDERPOOL,
        "kind": "SpiderIPPool",
        "metadata": {"name": pool.name, "labels": _labels(network)},
        "spec": spec,
    }


# --- networks -----------------------------------------------------------------------------------------------------------


def network_objects(
    network: Network, row: Attachment, pools: t.Sequence[Pool], resource: t.Optional[str], places: Places
) -> list[Json]:
    """The objects of one attachment. resource: with its prefix, what Pods ask for to get the device."""
    if network.kind == "spiderpool":
        return [_spider_config(network, row, pools, resource)]
    ipam = _ipam_config(network, pools, places)
    if network.wish.get("operator"):
        if network.kind == "sriov":
            return [_sriov_network(network, row, ipam, str(resource), places)]
        return [_operator_network(network, row, ipam, resource)]
    return [_definition(network, row, ipam, resource)]


def _plugin(network: Network, row: Attachment, ipam: Json) -> Json:
    """The first plugin of the CNI configuration of an attachment."""
    wish = network.wish
    if network.kind == "macvlan":
        plugin: Json = {
            "type": "macvlan",
            "master": row.master,
            "mode": wish.get("mode") or defaults_of("rdma_networks", "mode"),
        }
        if wish.get("mtu"):
            plugin["mtu"] = int(wish["mtu"])
    elif network.kind == "ipoib":
        plugin = {"type": "ipoib", "master": row.master}
    elif network.kind == "hostdevice":
        plugin = {"type": "host-device"}
    elif row.link == INFINIBAND:
        plugin = {"type": "ib-sriov", "link_state": "enable"}
    else:
        plugin = {"type": "sriov"}
        for key, field in (("vlan", "vlan"), ("trust", "trust"), ("spoofchk", "spoofchk")):
            if wish.get(key) is not None:
                plugin[field] = int(wish[key]) if key == "vlan" else "on" if wish[key] else "off"
    if ipam:
        plugin["ipam"] = ipam
    if network.ipam_type == "static":
        # the annotation of a Pod brings its addresses
        plugin["capabilities"] = {"ips": True}
    return plugin


def cni_plugins(network: Network, rows: t.Sequence[Attachment]) -> set[str]:
    """Programs of /opt/cni/bin that the nodes need for a network, as far as its objects tell."""
    found: set[str] = set()
    for row in rows:
        if network.kind == "spiderpool":
            found |= {spider_kind(network, row), "spiderpool", "coordinator"}
            continue
        found |= {str(each["type"]) for each in _chain(network, row, {})}
    ipam = {"nv_ipam": "nv-ipam", "host_local": "host-local", "none": ""}.get(network.ipam_type, network.ipam_type)
    return found | ({ipam} if ipam else set())


def _chain(network: Network, row: Attachment, ipam: Json) -> list[Json]:
    plugins = [_plugin(network, row, ipam), {"type": "tuning", "sysctl": dict(_OWN_ADDRESSES)}]
    if network.wish.get("isolate_rdma"):
        plugins.append({"type": "rdma"})
    return plugins


def _definition(network: Network, row: Attachment, ipam: Json, resource: t.Optional[str]) -> Json:
    config = {"cniVersion": _CNI_VERSION, "name": row.name, "plugins": _chain(network, row, ipam)}
    metadata: Json = {"name": row.name, "namespace": network.namespace, "labels": _labels(network)}
    if resource and network.kind in ("hostdevice", "sriov"):
        # Multus tells the plugin which function the Pod was given of this resource
        metadata["annotations"] = {_RESOURCE: resource}
    return {
        "apiVersion": _NETWORK_VERSION,
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata,
        "spec": {"config": config_text(config)},
    }


_OPERATOR_KINDS = {"macvlan": "MacvlanNetwork", "ipoib": "IPoIBNetwork", "hostdevice": "HostDeviceNetwork"}


def _operator_network(network: Network, row: Attachment, ipam: Json, resource: t.Optional[str]) -> Json:
    """A resource of the Network Operator, which makes the definition of it. It is of the cluster, and takes no namespace."""
    spec: Json = {"networkNamespace": network.namespace}
    if ipam:
        spec["ipam"] = config_text(ipam)
    if network.kind == "hostdevice":
        # the operator puts its own prefix before it (pkg/state/state_hostdevice_network.go)
        spec["resourceName"] = str(resource).rpartition("/")[2]
    else:
        spec["master"] = row.master
    if network.kind == "macvlan":
        spec["mode"] = network.wish.get("mode") or defaults_of("rdma_networks", "mode")
        if network.wish.get("mtu"):
            spec["mtu"] = int(network.wish["mtu"])
    return {
        "apiVersion": POLICY_VERSION,
        "kind": _OPERATOR_KINDS[network.kind],
        "metadata": {"name": row.name, "labels": _labels(network)},
        "spec": spec,
    }


def _sriov_network(network: Network, row: Attachment, ipam: Json, resource: str, places: Places) -> Json:
    spec: Json = {
        "networkNamespace": network.namespace,
        "resourceName": resource.rpartition("/")[2],
    }
    if ipam:
        spec["ipam"] = config_text(ipam)
    if network.ipam_type == "static":
        spec["capabilities"] = config_text({"ips": True})
    if network.wish.get("isolate_rdma"):
        spec["metaPlugins"] = config_text({"type": "rdma"})
    if row.link == INFINIBAND:
        spec["linkState"] = "enable"
    else:
        if network.wish.get("vlan") is not None:
            spec["vlan"] = int(network.wish["vlan"])
        for key, field in (("trust", "trust"), ("spoofchk", "spoofChk")):
            if network.wish.get(key) is not None:
                spec[field] = "on" if network.wish[key] else "off"
    return {
        "apiVersion": _SRIOV,
        "kind": "SriovIBNetwork" if row.link == INFINIBAND else "SriovNetwork",
        "metadata": {"name": row.name, "namespace": places.sriov_operator, "labels": _labels(network)},
        "spec": spec,
    }


def spider_kind(network: Network, row: Attachment) -> str:
    """The CNI plugin that a network of Spiderpool is made by."""
    return str(network.wish.get("cni") or ("ipoib" if row.link == INFINIBAND else "macvlan"))


def _spider_config(network: Network, row: Attachment, pools: t.Sequence[Pool], resource: t.Optional[str]) -> Json:
    """A SpiderMultusConfig, of which Spiderpool makes the definition. rdmaResourceName stands below the kind since 1.0."""
    kind = spider_kind(network, row)
    own: Json = {"ippools": {f"ipv{pool.version}": [pool.name] for pool in pools}}
    if kind == "ipoib":
        own["master"] = row.master
    else:
        own["master"] = [row.master]
        if resource:
            own["rdmaResourceName"] = resource
        if network.wish.get("vlan") is not None:
            own["vlanID"] = int(network.wish["vlan"])
        if network.wish.get("mtu"):
            own["mtu"] = int(network.wish["mtu"])
    metadata: Json = {"name": row.name, "namespace": network.namespace, "labels": _labels(network)}
    if network.wish.get("inject"):
        metadata["annotations"] = {INJECT: network.name}
    return {
        "apiVersion": _SPIDERPOOL,
        "kind": "SpiderMultusConfig",
        "metadata": metadata,
        "spec": {"cniType": kind, kind: own},
    }


def network_wait(item: Json) -> t.Optional[Wait]:
    """What to wait for of an object; None where it has no state of its own."""
    if item["apiVersion"] != POLICY_VERSION:
        return None
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "namespace": None,
        "name": item["metadata"]["name"],
        "path": "status.state",
        "value": "ready",
    }

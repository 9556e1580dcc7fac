# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secondary networks by kind: what is asked for, what is refused, and that the real definitions take it."""

from __future__ import annotations

import copy
import ipaddress
import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import SPIDERPOOL_IMAGES, SRIOV_PLUGIN
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, DRA_LABEL, GROUP_LABEL
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems import addresses
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import node_addresses
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.secondary_network import request
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site, insist
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import (
    ADDRESSES,
    BROUGHT,
    IB,
    LAB,
    ONE,
    OPERATOR,
    ROCE,
    asked,
    config,
    infiniband,
    networked,
    networked_site,
    of_kind,
    roce,
    sane,
)

Json = dict[str, t.Any]
DEFINITIONS = {
    "NetworkAttachmentDefinition": "network-attachment-definitions.k8s.cni.cncf.io",
    "MacvlanNetwork": "macvlannetworks.mellanox.com",
    "IPoIBNetwork": "ipoibnetworks.mellanox.com",
    "HostDeviceNetwork": "hostdevicenetworks.mellanox.com",
    "IPPool": "ippools.nv-ipam.nvidia.com",
    "SpiderIPPool": "spiderippools.spiderpool.spidernet.io",
    "SpiderMultusConfig": "spidermultusconfigs.spiderpool.spidernet.io",
    "SriovNetwork": "sriovnetworks.sriovnetwork.openshift.io",
    "SriovIBNetwork": "sriovibnetworks.sriovnetwork.openshift.io",
    "SriovNetworkNodePolicy": "sriovnetworknodepolicies.sriovnetwork.openshift.io",
}
MACVLAN: Json = {"name": "fabric", "kind": "macvlan", "rails": True, "ipam": ADDRESSES}
IPOIB: Json = {"name": "ib", "kind": "ipoib", "ipam": ONE}
SPIDER: Json = {
    "name": "fabric",
    "kind": "spiderpool",
    "rails": True,
    "ipam": {"range": "10.20.0.0/16", "per_rail": 24},
}
INJECTED: Json = {"name": "fabric", "kind": "spiderpool", "inject": True, "ipam": {"range": "10.20.0.0/24"}}
HOSTDEV: Json = {"name": "dev", "kind": "hostdevice", "rails": True, "ipam": ADDRESSES}
SRIOV: Json = {"name": "vfs", "kind": "sriov", "rails": True, "sriov": {"vfs": 8}, "ipam": ADDRESSES}
NV_PREFIX: Json = {"rdma_resource": {"name": "shared_cx5", "prefix": "nvidia.com"}}
NO_SHARES: Json = {"rdma_resource": {"name": "shared_cx5", "hca_max": 0}}
STATIC: Json = {"type": "static", "range": "10.30.0.0/24"}


def one_problem(found: Request) -> str:
    assert len(found["problems"]) == 1, found["problems"]
    assert found["objects"] == []
    return found["problems"][0]


# --- all kinds ------------------------------------------------------------------------------------------------------------

ALL: dict[str, t.Callable[[], Request]] = {
    "macvlan on rails": lambda: roce(MACVLAN),
    "macvlan by the operator": lambda: roce({**MACVLAN, "operator": True, "mtu": 9000}, wish={"rollout": OPERATOR}),
    "macvlan on a netdev": lambda: roce({"name": "one", "kind": "macvlan", "master": "enp11s0f0np0", "ipam": ONE}),
    "macvlan with addresses of nv-ipam": lambda: roce(
        {**MACVLAN, "ipam": {**ADDRESSES, "type": "nv_ipam", "gateway": "first"}}
    ),
    "macvlan with addresses of Spiderpool": lambda: roce({**MACVLAN, "ipam": {**ADDRESSES, "type": "spiderpool"}}),
    "macvlan with static addresses": lambda: roce({**MACVLAN, "ipam": {**STATIC, "per_rail": 27}}),
    "macvlan without addresses": lambda: roce({**MACVLAN, "ipam": {"type": "none"}}),
    "macvlan with both families": lambda: roce(
        {
            **MACVLAN,
            "ipam": {**ADDRESSES, "range": ["10.20.0.0/16", "fd00:20::/48"], "per_rail": {"ipv4": 24, "ipv6": 64}},
        }
    ),
    "ipoib in two classes": lambda: infiniband(IPOIB),
    "ipoib by the operator": lambda: infiniband({**IPOIB, "operator": True}, wish={"rollout": OPERATOR}),
    "hostdevice by the operator": lambda: roce(
        {**HOSTDEV, "operator": True}, wishes=NV_PREFIX, wish={"rollout": {**OPERATOR, "sriov": ["roce"]}}
    ),
    "hostdevice with the plugin alone": lambda: roce(HOSTDEV, wishes=NO_SHARES),
    "hostdevice with a resource of others": lambda: roce({**HOSTDEV, "resource": "example.com/card{rail}"}),
    "sriov by policies": lambda: roce({**SRIOV, "vlan": 100, "trust": True, "spoofchk": False, "mtu": 9000}),
    "sriov by the operator": lambda: roce({**SRIOV, "operator": True, "vlan": 7, "trust": True, "spoofchk": False}),
    "sriov on InfiniBand": lambda: infiniband({"name": "vfs", "kind": "sriov", "sriov": {"vfs": 4}, "ipam": ONE}),
    "sriov on InfiniBand by the operator": lambda: infiniband(
        {"name": "vfs", "kind": "sriov", "sriov": {"vfs": 4}, "ipam": ONE, "operator": True}
    ),
    "sriov with static addresses by the operator": lambda: roce(
        {**SRIOV, "operator": True, "ipam": {**STATIC, "per_rail": 27}}
    ),
    "spiderpool on rails": lambda: roce({**SPIDER, "vlan": 100, "mtu": 9000, "inject": True}),
    "spiderpool on InfiniBand": lambda: infiniband(
        {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    ),
    "everything is installed": lambda: roce(
        {**SPIDER, "name": "spider"},
        {**MACVLAN, "ipam": {**ADDRESSES, "range": "10.21.0.0/16"}},
        wish={"multus": {"install": True}, "whereabouts": {"install": True}, "spiderpool": {"install": True}},
    ),
}


@pytest.mark.parametrize("name", list(ALL))
def test_the_real_definitions_take_every_object(name: str) -> None:
    found = sane(ALL[name]())
    custom = [item for item in found["objects"] if item["kind"] in DEFINITIONS]
    assert custom
    for item in custom:
        insist(item, DEFINITIONS[item["kind"]])


@pytest.mark.parametrize("name", list(ALL))
def test_every_object_of_a_group_says_whose_it_is(name: str) -> None:
    """A run that did not plan the group leaves it alone."""
    for item in sane(ALL[name]())["objects"]:
        if item["kind"] in DEFINITIONS:
            assert item["metadata"]["labels"][GROUP_LABEL] in ("roce", "ib")


@pytest.mark.parametrize("name", list(ALL))
def test_a_workload_names_what_is_there_and_asks_for_a_resource(name: str) -> None:
    found = sane(ALL[name]())
    made = {
        (item["spec"].get("networkNamespace") or item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in found["objects"]
        if item["kind"].endswith(("Network", "NetworkAttachmentDefinition", "SpiderMultusConfig"))
    }
    named: set[tuple[str, str]] = set()
    assert found["workloads"]
    for pods in found["workloads"].values():
        for pod in pods:
            text = pod["metadata"]["annotations"].get("k8s.v1.cni.cncf.io/networks")
            if text is None:
                assert pod["metadata"]["annotations"] == {"cni.spidernet.io/rdma-resource-inject": "fabric"}
                continue
            rows = json.loads(text) if text.startswith("[") else None
            named |= (
                {(row["namespace"], row["name"]) for row in rows}
                if rows
                else {tuple(each.split("/", 1)) for each in text.split(", ")}  # type: ignore[misc]
            )
            (container,) = pod["spec"]["containers"]
            assert container["resources"]["limits"]
            assert set(container["resources"]["limits"].values()) == {1}
            assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert named == made


@pytest.mark.parametrize("name", list(ALL))
def test_every_image_of_an_object_is_listed(name: str) -> None:
    found = sane(ALL[name]())
    used = {
        container["image"]
        for item in found["objects"]
        if item["kind"] in ("DaemonSet", "Deployment")
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert used <= set(found["images"])
    assert set(found["images"]) - used == (set(SPIDERPOOL_IMAGES) if found["charts"] else set())


@pytest.mark.parametrize("name", list(ALL))
def test_the_summary_and_the_second_answer_are_the_same(name: str) -> None:
    found = ALL[name]()
    assert found == ALL[name]()
    assert found["summary"]
    json.dumps(found)


# --- macvlan and rails ----------------------------------------------------------------------------------------------------


def test_each_rail_has_a_network_on_its_netdev_with_addresses_of_its_own() -> None:
    found = sane(roce({**MACVLAN, "mtu": 9000}))
    rows = of_kind(found, "NetworkAttachmentDefinition")
    assert [item["metadata"]["name"] for item in rows] == [f"fabric-rail{number}" for number in range(1, 9)]
    plugins = [config(item)["plugins"][0] for item in rows]
    assert [plugin["master"] for plugin in plugins] == [f"enp{number}s0f0np0" for number in range(11, 19)]
    assert [plugin["ipam"]["range"] for plugin in plugins] == [f"10.20.{number}.0/24" for number in range(8)]
    assert {(plugin["type"], plugin["mode"], plugin["mtu"]) for plugin in plugins} == {("macvlan", "bridge", 9000)}


def test_a_pod_on_all_rails_asks_for_the_resource_of_each() -> None:
    ((pod,),) = list(sane(roce(MACVLAN))["workloads"].values())
    assert list(pod["spec"]["containers"][0]["resources"]["limits"]) == [f"rdma/shared_cx5_gpu{n}" for n in range(1, 9)]
    networks = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks.split(", ") == [f"default/fabric-rail{number}" for number in range(1, 9)]


def test_a_network_on_the_netdev_of_one_rail_asks_for_the_resource_of_this_rail() -> None:
    found = sane(ALL["macvlan on a netdev"]())
    ((pod,),) = list(found["workloads"].values())
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"rdma/shared_cx5_gpu1": 1}


def test_netdevs_of_rails_may_be_named() -> None:
    masters = {number: f"eth{number}.100" for number in range(1, 9)}
    found = sane(roce({**MACVLAN, "master": masters}))
    rows = of_kind(found, "NetworkAttachmentDefinition")
    assert [config(item)["plugins"][0]["master"] for item in rows] == list(masters.values())
    assert any(
        "eth1.100 is not among the netdevs of RDMA ports of host roce-rails-1" in text for text in found["warnings"]
    )


def test_hosts_of_a_class_with_the_same_port_share_a_network_and_classes_have_their_own() -> None:
    found = sane(infiniband(IPOIB))
    masters = {
        item["metadata"]["name"]: config(item)["plugins"][0] for item in of_kind(found, "NetworkAttachmentDefinition")
    }
    assert {name: plugin["master"] for name, plugin in masters.items()} == {
        "ib-ib-ibp161s0": "ibp161s0",
        "ib-ib-ibp33s0": "ibp33s0",
    }
    # one fabric, one pool: Whereabouts tells Pods of both apart
    assert {plugin["ipam"]["range"] for plugin in masters.values()} == {"10.20.0.0/24"}
    (pods,) = list(found["workloads"].values())
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [{CLASS_LABEL: "ib-ibp161s0"}, {CLASS_LABEL: "ib-ibp33s0"}]
    assert any("its classes have different netdevs (ibp161s0, ibp33s0)" in text for text in found["warnings"])


# --- what cannot be -------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[t.Callable[[], Request], str]] = {
    "macvlan on an InfiniBand netdev": (
        lambda: infiniband({"name": "ib", "kind": "macvlan", "ipam": ONE}),
        "macvlan cannot hang on ibp161s0, which is an InfiniBand netdev: the kernel makes macvlan on Ethernet only, since an InfiniBand "
        "port has one hardware address for each queue pair. Take kind: ipoib",
    ),
    "macvlan of Spiderpool on an InfiniBand netdev": (
        lambda: infiniband({"name": "ib", "kind": "spiderpool", "cni": "macvlan", "ipam": {"range": "10.20.0.0/24"}}),
        "Take cni: ipoib",
    ),
    "a VLAN of Spiderpool on an InfiniBand netdev": (
        lambda: infiniband({"name": "ib", "kind": "spiderpool", "vlan": 100, "ipam": {"range": "10.20.0.0/24"}}),
        "network ib: vlan: InfiniBand has partitions in place of VLANs",
    ),
    "an MTU of Spiderpool on an InfiniBand netdev": (
        lambda: infiniband(
            {"name": "ib", "kind": "spiderpool", "cni": "ipoib", "mtu": 4092, "ipam": {"range": "10.20.0.0/24"}}
        ),
        "network ib: mtu: the IPoIB CNI plugin takes the MTU of its master",
    ),
    "injection into Pods of classes with different netdevs": (
        lambda: infiniband({**INJECTED, "name": "ib"}),
        "its classes have different netdevs (ibp161s0, ibp33s0), and with inject Spiderpool's webhook gives a Pod the networks of all",
    ),
    "two networks of one annotation": (
        lambda: roce(
            {**SPIDER, "inject": True},
            {**SPIDER, "inject": True, "namespace": "jobs", "ipam": {**SPIDER["ipam"], "range": "10.30.0.0/16"}},
        ),
        "both make the annotation of Pods cni.spidernet.io/rdma-resource-inject: fabric: give them names of their own",
    ),
    "one netdev for all rails": (
        lambda: roce({**MACVLAN, "master": "enp11s0f0np0"}),
        "rails 1, 2, 3, 4, 5, 6, 7, 8 all hang on enp11s0f0np0, and the devices of but one of them are there",
    ),
    "one netdev for two rails": (
        lambda: roce({**MACVLAN, "master": {**{rail: f"eth{rail}" for rail in range(1, 8)}, 8: "eth7"}}),
        "rails 7, 8 all hang on eth7",
    ),
    "netdevs of rails without rails": (
        lambda: roce({"name": "one", "kind": "macvlan", "master": {1: "eth1"}, "ipam": ONE}),
        "master names netdevs of rails, and the network has none: set rails: true, or name one netdev",
    ),
    "ipoib on an Ethernet netdev": (
        lambda: roce({"name": "ib", "kind": "ipoib", "rails": True, "ipam": ADDRESSES}),
        "ipoib cannot hang on enp11s0f0np0, which is an Ethernet netdev. Take kind: macvlan",
    ),
    "rails without rails": (
        lambda: infiniband({**IPOIB, "rails": True}),
        "the group is planned without rails: set rdma_rails of the group",
    ),
    "no rails with rails": (
        lambda: roce({"name": "one", "kind": "macvlan", "ipam": ONE}),
        "a network hangs on one: name it with master; rails: true makes a network for each rail",
    ),
    "functions of no rail with rails": (
        lambda: roce({"name": "one", "kind": "hostdevice", "ipam": ONE}, wishes=NO_SHARES),
        "the group has a resource for each rail (rdma/shared_cx5_gpu1, rdma/shared_cx5_gpu2, rdma/shared_cx5_gpu3 and 5 more), and a network "
        "takes functions of one: rails: true makes a network for each rail",
    ),
    "functions of no rail with rails, by the operator": (
        lambda: roce({"name": "one", "kind": "sriov", "ipam": ONE}, wish={"rollout": {**OPERATOR, "sriov": ["roce"]}}),
        "rails: true makes a network for each rail; or name one with resource",
    ),
    "a rail without a netdev": (
        lambda: roce({**MACVLAN, "master": {1: "eth1"}}),
        "master names no netdev for rail 2",
    ),
    "an MTU that is more than the port's": (
        lambda: roce({**MACVLAN, "mtu": 9216}),
        "mtu 9216 is more than that of enp11s0f0np0 on host roce-rails-1 (9000): raise it there, or lower mtu",
    ),
    "a VLAN of macvlan": (
        lambda: roce({**MACVLAN, "vlan": 5}),
        "macvlan makes no VLAN: make a netdev of the VLAN on the hosts",
    ),
    "a VLAN of InfiniBand": (lambda: infiniband({**IPOIB, "vlan": 5}), "InfiniBand has partitions in place of VLANs"),
    "a VLAN of virtual functions on InfiniBand": (
        lambda: infiniband({"name": "v", "kind": "sriov", "sriov": {"vfs": 2}, "vlan": 5, "ipam": ONE}),
        "vlan is of Ethernet, and the ports of the group are InfiniBand",
    ),
    "a key of another kind": (
        lambda: roce({**MACVLAN, "trust": True}),
        "trust: kind macvlan does not read it: leave it out",
    ),
    "passthru for several Pods": (
        lambda: roce({**MACVLAN, "mode": "passthru"}),
        "mode passthru gives the netdev to one Pod, and ipam.pods_per_node is 8",
    ),
    "operator without the operator": (
        lambda: roce({**MACVLAN, "operator": True}),
        "rdma_rollout.engine is daemonset: set it to network_operator, or leave operator out",
    ),
    "static addresses by the operator": (
        lambda: roce({**MACVLAN, "operator": True, "ipam": {**STATIC, "per_rail": 27}}, wish={"rollout": OPERATOR}),
        "have no field for the capability ips",
    ),
    "hostdevice beside shares": (
        lambda: roce(HOSTDEV),
        "the shared device plugin offers the functions of the group to 63 Pods at once, and kind hostdevice takes them into one: set "
        "rdma_resource.hca_max of the group to 0",
    ),
    "macvlan without shares": (lambda: roce(MACVLAN, wishes=NO_SHARES), "rdma_resource.hca_max of the group is 0"),
    "hostdevice of a group with the shared plugin of the operator": (
        lambda: roce(HOSTDEV, wish={"rollout": OPERATOR}),
        "put roce into rdma_rollout.sriov",
    ),
    "a resource of the shared plugin": (
        lambda: roce({**HOSTDEV, "rails": False, "resource": "rdma/shared_cx5_gpu1", "ipam": ONE}),
        "rdma/shared_cx5_gpu1 is the resource of the shared device plugin, which gives a Pod no function for itself",
    ),
    "one resource for all rails": (
        lambda: roce({**HOSTDEV, "resource": "example.com/card"}),
        "each rail has a resource of its own: write {rail} into resource",
    ),
    "another prefix than the operator's": (
        lambda: roce(
            {**HOSTDEV, "rails": True, "operator": True},
            wish={"rollout": {**OPERATOR, "sriov": ["roce"]}},
        ),
        "a HostDeviceNetwork always asks for nvidia.com/shared_cx5_gpu1, and the group has rdma/shared_cx5_gpu1",
    ),
    "virtual functions that cards cannot have": (
        lambda: infiniband(
            {"name": "v", "kind": "sriov", "sriov": {"vfs": 99}, "ipam": {**ONE, "range": "10.20.0.0/16"}}
        ),
        "sriov.vfs is 99, and mlx5_1 of host ib-a100-1 can have 8",
    ),
    "virtual functions of a number that nobody says": (
        lambda: roce({**SRIOV, "sriov": {"prefix": "example.com"}}),
        "sriov.vfs says how many virtual functions each port is to have",
    ),
    "RDMA isolation in shared mode": (
        lambda: infiniband({"name": "v", "kind": "sriov", "sriov": {"vfs": 2}, "isolate_rdma": True, "ipam": ONE}),
        "isolate_rdma needs exclusive RDMA network namespaces, and they are shared on ib-a100-1, ib-a100-2, ib-a100-3",
    ),
    "Spiderpool with the addresses of others": (
        lambda: roce({**SPIDER, "ipam": ADDRESSES}),
        "kind spiderpool has its addresses of Spiderpool",
    ),
    "two networks of one name": (
        lambda: asked(
            BROUGHT,
            a_site(
                {
                    "roce": networked(ROCE, MACVLAN),
                    "ib": networked(
                        IB, {**IPOIB, "name": "fabric-rail1", "master": "ib0", "ipam": {**ONE, "range": "10.99.0.0/24"}}
                    ),
                }
            ),
        ),
        "both make the network default/fabric-rail1: give them names of their own",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_be_is_refused_with_the_reason(name: str) -> None:
    make, message = REFUSED[name]
    found = make()
    assert any(message in text for text in found["problems"]), found["problems"]
    assert found["objects"] == []


def test_exclusive_rdma_namespaces_and_the_shared_plugin_are_refused_together() -> None:
    site = a_site({"roce": networked(ROCE, MACVLAN)})
    site["facts"]["roce-rails-2"]["kernel"]["rdma_netns"] = "exclusive"
    text = one_problem(asked(BROUGHT, site))
    assert (
        "RDMA network namespaces are exclusive on roce-rails-2, where the shared device plugin of its resource ends at once"
        in text
    )
    assert "rdma system set netns shared" in text


@pytest.mark.parametrize(
    "network",
    [MACVLAN, HOSTDEV, SRIOV, {"name": "one", "kind": "macvlan", "master": "eth1"}],
    ids=["macvlan", "hostdevice", "sriov", "one"],
)
def test_a_pod_answers_for_an_address_on_its_own_network_only(network: Json) -> None:
    """Linux answers on each netdev for all addresses, if nothing is said: a rail would reach the other end's address of another one."""
    for item in of_kind(roce(network), "NetworkAttachmentDefinition"):
        (tuning,) = [plugin for plugin in config(item)["plugins"] if plugin["type"] == "tuning"]
        assert tuning["sysctl"] == {
            "net.ipv4.conf.IFNAME.arp_announce": "2",
            "net.ipv4.conf.IFNAME.arp_ignore": "1",
            "net.ipv4.conf.IFNAME.rp_filter": "2",
        }


def test_isolation_chains_the_rdma_plugin_where_namespaces_are_exclusive() -> None:
    wish = {**SRIOV, "isolate_rdma": True}
    site = a_site({"roce": networked(ROCE, wish)})
    for facts in site["facts"].values():
        facts["kernel"]["rdma_netns"] = "exclusive"
        for device in facts["devices"]:
            device["sriov"]["total"] = 16
    found = sane(asked(BROUGHT, site))
    for item in of_kind(found, "NetworkAttachmentDefinition"):
        assert [plugin["type"] for plugin in config(item)["plugins"]] == ["sriov", "tuning", "rdma"]


def test_a_member_of_a_bond_or_bridge_is_refused() -> None:
    site = a_site({"roce": networked(ROCE, MACVLAN)})
    site["facts"]["roce-rails-1"]["devices"][0]["ports"][0]["netdevs"][0]["master"] = "br0"
    assert "enp11s0f0np0 of host roce-rails-1 is a member of br0, which takes all its frames" in one_problem(
        asked(BROUGHT, site)
    )


def test_all_problems_are_reported_at_once() -> None:
    bad = {**MACVLAN, "vlan": 5, "mtu": 9216, "operator": True, "ipam": {**ADDRESSES, "per_rail": 31, "exclude": ["x"]}}
    texts = roce(bad, {**HOSTDEV, "ipam": {"type": "whereabouts"}})["problems"]
    for words in (
        "makes no VLAN",
        "mtu 9216",
        "rdma_rollout.engine is daemonset",
        "per_rail /31",
        "'x' is not an IP address",
        "to 63 Pods",
    ):
        assert any(words in text for text in texts), words
    assert any("needs ipam.range" in text for text in texts)


def test_a_group_that_is_not_planned_keeps_its_networks() -> None:
    site = a_site(
        {"roce": networked(ROCE, MACVLAN), "ib": networked(IB, {**IPOIB, "ipam": {**ONE, "range": "10.99.0.0/24"}})}
    )
    site["plan"]["groups"]["roce"].update(planned=False, errors=["no reason at all"], classes=[])
    found = sane(asked(BROUGHT, site))
    assert {item["metadata"]["labels"][GROUP_LABEL] for item in found["objects"]} == {"ib"}
    assert any(
        "group roce: network fabric stays as it is" in text and "no reason at all" in text for text in found["warnings"]
    )


def test_a_group_without_networks_asks_for_nothing() -> None:
    found = asked({}, a_site({"roce": ROCE}))
    assert (found["objects"], found["charts"], found["problems"], found["warnings"]) == ([], [], [], [])


def test_software_devices_without_a_plugin_are_warned_of() -> None:
    found = sane(asked(BROUGHT, a_site({"lab": networked(LAB, {"name": "lab", "kind": "macvlan", "ipam": ONE})})))
    assert any("no device plugin serves class" in text for text in found["warnings"])
    assert config(found["objects"][0])["plugins"][0]["master"] == "eth1"


def test_a_missing_netaddr_is_a_problem_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "HAS_NETADDR", False)
    assert "netaddr is not installed" in one_problem(roce(MACVLAN))


def test_a_resource_that_no_kubelet_takes_is_refused() -> None:
    """The name of the group's own may be as long, and gets a word behind it."""
    own = {**NO_SHARES, "rdma_resource": {**NO_SHARES["rdma_resource"], "name": "x" * 55}}
    found = roce(HOSTDEV, wishes=own)
    assert found["problems"]
    assert all("would be longer than the 63 characters" in text for text in found["problems"])


@pytest.mark.parametrize("engine", ["daemonset", "dra"])
def test_functions_that_dranet_gives_to_one_pod_are_for_no_network(engine: str) -> None:
    wish = {"rollout": {"engine": engine}}
    beside = {"name": "one", "kind": "macvlan", "master": "eth9", "ipam": ONE}
    offered = {**HOSTDEV, "resource": "example.com/cards{rail}"}
    for network, own in ((MACVLAN, True), (HOSTDEV, True), (offered, False), (beside, False)):
        found = roce(network, wishes=NO_SHARES, wish=wish)
        told = [text for text in found["problems"] if "DRANET serves roce-" in text]
        assert bool(told) is (own and engine == "dra")


def label_keys(item: Json) -> set[str]:
    """Keys of labels by which something selects nodes."""
    spec = item["spec"]
    if item["kind"] == "IPPool":
        (term,) = spec["nodeSelector"]["nodeSelectorTerms"]
    else:
        term = spec.get("nodeAffinity") or {"matchExpressions": [{"key": key} for key in spec["nodeSelector"]]}
    return {row["key"] for row in term["matchExpressions"]}


@pytest.mark.parametrize(("engine", "label"), [("daemonset", CLASS_LABEL), ("dra", DRA_LABEL)])
def test_networks_beside_those_of_dranet_are_for_its_nodes(engine: str, label: str) -> None:
    """They have no other label."""
    beside = {"name": "one", "kind": "macvlan", "master": "eth9"}
    spider = {**beside, "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    found = [
        sane(roce({**beside, "ipam": {**ONE, "type": "nv_ipam"}}, wish={"rollout": {"engine": engine}})),
        sane(roce(spider, wish={"rollout": {"engine": engine}})),
        sane(roce(SRIOV, wishes=NO_SHARES, wish={"rollout": {"engine": engine}})),
    ]
    kinds = ("IPPool", "SpiderIPPool", "SriovNetworkNodePolicy")
    selecting = [item for each, kind in zip(found, kinds, strict=True) for item in of_kind(each, kind)]
    assert {item["kind"] for item in selecting} == set(kinds)
    assert [label_keys(item) for item in selecting] == [{label}] * len(selecting)


def test_a_pool_is_for_nodes_of_dranet_and_for_others() -> None:
    """A node has one of the labels, and Spiderpool selects nodes by one."""
    wish = {"rollout": {"engine": "dra", "classes": {"names": ["ib-ibp33s0"]}}}
    network = {"name": "dev", "kind": "hostdevice", "resource": "example.com/cards"}
    found = sane(infiniband({**network, "ipam": {**ONE, "type": "nv_ipam"}}, wish=wish))
    (pool,) = of_kind(found, "IPPool")
    terms = pool["spec"]["nodeSelector"]["nodeSelectorTerms"]
    assert [(row["key"], row["values"]) for term in terms for row in term["matchExpressions"]] == [
        (CLASS_LABEL, ["ib-ibp161s0"]),
        (DRA_LABEL, ["ib-ibp33s0"]),
    ]
    told = one_problem(infiniband({**network, "ipam": {**ONE, "type": "spiderpool"}}, wish=wish))
    assert "name all classes of the group in rdma_rollout.classes, or none" in told


# --- who offers functions -------------------------------------------------------------------------------------------------


def test_the_plugin_alone_offers_the_plan_under_names_of_its_own() -> None:
    found = sane(roce(HOSTDEV, wishes=NO_SHARES, registry="mirror.example.com/all", pull_secrets=["pull"]))
    (item,) = of_kind(found, "ConfigMap")
    rows = json.loads(item["data"]["config.json"])["resourceList"]
    site = a_site({"roce": networked(ROCE, HOSTDEV, **NO_SHARES)})
    (entry,) = site["plan"]["groups"]["roce"]["classes"]
    planned = (entry["sriov"]["config"] or {})["resourceList"]
    assert [row["selectors"] for row in rows] == [row["selectors"] for row in planned]
    assert [row["resourceName"] for row in rows] == [row["resourceName"] + "_hostdev" for row in planned]
    asked_for = [
        row["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"]
        for row in of_kind(found, "NetworkAttachmentDefinition")
    ]
    assert asked_for == [f"{row['resourcePrefix']}/{row['resourceName']}" for row in rows]
    (daemon,) = of_kind(found, "DaemonSet")
    pod = daemon["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "mirror.example.com/all/" + SRIOV_PLUGIN.partition("/")[2]
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["nodeSelector"][CLASS_LABEL].startswith("roce-rails-")


@pytest.mark.parametrize("rows", [[], [{"key": "nvidia.com/gpu", "operator": "Exists"}]])
def test_what_is_installed_tolerates_what_is_wished_for(rows: list[Json]) -> None:
    """Also nothing: none of it is on a tainted node then."""
    given = {"install": True, "tolerations": rows, "resources": {}}
    found = sane(
        roce(
            HOSTDEV,
            wishes=NO_SHARES,
            wish={"multus": given, "whereabouts": given, "rollout": {"tolerations": rows, "resources": {}}},
        )
    )
    pods = [
        item["spec"]["template"]["spec"] for item in found["objects"] if item["kind"] in ("DaemonSet", "Deployment")
    ]
    assert [pod["tolerations"] for pod in pods] == [rows] * 4
    assert [pod["containers"][0]["resources"] for pod in pods].count({}) == 3


def test_two_networks_of_a_group_share_one_plugin() -> None:
    other = {**HOSTDEV, "name": "other", "ipam": {**ADDRESSES, "range": "10.21.0.0/16"}}
    assert len(of_kind(sane(roce(HOSTDEV, other, wishes=NO_SHARES)), "DaemonSet")) == 1


def test_policies_name_the_functions_of_the_plan_and_the_nodes_of_its_classes() -> None:
    found = sane(roce(SRIOV))
    rows = of_kind(found, "SriovNetworkNodePolicy")
    assert [row["spec"]["nicSelector"]["rootDevices"] for row in rows] == [
        [f"0000:{bus:02x}:00.0"] for bus in range(0x0B, 0x13)
    ]
    assert {(row["spec"]["numVfs"], row["spec"]["linkType"], row["spec"]["isRdma"]) for row in rows} == {
        (8, "eth", True)
    }
    assert {row["metadata"]["namespace"] for row in rows} == {"sriov-network-operator"}
    resources = [
        row["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"]
        for row in of_kind(found, "NetworkAttachmentDefinition")
    ]
    assert resources == [f"openshift.io/{row['spec']['resourceName']}" for row in rows]
    assert any("drains nodes one after the other, and may reboot them" in text for text in found["warnings"])


def test_policies_of_the_network_operator_have_its_prefix_and_namespace() -> None:
    found = sane(roce({**SRIOV, "operator": True}, wish={"rollout": OPERATOR}))
    assert {item["metadata"]["namespace"] for item in found["objects"]} == {"nvidia-network-operator"}
    ((pod,),) = list(found["workloads"].values())
    assert "nvidia.com/vfs_rail1" in pod["spec"]["containers"][0]["resources"]["limits"]


def test_two_networks_make_no_functions_of_the_same_ports() -> None:
    """Of two policies with the same functions, the SR-IOV operator drops one, and nobody offers its resource."""
    vlan = {**SRIOV, "name": "storage", "vlan": 200, "ipam": {**ADDRESSES, "range": "10.30.0.0/16"}}
    text = one_problem(roce(SRIOV, vlan))
    assert text.startswith("group roce: network storage: network vfs has sriov.vfs for the same ports")
    assert "with resource (openshift.io/vfs_rail1, " in text
    del vlan["sriov"]
    found = sane(roce(SRIOV, {**vlan, "resource": "openshift.io/vfs_rail{rail}"}))
    assert len(of_kind(found, "SriovNetworkNodePolicy")) == 8
    assert len(of_kind(found, "NetworkAttachmentDefinition")) == 16


def test_a_policy_that_would_take_another_card_of_a_neighbour_is_refused() -> None:
    site = a_site({"ib": networked(IB, {"name": "v", "kind": "sriov", "sriov": {"vfs": 4}, "ipam": ONE})})
    entry = next(row for row in site["plan"]["groups"]["ib"]["classes"] if len(row["hosts"]) == 2)
    host = entry["hosts"][0]
    entry["matches"][host] = [{**entry["matches"][host][0], "pci": "0000:21:00.0"}]
    assert any("one policy cannot tell them apart" in text for text in asked(BROUGHT, site)["problems"])


# --- addresses ------------------------------------------------------------------------------------------------------------

BAD_ADDRESSES: dict[str, tuple[Json, str]] = {
    "static addresses that are all excluded": (
        {"type": "static", "range": "10.30.0.0/24", "per_rail": 30, "exclude": ["10.30.0.0/25"]},
        "pool fabric-rail1 (10.30.0.0/30) has no address for a Pod",
    ),
    "no range": ({"range": None}, "ipam.type whereabouts needs ipam.range, such as 198.51.100.0/24"),
    "no prefix length": ({"range": "10.20.0.0"}, "ipam.range: 10.20.0.0 has no prefix length"),
    "no address": ({"range": "fabric"}, "ipam.range: fabric has no prefix length"),
    "two of one family": ({"range": ["10.20.0.0/16", "10.21.0.0/16"]}, "ipam.range has two ranges of one family"),
    "rails that share": ({"per_rail": None}, "rails need addresses that are disjoint: ipam.per_rail says"),
    "one length for two families": (
        {"range": ["10.20.0.0/16", "fd00::/48"], "per_rail": {"ipv4": 24}},
        "which prefix length each gets of fd00::/48",
    ),
    "too few networks": ({"range": "10.20.0.0/22"}, "10.20.0.0/22 holds 4 networks of /24, and rail 5 needs one more"),
    "too few addresses": (
        {"per_rail": 28},
        "pool fabric-rail1 (10.20.0.0/28) has 14 addresses for Pods, and 2 nodes with 8 Pods each need 16",
    ),
    "too few addresses by exclusion": ({"exclude": ["10.20.3.0-10.20.3.240"]}, "has 14 addresses for Pods"),
    "too few addresses for many Pods": ({"pods_per_node": 128}, "and 2 nodes with 128 Pods each need 256"),
    "a malformed exclusion": (
        {"exclude": ["10.20.0.9-10.20.0.1"]},
        "ipam.exclude: 10.20.0.9-10.20.0.1 ends before it begins",
    ),
    "a gateway outside": ({"gateway": "10.20.0.1"}, "each rail has a network of its own, so write first or last"),
    "a malformed gateway": ({"gateway": "router"}, "'router' is not an IP address"),
    "a gateway of another family": ({"gateway": ["first", "fd00::1"]}, "fd00::1 is of IPv6, and no range is"),
    "two gateways": ({"gateway": ["first", "last"]}, "has two gateways for"),
    "a route without a gateway": ({"routes": ["10.0.0.0/8"]}, "goes through a gateway of IPv4, and there is none"),
    "a default route": ({"gateway": "first", "routes": ["0.0.0.0/0"]}, "would take the default route of every Pod"),
    "a default route in two halves": (
        {"gateway": "first", "routes": ["0.0.0.0/1", "128.0.0.0/1"]},
        "0.0.0.0/1, 128.0.0.0/1 would take the default route of every Pod",
    ),
    "a malformed route": (
        {"gateway": "first", "routes": ["10.0.0.0/8/8"]},
        "ipam.routes: '/8/8' is not a prefix length",
    ),
    "a range twice for a rail": (
        {
            "range": None,
            "per_rail": None,
            "ranges": {**{rail: f"10.{rail}.0.0/24" for rail in range(1, 9)}, "1": "10.9.0.0/24"},
        },
        "ipam.ranges has two ranges for rail 1, as a number and as text: keep one",
    ),
    "ranges of some rails": (
        {"range": None, "per_rail": None, "ranges": {1: "10.20.0.0/24"}},
        "ipam.ranges has no range for rail 2",
    ),
    "ranges and a range": ({"ranges": {1: "10.20.0.0/24"}}, "leave range and per_rail out"),
    "ranges that overlap": (
        {"range": None, "per_rail": None, "ranges": dict.fromkeys(range(1, 9), "10.20.0.0/24")},
        "both have 10.20.0.1 to 10.20.0.254: give them ranges of their own",
    ),
    "host-local on two nodes": (
        {"type": "host_local"},
        "host-local counts on each node by itself, so that Pods of two nodes (roce-rails-1, roce-rails-2) get the same addresses",
    ),
    "addresses of nodes": (
        {"range": "198.51.96.0/20", "per_rail": 24},
        "has addresses that nodes have: 198.51.100.11 (enp11s0f0np0 of host roce-rails-1)",
    ),
    "blocks that are too few": (
        {"type": "nv_ipam", "per_rail": 28, "block_size": 8},
        "pool fabric-rail1 (10.20.0.0/28) has 1 blocks of 8 addresses, and there are 2 nodes",
    ),
    "a block that is too small": (
        {"type": "nv_ipam", "block_size": 4},
        "which a node gets as a whole, has 4 addresses for 8 Pods",
    ),
    "a block with a hole": (
        {"type": "nv_ipam", "exclude": ["10.20.0.10"]},
        "the block 10.20.0.9 to 10.20.0.16, which a node gets as a whole, has 7 addresses for 8 Pods",
    ),
    "ipam that nobody reads": ({"type": "none"}, "ipam.type is none, which reads no per_rail, range"),
    "loopback": ({"range": "127.0.0.0/16"}, "has loopback addresses (127.0.0.0/8), which Pods cannot have"),
}


@pytest.mark.parametrize("name", list(BAD_ADDRESSES))
def test_bad_addresses_are_refused_with_the_reason(name: str) -> None:
    change, message = BAD_ADDRESSES[name]
    ipam = {key: value for key, value in {**ADDRESSES, **change}.items() if value is not None}
    found = roce({**MACVLAN, "ipam": ipam})
    assert any(message in text for text in found["problems"]), found["problems"]
    assert all(text.startswith("group roce: network fabric") for text in found["problems"])
    assert found["objects"] == []


# By kind, with who gives addresses: a network, the site and the wishes that it is right with.
ADDRESSED: dict[str, tuple[Json, t.Callable[..., Request], Json]] = {
    "macvlan": (MACVLAN, roce, {}),
    "macvlan by the operator": ({**MACVLAN, "operator": True}, roce, {"wish": {"rollout": OPERATOR}}),
    "macvlan with nv-ipam": ({**MACVLAN, "ipam": {**ADDRESSES, "type": "nv_ipam"}}, roce, {}),
    "macvlan with Spiderpool": ({**MACVLAN, "ipam": {**ADDRESSES, "type": "spiderpool"}}, roce, {}),
    "macvlan with static addresses": (
        {**MACVLAN, "ipam": {**STATIC, "range": "10.20.0.0/16", "per_rail": 24}},
        roce,
        {},
    ),
    "ipoib": (IPOIB, infiniband, {}),
    "ipoib by the operator": ({**IPOIB, "operator": True}, infiniband, {"wish": {"rollout": OPERATOR}}),
    "hostdevice": (HOSTDEV, roce, {"wishes": NO_SHARES}),
    "hostdevice by the operator": (
        {**HOSTDEV, "operator": True},
        roce,
        {"wishes": NV_PREFIX, "wish": {"rollout": {**OPERATOR, "sriov": ["roce"]}}},
    ),
    "sriov": (SRIOV, roce, {}),
    "sriov by the operator": ({**SRIOV, "operator": True}, roce, {}),
    "sriov on InfiniBand": ({"name": "vfs", "kind": "sriov", "sriov": {"vfs": 4}, "ipam": ONE}, infiniband, {}),
    "spiderpool": (SPIDER, roce, {}),
    "spiderpool on InfiniBand": (
        {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}},
        infiniband,
        {},
    ),
}
BAD_FOR_ALL: dict[str, tuple[Json, str]] = {
    "no prefix length": ({"range": "10.20.0.0"}, "ipam.range: 10.20.0.0 has no prefix length"),
    "no address": ({"range": "fabric/24"}, "ipam.range: "),
    "five parts": ({"range": "10.20.0.0.0/16"}, "ipam.range: "),
    "a part that is too large": ({"range": "10.20.0.256/16"}, "ipam.range: "),
    "a prefix that is too long": ({"range": "10.20.0.0/33"}, "ipam.range: "),
    "a span that ends before it begins": ({"range": "10.20.0.9-10.20.0.1/16"}, "ends before it begins"),
    "loopback": ({"range": "127.0.0.0/16"}, "has loopback addresses"),
    "multicast": ({"range": "239.0.0.0/16"}, "has multicast addresses"),
    "link-local": ({"range": "fe80::/64"}, "link-local addresses"),
    "a malformed exclusion": ({"exclude": ["10.20.0.x"]}, "ipam.exclude: "),
    "a malformed route": ({"gateway": "first", "routes": ["10.0.0.0/99"]}, "ipam.routes: "),
    "a route to Pods": ({"gateway": "first", "routes": ["10.240.0.0/12"]}, "10.244.0.0/16"),
    "a malformed gateway": ({"gateway": "router"}, "'router' is not an IP address"),
    "of Pods": ({"range": "10.244.0.0/16"}, "10.244.0.0/16"),
    "of Services": ({"range": "10.96.0.0/16"}, "10.96.0.0/12"),
}


@pytest.mark.parametrize("bad", BAD_FOR_ALL)
@pytest.mark.parametrize("kind", ADDRESSED)
def test_addresses_that_no_network_can_have_are_refused_for_each_kind(kind: str, bad: str) -> None:
    network, site, more = ADDRESSED[kind]
    change, message = BAD_FOR_ALL[bad]
    cidrs = {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"], "nodes": []}
    assert site(network, cidrs=cidrs, **more)["problems"] == []
    found = site({**network, "ipam": {**network["ipam"], **change}}, cidrs=cidrs, **more)
    assert any(message in text for text in found["problems"]), found["problems"]
    assert all(f"network {network['name']}" in text for text in found["problems"])
    assert found["objects"] == []


@pytest.mark.parametrize(
    ("ipam", "message"),
    [
        ({"per_rail": 26}, "ipam.per_rail divides a range among rails, and the network has none"),
        (
            {"range": None, "ranges": {1: "10.20.0.0/24"}},
            "ipam.ranges are those of rails, by number, and the network has none",
        ),
    ],
)
def test_addresses_of_rails_are_refused_without_rails(ipam: Json, message: str) -> None:
    own = {key: value for key, value in {**ONE, **ipam}.items() if value is not None}
    assert message in one_problem(infiniband({**IPOIB, "ipam": own}))


def test_what_is_not_aligned_is_normalised_and_said() -> None:
    found = sane(
        infiniband({**IPOIB, "ipam": {"type": "whereabouts", "range": "192.0.2.152/27", "exclude": ["192.0.2.130/30"]}})
    )
    says = "192.0.2.152/27 is not network-aligned: it covers 192.0.2.128 to 192.0.2.159, which is 192.0.2.128/27"
    assert f"group ib: network ib: ipam.range: {says}" in found["warnings"]
    assert any(
        "192.0.2.130/30 is not network-aligned: it covers 192.0.2.128 to 192.0.2.131" in text
        for text in found["warnings"]
    )
    plugin = config(found["objects"][0])["plugins"][0]
    assert plugin["ipam"] == {
        "type": "whereabouts",
        "range": "192.0.2.128/27",
        "range_start": "192.0.2.132",
        "range_end": "192.0.2.158",
    }


def test_an_exclusion_that_excludes_nothing_is_warned_of() -> None:
    found = sane(roce({**MACVLAN, "ipam": {**ADDRESSES, "exclude": ["10.99.0.1"]}}))
    assert any("10.99.0.1 is outside of all its ranges, and changes nothing" in text for text in found["warnings"])


@pytest.mark.parametrize(
    ("kind", "words"), [("pods", "gives to Pods"), ("services", "gives to Services"), ("nodes", "gives to nodes")]
)
def test_an_overlap_with_the_cluster_names_both(kind: str, words: str) -> None:
    found = infiniband(IPOIB, wish={"cidrs": {kind: ["10.20.0.128/25"]}})
    text = one_problem(found)
    assert "network ib (pool ib, 10.20.0.0/24) overlaps 10.20.0.128/25" in text
    assert words in text
    assert f"rdma_cluster_cidrs.{kind}" in text
    assert "10.20.0.128 to 10.20.0.254" in text


def test_what_is_excluded_overlaps_with_nothing() -> None:
    wish = {**IPOIB, "ipam": {**ONE, "exclude": ["10.20.0.128/25"]}}
    sane(infiniband(wish, wish={"cidrs": {"nodes": ["10.20.0.128/25"]}}))


def test_two_networks_that_overlap_are_both_named() -> None:
    other = {**IPOIB, "name": "other", "ipam": {"type": "whereabouts", "range": "10.20.0.128/25"}}
    text = one_problem(infiniband(IPOIB, other))
    assert (
        "network ib (pool ib, 10.20.0.0/24) and group ib: network other (pool other, 10.20.0.128/25) both have" in text
    )


def test_an_annotation_of_a_network_that_stays_as_it_is_goes_to_no_other() -> None:
    """Spiderpool's webhook would give Pods both."""
    other = {**INJECTED, "namespace": "b", "master": "bond0", "ipam": {"range": "10.99.0.0/24"}}
    site = networked_site({"roce": networked(ROCE, {**SPIDER, "inject": True}), "ib": networked(IB, other)})
    plan = copy.deepcopy(site["plan"])
    plan["groups"]["roce"].update(planned=False, kept="its ports are down")
    assert "both make the annotation of Pods" in " ".join(asked(BROUGHT, {**site, "plan": plan})["problems"])


@pytest.mark.parametrize("both", [False, True])
def test_what_a_network_has_that_stays_as_it_is_goes_to_no_other(both: bool) -> None:
    """Its group may be planned again tomorrow, and its Pods have its addresses today."""
    other = {**IPOIB, "name": "fabric-rail1", "master": "ib0", "ipam": {**ONE, "gateway": "first"}}
    site = networked_site({"roce": networked(ROCE, MACVLAN), "ib": networked(IB, other)})
    plan = copy.deepcopy(site["plan"])
    for group in ("roce", "ib") if both else ("roce",):
        plan["groups"][group].update(planned=False, kept="its ports are down")
    text = " ".join(asked(BROUGHT, {**site, "plan": plan})["problems"])
    said = [
        "group ib: network fabric-rail1 and group roce: network fabric both make the network default/fabric-rail1",
        "(pool fabric-rail1, 10.20.0.0/24) and group roce: network fabric (pool fabric-rail1, 10.20.0.0/24) both have",
        "gives Pods 10.20.0.1, which is the gateway of group ib: network fabric-rail1 (pool fabric-rail1, 10.20.0.0/24)",
    ]
    assert [words in text for words in said] == [not both] * 3, text


@pytest.mark.parametrize("kind", ["pods", "services"])
def test_a_route_that_would_take_what_the_cluster_sends_itself_names_both(kind: str) -> None:
    wish = {**IPOIB, "ipam": {**ONE, "gateway": "first", "routes": ["10.30.0.0/16", "10.96.0.0/11"]}}
    text = one_problem(infiniband(wish, wish={"cidrs": {kind: ["10.112.0.0/12"]}}))
    assert "group ib: network ib: ipam.routes: 10.96.0.0/11 would take the way to 10.112.0.0/12" in text
    assert f"(rdma_cluster_cidrs.{kind})" in text
    # nodes are reached over the fabric, too
    sane(infiniband(wish, wish={"cidrs": {"nodes": ["10.112.0.0/12"]}}))


def test_the_gateway_of_a_network_is_given_to_no_pod_of_another() -> None:
    first = {**IPOIB, "ipam": {"type": "whereabouts", "range": "10.20.0.1-10.20.0.99/24"}}
    second = {
        **IPOIB,
        "name": "other",
        "ipam": {"type": "whereabouts", "range": "10.20.0.100-10.20.0.199/24", "gateway": "first"},
    }
    text = one_problem(infiniband(first, second))
    assert (
        "group ib: network ib (pool ib, 10.20.0.0/24) gives Pods 10.20.0.1, which is the gateway of group ib: " in text
    )
    assert "network other (pool other, 10.20.0.0/24): name it in ipam.exclude" in text
    sane(infiniband({**first, "ipam": {**first["ipam"], "exclude": ["10.20.0.1"]}}, second))
    sane(infiniband({**first, "ipam": {**first["ipam"], "gateway": "first"}}, second))


def test_a_range_of_a_rail_that_there_is_not_is_warned_of() -> None:
    ranges = {rail: f"10.{rail}.0.0/24" for rail in range(1, 10)}
    found = sane(roce({**MACVLAN, "ipam": {"type": "whereabouts", "ranges": ranges}}))
    told = (
        "group roce: network fabric: ipam.ranges has a range for rail 9, and the group has no such rail: it is not used"
    )
    assert told in found["warnings"]


def test_groups_of_one_fabric_have_parts_of_one_network() -> None:
    first = {**IPOIB, "ipam": {"type": "whereabouts", "range": "10.20.0.10-10.20.0.99/16"}}
    second = {**IPOIB, "name": "other", "ipam": {"type": "whereabouts", "range": "10.20.1.10-10.20.1.99/16"}}
    found = sane(infiniband(first, second))
    ranges = {config(item)["plugins"][0]["ipam"]["range"] for item in of_kind(found, "NetworkAttachmentDefinition")}
    assert ranges == {"10.20.0.0/16"}


def test_malformed_cidrs_of_the_cluster_are_reported() -> None:
    found = infiniband(IPOIB, wish={"cidrs": {"pods": ["10.244.0.0/33"]}})
    assert "rdma_cluster_cidrs.pods: '/33' is not a prefix length of IPv4 (0 to 32)" in one_problem(found)


def test_addresses_of_netdevs_that_no_gid_tells_are_those_of_nodes() -> None:
    """IPoIB, and the network over which a node is reached."""
    site = networked_site({"ib": networked(IB, IPOIB)})
    facts = copy.deepcopy(site["facts"])
    own = {"ibp161s0": ["10.20.0.11", "fd00::1"], "eth0": ["192.0.2.1"]}
    facts["ib-a100-1"]["management"]["addresses"] = own
    text = one_problem(asked(BROUGHT, t.cast(Site, {**site, "facts": facts})))
    assert (
        "(pool ib, 10.20.0.0/24) has addresses that nodes have: 10.20.0.11 (ibp161s0 of host ib-a100-1); name" in text
    )
    facts["ib-a100-1"]["management"]["addresses"] = {"eth0": ["10.20.0.12", "no address"]}
    assert "10.20.0.12 (eth0 of host ib-a100-1)" in one_problem(asked(BROUGHT, t.cast(Site, {**site, "facts": facts})))


def test_gids_tell_of_nodes_only_where_nobody_else_does() -> None:
    """The kernel has GIDs of Pods' netdevs, too, which may be called like one of the node."""
    site = networked_site({"rails": networked(ROCE, MACVLAN)})
    facts = copy.deepcopy(site["facts"])
    told = t.cast(Site, {**site, "facts": {"roce-rails-1": facts["roce-rails-1"]}})
    facts["roce-rails-1"]["management"]["addresses"] = None
    assert ("198.51.100.11", "enp11s0f0np0 of host roce-rails-1") in node_addresses(told, {})
    facts["roce-rails-1"]["management"]["addresses"] = {"eth0": ["192.0.2.1"]}
    assert node_addresses(told, {}) == [("192.0.2.1", "eth0 of host roce-rails-1")]


def test_what_the_cluster_says_of_its_nodes_overlaps_with_no_pool() -> None:
    """Also of nodes that no inventory has."""
    site = networked_site({"ib": networked(IB, IPOIB)})
    node = {"labels": {}, "kubelet": "v1.36.3", "addresses": ["192.0.2.9"], "pod_cidrs": ["10.244.3.0/24"]}
    assert request(BROUGHT, site, nodes={"cp-1": node})["problems"] == []
    here = {**node, "addresses": ["10.20.0.9", "cp-1.example"]}
    text = one_problem(request(BROUGHT, site, nodes={"cp-1": here}))
    assert "has addresses that nodes have: 10.20.0.9 (node cp-1)" in text
    text = one_problem(request(BROUGHT, site, nodes={"cp-1": {**node, "pod_cidrs": ["10.20.0.0/26"]}}))
    assert (
        "network ib (pool ib, 10.20.0.0/24) overlaps 10.20.0.0/26, which the cluster gives to Pods of node cp-1: "
        in text
    )
    many = {f"n{number}": {**node, "pod_cidrs": ["no network", f"10.20.0.{number}/32"]} for number in range(1, 9)}
    assert "which the cluster gives to Pods of node n1 (and 7 more to others): " in one_problem(
        request(BROUGHT, site, nodes=many)
    )
    # of an earlier look
    assert request(BROUGHT, site, nodes={"cp-1": {"labels": {}, "kubelet": None}})["problems"] == []


def test_nobody_can_compare_with_what_nobody_tells() -> None:
    site = networked_site({"ib": networked(IB, IPOIB)})
    (text,) = [each for each in request(BROUGHT, site)["warnings"] if "rdma_cluster_cidrs" in each]
    assert text == (
        "rdma_cluster_cidrs names no networks of Pods and Services, so it is not known whether pools of secondary networks overlap with "
        "them: name them"
    )
    (text,) = [
        each
        for each in request({**BROUGHT, "cidrs": {"pods": ["10.244.0.0/16"]}}, site)["warnings"]
        if "rdma_cluster_cidrs" in each
    ]
    assert "names no networks of Services, so" in text
    whole = {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"]}
    told = request({**BROUGHT, "cidrs": whole}, site)["warnings"]
    assert not [each for each in told if "rdma_cluster_cidrs" in each]
    bare = networked_site({"ib": networked(IB, {"name": "ib", "kind": "ipoib"})})
    assert not [each for each in request(BROUGHT, bare)["warnings"] if "rdma_cluster_cidrs" in each]


def test_networks_of_services_that_the_cluster_tells_overlap_with_no_pool() -> None:
    """From Kubernetes 1.33 on, they are objects: nobody has to name them."""
    whole = {**BROUGHT, "cidrs": {"pods": ["10.244.0.0/16"]}}
    site = networked_site({"ib": networked(IB, IPOIB)})
    found = request(whole, site, service_cidrs=["10.96.0.0/12", "fd00:96::/108"])
    assert found["problems"] == []
    assert not [each for each in found["warnings"] if "rdma_cluster_cidrs" in each]
    text = one_problem(request(whole, site, service_cidrs=["10.20.0.128/25"]))
    assert (
        "network ib (pool ib, 10.20.0.0/24) overlaps 10.20.0.128/25, which the cluster gives to Services (ServiceCIDR): both have "
        in text
    )
    # what is named, too, is told of once
    both = {**BROUGHT, "cidrs": {"pods": ["10.244.0.0/16"], "services": ["10.20.0.128/25"]}}
    assert "(rdma_cluster_cidrs.services)" in one_problem(request(both, site, service_cidrs=["10.20.0.128/25"]))
    # a cluster without such objects, and one that does not let us read them
    for unknown in ([], None):
        (text,) = [each for each in request(whole, site, service_cidrs=unknown)["warnings"] if "rdma_cluster" in each]
        assert "names no networks of Services, so" in text


def test_a_route_takes_nothing_from_services_that_the_cluster_tells() -> None:
    wish = {**IPOIB, "ipam": {**ONE, "gateway": "first", "routes": ["10.96.0.0/11"]}}
    site = networked_site({"ib": networked(IB, wish)})
    text = one_problem(request(BROUGHT, site, service_cidrs=["10.112.0.0/12"]))
    assert (
        "10.96.0.0/11 would take the way to 10.112.0.0/12 from Pods, which the cluster gives to Services (ServiceCIDR): "
        in text
    )


def test_host_local_is_for_one_node() -> None:
    ipam = {
        "type": "host_local",
        "range": "10.20.0.0/28",
        "exclude": ["10.20.0.5"],
        "gateway": "first",
        "routes": ["10.20.9.0/24"],
    }
    found = sane(asked(BROUGHT, a_site({"lab": networked(LAB, {"name": "lab", "kind": "macvlan", "ipam": ipam})})))
    assert config(found["objects"][0])["plugins"][0]["ipam"] == {
        "type": "host-local",
        "ranges": [
            [
                {"subnet": "10.20.0.0/28", "rangeStart": "10.20.0.2", "rangeEnd": "10.20.0.4", "gateway": "10.20.0.1"},
                {"subnet": "10.20.0.0/28", "rangeStart": "10.20.0.6", "rangeEnd": "10.20.0.14", "gateway": "10.20.0.1"},
            ]
        ],
        "routes": [{"dst": "10.20.9.0/24", "gw": "10.20.0.1"}],
    }


def test_nv_ipam_gives_blocks_to_the_nodes_of_the_plan_only() -> None:
    ipam = {
        **ADDRESSES,
        "type": "nv_ipam",
        "gateway": "first",
        "routes": ["10.20.0.9/16"],
        "exclude": ["10.20.0.64/26"],
    }
    found = sane(roce({**MACVLAN, "ipam": ipam}))
    first = of_kind(found, "IPPool")[0]
    slug = first["spec"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0]
    assert slug.startswith("roce-rails-")
    assert first["metadata"]["namespace"] == "kube-system"
    assert {key: value for key, value in first["spec"].items() if key != "nodeSelector"} == {
        "subnet": "10.20.0.0/24",
        # eight Pods, and the gateway in the first block
        "perNodeBlockSize": 9,
        "exclusions": [
            {"startIP": "10.20.0.1", "endIP": "10.20.0.1"},
            {"startIP": "10.20.0.64", "endIP": "10.20.0.127"},
        ],
        "gateway": "10.20.0.1",
        "routes": [{"dst": "10.20.0.0/16"}],
    }
    plugin = config(of_kind(found, "NetworkAttachmentDefinition")[0])["plugins"][0]
    assert plugin["ipam"] == {"type": "nv-ipam", "poolName": "fabric-rail1", "poolType": "ippool"}


def test_a_network_of_virtual_functions_may_be_in_two_namespaces() -> None:
    """Both have the same policies."""
    other = {**SRIOV, "namespace": "b", "ipam": {**ADDRESSES, "range": "10.99.0.0/16"}}
    kind = "SriovNetworkNodePolicy"
    assert of_kind(sane(roce(SRIOV, other)), kind) == of_kind(sane(roce(SRIOV)), kind)
    assert "has sriov.vfs for the same ports" in one_problem(roce(SRIOV, {**other, "mtu": 9000}))


def test_a_spiderpool_network_on_an_ethernet_netdev_of_infiniband_hosts_may_have_a_vlan() -> None:
    """Such as one for storage."""
    wish = {"name": "nfs", "kind": "spiderpool", "master": "bond0", "vlan": 100, "ipam": {"range": "10.20.0.0/24"}}
    [item] = of_kind(sane(infiniband(wish)), "SpiderMultusConfig")
    assert item["spec"]["macvlan"]["master"] == ["bond0"]
    assert item["spec"]["macvlan"]["vlanID"] == 100


def test_a_spiderpool_network_names_pool_resource_and_netdev_of_its_rail() -> None:
    found = sane(
        roce({**SPIDER, "vlan": 100, "mtu": 9000, "inject": True, "ipam": {**SPIDER["ipam"], "gateway": "last"}})
    )
    pool, other = of_kind(found, "SpiderIPPool")[0], of_kind(found, "SpiderMultusConfig")[0]
    assert pool["spec"]["ips"] == ["10.20.0.1-10.20.0.253"]
    assert (pool["spec"]["gateway"], pool["spec"]["ipVersion"]) == ("10.20.0.254", 4)
    assert pool["spec"]["multusName"] == ["default/fabric-rail1"]
    assert other["spec"] == {
        "cniType": "macvlan",
        "macvlan": {
            "master": ["enp11s0f0np0"],
            "ippools": {"ipv4": ["fabric-rail1"]},
            "rdmaResourceName": "rdma/shared_cx5_gpu1",
            "vlanID": 100,
            "mtu": 9000,
        },
    }
    assert other["metadata"]["annotations"] == {"cni.spidernet.io/rdma-resource-inject": "fabric"}
    (pods,) = list(found["workloads"].values())
    # one of two ways: the webhook takes no Pod that names networks
    assert [list(pod["metadata"]["annotations"]) for pod in pods] == [
        ["k8s.v1.cni.cncf.io/networks"],
        ["cni.spidernet.io/rdma-resource-inject"],
    ]


def test_a_pod_asks_for_the_resource_that_spiderpool_does_not_add_to_it() -> None:
    """A SpiderMultusConfig of ipoib has no field for it."""
    found = sane(infiniband({**INJECTED, "master": "ib0"}))
    ((named, injected),) = list(found["workloads"].values())
    assert list(injected["metadata"]["annotations"]) == ["cni.spidernet.io/rdma-resource-inject"]
    limits = injected["spec"]["containers"][0]["resources"]["limits"]
    assert limits == named["spec"]["containers"][0]["resources"]["limits"] == {"rdma/rdma_a100": 1}


def test_both_families_have_a_pool_each() -> None:
    ipam = {"type": "nv_ipam", "range": ["10.20.0.0/16", "fd00:20::/48"], "per_rail": {"ipv4": 24, "ipv6": 64}}
    found = sane(roce({**MACVLAN, "ipam": ipam}))
    assert [item["spec"]["subnet"] for item in of_kind(found, "IPPool")][:2] == ["10.20.0.0/24", "fd00:20::/64"]
    plugin = config(of_kind(found, "NetworkAttachmentDefinition")[0])["plugins"][0]
    assert plugin["ipam"]["poolName"] == "fabric-rail1-v4,fabric-rail1-v6"


def test_the_operators_networks_carry_the_same_configuration() -> None:
    found = sane(roce({**MACVLAN, "operator": True, "namespace": "jobs", "mtu": 4200}, wish={"rollout": OPERATOR}))
    plain = sane(roce({**MACVLAN, "namespace": "jobs", "mtu": 4200}))
    rows = of_kind(found, "MacvlanNetwork")
    for own, other in zip(rows, of_kind(plain, "NetworkAttachmentDefinition"), strict=True):
        plugin = config(other)["plugins"][0]
        assert json.loads(own["spec"]["ipam"]) == plugin["ipam"]
        assert (own["spec"]["master"], own["spec"]["mode"], own["spec"]["mtu"]) == (
            plugin["master"],
            plugin["mode"],
            plugin["mtu"],
        )
        assert own["spec"]["networkNamespace"] == other["metadata"]["namespace"] == "jobs"
        # of the cluster
        assert "namespace" not in own["metadata"]
    assert [(wait["name"], wait["path"], wait["value"]) for wait in found["waits"]] == [
        (row["metadata"]["name"], "status.state", "ready") for row in rows
    ]


def test_no_apostrophe_reaches_the_operators_templates() -> None:
    for name in ALL:
        for item in ALL[name]()["objects"]:
            for key in ("ipam", "config"):
                assert "'" not in str(item.get("spec", {}).get(key) or "")


# --- properties -----------------------------------------------------------------------------------------------------------


def usable(plugin: Json) -> set[str]:
    """What Whereabouts gives of a range, by its own rules (pkg/allocate, IterateForAssignment): counted, not computed."""
    ipam = plugin["ipam"]
    network = ipaddress.ip_network(ipam["range"])
    first, last = ipaddress.ip_address(ipam["range_start"]), ipaddress.ip_address(ipam["range_end"])
    away = [ipaddress.ip_network(text) for text in ipam.get("exclude", [])]
    inside = list(network)[1:-1]
    return {
        str(address)
        for address in inside
        if int(first) <= int(address) <= int(last) and not any(address in each for each in away)
    }


@examples(25)
@given(
    prefix=st.integers(27, 29),
    exclusions=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 31), st.integers(0, 3)), max_size=4),
    gateway=st.sampled_from([None, "first", "last"]),
    pods=st.integers(1, 4),
)
def test_what_whereabouts_is_told_gives_disjoint_rails_without_exclusions_and_enough(
    prefix: int, exclusions: list[tuple[int, int, int]], gateway: str | None, pods: int
) -> None:
    texts = [f"10.20.0.{32 * rail + low}-10.20.0.{min(255, 32 * rail + low + more)}" for rail, low, more in exclusions]
    ipam = {"type": "whereabouts", "range": "10.20.0.0/24", "per_rail": prefix, "exclude": texts, "pods_per_node": pods}
    if gateway:
        ipam["gateway"] = gateway
    found = roce({**MACVLAN, "ipam": ipam})
    excluded = {
        str(ipaddress.ip_address("10.20.0.0") + number)
        for rail, low, more in exclusions
        for number in range(32 * rail + low, min(255, 32 * rail + low + more) + 1)
    }
    step = 2 ** (32 - prefix)
    wanted = []
    for rail in range(8):
        network = [str(ipaddress.ip_address("10.20.0.0") + number) for number in range(rail * step, (rail + 1) * step)]
        own = set(network[1:-1]) - excluded
        own -= {network[1]} if gateway == "first" else {network[-2]} if gateway == "last" else set()
        wanted.append(own)
    enough = all(len(own) >= 2 * pods for own in wanted)
    assert (found["problems"] == []) == enough
    if enough:
        given = [usable(config(item)["plugins"][0]) for item in of_kind(found, "NetworkAttachmentDefinition")]
        assert given == wanted


@examples(40)
@given(
    st.fixed_dictionaries(
        {"name": st.just("x"), "kind": st.sampled_from(["hostdevice", "sriov", "macvlan", "ipoib", "spiderpool"])},
        optional={
            "rails": st.booleans(),
            "operator": st.booleans(),
            "mtu": st.sampled_from([1500, 9000, "9000"]),
            "vlan": st.integers(1, 4094),
            "master": st.sampled_from(["eth9", "enp11s0f0np0", {"1": "eth1"}, {1: "eth1", 2: "eth2"}]),
            "mode": st.sampled_from(["bridge", "passthru"]),
            "resource": st.sampled_from(["nvidia.com/x", "example.com/x{rail}"]),
            "sriov": st.sampled_from([{}, {"vfs": 2}, {"vfs": 500}]),
            "isolate_rdma": st.booleans(),
            "cni": st.sampled_from(["macvlan", "ipvlan", "ipoib"]),
            "ipam": st.fixed_dictionaries(
                {"type": st.sampled_from(["whereabouts", "nv_ipam", "spiderpool", "host_local", "static", "none"])},
                optional={
                    "range": st.sampled_from(
                        ["10.20.0.0/16", "10.20.0.0/30", ["10.20.0.0/16", "fd00::/48"], "x", "10.20.0.9-10.20.0.99/24"]
                    ),
                    "ranges": st.sampled_from(
                        [{1: "10.20.0.0/24"}, {number: f"10.2{number}.0.0/24" for number in range(1, 9)}]
                    ),
                    "per_rail": st.sampled_from([24, 64, {"ipv4": 24, "ipv6": 64}]),
                    "gateway": st.sampled_from(["first", "last", "10.20.0.1", "fd00::1"]),
                    "exclude": st.lists(
                        st.sampled_from(["10.20.0.0/24", "10.20.0.0/15", "y", "fd00::/64"]), max_size=2
                    ),
                    "routes": st.lists(st.sampled_from(["10.0.0.0/8", "0.0.0.0/0", "z"]), max_size=1),
                    "pods_per_node": st.sampled_from([1, 10000]),
                    "block_size": st.sampled_from([1, 64]),
                },
            ),
        },
    ),
    st.sampled_from([ROCE, IB, LAB]),
    st.booleans(),
)
def test_every_wish_that_the_table_lets_through_has_an_answer(
    network: Json, base: tuple[Json, list[str]], operator: bool
) -> None:
    assert problems("rdma_networks", [network]) == []
    wish = {**BROUGHT, **({"rollout": {**OPERATOR, "sriov": ["x"]}} if operator else {})}
    found = request(wish, networked_site({"x": networked(base, network)}))
    assert bool(found["problems"]) != bool(found["objects"])
    for item in found["objects"]:
        if item["kind"] in DEFINITIONS:
            insist(item, DEFINITIONS[item["kind"]])

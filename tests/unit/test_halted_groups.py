# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group whose ports are down keeps all that an earlier rollout made of it, whichever system that was."""

from __future__ import annotations

import copy
import functools
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_rollout import rdma_rollout
from ansible_collections.fabric.rdma.plugins.filter.rdma_site import rdma_site
from ansible_collections.fabric.rdma.plugins.filter.rdma_system import rdma_system
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import base_path
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT
from ansible_collections.fabric.rdma.tests.unit.plugins.filter.test_filters import SETTINGS
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_longhorn import prepared

ROCE, IB, V100, GB200 = (
    ["roce-rails-1", "roce-rails-2"],
    # two classes: the second host has its cable in the other card
    ["ib-a100-1", "ib-a100-2", "ib-a100-3"],
    ["ib-v100-1", "ib-v100-2"],
    ["gb200-1", "gb200-2"],
)
ROCE_WISHES: Json = {"rdma_want": {"link_layer": "Ethernet"}, "rdma_rails": True}
NV_IPAM: Json = {"type": "nv_ipam", "range": "10.20.0.0/16", "per_rail": 24}
WHEREABOUTS: Json = {"type": "whereabouts", "range": "10.20.0.0/16", "per_rail": 24}
MACVLAN: Json = {"name": "fabric", "kind": "macvlan", "rails": True, "ipam": NV_IPAM}
SRIOV: Json = {"name": "vf", "kind": "sriov", "rails": True, "operator": True, "sriov": {"vfs": 4}, "ipam": NV_IPAM}
HOSTDEV: Json = {"name": "pf", "kind": "hostdevice", "rails": True, "ipam": WHEREABOUTS}
OPERATOR: Json = {"engine": "network_operator", "operator_version": "26.4.1"}
WHOLE: Json = {**OPERATOR, "sriov": ["roce"]}
INSTALLED: Json = {"multus": {"install": True}, "whereabouts": {"install": True}}
VGPU: Json = {"groups": ["ib", "v100"], "stop_device_plugin": True, "hypernodes": True, "memory_factor": 100}


class Case(t.NamedTuple):
    """A system that is wished for, and hosts whose ports go down."""

    system: str
    wish: Json
    down: list[str]
    rollout: Json | None = None
    networks: tuple[Json, ...] = ()
    # what it makes is refused as long as the group is not whole
    refused: bool = False


CASES = {
    "device_plugin": Case("device_plugin", {}, IB),
    "device_plugin, a class": Case("device_plugin", {}, IB[1:2]),
    "dra": Case("dra", {"engine": "dra"}, V100, refused=True),
    "gpu_operator": Case("gpu_operator", {"version": "26.3.3", "groups": ["ib", "v100"]}, IB),
    "compute_domain": Case("compute_domain", {}, GB200),
    "secondary_network, macvlan": Case("secondary_network", INSTALLED, ROCE, networks=(MACVLAN,)),
    "secondary_network, sriov": Case("secondary_network", {"rollout": OPERATOR}, ROCE, OPERATOR, (SRIOV,)),
    "secondary_network, hostdevice": Case(
        "secondary_network", {**INSTALLED, "rollout": WHOLE}, ROCE[:1], WHOLE, (HOSTDEV,)
    ),
    "vgpu": Case("vgpu", VGPU, IB),
    "vgpu, a class": Case("vgpu", VGPU, IB[1:2]),
    "vgpu, all": Case("vgpu", VGPU, [*IB, *V100, *ROCE, *GB200]),
    "topology": Case("topology", {"labels": True}, IB),
    "topology, all": Case("topology", {"labels": True}, [*IB, *V100, *ROCE, *GB200]),
    "longhorn": Case("longhorn", {"version": "1.12.1"}, IB),
}
SERVED = {group: ["v1"] for group in ("apps", "resource.k8s.io", "k8s.cni.cncf.io", "sriovnetwork.openshift.io")}
FABRIC: Json = {
    "switches": [{"id": "s1", "name": "leaf-1"}, {"id": "s2", "name": "leaf-2"}],
    "places": [{"host": host, "leaf": "s2" if host in (*V100, "new") else "s1"} for host in (*IB, *V100, *ROCE, "new")],
}


class Cluster(Server):
    """It serves what is asked for, and its nodes take labels."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(*({"kind": "Node", "metadata": {"name": name, "labels": {}}} for name in nodes))
        for name in ("kube-system", "nvidia-network-operator", "default"):
            self.put({"kind": "Namespace", "metadata": {"name": name}})

    def serve(self, objects: t.Iterable[Json]) -> None:
        for item in objects:
            kinds = self.served.setdefault(base_path(item["apiVersion"]), {})  # type: ignore[attr-defined]
            kinds[item["kind"]] = item["kind"].lower() + "s"
        self.forget_kinds()

    def _answer_of(self, path: str, doing: str, query: dict[str, str]) -> Json:
        answer = super()._answer_of(path, doing, query)
        for row in answer.get("resources") or ():
            row["namespaced"] = row["kind"] not in ("Namespace", "Node", "HyperNode", "DeviceClass") and not any(
                word in row["kind"] for word in ("Cluster", "CustomResourceDefinition")
            )
        return answer

    def merge(self, path: str, doing: str, body: Json, dry_run: bool, seen: t.Any = None) -> Json:
        self.asked.append(f"{'try ' if dry_run else ''}{doing}")
        labels = {**self.items[path]["metadata"]["labels"], **body["metadata"]["labels"]}
        if not dry_run:
            self.items[path]["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
        return copy.deepcopy(self.items[path])

    def of_kind(self, kind: str) -> list[Json]:
        return [copy.deepcopy(item) for item in self.items.values() if item["kind"] == kind]


@functools.cache
def _facts() -> Json:
    facts: Json = a_site({"roce": (ROCE_WISHES, ROCE), "ib": ({}, IB), "v100": ({}, V100), "gb200": ({}, GB200)})[
        "facts"
    ]
    for host, own in facts.items():
        own["management"] = {"default_route_netdevs": [], "rdma_backed": False, "mounts_over_rdma": []}
        own["runtime"]["containerd"].update(
            version="2.1.4", nri={"enabled": True, "socket": "/var/run/nri/nri.sock"}, default_handler="nvidia"
        )
        for device in own["devices"] if host in ROCE else ():
            device["sriov"]["total"] = 16
    # one fabric of two groups
    for gid in [
        gid
        for host in (*IB, *V100)
        for device in facts[host]["devices"]
        for port in device["ports"]
        for gid in port["gids"]
    ]:
        gid["gid"] = gid["gid"].replace("fe80:0000:0000:0000", "fec0:0000:0000:0001")
    return {host: prepared(own, f"iqn.1993-08.org.debian:01:{host}") for host, own in facts.items()}


def hostvars_of(case: Case, down: t.Collection[str]) -> tuple[Json, dict[str, list[str]]]:
    """(hostvars, groups of the inventory)."""
    groups = {"roce": ROCE, "ib": IB, "v100": V100}
    wishes: dict[str, Json] = {"roce": {**ROCE_WISHES, "rdma_networks": list(case.networks)}, "ib": {}, "v100": {}}
    if case.system == "compute_domain":
        groups["gb200"] = GB200
        wishes["gb200"] = {"rdma_compute_domain": {"gpus": False}}
    found: Json = {}
    for group, hosts in groups.items():
        for host in hosts:
            facts = copy.deepcopy(_facts()[host])
            for port in [each for device in facts["devices"] if host in down for each in device["ports"]]:
                port.update(state="Down", phys_state="Polling")
            own = {"rdma_resource": {"name": group}, "rdma_rollout": case.rollout or {}, **wishes[group]}
            found[host] = {"ansible_facts": {"rdma": facts}, **own}
    return found, groups


def planned(hostvars: Json, groups: dict[str, list[str]], earlier: Json | None = None) -> Json:
    facts = {host: own["ansible_facts"]["rdma"] for host, own in hostvars.items() if own["ansible_facts"]}
    wishes = {
        group: {
            "hosts": hosts,
            "resource": hostvars[hosts[0]]["rdma_resource"],
            "want": hostvars[hosts[0]].get("rdma_want"),
            "strategy": None,
            "rails": hostvars[hosts[0]].get("rdma_rails"),
        }
        for group, hosts in groups.items()
    }
    before = {group: entry["classes"] for group, entry in (earlier or {"groups": {}})["groups"].items()}
    plan = plan_groups(facts, wishes, earlier=before)
    return t.cast("Json", {**plan, "removed": {}, "remove": []})


def roll_out(
    cluster: Cluster,
    case: Case,
    hostvars: Json,
    groups: dict[str, list[str]],
    plan: Json,
    allow: bool = False,
    fabric: Json | None = None,
) -> Json:
    """What a run asked for; it is done where nothing is wrong with it."""
    if case.system == "device_plugin":
        request: Json = rdma_rollout(plan, SETTINGS, groups, allow)
        rollout = Rollout(cluster, place="kube-system")
        rollout.look(request["objects"], request["nodes"], request["keep"])
        rollout.insist(request["known"], request["remove"])
        rollout.rehearse()
        rollout.perform()
        return {**request, "problems": []}
    site = rdma_site(hostvars, groups, list(groups), plan, case.rollout or {}, fabric or FABRIC, allow)
    labels = {"nvidia.com/gpu.clique": "6d0c3d0e-6f5c-4f3e-8a3e-000000000001.1"}
    state = {
        "served": SERVED,
        "nodes": {host: {"labels": labels, "kubelet": "v1.34.2"} for host in hostvars},
        "hypernodes": cluster.of_kind("HyperNode"),
        "drivers": cluster.of_kind("DaemonSet"),
        "claims": [],
    }
    wishes = {"rdma_rollout": case.rollout or {}, "rdma_gpu_operator": {}}
    request = rdma_system(case.wish, case.system, site, state, [], wishes)
    cluster.serve(request["objects"])
    if not request["problems"]:
        changes = SystemRollout(cluster, case.system, "kube-system")
        charts = [chart["release_key"] for chart in request["charts"]]
        changes.look(request["objects"], site["keep"], charts, None, request["node_labels"], site["known"])
        assert changes.old_charts == []
        changes.rehearse()
        changes.perform()
    return request


def what_is_there(cluster: Cluster) -> Json:
    """Objects without what every write changes, and without our memory of their kinds."""
    found = {}
    for path, item in cluster.items.items():
        metadata = {
            key: value for key, value in item["metadata"].items() if key not in ("resourceVersion", "managedFields")
        }
        found[path] = {**item, "metadata": metadata}
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_group_whose_ports_are_down_keeps_all_that_it_has(name: str) -> None:
    case = CASES[name]
    hostvars, groups = hostvars_of(case, ())
    cluster, plan = Cluster(*hostvars), planned(hostvars, groups)
    request = roll_out(cluster, case, hostvars, groups, plan)
    assert request["problems"] == []
    assert request["objects"] or request["charts"] or request["node_labels"]
    before = what_is_there(cluster)
    charts = request.get("charts")
    hostvars, _groups = hostvars_of(case, case.down)
    again = roll_out(cluster, case, hostvars, groups, planned(hostvars, groups, plan))
    assert bool(again["problems"]) is case.refused, again["problems"]
    assert what_is_there(cluster) == before
    assert again.get("charts") == charts


def test_every_system_is_among_them() -> None:
    assert {case.system for case in CASES.values()} == {system.name for system in SYSTEMS}


@pytest.mark.parametrize("name", ["vgpu", "topology"])
def test_a_group_that_is_rolled_out_changes_beside_one_that_stays(name: str) -> None:
    """What both have in common, such as the HyperNode of their fabric, has what each of them says."""
    case = CASES[name]
    hostvars, groups = hostvars_of(case, ())
    cluster, plan = Cluster(*hostvars, "new"), planned(hostvars, groups)
    roll_out(cluster, case, hostvars, groups, plan)
    hostvars, _groups = hostvars_of(case, case.down)
    hostvars["new"] = {**hostvars["ib-v100-2"], "ansible_facts": copy.deepcopy(hostvars["ib-v100-2"]["ansible_facts"])}
    groups = {**groups, "v100": [*V100, "new"]}
    request = roll_out(cluster, case, hostvars, groups, planned(hostvars, groups, plan))
    assert request["problems"] == []
    assert [text for text in request["warnings"] if text.startswith("group ib: ") and "no usable port" in text]
    if name == "topology":
        labels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in cluster.of_kind("Node")}
        assert labels["new"] == labels["ib-v100-2"] != {}
        assert labels["ib-a100-1"] != {}
        return
    tree = {
        item["metadata"]["name"]: {each["selector"]["exactMatch"]["name"] for each in item["spec"]["members"]}
        for item in cluster.of_kind("HyperNode")
    }
    assert {*V100, "new"} in tree.values()
    assert set(IB) in tree.values()
    (fabric,) = [own for own in tree.values() if len(own) == 2 and own < set(tree)]
    assert all(name.startswith(("rdma-ib-", "rdma-v100-")) for name in fabric)


def test_nodes_of_a_group_that_stays_keep_their_labels_also_with_another_map() -> None:
    case = CASES["topology"]._replace(down=IB[1:2])
    hostvars, groups = hostvars_of(case, ())
    cluster, plan = Cluster(*hostvars), planned(hostvars, groups)
    roll_out(cluster, case, hostvars, groups, plan)
    before = {item["metadata"]["name"]: item["metadata"]["labels"] for item in cluster.of_kind("Node")}
    hostvars, _groups = hostvars_of(case, case.down)
    moved = {
        **FABRIC,
        "places": [{**each, "leaf": "s1" if each["leaf"] == "s2" else "s2"} for each in FABRIC["places"]],
    }
    roll_out(cluster, case, hostvars, groups, planned(hostvars, groups, plan), fabric=moved)
    after = {item["metadata"]["name"]: item["metadata"]["labels"] for item in cluster.of_kind("Node")}
    assert {node for node in before if before[node] != after[node]} == {*ROCE, *V100}


def test_nothing_is_asked_of_hosts_of_a_group_that_stays() -> None:
    """One without facts, of which nobody knows whether it has GPUs, does not keep shares of GPUs from the others."""
    case = CASES["vgpu"]
    hostvars, groups = hostvars_of(case, ())
    cluster, plan = Cluster(*hostvars), planned(hostvars, groups)
    roll_out(cluster, case, hostvars, groups, plan)
    before = what_is_there(cluster)
    del hostvars[IB[0]]["ansible_facts"]["rdma"]
    again = planned(hostvars, groups, plan)
    assert not again["groups"]["ib"]["planned"]
    found = roll_out(cluster, case, hostvars, groups, again)
    assert found["problems"] == []
    assert what_is_there(cluster) == before


@pytest.mark.parametrize("name", ["secondary_network, sriov", "topology", "device_plugin"])
def test_who_allows_it_goes_on_without_them(name: str) -> None:
    case = CASES[name]
    hostvars, groups = hostvars_of(case, ())
    cluster, plan = Cluster(*hostvars), planned(hostvars, groups)
    before = roll_out(cluster, case, hostvars, groups, plan)
    kinds = {item["kind"] for item in before.get("objects", ())}
    hostvars, _groups = hostvars_of(case, case.down)
    after = roll_out(cluster, case, hostvars, groups, planned(hostvars, groups, plan), allow=True)
    assert len([*after["objects"], *after.get("node_labels", ())]) < len(
        [*before["objects"], *before.get("node_labels", ())]
    )
    if name.startswith("secondary_network"):
        assert {kind for kind in kinds if cluster.of_kind(kind)} == set()
        (warning,) = [text for text in after["warnings"] if "network vf" in text]
        assert "is taken out, since no host of its group is left" in warning


def test_dranet_goes_on_without_hosts_whose_ports_are_down_where_that_is_allowed() -> None:
    """The refusal names it as the remedy."""
    case = Case("dra", {"engine": "dra"}, V100[:1])
    hostvars, groups = hostvars_of(case, case.down)
    plan = planned(hostvars, groups)
    (problem,) = roll_out(Cluster(*hostvars), case, hostvars, groups, plan)["problems"]
    assert problem.startswith("group v100 has no whole plan of this run: host ib-v100-1 has no usable port")
    assert problem.endswith("or rdma_allow_unusable is true")
    found = roll_out(Cluster(*hostvars), case, hostvars, groups, plan, allow=True)
    assert found["problems"] == []
    assert set(found["node_labels"]) == {*ROCE, *IB, V100[1]}


@pytest.mark.parametrize("allow", [False, True])
def test_all_systems_keep_what_the_device_plugin_keeps(allow: bool) -> None:
    case = Case("topology", {}, IB[1:2])
    hostvars, groups = hostvars_of(case, case.down)
    plan = planned(hostvars, groups)
    plan["groups"]["roce"]["malformed"] = {ROCE[0]: "its facts cannot be used"}
    everyone = {**groups, "all": [*hostvars], "others": []}
    site = rdma_site(hostvars, everyone, list(groups), plan, {}, None, allow)
    assert site["keep"] == rdma_rollout(plan, SETTINGS, everyone, allow)["keep"]
    assert site["keep"] == sorted({"all", "others", "roce"} | ({"ib"} if not allow else set()))
    assert site["known"] == sorted([*V100, *(IB if allow else ())])
    assert site["excusable"] == ([] if allow else ["ib"])


def test_every_site_is_told_what_is_allowed() -> None:
    """Who forgets it removes nothing, and never does what the error tells to do."""
    texts = [path.read_text() for top in ("roles", "playbooks") for path in (ROOT / top).rglob("*.yml")]
    calls = [text.split("}}")[0] for each in texts for text in each.split("fabric.rdma.rdma_site(")[1:]]
    assert len(calls) > 1
    assert [call for call in calls if "rdma_allow_unusable | default(false) | bool" not in call] == []

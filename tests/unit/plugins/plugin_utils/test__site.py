# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems may look at comes from the inventory, is the same for all hosts of a group, and keeps what a run has not planned."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_site import rdma_site
from ansible_collections.fabric.rdma.plugins.filter.rdma_system import rdma_system
from ansible_collections.fabric.rdma.plugins.filter.rdma_systems import rdma_systems
from ansible_collections.fabric.rdma.plugins.plugin_utils._site import site_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import empty_request
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_group, a_plan

Json = dict[str, t.Any]
GROUPS = {"all": ["a", "b", "c"], "one": ["a", "b"], "two": ["c"], "three": []}
NETWORKS = [{"name": "fabric", "kind": "ipoib", "ipam": {"type": "none"}}]


def hosts(**own: Json) -> Json:
    """hostvars; own: more variables of a host."""
    return {host: {"ansible_facts": {}, **own.get(host, {})} for host in "abc"}


def test_a_site_has_what_the_inventory_says() -> None:
    both = {"rdma_networks": NETWORKS, "rdma_cluster_cidrs": {"pods": ["10.244.0.0/16"]}, "rdma_unknown": 1}
    rollout = {
        "inventory": "lab",
        "registry": "mirror.example.com",
        "image_pull_secrets": ["pull"],
        "node_names": {"a": "n1"},
    }
    site = rdma_site(hosts(a=both, b=both), GROUPS, ["one"], a_plan(one=a_group(a_class("one"))), rollout)
    assert site["groups"] == {"one": ["a", "b"]}
    assert site["wishes"] == {"one": {"rdma_networks": NETWORKS}}
    assert site["cidrs"] == {"pods": ["10.244.0.0/16"]}
    assert (site["inventory"], site["registry"], site["pull_secrets"]) == ("lab", "mirror.example.com", ["pull"])
    assert (site["node_names"], site["charts"]) == ({"a": "n1"}, None)


def test_hosts_have_the_names_of_their_leaves() -> None:
    """Two switches of one name are told by their ids."""
    names = {"s1": "leaf-1", "s2": "SwitchIB", "s3": "SwitchIB"}
    switches = [{"id": key, "name": name, "link_layer": "InfiniBand", "leaf": True} for key, name in names.items()]
    places = [{"host": host, "leaf": leaf} for host, leaf in (("n1", "s2"), ("n1", "s1"), ("n2", "s3"))]
    site = site_of({}, {}, [], {"groups": {}}, {}, {"switches": switches, "places": places})
    assert site["leaves"] == {"n1": ["leaf-1", "s2"], "n2": ["s3"]}
    assert site_of({}, {}, [], {"groups": {}}, {})["leaves"] == {}


def test_what_a_run_has_not_planned_stays() -> None:
    plan = a_plan(one=a_group(a_class("one")), two={**a_group(), "planned": False})
    site = rdma_site(hosts(), GROUPS, ["one", "two"], plan)
    assert site["keep"] == ["all", "three", "two"]
    # what Kubernetes calls as a group of the plan is the same
    assert rdma_site(hosts(), GROUPS | {"ONE": []}, ["one", "two"], plan)["keep"] == site["keep"]


def test_what_is_taken_out_on_purpose_is_known() -> None:
    """Its node loses what it has; what the inventory merely lacks keeps it."""
    plan = {
        **a_plan(one=a_group(a_class("one")), two={**a_group(), "planned": False}),
        "removed": {"d": "gone"},
        "remove": ["e", "old_group"],
    }
    site = rdma_site(hosts(), GROUPS, ["one", "two"], plan, {"node_names": {"a": "n1", "e": "n5"}})
    assert site["known"] == ["b", "d", "n1", "n5", "old_group"]
    scope = {"hosts": ["b", "c", "n1"], "groups": ["one", "two"], "remove": ["d", "e", "n5", "old-group", "old_group"]}
    assert site["scope"] == scope


def test_a_wish_for_the_cluster_that_differs_in_a_group_is_an_error() -> None:
    with pytest.raises(
        AnsibleFilterError, match="group one: rdma_networks differs between hosts a and b; set it for the group"
    ):
        rdma_site(hosts(a={"rdma_networks": NETWORKS}), GROUPS, ["one"], a_plan())
    # the report is written all the same
    with pytest.raises(AnsibleFilterError, match="rdma_networks differs"):
        rdma_systems(hosts(a={"rdma_networks": NETWORKS}), GROUPS, ["one"])
    both = ["device_plugin", "secondary_network"]
    assert rdma_systems(hosts(a={"rdma_networks": NETWORKS}), GROUPS, ["one"], insist=False) == both


def test_a_node_makes_no_wishes() -> None:
    own = {"ansible_facts": {"rdma_networks": NETWORKS}}
    with pytest.raises(AnsibleFilterError, match="host a has facts named rdma_networks"):
        rdma_site(hosts(a=own), GROUPS, ["one"], a_plan())


def test_systems_are_those_that_are_wished_for_in_order() -> None:
    both = {"rdma_networks": NETWORKS, "rdma_longhorn": {"version": "1.12.1"}}
    assert rdma_systems(hosts(a=both, b=both), GROUPS, ["one"]) == ["device_plugin", "secondary_network", "longhorn"]
    assert rdma_systems(hosts(), GROUPS, ["three"]) == ["device_plugin"]
    assert rdma_systems(hosts(), GROUPS, ["one"], everything=True)[:2] == ["device_plugin", "dra"]


@pytest.mark.parametrize(
    ("chart", "name", "version"),
    [
        ("longhorn-1.10.2", "longhorn", "1.10.2"),
        ("gpu-operator-v26.3.3", "gpu-operator", "26.3.3"),
        ("dra-driver-nvidia-gpu-0.4.1", "dra-driver-nvidia-gpu", "0.4.1"),
        ("a-2b-1.0.0-rc.1", "a-2b", "1.0.0-rc.1"),
        ("none", "none", ""),
    ],
)
def test_a_chart_is_read_as_name_and_version(
    chart: str, name: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Helm calls what is installed."""
    seen: list[Json] = []

    def request(_name: str, _wish: t.Any, _site: t.Any, around: Json) -> Json:
        seen.append(around)
        return t.cast("Json", empty_request("longhorn"))

    monkeypatch.setattr("ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog.request_of", request)
    site = rdma_site(hosts(), GROUPS, ["one"], a_plan())
    release = {"status": {"name": "r", "namespace": "n", "chart": chart, "values": {"x": 1}}}
    rdma_system({}, "any", site, {"served": {"": ["v1"]}, "nodes": {}}, [release, {}, {"status": {}}])
    installed = {"r": {"chart": name, "version": version, "namespace": "n", "values": {"x": 1}}}
    unasked = {"service_cidrs": None, "wishes": {}, "drivers": None, "claims": None, "hypernodes": None}
    assert seen == [{"installed": installed, "served": {"": ["v1"]}, "nodes": {}, **unasked}]
    rdma_system({}, "any", site)
    # nobody has looked
    assert seen[1] == {"installed": None, "served": None, "nodes": None, **unasked}


# --- wishes of another form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "wish", "of_group", "words"),
    [
        ("vgpu", {"groups": 7}, {}, r"rdma_vgpu\.groups is 7; expected a list of RDMA groups"),
        ("vgpu", {"groups": ["one"], "split": "x"}, {}, r"rdma_vgpu\.split is 'x'; expected"),
        ("compute_domain", {}, {"rdma_compute_domain": "yes"}, "group one: rdma_compute_domain"),
        ("compute_domain", {}, {"rdma_compute_domain": {"workloads": 3}}, r"group one: rdma_compute_domain\.workloads"),
        ("secondary_network", {"cidrs": {"pods": 7}}, {"rdma_networks": NETWORKS}, r"rdma_cluster_cidrs\.pods"),
        ("secondary_network", {}, {"rdma_networks": 7}, "group one: rdma_networks is 7; expected a list of networks"),
        ("longhorn", {"version": "1.12.1"}, {"rdma_storage": [1]}, "group one: rdma_storage"),
        ("dra", {"engine": "dra", "node_names": 7}, {}, r"rdma_rollout\.node_names is"),
    ],
)
def test_a_wish_of_another_form_is_named(system: str, wish: Json, of_group: Json, words: str) -> None:
    """Roles may be used alone, without the playbook that looks at all wishes first."""
    site = rdma_site(hosts(a=of_group, b=of_group), GROUPS, ["one"], a_plan(one=a_group(a_class("one"))))
    with pytest.raises(AnsibleFilterError, match=words):
        rdma_system(wish, system, site)


@pytest.mark.parametrize(
    ("rollout", "cidrs", "words"),
    [
        ({"node_names": ["a"]}, {}, r"rdma_rollout\.node_names is"),
        ({"image_pull_secrets": 7}, {}, r"rdma_rollout\.image_pull_secrets is 7"),
        ({}, {"pods": 7}, r"rdma_cluster_cidrs\.pods is 7"),
        ({}, ["10.0.0.0/8"], "rdma_cluster_cidrs is"),
    ],
)
def test_a_wish_for_all_that_has_another_form_is_named(rollout: Json, cidrs: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        rdma_site(hosts(a={"rdma_cluster_cidrs": cidrs}), GROUPS, ["one"], a_plan(one=a_group(a_class("one"))), rollout)

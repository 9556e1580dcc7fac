# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several groups: each is planned for itself, and one configuration for all is exact or refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    GROUPS,
    NAME,
    RESOURCE,
    Json,
    captured,
    check_cluster_refusal,
    group,
    plugin_pools,
    ports_of,
    selectors,
    several,
    two_ports,
)


@given(GROUPS)
def test_one_configuration_for_the_cluster_is_exact_or_refused(parts: Any) -> None:
    facts, groups = several(parts)
    plan = plan_groups(facts, groups)
    cluster = plan["cluster"]
    unplanned = [name for name, entry in plan["groups"].items() if not entry["planned"]]
    matched: dict[str, dict[str, str]] = {host: {} for host in facts}
    for name, entry in plan["groups"].items():
        for own in entry["classes"]:
            for host, rows in own["matches"].items():
                matched[host].update({row["pci"]: f"rdma/r{name[1:]}" for row in rows})
    if cluster["config"] is None:
        check_cluster_refusal(facts, matched, unplanned, cluster)
        return
    assert (cluster["errors"], cluster["alternative"], cluster["hosts"]) == ([], None, len(facts))
    for host in facts:
        pools = plugin_pools(facts[host], cluster["config"])
        found = {pci: resource for resource, functions in pools.items() for pci in functions}
        assert sum(map(len, pools.values())) == len(found), "no function is in two pools"
        assert found == matched[host]


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_groups_and_hosts_changes_nothing(parts: Any, random: Any) -> None:
    facts, groups = several(parts)
    expected = json.dumps(plan_groups(facts, groups))
    hosts, names = list(facts), list(groups)
    random.shuffle(hosts)
    random.shuffle(names)
    shuffled = {
        name: {**groups[name], "hosts": random.sample(groups[name]["hosts"], len(groups[name]["hosts"]))}
        for name in names
    }
    assert json.dumps(plan_groups({host: facts[host] for host in hosts}, shuffled)) == expected


def test_all_outcomes_for_the_cluster_happen() -> None:
    outcomes = {"config": 0, "refused": 0, "several": 0}

    @given(GROUPS)
    def collect(parts: Any) -> None:
        cluster = plan_groups(*several(parts))["cluster"]
        outcomes["config"] += cluster["config"] is not None
        outcomes["several"] += len(cluster["selectors"]) > 1
        outcomes["refused"] += cluster["alternative"] is not None

    collect()
    assert all(outcomes.values()), outcomes


@pytest.mark.parametrize("other", ["gpu-eth0", "gpu_eth0", "GPU-eth0"])
def test_classes_of_groups_with_like_names_have_different_names(other: str) -> None:
    facts = {"a": ports_of("eth0 ib0 ib1", down="ib1"), "b": two_ports("ib0", "ib1", "ib0")}
    for device in facts["b"]["devices"]:
        device["node_guid"] = None
    want = {"want": {"link_layer": "Ethernet"}}
    groups = {"gpu": {**group("a"), **want}, other: {**group("b"), **want}}
    plan = plan_groups(facts, groups)
    [[mine], [theirs]] = (list(selectors(plan["groups"][name])) for name in ("gpu", other))
    assert theirs == f"{other}-ib0"
    assert re.fullmatch("gpu-[0-9a-f]{8}", mine)
    alone = plan_groups({"a": facts["a"]}, {"gpu": groups["gpu"]})
    assert list(selectors(alone["groups"]["gpu"])) == ["gpu-eth0-ib0"]


def test_a_wish_of_one_group_costs_that_group() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one], **RESOURCE}, "h": {"hosts": [two], "resource": {"name": "a-b"}}}
    plans = plan_groups(facts, groups)["groups"]
    assert plans["g"]["planned"]
    assert not plans["h"]["planned"]
    assert plans["h"]["errors"] == [f"group h: rdma_resource.name is 'a-b'; expected {NAME}"]
    for value in (None, [], "x", {"name": 5}, {"nmae": "x"}, {"name": "x", "prefix": ["a"]}):
        assert not plan_groups(facts, {"h": {"hosts": [two], "resource": value}})["groups"]["h"]["planned"]


def test_a_host_in_two_groups_is_refused() -> None:
    message = "host ib-a100-1 is in two RDMA groups, a and b; put it in one"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_groups(captured("ib-a100-1"), {"b": group("ib-a100-1"), "a": group("ib-a100-1")})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["ib-a100-1", "x"], "no facts of x (1 of 2 hosts); discover the whole group, or use a fact cache"),
        (
            list("gfedcba"),
            "no facts of a, b, c, d, e, ... (7 of 7 hosts); discover the whole group, or use a fact cache",
        ),
        ([], "has no hosts; put some in, or take it out of rdma_groups"),
        (["blind"], "no selectors are exact: host blind: mlx5_0 (0000:3b:00.0) is wanted but has no netdev"),
    ],
)
def test_a_group_without_a_plan_keeps_no_other_from_its_own(members: list[str], message: str) -> None:
    blind = Machine()
    blind.port(blind.hca("mlx5_0", blind.function()), link_layer="InfiniBand")
    facts = {**captured("ib-a100-1", "gb200-1"), "blind": facts_of(blind)}
    groups = {"a": {**group(*members), "strategy": "ifnames"}, "good": group("gb200-1")}
    plan = plan_groups(facts, groups)
    bad = plan["groups"]["a"]
    [error] = bad["errors"]
    assert message in error
    assert error.startswith("group a")
    assert (bad["planned"], bad["classes"], bad["resource"]) == (False, [], "rdma/rdma_x")
    assert set(bad) == set(plan["groups"]["good"])
    assert plan["groups"]["good"] == plan_group("good", {"gb200-1": facts["gb200-1"]}, RESOURCE)


def test_groups_are_planned_each_for_itself() -> None:
    facts = captured("gb200-1", "gb200-2", "ib-a100-1")
    plan = plan_groups(facts, {"gb200": group("gb200-2", "gb200-1"), "ib-a100": group("ib-a100-1")})
    alone = plan_group("gb200", {name: facts[name] for name in ("gb200-1", "gb200-2")}, RESOURCE)
    assert (plan["schema"], list(plan["groups"]), plan["warnings"]) == (1, ["gb200", "ib-a100"], [])
    assert plan["groups"]["gb200"] == alone


# -- What the facts must tell ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {"schema": 1, "kernel": {}, "warnings": []},
            "group g: the facts of a are partial: they say nothing about its devices; run discover again, which gathers all",
        ),
        (
            {"schema": 2, "devices": []},
            "group g: the facts of a have schema 2, this version reads 1: they are of another version; run discover again",
        ),
    ],
)
def test_facts_that_cannot_be_planned_with(facts: Json, message: str) -> None:
    plan = plan_groups({"a": facts}, {"g": group("a")})
    assert (plan["groups"]["g"]["planned"], plan["groups"]["g"]["errors"]) == (False, [message])


def test_a_resource_of_no_devices_is_a_warning() -> None:
    plan = plan_group("g", captured("gb200-1"), {"resource": {"name": "x", "hca_max": 0}})
    assert plan["classes"][0]["config"]["configList"][0]["rdmaHcaMax"] == 0
    assert plan["warnings"] == [
        "rdma_resource.hca_max is 0: the plugin advertises a resource of 0 devices, and no Pod can have one"
    ]


def test_one_machine_in_two_groups_by_two_names() -> None:
    facts = captured("ib-v100-1", "gb200-1")
    facts["again"] = facts["ib-v100-1"]
    groups = {"a": group("ib-v100-1"), "b": group("again"), "c": group("gb200-1")}
    plan = plan_groups(facts, groups)
    both = "hosts again of group b and ib-v100-1 of group a have the same devices, by their node GUIDs"
    for name in "ab":
        assert plan["groups"][name]["planned"] is False
        assert plan["groups"][name]["errors"] == [
            f"group {name}: {both}: they are two names of one machine; take one of them out"
        ]
    assert plan["groups"]["c"]["planned"]
    assert plan["cluster"]["config"] is None
    # captures may be copies
    groups["b"]["replayed"] = ["again"]
    plan = plan_groups(facts, groups)
    assert plan["groups"]["a"]["planned"]
    assert plan["warnings"] == [f"{both}: two captures of one machine?"]


def test_one_resource_over_two_sorts_of_links_is_reported() -> None:
    facts = captured("ib-v100-1", "roce-rails-1")
    groups = {"ib": group("ib-v100-1"), "roce": {**group("roce-rails-1"), "want": {"link_layer": "Ethernet"}}}
    assert plan_groups(facts, groups)["warnings"] == [
        "groups ib and roce both advertise rdma/rdma_x, one over InfiniBand and one over Ethernet: a Pod may get either"
    ]


# -- One configuration for the cluster -------------------------------------------------------------------------------


def test_groups_with_one_resource_are_one_pool() -> None:
    facts = captured("gb200-1", "ib-v100-1")
    groups = {"gb200": group("gb200-1"), "v100": group("ib-v100-1")}
    cluster = plan_groups(facts, groups)["cluster"]
    assert cluster["selectors"] == {"rdma/rdma_x": {"deviceIDs": ["1017", "1021"]}}
    assert len(cluster["config"]["configList"]) == 1
    groups["v100"]["resource"] = {"name": "rdma_x", "hca_max": 8}
    assert plan_groups(facts, groups)["cluster"]["errors"] == [
        "groups gb200 and v100 both have a resource named rdma_x (rdma/rdma_x with hca_max 63, rdma/rdma_x with hca_max 8), "
        "and the plugin does not start with two of one name, whatever their prefix"
    ]


def test_a_configuration_for_all_is_refused_with_an_example_and_a_way_out() -> None:
    facts = captured("ib-v100-1", "ib-a100-1", "ib-a100-2")
    groups = {
        "v100": {"hosts": ["ib-v100-1"], "resource": {"name": "v100"}},
        "a100": {"hosts": ["ib-a100-1", "ib-a100-2"], "resource": {"name": "a100"}},
    }
    cluster = plan_groups(facts, groups)["cluster"]
    assert (cluster["config"], cluster["selectors"], cluster["hosts"]) == (None, {}, 3)
    assert cluster["errors"] == [
        "mlx5_1 (0000:a1:00.0) of host ib-a100-1 is wanted for rdma/a100 and mlx5_1 (0000:a1:00.0) of host ib-a100-2 is not "
        "(port is Down (phys state Disabled), the group wants Active), but the plugin cannot tell them apart by "
        "vendors, deviceIDs, drivers, linkTypes, ifNames"
    ]
    assert cluster["alternative"].startswith("one configuration for each class is exact: the DaemonSets")


def test_a_missing_ipoib_module_is_the_remedy_for_the_cluster_too() -> None:
    facts = {}
    for host, state in (("up", "4: ACTIVE"), ("down", "1: DOWN")):
        machine = Machine()
        hca = machine.hca("mlx5_0", machine.function("0000:3b:00.0"))
        machine.port(hca, link_layer="InfiniBand", state=state)
        facts[host] = facts_of(machine)
    # what is in no group is reached, too, and is not named: nothing of it is wanted
    (error,) = plan_groups(facts, {"g": group("up")})["cluster"]["errors"]
    assert error.endswith(
        "cannot tell them apart by vendors, deviceIDs, drivers, linkTypes, ifNames. InfiniBand devices without a netdev, such as mlx5_0 "
        "of host up, cannot be selected by linkTypes or ifNames: load ib_ipoib on up"
    )


def test_a_host_without_a_usable_port_is_reached_by_it_too() -> None:
    """Its class runs no plugin there, but a configuration for all would offer the dead ports."""
    up = two_ports("eth0", "eth1", "eth0")
    down = two_ports("eth0", "eth1", "neither")
    groups = {"g": {**group("up", "down"), "want": {"link_layer": "Ethernet"}}}
    plan = plan_groups({"up": up, "down": down}, groups)
    assert selectors(plan["groups"]["g"]) == {"g-eth0": {"ifNames": ["eth0"]}}
    assert "mlx5_0 (0000:3b:00.0) of host down is not (port is Down" in plan["cluster"]["errors"][0]
    # nor may it match on a host that is in no group
    groups["g"]["hosts"] = ["up"]
    assert (
        "mlx5_0 (0000:3b:00.0) of host down is not,"
        in plan_groups({"up": up, "down": down}, groups)["cluster"]["errors"][0]
    )

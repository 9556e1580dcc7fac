# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of the SR-IOV plugin offers what the shared one does, or says why it cannot."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given

from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import Function
from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import VERSIONS, sriov_config, sriov_functions
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    CLUSTER,
    SOFTWARE,
    SRIOV_VERSIONS,
    STRATEGY,
    WANT,
    Json,
    check_sriov_refusal,
    routed,
    sriov_pools,
    two_ports,
    virtual_functions,
    wishes,
)


@given(routed(), WANT, STRATEGY)
def test_the_sriov_plugin_offers_the_same(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError:
        assume(False)
    for entry in plan["classes"]:
        if entry["config"] is None:
            continue
        wanted = {host: {row["pci"] for row in entry["matches"][host]} for host in entry["hosts"]}
        sriov = entry["sriov"]
        if sriov["config"] is None:
            check_sriov_refusal(cluster, wanted, sriov["reason"])
            continue
        assert sriov["reason"] is None
        for host, version in itertools.product(entry["hosts"], SRIOV_VERSIONS[sriov["versions"]]):
            (pool,) = list(sriov_pools(cluster[host], sriov["config"], version).values())
            assert pool == wanted[host]


def test_both_outcomes_of_the_sriov_plugin_happen() -> None:
    outcomes = {"config": 0, "in use": 0, "alike": 0}

    @given(CLUSTER, WANT)
    def collect(cluster: dict[str, Json], want: Json) -> None:
        try:
            plan = plan_group("g", cluster, wishes(want))
        except PlanError:
            return
        for entry in plan["classes"]:
            reason = entry["sriov"]["reason"]
            outcomes["config" if reason is None else "in use" if "is wanted, but" in reason else "alike"] += 1

    collect()
    assert outcomes["config"], outcomes
    assert outcomes["in use"], outcomes


ROUTE = "Iface\n{}\t00000000\t0\t3\t0\t0\t0\t00000000\n"


@pytest.mark.parametrize("way", ["bond0", "eth0.100", "eth0"])
def test_what_carries_the_default_route_below_something_else_goes_to_no_pod(way: str) -> None:
    """The plugin asks for a route of the function's own netdev only."""
    machine = Machine()
    function = machine.nic("mlx5_0", "eth0", "0000:3b:00.0")
    if way == "bond0":
        other = machine.nic("mlx5_1", "eth1", "0000:5e:00.0")
        machine.bond(way, "eth0 eth1")
        machine.netdev("eth0", function, master=way)
        machine.netdev("eth1", other, master=way)
    elif way != "eth0":
        machine.link(machine.netdev(way) + "/lower_eth0", function + "/net/eth0")
    machine.file("/proc/net/route", ROUTE.format(way))
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))
    (entry,) = plan["classes"]
    assert entry["sriov"]["config"] is None
    assert entry["sriov"]["reason"].endswith("is wanted, but it carries the default route of the host")
    assert plan["warnings"][0].startswith("host n: mlx5_0 is wanted and carries the default route (")


# -- The SR-IOV plugin -----------------------------------------------------------------------------------------------


def test_a_physical_function_is_not_selected_by_its_name() -> None:
    """Since 3.5.1 only virtual functions have the name of a physical one: pfNames of a physical function selects nothing."""
    facts = two_ports("eth1", "eth10", "eth1")
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["selectors"] == {"ifNames": ["eth1"]}
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource == {
        "resourceName": "rdma_x",
        "resourcePrefix": "rdma",
        "deviceType": "netDevice",
        "selectors": {"pciAddresses": ["0000:3b:00.0"], "isRdma": True},
    }
    assert entry["sriov"]["versions"] == "3.5.1 or newer"
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.0"}}


def test_virtual_functions_are_told_apart_by_the_name_of_the_uplink() -> None:
    facts = virtual_functions(("eth0v0", "eth1v0"), "eth0", "eth1")
    want = {"link_layer": "Ethernet", "kinds": ["vf"], "exclude": ["mlx5_9"]}
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.2"}}
    # a name that a list would take for something else is not used
    facts = virtual_functions(("eth0v0", "eth1v0"), "eth#0", "eth1")
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "pciAddresses": ["0000:3b:00.2"],
        "isRdma": True,
    }


def test_a_virtual_function_without_a_netdev_has_the_link_type_of_its_physical_one() -> None:
    """Since 3.6.0. A physical function in InfiniBand mode keeps another from being selected by linkTypes."""
    values = ("15b3", "1018", "mlx5_core")
    wanted = Function((*values, "ether", "", "a"), "r", "a", ("mlx5_0",), (1,), "")
    other = {
        version: Function((*values, link, "", "b"), "", "b", ("mlx5_1",), (), "")
        for version, link in zip(VERSIONS, ("", "ether", "ether"), strict=True)
    }
    places = {"n": {version: [wanted, other[version]] for version in VERSIONS}}
    found = sriov_config(places, [], {"r": {"name": "x", "prefix": "rdma"}})
    assert found["versions"] == "3.5.1 or newer"
    assert found["config"]["resourceList"][0]["selectors"] == {"pciAddresses": ["a"], "isRdma": True}
    facts = virtual_functions(("", "eth1v0"), "eth0", "eth1")
    seen, _refusals = sriov_functions("n", facts, [])
    assert {version: own[0].values[3] for version, own in seen.items()} == {
        "3.5.1": "",
        "3.6.0": "ether",
        "3.8.0": "ether",
    }


def test_the_other_leg_of_a_lag_may_be_offered() -> None:
    """Since 3.8.0 devlink's enable_rdma makes a function one of RDMA, also that of which the LAG has taken the device."""
    machine = Machine()
    function = machine.nic("mlx5_bond_0", "eth0", "0000:3b:00.0")
    second = machine.function("0000:3b:00.1")
    machine.netdev("eth0", function, master="bond0")
    machine.netdev("eth1", second, master="bond0")
    machine.bond("bond0", "eth0 eth1")
    facts = facts_of(machine)
    assert [member["pci"] for member in facts["devices"][0]["lag"]["members"]] == ["0000:3b:00.0", "0000:3b:00.1"]
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "pciAddresses": ["0000:3b:00.0"],
        "isRdma": True,
    }
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.0"}}


def test_a_function_without_an_rdma_device_may_be_offered() -> None:
    """Since 3.8.0, wherever devlink has enable_rdma for it, as for a function whose RDMA device was never made."""
    machine = Machine()
    machine.nic("mlx5_0", "eth0", "0000:3b:00.0")
    machine.netdev("eth1", machine.function("0000:af:00.0"))
    facts = facts_of(machine)
    assert [row["pci"] for row in facts["bare_functions"]] == ["0000:af:00.0"]
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["versions"] == "3.5.1 or newer"
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "pciAddresses": ["0000:3b:00.0"],
        "isRdma": True,
    }
    for version in SRIOV_VERSIONS["3.5.1 or newer"]:
        assert sriov_pools(facts, entry["sriov"]["config"], version) == {"rdma/rdma_x": {"0000:3b:00.0"}}
    # one that has virtual functions is not offered: these are, in its place
    machine.files(machine.function("0000:af:00.0"), sriov_numvfs=1)
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"devices": ["1017"], "isRdma": True}


def test_a_virtual_function_without_an_rdma_device_may_be_offered() -> None:
    """It has the name of its physical one, and the link type, too, where it has no netdev."""
    facts = virtual_functions(("eth0v0", "eth1v0"), "eth0", "eth1")
    row = {
        "pci": "0000:3b:00.4",
        "vendor": "15b3",
        "device": "1018",
        "driver": "mlx5_core",
        "netdevs": [],
        "link_type": "",
    }
    want = {"link_layer": "Ethernet", "kinds": ["vf"], "exclude": ["mlx5_9"]}
    for above, selectors in (
        ("0000:3b:00.0", {"pciAddresses": ["0000:3b:00.2"]}),
        ("0000:3b:00.1", {"pfNames": ["eth0"]}),
        # of a physical function that is not visible, it may have any link type, and no name
        ("0000:ff:00.0", {"pfNames": ["eth0"]}),
    ):
        facts["bare_functions"] = [{**row, "sriov": {"total": 0, "vfs": 0, "pf": above}}]
        [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
        assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {**selectors, "isRdma": True}
        assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.2"}}


@pytest.mark.parametrize(("netdev", "named"), [("eth7", "eth7"), (None, "a function without a netdev")])
def test_a_function_without_an_rdma_device_that_nothing_tells_apart_is_named(netdev: str | None, named: str) -> None:
    """It is on one host where the wanted one is on another, and alike: then the versions before 3.8.0 have a configuration."""
    facts = {}
    for host, bare, wanted in (("n1", "0000:af:00.0", "0000:3b:00.0"), ("n2", "0000:3b:00.0", "0000:af:00.0")):
        machine = Machine()
        machine.nic("mlx5_0", "eth0", wanted)
        function = machine.function(bare)
        if netdev:
            machine.netdev(netdev, function)
        facts[host] = facts_of(machine)
        facts[host]["bare_functions"][0]["link_type"] = "ether"
    [entry] = plan_group("g", facts, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["versions"] == "3.5.1 to 3.7.0"
    places = {
        host: dict.fromkeys(VERSIONS, rows["3.8.0"])
        for host, rows in ((host, sriov_functions(host, own, function_rows(own))[0]) for host, own in facts.items())
    }
    found = sriov_config(places, [], {"r": {"name": "x", "prefix": "rdma"}})
    assert found["config"] is None
    assert named in found["reason"]


def function_rows(facts: Json) -> list[Function]:
    """What is wanted of a host: its devices."""
    return [Function((), "r", device["pci"], (device["name"],), (1,), "wanted") for device in facts["devices"]]


def test_a_physical_function_without_an_rdma_device_gives_its_name() -> None:
    machine = Machine()
    for number, bus in ((0, "3b"), (1, "af")):
        physical = machine.function(f"0000:{bus}:00.0", sriov_totalvfs=8, sriov_numvfs=1)
        machine.netdev(f"eth{number}", physical)
        virtual = machine.function(f"0000:{bus}:00.2", device="0x1018")
        machine.port(machine.hca(f"mlx5_{number}", virtual))
        machine.netdev(f"eth{number}v0", virtual)
        machine.link(f"{virtual}/physfn", physical)
    facts = facts_of(machine)
    want = {"link_layer": "Ethernet", "kinds": ["vf"], "exclude": ["mlx5_1"]}
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    for version in SRIOV_VERSIONS[entry["sriov"]["versions"]]:
        assert sriov_pools(facts, entry["sriov"]["config"], version) == {"rdma/rdma_x": {"0000:3b:00.2"}}


def test_virtual_functions_of_the_other_leg_of_a_lag_are_known() -> None:
    """Their physical one has a name and a link type, though no RDMA device."""
    machine = Machine()
    legs = [machine.function(f"0000:3b:00.{port}", sriov_totalvfs=8, sriov_numvfs=1) for port in (0, 1)]
    machine.port(machine.hca("mlx5_bond_0", legs[0]))
    machine.bond("bond0", "eth0 eth1")
    for port, leg in enumerate(legs):
        machine.netdev(f"eth{port}", leg, master="bond0")
        virtual = machine.function(f"0000:3b:00.{port + 2}", device="0x1018")
        machine.port(machine.hca(f"mlx5_{port}", virtual))
        machine.link(f"{virtual}/physfn", leg)
    machine.netdev("eth0v0", virtual.replace("00.3", "00.2"))
    facts = facts_of(machine)
    seen, _refusals = sriov_functions("n", facts, [])
    # without a netdev, as while a Pod has it: linkTypes [ether] selects it since 3.6.0
    others = {version: [row for row in own if row.pci == "0000:3b:00.3"] for version, own in seen.items()}
    assert {version: row.values[3:] for version, [row] in others.items()} == {
        "3.5.1": ("", "eth1", "0000:3b:00.3"),
        "3.6.0": ("ether", "eth1", "0000:3b:00.3"),
        "3.8.0": ("ether", "eth1", "0000:3b:00.3"),
    }
    want = {"link_layer": "Ethernet", "kinds": ["vf"], "exclude": ["mlx5_1"]}
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    for version in SRIOV_VERSIONS[entry["sriov"]["versions"]]:
        assert sriov_pools(facts, entry["sriov"]["config"], version) == {"rdma/rdma_x": {"0000:3b:00.2"}}


def test_a_member_of_a_lag_that_is_not_on_pci_gives_its_name_to_nobody() -> None:
    machine = Machine()
    function = machine.nic("mlx5_bond_0", "eth0", "0000:3b:00.0")
    second = machine.function("0000:3b:00.1")
    machine.netdev("eth0", function, master="bond0")
    machine.netdev("eth1", second, master="bond0")
    machine.bond("bond0", "eth0 eth1")
    machine.nic("mlx5_1", "eth2", "0000:af:00.0")
    facts = facts_of(machine)
    [lag] = [device["lag"] for device in facts["devices"] if device["lag"]]
    lag["members"].append({**lag["members"][0], "netdev": "veth0", "pci": None})
    seen, _refusals = sriov_functions("n", facts, [])
    assert {row.values[4] for own in seen.values() for row in own} == {""}


def test_the_link_type_of_a_physical_function_without_an_rdma_device_is_not_known() -> None:
    """Its netdev, which facts do not have, gives virtual functions theirs: no selector goes by what that may be."""
    machine = Machine()
    physical = machine.function("0000:3b:00.0", sriov_totalvfs=8, sriov_numvfs=2)
    machine.netdev("eth0", physical)
    for number in (0, 1):
        virtual = machine.function(f"0000:3b:00.{number + 2}", device="0x1018")
        machine.port(machine.hca(f"mlx5_{number}", virtual, nodes=number == 0))
        machine.link(f"{virtual}/physfn", physical)
    machine.netdev("eth0v0", virtual.replace("00.3", "00.2"))
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet", "kinds": ["vf"]}))["classes"]
    assert entry["matches"]["n"][0]["pci"] == "0000:3b:00.2"
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource["selectors"] == {"pciAddresses": ["0000:3b:00.2"], "isRdma": True}


def test_virtual_functions_of_a_card_that_has_software_devices_only() -> None:
    """The plugin names them by the netdev of the physical one, and offers no function that has virtual ones."""
    machine = Machine()
    for number, bus in ((0, "05"), (1, "06")):
        pci = f"0000:{bus}:00"
        physical = machine.soft_roce(f"rxe{number}", f"eth{number}", f"{pci}.0", sriov_totalvfs=7, sriov_numvfs=1)
        virtual = machine.soft_roce(f"rxe{number + 2}", f"eth{number}v0", f"{pci}.2", device="0x10ca")
        machine.link(f"{virtual}/physfn", physical)
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["rxe0", "rxe1", "rxe3"]}))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:05:00.2"}}
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["rxe2", "rxe3"]}))["classes"]
    assert entry["sriov"]["reason"] == (
        "host n: rxe0 (0000:05:00.0) is wanted, but it has 1 virtual functions, which the plugin offers in its place"
    )


def test_virtual_functions_are_told_from_their_physical_one() -> None:
    machine = Machine()
    physical = machine.nic("mlx5_0", "eth0", "0000:3b:00.0", sriov_totalvfs=8, sriov_numvfs=1)
    machine.link(f"{machine.nic('mlx5_1', 'eth0v0', '0000:3b:00.2')}/physfn", physical)
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet", "kinds": ["vf"]}))["classes"]
    # the plugin leaves the physical function out itself, so nothing but the virtual one is there to be told from
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"devices": ["1017"], "isRdma": True}
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"] == {
        "config": None,
        "versions": None,
        "reason": "host n: mlx5_0 (0000:3b:00.0) is wanted, but it has 1 virtual functions, "
        "which the plugin offers in its place",
    }


def test_what_carries_the_default_route_is_not_offered() -> None:
    machine = Machine()
    machine.nic()
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    [entry] = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["reason"] == (
        "host n: mlx5_0 (0000:3b:00.0) is wanted, but it carries the default route of the host"
    )


def test_what_carries_the_default_route_is_distinguished_from_what_is_wanted() -> None:
    """No version can be relied upon to leave it out: since 3.8.0 none does, and before that they know routes of IPv4 only."""
    machine = Machine()
    machine.nic()
    machine.nic("mlx5_1", "eth1", "0000:5e:00.0")
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    facts = facts_of(machine)
    want = {"link_layer": "Ethernet", "exclude": ["mlx5_0"]}
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource["selectors"] == {"pciAddresses": ["0000:5e:00.0"], "isRdma": True}
    assert entry["sriov"]["versions"] == "3.5.1 or newer"
    for version in SRIOV_VERSIONS[entry["sriov"]["versions"]]:
        assert sriov_pools(facts, entry["sriov"]["config"], version) == {"rdma/rdma_x": {"0000:5e:00.0"}}
    # where another host wants that address, there is no configuration for both
    other = Machine()
    other.nic("mlx5_1", "eth1", "0000:3b:00.0")
    [entry] = plan_group("g", {"n": facts, "o": facts_of(other)}, wishes(want))["classes"]
    assert entry["sriov"]["config"] is None
    assert "mlx5_0 (0000:3b:00.0) of host n" in entry["sriov"]["reason"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._facts import record
from ansible_collections.fabric.rdma.plugins.module_utils._selectors import (
    PlanError,
    _class_name,
    plan_group,
    plan_groups,
    usable_ports,
    validate_wishes,
)
from ansible_collections.fabric.rdma.plugins.module_utils._tree import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of

Json = dict[str, Any]
RESOURCE = {"resource": {"name": "rdma_x"}}


# -- The plugin ------------------------------------------------------------------------------------------------------


def plugin_pool(facts: Json, config: Json) -> set[str]:
    """PCI addresses that the plugin would put in its pool, by the order of its own steps.

    DiscoverHostDevices() and NewPciNetDevice() make the list; GetFilteredDevices() applies one selector after the other, each
    only when its list is not empty (pkg/resources/resources_manager.go, device_selectors.go).
    """
    functions: dict[str, Json] = {}
    for device in facts["devices"]:
        if device["pci"] and device["plugin"]["visible"]:
            functions[device["pci"]] = {
                "vendors": device["vendor"] or "",
                "deviceIDs": device["device"] or "",
                "drivers": device["driver"] or "",
                "ifNames": device["plugin"]["if_name"],
                "linkTypes": device["plugin"]["link_type"],
            }
    [entry] = config["configList"]
    selectors = entry["selectors"]
    assert set(selectors) <= {"vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"}
    # IsEmptySelector(): ValidateConfigs() refuses a resource without selectors
    assert any(selectors.values())
    assert re.search(r"^[a-zA-Z0-9_]+$", entry["resourceName"])
    assert entry["rdmaHcaMax"] >= 0
    left = dict(functions)
    for kind in ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"):
        if selectors.get(kind):
            left = {pci: function for pci, function in left.items() if function[kind] in selectors[kind]}
    return set(left)


# -- Random clusters -------------------------------------------------------------------------------------------------


@st.composite
def device_facts(draw: st.DrawFn, index: int) -> Json:
    """A device as discovery tells it, from few values, so that devices look alike often."""
    link = draw(st.sampled_from(["InfiniBand", "Ethernet"]))
    has_netdev = draw(st.integers(0, 5)) > 0
    netdev = f"eth{index}" if has_netdev else ""
    visible = draw(st.integers(0, 7)) > 0
    row = {
        "name": netdev,
        "type": "ether",
        "operstate": "up",
        "mtu": 1500,
        "master": None,
        "parent": None,
        "pkey": None,
    }
    kind = draw(st.sampled_from(["pf", "pf", "pf", "vf"]))
    return {
        "name": f"mlx5_{index}",
        "kind": kind,
        "pci": f"0000:{index + 1:02x}:00.0",
        "vendor": draw(st.sampled_from(["15b3", "15b3", "8086", None])),
        "device": draw(st.sampled_from(["1017", "101b"])),
        "model": None,
        "class": "020000",
        "driver": draw(st.sampled_from(["mlx5_core", "mlx5_core", "irdma"])),
        "numa_node": None,
        "firmware": None,
        "board_id": None,
        "hca_type": None,
        "node_guid": None,
        "sys_image_guid": None,
        "netdevs": [netdev] if netdev else [],
        "lag": None,
        "sriov": {"total": 0, "vfs": 0, "pf": None},
        "ports": [
            {
                "number": number,
                "link_layer": link,
                "state": draw(st.sampled_from(["Active", "Active", "Down"])),
                "phys_state": "LinkUp",
                "rate_gbps": draw(st.sampled_from([None, 10.0, 100.0])),
                "width": None,
                "speed": None,
                "lid": 0,
                "sm_lid": 0,
                "gids": [],
                "netdevs": [row] if netdev else [],
            }
            for number in range(1, draw(st.sampled_from([1, 1, 1, 2, 0])) + 1)
        ],
        "plugin": {
            "visible": visible,
            "reason": None if visible else "umad device missing: load ib_umad",
            "if_name": netdev,
            "link_type": draw(st.sampled_from(["infiniband" if link == "InfiniBand" else "ether"])) if netdev else "",
        },
    }


@st.composite
def host_facts(draw: st.DrawFn) -> Json:
    devices = [draw(device_facts(index)) for index in range(draw(st.integers(0, 5)))]
    return checked({"schema": 1, "devices": devices, "warnings": []})


CLUSTER = st.lists(host_facts(), min_size=1, max_size=6).map(lambda hosts: {f"n{i}": h for i, h in enumerate(hosts)})
WANT = st.fixed_dictionaries(
    {},
    optional={
        "link_layer": st.sampled_from(["InfiniBand", "Ethernet"]),
        "state": st.sampled_from(["Active", "any"]),
        "min_rate_gbps": st.sampled_from([0, 50]),
        "kinds": st.sampled_from([["pf"], ["pf", "vf"], ["vf"]]),
        "exclude": st.sampled_from([[], ["mlx5_0"], ["eth1", "0000:03:00.0"]]),
    },
)
STRATEGY = st.sampled_from(["auto", "auto", "ifnames", "device_ids"])


def wishes(want: Json, strategy: str = "auto") -> Json:
    return {**RESOURCE, "want": want, "strategy": strategy}


@given(CLUSTER, WANT, STRATEGY)
def test_a_plan_is_exact_or_refused_with_reason(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError as exc:
        check_refusal(cluster, want, strategy, str(exc))
        return
    names = [entry["name"] for entry in plan["classes"]]
    assert len(names) == len(set(names))
    hosts = [host for entry in plan["classes"] for host in entry["hosts"]]
    assert sorted(hosts) == sorted(plan["wanted"]), "every host with a wanted port is in one class"
    for entry in plan["classes"]:
        if strategy == "ifnames":
            assert set(entry["selectors"]) == {"ifNames"}
        for host in entry["hosts"]:
            wanted = {device_of(cluster, host, row["device"])["pci"] for row in plan["wanted"][host]}
            assert plugin_pool(cluster[host], entry["config"]) == wanted
            assert {row["pci"] for row in entry["matches"][host]} == wanted


@given(CLUSTER, WANT, STRATEGY)
def test_no_port_is_lost_silently(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError:
        assume(False)
    every = {(host, d["name"], p["number"]) for host, f in cluster.items() for d in f["devices"] for p in d["ports"]}
    wanted = [(host, row["device"], row["port"]) for host, rows in plan["wanted"].items() for row in rows]
    left_out = []
    for row in plan["exclusions"]:
        numbers = [port["number"] for port in device_of(cluster, row["host"], row["device"])["ports"]]
        left_out += [(row["host"], row["device"], n) for n in ([row["port"]] if row["port"] else numbers)]
        assert row["reason"]
    assert len(wanted) + len(left_out) == len(set(wanted) | set(left_out)), "a port is there once"
    assert set(wanted) | set(left_out) == every
    for host in cluster:
        assert (host in plan["wanted"]) != any(
            text.startswith(f"host {host} has no usable port") for text in plan["errors"]
        )


@given(CLUSTER, WANT, STRATEGY, st.randoms(use_true_random=False))
def test_the_order_of_hosts_changes_nothing(cluster: dict[str, Json], want: Json, strategy: str, random: Any) -> None:
    def outcome(hosts: list[str]) -> str:
        try:
            return json.dumps(plan_group("g", {host: cluster[host] for host in hosts}, wishes(want, strategy)))
        except PlanError as exc:
            return str(exc)

    hosts = list(cluster)
    expected = outcome(hosts)
    random.shuffle(hosts)
    assert outcome(hosts) == expected


def device_of(cluster: dict[str, Json], host: str, name: str) -> Json:
    return next(device for device in cluster[host]["devices"] if device["name"] == name)


KINDS = {"ifnames": ("ifNames",), "device_ids": ("vendors", "deviceIDs", "drivers", "linkTypes")}
ALL_KINDS = ("vendors", "deviceIDs", "drivers", "linkTypes", "ifNames")


def traits(device: Json, kinds: tuple[str, ...]) -> tuple[str, ...]:
    values = {
        "vendors": device["vendor"] or "",
        "deviceIDs": device["device"] or "",
        "drivers": device["driver"] or "",
        "linkTypes": device["plugin"]["link_type"],
        "ifNames": device["plugin"]["if_name"],
    }
    return tuple(values[kind] for kind in kinds)


def check_refusal(cluster: dict[str, Json], want: Json, strategy: str, message: str) -> None:
    """A refusal names a host that, alone, cannot be served; a named pair really looks the same."""
    found = re.match(r"group g: no selectors are exact: host (\w+): ", message)
    assert found, message
    host, kinds = found.group(1), KINDS.get(strategy, ALL_KINDS)
    rows, _refused = usable_ports(cluster[host], validate_wishes("g", wishes(want))["want"])
    visible = [device for device in cluster[host]["devices"] if device["plugin"]["visible"]]
    wanted = [device for device in visible if device["name"] in {row["device"] for row in rows}]
    others = [device for device in visible if device not in wanted]
    pair = re.search(r"host \w+: (\w+) \(.*?\) is wanted and (\w+) \(.*?\) is not", message)
    if pair:
        mine, other = (device_of(cluster, host, name) for name in pair.groups())
        assert mine in wanted
        assert other in others
        assert traits(mine, kinds) == traits(other, kinds)
    elif "has no netdev" in message:
        assert any(not device["plugin"]["if_name"] for device in wanted)
    else:
        # no list of values without an empty one keeps the others out
        usable = [kind for kind in kinds if all(traits(device, (kind,)) != ("",) for device in wanted)]
        lists = {kind: {traits(device, (kind,)) for device in wanted} for kind in usable}
        assert any(all(traits(device, (kind,)) in lists[kind] for kind in usable) for device in others), message


def test_both_outcomes_happen() -> None:
    """The properties above would hold of a planner that refuses everything."""
    outcomes = {"plan": 0, "split": 0, "refused": 0}

    @given(CLUSTER, WANT, STRATEGY)
    def collect(cluster: dict[str, Json], want: Json, strategy: str) -> None:
        try:
            plan = plan_group("g", cluster, wishes(want, strategy))
        except PlanError:
            outcomes["refused"] += 1
        else:
            outcomes["plan"] += bool(plan["classes"])
            outcomes["split"] += len(plan["classes"]) > 1

    collect()
    assert all(outcomes.values()), outcomes


# -- Machines of the groups ------------------------------------------------------------------------------------------


@functools.cache
def captured(*names: str) -> dict[str, Json]:
    return {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in names}


def selectors(plan: Json) -> dict[str, Json]:
    return {entry["name"]: entry["selectors"] for entry in plan["classes"]}


def test_ib_v100_is_the_vendor() -> None:
    plan = plan_group("ib-v100", captured("ib-v100-1", "ib-v100-2"), {"resource": {"name": "rdma_v100"}})
    assert plan["resource"] == "rdma/rdma_v100"
    assert selectors(plan) == {"ib-v100-vendor-15b3": {"vendors": ["15b3"]}}
    assert plan["environment"]["ib-v100-2"] == {
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
    }


def test_what_the_plugin_cannot_see_is_told() -> None:
    machine = Machine()
    machine.entries = dict(record(open_tree(str(CAPTURES / "ib-v100-2.capture"))))
    machine.remove("/sys/class/infiniband_mad")
    plan = plan_group("g", {**captured("ib-v100-1"), "n": facts_of(machine)}, RESOURCE)
    assert [entry["hosts"] for entry in plan["classes"]] == [["ib-v100-1"]]
    reason = "invisible to the plugin: umad device missing: load ib_umad"
    assert plan["exclusions"] == [
        {"host": "n", "device": f"mlx5_{index}", "port": 1, "netdev": f"ibp94s0f{index}", "reason": reason}
        for index in (0, 1)
    ]
    assert plan["errors"] == [f"host n has no usable port (mlx5_0: {reason}; mlx5_1: {reason})"]


def test_ib_a100_is_split_by_the_card_with_the_cable() -> None:
    plan = plan_group("ib-a100", captured("ib-a100-1", "ib-a100-2", "ib-a100-3"), {"resource": {"name": "rdma_a100"}})
    assert selectors(plan) == {
        "ib-a100-ibp33s0": {"ifNames": ["ibp33s0"]},
        "ib-a100-ibp161s0": {"ifNames": ["ibp161s0"]},
    }
    assert {entry["name"]: entry["hosts"] for entry in plan["classes"]} == {
        "ib-a100-ibp33s0": ["ib-a100-2"],
        "ib-a100-ibp161s0": ["ib-a100-1", "ib-a100-3"],
    }
    assert {row["reason"] for row in plan["exclusions"]} == {
        "port is Down (phys state Disabled), the group wants Active",
        "Ethernet bond bond0 (active-backup), the group wants InfiniBand",
    }


def test_gb200_is_one_device_id() -> None:
    plan = plan_group("gb200", captured("gb200-1", "gb200-2"), {"resource": {"name": "rdma_gb200"}})
    assert selectors(plan) == {"gb200-device-1021": {"deviceIDs": ["1021"]}}
    [entry] = plan["classes"]
    assert entry["config"] == {
        "periodicUpdateInterval": 300,
        "configList": [
            {
                "resourceName": "rdma_gb200",
                "resourcePrefix": "rdma",
                "rdmaHcaMax": 63,
                "selectors": {"deviceIDs": ["1021"]},
            }
        ],
    }
    assert [row["device"] for row in entry["matches"]["gb200-2"]] == ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"]
    assert (plan["warnings"], plan["errors"]) == ([], [])


def test_roce_rails_is_the_vendor() -> None:
    want = {"link_layer": "Ethernet", "min_rate_gbps": 100}
    plan = plan_group("roce-rails", captured("roce-rails-1", "roce-rails-2"), wishes(want))
    assert selectors(plan) == {"roce-rails-vendor-15b3": {"vendors": ["15b3"]}}
    assert [len(rows) for rows in plan["wanted"].values()] == [8, 8]


def test_class_names_stay_when_hosts_come_and_go() -> None:
    few = plan_group("g", captured("ib-a100-1", "ib-a100-2"), RESOURCE)
    more = plan_group("g", captured("ib-a100-3", "ib-a100-1", "ib-a100-2"), RESOURCE)
    assert selectors(few) == selectors(more)
    # nodes carry the name in a label: neither the second class nor its end may change that of the first
    alone = plan_group("g", captured("ib-a100-1"), RESOURCE)
    assert selectors(alone) == {"g-ibp161s0": {"ifNames": ["ibp161s0"]}}
    assert selectors(alone).items() < selectors(few).items()


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ({"vendors": ["15b3"]}, "g-vendor-15b3"),
        ({"linkTypes": ["infiniband"]}, "g-link-infiniband"),
        ({"ifNames": ["ib0", "ib1"]}, "g-ib0-ib1"),
        ({"drivers": ["mlx5_core"]}, None),
        ({"vendors": ["15b3"], "linkTypes": ["ether"]}, None),
        ({"ifNames": ["ib0-ib1"]}, None),
        ({"ifNames": ["vendor", "15b3"]}, None),
        ({"ifNames": ["software"]}, None),
        ({"ifNames": [f"ibp{number}s0" for number in range(8)]}, None),
    ],
)
def test_names_of_classes(chosen: dict[str, list[str]], name: str | None) -> None:
    found = _class_name("g", chosen)
    assert found == name or (name is None and re.fullmatch("g-[0-9a-f]{8}", found))


def two_ports(first: str, second: str, wanted: str) -> Json:
    """A host with two like functions, of which one has an Active port."""
    machine = Machine()
    for index, name in enumerate((first, second)):
        function = machine.nic(f"mlx5_{index}", name, f"0000:{59 + index:02x}:00.0")
        state = "4: ACTIVE" if name == wanted else "1: DOWN"
        machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state=state)
    return facts_of(machine)


def test_classes_of_names_that_differ_little_have_different_names() -> None:
    cluster = {
        "a": two_ports("eth-0", "eth.0", "eth-0"),
        "b": two_ports("eth-0", "eth.0", "eth.0"),
        "c": two_ports("ETH-0", "eth-0", "ETH-0"),
    }
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert len(plan["classes"]) == 2
    assert len({re.sub(r"[^a-z0-9-]+", "-", entry["name"].lower()) for entry in plan["classes"]}) == 2


def test_hundreds_of_different_machines_are_planned_in_seconds() -> None:
    cluster = {f"n{i}": two_ports(f"a{i}", f"b{i}", f"a{i}") for i in range(200)}
    cluster.update({f"m{i}": two_ports(f"a{i}", f"b{i}", f"b{i}") for i in range(200)})
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert sum(len(entry["hosts"]) for entry in plan["classes"]) == 400


def test_a_counter_example_names_both() -> None:
    machine = Machine()
    for index, state in enumerate(("4: ACTIVE", "1: DOWN")):
        hca = machine.hca(f"mlx5_{index}", machine.function(f"0000:3b:00.{index}"))
        machine.port(hca, link_layer="InfiniBand", state=state)
    message = (
        "group g: no selectors are exact: host n: mlx5_0 (0000:3b:00.0) is wanted and mlx5_1 (0000:3b:00.1) is not, "
        "but the plugin cannot tell them apart by vendors, deviceIDs, drivers, linkTypes, ifNames"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_group("g", {"n": facts_of(machine)}, RESOURCE)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            "ifnames",
            "group g: no selectors are exact: host n: mlx5_0 (0000:3b:00.0) is wanted but has no netdev, "
            "so no interface name can select it; rdma_selector_strategy: auto may tell them apart",
        ),
        ("device_ids", None),
    ],
)
def test_a_strategy_that_cannot(strategy: str, message: str | None) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), link_layer="InfiniBand")
    given_wishes = wishes({}, strategy)
    if message is None:
        assert selectors(plan_group("g", {"n": facts_of(machine)}, given_wishes)) == {
            "g-device-1017": {"deviceIDs": ["1017"]}
        }
        return
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_group("g", {"n": facts_of(machine)}, given_wishes)


# -- Reasons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "want", "reason"),
    [
        (
            {"link_layer": "InfiniBand", "state": "1: DOWN", "phys_state": "3: Disabled"},
            {},
            "port is Down (phys state Disabled), the group wants Active",
        ),
        (
            {"link_layer": "InfiniBand", "state": "2: INIT"},
            {},
            "port is Init (phys state LinkUp), the group wants Active",
        ),
        (
            {"link_layer": "InfiniBand", "state": None, "phys_state": None},
            {},
            "port is in an unknown state (phys state unknown), the group wants Active",
        ),
        ({}, {}, "Ethernet, the group wants InfiniBand"),
        ({"link_layer": "InfiniBand"}, {"link_layer": "Ethernet"}, "InfiniBand, the group wants Ethernet"),
        ({"link_layer": None}, {}, "link layer unknown, the group wants InfiniBand"),
        (
            {"link_layer": "InfiniBand", "rate": "40 Gb/sec (4X QDR)"},
            {"min_rate_gbps": 100},
            "40 Gb/s (4X QDR), the group wants at least 100 Gb/s",
        ),
        (
            {"link_layer": "InfiniBand", "rate": "2.5 Gb/sec (1X)"},
            {"min_rate_gbps": 12.5},
            "2.5 Gb/s, the group wants at least 12.5 Gb/s",
        ),
        (
            {"link_layer": "InfiniBand", "rate": "?"},
            {"min_rate_gbps": 1},
            "rate unknown, the group wants at least 1 Gb/s",
        ),
        ({}, {"kinds": ["vf", "sf"]}, "physical function, the group wants kinds vf, sf"),
        ({}, {"exclude": ["mlx5_0", "x"]}, "excluded by name (mlx5_0)"),
        ({}, {"exclude": ["eth0", "0000:3b:00.0"]}, "excluded by name (0000:3b:00.0, eth0)"),
    ],
)
def test_why_a_port_is_left_out(port: Json, want: Json, reason: str) -> None:
    machine = Machine()
    function = machine.nic()
    machine.remove(f"{function}/infiniband/mlx5_0/ports")
    machine.port(f"{function}/infiniband/mlx5_0", **port)
    plan = plan_group("g", {"n": facts_of(machine)}, wishes(want))
    number = 1 if "port" in reason or "Gb/s" in reason or "layer" in reason or ", the group wants " in reason else None
    number = None if "kinds" in reason else number
    assert plan["exclusions"] == [{"host": "n", "device": "mlx5_0", "port": number, "netdev": "eth0", "reason": reason}]
    assert plan["errors"] == [f"host n has no usable port (mlx5_0: {reason})"]
    assert (plan["classes"], plan["wanted"], plan["environment"]) == ([], {}, {})


def virtual_function(machine: Machine) -> None:
    physical = machine.function("0000:3b:00.0")
    machine.link(f"{machine.nic(pci='0000:3b:00.2')}/physfn", physical)


def sub_function(machine: Machine) -> None:
    machine.port(machine.hca("mlx5_0", f"{machine.function()}/mlx5_core.sf.4"))


def soft_roce(machine: Machine) -> None:
    machine.port(machine.hca("mlx5_0", None))
    machine.files("/sys/devices/virtual/infiniband/mlx5_0", parent="eth0")


def management(machine: Machine) -> None:
    machine.port(machine.hca("smi1", machine.function()))


def portless(machine: Machine) -> None:
    machine.hca("mlx5_0", machine.function())


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (virtual_function, "virtual function of 0000:3b:00.0, the group wants kinds pf"),
        (sub_function, "sub-function, the group wants kinds pf"),
        (soft_roce, "software device (rdma_rxe), the group wants kinds pf"),
        (management, "management-only device (SMI): it carries no data"),
        (portless, "it has no ports"),
    ],
)
def test_why_a_device_is_left_out(build: Any, reason: str) -> None:
    machine = Machine()
    build(machine)
    [row] = plan_group("g", {"n": facts_of(machine)}, RESOURCE)["exclusions"]
    assert (row["port"], row["reason"]) == (None, reason)


def test_bonds_in_words() -> None:
    machine = Machine()
    machine.nic()
    machine.netdev("eth0", "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", master="bond0")
    machine.bond("bond0", "eth0")
    facts = facts_of(machine)
    [row] = plan_group("g", {"n": facts}, RESOURCE)["exclusions"]
    assert row["reason"] == "Ethernet, enslaved to bond0, the group wants InfiniBand"


def test_software_devices_are_wanted_and_not_advertised() -> None:
    machine = Machine()
    soft_roce(machine)
    plan = plan_group("soft", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "kinds": ["software"]}))
    assert plan["classes"] == [
        {"name": "soft-software", "hosts": ["n"], "selectors": {}, "config": None, "matches": {}}
    ]
    assert plan["environment"] == {"n": {"NCCL_IB_HCA": "=mlx5_0:1", "UCX_NET_DEVICES": "mlx5_0:1"}}
    assert plan["errors"] == []
    assert plan["warnings"] == [
        "n: only software devices are wanted; the shared device plugin lists PCI functions only, "
        "so there is nothing to advertise"
    ]


def test_exclusive_namespaces_and_a_wanted_default_route_are_told() -> None:
    machine = Machine()
    machine.nic()
    machine.file("/sys/module/ib_core/parameters/netns_mode", "N\n")
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))
    assert plan["errors"] == [
        "host n: the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it"
    ]
    assert plan["warnings"] == ["host n: mlx5_0 is wanted and carries the default route (eth0)"]


# -- Wishes and groups -----------------------------------------------------------------------------------------------

NAME = "letters, digits and underscores (the plugin refuses anything else), such as rdma_v100"


@pytest.mark.parametrize(
    ("given_wishes", "message"),
    [
        ({}, f"rdma_resource.name is None; expected {NAME}"),
        ({"resource": {"name": "a-b"}}, f"rdma_resource.name is 'a-b'; expected {NAME}"),
        ({"resource": {"name": "é"}}, f"rdma_resource.name is 'é'; expected {NAME}"),
        ({"resource": {"name": "a\n"}}, f"rdma_resource.name is 'a\\n'; expected {NAME}"),
        ({"resource": []}, "rdma_resource is []; expected a dictionary"),
        ({"resource": {"name": "x", "nmae": 1}}, "rdma_resource has no key nmae; it knows hca_max, name, prefix"),
        (
            {"resource": {"name": "x", "prefix": ""}},
            "rdma_resource.prefix is ''; expected a domain-like prefix, such as rdma",
        ),
        ({"resource": {"name": "_x"}}, f"rdma_resource.name is '_x'; expected {NAME}"),
        ({"resource": {"name": "x" * 64}}, f"rdma_resource.name is '{'x' * 64}'; expected {NAME}"),
        (
            {"resource": {"name": "x", "prefix": "a b/c"}},
            "rdma_resource.prefix is 'a b/c'; expected a domain-like prefix, such as rdma",
        ),
        *(
            (
                {"resource": {"name": "x", "hca_max": value}},
                f"rdma_resource.hca_max is {value!r}; "
                "expected an integer of 0 or more: how many Pods of a node share the devices",
            )
            for value in (-1, True, "63", 1.5)
        ),
        ({"want": {"lnk": 1}}, "rdma_want has no key lnk; it knows exclude, kinds, link_layer, min_rate_gbps, state"),
        ({"want": "x"}, "rdma_want is 'x'; expected a dictionary"),
        ({"want": {"link_layer": "IB"}}, "rdma_want.link_layer is 'IB'; expected one of InfiniBand, Ethernet"),
        ({"want": {"state": "active"}}, "rdma_want.state is 'active'; expected one of Active, any"),
        ({"want": {"min_rate_gbps": -1}}, "rdma_want.min_rate_gbps is -1; expected a number of Gb/s, 0 or more"),
        (
            {"want": {"min_rate_gbps": float("nan")}},
            "rdma_want.min_rate_gbps is nan; expected a number of Gb/s, 0 or more",
        ),
        ({"want": {"min_rate_gbps": "9"}}, "rdma_want.min_rate_gbps is '9'; expected a number of Gb/s, 0 or more"),
        ({"want": {"kinds": []}}, "rdma_want.kinds is []; expected some of pf, vf, sf, software"),
        ({"want": {"kinds": ["PF"]}}, "rdma_want.kinds is ['PF']; expected some of pf, vf, sf, software"),
        ({"want": {"kinds": "pf"}}, "rdma_want.kinds is 'pf'; expected a list of strings"),
        ({"want": {"exclude": [1]}}, "rdma_want.exclude is [1]; expected a list of strings"),
        ({"strategy": "x"}, "rdma_selector_strategy is 'x'; expected one of auto, ifnames, device_ids"),
    ],
)
def test_a_wish_that_makes_no_sense(given_wishes: Json, message: str) -> None:
    if given_wishes and "resource" not in given_wishes:
        given_wishes = {**RESOURCE, **given_wishes}
    with pytest.raises(PlanError, match=f"^{re.escape('group g: ' + message)}$"):
        plan_group("g", {}, given_wishes)


def test_a_port_that_comes_along_is_told() -> None:
    machine = Machine()
    function = machine.nic("mlx4_0", "ib0")
    machine.port(f"{function}/infiniband/mlx4_0", 2, state="1: DOWN")
    plan = plan_group("g", {"a": facts_of(machine)}, {**RESOURCE, "want": {"link_layer": "Ethernet"}})
    assert [row["port"] for row in plan["wanted"]["a"]] == [1]
    assert plan["warnings"] == [
        "host a: mlx4_0 comes as a whole, so Pods that get port 1 can also use port 2 of it, which is not wanted"
    ]


def test_two_names_of_one_machine_are_told() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one, two], **RESOURCE}}
    assert plan_groups(facts, groups)["groups"]["g"]["warnings"] == []
    same = {one: facts[one], two: facts[one]}
    assert plan_groups(same, groups)["groups"]["g"]["warnings"] == [
        f"hosts {one} and {two} both have a device with the node GUID {facts[one]['devices'][0]['node_guid']}: "
        "are they two names of one machine?"
    ]


def test_wishes_have_defaults() -> None:
    assert validate_wishes("g", {**RESOURCE, "want": None, "strategy": None}) == {
        "resource": {"name": "rdma_x", "prefix": "rdma", "hca_max": 63},
        "want": {"link_layer": "InfiniBand", "state": "Active", "min_rate_gbps": 0, "kinds": ["pf"], "exclude": []},
        "strategy": "auto",
    }


def group(*hosts: str) -> Json:
    return {"hosts": list(hosts), **RESOURCE}


def test_a_host_in_two_groups() -> None:
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


def test_facts_of_unknown_age_are_told() -> None:
    facts = captured("gb200-1", "gb200-2")
    plan = plan_groups(facts, {"gb200": group("gb200-2", "gb200-1")}, ["gb200-1"])
    assert plan["warnings"] == [
        "the facts of 1 hosts (gb200-1) are from a fact cache or an earlier step, not discovered by this run: "
        "the plan is as old as they are; run discover to renew them"
    ]


def test_groups_are_planned_each_for_itself() -> None:
    facts = captured("gb200-1", "gb200-2", "ib-a100-1")
    plan = plan_groups(facts, {"gb200": group("gb200-2", "gb200-1"), "ib-a100": group("ib-a100-1")})
    alone = plan_group("gb200", {name: facts[name] for name in ("gb200-1", "gb200-2")}, RESOURCE)
    assert (plan["schema"], list(plan["groups"]), plan["warnings"]) == (1, ["gb200", "ib-a100"], [])
    assert plan["groups"]["gb200"] == alone

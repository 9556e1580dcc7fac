# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors are exact, the smallest that are, and the same for every order of hosts."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import SHARED, Function, classes_of
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    ALL_KINDS,
    CLUSTER,
    RESOURCE,
    STRATEGY,
    WANT,
    Json,
    brute_force,
    captured,
    check_refusal,
    device_of,
    host_facts,
    matched_later,
    plugin_pool,
    ports_of,
    selectors,
    two_ports,
    wanted_devices,
    wishes,
)
from ansible_collections.fabric.rdma.tests.unit.steps import counted


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
        if strategy == "ifnames" and entry["config"]:
            assert set(entry["selectors"]) == {"ifNames"}
        for host in entry["hosts"]:
            devices = [device_of(cluster, host, row["device"]) for row in plan["wanted"][host]]
            wanted = {device["pci"] for device in devices if device["plugin"]["visible"]}
            assert all(device["plugin"]["visible"] or device["kind"] == "software" for device in devices)
            assert (entry["config"] is None) == (not wanted), "what cannot be offered is in a class of its own"
            if not wanted:
                assert any(f"{host}" in text and "nothing to advertise" in text for text in plan["warnings"])
                continue
            assert plugin_pool(cluster[host], entry["config"]) == wanted
            assert {row["pci"] for row in entry["matches"][host]} == wanted


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


def test_virtual_functions_that_come_later_are_not_offered() -> None:
    """The plugin looks again every few minutes, with the selectors that it has."""
    machine = Machine()
    physical = machine.nic("mlx5_0", "eth0", "0000:3b:00.0", device="0x101d", sriov_totalvfs=8)
    [entry] = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "kinds": ["pf"]}))["classes"]
    assert (entry["selectors"], entry["matched_later"]) == ({"deviceIDs": ["101d"]}, [])
    machine.link(f"{machine.nic('mlx5_1', 'eth0v0', '0000:3b:00.2', device='0x101e')}/physfn", physical)
    assert plugin_pool(facts_of(machine), entry["config"]) == {"0000:3b:00.0"}


@examples(60)
@given(
    st.lists(host_facts(), min_size=1, max_size=2).map(lambda hosts: {f"n{i}": h for i, h in enumerate(hosts)}), WANT
)
def test_selectors_are_the_smallest_that_are_exact(cluster: dict[str, Json], want: Json) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want))
    except PlanError as exc:
        host = re.search(r"host (\w+): ", str(exc))
        assert host
        assert not any(brute_force({host.group(1): cluster[host.group(1)]}, want, ALL_KINDS).values())
        return
    plan["classes"] = [entry for entry in plan["classes"] if entry["config"]]
    served = {host for entry in plan["classes"] for host in entry["hosts"]}
    if len(plan["classes"]) != 1:
        together = brute_force({host: cluster[host] for host in served}, want, ALL_KINDS)
        plain = [is_exact for kinds, is_exact in together.items() if "ifNames" not in kinds]
        assert not plan["classes"] or not any(plain), "a group is split when only names are left"
        if any(together.values()):
            names = {device["netdevs"][0] for host in served for device in wanted_devices(plan, cluster, host)}
            assert sum(len(entry["selectors"].get("ifNames", ())) for entry in plan["classes"]) < len(names)
        return
    [entry] = plan["classes"]
    chosen = tuple(entry["selectors"])
    exact = brute_force({host: cluster[host] for host in served}, want, ALL_KINDS)
    assert exact[chosen]
    assert entry["matched_later"] == SHARED.matched_later(chosen) == sorted(matched_later(chosen))
    for kinds, is_exact in exact.items():
        if is_exact and ("ifNames" in chosen) == ("ifNames" in kinds):
            mine, other = len(matched_later(chosen)), len(matched_later(kinds))
            assert mine < other or (mine == other and len(chosen) <= len(kinds)) or "ifNames" in chosen, (kinds, chosen)
    if "ifNames" in chosen:
        assert not any(is_exact for kinds, is_exact in exact.items() if "ifNames" not in kinds), "names come last"


def test_random_clusters_are_planned_split_and_refused() -> None:
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


def test_ib_v100_is_one_device_id() -> None:
    plan = plan_group("ib-v100", captured("ib-v100-1", "ib-v100-2"), {"resource": {"name": "rdma_v100"}})
    assert plan["resource"] == "rdma/rdma_v100"
    assert selectors(plan) == {"ib-v100-device-1017": {"deviceIDs": ["1017"]}}
    assert plan["environment"]["ib-v100-2"] == {
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
    }


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


def test_roce_rails_is_one_device_id() -> None:
    want = {"link_layer": "Ethernet", "min_rate_gbps": 100}
    plan = plan_group("roce-rails", captured("roce-rails-1", "roce-rails-2"), wishes(want))
    assert selectors(plan) == {"roce-rails-device-1017": {"deviceIDs": ["1017"]}}
    assert [len(rows) for rows in plan["wanted"].values()] == [8, 8]


def test_hundreds_of_different_machines_are_planned_in_seconds() -> None:
    cluster = {f"n{i}": two_ports(f"a{i}", f"b{i}", f"a{i}") for i in range(200)}
    cluster.update({f"m{i}": two_ports(f"a{i}", f"b{i}", f"b{i}") for i in range(200)})
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert sum(len(entry["hosts"]) for entry in plan["classes"]) == 400


def test_machines_that_all_differ_cost_as_much_each_as_few_do() -> None:
    """Names of interfaces that contain their hardware's address are other ones on every host."""

    def cost(hosts: int) -> int:
        cluster = {}
        for host in range(hosts):
            machine = Machine()
            for index in range(8):
                function = machine.nic(f"mlx5_{index}", f"enx{host:04x}{index}", f"0000:{16 + index:02x}:00.0")
                state = "1: DOWN" if (8 * host + index) % 100 == 7 else "4: ACTIVE"
                machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state=state)
            cluster[f"n{host}"] = gather(machine.tree(), ("devices",))
        plan, steps = counted(lambda: plan_group("g", cluster, wishes({"link_layer": "Ethernet"})))
        assert sum(len(entry["hosts"]) for entry in plan["classes"]) == hosts
        return steps

    # steps, and not seconds, which are in `make bounds`: a machine that is busy takes any time
    few, many = cost(25), cost(200)
    # eight times as many hosts
    assert many < 9 * few, (few, many)


def test_a_counter_example_names_both() -> None:
    machine = Machine()
    for index, state in enumerate(("4: ACTIVE", "1: DOWN")):
        hca = machine.hca(f"mlx5_{index}", machine.function(f"0000:3b:00.{index}"))
        machine.port(hca, link_layer="InfiniBand", state=state)
    message = (
        "group g: no selectors are exact: host n: mlx5_0 (0000:3b:00.0) is wanted and mlx5_1 (0000:3b:00.1) is not "
        "(port is Down (phys state LinkUp), the group wants Active), but the plugin cannot tell them apart by vendors, deviceIDs, drivers, linkTypes, ifNames"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
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
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        plan_group("g", {"n": facts_of(machine)}, given_wishes)


def host_of(*functions: tuple[str, str, str, bool], sick: bool = False) -> list[Function]:
    """A host with functions: device ID, type of the link, netdev, whether it is wanted. sick: those that are not have a port down."""
    return [
        Function(
            ("15b3", device, "mlx5_core", link, netdev),
            "p" * wanted,
            f"0000:0{at}:00.0",
            (netdev,),
            (1,),
            "",
            sick and not wanted,
        )
        for at, (device, link, netdev, wanted) in enumerate(functions)
    ]


def sorted_out(*hosts: list[Function]) -> set[tuple[str, ...]]:
    """Which hosts, by their letters, are in one class; the same whatever they are called."""
    found = []
    for order in itertools.permutations(range(len(hosts))):
        names = {f"h{place}": "ABC"[index] for place, index in enumerate(order)}
        split, refused = classes_of(
            SHARED, {name: hosts["ABC".index(letter)] for name, letter in names.items()}, "auto"
        )
        assert refused == []
        found.append({tuple(sorted(names[name] for name in members)) for members, _selectors in split})
    assert all(each == found[0] for each in found)
    return found[0]


def test_hosts_that_leave_out_most_come_first() -> None:
    """They say what a class can be; in another order there would be three."""
    hosts = {
        "h0": host_of(("101b", "infiniband", "d", True)),
        "h1": host_of(("1017", "ether", "d", True)),
        "h2": host_of(("1017", "infiniband", "d", False), ("101b", "infiniband", "a", True)),
        "h3": host_of(("1021", "infiniband", "a", False), ("1021", "ether", "d", True)),
    }
    classes, refused = classes_of(SHARED, hosts, "auto")
    assert refused == []
    assert classes == [
        (["h0", "h2"], {"p": {"deviceIDs": ["101b"]}}),
        (["h1", "h3"], {"p": {"deviceIDs": ["1017", "1021"], "linkTypes": ["ether"]}}),
    ]


def test_what_hosts_are_called_says_nothing_about_their_classes() -> None:
    """Of hosts that leave out as much, what they have decides who comes first: B and C both fit to A, and not to each other."""
    a = host_of(("101b", "infiniband", "a", True), ("1017", "ether", "b", False))
    b, c = host_of(("1017", "infiniband", "a", True)), host_of(("101b", "ether", "a", True))
    assert sorted_out(a, b, c) == {("A", "B"), ("C",)}


def test_a_class_that_needs_no_names_stays_without() -> None:
    """A card of B has the same model and link as that of A, and another name: two classes by models, rather than one by names."""
    a = host_of(("101b", "infiniband", "a", True))
    b = host_of(("1017", "infiniband", "a", True), ("101b", "infiniband", "x", False))
    assert sorted_out(a, b) == {("A",), ("B",)}


def test_one_class_by_names_where_it_takes_no_more_of_them() -> None:
    """B can be selected by names only, and those select A as well."""
    a = host_of(("1017", "infiniband", "a", True))
    b = host_of(("101b", "ether", "a", True), ("101b", "ether", "b", False))
    assert sorted_out(a, b) == {("A", "B")}
    assert sorted_out(host_of(("1017", "infiniband", "c", True)), b) == {("A",), ("B",)}


def test_a_host_whose_ports_are_up_is_well_whoever_looks_like_it() -> None:
    """B has a port down that A has not for another reason: A and C are planned as if B were not there, and it is with them."""
    functions = ("1017", "ether", "a", True), ("1021", "ether", "b", False)
    a, b = host_of(*functions), host_of(*functions, sick=True)
    c = host_of(("101b", "ether", "a", True), ("1021", "ether", "b", False))
    assert sorted_out(a, b, c) == {("A", "B", "C")}
    assert sorted_out(b, c) == {("A",), ("B",)}


@pytest.mark.parametrize("again", [False, True], ids=["first plan", "planned before"])
def test_names_are_looked_up_and_not_searched_for(again: bool) -> None:
    """Each host has a card of the same model left out, so that a class has the names of all; some have a port down."""
    compared = 0

    class Name(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def work(count: int) -> int:
        nonlocal compared
        hosts = {
            f"h{number}": host_of(
                ("101b", "infiniband", Name(f"ib{number}"), True),
                ("101b", "infiniband", Name(f"data{number}"), False),
                sick=number % 20 == 0,
            )
            for number in range(count)
        }
        earlier = classes_of(SHARED, hosts, "auto")[0] if again else []
        compared = 0
        classes, refused = classes_of(SHARED, hosts, "auto", earlier)
        assert refused == []
        assert sorted(host for names, _selectors in classes for host in names) == sorted(hosts)
        return compared

    # four times the hosts; twice that work is for trees and luck
    assert work(400) <= 8 * work(100)


def test_earlier_classes_with_the_same_selectors_are_one() -> None:
    """They were two for where their kubelets are, which is looked at again."""
    hosts = {name: host_of(("1017", "ether", "a", True)) for name in ("h0", "h1", "h2")}
    selectors = {"p": {"deviceIDs": ["1017"]}}
    earlier = [(["h0"], selectors), (["h2"], selectors)]
    assert classes_of(SHARED, hosts, "auto", earlier) == ([(["h0", "h1", "h2"], selectors)], [])


def test_names_of_one_host_alone_are_listed() -> None:
    """Where each host has names of its own, one list of all of them would be exact, too, and change with every new host."""
    cluster = {f"n{host}": ports_of(f"a{host}x b{host}x c{host}x") for host in range(5)}
    cluster["other"] = ports_of("a9x b9x c9x")
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet", "exclude": ["b9x"]}))
    assert sorted(len(entry["selectors"].get("ifNames", ())) for entry in plan["classes"]) == [0, 2]
    assert any("would need more names of interfaces" in text for text in plan["warnings"])
    assert all(entry["reason"] for entry in plan["classes"])


def test_twelve_hosts_do_not_follow_one_cable() -> None:
    """They had another class, and so another label, on the day on which a card of one of them went down."""
    want = wishes({"link_layer": "InfiniBand"})
    functions = [("0x1021", "InfiniBand"), ("0x1021", "InfiniBand"), ("0x1017", "InfiniBand")]

    def host(*layers: str, down: int = -1) -> Json:
        machine = Machine()
        for index, (layer, (device, _layer)) in enumerate(zip(layers, functions, strict=False)):
            function = machine.function(f"0000:{index + 1:02x}:00.0", device=device)
            state = "1: DOWN" if index == down else "4: ACTIVE"
            machine.port(machine.hca(f"mlx5_{index}", function), link_layer=layer, state=state)
            machine.netdev(f"ib{index}", function, type=32 if layer == "InfiniBand" else 1)
        return facts_of(machine)

    ib = "InfiniBand"
    cluster = {"h0": host(ib, ib, ib), "h1": host(ib, "Ethernet", ib)}
    cluster |= {f"h{index}": host(ib, ib) for index in range(2, 13)}
    before = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]["classes"]
    cluster["h0"] = host(ib, ib, ib, down=2)
    after = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before})["groups"]["g"][
        "classes"
    ]
    assert [entry["hosts"] for entry in before] == [sorted(cluster)]
    assert {entry["name"]: entry["hosts"] for entry in after}[before[0]["name"]] == sorted({*cluster} - {"h0"})


def test_the_reason_of_a_class_names_functions() -> None:
    cluster = {"a": two_ports("eth0", "eth1", "eth0"), "b": two_ports("eth0", "eth1", "eth1")}
    cluster["c"] = ports_of("eth0 eth1")
    for entry in plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))["classes"]:
        assert re.search(r"mlx5_\d \(0000:..:00\.0\)", entry["reason"]), entry["reason"]

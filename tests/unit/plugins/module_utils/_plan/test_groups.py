# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a group: its wishes, its classes, and that a host that is ill changes nothing for the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._plan import solver
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError, validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import SHARED, Function
from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import plan_manifests
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    CARDS,
    HEALTHY,
    NAME,
    RESOURCE,
    SOFTWARE,
    Json,
    captured,
    cards_of,
    group,
    labels,
    on,
    plugin_pool,
    ports_of,
    replanned,
    selectors,
    soft_node,
    soft_roce,
    two_ports,
    wishes,
)


def test_class_names_stay_when_hosts_come_and_go() -> None:
    few = plan_group("g", captured("ib-a100-1", "ib-a100-2"), RESOURCE)
    more = plan_group("g", captured("ib-a100-3", "ib-a100-1", "ib-a100-2"), RESOURCE)
    assert selectors(few) == selectors(more)
    # nodes carry the name in a label: neither the second class nor its end may change that of the first
    alone = plan_group("g", captured("ib-a100-1"), RESOURCE)
    assert selectors(alone) == {"g-ibp161s0": {"ifNames": ["ibp161s0"]}}
    assert selectors(alone).items() < selectors(few).items()


def test_a_new_card_relabels_no_node() -> None:
    groups = {"g": {**group("a", "b", "c"), "want": {"link_layer": "Ethernet"}}}
    facts = {name: ports_of("eth0", "", ids) for name, ids in (("a", "0x1017"), ("b", "0x1017"), ("c", "0x101b"))}
    first = plan_groups({**facts, "c": facts["a"]}, groups)
    assert list(selectors(first["groups"]["g"])) == ["g-device-1017"]
    later = plan_groups(facts, groups, earlier={"g": first["groups"]["g"]["classes"]})
    assert selectors(later["groups"]["g"]) == {"g-device-1017": {"deviceIDs": ["1017", "101b"]}}
    # nobody who plans for the first time knows of it
    alone = plan_groups(facts, groups)
    assert "g-device-1017" not in selectors(alone["groups"]["g"])


def test_classes_of_names_that_differ_little_have_different_names() -> None:
    cluster = {
        "a": two_ports("eth-0", "eth.0", "eth-0"),
        "b": two_ports("eth-0", "eth.0", "eth.0"),
        "c": two_ports("ETH-0", "eth-0", "ETH-0"),
    }
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert len(plan["classes"]) == 2
    assert len({re.sub(r"[^a-z0-9-]+", "-", entry["name"].lower()) for entry in plan["classes"]}) == 2


def test_a_healthy_host_does_not_follow_a_sick_one() -> None:
    """It would be selected by names, and get another class on the day on which the other one's port comes up."""
    cluster = {
        # by the order of what they are selected by, the sick host comes first
        "sick": ports_of("a0 a1 a2", down="a2"),
        "well": ports_of("a0 a1 a2"),
        "other": ports_of("b0 b1", ids="0x1021"),
    }
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    classes = {tuple(entry["hosts"]): entry["selectors"] for entry in plan["classes"]}
    assert classes.keys() == {("sick",), ("other", "well")}
    assert "ifNames" not in classes["other", "well"]
    assert classes["sick",] == {"ifNames": ["a0", "a1"]}


@given(
    HEALTHY,
    st.sampled_from(["a0 a1", "a0 a1 a2", "b0 b1 b2"]),
    st.sampled_from(["0x1017", "0x1021"]),
    st.integers(0, 2),
)
def test_a_port_that_goes_down_changes_nothing_for_other_hosts(
    others: list[tuple[str, str]], netdevs: str, ids: str, number: int
) -> None:
    """Neither whom they share a class with, nor what it is called and selected by."""
    want = wishes({"link_layer": "Ethernet"})
    cluster = {f"h{index}": ports_of(names, ids=device) for index, (names, device) in enumerate(others)}
    well = {**cluster, "h9": ports_of(netdevs, ids=ids)}
    sick = {**cluster, "h9": ports_of(netdevs, down=netdevs.split()[number % len(netdevs.split())], ids=ids)}

    def of_others(classes: list[Json]) -> dict[str, Any]:
        found = {host: entry for entry in classes for host in entry["hosts"]}
        return {
            host: (found[host]["name"], sorted({*found[host]["hosts"]} - {"h9"})) for host in cluster if host in found
        }

    before = plan_groups({**well}, {"g": {**want, "hosts": sorted(well)}})["groups"]["g"]["classes"]
    after = plan_groups(sick, {"g": {**want, "hosts": sorted(sick)}}, earlier={"g": before})["groups"]["g"]["classes"]
    alone = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before})["groups"]["g"][
        "classes"
    ]
    assert of_others(after) == of_others(alone)


def test_a_port_that_goes_down_on_a_host_that_no_selectors_fit_then() -> None:
    """By device IDs, a port that is down cannot be told from one that is not: that costs its host, and nobody else."""
    want = {**wishes({"link_layer": "Ethernet"}), "strategy": "device_ids"}
    cluster = {name: ports_of("a0 a1") for name in ("h0", "h1", "h2")}
    before = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]
    cluster["h1"] = ports_of("a0 a1", down="a1")
    cluster["h2"] = ports_of("a0 a1", down="a0")
    plan = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before["classes"]})
    after = plan["groups"]["g"]
    assert after["planned"]
    assert [(entry["name"], entry["hosts"]) for entry in after["classes"]] == [(before["classes"][0]["name"], ["h0"])]
    assert [text[: len("host h1: no selectors are exact: ")] for text in after["errors"]] == [
        "host h1: no selectors are exact: ",
        "host h2: no selectors are exact: ",
    ]
    assert sorted(after["wanted"]) == sorted(after["environment"]) == ["h0"]
    assert {row["device"] for row in after["exclusions"] if row["host"] == "h1"} == {"mlx5_0", "mlx5_1"}
    # a configuration that would reach that host, too, is none
    assert plan["cluster"]["config"] is None
    # where all are so, that is how they are: their group cannot be planned
    del cluster["h0"]
    whole = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]
    assert not whole["planned"]
    assert "no selectors are exact" in whole["errors"][0]


def test_a_daemon_set_mounts_one_directory_of_kubelets() -> None:
    """A node that says that it runs k0s costs nobody else anything, whether or not it lies."""
    want = wishes({"link_layer": "Ethernet"})
    cluster = {name: on("kubeadm") for name in ("h0", "h1", "h2")}
    before = plan_group("g", cluster, want)
    assert [entry["hosts"] for entry in before["classes"]] == [["h0", "h1", "h2"]]
    cluster["h1"] = on("k0s")
    plan = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before["classes"]})
    after = plan["groups"]["g"]
    classes = {tuple(entry["hosts"]): entry for entry in after["classes"]}
    assert classes.keys() == {("h1",), ("h0", "h2")}
    assert classes["h0", "h2"]["name"] == before["classes"][0]["name"] != classes["h1",]["name"]
    assert classes["h0", "h2"]["selectors"] == classes["h1",]["selectors"] == before["classes"][0]["selectors"]
    assert "/var/lib/k0s/kubelet" in classes["h1",]["reason"]
    assert any("/var/lib/k0s/kubelet" in text for text in after["warnings"])
    assert not any("no single configuration" in text for text in after["warnings"])
    assert plan["cluster"]["config"]["configList"]
    # not yet in a cluster, or of another distribution with the same directory
    assert len(plan_group("g", {"h0": on(None), "h1": on("k3s"), "h2": on("rke2")}, want)["classes"]) == 1
    settings = {
        "namespace": "rdma",
        "image": "x/y:1",
        "priority_class": "p",
        "kubelet_root": "auto",
        "tolerations": [],
        "resources": {},
        "distributions": {name: facts["runtime"]["distribution"] for name, facts in cluster.items()},
    }
    mounts = {
        path.split("/")[-1]: [volume["hostPath"]["path"] for volume in each["spec"]["template"]["spec"]["volumes"][:1]]
        for path, each in plan_manifests(plan, settings).items()
        if each["kind"] == "DaemonSet"
    }
    assert sorted(mounts.values()) == [["/var/lib/k0s/kubelet/device-plugins"], ["/var/lib/kubelet/device-plugins"]]


@examples(150)
@given(st.lists(CARDS, min_size=1, max_size=4), CARDS, st.booleans(), st.data())
def test_a_port_that_goes_down_and_comes_up_again_changes_nothing_for_other_hosts(
    others: list[tuple[list[str], str | None]], own: tuple[list[str], str | None], spare: bool, data: st.DataObject
) -> None:
    """Also where every host has a card without a cable, and where the host had decided what its class is selected by."""

    def host(cards: tuple[list[str], str | None], down: int | None = None) -> Json:
        machine = Machine()
        for index, ids in enumerate(cards[0]):
            # without a netdev, as InfiniBand is without ib_ipoib
            function = machine.function(f"0000:{16 + index:02x}:00.0", device=ids)
            state = "1: DOWN" if index == down else "4: ACTIVE"
            machine.port(machine.hca(f"mlx5_{index}", function), link_layer="InfiniBand", state=state)
        if cards[1]:
            function = machine.function("0000:50:00.0", device=cards[1])
            machine.port(machine.hca("mlx5_8", function), link_layer="Ethernet")
            machine.netdev("eth0", function)
        if spare:
            function = machine.function("0000:60:00.0", device="0x1015")
            machine.port(machine.hca("mlx5_9", function), link_layer="InfiniBand", state="1: DOWN")
        return facts_of(machine)

    def planned(hosts: dict[str, Json], earlier: Any = None) -> Json:
        known = {"g": earlier} if earlier else None
        wish = {**wishes({"link_layer": "InfiniBand"}), "hosts": sorted(hosts)}
        return plan_groups(hosts, {"g": wish}, earlier=known)["groups"]["g"]

    def of_others(plan: Json) -> dict[str, Any]:
        return {
            name: (entry["name"], [other for other in entry["hosts"] if other != "h9"], entry["config"])
            for entry in plan["classes"]
            for name in entry["hosts"]
            if name != "h9"
        }

    hosts = {f"h{number}": host(cards) for number, cards in enumerate(others)}
    before = planned({**hosts, "h9": host(own)})
    assume(before["planned"] and not before["errors"])
    down = data.draw(st.integers(0, len(own[0]) - 1))
    during = planned({**hosts, "h9": host(own, down)}, before["classes"])
    assert during["planned"]
    assert of_others(during) == of_others(before)
    after = planned({**hosts, "h9": host(own)}, during["classes"])
    assert [(each["name"], each["hosts"], each["config"]) for each in after["classes"]] == [
        (each["name"], each["hosts"], each["config"]) for each in before["classes"]
    ]


def test_the_rest_of_a_class_keeps_its_name_when_most_of_it_goes_down() -> None:
    """A leaf switch is dead: whoever is well is not disturbed, on the way down and back."""
    pair = (("1017", "a0"), ("1021", "a1"))
    hosts = {f"h{number}": cards_of(*pair) for number in range(3)}
    before = replanned(hosts, None)
    sick = {**hosts, "h0": cards_of(*pair, down="a0"), "h1": cards_of(*pair, down="a0")}
    during = replanned(sick, before)
    assert labels(during)["h2"] == labels(before)["h2"] != labels(during)["h0"]
    assert labels(replanned(hosts, during)) == labels(before)


def test_other_wishes_are_another_plan() -> None:
    """A port that never has a cable keeps hosts in their classes, and not in those of wishes that nobody has any more."""
    hosts = {f"h{number}": cards_of(("1017", "a0"), ("1015", "s0"), down="s0") for number in range(2)}
    by_name = replanned(hosts, None, strategy="ifnames")
    assert "ifNames" in by_name[0]["selectors"]
    assert replanned(hosts, by_name, strategy="ifnames") == by_name
    assert "ifNames" not in replanned(hosts, by_name)[0]["selectors"]


def test_hosts_that_come_one_by_one_have_no_class_each() -> None:
    kinds = [("1017", "1021", "101b", "1019", "101d", "a2d6")[number] for number in range(6)]
    hosts: dict[str, Json] = {}
    classes: Any = None
    for number, ids in enumerate(kinds):
        hosts[f"h{number}"] = cards_of((ids, "a0"), ("1015", "s0"), down="s0")
        classes = replanned(hosts, classes)
    assert len(classes) <= 2 * len(replanned(hosts, None)) + 1


def test_a_host_that_was_dark_does_not_join_one_with_a_port_down() -> None:
    sick = cards_of(("1017", "a0"), ("1017", "z0"), down="z0")
    hosts = {"h0": cards_of(("1017", "a0")), "h1": sick}
    before = replanned(hosts, None)
    during = replanned({**hosts, "h0": cards_of(("1017", "a0"), down="a0")}, before)
    assert labels(replanned(hosts, during)) == labels(before)


def test_many_hosts_that_no_selectors_fit_are_left_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf switch that is dead is no reason for a plan of an hour: each sort of host is searched a few times, however many there are."""
    well = Function(("15b3", "1017", "mlx5_core", "", ""), "p", "0000:01:00.0", ("mlx5_0",), (1,), "")
    sick = well._replace(pool="", pci="0000:02:00.0", devices=("mlx5_1",), why="Down", sick=True)
    hosts = {"well": [well]}
    for number in range(200):
        other = sick._replace(values=(*well.values[:4], f"e{number}"), why="", sick=False)
        hosts[f"h{number:04}"] = [well, sick, other]
    made = []

    class Counted(solver.Catalogue):
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(solver, "Catalogue", Counted)
    classes, refused = solver.classes_of(SHARED, hosts, "auto")
    assert ([names for names, _selectors in classes], len(refused)) == ([["well"]], 200)
    assert len(made) < 5 * len(hosts)


def test_software_devices_at_a_function_are_planned_like_any_other() -> None:
    facts = {"a": facts_of(soft_node()), "b": facts_of(soft_node(name="rxe0"))}
    plan = plan_group("soft", facts, wishes(SOFTWARE))
    [entry] = plan["classes"]
    assert (entry["name"], entry["hosts"], entry["selectors"]) == (
        "soft-device-10d3",
        ["a", "b"],
        {"deviceIDs": ["10d3"]},
    )
    assert entry["matches"]["a"] == [{"device": "mlx5_0", "pci": "0000:00:05.0", "if_name": "eth1", "ports": [1]}]
    assert (plan["warnings"], plan["errors"], plan["exclusions"]) == ([], [], [])
    for host, strategy in (("a", "auto"), ("b", "ifnames")):
        [own] = plan_group("soft", facts, wishes(SOFTWARE, strategy))["classes"]
        assert plugin_pool(facts[host], own["config"]) == {"0000:00:05.0"}
    # the SR-IOV plugin looks into the same directory
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert (resource["selectors"], entry["sriov"]["versions"]) == (
        {"devices": ["10d3"], "isRdma": True},
        "3.5.1 or newer",
    )


def test_software_devices_are_selected_by_the_driver_of_their_function() -> None:
    machine = soft_node()
    machine.soft_roce("mlx5_1", "eth3", "0000:00:07.0", driver="igb", state="1: DOWN")
    facts = facts_of(machine)
    assert {device["driver"] for device in facts["devices"]} == {"rdma_rxe"}
    [entry] = plan_group("soft", {"n": facts}, wishes(SOFTWARE))["classes"]
    assert entry["selectors"] == {"deviceIDs": ["10d3"], "drivers": ["e1000e"]}
    assert plugin_pool(facts, entry["config"]) == {"0000:00:05.0"}
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "devices": ["10d3"],
        "drivers": ["e1000e"],
        "isRdma": True,
    }


def test_software_devices_on_a_bond_are_selected_at_the_function_of_a_member() -> None:
    machine = soft_node(netdev="eth3", parent="bond0")
    machine.netdev("eth3", "/sys/devices/pci0000:00/0000:00:05.0", master="bond0")
    machine.bond("bond0", "eth2 eth3")
    # of the bond; the function that its member has would take it along into a Pod
    machine.file("/proc/net/route", "Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    facts = facts_of(machine)
    plan = plan_group("g", {"n": facts}, wishes(SOFTWARE, "ifnames"))
    assert plan["warnings"] == ["host n: mlx5_0 is wanted and carries the default route (bond0)"]
    [entry] = plan["classes"]
    assert (entry["selectors"], plan["wanted"]["n"][0]["netdev"]) == ({"ifNames": ["eth3"]}, "bond0")
    assert entry["sriov"]["config"] is None
    assert (
        entry["sriov"]["reason"]
        == "host n: mlx5_0 (0000:00:05.0) is wanted, but it carries the default route of the host"
    )
    assert plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["bond0"]}))["classes"] == []
    assert plan_group("g", {"n": facts}, RESOURCE)["exclusions"][0]["reason"].startswith("software device (rdma_rxe)")


def test_a_group_with_software_devices_that_are_seen_and_that_are_not() -> None:
    lost, virtual = soft_node(), Machine()
    lost.remove("/sys/class/infiniband_mad")
    soft_roce(virtual)
    machines = {"seen": soft_node(), "lost": lost, "virtual": virtual, "card": Machine()}
    machines["card"].nic()
    facts = {host: facts_of(machine) for host, machine in machines.items()}
    plan = plan_group("g", facts, wishes({**SOFTWARE, "kinds": ["pf", "software"]}))
    [entry, bare] = plan["classes"]
    assert (entry["hosts"], bare["hosts"], bare["config"]) == (["card", "seen"], ["lost", "virtual"], None)
    assert bare["sriov"]["reason"] == "the shared device plugin sees none of the software devices"
    assert plan["warnings"] == [
        "lost: only software devices are wanted; the shared device plugin sees none of them "
        "(mlx5_0: umad device missing: load ib_umad), so there is nothing to advertise",
        "virtual: only software devices are wanted; the shared device plugin lists PCI functions only, "
        "so there is nothing to advertise",
    ]


def test_a_function_with_two_devices_is_named_by_the_one_that_is_wanted() -> None:
    machine = Machine()
    function = machine.nic("mlx5_0", "eth0")
    machine.port(machine.hca("a_rxe", function, parent="eth0"))
    facts = facts_of(machine)
    for kind, name in (("pf", "mlx5_0"), ("software", "a_rxe")):
        [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "kinds": [kind]}))["classes"]
        [match] = entry["matches"]["n"]
        assert (match["device"], plugin_pool(facts, entry["config"])) == (name, {"0000:3b:00.0"})


def test_a_host_with_exclusive_namespaces_is_in_no_class() -> None:
    """The plugin exits there, so a rollout to it, with unusable hosts allowed, would never be ready."""
    machine = Machine()
    machine.nic()
    good = facts_of(machine)
    machine.file("/sys/module/ib_core/parameters/netns_mode", "N\n")
    plan = plan_group("g", {"n": facts_of(machine), "good": good}, wishes({"link_layer": "Ethernet"}))
    reason = "the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it"
    [error] = plan["errors"]
    assert error.startswith(f"host n: {reason} (set it to shared: rdma system set netns shared")
    assert [entry["hosts"] for entry in plan["classes"]] == [["good"]]
    assert (list(plan["wanted"]), list(plan["environment"])) == (["good"], ["good"])
    [row] = plan["exclusions"]
    assert (row["host"], row["device"], row["port"]) == ("n", "mlx5_0", 1)
    assert row["reason"].startswith(reason)
    # nor does one for the whole cluster offer what it has
    groups = {"g": {"hosts": ["good", "n"], **wishes({"link_layer": "Ethernet"})}}
    [error] = plan_groups({"n": facts_of(machine), "good": good}, groups)["cluster"]["errors"]
    assert "mlx5_0 (0000:3b:00.0) of host n is not (the RDMA network namespace mode is exclusive" in error


@pytest.mark.parametrize(
    ("given_wishes", "message"),
    [
        ({}, f"rdma_resource.name is None; expected {NAME}"),
        ({"resource": {"name": "a-b"}}, f"rdma_resource.name is 'a-b'; expected {NAME}"),
        ({"resource": {"name": "é"}}, f"rdma_resource.name is 'é'; expected {NAME}"),
        ({"resource": {"name": "a\n"}}, f"rdma_resource.name is 'a\\n'; expected {NAME}"),
        ({"resource": []}, "rdma_resource is of type list; expected a dictionary"),
        (
            {"resource": {"name": "x", "nmae": 1}},
            "rdma_resource has no key nmae; it knows hca_max, name, prefix; did you mean name?",
        ),
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
                "expected an integer from 0 to 10000: how many Pods of a node share the devices",
            )
            for value in (-1, True, "63", 1.5, 10**12, 10001)
        ),
        *(
            (
                {"resource": {"name": "x", "prefix": prefix}},
                f"rdma_resource.prefix is '{prefix}'; expected a prefix that Kubernetes lets others have: "
                "none that ends with kubernetes.io or starts with requests.",
            )
            for prefix in ("kubernetes.io", "node.kubernetes.io", "mykubernetes.io", "requests.example.com")
        ),
        (
            {"resource": {"name": "x", "prefix": "a" * 245}},
            f"rdma_resource.prefix is '{'a' * 79}...; expected a domain-like prefix, such as rdma",
        ),
        ({"want": {"lnk": 1}}, "rdma_want has no key lnk; it knows exclude, kinds, link_layer, min_rate_gbps, state"),
        ({"want": "x"}, "rdma_want is of type str; expected a dictionary"),
        ({"want": {"link_layer": "IB"}}, "rdma_want.link_layer is 'IB'; expected one of InfiniBand, Ethernet"),
        (
            {"want": {"state": "active"}},
            "rdma_want.state is 'active'; expected one of Active, any; did you mean Active?",
        ),
        ({"want": {"min_rate_gbps": -1}}, "rdma_want.min_rate_gbps is -1; expected a number of Gb/s, 0 or more"),
        (
            {"want": {"min_rate_gbps": float("nan")}},
            "rdma_want.min_rate_gbps is nan; expected a number of Gb/s, 0 or more",
        ),
        ({"want": {"min_rate_gbps": "9"}}, "rdma_want.min_rate_gbps is '9'; expected a number of Gb/s, 0 or more"),
        ({"want": {"kinds": []}}, "rdma_want.kinds is []; expected some of pf, vf, sf, software"),
        (
            {"want": {"kinds": ["PF"]}},
            "rdma_want.kinds is ['PF']; expected some of pf, vf, sf, software; did you mean pf?",
        ),
        ({"want": {"kinds": "pf"}}, "rdma_want.kinds is 'pf'; expected a list of strings"),
        ({"want": {"exclude": [1]}}, "rdma_want.exclude is [1]; expected a list of strings"),
        *(
            (
                {"rails": value},
                f"rdma_rails is {value!r}; expected true, false, or a pattern of names with {{rail}} in it, "
                "such as {name}_gpu{rail}" + more,
            )
            for value, more in (
                (1, ""),
                ("x", ""),
                ([], ""),
                ("", ""),
                (
                    "a-{rail}",
                    ", that makes names of letters, digits and underscores, at most 63 (a-99 is not one)",
                ),
            )
        ),
        ({"strategy": "x"}, "rdma_selector_strategy is 'x'; expected one of auto, ifnames, device_ids"),
    ],
)
def test_an_invalid_wish_is_refused(given_wishes: Json, message: str) -> None:
    if given_wishes and "resource" not in given_wishes:
        given_wishes = {**RESOURCE, **given_wishes}
    with pytest.raises(PlanError, match=f"^{re.escape('group g: ' + message)}$"):
        plan_group("g", {}, given_wishes)


@pytest.mark.parametrize(
    ("group_wishes", "message"),
    [
        (None, "group g: its wishes are None; expected a dictionary"),
        ({"hosts": "gb200-1", **RESOURCE}, "group g: its hosts are 'gb200-1'; expected a list of names"),
        ({"hosts": [1], **RESOURCE}, "group g: its hosts are [1]; expected a list of names"),
        ({"hosts": 1, **RESOURCE}, "group g: its hosts are 1; expected a list of names"),
    ],
)
def test_a_group_of_another_form_is_refused(group_wishes: Any, message: str) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_groups(captured("gb200-1"), {"g": group_wishes})


@pytest.mark.parametrize("hosts", [{}, {"hosts": None}])
def test_a_group_that_does_not_say_its_hosts(hosts: Json) -> None:
    [error] = plan_groups({}, {"g": {**hosts, **RESOURCE}})["groups"]["g"]["errors"]
    assert error == "group g has no hosts; put some in, or take it out of rdma_groups"


def test_two_names_of_one_machine_are_reported() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one, two], **RESOURCE}}
    assert plan_groups(facts, groups)["groups"]["g"]["warnings"] == []
    same = {one: facts[one], two: facts[one]}
    assert plan_groups(same, groups)["groups"]["g"]["warnings"] == [
        f"hosts {one} and {two} both have a device with the node GUID {facts[one]['devices'][0]['node_guid']}: "
        "are they two names of one machine?"
    ]


def test_many_copies_of_a_machine_are_one_warning() -> None:
    """A fleet of virtual machines made of one image would have one for each."""
    facts = next(iter(captured("ib-v100-1").values()))
    hosts = [f"gpu-{number:03}" for number in range(1, 101)]
    plan = plan_groups(dict.fromkeys(hosts, facts), {"g": {"hosts": hosts, **RESOURCE}})
    assert plan["groups"]["g"]["warnings"] == [
        f"gpu-001..gpu-100 (100 hosts) all have a device with the node GUID {facts['devices'][0]['node_guid']}: "
        "are they names of one machine, or copies of it?"
    ]


def test_facts_that_are_not_of_this_run_are_reported_with_their_age() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one, two], **RESOURCE}}
    fresh = plan_groups(facts, groups)
    assert (fresh["groups"]["g"]["cached"], fresh["warnings"]) == ({}, [])
    times = {one: "2026-03-01T08:15:00Z", two: "2026-03-02T09:30:59Z"}
    plan = plan_groups(facts, groups, times)
    assert plan["groups"]["g"]["cached"] == times
    assert "(facts of 2026-03-01 08:15 UTC to 2026-03-02 09:30 UTC)" in plan["warnings"][0]
    text = " ".join(plan_table(plan["groups"]["g"]))
    assert "facts of 2 hosts are not of this run, but of 2026-03-01 08:15 UTC to 2026-03-02 09:30 UTC" in text
    unknown = plan_groups(facts, groups, {one: None, two: times[two]})
    assert "(facts of 2026-03-02 09:30 UTC, some of unknown age)" in unknown["warnings"][0]


def test_a_wish_that_is_missing_gets_its_default() -> None:
    assert validate_wishes("g", {**RESOURCE, "want": None, "strategy": None}) == {
        "resource": {"name": "rdma_x", "prefix": "rdma", "hca_max": 63},
        "want": {"link_layer": "InfiniBand", "state": "Active", "min_rate_gbps": 0, "kinds": ["pf"], "exclude": []},
        "strategy": "auto",
        "rails": None,
    }

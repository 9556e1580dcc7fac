# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails: one resource for each GPU and the HCA under the same PCIe switch."""

from __future__ import annotations

import copy
import functools
import itertools
import re
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.rails import (
    Host,
    RailError,
    check_rails,
    group_rails,
    rail_host,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, checked

Json = dict[str, Any]
WISHES = {"resource": {"name": "cx5"}, "want": {"link_layer": "Ethernet"}, "rails": True}


def hca(index: int, pci: str, bridges: list[str], netdev: str, state: str = "Active") -> Json:
    return {
        "name": f"mlx5_{index}",
        "kind": "pf",
        "pci": pci,
        "bridges": bridges,
        "vendor": "15b3",
        "device": "1017",
        "model": None,
        "class": "020000",
        "driver": "mlx5_core",
        "numa_node": None,
        "firmware": None,
        "board_id": None,
        "hca_type": None,
        "node_guid": None,
        "sys_image_guid": None,
        "netdevs": [netdev],
        "lag": None,
        "sriov": {"total": 0, "vfs": 0, "pf": None},
        "ports": [
            {
                "number": 1,
                "link_layer": "Ethernet",
                "state": state,
                "phys_state": "LinkUp",
                "rate_gbps": 100.0,
                "width": None,
                "speed": None,
                "lid": 0,
                "sm_lid": 0,
                "gids": [],
                "netdevs": [],
            }
        ],
        "plugin": {"visible": True, "reason": None, "if_name": netdev, "link_type": "ether"},
    }


Places = set[tuple[int, int]]


def facts_of_switches(
    switches: list[tuple[int, int]], down: Places = frozenset(), gone: Places = frozenset(), ports: bool = True
) -> Json:
    """A host with so many (GPUs, HCAs) under each switch, below one switch more; down and gone are (switch, HCA).

    ports: each device is at a downstream port of its own, as on real switches. Virtual machines have them at one port.
    """
    devices, gpus = [], []
    for at, (cards, nics) in enumerate(switches):
        above = ("0000:00:01.0", "0000:01:00.0", f"0000:02:{at:02x}.0")

        def bridges(port: int, at: int = at, above: tuple[str, ...] = above) -> list[str]:
            return [*above, f"0000:{0x80 + at:02x}:00.0", f"0000:{0x90 + at:02x}:{port:02x}.0"] if ports else [*above]

        for card in range(cards):
            pci = f"0000:{0x10 + 16 * at + card:02x}:00.0"
            gpu = {"pci": pci, "bridges": bridges(card), "vendor": "10de", "device": None, "numa_node": None}
            gpus.append({**gpu, "nearest": []})
        for nic in range(nics):
            if (at, nic) not in gone:
                pci = f"0000:{0x18 + 16 * at + nic:02x}:00.0"
                state = "Down" if (at, nic) in down else "Active"
                devices.append(hca(len(devices), pci, bridges(16 + nic), f"eth{at}_{nic}", state))
    return checked({"schema": 1, "devices": devices, "gpus": gpus, "warnings": []})


def truth(switches: list[tuple[int, int]]) -> list[tuple[list[str], list[str]]]:
    """(GPUs, netdevs) of each rail, written down by the sorts of switches that the tests have."""
    rails = []
    for at, (cards, nics) in enumerate(switches):
        addresses = [f"0000:{0x10 + 16 * at + card:02x}:00.0" for card in range(cards)]
        names = [f"eth{at}_{nic}" for nic in range(nics)]
        if cards == nics:
            rails += [([gpu], [name]) for gpu, name in zip(addresses, names, strict=True)]
        elif nics == 1 or cards == 1:
            rails.append((addresses, names))
        elif (cards, nics) == (4, 2):
            rails += [(addresses[:2], names[:1]), (addresses[2:], names[1:])]
        else:
            raise AssertionError
    return rails


# no two of them have as many GPUs but several, and other HCAs: one of them would lack some
SWITCHES = st.lists(st.sampled_from([(1, 1), (2, 2), (3, 1), (1, 2), (4, 2), (8, 8)]), min_size=1, max_size=4)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[tuple[int, int]], dict[str, tuple[Places, Places]], bool]:
    """Switches that all hosts have, and what is down and gone on each host; one host has all."""
    switches = draw(SWITCHES)
    places = [(at, nic) for at, (_cards, nics) in enumerate(switches) for nic in range(nics)]
    lost = st.one_of(st.just(set()), st.sets(st.sampled_from(places)))
    hosts = draw(st.lists(st.tuples(lost, lost), max_size=3))
    hosts.insert(draw(st.integers(0, len(hosts))), (draw(lost), set()))
    return switches, {f"n{index}": both for index, both in enumerate(hosts)}, draw(st.booleans())


def offered(facts: Json, config: Json) -> dict[str, list[str]]:
    """Netdevs that the plugin puts in each pool; the devices here differ by nothing else."""
    pools: dict[str, list[str]] = {}
    for entry in config["configList"]:
        assert entry["resourceName"] not in pools
        values = entry["selectors"]
        fixed = {"vendors": "15b3", "deviceIDs": "1017", "drivers": "mlx5_core", "linkTypes": "ether"}
        assert values
        pools[entry["resourceName"]] = [
            device["plugin"]["if_name"]
            for device in facts["devices"]
            if all(fixed.get(kind, device["plugin"]["if_name"]) in chosen for kind, chosen in values.items())
        ]
    return pools


@examples(50)
@given(clusters())
def test_rails_are_exact_and_a_lost_cable_or_hca_shifts_none(cluster: Any) -> None:
    switches, hosts, ports = cluster
    facts = {host: facts_of_switches(switches, down, gone, ports) for host, (down, gone) in hosts.items()}
    plan = plan_group("g", facts, WISHES)
    rails = truth(switches)
    assert plan["resource"] == "rdma/cx5_gpu{rail}"
    assert plan["resources"] == [
        {"resource": f"rdma/cx5_gpu{number}", "rail": number} for number in range(1, len(rails) + 1)
    ]
    classes = {host: entry for entry in plan["classes"] for host in entry["hosts"]}
    for host, (down, gone) in hosts.items():
        assert [row["gpus"] for row in plan["rails"][host]] == [gpus for gpus, _names in rails]
        lost = {f"eth{at}_{nic}" for at, nic in down | gone}
        expected = {f"cx5_gpu{number}": set(names) - lost for number, (_gpus, names) in enumerate(rails, 1)}
        if not any(expected.values()):
            assert host not in classes
            assert any(text.startswith(f"host {host} has no usable port") for text in plan["errors"])
            continue
        found = offered(facts[host], classes[host]["config"])
        assert {name: set(names) for name, names in found.items() if names} == {
            name: names for name, names in expected.items() if names
        }
        for name, names in expected.items():
            number = name.removeprefix("cx5_gpu")
            told = any(text.startswith(f"host {host} has nothing on rail {number} (") for text in plan["errors"])
            assert told == (not names)


@pytest.mark.parametrize("ports", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 2), (4, 2), (8, 8)])
def test_a_dead_hca_shifts_no_rail(shape: tuple[int, int], ports: bool) -> None:
    """Three switches; the first HCA of the second is dead, and that of a host with one switch, which has no other then."""
    for count, place in ((3, 1), (1, 0)):
        switches = [shape] * count
        dead = {(place, 0)}
        facts = {
            "a": facts_of_switches(switches, gone=dead, ports=ports),
            "b": facts_of_switches(switches, ports=ports),
            "c": facts_of_switches(switches, ports=ports),
        }
        plan = plan_group("g", facts, WISHES)
        rails = truth(switches)
        lost = next(number for number, (_gpus, names) in enumerate(rails, 1) if names == [f"eth{place}_0"])
        names = {host: {row["rail"]: row["devices"] for row in plan["rails"][host]} for host in facts}
        assert list(names["a"]) == list(range(1, len(rails) + 1))
        assert (names["a"][lost], names["b"] == names["c"]) == ([], True)
        told = f"host a has nothing on rail {lost} (" if any(names["a"].values()) else "host a has no usable port"
        assert any(text.startswith(told) for text in plan["errors"])
        for entry in plan["classes"]:
            for host in entry["hosts"]:
                for row in entry["matches"][host]:
                    assert row["if_name"] in rails[row["rail"] - 1][1]


# What is at the devices of a bus: "gpu", the name of an HCA's netdev, or the bus of a bridge.
Bus = dict[int, Any]

# How the addresses of a host may come about: the domain, the first bus, the device of the first root port, and whether a port
# without an HCA has a bus all the same.
WAYS: dict[str, Json] = {
    "same": {},
    "domain": {"domain": 1},
    "busses": {"first": 0x21},
    "renumbered": {"spare": False},
    "slot": {"slot": 4, "spare": False},
}


def enumerated(
    roots: list[Bus], gone: set[str] = frozenset(), domain: int = 0, first: int = 0, slot: int = 0, spare: bool = True
) -> Json:
    """A host whose busses are numbered depth-first, as the firmware does it."""
    devices: list[Json] = []
    gpus: list[Json] = []
    bus = itertools.count(first)

    def left(node: Any) -> bool:
        return any(left(below) for below in node.values()) if isinstance(node, dict) else node not in gone

    def visit(children: Bus, number: int, above: list[str], shift: int = 0) -> None:
        for device, node in sorted(children.items()):
            pci = f"{domain:04x}:{number:02x}:{device + shift:02x}.0"
            if isinstance(node, dict):
                if spare or left(node):
                    visit(node, next(bus), [*above, pci])
            elif node == "gpu":
                gpu = {"pci": pci, "bridges": above, "vendor": "10de", "device": None, "numa_node": None}
                gpus.append({**gpu, "nearest": []})
            elif node not in gone:
                devices.append(hca(len(devices), pci, above, node))

    for root in roots:
        visit(root, next(bus), [], slot)
    return checked({"schema": 1, "devices": devices, "gpus": gpus, "warnings": []})


def switch(at: int, shape: tuple[int, int], ports: bool) -> Bus:
    """The bus below a root port that leads to the switch of this number; the HCAs come first, so that the GPUs move with them."""
    cards, nics = shape
    things = {nic: f"eth{at}_{nic}" for nic in range(nics)} | {16 + card: "gpu" for card in range(cards)}
    return {0: {port: {0: thing} for port, thing in things.items()} if ports else things}


@functools.cache
def planned_rails(shape: tuple[int, int], count: int) -> dict[str, int]:
    """The rail of each netdev."""
    rails = truth([shape] * count)
    return {name: number for number, (_gpus, names) in enumerate(rails, 1) for name in names}


@pytest.mark.parametrize("hosts", [1, 2, 5])
@pytest.mark.parametrize("ports", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 2), (4, 2), (8, 8)])
def test_a_dead_hca_shifts_no_rail_whatever_the_addresses(
    shape: tuple[int, int], way: str, ports: bool, hosts: int
) -> None:
    """Each HCA is dead in turn; the other hosts have theirs, at the same addresses or at others."""
    count = 2 if shape == (8, 8) else 3
    roots = [{1 + at: switch(at, shape, ports)} for at in range(count)]
    expected = planned_rails(shape, count)
    others = {f"b{at}": enumerated(roots, **[WAYS["same"], WAYS["busses"]][at % 2]) for at in range(hosts - 1)}
    for dead in expected:
        facts = {"a": enumerated(roots, {dead}, **WAYS[way]), **others}
        if hosts == 1 and shape[1] > 1:
            # nobody knows which one is missing
            with pytest.raises(
                PlanError, match=r"^group g: host a: .* so the rail without an HCA cannot be identified; .*exclude"
            ):
                plan_group("g", facts, WISHES)
            continue
        plan = plan_group("g", facts, WISHES)
        for host, rows in plan["rails"].items():
            names = {device["name"]: device["plugin"]["if_name"] for device in facts[host]["devices"]}
            found = {names[device]: row["rail"] for row in rows for device in row["devices"]}
            assert found == {name: rail for name, rail in expected.items() if host != "a" or name != dead}
            assert len(rows) == len(truth([shape] * count))


def test_the_only_hca_of_a_host_is_known_to_be_missing() -> None:
    """Two GPUs share the one HCA of the host: it has one rail, which has none."""
    roots = [{1: switch(0, (2, 1), True)}]
    facts = {"a": enumerated(roots, {"eth0_0"}, **WAYS["slot"]), "b": enumerated(roots)}
    rails = plan_group("g", facts, WISHES)["rails"]
    assert [(row["rail"], len(row["gpus"]), row["devices"]) for row in rails["a"]] == [(1, 2, [])]


def test_gpus_at_other_ports_are_compared_by_their_switches() -> None:
    """Another make: a switch that has lost all is known, one that has lost some is not."""
    whole = [{1 + at: switch(at, (4, 2), True)} for at in range(3)]
    other = [{1 + at: {1: switch(at, (4, 2), True)[0]}} for at in range(3)]
    facts = {"a": enumerated(other, {"eth1_0", "eth1_1"}), "b": enumerated(whole)}
    rows = plan_group("g", facts, WISHES)["rails"]["a"]
    assert [(row["rail"], len(row["devices"])) for row in rows] == [(1, 1), (2, 1), (3, 0), (4, 0), (5, 1), (6, 1)]
    facts["a"] = enumerated(other, {"eth1_0"})
    with pytest.raises(PlanError, match=r"host a: .* cannot be identified"):
        plan_group("g", facts, WISHES)


def at_other_ports(shapes: list[tuple[int, int]], lost: set[str] = frozenset(), shift: int = 4) -> Json:
    """A host whose GPUs are at ports that the hosts of enumerated() do not have them at."""
    roots = []
    for at, (cards, nics) in enumerate(shapes):
        things = {nic: f"eth{at}_{nic}" for nic in range(nics)} | {16 + shift + card: "gpu" for card in range(cards)}
        roots.append({1 + at: {0: {port: {0: thing} for port, thing in things.items()}}})
    return enumerated(roots, lost)


def of_shapes(shapes: list[tuple[int, int]], lost: set[str] = frozenset()) -> Json:
    return at_other_ports(shapes, lost, shift=0)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        # (GPUs, HCAs) of each rail of the first host
        ([at_other_ports([(2, 1)], {"eth0_0"}), of_shapes([(2, 1)])], [(2, 0)]),
        # its other switch says one GPU a rail
        ([at_other_ports([(2, 1), (1, 1)], {"eth0_0"}), of_shapes([(2, 1), (1, 1)])], [(2, 0), (1, 1)]),
        # others have lost something, too
        ([at_other_ports([(2, 1)] * 2, {"eth0_0", "eth1_0"}), of_shapes([(2, 1)] * 2, {"eth1_0"})], [(2, 0), (2, 0)]),
        # the host with the most HCAs is another make; the next one tells
        ([at_other_ports([(2, 1)], {"eth0_0"}), of_shapes([(1, 2)]), of_shapes([(2, 1)])], [(2, 0)]),
        # no host has its GPUs under such switches
        ([at_other_ports([(1, 1)], {"eth0_0"}), of_shapes([(2, 1)])], [(1, 0)]),
        ([at_other_ports([(2, 2)], {"eth0_0", "eth0_1"}), of_shapes([(1, 1)])], [(1, 0), (1, 0)]),
    ],
)
def test_rails_of_a_switch_without_hcas_are_those_of_hosts_with_such_switches(
    hosts: list[Json], expected: list[tuple[int, int]]
) -> None:
    seen = {
        f"n{at}": rail_host(f"n{at}", own, {device["pci"] for device in own["devices"]}) for at, own in enumerate(hosts)
    }
    rails = group_rails(seen)["n0"]
    assert [(len(rail.gpu_addresses), len(rail.functions)) for rail in rails] == expected
    assert [rail.number for rail in rails] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize("lost", ["eth0_0", "eth0_1"])
def test_a_host_that_has_lost_as_many_does_not_tell_which(lost: str) -> None:
    """Two GPUs with one of two HCAs; on a host of another make, the first of two GPUs under switches of their own has none."""
    mine = [(2, 2), (2, 2), (1, 1)]
    hosts = {"a": at_other_ports(mine, {lost, "eth2_0"}), "b": of_shapes([(1, 1), *mine[:2]], {"eth0_0"})}
    seen = {name: rail_host(name, own, {device["pci"] for device in own["devices"]}) for name, own in hosts.items()}
    with pytest.raises(RailError, match=r"host a: .* cannot be identified"):
        group_rails(seen)


def test_a_switch_without_hcas_is_not_guessed() -> None:
    """Four GPUs may have one rail or four: two other switches have it so and so. What comes before is not shifted."""
    shapes = [(3, 1), (4, 0), (2, 2)]
    roots = [{1 + at: switch(at, shape, True)} for at, shape in enumerate(shapes)]
    with pytest.raises(
        PlanError, match=r"host a: 4 GPUs .* without an HCA, and how many rails they have cannot be known"
    ):
        plan_group("g", {"a": enumerated(roots)}, WISHES)
    roots = [{1 + at: switch(at, shape, True)} for at, shape in enumerate([(3, 1), (2, 2), (4, 0)])]
    rows = plan_group("g", {"a": enumerated(roots)}, WISHES)["rails"]["a"]
    assert [len(row["devices"]) for row in rows] == [1, 1, 1, 0, 0, 0, 0]


def test_hosts_that_have_all_hcas_only_together() -> None:
    """With addresses that do not ascend with the ports, the order of HCAs that no host has together is not known."""
    roots = [{1 + at: switch(at, (4, 4), True)} for at in range(2)]
    facts = {"a": enumerated(roots, {"eth0_0"}), "b": enumerated(roots, {"eth1_3"}, **WAYS["renumbered"])}
    rails = plan_group("g", facts, WISHES)["rails"]
    assert [[len(row["devices"]) for row in rails[host]] for host in "ab"] == [[0, *[1] * 7], [*[1] * 7, 0]]
    for one, two in itertools.pairwise(facts["a"]["devices"][:2]):
        one["pci"], two["pci"] = two["pci"], one["pci"]
    with pytest.raises(
        PlanError, match="hosts a and b together: no host has all HCAs, and PCI addresses do not follow"
    ):
        plan_group("g", facts, WISHES)


def test_virtual_functions_on_several_busses_are_told_apart_by_these() -> None:
    """Two functions below one port with the same device and function."""
    facts = {
        host: enumerated([{1: switch(0, (2, 1), True)}], **WAYS[way]) for host, way in (("a", "same"), ("b", "domain"))
    }
    for own in facts.values():
        [device] = own["devices"]
        own["devices"].append(hca(1, device["pci"][:5] + "7f" + device["pci"][7:], device["bridges"], "eth9"))
    rails = plan_group("g", facts, WISHES)["rails"]
    assert [row["devices"] for row in rails["a"]] == [row["devices"] for row in rails["b"]] == [["mlx5_0"], ["mlx5_1"]]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Bus], bool]:
    """Switches of (GPUs, HCAs), the root busses that lead to them, and whether an HCA is beside them."""
    kinds = draw(st.sampled_from([[(1, 1), (2, 2), (8, 8)], [(2, 1), (4, 2)], [(1, 2), (2, 4)]]))
    shapes = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    devices = st.integers(0, 31)
    roots: list[Bus] = [{}]
    upper: Bus | None = None
    beside = draw(st.booleans())
    for at, (cards, nics) in enumerate(shapes):
        places = draw(st.lists(devices, min_size=cards + nics, max_size=cards + nics, unique=True))
        things = draw(st.permutations(["gpu"] * cards + ["hca"] * nics))
        names = (f"eth{at}_{nic}" for nic in range(nics))
        below: Bus = {}
        # the names follow the ports
        for port, thing in zip(sorted(places), things, strict=True):
            leaf: Bus = {0: next(names) if thing == "hca" else "gpu"}
            below[port] = {0: {draw(devices): leaf}} if thing == "hca" and draw(st.booleans()) else leaf
        where = draw(st.sampled_from(["root bus", "root port", "switch"]))
        if where == "root bus":
            roots.append({})
        if where == "switch" and upper is not None:
            upper[max(upper) + 1] = {0: below}
            continue
        root = roots[-1]
        upper = {0: {0: below}}
        if beside:
            upper[31] = {0: f"beside{at}"}
        root[max(root, default=0) + 1] = {0: upper}
    return shapes, [root for root in roots if root], beside


@examples(80)
@given(trees(), st.data())
def test_rails_are_right_or_refused(tree: Any, data: st.DataObject) -> None:
    """Whatever is dead on which host, and whatever addresses the hosts have."""
    shapes, roots, beside = tree
    expected: dict[str, int] = {}
    number = 0
    for at, (cards, nics) in enumerate(shapes):
        count = min(cards, nics)
        expected |= {f"eth{at}_{nic}": number + 1 + nic * count // nics for nic in range(nics)}
        number += count
    hosts = data.draw(st.integers(1, 4))
    single = data.draw(st.booleans())
    most = 1 if single else len(expected)
    gone = [data.draw(st.sets(st.sampled_from(sorted(expected)), max_size=most)) for _host in range(hosts)]
    complete = data.draw(st.booleans()) or beside
    if complete:
        gone.insert(data.draw(st.integers(0, hosts)), set())
    facts = {
        f"n{at}": enumerated(roots, lost, **WAYS[data.draw(st.sampled_from(sorted(WAYS)))])
        for at, lost in enumerate(gone)
    }
    if not complete:
        # hosts that look whole, or that have lost the same under all switches, may be another make
        assume(all(full(shapes, shape, set.intersection(*gone)) for shape in shapes))
        assume(not all(len(counts(shapes, shape, lost)) == 1 for lost in gone for shape in shapes))
    seen = {host: rail_host(host, own, {device["pci"] for device in own["devices"]}) for host, own in facts.items()}
    names = {
        host: {device["pci"]: device["plugin"]["if_name"] for device in own["devices"]} for host, own in facts.items()
    }
    rails, reason = numbered(seen, names)
    if rails is None:
        assert re.match(r"hosts? n\d|rails differ between hosts n\d and n\d: ", reason)
        assert not (complete and single and all(nics <= cards or cards == 1 for cards, nics in shapes))
        return
    for at, lost in enumerate(gone):
        own = names[f"n{at}"]
        found = {own[pci]: rail.number for rail in rails[f"n{at}"] for pci in rail.functions}
        assert found == {name: rail for name, rail in expected.items() if name not in lost}
        assert len(rails[f"n{at}"]) == number


def numbered(hosts: Json, names: dict[str, dict[str, str]]) -> tuple[Json | None, str]:
    """(rails, "") or (None, why they are refused)."""
    try:
        rails = group_rails(hosts)
        check_rails(rails, names)
    except RailError as exc:
        return None, str(exc)
    return rails, ""


def counts(shapes: list[tuple[int, int]], shape: tuple[int, int], lost: set[str]) -> set[int]:
    """How many HCAs are left under the switches of a shape."""
    return {
        sum(f"eth{at}_{nic}" not in lost for nic in range(shape[1])) for at, own in enumerate(shapes) if own == shape
    }


def full(shapes: list[tuple[int, int]], shape: tuple[int, int], lost: set[str]) -> bool:
    """Whether a switch of a shape is left that has all."""
    return shape[1] in counts(shapes, shape, lost)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (4, 2)])
def test_a_switch_without_hcas_is_known_by_hosts_with_other_addresses(shape: tuple[int, int]) -> None:
    whole = facts_of_switches([shape] * 3)
    lost = facts_of_switches([shape] * 3, gone={(1, nic) for nic in range(shape[1])})
    for row in [*lost["devices"], *lost["gpus"]]:
        row["pci"] = "0001" + row["pci"][4:]
    plan = plan_group("g", {"a": lost, "b": whole}, WISHES)
    rails = truth([shape] * 3)
    empty = [number for number, (_gpus, names) in enumerate(rails, 1) if names[0].startswith("eth1_")]
    assert [row["rail"] for row in plan["rails"]["a"] if not row["devices"]] == empty
    assert len(plan["rails"]["a"]) == len(rails)


@pytest.mark.parametrize("dead", [0, 1])
def test_a_rail_that_has_lost_one_of_two_hcas_keeps_the_other(dead: int) -> None:
    """The host's other rails, and all other hosts, stay as they are."""
    shape = [(1, 2)] * 4
    facts = {"a": facts_of_switches(shape), "b": facts_of_switches(shape, gone={(2, dead)})}
    plan = plan_group("g", facts, WISHES)
    classes = {host: entry for entry in plan["classes"] for host in entry["hosts"]}
    whole = {f"cx5_gpu{rail}": [f"eth{rail - 1}_0", f"eth{rail - 1}_1"] for rail in range(1, 5)}
    assert offered(facts["a"], classes["a"]["config"]) == whole
    assert offered(facts["b"], classes["b"]["config"]) == {**whole, "cx5_gpu3": [f"eth2_{1 - dead}"]}
    said = "host b has 1 of 2 HCAs on rail 3 (GPU 0000:30:00.0); host a has 2"
    assert plan["errors"] == [said]


def test_a_rail_that_has_lost_one_of_two_hcas_and_the_cable_of_the_other_is_told_of_once() -> None:
    shape = [(1, 2)] * 2
    facts = {"a": facts_of_switches(shape), "b": facts_of_switches(shape, down={(1, 1)}, gone={(1, 0)})}
    plan = plan_group("g", facts, WISHES)
    [said] = plan["errors"]
    assert "nothing on rail 2" in said


SHARED = ("0000:00:01.0", "0000:01:00.0")


def pci(port: int) -> str:
    return f"0000:{16 + port:02x}:00.0"


def under(switch: tuple[str, ...], *ports: int) -> dict[str, list[str]]:
    """{address: bridges above it} of what is at ports of a switch."""
    return {pci(port): [*SHARED, *switch, f"0000:02:{port:02x}.0"] for port in ports}


UPPER = ("0000:02:1e.0",)
# below it
INNER = (*UPPER, "0000:02:1f.0")


@pytest.mark.parametrize(
    ("whole", "lost"),
    [
        # two GPUs and four HCAs; those of the other host are at other ports, and the HCAs of its second GPU are gone
        (Host(under(UPPER, 1, 2), under(UPPER, 3, 4, 5, 6)), Host(under(UPPER, 8, 9), under(UPPER, 3, 4))),
        # the same GPUs; what one host has is in other slots, and none has all
        (Host(under(UPPER, 1, 2), under(UPPER, 3, 4, 5, 6)), Host(under(UPPER, 1, 2), under(UPPER, 5, 7, 8))),
        (Host(under(UPPER, 1, 2), under(UPPER, 3, 4, 5, 6)), Host(under(UPPER, 1, 2), under(UPPER, 7, 8))),
        # the first GPU is at another port, and the HCA of the second one is gone
        (
            Host(under(UPPER, 1) | under(INNER, 2), under(UPPER, 3, 4) | under(INNER, 5)),
            Host(under(UPPER, 0) | under(INNER, 2), under(UPPER, 3, 4)),
        ),
        # what is left is an HCA of no GPU; another GPU is at another port
        (
            Host(under(INNER, 1) | {pci(2): ["0000:00:02.0", "0000:03:01.0"]}, under(INNER, 3, 4) | under(UPPER, 9)),
            Host(under(INNER, 1) | {pci(2): ["0000:00:02.0", "0000:03:02.0"]}, under(UPPER, 9)),
        ),
        # a GPU that has a switch for itself, but at another port
        (Host(under(UPPER, 1), under(UPPER, 3, 4)), Host(under(UPPER, 2), under(UPPER, 3))),
    ],
)
def test_hcas_that_may_be_those_of_another_make_are_not_guessed(whole: Host, lost: Host) -> None:
    hosts = {"a": whole, "b": lost}
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails is None, rails
    assert "other make" in reason or "another make" in reason


def leaves(port: int, *hcas: str) -> Host:
    """Two GPUs, each with an HCA (a, b) under a switch of its own, the first GPU at this port, and an HCA (s) beside these switches."""
    upper = ["0000:00:01.0", "0000:01:00.0"]
    x, y = ([*upper, f"0000:02:0{leaf}.0", f"0000:{leaf}0:00.0"] for leaf in (1, 2))
    ways = {"a": [*x, "0000:11:08.0"], "b": [*y, "0000:21:08.0"], "s": [*upper, "0000:02:10.0"]}
    gpus = {pci(1): [*x, f"0000:11:0{port}.0"], pci(2): [*y, "0000:21:01.0"]}
    return Host(gpus, {pci(11 + "abs".index(name)): ways[name] for name in hcas})


def functions_of(rails: Json) -> dict[str, list[tuple[str, ...]]]:
    return {host: [rail.functions for rail in own] for host, own in rails.items()}


def test_what_is_left_to_a_gpu_that_has_lost_its_hca_is_not_its_own() -> None:
    """No host has all: one has lost an HCA, the others never had the one beside the switches."""
    rails, reason = numbered({"a": leaves(1, "a", "s"), "b": leaves(1, "a", "b")}, {"a": {}, "b": {}})
    assert rails, reason
    assert functions_of(rails) == {"a": [(pci(11),), ()], "b": [(pci(11),), (pci(12),)]}


def test_what_is_left_to_a_gpu_is_not_guessed_where_others_have_one_that_is_nearer() -> None:
    """The host that has lost it has its GPUs at other ports than the one that has all."""
    whole = leaves(1, "a", "b", "s")
    rails, reason = numbered({"a": leaves(2, "a", "s"), "b": whole}, {"a": {}, "b": {}})
    assert rails is None, rails
    assert f"host a: HCA {pci(13)} is not under the switch of a GPU, but above it, while host b has one under" in reason
    # as it is asked for: without what is on no rail
    rails, reason = numbered({"a": leaves(2, "a"), "b": leaves(1, "a", "b")}, {"a": {}, "b": {}})
    assert rails, reason
    assert functions_of(rails) == {"a": [(pci(11),), ()], "b": [(pci(11),), (pci(12),)]}


@pytest.mark.parametrize("beside", [["0000:02:10.0"], ["0000:02:10.0", "0000:30:00.0", "0000:31:00.0"]])
def test_what_is_left_to_the_only_gpu_below_a_root_port_is_not_its_own(beside: list[str]) -> None:
    """The HCA beside the switch of the GPU may have bridges of its own."""
    upper = ["0000:00:01.0", "0000:01:00.0"]
    leaf = [*upper, "0000:02:01.0", "0000:10:00.0"]
    storage = {pci(12): [*upper, *beside]}
    whole = Host({pci(1): [*leaf, "0000:11:01.0"]}, {pci(11): [*leaf, "0000:11:08.0"], **storage})
    rails, reason = numbered({"a": Host({pci(1): [*leaf, "0000:11:02.0"]}, storage), "b": whole}, {"a": {}, "b": {}})
    assert rails is None, rails
    assert f"host a: HCA {pci(12)} is not under the switch of a GPU" in reason


@pytest.mark.parametrize("bus", [0x10, 0x40], ids=["same busses", "other busses"])
@pytest.mark.parametrize("functions", [1, 2])
@pytest.mark.parametrize("own", [True, False], ids=["GPUs with bridges of their own", "GPUs and HCAs on a bus"])
def test_what_is_left_to_a_gpu_is_not_guessed_wherever_it_is(own: bool, functions: int, bus: int) -> None:
    """The functions of a card may be on busses of their own, and then have the same device and function."""
    upper = ["0000:00:01.0", "0000:01:00.0"]

    def host(start: int, port: int, *hcas: str) -> Host:
        gpus, ways = {}, {"s": [*upper, "0000:02:10.0"]}
        for leaf, name in enumerate("ab", 1):
            at = start + 0x10 * leaf
            way = [*upper, f"0000:02:0{leaf}.0"]
            card = port if name == "a" else 1
            if own:
                way.append(f"0000:{at:02x}:00.0")
                bridges = [f"0000:{at + 1:02x}:0{card}.0", f"0000:{at + 2:02x}:00.0", f"0000:{at + 3:02x}:00.0"]
                gpus[f"0000:{at + 4:02x}:00.0"] = [*way, *bridges]
                ways[name] = [*way, f"0000:{at + 1:02x}:08.0"]
            else:
                gpus[f"0000:{at:02x}:0{card}.0"] = way
                ways[name] = way
        return Host(
            gpus,
            {
                f"0000:{start + 0x10 * 'abs'.index(name) + 0x38 + number:02x}:08.0": ways[name]
                for name in hcas
                for number in range(functions)
            },
        )

    whole = host(0x10, 1, "a", "b", "s")
    rails, reason = numbered({"a": host(bus, 2, "a", "s"), "b": whole}, {"a": {}, "b": {}})
    assert rails is None, rails
    assert "is not under the switch of a GPU, but above it, while host b has one under that switch" in reason
    # healthy, and at another port
    rails, reason = numbered({"a": host(bus, 2, "a", "b", "s"), "b": whole}, {"a": {}, "b": {}})
    assert rails, reason
    assert [len(rail.functions) for own in rails.values() for rail in own] == [functions] * 4


@pytest.mark.parametrize(("first", "second"), [((4, 5), (5, 6)), ((4, 5), (6, 7)), ((4,), (5,))])
def test_healthy_hosts_have_their_hcas_in_slots_of_their_own(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    hosts = {name: Host(under(UPPER, 1, 2), under(UPPER, *own)) for name, own in (("a", first), ("b", second))}
    rails, reason = numbered(hosts, {"a": {}, "b": {}})
    assert rails, reason
    expected = {name: [(pci(slot),) for slot in own] for name, own in (("a", first), ("b", second))}
    assert functions_of(rails) == expected


def test_a_host_that_is_numbered_by_others_has_no_hca_of_no_gpu() -> None:
    """Hosts with HCAs in other slots, of which one has lost that of another switch, are numbered by one with GPUs at other ports."""
    upper = ["0000:00:01.0", "0000:01:00.0"]
    x, y = ([*upper, f"0000:02:0{leaf}.0", f"0000:{leaf}0:00.0"] for leaf in (1, 2))

    def host(port: int, slots: tuple[int, ...], whole: bool = True) -> Host:
        gpus = {pci(1): [*x, f"0000:11:0{port}.0"], pci(2): [*x, "0000:11:02.0"], pci(3): [*y, "0000:21:01.0"]}
        hcas = {pci(slot): [*x, f"0000:11:0{slot}.0"] for slot in slots} | {pci(12): [*upper, "0000:02:10.0"]}
        return Host(gpus, hcas | ({pci(11): [*y, "0000:21:08.0"]} if whole else {}))

    hosts = {"a": host(0, (5, 6)), "b": host(1, (5, 6)), "c": host(1, (6, 7), whole=False)}
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails is None, rails
    assert f"host c: HCA {pci(12)} is not under the switch of a GPU" in reason
    hosts["c"] = host(1, (6, 7))
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails, reason
    assert functions_of(rails)["c"] == [(pci(6),), (pci(7),), (pci(11),)]


@pytest.mark.parametrize("second", [(4, 5), (3, 5)])
def test_an_hca_is_on_no_rail_of_a_gpu_below_it_that_has_its_own_on_another_host(second: tuple[int, int]) -> None:
    """The second GPU is at a switch of its own, below that of the first one: what is left when its HCA is dead is the first one's."""
    upper = ["0000:00:01.0", "0000:01:00.0", "0000:02:1e.0"]
    inner = [*upper, "0000:03:1f.0", "0000:04:00.0"]
    gpus = {pci(1): [*upper, "0000:03:01.0"], pci(2): [*inner, "0000:05:02.0"]}
    ways = {3: [*upper, "0000:03:03.0"], 4: [*upper, "0000:03:04.0"], 5: [*inner, "0000:05:05.0"]}
    hosts = {
        name: Host(gpus, {pci(10 + at): ways[at] for at in own})
        for name, own in (("a", (3, 4)), ("b", second), ("c", (3, 4, 5)))
    }
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails, reason
    assert functions_of(rails)["a"] == [(pci(13), pci(14)), ()]
    # nor without the host that has all
    del hosts["c"]
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails is None or functions_of(rails)["a"] == [(pci(13), pci(14)), ()], rails


@pytest.mark.parametrize("dead", [11, 12, 13])
def test_hcas_whose_addresses_interleave_may_be_lost(dead: int) -> None:
    """The HCA of the second GPU has an address between those of the first one's two."""
    gpus = {pci(1): ["0000:00:01.0", "0000:02:01.0"], pci(2): ["0000:00:02.0", "0000:03:01.0"]}
    hcas = {pci(11): ["0000:00:01.0", "0000:02:02.0"], pci(12): ["0000:00:02.0", "0000:03:02.0"]}
    hcas[pci(13)] = ["0000:00:01.0", "0000:02:03.0"]
    left = {address: bridges for address, bridges in hcas.items() if address != pci(dead)}
    rails, reason = numbered({"a": Host(gpus, hcas), "b": Host(gpus, left)}, {"a": {}, "b": {}})
    assert rails, reason
    found = [{*rail.functions} for rail in rails["b"]]
    assert found == [{pci(11), pci(13)} - {pci(dead)}, {pci(12)} - {pci(dead)}]


@pytest.mark.parametrize(
    ("gpus", "slots"),
    [
        # two HCAs for four GPUs, in other slots, and a host that has lost one; together they look like four of each
        (4, [(15, 16), (17, 18), (15,)]),
        # four for eight, and a host that has lost one
        (8, [(11, 12, 13, 14), (11, 12, 13), (15, 16, 17, 18)]),
        # four for two, in other slots, and each host has lost one
        (2, [(11, 12, 13), (15, 16, 17)]),
    ],
)
def test_slots_of_different_hosts_are_not_taken_together_where_fewer_make_rails(
    gpus: int, slots: list[tuple[int, ...]]
) -> None:
    hosts = {f"n{at}": Host(under(UPPER, *range(1, gpus + 1)), under(UPPER, *own)) for at, own in enumerate(slots)}
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails is None, rails
    assert "how many a complete host has cannot be known" in reason


@pytest.mark.parametrize("names", list(itertools.permutations("abc")))
def test_an_hca_may_be_lost_where_a_host_with_the_same_places_is_whole(names: tuple[str, ...]) -> None:
    """Whatever their names: the second GPU of one of the others is at another port."""
    first = ["0000:00:01.0", "0000:02:01.0"]
    hcas = {pci(8): ["0000:00:01.0", "0000:02:02.0"], pci(9): ["0000:00:01.0", "0000:02:03.0"]}
    here, there = ({pci(1): first, pci(2): ["0000:00:02.0", f"0000:03:0{port}.0"]} for port in (1, 2))
    hcas |= {pci(10): ["0000:00:02.0", "0000:03:08.0"], pci(11): ["0000:00:02.0", "0000:03:09.0"]}
    lost = {address: bridges for address, bridges in hcas.items() if address != pci(9)}
    hosts = dict(zip(names, (Host(here, hcas), Host(there, hcas), Host(there, lost)), strict=True))
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails, reason
    assert [[*rail.functions] for rail in rails[names[2]]] == [[pci(8)], [pci(10), pci(11)]]


def test_slots_of_different_hosts_are_taken_together_where_one_must_have_lost_some() -> None:
    """Four GPUs with three HCAs make no rails."""
    slots = [(5, 6, 7), (7, 8), (5,)]
    hosts = {f"n{at}": Host(under(UPPER, 1, 2, 3, 4), under(UPPER, *own)) for at, own in enumerate(slots)}
    rails, reason = numbered(hosts, {name: {} for name in hosts})
    assert rails, reason
    assert [[*rail.functions] for rail in rails["n1"]] == [[], [], [pci(7)], [pci(8)]]


def test_another_switch_shows_that_slots_of_different_hosts_are_those_of_one() -> None:
    """Of two HCAs of two GPUs, each host has lost another one."""
    shape = [(2, 2), (2, 2)]
    seen = {}
    for host, dead in (("a", 0), ("b", 1)):
        facts = facts_of_switches(shape, gone={(0, dead)})
        seen[host] = rail_host(host, facts, {device["pci"] for device in facts["devices"]})
    rails, reason = numbered(seen, {"a": {}, "b": {}})
    assert rails, reason
    assert [len(rail.functions) for rail in rails["a"]] == [0, 1, 1, 1]
    assert [len(rail.functions) for rail in rails["b"]] == [1, 0, 1, 1]


def test_hcas_in_other_slots_are_no_lost_ones() -> None:
    """Two hosts with one HCA under a switch, in two slots: each is whole, and the HCA is that of both GPUs."""
    facts = {"a": facts_of_switches([(2, 2)], gone={(0, 0)}), "b": facts_of_switches([(2, 2)], gone={(0, 1)})}
    facts["b"]["devices"][0]["plugin"]["if_name"] = facts["a"]["devices"][0]["plugin"]["if_name"]
    plan = plan_group("g", facts, WISHES)
    assert [row["resource"] for row in plan["resources"]] == ["rdma/cx5_gpu1"]


@given(SWITCHES, SWITCHES)
def test_hosts_that_differ_are_shown(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    facts = {"a": facts_of_switches(first), "b": facts_of_switches(second)}
    # hosts with the same GPUs are of one make, and one of them has lost HCAs
    assume(first == second or [cards for cards, _nics in first] != [cards for cards, _nics in second])
    shapes = [[(len(gpus), len(names)) for gpus, names in truth(switches)] for switches in (first, second)]
    # one of two HCAs of a GPU that has a switch for itself may be a lost one
    assume(shapes[0] == shapes[1] or [cards for cards, _nics in shapes[0]] != [cards for cards, _nics in shapes[1]])
    if shapes[0] == shapes[1] and truth(first) == truth(second):
        plan = plan_group("g", facts, WISHES)
        assert len(plan["rails"]["a"]) == len(plan["rails"]["b"]) == len(shapes[0])
        return
    if shapes[0] == shapes[1] and not clash(first, second):
        assert len(plan_group("g", facts, WISHES)["rails"]["a"]) == len(shapes[0])
        return
    with pytest.raises(PlanError) as caught:
        plan_group("g", facts, WISHES)
    found = re.match(r"group g: rails differ between hosts (\w) and (\w): (.*)", str(caught.value))
    assert found
    assert {found.group(1), found.group(2)} == {"a", "b"}
    name = re.search(r"interface (\S+) is on rail (\d+) .* rail (\d+) of", found.group(3))
    if name:
        places = {"a": place(first, name.group(1)), "b": place(second, name.group(1))}
        assert [places[found.group(1)], places[found.group(2)]] == [int(name.group(2)), int(name.group(3))]
    else:
        assert shapes[0] != shapes[1]


def place(switches: list[tuple[int, int]], netdev: str) -> int | None:
    """The rail that an interface is on."""
    return next((number for number, (_gpus, names) in enumerate(truth(switches), 1) if netdev in names), None)


def clash(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> bool:
    """Whether an interface is on different rails."""
    names = {name for _gpus, own in truth(first) for name in own} & {
        name for _gpus, own in truth(second) for name in own
    }
    return any(place(first, name) != place(second, name) for name in names)


def test_a_lost_rail_is_reported() -> None:
    whole, lost = facts_of_switches([(1, 1)] * 8), facts_of_switches([(1, 1)] * 8, gone={(3, 0)})
    plan = plan_group("g", {"a": whole, "b": lost}, WISHES)
    assert plan["errors"] == [
        "host b has nothing on rail 4 (GPU 0000:40:00.0; no HCA that the group wants is under its PCIe switch)"
    ]
    [entry] = plan["classes"]
    assert entry["hosts"] == ["a", "b"]
    assert [row["rail"] for row in entry["matches"]["b"]] == [1, 2, 3, 5, 6, 7, 8]


def test_an_hca_beside_all_switches_is_on_no_rail() -> None:
    facts = facts_of_switches([(1, 1)] * 2)
    facts["devices"].append(hca(9, "0000:f0:00.0", ["0000:00:01.0", "0000:01:00.0"], "storage"))
    facts["devices"].append(hca(10, "0000:f1:00.0", ["0000:80:01.0"], "other"))
    plan = plan_group("g", {"a": checked(facts)}, WISHES)
    assert [(row["device"], row["reason"]) for row in plan["exclusions"]] == [
        ("mlx5_9", "on no rail: its PCIe switch has no GPU"),
        ("mlx5_10", "on no rail: its PCIe switch has no GPU"),
    ]
    assert (len(plan["resources"]), plan["errors"]) == (2, [])
    # the four devices look the same but for their names, and the two on no rail are matched by nothing
    assert {row["if_name"] for row in plan["classes"][0]["matches"]["a"]} == {"eth0_0", "eth1_0"}


def test_a_slow_management_port_is_no_part_of_a_rail() -> None:
    facts = facts_of_switches([(2, 3)])
    facts["devices"][2]["ports"][0]["rate_gbps"] = 25.0
    wishes = {**WISHES, "want": {"link_layer": "Ethernet", "min_rate_gbps": 100}}
    assert [row["devices"] for row in plan_group("g", {"a": facts}, wishes)["rails"]["a"]] == [["mlx5_0"], ["mlx5_1"]]


@pytest.mark.parametrize(
    ("shapes", "slow"),
    [
        ([(2, 2), (4, 2)], {"eth0_1"}),
        ([(2, 2)] * 4, {f"eth{at}_1" for at in range(4)}),
        ([(1, 2), (1, 1)], {"eth0_1"}),
        ([(2, 3), (2, 2)], {"eth0_2"}),
        ([(2, 2), (2, 1), (2, 1)], {"eth0_1"}),
    ],
)
def test_a_slow_port_that_goes_down_shifts_no_rail(shapes: list[tuple[int, int]], slow: set[str]) -> None:
    """It tells no rate then; the other hosts know that its card is not part of a rail."""
    want = {**WISHES, "want": {"link_layer": "Ethernet", "min_rate_gbps": 100}}

    def host(down: bool) -> Json:
        facts = facts_of_switches(shapes)
        for device in facts["devices"]:
            if device["netdevs"][0] in slow:
                device["ports"][0].update(rate_gbps=None if down else 25.0, state="Down" if down else "Active")
        return facts

    before = plan_group("g", {name: host(False) for name in "abc"}, want)
    after = plan_group("g", {name: host(name == "a") for name in "abc"}, want)
    assert after["rails"] == before["rails"]
    assert after["errors"] == before["errors"] == []


def test_one_slow_cable_is_no_slow_card() -> None:
    """What is degraded on one host and down on the other is missing on both, and shifts nothing."""
    want = {**WISHES, "want": {"link_layer": "Ethernet", "min_rate_gbps": 100}}
    hosts = {name: facts_of_switches([(2, 2), (4, 2)]) for name in "ab"}
    whole = plan_group("g", hosts, want)
    hosts["a"]["devices"][1]["ports"][0]["rate_gbps"] = 25.0
    hosts["b"]["devices"][1]["ports"][0].update(rate_gbps=None, state="Down")
    plan = plan_group("g", hosts, want)
    for name in hosts:
        found = {row["rail"]: row["devices"] for row in plan["rails"][name]}
        assert found == {**{row["rail"]: row["devices"] for row in whole["rails"][name]}, 2: []}
    assert [text.partition(" (")[0] for text in plan["errors"]] == [
        f"host {name} has nothing on rail 2" for name in "ab"
    ]


def test_switches_that_make_no_rails() -> None:
    message = (
        "group g: host a: 2 GPUs (0000:10:00.0, 0000:11:00.0) and 3 HCAs (0000:18:00.0, 0000:19:00.0, 0000:1a:00.0)"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)} are under one PCIe switch, .* rdma_want.exclude"):
        plan_group("g", {"a": facts_of_switches([(2, 3)])}, WISHES)


def test_hcas_in_another_order_are_reported() -> None:
    facts = {host: facts_of_switches([(1, 1)] * 2) for host in "ab"}
    one, two = facts["b"]["devices"]
    one["pci"], two["pci"] = two["pci"], one["pci"]
    with pytest.raises(
        PlanError, match="hosts a and b: by PCI address, the HCAs are those of rails 1, 2 on the one, 2, 1"
    ):
        plan_group("g", facts, WISHES)


def test_an_interface_on_two_rails_is_reported() -> None:
    facts = {host: facts_of_switches([(1, 1)] * 2) for host in "ab"}
    for device, name in zip(facts["b"]["devices"], ("eth1_0", "eth0_0"), strict=True):
        device["plugin"]["if_name"] = name
    with pytest.raises(
        PlanError, match="hosts a and b: interface eth1_0 is on rail 2 of the one and on rail 1 of the other"
    ):
        plan_group("g", facts, WISHES)


@pytest.mark.parametrize("lost", ["gpus", "bridges"])
def test_facts_without_the_way_over_pci_give_no_rails(lost: str) -> None:
    facts = copy.deepcopy(facts_of_switches([(1, 1)]))
    for place in [facts] if lost == "gpus" else [*facts["devices"], *facts["gpus"]]:
        del place[lost]
    with pytest.raises(
        PlanError, match=r"group g: host a: its facts do not say which PCIe switches .* run discover again"
    ):
        plan_group("g", {"a": facts}, WISHES)


def captured(*names: str) -> dict[str, Json]:
    return {name: checked(gather(open_tree(str(CAPTURES / f"{name}.capture")))) for name in names}


@pytest.mark.parametrize(
    ("first", "rest", "classes"),
    [
        ({"default_tos": 106}, {"default_tos": 106}, {"NCCL_IB_TC": "106", "UCX_IB_TRAFFIC_CLASS": "106"}),
        # the driver gives it to all packets
        ({"default_tos": 106, "traffic_class": 106}, {"default_tos": 106, "traffic_class": 106}, {}),
        ({"default_tos": 106, "traffic_class": 106}, {"default_tos": 106}, {}),
        ({"default_tos": 106}, {"default_tos": 104}, {}),
        ({"default_tos": 0}, {"default_tos": 0}, {}),
        ({"default_tos": None}, {"default_tos": None}, {}),
    ],
)
def test_workloads_send_in_the_class_of_their_host(first: Any, rest: Any, classes: dict[str, str]) -> None:
    """Of one ToS for all ports: NCCL and UCX connect without RDMA-CM, which would give it to them."""
    facts = captured("roce-rails-1")
    for number, row in enumerate(facts["roce-rails-1"]["roce"]["ports"]):
        row.update(rest if number else first)
    wishes = {"resource": {"name": "shared"}, "want": {"link_layer": "Ethernet"}}
    own = plan_group("roce-rails", facts, wishes)["environment"]["roce-rails-1"]
    assert {key: own[key] for key in set(own) - {"NCCL_IB_HCA", "UCX_NET_DEVICES"}} == classes


def test_roce_rails_has_a_resource_for_each_gpu() -> None:
    wishes = {"resource": {"name": "shared_cx5"}, "want": {"link_layer": "Ethernet", "min_rate_gbps": 100}}
    facts = captured("roce-rails-1", "roce-rails-2")
    plan = plan_group("roce-rails", facts, {**wishes, "rails": True})
    [entry] = plan["classes"]
    assert re.fullmatch("roce-rails-rails-[0-9a-f]{8}", entry["name"])
    assert [(row["resourceName"], row["selectors"]) for row in entry["config"]["configList"]] == [
        (f"shared_cx5_gpu{number}", {"ifNames": [f"enp{10 + number}s0f0np0"]}) for number in range(1, 9)
    ]
    assert [(row["rail"], row["resource"], row["device"]) for row in entry["matches"]["roce-rails-2"]] == [
        (number, f"rdma/shared_cx5_gpu{number}", f"mlx5_{number - 1}") for number in range(1, 9)
    ]
    assert entry["selectors"] == {"ifNames": [f"enp{number}s0f0np0" for number in range(11, 19)]}
    assert [row["resourceName"] for row in entry["sriov"]["config"]["resourceList"]] == [
        f"shared_cx5_gpu{number}" for number in range(1, 9)
    ]
    assert plan["environment"]["roce-rails-1"]["NCCL_IB_HCA"].startswith("=mlx5_0:1,mlx5_1:1,")
    assert set(plan["environment"]["roce-rails-1"]) == {"NCCL_IB_HCA", "UCX_NET_DEVICES"}
    # a name pattern, and the ids of devices that are all the same
    named = plan_group("roce-rails", facts, {**wishes, "rails": "rail{rail}_{name}"})
    assert named["resource"] == "rdma/rail{rail}_shared_cx5"
    assert named["resources"][7] == {"resource": "rdma/rail8_shared_cx5", "rail": 8}
    message = (
        "mlx5_0 (0000:0b:00.0) is wanted for rdma/shared_cx5_gpu1 and mlx5_1 (0000:0c:00.0) belongs to "
        "rdma/shared_cx5_gpu2, but the plugin cannot tell them apart by vendors, deviceIDs, drivers, linkTypes; "
        "rdma_selector_strategy: auto may tell them apart"
    )
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_group("roce-rails", facts, {**wishes, "rails": True, "strategy": "device_ids"})


def test_a_gpu_beside_the_processor_has_no_rail() -> None:
    plan = plan_group("gb200", captured("gb200-1"), {"resource": {"name": "x"}, "rails": True})
    assert plan["classes"] == []
    assert "mlx5_0: on no rail: its PCIe switch has no GPU" in plan["errors"][0]


def test_rails_are_planned_with_the_other_groups() -> None:
    facts = {**captured("roce-rails-1", "ib-v100-1"), "dup": facts_of_switches([(1, 1)])}
    wishes = {"resource": {"name": "shared_cx5"}, "want": {"link_layer": "Ethernet"}, "rails": True}
    groups = {
        "roce": {"hosts": ["roce-rails-1"], **wishes},
        "ib": {"hosts": ["ib-v100-1"], "resource": {"name": "x"}},
    }
    cluster = plan_groups({host: facts[host] for host in ("roce-rails-1", "ib-v100-1")}, groups)["cluster"]
    assert cluster["selectors"]["rdma/x"] == {"deviceIDs": ["1017"], "linkTypes": ["infiniband"]}
    assert len(cluster["config"]["configList"]) == 9
    groups["more"] = {"hosts": ["dup"], **WISHES, "resource": {"name": "shared_cx5", "prefix": "other"}}
    cluster = plan_groups(facts, groups)["cluster"]
    assert cluster["config"] is None
    assert cluster["errors"] == [
        "groups more and roce both have a resource named shared_cx5_gpu1 (other/shared_cx5_gpu1 with hca_max 63, "
        "rdma/shared_cx5_gpu1 with hca_max 63), and the plugin does not start with two of one name, whatever their prefix"
    ]


def test_software_devices_on_rails_are_those_that_are_offered() -> None:
    facts = facts_of_switches([(1, 1), (1, 1)])
    for device in facts["devices"]:
        device.update(kind="software", driver="rdma_rxe", vendor="8086", device="10d3")
        device["plugin"]["driver"] = "e1000e"
    wishes = {**WISHES, "want": {"link_layer": "Ethernet", "kinds": ["software"]}}
    plan = plan_group("g", {"n": checked(facts)}, wishes)
    assert [row["devices"] for row in plan["rails"]["n"]] == [["mlx5_0"], ["mlx5_1"]]
    facts["devices"][1]["plugin"].update(visible=False, reason="umad device missing: load ib_umad")
    plan = plan_group("g", {"n": checked(facts)}, wishes)
    assert [row["devices"] for row in plan["rails"]["n"]] == [["mlx5_0"], []]
    assert plan["errors"] == [
        "host n has nothing on rail 2 (GPU 0000:20:00.0; mlx5_1: invisible to the plugin: umad device missing: "
        "load ib_umad)"
    ]


# -- What an earlier plan says -----------------------------------------------------------------------------------------


def four(gpus: tuple[int, ...] = (0, 1, 2, 3), hcas: tuple[int, ...] = (0, 1, 2, 3)) -> Json:
    """Facts of a host of four switches with a GPU and an HCA each, but for those that are gone."""
    bridges = {index: [f"0000:{index + 1}0:00.0", f"0000:{index + 1}1:00.0"] for index in range(4)}
    return checked(
        {
            "schema": 1,
            "warnings": [],
            "devices": [
                hca(index, f"0000:{index + 1}4:00.0", [*bridges[index], f"0000:{index + 1}2:01.0"], f"eth{index}")
                for index in hcas
            ],
            "gpus": [
                {
                    "pci": f"0000:{index + 1}3:00.0",
                    "bridges": [*bridges[index], f"0000:{index + 1}2:00.0"],
                    "vendor": "10de",
                    "device": "2331",
                    "numa_node": None,
                    "nearest": [],
                }
                for index in gpus
            ],
        }
    )


def planned_after(earlier: Json, **hosts: Json) -> Json:
    wishes = {"g": {**WISHES, "hosts": sorted(hosts)}}
    classes = {"g": earlier["groups"]["g"]["classes"]} if earlier else {}
    return plan_groups(hosts, wishes, earlier=classes)


def test_a_gpu_that_is_gone_gives_no_hca_another_rail() -> None:
    first = planned_after({}, n=four())
    assert first["groups"]["g"]["errors"] == []
    assert planned_after(first, n=four())["groups"]["g"]["errors"] == []
    group = planned_after(first, n=four(gpus=(0, 2, 3)))["groups"]["g"]
    assert group["errors"][0].startswith(
        "host n: mlx5_1 (0000:24:00.0) was on rail 2 and would be on none; mlx5_2 (0000:34:00.0) was on rail 3 and "
        "would be on rail 2; mlx5_3 (0000:44:00.0) was on rail 4 and would be on rail 3, since "
    )
    assert group["errors"][0].endswith("move the earlier plan.json away")
    # also where somebody goes on with errors
    (entry,) = group["classes"]
    assert [(row["device"], row["rail"]) for row in entry["matches"]["n"]] == [("mlx5_0", 1)]
    reasons = {row["device"]: row["reason"] for row in group["exclusions"]}
    assert reasons["mlx5_3"] == "it was on rail 4 in the earlier plan"


def test_an_hca_that_is_gone_has_one_error() -> None:
    first = planned_after({}, n=four(), o=four())
    (error,) = planned_after(first, n=four(hcas=(0, 2, 3)), o=four())["groups"]["g"]["errors"]
    assert error.startswith("host n has nothing on rail 2 (GPU 0000:23:00.0;")


def test_another_wish_numbers_rails_as_it_likes() -> None:
    first = planned_after({}, n=four())
    classes = {"g": first["groups"]["g"]["classes"]}
    other = {"g": {**WISHES, "resource": {"name": "cx6"}, "hosts": ["n"]}}
    assert plan_groups({"n": four(gpus=(0, 2, 3))}, other, earlier=classes)["groups"]["g"]["errors"] == []


def test_a_gb200_has_no_rails() -> None:
    """Its GPUs and HCAs are at root ports of their own, which docs/groups.md says in the same words."""
    facts = gather(open_tree(str(CAPTURES / "gb200-1.capture")))
    plan = plan_group("gb200", {"a": facts}, {"resource": {"name": "x"}, "want": {"min_rate_gbps": 400}, "rails": True})
    reasons = {row["device"]: row["reason"] for row in plan["exclusions"]}
    fabric = {name for name, reason in reasons.items() if reason == "on no rail: its PCIe switch has no GPU"}
    assert fabric == {"mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"}
    assert plan["classes"] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import FILTER
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_select import KINDS, choose, pools_by_pci
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import published
from ansible_collections.fabric.rdma.tests.unit.cel import device, evaluate, published as as_published
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, checked, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    CLUSTER,
    WANT,
    captured,
    several,
)

Json = dict[str, Any]
LAST = ("ifName", "pciAddress")


# -- Random clusters -------------------------------------------------------------------------------------------------


@st.composite
def whole(draw: st.DrawFn, cluster: dict[str, Json]) -> dict[str, Json]:
    """The same hosts with what selectors of devices are made of."""
    found = copy.deepcopy(cluster)
    for facts in found.values():
        for row in facts["devices"]:
            row["numa_node"] = draw(st.sampled_from([None, 0, 1]))
            for port, netdev in itertools.product(row["ports"], (0, 1)):
                if netdev < len(port["netdevs"]):
                    port["netdevs"][netdev]["type"] = row["plugin"]["link_type"] or None
            if row["netdevs"] and draw(st.integers(0, 9)) == 0:
                row["netdevs"] = [*row["netdevs"], row["netdevs"][0] + "x"]
        checked(facts)
    return found


GROUPS = st.lists(st.tuples(CLUSTER.flatmap(whole), WANT, st.just("auto")), min_size=1, max_size=3)


def classes_of(plan: Any) -> list[Class]:
    return [entry for group in plan["groups"].values() for entry in group["classes"] if entry["config"]]


def worlds(facts: Json, move_ib: bool, wanted: list[Json]) -> list[tuple[str | None, Json]]:
    """(PCI address, attributes) of every form that a function may have; what is unknown is as it is for something that is wanted."""
    found = []
    for each in published(facts, move_ib):
        for view in each.views:
            found.append((each.pci, view))
            for other in wanted if each.unknown else []:
                found.append((each.pci, {**view, **{key: other[key] for key in each.unknown if key in other}}))
    return found


def matches(text: str, view: Json) -> bool:
    return evaluate(text, device("dra.net", view))


def check(facts: dict[str, Json], classes: list[Class], move_ib: bool, outcomes: Counter[str]) -> None:
    chosen, problems = choose(classes, facts, move_ib)
    assert {entry["name"] for entry in classes} == set(chosen) | {text.split()[1].rstrip(":") for text in problems}
    for entry in classes:
        for choice in chosen.get(entry["name"], []):
            outcomes[
                "abroad" if choice.abroad else "last resort" if set(choice.selectors) & set(LAST) else "plain"
            ] += 1
            abroad = {(host, name) for _class, host, name in choice.abroad}
            assert all(host not in entry["hosts"] for host, _name in abroad)
            examples = [
                view
                for host in entry["hosts"]
                for pci, view in worlds(facts[host], move_ib, [])
                if pools_by_pci(entry, host).get(pci or "") == choice.pool
            ]
            for host in entry["hosts"]:
                wanted = pools_by_pci(entry, host)
                for pci, view in worlds(facts[host], move_ib, examples):
                    assert matches(choice.text, view) is (wanted.get(pci or "") == choice.pool), (host, pci, view)
                    # what is wanted is published
                    assert wanted.get(pci or "") is None or evaluate(FILTER, as_published(view))
            for other in classes:
                for host in set(other["hosts"]) - set(entry["hosts"]):
                    owners = pools_by_pci(other, host)
                    for each in published(facts[host], move_ib):
                        stray = each.pci and owners.get(each.pci) != choice.pool
                        if stray and any(matches(choice.text, view) for view in each.views):
                            assert (host, each.devices[0]) in abroad
    outcomes["refused"] += len(problems)


@examples(60)
@given(GROUPS, st.booleans())
def test_a_device_class_is_exact_on_every_host_of_its_class_and_tells_where_else_it_matches(
    parts: Any, move_ib: bool
) -> None:
    facts, groups = several(parts)
    check(facts, classes_of(plan_groups(facts, groups)), move_ib, Counter())


def test_random_groups_have_all_outcomes() -> None:
    outcomes: Counter[str] = Counter()

    @examples(120)
    @given(GROUPS)
    def collect(parts: Any) -> None:
        facts, groups = several(parts)
        check(facts, classes_of(plan_groups(facts, groups)), True, outcomes)

    collect()
    assert min(outcomes[name] for name in ("plain", "last resort", "abroad")) > 0, outcomes


@examples(40)
@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_classes_and_hosts_changes_nothing(parts: Any, random: Any) -> None:
    facts, groups = several(parts)
    classes = classes_of(plan_groups(facts, groups))
    mixed = random.sample(classes, len(classes))
    names = random.sample(sorted(facts), len(facts))
    other = choose(mixed, {name: facts[name] for name in names})
    assert (other[0], sorted(other[1])) == (choose(classes, facts)[0], sorted(choose(classes, facts)[1]))


def exact(entry: Class, facts: dict[str, Json], pool: str, kinds: tuple[str, ...]) -> bool:
    """Whether lists of all wanted values of these kinds match nothing else, said without the solver."""

    def value(view: Json, kind: str) -> Any:
        return view.get("dra.net/" + kind, "no link" if kind == "encapsulation" else None)

    rows = [
        (pools_by_pci(entry, host).get(each.pci or "") == pool, view)
        for host in entry["hosts"]
        for each in published(facts[host])
        for view in each.views
    ]
    lists = {kind: {value(view, kind) for wanted, view in rows if wanted} for kind in kinds}
    if any(None in own for own in lists.values()):
        return False
    return not any(all(value(view, kind) in lists[kind] for kind in kinds) for wanted, view in rows if not wanted)


@examples(60)
@given(CLUSTER.flatmap(whole), WANT)
def test_names_and_addresses_are_the_last_resort(cluster: dict[str, Json], want: Json) -> None:
    facts, groups = several([(cluster, want, "auto")])
    classes = classes_of(plan_groups(facts, groups))
    # what is not known is more than these lists know
    if any(each.unknown for own in facts.values() for each in published(own)):
        return
    for entry in classes:
        for choice in choose([entry], facts)[0].get(entry["name"], []):
            for number, last in enumerate(LAST):
                if last in choice.selectors:
                    sturdier = [kind for kind in KINDS if kind not in LAST[number:]]
                    sets = itertools.chain.from_iterable(
                        itertools.combinations(sturdier, size) for size in range(1, len(sturdier) + 1)
                    )
                    assert not any(exact(entry, facts, choice.pool, kinds) for kinds in sets)


# -- Machines of the groups ------------------------------------------------------------------------------------------


def chosen_of(names: list[str], **group: Any) -> dict[str, Json]:
    facts = captured(*names)
    plan = plan_groups(facts, {"g": {"hosts": names, "resource": {"name": "rdma_x"}, **group}})
    chosen, problems = choose(classes_of(plan), facts)
    assert problems == []
    return {name: {choice.pool: choice.selectors for choice in own} for name, own in chosen.items()}


def test_one_model_is_selected_by_its_name() -> None:
    assert chosen_of(["ib-v100-1", "ib-v100-2"]) == {
        "g-device-1017": {"rdma/rdma_x": {"pciDevice": ["MT27800 Family [ConnectX-5]"]}}
    }


def test_the_card_with_the_cable_is_selected_in_each_class() -> None:
    """By its model and where it is, and not by where it is alone."""
    model = ["MT28908 Family [ConnectX-6]"]
    assert chosen_of(["ib-a100-1", "ib-a100-2", "ib-a100-3"]) == {
        "g-ibp161s0": {"rdma/rdma_x": {"pciDevice": model, "numaNode": ["1"]}},
        "g-ibp33s0": {"rdma/rdma_x": {"pciDevice": model, "numaNode": ["0"]}},
    }


def test_a_numa_node_selects_nothing_where_it_may_be_the_only_one() -> None:
    """Two cards of one model on each of two nodes, and one card on what may be the only node of a machine, for which none is published."""
    two = Machine()
    two.nic("mlx5_0", "eth0", "0000:3b:00.0")
    two.nic("mlx5_1", "eth1", "0000:5e:00.0", numa_node=1)
    one = Machine()
    one.nic("mlx5_0", "eth0", "0000:3b:00.0")
    want = {"link_layer": "Ethernet", "exclude": ["mlx5_1"]}

    def selected(**facts: Json) -> Json:
        plan = plan_groups(facts, {"g": {"hosts": list(facts), "resource": {"name": "x"}, "want": want}})
        chosen, problems = choose(classes_of(plan), facts)
        assert problems == []
        [[choice]] = list(chosen.values())
        return choice.selectors

    assert selected(two=facts_of(two))["numaNode"] == ["0"]
    both = selected(one=facts_of(one), two=facts_of(two))
    assert "numaNode" not in both
    assert both["ifName"] == ["eth0"]


def test_rails_are_selected_one_by_one() -> None:
    want = {"link_layer": "Ethernet", "min_rate_gbps": 100}
    found = chosen_of(["roce-rails-1", "roce-rails-2"], want=want, rails=True)
    [own] = found.values()
    assert own == {f"rdma/rdma_x_gpu{rail}": {"ifName": [f"enp{10 + rail}s0f0np0"]} for rail in range(1, 9)}


def test_a_class_whose_cards_others_have_too_says_so() -> None:
    """Two groups of the same machines, of which one leaves a card out."""
    facts = captured("ib-v100-1", "ib-v100-2")
    plan = plan_groups(
        facts,
        {
            "a": {"hosts": ["ib-v100-1"], "resource": {"name": "rdma_a"}},
            "b": {"hosts": ["ib-v100-2"], "resource": {"name": "rdma_b"}, "want": {"exclude": ["mlx5_1"]}},
        },
    )
    chosen, problems = choose(classes_of(plan), facts)
    assert problems == []
    choices = {choice.pool: choice for own in chosen.values() for choice in own}
    assert [row[1:] for row in choices["rdma/rdma_a"].abroad] == [("ib-v100-2", "mlx5_0"), ("ib-v100-2", "mlx5_1")]


def test_selectors_that_others_do_not_match_are_preferred() -> None:
    """The model tells the groups apart, where the link alone would do on the hosts of each."""

    def node(ids: str) -> Json:
        machine = Machine()
        machine.nic(device=ids)
        return facts_of(machine)

    facts = {"n": node("0x1017"), "m": node("0x101b")}
    ethernet = {"link_layer": "Ethernet"}
    plan = plan_groups(
        facts,
        {
            "a": {"hosts": ["n"], "resource": {"name": "rdma_a"}, "want": ethernet},
            "b": {"hosts": ["m"], "resource": {"name": "rdma_b"}, "want": ethernet},
        },
    )
    chosen, _problems = choose(classes_of(plan), facts)
    assert all(choice.abroad == [] for own in chosen.values() for choice in own)


def test_what_cannot_be_told_apart_is_reported() -> None:
    """The same address and name, wanted on one host of a class and not on the other."""
    facts = captured("ib-v100-1", "ib-v100-2")
    plan = plan_groups(facts, {"g": {"hosts": ["ib-v100-1", "ib-v100-2"], "resource": {"name": "rdma_x"}}})
    [entry] = copy.deepcopy(classes_of(plan))
    del entry["matches"]["ib-v100-2"][1]
    chosen, [problem] = choose([entry], facts)
    assert chosen == {}
    assert problem.startswith(
        f"class {entry['name']}: no selector is exact for rdma/rdma_x: mlx5_1 (0000:5e:00.1) of host "
    )
    assert "DRANET cannot tell them apart by pciVendor, pciDevice" in problem


def test_a_list_that_no_device_class_takes_is_reported() -> None:
    """Hundreds of hosts, each with a card of another name wanted and its neighbour not."""

    def node(number: int) -> Json:
        machine = Machine()
        for card in (0, 1):
            machine.nic(
                f"mlx5_{card}",
                f"verylongname{number:03d}{'ab'[card]}",
                f"0000:{number // 8:02x}:{number % 8 * 2 + card:02x}.0",
            )
        return facts_of(machine)

    facts = {f"n{number}": node(number) for number in range(800)}
    want = {"link_layer": "Ethernet", "exclude": ["mlx5_1"]}
    plan = plan_groups(facts, {"g": {"hosts": list(facts), "resource": {"name": "rdma_x"}, "want": want}})
    _chosen, problems = choose(classes_of(plan), facts)
    assert len(problems) == 1
    assert "and a DeviceClass takes 10240" in problems[0]


@pytest.mark.parametrize("rails", [False, True])
def test_pools_are_those_of_the_plan(rails: bool) -> None:
    facts = captured("roce-rails-1")
    want = {"link_layer": "Ethernet", "min_rate_gbps": 100}
    plan = plan_groups(facts, {"g": {"hosts": list(facts), "resource": {"name": "r"}, "want": want, "rails": rails}})
    [entry] = classes_of(plan)
    pools = pools_by_pci(entry, "roce-rails-1")
    assert len(pools) == 8
    assert len(set(pools.values())) == (8 if rails else 1)

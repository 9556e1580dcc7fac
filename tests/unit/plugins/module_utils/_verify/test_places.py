# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of devices: where the addresses of two hosts tell which of their devices are on one rail."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._verify.places import Place, places_of

Json = dict[str, t.Any]


def host(slots: t.Sequence[int], name: str = "mlx5_{}", kind: str = "pf") -> Json:
    """Facts of a host with a card in each of these slots, named as the kernel counts them."""
    return {
        "devices": [
            {"name": name.format(number), "kind": kind, "pci": f"0000:{slot:02x}:00.0"}
            for number, slot in enumerate(slots)
        ]
    }


def by_slot(facts: Json, places: dict[str, Place]) -> dict[int, Place]:
    return {int(each["pci"][5:7], 16): places[each["name"]] for each in facts["devices"] if each["name"] in places}


SLOTS = st.lists(st.integers(0, 15), min_size=1, max_size=8, unique=True).map(sorted)


@given(st.lists(SLOTS, min_size=1, max_size=5))
def test_the_same_slot_is_the_same_place_beside_a_host_that_has_them_all(lost: list[list[int]]) -> None:
    facts = {"whole": host(range(16)), **{f"h{number}": host(slots) for number, slots in enumerate(lost)}}
    found = places_of(facts)
    for name, one in facts.items():
        slots = by_slot(one, found[name])
        assert len(slots) == len(one["devices"])
        whole = by_slot(facts["whole"], found["whole"])
        assert {slot: whole[slot] for slot in slots} == slots


@given(st.lists(SLOTS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_hosts_changes_nothing(slots: list[list[int]], random: t.Any) -> None:
    facts = {f"h{number}": host(own) for number, own in enumerate(slots)}
    names = list(facts)
    random.shuffle(names)
    assert places_of({name: facts[name] for name in names}) == places_of(facts)


@given(st.lists(SLOTS, min_size=2, max_size=6))
def test_a_place_is_of_one_device_of_a_host(slots: list[list[int]]) -> None:
    for own in places_of({f"h{number}": host(each) for number, each in enumerate(slots)}).values():
        assert len(set(own.values())) == len(own)


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param([[1, 2, 3], [2, 3, 4]], id="another card in front"),
        pytest.param([[0, 2, 3], [0, 1, 3]], id="two lost cards, and nobody has them all"),
        pytest.param([[1, 2, 3]], id="a host alone"),
        pytest.param([[]], id="no card"),
    ],
)
def test_addresses_that_tell_nothing_are_no_places(slots: list[list[int]]) -> None:
    assert places_of({f"h{number}": host(own) for number, own in enumerate(slots)}) == {}


def test_an_address_below_other_bridges_is_another_place() -> None:
    """With another card in front, and the last one lost, all addresses are among those of a whole host."""

    def below(facts: Json, first: int) -> Json:
        for number, device in enumerate(facts["devices"]):
            device["bridges"] = [f"0000:{first:02x}:{number:02x}.0"]
        return facts

    whole = {"a": below(host([11, 12, 13, 14]), 10), "b": below(host([11, 12, 13, 14]), 10)}
    assert sorted(places_of({**whole, "c": below(host([12, 13, 14]), 11)})) == ["a", "b"]
    facts = {**whole, "c": host([12, 13, 14])}
    for device, number in zip(facts["c"]["devices"], (1, 2, 3), strict=True):
        device["bridges"] = [f"0000:0a:{number:02x}.0"]
    found = places_of(facts)
    assert found["c"]["mlx5_0"] == found["a"]["mlx5_1"]


def test_a_host_that_may_be_of_two_makes_is_of_none() -> None:
    facts = {
        "a1": host([0, 1, 2]),
        "a2": host([0, 1]),
        "b1": host([1, 2, 3]),
        "b2": host([2, 3]),
        "either": host([1, 2]),
    }
    assert sorted(places_of(facts)) == ["a1", "a2", "b1", "b2"]


def test_names_that_nobody_counted_stay_what_tells_a_rail() -> None:
    facts = {"a": host([0, 1], "rail{}"), "b": host([1, 2], "rail{}"), "c": host([0, 1, 2])}
    found = places_of(facts)
    assert [found[name] for name in "ab"] == [{}, {}]
    assert sorted(found["c"]) == ["mlx5_0", "mlx5_1", "mlx5_2"]


@pytest.mark.parametrize("name", ["mlx4_{}", "bnxt_re{}", "irdma{}", "hfi1_{}", "erdma_{}"])
def test_names_of_other_drivers_are_counted_too(name: str) -> None:
    found = places_of({"a": host([0, 1], name), "b": host([1], name)})
    assert found["b"][name.format(0)] == found["a"][name.format(1)]


def test_an_address_that_is_unknown_or_of_several_devices_is_no_place() -> None:
    facts = {"a": host([0, 1]), "b": host([0, 1])}
    facts["a"]["devices"].append({"name": "mlx5_2", "kind": "sf", "pci": "0000:01:00.0"})
    facts["a"]["devices"].append({"name": "rxe0", "kind": "software", "pci": None})
    found = places_of(facts)
    assert sorted(found["a"]) == ["mlx5_0"]
    assert sorted(found["b"]) == ["mlx5_0", "mlx5_1"]


def test_virtual_functions_have_places_and_make_no_host_another() -> None:
    facts = {"a": host([0, 1]), "b": host([0, 1])}
    facts["a"]["devices"].append({"name": "mlx5_2", "kind": "vf", "pci": "0000:00:00.2"})
    found = places_of(facts)
    assert found["a"]["mlx5_2"] == (0, "0000:00:00.2")
    assert found["a"]["mlx5_0"] == found["b"]["mlx5_0"]

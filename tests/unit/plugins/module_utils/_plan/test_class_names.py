# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._plan.class_names import class_names

Json = dict[str, Any]


def entry(hosts: str, name: str = "", **selectors: str) -> Json:
    """A class as a plan has it: entry("a b", deviceIDs="1017 101b")."""
    chosen = {kind: values.split() for kind, values in selectors.items()}
    pool = {"resource": "rdma/x", "rail": None, "selectors": chosen}
    return {"name": name, "hosts": hosts.split(), "selectors": chosen, "pools": [pool] if chosen else []}


def named(classes: list[Json], earlier: list[Json] | None = None, others: tuple[str, ...] = ()) -> list[str]:
    return class_names("g", classes, earlier or [], others)


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ({"vendors": "15b3"}, "g-vendor-15b3"),
        ({"linkTypes": "infiniband"}, "g-link-infiniband"),
        ({"ifNames": "ib0 ib1"}, "g-ib0-ib1"),
        ({"drivers": "mlx5_core"}, None),
        ({"vendors": "15b3", "linkTypes": "ether"}, None),
        ({"ifNames": "ib0-ib1"}, None),
        ({"ifNames": "vendor 15b3"}, None),
        ({"ifNames": "software"}, None),
        ({"ifNames": "rails"}, None),
        ({"ifNames": " ".join(f"ibp{number}s0" for number in range(8))}, None),
    ],
)
def test_a_class_that_nobody_knows_is_named_after_its_selectors(chosen: dict[str, str], name: str | None) -> None:
    [found] = named([entry("a", **chosen)])
    assert found == name or (name is None and re.fullmatch("g-[0-9a-f]{8}", found))


OLD = entry("a b c", "g-device-1017", deviceIDs="1017")


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        pytest.param(entry("a b c", deviceIDs="1017 101b"), True, id="a value more"),
        pytest.param(entry("a b c", deviceIDs="1017", linkTypes="ether"), True, id="a kind more"),
        pytest.param(entry("c d e f", deviceIDs="1017 101b"), True, id="most hosts are new"),
        pytest.param(entry("x y", deviceIDs="1017"), True, id="all hosts are new, the selectors are the same"),
        pytest.param(entry("x y", deviceIDs="1017 101b"), False, id="nothing is the same"),
        pytest.param(entry("a b c", deviceIDs="101b"), False, id="another value"),
        pytest.param(entry("a b c", vendors="15b3"), False, id="another kind"),
    ],
)
def test_a_class_that_grows_keeps_its_name(now: Json, kept: bool) -> None:
    assert (named([now], [OLD]) == ["g-device-1017"]) is kept


def test_a_class_that_shrinks_keeps_its_name() -> None:
    assert named([entry("a", deviceIDs="101b")], [entry("a b", "g-d", deviceIDs="1017 101b")]) == ["g-d"]


def test_cables_that_are_exchanged_exchange_no_names() -> None:
    """A node moves to the class that selects what it has now; the class of a name selects what it did before."""
    before = [entry("a b", "g-ib0", ifNames="ib0"), entry("c d", "g-ib1", ifNames="ib1")]
    assert named([entry("c d", ifNames="ib0"), entry("a b", ifNames="ib1")], before) == ["g-ib0", "g-ib1"]


def test_of_two_parts_the_larger_keeps_the_name_whatever_it_selects_by() -> None:
    """Each node whose label changes loses its resource for a while."""
    parts = [entry("a b", deviceIDs="1017 101b"), entry("c", deviceIDs="1017")]
    [larger, same] = named(parts, [OLD])
    assert larger == "g-device-1017"
    assert re.fullmatch("g-[0-9a-f]{8}", same)


def test_of_two_parts_of_a_size_the_one_with_the_same_selectors_keeps_the_name() -> None:
    parts = [entry("a", deviceIDs="1017 101b"), entry("c", deviceIDs="1017")]
    assert named(parts, [OLD])[1] == "g-device-1017"


def test_of_two_parts_that_both_grew_the_larger_keeps_the_name() -> None:
    parts = [entry("a", deviceIDs="1017 101b"), entry("b c", deviceIDs="1017 1021")]
    assert named(parts, [OLD])[1] == "g-device-1017"


def test_no_class_takes_a_name_that_another_one_kept() -> None:
    """The old class selects by more now, and a new one by what the old one was called after."""
    before = [entry("a b", "g-device-1017", deviceIDs="1017 101b")]
    [kept, fresh] = named([entry("a b", deviceIDs="1017 101b"), entry("c", deviceIDs="1017")], before)
    assert kept == "g-device-1017"
    assert re.fullmatch("g-[0-9a-f]{8}", fresh)
    # from then on, both are known
    known = [entry("a b", kept, deviceIDs="1017 101b"), entry("c", fresh, deviceIDs="1017")]
    assert named([entry("c", deviceIDs="1017"), entry("a b", deviceIDs="1017 101b")], known) == [fresh, kept]


@pytest.mark.parametrize("name", ["other-device-1017", "g"])
def test_a_name_that_is_not_of_the_group_is_not_kept(name: str) -> None:
    assert named([entry("a", deviceIDs="1017")], [{**OLD, "name": name}]) == ["g-device-1017"]


def test_a_name_that_a_new_group_claims_is_not_kept() -> None:
    before = [entry("a", "g-eth0-ib0", ifNames="eth0 ib0")]
    [found] = named([entry("a", ifNames="eth0 ib0")], before, others=("g", "g-eth0"))
    assert re.fullmatch("g-[0-9a-f]{8}", found)


def test_classes_without_selectors_give_no_name() -> None:
    assert named([entry("a", deviceIDs="1017")], [entry("a", "g-software")]) == ["g-device-1017"]


def rails(hosts: str, name: str = "", **devices: str) -> Json:
    pools = [
        {"resource": f"rdma/x_{rail}", "rail": int(rail[1:]), "selectors": {"ifNames": values.split()}}
        for rail, values in devices.items()
    ]
    together = {"ifNames": sorted(value for row in pools for value in row["selectors"]["ifNames"])}
    return {"name": name, "hosts": hosts.split(), "selectors": together, "pools": pools}


def test_a_class_with_rails_keeps_its_name_as_long_as_no_rail_selects_something_else() -> None:
    [first] = named([rails("a b", r1="ib0", r2="ib1")])
    assert re.fullmatch("g-rails-[0-9a-f]{8}", first)
    before = [rails("a b", first, r1="ib0", r2="ib1")]
    assert named([rails("a b", r1="ib0 ibs0", r2="ib1")], before) == [first]
    assert named([rails("a b", r1="ib0")], before) == [first]
    assert named([rails("a b", r1="ib1", r2="ib0")], before) != [first]


VALUES = st.sets(st.sampled_from(["1017", "101b", "1021"]), min_size=1)
CLASSES = st.lists(VALUES, min_size=1, max_size=4, unique_by=frozenset)


@given(st.lists(CLASSES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_names_are_unique_and_a_second_plan_changes_none(history: list[list[set[str]]], random: Any) -> None:
    earlier: list[Json] = []
    for step in history:
        hosts: list[list[str]] = [[] for _values in step]
        for host in "abcdefgh":
            random.choice(hosts).append(host)
        classes = [
            entry(" ".join(own), deviceIDs=" ".join(sorted(values))) for own, values in zip(hosts, step, strict=True)
        ]
        found = named(classes, earlier)
        assert len(set(found)) == len(found)
        earlier = [{**own, "name": name} for own, name in zip(classes, found, strict=True)]
        order = random.sample(range(len(classes)), len(classes))
        assert named([classes[index] for index in order], earlier) == [found[index] for index in order]

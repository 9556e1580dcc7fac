# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import asked_hosts, fabric_map
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.contract import FabricMap
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    Cables,
    answers_of,
    discovered,
    recorded,
    switch,
    view_of,
)
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

Json = dict[str, Any]


def mapped(cables: Cables, ethernet: bool = False) -> FabricMap:
    view = view_of(cables, ethernet)
    found: FabricMap = checked("fabric", fabric_map(view, None, answers_of(view, cables, ethernet)))
    return found


@pytest.mark.parametrize("ethernet", [False, True])
def test_each_port_is_where_its_cable_ends(ethernet: bool) -> None:
    found = mapped({"n1": "AB", "n2": "AB", "n3": "CD"}, ethernet)
    names = {switch["id"]: switch["name"] for switch in found["switches"]}
    rows = [(place["host"], place["device"], place["rail"], names[place["leaf"]]) for place in found["places"]]
    assert rows == [
        ("n1", "mlx5_0", 0, "leaf-A"),
        ("n1", "mlx5_1", 1, "leaf-B"),
        ("n2", "mlx5_0", 0, "leaf-A"),
        ("n2", "mlx5_1", 1, "leaf-B"),
        ("n3", "mlx5_0", 0, "leaf-C"),
        ("n3", "mlx5_1", 1, "leaf-D"),
    ]
    assert {names[leaf]: hosts for leaf, hosts in found["leaves"].items()} == {
        "leaf-A": ["n1", "n2"],
        "leaf-B": ["n1", "n2"],
        "leaf-C": ["n3"],
        "leaf-D": ["n3"],
    }
    units = [([names[leaf] for leaf in unit["leaves"]], unit["hosts"]) for unit in found["units"]]
    assert units == [(["leaf-A", "leaf-B"], ["n1", "n2"]), (["leaf-C", "leaf-D"], ["n3"])]
    assert (found["unplaced"], found["findings"], found["warnings"]) == ([], [], [])
    told = [("n1", "ibnetdiscover")] if not ethernet else [(host, "lldpctl") for host in ("n1", "n2", "n3")]
    assert [(row["host"], row["program"]) for row in found["sources"]] == told


def test_two_hosts_are_asked_for_infiniband_and_all_for_ethernet() -> None:
    cables = {"n1": "AB", "n2": "AB", "n3": "AB"}
    ports = [{"device": "mlx5_0", "port": 1}, {"device": "mlx5_1", "port": 1}]
    one = {"programs": ["ibnetdiscover"], "ports": ports}
    assert asked_hosts(view_of(cables), {"n2", "n3"}) == {"n2": one, "n3": one}
    assert asked_hosts(view_of(cables), {"n1", "n2", "n3"}) == {"n1": one, "n2": one}
    every = {host: {"programs": ["lldpctl"], "ports": []} for host in cables}
    assert asked_hosts(view_of(cables, True), set(cables)) == every
    view = view_of(cables)
    view["groups"]["g"]["replayed"] = ["n1", "n2"]
    assert asked_hosts(view, set(cables)) == {"n3": one}


def test_a_switch_without_hosts_is_a_spine() -> None:
    found = mapped({"n1": "AB"})
    assert [(row["name"], row["leaf"]) for row in found["switches"]] == [
        ("leaf-A", True),
        ("leaf-B", True),
        ("spine", False),
    ]
    assert [(row["a"], row["b"], row["count"]) for row in found["trunks"]] == [
        (switch("A"), "0400000000000000", 1),
        (switch("B"), "0400000000000000", 1),
    ]


def test_a_bond_has_the_places_of_both_cables() -> None:
    facts = copy.deepcopy(recorded("ib-a100-1"))
    members = [member["netdev"] for member in facts["devices"][2]["lag"]["members"]]
    view = {"groups": {"g": {"hosts": ["n1"], "want": {"link_layer": "Ethernet"}}}, "facts": {"n1": facts}}
    row = {"chassis": {"l": {"id": {"value": "02"}}}, "port": {"id": {"value": "swp1"}}}
    text = json.dumps({"lldp": {"interface": [{name: row} for name in (*members, "eno1")]}})
    answers = {"n1": {"programs": [{"program": "lldpctl", "text": text, "error": None}]}}
    found = checked("fabric", fabric_map(view, None, answers))
    assert [(place["device"], place["netdev"]) for place in found["places"]] == [
        ("mlx5_bond_0", name) for name in members
    ]


def test_the_rails_of_the_plan_count() -> None:
    cables = {"n1": "AB"}
    view = view_of(cables)
    plan = plan_groups(view["facts"], {"g": {"hosts": ["n1"], "resource": {"name": "r"}}})
    plan["groups"]["g"]["rails"]["n1"] = [
        {"rail": 7 - index, "resource": "rdma/r", "gpus": [], "devices": [f"mlx5_{index}"]} for index in range(2)
    ]
    found = fabric_map(view, checked("plan", {**plan, "removed": {}, "remove": []}), answers_of(view, cables))
    assert [place["rail"] for place in found["places"]] == [7, 6]


@pytest.mark.parametrize(
    ("ethernet", "answers", "reason", "warnings"),
    [
        (False, {}, "no host has reported an InfiniBand fabric", []),
        (
            False,
            {"n1": {"programs": [{"program": "ibnetdiscover", "text": "", "error": "no umad"}]}},
            "no host has reported",
            ["host n1: ibnetdiscover: no umad"],
        ),
        (
            False,
            {"n1": {"programs": [{"program": "ibnetdiscover", "text": "nonsense", "error": None}]}},
            "no host has reported",
            ["host n1: ibnetdiscover reported no switch"],
        ),
        (True, {}, "its host does not tell of neighbours: install and start lldpd", []),
        (
            True,
            {"n1": {"unreachable": True, "msg": "Connection\ntimed out"}},
            "its host gave no answer: Connection timed out",
            ["host n1: its cables were not looked at: Connection timed out"],
        ),
        (
            True,
            {"n1": {}},
            "its host gave no answer: it did not answer",
            ["host n1: its cables were not looked at: it did not answer"],
        ),
        (
            True,
            {"n1": {"programs": [{"program": "lldpctl", "text": '{"lldp": {}}', "error": None}]}},
            "no switch has announced itself",
            ["host n1: lldpctl reported no switch"],
        ),
    ],
)
def test_a_port_that_is_not_on_the_map_says_why(
    ethernet: bool, answers: Json, reason: str, warnings: list[str]
) -> None:
    found = checked("fabric", fabric_map(view_of({"n1": "A"}, ethernet), None, answers))
    assert found["places"] == []
    assert [row["reason"].startswith(reason) for row in found["unplaced"]] == [True]
    assert found["warnings"] == warnings


@pytest.mark.parametrize(
    "answers", [{"n1": None}, {"n1": {}}, {"n1": {"programs": 3}}, {"n1": {"programs": [{}]}}, {"n1": []}]
)
def test_answers_of_another_form_tell_nothing(answers: Json) -> None:
    assert fabric_map(view_of({"n1": "A"}), None, answers)["sources"] == []


@pytest.mark.parametrize("row", [None, 5, "x", ["x"], {"program": "\ud800\x1b", "error": "\ud800\x1b" * 500}])
def test_a_row_of_another_form_costs_no_other(row: Any) -> None:
    view, cables = view_of({"n1": "A"}), {"n1": "A"}
    answers: Json = answers_of(view, cables, False)
    answers["n1"]["programs"].insert(0, row)
    found = checked("fabric", fabric_map(view, None, answers))
    assert len(found["places"]) == 1
    assert all(text.isprintable() and len(text) < 500 for text in found["warnings"])


@given(st.dictionaries(st.sampled_from(["n1", "n2", "n3", "n4"]), st.text("ABC-", min_size=3, max_size=3), min_size=1))
def test_any_cables_are_found_again(cables: dict[str, str]) -> None:
    for ethernet in (False, True):
        found = mapped(cables, ethernet)
        names = {row["id"]: row["name"] for row in found["switches"]}
        there = {(row["host"], row["rail"], names[row["leaf"]]) for row in found["places"]}
        assert there == {
            (host, rail, f"leaf-{leaf}")
            for host, leaves in cables.items()
            for rail, leaf in enumerate(leaves)
            if leaf != "-"
        }
        assert len(found["unplaced"]) == sum(leaves.count("-") for leaves in cables.values())


def test_what_one_host_says_moves_no_other() -> None:
    """Of each group two hosts are asked for InfiniBand, and one of them may say of others what it likes."""
    cables = {"n1": "A", "n2": "B"}
    view = view_of(cables)
    [row] = answers_of(view, cables)["n1"]["programs"]
    lie = {
        **row,
        "text": answers_of(view, {"n1": "C", "n2": "B"})["n1"]["programs"][0]["text"].replace("leaf-B", "evil"),
    }
    found = checked("fabric", fabric_map(view, None, {"n1": {"programs": [row]}, "n2": {"programs": [lie]}}))
    assert [(place["host"], place["leaf"]) for place in found["places"]] == [("n2", switch("B"))]
    assert [each["host"] for each in found["unplaced"]] == ["n1"]
    assert "evil" not in json.dumps(found)
    [warning] = found["warnings"]
    assert re.fullmatch(r"hosts n1 and n2 disagree about \w+( and \d+ more)?; the map ignores both", warning)


def test_a_switch_that_hosts_call_differently_has_its_id_for_a_name() -> None:
    cables = {"n1": "A", "n2": "A"}
    view = view_of(cables, True)
    answers = answers_of(view, cables, True)
    text = answers["n1"]["programs"][0]["text"]
    answers["n1"]["programs"][0]["text"] = text.replace("leaf-A", "evil")
    found = checked("fabric", fabric_map(view, None, answers))
    [leaf] = found["switches"]
    assert leaf["name"] == leaf["id"]


@pytest.mark.parametrize("ethernet", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_host_that_nobody_looks_at_stays_on_the_map(ethernet: bool, cached: bool) -> None:
    """A run with --limit, or a host that is lost for an hour: the next rollout would take its label of the topology."""
    cables = {"n1": "AB", "n2": "AB", "n3": "CD", "n4": "CD"}
    view = view_of(cables, ethernet)
    answers = answers_of(view, cables, ethernet)
    earlier = fabric_map(view, None, answers)
    if not cached or not ethernet:
        view["facts"] = {"n1": view["facts"]["n1"]}
    # one has left the inventory since
    groups = {"g": ["n1", "n2", "n3"]}
    view["groups"]["g"]["hosts"] = groups["g"]
    found = checked("fabric", fabric_map(view, None, {"n1": answers["n1"]}, earlier, groups))
    assert found["places"] == [place for place in earlier["places"] if place["host"] != "n4"]
    assert found["leaves"] == {leaf: [h for h in hosts if h != "n4"] for leaf, hosts in earlier["leaves"].items()}
    assert {row["id"]: row["name"] for row in found["switches"]} == {
        row["id"]: row["name"] for row in earlier["switches"]
    }
    assert (found["unplaced"], found["findings"]) == ([], [])
    assert found["warnings"] == ["not looked at, and where the map before this one has it: n2, n3"]


def test_what_was_looked_at_does_not_stay_where_it_was() -> None:
    cables = {"n1": "AB", "n2": "AB"}
    view = view_of(cables, True)
    earlier = fabric_map(view, None, answers_of(view, cables, True))
    moved = {"n1": "AB", "n2": "A-"}
    groups = {"g": ["n1", "n2"]}
    found = fabric_map(view, None, answers_of(view, moved, True), earlier, groups)
    assert [(place["host"], place["device"]) for place in found["places"]] == [
        ("n1", "mlx5_0"),
        ("n1", "mlx5_1"),
        ("n2", "mlx5_0"),
    ]
    # nor a device that is not there any more
    del view["facts"]["n2"]["devices"][1]
    found = fabric_map(view, None, {"n1": answers_of(view, cables, True)["n1"]}, earlier, groups)
    assert [place["device"] for place in found["places"] if place["host"] == "n2"] == ["mlx5_0"]


def test_a_fabric_of_which_nobody_tells_keeps_its_hosts() -> None:
    """A run with --limit and facts of the others from a cache, or one in which those who were asked in the other fabric are lost."""
    view = view_of(dict.fromkeys(("n1", "n2", "n3", "n4"), "AB"))
    view["groups"] = {
        name: {"hosts": hosts, "want": None} for name, hosts in (("a", ["n1", "n2"]), ("b", ["n3", "n4"]))
    }
    groups = {name: entry["hosts"] for name, entry in view["groups"].items()}
    one = discovered({"n1": "AB", "n2": "AB", "n3": "--", "n4": "--"})
    other = discovered({"n1": "--", "n2": "--", "n3": "CD", "n4": "CD"})
    earlier = fabric_map(view, None, {"n1": one, "n3": other})
    found = fabric_map(view, None, {"n1": one}, earlier, groups)
    assert (found["places"], found["unplaced"], found["findings"]) == (earlier["places"], [], [])
    assert found["warnings"] == ["not looked at, and where the map before this one has it: n3, n4"]
    # what has left the fabric that was seen is in none, and what is out of use is nowhere
    view["facts"]["n4"]["devices"][0]["ports"][0]["state"] = "Down"
    gone = discovered({"n1": "AB", "n2": "A-"})
    found = fabric_map(view, None, {"n1": gone}, earlier, groups)
    assert [(row["host"], row["device"]) for row in found["unplaced"]] == [("n2", "mlx5_1")]
    assert [row["device"] for row in found["places"] if row["host"] == "n4"] == ["mlx5_1"]


def test_a_host_alone_has_the_rails_of_those_that_stay_on_the_map() -> None:
    """With its first port down, its second one is beside their second ones all the same."""
    cables = dict.fromkeys(("n1", "n2", "n3"), "ABCD")
    view = view_of(cables)
    answers = answers_of(view, cables)
    earlier = fabric_map(view, None, answers)
    view["facts"] = {"n1": view["facts"]["n1"]}
    view["facts"]["n1"]["devices"][0]["ports"][0]["state"] = "Down"
    found = fabric_map(view, None, answers, earlier, {"g": list(cables)})
    assert {(place["device"], place["rail"]) for place in found["places"]} == {(f"mlx5_{n}", n) for n in range(4)}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import fabric_map
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import Finding
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    Cables,
    answers_of,
    view_of,
)


def findings(cables: Cables, ethernet: bool = False) -> list[Finding]:
    view = view_of(cables, ethernet)
    return fabric_map(view, None, answers_of(view, cables, ethernet))["findings"]


@pytest.mark.parametrize("ethernet", [False, True])
def test_two_swapped_cables_of_a_host_are_named_together(ethernet: bool) -> None:
    [found] = findings({"n1": "ABCD", "n2": "ACBD", "n3": "ABCD", "n4": "ABCD"}, ethernet)
    assert (found["id"], found["severity"], found["hosts"]) == ("cables-exchanged", "warning", ["n2"])
    netdevs = [" (enp12s0f0np0)", " (enp13s0f0np0)"] if ethernet else ["", ""]
    first, second = (f"n2 mlx5_{index + 1} port 1{netdevs[index]}" for index in range(2))
    assert f"the cables of {first} and {second} are swapped" in found["cause"]
    assert found["evidence"][0].startswith(f"{first}, rail 1: at leaf-C port ")
    assert found["evidence"][0].endswith("3 other hosts have it at leaf-B")
    assert "leaf-C port" in found["remedy"]
    assert "leaf-B port" in found["remedy"]


def test_cables_swapped_between_two_hosts_are_one_finding() -> None:
    [found] = findings({"n1": "ABCD", "n2": "BBCD", "n3": "AACD", "n4": "ABCD", "n5": "ABCD"})
    assert (found["id"], found["hosts"]) == ("cables-exchanged", ["n2", "n3"])
    assert "n2 mlx5_0 port 1 and n3 mlx5_1 port 1" in found["cause"]


def test_one_cable_at_another_leaf_is_found() -> None:
    [found] = findings({"n1": "ABCD", "n2": "ABXD", "n3": "ABCD"})
    assert (found["id"], found["hosts"]) == ("rail-off-leaf", ["n2"])
    assert found["remedy"] == "move its cable from leaf-X port 1 to a port of leaf-C"


@pytest.mark.parametrize("subnets", [False, True])
def test_a_port_that_is_down_moves_no_other_one_to_another_rail(subnets: bool) -> None:
    cables = dict.fromkeys(("n1", "n2", "n3"), "ABCDEFGH")
    view = view_of(cables)
    for number, facts in enumerate(view["facts"].values()):
        for index, device in enumerate(facts["devices"]):
            port = device["ports"][0]
            if subnets:
                port["gids"][0]["gid"] = f"fe80:0000:0000:000{index}:{port['gids'][0]['gid'][20:]}"
            port["state"] = "Down" if index == (7 if number else 6) else "Active"
    found = fabric_map(view, None, answers_of(view, cables))
    assert found["findings"] == []
    assert [place["rail"] for place in found["places"]] == [0, 1, 2, 3, 4, 5, 7, *(2 * [0, 1, 2, 3, 4, 5, 6])]


def test_a_port_that_no_host_uses_is_no_rail() -> None:
    cables = dict.fromkeys(("n1", "n2", "n3"), "ABC")
    view = view_of(cables)
    for facts in view["facts"].values():
        facts["devices"][0]["ports"][0]["rate_gbps"] = 25.0
    view["groups"]["g"]["want"] = {"min_rate_gbps": 100}
    found = fabric_map(view, None, answers_of(view, cables))
    assert [(place["device"], place["rail"]) for place in found["places"]] == [("mlx5_1", 0), ("mlx5_2", 1)] * 3


def test_of_two_hosts_nobody_knows_which_is_right() -> None:
    [found] = findings({"n1": "AB", "n2": "BA"})
    assert (found["id"], found["hosts"]) == ("rails-in-another-order", ["n1", "n2"])
    assert "mlx5_0 port 1, mlx5_1 port 1" in found["remedy"]
    assert len(found["evidence"]) == 4


@pytest.mark.parametrize(
    "cables",
    [
        # rail-optimised, in two units
        {"n1": "ABCD", "n2": "ABCD", "n3": "EFGH", "n4": "EFGH"},
        # a switch in each rack
        {"n1": "AAAA", "n2": "AAAA", "n3": "BBBB", "n4": "BBBB", "n5": "BBBB"},
        # two switches in each rack
        {"n1": "AABB", "n2": "AABB", "n3": "CCDD"},
        # units of one host
        {"n1": "ABCD", "n2": "EFGH"},
        {"n1": "A"},
        {"n1": "----", "n2": "ABCD"},
    ],
)
def test_what_is_cabled_alike_or_in_another_unit_is_right(cables: Cables) -> None:
    assert [found for found in findings(cables) if found["id"] != "port-in-another-fabric"] == []


def test_a_cable_into_another_unit() -> None:
    """The unit with fewer hosts is not taken for wrong as a whole."""
    [found] = findings(
        {"n1": "ABCD", "n2": "ABCH", "n3": "ABCD", "n4": "EFGH", "n5": "EFGH", "n6": "EFGH", "n7": "EFGH"}
    )
    assert (found["id"], found["hosts"]) == ("rail-off-leaf", ["n2"])
    assert found["remedy"].endswith("to a port of leaf-D")


def test_a_port_in_another_subnet_is_found() -> None:
    cables = {"n1": "AB", "n2": "AB", "n3": "AB"}
    view = view_of(cables)
    gid = view["facts"]["n2"]["devices"][1]["ports"][0]["gids"][0]
    gid["gid"] = gid["gid"].replace("fe80:0000:0000:0000", "fec0:0000:0000:0001")
    [found] = fabric_map(view, None, answers_of(view, cables))["findings"]
    assert (found["id"], found["severity"], found["hosts"]) == ("port-in-another-subnet", "error", ["n2"])
    assert found["evidence"] == ["n2 mlx5_1 port 1: fec0:0000:0000:0001; usual: fe80:0000:0000:0000"]


def test_a_port_that_no_fabric_has() -> None:
    [found] = findings({"n1": "AB", "n2": "A-", "n3": "AB"})
    assert (found["id"], found["hosts"], found["evidence"]) == (
        "port-in-another-fabric",
        ["n2"],
        ["n2 mlx5_1 port 1"],
    )


def test_a_thousand_hosts_take_seconds() -> None:
    """Also when no two are plugged in alike."""
    cables = {
        f"n{number}": "".join(chr(65 + (number * step + step) % 61) for step in (1, 3, 7, 11)) for number in range(1000)
    }
    view = view_of(cables)
    answers = answers_of(view, cables)
    began = time.monotonic()
    found = fabric_map(view, None, answers)["findings"]
    assert time.monotonic() - began < limit(30)
    assert len(found) <= 200


@pytest.mark.parametrize(("wrong", "left"), [(200, None), (201, 2), (260, 61)])
def test_findings_that_no_page_can_show_are_counted_and_their_hosts_named(wrong: int, left: int | None) -> None:
    cables = {f"n{number}": "ABCD" for number in range(600)}
    # each of them alone with its fault
    cables |= {f"n{number}": f"A{chr(200 + number)}CD" for number in range(wrong)}
    found = findings(cables)
    assert len(found) == 200
    assert {host for each in found for host in each["hosts"]} == {f"n{number}" for number in range(wrong)}
    said = f"{left} more findings on cables, of {left} hosts"
    assert sum(each["cause"].startswith(said) for each in found) == (left is not None)

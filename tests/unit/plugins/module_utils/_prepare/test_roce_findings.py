# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where hosts of a group differ in what decides how RoCE behaves between them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_findings import roce_findings
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import (
    ETHERNET,
    facts_of_host,
    rails,
)

Json = dict[str, Any]
SAME = facts_of_host(rails())


def found(hosts: dict[str, Json], wish: Any = None, want: Any = ()) -> list[str]:
    return roce_findings(
        {"g": {"hosts": list(hosts), "want": ETHERNET if want == () else want, "roce_host": wish}}, hosts
    )


def other(**given: Any) -> Json:
    """The facts of a host whose first port has other values."""
    facts = copy.deepcopy(SAME)
    port = facts["roce"]["ports"][0]
    for name, value in given.items():
        place = port if name in port else port["ipv4"] if name in port["ipv4"] else port["cards"][0]
        assert name in place
        place[name] = value
    return facts


def test_hosts_that_are_alike_are_nobodys_concern() -> None:
    assert found({"n1": SAME, "n2": SAME}) == []


@pytest.mark.parametrize(
    ("differs", "sentence"),
    [
        ({"mtu": 9000}, "group g: ports differ in the MTU: 1500 on n1, n2, n3 (eth1); 9000 on n3 (eth0)"),
        ({"rp_filter": 2}, "group g: ports differ in rp_filter: 1 on n1, n2, n3 (eth1); 2 on n3 (eth0)"),
        (
            {"ecn": {"np": [3], "rp": [3, 4]}},
            "group g: ports differ in the priorities with ECN: 0, 1, 2, 3, 4, 5, 6, 7 on n1, n2, n3 (eth1); 3 (np), 3, 4 (rp) on n3 (eth0)",
        ),
    ],
)
def test_a_host_that_differs_is_named_with_its_setting(differs: Json, sentence: str) -> None:
    assert found({"n1": SAME, "n2": SAME, "n3": other(**differs)}) == [sentence]


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ({"trust": "dscp"}, {"trust": "pcp"}, "what the priority is taken from (trust)"),
        ({"pfc": [3]}, {"pfc": []}, "the priorities with PFC"),
        ({"default_tos": 106}, {"default_tos": 0}, "the ToS of RDMA-CM"),
        ({"traffic_class": 106}, {"traffic_class": 104}, "the traffic class"),
        ({"arp_ignore": 1}, {"arp_ignore": 2}, "arp_ignore"),
    ],
)
def test_every_roce_setting_is_compared(one: Json, two: Json, words: str) -> None:
    [line] = [line for line in found({"n1": other(**one), "n2": other(**two)}) if "n2" in line and "n1" in line]
    assert line.startswith(f"group g: ports differ in {words}: ")


def test_hosts_with_another_mode_of_namespaces_are_named() -> None:
    exclusive = copy.deepcopy(SAME)
    exclusive["roce"]["netns"]["mode"] = "exclusive"
    [line] = found({"n1": SAME, "n2": exclusive})
    assert line == "group g: ports differ in the RDMA network namespace mode: exclusive on n2; shared on n1"


def test_what_is_set_for_all_netdevs_counts() -> None:
    """2 for all and 1 for the netdev is the same as 2 for the netdev."""
    all_two = copy.deepcopy(SAME)
    all_two["roce"]["all"]["rp_filter"] = 2
    own_two = copy.deepcopy(SAME)
    for port in own_two["roce"]["ports"]:
        port["ipv4"]["rp_filter"] = 2
    assert found({"n1": all_two, "n2": own_two}) == []


def test_what_nobody_tells_is_not_compared() -> None:
    """A host with mlnx_qos beside one without is not a difference of their settings."""
    assert found({"n1": SAME, "n2": other(trust=None, pfc=None, mtu=None)}) == []


def test_hosts_without_the_facts_and_groups_of_infiniband_are_passed_over() -> None:
    old = {key: value for key, value in SAME.items() if key != "roce"}
    assert found({"n1": old, "n2": other(mtu=9000), "n3": {}}) == found({"n2": other(mtu=9000)})
    assert found({"n1": SAME, "n2": other(mtu=9000)}, want=None) == []


def test_hosts_are_compared_with_the_wish() -> None:
    wish = {"mtu": 9000, "persist": False}
    assert found({"n1": SAME, "n2": SAME}, wish) == ["group g: n1, n2: mtu of eth0, eth1 is 1500 instead of 9000"]


def test_a_wish_that_loses_packets() -> None:
    wish = {"trust": "dscp", "pfc": {"priorities": [3]}, "dscp": 46, "persist": False}
    lines = found({}, wish)
    assert lines == [
        "group g: the ToS 186 (DSCP 46) is priority 5 unless somebody maps it otherwise, and rdma_roce_host.pfc has 3: RoCE would be lossy"
    ]
    assert found({}, {**wish, "dscp": 26}) == []


def test_a_switch_that_may_overrule() -> None:
    facts = other(dcbx="firmware", pfc=[3])
    facts["roce"]["ports"][1]["cards"][0]["pfc"] = [3]
    [line] = found({"n1": facts}, {"pfc": {"priorities": [3]}, "persist": False})
    assert line.startswith("group g: on n1 the firmware speaks DCBX with the switch, which may overrule rdma_roce_host")


def test_ports_of_a_recorded_host_that_differ_are_named() -> None:
    hosts = {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in ("roce-rails-1", "roce-rails-2")}
    assert found(hosts) == []
    hosts["roce-rails-2"]["roce"]["ports"][2]["mtu"] = 1500
    assert found(hosts) == [
        "group g: ports differ in the MTU: 9000 on roce-rails-1, roce-rails-2 (enp11s0f0np0, enp12s0f0np0, enp14s0f0np0, enp15s0f0np0, "
        "enp16s0f0np0, enp17s0f0np0, enp18s0f0np0); 1500 on roce-rails-2 (enp13s0f0np0)"
    ]

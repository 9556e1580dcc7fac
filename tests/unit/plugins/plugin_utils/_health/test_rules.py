# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule on hosts that are alike, with one thing changed that it must see, and one that it must not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.rules import health_findings
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of
from ansible_collections.fabric.rdma.tests.unit.schemas import validator

Json = dict[str, Any]
Change = Callable[[Json], object]


@functools.cache
def recorded(name: str) -> Json:
    return facts_of(open_tree(str(CAPTURES / f"{name}.capture")))


def findings(capture: str, count: int, *changes: Change) -> list[Json]:
    """Of some hosts with the facts of one capture, the first ones changed, each in its way."""
    facts = {f"n{number}": copy.deepcopy(recorded(capture)) for number in range(1, count + 1)}
    for number, change in enumerate(changes, 1):
        change(facts[f"n{number}"])
    found = health_findings({"groups": {"g": {"hosts": list(facts)}}, "facts": facts})
    row = validator("fabric").schema["properties"]["findings"]["items"]
    for finding in found:
        jsonschema.Draft202012Validator(row).validate(finding)
    return [dict(finding) for finding in found]


def same(facts: Json) -> None:
    del facts


def device(index: int, **values: Any) -> Change:
    return lambda facts: facts["devices"][index].update(values)


def pcie(index: int, bridge: Json | None = None, **values: Any) -> Change:
    def change(facts: Json) -> None:
        link = facts["devices"][index]["pcie"]
        link.update(values)
        (link["bridge"] or {}).update(bridge or {})

    return change


def port(index: int, **values: Any) -> Change:
    return lambda facts: facts["devices"][index]["ports"][0].update(values)


def second_port(index: int, rate: float) -> Change:
    """A second function of a card, both with a port of this rate."""

    def change(facts: Json) -> None:
        first = facts["devices"][index]
        first["ports"][0]["rate_gbps"] = rate
        second = {**copy.deepcopy(first), "name": "mlx5_9", "pci": first["pci"].replace(".0", ".1"), "pcie": None}
        facts["devices"].append(second)

    return change


def mtu(index: int, value: int) -> Change:
    return lambda facts: facts["devices"][index]["ports"][0]["netdevs"][0].update(mtu=value)


def child(index: int, value: int) -> Change:
    """A netdev of IPoIB in a partition."""

    def change(facts: Json) -> None:
        netdevs = facts["devices"][index]["ports"][0]["netdevs"]
        parent = netdevs[0]
        netdevs.append(
            {**parent, "name": parent["name"] + ".8001", "parent": parent["name"], "pkey": "0x8001", "mtu": value}
        )

    return change


def counters(**values: int) -> Change:
    return lambda facts: facts["health"]["ports"][0]["counters"].update(values)


def wire(**values: int) -> Change:
    return lambda facts: facts["health"]["netdevs"][0]["counters"].update(values)


def downs(value: int) -> Change:
    return lambda facts: facts["health"]["netdevs"][0].update(carrier_downs=value)


def hot(celsius: float) -> Change:
    return lambda facts: facts["health"]["temperatures"][0].update(celsius=celsius)


def both(*changes: Change) -> Change:
    def change(facts: Json) -> None:
        for each in changes:
            each(facts)

    return change


# (id, severity, capture, hosts, changes of the first ones, those that are named)
FOUND = [
    (
        "pcie-degraded",
        "warning",
        "ib-v100-1",
        3,
        [both(pcie(0, width=4), port(0, state="Down"), port(1, state="Down"))],
        ["n1"],
    ),
    # one port of the card alone would still fit
    ("pcie-degraded", "error", "ib-a100-1", 1, [both(pcie(1, width=8), second_port(1, 100.0))], ["n1"]),
    ("pcie-degraded", "error", "ib-v100-1", 3, [pcie(0, width=8)], ["n1"]),
    ("pcie-degraded", "error", "ib-a100-1", 1, [pcie(1, speed_gts=8.0)], ["n1"]),
    ("pcie-slot", "warning", "ib-a100-1", 1, [pcie(1, bridge={"max_width": 8}, width=8)], ["n1"]),
    (
        "pcie-unlike-neighbours",
        "warning",
        "ib-a100-1",
        3,
        [both(pcie(0, bridge={"max_width": 8}, width=8))],
        ["n1"],
    ),
    ("firmware-differs", "warning", "ib-v100-1", 3, [device(0, firmware="16.28.1002")], ["n1"]),
    (
        "firmware-differs",
        "warning",
        "ib-v100-1",
        2,
        [both(device(0, firmware="1"), device(1, firmware="1"))],
        ["n1", "n2"],
    ),
    ("psid-differs", "warning", "ib-v100-1", 3, [device(0, board_id="DEL0000000010")], ["n1"]),
    ("port-slower", "warning", "ib-v100-1", 3, [port(0, rate_gbps=50.0, width="2X")], ["n1"]),
    ("port-slower", "warning", "ib-v100-1", 2, [port(0, rate_gbps=50.0, width="2X")], ["n1"]),
    ("mtu-differs", "warning", "roce-rails-1", 3, [mtu(0, 1500)], ["n1"]),
    ("mtu-differs", "note", "ib-v100-1", 3, [mtu(0, 4092)], ["n1"]),
    ("mtu-differs", "note", "ib-v100-1", 3, [child(0, 1500), child(0, 1400), child(0, 1500)], ["n2"]),
    ("link-flapping", "warning", "ib-v100-1", 3, [counters(link_downed=40)], ["n1"]),
    ("link-flapping", "warning", "roce-rails-1", 1, [downs(100)], ["n1"]),
    ("link-flapping", "warning", "roce-rails-1", 2, [wire(link_down_events_phy=20)], ["n1"]),
    ("pause-storm", "error", "roce-rails-1", 2, [wire(tx_pause_storm_error_events=1)], ["n1"]),
    ("pause-storm", "warning", "roce-rails-1", 2, [wire(tx_pause_storm_warning_events=3)], ["n1"]),
    ("pause-storm", "warning", "roce-rails-1", 2, [wire(rx_prio3_pause=1_000_000)], ["n1"]),
    ("link-errors", "note", "ib-v100-1", 2, [counters(symbol_error=3)], ["n1"]),
    ("link-errors", "note", "roce-rails-1", 2, [wire(rx_symbol_err_phy=3)], ["n1"]),
    ("too-hot", "warning", "gb200-1", 1, [hot(98.0)], ["n1"]),
    ("too-hot", "error", "gb200-1", 1, [hot(105.0)], ["n1"]),
]


@pytest.mark.parametrize(("key", "severity", "capture", "count", "changes", "hosts"), FOUND)
def test_what_is_not_as_it_should_be_is_found(
    key: str, severity: str, capture: str, count: int, changes: list[Change], hosts: list[str]
) -> None:
    own = [finding for finding in findings(capture, count, *changes) if finding["id"] == key]
    assert [(finding["severity"], finding["group"], finding["hosts"]) for finding in own] == [(severity, "g", hosts)]
    assert all(finding["evidence"] and finding["remedy"] and finding["cause"] for finding in own)


# What looks like one of them, and is none.
WELL = [
    ("pcie-degraded", "ib-v100-1", [pcie(0, width=None, speed_gts=None)]),
    ("pcie-degraded", "ib-v100-1", [lambda facts: facts["devices"][0].pop("pcie")]),
    ("pcie-degraded", "ib-v100-1", [device(0, pcie=None)]),
    ("pcie-degraded", "ib-a100-1", [pcie(1, bridge={"max_width": 8}, width=8)]),
    ("pcie-slot", "ib-a100-1", [pcie(0, bridge={"max_width": 8}, width=8)]),
    ("pcie-unlike-neighbours", "ib-v100-1", [same]),
    ("firmware-differs", "ib-v100-1", [device(0, firmware=None)]),
    ("firmware-differs", "ib-v100-1", [device(0, firmware="16.28.1002", board_id="DEL0000000010")]),
    ("psid-differs", "ib-v100-1", [device(0, board_id=None)]),
    ("port-slower", "ib-v100-1", [port(0, rate_gbps=10.0, state="Down")]),
    ("port-slower", "ib-v100-1", [port(0, rate_gbps=None)]),
    ("mtu-differs", "roce-rails-1", [both(mtu(0, 1500), port(0, state="Down"))]),
    ("mtu-differs", "ib-v100-1", [child(0, 1500)] * 3),
    ("mtu-differs", "ib-v100-1", [child(0, 1500)]),
    ("link-flapping", "ib-v100-1", [counters(link_downed=9)]),
    ("link-flapping", "ib-v100-1", [counters(link_downed=40)] * 3),
    ("link-flapping", "ib-v100-1", [counters(link_downed=None)]),  # type: ignore[arg-type]
    ("pause-storm", "roce-rails-1", [wire(rx_prio3_pause=9000)]),
    ("pause-storm", "roce-rails-1", [both(wire(rx_prio3_pause=20_000), counters(port_xmit_packets=10**8))]),
    ("link-errors", "ib-v100-1", [counters(symbol_error=None)]),  # type: ignore[arg-type]
    ("too-hot", "gb200-1", [hot(94.0)]),
    ("too-hot", "gb200-1", [lambda facts: facts["health"]["temperatures"][0].update(celsius=300.0, critical=None)]),
]


@pytest.mark.parametrize(("key", "capture", "changes"), WELL)
def test_what_only_looks_like_it_is_not(key: str, capture: str, changes: list[Change]) -> None:
    assert [finding for finding in findings(capture, 3, *changes) if finding["id"] == key] == []


@pytest.mark.parametrize("capture", ["ib-a100-1", "gb200-1", "roce-rails-1", "no-rdma", "lab-soft-roce"])
def test_hosts_that_are_alike_and_well_give_nothing(capture: str) -> None:
    assert findings(capture, 3) == []


def test_two_ports_that_share_a_slot_of_their_card_are_only_told_of() -> None:
    """x16 of generation 3 carries 126 Gb/s: one port of 100 Gb/s, and not both at once."""
    [found] = findings("ib-v100-1", 3)
    assert (found["id"], found["severity"], found["hosts"]) == ("pcie-slot", "note", ["n1", "n2", "n3"])
    assert found["evidence"] == ["x16 at 8 GT/s, about 126 Gb/s for 200 Gb/s: n1..n3 (3 hosts)"]
    assert findings("ib-v100-1", 3, *[port(1, state="Down")] * 3) == []
    assert findings("ib-v100-1", 3, *[device(1, kind="vf")] * 3) == []


def test_a_port_that_its_slot_does_not_carry_is_a_warning_whichever_it_is() -> None:
    """The first port of the card is down, or fits."""
    for state in ("Down", "Active"):
        changes = [both(port(0, state=state), port(1, rate_gbps=200.0))] * 3
        [found] = [row for row in findings("ib-v100-1", 3, *changes) if row["id"] == "pcie-slot"]
        assert (found["severity"], found["hosts"]) == ("warning", ["n1", "n2", "n3"])


def test_coding_takes_no_lanes() -> None:
    """Two ports with QDR move 64 of the 80 Gb/s that the kernel says, and an x8 slot of generation 3 carries 63."""
    old = [both(pcie(index, width=8, max_width=8), port(index, speed="QDR", rate_gbps=40.0)) for index in (0, 1)]
    [found] = [row for row in findings("ib-v100-1", 3, *[both(*old)] * 3) if row["id"] == "pcie-slot"]
    assert found["evidence"] == ["x8 at 8 GT/s, about 63 Gb/s for 64 Gb/s: n1..n3 (3 hosts)"]


def test_every_rule_has_a_sample_of_both_kinds() -> None:
    assert {row[0] for row in FOUND} == {row[0] for row in WELL}


def test_a_narrow_link_is_reported_once_with_what_the_others_have() -> None:
    own = [row for row in findings("ib-v100-1", 3, pcie(0, width=8)) if row["id"].startswith("pcie")]
    # that of the others is as wide as it can be
    assert [(row["id"], row["hosts"]) for row in own] == [("pcie-degraded", ["n1"]), ("pcie-slot", ["n2", "n3"])]
    assert own[0]["evidence"] == [
        "n1 mlx5_0 (0000:5e:00.0): x8 at 8 GT/s, about 63 Gb/s; card and slot can do x16 at 8 GT/s",
        "its Active ports have 200 Gb/s",
        "x16 at 8 GT/s: other hosts",
    ]
    assert "lspci -vv -s 0000:5e:00.0" in own[0]["remedy"]


def test_the_worst_comes_first_and_groups_are_apart() -> None:
    facts = {name: copy.deepcopy(recorded("ib-v100-1")) for name in ("a1", "a2", "b1")}
    device(0, firmware="1")(facts["b1"])
    groups = {"b": {"hosts": ["b1"]}, "a": {"hosts": ["a2", "a1", "gone"]}}
    # another firmware in another group is none of its business
    told = health_findings({"groups": groups, "facts": facts})
    assert [row["group"] for row in told if row["id"] == "firmware-differs"] == ["b"]
    pcie(0, width=1)(facts["a1"])
    counters(symbol_error=1)(facts["a1"])
    told = health_findings({"groups": groups, "facts": facts})
    assert [row["severity"] for row in told] == ["error", "warning", "note", "note", "note"]


def test_what_nodes_say_is_cut_and_printable() -> None:
    [found, _slot] = findings("ib-v100-1", 3, device(0, firmware="\x1b[2J" + "x" * 9000))
    assert all(len(text) <= 300 and text.isprintable() for text in [*found["evidence"], found["cause"]])


@given(st.data())
def test_facts_may_lack_anything(data: st.DataObject) -> None:
    """And whatever may be null in the schema is null in some host."""
    facts = copy.deepcopy(recorded("roce-rails-1"))
    one = facts["devices"][data.draw(st.integers(0, 7))]
    for key in data.draw(st.lists(st.sampled_from(["model", "firmware", "board_id", "pci", "pcie", "vendor"]))):
        one[key] = None
    for key in data.draw(st.lists(st.sampled_from(["rate_gbps", "width", "speed", "state", "link_layer"]))):
        one["ports"][0][key] = None
    for key in data.draw(st.lists(st.sampled_from(["mtu", "type", "operstate"]))):
        one["ports"][0]["netdevs"][0][key] = None
    for row in facts["health"]["ports"]:
        for key in data.draw(st.lists(st.sampled_from(sorted(row["counters"])), max_size=3)):
            row["counters"][key] = None
    for key in data.draw(st.lists(st.sampled_from(["devices", "health"]), unique=True)):
        del facts[key]
    health_findings({"groups": {"g": {"hosts": ["n1", "n2"]}}, "facts": {"n1": facts, "n2": recorded("roce-rails-1")}})


def test_many_hosts_are_named_in_few_words_and_no_name_is_cut() -> None:
    [found, _slot] = findings("ib-v100-1", 90, device(0, firmware="16.28.1002"))
    most, other = found["evidence"]
    assert len(most) < 300
    assert most == "16.35.2000: n1..n90 (90 hosts)"
    assert other.endswith(found["hosts"][0])

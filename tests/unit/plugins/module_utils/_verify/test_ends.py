# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that meet, and what they are to carry."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import (
    End,
    ends_of,
    floor,
    gpu_memory,
    pcie_gbps,
    rails_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import judge_bandwidth
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pairs import node, plan, wanted_of


def an_end(host: str = "a", device: str = "mlx5_0", rate: float | None = 200.0, **given: t.Any) -> End:
    return End(host, device, 1, None, None, rate, given.pop("software", False), "InfiniBand", **given)


@pytest.mark.parametrize(
    ("rate", "average", "verdict"),
    [
        (100, 94.7, "pass"),
        (200, 183.6, "pass"),
        # 46 GB/s
        (400, 46 * 8, "pass"),
        (100, 89.9, "fail"),
        # a PCIe link of x8 in place of x16, of generation 4
        (200, 110.0, "fail"),
        # one that trained down to generation 3
        (400, 196.0, "fail"),
    ],
)
def test_what_was_measured_where_all_is_well_passes(rate: float, average: float, verdict: str) -> None:
    bound, why = floor("ib_write_bw", an_end(rate=rate), an_end("b", rate=rate), Settings(), 65536)
    assert judge_bandwidth(average, bound["min_gbps"], why).verdict == verdict


@pytest.mark.parametrize(("alone", "chosen"), [(False, (7, "198.51.100.1")), (True, (1, "169.254.7.7"))])
def test_an_address_that_nobody_routes_is_the_last_choice(alone: bool, chosen: tuple[int, str]) -> None:
    """One that the host gave itself (RFC 3927) may come first in the table, as it was there before the lease or the file."""
    facts = {name: node(link="Ethernet", ipv4="198.51.100.1") for name in ("a", "b")}
    for own in facts.values():
        gids = own["devices"][0]["ports"][0]["gids"]
        gids[:] = [gid for gid in gids if gid["netdev"] != "eth1" or not alone]
        gids.append({"index": 1, "gid": "::", "type": "RoCE v2", "netdev": "eth1", "ipv4": "169.254.7.7"})
    ((pair,),) = plan(facts)["rounds"]
    server = pair["tests"][0]["server"]
    assert (server["gid_index"], server["address"]) == chosen


@pytest.mark.parametrize(
    ("gts", "lanes", "most"),
    # generations 2 to 6; measured: 25 Gb/s (QDR in a slot of generation 2), 110 to 112 (x8), 197 (x16), 395 (x16)
    [(5.0, 8, 28.8), (8.0, 16, 113.4), (16.0, 8, 113.4), (16.0, 16, 226.9), (32.0, 16, 453.7), (64.0, 16, 871.2)],
)
def test_a_pcie_link_carries_its_rate_without_the_encoding(gts: float, lanes: int, most: float) -> None:
    assert pcie_gbps(gts, lanes) == most


@pytest.mark.parametrize("odd", [None, 0, -1, "16", True, float("nan"), 10**400, []])
def test_what_is_no_link_carries_nothing_that_is_known(odd: t.Any) -> None:
    assert pcie_gbps(odd, 16) is None
    assert pcie_gbps(16.0, odd) is None


def test_a_slot_that_can_do_no_more_lowers_the_floor_and_says_so() -> None:
    bound, why = floor("ib_write_bw", an_end(pcie_gbps=113.4), an_end("b", pcie_gbps=226.9), Settings())
    assert bound == {"min_gbps": 102.06}
    assert why == "90 % of the 113.4 Gb/s that PCIe carries at most, less than the port's 200 Gb/s"


def test_a_link_that_trained_down_lowers_no_floor() -> None:
    """What it can do counts, and not what it does."""
    facts = {name: node() for name in ("a", "b")}
    down = {"speed_gts": 8.0, "width": 8, "max_speed_gts": 16.0, "max_width": 16, "bridge": None}
    facts["a"]["devices"][0]["pcie"] = down
    ((pair,),) = plan(facts)["rounds"]
    assert pair["tests"][0]["floor"] == {"min_gbps": 180.0}
    facts["a"]["devices"][0]["pcie"] = {**down, "bridge": {"max_speed_gts": 16.0, "max_width": 8}}
    ((pair,),) = plan(facts)["rounds"]
    assert pair["tests"][0]["floor"] == {"min_gbps": 102.06}


def test_a_bridge_that_says_less_than_goes_through_it_lowers_no_floor() -> None:
    """That of a virtual machine: machines of QEMU of before 4.0 say 2.5 GT/s and one lane, whatever card is passed through."""
    facts = {name: node() for name in ("a", "b")}
    for own in facts.values():
        link = {"speed_gts": 16.0, "width": 16, "max_speed_gts": 16.0, "max_width": 16}
        own["devices"][0]["pcie"] = {**link, "bridge": {"max_speed_gts": 2.5, "max_width": 1}}
    ((pair,),) = plan(facts)["rounds"]
    assert pair["tests"][0]["floor"] == {"min_gbps": 180.0}


def test_the_address_of_a_pod_on_a_netdev_of_the_same_name_is_not_the_hosts() -> None:
    facts = {name: node(link="Ethernet", ipv4=f"198.51.100.{number}") for number, name in enumerate(("a", "b"), 7)}
    gids = facts["a"]["devices"][0]["ports"][0]["gids"]
    gids.insert(0, {"index": 2, "gid": "::", "type": "RoCE v2", "netdev": "eth1", "ipv4": "10.244.0.9"})
    facts["a"]["management"] = {"addresses": {"eth1": ["198.51.100.7"]}}
    found, _left = ends_of(["a"], facts, wanted_of(facts), Settings())
    assert [(end.gid_index, end.address) for end in found["a"]] == [(7, "198.51.100.7")]


@pytest.mark.parametrize(
    ("link", "speed", "rate", "bound"),
    [
        ("InfiniBand", "QDR", 40.0, 28.8),
        ("InfiniBand", "DDR", 20.0, 14.4),
        ("InfiniBand", "FDR10", 40.0, 36.0),
        ("InfiniBand", "FDR", 56.0, 50.4),
        # what the kernel calls 40 Gb/s Ethernet
        ("Ethernet", "QDR", 40.0, 36.0),
    ],
)
def test_the_rate_of_old_infiniband_counts_its_encoding(link: str, speed: str, rate: float, bound: float) -> None:
    """8b/10b: of the 40 Gb/s of QDR, 32 are data, and no cable makes them 36."""
    facts = {name: node(link=link, ipv4=f"198.51.100.{number}") for number, name in enumerate(("a", "b"), 7)}
    for own in facts.values():
        own["devices"][0]["ports"][0].update(rate_gbps=rate, speed=speed, width="4X")
    ((pair,),) = plan(facts)["rounds"]
    assert pair["tests"][0]["floor"] == {"min_gbps": bound}


def slow(*rates: float) -> dict[str, t.Any]:
    """Hosts with a port of each rate."""
    facts = {f"n{index}": node() for index in range(len(rates))}
    for own, rate in zip(facts.values(), rates, strict=True):
        own["devices"][0]["ports"][0]["rate_gbps"] = rate
    return facts


def bounds(facts: dict[str, t.Any]) -> dict[tuple[str, str], tuple[float, str]]:
    """Floor of the bandwidth and its reason by pair, where each host meets each."""
    return {
        (pair["client"], pair["server"]): (test["floor"]["min_gbps"], test["floor_reason"])
        for one in plan(facts, topology="full", tests=["ib_write_bw"])["rounds"]
        for pair in one
        for test in pair["tests"]
    }


def test_a_port_that_is_slower_than_on_most_hosts_lowers_no_floor() -> None:
    found = bounds(slow(200.0, 200.0, 100.0))
    assert {floor for floor, _why in found.values()} == {180.0}
    reasons = {pair: why for pair, (_floor, why) in found.items()}
    own = "90 % of the port's 200 Gb/s"
    assert {why for pair, why in reasons.items() if "n2" not in pair} == {own}
    assert {why for pair, why in reasons.items() if "n2" in pair} == {
        f"{own}, as on most hosts: n2 mlx5_0 port 1 has 100 Gb/s"
    }


@pytest.mark.parametrize("rates", [(200.0, 100.0), (200.0, 200.0, 100.0, 100.0), (100.0, 100.0, 200.0)])
def test_without_most_hosts_each_port_counts_as_it_is(rates: tuple[float, ...]) -> None:
    found = bounds(slow(*rates))
    given = {f"n{index}": rate for index, rate in enumerate(rates)}
    assert {pair: floor for pair, (floor, _why) in found.items()} == {
        pair: 0.9 * min(given[host] for host in pair) for pair in found
    }


def test_cards_of_another_model_have_rates_of_their_own() -> None:
    facts = slow(200.0, 200.0, 100.0)
    facts["n2"]["devices"][0]["model"] = "ConnectX-5"
    assert {floor for pair, (floor, _why) in bounds(facts).items() if "n2" in pair} == {90.0}


def test_a_card_with_the_name_of_a_lost_one_is_not_slower_than_it_should_be() -> None:
    """Two hosts of six have lost the first card, of 400 Gb/s: mlx5_0 is the second one there, of 200 Gb/s, as on all."""
    facts = {}
    for number in range(6):
        own = facts[f"n{number}"] = node(*(("mlx5_0", "mlx5_1", "mlx5_2") if number < 4 else ("mlx5_0", "mlx5_1")))
        for device, slot in zip(own["devices"], "012" if number < 4 else "12", strict=True):
            device["pci"] = f"0000:{slot}a:00.0"
            device["ports"][0]["rate_gbps"] = 400.0 if slot == "0" else 200.0
    planned = plan(facts, topology="full", tests=["ib_write_bw"])["rounds"]
    tests = [test for one in planned for pair in one for test in pair["tests"]]
    floors = {
        test["floor"]["min_gbps"]
        for test in tests
        if {test[side]["host"] for side in ("client", "server")} == {"n4", "n5"}
    }
    assert floors == {180.0}
    assert [test["floor_reason"] for test in tests if "on most hosts" in test["floor_reason"]] == []


def test_both_directions_are_twice_one() -> None:
    both = Settings(bidirectional=True)
    assert floor("ib_write_bw", an_end(), an_end("b"), both) == (
        {"min_gbps": 360.0},
        "90 % of the port's 200 Gb/s in both directions",
    )


@pytest.mark.parametrize(("test", "size"), [("ib_atomic_bw", 8), ("ib_write_bw", 64)])
def test_short_messages_are_not_compared_with_a_link(test: str, size: int) -> None:
    bound, why = floor(test, an_end(), an_end("b"), Settings(), size)
    assert (bound, why) == ({"min_gbps": 0.001}, "messages this short do not fill a link")


@given(st.floats(1, 800), st.floats(1, 800), st.one_of(st.none(), st.floats(1, 900)), st.floats(0, 1))
def test_a_floor_is_never_more_than_what_is_there(one: float, other: float, place: float | None, share: float) -> None:
    bound, why = floor(
        "ib_read_bw", an_end(rate=one, pcie_gbps=place), an_end("b", rate=other), Settings(min_share=share)
    )
    assert bound["min_gbps"] <= min(one, other, place or one) + 1e-6
    assert why


def test_a_group_may_have_bounds_of_its_own() -> None:
    facts = {name: node() for name in ("a", "b", "c", "d")}
    groups = {"one": ["a", "b"], "two": ["c", "d"]}
    rounds = plan(facts, groups, wishes={"one": {"min_share": 0.5, "max_us": 3}, "two": None})["rounds"]
    floors = {pair["group"]: [test["floor"] for test in pair["tests"]] for pair in rounds[0]}
    assert floors == {
        "one": [{"min_gbps": 100.0}, {"max_us": 3.0}],
        "two": [{"min_gbps": 180.0}, {"max_us": 20.0}],
    }


def test_bounds_of_the_command_line_are_texts() -> None:
    given = Settings().of_group({"min_gbps": "50", "min_share": "0.5", "max_us": None})
    assert given == Settings(min_gbps=50.0, min_share=0.5)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"max_us": "nan"}, "rdma_verify.max_us is nan; expected a number of microseconds above 0"),
        ({"min_gps": 1}, "rdma_verify has no key min_gps; it knows max_us, min_gbps, min_share"),
        ({"min_gbps": "many"}, "rdma_verify.min_gbps is 'many'; expected a number of Gb/s, 0 or more"),
        ({"min_share": 90}, "rdma_verify.min_share is 90; expected a share from 0 to 1"),
        ([], "rdma_verify is of type list; expected a dictionary"),
    ],
)
def test_bounds_that_make_no_sense_are_named(wish: t.Any, message: str) -> None:
    with pytest.raises(WishError, match=message):
        Settings().of_group(wish)


# --- rails -----------------------------------------------------------------------------------------------------------

DEVICES = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)


@given(DEVICES, DEVICES, st.sampled_from(["same", "all"]))
def test_every_port_meets_one_of_the_same_name_or_all(one: list[int], other: list[int], rails: str) -> None:
    ends = [[an_end(host, f"mlx5_{number}") for number in own] for host, own in (("a", one), ("b", other))]
    pairs = rails_of(*ends, rails)
    assert len(set(pairs)) == len(pairs)
    assert {client for client, _server in pairs} == set(ends[0])
    assert {server for _client, server in pairs} == set(ends[1])
    if rails == "all":
        assert len(pairs) == len(one) * len(other)
    else:
        assert len(pairs) == max(len(one), len(other)) or set(one) != set(other)
        both = {f"mlx5_{number}" for number in set(one) & set(other)}
        assert {client.device for client, server in pairs if client.device == server.device} >= both


LOST = {"a": [0, 1, 2, 3], "b": [0, 2, 3]}


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("known", [True, False])
def test_a_lost_card_does_not_shift_the_rails_of_the_others(order: str, known: bool) -> None:
    """The kernel counts the devices that are there, so that those behind the lost one have the names of their neighbours."""
    ends = {
        host: [
            an_end(host, f"mlx5_{at}", place=(0, f"0000:{slot}a:00.0") if known else None)
            for at, slot in enumerate(own)
        ]
        for host, own in LOST.items()
    }
    one, other = order
    met = {
        frozenset((LOST[one][int(a.device[-1])], LOST[other][int(b.device[-1])]))
        for a, b in rails_of(ends[one], ends[other])
    }
    # the one without a counterpart meets the last one
    assert met == (
        {frozenset({n}) for n in (0, 2, 3)} | {frozenset({1, 3})}
        if known
        else {frozenset({0}), frozenset({1, 2}), frozenset({2, 3}), frozenset({3})}
    )


def test_places_of_hosts_of_another_make_say_nothing() -> None:
    """The first card of one is where the second one of the other is."""
    places = {"a": ["1a", "3b"], "b": ["3b", "86"]}
    ends = [
        [an_end(host, f"mlx5_{at}", place=(make, f"0000:{bus}:00.0")) for at, bus in enumerate(own)]
        for make, (host, own) in enumerate(places.items())
    ]
    assert [(a.device, b.device) for a, b in rails_of(*ends)] == [("mlx5_0", "mlx5_0"), ("mlx5_1", "mlx5_1")]


def test_a_port_without_a_place_meets_by_its_name_beside_those_that_have_one() -> None:
    ends = {
        host: [
            *(an_end(host, f"mlx5_{at}", place=(0, f"0000:{slot}a:00.0")) for at, slot in enumerate(own)),
            an_end(host, "rxe0", software=True),
        ]
        for host, own in LOST.items()
    }
    met = {(a.device, b.device) for a, b in rails_of(ends["a"], ends["b"])}
    assert met == {
        ("mlx5_0", "mlx5_0"),
        ("mlx5_2", "mlx5_1"),
        ("mlx5_3", "mlx5_2"),
        ("rxe0", "rxe0"),
        # the lost card's, and whoever is the last one
        ("mlx5_1", "rxe0"),
    }


def test_the_ports_of_a_function_meet_their_like() -> None:
    ends = [[replace(an_end(host, place=(0, "0000:1a:00.0")), port=number) for number in (1, 2)] for host in ("a", "b")]
    assert [(a.port, b.port) for a, b in rails_of(*ends)] == [(1, 1), (2, 2)]


# --- memory of GPUs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "loaded", "gpudirect", "memory"),
    [
        (True, True, "auto", "cuda"),
        (True, False, "auto", "cuda_dmabuf"),
        (True, False, "peermem", "cuda"),
        (True, True, "dmabuf", "cuda_dmabuf"),
        (True, True, "none", None),
        (False, True, "auto", None),
    ],
)
def test_how_the_memory_of_a_gpu_is_reached(gpus: bool, loaded: bool, gpudirect: str, memory: str | None) -> None:
    facts = {"gpus": [{}] if gpus else [], "kernel": {"modules": {"nvidia_peermem": {"loaded": loaded}}}}
    assert gpu_memory(facts, gpudirect) == memory


def test_gpus_at_both_ends_are_worth_a_test_more() -> None:
    facts = {name: {**node(), "gpus": [{}]} for name in ("a", "b")}
    ((pair,),) = plan(facts, gpudirect="auto", tests=["ib_write_bw", "ib_atomic_bw"])["rounds"]
    assert [(test["test"], test.get("memory")) for test in pair["tests"]] == [
        ("ib_write_bw", None),
        ("ib_write_bw", "cuda_dmabuf"),
        ("ib_atomic_bw", None),
    ]
    facts["b"]["gpus"] = []
    ((pair,),) = plan(facts, gpudirect="auto")["rounds"]
    assert {test.get("memory") for test in pair["tests"]} == {None}


def gpu(pci: str, *nearest: str, numa: int | None = None) -> dict[str, t.Any]:
    return {"pci": pci, "vendor": "10de", "numa_node": numa, "nearest": list(nearest)}


def test_the_memory_of_the_gpu_that_is_nearest_is_measured() -> None:
    """The first GPU of a host may be at the other socket: what crosses it says nothing about a port."""
    cards = [gpu("0000:1b:00.0", "mlx5_0"), gpu("0000:9b:00.0", "mlx5_1")]
    facts = {name: {**node("mlx5_0", "mlx5_1"), "gpus": cards} for name in ("a", "b")}
    facts["b"]["gpus"] = [gpu("0009:01:00.0", "mlx5_0", "mlx5_1"), gpu("0018:01:00.0", "mlx5_0", "mlx5_1")]
    planned = plan(facts, gpudirect="dmabuf", tests=["ib_write_bw"])
    jobs = {
        host: [(test["device"], test.get("gpu")) for test in own[0]["tests"]] for host, own in planned["jobs"].items()
    }
    assert jobs == {
        "a": [("mlx5_0", None), ("mlx5_0", "0000:1b:00.0"), ("mlx5_1", None), ("mlx5_1", "0000:9b:00.0")],
        "b": [("mlx5_0", None), ("mlx5_0", "0009:01:00.0"), ("mlx5_1", None), ("mlx5_1", "0009:01:00.0")],
    }


@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        # under no switch with a GPU: one of its NUMA node
        ([gpu("0000:1b:00.0", "other", numa=0), gpu("0000:9b:00.0", "other", numa=1)], "0000:9b:00.0"),
        # nobody knows: the first one, as CUDA counts them
        ([gpu("0000:1b:00.0", "other"), gpu("0000:9b:00.0", "other")], None),
        # CUDA does not have it
        ([{**gpu("0000:1b:00.0", "mlx5_0"), "vendor": "1002"}], None),
    ],
)
def test_which_gpu_is_nearest_where_no_switch_tells(gpus: list[dict[str, t.Any]], chosen: str | None) -> None:
    facts = {name: {**node(), "gpus": gpus} for name in ("a", "b")}
    for own in facts.values():
        own["devices"][0]["numa_node"] = 1
    planned = plan(facts, gpudirect="peermem", tests=["ib_write_bw"])
    assert [test.get("gpu") for test in planned["jobs"]["a"][0]["tests"]] == [None, chosen]


# --- the traffic class -----------------------------------------------------------------------------------------------


def of_ports(*tos: int | None) -> dict[str, t.Any]:
    return {"ports": [{"device": f"mlx5_{index}", "port": 1, "default_tos": value} for index, value in enumerate(tos)]}


def test_what_is_measured_has_the_tos_of_its_port() -> None:
    """Without it, packets are in a class without PFC and ECN where the driver has no traffic class for all of them."""
    facts = {
        name: node("mlx5_0", "mlx5_1", link="Ethernet", ipv4=f"198.51.100.{index}") for index, name in enumerate("ab")
    }
    facts["a"]["roce"], facts["b"]["roce"] = of_ports(106, 0), of_ports(106, None)
    planned = plan(facts, tests=["ib_write_bw"])
    assert [[test.get("traffic_class") for test in planned["jobs"][host][0]["tests"]] for host in "ab"] == [
        [106, None]
    ] * 2
    ((pair,),) = planned["rounds"]
    assert [test.get("traffic_classes") for test in pair["tests"]] == [{"client": 106, "server": 106}, None]
    facts["b"]["roce"] = of_ports(104)
    assert plan(facts)["jobs"]["b"][0]["tests"][0]["traffic_class"] == 104
    # the driver gives it to all packets
    facts["b"]["roce"]["ports"][0]["traffic_class"] = 104
    assert "traffic_class" not in plan(facts)["jobs"]["b"][0]["tests"][0]
    # what InfiniBand has is a service level
    facts = {name: {**node(), "roce": of_ports(106)} for name in ("a", "b")}
    assert "traffic_class" not in plan(facts)["jobs"]["a"][0]["tests"][0]


@pytest.mark.parametrize("odd", [-1, 256, "106", True, None])
def test_a_tos_that_makes_no_sense_is_none(odd: t.Any) -> None:
    facts = {name: {**node(link="Ethernet", ipv4="198.51.100.1"), "roce": of_ports(odd)} for name in ("a", "b")}
    assert "traffic_class" not in plan(facts)["jobs"]["a"][0]["tests"][0]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who measures against whom, and what becomes of the results."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.filter.rdma_evidence import rdma_evidence
from ansible_collections.fabric.rdma.plugins.filter.rdma_pairs import rdma_pairs
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._verify.evidence import build_evidence
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pairs import pair_groups
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings, settings_from
from ansible_collections.fabric.rdma.plugins.module_utils._verify.tables import evidence_table
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT

RECORDED = Path(__file__).parent / "perftest"
DEFAULT_PREFIX = "fe80:0000:0000:0000"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def port(
    link: str, prefix: str | None, ipv4: str | None, state: str = "Active", rate: float = 200.0
) -> dict[str, t.Any]:
    gids: list[dict[str, t.Any]] = []
    if prefix:
        gids.append(
            {"index": 0, "gid": f"{prefix}:0c42:a103:0096:1ce4", "type": "IB/RoCE v1", "netdev": None, "ipv4": None}
        )
    if ipv4:
        gids.append({"index": 2, "gid": "::", "type": "IB/RoCE v1", "netdev": "eth1", "ipv4": ipv4})
        gids.append({"index": 5, "gid": "::", "type": "RoCE v2", "netdev": "eth1.100", "ipv4": "203.0.113.9"})
        gids.append({"index": 7, "gid": "::", "type": "RoCE v2", "netdev": "eth1", "ipv4": ipv4})
    netdevs = [{"name": "eth1" if link == "Ethernet" else "ib0"}]
    return {"number": 1, "link_layer": link, "state": state, "rate_gbps": rate, "gids": gids, "netdevs": netdevs}


def node(
    *names: str,
    link: str = "InfiniBand",
    prefix: str | None = DEFAULT_PREFIX,
    ipv4: str | None = None,
    kind: str = "pf",
    **more: t.Any,
) -> dict[str, t.Any]:
    return {
        "devices": [
            {"name": name, "kind": kind, "pci": None, "ports": [port(link, prefix, ipv4, **more)]}
            for name in names or ("mlx5_0",)
        ]
    }


def wanted_of(facts: t.Mapping[str, t.Any]) -> dict[str, list[dict[str, t.Any]]]:
    return {
        host: [
            {
                "device": device["name"],
                "port": one["number"],
                "rate_gbps": one["rate_gbps"],
                "link_layer": one["link_layer"],
                "netdev": one["netdevs"][0]["name"],
                "pci": device["pci"],
            }
            for device in value["devices"]
            for one in device["ports"]
        ]
        for host, value in facts.items()
    }


def plan(
    facts: dict[str, t.Any], groups: dict[str, list[str]] | None = None, wishes: t.Any = None, **settings: t.Any
) -> dict[str, t.Any]:
    return pair_groups(groups or {"g": list(facts)}, facts, wanted_of(facts), settings_from(settings), wishes)


def pairs_of(planned: dict[str, t.Any]) -> list[list[tuple[str, str]]]:
    return [[(pair["client"], pair["server"]) for pair in one] for one in planned["rounds"]]


# --- who meets whom ------------------------------------------------------------------------------------------------


def test_two_hosts_are_one_pair_and_a_ring_in_both_directions() -> None:
    assert pairs_of(plan({"lab1": node(), "lab2": node()})) == [[("lab1", "lab2")]]
    assert pairs_of(plan({"lab1": node(), "lab2": node()}, topology="ring")) == [[("lab1", "lab2")], [("lab2", "lab1")]]


def test_groups_run_at_the_same_time() -> None:
    facts = {name: node() for name in ("a10", "a2", "a1", "b1", "b2")}
    planned = plan(facts, {"b": ["b1", "b2"], "a": ["a10", "a2", "a1"]})
    assert pairs_of(planned) == [[("a1", "a2"), ("b1", "b2")], [("a10", "a1")]]
    assert [pair["group"] for pair in planned["rounds"][0]] == ["a", "b"]


def test_hosts_meet_only_inside_a_fabric() -> None:
    facts = {
        "n1": node(),
        "n2": node(prefix="fec0:0000:0000:0001"),
        "n3": node(),
        "n4": node(prefix="fec0:0000:0000:0001"),
        "n5": node(link="Ethernet", ipv4="198.51.100.5"),
    }
    planned = plan(facts)
    assert pairs_of(planned) == [[("n1", "n3"), ("n2", "n4")]]
    (alone,) = planned["untested"]["g"]
    assert alone["host"] == "n5"
    assert alone["reason"] == "no other host of this run has a port in its fabric (RoCE)"
    assert not alone["defect"]


def test_unknown_subnet_may_be_any() -> None:
    facts = {"n1": node(), "n2": node(prefix=None), "n3": node(prefix="fec0:0000:0000:0001"), "n4": node()}
    assert pairs_of(plan(facts)) == [[("n1", "n2"), ("n3", "n4")]]


def test_rails_meet_their_like() -> None:
    facts = {"n1": node("mlx5_0", "mlx5_1"), "n2": node("mlx5_0", "mlx5_1")}
    ((pair,),) = plan(facts)["rounds"]
    assert [(test["client"]["device"], test["server"]["device"]) for test in pair["tests"]] == [
        *[("mlx5_0", "mlx5_0")] * 2,
        *[("mlx5_1", "mlx5_1")] * 2,
    ]


def in_slots(slots: str, down: str = "") -> dict[str, t.Any]:
    """A host with a card in each of these slots, named as the kernel counts them, of which some are down."""
    facts = node(*(f"mlx5_{number}" for number in range(len(slots))))
    for device, slot in zip(facts["devices"], slots, strict=True):
        device["pci"] = f"0000:{slot}a:00.0"
        device["ports"][0]["state"] = "Down" if slot in down else "Active"
    return facts


def slots_that_meet(hosts: dict[str, dict[str, t.Any]]) -> set[tuple[str, str]]:
    """Of the first two hosts."""
    slot = {(host, each["name"]): each["pci"][5] for host, facts in hosts.items() for each in facts["devices"]}
    return {
        (slot["n1", test["client"]["device"]], slot["n2", test["server"]["device"]])
        for one in plan(hosts, topology="full", tests=["ib_write_bw"])["rounds"]
        for pair in one
        if (pair["client"], pair["server"]) == ("n1", "n2")
        for test in pair["tests"]
    }


def test_rails_meet_by_their_places_where_a_host_has_lost_a_card() -> None:
    """The first of three cards is gone, and each of the others has the name of the one before it."""
    assert slots_that_meet({"n1": in_slots("012"), "n2": in_slots("12")}) == {("0", "2"), ("1", "1"), ("2", "2")}


def test_a_port_that_is_down_takes_no_other_one_to_another_rail() -> None:
    """What is left of the ports tells nothing of the hosts: the second one has another card in front of all others."""
    named = {(str(number), str(number + 1)) for number in range(3)}
    whole = {"n1": in_slots("0123"), "n2": in_slots("1234")}
    assert slots_that_meet(whole) == {*named, ("3", "4")}
    assert slots_that_meet({**whole, "n2": in_slots("1234", down="4")}) == {*named, ("3", "3")}
    down = {"n1": in_slots("0123", down="0"), "n2": in_slots("1234", down="4")}
    assert slots_that_meet(down) == {("1", "2"), ("2", "3"), ("3", "1")}
    # of one make, with a card that is lost and a port that is down elsewhere
    assert slots_that_meet({"n1": in_slots("023"), "n2": in_slots("0123", down="2")}) == {
        ("0", "0"),
        ("3", "3"),
        ("2", "1"),
    }


def test_a_whole_host_tells_of_what_make_two_are_that_have_lost_different_cards() -> None:
    hosts = {"n1": in_slots("023"), "n2": in_slots("013")}
    assert slots_that_meet({**hosts, "n3": in_slots("0123")}) == {("0", "0"), ("3", "3"), ("2", "1")}
    # without it, the addresses of two hosts say nothing, and the names are left
    assert slots_that_meet(hosts) == {("0", "0"), ("2", "1"), ("3", "3")}


def test_hosts_with_the_cable_in_another_card_meet() -> None:
    """Two kinds of node in one group: the InfiniBand port is mlx5_1 of one and mlx5_0 of the other."""
    ((pair,),) = plan({"n1": node("mlx5_1"), "n2": node("mlx5_0")})["rounds"]
    assert {(test["client"]["device"], test["server"]["device"]) for test in pair["tests"]} == {("mlx5_1", "mlx5_0")}


def test_no_port_is_left_out_when_one_host_has_more() -> None:
    ((pair,),) = plan({"n1": node("mlx5_0"), "n2": node("mlx5_0", "mlx5_1", "mlx5_2")}, tests=["ib_write_bw"])["rounds"]
    assert {test["server"]["device"] for test in pair["tests"]} == {"mlx5_0", "mlx5_1", "mlx5_2"}
    ((pair,),) = plan({"n1": node("mlx5_0", "mlx5_1", "mlx5_2"), "n2": node("mlx5_7")}, tests=["ib_write_bw"])["rounds"]
    assert {test["client"]["device"] for test in pair["tests"]} == {"mlx5_0", "mlx5_1", "mlx5_2"}


def test_two_fabrics_of_the_same_hosts_are_one_pair() -> None:
    both = node("mlx5_0")
    both["devices"] += node("mlx5_2", link="Ethernet", ipv4="198.51.100.1")["devices"]
    ((pair,),) = plan({"n1": both, "n2": both}, tests=["ib_write_bw"])["rounds"]
    assert [test["client"]["device"] for test in pair["tests"]] == ["mlx5_0", "mlx5_2"]


def test_roce_takes_the_gid_of_its_own_netdev() -> None:
    facts = {
        name: node(link="Ethernet", prefix=None, ipv4=f"198.51.100.{index}") for index, name in enumerate(("a", "b"))
    }
    ((pair,),) = plan(facts)["rounds"]
    assert pair["tests"][0]["server"] == {
        "host": "b",
        "device": "mlx5_0",
        "port": 1,
        "gid_index": 7,
        "address": "198.51.100.1",
    }


def test_infiniband_has_neither_gid_index_nor_address() -> None:
    ((pair,),) = plan({"a": node(), "b": node()})["rounds"]
    assert (pair["tests"][0]["client"]["gid_index"], pair["tests"][0]["client"]["address"]) == (None, None)


def test_what_cannot_be_measured_is_named() -> None:
    facts = {"a": node(link="Ethernet"), "b": node(state="Init"), "c": {"devices": []}}
    planned = plan(facts)
    assert planned["rounds"] == []
    assert [(row["host"], row["reason"], row["defect"]) for row in planned["untested"]["g"]] == [
        ("a", "the port has no RoCE v2 GID with an IPv4 address: give eth1 one", True),
        ("b", "the port is Init, only Active ports carry traffic", True),
        ("c", "no port of the host is wanted and usable", False),
    ]


def test_a_host_that_lost_all_its_ports_is_a_defect() -> None:
    """It would measure nothing, and nothing would fail."""
    facts = {name: gather(open_tree(str(CAPTURES / "ib-v100-1.capture"))) for name in ("n1", "n2")}
    for own in facts.values():
        for device in own["devices"]:
            for port in device["ports"]:
                port["state"] = "Down"
    group = {
        "hosts": ["n1", "n2"],
        "want": {"link_layer": "InfiniBand"},
        "replayed": [],
        "verify": None,
        "resource": "rdma/ib",
    }

    def rows(resource: t.Any = "rdma/ib", allow: bool = False, **want: t.Any) -> list[tuple[str, bool]]:
        own = {**group, "resource": resource, "want": {**group["want"], **want}}
        planned = rdma_pairs({"groups": {"g": own}, "facts": facts}, ["n1", "n2"], {"allow_unusable": allow})
        assert planned["rounds"] == []
        return [(row["reason"], row["defect"]) for row in planned["untested"]["g"]]

    found = rows()
    assert [defect for _reason, defect in found] == [True, True]
    assert all("mlx5_0 port 1: port is Down" in reason and "mlx5_1 port 1" in reason for reason, _defect in found)
    # also one without any card, or with ports of the other kind
    for lacking in (rows(exclude=["mlx5_0", "mlx5_1"]), rows(link_layer="Ethernet")):
        assert lacking == [("no port of the host is wanted and usable (it has none of that kind)", True)] * 2
    # nobody wants anything of it, or it is excused
    for excused in (rows(resource=None), rows(allow=True)):
        assert excused == [("no port of the host is wanted and usable", False)] * 2


def test_each_host_knows_its_role_and_peer_in_each_round() -> None:
    facts = {name: node() for name in ("n1", "n2", "n3")}
    jobs = plan(facts, tests=["ib_write_bw"])["jobs"]
    assert [job and (job["role"], job["peer"]) for job in jobs["n1"]] == [("client", "n2"), ("server", "n3")]
    assert [job and job["role"] for job in jobs["n2"]] == ["server", None]
    assert jobs["n1"][0]["tests"] == [
        {
            "test": "ib_write_bw",
            "device": "mlx5_0",
            "port": 1,
            "gid_index": None,
            "message_bytes": 65536,
            "iterations": 5000,
            "qps": 1,
            "address": None,
        }
    ]


def test_a_thousand_hosts_are_planned_in_one_round() -> None:
    assert len(plan({f"n{index}": node() for index in range(1000)})["rounds"]) == 1


# --- floors --------------------------------------------------------------------------------------------------------


def floors(one: dict[str, t.Any], other: dict[str, t.Any], **settings: t.Any) -> list[dict[str, float]]:
    ((pair,),) = plan({"a": one, "b": other}, **settings)["rounds"]
    return [test["floor"] for test in pair["tests"]]


def test_floor_in_hardware_is_a_share_of_the_slower_port() -> None:
    assert floors(node(rate=400.0), node(rate=200.0)) == [{"min_gbps": 180.0}, {"max_us": 20.0}]
    assert floors(node(), node(), min_share=0.8) == [{"min_gbps": 160.0}, {"max_us": 20.0}]


def test_floor_of_software_is_absolute() -> None:
    soft = {name: node("rxe0", link="Ethernet", kind="software", ipv4="198.51.100.1") for name in ("a", "b")}
    assert floors(soft["a"], soft["b"]) == [{"min_gbps": 0.001}, {"max_us": 1000000.0}]
    ((pair,),) = plan(soft)["rounds"]
    assert {test["iterations"] for test in pair["tests"]} == {100}


def test_one_floor_holds_for_all_pairs() -> None:
    assert floors(node(), node(), min_gbps=25, max_us=3) == [{"min_gbps": 25.0}, {"max_us": 3.0}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": []}, "setting test is unknown; expected one of tests, topology,"),
        ({"tests": ["ib_fly"]}, "test ib_fly is unknown"),
        ({"topology": "star"}, "topology 'star' is unknown; expected one of pairs, ring, full, sample, canary"),
        ({"rails": "some"}, "rails 'some' is unknown; expected one of same, all"),
        ({"gpudirect": True}, "gpudirect 'True' is unknown; expected one of none, auto, peermem, dmabuf"),
        ({"canaries": "lab1"}, "setting canaries is 'lab1', which is not a list"),
        ({"bidirectional": "perhaps"}, "setting bidirectional is 'perhaps'; expected true or false"),
        ({"partners": 0}, "partners is 0; allowed is 1 or more"),
        ({"min_share": 80}, "min_share is 80; allowed is 0 to 1"),
        ({"forks": 0}, "forks is 0; allowed is 1 or more"),
        ({"iterations": "many"}, "setting iterations is 'many', which is not a number"),
        # what a host would refuse, or what would let everything or nothing pass
        ({"tests": []}, "tests is empty, and nothing would be measured; name some of ib_write_bw, ib_write_lat,"),
        ({"iterations": 4}, "iterations is 4; allowed is 5 to 100000000"),
        ({"software_iterations": -100}, "software_iterations is -100; allowed is 5 to 100000000"),
        ({"bandwidth_bytes": 0}, "bandwidth_bytes is 0; allowed is 1 to 2147483648"),
        ({"latency_bytes": 1 << 40}, "latency_bytes is 1099511627776; allowed is 1 to 2147483648"),
        ({"qps": 0}, "qps is 0; allowed is 1 to 16384"),
        ({"min_gbps": -5}, "min_gbps is -5; allowed is 0 or more"),
        ({"software_min_gbps": -0.1}, "software_min_gbps is -0.1; allowed is 0 or more"),
        ({"outlier_us": -1}, "outlier_us is -1; allowed is 0 or more"),
        ({"max_us": "0"}, "max_us is 0; expected more than 0"),
        ({"hardware_max_us": 0}, "hardware_max_us is 0; expected more than 0"),
        ({"software_max_us": -2}, "software_max_us is -2; expected more than 0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, t.Any], message: str) -> None:
    with pytest.raises(WishError, match=re.escape(message)):
        settings_from(settings)


@pytest.mark.parametrize(("hosts", "forks"), [(2, 5), (200, 5), (200, 500), (41, 1)])
def test_servers_outlive_the_last_batch_of_clients(hosts: int, forks: int) -> None:
    """All servers start first; the clients of 100 pairs run 5 at a time, and each may take its whole time for each test."""
    planned = plan({f"h{index}": node("mlx5_0", "mlx5_1") for index in range(hosts)}, forks=forks, timeout=60)
    for number, pairs in enumerate(planned["rounds"]):
        longest_wait = math.ceil(len(pairs) / forks) * max(len(pair["tests"]) for pair in pairs) * 60
        deadlines = {jobs[number]["deadline"] for jobs in planned["jobs"].values() if jobs[number]}
        assert min(deadlines) > longest_wait
        # A server that nobody stopped is not there for ever, either.
        assert max(deadlines) <= 3 * longest_wait


def test_settings_come_as_text_and_none() -> None:
    assert settings_from({"min_gbps": None, "max_us": "", "iterations": "200", "min_share": "0.5"}) == Settings(
        iterations=200, min_share=0.5
    )


# --- evidence ------------------------------------------------------------------------------------------------------


def ran(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"output": recorded(name), "status": 0, "timed_out": False, "timeout": 60, "problem": None, **more}


@pytest.fixture
def lab() -> dict[str, t.Any]:
    """The plan for two hosts with Soft-RoCE."""
    return plan(
        {
            name: node("rxe0", link="Ethernet", kind="software", ipv4=f"198.51.100.{index}", rate=1.0)
            for index, name in enumerate(("lab1", "lab2"), 1)
        }
    )


def results(client: t.Any = None, server: t.Any = None, stop: t.Any = None) -> dict[str, t.Any]:
    skipped = {"skipped": True}
    return {
        "lab1": [{"round": 0, "client": client, "server": skipped, "stop": skipped}],
        "lab2": [{"round": 0, "client": skipped, "server": server, "stop": stop or skipped}],
    }


def test_evidence_has_both_ends_of_a_measurement(lab: dict[str, t.Any]) -> None:
    client = {"results": [ran("bandwidth-gbits-two-qps-client"), ran("latency-client")]}
    served = {"results": [{"tcp_port": 18515, "problem": None}] * 2, "address": "10.0.2.15"}
    found = build_evidence(lab, results(client, served))
    assert found["failures"] == []
    bandwidth, latency = found["groups"]["g"]["tests"]
    assert bandwidth == {
        "level": "hosts",
        "test": "ib_write_bw",
        "client": {"host": "lab1", "device": "rxe0", "port": 1, "gid_index": 7, "address": "198.51.100.1"},
        "server": {"host": "lab2", "device": "rxe0", "port": 1, "gid_index": 7, "address": "198.51.100.2"},
        "message_bytes": 65536,
        "iterations": 100,
        "qps": 1,
        "mtu_bytes": 1024,
        "bandwidth_gbps": {"peak": 0.105706, "average": 0.072918},
        "message_rate_mpps": 0.000139,
        "latency_us": None,
        "floor": {"min_gbps": 0.001},
        "software": True,
        "verdict": "pass",
        "message": "0.0729 Gb/s >= 0.001 Gb/s",
        "remedy": None,
    }
    assert (latency["test"], latency["verdict"], latency["bandwidth_gbps"]) == ("ib_write_lat", "pass", None)
    assert latency["latency_us"]["typical"] > 0


def test_with_all_sizes_hardware_that_is_well_passes_and_the_evidence_says_of_which_size() -> None:
    planned = plan({name: node(rate=400.0) for name in ("lab1", "lab2")}, all_sizes=True)
    rows = (
        " 2 5000 0.05 0.05 2.8\n 8388608 5000 391.0 390.5 0.006\n",
        " 2 1000 0.87 4.70 0.89 0.90 0.08 0.95 4.70\n 8388608 1000 169.0 175.0 170.0 170.5 0.8 173.0 175.0\n",
    )
    client = {"results": [{"output": output, "status": 0} for output in rows]}
    found = build_evidence(planned, results(client))
    bandwidth, latency = found["groups"]["g"]["tests"]
    assert found["failures"] == []
    assert (bandwidth["message_bytes"], bandwidth["message"]) == (8388608, "390 Gb/s >= 360 Gb/s")
    assert (latency["message_bytes"], latency["message"]) == (2, "0.89 us <= 20 us")
    assert [len(test["sizes"]) for test in (bandwidth, latency)] == [2, 2]


def sentences(lab: dict[str, t.Any], **parts: t.Any) -> list[str]:
    return t.cast("list[str]", build_evidence(lab, results(**parts))["failures"])


def test_failure_names_hosts_devices_figures_and_remedy(lab: dict[str, t.Any]) -> None:
    for one in lab["rounds"][0][0]["tests"]:
        one["floor"] = {"min_gbps": 80.0} if one["test"] == "ib_write_bw" else {"max_us": 1.0}
        one["floor_reason"] = "80 % of the port's 100 Gb/s"
    first, second = sentences(lab, client={"results": [ran("bandwidth-mb-client"), ran("latency-client")]})
    assert first.startswith(
        "g: ib_write_bw from lab1 rxe0 to lab2 rxe0: 0.0541 Gb/s < 80 Gb/s (80 % of the port's 100 Gb/s). Remedy: compare"
    )
    assert re.match(r"g: ib_write_lat from lab1 rxe0 to lab2 rxe0: [\d.]+ us > 1 us", second)


def test_cause_comes_from_the_side_that_knows_it(lab: dict[str, t.Any]) -> None:
    """The client only sees that it was left alone; the server, when it was stopped, said that it could not lock memory."""
    alone = {"cause": "the other side ended before the test was over", "remedy": "see what the other side says"}
    client = {"results": [ran("memlock-server", status=1, problem=alone)] * 2}
    said = {"results": [{"output": recorded("memlock-client")}] * 2}
    first = sentences(lab, client=client, server={"results": [{"problem": None}] * 2}, stop=said)[0]
    assert "the server says: the memory of the test could not be locked" in first
    assert "LimitMEMLOCK=infinity" in first


def test_server_that_did_not_start(lab: dict[str, t.Any]) -> None:
    problem = {"cause": "ib_write_bw is not installed", "remedy": "install the package perftest"}
    served = {"run_dir": None, "results": [{"problem": problem}] * 2}
    client = {"results": [{"status": None, "problem": problem}] * 2}
    for one in (sentences(lab, client=client, server=served), sentences(lab, client={"skipped": True}, server=served)):
        assert one[0].endswith("ib_write_bw is not installed. Remedy: install the package perftest")


def test_a_host_that_is_lost_is_named(lab: dict[str, t.Any]) -> None:
    assert "lab2 could not be reached" in sentences(lab, client={"skipped": True}, server={"unreachable": True})[0]
    assert "lab2 could not be reached" in build_evidence(lab, {"lab1": results()["lab1"], "lab2": []})["failures"][0]
    gone = build_evidence(lab, {"lab2": results(server={"results": []})["lab2"]})["failures"]
    assert "lab1 could not be reached" in gone[0]
    failed = sentences(lab, client={"failed": True, "msg": "no Python"}, server={"results": []})
    assert "lab1 could not start its side: no Python" in failed[0]


def test_a_test_that_does_not_end_says_its_limit(lab: dict[str, t.Any]) -> None:
    client = {
        "results": [{"output": "", "status": -9, "timed_out": True, "timeout": 60, "problem": {"cause": "x"}}] * 2
    }
    assert "did not end within 60 s" in sentences(lab, client=client, server={"results": []})[0]


def test_numbers_with_a_bad_ending_do_not_pass(lab: dict[str, t.Any]) -> None:
    client = {"results": [ran("bandwidth-mb-client", status=1)] * 2}
    assert "perftest ended with status 1" in sentences(lab, client=client, server={"results": []})[0]


def test_defects_fail_and_loneliness_does_not() -> None:
    planned = plan({"a": node(link="Ethernet"), "b": node()})
    assert build_evidence(planned, {})["failures"] == [
        "g: a mlx5_0 port 1 was not measured: the port has no RoCE v2 GID with an IPv4 address: give eth1 one"
    ]


def test_the_table_of_evidence_fits_on_a_screen(lab: dict[str, t.Any]) -> None:
    client = {"results": [ran("bandwidth-mb-client"), {"output": "", "status": 1}]}
    evidence = build_evidence(lab, results(client, {"results": []}))["groups"]["g"]
    evidence["untested"] = [{"host": "x" * 60, "device": "mlx5_0", "port": 1, "reason": "y" * 90, "defect": True}]
    evidence["tests"][0]["client"]["host"] = "node-\x1b[2J" + "z" * 90
    lines = evidence_table(evidence)
    assert all(len(line) <= 100 and line.isprintable() for line in lines)
    assert lines[0].split()[:5] == ["VERDICT", "TEST", "MEASURED", "WANTED", "CLIENT"]
    assert {line.split()[0] for line in lines[1:3]} == {"pass", "ERROR"}


def test_long_names_lose_no_figure(lab: dict[str, t.Any]) -> None:
    """A domain that all share is said once; what is still too long goes on in the next line."""
    client = {"results": [ran("bandwidth-mb-client"), ran("latency-client")]}
    evidence = build_evidence(lab, results(client))["groups"]["g"]
    for entry in evidence["tests"]:
        for side in ("client", "server"):
            entry[side]["host"] += ".rack7.datacentre.example.com"
    lines = evidence_table(evidence)
    assert lines[0] == "all hosts in rack7.datacentre.example.com"
    assert [line.split()[-4:] for line in lines[3:]] == [["lab1", "rxe0:1", "lab2", "rxe0:1"]] * 2
    for entry in evidence["tests"]:
        entry["server"]["host"] = "another-rather-long-name.of-another.domain.example.org"
    lines = evidence_table(evidence)
    assert max(len(line) for line in lines) <= 100
    assert "".join(lines).count("Gb/s") == 1
    assert "rxe0:1" in " ".join(lines)


def test_many_that_passed_share_a_line_and_failures_come_first(lab: dict[str, t.Any]) -> None:
    client = {"results": [ran("bandwidth-mb-client"), ran("latency-client")]}
    evidence = build_evidence(lab, results(client))["groups"]["g"]
    bandwidth, latency = evidence["tests"]
    evidence["tests"] = [bandwidth, latency] * 500 + [{**bandwidth, "verdict": "fail"}]
    alone = {"device": "rxe0", "port": 1, "reason": "alone", "defect": False}
    evidence["untested"] = [{"host": f"n{number}", **alone} for number in range(1, 101)]
    lines = evidence_table(evidence)
    assert [line.split()[0] for line in lines[:4]] == ["VERDICT", "FAIL", "pass", "pass"]
    assert "500 tests" in lines[2]
    assert lines[-1].split() == ["n1..n100", "(100", "hosts)", "rxe0:1", "alone"]
    evidence["tests"] = [{**bandwidth, "verdict": "fail"}] * 130
    assert "and 30 more that did not pass, in the evidence" in evidence_table(evidence)


def test_an_empty_table_says_so() -> None:
    assert evidence_table({"tests": [], "untested": []}) == ["nothing was measured"]


def test_sentences_of_failures_move_no_cursor(lab: dict[str, t.Any]) -> None:
    problem = {"cause": "\x1b[2J\u202ewiped", "remedy": "see\r\nbelow"}
    failures = sentences(lab, client={"results": [{"status": None, "problem": problem}] * 2}, server={"results": []})
    row = {"host": "\x1b[2J", "device": "d", "port": 1, "reason": "\n", "defect": True}
    failures += build_evidence({"rounds": [], "untested": {"g": [row]}}, {})["failures"]
    assert len(failures) == 3
    assert all(text.isprintable() for text in failures)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["results", "problem", "output", "status", "cause", "msg"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_strange_answers_are_errors_of_the_test(answer: t.Any) -> None:
    planned = plan({"lab1": node(), "lab2": node()})
    found = build_evidence(planned, results(client=answer, server=answer, stop=answer))
    assert [test["verdict"] for test in found["groups"]["g"]["tests"]] == ["error", "error"]


# --- figures that make no sense ------------------------------------------------------------------------------------

# Every figure of both tables, by test, row of an output and place in it.
FIGURES = [("bandwidth-gbits-two-qps-client", number) for number in range(5)] + [
    ("latency-client", number) for number in range(9)
]
# 0 is an answer there: no peak was measured; always the same latency
ZERO_IS_SAID = {("bandwidth-gbits-two-qps-client", 2), ("latency-client", 6)}


# What a node may send instead of an output: some MB of what makes expressions look again and again.
HOSTILE = {
    "lines": "'\\n' * size",
    "blanks": "' ' * size",
    "letters": "'a' * size",
    "header": "'#bytes ' + 'a' * size",
    "brackets": "'#bytes ' + 'a[' * (size // 2)",
    "headers": "('#bytes ' + 'a' * 300 + '\\n') * (size // 308)",
    "figures": "'1 ' * (size // 2) + 'x'",
    "words": "'perftest version ' * (size // 17)",
    "device": "'Device' + ' ' * size",
    "titles": "'RDMA_Write BW ' + 'a ' * (size // 2)",
    "numbers": "'1' * size + ' 2' * 3",
}
JUDGE = """
import sys
from {module} import judged
size = 1 << 20
output = eval(sys.argv[1])
for test in ("ib_write_bw", "ib_write_lat"):
    end = {{"host": "a", "device": "x", "port": 1, "gid_index": 1, "address": "192.0.2.1"}}
    planned = {{"test": test, "client": end, "server": end, "message_bytes": 2, "iterations": 5, "qps": 1}}
    planned.update(floor={{"min_gbps": 1.0, "max_us": 1.0}}, floor_reason="")
    for status, late in ((0, False), (1, False), (137, True)):
        result = {{"output": output, "status": status, "timed_out": late, "timeout": 5}}
        found = judged(planned, result, result)
        assert found["verdict"] == "error", found
        assert len(str(found)) < 10000
    problem = {{"cause": output, "remedy": output}}
    assert len(str(judged(planned, {{"problem": problem, "address": output}}, {{}}))) < 20000
"""


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_node_sends_stops_nobody(kind: str) -> None:
    """Looked at from each of its characters, 1 MiB takes hours; seconds are enough."""
    code = JUDGE.format(module=build_evidence.__module__)
    command = [sys.executable, "-c", code, HOSTILE[kind]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".collections")}
    assert subprocess.run(command, env=environment, check=False, timeout=limit(20)).returncode == 0


def with_figure(name: str, number: int, value: str) -> str:
    text = recorded(name)
    (row,) = [line for line in text.splitlines() if re.match(r" \d+ ", line)]
    values = row.split()
    values[number] = value
    return text.replace(row, "  ".join(values))


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-nan", "0", "0.00", "-1.5", "1e999", "9" * 5000])
@pytest.mark.parametrize(("name", "number"), FIGURES)
def test_a_figure_that_makes_no_sense_fails_its_pair(lab: dict[str, t.Any], name: str, number: int, value: str) -> None:
    """Through the filter, as the role calls it: no traceback, the other measurement stays, and the error has what was printed."""
    outputs = [recorded("bandwidth-gbits-two-qps-client"), recorded("latency-client")]
    changed = int(name == "latency-client")
    outputs[changed] = with_figure(name, number, value)
    client = {"results": [ran("latency-client", output=output) for output in outputs]}
    found = rdma_evidence(lab, results(client, {"results": []}))
    json.dumps(found, allow_nan=False)
    verdicts = [test["verdict"] for test in found["groups"]["g"]["tests"]]
    if value in ("0", "0.00") and (name, number) in ZERO_IS_SAID:
        assert verdicts == ["pass", "pass"]
        return
    assert verdicts == [["error", "pass"], ["pass", "error"]][changed]
    (failure,) = found["failures"]
    assert value[:50] in failure
    assert "Remedy: " in failure
    assert "ERROR" in found["tables"]["g"]


@given(st.lists(st.tuples(st.sampled_from(FIGURES), st.floats()), max_size=4))
def test_any_figures_are_judged(figures: list[tuple[tuple[str, int], float]]) -> None:
    planned = plan({name: node("rxe0", kind="software") for name in ("lab1", "lab2")})
    outputs = {name: recorded(name) for name in ("bandwidth-gbits-two-qps-client", "latency-client")}
    for (name, number), value in figures:
        outputs[name] = with_figure(name, number, f"{value:.6f}")
    client = {"results": [{"output": output, "status": 0} for output in outputs.values()]}
    found = rdma_evidence(planned, results(client, {"results": []}))
    json.dumps(found, allow_nan=False)
    for test in found["groups"]["g"]["tests"]:
        figure = (test["bandwidth_gbps"] or test["latency_us"] or {}).get("average")
        assert test["verdict"] == "error" or 0 < figure < math.inf


def test_the_server_of_a_repetition_is_the_spare_one(lab: dict[str, t.Any]) -> None:
    """It came after all others, so it says why at another place of the list."""
    run = ran("latency-client", output="", status=1, repeated=True)
    said = [{"output": "first"}, {"output": ""}, {"output": recorded("memlock-client")}, {"output": ""}]
    first, _second = sentences(lab, client={"results": [run, run]}, server={"results": []}, stop={"results": said})
    assert "the server says: the memory of the test could not be locked" in first


def leaves(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Where every value is, that of a container before those in it."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def replaced(value: t.Any, path: tuple[t.Any, ...], by: t.Any) -> t.Any:
    if not path:
        return by
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], by)
    return copied


def whole_answer() -> dict[str, t.Any]:
    """What the module returns, with a problem on one side."""
    problem = {"cause": "it was busy", "remedy": "wait"}
    run = {**ran("latency-client"), "seconds": 0.3, "address": "198.51.100.2", "command": ["ib_write_lat"]}
    served = {"tcp_port": 18515, "pid": 7, "listening": True, "output": "", "problem": problem}
    late = {**run, "output": "", "status": -9, "timed_out": True, "problem": problem}
    return results(
        {"changed": False, "results": [run, late]},
        {"changed": False, "run_dir": "/run/x", "started": True, "address": "198.51.100.2", "results": [served] * 2},
        {"changed": False, "stopped": 0, "results": [{"output": ""}] * 2},
    )


ODD = [
    math.inf,
    -math.inf,
    math.nan,
    0,
    0.0,
    -1,
    10**400,
    True,
    None,
    "text",
    "9" * 5000,
    [],
    {},
    [1],
    {"cause": math.inf},
]


@pytest.mark.parametrize("path", list(leaves(whole_answer()))[1:], ids=lambda path: ".".join(map(str, path)))
def test_any_value_of_an_answer_may_be_odd(lab: dict[str, t.Any], path: tuple[t.Any, ...]) -> None:
    for odd in ODD:
        found = rdma_evidence(lab, replaced(whole_answer(), path, odd))
        json.dumps(found, allow_nan=False)
        assert len(found["groups"]["g"]["tests"]) == 2


@pytest.mark.parametrize("rate", [math.inf, -math.inf, math.nan, 0, 0.0, -100.0, 10**400, True, "200", [], {}])
def test_a_rate_that_makes_no_sense_is_unknown(rate: t.Any) -> None:
    """It comes from a node, and the floor from it."""
    planned = plan({"a": node(rate=rate), "b": node(rate=rate)})
    first = planned["rounds"][0][0]["tests"][0]
    assert (first["floor"], first["floor_reason"]) == ({"min_gbps": 0.001}, "the rate of the ports is unknown")
    json.dumps(rdma_evidence(planned, {}), allow_nan=False)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "inf", "nan"])
@pytest.mark.parametrize(
    "key", [key for key, value in Settings().__dict__.items() if not isinstance(value, (tuple, str, bool))]
)
def test_a_setting_that_is_no_figure_is_named(key: str, value: t.Any) -> None:
    with pytest.raises(WishError, match=f"setting {key} is .*, which is not a number"):
        settings_from({key: value})


# --- filters -------------------------------------------------------------------------------------------------------


def view(**hosts: t.Any) -> dict[str, t.Any]:
    group = {"hosts": list(hosts), "resource": None, "want": {"state": "any"}, "strategy": None, "replayed": ["away"]}
    return {"groups": {"g": group}, "facts": hosts, "without_facts": []}


def complete(facts: dict[str, t.Any]) -> dict[str, t.Any]:
    for device in facts["devices"]:
        device.update(lag=None, netdevs=[], pci="0000:3b:00.0")
        for one in device["ports"]:
            one.update(phys_state="LinkUp")
            one["netdevs"][0].update(master=None)
    return facts


def test_filter_leaves_out_replayed_and_absent_hosts() -> None:
    everything = view(a=complete(node()), b=complete(node()), away=complete(node()), other=complete(node()))
    planned = rdma_pairs(everything, ["a", "b", "away"])
    assert pairs_of(planned) == [[("a", "b")]]
    assert set(planned["jobs"]) == {"a", "b"}
    answer = rdma_evidence(planned, {})
    assert answer["expected"] == ["a", "b", "other"]
    assert "could not be reached" in answer["failures"][0]
    assert answer["tables"]["g"].startswith("VERDICT")


def test_filters_refuse_what_they_cannot_read() -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape("expects the value of fabric.rdma.rdma_view")):
        rdma_pairs([], [])
    with pytest.raises(AnsibleFilterError, match="expects a list of hosts, found 'a'"):
        rdma_pairs(view(), "a")
    with pytest.raises(AnsibleFilterError, match="topology 'x' is unknown"):
        rdma_pairs(view(), [], {"topology": "x"})
    with pytest.raises(AnsibleFilterError, match=re.escape("expects the value of fabric.rdma.rdma_pairs")):
        rdma_evidence([], {})
    with pytest.raises(AnsibleFilterError, match="expects results by host, found list"):
        rdma_evidence({"rounds": []}, [])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of any size to report on: nodes with eight rails, traffic between their Pods, a fabric, and a few things that are wrong."""

from __future__ import annotations

import functools
import itertools
import json
import random
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import completed_with, document_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.tests.unit.contracts import a_test
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import CAPTURES, saved

Json = dict[str, Any]

RAILS = 8
# Nodes of a leaf; all pairs are measured up to so many nodes, and beyond that each with a few others.
_LEAF, _FULL, _PARTNERS = 32, 100, 4
_GROUP = "gpu-roce"


@functools.cache
def _facts() -> str:
    return json.dumps(gather(open_tree(str(CAPTURES / "roce-rails-1.capture"))))


def a_cluster(nodes: int, ill: bool = True) -> Json:
    """What build() takes for a cluster of so many nodes; ill: with a slow node, a pair that fails, a cable that is exchanged."""
    hosts = [f"gpu-node-{number:0{len(str(nodes))}}" for number in range(1, nodes + 1)]
    facts: Json = {}
    alike: Json | None = None
    for number, host in enumerate(hosts):
        # as the view of an inventory has them: nodes that are alike are one object
        well = not ill or (number % 50 != 1 and number % 97 != 3 and number % 20 != 7 and number != nodes // 3)
        if well and alike is not None and nodes > _FULL:
            facts[host] = alike
            continue
        facts[host] = _node(number, nodes, ill)
        alike = facts[host] if well else alike
    wishes = {"rdma_resource": {"name": "roce"}, "rdma_want": {"link_layer": "Ethernet"}, "rdma_rails": True}
    group = {"hosts": hosts, "resource": wishes["rdma_resource"], "want": wishes["rdma_want"], "strategy": None}
    plan = plan_groups(facts, {_GROUP: {**group, "rails": True, "replayed": []}})
    names = [device["name"] for device in facts[hosts[0]]["devices"]][:RAILS]
    return {
        "facts": facts,
        "plan": plan,
        "evidence": [
            {
                "schema": 1,
                "group": _GROUP,
                "tests": _tests(hosts, names, ill),
                "untested": [],
                "outliers": _outliers(hosts, names) if ill else [],
                **_checks(hosts, names, ill),
            }
        ],
        "groups": {_GROUP: hosts},
        "files": [
            saved(_fabric(hosts, names, ill), "fabric.json"),
            saved({"findings": _findings(hosts) if ill else []}, "doctor.json"),
        ],
        "prepared": _prepared(hosts),
        "versions": {"collection": "0.1.0", "ansible": "2.21.5"},
    }


def _node(number: int, nodes: int, ill: bool) -> Json:
    """The facts of a node."""
    facts: Json = json.loads(_facts())
    for index, device in enumerate(facts["devices"]):
        device["node_guid"] = f"0200:{number >> 16:04x}:{number & 0xFFFF:04x}:{index:04x}"
        device["pcie"] = {"speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16, "bridge": None}
        if ill and number % 50 == 1:
            device["firmware"] = "28.39.1002"
        if ill and number == nodes // 3 and index == 2:
            device["pcie"]["width"] = 8
        for port in device["ports"]:
            port["rate_gbps"] = 400.0
            if ill and number % 97 == 3 and index == 5:
                port.update(state="Down", phys_state="Polling", rate_gbps=10.0)
    if ill:
        _ail(facts["health"], number)
    return facts


def _ail(health: Json, number: int) -> None:
    """Counters of some nodes are not 0."""
    if number % 20 == 7:
        health["ports"][3]["counters"].update(symbol_error=3 * number, link_downed=number % 5)


def _pairs(hosts: list[str]) -> list[tuple[str, str]]:
    if len(hosts) <= _FULL:
        return list(itertools.permutations(hosts, 2))
    count = len(hosts)
    return [(hosts[at], hosts[(at + step) % count]) for step in (1, 7, 33, 101)[:_PARTNERS] for at in range(count)]


def _tests(hosts: list[str], devices: list[str], ill: bool) -> list[Json]:
    chance = random.Random(len(hosts))
    slow = {hosts[len(hosts) // 3]} if ill and len(hosts) > 2 else set()
    tests = []
    for number, (client, server) in enumerate(_pairs(hosts)):
        device = devices[number % len(devices)]
        speed = 392.0 + chance.gauss(0, 1.2)
        if {client, server} & slow:
            speed = 262.0 + chance.gauss(0, 6)
        if ill and number == len(hosts) + 1:
            wrong = {"message": "Couldn't allocate MR", "remedy": "lift the memlock limit of containerd"}
            tests.append(
                _between(device, a_test(client, server, None, floor={"min_gbps": 360}, verdict="error", **wrong))
            )
            continue
        verdict = (
            {"verdict": "fail", "message": f"{speed:.1f} Gb/s are below the floor of 360 Gb/s"} if speed < 360 else {}
        )
        tests.append(_between(device, a_test(client, server, round(speed, 2), floor={"min_gbps": 360}, **verdict)))
        if number % 8 == 0:
            tests.append(_between(device, _latency(client, server, 2.1 + abs(chance.gauss(0, 0.15)))))
    return tests


def _between(device: str, test: Json) -> Json:
    """The same between Pods, over a device of that name at both ends."""
    given = {
        "user": 1000,
        "memlock": {"soft": "unlimited", "hard": "unlimited"},
        "files": {"client": ["rdma_cm", "uverbs0"], "server": ["rdma_cm", "uverbs0"]},
        "image": "registry.example.com/perftest:1",
    }
    for side in ("client", "server"):
        test[side].update(device=device, gid_index=3)
    return {**test, "level": "pods", "pods": given}


def _latency(client: str, server: str, microseconds: float) -> Json:
    typical = round(microseconds, 2)
    figures = {"min": typical - 0.3, "max": typical * 9, "typical": typical, "average": typical + 0.05, "stdev": 0.1}
    latency = {**figures, "p99": round(typical * 1.4, 2), "p999": typical * 3}
    sort = {"test": "ib_write_lat", "message_bytes": 8, "latency_us": latency, "floor": {"max_us": 10}}
    return a_test(client, server, None, **sort)


def _checks(hosts: list[str], devices: list[str], ill: bool) -> Json:
    """What Pods were given and reach, and what grew on links."""
    return {
        "collectives": _collectives(hosts, ill),
        "inspections": _inspections(hosts, devices, ill),
        "pings": _pings(hosts),
        "links": _links(hosts, devices, ill),
    }


def _inspections(hosts: list[str], devices: list[str], ill: bool) -> list[Json]:
    inspection = {
        "user": 1000,
        "memlock": {"soft": "unlimited", "hard": "unlimited"},
        "ipc_lock": True,
        "memory_bytes": None,
        "files": ["rdma_cm", "uverbs0"],
        "devices": devices[:1],
        "image": "registry.example.com/perftest:1",
        "lacks": [],
        "verdict": "pass",
        "message": "",
        "remedy": None,
    }
    told = f"a Pod on {hosts[-1]} may lock only so much memory: soft 64 KiB and hard 64 KiB"
    low = {"memlock": {"soft": "64", "hard": "64"}, "verdict": "fail", "message": told, "ipc_lock": False}
    low["remedy"] = "lift the limit of containerd (rdma_memlock), and recreate the Pod"
    return [{**inspection, "host": host, **(low if ill and host == hosts[-1] else {})} for host in hosts]


def _pings(hosts: list[str]) -> list[Json]:
    ping = {
        "network": "default/fabric",
        "address": "192.0.2.7",
        "sent": 3,
        "received": 3,
        "message": "",
        "remedy": None,
    }
    times = {"min": 90.0, "average": 120.0, "max": 150.0}
    return [
        {**ping, "client": one, "server": other, "rtt_us": times, "verdict": "pass"}
        for one, other in itertools.pairwise(hosts)
    ]


def _links(hosts: list[str], devices: list[str], ill: bool) -> list[Json]:
    grown = {
        "counter": "rx_crc_errors",
        "growth": 420,
        "per_second": 21.0,
        "verdict": "fail",
        "meaning": "frames damaged on the wire",
    }
    link = {"device": devices[0], "port": 1, "netdev": None, "seconds": 20.0, "reset": None}
    bad = {
        "verdict": "fail",
        "grown": [grown],
        "message": "rx_crc_errors grew by 420 (21 per second): frames damaged on the wire in 20 s",
        "remedy": "clean or replace the cable and its transceivers",
    }
    good = {"verdict": "pass", "grown": [], "message": "", "remedy": None}
    return [{**link, "host": host, **(bad if ill and host == hosts[0] else good)} for host in hosts]


def _collectives(hosts: list[str], ill: bool) -> list[Json]:
    job = {
        "name": "nccl-rdma",
        "tool": "nccl-tests",
        "way": "rdma",
        "test": "all_reduce_perf",
        "ranks": 8 * len(hosts),
        "best_gbs": 361.5,
        "average_gbs": 102.25,
        "lowest_gbs": None,
        "size_bytes": 8 << 30,
        "transports": ["NET/IB/GDRDMA"],
        "floor_gbs": 340.0,
        "verdict": "pass",
        "message": "",
        "remedy": None,
    }
    low_job = {"name": "nccl-tcp", "way": "tcp", "best_gbs": 9.8, "average_gbs": 4.0, "transports": ["NET/Socket"]}
    low_job |= {"verdict": "fail", "message": "9.8 GB/s is below 340 GB/s", "remedy": "let NCCL use RDMA"}
    return [job, {**job, **low_job}] if ill else [job]


def _outliers(hosts: list[str], devices: list[str]) -> list[Json]:
    """A port that is slow with all others."""
    slow = hosts[len(hosts) // 3]
    return [
        {
            "kind": "port",
            "level": "pods",
            "test": "ib_write_bw",
            "ends": [{"host": slow, "device": devices[2], "port": 1}],
            "figure": 264.1,
            "median": 392.0,
            "unit": "Gb/s",
            "of": 4 * len(hosts),
            "message": f"ib_write_bw: 264 Gb/s at best, with all that it met; the median of {4 * len(hosts)} is 392 Gb/s",
            "remedy": "look at this port: its counters of errors, its cable and switch port, and the width and speed of its PCIe link",
        }
    ]


def _fabric(hosts: list[str], devices: list[str], ill: bool) -> Json:
    places: list[Json] = []
    for number, host in enumerate(hosts):
        for rail, device in enumerate(devices):
            # two cables of one node are exchanged
            plugged = {0: 1, 1: 0}.get(rail, rail) if ill and number == 4 else rail
            leaf = f"{number // _LEAF + 1}:{plugged}"
            place = {"host": host, "group": _GROUP, "device": device, "port": 1, "netdev": f"eth{rail}", "rail": rail}
            places.append(
                {
                    **place,
                    "link_layer": "Ethernet",
                    "subnet": None,
                    "leaf": leaf,
                    "leaf_port": f"swp{number % _LEAF + 1}",
                }
            )
    leaves = sorted({place["leaf"] for place in places})
    exchanged = {
        "id": "fabric-exchanged",
        "severity": "error",
        "group": _GROUP,
        "hosts": [hosts[4]] if len(hosts) > 4 else [],
        "cause": "two cables are exchanged: each of these ports is on the leaf of the other one's rail",
        "evidence": [f"{devices[0]} is at leaf-1-rail1, {devices[1]} at leaf-1-rail0"],
        "remedy": f"exchange the cables of {devices[0]} and {devices[1]}",
    }
    return {
        "schema": 1,
        "places": places,
        "switches": [
            {
                "id": leaf,
                "name": f"leaf-{leaf.replace(':', '-rail')}",
                "link_layer": "Ethernet",
                "leaf": True,
            }
            for leaf in leaves
        ],
        "trunks": [],
        "leaves": {},
        "units": [],
        "unplaced": [],
        "sources": [{"host": host, "program": "lldpctl"} for host in hosts[:2]],
        "findings": [exchanged] if ill and len(hosts) > 4 else [],
        "warnings": [],
    }


def _findings(hosts: list[str]) -> list[Json]:
    return [
        {
            "id": "pcie-narrow",
            "severity": "error",
            "group": _GROUP,
            "hosts": hosts[len(hosts) // 3 : len(hosts) // 3 + 1],
            "cause": "the PCIe link of mlx5_2 is narrower than the card and than those beside it",
            "evidence": ["mlx5_2: x8 at 32 GT/s, the card can x16", "7 other cards of the node: x16 at 32 GT/s"],
            "remedy": "reseat the card, or look for a bifurcated slot in the BIOS",
        },
        {
            "id": "firmware-differs",
            "severity": "warning",
            "group": _GROUP,
            "hosts": hosts[1::50],
            "cause": "the firmware of ConnectX-7 cards differs from that of the rest of the group",
            "evidence": ["28.39.1002 on these, 28.42.1000 on the others"],
            "remedy": "mlxfwmanager --online -u -d mlx5_0",
        },
    ]


def _prepared(hosts: list[str]) -> list[list[str]]:
    some = f"{hosts[0]} and {len(hosts) - 1} others" if len(hosts) > 2 else ", ".join(hosts)
    return [
        [some, "changed", "containerd_memlock: containers may lock 8 MiB"],
        [hosts[0], "to do", "recreate these Pods, which have the old limit: default/train-0"],
        [some, "was right", "ofed, roce_host"],
    ]


def a_history(parts: Json) -> tuple[Json, Json]:
    """Model and document of a cluster, compared with what it was when all was well."""
    well = document_of(
        build(
            **{**a_cluster(len(next(iter(parts["groups"].values()))), ill=False), "generated": "2026-11-01 08:00 UTC"}
        )
    )
    return completed_with(build(**parts), well)

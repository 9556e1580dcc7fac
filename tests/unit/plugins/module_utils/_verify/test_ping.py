# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods in secondary networks, and what ping prints."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._verify.ping import (
    addresses_of,
    parse_ping,
    peer_body,
    ping_body,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_wish

Json = dict[str, t.Any]
NETWORKS = ("default/rail1", "rdma/rail2")
STATUS = "k8s.v1.cni.cncf.io/network-status"

IPUTILS = """PING 198.51.100.7 (198.51.100.7) from 198.51.100.6 net1: 56(84) bytes of data.
64 bytes from 198.51.100.7: icmp_seq=1 ttl=64 time=0.071 ms

--- 198.51.100.7 ping statistics ---
5 packets transmitted, {0} received, 0% packet loss, time 4080ms
rtt min/avg/max/mdev = 0.071/0.083/0.095/0.012 ms
"""
BUSYBOX = """PING 198.51.100.7 (198.51.100.7): 56 data bytes
64 bytes from 198.51.100.7: seq=0 ttl=64 time=0.102 ms

--- 198.51.100.7 ping statistics ---
5 packets transmitted, {0} packets received, 0% packet loss
round-trip min/avg/max = 0.102/0.102/0.102 ms
"""


@pytest.mark.parametrize(
    ("text", "rtt"),
    [(IPUTILS, {"min": 71.0, "average": 83.0, "max": 95.0}), (BUSYBOX, {"min": 102.0, "average": 102.0, "max": 102.0})],
    ids=["iputils", "busybox"],
)
def test_both_programs_are_read(text: str, rtt: Json) -> None:
    assert parse_ping(text.format(5)) == {"sent": 5, "received": 5, "rtt_us": rtt}
    assert parse_ping(text.format(3))["received"] == 3


def test_silence_has_no_times() -> None:
    text = "5 packets transmitted, 0 received, +5 errors, 100% packet loss, time 4100ms\n"
    assert parse_ping(text) == {"sent": 5, "received": 0, "rtt_us": None}
    assert parse_ping("ping: connect: Network is unreachable") == {"sent": None, "received": None, "rtt_us": None}


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    parse_ping(text)
    parse_ping("rtt min/avg/max/mdev = " + text)


def a_pod(*rows: t.Any) -> Json:
    return {"metadata": {"annotations": {STATUS: json.dumps(rows)}}}


ROWS: tuple[Json, ...] = (
    {"name": "cluster", "interface": "eth0", "ips": ["10.244.0.5"], "default": True},
    {"name": "rdma/rail2", "interface": "net2", "ips": ["198.18.1.4"]},
    {"name": "default/rail1", "interface": "net1", "ips": ["198.51.100.4", "2001:db8::4"]},
)


def test_addresses_are_those_of_the_interfaces() -> None:
    assert addresses_of(a_pod(*ROWS), NETWORKS) == ["198.51.100.4", "198.18.1.4"]


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": {"annotations": {STATUS: "no JSON"}}},
        {"metadata": {"annotations": {STATUS: "[" * 100_000}}},
        a_pod(*ROWS[:2]),
        a_pod(*ROWS[:2], {"interface": "net1", "ips": []}),
        a_pod(*ROWS[:2], {"interface": "net1", "ips": ["-c 5 $(x)"]}),
        a_pod(1, None),
    ],
    ids=["none", "text", "deep", "one", "empty", "hostile", "numbers"],
)
def test_a_pod_without_all_of_its_addresses_has_none(pod: Json) -> None:
    assert addresses_of(pod, NETWORKS) is None


def test_pods_are_in_the_networks_by_name_and_in_no_other() -> None:
    wish = a_wish(networks=NETWORKS)
    peer = peer_body(wish, "peer", "n1", ["rdma/r"])
    asker = ping_body(wish, "ping", "n2", ["rdma/r"], ["198.51.100.4", "198.18.1.4"])
    for body in (peer, asker):
        assert body["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "default/rail1@net1, rdma/rail2@net2"}
        # Multus leaves Pods in the network of their node alone
        assert body["spec"]["hostNetwork"] is False
        security = body["spec"]["containers"][0]["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}
        assert body["spec"]["activeDeadlineSeconds"] > 0
    assert asker["spec"]["containers"][0]["command"][-2:] == [
        "ping -c 5 -W 2 -I net1 198.51.100.4",
        "ping -c 5 -W 2 -I net2 198.18.1.4",
    ]

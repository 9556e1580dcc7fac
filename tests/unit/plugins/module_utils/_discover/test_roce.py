# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides how RoCE behaves on a host, from files and from what mlnx_qos prints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import ROCE
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import ANSWERS
from ansible_collections.fabric.rdma.plugins.module_utils._discover.live import live_answers
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import (
    MODPROBE,
    SYSCTL,
    parse_qos,
    parse_traffic_class,
)
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of

# mlnx-tools, python/mlnx_qos, pretty_print()
MAPPING = "dscp2prio mapping:\n\tprio:0 dscp:07,06,05,04,03,02,01,00,\n\tprio:3 dscp:31,30,29,28,27,26,25,24,\n"
QUEUES = "tc: 0 ratelimit: unlimited, tsa: vendor\n\t priority:  1\ntc: 1 ratelimit: unlimited, tsa: vendor\n\t priority:  0\n"


def qos(trust: str = "pcp", pfc: str = "0,0,0,0,0,0,0,0", dcbx: str = "OS", buffer: bool = True) -> str:
    """What mlnx_qos prints of a netdev."""
    flags = "   ".join(pfc.split(","))
    buffers = "\tbuffer      0   0   0   1   0   0   0   0   \n" if buffer else ""
    return (
        f"DCBX mode: {dcbx} controlled\nPriority trust state: {trust}\n{MAPPING if trust == 'dscp' else ''}default priority:\n"
        "Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,total_size=262016\nCable len: 7\nPFC configuration:\n"
        f"\tpriority    0   1   2   3   4   5   6   7\n\tenabled     {flags}   \n{buffers}{QUEUES}"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (qos("dscp", "0,0,0,1,0,0,0,0"), {"trust": "dscp", "pfc": [3], "dcbx": "os"}),
        (qos("pcp", buffer=False), {"trust": "pcp", "pfc": [], "dcbx": "os"}),
        (qos("none", "1,1,1,1,1,1,1,1", "Firmware"), {"trust": None, "pfc": [*range(8)], "dcbx": "firmware"}),
        (
            "****** WARNING: lldpad service is running and may overwrite your settings ******\n\n" + qos("dscp"),
            {"trust": "dscp", "pfc": [], "dcbx": "os"},
        ),
        # a list of another length, another word, and a line of the same name elsewhere
        (qos(pfc="0,0,0,1"), {"trust": "pcp", "pfc": None, "dcbx": "os"}),
        (qos(pfc="0,0,0,x,0,0,0,0"), {"trust": "pcp", "pfc": None, "dcbx": "os"}),
        ("\tenabled     0   0   0   1   0   0   0   0\n", {"trust": None, "pfc": None, "dcbx": None}),
        ("Interface name is required\n", {"trust": None, "pfc": None, "dcbx": None}),
        (None, {"trust": None, "pfc": None, "dcbx": None}),
    ],
)
def test_trust_and_priorities_are_read_from_mlnx_qos(text: str | None, found: dict[str, Any]) -> None:
    assert parse_qos(text) == found


@given(st.sets(st.integers(0, 7)), st.sampled_from(["dscp", "pcp"]), st.sampled_from(["OS", "Firmware"]), st.booleans())
def test_every_set_of_priorities_is_read_as_it_is_printed(pfc: set[int], trust: str, dcbx: str, buffer: bool) -> None:
    flags = ",".join(str(int(priority in pfc)) for priority in range(8))
    found = parse_qos(qos(trust, flags, dcbx, buffer))
    assert found == {"trust": trust, "pfc": sorted(pfc), "dcbx": "os" if dcbx == "OS" else "firmware"}


@given(st.text(), st.integers(0, 400), st.integers(0, 400))
def test_no_text_is_a_traceback(noise: str, start: int, end: int) -> None:
    """Anything in the place of any part of the output."""
    text = qos("dscp", "0,0,0,1,0,0,0,0")
    found = parse_qos(text[:start] + noise + text[end:])
    assert found["trust"] in ("dscp", "pcp", None)
    assert found["pfc"] is None or set(found["pfc"]) <= set(range(8))
    assert parse_traffic_class(noise) is None or 0 <= (parse_traffic_class(noise) or 0) <= 255


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Global tclass=106\n", 106),
        ("Global tclass=0", 0),
        # rules for single addresses follow
        ("Global tclass=106\nsrc_ip=192.0.2.1,tclass=104\n", 106),
        ("src_ip=192.0.2.1,tclass=104\n", None),
        ("Global tclass=256\n", None),
        ("Global tclass=-1\n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_traffic_class_is_a_number_or_none(text: str | None, found: int | None) -> None:
    assert parse_traffic_class(text) == found


def roce_host(said: str | None = None) -> Machine:
    """A card with all that the vendor's driver has."""
    machine = Machine()
    function = machine.nic(netdev="eth0")
    base = f"{function}/net/eth0"
    for point, on in (("np", (0, 3)), ("rp", (3,))):
        machine.files(f"{base}/ecn/roce_{point}/enable", **{str(each): int(each in on) for each in range(8)})
    machine.files(f"{function}/infiniband/mlx5_0/tc/1", traffic_class="Global tclass=106")
    machine.files("/sys/kernel/config/rdma_cm/mlx5_0/ports/1", default_roce_tos=104)
    for netdev in ("all", "eth0"):
        values = {"arp_announce": 2, "arp_filter": 0, "arp_ignore": 1, "rp_filter": 0 if netdev == "all" else 2}
        machine.files(f"/proc/sys/net/ipv4/conf/{netdev}", **values)
    machine.files("/sys/module/ib_core/parameters", netns_mode="Y")
    if said is not None:
        machine.file("/usr/bin/mlnx_qos", "#!/usr/bin/python3\n")
        machine.file(f"{ANSWERS}/qos/usr/bin/mlnx_qos/eth0", said)
    return machine


def test_the_vendors_driver_tells_trust_and_priorities_of_each_port() -> None:
    facts = facts_of(roce_host(qos("dscp", "0,0,0,1,0,0,0,0")), ["roce"])["roce"]
    assert facts["ports"] == [
        {
            "device": "mlx5_0",
            "port": 1,
            "netdev": "eth0",
            "mtu": 1500,
            "master": None,
            "address_netdev": "eth0",
            "ipv4": {"arp_announce": 2, "arp_filter": 0, "arp_ignore": 1, "rp_filter": 2},
            "traffic_class": 106,
            "has_traffic_class": True,
            "default_tos": 104,
            "cards": [{"netdev": "eth0", "trust": "dscp", "pfc": [3], "dcbx": "os", "ecn": {"np": [0, 3], "rp": [3]}}],
        }
    ]
    assert facts["all"] == {"arp_announce": 2, "arp_filter": 0, "arp_ignore": 1, "rp_filter": 0}
    assert facts["netns"] == {"mode": "shared", "persisted": None}
    assert facts["programs"]["mlnx_qos"] == "/usr/bin/mlnx_qos"


def test_what_nobody_tells_is_null() -> None:
    """No program, and the kernel's own driver."""
    machine = Machine()
    machine.nic()
    [port] = facts_of(machine, ["roce"])["roce"]["ports"]
    assert port["cards"] == [{"netdev": "eth0", "trust": None, "pfc": None, "dcbx": None, "ecn": None}]
    assert (port["traffic_class"], port["has_traffic_class"], port["default_tos"]) == (None, False, None)
    assert set(port["ipv4"].values()) == {None}


def test_trust_of_a_driver_that_has_a_file_for_it() -> None:
    machine = roce_host()
    machine.files("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/eth0/qos", trust="pcp")
    [port] = facts_of(machine, ["roce"])["roce"]["ports"]
    assert port["cards"][0]["trust"] == "pcp"


def test_a_member_of_a_bond_has_the_addresses_of_the_bond() -> None:
    machine = Machine()
    function = machine.function()
    machine.port(machine.hca("mlx5_0", function))
    machine.netdev("eth0", function, master="bond0")
    machine.bond("bond0", "eth0 eth1", "balance-rr 0")
    machine.files("/proc/sys/net/ipv4/conf/bond0", rp_filter=1)
    [port] = facts_of(machine, ["roce"])["roce"]["ports"]
    assert (port["netdev"], port["master"], port["address_netdev"]) == ("eth0", "bond0", "bond0")
    assert port["ipv4"]["rp_filter"] == 1


def test_ports_of_infiniband_and_odd_names_are_left_out() -> None:
    """A name that a unit, a rule or a command line would read as something else is named in none of them."""
    machine = Machine()
    function = machine.function()
    machine.port(machine.hca("mlx5_0", function), link_layer="InfiniBand", gids=[])
    machine.netdev("ib0", function, type=32)
    for number, name in enumerate(("eth*", "-i", "eth\udcff", "a" * 70)):
        machine.nic(f"mlx5_{number + 1}", name, f"0000:5{number}:00.0")
    assert facts_of(machine, ["roce"])["roce"]["ports"] == []


def test_what_the_default_route_goes_over() -> None:
    machine = Machine()
    machine.nic()
    machine.bond("bond0", "eth0")
    machine.files("/sys/devices/virtual/net/bond0", lower_eth0="")
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    machine.file("/proc/net/route", head + "bond0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    assert facts_of(machine, ["roce"])["roce"]["under_default_route"] == ["bond0", "eth0"]


@pytest.mark.parametrize(
    ("text", "persisted"),
    [
        ("options ib_core netns_mode=1\n", "shared"),
        ("# options ib_core netns_mode=1\noptions ib_core netns_mode=0\n", "exclusive"),
        ("options ib_core recv_queue_size=512 netns_mode=y\n", "shared"),
        ("options mlx5_core netns_mode=1\n", None),
        ("\ud800", None),
    ],
)
def test_what_the_next_boot_makes_of_namespaces(text: str, persisted: str | None) -> None:
    machine = Machine()
    machine.file(MODPROBE, text.encode("utf-8", "surrogatepass"))
    facts = facts_of(machine, ["roce"])["roce"]
    assert facts["netns"] == {"mode": None, "persisted": persisted}
    assert facts["files"] == {MODPROBE: digest(text.encode("utf-8", "surrogatepass"))}


@pytest.mark.parametrize(
    ("text", "pending"),
    [
        (
            '{"boot_id": "b1", "link_types": {"0000:3b:00.0/LINK_TYPE_P1": "ETH"}}',
            {"0000:3b:00.0/LINK_TYPE_P1": "ETH"},
        ),
        # the host has booted since
        ('{"boot_id": "b0", "link_types": {"0000:3b:00.0/LINK_TYPE_P1": "ETH"}}', {}),
        ('{"boot_id": "b1", "link_types": {"../x/LINK_TYPE_P1": "ETH", "0000:3b:00.0/LINK_TYPE_P1": "X"}}', {}),
        ('{"boot_id": "b1", "link_types": 7}', {}),
        ("[]", {}),
        ("{", {}),
        ("[" * 5000, {}),
    ],
)
def test_link_types_are_pending_until_the_host_boots(text: str, pending: dict[str, str]) -> None:
    machine = Machine()
    machine.file("/proc/sys/kernel/random/boot_id", "b1\n")
    machine.file(ROCE, text)
    assert facts_of(machine, ["roce"])["roce"]["pending"] == pending


def test_a_capture_gives_the_facts_of_the_live_node() -> None:
    machine = roce_host(qos("dscp", "0,0,0,1,0,0,0,0"))
    machine.file(SYSCTL, "net/ipv4/conf/eth0/rp_filter = 2\n")
    assert facts_of(MemoryTree(record(machine.tree()))) == facts_of(machine)


@pytest.mark.parametrize(("status", "found"), [(0, "what it prints"), (1, None)])
def test_a_live_host_is_asked(status: int, found: str | None) -> None:
    asked = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return status, "what it prints", "an error"

    assert live_answers(run)("qos", "/usr/bin/mlnx_qos/eth0") == found
    assert asked == [["/usr/bin/mlnx_qos", "-i", "eth0"]]

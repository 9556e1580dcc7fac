# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import (
    COUNTERS,
    HW_COUNTERS,
    STATISTICS,
    _temperatures,
    read_counters,
    read_health,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of

PORT = "/sys/class/infiniband/mlx5_0/ports/1"


def health(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = facts_of(machine, ["health"])["health"]
    return found


def a_nic(**counters: object) -> Machine:
    machine = Machine()
    machine.files(machine.nic() + "/infiniband/mlx5_0/ports/1/counters", **counters)
    return machine


def test_a_counter_that_is_not_there_is_not_zero() -> None:
    machine = a_nic(symbol_error=0, port_rcv_errors=7)
    [port] = health(machine)["ports"]
    assert {key: value for key, value in port["counters"].items() if value is not None} == {
        "symbol_error": 0,
        "port_rcv_errors": 7,
    }
    assert set(port["counters"]) == set(COUNTERS)
    assert port["hw_counters"] == dict.fromkeys(HW_COUNTERS)
    [netdev] = health(machine)["netdevs"]
    assert netdev["statistics"] == dict.fromkeys(STATISTICS)
    assert (netdev["counters"], netdev["cable"], netdev["carrier_downs"]) == ({}, None, None)


def test_the_64_bits_of_old_kernels_count_for_the_32() -> None:
    machine = a_nic(port_xmit_data=4294967295, port_rcv_data=12)
    path = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband/mlx5_0/ports/1/counters_ext"
    machine.files(path, port_xmit_data_64=2**40, port_rcv_packets_64=2**33)
    [port] = health(machine)["ports"]
    words = ("port_xmit_data", "port_rcv_data", "port_rcv_packets")
    assert [port["counters"][word] for word in words] == [2**40, 12, 2**33]


@pytest.mark.parametrize("text", ["", "N/A (no PMA)", "-1", "18446744073709551616", "9" * 5000, "1\n2", "0x1", "\xb2"])
def test_what_is_no_count_is_not_known(text: str) -> None:
    [port] = health(a_nic(symbol_error=text))["ports"]
    assert port["counters"]["symbol_error"] is None


def test_the_largest_count_is_exact() -> None:
    [port] = health(a_nic(port_rcv_data=2**64 - 1))["ports"]
    assert port["counters"]["port_rcv_data"] == 2**64 - 1


def test_both_wires_of_a_lag_are_those_of_its_device() -> None:
    machine = Machine()
    first = machine.function("0000:3b:00.0")
    machine.port(machine.hca("mlx5_bond_0", first))
    machine.netdev("eth0", first, "bond0", carrier_down_count=3)
    machine.netdev("eth1", machine.function("0000:3b:00.1"), "bond0", carrier_down_count=4)
    # one of another card, with a device of its own
    other = machine.function("0000:5e:00.0")
    machine.port(machine.hca("mlx5_1", other))
    machine.netdev("eth2", other, "bond0", carrier_down_count=5)
    machine.bond("bond0", "eth0 eth1 eth2")
    rows = [(row["device"], row["netdev"], row["carrier_downs"]) for row in health(machine)["netdevs"]]
    assert rows == [("mlx5_1", "eth2", 5), ("mlx5_bond_0", "eth0", 3), ("mlx5_bond_0", "eth1", 4)]


def test_a_reading_says_when_it_was() -> None:
    machine = a_nic(symbol_error=4)
    machine.files("/proc", uptime="3600.25 7000.00")
    machine.files("/proc/sys/kernel/random", boot_id="b1")
    reading = read_counters(machine.tree())
    whole = health(machine)
    assert reading == {
        "uptime_s": 3600.25,
        "boot_id": "b1",
        "ports": whole["ports"],
        "netdevs": whole["netdevs"],
    }
    machine.files("/proc", uptime="soon")
    assert read_counters(machine.tree())["uptime_s"] is None


def test_representors_and_virtual_functions_are_left_out() -> None:
    machine = Machine()
    function = machine.nic()
    machine.netdev("eth0_0", function, phys_port_name="pf0vf0")
    virtual = machine.function("0000:3b:00.2", device="0x1018")
    machine.link(f"{virtual}/physfn", function)
    machine.port(machine.hca("mlx5_1", virtual))
    found = health(machine)
    assert [port["device"] for port in found["ports"]] == ["mlx5_0"]
    assert [netdev["netdev"] for netdev in found["netdevs"]] == ["eth0"]


def test_soft_roce_has_the_wire_of_its_netdev() -> None:
    machine = Machine()
    function = machine.soft_roce()
    machine.files(function + "/infiniband/mlx5_0/ports/1/hw_counters", rcvd_seq_err=3, sent_pkts=100)
    found = health(machine)
    assert (found["ports"][0]["hw_counters"]["rcvd_seq_err"], found["ports"][0]["counters"]["symbol_error"]) == (
        3,
        None,
    )
    assert [netdev["netdev"] for netdev in found["netdevs"]] == ["eth1"]


def test_a_sensor_that_gives_no_number_is_left_out() -> None:
    machine = Machine()
    function = machine.nic()
    machine.files(f"{function}/hwmon/hwmon2", temp1_input=51500, temp1_label="asic", temp1_crit=105000, name="mlx5")
    machine.files(f"{function}/hwmon/hwmon2", temp2_input=-3000, temp3_input="hot", temp_input=1)
    rows = [("asic", 51.5, 105.0), (None, -3.0, None)]
    found = [(row["label"], row["celsius"], row["critical"]) for row in health(machine)["temperatures"]]
    assert found == rows


def test_a_name_with_signs_of_a_pattern_has_its_own_sensors_and_no_others() -> None:
    """A driver calls its devices as it likes, and a capture is somebody else's."""
    entries = {
        f"/sys/class/infiniband/{name}/device/hwmon/hwmon0/temp1_input": Entry("f", data)
        for name, data in (("mlx5_?", b"51000\n"), ("mlx5_1", b"99000\n"))
    }
    assert [row["celsius"] for row in _temperatures(MemoryTree(entries), "mlx5_?")] == [51.0]


CABLE = {"vendor": "Mellanox", "part": "MCP1600", "serial": "MT1", "length_m": 3.0}


def answered(text: str) -> dict[str, Any]:
    machine = Machine()
    machine.nic()
    machine.file("/.answers/ethtool/eth0", text)
    [netdev] = health(machine)["netdevs"]
    return {"counters": netdev["counters"], "cable": netdev["cable"]}


def test_what_the_ioctl_told() -> None:
    counters = {"rx_prio3_pause": 17, "tx_pause_storm_warning_events": 1}
    assert answered(json.dumps({"counters": counters, "module": CABLE})) == {"counters": counters, "cable": CABLE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"counters": []}',
        '{"counters": {"rx_prio3_pause": true, "rx_prio8_pause": 1, "rx_prio3_pause_": 2, "rx_prio1_pause": -1}}',
        '{"counters": {"rx_prio3_pause": 1e3, "rx_prio0_pause": 18446744073709551616}}',
        '{"module": {}}',
        '{"module": 3}',
        "[" * 100_000,
    ],
)
def test_a_malformed_answer_tells_nothing(text: str) -> None:
    assert answered(text) == {"counters": {}, "cable": None}


@pytest.mark.parametrize("length", [-1, 1e300, "3", None, True])
def test_a_cable_of_impossible_length_has_none(length: object) -> None:
    found = answered(json.dumps({"module": {**CABLE, "vendor": "x" * 9999, "length_m": length}}))["cable"]
    assert (found["length_m"], len(found["vendor"])) == (None, 64)


def test_a_capture_replays_all_of_it() -> None:
    machine = a_nic(symbol_error=4)
    machine.file("/.answers/ethtool/eth0", json.dumps({"counters": {"rx_prio3_pause": 17}, "module": CABLE}))
    machine.files("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/hwmon/hwmon0", temp1_input=51000)
    assert facts_of(MemoryTree(record(machine.tree()))) == facts_of(machine)


@given(
    st.dictionaries(
        st.sampled_from(
            [f"{PORT}/counters/{name}" for name in COUNTERS[:3]]
            + [
                f"{PORT}/hw_counters",
                f"{PORT}/counters",
                "/sys/class/infiniband/mlx5_0/device/net",
                "/.answers/ethtool",
            ]
            + [
                "/.answers/ethtool/eth0",
                "/sys/class/net/eth0/carrier_down_count",
                "/sys/class/infiniband/mlx5_0/parent",
            ]
        ),
        st.one_of(
            st.binary(max_size=30).map(lambda data: Entry("f", data)),
            st.sampled_from(["..", "/", "/sys/class/net/eth0", "x"]).map(lambda target: Entry("l", target=target)),
            st.just(Entry("d")),
        ),
    )
)
def test_whatever_is_in_the_files(entries: dict[str, Entry]) -> None:
    machine = a_nic(symbol_error=1)
    # by the way that the class has them, so that the entries count
    machine.entries = {**machine.entries, **entries}
    read_health(machine.tree())
    facts_of(machine, ["health"])

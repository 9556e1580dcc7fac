# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.models import parse_rate
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import GUID, NO_GID, Machine, facts_of, ipoib, mapped, only

NO_LINK = dict.fromkeys(("speed_gts", "width", "max_speed_gts", "max_width"))
LINK_LOCAL = "fe80:0000:0000:0000:" + GUID


def netdevs_by_port(device: dict[str, Any]) -> dict[int, list[str]]:
    return {port["number"]: [netdev["name"] for netdev in port["netdevs"]] for port in device["ports"]}


def test_an_ordinary_function_has_all_of_its_facts() -> None:
    machine = Machine()
    function = machine.function(sriov_totalvfs=8, sriov_numvfs=2)
    hca = machine.hca("mlx5_0", function, board_id="MT_1", hca_type="MT4119", sys_image_guid=GUID)
    gids = [(LINK_LOCAL, "eth0"), (NO_GID, None), (mapped("198.51.100.1"), "eth0")]
    machine.port(hca, gids=gids)
    machine.netdev("eth0", function)
    netdev = {"name": "eth0", "type": "ether", "operstate": "up", "mtu": 1500}
    assert only(facts_of(machine)) == {
        "name": "mlx5_0",
        "kind": "pf",
        "pci": "0000:3b:00.0",
        "bridges": ["0000:3a:00.0"],
        "vendor": "15b3",
        "device": "1017",
        "model": "ConnectX-5",
        "class": "020000",
        "driver": "mlx5_core",
        "numa_node": 0,
        "firmware": "16.35.2000",
        "board_id": "MT_1",
        "hca_type": "MT4119",
        "node_guid": GUID,
        "sys_image_guid": GUID,
        "netdevs": ["eth0"],
        "lag": None,
        "sriov": {"total": 8, "vfs": 2, "pf": None},
        "ports": [
            {
                "number": 1,
                "link_layer": "Ethernet",
                "state": "Active",
                "phys_state": "LinkUp",
                "rate_gbps": 100.0,
                "width": "4X",
                "speed": "EDR",
                "lid": 0,
                "sm_lid": 0,
                "gids": [
                    {"index": 0, "gid": LINK_LOCAL, "type": "RoCE v2", "netdev": "eth0", "ipv4": None},
                    {"index": 2, "gid": gids[2][0], "type": "RoCE v2", "netdev": "eth0", "ipv4": "198.51.100.1"},
                ],
                "netdevs": [{**netdev, "master": None, "parent": None, "pkey": None}],
            }
        ],
        "pcie": {**NO_LINK, "bridge": {"pci": "0000:3a:00.0", **NO_LINK}},
        "plugin": {"visible": True, "reason": None, "driver": "mlx5_core", "if_name": "eth0", "link_type": "ether"},
    }


# -- Ports and netdevs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"dev_port": 0, "dev_id": "0x0"}, {"dev_port": 1, "dev_id": "0x0"}),
        ({"dev_port": 0, "dev_id": "0x0"}, {"dev_port": 1, "dev_id": "0x1"}),
        ({"dev_id": "0x0"}, {"dev_id": "0x1"}),
        ({"dev_port": 0, "dev_id": "0x0"}, {"dev_port": 0, "dev_id": "0x1"}),
    ],
    ids=["dev_port", "both", "dev_id on old kernels", "dev_port always zero"],
)
def test_a_dual_port_card_has_one_netdev_for_each_port(first: dict[str, Any], second: dict[str, Any]) -> None:
    machine = Machine()
    function = machine.function(device="0x1003", driver="mlx4_core")
    hca = machine.hca("mlx4_0", function)
    machine.port(hca, 1)
    machine.port(hca, 2, state="1: DOWN", phys_state="3: Disabled")
    # names sort the other way round than ports
    machine.netdev("eth9", function, **first)
    machine.netdev("eth1", function, **second)
    device = only(facts_of(machine))
    assert netdevs_by_port(device) == {1: ["eth9"], 2: ["eth1"]}
    assert (device["netdevs"], device["model"]) == (["eth1", "eth9"], "ConnectX-3")
    assert [port["state"] for port in device["ports"]] == ["Active", "Down"]


def test_the_gid_table_goes_before_dev_port() -> None:
    machine = Machine()
    function = machine.function()
    hca = machine.hca("mlx5_0", function)
    machine.port(hca, 3, gids=[(LINK_LOCAL, "eth0"), (mapped("198.51.100.1"), "eth0.5")])
    machine.port(hca, 12, gids=[(LINK_LOCAL, "eth1")])
    machine.port(hca, 6)
    for name in ("eth0", "eth1"):
        machine.netdev(name, function, dev_port=0)
    assert netdevs_by_port(only(facts_of(machine))) == {3: ["eth0"], 6: [], 12: ["eth1"]}


def test_netdevs_belong_to_the_port_of_their_link_layer() -> None:
    machine = Machine()
    function = machine.function(device="0x1003", driver="mlx4_core")
    hca = machine.hca("mlx4_0", function)
    machine.port(hca, 1, link_layer="InfiniBand", gids=[(LINK_LOCAL, None)])
    machine.port(hca, 2, gids=[(LINK_LOCAL, "eth0")])
    machine.netdev("ib0", function, type=32, address=ipoib(), dev_port=0)
    machine.netdev("eth0", function, dev_port=1)
    assert netdevs_by_port(only(facts_of(machine))) == {1: ["ib0"], 2: ["eth0"]}


def test_an_ipoib_partition_names_its_parent_and_its_pkey() -> None:
    machine = Machine()
    function = machine.function(**{"class": "0x020700"})
    machine.port(machine.hca("mlx5_0", function), link_layer="InfiniBand", gids=[(LINK_LOCAL, None)])
    machine.netdev("ib0", function, type=32, address=ipoib(), mtu=2044)
    machine.netdev("ib0.8001", function, type=32, address=ipoib(), mtu=2044, parent="ib0", pkey="0x8001")
    # another port's address, as after a card was swapped
    machine.netdev("ib7", function, type=32, address=ipoib("0200:0000:0000:0099"))
    device = only(facts_of(machine))
    assert [(row["name"], row["parent"], row["pkey"]) for row in device["ports"][0]["netdevs"]] == [
        ("ib0", None, None),
        ("ib0.8001", "ib0", "0x8001"),
    ]
    assert (device["plugin"]["if_name"], device["plugin"]["link_type"]) == ("ib0", "infiniband")


def test_without_ipoib_there_is_no_netdev() -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), link_layer="InfiniBand", gids=[(LINK_LOCAL, None)])
    device = only(facts_of(machine))
    assert (device["netdevs"], device["ports"][0]["netdevs"]) == ([], [])
    assert device["plugin"] == {"visible": True, "reason": None, "driver": "mlx5_core", "if_name": "", "link_type": ""}


def test_representors_are_not_netdevs_of_the_port_but_the_plugin_takes_them() -> None:
    machine = Machine()
    function = machine.nic(netdev="uplink")
    machine.files(f"{function}/net/uplink", phys_port_name="p0")
    for name, port in (("a_vf", "pf0vf3"), ("b_sf", "c1pf0sf88"), ("c_pf", "pf0")):
        machine.netdev(name, function, master="br0", phys_port_name=port)
    device = only(facts_of(machine))
    assert (device["netdevs"], netdevs_by_port(device)) == (["uplink"], {1: ["uplink"]})
    assert device["plugin"]["if_name"] == "a_vf"


# -- Bonds -----------------------------------------------------------------------------------------------------------


def bonded(second_has_hca: bool, second: str = "0000:3b:00.1") -> Machine:
    """Two functions with their netdevs in bond0."""
    machine = Machine()
    one, two = machine.function(), machine.function(second)
    machine.port(machine.hca("rocep59s0", one), gids=[(LINK_LOCAL, "bond0")])
    if second_has_hca:
        machine.port(machine.hca("rocep59s1", two))
    machine.netdev("ens1f0", one, master="bond0")
    machine.netdev("ens1f1", two, master="bond0")
    machine.bond("bond0", "ens1f1 ens1f0", "802.3ad 4")
    return machine


def test_a_lag_is_one_device_for_both_ports() -> None:
    device = only(facts_of(bonded(second_has_hca=False)))
    assert device["lag"] == {
        "netdev": "bond0",
        "mode": "802.3ad",
        "members": [{"netdev": "ens1f0", "pci": "0000:3b:00.0"}, {"netdev": "ens1f1", "pci": "0000:3b:00.1"}],
    }
    assert (device["netdevs"], netdevs_by_port(device)) == (["ens1f0"], {1: ["bond0"]})
    assert device["plugin"]["if_name"] == "ens1f0"


@pytest.mark.parametrize("second", ["0000:3b:00.1", "0000:5e:00.0"], ids=["one card", "two cards"])
def test_a_bond_of_devices_that_live_on_is_no_lag(second: str) -> None:
    devices = facts_of(bonded(second_has_hca=True, second=second))["devices"]
    assert [device["lag"] for device in devices] == [None, None]
    assert [device["ports"][0]["netdevs"][0]["master"] for device in devices] == ["bond0", "bond0"]
    assert [netdevs_by_port(device) for device in devices] == [{1: ["ens1f0"]}, {1: ["ens1f1"]}]


def test_a_bond_with_a_foreign_card_is_no_lag() -> None:
    assert only(facts_of(bonded(second_has_hca=False, second="0000:5e:00.0")))["lag"] is None


@pytest.mark.parametrize(("name", "lag"), [("mlx5_bond_0", True), ("mlx5_0", False)])
def test_without_the_bonds_own_files_only_the_name_is_left(name: str, lag: bool) -> None:
    machine = Machine()
    function = machine.function()
    machine.port(machine.hca(name, function))
    machine.netdev("eth0", function, master="bond0")
    expected: dict[str, Any] = {"netdev": "bond0", "mode": None, "members": []}
    assert only(facts_of(machine))["lag"] == (expected if lag else None)


def test_the_bridge_of_a_representor_is_no_bond() -> None:
    """In switchdev mode, where LAGs with virtual functions live, representors share the function with the uplink."""
    machine = bonded(second_has_hca=False)
    parent = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    machine.port(machine.hca("mlx5_bond_0", parent))
    machine.remove("/sys/class/infiniband/rocep59s0")
    machine.netdev("pf0vf0", parent, master="a-bridge", phys_port_name="pf0vf0")
    machine.netdev("a-bridge")
    assert only(facts_of(machine))["lag"]["netdev"] == "bond0"


# -- Kinds -----------------------------------------------------------------------------------------------------------


def test_a_virtual_function_names_its_physical_one() -> None:
    machine = Machine()
    physical = machine.nic(device="0x1021")
    virtual = machine.nic("mlx5_1", "eth0v0", "0000:3b:00.2", device="0x101e")
    machine.link(f"{virtual}/physfn", physical)
    device = facts_of(machine)["devices"][1]
    assert (device["kind"], device["sriov"]["pf"]) == ("vf", "0000:3b:00.0")
    assert device["model"] == "ConnectX-7 Virtual Function"


@pytest.mark.parametrize(
    ("vendor", "number", "kind", "model"),
    [
        ("0x15b3", "0x101e", "vf", "ConnectX Family mlx5Gen Virtual Function"),
        ("0x15b3", "0x1018", "vf", "ConnectX-5 Virtual Function"),
        ("0x15b3", "0xa2dc", "pf", "BlueField-3"),
        ("0x15b3", "0x1021", "pf", "ConnectX-7"),
        ("0x15b3", "0xffff", "pf", None),
        ("0x8086", "0x101e", "pf", None),
    ],
)
def test_kind_and_model_follow_from_the_id_where_there_is_no_link(
    vendor: str, number: str, kind: str, model: str | None
) -> None:
    """In a guest there is no link to a physical function."""
    machine = Machine()
    machine.nic(vendor=vendor, device=number)
    device = only(facts_of(machine))
    assert (device["kind"], device["model"], device["sriov"]["pf"]) == (kind, model, None)


def test_a_sub_function_is_a_device_of_its_parents_function() -> None:
    machine = Machine()
    function = machine.nic()
    auxiliary = f"{function}/mlx5_core.sf.4"
    machine.port(machine.hca("rocep59s0S88", auxiliary))
    machine.netdev("enp59s0S88", auxiliary)
    device = next(row for row in facts_of(machine)["devices"] if row["name"] == "rocep59s0S88")
    assert (device["kind"], device["pci"], device["netdevs"]) == ("sf", "0000:3b:00.0", ["enp59s0S88"])
    assert device["plugin"] == {
        "visible": False,
        "reason": "sub-function: the plugin lists PCI functions only",
        "driver": None,
        "if_name": "",
        "link_type": "",
    }


@pytest.mark.parametrize("parent", [b"eth0\n", b"eth0\0"], ids=["new", "old"])
@pytest.mark.parametrize("device_link", [False, True])
def test_soft_roce_is_a_device_of_its_netdev_without_a_function(parent: bytes, device_link: bool) -> None:
    machine = Machine()
    function = machine.function(driver="e1000", vendor="0x8086", device="0x100e")
    machine.netdev("eth0", function)
    hca = machine.hca("rxe0", None, parent=parent, fw_ver=None)
    if device_link:
        # old kernels point at the network card below, which is not an HCA
        machine.link(f"{hca}/device", function)
    machine.port(hca, gids=[(mapped("192.0.2.7"), "eth0")])
    device = only(facts_of(machine))
    assert (device["kind"], device["driver"], device["pci"], device["netdevs"]) == (
        "software",
        "rdma_rxe",
        None,
        ["eth0"],
    )
    assert (device["firmware"], device["ports"][0]["gids"][0]["ipv4"]) == (None, "192.0.2.7")
    assert netdevs_by_port(device) == {1: ["eth0"]}
    assert device["plugin"]["reason"] == (
        "software device: it has no PCI function, and the plugin lists PCI functions only"
    )


@pytest.mark.parametrize("on_a_card", [False, True])
def test_soft_iwarp_is_at_the_function_of_its_netdev(on_a_card: bool) -> None:
    """The kernel shows it below the parent of its netdev (drivers/infiniband/sw/siw/siw_main.c, siw_device_create())."""
    machine = Machine()
    function = machine.function(driver="e1000") if on_a_card else None
    if function:
        machine.netdev("eth0", function)
    machine.port(machine.hca("siw0", function, node_desc="Software iWARP stack"))
    device = only(facts_of(machine))
    assert (device["kind"], device["driver"], device["model"]) == ("software", "siw", None)
    there = ("0000:3b:00.0", ["eth0"], True) if on_a_card else (None, [], False)
    assert (device["pci"], device["netdevs"], device["plugin"]["visible"]) == there


@pytest.mark.parametrize("name", ["rxe0", "mlx5_0", "smi1"])
def test_soft_roce_at_a_pci_function_is_planned_like_a_card(name: str) -> None:
    """The plugin looks into the directory infiniband of the function, and does not ask what driver a device is of."""
    machine = Machine()
    machine.soft_roce(name, numa_node=1)
    # a card of the same model without an RDMA device, and one for management
    machine.netdev("eth2", machine.function("0000:00:06.0", vendor="0x8086", device="0x10d3", driver="e1000e"))
    machine.netdev("eth0", machine.function("0000:00:04.0", vendor="0x1af4", device="0x1000", driver="virtio-pci"))
    device = only(facts_of(machine))
    assert {key: device[key] for key in ("name", "kind", "driver", "pci", "vendor", "device", "class", "model")} == {
        "name": name,
        "kind": "software",
        "driver": "rdma_rxe",
        "pci": "0000:00:05.0",
        "vendor": "8086",
        "device": "10d3",
        "class": "020000",
        "model": None,
    }
    assert (device["numa_node"], device["netdevs"], device["lag"], device["firmware"]) == (1, ["eth1"], None, None)
    assert netdevs_by_port(device) == {1: ["eth1"]}
    assert device["plugin"] == {
        "visible": True,
        "reason": None,
        "driver": "e1000e",
        "if_name": "eth1",
        "link_type": "ether",
    }
    assert facts_of(MemoryTree(record(machine.tree())))["devices"] == [device]


def test_soft_roce_at_a_pci_function_is_visible_while_its_port_is_down() -> None:
    machine = Machine()
    machine.soft_roce(state="1: DOWN")
    device = only(facts_of(machine))
    assert (device["ports"][0]["state"], device["plugin"]["visible"]) == ("Down", True)


def test_soft_roce_on_a_bond_is_a_lag_at_the_function_of_a_member() -> None:
    machine = Machine()
    function = machine.soft_roce(netdev="eth2", parent="bond0")
    machine.netdev("eth2", function, master="bond0")
    machine.netdev("eth3", machine.function("0000:00:06.0", "pci0000:00", driver="e1000e"), master="bond0")
    machine.bond("bond0", "eth2 eth3")
    device = only(facts_of(machine))
    members = [{"netdev": "eth2", "pci": "0000:00:05.0"}, {"netdev": "eth3", "pci": "0000:00:06.0"}]
    assert device["lag"] == {"netdev": "bond0", "mode": "active-backup", "members": members}
    assert (device["netdevs"], netdevs_by_port(device)) == (["eth2"], {1: ["bond0"]})
    assert (device["plugin"]["visible"], device["plugin"]["if_name"]) == (True, "eth2")


@pytest.mark.parametrize("bridge", [False, True])
def test_soft_roce_on_a_netdev_above_that_of_its_function_is_no_lag(bridge: bool) -> None:
    machine = Machine()
    function = machine.soft_roce(parent="eth1.7")
    machine.netdev("eth1.7")
    if bridge:
        machine.netdev("eth1", function, master="eth1.7")
    device = only(facts_of(machine))
    assert (device["lag"], device["netdevs"], netdevs_by_port(device)) == (None, ["eth1.7"], {1: ["eth1.7"]})
    assert (device["plugin"]["visible"], device["plugin"]["if_name"]) == (True, "eth1")


def test_no_module_is_asked_for_where_others_have_what_it_brings() -> None:
    """A port without management datagrams never gets a umad device."""
    machine = Machine()
    machine.nic("mlx5_0", "eth0", "0000:3b:00.0")
    machine.nic("irdma0", "eth1", "0000:5e:00.0")
    machine.remove("/sys/class/infiniband_mad/umad_irdma0")
    reasons = {row["name"]: row["plugin"]["reason"] for row in facts_of(machine)["devices"]}
    assert reasons["mlx5_0"] is None
    assert reasons["irdma0"].startswith("umad device missing for good: its ports take no management datagrams")


def test_the_reason_says_what_the_plugin_lacks_of_soft_roce() -> None:
    machine = Machine()
    function = machine.soft_roce()
    machine.remove("/sys/class/infiniband_mad")
    plugin = only(facts_of(machine))["plugin"]
    assert (plugin["visible"], plugin["reason"]) == (False, "umad device missing: load ib_umad")
    machine.remove(f"{function}/driver")
    plugin = only(facts_of(machine))["plugin"]
    assert (plugin["driver"], plugin["reason"]) == (None, "no driver bound to the PCI function")


def test_soft_roce_below_a_child_of_a_pci_function_is_not_seen() -> None:
    """The netdev of a virtio card is below virtioN, and so is what is moved to its parent."""
    machine = Machine()
    child = f"{machine.function('0000:00:04.0', vendor='0x1af4', device='0x1000', driver='virtio-pci')}/virtio1"
    machine.netdev("eth1", child)
    machine.port(machine.hca("rxe0", child, parent="eth1"))
    device = only(facts_of(machine))
    assert (device["kind"], device["pci"], device["netdevs"]) == ("software", "0000:00:04.0", ["eth1"])
    assert device["plugin"]["reason"] == (
        "software device: it is at no PCI function itself, and the plugin lists PCI functions only"
    )


def test_soft_roce_and_the_card_share_what_the_plugin_sees() -> None:
    machine = Machine()
    function = machine.nic("mlx5_0", "eth0")
    machine.port(machine.hca("rxe0", function, parent="eth0"))
    card, software = facts_of(machine)["devices"]
    assert (card["kind"], card["model"], card["driver"]) == ("pf", "ConnectX-5", "mlx5_core")
    assert (software["kind"], software["model"], software["driver"]) == ("software", None, "rdma_rxe")
    assert card["plugin"] == software["plugin"]


def test_efa_has_no_link_layer_and_no_netdev() -> None:
    machine = Machine()
    function = machine.function(vendor="0x1d0f", device="0xefa1", driver="efa")
    machine.port(machine.hca("rdmap16s27", function, fw_ver=None), link_layer="Unknown", rate="100 Gb/sec (4X EDR)")
    device = only(facts_of(machine))
    assert (device["kind"], device["model"]) == ("pf", "Elastic Fabric Adapter (EFA)")
    assert (device["ports"][0]["link_layer"], device["netdevs"]) == ("Unknown", [])


def test_the_management_device_is_a_device_of_its_own() -> None:
    machine = Machine()
    function = machine.nic("mlx5_0")
    hca = machine.hca("smi1", function)
    for number in range(1, 5):
        machine.port(hca, number, link_layer="InfiniBand")
    devices = facts_of(machine)["devices"]
    assert [(device["name"], device["kind"]) for device in devices] == [("mlx5_0", "pf"), ("smi1", "smi")]
    assert {device["pci"] for device in devices} == {"0000:3b:00.0"}


# -- What files say --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1: DOWN", "Down"),
        ("2: INIT", "Init"),
        ("3: ARMED", "Armed"),
        ("4: ACTIVE", "Active"),
        ("5: ACTIVE_DEFER", "ActiveDefer"),
        ("0: NOP", "Nop"),
        ("9: <unknown>", None),
        ("ACTIVE", None),
        ("", None),
        ("٤: ACTIVE", None),
        ("-4: ACTIVE", None),
    ],
)
def test_a_state_of_a_port_has_its_name(text: str, name: str | None) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), state=text)
    assert only(facts_of(machine))["ports"][0]["state"] == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1: Sleep", "Sleep"),
        ("2: Polling", "Polling"),
        ("3: Disabled", "Disabled"),
        ("4: PortConfigurationTraining", "PortConfigurationTraining"),
        ("5: LinkUp", "LinkUp"),
        ("6: LinkErrorRecovery", "LinkErrorRecovery"),
        ("7: Phy Test", "PhyTest"),
        ("8: <unknown>", None),
        ("", None),
    ],
)
def test_a_physical_state_has_the_name_of_its_number(text: str, name: str | None) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), phys_state=text)
    assert only(facts_of(machine))["ports"][0]["phys_state"] == name


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200 Gb/sec (4X HDR)", (200.0, "4X", "HDR")),
        ("100 Gb/sec (2X HDR)", (100.0, "2X", "HDR")),
        ("400 Gb/sec (4X NDR)", (400.0, "4X", "NDR")),
        ("800 Gb/sec (4X XDR)", (800.0, "4X", "XDR")),
        ("25 Gb/sec (1X EDR)", (25.0, "1X", "EDR")),
        ("40 Gb/sec (4X FDR10)", (40.0, "4X", "FDR10")),
        ("10 Gb/sec (4X)", (10.0, "4X", None)),
        ("2.5 Gb/sec (1X SDR)", (2.5, "1X", "SDR")),
        ("2.5 Gb/sec (1X)", (2.5, "1X", None)),
        ("100 Gb/sec", (100.0, None, None)),
        ("0 Gb/sec (4X EDR)", None),
        ("-1 Gb/sec (4X EDR)", None),
        ("99999999999999999999 Gb/sec (4X EDR)", None),
        ("1e400 Gb/sec (4X EDR)", None),
        ("nan Gb/sec", None),
        ("٤٠ Gb/sec (4X QDR)", None),
        ("100 GB/sec (4X EDR)", None),
        ("100 Gb/sec (4X EDR) and more", None),
        ("unknown", None),
    ],
)
def test_a_rate_is_split_into_speed_and_width(text: str, rate: tuple[float, str | None, str | None] | None) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), rate=text)
    facts = facts_of(machine)
    port = only(facts)["ports"][0]
    assert (port["rate_gbps"], port["width"], port["speed"]) == (rate or (None, None, None))
    warning = f"mlx5_0 port 1: the rate '{text:.40}' makes no sense"
    assert facts["warnings"] == ([] if rate else [warning])


@given(st.text(max_size=30))
def test_a_rate_is_sensible_or_none(text: str) -> None:
    rate = parse_rate(text)
    assert rate is None or 0 < rate.gbps < 100_000


def test_a_missing_rate_is_not_a_warning() -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), rate=None, state=None, phys_state=None, link_layer=None)
    facts = facts_of(machine)
    assert facts["warnings"] == []
    assert {key: only(facts)["ports"][0][key] for key in ("rate_gbps", "state", "phys_state", "link_layer")} == {
        "rate_gbps": None,
        "state": None,
        "phys_state": None,
        "link_layer": None,
    }


@pytest.mark.parametrize("pci", ["0000:3b:00.0", "0010:03:00.0", "8dd1:00:02.0", "10000:e1:00.0", "12345678:01:1f.7"])
def test_a_pci_address_has_its_whole_domain(pci: str) -> None:
    machine = Machine()
    machine.nic(pci=pci)
    assert only(facts_of(machine))["pci"] == pci


@pytest.mark.parametrize(("text", "numa"), [("0", 0), ("3", 3), ("-1", None), ("x", None), ("٣", None), ("1_0", None)])
def test_a_numa_node_is_a_number_from_zero_on(text: str, numa: int | None) -> None:
    machine = Machine()
    machine.nic(numa_node=text)
    assert only(facts_of(machine))["numa_node"] == numa


@pytest.mark.parametrize("text", ["", "0x", "15b3x", "-0x15b3", "0x115b3", "0x" + "f" * 5000, "0x15_b3", "٣", "\ufffd"])
def test_a_malformed_id_is_unknown(text: str) -> None:
    machine = Machine()
    machine.nic(vendor=text, device=text)
    device = only(facts_of(machine))
    assert (device["vendor"], device["device"], device["model"]) == (None, None, None)


@pytest.mark.parametrize("text", ["0x1020000", "-1", "", "network"])
def test_a_malformed_pci_class_is_unknown(text: str) -> None:
    machine = Machine()
    machine.nic(**{"class": text})
    assert only(facts_of(machine))["class"] is None


@pytest.mark.parametrize(
    ("field", "text"),
    [("sriov_totalvfs", "-1"), ("sriov_totalvfs", "many"), ("sriov_numvfs", "-5"), ("sriov_numvfs", "9" * 5000)],
)
def test_a_malformed_number_of_virtual_functions_is_zero(field: str, text: str) -> None:
    machine = Machine()
    machine.nic(**{field: text})
    assert only(facts_of(machine))["sriov"] == {"total": 0, "vfs": 0, "pf": None}


def test_an_unknown_link_layer_is_reported_and_not_passed_on() -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), link_layer="Infini")
    facts = facts_of(machine)
    assert only(facts)["ports"][0]["link_layer"] is None
    assert facts["warnings"] == ["mlx5_0 port 1: the link layer 'Infini' makes no sense"]


@pytest.mark.parametrize("gid", ["", "zz", "x" * 39, LINK_LOCAL.upper(), mapped("192.0.2.1")[:-1] + "g"])
def test_a_malformed_gid_is_left_out(gid: str) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), gids=[(gid, None), (LINK_LOCAL, "eth0")])
    assert [row["index"] for row in only(facts_of(machine))["ports"][0]["gids"]] == [1]


def test_gids_of_other_network_namespaces_are_left_out() -> None:
    """Those of a Pod's macvlan are in the table of the port below it; a VLAN is the host's own."""
    machine = Machine()
    function = machine.function()
    gids = [(mapped("198.51.100.1"), "eth0"), (mapped("198.51.100.100"), "net1"), (mapped("192.0.2.1"), "eth0.5")]
    machine.port(machine.hca("mlx5_0", function), gids=gids)
    machine.netdev("eth0", function)
    machine.netdev("eth0.5")
    rows = only(facts_of(machine))["ports"][0]["gids"]
    assert [(row["index"], row["ipv4"]) for row in rows] == [(0, "198.51.100.1"), (2, "192.0.2.1")]


def test_of_a_large_table_the_first_slots_are_read() -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), gids=[(LINK_LOCAL, "eth0")] * 40)
    assert [row["index"] for row in only(facts_of(machine))["ports"][0]["gids"]] == list(range(16))


def test_entries_that_are_no_devices() -> None:
    machine = Machine()
    machine.nic()
    machine.link("/sys/class/infiniband/scif0", "/sys/devices/gone")
    facts = facts_of(machine)
    assert only(facts)["name"] == "mlx5_0"
    assert facts["warnings"] == [
        "/sys/class/infiniband/scif0 leads nowhere: the device is gone or its driver is not loaded"
    ]


@pytest.mark.parametrize("names", [[], ["1x", "٣", "-1", "01", "1234", "9" * 5000, "x"]], ids=["none", "odd"])
def test_what_is_not_a_port_is_not_taken_for_one(names: list[str]) -> None:
    machine = Machine()
    hca = machine.hca("mlx5_0", machine.function())
    for name in names:
        machine.files(f"{hca}/ports/{name}", state="4: ACTIVE")
    assert only(facts_of(machine))["ports"] == []


def test_names_are_sorted_by_their_numbers() -> None:
    machine = Machine()
    names = ["mlx5_0", "mlx5_2", "mlx5_10", "mlx5_" + "9" * 5000, "mlx5_bond_0"]
    for index, name in enumerate(names[::-1]):
        machine.hca(name, machine.function(f"0000:3b:00.{index}"))
    assert [device["name"] for device in facts_of(machine)["devices"]] == names


def test_bytes_that_are_no_text() -> None:
    """The kernel lets a netdev have any bytes in its name, and a vendor any in a description."""
    machine = Machine()
    function = machine.function()
    machine.port(machine.hca("mlx5_0", function, node_desc=b"\xff\xfe host", board_id=b"MT\xff"))
    machine.netdev("eth\udcff", function, operstate=b"\x80\n")
    machine.link("/sys/class/infiniband/\udcfe", "/sys/devices/gone")
    facts = facts_of(machine)
    device = only(facts)
    assert (device["board_id"], device["netdevs"]) == ("MT\ufffd", ["eth?"])
    assert device["ports"][0]["netdevs"][0]["operstate"] == "\ufffd"
    assert facts["warnings"][0].startswith("/sys/class/infiniband/? leads nowhere")


# -- What the device plugin sees -------------------------------------------------------------------------------------

UVERBS, UMAD, CM = "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad", "/sys/class/misc/rdma_cm"


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ([], None),
        ([UVERBS], "uverbs device missing: load ib_uverbs"),
        ([UMAD], "umad device missing: load ib_umad"),
        ([CM], "rdma_cm device missing: load rdma_ucm"),
        ([UMAD, CM], "umad and rdma_cm devices missing: load ib_umad, rdma_ucm"),
        ([UVERBS, UMAD, CM], "uverbs, umad and rdma_cm devices missing: load ib_uverbs, ib_umad, rdma_ucm"),
    ],
)
def test_a_missing_character_device_is_the_reason(gone: list[str], reason: str | None) -> None:
    machine = Machine()
    machine.nic()
    for path in gone:
        machine.remove(path)
    plugin = only(facts_of(machine))["plugin"]
    assert (plugin["visible"], plugin["reason"], plugin["if_name"]) == (reason is None, reason, "eth0")


@pytest.mark.parametrize(
    ("gone", "there", "reason"),
    [
        ([UVERBS], [], "uverbs device not recorded: neither /sys/module nor /sys/class/infiniband_verbs is there"),
        (
            [UVERBS, CM],
            [],
            "uverbs and rdma_cm devices not recorded: neither /sys/module nor /sys/class/infiniband_verbs, /sys/class/misc is there",
        ),
        # these are there, and tell what is not in them
        ([UVERBS, CM], ["/sys/class/misc"], "rdma_cm device missing: load rdma_ucm"),
        ([f"{UMAD}/umad_mlx5_0"], [UMAD], "umad device missing: load ib_umad"),
    ],
)
def test_what_was_not_recorded_is_not_missing(gone: list[str], there: list[str], reason: str) -> None:
    """A capture of a part of /sys, such as /sys/class/infiniband and what it leads to."""
    machine = Machine()
    machine.nic()
    for path in ["/sys/module", *gone]:
        machine.remove(path)
    for path in there:
        machine.directory(path)
    plugin = only(facts_of(machine))["plugin"]
    assert (plugin["visible"], plugin["reason"]) == (False, reason)


def test_issm_is_no_umad_and_another_ones_device_does_not_count() -> None:
    machine = Machine()
    machine.nic()
    machine.nic("mlx5_1", "eth1", "0000:3b:00.1")
    machine.remove(f"{UMAD}/umad_mlx5_0")
    machine.files(f"{UMAD}/issm0", ibdev="mlx5_0")
    assert [device["plugin"]["visible"] for device in facts_of(machine)["devices"]] == [False, True]


def test_the_device_beside_it_on_the_function_counts() -> None:
    machine = Machine()
    function = machine.nic()
    machine.hca("smi1", function)
    machine.remove(f"{UMAD}/umad_mlx5_0")
    assert [device["plugin"]["visible"] for device in facts_of(machine)["devices"]] == [True, True]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"class": "0x0c0600"}, "PCI class 0c0600: the plugin lists network controllers (02) only"),
        ({"class": "0x028000"}, None),
        ({"driver": None}, "no driver bound to the PCI function"),
    ],
)
def test_functions_that_the_plugin_does_not_list(values: dict[str, Any], reason: str | None) -> None:
    machine = Machine()
    machine.nic(**values)
    assert only(facts_of(machine))["plugin"]["reason"] == reason


def test_the_first_netdev_is_the_first_in_byte_order() -> None:
    machine = Machine()
    function = machine.nic(netdev="eth2")
    machine.netdev("eth10", function)
    assert only(facts_of(machine))["plugin"]["if_name"] == "eth10"


@pytest.mark.parametrize(
    ("kind", "word"),
    [(1, "ether"), (32, "infiniband"), (772, "loopback"), (65534, "none"), (512, "type 512"), ("", "")],
)
def test_the_plugin_sees_the_type_of_a_netdev_as_netlink_names_it(kind: object, word: str) -> None:
    machine = Machine()
    function = machine.nic(netdev="eth0")
    machine.files(f"{function}/net/eth0", type=kind)
    device = only(facts_of(machine))
    assert device["plugin"]["link_type"] == word
    assert device["ports"][0]["netdevs"][0]["type"] == (word or None)


@given(st.data())
def test_any_bytes_in_any_file_give_facts(data: st.DataObject) -> None:
    machine = bonded(second_has_hca=False)
    machine.entries["/proc/net/route"] = Entry("f", b"Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    files = sorted(path for path, entry in machine.entries.items() if entry.kind == "f")
    for path in data.draw(st.lists(st.sampled_from(files), max_size=4)):
        machine.entries[path] = Entry("f", data.draw(st.binary(max_size=50)))
    facts_of(machine)


@pytest.mark.parametrize(
    ("text", "sensible"),
    [
        ("pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00", True),
        # old kernels have the last byte in lower case
        ("pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i0a", True),
        ("pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i0g", False),
        ("pci:v000015b3d00001017sv000015B3sd00000007bc02sc00i00", False),
        ("pci:v000015B3d00001017sv000015B3", False),
        ("", False),
        ("acpi:PNP0A08:" + "x" * 60, False),
    ],
)
def test_a_modalias_that_the_plugin_stumbles_over_is_reported(text: str, sensible: bool) -> None:
    machine = Machine()
    machine.nic()
    function = machine.function("0000:05:00.0", **{"class": "0x060400"})
    machine.files(function, modalias=text)
    assert facts_of(machine)["warnings"] == (
        []
        if sensible
        else [
            f"PCI device 0000:05:00.0: the modalias '{text[:60]}' makes no sense; "
            "the shared device plugin may see no device of this host"
        ]
    )


def test_an_hca_without_a_driver_is_reported() -> None:
    """It has no RDMA device, so that nothing else tells of it."""
    machine = Machine()
    machine.nic()
    machine.function("0000:5e:00.0", device="0x1021", driver=None)
    virtual = machine.function("0000:5e:00.2", device="0x101e", driver=None)
    machine.link(f"{virtual}/physfn", "/sys/devices/pci0000:3a/0000:3a:00.0/0000:5e:00.0")
    machine.function("0000:5e:00.3", device="0xc2d2", driver=None, **{"class": "0x080100"})
    machine.function("0000:5f:00.0", vendor="0x8086", driver=None)
    facts = facts_of(machine)
    assert [device["name"] for device in facts["devices"]] == ["mlx5_0"]
    [warning] = facts["warnings"]
    assert warning == (
        "PCI device 0000:5e:00.0 (ConnectX-7) is a network controller without a driver, so it has no RDMA device: load the "
        "driver (mlx5_core), or see dmesg for why it did not take it"
    )


@pytest.mark.parametrize(
    ("vendor", "device", "pci_class", "words"),
    [
        (
            "0x15b3",
            "0x1003",
            "0x028000",
            "(ConnectX-3) is a network controller without a driver, so it has no RDMA device: load the driver (mlx4_core)",
        ),
        (
            "0x1d0f",
            "0xefa1",
            "0x020000",
            "(Elastic Fabric Adapter (EFA)) is a network controller without a driver, so it has no RDMA device: load the driver (efa)",
        ),
        (
            "0x1077",
            "0x7322",
            "0x0c0600",
            "(1077:7322) is a network controller without a driver, so it has no RDMA device: load its driver",
        ),
        (
            "0x8086",
            "0x24f0",
            "0x020800",
            "(8086:24f0) is a network controller without a driver, so it has no RDMA device: load its driver",
        ),
        (
            "0x1fc1",
            "0x0010",
            "0x020700",
            "(1fc1:0010) is a network controller without a driver, so it has no RDMA device: load its driver",
        ),
        # any network card, which may do RDMA or not
        ("0x1d0f", "0xec20", "0x020000", None),
        ("0x8086", "0x1592", "0x020000", None),
    ],
)
def test_an_hca_of_any_vendor_without_a_driver_is_reported(
    vendor: str, device: str, pci_class: str, words: str | None
) -> None:
    machine = Machine()
    machine.function("0000:5e:00.0", vendor=vendor, device=device, driver=None, **{"class": pci_class})
    warnings = facts_of(machine)["warnings"]
    assert warnings == ([f"PCI device 0000:5e:00.0 {words}, or see dmesg for why it did not take it"] if words else [])


def test_functions_without_an_rdma_device_are_told() -> None:
    """Those that mlx5_core drives: other drivers have no devlink parameter that makes them count as RDMA."""
    machine = Machine()
    machine.nic("mlx5_0", "eth0", "0000:3b:00.0")
    physical = machine.function("0000:3b:00.1", sriov_totalvfs=8, sriov_numvfs=2)
    machine.netdev("eth1", physical, phys_port_name="p1")
    machine.netdev("eth1r0", physical, phys_port_name="pf1vf0")
    virtual = machine.function("0000:3b:00.2", device="0x101e")
    machine.link(f"{virtual}/physfn", physical)
    given_away = machine.function("0000:3b:00.3", device="0x101e", driver="vfio-pci")
    machine.link(f"{given_away}/physfn", physical)
    machine.function("0000:3b:00.4", driver=None)
    machine.function("0000:3c:00.0", vendor="0x8086", driver="ice")
    machine.function("0000:3d:00.0", **{"class": "0x080100"})
    machine.netdev("ib0", machine.function("0000:af:00.0"), type=32)
    common = {"vendor": "15b3", "driver": "mlx5_core"}
    none = {"total": 0, "vfs": 0, "pf": None}
    assert facts_of(machine)["bare_functions"] == [
        {
            "pci": "0000:3b:00.1",
            "device": "1017",
            "netdevs": ["eth1"],
            "link_type": "ether",
            "sriov": {"total": 8, "vfs": 2, "pf": None},
            **common,
        },
        {
            "pci": "0000:3b:00.2",
            "device": "101e",
            "netdevs": [],
            "link_type": "",
            "sriov": {**none, "pf": "0000:3b:00.1"},
            **common,
        },
        {
            "pci": "0000:af:00.0",
            "device": "1017",
            "netdevs": ["ib0"],
            "link_type": "infiniband",
            "sriov": none,
            **common,
        },
    ]


def test_a_sub_function_has_no_virtual_functions_of_its_own() -> None:
    machine = Machine()
    function = machine.nic(sriov_totalvfs=8, sriov_numvfs=2)
    machine.port(machine.hca("mlx5_2", f"{function}/mlx5_core.sf.4"))
    physical, sub = facts_of(machine)["devices"]
    assert (physical["sriov"], sub["kind"]) == ({"total": 8, "vfs": 2, "pf": None}, "sf")
    assert sub["sriov"] == {"total": 0, "vfs": 0, "pf": None}


def test_a_device_whose_function_is_not_visible_is_no_software() -> None:
    """As in containers and some virtual machines: the device is on a bus that is not PCI."""
    machine = Machine()
    machine.port(machine.hca("mlx5_0", "/sys/devices/platform/LNXSYSTM:00"))
    device = only(facts_of(machine))
    assert (device["kind"], device["pci"]) == ("pf", None)
    assert device["plugin"]["reason"] == (
        "its PCI function is not visible here, and the plugin lists PCI functions only"
    )

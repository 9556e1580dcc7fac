# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import functools
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.archives import unpack
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import (
    PCIE_ROOT,
    device_name,
    pcie_root,
    published,
    too_long,
    uplinks,
)
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of

Json = dict[str, Any]


@functools.cache
def captured(name: str) -> Json:
    return facts_of(open_tree(str(CAPTURES / f"{name}.capture")))


def attributes(facts: Json, move_ib: bool = True) -> dict[str, Json]:
    """{device of a ResourceSlice: its attributes, as far as facts tell them}, the likeliest where they do not decide it.

    Not told: mac, alias, ipv4, ipv6, ebpf, pciSubsystem and what cloud providers add; uplinks are left out (pkg/inventory/db.go,
    scan()). pciVendor and pciDevice are those of the database of DRANET 1.4.
    """
    left_out = uplinks(facts)
    return {
        each.name: each.views[0]
        for each in published(facts, move_ib)
        if each.pci and each.views[0].get("dra.net/ifName") not in left_out
    }


def of(machine: Machine, pci: str = "0000:3b:00.0", **more: Any) -> Json:
    return attributes(facts_of(machine), **more)[device_name(pci)]


def nic(**values: Any) -> Machine:
    machine = Machine()
    machine.nic(**values)
    return machine


# -- Recorded nodes --------------------------------------------------------------------------------------------------


def recorded(shared: Path, name: str) -> dict[str, Json]:
    """{device: {attribute: value}} of a recorded ResourceSlice."""
    path = shared / "tools-resourceslice" / name
    assert path.is_file(), f"no recorded outputs at {path}"
    document = yaml.safe_load(path.read_text())
    slices = document["items"] if document["kind"] == "List" else [document]
    return {
        row["name"]: {key: next(iter(value.values())) for key, value in row["attributes"].items()}
        for item in slices
        for row in item["spec"]["devices"]
    }


def facts_of_recorded(shared: Path, name: str, tmp_path: Path) -> Json:
    path = shared / name / "root.tar.gz"
    assert path.is_file(), f"no recorded nodes at {path}"
    with tarfile.open(path) as archive:
        unpack(archive, str(tmp_path))
    return facts_of(open_tree(str(tmp_path)))


@pytest.mark.captures
@pytest.mark.parametrize(
    ("capture", "name", "count"),
    [
        ("recon-azure-mi300x-vf", "dranet-azure-mi300x.yaml", 8),
        ("recon-aws-p4d-efa", "dranet-aws-p4d-efa.yaml", 4),
    ],
)
def test_what_dranet_published_of_a_recorded_node_is_what_is_said_of_it(
    shared_captures: Path, tmp_path: Path, capture: str, name: str, count: int
) -> None:
    there = {key: row for key, row in recorded(shared_captures, name).items() if row.get("dra.net/rdma")}
    facts = facts_of_recorded(shared_captures, capture, tmp_path)
    said = {
        key: row
        for key, row in attributes(facts).items()
        # these machines have a card for Ethernet as well, which the slices do not show as one with RDMA
        if key in there
    }
    assert len(there) == count
    assert said.keys() == there.keys()
    for key, row in said.items():
        # of another release the slices lack nothing that is said here but the root, which these trees make up
        assert {name: value for name, value in row.items() if name != PCIE_ROOT} == {
            name: value
            for name, value in there[key].items()
            if name.startswith("dra.net/") and name != "dra.net/pciSubsystem"
        }


@pytest.mark.captures
@pytest.mark.parametrize("name", ["gpu-aws-p4d.yaml", "gpu-oci-gb200.yaml"])
def test_a_gpu_has_the_root_that_its_driver_publishes(shared_captures: Path, name: str) -> None:
    """The recorded ones are on the bus of the root, or below a bridge of it, which is at device 00."""
    rows = recorded(shared_captures, name).values()
    assert rows
    for row in rows:
        pci, root = row["resource.kubernetes.io/pciBusID"], row[PCIE_ROOT]
        above = root.removeprefix("pci") + ":00.0"
        bridges = [] if pci.startswith(root.removeprefix("pci")) else [above]
        assert pcie_root({"pci": pci, "bridges": bridges}) == root


# -- Attributes ------------------------------------------------------------------------------------------------------


def test_a_card_of_a_capture_has_its_attributes() -> None:
    found = attributes(captured("ib-v100-1"))
    assert set(found) == {"pci-0000-5e-00-0", "pci-0000-5e-00-1"}
    assert found["pci-0000-5e-00-0"] == {
        "dra.net/encapsulation": "infiniband",
        "dra.net/ifName": "ibp94s0f0",
        "dra.net/mtu": 2044,
        "dra.net/numaNode": 0,
        "dra.net/pciAddress": "0000:5e:00.0",
        "dra.net/pciDevice": "MT27800 Family [ConnectX-5]",
        "dra.net/pciVendor": "Mellanox Technologies",
        "dra.net/rdma": True,
        "dra.net/sriov": True,
        "dra.net/sriovVfs": 0,
        "dra.net/state": "up",
        "dra.net/type": "ipoib",
        "dra.net/virtual": False,
        "resource.kubernetes.io/pcieRoot": "pci0000:5a",
    }


def test_an_ethernet_card_has_its_netdev() -> None:
    found = of(nic())
    assert (found["dra.net/ifName"], found["dra.net/encapsulation"], found["dra.net/type"]) == (
        "eth0",
        "ether",
        "device",
    )
    assert found[PCIE_ROOT] == "pci0000:3a"
    assert "dra.net/rdmaDevice" not in found


def test_infiniband_netdevs_that_stay_are_not_published() -> None:
    machine = Machine()
    function = machine.function(**{"class": "0x020700"})
    machine.port(machine.hca("mlx5_0", function), link_layer="InfiniBand")
    machine.netdev("ib0", function, type=32)
    assert of(machine)["dra.net/ifName"] == "ib0"
    found = of(machine, move_ib=False)
    assert "dra.net/ifName" not in found
    assert "dra.net/encapsulation" not in found
    assert found["dra.net/rdmaDevice"] == "mlx5_0"


def test_a_function_without_a_netdev_is_published_by_its_device() -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function(numa_node=-1)))
    found = of(machine)
    assert found["dra.net/rdmaDevice"] == "mlx5_0"
    assert not {"dra.net/ifName", "dra.net/encapsulation", "dra.net/numaNode"} & set(found)
    # its netdev may be in a Pod now, and comes back
    [each] = published(facts_of(machine))
    assert [view.get("dra.net/encapsulation") for view in each.views] == [None, "ether"]


def test_of_several_netdevs_it_may_be_any() -> None:
    machine = nic(netdev="eth0", numa_node=1)
    machine.netdev("eth1", "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0")
    [each] = published(facts_of(machine))
    assert [view["dra.net/ifName"] for view in each.views] == ["eth0", "eth1"]


def test_node_0_may_be_the_only_numa_node_of_which_nothing_is_published() -> None:
    """A machine with one has no dra.net/numaNode, whatever the kernel says of its functions; facts do not tell how many there are."""
    machine = nic()
    assert [view.get("dra.net/numaNode") for view in published(facts_of(machine))[0].views] == [0, None]
    machine.nic("mlx5_1", "eth1", "0000:5e:00.0", numa_node=1)
    assert [[view.get("dra.net/numaNode") for view in each.views] for each in published(facts_of(machine))] == [
        [0],
        [1],
    ]


def test_soft_roce_at_a_function_is_published_by_it() -> None:
    machine = Machine()
    machine.soft_roce("rxe0")
    found = of(machine, "0000:00:05.0")
    assert found["dra.net/rdma"] is True
    assert (found["dra.net/pciDevice"], found["dra.net/ifName"]) == ("82574L Gigabit Network Connection", "eth1")


def test_soft_roce_elsewhere_makes_some_function_one_with_rdma() -> None:
    machine = nic(netdev="eth0")
    machine.netdev("eth9")
    machine.port(machine.hca("rxe0", None, parent="eth9", fw_ver=""))
    [card, other] = sorted(published(facts_of(machine)), key=lambda each: each.pci is None)
    assert card.pci == "0000:3b:00.0"
    assert (other.pci, other.views[0]["dra.net/ifName"]) == (None, "eth9")
    assert {"dra.net/pciAddress", "dra.net/pciVendor"} <= other.unknown
    assert set(attributes(facts_of(machine))) == {"pci-0000-3b-00-0"}, "nobody knows what it is called"


def test_uplinks_are_not_published() -> None:
    machine = nic(netdev="eth0", pci="0000:3b:00.0")
    machine.nic("mlx5_1", "eth1", "0000:3c:00.0")
    machine.file(
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n",
    )
    facts = facts_of(machine)
    assert uplinks(facts) == {"eth1"}
    assert set(attributes(facts)) == {"pci-0000-3b-00-0"}
    assert len(published(facts)) == 2, "no selector may match it all the same: routes change"


def test_members_of_a_bond_with_the_default_route_are_uplinks() -> None:
    facts = copy.deepcopy(facts_of(nic()))
    facts["devices"][0]["ports"][0]["netdevs"][0]["master"] = "bond0"
    facts["management"]["default_route_netdevs"] = ["bond0"]
    assert "eth0" in uplinks(facts)
    assert attributes(facts) == {}


@pytest.mark.parametrize(
    ("pci", "bridges", "root"),
    [
        ("0000:3b:00.0", ["0000:3a:00.0"], "pci0000:3a"),
        ("0000:3b:00.0", ["0000:00:01.0", "0000:3a:00.0"], "pci0000:00"),
        ("0000:10:1b.0", [], "pci0000:10"),
        ("0008:06:00.0", ["0008:00:00.0"], "pci0008:00"),
        ("0101:00:00.0", [], None),
        ("0000:3b:00.0", None, None),
        (None, [], None),
    ],
)
def test_the_root_is_the_bus_of_the_first_bridge(pci: str | None, bridges: list[str] | None, root: str | None) -> None:
    place = {"pci": pci, "bridges": bridges} if bridges is not None else {"pci": pci}
    assert pcie_root(place) == root


def test_a_model_that_is_not_known_has_no_name_of_another() -> None:
    found = of(nic(device="0x1fff"))
    assert found["dra.net/pciVendor"] == "Mellanox Technologies"
    assert "dra.net/pciDevice" not in found


def test_ids_that_cannot_be_read_are_unknown() -> None:
    facts = copy.deepcopy(facts_of(nic()))
    facts["devices"][0]["vendor"] = None
    [each] = published(facts)
    assert each.unknown == {"dra.net/pciVendor", "dra.net/pciDevice"}


@pytest.mark.parametrize(("device", "count"), [("0xa2df", 1), ("0x1004", 1), ("0x1017", 0)])
def test_a_name_that_no_slice_takes_is_reported(device: str, count: int) -> None:
    assert len(too_long(facts_of(nic(device=device)))) == count


def test_names_of_devices_are_labels() -> None:
    assert device_name("0000:8a:00.0") == "pci-0000-8a-00-0"

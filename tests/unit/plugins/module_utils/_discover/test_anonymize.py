# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import anonymize
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of, ipoib, mapped

NAMES = sorted(path.stem for path in CAPTURES.glob("*.capture"))
GUID, PREFIX = "0c42:a103:0096:1ce4", "2001:0db9:00aa:00bb"


def identities(entries: Mapping[str, Entry]) -> set[str]:
    """GUIDs, MAC addresses and IPv4 addresses of a capture, and the host names of its descriptions."""
    found: set[str] = set()
    for path, entry in entries.items():
        text = entry.data.decode("utf-8", "replace").strip()
        name = path.rpartition("/")[2]
        if name in ("node_guid", "sys_image_guid", "address") or "/gids/" in path:
            found |= {text} if re.search("[1-9a-f]", text.replace("fe80", "")) else set()
            found |= {text[-19:]} if "/gids/" in path and re.search("[1-9a-f]", text[-19:]) else set()
        elif name == "node_desc":
            found.add(text.split(" ")[0])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_identity_is_left_and_the_facts_keep_their_shape(name: str) -> None:
    entries = record(open_tree(str(CAPTURES / f"{name}.capture")))
    hidden = anonymize(entries)
    listing = dump_listing(hidden)
    # the lab node's capture was made with this function: its stand-ins are replaced by themselves
    if not name.startswith("lab-"):
        assert {word for word in identities(entries) if word in listing} == set()
    before, after = facts_of(MemoryTree(entries)), facts_of(MemoryTree(hidden))
    assert shape(after) == shape(before)
    assert anonymize(entries) == hidden


def shape(facts: dict[str, Any]) -> Any:
    """Facts in which every identity is the number of its first appearance."""
    known: dict[str, int] = {}

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        if (
            key in ("node_guid", "sys_image_guid", "gid", "ipv4", "lid", "sm_lid", "target", "source", "serial")
            and value
        ):
            return value if value in (0, 0xFFFF) else known.setdefault(f"{key}{value}", len(known))
        return value

    return walk(facts)


def test_a_capture_has_something_to_hide() -> None:
    entries = record(open_tree(str(CAPTURES / "ib-a100-1.capture")))
    assert len(identities(entries)) > 5
    assert "ib-a100-1" in identities(entries)


def node() -> Machine:
    """An InfiniBand port and a RoCE port in a site's own networks."""
    machine = Machine()
    function = machine.function(**{"class": "0x020700"})
    hca = machine.hca("mlx5_0", function, node_guid=GUID, sys_image_guid=GUID, node_desc="node17 HCA-1")
    machine.port(hca, link_layer="InfiniBand", lid="0x11", sm_lid="0x7", gids=[(f"{PREFIX}:{GUID}", None)])
    address = ipoib(GUID).replace("fe:80:00:00:00:00:00:00", "20:01:0d:b9:00:aa:00:bb")
    machine.netdev("ib0", function, type=32, address=address)
    function = machine.function("0000:5e:00.0")
    hca = machine.hca("mlx5_1", function, node_guid=GUID, node_desc="Software iWARP on node17")
    machine.netdev("eth0", function)
    machine.port(hca, lid="nonsense", gids=[(f"{PREFIX}:0211:22ff:fe33:4455", "eth0"), (mapped("10.1.2.3"), "eth0")])
    return machine


def test_what_was_the_same_is_the_same_when_anonymized() -> None:
    entries = anonymize(node().entries)
    facts = facts_of(MemoryTree(entries))
    first, second = facts["devices"]
    assert (
        first["node_guid"] == first["sys_image_guid"] == second["node_guid"] == first["ports"][0]["gids"][0]["gid"][20:]
    )
    assert [netdev["name"] for netdev in first["ports"][0]["netdevs"]] == ["ib0"], "found by its address"
    gids = [gid["gid"] for device in facts["devices"] for port in device["ports"] for gid in port["gids"]]
    assert gids[0][:19] == gids[1][:19], "one network"
    assert second["ports"][0]["gids"][1]["ipv4"] == "198.18.0.1"
    assert (first["ports"][0]["lid"], second["ports"][0]["lid"]) != (0x11, None)


def test_names_that_udev_makes_of_addresses_have_their_stand_ins() -> None:
    """NAME_GUID of rdma-core, and the policy mac of systemd, which names VLANs after their parents, too."""
    machine = Machine()
    function = machine.function()
    hca = machine.hca("rocex0c42a10300961ce4", function, node_guid=GUID)
    machine.port(hca, gids=[("fe80:0000:0000:0000:0e42:a1ff:fe96:1ce4", "enx0c42a1961ce4")])
    parent = machine.netdev("enx0c42a1961ce4", function, address="0c:42:a1:96:1c:e4")
    machine.link(f"{machine.netdev('enx0c42a1961ce4.7')}/lower_enx0c42a1961ce4", parent)
    machine.nic("mlx5_7", "enxacceleration", "0000:5e:00.0")
    hidden = anonymize(record(machine.tree()))
    assert not re.search("0c42a|1ce4", dump_listing(hidden))
    facts = facts_of(MemoryTree(hidden))
    first, second = sorted(facts["devices"], key=lambda device: device["pci"])
    assert first["name"] == "rocex" + first["node_guid"].replace(":", "")
    (name,) = (netdev["name"] for netdev in first["ports"][0]["netdevs"])
    assert re.fullmatch("enx0200[0-9a-f]{8}", name)
    assert [gid["netdev"] for gid in first["ports"][0]["gids"]] == [name]
    assert second["netdevs"] == ["enxacceleration"]


SECRETS = ("0c42", "1ce4", "0db9", "00aa", "node17", "10.1.2", "0a01", "nas", "secret", "0201A8C0", "fe33", "someone")


@pytest.mark.parametrize("process", ["self", "1234"])
def test_nothing_of_a_site_is_left_anywhere(process: str) -> None:
    machine = node()
    machine.file(
        f"/proc/{process}/mounts",
        "nas-secret.example:/secret /home/secret nfs4 rw,proto=rdma,clientaddr=10.1.2.3,addr=10.1.2.4 0 0\n"
        "10.1.2.3@o2ib:/secret /secret lustre rw 0 0\n"
        "/dev/nvme0n1 /secret xfs rw 0 0\n"
        "secret /secret tmpfs rw 0 0\n",
    )
    net = "/proc/net" if process == "self" else "/proc/1234/net"
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
    machine.file(
        f"{net}/route",
        head + "ib0\t00000000\t0201A8C0\t3\t0\t0\t0\t00000000\nib0\t0201A8C0\t00000000\t1\t0\t0\t0\tFFFFFFFF\n",
    )
    none, site = "0" * 32, "20010db900aa00bb0000000000000001"
    machine.file(
        f"{net}/ipv6_route",
        f"{none} 00 {none} 00 {site} 0 0 0 0 ib0\n{site} 80 {none} 00 {none} 0 0 0 0 ib0\n",
    )
    cable = '{"vendor": "v", "part": "p", "serial": "secret17", "length_m": 3}'
    machine.file("/.answers/ethtool/ib0", f'{{"counters": {{"rx_prio3_pause": 1}}, "module": {cable}}}')
    machine.file("/.answers/addresses", "ib0 10.1.2.3\n")
    machine.file("/etc/modules-load.d/a.conf", "# node17, by someone\nib_umad # secret\n\n; secret\nib_ipoib\n")
    if process == "1234":
        machine.link("/proc/self", "/proc/1234")
        machine.link("/proc/net", "/proc/1234/net")
    entries = anonymize(record(machine.tree()))
    listing = dump_listing(entries)
    assert [word for word in SECRETS if word in listing] == []
    before, after = facts_of(machine), facts_of(MemoryTree(entries))
    assert after["management"]["default_route_netdevs"] == before["management"]["default_route_netdevs"] == ["ib0"]
    assert [row["via"] for row in after["management"]["mounts_over_rdma"]] == ["nfs-rdma", "lustre-o2ib"]
    assert after["kernel"] == before["kernel"]
    assert before["health"]["netdevs"][0]["cable"]["serial"] == "secret17"
    assert after["health"]["netdevs"][0]["cable"] == {"vendor": "v", "part": "p", "serial": "serial1", "length_m": 3.0}


def test_volumes_lose_their_names_and_are_over_rdma_all_the_same() -> None:
    machine = Machine()

    def block(name: str, *slaves: str) -> str:
        path = f"/sys/devices/virtual/block/{name}"
        for directory in ("", *slaves):
            machine.directory(f"{path}/slaves/{directory}".rstrip("/"))
        machine.link(f"/sys/class/block/{name}", path)
        return path

    machine.files("/sys/class/nvme/nvme3", transport="rdma")
    block("nvme3n1")
    machine.files(block("dm-0", "nvme3n1") + "/dm", name="secret-very--data")
    machine.files(block("dm-1", "nvme3n1") + "/dm", name="secret-gone")
    block("sda1")
    for path, name in (
        ("mapper/secret-very--data", "dm-0"),
        ("secret/very-data", "dm-0"),
        ("disk/by-label/secret", "dm-0"),
    ):
        machine.link("/dev/" + path, "/dev/" + name)
    sources = ["mapper/secret-very--data", "secret/very-data", "disk/by-label/secret", "mapper/secret-gone", "dm-0"]
    lines = [f"/dev/{source} /secret/{number} xfs rw 0 0\n" for number, source in enumerate([*sources, "sda1"])]
    machine.file("/proc/self/mounts", "".join(lines))
    entries = anonymize(record(machine.tree()))
    assert [line for line in dump_listing(entries).splitlines() if "secret" in line or "very" in line] == []
    mounts = facts_of(MemoryTree(entries))["management"]["mounts_over_rdma"]
    assert [row["via"] for row in mounts] == ["nvme-rdma"] * len(sources)
    assert mounts[0]["source"] == mounts[1]["source"] != mounts[2]["source"]
    assert [row["via"] for row in facts_of(machine)["management"]["mounts_over_rdma"]] == ["nvme-rdma"] * len(sources)


@given(st.data())
def test_any_bytes_can_be_anonymized(data: st.DataObject) -> None:
    entries = dict(node().entries)
    entries["/proc/self/mounts"] = entries["/proc/net/route"] = entries["/etc/modules"] = Entry("f")
    files = sorted(path for path, entry in entries.items() if entry.kind == "f")
    for path in data.draw(st.lists(st.sampled_from(files), max_size=4)):
        entries[path] = Entry("f", data.draw(st.binary(max_size=60)))
    facts_of(MemoryTree(anonymize(entries)))

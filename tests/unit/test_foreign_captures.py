# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Discovery over nodes that others recorded, against the truth that is written beside each recording."""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.models import parse_rate
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT, facts_of

SHARED = ROOT.parent / "shared" / "captures"
NAMES = sorted(path.parent.name for path in SHARED.glob("*/root.tar.gz"))
MINIMUM = 0.98

pytestmark = pytest.mark.captures

Json = dict[str, Any]


@functools.cache
def facts(name: str) -> Json:
    return facts_of(open_tree(str(SHARED / name / "root.tar.gz")))


@functools.cache
def truth(name: str) -> Json:
    expected: Json = json.loads((SHARED / name / "expected.json").read_text(encoding="utf-8"))
    return expected


def hcas(found: Json) -> dict[str, Json]:
    """Devices that carry data, by name."""
    return {device["name"]: device for device in found["devices"] if device["kind"] != "smi"}


def plain(value: Any) -> Any:
    """Numbers as the truth writes them: hexadecimal with 0x, or decimal."""
    return value.removeprefix("0x").lower() if isinstance(value, str) else value


def port_fields(expected: Json, found: Json) -> Iterator[tuple[str, Any, Any]]:
    yield "port", expected["port"], found["number"]
    for key in ("state", "phys_state"):
        if expected.get(key) is not None:
            yield key, expected[key].lower().replace("_", ""), (found[key] or "").lower()
    if expected.get("rate") is not None:
        rate = parse_rate(expected["rate"])
        assert rate, expected["rate"]
        yield "width and speed", (rate.width, rate.speed), (found["width"], found["speed"])
    if expected.get("lid") is not None:
        yield "lid", int(str(expected["lid"]), 0), found["lid"]
    for key in ("rate_gbps", "link_layer"):
        if expected.get(key) is not None:
            yield key, expected[key], found[key]
    if expected.get("netdev") is not None:
        yield "netdev", expected["netdev"], next((netdev["name"] for netdev in found["netdevs"]), None)


def fields(name: str) -> Iterator[tuple[str, Any, Any]]:
    """(what, expected, found) of every field that the truth states."""
    expected, found = truth(name), hcas(facts(name))
    yield "hca_count", expected["hca_count"], len(found)
    for hca in expected["hcas"]:
        device = found.get(hca["name"])
        yield "name", hca["name"], device["name"] if device else None
        if device is None:
            continue
        for key in ("pci", "vendor", "device", "model", "hca_type", "board_id", "sys_image_guid"):
            if hca.get(key) is not None:
                yield key, plain(hca[key]), plain(device[key])
        for key, value in (
            ("fw_ver", device["firmware"]),
            ("pci_class", device["class"]),
            ("is_vf", device["kind"] == "vf"),
            ("pf", device["sriov"]["pf"]),
            ("num_vfs", device["sriov"]["vfs"]),
            ("sriov_totalvfs", device["sriov"]["total"]),
            ("is_bond", device["lag"] is not None),
        ):
            if hca.get(key) is not None:
                yield key, plain(hca[key]), plain(value)
        if hca.get("numa_node") is not None:
            yield "numa_node", None if hca["numa_node"] < 0 else hca["numa_node"], device["numa_node"]
        if hca.get("netdevs") is not None:
            yield "netdevs", sorted(hca["netdevs"]), sorted(device["netdevs"])
        if hca.get("net_master") is not None:
            masters = {netdev["master"] for port in device["ports"] for netdev in port["netdevs"]} - {None}
            yield "net_master", {hca["net_master"]}, {device["lag"]["netdev"]} if device["lag"] else masters
        if hca.get("ports") is not None:
            yield "ports", [port["port"] for port in hca["ports"]], [port["number"] for port in device["ports"]]
            for port, other in zip(hca["ports"], device["ports"], strict=False):
                yield from port_fields(port, other)
    for entry in expected.get("dangling", []):
        entry_name = entry if isinstance(entry, str) else entry["name"]
        yield "dangling", True, any(f"/{entry_name} leads nowhere" in text for text in facts(name)["warnings"])
        yield "dangling", False, entry_name in {device["name"] for device in facts(name)["devices"]}
    for entry in expected.get("auxiliary_rdma", []):
        yield "auxiliary_rdma", False, entry["name"] in found


def test_facts_of_recorded_nodes_agree_with_what_is_known(shared_captures: Path) -> None:
    """Prints how many fields agree, and those that do not."""
    assert len(NAMES) >= 15, shared_captures
    agree, total, differences = 0, 0, []
    for name in NAMES:
        for what, expected, found in fields(name):
            total += 1
            agree += expected == found
            if expected != found:
                differences.append(f"{name}: {what}: expected {expected!r}, found {found!r}")
    report = "\n".join([f"{agree} of {total} fields agree ({agree / total:.1%})", *differences])
    print(report)
    assert total > 1000, report
    assert agree / total >= MINIMUM, report


def test_packed_unpacked_and_recorded_are_the_same(shared_captures: Path, tmp_path: Path) -> None:
    assert NAMES, shared_captures
    for name in NAMES:
        source = SHARED / name / "root.tar.gz"
        with tarfile.open(source) as archive:
            # Links of a node are absolute, and none of them is followed here. Pythons that know no filters ignore the attribute.
            archive.extraction_filter = lambda member, _path: member
            archive.extractall(tmp_path / name)
        assert facts_of(open_tree(str(tmp_path / name))) == facts(name), name
        assert facts_of(MemoryTree(record(open_tree(str(source))))) == facts(name), name


def test_the_management_device_is_no_hca(shared_captures: Path) -> None:
    devices = facts("recon-xdr-cx8-smi")["devices"]
    assert shared_captures.is_dir()
    assert [(device["name"], device["kind"]) for device in devices] == [("mlx5_0", "pf"), ("smi1", "smi")]
    assert len(devices[1]["ports"]) == 4

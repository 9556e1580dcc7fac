# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small machines for the unit tests: a builder of file trees, and discovery with a check of what it returns."""

from __future__ import annotations

import atexit
import functools
import posixpath
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree, load_listing
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import SUBSETS, gather
from ansible_collections.fabric.rdma.tests.unit import schemas

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "captures"

MAC = "02:00:00:00:00:01"
GUID = "0200:0000:0000:0001"
NO_GID = ":".join(["0000"] * 8)


def checked(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts, after a check of their form."""
    found: dict[str, Any] = schemas.checked("facts", facts)
    return found


def facts_of(source: Machine | Tree, subsets: Iterable[str] = SUBSETS) -> dict[str, Any]:
    """Facts of a machine or tree. Every test comes by its facts through here, so that each is checked."""
    return checked(gather(source.tree() if isinstance(source, Machine) else source, subsets))


def lay(entries: Mapping[str, Entry], root: Path) -> None:
    """The objects of a capture below a directory."""
    for path, entry in entries.items():
        place = root / path.lstrip("/")
        if entry.kind == "d":
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "l":
            place.symlink_to(entry.target)
        else:
            place.write_bytes(entry.data)


@functools.cache
def unpacked(capture: Path) -> str:
    """A directory with the files of a capture, for as long as the tests run."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    lay(load_listing(capture.read_text("utf-8"), capture.name), Path(place.name))
    return place.name


def ipoib(guid: str = GUID) -> str:
    """The 20-byte hardware address of an IPoIB netdev: flags, queue pair, subnet prefix, port GUID."""
    digits = "00001049fe80000000000000" + guid.replace(":", "")
    return ":".join(digits[at : at + 2] for at in range(0, 40, 2))


def mapped(ipv4: str) -> str:
    octets = [int(part) for part in ipv4.split(".")]
    return "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)


class Machine:
    """A tree of files under construction; paths are absolute."""

    def __init__(self) -> None:
        # what each Linux has, and a capture of a part of /sys may lack
        self.entries: dict[str, Entry] = {"/sys/module": Entry("d")}

    def tree(self) -> MemoryTree:
        return MemoryTree(self.entries)

    def file(self, path: str, content: str | bytes = "") -> None:
        self.entries[path] = Entry("f", content.encode() if isinstance(content, str) else content)

    def files(self, directory: str, **values: object) -> None:
        """One-line files; None leaves one out."""
        for name, value in values.items():
            if value is not None:
                self.file(f"{directory}/{name}", value if isinstance(value, bytes) else f"{value}\n")

    def link(self, path: str, target: str) -> None:
        """A relative link, as sysfs makes them."""
        self.entries[path] = Entry("l", target=posixpath.relpath(target, posixpath.dirname(path)))

    def directory(self, path: str) -> None:
        self.entries[path] = Entry("d")

    def remove(self, path: str) -> None:
        for known in [key for key in self.entries if key == path or key.startswith(path + "/")]:
            del self.entries[known]

    def function(self, pci: str = "0000:3b:00.0", under: str = "pci0000:3a/0000:3a:00.0", **values: Any) -> str:
        """A PCI function, by default one of a ConnectX-5 in Ethernet mode. Returns its path."""
        path = f"/sys/devices/{under}/{pci}"
        driver = values.pop("driver", "mlx5_core")
        defaults = {"vendor": "0x15b3", "device": "0x1017", "class": "0x020000", "numa_node": 0}
        self.files(path, **{**defaults, **values})
        if driver:
            self.link(f"{path}/driver", f"/sys/bus/pci/drivers/{driver}")
        self.link(f"/sys/bus/pci/devices/{pci}", path)
        return path

    def netdev(self, name: str, under: str | None = None, /, master: str | None = None, **values: Any) -> str:
        """A netdev below a device, or a virtual one. Returns its path."""
        path = f"{under}/net/{name}" if under else f"/sys/devices/virtual/net/{name}"
        self.files(path, **{"type": 1, "address": MAC, "mtu": 1500, "operstate": "up", **values})
        if under:
            self.link(f"{path}/device", under)
        if master:
            self.link(f"{path}/master", f"/sys/devices/virtual/net/{master}")
        self.link(f"/sys/class/net/{name}", path)
        return path

    def bond(self, name: str, slaves: str, mode: str = "active-backup 1") -> None:
        self.files(f"{self.netdev(name)}/bonding", slaves=slaves, mode=mode)

    def hca(self, name: str, under: str | None, /, nodes: bool = True, **values: Any) -> str:
        """An RDMA device without ports below a function (or a virtual one), with its character devices. Returns its path."""
        path = f"{under or '/sys/devices/virtual'}/infiniband/{name}"
        defaults = {"fw_ver": "16.35.2000", "node_guid": GUID, "node_desc": f"host {name}"}
        self.files(path, **{**defaults, **values})
        self.directory(f"{path}/ports")
        if under:
            self.link(f"{path}/device", under)
        self.link(f"/sys/class/infiniband/{name}", path)
        if nodes:
            self.files(f"/sys/class/infiniband_verbs/uverbs_{name}", ibdev=name)
            self.files(f"/sys/class/infiniband_mad/umad_{name}", ibdev=name)
            self.directory("/sys/class/misc/rdma_cm")
        return path

    def port(self, hca: str, number: int = 1, gids: Iterable[tuple[str, str | None]] = (), **values: Any) -> str:
        """A port, by default an Active one on 100 Gb/s Ethernet; gids are (GID, netdev). Returns its path."""
        path = f"{hca}/ports/{number}"
        defaults = {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "100 Gb/sec (4X EDR)",
            "link_layer": "Ethernet",
            "lid": "0x0",
            "sm_lid": "0x0",
        }
        self.files(path, **{**defaults, **values})
        for index, (gid, netdev) in enumerate(gids):
            self.files(f"{path}/gids", **{str(index): gid})
            if gid != NO_GID:
                self.files(f"{path}/gid_attrs/types", **{str(index): "RoCE v2"})
                self.files(f"{path}/gid_attrs/ndevs", **{str(index): netdev})
        return path

    def nic(self, name: str = "mlx5_0", netdev: str = "eth0", pci: str = "0000:3b:00.0", **values: Any) -> str:
        """An ordinary RoCE function: HCA, one port, one netdev. Returns the function's path."""
        function = self.function(pci, **values)
        self.port(self.hca(name, function))
        self.netdev(netdev, function)
        return function

    def soft_roce(
        self,
        name: str = "mlx5_0",
        netdev: str = "eth1",
        pci: str = "0000:00:05.0",
        parent: str | None = None,
        state: str = "4: ACTIVE",
        **values: Any,
    ) -> str:
        """Soft-RoCE that a module has moved to the function of its netdev (device_move()), as the kernel shows it then.

        parent: where it is on another netdev than that. All but uverbs is below the function. Returns the function's path.
        """
        function = self.function(
            pci,
            "pci0000:00",
            **{"vendor": "0x8086", "device": "0x10d3", "driver": "e1000e", "numa_node": -1, **values},
        )
        self.netdev(netdev, function)
        hca = self.hca(name, function, nodes=False, parent=parent or netdev, fw_ver="")
        gids = [(mapped("198.51.100.1"), parent or netdev)]
        self.port(hca, gids=gids, rate="2.5 Gb/sec (1X SDR)", state=state)
        number = sum(path.startswith("/sys/class/infiniband_mad/umad") for path in self.entries)
        for sort, home in (("verbs/uverbs", "/sys/devices/virtual"), ("mad/umad", function)):
            path = f"infiniband_{sort}{number}"
            self.files(f"{home}/{path}", ibdev=name)
            self.link(f"/sys/class/{path}", f"{home}/{path}")
        self.directory("/sys/class/misc/rdma_cm")
        return function


def only(facts: dict[str, Any]) -> dict[str, Any]:
    """The one device of these facts."""
    assert len(facts["devices"]) == 1, facts["devices"]
    device: dict[str, Any] = facts["devices"][0]
    return device

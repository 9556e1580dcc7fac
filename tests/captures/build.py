# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the capture trees of this directory from the machine descriptions at its end.

    python tests/captures/build.py            writes <name>.capture for every machine
    python tests/captures/build.py --check    says which committed files differ from what it would write

The machines are made, not recorded: what is written in a file follows the kernel's code (the function is named where
the text is not obvious), addresses are documentation addresses, GUIDs are invented. Each machine has a
<name>.expected.json beside it, written by hand from what the machine is meant to be and not by this script, so that a
mistake has to be made twice to go unnoticed.

To change a machine: edit its function, run the script, read the diff of the .capture file, correct the expected facts.
"""

from __future__ import annotations

import argparse
import difflib
import json
import posixpath
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
EMPTY_GID = ":".join(["0000"] * 8)


class Tree:
    """Files and links of one machine; paths without the leading slash."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def file(self, path: str, text: str) -> None:
        self._add(path, f"f {path} {json.dumps(text)}")

    def put(self, directory: str, **files: object) -> None:
        """One-line files of a directory, each ended by a newline as sysfs does; None leaves a file out."""
        for name, value in files.items():
            if value is not None:
                self.file(f"{directory}/{name}", f"{value}\n")

    def link(self, path: str, target: str) -> None:
        """A link to another path of the tree, relative as kernfs_get_target_path() makes it: it ends in the target's name."""
        parent, name = posixpath.split(target)
        self._add(path, f"l {path} {posixpath.join(posixpath.relpath(parent, posixpath.dirname(path)), name)}")

    def verbatim(self, path: str, target: str) -> None:
        self._add(path, f"l {path} {target}")

    def _add(self, path: str, line: str) -> None:
        assert " " not in path, path
        assert self.lines.setdefault(path, line) == line, f"{path} is there twice"

    def listing(self) -> str:
        return "\n".join(["# fabric.rdma capture 1", *(self.lines[path] for path in sorted(self.lines))]) + "\n"


@dataclass
class Function:
    """A PCI function. `under` is its parent's path below sys/devices: the host bridge and every bridge on the way."""

    under: str
    pci: str
    vendor: str
    device: str
    cls: str  # six hex digits
    numa: int = -1
    driver: str | None = None
    subsystem: tuple[str, str] = ("0000", "0000")
    revision: str = "00"
    link: tuple[str, int] | None = None  # speed, lanes as trained
    link_max: tuple[str, int] | None = None
    vfs: tuple[int, int] | None = None  # total, in use

    @property
    def path(self) -> str:
        return f"sys/devices/{self.under}/{self.pci}"


@dataclass
class Netdev:
    name: str
    mac: str  # six bytes; of an InfiniBand netdev the GUID is used instead
    up: bool = True
    mtu: int = 1500
    master: str | None = None
    ipv4: str | None = None
    phys_port: str | None = None
    downs: int = 1


@dataclass
class Port:
    state: str = "4: ACTIVE"
    phys: str = "5: LinkUp"
    rate: str = "100 Gb/sec (4X EDR)"
    layer: str = "InfiniBand"
    lid: int = 0
    sm_lid: int = 0
    gid_netdev: str | None = None  # whose addresses fill the GID table of an Ethernet port; None: the table is empty
    gid_mac: str = ""
    gid_ipv4: str | None = None
    downs: int = 1  # how often the link was lost: once, when somebody rebooted the switch


@dataclass
class Hca:
    name: str
    mac: str  # the GUIDs of mlx5 functions are made of it
    port: Port
    hca_type: str
    firmware: str
    board: str
    system_mac: str  # of the card's first function: sys_image_guid


@dataclass
class Machine:
    name: str
    release: str
    os: str
    tree: Tree = field(default_factory=Tree)
    hcas: int = 0
    netdevs: int = 1  # lo has index 1
    umad: bool = True
    slaves: dict[str, list[str]] = field(default_factory=dict)

    # -- PCI ---------------------------------------------------------------------------------------------------------

    def function(self, fn: Function) -> None:
        tree, path = self.tree, fn.path
        sv, sd = fn.subsystem
        # file2alias' and pci_uevent()'s form; the device plugin's library reads ids and class from here
        modalias = "pci:v0000{}d0000{}sv0000{}sd0000{}bc{}sc{}i{}".format(
            *(text.upper() for text in (fn.vendor, fn.device, sv, sd, fn.cls[0:2], fn.cls[2:4], fn.cls[4:6]))
        )
        tree.put(
            path,
            vendor=f"0x{fn.vendor}",
            device=f"0x{fn.device}",
            subsystem_vendor=f"0x{sv}",
            subsystem_device=f"0x{sd}",
            revision=f"0x{fn.revision}",
            numa_node=fn.numa,
            modalias=modalias,
        )
        tree.put(path, **{"class": f"0x{fn.cls}"})
        for prefix, link in (("current", fn.link), ("max", fn.link_max or fn.link)):
            if link:
                tree.put(path, **{f"{prefix}_link_speed": f"{link[0]} GT/s PCIe", f"{prefix}_link_width": link[1]})
        if fn.vfs:
            tree.put(path, sriov_totalvfs=fn.vfs[0], sriov_numvfs=fn.vfs[1])
        if fn.driver:
            tree.link(f"{path}/driver", f"sys/bus/pci/drivers/{fn.driver}")
            tree.link(f"sys/bus/pci/drivers/{fn.driver}/{fn.pci}", path)
        tree.link(f"sys/bus/pci/devices/{fn.pci}", path)

    def bridges(
        self, under: str, numa: int, ids: list[tuple[str, str]], link: tuple[str, int] | None = None
    ) -> str:
        """The bridges on a path `pci0000:5d/0000:5d:00.0/...`, one (vendor, device) each; returns the path. link: of the last one."""
        host, *addresses = under.split("/")
        for depth, (address, (vendor, device)) in enumerate(zip(addresses, ids, strict=True)):
            where = "/".join([host, *addresses[:depth]])
            own = link if depth == len(addresses) - 1 else None
            self.function(Function(where, address, vendor, device, "060400", numa, "pcieport", link=own))
        return under

    def temperature(self, function: str, celsius: int) -> None:
        """The sensor of the card itself (drivers/net/ethernet/mellanox/mlx5/core/hwmon.c)."""
        path = f"{function}/hwmon/hwmon{self.hcas}"
        self.tree.put(path, name="mlx5", temp1_input=celsius * 1000, temp1_label="asic", temp1_crit=105000)

    # -- netdevs -----------------------------------------------------------------------------------------------------

    def netdev(self, parent: str, dev: Netdev, guid: str | None = None) -> None:
        """A netdev below a device; guid makes it an IPoIB one (ARPHRD_INFINIBAND 32, 20-byte address)."""
        self.netdevs += 1
        path = f"{parent}/net/{dev.name}"
        address = dev.mac
        if guid:
            # drivers/infiniband/ulp/ipoib: flags and QPN, then the GID: subnet prefix and port GUID
            octets = guid.replace(":", "")
            address = "00:00:10:a9:fe:80:00:00:00:00:00:00:" + ":".join(octets[i : i + 2] for i in range(0, 16, 2))
        self.tree.put(
            path,
            type=32 if guid else 1,
            address=address,
            addr_len=20 if guid else 6,
            mtu=dev.mtu,
            operstate="up" if dev.up else "down",
            dev_port=0,
            dev_id="0x0",
            ifindex=self.netdevs,
            iflink=self.netdevs,
            phys_port_name=dev.phys_port,
            mode="datagram" if guid else None,
            pkey="0xffff" if guid else None,
            carrier_down_count=dev.downs,
        )
        self.tree.put(f"{path}/statistics", rx_crc_errors=0, rx_dropped=0, rx_errors=0, tx_dropped=0, tx_errors=0)
        self.tree.link(f"{path}/device", parent)
        self.tree.link(f"sys/class/net/{dev.name}", path)
        if dev.master:
            master = f"sys/devices/virtual/net/{dev.master}"
            self.tree.link(f"{path}/master", master)
            self.tree.link(f"{path}/upper_{dev.master}", master)
            self.tree.link(f"{master}/lower_{dev.name}", path)
            self.slaves.setdefault(dev.master, []).append(dev.name)

    def bond(self, name: str, mac: str, active: str, mtu: int = 1500) -> None:
        """An active-backup bond over the netdevs that named it as their master before."""
        self.netdevs += 1
        path = f"sys/devices/virtual/net/{name}"
        self.tree.put(
            path, type=1, address=mac, addr_len=6, mtu=mtu, operstate="up", dev_port=0, dev_id="0x0",
            ifindex=self.netdevs, iflink=self.netdevs,
        )  # fmt: skip
        slaves = " ".join(self.slaves[name])
        self.tree.put(f"{path}/bonding", mode="active-backup 1", slaves=slaves, active_slave=active, mii_status="up")
        self.tree.link(f"sys/class/net/{name}", path)
        self.tree.file("sys/class/net/bonding_masters", f"{name}\n")

    def loopback(self) -> None:
        path = "sys/devices/virtual/net/lo"
        self.tree.put(
            path, type=772, address="00:00:00:00:00:00", addr_len=6, mtu=65536, operstate="unknown", dev_port=0,
            dev_id="0x0", ifindex=1, iflink=1,
        )  # fmt: skip
        self.tree.link("sys/class/net/lo", path)

    # -- RDMA --------------------------------------------------------------------------------------------------------

    def hca(self, fn: Function, hca: Hca, netdev: Netdev | None) -> None:
        """An mlx5 function with its RDMA device, its character devices and its netdev."""
        tree, port, number = self.tree, hca.port, self.hcas
        self.hcas += 1
        guid = guid_of(hca.mac)
        path = f"{fn.path}/infiniband/{hca.name}"
        tree.put(
            path,
            node_type="1: CA",
            node_guid=guid,
            sys_image_guid=guid_of(hca.system_mac),
            node_desc=f"{self.name} {hca.name}",
            fw_ver=hca.firmware,
            hca_type=hca.hca_type,
            board_id=hca.board,
            hw_rev="0",
        )
        tree.link(f"{path}/device", fn.path)
        tree.link(f"sys/class/infiniband/{hca.name}", path)
        base = f"{path}/ports/1"
        tree.put(
            base, state=port.state, phys_state=port.phys, rate=port.rate, link_layer=port.layer,
            lid=hex(port.lid), sm_lid=hex(port.sm_lid),
        )  # fmt: skip
        gids: list[tuple[str, str, str | None]] = []
        if port.layer == "InfiniBand":
            # RoCE v1 and InfiniBand share the name and the value 0 (drivers/infiniband/core/cache.c, gid_type_str)
            gids.append((f"fe80:0000:0000:0000:{guid}", "IB/RoCE v1", None))
        elif port.gid_netdev:
            for gid in filter(None, (link_local(port.gid_mac), mapped(port.gid_ipv4))):
                gids += [(gid, "IB/RoCE v1", port.gid_netdev), (gid, "RoCE v2", port.gid_netdev)]
        for index in range(max(4, len(gids))):
            gid, kind, owner = gids[index] if index < len(gids) else (EMPTY_GID, None, None)
            # types and ndevs of an empty slot, and ndevs without a netdev, fail with EINVAL: no file here
            tree.file(f"{base}/gids/{index}", gid + "\n")
            if kind:
                tree.file(f"{base}/gid_attrs/types/{index}", kind + "\n")
            if owner:
                tree.file(f"{base}/gid_attrs/ndevs/{index}", owner + "\n")
        up = "ACTIVE" in port.state
        quiet = dict.fromkeys(PORT_ERRORS, 0)
        tree.put(
            f"{base}/counters",
            **{**quiet, "link_downed": 0 if port.layer == "Ethernet" else port.downs},
            port_xmit_data=262144000 if up else 0,
            port_rcv_data=262140000 if up else 0,
            port_xmit_packets=256000 if up else 0,
            port_rcv_packets=255990 if up else 0,
        )
        tree.put(f"{base}/hw_counters", **dict.fromkeys(MLX5_COUNTERS, 0), lifespan=10)
        verbs = f"{fn.path}/infiniband_verbs/uverbs{number}"
        tree.put(verbs, ibdev=hca.name, dev=f"231:{192 + number}", abi_version=1)
        tree.link(f"sys/class/infiniband_verbs/uverbs{number}", verbs)
        if self.umad:
            for kind, minor in (("umad", number), ("issm", 64 + number)):
                mad = f"{fn.path}/infiniband_mad/{kind}{number}"
                tree.put(mad, ibdev=hca.name, port=1, dev=f"231:{minor}")
                tree.link(f"sys/class/infiniband_mad/{kind}{number}", mad)
        if netdev:
            self.netdev(fn.path, netdev, guid if port.layer == "InfiniBand" else None)

    def rdma_core(self) -> None:
        """What there is once for the whole machine when ib_uverbs, rdma_ucm and (if so) ib_umad are loaded."""
        self.tree.put("sys/class/infiniband_verbs", abi_version=6)
        if self.umad:
            self.tree.put("sys/class/infiniband_mad", abi_version=5)
        self.tree.put("sys/devices/virtual/misc/rdma_cm", dev="10:58", abi_version=4)
        self.tree.link("sys/class/misc/rdma_cm", "sys/devices/virtual/misc/rdma_cm")

    # -- the rest ----------------------------------------------------------------------------------------------------

    def modules(self, loaded: list[str], on_disk: list[str], persisted: dict[str, list[str]], suffix: str) -> None:
        """Loaded modules, modules.dep of the running kernel, and /etc/modules-load.d/<file>."""
        for name in loaded:
            self.tree.put(f"sys/module/{name}", initstate="live", refcnt=0 if name == "ib_ipoib" else 1)
        if "ib_core" in loaded:
            self.tree.put("sys/module/ib_core/parameters", netns_mode="Y")
        if "nvidia" in loaded:
            self.tree.put("sys/module/nvidia", version=NVIDIA_VERSION[self.release])
        self.tree.verbatim("lib", "usr/lib")
        directory = f"usr/lib/modules/{self.release}"
        text = "".join(f"{MODULE_DIRECTORY[name]}/{spelling(name)}.ko{suffix}:\n" for name in sorted(on_disk))
        self.tree.file(f"{directory}/modules.dep", text)
        self.tree.file(f"{directory}/modules.builtin", "kernel/crypto/crc32c_generic.ko\nkernel/fs/ext4/ext4.ko\n")
        for name, names in persisted.items():
            self.tree.file(f"etc/modules-load.d/{name}", "".join(f"{line}\n" for line in names))

    def nvidia(self, flavour: str | None, exports: bool = False) -> None:
        """The loaded NVIDIA driver, and whether ib_core takes its client (depmod writes modules.symbols)."""
        version = NVIDIA_VERSION[self.release]
        text = {
            "open": f"NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (dvs-builder@build)",
            "proprietary": f"NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep 23 10:11:16 UTC 2025",
        }.get(flavour or "")
        if text:
            self.tree.file("proc/driver/nvidia/version", f"NVRM version: {text}\n")
        symbol = "alias symbol:ib_register_peer_memory_client ib_core\n" if exports else ""
        self.tree.file(f"usr/lib/modules/{self.release}/modules.symbols", symbol)

    def runtime(
        self,
        version: str,
        config: str,
        drop_ins: dict[str, str] | None = None,
        handlers: dict[str, str | None] | None = None,
        specs: dict[str, list[tuple[str, int, int]]] | None = None,
        memlock: tuple[str, str] = ("8388608", "8388608"),
        default: str = "runc",
        unit: str = "KillMode=process",
    ) -> None:
        """A node of kubeadm with a containerd that runs with what its files say. handlers: base_runtime_spec by name."""
        tree, pid = self.tree, 1187
        for name, number in (("containerd", pid), ("kubelet", 1402)):
            tree.file(f"sys/fs/cgroup/system.slice/{name}.service/cgroup.procs", f"{number}\n")
            tree.file(f"proc/{number}/comm", f"{name}\n")
        tree.file(f"proc/{pid}/cmdline", "/usr/bin/containerd\0")
        tree.verbatim(f"proc/{pid}/exe", "/usr/bin/containerd")
        tree.file("etc/kubernetes/kubelet.conf", "")
        for number, limits in (("1", ("8388608", "8388608")), ("self", ("8388608", "8388608")), (str(pid), memlock)):
            # fs/proc/base.c, proc_pid_limits()
            tree.file(
                f"proc/{number}/limits",
                f"{'Max open files':<26}{1048576:<21}{1048576:<21}files     \n"
                f"{'Max locked memory':<26}{limits[0]:<21}{limits[1]:<21}bytes     \n",
            )
        for number in ("self", str(pid)):
            tree.file(f"proc/{number}/status", "CapEff:\t000001ffffffffff\n")
        tree.file(f"proc/{pid}/uid_map", "         0          0 4294967295\n")
        tree.file("usr/lib/systemd/system/containerd.service", f"[Service]\n{unit}\n")
        tree.file("etc/containerd/config.toml", config)
        for path, text in (drop_ins or {}).items():
            tree.file(path, text)
        for path, rlimits in (specs or {}).items():
            entries = [{"type": name, "hard": hard, "soft": soft} for name, soft, hard in rlimits]
            tree.file(path, json.dumps({"ociVersion": "1.1.0", "process": {"rlimits": entries}}))
        # what the daemon answers over CRI, and whether a file is newer than it
        said = {
            "version": version,
            "ready": True,
            "default_handler": default,
            "handlers": {
                name: {"base_runtime_spec": spec, "runtime_type": "io.containerd.runc.v2"}
                for name, spec in (handlers or {"runc": None}).items()
            },
        }
        tree.file(".answers/cri/run/containerd/containerd.sock", json.dumps(said, sort_keys=True))
        for path in ["etc/containerd/config.toml", *(drop_ins or {}), *(specs or {})]:
            tree.file(f".answers/changed/{pid}/{path}", "0")

    def system(
        self, routes: list[tuple[str, str, str, str, int]], page: int = 4096, tools: tuple[str, ...] = ()
    ) -> None:
        """Routes are (netdev, destination, gateway, mask, metric), addresses in dotted form."""
        self.loopback()
        tree = self.tree
        tree.put("proc/sys/kernel", osrelease=self.release)
        # a huge page maps as many pages as entries of 8 bytes fit in a page
        tree.put("sys/kernel/mm/transparent_hugepage", hpage_pmd_size=page * page // 8)
        tree.file("etc/os-release", OS_RELEASE[self.os])
        head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
        rows = [head]
        for dev, destination, gateway, mask, metric in routes:
            flags = 3 if gateway != "0.0.0.0" else 1  # RTF_UP, RTF_GATEWAY
            rows.append(f"{dev}\t{le(destination)}\t{le(gateway)}\t{flags:04X}\t0\t0\t{metric}\t{le(mask)}\t0\t0\t0")
        # fib_route_seq_show() pads every line to 127 characters
        tree.file("proc/net/route", "".join(f"{row:<127}\n" for row in rows))
        none, lo = "0" * 32, "00000001"
        # the second line is the kernel's own catch-all: unreachable, never a default route of the machine
        tree.file(
            "proc/net/ipv6_route",
            f"{none[:-1]}1 80 {none} 00 {none} 00000000 00000002 00000000 80200001       lo\n"
            f"{none} 00 {none} 00 {none} ffffffff {lo} 00000000 00200200       lo\n",
        )
        tree.file(
            "proc/self/mounts",
            "sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0\n"
            "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
            "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n",
        )
        for tool in (*BASE_TOOLS, *tools):
            tree.file(f"usr/{'sbin' if tool in ('blkid', 'ibstat', 'rdma') else 'bin'}/{tool}", "")


def guid_of(mac: str) -> str:
    """The GUID that the vendor makes of a MAC: 0300 in the middle (not the EUI-64 that IPv6 makes)."""
    digits = mac.replace(":", "")
    digits = digits[:6] + "0300" + digits[6:]
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def link_local(mac: str) -> str:
    """fe80::/64 with the modified EUI-64 of the netdev's address (addrconf_addr_eui48)."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets = [octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]]
    return "fe80:0000:0000:0000:" + ":".join(f"{octets[i]:02x}{octets[i + 1]:02x}" for i in range(0, 8, 2))


def mapped(ipv4: str | None) -> str | None:
    if ipv4 is None:
        return None
    a, b, c, d = (int(part) for part in ipv4.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def le(ipv4: str) -> str:
    """An address as /proc/net/route prints it on a little-endian machine."""
    return "".join(f"{int(part):02X}" for part in reversed(ipv4.split(".")))


def spelling(module: str) -> str:
    return {"nvidia_peermem": "nvidia-peermem"}.get(module, module)


def plus(mac: str, step: int) -> str:
    value = int(mac.replace(":", ""), 16) + step
    return ":".join(f"{value:012x}"[i : i + 2] for i in range(0, 12, 2))


_CORE, _MLX = "kernel/drivers/infiniband", "kernel/drivers/net/ethernet/mellanox"
MODULE_DIRECTORY = {
    "ib_core": f"{_CORE}/core",
    "ib_umad": f"{_CORE}/core",
    "ib_uverbs": f"{_CORE}/core",
    "rdma_cm": f"{_CORE}/core",
    "rdma_ucm": f"{_CORE}/core",
    "ib_ipoib": f"{_CORE}/ulp/ipoib",
    "mlx5_core": f"{_MLX}/mlx5/core",
    "mlx5_ib": f"{_CORE}/hw/mlx5",
    "mlx4_core": f"{_MLX}/mlx4",
    "mlx4_ib": f"{_CORE}/hw/mlx4",
    "rdma_rxe": f"{_CORE}/sw/rxe",
    "dm_crypt": "kernel/drivers/md",
    "iscsi_tcp": "kernel/drivers/scsi",
    "nfs": "kernel/fs/nfs",
    "nvidia": "updates/dkms",
    "nvidia_peermem": "updates/dkms",
}
INBOX = [name for name in MODULE_DIRECTORY if not name.startswith("nvidia")]
RDMA_LOADED = ["ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib"]
# of any distribution's base system
BASE_TOOLS = ("awk", "bash", "blkid", "curl", "findmnt", "grep", "lsblk")
ALL_TOOLS = ("ibstat", "ibv_devinfo", "ib_write_bw", "ib_write_lat", "rdma")

UBUNTU2204, ROCKY9, UBUNTU2404, DEBIAN12 = (
    "5.15.0-119-generic",
    "5.14.0-427.42.1.el9_4.x86_64",
    "6.8.0-1024-nvidia-64k",
    "6.1.0-27-amd64",
)
NVIDIA_VERSION = {UBUNTU2204: "580.95.05", ROCKY9: "580.95.05", UBUNTU2404: "580.95.05", DEBIAN12: "535.216.01"}
OS_RELEASE = {
    "ubuntu-22.04": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n',
    "ubuntu-24.04": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "rocky-9": 'NAME="Rocky Linux"\nVERSION="9.4 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel"\nVERSION_ID="9.4"\n',
    "debian-12": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n',
}

UNLIMITED = 2**64 - 1
CRI2 = 'plugins."io.containerd.grpc.v1.cri".containerd'
# as containerd's package and nvidia-ctk leave it
CONFIG_1_7 = f"""version = 2
imports = []
[{CRI2}]
default_runtime_name = "nvidia"
[{CRI2}.runtimes."runc"]
runtime_type = "io.containerd.runc.v2"
[{CRI2}.runtimes."nvidia"]
runtime_type = "io.containerd.runc.v2"
"""
# Kubespray's, with a specification of its own
CONFIG_1_6 = f"""version = 2
[{CRI2}]
default_runtime_name = "runc"
[{CRI2}.runtimes."runc"]
base_runtime_spec = "/etc/containerd/cri-base.json"
runtime_type = "io.containerd.runc.v2"
"""
CRI3 = "plugins.'io.containerd.cri.v1.runtime'.containerd"
CONFIG_2_1 = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n"
CONFIG_2_1_NVIDIA = f"""version = 3
[{CRI3}.runtimes.nvidia]
base_runtime_spec = '/etc/containerd/fabric-rdma-base.json'
runtime_type = 'io.containerd.runc.v2'
[{CRI3}.runtimes.runc]
base_runtime_spec = '/etc/containerd/fabric-rdma-base.json'
"""

# drivers/infiniband/core/sysfs.c, and drivers/infiniband/hw/mlx5/counters.c of a ConnectX-5 without its counters of congestion
PORT_ERRORS = (
    *("VL15_dropped", "excessive_buffer_overrun_errors", "link_error_recovery", "local_link_integrity_errors"),
    *("port_rcv_constraint_errors", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors"),
    *("port_xmit_constraint_errors", "port_xmit_discards", "port_xmit_wait", "symbol_error"),
)
MLX5_COUNTERS = (
    *("duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "out_of_buffer", "out_of_sequence"),
    *("packet_seq_err", "req_cqe_error", "req_remote_access_errors", "resp_cqe_error", "resp_remote_access_errors"),
    *("rnr_nak_retry_err", "np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored"),
)

PLX, SKYLAKE, ROME = ("10b5", "9797"), ("8086", "2030"), ("1022", "1483")
GRACE, CX7_SWITCH, BF3_SWITCH = ("10de", "22b1"), ("15b3", "1979"), ("15b3", "197b")


def gpu(machine: Machine, under: str, pci: str, device: str, numa: int, link: tuple[str, int]) -> None:
    machine.function(Function(under, pci, "10de", device, "030200", numa, "nvidia", ("10de", "1463"), "a1", link=link))


def vga(machine: Machine, under: str, pci: str, numa: int) -> None:
    """The management controller's screen: a display, but no GPU."""
    machine.function(Function(under, pci, "1a03", "2000", "030000", numa, "ast", ("1a03", "2000"), "41"))


# -- The machines ----------------------------------------------------------------------------------------------------


def ib_v100(name: str, number: int, prepared: bool = True) -> Machine:
    """Two Xeons; one dual-port ConnectX-5 100G, both ports on InfiniBand, two of four V100 beside it on its PCIe switch.

    The default route runs over an Intel port. On a machine that is not prepared nobody has loaded ib_umad.
    """
    machine = Machine(name, UBUNTU2204, "ubuntu-22.04", umad=prepared)
    gen3 = ("8.0", 16)
    switch = machine.bridges("pci0000:5a/0000:5a:00.0/0000:5b:00.0", 0, [SKYLAKE, PLX])
    near = machine.bridges(f"{switch}/0000:5c:04.0", 0, [SKYLAKE, PLX, PLX])
    gpu(machine, near, "0000:5d:00.0", "1db6", 0, gen3)
    slot = machine.bridges(f"{switch}/0000:5c:08.0", 0, [SKYLAKE, PLX, PLX], gen3)
    mac = ("0c:42:a1:00:1e:10", "0c:42:a1:00:2b:60", "0c:42:a1:00:3c:70")[number - 1]
    for index in (0, 1):
        fn = Function(
            slot, f"0000:5e:00.{index}", "15b3", "1017", "020700", 0, "mlx5_core", ("15b3", "0007"),
            link=gen3, vfs=(16, 0),
        )  # fmt: skip
        machine.function(fn)
        port = Port(rate="100 Gb/sec (4X EDR)", lid=10 * number + 1 + index, sm_lid=1)
        hca = Hca(f"mlx5_{index}", plus(mac, index), port, "MT4119", "16.35.2000", "MT_0000000008", mac)
        machine.hca(fn, hca, Netdev(f"ibp94s0f{index}", "", mtu=2044))
    near = machine.bridges(f"{switch}/0000:5c:0c.0", 0, [SKYLAKE, PLX, PLX])
    gpu(machine, near, "0000:5f:00.0", "1db6", 0, gen3)
    switch = machine.bridges("pci0000:d7/0000:d7:00.0/0000:d8:00.0", 1, [SKYLAKE, PLX])
    for port_address, pci in (("0000:d9:04.0", "0000:da:00.0"), ("0000:d9:08.0", "0000:db:00.0")):
        gpu(machine, machine.bridges(f"{switch}/{port_address}", 1, [SKYLAKE, PLX, PLX]), pci, "1db6", 1, gen3)
    root = machine.bridges("pci0000:17/0000:17:00.0", 0, [SKYLAKE])
    for index in (0, 1):
        fn = Function(root, f"0000:18:00.{index}", "8086", "1563", "020000", 0, "ixgbe", ("8086", "001a"), "01")
        machine.function(fn)
        mac = f"a0:36:9f:00:{number:02x}:0{index}"
        machine.netdev(fn.path, Netdev(f"eno{index + 1}", mac, up=index == 0))
    vga(machine, machine.bridges("pci0000:00/0000:00:1c.5", 0, [("8086", "a195")]), "0000:02:00.0", 0)
    machine.rdma_core()
    loaded = [*RDMA_LOADED, "ib_ipoib", "nvidia"] + (["ib_umad"] if machine.umad else [])
    persisted = ["# RDMA", "ib_uverbs", "rdma_ucm"] + (["ib_umad", "ib_ipoib"] if machine.umad else [])
    machine.modules(loaded, [*INBOX, "nvidia", "nvidia_peermem"], {"rdma.conf": persisted}, "")
    machine.system(
        [("eno1", "0.0.0.0", "192.0.2.1", "0.0.0.0", 100), ("eno1", "192.0.2.0", "0.0.0.0", "255.255.255.0", 100)],
        tools=ALL_TOOLS if prepared else ("rdma", "ibv_devinfo"),
    )
    machine.nvidia("proprietary")
    machine.runtime("1.7.27", CONFIG_1_7, handlers={"runc": None, "nvidia": None}, default="nvidia")
    return machine


def ib_a100(name: str, number: int, cabled: int) -> Machine:
    """Two EPYCs; a ConnectX-6 HDR card on each, one of them cabled; a ConnectX-4 Lx as RoCE LAG carries the network."""
    machine = Machine(name, ROCKY9, "rocky-9")
    gen4 = ("16.0", 16)
    for domain, pci, numa in (("00", "01", 0), ("40", "41", 0), ("80", "81", 1), ("c0", "c1", 1)):
        root = machine.bridges(f"pci0000:{domain}/0000:{domain}:01.1", numa, [ROME])
        gpu(machine, root, f"0000:{pci}:00.0", "20b2", numa, gen4)
    for index, (domain, pci, numa) in enumerate((("20", "21", 0), ("a0", "a1", 1))):
        root = machine.bridges(f"pci0000:{domain}/0000:{domain}:01.1", numa, [ROME], gen4)
        fn = Function(
            root, f"0000:{pci}:00.0", "15b3", "101b", "020700", numa, "mlx5_core", ("15b3", "0007"),
            link=gen4, vfs=(8, 0),
        )  # fmt: skip
        machine.function(fn)
        up = index == cabled
        # a port without link says the slowest rate that it could have
        port = (
            Port(rate="200 Gb/sec (4X HDR)", lid=2 + number, sm_lid=1)
            if up
            else Port("1: DOWN", "3: Disabled", "10 Gb/sec (4X SDR)", lid=0xFFFF, downs=0)
        )
        mac = f"b8:ce:f6:{0x10 * number + index:02x}:44:8c"
        hca = Hca(f"mlx5_{index}", mac, port, "MT4123", "20.38.1900", "MT_0000000223", mac)
        machine.hca(fn, hca, Netdev(f"ibp{int(pci, 16)}s0", "", up=up, mtu=2044))
    root = machine.bridges("pci0000:e0/0000:e0:03.1", 1, [ROME])
    mac = f"1c:34:da:00:{number:02x}:a8"
    names = ("enp225s0f0np0", "enp225s0f1np1")
    for index, netdev in enumerate(names):
        fn = Function(
            root, f"0000:e1:00.{index}", "15b3", "1015", "020000", 1, "mlx5_core", ("15b3", "0003"),
            link=("8.0", 8), vfs=(8, 0),
        )  # fmt: skip
        machine.function(fn)
        # a bond gives all its members one address; the second function of a LAG has no RDMA device of its own
        slave = Netdev(netdev, mac, master="bond0", phys_port=f"p{index}")
        if index:
            machine.netdev(fn.path, slave)
            continue
        port = Port(
            rate="10 Gb/sec (1X QDR)", layer="Ethernet", gid_netdev="bond0", gid_mac=mac,
            gid_ipv4=f"192.0.2.{20 + number}",
        )  # fmt: skip
        hca = Hca("mlx5_bond_0", mac, port, "MT4117", "14.32.1010", "MT_2420110034", mac)
        machine.hca(fn, hca, slave)
    machine.bond("bond0", mac, active=names[0])
    machine.rdma_core()
    machine.modules(
        [*RDMA_LOADED, "ib_umad", "ib_ipoib", "nvidia", "bonding"],
        [*INBOX, "nvidia", "nvidia_peermem"],
        {"rdma.conf": ["ib_umad", "ib_uverbs", "rdma_ucm", "ib_ipoib"]},
        ".xz",
    )
    machine.system(
        [("bond0", "0.0.0.0", "192.0.2.1", "0.0.0.0", 300), ("bond0", "192.0.2.0", "0.0.0.0", "255.255.255.0", 300)],
        tools=ALL_TOOLS,
    )
    machine.nvidia("open")
    machine.runtime(
        "1.6.33",
        CONFIG_1_6,
        handlers={"runc": "/etc/containerd/cri-base.json"},
        specs={"etc/containerd/cri-base.json": [("RLIMIT_NOFILE", 65535, 65535)]},
        memlock=("unlimited", "unlimited"),
        unit="KillMode=process\nLimitMEMLOCK=infinity",
    )
    return machine


def gb200(name: str, number: int) -> Machine:
    """A GB200 compute tray: every card in a PCI domain of its own, 64 KiB pages.

    bond0 spans the second ports of two BlueField-3, so the driver makes no LAG of it: both keep their RDMA device. The
    active member's GID table holds the addresses of the bond, the other one's is empty (roce_gid_mgmt.c). IPoIB is not
    configured: the InfiniBand ports are Active all the same.
    """
    machine = Machine(name, UBUNTU2404, "ubuntu-24.04")
    gen5 = ("32.0", 16)
    ports: list[tuple[str, int]] = [("0000", 0), ("0002", 0), ("0006", 0), ("0010", 1), ("0012", 1), ("0016", 1)]
    rdma = 0
    for card, (domain, numa) in enumerate(ports):
        bluefield = domain in ("0006", "0016")
        switch = BF3_SWITCH if bluefield else CX7_SWITCH
        root = machine.bridges(
            f"pci{domain}:00/{domain}:00:00.0/{domain}:01:00.0/{domain}:02:00.0", numa, [GRACE, switch, switch], gen5
        )
        mac = f"5c:25:73:{0x20 * number + card:02x}:10:40"
        if not bluefield:
            fn = Function(
                root, f"{domain}:03:00.0", "15b3", "1021", "020700", numa, "mlx5_core", ("15b3", "0041"),
                link=gen5, vfs=(16, 0),
            )  # fmt: skip
            machine.function(fn)
            port = Port(rate="400 Gb/sec (4X NDR)", lid=0x100 * number + card, sm_lid=1)
            hca = Hca(f"mlx5_{rdma}", mac, port, "MT4129", "28.44.2524", "NVD0000000046", mac)
            prefix = "" if domain == "0000" else f"P{int(domain, 16)}"
            machine.hca(fn, hca, Netdev(f"ib{prefix}p3s0", "", up=False, mtu=2044, downs=0))
            machine.temperature(fn.path, 50 + card)
            rdma += 1
            continue
        for index in (0, 1):
            fn = Function(
                root, f"{domain}:03:00.{index}", "15b3", "a2dc", "020000", numa, "mlx5_core", ("15b3", "0009"), "01",
                link=gen5, vfs=(16, 0),
            )  # fmt: skip
            machine.function(fn)
            own = plus(mac, index)
            active = domain == "0006"
            bond_mac = f"5c:25:73:{0x20 * number + 2:02x}:10:41"
            netdev = Netdev(
                f"enP{int(domain, 16)}p3s0f{index}np{index}", bond_mac if index else own, mtu=9000,
                master="bond0" if index else None, phys_port=f"p{index}",
            )  # fmt: skip
            port = Port(rate="200 Gb/sec (2X NDR)", layer="Ethernet")
            if not index:
                port.gid_netdev, port.gid_mac = netdev.name, own
                port.gid_ipv4 = f"198.51.100.{100 * (domain == '0016') + number}"
            elif active:
                port.gid_netdev, port.gid_mac, port.gid_ipv4 = "bond0", bond_mac, f"192.0.2.{40 + number}"
            hca = Hca(f"mlx5_{rdma}", own, port, "MT41692", "32.44.1036", "MT_0000000884", mac)
            machine.hca(fn, hca, netdev)
            rdma += 1
        machine.function(
            Function(root, f"{domain}:03:00.2", "15b3", "c2d5", "080100", numa, None, ("15b3", "0009"), "01", link=gen5)
        )
    machine.bond("bond0", f"5c:25:73:{0x20 * number + 2:02x}:10:41", active="enP6p3s0f1np1", mtu=9000)
    for domain, numa in (("0008", 0), ("0009", 0), ("0018", 1), ("0019", 1)):
        root = machine.bridges(f"pci{domain}:00/{domain}:00:00.0", numa, [GRACE])
        gpu(machine, root, f"{domain}:01:00.0", "2941", numa, gen5)
    machine.rdma_core()
    machine.modules(
        [*RDMA_LOADED, "ib_umad", "ib_ipoib", "nvidia", "bonding"],
        [*INBOX, "nvidia", "nvidia_peermem"],
        {"rdma.conf": ["ib_umad", "ib_uverbs", "rdma_ucm", "ib_ipoib"], "nvidia.conf": ["nvidia"]},
        ".zst",
    )
    machine.system(
        [("bond0", "0.0.0.0", "192.0.2.1", "0.0.0.0", 0), ("bond0", "192.0.2.0", "0.0.0.0", "255.255.255.0", 0)],
        page=65536,
        tools=ALL_TOOLS,
    )
    machine.nvidia("open")
    # one of NVIDIA's DRA driver runs, so the host's own is masked
    machine.tree.file("usr/lib/systemd/system/nvidia-imex.service", "[Unit]\nDescription=NVIDIA IMEX service\n")
    machine.tree.verbatim("etc/systemd/system/nvidia-imex.service", "/dev/null")
    machine.tree.file(
        "proc/devices",
        "Character devices:\n  1 mem\n195 nvidia\n231 infiniband_verbs\n511 nvidia-caps-imex-channels\n512 nvidia-caps\n"
        "\nBlock devices:\n259 blkext\n",
    )
    machine.runtime(
        "2.1.4",
        CONFIG_2_1,
        {"etc/containerd/conf.d/99-nvidia.toml": CONFIG_2_1_NVIDIA},
        dict.fromkeys(("runc", "nvidia"), "/etc/containerd/fabric-rdma-base.json"),
        {"etc/containerd/fabric-rdma-base.json": [("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)]},
        ("unlimited", "unlimited"),
        unit="KillMode=process\nLimitMEMLOCK=infinity",
    )
    return machine


def roce_rails(name: str, number: int) -> Machine:
    """Eight ConnectX-5 on Ethernet, each with its GPU below one switch port of its own.

    The interfaces' names count the buses 11 to 18 without a gap, so a pair can only share its bus: that is how
    hypervisors lay out GPU machines, and they say no NUMA node. The machine's own network is virtio, whose netdev hangs
    below a virtio device and not below the PCI function. An NVSwitch is there too, and is no GPU.
    """
    machine = Machine(name, UBUNTU2204, "ubuntu-22.04")
    switch = machine.bridges("pci0000:00/0000:00:01.0/0000:09:00.0", -1, [("8086", "3420"), PLX])
    for rail in range(8):
        bus = 0x0B + rail
        down = machine.bridges(f"{switch}/0000:0a:{8 + rail:02x}.0", -1, [("8086", "3420"), PLX, PLX], ("8.0", 16))
        fn = Function(
            down, f"0000:{bus:02x}:00.0", "15b3", "1017", "020000", -1, "mlx5_core", ("15b3", "0020"), link=("8.0", 16)
        )
        machine.function(fn)
        mac = f"94:6d:ae:{0x10 * number + rail:02x}:7f:20"
        netdev = Netdev(f"enp{bus}s0f0np0", mac, mtu=9000, phys_port="p0")
        port = Port(
            rate="100 Gb/sec (4X EDR)", layer="Ethernet", gid_netdev=netdev.name, gid_mac=mac,
            gid_ipv4=f"198.51.100.{10 * number + 1 + rail}",
        )  # fmt: skip
        machine.hca(fn, Hca(f"mlx5_{rail}", mac, port, "MT4119", "16.35.4030", "MT_0000000012", mac), netdev)
        told = {
            "counters": {"rx_prio3_pause": 40 + rail, "tx_prio3_pause": 0, "rx_symbol_err_phy": 0},
            "module": {"vendor": "Mellanox", "part": "MCP1600-C003", "serial": f"MT{number:02}{rail:02}", "length_m": 3.0},
        }
        machine.tree.file(f".answers/ethtool/{netdev.name}", json.dumps(told, sort_keys=True))
        gpu(machine, down, f"0000:{bus:02x}:01.0", "20b0", -1, ("16.0", 16))
        machine.tree.put(
            f"proc/sys/net/ipv4/conf/{netdev.name}", arp_announce=0, arp_filter=0, arp_ignore=0, rp_filter=2
        )
    # as procps of Ubuntu has it (10-network-security.conf)
    machine.tree.put("proc/sys/net/ipv4/conf/all", arp_announce=0, arp_filter=0, arp_ignore=0, rp_filter=2)
    nvswitch = machine.bridges("pci0000:00/0000:00:02.0", -1, [("8086", "3420")])
    machine.function(Function(nvswitch, "0000:13:00.0", "10de", "1af1", "068000", -1, "nvidia-nvswitch"))
    fn = Function("pci0000:00", "0000:00:03.0", "1af4", "1000", "020000", -1, "virtio-pci", ("1af4", "0001"))
    machine.function(fn)
    machine.tree.put(f"{fn.path}/virtio0", vendor="0x1af4", device="0x0001")
    machine.netdev(f"{fn.path}/virtio0", Netdev("enp0s3", f"52:54:00:00:00:{number:02x}"))
    machine.rdma_core()
    machine.modules(
        [*RDMA_LOADED, "ib_umad", "nvidia"],
        [*INBOX, "nvidia", "nvidia_peermem"],
        {"rdma.conf": ["ib_umad", "ib_uverbs", "rdma_ucm"]},
        "",
    )
    machine.system(
        [("enp0s3", "0.0.0.0", "192.0.2.1", "0.0.0.0", 100), ("enp0s3", "192.0.2.0", "0.0.0.0", "255.255.255.0", 100)],
        tools=ALL_TOOLS,
    )
    machine.nvidia("open")
    machine.runtime("1.7.27", CONFIG_1_7, handlers={"runc": None, "nvidia": None}, default="nvidia")
    return machine


def no_rdma(name: str) -> Machine:
    """A server with a GPU and a plain Ethernet card; no RDMA module is loaded, so the class directories are absent."""
    machine = Machine(name, DEBIAN12, "debian-12")
    root = machine.bridges("pci0000:17/0000:17:00.0", 0, [SKYLAKE])
    for index in (0, 1):
        fn = Function(root, f"0000:18:00.{index}", "14e4", "165f", "020000", 0, "tg3", ("1028", "08ff"))
        machine.function(fn)
        machine.netdev(fn.path, Netdev(f"eno{index + 1}", f"d0:94:66:00:00:0{index}", up=index == 0))
    root = machine.bridges("pci0000:3a/0000:3a:00.0", 0, [SKYLAKE])
    gpu(machine, root, "0000:3b:00.0", "1eb8", 0, ("8.0", 16))
    vga(machine, machine.bridges("pci0000:00/0000:00:1c.5", 0, [("8086", "a195")]), "0000:02:00.0", 0)
    machine.modules(["nvidia"], [*INBOX, "nvidia"], {"modules.conf": ["# nothing yet"]}, "")
    machine.system(
        [("eno1", "0.0.0.0", "192.0.2.1", "0.0.0.0", 0), ("eno1", "192.0.2.0", "0.0.0.0", "255.255.255.0", 0)]
    )
    return machine


def machines() -> list[Machine]:
    return [
        ib_v100("ib-v100-1", 1),
        ib_v100("ib-v100-2", 2),
        ib_v100("ib-v100-unprepared", 3, prepared=False),
        ib_a100("ib-a100-1", 1, cabled=1),
        ib_a100("ib-a100-2", 2, cabled=0),
        ib_a100("ib-a100-3", 3, cabled=1),
        gb200("gb200-1", 1),
        gb200("gb200-2", 2),
        roce_rails("roce-rails-1", 1),
        roce_rails("roce-rails-2", 2),
        no_rdma("no-rdma"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the capture trees beside this script.")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing; 1 if one differs")
    check = parser.parse_args().check
    stale = 0
    for machine in machines():
        path = HERE / f"{machine.name}.capture"
        wanted = machine.tree.listing()
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        if present == wanted:
            continue
        stale += 1
        if check:
            diff = difflib.unified_diff(present.splitlines(), wanted.splitlines(), path.name, "built", n=0, lineterm="")
            print("\n".join(list(diff)[:20]))
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"{path.name}: {wanted.count(chr(10))} lines")
    if check and stale:
        print(f"{stale} capture(s) differ from what build.py writes: run it without --check and read the diff")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

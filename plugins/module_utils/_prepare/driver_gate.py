# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the driver of a node must not be changed now. Private to the collection.

Answers from files alone, through the same seam as discovery, so that a capture can be asked as well. Free space, which needs a
system call, is handed in, and so are the SSH connection and the programs: those of a capture are gone.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules import kernel_release
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import read_devices
from ansible_collections.fabric.rdma.plugins.module_utils._discover.models import model_name
from ansible_collections.fabric.rdma.plugins.module_utils._discover.stack import (
    driver_stack,
    module_paths,
    read_management,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import netdevs_below
from ansible_collections.fabric.rdma.plugins.module_utils._plan.reasons import REASONS, unknown_reasons
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_cards import check_cards
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.networks import (
    address_of_text,
    route_netdev,
    ssh_netdevs,
)

__all__ = ["Asked", "free_space", "gate", "parse_overrides", "verbs_users"]

# Drivers that a vendor stack replaces, as sysfs names them at a netdev (sub-functions: mlx5_core.sf).
_DRIVERS = re.compile(r"mlx[45]_(core|en)\b")

# openibd does not unload the stack under these, and they hold it even when nothing is mounted.
_STORAGE_MODULES = ("ib_iser", "ib_isert", "ib_srp", "ib_srpt", "nvme_rdma", "nvmet_rdma", "rpcrdma", "xprtrdma")
# Nor under these, where they use it: holders of its modules are in sysfs. Parallel file systems and SMB may be built with RDMA or without.
_USERS = ("9pnet_rdma", "beegfs", "cifs", "ko2iblnd", "ksmbd", "rds_rdma", "smbdirect", "smc")

_NETWORK_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "glusterfs",
    "fuse.glusterfs",
    "beegfs",
    "9p",
    "afs",
)

# Main process of what makes a machine a node of a cluster.
_KUBELETS = ("kubelet", "k3s-server", "k3s-agent", "k3s", "rke2", "k0s", "kubelite")

# Public keys that DKMS signs with (dkms 3: /etc/dkms/framework.conf; Ubuntu: update-secureboot-policy).
_SIGNING_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")

# Without these a node does not boot; a new driver has to be in its image for that.
_SYSTEM = re.compile(r"/(boot|etc|lib|lib64|opt|root|sbin|usr|var|var/lib|var/log)?$")

_BLACKLIST = "/etc/modprobe.d/blacklist-ofed-modules.conf"
_CONTAINER = "/run/mellanox/drivers"
# What a build writes: sources, build directory, modules, initramfs. mlnxofedinstall unpacks to /tmp.
_PLACES = ("/usr", "/var", "/lib/modules", "/boot")
_BOOT_MIB = 300


class Asked(t.NamedTuple):
    """What to do, and what files do not tell.

    free_mib: path -> (MiB free, MiB wanted). ssh: the words of SSH_CONNECTION (sshd(8)), or None. holders: programs that hold a
    verbs device open. drained: somebody sees to it that no Pods run.
    """

    method: str = "doca"
    version: str = ""
    activate: str = "none"
    drained: bool = False
    ssh: t.Optional[str] = None
    free_mib: t.Mapping[str, tuple[int, int]] = {}
    holders: t.Sequence[str] = ()


class Reason(t.NamedTuple):
    """One reason: its name, what was found, what to do."""

    name: str
    found: str
    remedy: str


def parse_overrides(names: t.Iterable[str]) -> list[str]:
    """Names of reasons that the operator overrides; WishError when one is not the name of a reason."""
    wanted = list(names)
    unknown = unknown_reasons("ofed_override", wanted, REASONS)
    if unknown:
        raise WishError(unknown)
    return wanted


# --- networks ---------------------------------------------------------------------------------------------------------


def _way_over_driver(tree: Tree, name: str) -> t.Optional[str]:
    """``bond0 -> ens1f0np0 (mlx5_core)`` when a netdev is one of the driver's or stands on one; None otherwise."""
    seen: set[str] = set()
    todo = [(name, name)]
    while todo:
        here, way = todo.pop(0)
        if here in seen:
            continue
        seen.add(here)
        driver = tree.link_name(f"/sys/class/net/{here}/device/driver")
        if driver and _DRIVERS.match(driver):
            return f"{way} ({driver})"
        todo += [(lower, f"{way} -> {lower}") for lower in netdevs_below(tree, here)]
    return None


# --- storage ----------------------------------------------------------------------------------------------------------


def _servers(tree: Tree) -> t.Iterator[tuple[str, str]]:
    """(what, address) of storage over the network: mounts, iSCSI sessions, NVMe over TCP."""
    for line in (tree.text("/proc/self/mounts") or "").splitlines():
        fields = line.split(" ")
        if len(fields) < 4 or fields[2] not in _NETWORK_FILE_SYSTEMS:
            continue
        options = dict(option.partition("=")[::2] for option in fields[3].split(","))
        what = f"{fields[0]} on {fields[1]} ({fields[2]})"
        if options.get("addr"):
            # nfs and cifs
            yield what, options["addr"]
            continue
        # ceph says mon_addr= where its source has a name in it; others have addresses in their source, those of lustre with a network (@tcp0:)
        source = options.get("mon_addr") or re.sub(r"@\w+:?", " ", fields[0])
        for address in re.findall(r"(?:::)?[0-9A-Fa-f][0-9A-Fa-f.:]{6,}", source):
            # a port and the colon before a path may be behind it
            yield what, re.sub(r"^(\d+\.[\d.]+):.*|:+$", r"\1", address)
    for name in tree.names("/sys/class/iscsi_connection"):
        address = tree.text(f"/sys/class/iscsi_connection/{name}/address") or tree.text(
            f"/sys/class/iscsi_connection/{name}/persistent_address"
        )
        if address:
            yield f"iSCSI {name} to {address}", address
    for name in tree.names("/sys/class/nvme"):
        if tree.text(f"/sys/class/nvme/{name}/transport") == "tcp":
            found = re.search(r"traddr=([^,]+)", tree.text(f"/sys/class/nvme/{name}/address") or "")
            if found:
                yield f"NVMe over TCP {name} to {found.group(1)}", found.group(1)


def _mount_text(mount: t.Mapping[str, str]) -> str:
    return f"{mount['source']} on {mount['target']} ({mount['via']})"


def _rdma_storage(tree: Tree, mounts: t.Iterable[t.Mapping[str, str]]) -> list[str]:
    found = [_mount_text(mount) for mount in mounts]
    for name in tree.names("/sys/class/nvme"):
        if tree.text(f"/sys/class/nvme/{name}/transport") == "rdma":
            found.append(f"NVMe controller {name} (nvme-rdma)")
    for name in tree.names("/sys/class/scsi_host"):
        kind = tree.text(f"/sys/class/scsi_host/{name}/proc_name")
        if kind in ("iscsi_iser", "ib_srp"):
            found.append(f"SCSI {name} ({kind})")
    return found


# --- the reasons ------------------------------------------------------------------------------------------------------


def _kubelet(tree: Tree) -> t.Optional[str]:
    for pid in tree.names("/proc"):
        if pid.isdigit():
            name = tree.text(f"/proc/{pid}/comm")
            if name in _KUBELETS:
                return name
    return None


def free_space(tree: Tree, wanted: int, method: str) -> dict[str, tuple[int, int]]:
    """(MiB free, MiB wanted) by place, one place for each file system of a live node: {} for a capture, which does not tell.

    wanted: what a change needs where it builds.
    """
    found: dict[int, tuple[str, int, int]] = {}
    for place in (*_PLACES, "/tmp") if method == "mlnx_iso" else _PLACES:
        space = tree.space(place)
        if space is not None:
            need = min(wanted, _BOOT_MIB) if place == "/boot" else wanted
            # the first place on a file system stands for it
            found.setdefault(space.device, (place, space.free_mib, need))
    return {place: (free, need) for place, free, need in found.values()}


def verbs_users(tree: Tree) -> list[str]:
    """Programs with an open verbs or management device."""
    found = []
    for pid in filter(str.isdigit, tree.names("/proc")):
        handles = [f"/proc/{pid}/fd/{handle}" for handle in tree.names(f"/proc/{pid}/fd")]
        if any(re.match(r"/dev/infiniband/(uverbs|umad|issm)", tree.link_target(handle) or "") for handle in handles):
            # it may have ended meanwhile
            found.append(f"{tree.text(f'/proc/{pid}/comm') or 'a program'} ({pid})")
    return sorted(found)


def _secure_boot(tree: Tree) -> t.Optional[str]:
    """Why a module that is built here will not load; None when it will.

    A variable is 4 bytes of attributes and its value (kernel Documentation/filesystems/efivarfs.rst). The shim hands the keys that
    the owner enrolled to the kernel in MokListRT.
    """
    base = "/sys/firmware/efi/efivars"
    names = tree.names(base)
    state = next((tree.read(f"{base}/{name}") for name in names if name.startswith("SecureBoot-")), None)
    if not state or len(state) < 5 or state[4] != 1:
        return None
    enrolled = next((tree.read(f"{base}/{name}") for name in names if name.startswith("MokListRT-")), None) or b""
    keys = [path for path in _SIGNING_KEYS if tree.exists(path)]
    for path in keys:
        key = tree.read(path)
        if key and key in enrolled:
            return None
    why = f"the key {keys[0]} is not enrolled" if keys else "there is no key to sign modules with"
    return f"Secure Boot is on, and {why}"


def _driver_container(tree: Tree) -> t.Optional[str]:
    if tree.exists(_CONTAINER + "/.driver-ready"):
        return f"{_CONTAINER}/.driver-ready: a driver container runs the driver of this node"
    for line in (tree.text("/proc/self/mounts") or "").splitlines():
        if f" {_CONTAINER} " in line:
            return f"{_CONTAINER} is mounted: a driver container runs the driver of this node"
    if tree.exists(_BLACKLIST):
        return (
            f"{_BLACKLIST} is left from a driver container that was killed; with it, the node boots without its cards"
        )
    return None


def _headers(tree: Tree, release: t.Optional[str]) -> t.Optional[str]:
    base = f"/lib/modules/{release}/build"
    if release and tree.exists(base + "/Makefile"):
        return None
    return f"no headers for the running kernel {release} ({base}/Makefile is not there)"


def _installed_stack(flavour: str, asked: Asked) -> t.Optional[str]:
    """MLNX_OFED has to go before DOCA-Host, which takes it over in place only since 2.6; and never the other way."""
    if flavour == "mlnx_ofed" and asked.method == "doca":
        found = re.match(r"(\d+)\.(\d+)", asked.version)
        if not found or (int(found.group(1)), int(found.group(2))) < (2, 6):
            return "MLNX_OFED is installed, which DOCA before 2.6 does not take over"
    if flavour == "doca" and asked.method == "mlnx_iso":
        return "DOCA-OFED is installed, which MLNX_OFED does not take over"
    return None


def _driverless(tree: Tree, devices: t.Iterable[t.Mapping[str, t.Any]]) -> list[tuple[str, t.Optional[str]]]:
    """Cards without an RDMA device, which facts do not have: (PCI address, model)."""
    # a software device at a card does not belong to the card
    known = {device["pci"] for device in devices if device["kind"] != "software"}
    found = []
    for pci in tree.names("/sys/bus/pci/devices"):
        ids = [(tree.text(f"/sys/bus/pci/devices/{pci}/{key}") or "")[2:] for key in ("vendor", "device")]
        if ids[0] == "15b3" and pci not in known and model_name(*ids):
            found.append((pci, model_name(*ids)))
    return found


def _over_driver(tree: Tree, management: t.Mapping[str, t.Any], asked: Asked) -> t.Iterator[tuple[str, str]]:
    """What a reload of the driver would cut off. An installation cuts nothing, and a reboot ends and begins it all in order."""
    for netdev in management["default_route_netdevs"]:
        way = _way_over_driver(tree, netdev)
        if way:
            yield "default_route", f"the default route goes over {way}"
    for netdev in sorted(ssh_netdevs(tree, asked.ssh)):
        way = _way_over_driver(tree, netdev)
        if way:
            yield "ssh_path", f"this very connection goes over {way}"
    for what, text in _servers(tree):
        address = address_of_text(text)
        route = route_netdev(tree, address) if address else None
        way = _way_over_driver(tree, route) if route else None
        if way:
            yield "storage_mounts", f"{what} goes over {way}"
    for what in _rdma_storage(tree, management["mounts_over_rdma"]):
        yield "rdma_storage", what


def _reload(tree: Tree, asked: Asked) -> t.Iterator[tuple[str, str]]:
    """What openibd stumbles over: it unloads everything, or breaks off half-way."""
    loaded = [name for name in _STORAGE_MODULES if tree.exists("/sys/module/" + name)]
    holders = {name for module in ("ib_core", "rdma_cm") for name in tree.names(f"/sys/module/{module}/holders")}
    loaded += [name for name in _USERS if name in holders]
    if loaded:
        yield "storage_modules", f"{', '.join(loaded)} hold the driver"
    if asked.holders:
        yield "rdma_in_use", f"{', '.join(asked.holders)} use verbs devices"


def _found(tree: Tree, asked: Asked) -> t.Iterator[tuple[str, str]]:
    # what the facts of the node warn of is said where they are gathered
    devices = read_devices(tree, [])
    management = read_management(tree, devices)
    release = kernel_release(tree, [])
    flavour, _version, _place = driver_stack(tree, module_paths(tree, release, ["mlx5_core"]).get("mlx5_core"))
    cards = check_cards(_driverless(tree, devices), asked.method, asked.version)
    for text in cards.refusals:
        yield "unsupported_card", text
    for name, single in (
        ("installed_stack", _installed_stack(flavour, asked)),
        ("driver_container", _driver_container(tree)),
    ):
        if single:
            yield name, single
    if asked.activate == "reload":
        yield from _over_driver(tree, management, asked)
        yield from _reload(tree, asked)
    else:
        system = [mount for mount in management["mounts_over_rdma"] if _SYSTEM.match(mount["target"])]
        for mount in system:
            yield "rdma_storage", _mount_text(mount)
    kubelet = None if asked.drained else _kubelet(tree)
    if kubelet:
        yield "not_drained", f"{kubelet} runs: the node is in a cluster and has not been drained"
    for path, (free, wanted) in sorted(asked.free_mib.items()):
        if free < wanted:
            yield "disk_space", f"{free} MiB are free under {path}, {wanted} are wanted"
    for name, single in (
        ("kernel_headers", _headers(tree, release)),
        ("secure_boot", _secure_boot(tree)),
    ):
        if single:
            yield name, single


def gate(tree: Tree, asked: Asked) -> list[Reason]:
    """Every reason against a change of the driver of the node that a tree shows, in the order of REASONS."""
    # two mounts of one server, or one that two lists have, are told once
    unique = dict.fromkeys(_found(tree, asked))
    order = list(REASONS)
    return [Reason(name, found, REASONS[name]) for name, found in sorted(unique, key=lambda pair: order.index(pair[0]))]

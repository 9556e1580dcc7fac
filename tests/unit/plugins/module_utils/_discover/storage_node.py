# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with all that storage needs, to be broken by tests."""

from __future__ import annotations

from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage
from ansible_collections.fabric.rdma.tests.unit.machines import Machine

RELEASE = "6.1.0-41-amd64"


NAME = "iqn.1993-08.org.debian:01:a1b2c3d4e5f6"


PROGRAMS = [
    "awk",
    "bash",
    "blkid",
    "cryptsetup",
    "curl",
    "dmsetup",
    "findmnt",
    "grep",
    "iscsiadm",
    "iscsid",
    "lsblk",
    "mount.nfs4",
]


MODULE = {"loaded": True, "builtin": False, "available": True, "persisted": True}


SOCKETS = "Num       RefCount Protocol Flags    Type St Inode Path\n"


LISTENS = "0000000000000000: 00000002 00000000 00010000 0001 01 10 @ISCSIADM_ABSTRACT_NAMESPACE\n"


BLACKLIST = 'blacklist {\n    device {\n        vendor "IET"\n        product "VIRTUAL-DISK"\n    }\n}\n'


def mountinfo(path: str, kind: str, optional: str = "shared:1", source: str = "/dev/vda") -> str:
    return f"22 1 254:0 / {path} rw,relatime {optional}{' ' if optional else ''}- {kind} {source} rw,secret\n"


def node() -> Machine:
    """A Debian node on which everything is in order."""
    machine = Machine()
    machine.file("/proc/sys/kernel/osrelease", RELEASE + "\n")
    machine.file("/etc/os-release", 'PRETTY_NAME="Debian"\nID=debian\n')
    for program in PROGRAMS:
        machine.file(f"/usr/bin/{program}")
    for unit in ("iscsid.service", "iscsid.socket"):
        machine.file(f"/lib/systemd/system/{unit}")
    machine.link("/etc/systemd/system/sockets.target.wants/iscsid.socket", "/lib/systemd/system/iscsid.socket")
    machine.file("/proc/net/unix", SOCKETS + LISTENS)
    machine.file("/etc/iscsi/initiatorname.iscsi", f"InitiatorName={NAME}\n")
    machine.file(f"/boot/config-{RELEASE}", "CONFIG_NFS_V4=m\nCONFIG_NFS_V4_1=y\nCONFIG_NFS_V4_2=y\nCONFIG_X=y\n")
    machine.file("/proc/self/mountinfo", mountinfo("/", "ext4"))
    machine.directory("/var/lib")
    return machine


def storage_of(machine: Machine, warnings: list[str] | None = None) -> dict[str, Any]:
    return read_storage(machine.tree(), [] if warnings is None else warnings)


def facts_of(machine: Machine, **modules: dict[str, bool]) -> dict[str, Any]:
    states = {name: {**MODULE, **modules.get(name, {})} for name in ("dm_crypt", "iscsi_tcp", "nfs")}
    return {"kernel": {"release": RELEASE, "modules": states}, "storage": storage_of(machine)}


def with_map(machine: Machine, name: str, *disks: tuple[str, str, str]) -> None:
    machine.files(f"/sys/block/dm-{name[-1]}/dm", uuid="mpath-36000", name=name)
    for disk, vendor, model in disks:
        machine.files(f"/sys/block/{disk}/device", vendor=f"{vendor:8}", model=f"{model:16}")
        machine.link(f"/sys/block/dm-{name[-1]}/slaves/{disk}", f"/sys/block/{disk}")

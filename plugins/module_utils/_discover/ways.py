# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is above what: bonds, VLANs and bridges above network devices, mounts above disks. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import Facts
from ansible_collections.fabric.rdma.plugins.module_utils._discover.routes import routes_of

__all__ = ["default_route_netdevs", "mounts_over_rdma", "netdevs_below", "stack_of"]


def default_route_netdevs(tree: Tree) -> list[str]:
    """Netdevs of routes to everywhere, of IPv4 and IPv6, in the main table where the node tells which table a route is in."""
    everywhere = [(network.version, netdev) for network, _metric, netdev in routes_of(tree) if network.prefixlen == 0]
    told = tree.answer("default6", "")
    six = told.split("\n") if told is not None else [netdev for version, netdev in everywhere if version == 6]
    return sorted({*six, *(netdev for version, netdev in everywhere if version == 4)} - {""})


def netdevs_below(tree: Tree, name: str) -> list[str]:
    """Netdevs directly below another: members of bonds, teams and bridges, parents of VLANs; of Open vSwitch, all of its members."""
    base = "/sys/class/net/" + name
    names = [entry[len("lower_") :] for entry in tree.names(base) if entry.startswith("lower_")]
    names += (tree.text(base + "/bonding/slaves") or "").split()
    if not names and not tree.exists(base + "/device") and tree.exists("/sys/class/net/ovs-system"):
        # an internal port of Open vSwitch has no link to the ports of its bridge; these have ovs-system as their master
        for other in tree.names("/sys/class/net"):
            if tree.link_name(f"/sys/class/net/{other}/master") == "ovs-system":
                names.append(other)
    return names


def stack_of(tree: Tree, name: str) -> set[str]:
    """A netdev and everything below it."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += netdevs_below(tree, name)
    return seen


# What SCSI hosts over RDMA call themselves (drivers/infiniband/ulp, scsi_host_template.proc_name).
_SCSI_OVER_RDMA = {"iscsi_iser": "iser", "ib_srp": "srp"}


def _block_name(tree: Tree, source: str) -> t.Optional[str]:
    """The kernel's name of the block device behind /dev/..., such as dm-0 for /dev/mapper/vg-lv and /dev/vg/lv."""
    if not source.startswith("/dev/"):
        return None
    name = source.rpartition("/")[2]
    if tree.exists("/sys/class/block/" + name):
        return name
    link = tree.link_name(source)
    if link is not None and tree.exists("/sys/class/block/" + link):
        return link
    # a dash in the name of a group or volume is doubled in the mapper's (lvm2, libdm)
    mapped = {name, "-".join(part.replace("-", "--") for part in source[len("/dev/") :].split("/"))}
    for other in tree.names("/sys/class/block"):
        if tree.text(f"/sys/class/block/{other}/dm/name") in mapped:
            return other
    return None


def _disk_over_rdma(tree: Tree, name: str) -> t.Optional[str]:
    """How one block device, itself and not what is below it, comes over RDMA; None when it does not."""
    nvme = re.match(r"(nvme(\d+))n\d+", name)
    if nvme:
        # with native multipath the first number is the subsystem's, whose controllers have numbers of their own
        paths = tree.names("/sys/class/nvme-subsystem/nvme-subsys" + nvme.group(2))
        for controller in [entry for entry in paths if re.fullmatch(r"nvme\d+", entry)] or [nvme.group(1)]:
            if tree.text(f"/sys/class/nvme/{controller}/transport") == "rdma":
                return "nvme-rdma"
    # host:channel:target:lun
    host = (tree.link_name(f"/sys/class/block/{name}/device") or "").split(":")
    if len(host) == 4:
        return _SCSI_OVER_RDMA.get(tree.text(f"/sys/class/scsi_host/host{host[0]}/proc_name") or "")
    return None


def _block_over_rdma(tree: Tree, name: str) -> t.Optional[str]:
    """The same of a device and of all that it is made of: a disk behind a partition, members of LVM, multipath and md."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        via = _disk_over_rdma(tree, here)
        if via:
            return via
        base = "/sys/class/block/" + here
        todo += tree.names(base + "/slaves")
        if tree.exists(base + "/partition"):
            # a partition is a directory in that of its disk
            todo.append((tree.real(base) or "").rpartition("/")[0].rpartition("/")[2])
    return None


def mounts_over_rdma(tree: Tree) -> list[Facts]:
    """Mounts that go when the RDMA driver goes: NFS and Lustre over RDMA, file systems on NVMe, iSER and SRP, also below LVM and md."""
    found = []
    # most nodes have no such disk, and then nobody has to know what their volumes are called
    disks = any(tree.text(f"/sys/class/nvme/{name}/transport") == "rdma" for name in tree.names("/sys/class/nvme"))
    disks = disks or any(
        tree.text(f"/sys/class/scsi_host/{name}/proc_name") in _SCSI_OVER_RDMA
        for name in tree.names("/sys/class/scsi_host")
    )
    for line in (tree.text("/proc/self/mounts") or "").splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        source, target, kind, options = fields[:4]
        via = None
        # rdma6 is RDMA to an IPv6 address (include/linux/sunrpc/msg_prot.h, RPCBIND_NETID_RDMA6)
        if kind in ("nfs", "nfs4") and {"proto=rdma", "proto=rdma6"} & set(options.split(",")):
            via = "nfs-rdma"
        elif kind == "lustre" and "@o2ib" in source:
            via = "lustre-o2ib"
        elif disks:
            name = _block_name(tree, source)
            # an NVMe disk tells by its name alone
            via = _block_over_rdma(tree, name) if name else _disk_over_rdma(tree, source.rpartition("/")[2])
        if via:
            found.append({"target": target, "source": source, "via": via})
    return sorted(found, key=lambda mount: (mount["target"], mount["source"]))

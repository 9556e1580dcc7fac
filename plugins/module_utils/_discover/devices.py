# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices, their ports, netdevs and what the shared device plugin sees of them. Private to the collection.

All of it is read from sysfs through a L(Tree); the files are those of Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.models import (
    PHYS_STATES,
    PORT_STATES,
    is_virtual_function_id,
    model_name,
    parse_rate,
    parse_state,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.patterns import PORT, REPRESENTOR
from ansible_collections.fabric.rdma.plugins.module_utils._discover.pcie import PCI_FUNCTION, read_pcie

__all__ = [
    "MAPPED_IPV4",
    "Facts",
    "bridges_above",
    "function_of",
    "hex_id",
    "number",
    "read_bare_functions",
    "read_devices",
]

Facts = t.Dict[str, t.Any]

_NUMBERS = {10: re.compile(r"-?[0-9]{1,18}"), 16: re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")}
_LINK_LAYERS = ("InfiniBand", "Ethernet", "Unknown")
_SUB_FUNCTION = re.compile(r"mlx5_core\.sf\.\d+")
_SMI = re.compile(r"smi\d+")
# drivers/pci/pci-sysfs.c, modalias_show(). Old kernels have the last byte in lower case.
_MODALIAS = re.compile(
    r"pci:v[0-9A-F]{8}d[0-9A-F]{8}sv[0-9A-F]{8}sd[0-9A-F]{8}bc[0-9A-F]{2}sc[0-9A-F]{2}i[0-9A-Fa-f]{2}"
)
# What the driver of an HCA has device IDs for, and no other driver: Mellanox' network controllers (class 02). A Mellanox function
# of another class is a bridge, a DMA engine or a management function of a BlueField.
_MELLANOX, _NETWORK = "15b3", 0x02
_MLX5 = "mlx5_core"
# InfiniBand controllers and those of other fabrics, of whatever vendor (include/linux/pci_ids.h, PCI_CLASS_SERIAL_INFINIBAND; pci.ids).
_HCA_CLASSES = (0x0207, 0x0208, 0x0C06)
# drivers/net/ethernet/mellanox/mlx4/main.c, drivers/infiniband/hw/efa/efa_main.c
_HCA_DRIVERS = {
    **{(_MELLANOX, device): "mlx4_core" for device in ("1003", "1004", "1007")},
    **{("1d0f", device): "efa" for device in ("efa0", "efa1", "efa2", "efa3")},
}

# include/uapi/linux/if_arp.h; the words are netlink's, which the device plugin compares (Attrs().EncapType).
_NETDEV_TYPES = {1: "ether", 32: "infiniband", 772: "loopback", 65534: "none"}

# A RoCE table has up to 256 slots, and a read costs about 10 microseconds: the populated ones are at its start.
_GID_SLOTS = 16
_EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_GID = re.compile(r"(?:[0-9a-f]{4}:){7}[0-9a-f]{4}")
MAPPED_IPV4 = "0000:0000:0000:0000:0000:ffff:"

# What k8s-rdma-shared-dev-plugin wants of a function (pkg/resources/rdma_device_spec.go, requiredRdmaDevices), with the
# module that makes it, and the directory that tells of it.
_CHAR_DEVICES = (
    ("uverbs", "ib_uverbs", "/sys/class/infiniband_verbs"),
    ("umad", "ib_umad", "/sys/class/infiniband_mad"),
    ("rdma_cm", "rdma_ucm", "/sys/class/misc"),
)


def number(tree: Tree, path: str, base: int = 10) -> t.Optional[int]:
    """An integer file, None when it is missing or says something else."""
    text = tree.text(path) or ""
    return int(text, base) if _NUMBERS[base].fullmatch(text) else None


def hex_id(tree: Tree, path: str) -> t.Optional[str]:
    """A PCI id file (``0x15b3``) as the selectors want it (``15b3``)."""
    value = number(tree, path, 16)
    return None if value is None or value > 0xFFFF else f"{value:04x}"


def function_of(real: t.Optional[str]) -> t.Optional[str]:
    """The canonical directory of the PCI function that a path lies in, None when it lies in none."""
    parts = (real or "").split("/")
    for index in range(len(parts) - 1, 0, -1):
        if PCI_FUNCTION.fullmatch(parts[index]):
            return "/".join(parts[: index + 1])
    return None


def bridges_above(function: t.Optional[str]) -> list[str]:
    """PCI addresses of the bridges that a function's canonical directory lies in, from the root port down.

    Two functions with one of them in common are under the same PCIe switch, or behind the same port of the host.
    """
    # not the directories above the host bridge, of which virtual machines and Arm boards have several
    return [part for part in (function or "").split("/")[:-1] if PCI_FUNCTION.fullmatch(part)]


def _char_devices(tree: Tree) -> dict[str, set[str]]:
    """RDMA device names by the sort of character device that they have (rdmamap: GetRdmaCharDevices)."""
    found: dict[str, set[str]] = {"uverbs": set(), "umad": set()}
    for directory, prefix in (("/sys/class/infiniband_verbs", "uverbs"), ("/sys/class/infiniband_mad", "umad")):
        for name in tree.names(directory):
            if name.startswith(prefix):
                found[prefix].add(tree.text(f"{directory}/{name}/ibdev") or "")
    return found


class _Node:
    """What one pass over a tree shares between devices."""

    def __init__(self, tree: Tree, warnings: list[str]) -> None:
        self.tree = tree
        self.warnings = warnings
        self.char_devices = _char_devices(tree)
        self.rdma_cm = tree.exists("/sys/class/misc/rdma_cm")
        # of this network namespace; empty where nothing of netdevs was recorded
        self.own_netdevs = frozenset(tree.names("/sys/class/net"))
        self._netdevs: dict[str, Facts] = {}

    def netdev(self, name: str) -> Facts:
        """A netdev as the facts have it. Everything is None for one that is only known by name."""
        if name not in self._netdevs:
            base = "/sys/class/net/" + name
            kind = number(self.tree, base + "/type")
            parent = self.tree.text(base + "/parent") if kind == 32 else None
            self._netdevs[name] = {
                "name": name,
                "type": None if kind is None else _NETDEV_TYPES.get(kind, f"type {kind}"),
                "operstate": self.tree.text(base + "/operstate"),
                "mtu": number(self.tree, base + "/mtu"),
                "master": self.tree.link_name(base + "/master"),
                "parent": parent or None,
                "pkey": self.tree.text(base + "/pkey") if parent else None,
            }
        return dict(self._netdevs[name])

    def members(self, bond: str) -> dict[str, t.Optional[str]]:
        """Netdevs of a bond with the directories of their PCI functions."""
        slaves = (self.tree.text(f"/sys/class/net/{bond}/bonding/slaves") or "").split()
        return {slave: function_of(self.tree.real(f"/sys/class/net/{slave}/device")) for slave in slaves}

    def function_netdevs(self, function: str) -> list[str]:
        """Netdevs of a PCI function in byte order, as the plugin lists them (pkg/utils, GetNetNames)."""
        return self.tree.names(function + "/net")


def _lag(node: _Node, device: str, function: str, names: list[str]) -> t.Optional[Facts]:
    """The bond that an RDMA device stands for, None when it stands for its own port only.

    The driver merges the devices of one card's two functions when both netdevs are in one bond; the second function then
    has no RDMA device (drivers/net/ethernet/mellanox/mlx5/core/lag). Two enslaved netdevs that keep their own RDMA devices
    are a bond, but no LAG. The name mlx5_bond_0 proves nothing (rename rules), nor does the GID table's netdev, which is the
    bond in both cases. Representors do not count: their masters are bridges.
    """
    bonds = {node.netdev(name)["master"] for name in names} - {None}
    for bond in sorted(bonds):
        members = node.members(bond)
        merged = any(
            other is not None
            and other != function
            and other.rpartition(".")[0] == function.rpartition(".")[0]
            and not node.tree.names(f"{other}/infiniband")
            for other in members.values()
        )
        if merged or (not members and "bond" in device):
            return _bond(node, bond, members)
    return None


def _software_lag(node: _Node, function: str, parent: str) -> tuple[t.Optional[Facts], list[str]]:
    """(the bond that a software device is on, those of its members that are netdevs of the function that the device is at).

    Its netdev is the one that its attribute parent names (rxe_parent_name()), whatever function it is at.
    """
    names = [name for name in node.function_netdevs(function) if node.netdev(name)["master"] == parent]
    members = node.members(parent) if names else {}
    return (_bond(node, parent, members), names) if members else (None, [parent])


def _bond(node: _Node, bond: str, members: t.Mapping[str, t.Optional[str]]) -> Facts:
    """A bond as the facts have it; members: directories of their functions by netdev."""
    mode = (node.tree.text(f"/sys/class/net/{bond}/bonding/mode") or "").split(" ")[0]
    return {
        "netdev": bond,
        "mode": mode or None,
        "members": [
            {"netdev": netdev, "pci": (members[netdev] or "").rpartition("/")[2] or None}
            for netdev in sorted(members, key=natural_key)
        ],
    }


def _gids(node: _Node, port: str, link_layer: t.Optional[str]) -> list[Facts]:
    """Populated slots of a port's GID table. An empty slot's attributes cannot be read (EINVAL, core/sysfs.c), its GID is zero.

    The kernel has GIDs of what is above the port's netdev in other network namespaces, too, such as a Pod's macvlan (roce_gid_mgmt.c).
    Nobody on the host can use those.
    """
    found = []
    for index in range(_GID_SLOTS if link_layer == "Ethernet" else 1):
        gid = node.tree.text(f"{port}/gids/{index}")
        if gid is None:
            break
        if gid == _EMPTY_GID or not _GID.fullmatch(gid):
            continue
        netdev = node.tree.text(f"{port}/gid_attrs/ndevs/{index}") or None
        if netdev and node.own_netdevs and netdev not in node.own_netdevs:
            continue
        ipv4 = None
        if gid.startswith(MAPPED_IPV4):
            octets = bytes.fromhex(gid[len(MAPPED_IPV4) :].replace(":", ""))
            ipv4 = ".".join(str(octet) for octet in octets)
        found.append(
            {
                "index": index,
                "gid": gid,
                "type": node.tree.text(f"{port}/gid_attrs/types/{index}"),
                "netdev": netdev,
                "ipv4": ipv4,
            }
        )
    return found


def _port_netdevs(
    node: _Node,
    port: int,
    ports: int,
    gids: list[Facts],
    link_layer: t.Optional[str],
    names: list[str],
) -> list[str]:
    """Netdevs of one port: the ladder of ibdev2netdev (mlnx-tools), with the multi-port case first decided by dev_port.

    InfiniBand: the last 8 bytes of GID 0 are those of the IPoIB address. RoCE: the GID table names the netdev. Else dev_port
    (mlx4: 0 is port 1; dev_id on kernels that lack it), else, with one port, whatever the function has.
    """
    if link_layer == "Ethernet":
        named = {gid["netdev"] for gid in gids if gid["netdev"]} & set(names)
        if named:
            return [name for name in names if name in named]
    elif gids:
        suffix = gids[0]["gid"][20:].replace(":", "")
        matching = []
        for name in names:
            address = (node.tree.text(f"/sys/class/net/{name}/address") or "").replace(":", "")
            if len(address) == 40 and address.endswith(suffix):
                matching.append(name)
        if matching:
            return matching
    if ports == 1:
        return names
    here = []
    for name in names:
        index = number(node.tree, f"/sys/class/net/{name}/dev_port")
        if not index:
            old = number(node.tree, f"/sys/class/net/{name}/dev_id", 16)
            index = index if old is None else old
        if index == port - 1:
            here.append(name)
    return here


def _ports(node: _Node, device: str, base: str, names: list[str], lag: t.Optional[Facts]) -> list[Facts]:
    numbers = sorted(int(name) for name in node.tree.names(base + "/ports") if PORT.fullmatch(name))
    ports = []
    for port in numbers:
        here = f"{base}/ports/{port}"
        text = {key: node.tree.text(f"{here}/{key}") for key in ("link_layer", "state", "phys_state", "rate")}
        rate = parse_rate(text["rate"]) if text["rate"] else None
        if text["rate"] and rate is None:
            node.warnings.append(f"{device} port {port}: the rate '{text['rate']!s:.40}' makes no sense")
        link_layer = text["link_layer"] or None
        if link_layer and link_layer not in _LINK_LAYERS:
            node.warnings.append(f"{device} port {port}: the link layer '{link_layer!s:.40}' makes no sense")
            link_layer = None
        gids = _gids(node, here, link_layer)
        netdevs = [lag["netdev"]] if lag else _port_netdevs(node, port, len(numbers), gids, link_layer, names)
        ports.append(
            {
                "number": port,
                "link_layer": link_layer,
                "state": parse_state(text["state"] or "", PORT_STATES),
                "phys_state": parse_state(text["phys_state"] or "", PHYS_STATES),
                "rate_gbps": rate.gbps if rate else None,
                "width": rate.width if rate else None,
                "speed": rate.speed if rate else None,
                "lid": number(node.tree, here + "/lid", 16),
                "sm_lid": number(node.tree, here + "/sm_lid", 16),
                "gids": gids,
                "netdevs": [node.netdev(name) for name in netdevs],
            }
        )
    return ports


def _lacking(node: _Node, names: set[str]) -> t.Optional[str]:
    """What character device none of these RDMA devices has. A capture of a part of /sys does not tell that one is missing."""
    rows = [
        row for row in _CHAR_DEVICES if not (node.rdma_cm if row[0] == "rdma_cm" else names & node.char_devices[row[0]])
    ]
    if not rows:
        return None
    if [row[0] for row in rows] == ["umad"] and node.char_devices["umad"]:
        # nodes come for ports with management datagrams only (ib_umad_add_one(), core/user_mad.c)
        return "umad device missing for good: its ports take no management datagrams (iWARP, EFA, or RoCE off: switchdev, enable_roce)"
    whole = node.tree.exists("/sys/module")
    missing = [row for row in rows if whole or node.tree.exists(row[2])]
    sorts = [row[0] for row in missing or rows]
    words = " and ".join([", ".join(sorts[:-1]), sorts[-1]] if len(sorts) > 1 else sorts)
    words += " devices" if len(sorts) > 1 else " device"
    if not missing:
        return f"{words} not recorded: neither /sys/module nor {', '.join(row[2] for row in rows)} is there"
    return f"{words} missing: load {', '.join(row[1] for row in missing)}"


def _plugin_view(node: _Node, device: Facts, function: t.Optional[str], plain: bool) -> Facts:
    """What k8s-rdma-shared-dev-plugin makes of the function that a device belongs to; plain: it is in the function's infiniband/.

    It starts from PCI functions of class 02 (resources_manager.go), takes the function's driver, the first netdev below it and
    that one's netlink type (pci_net_device.go), and drops a function unless uverbs, umad and rdma_cm nodes exist for its RDMA
    devices, which are what its directory infiniband has (rdmamap, GetRdmaDevicesForPcidev). What driver an RDMA device is of
    does not matter to it: a software one that the kernel shows there counts. A bond master is never below a function. Port
    states do not matter to it.
    """
    names = node.function_netdevs(function) if function and plain else []
    first = names[0] if names else ""
    link_type = node.netdev(first)["type"] or "" if first else ""
    driver = node.tree.link_name(function + "/driver") if function and plain else None
    reason = None
    if device["kind"] == "software" and not function:
        reason = "software device: it has no PCI function, and the plugin lists PCI functions only"
    elif device["kind"] == "software" and not plain:
        reason = "software device: it is at no PCI function itself, and the plugin lists PCI functions only"
    elif not function:
        reason = "its PCI function is not visible here, and the plugin lists PCI functions only"
    elif not plain:
        reason = "sub-function: the plugin lists PCI functions only"
    elif device["class"] is not None and not device["class"].startswith("02"):
        reason = f"PCI class {device['class']}: the plugin lists network controllers (02) only"
    elif not driver:
        reason = "no driver bound to the PCI function"
    else:
        reason = _lacking(node, set(node.tree.names(function + "/infiniband")) | {device["name"]})
    return {"visible": reason is None, "reason": reason, "driver": driver, "if_name": first, "link_type": link_type}


def _software_driver(tree: Tree, real: str, parent: t.Optional[str]) -> t.Optional[str]:
    """The driver of a software device: only rdma_rxe has the attribute parent (drivers/infiniband/sw/rxe/rxe_verbs.c)."""
    if (tree.text(real + "/node_desc") or "").startswith("Software iWARP"):
        return "siw"
    return "rdma_rxe" if parent else None


def _own_netdevs(tree: Tree, home: t.Optional[str]) -> list[str]:
    """The netdevs of a device, without those that represent virtual functions of it."""
    return [
        netdev
        for netdev in (tree.names(home + "/net") if home else ())
        if not REPRESENTOR.fullmatch(tree.text(f"/sys/class/net/{netdev}/phys_port_name") or "")
    ]


def _model(
    tree: Tree, function: t.Optional[str], kind: str, vendor: t.Optional[str], device: t.Optional[str]
) -> t.Optional[str]:
    """The model by its PCI ids. A virtual function whose ID many models share is told by the physical one.

    A software device is not a card, whatever card it is at.
    """
    if kind == "software":
        return None
    model = model_name(vendor, device) if vendor and device else None
    pf = function_of(tree.real(function + "/physfn")) if function else None
    if kind == "vf" and device == "101e" and pf:
        above = model_name(hex_id(tree, pf + "/vendor") or "", hex_id(tree, pf + "/device") or "")
        return above + " Virtual Function" if above else model
    return model


def _kind(name: str, sub_function: bool, virtual: bool) -> str:
    """The kind of a device that is not software."""
    if _SMI.fullmatch(name):
        return "smi"
    if sub_function:
        return "sf"
    return "vf" if virtual else "pf"


def _place(tree: Tree, function: t.Optional[str]) -> Facts:
    """What a function says of itself and of where it is."""
    pci_class = (number(tree, function + "/class", 16) or 0) if function else 0
    numa = number(tree, function + "/numa_node") if function else None
    return {
        "class": f"{pci_class:06x}" if 0 < pci_class <= 0xFFFFFF else None,
        "driver": tree.link_name(function + "/driver") if function else None,
        "numa_node": None if numa is None or numa < 0 else numa,
    }


def _virtual_functions(tree: Tree, function: t.Optional[str]) -> Facts:
    """How many virtual functions a function can have, and has."""
    return {
        key: max((number(tree, f"{function}/{name}") if function else None) or 0, 0)
        for key, name in (("total", "sriov_totalvfs"), ("vfs", "sriov_numvfs"))
    }


def _read_device(node: _Node, name: str) -> t.Optional[Facts]:
    tree = node.tree
    real = tree.real("/sys/class/infiniband/" + name)
    if real is None:
        node.warnings.append(
            f"/sys/class/infiniband/{name} leads nowhere: the device is gone or its driver is not loaded"
        )
        return None
    parent = tree.text(real + "/parent")
    software = _software_driver(tree, real, parent)
    is_software = bool(software) or "/devices/virtual/" in real
    lower = tree.real(real + "/device") or real
    if is_software:
        # Where the kernel shows it counts: siw and old rdma_rxe are at their network card, others can be moved there
        # (device_move()). A link of a virtual one to its card says nothing.
        lower = real.rpartition("/infiniband/")[0]
    function = function_of(lower)
    vendor = hex_id(tree, function + "/vendor") if function else None
    device = hex_id(tree, function + "/device") if function else None
    pf_name = tree.link_name(function + "/physfn") if function else None
    sub_function = bool(_SUB_FUNCTION.search(lower))
    virtual = bool(pf_name or (vendor and device and is_virtual_function_id(vendor, device)))
    kind = "software" if is_software else _kind(name, sub_function, virtual)
    # a sub-function's netdev lies under its auxiliary device, not under the function
    names = (
        [parent] if parent else _own_netdevs(tree, lower if sub_function or (is_software and function) else function)
    )
    lag = None
    if function and kind == "pf":
        lag = _lag(node, name, function, names)
    elif function and parent:
        lag, names = _software_lag(node, function, parent)
    facts: Facts = {
        "name": name,
        "kind": kind,
        "pci": function.rpartition("/")[2] if function else None,
        "bridges": bridges_above(function),
        "pcie": None if is_software else read_pcie(tree, function),
        "vendor": vendor,
        "device": device,
        "model": _model(tree, function, kind, vendor, device),
        **_place(tree, function),
        "firmware": tree.text(real + "/fw_ver") or None,
        "board_id": tree.text(real + "/board_id") or None,
        "hca_type": tree.text(real + "/hca_type") or None,
        "node_guid": tree.text(real + "/node_guid") or None,
        "sys_image_guid": tree.text(real + "/sys_image_guid") or None,
        "netdevs": names,
        "lag": lag,
        # what the function of a sub-function has is its parent's
        "sriov": {**_virtual_functions(tree, None if sub_function else function), "pf": pf_name},
        "ports": _ports(node, name, real, names, lag),
    }
    facts["plugin"] = _plugin_view(node, facts, function, lower == function if is_software else not sub_function)
    if is_software:
        facts["driver"] = software
    return facts


def _check_modaliases(tree: Tree, warnings: list[str]) -> None:
    """Names PCI devices of which the modalias makes no sense, whatever they are.

    The plugin lists PCI devices through ghw, which takes vendor, device and class from there, by position
    (pkg/pci/pci_linux.go), and does not get over one that it cannot take apart. A missing file is not told: captures of
    earlier versions have none.
    """
    for pci in tree.names("/sys/bus/pci/devices"):
        text = tree.text(f"/sys/bus/pci/devices/{pci}/modalias")
        if text is not None and not _MODALIAS.match(text):
            warnings.append(
                f"PCI device {pci}: the modalias '{text!s:.60}' makes no sense; the shared device plugin may see no "
                "device of this host"
            )


def _is_hca(vendor: t.Optional[str], device: str, pci_class: int) -> bool:
    """Whether a function of a PCI class (its upper two bytes) can be nothing else than an HCA: other network cards may do RDMA or not."""
    if pci_class in _HCA_CLASSES:
        return True
    return pci_class >> 8 == _NETWORK and (vendor == _MELLANOX or (vendor or "", device) in _HCA_DRIVERS)


def _check_drivers(tree: Tree, warnings: list[str]) -> None:
    """Names the HCAs on PCI that have no driver: there is no RDMA device of them, so nothing else tells of them."""
    for pci in tree.names("/sys/bus/pci/devices"):
        base = "/sys/bus/pci/devices/" + pci
        pci_class = (number(tree, base + "/class", 16) or 0) >> 8
        # a node has hundreds of functions, of which few are looked at more closely
        if pci_class not in _HCA_CLASSES and pci_class >> 8 != _NETWORK:
            continue
        # a virtual function without one waits for whom it is given to
        if any(tree.link_name(f"{base}/{name}") is not None for name in ("driver", "physfn")):
            continue
        vendor, device = hex_id(tree, base + "/vendor"), hex_id(tree, base + "/device") or ""
        if not _is_hca(vendor, device, pci_class):
            continue
        driver = _HCA_DRIVERS.get((vendor or "", device), _MLX5 if vendor == _MELLANOX else None)
        warnings.append(
            "PCI device {} ({}) is a network controller without a driver, so it has no RDMA device: load {}, "
            "or see dmesg for why it did not take it".format(
                pci,
                model_name(vendor or "", device) or f"{vendor}:{device}",
                f"the driver ({driver})" if driver else "its driver",
            )
        )


def read_devices(tree: Tree, warnings: list[str]) -> list[Facts]:
    """Every entry of /sys/class/infiniband that exists, naturally sorted, as docs/facts.schema.json has it.

    Appends to warnings what cannot be resolved or makes no sense. A node without RDMA gives an empty list.
    """
    _check_modaliases(tree, warnings)
    _check_drivers(tree, warnings)
    node = _Node(tree, warnings)
    names = sorted(tree.names("/sys/class/infiniband"), key=natural_key)
    return [device for device in (_read_device(node, name) for name in names) if device is not None]


def read_bare_functions(tree: Tree, devices: t.Iterable[Facts]) -> list[Facts]:
    """The network functions that mlx5_core drives and that have no RDMA device: [{pci, vendor, device, driver, netdevs, link_type, sriov}].

    Its devlink parameter enable_rdma may have one count as RDMA all the same (drivers/net/ethernet/mellanox/mlx5/core/devlink.c; no
    other driver has it), and its virtual functions have its name. netdevs, link_type and sriov are as those of devices.
    """
    node = _Node(tree, [])
    # a sub-function's device is not one of the function that it names
    known = {device["pci"] for device in devices if device["kind"] != "sf"}
    found = []
    for pci in tree.names("/sys/bus/pci/devices"):
        base = "/sys/bus/pci/devices/" + pci
        # as in _check_drivers()
        if pci in known or hex_id(tree, base + "/vendor") != _MELLANOX or tree.link_name(base + "/driver") != _MLX5:
            continue
        function = function_of(tree.real(base))
        if (
            function is None
            or not PCI_FUNCTION.fullmatch(pci)
            or (number(tree, function + "/class", 16) or 0) >> 16 != _NETWORK
        ):
            continue
        names = node.function_netdevs(function)
        found.append(
            {
                "pci": pci,
                "vendor": _MELLANOX,
                "device": hex_id(tree, function + "/device"),
                "driver": _MLX5,
                "netdevs": _own_netdevs(tree, function),
                "link_type": node.netdev(names[0])["type"] or "" if names else "",
                "sriov": {**_virtual_functions(tree, function), "pf": tree.link_name(function + "/physfn")},
            }
        )
    return found

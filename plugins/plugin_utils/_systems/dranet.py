# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DRANET publishes of a node, out of the facts of the node. Private. Pure.

Follows DRANET 1.4: pkg/inventory/db.go (discoverPCIDevices, discoverStandaloneRDMADevices, addLinkAttributes, addRDMAAttributes),
pkg/inventory/net.go (which uplinks it leaves out), pkg/names (names of devices) and the PCI database that it carries
(third_party/pciids), deviceattribute.GetPCIeRootAttributeByPCIBusID() of k8s.io/dynamic-resource-allocation, and pkg/pci of
github.com/jaypipes/ghw (a machine with one NUMA node has none to tell).

Facts tell of RDMA devices only. All else that DRANET publishes has dra.net/rdma: false, or no dra.net/pciAddress, and every selector
of ours asks for both.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import NETDEV_TYPES
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRANET_DRIVER

__all__ = [
    "DATA_DIRECT",
    "DOMAIN",
    "DRIVER",
    "NO_LINK",
    "PCIE_ROOT",
    "Attributes",
    "Published",
    "device_name",
    "pcie_root",
    "published",
    "too_long",
    "uplinks",
]

Json = t.Mapping[str, t.Any]
# {dra.net/ifName: eth0, ...}; the type of a value is that of the attribute
Attributes = dict[str, t.Union[bool, int, str]]

DRIVER = DOMAIN = DRANET_DRIVER
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
# Stands for dra.net/encapsulation of a function without a netdev, which has no such attribute.
NO_LINK = "none"

# DRANET publishes names, not numbers. Where the database has none, the function is called unknown, as many others are.
_VENDORS = {"15b3": "Mellanox Technologies", "1d0f": "Amazon.com, Inc.", "8086": "Intel Corporation"}
_DEVICES: dict[tuple[str, str], str] = {
    ("15b3", "1003"): "MT27500 Family [ConnectX-3]",
    ("15b3", "1004"): "MT27500/MT27520 Family [ConnectX-3/ConnectX-3 Pro Virtual Function]",
    ("15b3", "1007"): "MT27520 Family [ConnectX-3 Pro]",
    ("15b3", "1011"): "MT27600 [Connect-IB]",
    ("15b3", "1012"): "MT27600 Family [Connect-IB Virtual Function]",
    ("15b3", "1013"): "MT27700 Family [ConnectX-4]",
    ("15b3", "1014"): "MT27700 Family [ConnectX-4 Virtual Function]",
    ("15b3", "1015"): "MT27710 Family [ConnectX-4 Lx]",
    ("15b3", "1016"): "MT27710 Family [ConnectX-4 Lx Virtual Function]",
    ("15b3", "1017"): "MT27800 Family [ConnectX-5]",
    ("15b3", "1018"): "MT27800 Family [ConnectX-5 Virtual Function]",
    ("15b3", "1019"): "MT28800 Family [ConnectX-5 Ex]",
    ("15b3", "101a"): "MT28800 Family [ConnectX-5 Ex Virtual Function]",
    ("15b3", "101b"): "MT28908 Family [ConnectX-6]",
    ("15b3", "101c"): "MT28908 Family [ConnectX-6 Virtual Function]",
    ("15b3", "101d"): "MT2892 Family [ConnectX-6 Dx]",
    ("15b3", "101e"): "ConnectX Family mlx5Gen Virtual Function",
    ("15b3", "101f"): "MT2894 Family [ConnectX-6 Lx]",
    ("15b3", "1021"): "MT2910 Family [ConnectX-7]",
    ("15b3", "1023"): "CX8 Family [ConnectX-8]",
    ("15b3", "1025"): "CX9 Family [ConnectX-9]",
    ("15b3", "1027"): "CX10 Family [ConnectX-10]",
    ("15b3", "a2d2"): "MT416842 BlueField integrated ConnectX-5 network controller",
    ("15b3", "a2d3"): "MT416842 BlueField multicore SoC family VF",
    ("15b3", "a2d6"): "MT42822 BlueField-2 integrated ConnectX-6 Dx network controller",
    ("15b3", "a2dc"): "MT43244 BlueField-3 integrated ConnectX-7 network controller",
    ("15b3", "a2df"): "BF4 Family integrated network controller [BlueField-4 integrated network controller]",
    ("1d0f", "efa0"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa1"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa2"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa3"): "Elastic Fabric Adapter (EFA)",
    ("8086", "10d3"): "82574L Gigabit Network Connection",
    ("8086", "10f6"): "82574L Gigabit Network Connection",
}
# ConnectX-8 and later reach GPUs by a function of their own (15b3:2100), which may be below another root than the card's.
DATA_DIRECT = frozenset({("15b3", "1023"), ("15b3", "1025"), ("15b3", "1027")})

# k8s.io/api/resource/v1, DeviceAttributeMaxValueLength
_LONGEST = 64
_NETWORK_CLASS = "02"
_LINK_TYPES = {"ether": "device", "infiniband": "ipoib"}


# What every function has.
_PLACE = frozenset(f"dra.net/{name}" for name in ("pciVendor", "pciDevice", "numaNode", "pciAddress"))


class Published(t.NamedTuple):
    """A PCI function with RDMA as DRANET publishes it.

    views: the attributes that it may have, at least one. There are several where facts do not decide it: DRANET takes the last of
    several netdevs that the kernel lists, a netdev that is in a Pod now comes back, and node 0 may be the only NUMA node. pci: None
    where the netdev that Soft-RoCE is on has a function that facts do not tell. unknown: attributes that it has, with values that
    facts do not tell.
    """

    name: str
    pci: t.Optional[str]
    devices: tuple[str, ...]
    views: tuple[Attributes, ...]
    unknown: frozenset[str] = frozenset()


def device_name(pci: str) -> str:
    """The name of a PCI function in a ResourceSlice (pkg/names, NormalizePCIAddress())."""
    return "pci-" + pci.replace(":", "-").replace(".", "-")


def pcie_root(place: Json) -> t.Optional[str]:
    """The PCIe root of a device or GPU of the facts, such as pci0000:3a; None where facts do not tell it.

    The first bridge is on the bus of the root, as is a function without one. Virtual machines of Hyper-V show functions of other
    domains outside of /sys/devices/pci*, and nobody publishes a root of these.
    """
    bridges, pci = place.get("bridges"), place["pci"]
    if not pci or bridges is None or (not bridges and not pci.startswith("0000:")):
        return None
    domain, bus = (bridges[0] if bridges else pci).split(":")[:2]
    return f"pci{domain}:{bus}"


def uplinks(facts: Json) -> set[str]:
    """Netdevs that DRANET leaves out: those of the default routes, and what is enslaved to them (getExcludedUplinkInterfaces())."""
    routes = set((facts.get("management") or {}).get("default_route_netdevs") or ())
    masters = {
        netdev["name"]: netdev["master"]
        for device in facts.get("devices") or ()
        for port in device["ports"]
        for netdev in port["netdevs"]
        if netdev["master"]
    }
    members = {name for name, master in masters.items() if master in routes}
    members |= {
        name
        for device in facts.get("devices") or ()
        if device["lag"] and device["lag"]["netdev"] in routes
        for name in device["netdevs"]
    }
    return routes | members


def _text(value: t.Any) -> t.Optional[str]:
    """A value that can be one of an attribute, None for others: they are not valid UTF-8, or too long to be published."""
    text = str(value)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None
    return text if 0 < size <= _LONGEST else None


def _netdevs(rows: t.Sequence[Json]) -> dict[str, list[tuple[str, Json]]]:
    """{netdev below the function: [(type as netlink names it, what else is known of it)]}; both types where facts tell none."""
    known = {netdev["name"]: netdev for row in rows for port in row["ports"] for netdev in port["netdevs"]}
    names: set[str] = set()
    first: dict[str, str] = {}
    for row in rows:
        view = row["plugin"]
        if view["if_name"]:
            names.add(view["if_name"])
            first[view["if_name"]] = view["link_type"]
        # the netdev of a software device may be elsewhere
        names |= set(row["netdevs"]) if row["kind"] != "software" else set()
    found = {}
    for name in sorted(names):
        own = known.get(name) or {}
        sort = own.get("type") or first.get(name)
        found[name] = [(each, own) for each in ([sort] if sort else sorted(_LINK_TYPES))]
    return found


def _of_function(row: Json) -> Attributes:
    """Attributes that a function has whatever is on it."""
    found: Attributes = {"dra.net/pciAddress": row["pci"], "dra.net/rdma": True}
    if (row["class"] or _NETWORK_CLASS)[:2] == _NETWORK_CLASS:
        # what the tables lack has another name than all that they have
        vendor, device = _VENDORS.get(row["vendor"]), _DEVICES.get((row["vendor"], row["device"]))
        found.update({"dra.net/pciVendor": vendor} if vendor else {})
        found.update({"dra.net/pciDevice": device} if device else {})
        if row["numa_node"] is not None:
            found["dra.net/numaNode"] = row["numa_node"]
    root = pcie_root(row)
    if root:
        found[PCIE_ROOT] = root
    return found


def _unknown(row: Json) -> frozenset[str]:
    """What facts do not tell of a function: its ids could not be read."""
    found = {"dra.net/pciVendor"} if not row["vendor"] else set()
    return frozenset(found | ({"dra.net/pciDevice"} if not (row["vendor"] and row["device"]) else set()))


def _of_link(row: Json, name: str, sort: str, netdev: Json) -> Attributes:
    found: Attributes = {
        "dra.net/encapsulation": sort,
        "dra.net/type": _LINK_TYPES.get(sort, "device"),
        "dra.net/virtual": False,
        "dra.net/sriov": row["sriov"]["total"] > 0,
    }
    if row["sriov"]["total"] > 0:
        found["dra.net/sriovVfs"] = row["sriov"]["vfs"]
    if row["sriov"]["pf"]:
        found["dra.net/isSriovVf"] = True
    for key, value in (("ifName", _text(name)), ("state", netdev.get("operstate")), ("mtu", netdev.get("mtu"))):
        if value is not None:
            found["dra.net/" + key] = value
    return found


def _views(rows: t.Sequence[Json], move_ib: bool) -> t.Iterator[Attributes]:
    """What a function may look like, the likeliest first. rows: its RDMA devices, its own before those of software."""
    common = _of_function(rows[0])
    found = 0
    for name, sorts in _netdevs(rows).items():
        for sort, netdev in sorts:
            if sort != "infiniband" or move_ib:
                found += 1
                yield {**common, **_of_link(rows[0], name, sort, netdev)}
    if found:
        return
    rdma = _text(rows[0]["name"])
    yield {**common, **({"dra.net/rdmaDevice": rdma} if rdma else {})}
    layers = {NETDEV_TYPES.get(str(port["link_layer"])) for port in rows[0]["ports"]} - {None}
    for sort in sorted(str(layer) for layer in layers):
        if rows[0]["driver"] == "mlx5_core" and (sort != "infiniband" or move_ib):
            yield {**common, "dra.net/encapsulation": sort}


def _on_any_machine(views: t.Iterable[Attributes], facts: Json) -> tuple[Attributes, ...]:
    """Views, and the same without a NUMA node where all that facts tell is node 0: it may be the only one of the machine, of which nothing
    is published."""
    found = tuple(views)
    nodes = {row.get("numa_node") for sort in ("devices", "gpus") for row in facts.get(sort) or ()}
    if nodes - {None, 0}:
        return found
    name = "dra.net/numaNode"
    alone = ({key: value for key, value in view.items() if key != name} for view in found if name in view)
    return (*found, *alone)


def published(facts: Json, move_ib: bool = True) -> list[Published]:
    """What DRANET publishes of the RDMA devices of a host, by name. move_ib: --move-ib-interfaces.

    Uplinks are among them: DRANET looks at the routes when it starts, and no selector of ours may match one that lost its route since.
    """
    rows: dict[str, list[Json]] = {}
    elsewhere: dict[str, Json] = {}
    for device in sorted(facts.get("devices") or (), key=lambda row: (row["kind"] in ("software", "smi"), row["name"])):
        if device["pci"]:
            rows.setdefault(device["pci"], []).append(device)
        elif device["kind"] == "software":
            elsewhere.update(dict.fromkeys(device["netdevs"], device))
    found = [
        Published(
            device_name(pci),
            pci,
            tuple(row["name"] for row in own),
            _on_any_machine(_views(own, move_ib), facts),
            _unknown(own[0]),
        )
        for pci, own in rows.items()
    ]
    below = {name for own in rows.values() for name in _netdevs(own)}
    for name, device in elsewhere.items():
        # Soft-RoCE makes a network card one with RDMA; it may as well be on a bond, which has no address and is never selected
        if name not in below:
            view: Attributes = {
                "dra.net/rdma": True,
                **_of_link({"sriov": {"total": 0, "pf": None}}, name, "ether", {}),
            }
            found.append(Published(name, None, (device["name"],), (view,), _PLACE))
    return sorted(found, key=lambda each: each.name)


def too_long(facts: Json) -> list[tuple[str, str]]:
    """[(RDMA device, name of its model)] that no ResourceSlice takes: the API refuses all that DRANET publishes of the node for one."""
    found = []
    for device in facts.get("devices") or ():
        if device["pci"]:
            name = str(_of_function(device).get("dra.net/pciDevice", ""))
            if len(name) > _LONGEST:
                found.append((device["name"], name))
    return found

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides how RoCE behaves on a host: QoS of its cards, ToS, ARP and rp_filter of its netdevs. Private to the collection.

Files tell most of it: Documentation/ABI/testing/configfs-rdma_cm for the ToS of RDMA-CM, Documentation/networking/ip-sysctl.rst for
ARP and rp_filter; ecn/ of a netdev, tc/ of an RDMA device and qos/trust come with the driver of MLNX_OFED and DOCA only. Which
priorities have PFC, and on newer drivers what is trusted, only the DCB netlink tells: mlnx_qos of mlnx-tools, where it is installed.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import BOOT_ID, ROCE, ROCE_CHANGE
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import Facts, number
from ansible_collections.fabric.rdma.plugins.module_utils._discover.programs import program_path
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import default_route_netdevs, stack_of

__all__ = [
    "MODPROBE",
    "PRIORITIES",
    "RULES",
    "SYSCTL",
    "UNITS",
    "VALUES",
    "parse_qos",
    "parse_traffic_class",
    "qos_answer",
    "read_roce",
]

Run = t.Callable[[t.List[str]], t.Tuple[int, str, str]]

# Files that the role roce_host makes, and nobody else.
MODPROBE = "/etc/modprobe.d/fabric-rdma-roce.conf"
SYSCTL = "/etc/sysctl.d/99-fabric-rdma-roce.conf"
RULES = "/etc/udev/rules.d/99-fabric-rdma-roce.rules"
UNITS = "/etc/systemd/system/fabric-rdma-roce-*.service"
VALUES = "/etc/fabric.rdma/roce-*.conf"

# IEEE 802.1Q has eight.
PRIORITIES = range(8)
_SYSCTLS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")
_PROGRAMS = ("cma_roce_tos", "mlnx_qos", "mlxconfig", "mstconfig", "rdma", "systemd-tmpfiles")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_OPTION = re.compile(r"^\s*options\s+ib_core\s(?:.*\s)?netns_mode=([01YNyn])\b", re.MULTILINE)
_LINK_TYPE = re.compile(r"[0-9a-f:.]{12,16}/LINK_TYPE_P[1-9]")


def parse_qos(text: t.Optional[str]) -> Facts:
    """{trust: dscp|pcp|None, pfc: [priorities]|None, dcbx: os|firmware|None} of what ``mlnx_qos -i NETDEV`` prints.

    mlnx-tools, python/mlnx_qos, pretty_print(). None for what it does not say, or says in another way.
    """
    lines = (text or "").splitlines()
    found: Facts = {"trust": None, "pfc": None, "dcbx": None}
    in_pfc = False
    for line in lines:
        name, _colon, value = (part.strip() for part in line.partition(":"))
        if name == "Priority trust state":
            found["trust"] = value if value in ("dscp", "pcp") else None
        elif name == "DCBX mode":
            found["dcbx"] = {"OS controlled": "os", "Firmware controlled": "firmware"}.get(value)
        words = line.split()
        if in_pfc and words[:1] == ["enabled"]:
            flags = words[1:]
            if len(flags) == len(PRIORITIES) and set(flags) <= {"0", "1"}:
                found["pfc"] = [priority for priority in PRIORITIES if flags[priority] == "1"]
            in_pfc = False
        elif name == "PFC configuration":
            in_pfc = True
    return found


def parse_traffic_class(text: t.Optional[str]) -> t.Optional[int]:
    """The traffic class that all packets of a port get, by its file tc/N/traffic_class; None when each has its own."""
    found = re.match(r"Global tclass=([0-9]{1,3})\s*$", (text or "").partition("\n")[0])
    return int(found.group(1)) if found and int(found.group(1)) <= 255 else None


def qos_answer(run: Run) -> t.Callable[[str], t.Optional[str]]:
    """What answers the question qos of a Tree. run: runs a program: (exit status, output, error output)."""

    def qos(path: str) -> t.Optional[str]:
        """PROGRAM/NETDEV: what mlnx_qos prints of it."""
        program, _slash, netdev = path.rpartition("/")
        status, output, _error = run(["/" + program, "-i", netdev])
        return output[:8192] if status == 0 else None

    return qos


def _flags(tree: Tree, directory: str) -> t.Optional[list[int]]:
    """The priorities whose file says 1; None when there are no such files."""
    values = {priority: number(tree, f"{directory}/{priority}") for priority in PRIORITIES}
    known = [priority for priority, value in values.items() if value is not None]
    return [priority for priority in known if values[priority]] if known else None


def _card(tree: Tree, netdev: str, program: t.Optional[str]) -> Facts:
    """The QoS of one netdev of a card."""
    base = f"/sys/class/net/{netdev}"
    said = tree.answer("qos", f"{program}/{netdev}") if program else None
    qos = parse_qos(said)
    trust = tree.text(base + "/qos/trust")
    notification, reaction = (_flags(tree, f"{base}/ecn/roce_{point}/enable") for point in ("np", "rp"))
    return {
        "netdev": netdev,
        **qos,
        "trust": trust if trust in ("dscp", "pcp") else qos["trust"],
        "ecn": None if notification is None or reaction is None else {"np": notification, "rp": reaction},
    }


def _ipv4(tree: Tree, netdev: str) -> Facts:
    return {name: number(tree, f"/proc/sys/net/ipv4/conf/{netdev}/{name}") for name in _SYSCTLS}


def _port(tree: Tree, device: Facts, port: Facts, program: t.Optional[str]) -> t.Optional[Facts]:
    """One Ethernet port; None for another one, and where it has no netdev of which a file could be named."""
    netdevs = [netdev for netdev in port["netdevs"] if netdev["type"] == "ether"]
    if port["link_layer"] != "Ethernet" or not netdevs or not _PLAIN.fullmatch(device["name"]):
        return None
    netdev = netdevs[0]
    members = [member["netdev"] for member in (device["lag"] or {}).get("members") or []]
    cards = [name for name in (members or [netdev["name"]]) if _PLAIN.fullmatch(name)]
    # a member of a bond has no address, its bond has
    address = netdev["master"] or netdev["name"]
    if not _PLAIN.fullmatch(netdev["name"]) or not _PLAIN.fullmatch(address):
        return None
    # Soft-RoCE has no queues of its own, and a virtual function those of its card
    has_qos = device["kind"] == "pf"
    where = f"{device['name']}/ports/{port['number']}"
    override = f"/sys/class/infiniband/{device['name']}/tc/{port['number']}/traffic_class"
    return {
        "device": device["name"],
        "port": port["number"],
        "netdev": netdev["name"],
        "mtu": netdev["mtu"],
        "master": netdev["master"],
        "address_netdev": address,
        "ipv4": _ipv4(tree, address),
        "traffic_class": parse_traffic_class(tree.text(override)),
        "has_traffic_class": tree.exists(override),
        "default_tos": number(tree, f"/sys/kernel/config/rdma_cm/{where}/default_roce_tos"),
        "cards": [_card(tree, name, program) for name in cards] if has_qos else [],
    }


def _pending(tree: Tree) -> dict[str, str]:
    """Link types of ports, as PCI/LINK_TYPE_P1, that were set since the last boot, and that the next one brings."""
    try:
        value = json.loads(tree.text(ROCE) or "{}")
        found = value.get("link_types") or {}
        if value.get("boot_id") != tree.text(BOOT_ID):
            return {}
        return {
            str(port): str(word)
            for port, word in sorted(found.items())
            if _LINK_TYPE.fullmatch(str(port)) and word in ("ETH", "IB")
        }
    except (ValueError, AttributeError, RecursionError):
        return {}


def read_roce(tree: Tree, devices: t.Sequence[Facts]) -> Facts:
    """The key roce of ansible_facts.rdma (docs/facts.schema.json). devices: as read_devices() returns them."""
    program = program_path(tree, "mlnx_qos")
    ports = [_port(tree, device, port, program) for device in devices for port in device["ports"]]
    below: set[str] = set()
    for netdev in default_route_netdevs(tree):
        below |= stack_of(tree, netdev)
    live = tree.text("/sys/module/ib_core/parameters/netns_mode")
    kept = _OPTION.findall(tree.text(MODPROBE) or "")
    ours = [path for path in (MODPROBE, SYSCTL, RULES) if tree.exists(path)]
    ours += [path for pattern in (UNITS, VALUES) for path in tree.glob(pattern)]
    return {
        "ports": [port for port in ports if port is not None],
        "all": _ipv4(tree, "all"),
        "netns": {
            "mode": {"Y": "shared", "N": "exclusive"}.get(live or ""),
            "persisted": {"1": "shared", "Y": "shared"}.get(kept[-1].upper(), "exclusive") if kept else None,
        },
        "under_default_route": sorted(below),
        "programs": {name: program_path(tree, name) for name in _PROGRAMS},
        "files": {path: digest(tree.read(path)) for path in sorted(ours)},
        "pending": _pending(tree),
        "unfinished": tree.exists(ROCE_CHANGE),
    }

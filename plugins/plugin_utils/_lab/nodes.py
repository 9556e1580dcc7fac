# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as they are wished for, and what makes a node this node. Private to the collection. Pure."""

from __future__ import annotations

import io
import re
import shlex
import tarfile
import typing as t
from dataclasses import dataclass
from types import MappingProxyType

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError

__all__ = [
    "FABRIC_NETWORK",
    "MANAGEMENT_ADDRESS",
    "RESERVED_NAMES",
    "NodePlan",
    "config_archive",
    "console_tail",
    "plan_nodes",
]

# RFC 5737, TEST-NET-2: never routed anywhere.
FABRIC_NETWORK = "198.51.100"

# What QEMU's user-mode network calls itself and its one guest.
_MANAGEMENT_GATEWAY = "10.0.2.2"
MANAGEMENT_ADDRESS = "10.0.2.15"
_MAX_NODES = 32
# Each has one card, or two for a bond. QEMU's machine has 31 slots, of which disks and others take some.
MAX_HCAS = 7

# The RDMA device of nodes that no other is wished for.
_HCA = "rxe0"

# What a lab's directory has beside the directories of its nodes, and what every node calls itself.
RESERVED_NAMES = ("control-plane", "localhost", "lock")

# RFC 2544, for benchmarks: never routed either. A network for each rail but the first, which has the one above.
_RAILS = "198.18"


@dataclass(frozen=True)
class HcaPlan:
    """An RDMA device of a node: Soft-RoCE on a network card of its own, or on a bond of two.

    rail: the network behind it, which all devices with this number share. cable: whether it is plugged in.
    """

    name: str
    rail: int
    bond: bool
    cable: bool
    # its first card on the node; eth0 is 0
    card: int
    # how many devices of the node come before it on the same rail
    turn: int
    # what has its address
    netdev: str

    @property
    def cards(self) -> range:
        """Numbers of its network cards on the node: eth1 is 1."""
        return range(self.card, self.card + (2 if self.bond else 1))


@dataclass(frozen=True)
class NodePlan:
    """One node as it is wished for."""

    name: str
    index: int
    memory_mib: int
    cpus: int
    hcas: tuple[HcaPlan, ...] = (HcaPlan(_HCA, 0, False, True, 1, 0, "eth1"),)

    @property
    def address(self) -> str:
        """Address of the first RDMA device, without prefix length."""
        return self.address_of(self.hcas[0])

    def address_of(self, hca: HcaPlan) -> str:
        """Address of one of its RDMA devices, without prefix length."""
        network = FABRIC_NETWORK if hca.rail == 0 else f"{_RAILS}.{hca.rail}"
        return f"{network}.{self.index + 1 + _MAX_NODES * hca.turn}"

    @property
    def cards(self) -> tuple[tuple[int, HcaPlan], ...]:
        """Its network cards but the first, in their order."""
        return tuple((card, hca) for hca in self.hcas for card in hca.cards)

    def mac(self, card: int) -> str:
        """Hardware address of network card 0 (management), or 1 and more (RDMA)."""
        return f"52:54:00:fa:{card:02x}:{self.index + 1:02x}"


def plan_nodes(value: object, memory_mib: int, cpus: int) -> tuple[NodePlan, ...]:
    """The nodes that a user asked for.

    `value` is a number of nodes (lab1, lab2, ...) or a list of names or of dicts with name and, if they differ from the lab's,
    memory_mib, cpus and hcas. Raises LabError, naming the entry.
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        raise LabError(
            f"nodes is {value!r}: give a number of nodes, or a list of names or of dicts with name, memory_mib, cpus and hcas"
        )
    entries: t.Sequence[object] = [{"name": f"lab{n + 1}"} for n in range(value)] if isinstance(value, int) else value
    if not 1 <= len(entries) <= _MAX_NODES:
        raise LabError(f"the lab has {len(entries)} nodes: give 1 to {_MAX_NODES}")
    result: list[NodePlan] = []
    for position, entry in enumerate(entries):
        item: object = {"name": entry} if isinstance(entry, str) else entry
        where = f"nodes[{position}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise LabError(f"{where} is {entry!r}: give a name or a dict with name")
        _refuse_unknown(item, ("name", "memory_mib", "cpus", "hcas"), where)
        name = item["name"]
        if not re.match(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z", name):
            raise LabError(f"{where}.name is {name!r}: use 1 to 32 of a-z, 0-9 and -, with no - at either end")
        if name in RESERVED_NAMES:
            raise LabError(f"{where}.name is {name!r}, which the lab uses itself: give another name")
        if any(node.name == name for node in result):
            raise LabError(f"{where}.name is {name!r}, and so is an earlier one: names must differ")
        result.append(
            NodePlan(
                name,
                position,
                _number(item.get("memory_mib", memory_mib), where + ".memory_mib", 256, 65536),
                _number(item.get("cpus", cpus), where + ".cpus", 1, 64),
                _hcas(item.get("hcas", [_HCA]), where + ".hcas"),
            )
        )
    return tuple(result)


def _refuse_unknown(item: t.Mapping[str, object], known: t.Sequence[str], where: str) -> None:
    unknown = sorted(str(key) for key in set(item) - set(known))
    if unknown:
        listed = ", ".join(known[:-1]) + " and " + known[-1]
        raise LabError(f"{where} has the unknown keys {', '.join(unknown)}: it may have {listed}")


def _hcas(value: object, where: str) -> tuple[HcaPlan, ...]:
    """RDMA devices as they are wished for. Raises LabError, naming the entry."""
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MAX_HCAS:
        raise LabError(
            f"{where} is {value!r}: give a list of 1 to {MAX_HCAS} names, or dicts with name, rail, bond and cable"
        )
    result: list[HcaPlan] = []
    card = 1
    for position, entry in enumerate(value):
        item: object = {"name": entry} if isinstance(entry, str) else entry
        place = f"{where}[{position}]"
        if not isinstance(item, dict):
            raise LabError(f"{place} is {entry!r}: give a name, or a dict with name, rail, bond and cable")
        _refuse_unknown(item, ("name", "rail", "bond", "cable"), place)
        name = item.get("name")
        # the kernel takes 63 characters; rdma(8) takes a number for an index
        if not isinstance(name, str) or not re.match(r"[a-z][a-z0-9_]{0,30}\Z", name):
            raise LabError(f"{place}.name is {name!r}: use 1 to 31 of a-z, 0-9 and _, with a letter at the beginning")
        if any(hca.name == name for hca in result):
            raise LabError(f"{place}.name is {name!r}, and so is an earlier one: names must differ")
        rail = _number(item.get("rail", 0), place + ".rail", 0, 255)
        bond, cable = (
            _flag(item.get(key, default), f"{place}.{key}") for key, default in (("bond", False), ("cable", True))
        )
        turn = sum(hca.rail == rail for hca in result)
        netdev = f"bond{sum(hca.bond for hca in result)}" if bond else f"eth{card}"
        result.append(HcaPlan(name, rail, bond, cable, card, turn, netdev))
        card = result[-1].cards.stop
    return tuple(result)


def _flag(value: object, where: str) -> bool:
    words = {"true": True, "yes": True, "false": False, "no": False}
    found = words.get(str(value).lower())
    if found is None:
        raise LabError(f"{where} is {value!r}: give true or false")
    return found


def _number(value: object, where: str, least: int, most: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise LabError(f"{where} is {value!r}: give a whole number from {least} to {most}")
    return number


def config_archive(
    node: NodePlan,
    nodes: t.Sequence[NodePlan],
    host_key: str,
    host_public: str,
    client_public: str,
    management: str = MANAGEMENT_ADDRESS + "/24",
    more: t.Mapping[str, tuple[int, str]] = MappingProxyType({}),
) -> bytes:
    """What makes a node this node, as a tar archive: the second disk of a virtual machine.

    more: further files of it, path -> (mode, content). With any, it is a node of a cluster.
    """
    hosts = "127.0.0.1 localhost\n" + "".join(f"{other.address} {other.name}\n" for other in nodes)
    settings = {
        "LAB_NAME": node.name,
        "LAB_MANAGEMENT_ADDRESS": management,
        "LAB_GATEWAY": _MANAGEMENT_GATEWAY,
        "LAB_FABRIC_ADDRESS": node.address + "/24",
        "LAB_KUBERNETES": "1" if more else "",
        "LAB_HCAS": "\n".join(_hca_line(node, hca) for hca in node.hcas),
    }
    files = {
        "etc/hostname": (0o644, node.name + "\n"),
        "etc/hosts": (0o644, hosts),
        "etc/fabric-rdma-lab.conf": (0o644, "".join(f"{key}={shlex.quote(settings[key])}\n" for key in settings)),
        "etc/ssh/ssh_host_ed25519_key": (0o600, host_key),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, host_public),
        "root/.ssh/authorized_keys": (0o600, client_public),
        **more,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


def _hca_line(node: NodePlan, hca: HcaPlan) -> str:
    """An RDMA device as the node's setup script reads it: name, network device, address, network cards of its own."""
    return " ".join([hca.name, hca.netdev, node.address_of(hca) + "/24", *(f"eth{card}" for card in hca.cards)])


def console_tail(text: str, lines: int = 20) -> str:
    """The last lines of a console log, without the colours and carriage returns that systemd writes there."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1bc|[\x00-\x08\x0b-\x1f]", "", text.replace("\r", "\n"))
    kept = [line.rstrip() for line in plain.split("\n") if line.strip()]
    return "\n".join(kept[-lines:])

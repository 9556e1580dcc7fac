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

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError

__all__ = [
    "FABRIC_NETWORK",
    "MANAGEMENT_ADDRESS",
    "MANAGEMENT_GATEWAY",
    "MAX_NODES",
    "NodePlan",
    "config_archive",
    "console_tail",
    "plan_nodes",
]

# RFC 5737, TEST-NET-2: never routed anywhere.
FABRIC_NETWORK = "198.51.100"

# What QEMU's user-mode network calls itself and its one guest.
MANAGEMENT_GATEWAY = "10.0.2.2"
MANAGEMENT_ADDRESS = "10.0.2.15"
MAX_NODES = 32


@dataclass(frozen=True)
class NodePlan:
    """One node as it is wished for."""

    name: str
    index: int
    memory_mib: int
    cpus: int

    @property
    def address(self) -> str:
        """Address of the RDMA network card, without prefix length."""
        return f"{FABRIC_NETWORK}.{self.index + 1}"

    def mac(self, card: int) -> str:
        """Hardware address of network card 0 (management) or 1 (RDMA)."""
        return f"52:54:00:fa:{card:02x}:{self.index + 1:02x}"


def plan_nodes(value: object, memory_mib: int, cpus: int) -> tuple[NodePlan, ...]:
    """The nodes that a user asked for.

    `value` is a number of nodes (lab1, lab2, ...) or a list of names or of dicts with name and, if they differ from the lab's,
    memory_mib and cpus. Raises LabError, naming the entry.
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        raise LabError(
            f"nodes is {value!r}: give a number of nodes, or a list of names or of dicts with name, memory_mib and cpus"
        )
    entries: t.Sequence[object] = [{"name": f"lab{n + 1}"} for n in range(value)] if isinstance(value, int) else value
    if not 1 <= len(entries) <= MAX_NODES:
        raise LabError(f"the lab has {len(entries)} nodes: give 1 to {MAX_NODES}")
    result: list[NodePlan] = []
    for position, entry in enumerate(entries):
        item: object = {"name": entry} if isinstance(entry, str) else entry
        where = f"nodes[{position}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise LabError(f"{where} is {entry!r}: give a name or a dict with name")
        unknown = sorted(str(key) for key in set(item) - {"name", "memory_mib", "cpus"})
        if unknown:
            raise LabError(f"{where} has the unknown keys {', '.join(unknown)}: it may have name, memory_mib and cpus")
        name = item["name"]
        if not re.match(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z", name):
            raise LabError(f"{where}.name is {name!r}: use 1 to 32 of a-z, 0-9 and -, with no - at either end")
        if any(node.name == name for node in result):
            raise LabError(f"{where}.name is {name!r}, and so is an earlier one: names must differ")
        result.append(
            NodePlan(
                name,
                position,
                _number(item.get("memory_mib", memory_mib), where + ".memory_mib", 256, 65536),
                _number(item.get("cpus", cpus), where + ".cpus", 1, 64),
            )
        )
    return tuple(result)


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
) -> bytes:
    """What makes a node this node, as a tar archive: the second disk of a virtual machine."""
    hosts = "127.0.0.1 localhost\n" + "".join(f"{other.address} {other.name}\n" for other in nodes)
    settings = {
        "LAB_NAME": node.name,
        "LAB_MANAGEMENT_ADDRESS": management,
        "LAB_GATEWAY": MANAGEMENT_GATEWAY,
        "LAB_FABRIC_ADDRESS": node.address + "/24",
    }
    files = {
        "etc/hostname": (0o644, node.name + "\n"),
        "etc/hosts": (0o644, hosts),
        "etc/fabric-rdma-lab.conf": (0o644, "".join(f"{key}={shlex.quote(settings[key])}\n" for key in settings)),
        "etc/ssh/ssh_host_ed25519_key": (0o600, host_key),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, host_public),
        "root/.ssh/authorized_keys": (0o600, client_public),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


def console_tail(text: str, lines: int = 20) -> str:
    """The last lines of a console log, without the colours and carriage returns that systemd writes there."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1bc|[\x00-\x08\x0b-\x1f]", "", text.replace("\r", "\n"))
    kept = [line.rstrip() for line in plain.split("\n") if line.strip()]
    return "\n".join(kept[-lines:])

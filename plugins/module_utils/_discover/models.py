# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the numbers in sysfs mean: PCI ids, states, rates. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = [
    "PHYS_STATES",
    "PORT_STATES",
    "is_virtual_function_id",
    "model_name",
    "parse_rate",
    "parse_state",
]

# Models by PCI vendor and device id (pci.ids; drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_core_pci_table).
_MODELS: dict[tuple[str, str], str] = {
    ("15b3", "1003"): "ConnectX-3",
    ("15b3", "1007"): "ConnectX-3 Pro",
    ("15b3", "1011"): "Connect-IB",
    ("15b3", "1013"): "ConnectX-4",
    ("15b3", "1015"): "ConnectX-4 Lx",
    ("15b3", "1017"): "ConnectX-5",
    ("15b3", "1019"): "ConnectX-5 Ex",
    ("15b3", "101b"): "ConnectX-6",
    ("15b3", "101d"): "ConnectX-6 Dx",
    ("15b3", "101f"): "ConnectX-6 Lx",
    ("15b3", "1021"): "ConnectX-7",
    ("15b3", "1023"): "ConnectX-8",
    ("15b3", "1025"): "ConnectX-9",
    ("15b3", "1027"): "ConnectX-10",
    ("15b3", "a2d2"): "BlueField",
    ("15b3", "a2d6"): "BlueField-2",
    ("15b3", "a2dc"): "BlueField-3",
    ("15b3", "a2df"): "BlueField-4",
    ("1d0f", "efa0"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa1"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa2"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa3"): "Elastic Fabric Adapter (EFA)",
}

# Virtual functions have ids of their own. 101e serves everything from ConnectX-6 Dx on: it does not name the model.
_VIRTUAL: dict[tuple[str, str], str] = {
    ("15b3", "1004"): "ConnectX-3 Virtual Function",
    ("15b3", "1012"): "Connect-IB Virtual Function",
    ("15b3", "1014"): "ConnectX-4 Virtual Function",
    ("15b3", "1016"): "ConnectX-4 Lx Virtual Function",
    ("15b3", "1018"): "ConnectX-5 Virtual Function",
    ("15b3", "101a"): "ConnectX-5 Ex Virtual Function",
    ("15b3", "101c"): "ConnectX-6 Virtual Function",
    ("15b3", "101e"): "ConnectX Family mlx5Gen Virtual Function",
    ("15b3", "a2d3"): "BlueField Virtual Function",
    ("8086", "1889"): "Ethernet Adaptive Virtual Function",
    ("14e4", "16dc"): "NetXtreme-E Ethernet Virtual Function",
    ("1414", "00ba"): "Azure Network Adapter Virtual Function",
    ("19e5", "a22f"): "HNS RDMA Virtual Function",
}

# include/rdma/ib_verbs.h, enum ib_port_state; drivers/infiniband/core/sysfs.c prints "4: ACTIVE".
PORT_STATES: dict[int, str] = {0: "Nop", 1: "Down", 2: "Init", 3: "Armed", 4: "Active", 5: "ActiveDefer"}

# drivers/infiniband/core/sysfs.c, phys_state_to_str(): "5: LinkUp".
PHYS_STATES: dict[int, str] = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "PhyTest",
}

_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) Gb/sec(?: \((\d{1,2}X)(?: (\w{1,8}))?\))?", re.ASCII)
_STATE = re.compile(r"(\d{1,2}): ?\w*", re.ASCII)


class Rate(t.NamedTuple):
    """A port's rate: Gb/s of the trained link, its width (``4X``) and speed name (``HDR``), the latter None when not said."""

    gbps: float
    width: t.Optional[str]
    speed: t.Optional[str]


def parse_rate(text: str) -> t.Optional[Rate]:
    """``200 Gb/sec (4X HDR)``, ``10 Gb/sec (4X)``, ``2.5 Gb/sec (1X SDR)`` as a Rate; None for anything else.

    The format is that of rate_show() in drivers/infiniband/core/sysfs.c. A rate of 0 is nonsense, hence None.
    """
    found = _RATE.fullmatch(text)
    if not found or float(found.group(1)) <= 0:
        return None
    return Rate(float(found.group(1)), found.group(2), found.group(3))


def parse_state(text: str, names: t.Mapping[int, str]) -> t.Optional[str]:
    """``4: ACTIVE`` as the name of state 4 in a table; None for a number that the table does not have."""
    found = _STATE.match(text)
    return names.get(int(found.group(1))) if found else None


def model_name(vendor: str, device: str) -> t.Optional[str]:
    """Marketing name of a PCI function by its ids (hex, no 0x), None when unknown."""
    return _MODELS.get((vendor, device)) or _VIRTUAL.get((vendor, device))


def is_virtual_function_id(vendor: str, device: str) -> bool:
    """True for the ids of virtual functions: in a guest there is no physfn link, only the id tells."""
    return (vendor, device) in _VIRTUAL

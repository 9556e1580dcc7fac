# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes on a healthy node, too: counters of ports and netdevs, temperatures, and the cables. Private to the collection.

Documentation/ABI/stable/sysfs-class-infiniband (counters, hw_counters), Documentation/ABI/testing/sysfs-class-net and
sysfs-class-net-statistics, Documentation/hwmon. Kernels before 4.5 have the 64-bit counters in counters_ext, under names of their own.
What only the ioctl of ethtool tells comes as an answer of the live node (ethtool.py).
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import quoted
from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import BOOT_ID
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.patterns import PORT, REPRESENTOR

__all__ = ["COUNTERS", "HW_COUNTERS", "MOST_COUNTERS", "PHY_COUNTER", "STATISTICS", "read_counters", "read_health"]

# drivers/infiniband/core/sysfs.c. Those of errors stop at the highest value of their 4 to 16 bits.
COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
)
_OLD_64_BIT = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")
# drivers/infiniband/hw/mlx5/counters.c; from completer_retry_err on drivers/infiniband/sw/rxe/rxe_hw_counters.c. Drivers have more.
HW_COUNTERS = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "resp_cqe_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_slow_restart",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
    "completer_retry_err",
    "out_of_seq_request",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "send_err",
    "send_rnr_err",
    "sent_pkts",
)
STATISTICS = ("rx_crc_errors", "rx_dropped", "rx_errors", "tx_dropped", "tx_errors")
# Of mlx5's some thousand (drivers/net/ethernet/mellanox/mlx5/core/en_stats.c): pauses, and the errors of the wire.
PHY_COUNTER = re.compile(
    r"[rt]x_(?:prio[0-7]|global)_pause(?:_duration|_transition)?|tx_pause_storm_(?:warning|error)_events"
    r"|[rt]x_pause_ctrl_phy|link_down_events_phy|rx_(?:crc_errors|discards|pcs_symbol_err|symbol_err)_phy"
)
MOST_COUNTERS = 64

_COUNT = re.compile(r"[0-9]{1,20}")
_TEMPERATURE = re.compile(r"temp[0-9]{1,2}_input")
_DEGREES = re.compile(r"-?[0-9]{1,7}")
_MOST_TEMPERATURES = 8
_MOST_TEXT = 64


def _count(tree: Tree, path: str) -> t.Optional[int]:
    text = tree.text(path) or ""
    return int(text) if _COUNT.fullmatch(text) and int(text) < 1 << 64 else None


def _port_counters(tree: Tree, port: str) -> dict[str, t.Optional[int]]:
    found = {name: _count(tree, f"{port}/counters/{name}") for name in COUNTERS}
    if tree.names(f"{port}/counters_ext"):
        for name in _OLD_64_BIT:
            wide = _count(tree, f"{port}/counters_ext/{name}_64")
            found[name] = found[name] if wide is None else wide
    return found


def _ports(tree: Tree, device: str) -> list[dict[str, t.Any]]:
    base = f"/sys/class/infiniband/{device}/ports"
    ports = []
    for number in sorted(int(name) for name in tree.names(base) if PORT.fullmatch(name)):
        here = f"{base}/{number}"
        ports.append(
            {
                "device": device,
                "port": number,
                "counters": _port_counters(tree, here),
                "hw_counters": {name: _count(tree, f"{here}/hw_counters/{name}") for name in HW_COUNTERS},
            }
        )
    return ports


def _netdevs_of(tree: Tree, device: str) -> list[str]:
    """The netdevs whose wire a device uses: of its function, the one that Soft-RoCE is on, the members of a bond without a device."""
    base = "/sys/class/infiniband/" + device
    parent = tree.text(base + "/parent")
    own = [
        name
        for name in ([parent] if parent else tree.names(base + "/device/net"))
        if "/" not in name
        and not REPRESENTOR.fullmatch(tree.text(f"/sys/class/net/{name}/phys_port_name") or "")
        and tree.exists("/sys/class/net/" + name)
    ]
    bonds = {tree.link_name(f"/sys/class/net/{name}/master") for name in own} - {None}
    card = _card(tree, base)
    for bond in sorted(str(bond) for bond in bonds):
        for slave in (tree.text(f"/sys/class/net/{bond}/bonding/slaves") or "").split()[:8]:
            there = "/sys/class/net/" + slave
            # the second function of a LAG has no RDMA device
            if "/" not in slave and slave not in own and card == _card(tree, there):
                own += [slave] if not tree.names(f"{there}/device/infiniband") else []
    return own


def _card(tree: Tree, base: str) -> str:
    """The address of the function that a device is at, without the number of the function."""
    return (tree.real(base + "/device") or "").rpartition("/")[2].rpartition(".")[0]


def _told(tree: Tree, netdev: str) -> tuple[dict[str, int], t.Optional[dict[str, t.Any]]]:
    """(counters of the wire, the cable) as the ioctl of ethtool tells them; of another's answer no more than has their form."""
    try:
        value = json.loads(tree.answer("ethtool", netdev) or "{}")
        counters = {
            name: count
            for name, count in sorted(value.get("counters", {}).items())
            if PHY_COUNTER.fullmatch(name)
            and isinstance(count, int)
            and not isinstance(count, bool)
            and 0 <= count < 1 << 64
        }
        cable = value.get("module")
        if cable is not None:
            length = cable["length_m"]
            cable = {
                **{key: str(cable[key])[:_MOST_TEXT] for key in ("vendor", "part", "serial")},
                "length_m": float(length) if type(length) in (int, float) and 0 <= length < 100_000 else None,
            }
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}, None
    return dict(list(counters.items())[:MOST_COUNTERS]), cable


def _netdev(tree: Tree, device: str, name: str) -> dict[str, t.Any]:
    base = "/sys/class/net/" + name
    counters, cable = _told(tree, name)
    return {
        "netdev": name,
        "device": device,
        "carrier_downs": _count(tree, base + "/carrier_down_count"),
        "statistics": {key: _count(tree, f"{base}/statistics/{key}") for key in STATISTICS},
        "counters": counters,
        "cable": cable,
    }


def _degrees(tree: Tree, path: str) -> t.Optional[float]:
    text = tree.text(path) or ""
    return round(int(text) / 1000, 1) if _DEGREES.fullmatch(text) else None


def _temperatures(tree: Tree, device: str) -> list[dict[str, t.Any]]:
    """What the sensors of the card's function say, and at what the card is in danger."""
    found: list[dict[str, t.Any]] = []
    for path in tree.glob(f"/sys/class/infiniband/{quoted(device)}/device/hwmon/hwmon*/temp*_input"):
        if len(found) == _MOST_TEMPERATURES or not _TEMPERATURE.fullmatch(path.rpartition("/")[2]):
            continue
        base = path[: -len("input")]
        celsius = _degrees(tree, path)
        if celsius is not None:
            label = (tree.text(base + "label") or "")[:_MOST_TEXT] or None
            limit = _degrees(tree, base + "crit")
            found.append({"device": device, "label": label, "celsius": celsius, "critical": limit})
    return found


def _devices(tree: Tree) -> list[str]:
    """Without virtual functions whose card is here, too: their wire is the same, and there may be hundreds."""
    base = "/sys/class/infiniband"
    names = sorted(tree.names(base), key=natural_key)
    return [
        name
        for name in names
        if tree.real(f"{base}/{name}") is not None and tree.link_name(f"{base}/{name}/device/physfn") is None
    ]


def read_counters(tree: Tree) -> dict[str, t.Any]:
    """{uptime_s, boot_id, ports, netdevs}: what of the health grows, and when it was read by the clock of the node."""
    up = re.match(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ", (tree.text("/proc/uptime") or "") + " ")
    boot = (tree.text(BOOT_ID) or "")[:_MOST_TEXT] or None
    devices = _devices(tree)
    return {
        "uptime_s": float(up.group(1)) if up else None,
        "boot_id": boot,
        "ports": [port for device in devices for port in _ports(tree, device)],
        "netdevs": [_netdev(tree, device, name) for device in devices for name in _netdevs_of(tree, device)],
    }


def read_health(tree: Tree) -> dict[str, t.Any]:
    """The key health of ansible_facts.rdma (docs/facts.schema.json). A counter that is not there is None: that is not zero."""
    ports, netdevs, temperatures = [], [], []
    for device in _devices(tree):
        ports += _ports(tree, device)
        netdevs += [_netdev(tree, device, name) for name in _netdevs_of(tree, device)]
        temperatures += _temperatures(tree, device)
    return {"ports": ports, "netdevs": netdevs, "temperatures": temperatures}

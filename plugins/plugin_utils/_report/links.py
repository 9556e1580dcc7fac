# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of a node as data: state, rate, what the plan says, and how well their links are. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.nodes import Decisions
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    MOST,
    NOTHING,
    Json,
    as_map,
    as_maps,
    clean,
    in_figures,
    plural,
)

__all__ = ["links_view", "port_rows"]

# Counters that grow when something is wrong. What only tells of much traffic (waits, congestion marks) is not among them, nor what every
# InfiniBand network counts (VL15_dropped, port_rcv_switch_relay_errors).
_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
_HARDWARE_ERRORS = (
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "rx_icrc_encapsulated",
    "retry_exceeded_err",
    "completer_retry_err",
)
_WIRE_ERRORS = ("rx_crc_errors", "rx_errors", "tx_errors")
# What only the driver of an Ethernet card tells of its wire.
_PHY_ERRORS = ("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "tx_pause_storm_error_events")
_MAX_ROWS = 24


class _Health:
    """What the facts of a node say of the health of its ports."""

    def __init__(self, facts: Json) -> None:
        health = as_map(facts.get("health"))
        self.ports = {(str(one.get("device")), str(one.get("port"))): one for one in as_maps(health.get("ports"))}
        self.netdevs = {str(one.get("netdev")): one for one in as_maps(health.get("netdevs"))}
        self.celsius: dict[str, float] = {}
        for one in as_maps(health.get("temperatures")):
            degrees, device = _number(one.get("celsius")), str(one.get("device"))
            if degrees is not None:
                self.celsius[device] = max(degrees, self.celsius.get(device, 0.0))

    def errors(self, device: str, port: Json) -> dict[str, int]:
        """Counters of errors of a port and its wire, those that the node shows."""
        own = as_map(self.ports.get((device, str(port.get("number")))))
        found = _counted(as_map(own.get("counters")), _ERRORS) | _counted(
            as_map(own.get("hw_counters")), _HARDWARE_ERRORS
        )
        for netdev in as_maps(port.get("netdevs")):
            wire = as_map(self.netdevs.get(str(netdev.get("name"))))
            found |= _counted(as_map(wire.get("statistics")), _WIRE_ERRORS) | _counted(wire, ("carrier_downs",))
            found |= _counted(as_map(wire.get("counters")), _PHY_ERRORS)
        return found

    def cable(self, port: Json) -> str | None:
        for netdev in as_maps(port.get("netdevs")):
            cable = as_map(as_map(self.netdevs.get(str(netdev.get("name")))).get("cable"))
            parts = [str(cable[key]) for key in ("vendor", "part", "serial") if cable.get(key)]
            if parts:
                return clean(" ".join(parts), 120)
        return None


def _counted(counters: Json, names: t.Iterable[str]) -> dict[str, int]:
    found = {name: counters.get(name) for name in names}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64
    }


def port_rows(host: str, facts: Json, decisions: Decisions, places: t.Mapping[tuple[str, str, str], str]) -> list[Json]:
    """A row for each port. places: names of leaves by host, device and port."""
    health = _Health(facts)
    rows = []
    for device in as_maps(facts.get("devices")):
        name = str(device.get("name"))
        for port in as_maps(device.get("ports")):
            rows.append(
                {
                    "device": clean(name, 80),
                    "port": clean(port.get("number"), 8),
                    "link_layer": clean(port.get("link_layer") or "unknown", 20),
                    "state": clean(port.get("state") or "unknown", 20),
                    "rate_gbps": _number(port.get("rate_gbps")),
                    "decision": decisions.of(name, port.get("number"))[0],
                    "leaf": places.get((host, name, str(port.get("number")))),
                    "errors": health.errors(name, port),
                    "temperature_celsius": health.celsius.get(name),
                    "pcie": _pcie(as_map(device.get("pcie"))),
                    "pcie_part": _pcie_part(as_map(device.get("pcie"))),
                    "cable": health.cable(port),
                }
            )
    return rows


def _number(value: t.Any) -> float | None:
    """A figure that a port can have."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value < MOST else None


def _pcie(link: Json) -> str | None:
    """The PCIe link of a card in words, as 8 lanes of 32 GT/s."""
    width, speed = _number(link.get("width")), _number(link.get("speed_gts"))
    return f"x{in_figures(width)} at {in_figures(speed)} GT/s" if width and speed else None


def _pcie_part(link: Json) -> float | None:
    """What part of what it could have it has."""
    has, could = (
        [_number(link.get(key)) for key in keys] for keys in (("width", "speed_gts"), ("max_width", "max_speed_gts"))
    )
    if not all(has) or not all(could):
        return None
    return round((has[0] or 0) * (has[1] or 0) / ((could[0] or 1) * (could[1] or 1)), 3)


def links_view(members: t.Mapping[str, Json]) -> Json | None:
    """Ports with something to say, the worst first; None where no node tells of the health of its links. members: nodes by name."""
    ports = [(host, port) for host, node in members.items() for port in node["ports"]]
    told = [(host, port) for host, port in ports if port["errors"] or port["pcie_part"] is not None]
    if not told:
        return None
    ill = [(host, port) for host, port in told if _errors(port) or (port["pcie_part"] or 1) < 1]
    ill.sort(key=lambda item: (item[1]["pcie_part"] or 1, -sum(_errors(item[1]).values()), natural_key(item[0])))
    narrow = sum((port["pcie_part"] or 1) < 1 for _host, port in told)
    counted = sum(bool(_errors(port)) for _host, port in told)
    hottest = max((port["temperature_celsius"] or 0 for _host, port in told), default=0)
    return {
        "summary": f"{plural(len(told), 'port')}: {counted or 'none'} with errors counted since the driver was loaded, "
        f"{narrow or 'none'} with less PCIe bandwidth than the card can have"
        + (f"; the hottest card has {in_figures(hottest)} °C" if hottest else ""),
        "rows": [_row(host, port) for host, port in ill[:_MAX_ROWS]],
        "more": max(0, len(ill) - _MAX_ROWS),
    }


def _errors(port: Json) -> dict[str, int]:
    """Counters that say that something is wrong. A link that has come up was down before."""
    return {name: count for name, count in port["errors"].items() if count and name != "carrier_downs"}


def _row(host: str, port: Json) -> Json:
    errors = [f"{name} {count}" for name, count in port["errors"].items() if count]
    part = port["pcie_part"]
    narrow = part is not None and part < 1
    heat = port["temperature_celsius"]
    return {
        "host": clean(host, 120),
        "port": f"{port['device']} port {port['port']}",
        "where": clean(", ".join(each for each in (port["leaf"], port["cable"]) if each) or NOTHING, 200),
        "errors": clean(", ".join(errors), 300) or "none",
        "pcie": (f"{port['pcie']}, {100 * part:.0f} % of what the card can" if narrow else port["pcie"]) or NOTHING,
        "narrow": narrow,
        "heat": f"{in_figures(heat)} °C" if heat is not None else NOTHING,
    }

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports of a host a group wants and can use, and why not the others. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port, Refused

__all__ = [
    "device_refusal",
    "driver_of_function",
    "names_of",
    "patient",
    "port_refusal",
    "ports_out_of_use",
    "refused_in_words",
    "under_default_route",
    "usable_ports",
]

Json = t.Dict[str, t.Any]


def names_of(device: t.Mapping[str, t.Any]) -> set[str]:
    """Everything under which a user may exclude a device: RDMA name, PCI address, netdevs, bond; of a LAG also those of each member."""
    names = {device["name"], device["pci"] or "", *device["netdevs"]}
    if device["lag"]:
        # one device for all members: the second leg has none of its own
        names.update(
            (device["lag"]["netdev"], *(name for each in device["lag"]["members"] for name in each.values() if name))
        )
    # members of a bond that is not a LAG have devices of their own
    names.update(netdev["master"] for port in device["ports"] for netdev in port["netdevs"] if netdev["master"])
    return names


def driver_of_function(device: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The driver that the plugins compare (/sys/bus/pci/devices/*/driver). A software device has another one of its own.

    Facts of earlier versions do not tell it, and have no software device at a PCI function.
    """
    driver: t.Optional[str] = device["plugin"].get("driver", device["driver"])
    return driver


def _bond_words(device: t.Mapping[str, t.Any], port: t.Mapping[str, t.Any]) -> str:
    """``Ethernet bond bond0 (active-backup)`` for a LAG, ``Ethernet, enslaved to bond0`` for a member with its own device."""
    if device["lag"]:
        mode = device["lag"]["mode"]
        return "{} bond {}{}".format(port["link_layer"], device["lag"]["netdev"], f" ({mode})" if mode else "")
    masters = sorted({netdev["master"] for netdev in port["netdevs"] if netdev["master"]})
    return f"{port['link_layer']}, enslaved to {', '.join(masters)}" if masters else str(port["link_layer"])


def device_refusal(device: t.Mapping[str, t.Any], want: Json) -> t.Optional[str]:
    """Why no port of a device is wanted, whatever its state; None when the ports decide."""
    kind = device["kind"]
    if kind == "smi":
        return "management-only device (SMI): it carries no data"
    if kind not in want["kinds"]:
        words = {
            "vf": "virtual function" + (f" of {device['sriov']['pf']}" if device["sriov"]["pf"] else ""),
            "sf": "sub-function",
            "pf": "physical function",
            "software": f"software device ({device['driver'] or 'unknown driver'})",
        }
        return f"{words[kind]}, the group wants kinds {', '.join(want['kinds'])}"
    excluded = sorted(names_of(device) & set(want["exclude"])) if want["exclude"] else []
    return f"excluded by name ({', '.join(excluded)})" if excluded else None


def port_refusal(device: t.Mapping[str, t.Any], port: t.Mapping[str, t.Any], want: Json) -> t.Optional[str]:
    """Why a port is not wanted, None when it is."""
    if port["link_layer"] != want["link_layer"]:
        if port["link_layer"] is None:
            return f"link layer unknown, the group wants {want['link_layer']}"
        return f"{_bond_words(device, port)}, the group wants {want['link_layer']}"
    if want["state"] == "Active" and port["state"] != "Active":
        return f"port is {port['state'] or 'in an unknown state'} (phys state {port['phys_state'] or 'unknown'}), the group wants Active"
    rate = port["rate_gbps"]
    # one that is down says its last rate, or that of a link which is still being trained
    if port["state"] == "Active" and want["min_rate_gbps"] and (rate is None or rate < want["min_rate_gbps"]):
        return "{}, the group wants at least {:g} Gb/s".format(
            "rate unknown"
            if rate is None
            else "{:g} Gb/s{}".format(rate, f" ({port['width']} {port['speed']})" if port["speed"] else ""),
            want["min_rate_gbps"],
        )
    return None


def usable_ports(facts: t.Mapping[str, t.Any], want: t.Mapping[str, t.Any]) -> tuple[list[Port], list[Refused]]:
    """(wanted, refused) ports of one host, not asking what the plugin sees.

    Of refused ones, port is None when the whole device is refused. want is as validate_wishes() returns it.
    """
    wish = dict(want)
    wanted: list[Port] = []
    refused: list[Refused] = []
    for device in facts.get("devices", []):
        reason = device_refusal(device, wish)
        if reason or not device["ports"]:
            netdev = device["netdevs"][0] if device["netdevs"] else None
            refused.append(
                {"device": device["name"], "port": None, "netdev": netdev, "reason": reason or "it has no ports"}
            )
            continue
        for port in device["ports"]:
            netdev = port["netdevs"][0]["name"] if port["netdevs"] else None
            reason = port_refusal(device, port, wish)
            if reason:
                refused.append({"device": device["name"], "port": port["number"], "netdev": netdev, "reason": reason})
            else:
                wanted.append(
                    {
                        "device": device["name"],
                        "port": port["number"],
                        "rate_gbps": port["rate_gbps"],
                        "link_layer": port["link_layer"],
                        "netdev": netdev,
                        "pci": device["pci"],
                    }
                )
    return wanted, refused


def under_default_route(facts: t.Mapping[str, t.Any]) -> set[str]:
    """Netdevs that carry the default route of a host: those that it names, and all below them, such as members of a bond."""
    named = (facts.get("management") or {}).get("default_route_netdevs") or ()
    return {*named, *((facts.get("roce") or {}).get("under_default_route") or ())}


def patient(want: t.Mapping[str, t.Any]) -> Json:
    """The same wish, whatever a cable, a switch or a subnet manager makes of a port."""
    return {**want, "state": "any", "min_rate_gbps": 0}


def ports_out_of_use(facts: t.Mapping[str, t.Any], want: t.Mapping[str, t.Any]) -> list[Refused]:
    """Refused ports of a host that would be wanted but for their state or rate."""
    able = {(row["device"], row["port"]) for row in usable_ports(facts, patient(want))[0]}
    return [row for row in usable_ports(facts, want)[1] if (row["device"], row["port"]) in able]


def refused_in_words(refused: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """Why ports are not wanted; empty without one."""
    return "; ".join(
        "{}{}: {}".format(row["device"], "" if row["port"] is None else f" port {row['port']}", row["reason"])
        for row in refused
    )

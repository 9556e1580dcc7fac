# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of the SR-IOV network device plugin from the same facts and pools. Private. Pure.

The model follows sriov-network-device-plugin (pkg/netdevice, pkg/devices, pkg/utils, pkg/resources/deviceSelectors.go): it lists
PCI functions of class 02 that have a driver, leaves out physical functions that have virtual ones, and with isRdma keeps those that
have an RDMA device, whatever its driver and its character devices. Since 3.5.1 only virtual functions have the name of a physical
one. What else depends on its version is looked at in each of them:

- since 3.6.0, a virtual function without a netdev has the link type of its physical function;
- since 3.8.0, a function without an RDMA device counts as one that has, when devlink has ``enable_rdma`` for it. No fact says
  whether it has: that may be so for each function that mlx5_core drives, and no configuration offers one of them.

A function that carries the default route is not to be offered, and cannot be relied upon to be left out: the versions before 3.8.0
leave it out where the route is one of IPv4 with a single next hop, and later ones never do (their netlink library gives such a route a
destination, pkg/utils/utils.go asks for one without).

The newest that was looked at is 3.11.0, which selects as 3.8.0 does.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Sriov
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import driver_of_function, under_default_route
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import (
    SRIOV,
    Function,
    explain,
    search_all,
    traits_of,
)

__all__ = ["NETDEV_TYPES", "VERSIONS", "sriov_config", "sriov_functions", "without_sriov"]

Json = t.Dict[str, t.Any]

# The versions that see different things, by the first of each.
VERSIONS = ("3.5.1", "3.6.0", "3.8.0")
NETDEV_TYPES = {"Ethernet": "ether", "InfiniBand": "infiniband"}
_IN_USE = "it carries the default route of the host"
# Which of them one configuration is to be exact for, the more the better and the newer the better.
_HOLDS = (
    ("3.5.1 or newer", VERSIONS),
    ("3.6.0 or newer", VERSIONS[1:]),
    ("3.8.0 or newer", VERSIONS[2:]),
    ("3.5.1 to 3.7.0", VERSIONS[:2]),
)


def _refusal(device: t.Mapping[str, t.Any], routes: t.Collection[str]) -> t.Optional[str]:
    """Why the PCI function of a device is not offered, or not to be offered, None when it is."""
    if device["kind"] == "sf":
        return "a sub-function is not a PCI function (deviceType auxNetDevice, which is not planned)"
    if device["class"] is not None and not device["class"].startswith("02"):
        return f"PCI class {device['class']} is not a network controller"
    if not driver_of_function(device):
        return "it has no driver"
    if device["kind"] in ("pf", "software") and device["sriov"]["vfs"]:
        return f"it has {device['sriov']['vfs']} virtual functions, which the plugin offers in its place"
    legs = {member["netdev"] for member in device["lag"]["members"]} if device["lag"] else set()
    return _IN_USE if (_own_netdevs(device) | legs) & set(routes) else None


def _ids(device: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    """Vendor, device ID and driver of a device's PCI function."""
    return device["vendor"] or "", device["device"] or "", driver_of_function(device) or ""


def _own_netdevs(device: t.Mapping[str, t.Any]) -> set[str]:
    """Netdevs of a device's PCI function. Soft-RoCE may be on another one, such as a VLAN."""
    if device["kind"] == "software":
        return {device["plugin"]["if_name"]} - {""}
    return set(device["netdevs"])


def _uplinks(facts: t.Mapping[str, t.Any]) -> dict[str, tuple[str, t.Optional[str]]]:
    """{PCI address: (name, link type)} of physical functions. With representors beside it, it is the uplink's name."""
    found: dict[str, tuple[str, t.Optional[str]]] = {}
    # of a function with both sorts of devices, the card's own knows best
    for row in sorted(facts["devices"], key=lambda row: bool(row["kind"] == "pf")):
        if row["kind"] in ("pf", "software") and row["pci"] and not row["sriov"]["pf"]:
            found[row["pci"]] = (min(_own_netdevs(row), default=""), row["plugin"]["link_type"])
    for row in facts["devices"]:
        for member in row["lag"]["members"] if row["lag"] else ():
            # a leg without an RDMA device of its own, whose virtual functions have theirs
            if member["pci"]:
                found.setdefault(member["pci"], (member["netdev"], "ether"))
    for row in facts.get("bare_functions", ()):
        if not row["sriov"]["pf"]:
            found.setdefault(row["pci"], (min(row["netdevs"], default=""), row["link_type"]))
    return found


def _links(device: t.Mapping[str, t.Any], physical: t.Optional[str], version: str) -> list[str]:
    """The link types that a version may see a function with. physical: that of its physical function, None where it is not known."""
    if device["plugin"]["if_name"] or not device["sriov"]["pf"] or version == VERSIONS[0]:
        return [device["plugin"]["link_type"]]
    if physical is not None:
        return [physical]
    # it has no RDMA device, and may have a netdev, which is then of the sort of these ports
    layers = {port["link_layer"] for port in device["ports"]}
    return ["", *(NETDEV_TYPES[layer] for layer in sorted(layers) if layer in NETDEV_TYPES)]


def sriov_functions(
    host: str, facts: t.Mapping[str, t.Any], functions: t.Sequence[Function]
) -> tuple[dict[str, list[Function]], list[str]]:
    """(functions as each version of this plugin sees or may see them, why it cannot offer some that are wanted).

    functions: those of the shared plugin, of which pool and reason are taken.
    """
    routes = under_default_route(facts)
    known = {function.pci: function for function in functions}
    uplinks = _uplinks(facts)
    found: dict[str, dict[str, list[Function]]] = {version: {} for version in VERSIONS}
    refusals: list[str] = []
    for device in facts["devices"]:
        pci = device["pci"]
        if not pci or pci in found[VERSIONS[0]]:
            continue
        shared = known.get(pci)
        reason = _refusal(device, routes)
        if reason and shared and shared.pool:
            refusals.append(f"host {host}: {device['name']} ({pci}) is wanted, but {reason}")
        if reason not in (None, _IN_USE):
            continue
        name, link = uplinks.get(device["sriov"]["pf"], ("", None))
        for version in VERSIONS:
            found[version][pci] = [
                Function(
                    values=(*_ids(device), own, name, pci),
                    pool=shared.pool if shared else "",
                    pci=pci,
                    devices=(device["name"],),
                    ports=shared.ports if shared else (),
                    why=shared.why if shared else device["plugin"]["reason"] or "",
                )
                for own in _links(device, link, version)
            ]
    for leg in _legs(facts):
        found[VERSIONS[-1]].setdefault(leg.pci, [leg])
    for row in facts.get("bare_functions", ()):
        found[VERSIONS[-1]].setdefault(row["pci"], list(_bare(row, uplinks)))
    return {version: [row for pci in sorted(own) for row in own[pci]] for version, own in found.items()}, refusals


def _legs(facts: t.Mapping[str, t.Any]) -> t.Iterator[Function]:
    """The functions of LAGs that have lost their RDMA devices to it. There is no devlink parameter for software."""
    for device in facts["devices"]:
        for member in device["lag"]["members"] if device["lag"] and device["kind"] != "software" else ():
            if member["pci"] not in (None, device["pci"]):
                yield Function(
                    values=(*_ids(device), "ether", "", member["pci"]),
                    pool="",
                    pci=member["pci"],
                    devices=(member["netdev"],),
                    ports=(),
                    why=f"the other leg of {device['lag']['netdev']}, which has no RDMA device of its own",
                )


def _bare(row: t.Mapping[str, t.Any], uplinks: t.Mapping[str, tuple[str, t.Optional[str]]]) -> t.Iterator[Function]:
    """A function that has no RDMA device, as the plugin may see it; none where it offers its virtual functions in its place."""
    if row["sriov"]["vfs"]:
        return
    name, link = uplinks.get(row["sriov"]["pf"], ("", None))
    links = [row["link_type"]]
    if not row["netdevs"] and row["sriov"]["pf"]:
        links = ["", *NETDEV_TYPES.values()] if link is None else [link]
    for own in links:
        yield Function(
            values=(row["vendor"], row["device"] or "", row["driver"], own, name, row["pci"]),
            pool="",
            pci=row["pci"],
            # what reasons call it
            devices=(*row["netdevs"][:1], "a function without a netdev")[:1],
            ports=(),
            why="it has no RDMA device, and counts as RDMA all the same where devlink has enable_rdma for it",
        )


def without_sriov(reason: t.Optional[str] = None) -> Sriov:
    """No configuration, and why."""
    return {"config": None, "versions": None, "reason": reason}


def sriov_config(
    places: t.Mapping[str, t.Mapping[str, t.Sequence[Function]]],
    refusals: t.Sequence[str],
    pools: t.Mapping[str, Json],
) -> Sriov:
    """The configuration for these hosts and the versions that it holds for, or why none is exact.

    places: functions by host and version of the plugin. pools: {resource: {name, prefix}}.
    """
    if refusals:
        return without_sriov(refusals[0])
    for words, versions in _HOLDS:
        traits = frozenset().union(*(traits_of(own[version]) for own in places.values() for version in versions))
        selectors = search_all(SRIOV, traits)
        if selectors is not None:
            resources = [
                {
                    "resourceName": pools[pool]["name"],
                    "resourcePrefix": pools[pool]["prefix"],
                    "deviceType": "netDevice",
                    # an object: the versions before 3.6.0 take no list of them
                    "selectors": {**selectors[pool], "isRdma": True},
                }
                for pool in pools
                if pool in selectors
            ]
            return {"config": {"resourceList": resources}, "versions": words, "reason": None}
    newest = {host: own[VERSIONS[-1]] for host, own in places.items()}
    for host in sorted(newest):
        reason = explain(SRIOV, {host: newest[host]})
        if reason:
            return without_sriov(reason)
    return without_sriov(explain(SRIOV, newest))

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of the SR-IOV network device plugin from the same facts and pools. Private. Pure.

The model follows sriov-network-device-plugin (pkg/netdevice, pkg/resources/deviceSelectors.go): it lists PCI functions of class
02 that have a driver, leaves out those that carry the default route and physical functions that have virtual ones, and with
isRdma keeps those that have an RDMA device, whatever its character devices. What is in the facts is all that can match.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._solver import (
    SRIOV,
    Function,
    classes_of,
    explain,
    search_all,
    traits_of,
)

__all__ = ["sriov_config", "sriov_functions"]

Json = t.Dict[str, t.Any]


def _refusal(device: t.Mapping[str, t.Any], routes: t.Collection[str]) -> t.Optional[str]:
    """Why the plugin does not offer the PCI function of a device, None when it does."""
    if device["kind"] == "sf":
        return "a sub-function is no PCI function (deviceType auxNetDevice, which is not planned)"
    if device["class"] is not None and not device["class"].startswith("02"):
        return "PCI class %s is no network controller" % device["class"]
    if not device["driver"]:
        return "it has no driver"
    if set(device["netdevs"]) & set(routes):
        return "it carries the default route of the host"
    if device["kind"] == "pf" and device["sriov"]["vfs"]:
        return "it has %d virtual functions, which the plugin offers in its place" % device["sriov"]["vfs"]
    return None


def sriov_functions(
    host: str, facts: t.Mapping[str, t.Any], functions: t.Sequence[Function]
) -> t.Tuple[t.List[Function], t.List[str]]:
    """(functions as this plugin sees them, why it cannot offer some that are wanted).

    functions: those of the shared plugin, of which pool and reason are taken.
    """
    routes = (facts.get("management") or {}).get("default_route_netdevs") or ()
    known = {function.pci: function for function in functions}
    names = {row["pci"]: row["plugin"]["if_name"] for row in facts["devices"] if row["kind"] == "pf"}
    found: t.Dict[str, Function] = {}
    refusals: t.List[str] = []
    for device in facts["devices"]:
        pci = device["pci"]
        if not pci or pci in found:
            continue
        shared = known.get(pci)
        reason = _refusal(device, routes)
        if reason:
            if shared and shared.pool:
                refusals.append("host %s: %s (%s) is wanted, but %s" % (host, device["name"], pci, reason))
            continue
        virtual = device["sriov"]["pf"]
        found[pci] = Function(
            values=(
                device["vendor"] or "",
                device["device"] or "",
                device["driver"],
                device["plugin"]["link_type"],
                names.get(virtual, "") if virtual else device["plugin"]["if_name"],
                pci,
            ),
            pool=shared.pool if shared else "",
            pci=pci,
            devices=(device["name"],),
            ports=shared.ports if shared else (),
            why=shared.why if shared else device["plugin"]["reason"] or "",
        )
    return [found[pci] for pci in sorted(found)], refusals


def sriov_config(
    places: t.Mapping[str, t.Sequence[Function]], refusals: t.Sequence[str], pools: t.Mapping[str, Json]
) -> Json:
    """{config, reason}: the configuration for these hosts, or why there is none that is exact.

    places: functions by host. pools: {resource: {name, prefix}}.
    """
    if refusals:
        return {"config": None, "reason": refusals[0]}
    selectors = search_all(SRIOV, frozenset().union(*map(traits_of, places.values())))
    if selectors is None:
        alone = classes_of(SRIOV, places, "auto")[1]
        return {"config": None, "reason": explain(SRIOV, {alone: places[alone]} if alone else places)}
    return {
        "config": {
            "resourceList": [
                {
                    "resourceName": pools[pool]["name"],
                    "resourcePrefix": pools[pool]["prefix"],
                    "deviceType": "netDevice",
                    "selectors": [{**selectors[pool], "isRdma": True}],
                }
                for pool in pools
                if pool in selectors
            ]
        },
        "reason": None,
    }

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices of two hosts are at the same place, whatever they are called. Private to the collection. Pure."""

from __future__ import annotations

import collections
import re
import typing as t

__all__ = ["Place", "places_of"]

Json = t.Dict[str, t.Any]
# A number of the make of a host, and a PCI address.
Place = t.Tuple[int, str]
# Where the cards of a host are: their PCI addresses, behind those of the bridges above them.
Frame = t.FrozenSet[t.Tuple[str, ...]]

# Names with which the kernel counts the devices that are there (ib_register_device of each driver). Another name was given to a device for
# what it is: by its place (udev's ibp59s0), or by an administrator.
_COUNTED = re.compile(
    r"(mlx[45]_|mthca|bnxt_re|irdma|i40iw|hfi1_|qib|cxgb4_|hns_|efa_|erdma_|mana_|ionic_|qedr|ocrdma|usnic_|vmw_pvrdma)\d+"
)


def places_of(facts: t.Mapping[str, Json]) -> dict[str, dict[str, Place]]:
    """{host: {device: its place}}, for the hosts of a group. Devices of two hosts with the same place are on the same rail.

    Hosts are of one make where some host of the group has a card at each address at which any of them has one, below the same bridges, and
    no host does that has others as well: a card that was lost leaves a gap, and with another card in front all addresses are others. All
    cards count, whatever became of their ports. A device is left out where its name, or nothing, tells its rail: hosts without another of
    their make, names that nobody counted, addresses that are unknown or of several devices.
    """
    frames = {host: frozenset(_cards(one)) for host, one in facts.items()}
    makes = _makes(frames.values())
    times = collections.Counter(makes[frame] for frame in frames.values())
    found: dict[str, dict[str, Place]] = {}
    for host, frame in frames.items():
        make = makes[frame]
        if make is None or times[make] < 2:
            continue
        at = collections.Counter(device["pci"] for device in facts[host]["devices"])
        found[host] = {
            device["name"]: (make, device["pci"])
            for device in facts[host]["devices"]
            if device["pci"] and at[device["pci"]] == 1 and _COUNTED.fullmatch(device["name"])
        }
    return found


def _cards(facts: Json) -> t.Iterator[tuple[str, ...]]:
    for device in facts["devices"]:
        if device["kind"] == "pf" and device["pci"]:
            yield (*(device.get("bridges") or ()), device["pci"])


def _makes(frames: t.Iterable[Frame]) -> dict[Frame, t.Optional[int]]:
    """The make of each set of cards: the number of the largest set that has all of it, and None where no set has, or several have."""
    largest: list[Frame] = []
    having: dict[tuple[str, ...], list[int]] = {}
    makes: dict[Frame, t.Optional[int]] = {}
    for frame in sorted(set(frames), key=lambda one: (-len(one), sorted(one))):
        # those that have the card that the fewest have
        least = min((having.get(card, []) for card in frame), key=len, default=[])
        around = [number for number in least if frame <= largest[number]]
        if not around and frame:
            around = [len(largest)]
            for card in frame:
                having.setdefault(card, []).append(len(largest))
            largest.append(frame)
        makes[frame] = around[0] if len(around) == 1 else None
    return makes

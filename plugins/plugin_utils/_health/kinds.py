# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of findings on cards, links and cables, for docs/troubleshooting.md. Private to the collection. Data only."""

from __future__ import annotations

import typing as t

__all__ = ["CABLES", "LINKS", "PAUSED", "PAUSES", "Kind"]


class Kind(t.NamedTuple):
    """severity: error, warning or note, or two of them where figures decide. cause: as findings have it, without names.

    remedy: as findings have it, with PCI for the address of a card that they name.
    """

    id: str
    severity: str
    title: str
    cause: str
    remedy: str


# Of the two sides of a pause.
PAUSES = "look at it first: PCIe link, IOMMU, memory, a hung process; one such host stops others behind its switch"
PAUSED = (
    "look for the host that sends pauses (tx_prio*_pause), and let ECN slow senders before PFC has to (rdma_roce_host)"
)

# What the rules in rules.py tell, in their order.
LINKS = (
    Kind(
        "pcie-degraded",
        "warning, or error when its Active ports need more",
        "The PCIe link of a card is slower than it can be",
        "fewer lanes or a lower speed came up than card and slot can do",
        "reseat the card and look for errors of its slot (`lspci -vv -s PCI | grep -e LnkSta -e LnkCap`, `dmesg | grep -i -e aer -e pcie`), then "
        "look at the BIOS settings of the slot (bifurcation, speed)",
    ),
    Kind(
        "pcie-slot",
        "warning, or note when it carries each of them alone",
        "A slot carries less than the ports of its card",
        "card and slot do what they can, and the ports are faster",
        "move the card to a slot with more or faster lanes, or expect no more than it carries (rdma_want, verify_min_gbps)",
    ),
    Kind(
        "pcie-unlike-neighbours",
        "warning",
        "A slot is slower than the same one on other hosts",
        "the card does what it can there, and the other hosts of the group give it more",
        "compare slot, riser and BIOS settings of the hosts; the card may be in another slot than meant",
    ),
    Kind(
        "firmware-differs",
        "warning",
        "Cards of one board have several versions of firmware",
        "some cards were updated and others not, or one was replaced",
        "bring all cards of a board to one firmware (`mstflint -d PCI burn`, or mlxfwmanager), then reset or reboot",
    ),
    Kind(
        "psid-differs",
        "warning",
        "Cards of one slot are of different boards",
        "the PSID differs between the hosts of a group",
        "expect other limits and firmware of the odd ones; replace them, or put their hosts into a group of their own",
    ),
    Kind(
        "port-slower",
        "warning",
        "A port is slower than those of the other hosts",
        "the link came up with fewer lanes or at a lower speed",
        "look at the cable and at the port of the switch: fewer lanes mean a damaged or half-seated cable, a lower speed one that is rated "
        "below the others or a speed that somebody set",
    ),
    Kind(
        "mtu-differs",
        "warning for Ethernet, note for InfiniBand",
        "The MTU differs between hosts",
        "netdevs of one slot have several MTUs in the group",
        "set one MTU for all hosts of the fabric and their switch ports (rdma_roce_host.mtu), for RoCE 4200 or more",
    ),
    Kind(
        "link-flapping",
        "warning",
        "A link comes and goes",
        "it was lost many times since its driver was loaded, and the links of other hosts were not",
        "clean or replace the cable and its transceivers, and look at the log of the switch's port",
    ),
    Kind(
        "pause-storm",
        "warning, or error when the card has counted a storm",
        "A port is paused, or pauses others, all the time",
        "the host cannot keep up with incoming traffic, or a receiver behind the switch cannot",
        f"where the host sends pauses, {PAUSES}; where it is paused, {PAUSED}",
    ),
    Kind(
        "link-errors",
        "note",
        "A link has had errors",
        "symbol or receive errors were counted since the driver was loaded",
        "run verify: it fails for links whose errors grow under load",
    ),
    Kind(
        "too-hot",
        "warning, or error from the limit on",
        "A card is hot",
        "a sensor of the card is close to its critical temperature",
        "look at fans, air flow and blanking plates of the host; a card that is too hot slows down or stops",
    ),
)
# What the map of the fabric tells (_fabric/cables.py).
CABLES = (
    Kind(
        "cables-exchanged",
        "warning",
        "Two cables are swapped",
        "each of the two ports is at the leaf where the other one belongs, by the rails of the other hosts",
        "swap the two cables that the finding names, at the switches or at the host",
    ),
    Kind(
        "rail-off-leaf",
        "warning",
        "A cable is at another leaf than its rail",
        "the other hosts have this rail at one leaf, and this host has it elsewhere",
        "move the cable to a port of the leaf that the finding names",
    ),
    Kind(
        "rails-in-another-order",
        "warning",
        "Hosts have their rails in another order",
        "two kinds of hosts, as many of each, have their rails at the same leaves in another order",
        "find out which of the two is meant, and swap the cables on the other",
    ),
    Kind(
        "port-in-another-subnet",
        "error",
        "A port is in another subnet than its rail",
        "the subnet prefix differs from that of the same rail on most hosts",
        "look at the cable, and at the prefix that the subnet manager of that fabric gives",
    ),
    Kind(
        "port-in-another-fabric",
        "warning",
        "A port is in no fabric that was seen",
        "the host that looked at the fabric does not reach it",
        "look at its cable; if it has a fabric of its own on purpose, give its host a group of its own",
    ),
)

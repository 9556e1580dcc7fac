# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expressions in the Common Expression Language that select devices of DRANET. Private. Pure.

As the scheduler evaluates them (k8s.io/dynamic-resource-allocation/cel): an attribute that is looked up and not there is an error
that ends the allocation, not only that of the device, so that each is asked for before it is read. Expressions are at most 10 KiB.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DOMAIN, DRIVER, NO_LINK

__all__ = ["FILTER", "NOTHING", "TOO_LONG", "expression", "literal"]

# k8s.io/api/resource/v1, CELSelectorExpressionMaxLength
TOO_LONG = 10 * 1024

# DRANET's own filter (--filter) has another environment (cmd/dranet/app.go): what it lets through is published. Nothing but RDMA
# functions, so that no claim of anybody takes a node's other network cards, bridges or tunnels from it. Both attributes stay while a
# Pod has the netdev.
FILTER = '"dra.net/pciAddress" in attributes && "dra.net/rdma" in attributes && attributes["dra.net/rdma"].BoolValue'
# Publishes nothing, and still takes back what Pods have.
NOTHING = "false"

_ATTRIBUTES = f'device.attributes["{DOMAIN}"]'
_BASE = (
    f'device.driver == "{DRIVER}"',
    f'"rdma" in {_ATTRIBUTES}',
    f"{_ATTRIBUTES}.rdma",
    f'"pciAddress" in {_ATTRIBUTES}',
)
_NUMBERS = ("numaNode",)


def literal(text: str) -> str:
    """A text as a literal that means nothing but itself: all but printable ASCII is escaped."""
    found = []
    for sign in text:
        if sign in '"\\':
            found.append("\\" + sign)
        elif " " <= sign <= "~":
            found.append(sign)
        else:
            found.append(f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}")
    return '"' + "".join(found) + '"'


def _term(kind: str, values: t.Sequence[str]) -> str:
    there = f'"{kind}" in {_ATTRIBUTES}'
    plain = [value if kind in _NUMBERS else literal(value) for value in values if value != NO_LINK or kind in _NUMBERS]
    test = f"{_ATTRIBUTES}.{kind}" + (f" == {plain[0]}" if len(plain) == 1 else f" in [{', '.join(plain)}]")
    if NO_LINK not in values:
        return f"{there} && {test}"
    return f"(!({there}) || {test})" if plain else f"!({there})"


def expression(selectors: t.Mapping[str, t.Sequence[str]]) -> str:
    """The selector of a DeviceClass. selectors: lists of values by kind, AND between kinds, OR inside one, as the solver gives them."""
    return " && ".join((*_BASE, *(_term(kind, selectors[kind]) for kind in selectors)))

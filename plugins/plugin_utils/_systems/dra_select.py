# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for device classes of DRA that select exactly what a plan wants. Private. Pure.

The same search as for the device plugins, with other kinds. A DeviceClass is for the whole cluster, so besides what else there is on the
hosts of its class, the search looks at the hosts of all other classes that DRANET serves.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Selectors
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import (
    Catalogue,
    Function,
    Plugin,
    explain,
    matched,
    traits_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import TOO_LONG, expression
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import (
    DOMAIN,
    NO_LINK,
    Attributes,
    Published,
    published,
)

__all__ = ["KINDS", "Choice", "choose", "pools_by_pci"]

Json = dict[str, t.Any]

# Attributes by which devices are told apart: model and link first, then where a card is, then names and addresses.
KINDS = ("pciVendor", "pciDevice", "encapsulation", "numaNode", "ifName", "pciAddress")
_DRANET = Plugin(
    KINDS,
    ("ifName", "pciAddress"),
    (),
    (
        ("virtual functions", ("pciDevice", "ifName", "pciAddress")),
        ("BlueField and other models", ("pciDevice", "ifName", "pciAddress")),
        ("cards for storage, with another link", ("pciDevice", "encapsulation", "ifName", "pciAddress")),
        ("cards of other vendors", ("pciVendor", "pciDevice", "ifName", "pciAddress")),
    ),
)


class Choice(t.NamedTuple):
    """How the functions of a pool (a resource, or one of its rails) are selected on the hosts of a class.

    abroad: (class, host, RDMA device) of other classes that the selectors match, too: Pods have to be kept from these hosts.
    """

    pool: str
    rail: t.Optional[int]
    selectors: Selectors
    text: str
    abroad: list[tuple[str, str, str]]


def pools_by_pci(entry: Class, host: str) -> dict[str, str]:
    """{PCI address: resource that wants it} of a host, as the plan has it."""
    alone = entry["pools"][0]["resource"] if entry["pools"] else ""
    return {row["pci"]: row.get("resource", alone) for row in entry["matches"].get(host, ())}


def _values(view: Attributes) -> tuple[str, ...]:
    """A view as the solver takes it; what is not there, or not known, can be in no list."""
    default = {"encapsulation": NO_LINK}
    return tuple(str(view.get(f"{DOMAIN}/{kind}", default.get(kind, ""))) for kind in KINDS)


def _functions(each: Published, pool: str, examples: t.Collection[tuple[str, ...]]) -> t.Iterator[Function]:
    """A function in every form that it may have. examples: values of what is wanted, which a function may share where it is unknown."""
    for view in each.views:
        values = _values(view)
        yield Function(values, pool, each.pci or "", each.devices, (), "")
        for example in examples if each.unknown and not pool else ():
            alike = tuple(
                theirs if f"{DOMAIN}/{kind}" in each.unknown else own
                for kind, own, theirs in zip(KINDS, values, example, strict=True)
            )
            yield Function(alike, pool, each.pci or "", each.devices, (), "its kind is not known")


_Places = dict[str, list[Function]]


def _places(entry: Class, facts: t.Mapping[str, Json], move_ib: bool) -> _Places:
    """Functions by host."""
    seen = {host: published(facts[host], move_ib) for host in entry["hosts"] if host in facts}
    pools = {host: pools_by_pci(entry, host) for host in seen}
    examples: dict[str, tuple[str, ...]] = {}
    for host in sorted(seen):
        for each in seen[host]:
            if each.pci in pools[host]:
                # one of each pool: its lists have all that is wanted
                examples.setdefault(pools[host][each.pci], _values(each.views[0]))
    return {
        host: [
            function
            for each in own
            for function in _functions(each, pools[host].get(each.pci or "", ""), examples.values())
        ]
        for host, own in seen.items()
    }


def _abroad(
    entry: Class, pool: str, selectors: Selectors, places: t.Mapping[str, _Places]
) -> list[tuple[str, str, str]]:
    lists = {kind: frozenset(values) for kind, values in selectors.items()}
    found = {
        (name, host, function.devices[0])
        for name, others in places.items()
        if name != entry["name"]
        for host, functions in others.items()
        for function in functions
        if function.pool != pool and matched(_DRANET, lists, function.values)
    }
    return sorted(found)


def choose(
    classes: t.Sequence[Class], facts: t.Mapping[str, Json], move_ib: bool = True
) -> tuple[dict[str, list[Choice]], list[str]]:
    """({class: a Choice for each of its pools}, sentences on those for which no selectors are exact).

    On the hosts of its class a Choice matches what its pool wants in every form that it may have, and nothing else. Of the selectors
    that are exact there, those are taken that match nothing on hosts of other classes either, where they need neither names nor
    addresses. classes: those that DRANET serves. facts: ansible_facts.rdma by host; hosts without facts have no part.
    """
    places = {entry["name"]: _places(entry, facts, move_ib) for entry in classes}
    traits = {
        name: frozenset().union(*(traits_of(own) for own in hosts.values())) if hosts else frozenset()
        for name, hosts in places.items()
    }
    chosen: dict[str, list[Choice]] = {}
    problems = []
    for entry in classes:
        name = entry["name"]
        own = Catalogue(_DRANET, traits=traits[name])
        for row in entry["pools"]:
            pool = row["resource"]
            if pool not in own.pools:
                continue
            strangers = {
                (values, "")
                for other in traits
                if other != name
                for values, owner in traits[other]
                # the same resource of another class is as good
                if owner != pool
            }
            apart = Catalogue(_DRANET, traits=traits[name] | strangers).search(pool)
            selectors = apart if apart and not set(apart) & set(_DRANET.last) else own.search(pool)
            text = expression(selectors) if selectors else ""
            if selectors is None:
                why = explain(_DRANET, places[name], only=pool) or "no attribute of it can be in a list"
                problems.append(
                    f"class {name}: no selector is exact for {pool}: {why.replace('the plugin', 'DRANET')}. Leave the class with "
                    "the device plugin (rdma_rollout.classes), or make groups of hosts that are alike"
                )
            elif len(text) > TOO_LONG:
                problems.append(
                    f"class {name}: the selector for {pool} lists {sum(map(len, selectors.values()))} values and has {len(text)} "
                    f"characters, and a DeviceClass takes {TOO_LONG}: make groups of hosts that are alike, or leave the class with "
                    "the device plugin (rdma_rollout.classes)"
                )
            else:
                abroad = _abroad(entry, pool, selectors, places)
                chosen.setdefault(name, []).append(Choice(pool, row["rail"], selectors, text, abroad))
    return chosen, problems

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for selectors that match exactly the wanted functions of several hosts. Private. Pure.

A function is a tuple of what a device plugin compares, and the pool that wants it. Selectors are lists of values by kind; a
function matches when, for every kind that is given, its value is in the list. With the kinds given, each list must hold every
wanted value, and more values can only match more: the wanted values are the one candidate, and the search is one over kinds.
"""

from __future__ import annotations

import itertools
import re
import typing as t

__all__ = [
    "SHARED",
    "SRIOV",
    "Function",
    "Plugin",
    "Selectors",
    "Traits",
    "classes_of",
    "explain",
    "matched",
    "search",
    "search_all",
    "traits_of",
]

Selectors = t.Dict[str, t.List[str]]
# What a plugin can tell two functions apart by, and the pool that wants the function ('' for none).
Traits = t.Tuple[t.Tuple[str, ...], str]


class Function(t.NamedTuple):
    """A PCI function as a plugin sees it; values are in the order of the plugin's kinds, '' where there is nothing."""

    values: t.Tuple[str, ...]
    pool: str
    pci: str
    devices: t.Tuple[str, ...]
    ports: t.Tuple[int, ...]
    why: str  # in words, where no pool wants it


class Plugin(t.NamedTuple):
    """What a device plugin selects by. A set of kinds with a later kind of ``last`` is tried after all sets without it."""

    kinds: t.Tuple[str, ...]
    last: t.Tuple[str, ...]
    patterns: t.Tuple[str, ...]

    def tries(self, strategy: str) -> t.List[t.Tuple[str, ...]]:
        """Sets of kinds in the order in which they are tried: small before large, the last resort last."""
        if strategy == "ifnames":
            return [("ifNames",)]
        plain = tuple(kind for kind in self.kinds if kind not in self.last)
        sets = _subsets(plain)
        if strategy == "device_ids":
            return [kinds for kinds in sets if "deviceIDs" in kinds]
        for index, name in enumerate(self.last):
            allowed = plain + self.last[: index + 1]
            sets += [kinds for kinds in _subsets(allowed) if name in kinds]
        return sets


# k8s-rdma-shared-dev-plugin, pkg/resources/device_selectors.go. Names of interfaces are the last resort.
SHARED = Plugin(("vendors", "deviceIDs", "drivers", "linkTypes", "ifNames"), ("ifNames",), ())
# sriov-network-device-plugin, pkg/resources/deviceSelectors.go: a value of pfNames is compared as a whole without regard to
# case, and newer versions take it for a regular expression, too, that may match any part of the name.
SRIOV = Plugin(
    ("vendors", "devices", "drivers", "linkTypes", "pfNames", "pciAddresses"), ("pfNames", "pciAddresses"), ("pfNames",)
)

# Names that mean the same to every regular expression engine: a dot is the only special character.
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_.-]+")


def _subsets(kinds: t.Tuple[str, ...]) -> t.List[t.Tuple[str, ...]]:
    return [chosen for size in range(1, len(kinds) + 1) for chosen in itertools.combinations(kinds, size)]


def traits_of(functions: t.Iterable[Function]) -> t.FrozenSet[Traits]:
    return frozenset((function.values, function.pool) for function in functions)


def _holds(plugin: Plugin, kind: str, values: t.Collection[str], value: str) -> bool:
    """Whether a plugin of any version may take value for one of values."""
    if value in values or kind not in plugin.patterns:
        return value in values
    return bool(value) and any(
        value.lower() == entry.lower() or re.search(entry, value) is not None for entry in values
    )


def matched(plugin: Plugin, selectors: t.Mapping[str, t.Collection[str]], values: t.Sequence[str]) -> bool:
    """Whether selectors match a function with these values."""
    return all(_holds(plugin, kind, chosen, values[plugin.kinds.index(kind)]) for kind, chosen in selectors.items())


def _lists(plugin: Plugin, wanted: t.Collection[t.Tuple[str, ...]]) -> t.Dict[str, t.Set[str]]:
    """The values of wanted functions, by those kinds that can be used: a list cannot hold a value that is not there."""
    lists: t.Dict[str, t.Set[str]] = {}
    for index, kind in enumerate(plugin.kinds):
        chosen = {values[index] for values in wanted}
        if "" not in chosen and (kind not in plugin.patterns or all(map(_PLAIN_PATTERN.fullmatch, chosen))):
            lists[kind] = chosen
    return lists


def search(
    plugin: Plugin, traits: t.Collection[Traits], pool: str, strategy: str = "auto"
) -> t.Optional[t.Dict[str, t.List[str]]]:
    """The first set of kinds whose lists match all functions that the pool wants and no other, None when there is none."""
    wanted = {values for values, owner in traits if owner == pool}
    others = {values for values, owner in traits if owner != pool}
    # No kind tells apart what is the same in all of them.
    if not wanted or wanted & others:
        return None
    lists = _lists(plugin, wanted)
    for kinds in plugin.tries(strategy):
        if all(kind in lists for kind in kinds):
            selectors = {kind: lists[kind] for kind in kinds}
            if not any(matched(plugin, selectors, values) for values in others):
                return {kind: sorted(lists[kind]) for kind in kinds}
    return None


def search_all(
    plugin: Plugin, traits: t.Collection[Traits], strategy: str = "auto"
) -> t.Optional[t.Dict[str, Selectors]]:
    """Exact selectors of every pool that wants one of these functions, None when one of them has none."""
    found: t.Dict[str, Selectors] = {}
    for pool in sorted({owner for _dummy, owner in traits if owner}):
        selectors = search(plugin, traits, pool, strategy)
        if selectors is None:
            return None
        found[pool] = selectors
    return found


def classes_of(
    plugin: Plugin, functions: t.Mapping[str, t.Sequence[Function]], strategy: str
) -> t.Tuple[t.List[t.Tuple[t.List[str], t.Dict[str, Selectors]]], t.Optional[str]]:
    """([(hosts, selectors by pool)], host): as few classes as a greedy pass finds, the same for every order of hosts.

    The host is one that has no exact selectors even alone; there are no classes then. Hosts with equal traits are one
    profile, and the search works on profiles: its cost grows with the number of different machines, not of machines.
    """
    profiles: t.Dict[t.FrozenSet[Traits], t.List[str]] = {}
    for host in sorted(functions):
        profiles.setdefault(traits_of(functions[host]), []).append(host)
    if not profiles:
        return [], None
    together = search_all(plugin, frozenset().union(*profiles), strategy)
    if together is not None:
        return [(sorted(functions), together)], None
    classes: t.List[t.Tuple[t.FrozenSet[Traits], t.List[str], t.Dict[str, Selectors]]] = []
    for profile in sorted(profiles, key=sorted):
        alone = search_all(plugin, profile, strategy)
        if alone is None:
            return [], profiles[profile][0]
        for index, (traits, hosts, _dummy) in enumerate(classes):
            joint = search_all(plugin, traits | profile, strategy)
            if joint is not None:
                classes[index] = (traits | profile, hosts + profiles[profile], joint)
                break
        else:
            classes.append((profile, list(profiles[profile]), alone))
    return [(sorted(hosts), selectors) for _dummy, hosts, selectors in classes], None


# --- why not ----------------------------------------------------------------------------------------------------------

_Place = t.Tuple[str, Function]


def _call(place: _Place, with_host: bool) -> str:
    host, function = place
    return "%s (%s)%s" % (function.devices[0], function.pci, " of host %s" % host if with_host else "")


def _unwanted(place: _Place, pool: str) -> str:
    function = place[1]
    if function.pool and function.pool != pool:
        return "belongs to %s" % function.pool
    return "is not (%s)" % function.why if function.why else "is not"


def explain(
    plugin: Plugin,
    places: t.Mapping[str, t.Sequence[Function]],
    strategy: str = "auto",
    named: bool = False,
    only: t.Optional[str] = None,
) -> t.Optional[str]:
    """A counter-example in words: which function no selectors of a pool can leave out, and why. None when there is none.

    places: functions by host. named: say also for which pool the first function is wanted. only: the pool to look at, else all.
    Functions that look the same stand for each other, so that the cost grows with the number of different functions.
    """
    first: t.Dict[Traits, _Place] = {}
    for host in sorted(places):
        for function in places[host]:
            first.setdefault((function.values, function.pool), (host, function))
    with_host = len({host for host, _dummy in first.values()}) > 1 or len(places) > 1
    for pool in sorted({owner for _dummy, owner in first if owner}) if only is None else [only]:
        if search(plugin, first, pool, strategy) is None:
            text = _counter_example(plugin, first, pool, strategy, with_host, " for " + pool if named else "")
            if with_host:
                return text
            return "host %s: %s" % (next(iter(places)), text)
    return None


def _counter_example(
    plugin: Plugin, first: t.Mapping[Traits, _Place], pool: str, strategy: str, with_host: bool, use: str
) -> str:
    needed = {"ifnames": "ifNames", "device_ids": "deviceIDs"}.get(strategy)
    kinds = {"ifnames": ("ifNames",), "device_ids": SHARED.kinds[:4]}.get(strategy, plugin.kinds)
    hint = "" if strategy == "auto" else "; rdma_selector_strategy: auto may tell them apart"
    wanted = sorted((key for key in first if key[1] == pool), key=lambda key: (first[key][0], first[key][1].pci))
    others = sorted((key for key in first if key[1] != pool), key=lambda key: (first[key][0], first[key][1].pci))

    def value(key: Traits, kind: str) -> str:
        return key[0][plugin.kinds.index(kind)]

    blind = [key for key in wanted if needed and not value(key, needed)]
    if blind:
        words = {"ifNames": "netdev, so no interface name", "deviceIDs": "device ID, so no list of them"}
        return "%s is wanted%s but has no %s can select it%s" % (
            _call(first[blind[0]], with_host),
            use,
            words[str(needed)],
            hint,
        )
    alike: t.Dict[t.Tuple[str, ...], Traits] = {}
    for key in others:
        alike.setdefault(tuple(value(key, kind) for kind in kinds), key)
    for mine in wanted:
        other = alike.get(tuple(value(mine, kind) for kind in kinds))
        if other is not None:
            return "%s is wanted%s and %s %s, but the plugin cannot tell them apart by %s%s" % (
                _call(first[mine], with_host),
                use,
                _call(first[other], with_host),
                _unwanted(first[other], pool),
                ", ".join(kinds),
                hint,
            )
    lists = {kind: chosen for kind, chosen in _lists(plugin, [key[0] for key in wanted]).items() if kind in kinds}
    if not lists:
        return "of each of %s, some wanted function%s has none%s" % (", ".join(kinds), use, hint)
    other = next(key for key in others if matched(plugin, lists, key[0]))
    shared = []
    for kind in lists:
        twin = next(key for key in wanted if _holds(plugin, kind, [value(key, kind)], value(other, kind)))
        shared.append("the %s of %s" % (kind, _call(first[twin], with_host)))
    return "%s %s, but several wanted functions%s together cannot be told from it: it has %s%s" % (
        _call(first[other], with_host),
        _unwanted(first[other], pool).replace("is not", "is not wanted", 1),
        use,
        ", ".join(shared),
        hint,
    )

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for selectors that match exactly the wanted functions of several hosts. Private. Pure.

A function is a tuple of what a device plugin compares, and the pool that wants it. Selectors are lists of values by kind; a
function matches when, for every kind that is given, its value is in the list. With the kinds given, each list must hold every
wanted value, and more values can only match more: the wanted values are the one candidate, and the search is one over kinds.

A set of kinds is exact when no function that is not wanted has all its values of these kinds in the lists. So all that has to be
known of such a function is of which kinds its value is listed, which is a handful of bits, and few of them differ.
"""

from __future__ import annotations

import itertools
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Selectors

__all__ = [
    "SHARED",
    "SRIOV",
    "Catalogue",
    "Function",
    "Plugin",
    "as_sets",
    "classes_of",
    "explain",
    "matched",
    "search_all",
    "traits_of",
]

# What a plugin can tell two functions apart by, and the pool that wants the function ('' for none).
Traits = t.Tuple[t.Tuple[str, ...], str]


class Function(t.NamedTuple):
    """A PCI function as a plugin sees it; values are in the order of the plugin's kinds, '' where there is nothing."""

    values: tuple[str, ...]
    pool: str
    pci: str
    devices: tuple[str, ...]
    ports: tuple[int, ...]
    why: str  # in words, where no pool wants it
    # unwanted only for its state or rate of today
    sick: bool = False


class Plugin(t.NamedTuple):
    """What a device plugin selects by. A set of kinds with a later kind of ``last`` is tried after all sets without it.

    newcomers: what may come to a host later, with the kinds by which it differs from what is wanted. The plugins look again
    every few minutes, and a set of kinds is the sturdier the fewer of these its lists would match.
    """

    kinds: tuple[str, ...]
    last: tuple[str, ...]
    # kinds of which values are compared without regard to case
    folded: tuple[str, ...]
    newcomers: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def matched_later(self, kinds: t.Iterable[str]) -> list[str]:
        """Which newcomers lists of these kinds would match, in words."""
        chosen = set(kinds)
        return [words for words, differs in self.newcomers if not chosen & set(differs)]

    def tries(self, strategy: str) -> list[tuple[str, ...]]:
        """Sets of kinds in the order in which they are tried: sturdy first, small before large, the last resort last."""
        if strategy == "ifnames":
            return [("ifNames",)]
        plain = tuple(kind for kind in self.kinds if kind not in self.last)
        sets = sorted(_subsets(plain), key=lambda kinds: len(self.matched_later(kinds)))
        if strategy == "device_ids":
            return [kinds for kinds in sets if "deviceIDs" in kinds]
        for index, name in enumerate(self.last):
            allowed = plain + self.last[: index + 1]
            sets += [kinds for kinds in _subsets(allowed) if name in kinds]
        return sets

    def bits(self, kinds: t.Iterable[str]) -> int:
        return sum(1 << self.kinds.index(kind) for kind in kinds)

    def key(self, index: int, value: str) -> str:
        """A value of the kind at an index as it is compared."""
        return value.lower() if self.kinds[index] in self.folded else value

    def blind(self, index: int, value: str) -> bool:
        """Whether no list can hold a value: one that is not there, or that means something else in a list."""
        return not value or (self.kinds[index] in self.folded and not _PLAIN_NAME.fullmatch(value))


# k8s-rdma-shared-dev-plugin, pkg/resources/device_selectors.go. Names of interfaces are the last resort.
# A virtual function and a card of another model have device IDs of their own, and share vendor and driver with what is there.
SHARED = Plugin(
    ("vendors", "deviceIDs", "drivers", "linkTypes", "ifNames"),
    ("ifNames",),
    (),
    (
        ("virtual functions", ("deviceIDs", "ifNames")),
        ("BlueField and other models", ("deviceIDs", "ifNames")),
        ("cards for storage, with another link", ("deviceIDs", "linkTypes", "ifNames")),
        ("cards of other vendors", ("vendors", "deviceIDs", "drivers", "ifNames")),
    ),
)
# sriov-network-device-plugin, pkg/resources/deviceSelectors.go: names of physical functions are compared without regard to
# case, and what follows a # in a list is the numbers of virtual functions.
SRIOV = Plugin(
    ("vendors", "devices", "drivers", "linkTypes", "pfNames", "pciAddresses"),
    ("pfNames", "pciAddresses"),
    ("pfNames",),
    (
        ("virtual functions of others", ("devices", "pciAddresses")),
        ("cards for storage, with another link", ("devices", "linkTypes", "pciAddresses")),
    ),
)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def _subsets(kinds: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [chosen for size in range(1, len(kinds) + 1) for chosen in itertools.combinations(kinds, size)]


def traits_of(functions: t.Iterable[Function]) -> frozenset[Traits]:
    return frozenset((function.values, function.pool) for function in functions)


def matched(plugin: Plugin, selectors: t.Mapping[str, t.Collection[str]], values: t.Sequence[str]) -> bool:
    """Whether selectors match a function with these values. Give sets where there are many functions to look at."""
    for kind, chosen in selectors.items():
        index = plugin.kinds.index(kind)
        value = values[index]
        if value not in chosen and (
            kind not in plugin.folded or not any(value.lower() == entry.lower() for entry in chosen)
        ):
            return False
    return True


def as_sets(selectors: t.Mapping[str, t.Collection[str]]) -> dict[str, t.AbstractSet[str]]:
    """Selectors for matched() of many functions: lists of names can be as long as there are hosts."""
    return {kind: frozenset(values) for kind, values in selectors.items()}


class _Pool:
    """What is known of the functions that a pool wants, and of those that it does not."""

    def __init__(self, plugin: Plugin) -> None:
        # the values that are wanted, and as they are compared, by kind
        self.lists: list[set[str]] = [set() for _kind in plugin.kinds]
        self.keys: list[set[str]] = [set() for _kind in plugin.kinds]
        # kinds that no list can be made of, as bits
        self.blind = 0
        # of which kinds values of others are in the lists, as bits: for each sort of them once
        self.masks: set[int] = set()

    def choice(self, tries: t.Iterable[tuple[int, tuple[str, ...]]]) -> t.Optional[tuple[str, ...]]:
        for bits, kinds in tries:
            if not bits & self.blind and not any(bits & mask == bits for mask in self.masks):
                return kinds
        return None


class Catalogue:
    """Functions of hosts that are to have one configuration; more can be added, and what they change is looked at alone.

    The cost of an addition depends on what is added, not on what is there: values by which whole models are told apart are few,
    and a function with a name or address of its own is met by the lists that have it only.
    """

    def __init__(self, plugin: Plugin, strategy: str = "auto", traits: t.Iterable[Traits] = ()) -> None:
        self.plugin = plugin
        self.strategy = strategy
        self._tries = [(plugin.bits(kinds), kinds) for kinds in plugin.tries(strategy)]
        self._unique = [index for index, kind in enumerate(plugin.kinds) if kind in plugin.last]
        self._common = [index for index, kind in enumerate(plugin.kinds) if kind not in plugin.last]
        self.pools: dict[str, _Pool] = {}
        self.known: set[Traits] = set()
        # {values of the common kinds: pools that want one with these}
        self._bodies: dict[tuple[str, ...], set[str]] = {}
        # by kind {value: functions that have it}, and {value: pools of which the list has it}
        self._having: list[dict[str, list[Traits]]] = [{} for _kind in plugin.kinds]
        self._listing: list[dict[str, set[str]]] = [{} for _kind in plugin.kinds]
        # how to take back what was added since the list was made, None where it stays
        self._undo: t.Optional[list[t.Callable[[], t.Any]]] = None
        self._add(traits)

    def fits(self, traits: t.Iterable[Traits], last: bool = True) -> bool:
        """Adds functions when every pool can be selected exactly with them, too; leaves all as it is when not.

        last: also by kinds of the last resort.
        """
        self._undo = []
        tries = [each for each in self._tries if last or not set(each[1]) & set(self.plugin.last)]
        fits = all(self.pools[pool].choice(tries) for pool in self._add(traits))
        while self._undo and not fits:
            self._undo.pop()()
        self._undo = None
        return fits

    def _back(self, function: t.Callable[[], t.Any]) -> None:
        if self._undo is not None:
            self._undo.append(function)

    def _put(self, place: set[t.Any], item: t.Any) -> bool:
        """Adds to a set so that it can be taken back; False when it is there already."""
        if item in place:
            return False
        place.add(item)
        self._back(lambda: place.discard(item))
        return True

    def _pool(self, name: str) -> _Pool:
        if name not in self.pools:
            self.pools[name] = _Pool(self.plugin)
            self._back(lambda: self.pools.pop(name))
        return self.pools[name]

    def _add(self, traits: t.Iterable[Traits]) -> set[str]:
        """Adds functions; the names of the pools of which the choice may be another now."""
        fresh = [each for each in traits if each not in self.known]
        # pools with new values of common kinds, and the new values of the others
        grown: set[str] = set()
        listed: set[tuple[str, int, str]] = set()
        touched: set[str] = set()
        for values, owner in fresh:
            if not owner:
                continue
            if owner not in self.pools:
                grown.add(owner)
            pool = self._pool(owner)
            touched.add(owner)
            for index, value in enumerate(values):
                if self.plugin.blind(index, value):
                    self._blind(pool, 1 << index)
                    continue
                self._put(pool.lists[index], value)
                key = self.plugin.key(index, value)
                if self._put(pool.keys[index], key):
                    if index in self._unique:
                        self._put(self._listing[index].setdefault(key, set()), owner)
                        listed.add((owner, index, key))
                    else:
                        grown.add(owner)
        bodies: set[tuple[str, ...]] = set()
        for each in fresh:
            self._put(self.known, each)
            values, owner = each
            body = tuple(values[index] for index in self._common)
            if self._put(self._bodies.setdefault(body, set()), owner):
                bodies.add(body)
            for index in self._unique:
                if values[index]:
                    having = self._having[index].setdefault(self.plugin.key(index, values[index]), [])
                    having.append(each)
                    self._back(having.pop)
        for name, pool in self.pools.items():
            for body in self._bodies if name in grown else bodies:
                if self._bodies[body] - {name}:
                    self._meet(name, self._mask(pool, dict(zip(self._common, body))), touched)
        for name, index, key in listed:
            for values, owner in self._having[index][key]:
                if owner != name:
                    self._meet(name, self._mask(self.pools[name], dict(enumerate(values))), touched)
        for values, owner in fresh:
            for index in self._unique:
                for name in self._listing[index].get(self.plugin.key(index, values[index]), ()):
                    if name != owner:
                        self._meet(name, self._mask(self.pools[name], dict(enumerate(values))), touched)
        return touched

    def _blind(self, pool: _Pool, bits: int) -> None:
        before = pool.blind
        if before | bits != before:
            pool.blind |= bits
            self._back(lambda: setattr(pool, "blind", before))

    def _meet(self, name: str, mask: int, touched: set[str]) -> None:
        if self._put(self.pools[name].masks, mask):
            touched.add(name)

    def _mask(self, pool: _Pool, values: t.Mapping[int, str]) -> int:
        """Of which kinds these values are in the lists of a pool."""
        return sum(1 << index for index, value in values.items() if self.plugin.key(index, value) in pool.keys[index])

    def search(self, pool: str, strategy: t.Optional[str] = None) -> t.Optional[Selectors]:
        """The first set of kinds whose lists match all functions that the pool wants and no other, None when there is none."""
        known = self.pools.get(pool)
        tries = self._tries
        if strategy not in (None, self.strategy):
            tries = [(self.plugin.bits(kinds), kinds) for kinds in self.plugin.tries(str(strategy))]
        kinds = known.choice(tries) if known else None
        if known is None or kinds is None:
            return None
        return {kind: sorted(known.lists[self.plugin.kinds.index(kind)]) for kind in kinds}

    def search_all(self) -> t.Optional[dict[str, Selectors]]:
        """Exact selectors of every pool, None when one of them has none."""
        found: dict[str, Selectors] = {}
        for pool in sorted(self.pools):
            selectors = self.search(pool)
            if selectors is None:
                return None
            found[pool] = selectors
        return found


def search_all(plugin: Plugin, traits: t.Iterable[Traits], strategy: str = "auto") -> t.Optional[dict[str, Selectors]]:
    """As Catalogue.search_all(), of these functions."""
    return Catalogue(plugin, strategy, traits).search_all()


_Class = t.Tuple[Catalogue, t.List[str]]


def _last_values(plugin: Plugin, selectors: t.Mapping[str, Selectors]) -> int:
    """How many values of kinds of the last resort there are in selectors."""
    return sum(len(own.get(kind, ())) for own in selectors.values() for kind in plugin.last)


_Split = t.List[t.Tuple[t.List[str], t.Dict[str, Selectors]]]


def classes_of(
    plugin: Plugin,
    functions: t.Mapping[str, t.Sequence[Function]],
    strategy: str,
    earlier: t.Iterable[tuple[t.Iterable[str], t.Mapping[str, Selectors]]] = (),
) -> tuple[_Split, list[str]]:
    """([(hosts, selectors by pool)], hosts): as few classes as a greedy pass finds, the same for every order of hosts.

    The other hosts are those that have no exact selectors even alone. There are no classes when one of them has all its ports up, or
    all are such. Hosts with equal traits are one profile, and the search works on profiles: its cost grows with the number of different
    machines, not of machines.

    A class that needs no names stays without: hosts that can be selected by what they are have classes of their own, and those
    that cannot follow them. One class with names of all is taken only where that has fewer.

    Hosts with a port that is down today change nothing for the others: they are in the class of others whose selectors are exact on
    them as they are, or have classes of their own. Where all hosts have such a port, that is how they are, and they are sorted as any.

    earlier: classes as this function has given them before. Hosts stay in those whose selectors are still exact on them, which those
    of a port that goes down, or comes up, are not.
    """
    profiles: dict[frozenset[Traits], list[str]] = {}
    for host in sorted(functions):
        profiles.setdefault(traits_of(functions[host]), []).append(host)
    sick = {
        profile: hosts
        for profile, hosts in profiles.items()
        if all(any(function.sick for function in functions[host]) for host in hosts)
    }
    unwell = {host for hosts in sick.values() for host in hosts}
    classes = _still_exact(plugin, functions, strategy, earlier)
    kept = {host for hosts, _selectors in classes for host in hosts}
    left = {
        profile: [host for host in hosts if host not in kept]
        for profile, hosts in profiles.items()
        if not kept.issuperset(hosts)
    }
    well = {profile: hosts for profile, hosts in left.items() if profile not in sick}
    if well:
        # not those of hosts with a port down, which are selected by names that others may have, too
        usual = [each for each in classes if not _last_values(plugin, each[1]) or set(each[0]) - unwell]
        _join_as_they_are(plugin, usual, well)
        more, alone = _sorted_into_classes(plugin, well, strategy)
        if alone:
            return [], alone[:1]
        classes += more
    own = {profile: hosts for profile, hosts in left.items() if profile in sick}
    _join_as_they_are(plugin, classes, own)
    unfit = [profile for profile in own if Catalogue(plugin, strategy, profile).search_all() is None]
    refused = sorted(host for profile in unfit for host in own.pop(profile))
    return classes + _sorted_into_classes(plugin, own, strategy)[0], refused


def _still_exact(
    plugin: Plugin,
    functions: t.Mapping[str, t.Sequence[Function]],
    strategy: str,
    earlier: t.Iterable[tuple[t.Iterable[str], t.Mapping[str, Selectors]]],
) -> _Split:
    """Earlier classes that the strategy would still make, with their hosts on which they are exact."""
    allowed = [set(kinds) for kinds in plugin.tries(strategy)]
    found: _Split = []
    taken: set[str] = set()
    for hosts, selectors in earlier:
        if not selectors or not all(set(own) in allowed for own in selectors.values()):
            continue
        pools = {pool: as_sets(own) for pool, own in selectors.items()}
        exact: dict[frozenset[Traits], bool] = {}
        staying = []
        for host in sorted(set(hosts)):
            if host in functions and host not in taken:
                profile = traits_of(functions[host])
                if profile not in exact:
                    exact[profile] = _exact(plugin, pools, profile)
                if exact[profile]:
                    staying.append(host)
        taken.update(staying)
        # two of one group differ by where their kubelets are, which is not looked at here
        same = next((each for each in found if each[1] == selectors), None)
        if same is not None:
            same[0].extend(staying)
            same[0].sort()
        elif staying:
            found.append((sorted(staying), {pool: dict(own) for pool, own in selectors.items()}))
    return found


def _join_as_they_are(plugin: Plugin, classes: _Split, profiles: dict[frozenset[Traits], list[str]]) -> None:
    """Moves hosts from profiles to classes whose selectors are exact on them."""
    tried = [(hosts, {pool: as_sets(own) for pool, own in selectors.items()}) for hosts, selectors in classes]
    for profile in list(profiles):
        for hosts, pools in tried:
            if _exact(plugin, pools, profile):
                hosts += profiles.pop(profile)
                break
    for hosts, _selectors in classes:
        hosts.sort()


def _exact(
    plugin: Plugin, pools: t.Mapping[str, t.Mapping[str, t.AbstractSet[str]]], profile: t.Iterable[Traits]
) -> bool:
    """Whether selectors by pool match what each pool wants of a profile, and nothing else."""
    return all(
        [pool for pool in sorted(pools) if matched(plugin, pools[pool], values)] == ([owner] if owner else [])
        for values, owner in profile
    )


def _sorted_into_classes(
    plugin: Plugin, profiles: t.Mapping[frozenset[Traits], list[str]], strategy: str
) -> tuple[_Split, list[str]]:
    """As classes_of(), of hosts by what they have in common. With the hosts of one profile that no selectors fit, and no class then."""
    if not profiles:
        return [], []
    everybody = sorted(itertools.chain.from_iterable(profiles.values()))
    together = search_all(plugin, itertools.chain.from_iterable(profiles), strategy)
    if together is not None and not _last_values(plugin, together):
        return [(everybody, together)], []
    # First those that leave out most: they say more about what a class can be, and the others find their place in it.
    ordered = sorted(profiles, key=lambda profile: (-sum(not owner for _values, owner in profile), sorted(profile)))
    plain: list[_Class] = []
    named: list[_Class] = []
    later: list[frozenset[Traits]] = []
    for profile in ordered:
        alone = Catalogue(plugin, strategy, profile)
        found = alone.search_all()
        if found is None:
            return [], profiles[profile]
        if _last_values(plugin, found):
            later.append(profile)
        else:
            _join(plain, profile, profiles[profile], alone, names=False)
    for profile in later:
        _join(named, profile, profiles[profile], Catalogue(plugin, strategy, profile), names=True)
    classes = [(sorted(hosts), catalogue.search_all() or {}) for catalogue, hosts in plain + named]
    if together is not None and _last_values(plugin, together) <= sum(
        _last_values(plugin, selectors) for _hosts, selectors in classes
    ):
        return [(everybody, together)], []
    return classes, []


def _join(
    classes: list[_Class], profile: frozenset[Traits], hosts: t.Sequence[str], alone: Catalogue, names: bool
) -> None:
    """Adds hosts to the first class that is exact with them, or to a new one."""
    for catalogue, members in classes:
        if catalogue.fits(profile, names):
            members += hosts
            return
    classes.append((alone, list(hosts)))


# --- why not ----------------------------------------------------------------------------------------------------------

_Place = t.Tuple[str, Function]


def _call(place: _Place, with_host: bool) -> str:
    host, function = place
    return "{} ({}){}".format(function.devices[0], function.pci, f" of host {host}" if with_host else "")


def _unwanted(place: _Place, pool: str) -> str:
    function = place[1]
    if function.pool and function.pool != pool:
        return f"belongs to {function.pool}"
    return f"is not ({function.why})" if function.why else "is not"


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
    first: dict[Traits, _Place] = {}
    for host in sorted(places):
        for function in places[host]:
            first.setdefault((function.values, function.pool), (host, function))
    with_host = len({host for host, _dummy in first.values()}) > 1 or len(places) > 1
    for pool in sorted({owner for _dummy, owner in first if owner}) if only is None else [only]:
        if Catalogue(plugin, strategy, first).search(pool) is None:
            text = _counter_example(plugin, first, pool, strategy, with_host, " for " + pool if named else "")
            if with_host:
                return text
            return f"host {next(iter(places))}: {text}"
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
        return f"{_call(first[blind[0]], with_host)} is wanted{use} but has no {words[str(needed)]} can select it{hint}"
    alike: dict[tuple[str, ...], Traits] = {}
    for key in others:
        alike.setdefault(tuple(value(key, kind) for kind in kinds), key)
    for mine in wanted:
        other = alike.get(tuple(value(mine, kind) for kind in kinds))
        if other is not None:
            theirs = f"{_call(first[other], with_host)} {_unwanted(first[other], pool)}"
            apart = f"the plugin cannot tell them apart by {', '.join(kinds)}{hint}"
            return f"{_call(first[mine], with_host)} is wanted{use} and {theirs}, but {apart}"
    lists = {
        kind: {value(key, kind) for key in wanted}
        for index, kind in enumerate(plugin.kinds)
        if kind in kinds and not any(plugin.blind(index, key[0][index]) for key in wanted)
    }
    if not lists:
        return f"every one of {', '.join(kinds)} is missing on at least one wanted function{use}{hint}"
    other = next(key for key in others if matched(plugin, lists, key[0]))
    shared = []
    for kind in lists:
        twin = next(key for key in wanted if matched(plugin, {kind: [value(key, kind)]}, other[0]))
        shared.append(f"the {kind} of {_call(first[twin], with_host)}")
    return "{} {}, but several wanted functions{} together cannot be told from it: it has {}{}".format(
        _call(first[other], with_host),
        _unwanted(first[other], pool).replace("is not", "is not wanted", 1),
        use,
        ", ".join(shared),
        hint,
    )

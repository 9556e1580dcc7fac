# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of a host: which GPU and which HCA are under the same PCIe switch, numbered by GPU. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["Rail", "RailError", "check_rails", "group_rails", "rail_host"]

Json = t.Mapping[str, t.Any]


class RailError(FabricError):
    """Rails that cannot be numbered."""


class Rail(t.NamedTuple):
    """One rail of a host. GPUs are counted from 1 in the order of their PCI addresses."""

    number: int
    gpus: tuple[int, ...]
    gpu_addresses: tuple[str, ...]
    # PCI addresses of the functions; none where the HCA is gone
    functions: tuple[str, ...]
    # where all GPUs of the host are, when this rail is of one that has its switch for itself: with others, or with these elsewhere, what
    # is left of the rail may be what belongs to none of them
    alone: t.Optional[tuple[Place, ...]] = None


# Where something is on a host, from the root port down: the number of the root port, {device, function} of each bridge below
# it, and those of the thing itself. No number of a bus and no domain is in it: the firmware deals these out again when a card
# goes, and other hosts have others, while a port of a switch has the same device and function wherever it is.
Place = t.Tuple[t.Tuple[int, ...], ...]


class Host(t.NamedTuple):
    """The addresses of the bridges above each GPU and each function that may be on a rail, by their own address."""

    gpus: dict[str, t.Sequence[str]]
    functions: dict[str, t.Sequence[str]]


class _Tree(t.NamedTuple):
    """Where the GPUs of a host are and the functions that share a root port with one, each in the order of its addresses."""

    gpus: tuple[Place, ...]
    functions: tuple[Place, ...]


class _Seen(t.NamedTuple):
    """A host's tree, and the addresses of what is at its places."""

    tree: _Tree
    gpus: tuple[str, ...]
    functions: tuple[str, ...]


# [(GPUs by their index, places of the functions)] of each rail by its number
_Pairs = t.List[t.Tuple[t.List[int], t.List[Place]]]


def _address(pci: str) -> tuple[int, ...]:
    domain, bus, rest = pci.split(":")
    device, _dot, function = rest.partition(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)


def _see(host: Host, busses: bool) -> _Seen:
    """What a host has, and where. busses: with the number of the bus in each place.

    Root ports are counted by the GPUs below them, which are all there: one that leads to none has no rail, and is not counted.
    """
    gpus = sorted(host.gpus, key=_address)
    roots: dict[str, int] = {}
    for pci in gpus:
        roots.setdefault((*host.gpus[pci], pci)[0], len(roots))
    functions = sorted(
        (pci for pci, bridges in host.functions.items() if roots.keys() & set(bridges[:1])), key=_address
    )

    def place(bridges: t.Sequence[str], pci: str) -> Place:
        way = (*bridges, pci)
        # what is on a bus itself has a lower address than what is behind the bridges of this bus
        below = [(int(bridge != pci), *_address(bridge)[1 if busses else 2 :]) for bridge in way[1:]]
        return ((roots[way[0]],), *below)

    return _Seen(
        _Tree(
            tuple(place(host.gpus[pci], pci) for pci in gpus),
            tuple(place(host.functions[pci], pci) for pci in functions),
        ),
        tuple(gpus),
        tuple(functions),
    )


def _see_all(hosts: t.Mapping[str, Host]) -> dict[str, _Seen]:
    """What each host has; hosts with the same addresses are looked at once.

    Functions on several busses below one port, as many virtual functions are, may have the same device and function; then the
    busses tell them apart, on all hosts.
    """
    raw = {
        name: tuple(
            tuple(sorted((pci, tuple(bridges)) for pci, bridges in part.items()))
            for part in (host.gpus, host.functions)
        )
        for name, host in hosts.items()
    }
    first: dict[t.Any, str] = {}
    for name in sorted(hosts):
        first.setdefault(raw[name], name)
    for busses in (False, True):
        seen = {key: _see(hosts[name], busses) for key, name in first.items()}
        if all(len(set(part)) == len(part) for own in seen.values() for part in own.tree):
            break
    return {name: seen[raw[name]] for name in hosts}


def _nearest(ones: t.Sequence[Place], others: t.Sequence[Place]) -> list[frozenset[int]]:
    """For each place, the indexes of the others with the most bridges in common from the root port down; none where nobody has any."""
    below: dict[Place, set[int]] = {}
    for index, place in enumerate(others):
        for depth in range(1, len(place)):
            below.setdefault(place[:depth], set()).add(index)
    # one object for all that have the same: a node may have hundreds under one switch
    frozen = {bridges: frozenset(found) for bridges, found in below.items()}
    nothing: frozenset[int] = frozenset()
    return [
        next(
            (frozen[key] for key in (place[:depth] for depth in range(len(place) - 1, 0, -1)) if key in frozen), nothing
        )
        for place in ones
    ]


def _switches(tree: _Tree) -> list[tuple[list[int], list[int]]]:
    """[(GPUs, functions)] that are under one switch, as indexes, by the order of the GPUs; each GPU is in one of them.

    They belong together when each is nearest to the other. A function next to the uplink of all GPUs has none that is
    nearest to it in return, while each GPU has its own HCA (see _check_adopted() for when one has lost it); and when the HCA of a
    GPU is gone, the HCAs of other GPUs are nearest to it, but not it to them.
    """
    near_gpu, near_function = _nearest(tree.gpus, tree.functions), _nearest(tree.functions, tree.gpus)
    found: list[tuple[list[int], list[int]]] = []
    seen: set[int] = set()
    for gpu in range(len(tree.gpus)):
        if gpu in seen:
            continue
        mine = {index for index in near_gpu[gpu] if gpu in near_function[index]}
        group = {gpu}
        for index in mine:
            group |= {other for other in near_function[index] if index in near_gpu[other]}
        if not mine:
            # the others that have lost the same: under the same switch, where each is at a port of its own
            switch = tree.gpus[gpu][:-2]
            group |= {
                other
                for other in range(len(tree.gpus))
                if other not in seen
                and switch
                and tree.gpus[other][:-2] == switch
                and not any(other in near_function[index] for index in near_gpu[other])
            }
        seen |= group
        found.append((sorted(group), sorted(mine)))
    return found


def rail_host(host: str, facts: Json, candidates: t.Collection[str]) -> Host:
    """What the rails of a host are made from.

    candidates: PCI addresses of the functions that may be on a rail, also those of which no port is up at the moment: a lost
    cable must not shift the numbers of the others. RailError where the facts do not tell of bridges.
    """
    gpus = {gpu["pci"]: gpu.get("bridges") for gpu in facts.get("gpus") or ()}
    functions = {row["pci"]: row.get("bridges") for row in facts["devices"] if row["pci"] in candidates}
    if "gpus" not in facts or None in gpus.values() or None in functions.values():
        raise RailError(
            f"host {host}: its facts do not say which PCIe switches its GPUs and HCAs are under", "run discover again"
        )
    return Host(gpus, functions)


class _Together(t.NamedTuple):
    """What hosts with the same GPUs have together, and its words in an error."""

    hosts: str
    tree: _Tree
    # addresses by place
    gpus: dict[Place, str]
    functions: dict[Place, str]

    def gpus_in_words(self, indexes: t.Sequence[int]) -> str:
        return f"{len(indexes)} GPUs ({', '.join(self.gpus[self.tree.gpus[index]] for index in indexes)})"

    def functions_in_words(self, indexes: t.Sequence[int], noun: str = " HCAs") -> str:
        names = ", ".join(self.functions[self.tree.functions[index]] for index in indexes)
        return f"{len(indexes)}{noun} ({names})"


_OF_ANOTHER_MAKE = (
    "look whether a GPU or an HCA is missing (lspci), and put hosts of another make into a group of their own"
)
_WHAT_TO_DO = (
    "where an HCA is missing, put the host into a group with one that has them all; otherwise take the HCAs that are "
    "no part of a rail out with rdma_want.exclude"
)


def _family(trees: list[_Tree], together: _Together) -> _Family:
    """Hosts with their rails by number. RailError when what is under a switch makes no rails, or some of it is missing."""
    switches = _switches(together.tree)
    _check_alike(together, switches)
    pairs: list[tuple[list[int], list[int]]] = []
    unknown: list[list[int]] = []
    for cards, own in switches:
        if not own:
            step = _lost_step(cards, switches)
            if step is None:
                unknown.append(cards)
            pairs += [(cards[at : at + (step or 1)], []) for at in range(0, len(cards), step or 1)]
        elif len(cards) % len(own) == 0:
            step = len(cards) // len(own)
            pairs += [(cards[at * step : (at + 1) * step], [index]) for at, index in enumerate(own)]
        elif len(own) % len(cards) == 0:
            step = len(own) // len(cards)
            pairs += [([gpu], own[at * step : (at + 1) * step]) for at, gpu in enumerate(cards)]
        else:
            raise RailError(
                f"{together.hosts}: {together.gpus_in_words(cards)} and {together.functions_in_words(own)} are under one PCIe switch, "
                "which makes no rails",
                _WHAT_TO_DO,
            )
    pairs.sort()
    for cards in unknown:
        # nothing that comes before can be shifted by it
        if any(own and gpus > cards for gpus, own in pairs):
            raise RailError(
                f"{together.hosts}: {together.gpus_in_words(cards)} are under a PCIe switch without an HCA, and how many rails they "
                "have cannot be known",
                "put the host into a group with one that has them all",
            )
    numbered = [(cards, [together.tree.functions[index] for index in own]) for cards, own in pairs]
    return _Family(trees, numbered, together.tree, not all(own for _cards, own in switches))


def _check_alike(together: _Together, switches: t.Sequence[tuple[list[int], list[int]]]) -> None:
    """RailError when a switch has fewer HCAs than another of as many GPUs: which of its rails has none cannot be known.

    A single GPU has one rail, however many HCAs are left of it.
    """
    most: dict[int, tuple[list[int], list[int]]] = {}
    for cards, own in switches:
        if len(own) > len(most.get(len(cards), ((), ()))[1]):
            most[len(cards)] = (cards, own)
    for cards, own in switches:
        if len(cards) > 1 and own and len(own) < len(most[len(cards)][1]):
            full, all_own = most[len(cards)]
            raise RailError(
                f"{together.hosts}: {together.gpus_in_words(full)} have {together.functions_in_words(all_own)} under their PCIe switch, "
                f"but {together.gpus_in_words(cards)} have {together.functions_in_words(own, '')}, so the rail without an HCA cannot be identified",
                _WHAT_TO_DO,
            )


def _lost_step(
    cards: t.Sequence[int], switches: t.Sequence[tuple[t.Sequence[int], t.Sequence[int]]]
) -> t.Optional[int]:
    """How many GPUs each rail has under a switch without HCAs, by what other switches have; None when these do not say it."""
    shares = {max(1, len(theirs) // len(own)) for theirs, own in switches if own and len(theirs) == len(cards)}
    shares = shares or {max(1, len(theirs) // len(own)) for theirs, own in switches if own}
    share = shares.pop() if len(shares) == 1 else len(cards) + 1
    return 1 if len(cards) == 1 else share if len(cards) % share == 0 else None


class _Family(t.NamedTuple):
    """Trees that have their rails by what they have together."""

    trees: list[_Tree]
    pairs: _Pairs
    tree: _Tree
    # a switch has no HCA, so that how many rails its GPUs have is concluded from the other switches
    guessed: bool


def _together(names: t.Sequence[str], seen: t.Mapping[str, _Seen], functions: t.Sequence[Place]) -> _Together:
    """The GPUs of hosts that have the same, and functions that one of them has."""
    gpus: dict[Place, str] = {}
    found: dict[Place, str] = {}
    for name in names:
        own = seen[name]
        gpus = gpus or dict(zip(own.tree.gpus, own.gpus))
        for place, pci in zip(own.tree.functions, own.functions):
            found.setdefault(place, pci)
    words = f"host {names[0]}"
    if len(names) > 1:
        words = "hosts {} and {}{} together".format(names[0], names[1], " and others" if len(names) > 2 else "")
    return _Together(words, _Tree(seen[names[0]].tree.gpus, tuple(functions)), gpus, found)


def _families(trees: t.Mapping[_Tree, str], seen: t.Mapping[str, _Seen]) -> list[_Family]:
    """Rails of hosts that have the same GPUs at the same places; trees has the first host of each. RailError as _pairs().

    What a host has lost, the others know: the one that has all that they have together, or else all of them.
    """
    places = {place for tree in trees for place in tree.functions}
    whole = [name for tree, name in trees.items() if len(tree.functions) == len(places)]
    if whole:
        together = _together(whole[:1], seen, seen[whole[0]].tree.functions)
        return [_family(list(trees), together)]
    together = _together(list(trees.values()), seen, sorted(places))
    alone = _whole_alone(trees, seen, together.tree)
    if alone:
        return alone
    if any(tuple(sorted(tree.functions)) != tree.functions for tree in trees):
        raise RailError(
            f"{together.hosts}: no host has all HCAs, and PCI addresses do not follow the order of the switch ports, so the missing rail "
            "cannot be identified",
            "put the hosts into a group with one that has all HCAs",
        )
    _check_lost(trees, together)
    return [_family(list(trees), together)]


def _check_lost(trees: t.Collection[_Tree], together: _Together) -> None:
    """RailError when hosts have HCAs in other slots under a switch of several GPUs, and fewer than together may be all of one of them.

    Together they are those of one host when no number makes rails that is less, and not less than what a host has, under this switch or
    under another of as many GPUs.
    """
    switches = _switches(together.tree)
    most: dict[int, int] = {}
    for cards, indexes in switches:
        places = {together.tree.functions[index] for index in indexes}
        count = max(len(places.intersection(tree.functions)) for tree in trees)
        most[len(cards)] = max(count, most.get(len(cards), 1))
    for cards, indexes in switches:
        gpus = len(cards)
        if gpus > 1 and any(gpus % count == 0 or count % gpus == 0 for count in range(most[gpus], len(indexes))):
            raise RailError(
                f"{together.hosts}: {together.gpus_in_words(cards)} have HCAs in {len(indexes)} slots under one PCIe switch, and no host has "
                f"more than {most[gpus]} under such a one, so how many a complete host has cannot be known",
                "put hosts of another make into a group of their own, and those that lack HCAs into one with a host that has them all",
            )


def _whole_alone(trees: t.Mapping[_Tree, str], seen: t.Mapping[str, _Seen], together: _Tree) -> list[_Family]:
    """The trees, each for itself, when each is whole and has the same rails as the others, with HCAs in other slots; or none.

    An HCA that is under another switch by what they have together says that one of them has lost something.
    """
    found: list[_Family] = []
    for tree, name in trees.items():
        try:
            found.append(_family([tree], _together([name], seen, tree.functions)))
        except RailError:
            return []
    switches = {
        (gpu, together.functions[index]) for cards, indexes in _switches(together) for gpu in cards for index in indexes
    }
    if not switches.issuperset(
        (gpu, place) for own in found for cards, functions in own.pairs for gpu in cards for place in functions
    ):
        return []
    rails = {tuple((tuple(cards), len(functions)) for cards, functions in own.pairs) for own in found}
    return found if len(rails) == 1 and all(functions for own in found for _cards, functions in own.pairs) else []


def _functions(pairs: _Pairs) -> int:
    return sum(len(functions) for _cards, functions in pairs)


def group_rails(hosts: t.Mapping[str, Host]) -> dict[str, list[Rail]]:
    """Rails of the hosts of a group, by number.

    Under a switch with as many functions as GPUs, each function has a GPU; a function that several GPUs share is one rail, and
    several functions of one GPU are one rail. RailError where neither can be, and where it cannot be known which rail of a host
    has lost its functions.

    What a host has lost, the others know: hosts with the same GPUs at the same places are numbered by what they have together,
    whatever the addresses. A rail of which a host has no function has none there, and shifts no other.
    """
    seen = _see_all(hosts)
    makes: dict[tuple[Place, ...], dict[_Tree, str]] = {}
    for name in sorted(hosts):
        makes.setdefault(seen[name].tree.gpus, {}).setdefault(seen[name].tree, name)
    families: list[_Family] = []
    refused: list[tuple[dict[_Tree, str], RailError]] = []
    for trees in makes.values():
        try:
            families += _families(trees, seen)
        except RailError as exc:
            refused.append((trees, exc))
    # What hosts with the same GPUs cannot say, others may, the most complete ones first: GPUs at other places under the same switches.
    known = sorted(families, key=lambda own: (-_functions(own.pairs), own.guessed))

    def by_others(tree: _Tree) -> t.Optional[_Pairs]:
        return next((found for found in (_fitted(tree, own.pairs) for own in known) if found is not None), None)

    pairs: dict[_Tree, _Pairs] = {}
    for own in families:
        pairs.update(dict.fromkeys(own.trees, (by_others(own.tree) if own.guessed else None) or own.pairs))
    for trees, error in refused:
        for tree in trees:
            fitted = by_others(tree)
            if fitted is None:
                raise error
            pairs[tree] = fitted
    _check_adopted(pairs, seen)
    switches = {tree: _switches(tree) for tree in pairs}
    return {name: _rails(own, pairs[own.tree], switches[own.tree]) for name, own in seen.items()}


def _check_adopted(pairs: t.Mapping[_Tree, _Pairs], seen: t.Mapping[str, _Seen]) -> None:
    """RailError when a host has nothing under a bridge that is above a GPU, but something further up, and another host has something under it.

    The former may have lost it: what is further up, at the uplink of several switches, may be of no GPU. GPUs are compared where as many
    bridges lead to them, of which the last ones may be their own.
    """
    # {(length of the way, the way to the bridge): a host}, and with the address of what it has
    under: dict[tuple[int, Place], str] = {}
    above: dict[tuple[int, Place], tuple[str, str]] = {}
    for tree, name in {seen[name].tree: name for name in sorted(seen, reverse=True)}.items():
        addresses = dict(zip(tree.functions, seen[name].functions))
        for cards, places in pairs[tree]:
            here = [(_ports(place), addresses[place]) for place in places if place in addresses]
            for way in {_ports(tree.gpus[gpu]) for gpu in cards} if here else ():
                for depth in range(1, len(way)):
                    if any(place[:depth] == way[:depth] for place, _address in here):
                        under.setdefault((len(way), way[:depth]), name)
                    else:
                        above.setdefault((len(way), way[:depth]), (name, here[0][1]))
    for bridge in sorted(under.keys() & above.keys()):
        name, address = above[bridge]
        raise RailError(
            f"host {name}: HCA {address} is not under the switch of a GPU, but above it, while host {under[bridge]} has one under that "
            "switch, so whether it is that of the GPU cannot be known",
            "exclude it with rdma_want.exclude if it belongs to no rail, and put hosts of another make into a group of their own",
        )


def _ports(place: Place) -> Place:
    """A place without numbers of busses, which may have told functions apart, and which other hosts have others of."""
    return tuple((*step[:1], *step[1:][-2:]) for step in place)


def _fitted(tree: _Tree, reference: _Pairs) -> t.Optional[_Pairs]:
    """The rails of a tree by those of another, None where it cannot be known which of them have lost their functions.

    It is known under a switch that has lost all or nothing.
    """
    functions: dict[int, list[Place]] = {}
    for cards, indexes in _switches(tree):
        own = [tree.functions[index] for index in indexes]
        here = [number for number, (gpus, _places) in enumerate(reference) if set(gpus) & set(cards)]
        expected = [reference[number] for number in here]
        if set(cards) != {gpu for gpus, _places in expected for gpu in gpus}:
            return None
        # a rail that has lost its functions there, too, does not tell which one of several is meant
        if own and (len(own) != _functions(expected) or not all(places for _gpus, places in expected)):
            return None
        for number in here:
            count = len(reference[number][1])
            functions[number], own = own[:count], own[count:]
    if len(functions) != len(reference):
        return None
    return [(cards, functions[number]) for number, (cards, _places) in enumerate(reference)]


def _rails(seen: _Seen, pairs: _Pairs, switches: t.Sequence[tuple[list[int], list[int]]]) -> list[Rail]:
    """The rails of a host, with its own addresses."""
    functions = dict(zip(seen.tree.functions, seen.functions))
    alone = {cards[0] for cards, _indexes in switches if len(cards) == 1}
    return [
        Rail(
            number,
            tuple(gpu + 1 for gpu in cards),
            tuple(seen.gpus[gpu] for gpu in cards),
            tuple(functions[place] for place in places if place in functions),
            seen.tree.gpus if cards[0] in alone else None,
        )
        for number, (cards, places) in enumerate(pairs, 1)
    ]


def _words(rail: Rail) -> str:
    return "GPU {}{}".format(
        ", ".join(str(gpu) for gpu in rail.gpus),
        f" with {', '.join(rail.functions)}" if rail.functions else " without an HCA",
    )


def _fullest(rails: t.Mapping[str, t.Sequence[Rail]]) -> dict[int, tuple[str, Rail]]:
    """Of each number, a host whose rail has the most functions, and that rail."""
    found: dict[int, tuple[str, Rail]] = {}
    for host in sorted(rails):
        for rail in rails[host]:
            if rail.number not in found or len(rail.functions) > len(found[rail.number][1].functions):
                found[rail.number] = (host, rail)
    return found


def _check_short(rails: t.Mapping[str, t.Sequence[Rail]]) -> None:
    """RailError for a rail with fewer functions than on another host, though it has not lost what only its GPU can have had.

    That is known by a host with all of them that has its GPUs at the same places.
    """
    fullest = _fullest(rails)
    whole = {
        (rail.number, rail.alone)
        for own in rails.values()
        for rail in own
        if rail.alone and len(rail.functions) == len(fullest[rail.number][1].functions)
    }
    for host in sorted(rails):
        for rail in rails[host]:
            other, full = fullest[rail.number]
            if 0 < len(rail.functions) < len(full.functions) and (rail.number, rail.alone) not in whole:
                raise RailError(
                    f"rails differ between hosts {other} and {host}: rail {rail.number} is {_words(full)} on the one, {_words(rail)} on "
                    "the other",
                    _OF_ANOTHER_MAKE,
                )


def check_rails(rails: t.Mapping[str, t.Sequence[Rail]], netdevs: t.Mapping[str, t.Mapping[str, str]]) -> None:
    """RailError with two hosts that differ when a rail's number does not mean the same on all hosts.

    netdevs: by host, the first netdev by PCI address. What has to be the same: how many rails there are, which GPUs and how
    many functions each has, the order of the functions' addresses, and that no name of an interface is on two rails (what
    names it, such as a secondary network of a rail, is made for the whole cluster). Where a GPU has a switch for itself, and a
    host with all GPUs at the same places has all functions of its rail, it may have lost some.
    """
    hosts = sorted(host for host in rails if rails[host])
    if not hosts:
        return
    _check_short(rails)
    # the most complete host, so that what others lack is not what they are measured by
    reference = min(hosts, key=lambda host: (-sum(len(rail.functions) for rail in rails[host]), host))
    expected = rails[reference]
    order = _order(expected)
    named: dict[str, tuple[int, str]] = {}
    for host in [reference, *hosts]:
        own = rails[host]
        if len(own) != len(expected):
            raise RailError(
                f"rails differ between hosts {reference} and {host}: {len(expected)} rails on the one, {len(own)} on "
                "the other",
                _OF_ANOTHER_MAKE,
            )
        for mine, theirs in zip(expected, own):
            if mine.gpus != theirs.gpus:
                raise RailError(
                    f"rails differ between hosts {reference} and {host}: rail {mine.number} is {_words(mine)} on the "
                    f"one, {_words(theirs)} on the other",
                    _OF_ANOTHER_MAKE,
                )
        # a rail that has lost its first HCA, or all, has no place in the order
        whole = {mine.number for mine, theirs in zip(expected, own) if len(mine.functions) == len(theirs.functions)}
        if [number for number in order if number in whole] != [number for number in _order(own) if number in whole]:
            raise RailError(
                f"rails differ between hosts {reference} and {host}: by PCI address, the HCAs are those of rails "
                f"{', '.join(map(str, order))} on the one, {', '.join(map(str, _order(own)))} on the "
                "other",
                _OF_ANOTHER_MAKE,
            )
        for rail in own:
            for pci in rail.functions:
                name = netdevs[host].get(pci)
                number, other = named.setdefault(name, (rail.number, host)) if name else (rail.number, host)
                if number != rail.number:
                    raise RailError(
                        f"rails differ between hosts {other} and {host}: interface {name} is on rail {number} of the "
                        f"one and on rail {rail.number} of the other",
                        "give the interfaces names by their rail, or put the hosts into groups of their own",
                    )


def _order(rails: t.Sequence[Rail]) -> list[int]:
    """Numbers of the rails in the order of the addresses of their first functions."""
    return [
        rail.number
        for rail in sorted((rail for rail in rails if rail.functions), key=lambda r: _address(r.functions[0]))
    ]

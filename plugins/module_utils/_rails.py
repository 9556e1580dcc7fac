# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of a host: which GPU and which HCA are under the same PCIe switch, numbered by GPU. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["Host", "Rail", "RailError", "check_rails", "group_rails", "rail_host"]

Json = t.Mapping[str, t.Any]


class RailError(Exception):
    """Rails that cannot be numbered; the text is for the user."""


class Rail(t.NamedTuple):
    """One rail of a host. GPUs are counted from 1 in the order of their PCI addresses."""

    number: int
    gpus: t.Tuple[int, ...]
    gpu_addresses: t.Tuple[str, ...]
    # PCI addresses of the functions; none where the HCA is gone
    functions: t.Tuple[str, ...]


def _address(pci: str) -> t.Tuple[int, ...]:
    domain, bus, rest = pci.split(":")
    device, _dot, function = rest.partition(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)


def _common(one: t.Sequence[str], other: t.Sequence[str]) -> int:
    """How many bridges two functions have in common, from the root port down."""
    depth = 0
    for mine, theirs in zip(one, other):
        if mine != theirs:
            break
        depth += 1
    return depth


def _nearest(bridges: t.Sequence[str], others: t.Mapping[str, t.Sequence[str]]) -> t.Set[str]:
    """Addresses of the others with the most bridges in common with these, none where nobody has any."""
    depths = {pci: _common(bridges, theirs) for pci, theirs in others.items()}
    deepest = max(depths.values(), default=0)
    return {pci for pci, depth in depths.items() if depth == deepest} if deepest else set()


def _switches(
    gpus: t.Mapping[str, t.Sequence[str]], functions: t.Mapping[str, t.Sequence[str]]
) -> t.List[t.Tuple[t.List[str], t.List[str]]]:
    """[(GPUs, functions)] that are under one switch, by the order of the GPUs; each GPU is in one of them.

    They belong together when each is nearest to the other. A function next to the uplink of all GPUs has none that is
    nearest to it in return; and when the HCA of a GPU is gone, the HCAs of other GPUs are nearest to it, but not it to them.
    """
    near_gpu = {pci: _nearest(bridges, functions) for pci, bridges in gpus.items()}
    near_function = {pci: _nearest(bridges, gpus) for pci, bridges in functions.items()}
    found: t.List[t.Tuple[t.List[str], t.List[str]]] = []
    seen: t.Set[str] = set()
    for gpu in sorted(gpus, key=_address):
        if gpu in seen:
            continue
        mine = {pci for pci in near_gpu[gpu] if gpu in near_function[pci]}
        group = {gpu}
        for pci in mine:
            group |= {other for other in near_function[pci] if pci in near_gpu[other]}
        if not mine:
            # the others that have lost the same: under the same switch, where each is at a port of its own
            switch = gpus[gpu][:-1]
            group |= {
                other
                for other in gpus
                if other not in seen
                and switch
                and gpus[other][:-1] == switch
                and not any(other in near_function[pci] for pci in near_gpu[other])
            }
        seen |= group
        found.append((sorted(group, key=_address), sorted(mine, key=_address)))
    return found


class Host(t.NamedTuple):
    """The addresses of the bridges above each GPU and each function that may be on a rail, by their own address."""

    gpus: t.Dict[str, t.Sequence[str]]
    functions: t.Dict[str, t.Sequence[str]]


def rail_host(host: str, facts: Json, candidates: t.Collection[str]) -> Host:
    """What the rails of a host are made from.

    candidates: PCI addresses of the functions that may be on a rail, also those of which no port is up at the moment: a lost
    cable must not shift the numbers of the others. RailError where the facts do not tell of bridges.
    """
    gpus = {gpu["pci"]: gpu.get("bridges") for gpu in facts.get("gpus") or ()}
    functions = {row["pci"]: row.get("bridges") for row in facts["devices"] if row["pci"] in candidates}
    if "gpus" not in facts or None in gpus.values() or None in functions.values():
        raise RailError(
            "host %s: its facts do not say which PCIe switches its GPUs and HCAs are under; run discover again" % host
        )
    return Host(gpus, functions)


def _pairs(name: str, host: Host) -> t.List[t.Tuple[t.List[str], t.List[str]]]:
    """[(GPUs, functions)] of each rail by its number. RailError when what is under a switch makes no rails."""
    position = {pci: index for index, pci in enumerate(sorted(host.gpus, key=_address), 1)}
    switches = _switches(host.gpus, host.functions)
    shares = {len(cards) // len(own) for cards, own in switches if own}
    shared = shares.pop() if len(shares) == 1 else 1
    pairs: t.List[t.Tuple[t.List[str], t.List[str]]] = []
    for cards, own in switches:
        if not own:
            # as many rails as there would be, by what the other switches have
            step = shared if shared and len(cards) % shared == 0 else 1
            pairs += [(cards[at : at + step], []) for at in range(0, len(cards), step)]
        elif len(cards) % len(own) == 0:
            step = len(cards) // len(own)
            pairs += [(cards[at * step : (at + 1) * step], [pci]) for at, pci in enumerate(own)]
        elif len(own) % len(cards) == 0:
            step = len(own) // len(cards)
            pairs += [([gpu], own[at * step : (at + 1) * step]) for at, gpu in enumerate(cards)]
        else:
            raise RailError(
                "host %s: %d GPUs (%s) and %d HCAs (%s) are under one PCIe switch, which makes no rails; "
                "take the HCAs that are no part of a rail out with rdma_want.exclude"
                % (name, len(cards), ", ".join(cards), len(own), ", ".join(own))
            )
    pairs.sort(key=lambda pair: position[pair[0][0]])
    return pairs


def _whole(hosts: t.Mapping[str, Host]) -> t.Optional[Host]:
    """What hosts with the same GPUs have together; None when one address is in two places."""
    functions: t.Dict[str, t.Sequence[str]] = {}
    for name in sorted(hosts):
        for pci, bridges in hosts[name].functions.items():
            if functions.setdefault(pci, bridges) != bridges:
                return None
    return Host(next(iter(hosts.values())).gpus, functions)


def group_rails(hosts: t.Mapping[str, Host]) -> t.Dict[str, t.List[Rail]]:
    """Rails of the hosts of a group, by number.

    Under a switch with as many functions as GPUs, each function has a GPU; a function that several GPUs share is one rail, and
    several functions of one GPU are one rail. RailError where neither can be.

    What a host has lost, the others know: hosts with the same GPUs at the same places are numbered by what they have together.
    A rail of which a host has no function has none there, and shifts no other.
    """
    makes: t.Dict[t.Tuple[t.Any, ...], t.Dict[str, Host]] = {}
    for name in sorted(hosts):
        key = tuple((pci, tuple(bridges)) for pci, bridges in sorted(hosts[name].gpus.items()))
        makes.setdefault(key, {})[name] = hosts[name]
    found: t.Dict[str, t.List[Rail]] = {}
    for alike in makes.values():
        found.update(_make_rails(alike))
    # a host of which the addresses are others, as they are after a card has gone, has lost what the most complete one has
    reference = found[min(found, key=lambda name: (-_functions(found[name]), name))] if found else []
    return {
        name: (_functions(own) < _functions(reference) and _fitted(hosts[name], reference)) or own
        for name, own in found.items()
    }


def _functions(rails: t.Sequence[Rail]) -> int:
    return sum(len(rail.functions) for rail in rails)


def _fitted(host: Host, reference: t.Sequence[Rail]) -> t.Optional[t.List[Rail]]:
    """The rails of a host by those of another, None where it cannot be known which of them have lost their functions.

    It is known under a switch that has lost all or nothing.
    """
    ordered = sorted(host.gpus, key=_address)
    functions: t.Dict[int, t.Tuple[str, ...]] = {}
    for cards, own in _switches(host.gpus, host.functions):
        numbers = {ordered.index(gpu) + 1 for gpu in cards}
        here = [rail for rail in reference if numbers & set(rail.gpus)]
        if numbers != {gpu for rail in here for gpu in rail.gpus} or len(own) not in (0, _functions(here)):
            return None
        for rail in here:
            functions[rail.number] = tuple(own[: len(rail.functions)])
            own = own[len(rail.functions) :]
    if len(functions) != len(reference):
        return None
    return [
        Rail(rail.number, rail.gpus, tuple(ordered[gpu - 1] for gpu in rail.gpus), functions[rail.number])
        for rail in reference
    ]


_Sort = t.FrozenSet[t.Tuple[str, t.Tuple[str, ...]]]


def _sort(host: Host) -> _Sort:
    """What hosts with the same GPUs may differ in."""
    return frozenset((pci, tuple(bridges)) for pci, bridges in host.functions.items())


def _make_rails(alike: t.Mapping[str, Host]) -> t.Dict[str, t.List[Rail]]:
    """Rails of hosts that have the same GPUs at the same places."""
    # hosts that have the same functions, too, are looked at once
    sorts: t.Dict[_Sort, t.List[str]] = {}
    for name, host in alike.items():
        sorts.setdefault(_sort(host), []).append(name)
    first = {own: names[0] for own, names in sorts.items()}
    whole = _whole({name: alike[name] for name in first.values()})
    pairs = None
    if whole is not None and len(sorts) > 1:
        try:
            pairs = _pairs("", whole)
        except RailError:
            # they have more together than any of them can have had
            pairs = None
        if pairs is not None and _sort(whole) not in sorts and _other_makes(alike, first, pairs):
            pairs = None
    rails: t.Dict[str, t.List[Rail]] = {}
    for names in sorts.values():
        host = alike[names[0]]
        position = {pci: index for index, pci in enumerate(sorted(host.gpus, key=_address), 1)}
        mine = [
            Rail(
                number,
                tuple(position[gpu] for gpu in cards),
                tuple(cards),
                tuple(pci for pci in functions if pci in host.functions),
            )
            for number, (cards, functions) in enumerate(pairs or _pairs(names[0], host), 1)
        ]
        for name in names:
            rails[name] = list(mine)
    return rails


def _other_makes(
    alike: t.Mapping[str, Host],
    first: t.Mapping[_Sort, str],
    pairs: t.Sequence[t.Tuple[t.Sequence[str], t.Sequence[str]]],
) -> bool:
    """Whether hosts, none of which has all that they have together, are whole each for itself, with HCAs in other slots."""
    numbers = set()
    for own, name in first.items():
        try:
            alone = _pairs(name, alike[name])
        except RailError:
            return False
        if len(alone) != len(pairs) and not all(functions for _cards, functions in alone):
            return False
        numbers.add((len(own), tuple(tuple(cards) for cards, _functions in alone)))
    return len(numbers) == 1


def _words(rail: Rail) -> str:
    return "GPU %s%s" % (
        ", ".join(str(gpu) for gpu in rail.gpus),
        " with %s" % ", ".join(rail.functions) if rail.functions else " without an HCA",
    )


def check_rails(rails: t.Mapping[str, t.Sequence[Rail]], netdevs: t.Mapping[str, t.Mapping[str, str]]) -> None:
    """RailError with two hosts that differ when a rail's number does not mean the same on all hosts.

    netdevs: by host, the first netdev by PCI address. What has to be the same: how many rails there are, which GPUs and how
    many functions each has, the order of the functions' addresses, and that no name of an interface is on two rails (what
    names it, such as a secondary network of a rail, is made for the whole cluster).
    """
    hosts = sorted(host for host in rails if rails[host])
    if not hosts:
        return
    # the most complete host, so that what others lack is not what they are measured by
    reference = min(hosts, key=lambda host: (-sum(len(rail.functions) for rail in rails[host]), host))
    expected = rails[reference]
    order = _order(expected)
    named: t.Dict[str, t.Tuple[int, str]] = {}
    for host in [reference, *hosts]:
        own = rails[host]
        if len(own) != len(expected):
            raise RailError(
                "rails differ between hosts %s and %s: %d rails on the one, %d on the other; put hosts of another make into a "
                "group of their own" % (reference, host, len(expected), len(own))
            )
        for mine, theirs in zip(expected, own):
            if mine.gpus != theirs.gpus or (
                mine.functions and theirs.functions and len(mine.functions) != len(theirs.functions)
            ):
                raise RailError(
                    "rails differ between hosts %s and %s: rail %d is %s on the one, %s on the other; put hosts of another "
                    "make into a group of their own" % (reference, host, mine.number, _words(mine), _words(theirs))
                )
        here = set(_order(own))
        if [number for number in order if number in here] != [number for number in _order(own) if number in order]:
            raise RailError(
                "rails differ between hosts %s and %s: by PCI address, the HCAs are those of rails %s on the one, %s on the "
                "other; put hosts of another make into a group of their own"
                % (reference, host, ", ".join(map(str, order)), ", ".join(map(str, _order(own))))
            )
        for rail in own:
            for pci in rail.functions:
                name = netdevs[host].get(pci)
                number, other = named.setdefault(name, (rail.number, host)) if name else (rail.number, host)
                if number != rail.number:
                    raise RailError(
                        "rails differ between hosts %s and %s: interface %s is on rail %d of the one and on rail %d of the "
                        "other; give the interfaces names by their rail, or put the hosts into groups of their own"
                        % (other, host, name, number, rail.number)
                    )


def _order(rails: t.Sequence[Rail]) -> t.List[int]:
    """Numbers of the rails in the order of the addresses of their first functions."""
    return [
        rail.number
        for rail in sorted((rail for rail in rails if rail.functions), key=lambda r: _address(r.functions[0]))
    ]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts meet, and in which round. Private to the collection. Pure.

A round is a set of pairs without a common host: its pairs run at the same time and share no link, so that none halves another's bandwidth.
"""

from __future__ import annotations

import random
import typing as t

__all__ = ["TOPOLOGIES", "Hosts", "merged", "schedule"]

Hosts = t.Tuple[str, str]
Content = t.TypeVar("Content")

TOPOLOGIES = ("pairs", "ring", "full", "sample", "canary")


def schedule(
    hosts: t.Sequence[str],
    topology: str = "pairs",
    partners: int = 3,
    seed: int = 0,
    canaries: t.Collection[str] = (),
) -> list[list[Hosts]]:
    """Rounds of (client, server) without a common host; no two hosts meet twice, but for a ring of two.

    pairs: each host once, one host of an odd number a second time, in one or two rounds.
    ring: each host once as client and once as server, in two or three rounds.
    full: every two hosts once, in as many rounds as there are hosts, or one less.
    sample: each host with at least `partners` others, in about as many rounds; which they are depends on hosts and seed alone.
    canary: only the canaries (those of `canaries` that are here, else the first host), each with another host.
    """
    names = list(hosts)
    if len(names) < 2:
        return []
    if topology == "full":
        return list(_circle(names))
    if topology == "ring":
        return _ring(names)
    if topology == "sample":
        return _sample(names, partners, seed)
    if topology == "canary":
        return _canary(names, canaries)
    return _pairs(names)


def _pairs(names: t.Sequence[str]) -> list[list[Hosts]]:
    rounds = [[(names[index], names[index + 1]) for index in range(0, len(names) - 1, 2)]]
    if len(names) % 2:
        rounds.append([(names[-1], names[0])])
    return rounds


def _ring(names: t.Sequence[str]) -> list[list[Hosts]]:
    count = len(names)
    edges = [(names[index], names[(index + 1) % count]) for index in range(count)]
    if count % 2 == 0:
        return [edges[0::2], edges[1::2]]
    return [edges[0 : count - 1 : 2], edges[1:count:2], [edges[-1]]]


def _circle(names: t.Sequence[str]) -> t.Iterator[list[Hosts]]:
    """One stays, the others move round it; with an odd number, who meets None pauses."""
    circle: list[t.Optional[str]] = [*names] if len(names) % 2 == 0 else [*names, None]
    half = len(circle) // 2
    for _turn in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]))
        yield [(one, other) for one, other in facing if one is not None and other is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def _sample(names: t.Sequence[str], partners: int, seed: int) -> list[list[Hosts]]:
    """The first rounds in which everyone meets everyone, of hosts in a random order, until each has met enough."""
    shuffled = list(names)
    random.Random(seed).shuffle(shuffled)
    met = dict.fromkeys(shuffled, 0)
    wanted = min(partners, len(names) - 1)
    rounds = []
    for one in _circle(shuffled):
        # an odd number has a host that pauses: it takes its turn later, and meets one that has met enough
        needed = [pair for pair in one if min(met[pair[0]], met[pair[1]]) < wanted]
        if not needed:
            break
        for host in (host for pair in needed for host in pair):
            met[host] += 1
        rounds.append(needed)
    return rounds


def _canary(names: t.Sequence[str], canaries: t.Collection[str]) -> list[list[Hosts]]:
    chosen = [name for name in names if name in canaries] or [names[0]]
    others = [name for name in names if name not in chosen]
    # against hosts that are not, as long as there are some
    rounds = [list(zip(chosen, others))]
    left = chosen[len(rounds[0]) :]
    # those for whom there is nobody else: among themselves, and one that is alone with somebody
    rounds.append(list(zip(left[0::2], left[1::2])))
    if len(left) % 2:
        rounds.append([(left[-1], next(name for name in names if name != left[-1]))])
    return [one for one in rounds if one]


def merged(
    rounds: t.Sequence[t.Sequence[tuple[Hosts, Content]]], join: t.Callable[[Content, Content], None]
) -> list[list[Content]]:
    """The rounds of all groups and fabrics as one sequence: each pair as early as both its hosts are free.

    Two hosts that meet in several fabrics meet once: join(first, other) is called for what comes later.
    """
    places: dict[Hosts, Content] = {}
    # bit n: the host has a part in round n
    busy: dict[str, int] = {}
    found: list[list[Content]] = []
    for one in rounds:
        for pair, content in one:
            if pair in places:
                join(places[pair], content)
                continue
            taken = busy.get(pair[0], 0) | busy.get(pair[1], 0)
            free = ~taken & (taken + 1)
            for host in pair:
                busy[host] = busy.get(host, 0) | free
            number = free.bit_length() - 1
            if number == len(found):
                found.append([])
            found[number].append(content)
            places[pair] = content
    return found

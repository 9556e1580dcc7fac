# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the cables, by the map: swapped ones, and ports in another subnet. Private. Pure.

Nobody says which leaf a rail is meant to be at. Hosts of a group that are plugged in alike make a pattern: the leaf of each rail. A host that
shares leaves with a pattern of more hosts, and has most of its rails where these have them, is meant to be one of them. Hosts at other
leaves are in another rack or unit, and right.
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import hosts_label, printable
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.contract import Place, Unplaced
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import Finding, Severity

__all__ = ["cable_findings", "subnet_findings"]

# (rail, which of the cables of its port): leaf
_Pattern = tuple[tuple[tuple[int, int], str], ...]
# More patterns than this have no order that anybody could miss.
_MOST_PATTERNS = 500
_MOST_FINDINGS = 200


class _Wrong(t.NamedTuple):
    """A cable that is not where those of the other hosts are. others: how many hosts have it at want."""

    place: Place
    want: str
    others: int


def _finding(key: str, severity: Severity, places: t.Sequence[Place], *texts: t.Any) -> Finding:
    """texts: cause, evidence, remedy."""
    cause, evidence, remedy = texts
    hosts = sorted({place["host"] for place in places}, key=natural_key)
    return {
        "id": key,
        "severity": severity,
        "group": places[0]["group"],
        "hosts": hosts,
        "cause": printable(cause)[:300],
        "evidence": [printable(line)[:300] for line in evidence[:20]],
        "remedy": printable(remedy)[:400],
    }


def _port(place: Place) -> str:
    return f"{place['device']} port {place['port']}" + (f" ({place['netdev']})" if place["netdev"] else "")


def _by_host(places: t.Iterable[Place]) -> dict[str, dict[tuple[int, int], Place]]:
    """The cables of each host, by rail and number."""
    found: dict[str, dict[tuple[int, int], Place]] = {}
    for place in places:
        own = found.setdefault(place["host"], {})
        number = 0
        while (place["rail"], number) in own:
            number += 1
        own[(place["rail"], number)] = place
    return found


def _distance(one: _Pattern, other: _Pattern) -> t.Optional[int]:
    """How many cables differ; None for hosts that have nothing to do with each other."""
    mine, theirs = dict(one), dict(other)
    if mine.keys() != theirs.keys():
        return None
    differ = [key for key in mine if mine[key] != theirs[key]]
    same_leaves = set(mine.values()) == set(theirs.values())
    return len(differ) if same_leaves or 2 * len(differ) <= len(mine) else None


def _meant(own: _Pattern, count: int, patterns: t.Sequence[tuple[_Pattern, int]]) -> t.Optional[tuple[_Pattern, int]]:
    """The nearest pattern of more hosts, and how many have it."""
    best: t.Optional[tuple[int, int, _Pattern]] = None
    for other, others in patterns:
        distance = _distance(own, other) if others > count else None
        if distance and (best is None or (distance, -others) < best[:2]):
            best = (distance, -others, other)
    return (best[2], -best[1]) if best else None


def _swapped(wrong: list[_Wrong]) -> tuple[list[tuple[_Wrong, _Wrong]], list[_Wrong]]:
    """(pairs of cables of which each is where the other one belongs, those of one host first; what is left)."""
    pairs: list[tuple[_Wrong, _Wrong]] = []
    left = list(wrong)
    for same_host in (True, False):
        waiting: dict[tuple[str, ...], list[_Wrong]] = {}
        rest: list[_Wrong] = []
        for one in left:
            host = (one.place["host"],) if same_host else ()
            partners = waiting.get((one.want, one.place["leaf"], *host))
            if partners:
                pairs.append((partners.pop(0), one))
            else:
                waiting.setdefault((one.place["leaf"], one.want, *host), []).append(one)
        taken = {id(each) for pair in pairs for each in pair}
        rest = [one for one in left if id(one) not in taken]
        left = rest
    return pairs, left


def _line(wrong: _Wrong, names: t.Mapping[str, str]) -> str:
    place = wrong.place
    return "{} {}, rail {}: at {} port {}; {} other {} it at {}".format(
        place["host"],
        _port(place),
        place["rail"],
        names.get(place["leaf"], place["leaf"]),
        place["leaf_port"],
        wrong.others,
        "host has" if wrong.others == 1 else "hosts have",
        names.get(wrong.want, wrong.want),
    )


def _pair_finding(one: _Wrong, other: _Wrong, names: t.Mapping[str, str]) -> Finding:
    a, b = one.place, other.place
    cables = f"{a['host']} {_port(a)} and {b['host']} {_port(b)}"
    cause = f"the cables of {cables} are swapped: their rails do not share a leaf with those of the other hosts"
    remedy = (
        f"swap these two cables: at the switches ({names.get(a['leaf'], a['leaf'])} port {a['leaf_port']} and "
        f"{names.get(b['leaf'], b['leaf'])} port {b['leaf_port']})"
        + (", or at the host" if a["host"] == b["host"] else "")
    )
    return _finding("cables-exchanged", "warning", [a, b], cause, [_line(one, names), _line(other, names)], remedy)


def _single_finding(wrong: _Wrong, names: t.Mapping[str, str]) -> Finding:
    place = wrong.place
    want = names.get(wrong.want, wrong.want)
    cause = f"{place['host']} {_port(place)} is at another leaf than rail {place['rail']} of the other hosts"
    remedy = (
        f"move its cable from {names.get(place['leaf'], place['leaf'])} port {place['leaf_port']} to a port of {want}"
    )
    return _finding("rail-off-leaf", "warning", [place], cause, [_line(wrong, names)], remedy)


def _ties(
    cables: t.Mapping[str, t.Mapping[tuple[int, int], Place]],
    patterns: t.Sequence[tuple[_Pattern, int]],
    names: t.Mapping[str, str],
) -> list[Finding]:
    """Two patterns of as many hosts at the same leaves: one of both is wrong, and nobody knows which."""
    found = []
    for index, (one, count) in enumerate(patterns):
        for other, others in patterns[index + 1 :]:
            if count != others or not _distance(one, other) or _meant(one, count, patterns):
                continue
            first, second = (
                [
                    own
                    for own in cables.values()
                    if tuple(sorted((key, place["leaf"]) for key, place in own.items())) == each
                ]
                for each in (one, other)
            )
            keys = [key for key in dict(one) if dict(one)[key] != dict(other)[key]]
            hosts = [hosts_label([next(iter(own.values()))["host"] for own in each]) for each in (first, second)]
            ports = ", ".join(_port(first[0][key]) for key in keys)
            cause = f"{hosts[0]} and {hosts[1]} have their rails at the same leaves in another order"
            evidence = [
                f"{own[key]['host']} {_port(own[key])}, rail {key[0]}: at {names.get(own[key]['leaf'], own[key]['leaf'])} port {own[key]['leaf_port']}"
                for own in (first[0], second[0])
                for key in keys
            ]
            remedy = f"find out which of the two is meant, and swap the cables of {ports} on the other"
            places = [place for own in (*first, *second) for place in own.values()]
            found.append(_finding("rails-in-another-order", "warning", places, cause, evidence, remedy))
    return found


def cable_findings(places: t.Iterable[Place], names: t.Mapping[str, str]) -> list[Finding]:
    """Cables that are not where those of the other hosts of the group are; two that are swapped are named together.

    names: of switches by id.
    """
    groups: dict[str, list[Place]] = {}
    for place in places:
        groups.setdefault(place["group"], []).append(place)
    found: list[Finding] = []
    for group in groups.values():
        cables = _by_host(group)
        pattern = {
            host: tuple(sorted((key, place["leaf"]) for key, place in own.items())) for host, own in cables.items()
        }
        patterns = collections.Counter(pattern.values()).most_common(_MOST_PATTERNS)
        counts = dict(patterns)
        meant = {each: _meant(each, count, patterns) for each, count in patterns}
        wrong: list[_Wrong] = []
        for host, own in sorted(cables.items(), key=lambda item: natural_key(item[0])):
            target = meant.get(pattern[host]) if pattern[host] in counts else None
            if target:
                want = dict(target[0])
                wrong += [
                    _Wrong(place, want[key], target[1]) for key, place in own.items() if place["leaf"] != want[key]
                ]
        pairs, left = _swapped(wrong)
        found += [_pair_finding(one, other, names) for one, other in pairs]
        found += [_single_finding(one, names) for one in left]
        found += _ties(cables, patterns[:20], names)
    return _bounded(found)


def _bounded(found: list[Finding]) -> list[Finding]:
    """No more findings than a page can show: the last one then speaks for all that are left, and names their hosts."""
    kept, left = found[: _MOST_FINDINGS - 1], found[_MOST_FINDINGS - 1 :]
    if len(left) < 2:
        return found
    hosts = sorted({host for each in left for host in each["hosts"]}, key=natural_key)
    last: Finding = {
        **left[0],
        "hosts": hosts,
        "cause": f"{len(left)} more findings on cables, of {len(hosts)} hosts ({hosts_label(hosts)})"[:300],
        "evidence": [each["cause"] for each in left[:20]],
        "remedy": "repair the cables that are named one by one, and draw the map again: it then names the next ones",
    }
    return [*kept, last]


def subnet_findings(places: t.Sequence[Place], unplaced: t.Sequence[Unplaced], discovered: bool) -> list[Finding]:
    """InfiniBand ports in another subnet than the same rail of most other hosts, and those that no fabric has that was seen.

    discovered: whether a host has told of an InfiniBand fabric.
    """
    rails: dict[tuple[str, int], list[Place]] = {}
    for place in places:
        if place["subnet"]:
            rails.setdefault((place["group"], place["rail"]), []).append(place)
    found = []
    for (_group, rail), own in sorted(rails.items()):
        counted = collections.Counter(place["subnet"] for place in own)
        usual, count = counted.most_common(1)[0]
        odd = [place for place in own if place["subnet"] != usual] if 2 * count > len(own) else []
        if odd:
            cause = f"rail {rail} is in another subnet on {hosts_label([place['host'] for place in odd])}"
            evidence = [f"{place['host']} {_port(place)}: {place['subnet']}; usual: {usual}" for place in odd]
            remedy = "look at the cable, and at the subnet prefix that the subnet manager of that fabric gives"
            found.append(_finding("port-in-another-subnet", "error", odd, cause, evidence, remedy))
    missing: dict[str, list[Unplaced]] = {}
    here = {place["group"] for place in places if place["link_layer"] == "InfiniBand"}
    for row in unplaced if discovered else ():
        if row["group"] in here and row["reason"].startswith("it is in none"):
            missing.setdefault(row["group"], []).append(row)
    for group, rows in sorted(missing.items()):
        hosts = sorted({row["host"] for row in rows}, key=natural_key)
        found.append(
            {
                "id": "port-in-another-fabric",
                "severity": "warning",
                "group": group,
                "hosts": hosts,
                "cause": f"ports of {hosts_label(hosts)} are in none of the fabrics that the other ports of the group are in",
                "evidence": [printable(f"{row['host']} {row['device']} port {row['port']}")[:300] for row in rows[:20]],
                "remedy": "look at their cables; if they have a fabric of their own on purpose, give their hosts a group of their own",
            }
        )
    return found

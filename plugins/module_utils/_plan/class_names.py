# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the classes of a group are called. Private. Pure.

The nodes of a class carry its name in a label, and its DaemonSet is named after it: a class that gets another name takes the
plugin from all its nodes and brings it back. So a class is named once, after what it selects by then, and keeps its name while it
can be recognised in the plan of an earlier run.
"""

from __future__ import annotations

import collections
import itertools
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.fingerprint import fingerprint
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class

__all__ = ["class_names"]

# Selectors by rail; None is the rail of a class without rails.
_Pools = t.Dict[t.Optional[int], t.Dict[str, t.FrozenSet[str]]]

# The names of interfaces speak for themselves.
_KIND_WORDS = {"vendors": "vendor", "deviceIDs": "device", "drivers": "driver", "linkTypes": "link"}
# Names that no class with selectors has.
_RESERVED = ("software", "rails")
_SLUG_LIMIT = 24


def _of_another(group: str, name: str, others: t.Iterable[str]) -> bool:
    """Whether the name of a class could be that of a class of another group, as Kubernetes writes them: gpu-eth0 beside gpu."""

    def plain(text: str) -> str:
        return re.sub("[^a-z0-9-]+", "-", text.lower())

    return any(
        len(other) > len(group) and other != group and plain(name).startswith(plain(other) + "-") for other in others
    )


def _checksum(value: t.Any) -> str:
    return fingerprint(value, 8)


def _fresh(group: str, entry: Class, others: t.Collection[str]) -> str:
    """The name of a class that nobody knows: ``ib-a100-ibp33s0``, ``gb200-device-1021``, ``roce-rails-1c4b…``.

    It depends on the selectors of this class alone, so that other classes may appear and go.
    """
    selectors = entry["selectors"]
    if any(row["rail"] is not None for row in entry["pools"]):
        return "{}-rails-{}".format(group, _checksum([[row["resource"], row["selectors"]] for row in entry["pools"]]))
    kind = next(iter(selectors))
    slug = "-".join(([_KIND_WORDS[kind]] if kind in _KIND_WORDS else []) + selectors[kind])
    # A name that is not a label as it is, that says only half of the selectors, or that is made of names of interfaces which
    # could be read in another way, too, could be that of another class.
    ambiguous = kind == "ifNames" and (
        any("-" in name for name in selectors[kind]) or selectors[kind][0] in (*_KIND_WORDS.values(), *_RESERVED)
    )
    if len(selectors) > 1 or ambiguous or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug) or len(slug) > _SLUG_LIMIT:
        slug = _checksum(selectors)
    elif _of_another(group, f"{group}-{slug}", others):
        slug = _checksum([group, selectors])
    return f"{group}-{slug}"


def _pools(entry: Class) -> _Pools:
    return {
        row["rail"]: {kind: frozenset(values) for kind, values in row["selectors"].items()} for row in entry["pools"]
    }


def _key(pools: _Pools) -> frozenset[t.Any]:
    return frozenset((rail, frozenset(own.items())) for rail, own in pools.items())


def _grown(one: _Pools, other: _Pools) -> bool:
    """Whether two classes could be one whose selectors have got or lost values: none has a value in place of another."""
    rails = set(one) & set(other)
    for rail in rails:
        kinds = set(one[rail]) & set(other[rail])
        if not kinds or not all(
            one[rail][kind] <= other[rail][kind] or one[rail][kind] >= other[rail][kind] for kind in kinds
        ):
            return False
    return bool(rails)


def _untaken(group: str, entry: Class, others: t.Collection[str], taken: t.Collection[str]) -> str:
    """A name after the selectors. A class that is called so keeps its name, though it may select by more now."""
    name = _fresh(group, entry, others)
    for number in itertools.count():
        if name not in taken:
            break
        name = f"{group}-{_checksum([group, entry['selectors'], number])}"
    return name


def class_names(
    group: str,
    classes: t.Sequence[Class],
    earlier: t.Sequence[Class] = (),
    others: t.Collection[str] = (),
    stay: bool = False,
) -> list[str]:
    """A name for each class, which no other has.

    classes, earlier: as in a plan, earlier with the names that they had.
    others: the names of all groups. stay: whether hosts were kept in earlier classes whose selectors are still exact on them.

    A class that has the selectors of an earlier one, or whose selectors have got or lost values since, keeps the name of the one that
    it has the most hosts in common with: where a class was divided, most of its nodes keep their label; with stay those whose selectors
    are still the same. All others are named after their selectors.
    """
    known = {
        entry["name"]: entry
        for entry in earlier
        if entry["pools"] and entry["name"].startswith(group + "-") and not _of_another(group, entry["name"], others)
    }
    before = {name: _pools(entry) for name, entry in known.items()}
    owners = {host: name for name, entry in known.items() for host in entry["hosts"]}
    names: dict[int, str] = {}
    taken: set[str] = set()

    def call(index: int, name: str) -> None:
        names[index] = name
        taken.add(name)

    pools = [_pools(entry) for entry in classes]
    keys = {name: _key(own) for name, own in before.items()}
    by_selectors: dict[frozenset[t.Any], list[str]] = {}
    for name, key in keys.items():
        by_selectors.setdefault(key, []).append(name)
    pairs = []
    shares = [collections.Counter(owners[host] for host in entry["hosts"] if host in owners) for entry in classes]
    most = {name: max(shared[name] for shared in shares) for name in known} if shares else {}
    for index, shared in enumerate(shares):
        same = [name for name in sorted(shared) if keys[name] == _key(pools[index])]
        unchanged = max(same, key=lambda name: shared[name], default=None)
        if unchanged is not None and unchanged not in taken and (stay or shared[unchanged] == most[unchanged]):
            call(index, unchanged)
    for index, shared in enumerate(shares):
        key = _key(pools[index])
        # without a host of before, too: all may have been exchanged
        for name in {*shared, *by_selectors.get(key, ())}:
            alike = keys[name] == key
            if alike or _grown(pools[index], before[name]):
                pairs.append((-shared[name], not alike, name, index))
    for _count, _other, name, index in sorted(pairs):
        if index not in names and name not in taken:
            call(index, name)
    for index, entry in enumerate(classes):
        if index not in names:
            call(index, _untaken(group, entry, others, taken))
    return [names[index] for index in range(len(classes))]

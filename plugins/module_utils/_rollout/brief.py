# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module says of a change that is as long as the cluster is large: Ansible sends all of it to callbacks. Private. Pure."""

from __future__ import annotations

import collections
import difflib
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import some

__all__ = ["NAMED", "differences", "first_nodes", "label_pairs", "line_pair", "value_pair"]

Json = t.Dict[str, t.Any]
# How many nodes are named.
NAMED = 20
# Characters of an object with what becomes of it above which it is not told whole; lines that are told then, and characters of each.
# Characters of all objects together above which no further one is told.
_OBJECT, _LINES, _LINE, _ALL = 50_000, 200, 1_000, 200_000


def first_nodes(labels: t.Mapping[str, t.Any]) -> Json:
    """labels: {node: whatever is told of it}. Those of the first NAMED nodes."""
    return {node: labels[node] for node in sorted(labels)[:NAMED]}


def _rest(labels: t.Mapping[str, t.Any]) -> list[str]:
    return sorted(labels)[NAMED:]


def value_pair(before: t.Mapping[str, t.Optional[str]], after: t.Mapping[str, t.Optional[str]]) -> tuple[Json, Json]:
    """What becomes of the value of one label, {node: value} before and after. None, or no entry, where a node has none.

    Of nodes after the first NAMED, how many change from which value to which.
    """
    nodes = {**before, **after}
    shown: list[Json] = [{node: each[node] for node in first_nodes(nodes) if node in each} for each in (before, after)]
    rest = _rest(nodes)
    if rest:
        shown[1][f"{len(rest)} more nodes"] = _counted((before.get(node), after.get(node)) for node in rest)
    return shown[0], shown[1]


def label_pairs(
    before: t.Mapping[str, t.Mapping[str, t.Optional[str]]], after: t.Mapping[str, t.Mapping[str, t.Optional[str]]]
) -> list[tuple[str, Json, Json]]:
    """(what changes, before, after) of each node whose labels change, {node: {label: value}}. None where a node has none.

    Of nodes after the first NAMED together, how many labels change from which value to which.
    """
    pairs: list[tuple[str, Json, Json]] = [
        ("labels of node " + node, dict(before[node]), dict(after[node])) for node in first_nodes(after)
    ]
    rest = _rest(after)
    if rest:
        labels = sorted({label for node in rest for label in after[node]})
        counts = {
            label: _counted((before[node].get(label), after[node][label]) for node in rest if label in after[node])
            for label in labels[:NAMED]
        }
        pairs.append((f"labels of {len(rest)} more nodes", {}, counts))
    return pairs


def _counted(changes: t.Iterable[tuple[t.Optional[str], t.Optional[str]]]) -> dict[str, int]:
    """changes: old and new value of nodes, None where there is none. How many there are of each, the most frequent first."""
    ways = collections.Counter(
        " -> ".join("none" if value is None else json.dumps(value) for value in pair) for pair in changes
    ).most_common()
    more = sum(count for _way, count in ways[NAMED:])
    return {**dict(ways[:NAMED]), **({"of other values": more} if more else {})}


def line_pair(before: t.Sequence[str], after: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """Long lists of lines as a diff is to show them: the first of those that go, and of those that come."""
    if max(len(before), len(after)) <= NAMED:
        return list(before), list(after)

    def few(lines: t.Sequence[str], others: t.Sequence[str]) -> list[str]:
        known = set(others)
        own = [line for line in lines if line not in known]
        return [*own[:NAMED], *([f"and {len(own) - NAMED} more"] if len(own) > NAMED else [])]

    return few(before, after), few(after, before)


def differences(pairs: t.Iterable[tuple[str, t.Any, t.Any]]) -> list[Json]:
    """`diff`, an entry for each thing that changes: (what, before, after), None where there is nothing.

    The sides are dictionaries, which Ansible shows line by line. Of a large one, the first lines that differ are told; once all together
    are large, what else changes is only named.
    """
    found: list[Json] = []
    size, unshown = 0, []
    for pair in pairs:
        entry = _difference(*pair)
        size += len(json.dumps(entry))
        if size > _ALL:
            unshown.append(pair[0])
        else:
            found.append(entry)
    if unshown:
        found.append({"prepared": f"also changed, and not shown: {some(unshown)}\n"})
    return found


def _difference(what: str, before: t.Any, after: t.Any) -> Json:
    sides = [{} if side is None else side for side in (before, after)]
    if sum(len(json.dumps(side)) for side in sides) <= _OBJECT:
        return {"before_header": what, "after_header": what, "before": sides[0], "after": sides[1]}
    # as Ansible does it with dictionaries
    texts = [json.dumps(side, indent=4, sort_keys=True).splitlines() for side in sides]
    lines = list(difflib.unified_diff(texts[0], texts[1], f"before: {what}", f"after: {what}", lineterm=""))
    more = [f"({len(lines) - _LINES} more lines, which are not shown)"] if len(lines) > _LINES else []
    return {"prepared": "\n".join([*(line[:_LINE] for line in lines[:_LINES]), *more, ""])}

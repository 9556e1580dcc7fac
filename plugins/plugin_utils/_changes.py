# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the facts of hosts then and now. Private to the collection. Pure, but for reading those of then."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import lasting_facts, loaded

__all__ = ["changes"]

Json = dict[str, t.Any]

_MAX_OF_A_HOST = 20
_MAX_LINES = 200
_MAX_VALUE = 80
# What tells one entry of a list from another, the first that all have.
_NAMES = ("name", "pci", "number", "index", "path")
_NOTHING: t.Any = object()


def _named(value: t.Any) -> t.Any:
    """A list of dictionaries with names as a dictionary of them; all else as it is. An order is not a difference."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        for name in _NAMES:
            keys = [str(entry.get(name)) for entry in value if entry.get(name) is not None]
            if len(set(keys)) == len(value):
                return dict(zip(keys, value, strict=True))
    return value


def _told(value: t.Any) -> str:
    if value is _NOTHING:
        return "not there"
    if isinstance(value, (dict, list)) and value:
        return f"{len(value)} entries"
    text = value if isinstance(value, str) and value else json.dumps(value)
    text = printable(text)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 4] + " ..."


def _differences(path: tuple[str, ...], before: t.Any, now: t.Any) -> t.Iterator[str]:
    before, now = _named(before), _named(now)
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}, key=lambda key: natural_key(str(key))):
            yield from _differences((*path, str(key)), before.get(key, _NOTHING), now.get(key, _NOTHING))
    elif before != now:
        where = printable(" ".join(path))[: 2 * _MAX_VALUE]
        if isinstance(before, list) and isinstance(now, list):
            parts = [
                f"{word} {_told(entry)}"
                for word, these, others in (("without", before, now), ("with", now, before))
                for entry in these
                if entry not in others
            ]
            yield (
                f"{where}: {', '.join(parts[:4])}{' and more' if len(parts) > 4 else ''}"
                if parts
                else f"{where}: another order"
            )
        else:
            yield f"{where}: {_told(before)}, now {_told(now)}"


def changes(before: t.Any, now: t.Mapping[str, t.Any], inventory: t.Optional[t.Collection[str]] = None) -> Json:
    """{hosts: {host: sentences}, new: hosts, gone: hosts, lines}.

    before: facts by host, or the path of the file that an earlier run has left them in; now: facts by host. What grows or ends by itself
    (times, counters, changes that are under way) is left out of both. inventory: all hosts that it has, by which those are found that
    were known then, and that it no longer has. Whoever else was not looked at now is in none of them.
    """
    earlier, current = lasting_facts(loaded(before, "facts")), lasting_facts(now)
    found: Json = {"hosts": {}, "new": [], "gone": [], "lines": []}
    if inventory is not None:
        found["gone"] = sorted({*earlier} - {*current} - {*inventory}, key=natural_key)
        found["lines"] += [
            f"{printable(host)}: no longer in the inventory (the next plan forgets it with rdma_rollout.remove)"
            for host in found["gone"]
        ]
    for host in sorted(current, key=natural_key):
        if host not in earlier:
            found["new"].append(host)
            found["lines"].append(f"{host}: nothing was known of it")
            continue
        own = list(_differences((), earlier[host], current[host]))
        if own:
            more = len(own) - _MAX_OF_A_HOST
            shown = own[:_MAX_OF_A_HOST] + ([f"and {more} more"] if more > 0 else [])
            found["hosts"][host] = shown
            found["lines"] += [f"{host}: {text}" for text in shown]
    rest = len(found["lines"]) - _MAX_LINES
    if rest > 0:
        found["lines"] = [*found["lines"][:_MAX_LINES], f"and {rest} more"]
    return found

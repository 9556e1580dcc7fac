# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containerd reads of an OCI runtime specification, as strict as it is. Private to the collection. Pure."""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "UNLIMITED",
    "SpecError",
    "limit_words",
    "load_spec",
]

# RLIM_INFINITY of a 64-bit kernel. jq before 1.7 and everything else that keeps numbers as doubles turns it into another
# number, which the CRI plugin refuses.
UNLIMITED = 2**64 - 1

Json = t.Dict[str, t.Any]

# What is read here, by place. Go takes a key in any case for its field (encoding/json, Unmarshal: "preferring exact matches"),
# and of two the one that comes last.
_READ = {
    place: {name.casefold(): name for name in names}
    for place, names in {
        "": ("ociVersion", "process"),
        "process": ("rlimits",),
        "process.rlimits[]": ("type", "soft", "hard"),
    }.items()
}
_SURROGATE = re.compile("[\ud800-\udfff]")
# From 3.12 on, Python reads more levels than it writes. A specification has seven.
_DEEPEST = 100


class SpecError(FabricError):
    """A specification or a wish that cannot be used."""


def _no_duplicates(pairs: list[tuple[str, t.Any]]) -> Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _value in pairs]
        raise SpecError(f"the key '{next(name for name in names if names.count(name) > 1)}' is there twice")
    return result


def load_spec(data: bytes, source: str) -> Json:
    """A runtime specification from the bytes of a file; SpecError names the source and what is wrong.

    As strict as the CRI plugin, which with a bad file stays in error while the daemon is "active" and the node is dead.
    """
    try:
        spec = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError, SpecError) as exc:
        raise SpecError(f"{source} is not JSON that containerd could read: {exc}") from exc
    for place, wrong in _unfaithful(spec):
        raise SpecError(f"{source}: {place} {wrong}")
    if not isinstance(spec, dict):
        raise SpecError(f"{source} holds a JSON {_kind(spec)}; a runtime specification is an object")
    process = spec.get("process")
    if not isinstance(spec.get("ociVersion"), str) or not isinstance(process, dict):
        raise SpecError(f"{source} has no ociVersion or no process: it is not a runtime specification")
    entries = process.get("rlimits")
    if entries is not None and not isinstance(entries, list):
        raise SpecError(f"{source}: process.rlimits is a JSON {_kind(entries)}; expected a list")
    for entry in entries or []:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise SpecError(f"{source}: process.rlimits has an entry without type: {entry!r:.80}")
        for key in ("soft", "hard"):
            # containerd says "cannot unmarshal number" of -1 and of 1.8446744073709552e19
            value = entry.get(key)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= UNLIMITED:
                raise SpecError(
                    f"{source}: {key} of {entry['type']} is {value!r}; containerd reads only integers from 0 to {UNLIMITED}"
                )
    return spec


def _unfaithful(document: t.Any) -> t.Iterator[tuple[str, str]]:
    """(place, what is wrong): where Go reads something else than we do, or what we would write is no longer JSON."""
    todo: list[tuple[str, t.Any, int]] = [("", document, 1)]
    while todo:
        place, value, depth = todo.pop()
        if isinstance(value, (dict, list)) and depth > _DEEPEST:
            yield place, f"is nested more than {_DEEPEST} levels deep"
        elif isinstance(value, float) and not math.isfinite(value):
            yield place, "is not a number that JSON can have, or one that is too large"
        elif isinstance(value, str) and _SURROGATE.search(value):
            yield place, "has one half of a surrogate pair"
        elif isinstance(value, list):
            todo += [(f"{place}[{number}]", item, depth + 1) for number, item in enumerate(value)]
        elif isinstance(value, dict):
            names = _READ.get(re.sub(r"\[[0-9]+\]", "[]", place), {})
            for key, item in value.items():
                if _SURROGATE.search(key):
                    yield place or "an object", "has a key with one half of a surrogate pair"
                    continue
                below = f"{place}.{key}" if place else key
                if key.casefold() in names and key != names[key.casefold()]:
                    yield below, f"is '{names[key.casefold()]}' for containerd, which does not tell cases apart"
                todo.append((below, item, depth + 1))


def _kind(value: t.Any) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


def limit_words(value: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value)

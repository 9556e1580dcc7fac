# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rlimits of an OCI runtime specification, and nothing else of it. Private to the collection. Pure.

containerd's CRI plugin applies a base runtime spec field by field, and what it does not override reaches every container
(internal/cri/server, runtimeSpec()). So whatever is not an rlimit that somebody asked for stays as it is.
"""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "RLIMITS",
    "UNLIMITED",
    "Change",
    "Rlimit",
    "SpecError",
    "changes_in_words",
    "differences",
    "dump_spec",
    "limit_words",
    "load_spec",
    "parse_rlimits",
    "plan",
    "start_from",
]

# RLIM_INFINITY of a 64-bit kernel. jq before 1.7 and everything else that keeps numbers as doubles turns it into another
# number, which the CRI plugin refuses.
UNLIMITED = 2**64 - 1

# getrlimit(2); runc refuses other names (libcontainer/configs/validate, rlimitMap).
RLIMITS = (
    "RLIMIT_AS",
    "RLIMIT_CORE",
    "RLIMIT_CPU",
    "RLIMIT_DATA",
    "RLIMIT_FSIZE",
    "RLIMIT_LOCKS",
    "RLIMIT_MEMLOCK",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
    "RLIMIT_RSS",
    "RLIMIT_RTPRIO",
    "RLIMIT_RTTIME",
    "RLIMIT_SIGPENDING",
    "RLIMIT_STACK",
)

# What `ctr oci spec` invents (pkg/oci/spec.go, populateDefaultUnixSpec): with a base spec it reaches every container, which
# had the daemon's own limit before.
_INVENTED = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}

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


class SpecError(FabricError):
    """A specification or a wish that cannot be used."""


class Rlimit(t.NamedTuple):
    """A resource limit: soft and hard in the units of getrlimit(2), UNLIMITED for no limit."""

    type: str
    soft: int
    hard: int


class Change(t.NamedTuple):
    """What happens to one rlimit: the texts of its entries before (several when it was there twice) and after."""

    type: str
    before: t.Optional[str]
    after: t.Optional[str]


def _value(name: str, key: str, value: t.Any) -> int:
    number = value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("unlimited", "infinity"):
            return UNLIMITED
        number = int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= UNLIMITED:
        raise SpecError(f"{name}: {key} is {value!r}; expected 'unlimited' or an integer from 0 to {UNLIMITED}")
    return number


def parse_rlimits(wishes: t.Sequence[t.Mapping[str, t.Any]]) -> list[Rlimit]:
    """Rlimits as a user writes them ({type, soft, hard}; the type with or without RLIMIT_, hard as soft when left out)."""
    found: list[Rlimit] = []
    for wish in wishes:
        name = str(wish.get("type") or "").upper()
        if not name.startswith("RLIMIT_"):
            name = "RLIMIT_" + name
        if name not in RLIMITS:
            raise SpecError(f"unknown rlimit '{wish.get('type')}'; known are {', '.join(RLIMITS)}")
        if any(other.type == name for other in found):
            raise SpecError(f"{name} is asked for twice")
        soft = _value(name, "soft", wish.get("soft"))
        hard = soft if wish.get("hard") is None else _value(name, "hard", wish["hard"])
        if soft > hard:
            raise SpecError(f"{name}: soft {soft} is above hard {hard}")
        found.append(Rlimit(name, soft, hard))
    if not found:
        raise SpecError("no rlimit is asked for")
    return found


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
            raise SpecError("%s: process.rlimits has an entry without type: %.80r" % (source, entry))
        for key in ("soft", "hard"):
            # containerd says "cannot unmarshal number" of -1 and of 1.8446744073709552e19
            value = entry.get(key)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= UNLIMITED:
                raise SpecError(
                    f"{source}: {key} of {entry['type']} is {value!r}; containerd reads only integers from 0 to {UNLIMITED}"
                )
    return spec


def _unfaithful(document: t.Any) -> t.Iterator[tuple[str, str]]:
    """(place, what is wrong): where Go reads something else than we do, or what we would write is no JSON any more."""
    todo: list[tuple[str, t.Any]] = [("", document)]
    while todo:
        place, value = todo.pop()
        if isinstance(value, float) and not math.isfinite(value):
            yield place, "is not a number that JSON can have, or one that is too large"
        elif isinstance(value, str) and _SURROGATE.search(value):
            yield place, "has one half of a surrogate pair"
        elif isinstance(value, list):
            todo += [(f"{place}[{number}]", item) for number, item in enumerate(value)]
        elif isinstance(value, dict):
            names = _READ.get(re.sub(r"\[[0-9]+\]", "[]", place), {})
            for key, item in value.items():
                if _SURROGATE.search(key):
                    yield place or "an object", "has a key with one half of a surrogate pair"
                    continue
                below = f"{place}.{key}" if place else key
                if key.casefold() in names and key != names[key.casefold()]:
                    yield below, f"is '{names[key.casefold()]}' for containerd, which does not tell cases apart"
                todo.append((below, item))


def _kind(value: t.Any) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


class Start(t.NamedTuple):
    """What a specification is made from: which of path, adopt and ctr, and the specification, None where ctr has to be asked."""

    source: str
    base: t.Optional[Json]


def start_from(path: str, current: t.Optional[bytes], adopt: t.Optional[str], adopted: t.Optional[bytes]) -> Start:
    """What the file at a path is made from: itself, else the one to adopt, else what ctr prints.

    current, adopted: their content, None for no file. SpecError for what nobody can start from.
    """
    if not path.startswith("/"):
        raise SpecError(f"path '{path}' is not absolute; containerd reads no other")
    if current is not None:
        return Start("path", load_spec(current, path))
    if not adopt:
        return Start("ctr", None)
    if adopted is None:
        raise SpecError(f"adopt '{adopt}' is not there, and neither is '{path}'")
    return Start("adopt", load_spec(adopted, adopt))


def changes_in_words(path: str, made_from: str, changes: t.Sequence[Change]) -> Json:
    """The difference that a user sees: a line for each rlimit, and what a file without any is made from."""
    made = "" if changes else f"made from {made_from}\n"
    return {
        "before_header": path,
        "after_header": path,
        "before": "".join(f"{change.type}: {change.before}\n" for change in changes if change.before),
        "after": made + "".join(f"{change.type}: {change.after}\n" for change in changes if change.after),
    }


def dump_spec(spec: Json) -> bytes:
    """The bytes of a specification: keys in their order, integers as integers."""
    return (json.dumps(spec, indent=4, ensure_ascii=False) + "\n").encode("utf-8")


def limit_words(value: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value)


def _text(entries: t.Sequence[t.Mapping[str, t.Any]]) -> t.Optional[str]:
    words = (f"soft {limit_words(entry['soft'])} hard {limit_words(entry['hard'])}" for entry in entries)
    return ", ".join(words) or None


def plan(spec: Json, rlimits: t.Sequence[Rlimit]) -> tuple[Json, list[Change]]:
    """(new specification, changes): exactly one entry for each rlimit that is asked for, everything else as it is.

    The invented RLIMIT_NOFILE of 1024 goes unless RLIMIT_NOFILE is asked for. No changes means an equal specification.
    """
    wanted = {rlimit.type: {"type": rlimit.type, "hard": rlimit.hard, "soft": rlimit.soft} for rlimit in rlimits}
    before: list[Json] = list(spec["process"].get("rlimits") or [])
    after: list[Json] = []
    for entry in before:
        name = entry["type"]
        if name in wanted:
            if not any(other["type"] == name for other in after):
                after.append(wanted[name])
        elif {key: entry.get(key) for key in _INVENTED} != _INVENTED:
            after.append(entry)
    after += [entry for name, entry in wanted.items() if not any(other["type"] == name for other in after)]
    changes = []
    for name in sorted({entry["type"] for entry in before + after}):
        old = [{"soft": entry["soft"], "hard": entry["hard"]} for entry in before if entry["type"] == name]
        new = [{"soft": entry["soft"], "hard": entry["hard"]} for entry in after if entry["type"] == name]
        if old != new:
            changes.append(Change(name, _text(old), _text(new)))
    if not changes:
        return spec, []
    return {**spec, "process": {**spec["process"], "rlimits": after}}, changes


def differences(spec: t.Any, fresh: t.Any, where: str = "") -> list[str]:
    """Places in which a specification differs from a fresh one, but for rlimits and ociVersion: what an upgrade left behind.

    Paths such as ``linux.maskedPaths``, sorted. Lists are compared as sets of their entries: containerd reorders them.
    """
    if where in ("process.rlimits", "ociVersion"):
        return []
    if isinstance(spec, dict) and isinstance(fresh, dict):
        found: list[str] = []
        for key in sorted(set(spec) | set(fresh)):
            place = f"{where}.{key}" if where else key
            found += differences(spec.get(key), fresh.get(key), place)
        return found
    if isinstance(spec, list) and isinstance(fresh, list):
        same = sorted(json.dumps(item, sort_keys=True) for item in spec) == sorted(
            json.dumps(item, sort_keys=True) for item in fresh
        )
        return [] if same else [where]
    return [] if spec == fresh and isinstance(spec, bool) == isinstance(fresh, bool) else [where]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rlimits of an OCI runtime specification, and nothing else of it. Private to the collection. Pure.

containerd's CRI plugin applies a base runtime spec field by field, and what it does not override reaches every container
(internal/cri/server, runtimeSpec()). So whatever is not an rlimit that somebody asked for stays as it is.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import (
    UNLIMITED,
    SpecError,
    limit_words,
    load_spec,
)

__all__ = [
    "INVENTED_LIMIT",
    "RLIMITS",
    "Change",
    "Rlimit",
    "changes_in_words",
    "differences",
    "dump_spec",
    "parse_rlimits",
    "plan",
    "start_from",
]

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
INVENTED_LIMIT = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}

Json = t.Dict[str, t.Any]


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
    return difference(
        path,
        "".join(f"{change.type}: {change.before}\n" for change in changes if change.before),
        made + "".join(f"{change.type}: {change.after}\n" for change in changes if change.after),
    )


def dump_spec(spec: Json) -> bytes:
    """The bytes of a specification: keys in their order, integers as integers."""
    return (json.dumps(spec, indent=4, ensure_ascii=False) + "\n").encode("utf-8")


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
        elif {key: entry.get(key) for key in INVENTED_LIMIT} != INVENTED_LIMIT:
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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RLIMIT_MEMLOCK of containers: what is wanted, what that means for files, what a node lacks. Private to the collection. Pure.

Two things lift the limit. A base runtime specification of a runtime handler has it set for every container of that handler,
also for those recreated in a Pod that is there; LimitMEMLOCK of the unit is inherited by every Pod made after the restart,
and lets a containerd without CAP_SYS_RESOURCE set the limit of the specification at all. The method ``spec`` does both.
"""

from __future__ import annotations

import os
import re
import typing as t
import zlib

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.limits import (
    Limit,
    limit_text,
    limit_value,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import (
    UNLIMITED,
    SpecError,
    limit_words,
    load_spec,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import (
    INVENTED_LIMIT,
    RLIMITS,
    Change,
    Rlimit,
    differences,
    dump_spec,
    parse_rlimits,
    plan,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.node_wishes import NODE_DEFAULTS, node_problems

__all__ = [
    "MemlockError",
    "Wish",
    "drop_in",
    "memlock_needs",
    "parse_wish",
    "plan_specs",
    "reaches",
    "unreadable_specs",
]

Json = t.Dict[str, t.Any]
# Our files beside containerd's configuration: one made from what `ctr oci spec` prints, one for each specification of
# somebody else that was adopted.
_FRESH_NAME = "fabric-rdma-base.json"


class MemlockError(FabricError):
    """A wish that makes no sense, or a node on which it cannot be fulfilled."""


class Wish(t.NamedTuple):
    """handlers is None for all that there are."""

    method: str
    handlers: t.Optional[list[str]]
    rlimit: Rlimit


class _SpecPlan(t.NamedTuple):
    """What the method spec asks for.

    paths: base_runtime_spec of each handler afterwards. files: content by path of those that are not so yet.
    changes: rlimits that change, by path. drift: places in which an adopted file differs from a fresh specification.
    refusals: sentences; when there is one, there is nothing to do.
    """

    paths: dict[str, str]
    files: dict[str, bytes]
    changes: dict[str, list[Change]]
    drift: dict[str, list[str]]
    refusals: list[str]


def parse_wish(wish: t.Mapping[str, t.Any]) -> Wish:
    """A wish as users write it ({method, handlers, soft, hard}); FabricError names the key, the value and what is allowed."""
    wrong = node_problems("rdma_memlock", wish)
    if wrong:
        raise MemlockError("; ".join(wrong))
    given = {**NODE_DEFAULTS["rdma_memlock"], **wish}
    method, handlers = given["method"], given["handlers"]
    if handlers == "all" or handlers == ["all"]:
        handlers = None
    elif method == "limit" and given["enabled"] is not False:
        raise MemlockError(
            "rdma_memlock.method limit is for all runtime handlers", "take handlers out, or use method spec"
        )
    (rlimit,) = parse_rlimits([{"type": "MEMLOCK", "soft": given["soft"], "hard": given["hard"]}])
    return Wish(method, None if handlers is None else sorted(set(handlers)), rlimit)


def reaches(limit: t.Optional[Limit], rlimit: Rlimit) -> bool:
    """Whether a limit is at least as high as the one that is wanted."""
    return limit is not None and limit[0] >= rlimit.soft and limit[1] >= rlimit.hard


def drop_in(rlimit: Rlimit) -> bytes:
    """The drop-in of the unit: what its service may lock, in bytes (systemd.exec(5), LimitMEMLOCK=)."""
    values = ["infinity" if value == UNLIMITED else str(value) for value in (rlimit.soft, rlimit.hard)]
    text = values[0] if values[0] == values[1] else ":".join(values)
    return (
        "# Made by fabric.rdma.containerd_memlock. RDMA pins memory, and containers inherit this limit.\n"
        f"[Service]\nLimitMEMLOCK={text}\n"
    ).encode("ascii")


def _check_startable(spec: Json, source: str) -> t.Optional[str]:
    """Why no container would start with a specification that containerd reads without complaint; None when it would.

    runc refuses these (libcontainer/configs/validate, setrlimit(2)) long after every check of the daemon has passed.
    """
    for entry in spec["process"].get("rlimits") or []:
        if entry["type"] not in RLIMITS:
            return f"{source} has the rlimit {entry['type']}, which runc does not know: no container starts with it"
        if entry["soft"] > entry["hard"]:
            return f"{source}: {entry['type']} has soft {entry['soft']} above hard {entry['hard']}: no container starts with it"
    return None


def _adopted_name(stem: str) -> str:
    return f"fabric-rdma-from-{stem}.json"


def _ours(directory: str, foreign: t.Optional[str]) -> str:
    if foreign is None:
        return os.path.join(directory, _FRESH_NAME)
    stem = os.path.splitext(os.path.basename(foreign))[0]
    if os.path.dirname(foreign) != directory:
        # two directories may hold files of one name
        stem += f"-{zlib.crc32(foreign.encode('utf-8', 'surrogateescape')) & 0xFFFFFFFF:08x}"
    return os.path.join(directory, _adopted_name(stem))


def _is_ours(path: str, directory: str) -> bool:
    head, name = os.path.split(path)
    adopted = re.escape(_adopted_name("@")).replace("@", ".+")
    return head == directory and (name == _FRESH_NAME or re.fullmatch(adopted, name) is not None)


def _with_rlimits_of(fresh: Json, current: Json) -> Json:
    process = {**fresh["process"], "rlimits": current["process"].get("rlimits") or []}
    return {**fresh, "process": process}


def plan_specs(
    handlers: t.Mapping[str, t.Optional[str]],
    read: t.Callable[[str], t.Optional[bytes]],
    fresh: Json,
    rlimit: Rlimit,
    directory: str,
) -> _SpecPlan:
    """Which base_runtime_spec each handler gets, and what is in the files. Nothing changes where all is right.

    handlers: the base_runtime_spec that is configured now, None without one. read: content of a file, None when there is
    none. fresh: what the ctr of the daemon prints. directory: where our files lie, beside containerd's configuration.

    A specification that somebody else made, with the limit in it, stays. Else it is adopted: our copy of it has the limit.
    Our own is recreated when a newer containerd would print another one, and keeps the rlimits that it has.
    """
    result = _SpecPlan({}, {}, {}, {}, [])
    pointed = {path for path in handlers.values() if path is not None}
    for name, current in sorted(handlers.items()):
        try:
            if current is not None and not _is_ours(current, directory):
                base = _load(read, current, name)
                if not plan(base, [rlimit])[1]:
                    result.paths[name] = current
                    continue
                target = _ours(directory, current)
            else:
                target = current or _ours(directory, None)
                base = _base_of_ours(read, target, name, fresh, target in pointed)
        except SpecError as exc:
            result.refusals.append(str(exc))
            continue
        result.paths[name] = target
        if target in result.changes:
            continue
        _plan_file(read, target, base, rlimit, result)
        if os.path.basename(target) != _FRESH_NAME:
            result.drift[target] = differences(base, fresh)
    return result


def unreadable_specs(handlers: t.Mapping[str, str], read: t.Callable[[str], t.Optional[bytes]]) -> list[str]:
    """Why CRI would not come back from a restart, in sentences: it reads the specifications of all handlers, and with a bad one serves none.

    handlers: the base_runtime_spec that is configured. A running daemon has read its own before, as they were then.
    """
    problems = []
    for name, path in sorted(handlers.items()):
        try:
            _read_spec(read, path, name)
        except SpecError as exc:
            problems.append(str(exc))
    return problems


def _read_spec(read: t.Callable[[str], t.Optional[bytes]], path: str, name: str) -> Json:
    data = read(path)
    if data is None:
        raise SpecError(
            f"base_runtime_spec {path} of the runtime handler {name} is not there; after its next start containerd "
            "would run no Pod",
            "Put the file back, or remove the setting",
        )
    return load_spec(data, path)


def _load(read: t.Callable[[str], t.Optional[bytes]], path: str, name: str) -> Json:
    spec = _read_spec(read, path, name)
    reason = _check_startable(spec, path)
    if reason:
        raise SpecError(f"{reason}", f"Repair the file, or remove base_runtime_spec of the runtime handler {name}")
    return spec


def _base_of_ours(
    read: t.Callable[[str], t.Optional[bytes]], target: str, name: str, fresh: Json, in_use: bool
) -> Json:
    """What our file is made from: itself when it is good, else a fresh specification with its rlimits."""
    if os.path.basename(target) != _FRESH_NAME:
        return _load(read, target, name)
    data = read(target)
    if data is None or not in_use:
        return fresh
    try:
        current = load_spec(data, target)
        if _check_startable(current, target):
            return fresh
    except SpecError:
        return fresh
    return _with_rlimits_of(fresh, current) if differences(current, fresh) else current


def _plan_file(
    read: t.Callable[[str], t.Optional[bytes]], target: str, base: Json, rlimit: Rlimit, result: _SpecPlan
) -> None:
    spec, _changes = plan(base, [rlimit])
    data = read(target)
    before: Json = {"process": {"rlimits": []}}
    same = False
    if data is not None:
        try:
            before = load_spec(data, target)
            same = before == spec
        except SpecError:
            pass
    result.changes[target] = []
    if not same:
        result.files[target] = dump_spec(spec)
        result.changes[target] = _rlimit_changes(before, spec)


def _rlimit_changes(before: Json, after: Json) -> list[Change]:
    old, new = _limit_lines(before), _limit_lines(after)
    return [
        Change(name, old.get(name), new.get(name))
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name)
    ]


def _limit_lines(spec: Json) -> dict[str, str]:
    """The rlimits of a specification as people read them, by type."""
    found: dict[str, str] = {}
    for entry in spec["process"].get("rlimits") or []:
        line = f"soft {limit_words(entry['soft'])} hard {limit_words(entry['hard'])}"
        found[entry["type"]] = found[entry["type"]] + ", " + line if entry["type"] in found else line
    return found


def _fact_limit(value: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[Limit]:
    if not value:
        return None
    numbers = [limit_value(str(value.get(key))) for key in ("soft", "hard")]
    return None if None in numbers else (t.cast(int, numbers[0]), t.cast(int, numbers[1]))


def _spec_reason(name: str, path: str, spec: t.Optional[t.Mapping[str, t.Any]], rlimit: Rlimit) -> t.Optional[str]:
    if spec is None or spec.get("error"):
        return f"base_runtime_spec {path} of {name} cannot be used: {(spec or {}).get('error') or 'it is not there'}"
    entries = [entry for entry in spec.get("rlimits") or [] if isinstance(entry, dict)]
    found = [_fact_limit(entry) for entry in entries if entry.get("type") == rlimit.type]
    if found != [(rlimit.soft, rlimit.hard)]:
        # of two entries runc takes the last
        now = f"sets memlock to {limit_text(found[-1])}" if found else "does not set memlock"
        return f"base_runtime_spec {path} of {name} {now}"
    if any({key: entry.get(key) for key in INVENTED_LIMIT} == INVENTED_LIMIT for entry in entries):
        return f"base_runtime_spec {path} of {name} takes the number of open files down to 1024"
    return None


def memlock_needs(facts: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any]) -> Json:
    """What lifting the limit would have to change on a host: {needed, reasons, method, handlers, containerd}.

    facts: ansible_facts.rdma with the subset runtime. wish: rdma_memlock. handlers: the names that are concerned.
    containerd: whether there is one; a host without is not in need, and the reasons are empty. MemlockError for a wish that
    makes no sense, or names a handler that the host does not have.
    """
    wanted = parse_wish(wish)
    result: Json = {"needed": False, "reasons": [], "method": wanted.method, "handlers": [], "containerd": False}
    if not {**NODE_DEFAULTS["rdma_memlock"], **wish}["enabled"]:
        return result
    runtime = facts.get("runtime") or {}
    containerd = runtime.get("containerd")
    if not containerd:
        return result
    reasons: list[str] = result["reasons"]
    handlers = containerd.get("handlers") or {}
    names = sorted(handlers) if wanted.handlers is None else wanted.handlers
    missing = sorted(set(names) - set(handlers))
    if missing:
        raise MemlockError(
            f"containerd has no runtime handler {', '.join(missing)}; it has {', '.join(sorted(handlers)) or 'none'}"
        )
    result.update(containerd=True, handlers=names)
    if (runtime.get("services") or {}).get("containerd") is False:
        reasons.append("containerd does not run")
    if wanted.method == "spec":
        for name in names:
            path = (handlers[name] or {}).get("base_runtime_spec")
            if not path:
                reasons.append(f"the runtime handler {name} has no base_runtime_spec")
                continue
            reason = _spec_reason(name, path, (runtime.get("specs") or {}).get(path), wanted.rlimit)
            if reason:
                reasons.append(reason)
    limit = _fact_limit((containerd.get("daemon_rlimits") or {}).get("memlock"))
    if not reaches(limit, wanted.rlimit):
        reasons.append(
            f"containerd itself may lock {limit_text(limit)}, wanted is {limit_text((wanted.rlimit.soft, wanted.rlimit.hard))}"
        )
    if containerd.get("stale"):
        reasons.append("containerd runs with an older configuration than the one in its files")
    result["needed"] = bool(reasons)
    return result

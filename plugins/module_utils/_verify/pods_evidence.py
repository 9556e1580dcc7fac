# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods measure against each other, and what their measurements prove. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import (
    Exposed,
    Found,
    Given,
    Measurement,
    Memlock,
    Pair,
    Pairs,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import not_measured
from ansible_collections.fabric.rdma.plugins.module_utils._verify.evidence import judged
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pairs import pair_groups
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import Side
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import SIDES, limit_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings

__all__ = ["pair_pods", "pod_evidence"]

Json = t.Dict[str, t.Any]


# --- who measures -----------------------------------------------------------------------------------------------------


def _exposed(entry: t.Mapping[str, t.Any]) -> dict[str, Exposed]:
    """By host, by the plan of a group."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for each in entry.get("classes") or ():
        for host, matches in each["matches"].items():
            resources, devices = found.setdefault(str(host), (set(), set()))
            for match in matches:
                resources.add(str(match.get("resource") or entry["resource"]))
                devices.add(str(match["device"]))
    return {
        host: {"resources": sorted(resources), "devices": sorted(devices)}
        for host, (resources, devices) in found.items()
        if devices
    }


def pair_pods(
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    facts: t.Mapping[str, Json],
    wanted: t.Mapping[str, t.Sequence[Port]],
    plan: t.Mapping[str, t.Any],
    settings: Settings,
    wishes: t.Optional[t.Mapping[str, t.Any]] = None,
) -> Pairs:
    """As pair_groups(), of ports that Pods get; each pair has pods.

    groups: {hosts, resource} by group; plan: groups by name, as the planner has them. A host that has a resource and gives its Pods
    nothing is a defect, one without a resource is not.
    """
    exposed: dict[str, Exposed] = {}
    members: dict[str, list[str]] = {}
    left: dict[str, list[Untested]] = {}
    for name, group in groups.items():
        own = _exposed((plan.get("groups") or {}).get(name) or {})
        exposed.update(own)
        members[name] = [host for host in group["hosts"] if host in own]
        reason = (
            "by the plan, its Pods get no device (see the plan of its group)"
            if group["resource"]
            else "its group has no resource that Pods could ask for (rdma_resource)"
        )
        left[name] = [
            not_measured(host, None, None, reason, bool(group["resource"]))
            for host in group["hosts"]
            if host not in own
        ]
    reached = {
        host: [row for row in wanted.get(host, ()) if row["device"] in exposed[host]["devices"]] for host in exposed
    }
    planned = pair_groups(members, facts, reached, settings, wishes)
    for pairs in planned["rounds"]:
        for pair in pairs:
            pair["pods"] = {side: exposed[pair[side]] for side in SIDES}
    for name, rows in left.items():
        planned["untested"][name] += rows
    return planned


# --- what it proves ---------------------------------------------------------------------------------------------------


class _End(t.TypedDict):
    """What a Pod was given, by its own words. None: it did not say. results and problem: as the module returned them."""

    user: t.Optional[int]
    memlock: Memlock
    files: list[str]
    results: t.Any
    problem: t.Any


_LIFT = (
    "lift the limit of locked memory of containers on this node (the role containerd_memlock does, rdma_memlock), and restart what "
    "has started before"
)


def _defects(pair: Pair, ends: t.Mapping[Side, _End]) -> t.Iterator[tuple[str, str]]:
    """(what is wrong with what Pods were given, what to do). Nothing is said of a Pod that has printed nothing."""
    for side in SIDES:
        host, end = pair[side], ends[side]
        memlock = end["memlock"]
        if any(value not in (None, "unlimited") for value in memlock.values()):
            words = " and ".join(f"{key} {value} KiB" for key, value in memlock.items() if value != "unlimited")
            yield f"a Pod on {host} may lock only so much memory: {words}", _LIFT
        if end["user"] is None:
            continue
        devices = pair["pods"][side]["devices"]
        verbs = [name for name in end["files"] if name.startswith("uverbs")]
        # how a file is called only the node knows; a plugin that gives one device of a pool gives less than the plan has
        if not verbs or len(verbs) > len(devices):
            files = ", ".join(end["files"][:20]) or "none"
            yield (
                f"a Pod on {host} has the files {files} in /dev/infiniband; planned is {', '.join(devices)}",
                "compare the configuration of the device plugin with the plan, and look for other resources of the same devices",
            )


def _silent(pair: Pair, ends: t.Mapping[Side, _End]) -> t.Iterator[tuple[str, str]]:
    """The same of Pods that measured, and did not tell what they were given."""
    for side in SIDES:
        if ends[side]["user"] is None or None in ends[side]["memlock"].values():
            why = ends[side]["problem"]
            cause = f": {why['cause']}" if isinstance(why, t.Mapping) and why.get("cause") else ""
            yield (
                f"what a Pod on {pair[side]} was given is not known{cause}",
                "see that the log of a Pod can be read, and that the image has id and a sh whose ulimit knows -l",
            )


def _end(value: t.Any) -> _End:
    """What a module returned of one Pod, in a form that can be relied on."""
    own = dict(value) if isinstance(value, t.Mapping) else {}
    memlock = own.get("memlock")
    limits = memlock if isinstance(memlock, t.Mapping) else {}
    files = own.get("files")
    user = own.get("user")
    return {
        "user": user if isinstance(user, int) and not isinstance(user, bool) and user >= 0 else None,
        "memlock": {"soft": limit_of(str(limits.get("soft"))), "hard": limit_of(str(limits.get("hard")))},
        "files": [name for name in files if isinstance(name, str)] if isinstance(files, (list, tuple)) else [],
        "results": own.get("results"),
        "problem": own.get("problem"),
    }


def _least(values: t.Iterable[t.Optional[str]]) -> t.Optional[str]:
    known = [value for value in values if value is not None]
    return min(known, key=lambda value: float("inf") if value == "unlimited" else int(value)) if known else None


def _given(ends: t.Mapping[Side, _End], image: str) -> Given:
    """What Pods of a pair were given: of both, the lower limit."""
    users = [ends[side]["user"] for side in SIDES if ends[side]["user"] is not None]
    limits = [ends[side]["memlock"] for side in SIDES]
    return {
        "user": users[0] if users else None,
        "memlock": {"soft": _least(own["soft"] for own in limits), "hard": _least(own["hard"] for own in limits)},
        "files": {"client": ends["client"]["files"], "server": ends["server"]["files"]},
        "image": image,
    }


def _of_test(ends: t.Mapping[Side, _End], side: Side, number: int) -> Json:
    results = ends[side]["results"]
    if isinstance(results, (list, tuple)) and number < len(results) and isinstance(results[number], t.Mapping):
        return dict(results[number])
    return {"problem": ends[side]["problem"]}


def pod_evidence(plan: Pairs, answer: t.Mapping[str, t.Any]) -> dict[str, Found]:
    """By group; the measurements have level pods. plan: of pair_pods(); answer: what the module returned.

    An answer without results (the module failed) is an error of every pair.
    """
    groups: dict[str, Found] = {name: {"tests": [], "untested": rows} for name, rows in plan["untested"].items()}
    image = str(answer.get("image") or "")
    results = answer.get("results")
    rounds = results if isinstance(results, (list, tuple)) else []
    failed = {
        "cause": str(answer.get("msg") or "the Pods were not measured"),
        "remedy": "see the messages of this run about Pods",
    }
    for number, pairs in enumerate(plan["rounds"]):
        of_round = rounds[number] if number < len(rounds) and isinstance(rounds[number], (list, tuple)) else []
        for place, pair in enumerate(pairs):
            own = of_round[place] if place < len(of_round) and isinstance(of_round[place], t.Mapping) else {}
            ends = {side: _end(own.get(side)) for side in SIDES}
            defects = list(_defects(pair, ends))
            for index, test in enumerate(pair["tests"]):
                result, served = (_of_test(ends, side, index) for side in SIDES)
                if result.get("status") is None and not isinstance(result.get("problem"), t.Mapping):
                    # no client came to it: the server's end says why
                    why = {} if served.get("status") else {"problem": served.get("problem") or failed}
                    result = {"status": served.get("status"), **why}
                entry = judged(test, result, served)
                # traffic alone proves nothing of what a Pod was given
                unknown = [] if entry["verdict"] == "error" else list(_silent(pair, ends))
                entry = _with(entry, defects + unknown)
                groups[pair["group"]]["tests"].append({**entry, "level": "pods", "pods": _given(ends, image)})
    return groups


def _with(entry: Measurement, defects: t.Sequence[tuple[str, str]]) -> Measurement:
    """An entry that does not pass when Pods were not given what they are to have."""
    if not defects:
        return entry
    messages = [*(cause for cause, _remedy in defects), entry["message"]]
    remedies = dict.fromkeys([*(remedy for _cause, remedy in defects), entry["remedy"]])
    return {
        **entry,
        "verdict": "fail" if entry["verdict"] == "pass" else entry["verdict"],
        "message": "; ".join(message for message in messages if message),
        "remedy": "; ".join(remedy for remedy in remedies if remedy),
    }

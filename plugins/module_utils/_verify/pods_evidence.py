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
    Inspection,
    Look,
    Measurement,
    Memlock,
    Pair,
    Pairs,
    Ping,
    RoundTrip,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import not_measured, sensible
from ansible_collections.fabric.rdma.plugins.module_utils._verify.evidence import judged
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import collective_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pairs import pair_groups
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import Side
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import SIDES, limit_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings

__all__ = ["pair_pods", "pod_evidence"]

Json = t.Dict[str, t.Any]

# No cause or remedy of ours is as long; they may come from a node.
_MOST_WORDS = 2000


# --- who measures -----------------------------------------------------------------------------------------------------


def _exposed(entry: t.Mapping[str, t.Any], whole: bool) -> dict[str, Exposed]:
    """By host, by the plan of a group. whole: Pods get all of the devices."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for each in entry.get("classes") or ():
        for host, matches in each["matches"].items():
            resources, devices = found.setdefault(str(host), (set(), set()))
            for match in matches:
                resources.add(str(match.get("resource") or entry["resource"]))
                devices.add(str(match["device"]))
    return {
        host: {"resources": sorted(resources), "devices": sorted(devices), "whole": whole}
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
        own = _exposed((plan.get("groups") or {}).get(name) or {}, name not in settings.pools)
        exposed.update(own)
        members[name] = [host for host in group["hosts"] if host in own]
        reason = (
            "by the plan, its Pods get no device (see the plan of its group)"
            if group["resource"]
            else "its group has no resource that Pods could ask for (rdma_resource)"
        )
        left[name] = [
            # one without a usable port may be excused; one that has some, and gives none of them to Pods, may not
            not_measured(
                host,
                None,
                None,
                reason,
                bool(group["resource"]) and not (settings.allow_unusable and not wanted.get(host)),
            )
            for host in group["hosts"]
            if host not in own
        ]
    reached = {
        host: [row for row in wanted.get(host, ()) if row["device"] in exposed[host]["devices"]] for host in exposed
    }
    planned = pair_groups(members, facts, reached, settings, wishes)
    for pairs in planned["rounds"]:
        for pair in pairs:
            pair["pods"] = {side: _asked(pair, exposed[pair[side]], settings) for side in SIDES}
    for name, rows in left.items():
        planned["untested"][name] += rows
    planned["looks"] = [
        {"group": name, "host": host, **exposed[host]} for name in sorted(members) for host in sorted(members[name])
    ]
    return planned


def _asked(pair: Pair, exposed: Exposed, settings: Settings) -> Exposed:
    """With a GPU where its memory is measured."""
    if not any(test.get("memory") for test in pair["tests"]):
        return exposed
    return {**exposed, "resources": [*exposed["resources"], settings.gpu_resource]}


# --- what it proves ---------------------------------------------------------------------------------------------------


class _End(t.TypedDict):
    """What a Pod was given, by its own words. None: it did not say. results and problem: as the module returned them.

    hcas: of its files that are of one; memory: limit in bytes, None for none; lacks: programs.
    """

    user: t.Optional[int]
    memlock: Memlock
    ipc_lock: t.Optional[bool]
    memory: t.Optional[int]
    files: list[str]
    hcas: dict[str, str]
    lacks: list[str]
    results: t.Any
    problem: t.Any


Defect = t.Tuple[str, str]

_LIFT = (
    "lift the limit of locked memory of containers on this node (the role containerd_memlock does, rdma_memlock), and restart what "
    "has started before"
)
_PLUGIN = (
    "compare the configuration of the device plugin with the plan, and look for other resources of the same devices"
)


def _defects(host: str, end: _End, planned: Exposed, wished_memory: t.Any) -> t.Iterator[Defect]:
    """(what is wrong with what a Pod was given, what to do). Nothing is said of a Pod that has printed nothing."""
    memlock = end["memlock"]
    if any(value not in (None, "unlimited") for value in memlock.values()) and not end["ipc_lock"]:
        words = " and ".join(f"{key} {value} KiB" for key, value in memlock.items() if value not in (None, "unlimited"))
        yield f"a Pod on {host} may lock only so much memory: {words}", _LIFT
    if end["user"] is None:
        return
    if end["memory"] is not None and end["memory"] != wished_memory:
        yield (
            f"a Pod on {host} may use only {end['memory'] >> 20} MiB of memory, which nobody asked for; what is locked counts",
            "see the LimitRange of the namespace, or name another namespace with verify_pod_namespace",
        )
    if end["lacks"]:
        yield (
            f"the image of a Pod on {host} lacks {', '.join(end['lacks'][:20])}",
            "name an image with sh, id, sleep, date and perftest in verify_pod_image",
        )
    yield from _wrong_files(host, end, planned)


def _wrong_files(host: str, end: _End, planned: Exposed) -> t.Iterator[Defect]:
    """Device files that are not exactly those of the planned HCAs."""
    devices = planned["devices"]
    verbs = [name for name in end["files"] if name.startswith("uverbs")]
    files = ", ".join(end["files"][:20]) or "none"
    opened = {end["hcas"].get(name) for name in verbs}
    foreign = sorted({hca for hca in end["hcas"].values() if hca not in devices})
    missing = sorted(set(devices) - {str(hca) for hca in opened}) if None not in opened else []
    if foreign:
        whose = f", and some are of {', '.join(foreign)}"
    elif verbs and missing and planned["whole"]:
        whose = f", and none is of {', '.join(missing)}"
    elif not verbs or len(verbs) > len(devices):
        whose = ""
    else:
        if "rdma_cm" not in end["files"]:
            yield f"a Pod on {host} has no /dev/infiniband/rdma_cm, only {files}", "load rdma_ucm on the node"
        return
    yield f"a Pod on {host} has the files {files} in /dev/infiniband; planned is {', '.join(devices)}{whose}", _PLUGIN


def _silent(pair: Pair, ends: t.Mapping[Side, _End]) -> t.Iterator[Defect]:
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
    user, memory, ipc_lock, hcas = (own.get(key) for key in ("user", "memory", "ipc_lock", "hcas"))
    return {
        "user": user if isinstance(user, int) and not isinstance(user, bool) and user >= 0 else None,
        "memlock": {"soft": limit_of(str(limits.get("soft"))), "hard": limit_of(str(limits.get("hard")))},
        "ipc_lock": ipc_lock if isinstance(ipc_lock, bool) else None,
        "memory": memory if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0 else None,
        "files": _names(own.get("files")),
        "hcas": {str(key): str(value) for key, value in hcas.items()} if isinstance(hcas, t.Mapping) else {},
        "lacks": _names(own.get("lacks")),
        "results": own.get("results"),
        "problem": own.get("problem"),
    }


def _names(value: t.Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []


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


class _Answer(t.NamedTuple):
    """What a module returned, in a form that can be relied on. rounds: of each round why there may be nothing, and its pairs."""

    image: str
    memory: t.Any
    why: str
    rounds: list[tuple[str, t.Sequence[t.Any]]]
    # None: nobody looked
    looks: t.Optional[list[Json]]
    pings: list[Json]
    # why nobody has pinged, where somebody was to; empty otherwise
    unpinged: str


def _maps(value: t.Any) -> list[Json]:
    return [dict(row) for row in value if isinstance(row, t.Mapping)] if isinstance(value, (list, tuple)) else []


def _answer(given: t.Mapping[str, t.Any], count: int) -> _Answer:
    """given: what the module returned, or what a loop over 'look', the numbers of rounds and 'ping' has registered of it."""
    rows = [row for row in _maps(given.get("results")) if "item" in row]
    parts = rows or [dict(given)]
    # a loop says of itself only that it has ended
    why = next((str(part["msg"]) for part in parts if part.get("msg")), "the Pods were not measured")[:_MOST_WORDS]
    rounds: list[tuple[str, t.Sequence[t.Any]]] = []
    results = given.get("results")
    for number in range(count):
        one: t.Any = None
        own = why
        if rows:
            part: Json = next((row for row in rows if row["item"] == number), {})
            inner = part.get("results")
            one = inner[0] if isinstance(inner, (list, tuple)) and inner else None
            own = str(part.get("msg") or why)[:_MOST_WORDS]
        elif isinstance(results, (list, tuple)) and number < len(results):
            one = results[number]
        rounds.append((own, one if isinstance(one, (list, tuple)) else []))
    looked = [part for part in parts if "looks" in part or part.get("item") == "look"]
    pings = [row for part in parts for row in _maps(part.get("pings"))]
    asked = next((row for row in rows if row["item"] == "ping"), None)
    unpinged = str(asked.get("msg") or "the Pods gave no answer")[:_MOST_WORDS] if asked and not pings else ""
    return _Answer(
        next((str(part["image"]) for part in parts if part.get("image")), ""),
        next((part["memory_bytes"] for part in parts if "memory_bytes" in part), None),
        why,
        rounds,
        [row for part in looked for row in _maps(part.get("looks"))] if looked else None,
        pings,
        unpinged,
    )


def pod_evidence(
    plan: Pairs, answer: t.Mapping[str, t.Any], jobs: t.Optional[t.Mapping[str, t.Any]] = None
) -> dict[str, Found]:
    """By group; the measurements have level pods. plan: of pair_pods(); answer: what the module returned, or what a loop registered of it.

    An answer without results (the module failed) is an error of every pair. jobs: what a loop over MPIJobs registered.
    """
    groups: dict[str, Found] = {name: {"tests": [], "untested": [*rows]} for name, rows in plan["untested"].items()}
    given = _answer(answer, len(plan["rounds"]))
    for (why, of_round), pairs in zip(given.rounds, plan["rounds"]):
        for place, pair in enumerate(pairs):
            own = of_round[place] if place < len(of_round) and isinstance(of_round[place], t.Mapping) else {}
            groups[pair["group"]]["tests"] += _of_pair(pair, own, given, why)
    looks = plan.get("looks", [])
    for look in looks if given.looks is not None else []:
        found = groups[look["group"]]
        rows = [row for row in given.looks or [] if row.get("host") == look["host"]]
        found.setdefault("inspections", []).extend(_inspection(look, row, given) for row in rows)
        if not rows:
            found["untested"].append(not_measured(look["host"], None, None, f"no Pod was looked at: {given.why}", True))
    of_host = {look["host"]: look["group"] for look in looks}
    for row in given.pings:
        group = of_host.get(str(row.get("client")))
        if group is not None:
            groups[group].setdefault("pings", []).append(_ping(row))
    for pair in (pair for pairs in plan["rounds"] for pair in pairs if given.unpinged):
        for side in SIDES:
            missing = not_measured(pair[side], None, None, f"its secondary networks: {given.unpinged}", True)
            if missing not in groups[pair["group"]]["untested"]:
                groups[pair["group"]]["untested"].append(missing)
    for row in _maps((jobs or {}).get("results")):
        item = row.get("item")
        name = str(item.get("group")) if isinstance(item, t.Mapping) else ""
        of_jobs: Found = groups.setdefault(name, {"tests": [], "untested": []})
        of_jobs.setdefault("collectives", []).append(collective_of(row))
    return groups


def _of_pair(pair: Pair, own: t.Mapping[str, t.Any], given: _Answer, why_not: str) -> t.Iterator[Measurement]:
    failed = {"cause": why_not, "remedy": "see the messages of this run about Pods"}
    ends = {side: _end(own.get(side)) for side in SIDES}
    defects = [each for side in SIDES for each in _defects(pair[side], ends[side], pair["pods"][side], given.memory)]
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
        yield {**entry, "level": "pods", "pods": _given(ends, given.image)}


def _problem(value: t.Any) -> t.Optional[Defect]:
    if not isinstance(value, t.Mapping):
        return None
    return str(value.get("cause"))[:_MOST_WORDS], str(value.get("remedy") or "")[:_MOST_WORDS]


def _inspection(look: Look, row: Json, given: _Answer) -> Inspection:
    """What was found of a Pod that only looked."""
    end, user = _end(row), row.get("as_user")
    problem = _problem(row.get("problem"))
    found = list(_defects(look["host"], end, look, given.memory))
    verdict: t.Literal["pass", "fail", "error"] = "fail" if found else "pass"
    if problem is None and (end["user"] is None or None in end["memlock"].values()):
        problem = ("it did not say what it was given", "see that the image has id and a sh whose ulimit knows -l")
    if problem is None and isinstance(user, int) and end["user"] != user:
        found.append((f"it runs as user {end['user']}, and not as {user}", "see which admission webhook changes users"))
        verdict = "fail"
    if problem is not None:
        verdict, found = "error", [problem, *found]
    return {
        "host": look["host"],
        "user": user if isinstance(user, int) and not isinstance(user, bool) and user >= 0 else 0,
        "memlock": end["memlock"],
        "ipc_lock": end["ipc_lock"],
        "memory_bytes": end["memory"],
        "files": end["files"],
        "devices": sorted(set(end["hcas"].values())),
        "image": given.image,
        "lacks": end["lacks"],
        "verdict": verdict,
        "message": "; ".join(cause for cause, _remedy in found) or "it was given what was planned",
        "remedy": "; ".join(dict.fromkeys(remedy for _cause, remedy in found if remedy)) or None,
    }


def _count(value: t.Any) -> t.Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _ping(row: Json) -> Ping:
    """One ping, judged: all that was sent has to come back."""
    sent, received = _count(row.get("sent")), _count(row.get("received"))
    times = row.get("rtt_us")
    rtt: t.Optional[RoundTrip] = None
    if isinstance(times, t.Mapping) and all(sensible(times.get(key)) for key in ("min", "average", "max")):
        rtt = {"min": float(times["min"]), "average": float(times["average"]), "max": float(times["max"])}
    network, problem = str(row.get("network"))[:500], _problem(row.get("problem"))
    verdict: t.Literal["pass", "fail", "error"] = "pass"
    message, remedy = f"{received} of {sent} came back", None
    if problem is not None or sent is None or received is None:
        cause, advice = problem or ("ping printed no figures", "name an image with ping")
        verdict, message, remedy = "error", cause, advice or None
    elif not sent or received < sent:
        verdict = "fail"
        remedy = "check VLAN, MTU and switch ports of the network between the two nodes, and that its range is used nowhere else"
    return {
        "client": str(row.get("client")),
        "server": str(row.get("server")),
        "network": network,
        "address": None if row.get("address") is None else str(row["address"])[:100],
        "sent": sent,
        "received": received,
        "rtt_us": rtt,
        "verdict": verdict,
        "message": message,
        "remedy": remedy,
    }


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

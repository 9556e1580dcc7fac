# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is worse, and what is better, than in an earlier report. Private to the collection. Pure, but for reading that report."""

from __future__ import annotations

import collections
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read
from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import contract_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    WORSE,
    Json,
    ReportError,
    as_list,
    clean,
    hosts_in_words,
    in_figures,
    plural,
)

__all__ = ["compared", "earlier_report"]

_MAX_ROWS = 30
_MAX_EXAMPLES = 5
_MAX_NAMES = 8
# Measurements differ by a few percent from run to run, short times by more.
_NOTABLE = {"Gb/s": 0.05, "us": 0.25}
_STATES = {"ok": "ready", "info": "planned", "warn": "ready, with warnings", "bad": "a problem"}


class _Change(t.NamedTuple):
    """way: worse or better; weight: of two changes of a kind the heavier one comes first."""

    way: str
    weight: float
    text: str
    hosts: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


def earlier_report(path: str) -> Json:
    """The document of an earlier report; ReportError when it is something else, or not there."""
    remedy = "name the report.json that an earlier run has written"
    try:
        data = read(path, None)
        document = None if data is None else json.loads(data.decode("utf-8", "surrogateescape"))
    except (OSError, ValueError, RecursionError) as exc:
        why = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise ReportError(f"{path} cannot be read as an earlier report: {why}", remedy) from exc
    if data is None:
        raise ReportError(f"{path}, the earlier report to compare with, is not there", remedy)
    problems = contract_problems("report", document)
    if problems:
        raise ReportError(f"{path} is not a report to compare with: {'; '.join(problems)}", remedy)
    return t.cast(Json, document)


def compared(earlier: Json, now: Json) -> Json:
    """What the page shows of it: rows that are worse and better, how many there are of each. Both as docs/report.schema.json has them."""
    changes: list[_Change] = []
    moved = _moved(earlier, now)
    every = {host: node for group in earlier["groups"].values() for host, node in group["nodes"].items()}
    for name, group in now["groups"].items():
        old = earlier["groups"].get(name)
        # those that were moved as they were in their group
        before = {**every, **(old["nodes"] if old else {})}
        changes += [*_of_ports(name, before, group), *_of_errors(name, before, group)]
        if old is not None:
            changes += [*_of_state(name, old, group), *_of_nodes(name, old, group, moved)]
            changes += _of_measurements(name, old, group)
            changes += _of_jobs(name, old, group)
    changes += _of_findings(earlier, now, moved)
    ways: dict[str, list[_Change]] = {"worse": [], "better": []}
    for change in changes:
        ways[change.way].append(change)
    names = {"Groups that are new": sorted(set(now["groups"]) - set(earlier["groups"]), key=natural_key)}
    names["Groups that are gone"] = sorted(set(earlier["groups"]) - set(now["groups"]), key=natural_key)
    names["Nodes in another group"] = [f"{host} ({way})" for host, way in moved.items()]
    return {
        "with": clean(earlier["generated"] or earlier["title"], 120),
        "verdict": clean(earlier["verdict"]["text"]),
        **{way: [_row(change) for change in _ordered(found)[:_MAX_ROWS]] for way, found in ways.items()},
        **{f"count_{way}": len(found) for way, found in ways.items()},
        **{f"more_{way}": max(0, len(found) - _MAX_ROWS) for way, found in ways.items()},
        "groups": [f"{which}: {_first_of(found)}" for which, found in names.items() if found],
    }


def _first_of(names: t.Sequence[str]) -> str:
    more = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(clean(each, 80) for each in names[:_MAX_NAMES]) + more


def _ordered(changes: list[_Change]) -> list[_Change]:
    return sorted(changes, key=lambda change: (-change.weight, natural_key(change.text)))


def _row(change: _Change) -> Json:
    hosts = hosts_in_words(change.hosts) if len(change.hosts) > 1 else None
    return {"text": clean(change.text), "hosts": hosts, "examples": [clean(text) for text in change.examples]}


def _of_state(name: str, old: Json, new: Json) -> list[_Change]:
    before, after = old["state"], new["state"]
    if before == after:
        return []
    way = "worse" if WORSE[after] > WORSE[before] else "better"
    return [_Change(way, 1000, f'{name}: the verdict was "{_STATES[before]}", and is "{_STATES[after]}"')]


def _moved(earlier: Json, now: Json) -> dict[str, str]:
    """Nodes that are in another group than they were, and which, in words: somebody moved them, which is neither worse nor better."""
    before, after = (
        {host: name for name, group in document["groups"].items() for host in group["nodes"]}
        for document in (earlier, now)
    )
    both = sorted(before.keys() & after.keys(), key=natural_key)
    return {host: f"{before[host]} to {after[host]}" for host in both if before[host] != after[host]}


def _of_nodes(name: str, old: Json, new: Json, moved: t.Collection[str]) -> t.Iterator[_Change]:
    """Nodes that are gone or new."""
    gone, come = (
        tuple(sorted(set(one["nodes"]) - set(two["nodes"]) - set(moved), key=natural_key))
        for one, two in ((old, new), (new, old))
    )
    for way, hosts, word in (("worse", gone, "is no longer in the group"), ("better", come, "is new in the group")):
        if hosts:
            yield _Change(way, 500, f"{name}: {_who(hosts, word, word.replace('is ', 'are ', 1))}", hosts)


def _of_ports(name: str, before: Json, new: Json) -> t.Iterator[_Change]:
    """Ports that are not what they were. before: nodes by host."""
    same: dict[tuple[str, float, str], list[str]] = {}
    for host, node in new["nodes"].items():
        if host in before:
            for way, weight, text in _of_node(before[host], node):
                same.setdefault((way, weight, text), []).append(host)
    for (way, weight, text), hosts_of in same.items():
        many = tuple(hosts_of)
        yield _Change(way, weight + min(len(many), 100), f"{name}: {_who(many, '', '')}: {text}", many)


def _who(hosts: t.Sequence[str], one: str, many: str) -> str:
    return f"{hosts[0]} {one}".rstrip() if len(hosts) == 1 else f"{plural(len(hosts), 'node')} {many}".rstrip()


def _of_node(old: Json, new: Json) -> t.Iterator[tuple[str, float, str]]:
    if old["reached"] != new["reached"]:
        yield ("worse", 600.0, "without facts now") if old["reached"] else ("better", 600.0, "has facts again")
        return
    before, after = ({(port["device"], port["port"]): port for port in node["ports"]} for node in (old, new))
    for key, port in after.items():
        own = before.get(key)
        where = f"{key[0]} port {key[1]}"
        if own is None:
            continue
        if own["state"] != port["state"]:
            up = port["state"] == "Active"
            if up or own["state"] == "Active":
                yield "better" if up else "worse", 400, f"{where} was {own['state']}, and is {port['state']}"
        elif (
            port["state"] == "Active"
            and own["rate_gbps"] != port["rate_gbps"]
            and own["rate_gbps"]
            and port["rate_gbps"]
        ):
            way = "worse" if port["rate_gbps"] < own["rate_gbps"] else "better"
            rates = f"{in_figures(own['rate_gbps'])} Gb/s, and has {in_figures(port['rate_gbps'])} Gb/s"
            yield way, 350, f"{where} had {rates}"
        if (own["pcie_part"] or 1) != (port["pcie_part"] or 1):
            way = "worse" if (port["pcie_part"] or 1) < (own["pcie_part"] or 1) else "better"
            parts = [f"{100 * (each['pcie_part'] or 1):.0f} %" for each in (own, port)]
            yield way, 340, f"{where} had {parts[0]} of its PCIe bandwidth, and has {parts[1]}"
    for key in before.keys() - after.keys():
        yield "worse", 450, f"{key[0]} port {key[1]} is gone"


def _of_errors(name: str, before: Json, new: Json) -> t.Iterator[_Change]:
    """Counters of errors that have grown, ports with the same one in one change. One below what it was has begun again."""
    grown: dict[str, list[tuple[int, str]]] = {}
    for host in new["nodes"]:
        ports_before = {(port["device"], port["port"]): port for port in before.get(host, {"ports": []})["ports"]}
        for port in new["nodes"][host]["ports"]:
            own = ports_before.get((port["device"], port["port"]), {"errors": {}})["errors"]
            for counter, count in port["errors"].items():
                if counter in own and count > own[counter]:
                    where = f"{host} {port['device']} port {port['port']}"
                    grown.setdefault(counter, []).append((count - own[counter], where))
    for counter, ports in grown.items():
        ports.sort(key=lambda each: (-each[0], natural_key(each[1])))
        most, where = ports[0]
        text = f"{name}: {where} has counted {most} more {counter}"
        if len(ports) > 1:
            text = f"{name}: {len(ports)} ports have counted more {counter}"
        shown = tuple(f"{each}: {count} more" for count, each in ports[:_MAX_EXAMPLES])
        yield _Change("worse", 200 + min(len(ports), 90), text, examples=shown if len(ports) > 1 else ())


def _key(test: Json) -> tuple[t.Any, ...]:
    ends = ((test[side]["host"], test[side]["device"], test[side]["port"]) for side in ("client", "server"))
    return (test["level"], test["test"], test["variant"], test["message_bytes"], test["qps"], *ends)


def _of_measurements(name: str, old: Json, new: Json) -> t.Iterator[_Change]:
    """Pairs that were measured both times, those of one kind in one change, and the median of each kind of test."""
    before = {_key(test): test for test in old["measurements"]}
    both = [(before[_key(test)], test) for test in new["measurements"] if _key(test) in before]
    kinds: dict[tuple[str, ...], list[tuple[Json, Json]]] = {}
    for own, test in both:
        kinds.setdefault((test["level"], test["test"], test["variant"]), []).append((own, test))
    for pairs in kinds.values():
        told = f"{name}: {_test(pairs[0][1])}"
        yield from _of_pairs(told, pairs)
        yield from _of_median(told, pairs)


def _of_pairs(told: str, pairs: t.Sequence[tuple[Json, Json]]) -> t.Iterator[_Change]:
    """Pairs of one kind of test whose verdict is another one, and those that differ notably. pairs: (before, now)."""
    sorts: dict[tuple[str, bool], list[tuple[float, Json, Json]]] = {}
    for own, test in pairs:
        turned = (own["verdict"] == "pass") != (test["verdict"] == "pass")
        known = own["value"] is not None and test["value"] is not None
        part = _part(own["value"], test["value"], test["unit"]) if known else 0.0
        if turned or abs(part) > _NOTABLE[test["unit"]]:
            better = test["verdict"] == "pass" if turned else part > 0
            sorts.setdefault(("better" if better else "worse", turned), []).append((abs(part), own, test))
    for (way, turned), found in sorts.items():
        found.sort(key=lambda each: (-each[0], _ends(each[2])))
        word = ("passes now" if way == "better" else "fails now") if turned else f"is {way}"
        text = f"{told} of {_ends(found[0][2])} {word}: {_from_to(*found[0][1:])}"
        if len(found) > 1:
            text = (
                f"{told} of {len(found)} pairs {word.replace('is ', 'are ').replace('s now', ' now')}{_common(found)}"
            )
        shown = tuple(f"{_ends(test)} {_from_to(own, test)}" for _part, own, test in found[:_MAX_EXAMPLES])
        yield _Change(way, 600 if turned else 300, text, examples=shown if len(found) > 1 else ())


def _common(found: t.Sequence[tuple[float, Json, Json]]) -> str:
    """The node that most of them have in common, in words."""
    counts = collections.Counter(
        host for _part, _own, test in found for host in sorted({test["client"]["host"], test["server"]["host"]})
    ).most_common(2)
    if len(found) < 3 or len(counts) < 2 or counts[0][1] < 0.9 * len(found) or 2 * counts[1][1] > counts[0][1]:
        return ""
    return f"; {counts[0][0]} has a part in {'all' if counts[0][1] == len(found) else counts[0][1]} of them"


def _of_median(told: str, pairs: t.Sequence[tuple[Json, Json]]) -> t.Iterator[_Change]:
    known = [
        (own["value"], test["value"]) for own, test in pairs if own["value"] is not None and test["value"] is not None
    ]
    if len(known) < 3:
        return
    unit = pairs[0][1]["unit"]
    one, two = (quantile(sorted(values), 0.5) for values in zip(*known, strict=True))
    part = _part(one, two, unit)
    if abs(part) > _NOTABLE[unit]:
        shown = unit.replace("us", "µs")
        figures = f"was {in_figures(one)} {shown}, and is {in_figures(two)} {shown}"
        yield _Change("better" if part > 0 else "worse", 800, f"{told}: the median {figures}")


def _of_jobs(name: str, old: Json, new: Json) -> t.Iterator[_Change]:
    """Jobs over GPUs of several nodes that ran both times: nccl-tests and nvbandwidth."""
    before = {_job(each): each for each in old.get("collectives", ())}
    for job in new["collectives"]:
        own = before.get(_job(job))
        if own is None:
            continue
        one, two = (each["lowest_gbs" if each["tool"] == "nvbandwidth" else "best_gbs"] for each in (own, job))
        turned = (own["verdict"] == "pass") != (job["verdict"] == "pass")
        part = (two - one) / one if one and two else 0.0
        if turned or abs(part) > _NOTABLE["Gb/s"]:
            better = job["verdict"] == "pass" if turned else part > 0
            word = ("passes now" if better else "fails now") if turned else "is better" if better else "is worse"
            figures = [f"{in_figures(each)} GB/s" if each else "without result" for each in (one, two)]
            said = f": {job['message']}" if turned and not better and job["message"] else ""
            over = f" over {job['way']}" if job["way"] else ""
            text = f"{name}: {job['test'] or job['tool']}{over} ({job['name']}) {word}: was {figures[0]}, and is {figures[1]}{said}"
            yield _Change("better" if better else "worse", 650 if turned else 320, text)


def _job(job: Json) -> tuple[t.Any, ...]:
    return job["name"], job["tool"], job["way"], job["test"]


def _part(old: float, new: float, unit: str) -> float:
    """By what part it is better."""
    return (old - new) / old if unit == "us" else (new - old) / old


def _test(test: Json) -> str:
    variant = f" ({test['variant']})" if test["variant"] else ""
    return f"{test['test']}{' between Pods' if test['level'] == 'pods' else ''}{variant}"


def _ends(test: Json) -> str:
    return " → ".join(f"{test[side]['host']} {test[side]['device']}" for side in ("client", "server"))


def _from_to(old: Json, new: Json) -> str:
    said = f": {new['message']}" if new["message"] and new["value"] is None else ""
    return f"was {_result(old)}, and is {_result(new)}{said}"


def _result(test: Json) -> str:
    value = (
        f"{in_figures(test['value'])} {test['unit'].replace('us', 'µs')}"
        if test["value"] is not None
        else "without result"
    )
    return value + {"fail": " (failed)", "pass": "", "error": ""}[test["verdict"]]


def _of_findings(earlier: Json, now: Json, moved: t.Collection[str]) -> t.Iterator[_Change]:
    """Findings that are new, also on further hosts, and those that are gone. Notes are none, until they become more.

    One that came to another group with a host that was moved is neither.
    """
    both = [[each for each in as_list(one["findings"]) if each["severity"] != "note"] for one in (earlier, now)]
    for way, one, two, word in (("worse", both[1], both[0], "new"), ("better", both[0], both[1], "gone")):
        known: dict[tuple[str, str], set[str]] = {}
        came: set[tuple[str, str]] = set()
        for each in two:
            known.setdefault((each["id"], each["group"]), set()).update(each["hosts"])
            came.update((each["id"], host) for host in each["hosts"] if host in moved)
        for each in one:
            key = (each["id"], each["group"])
            hosts = tuple(
                host for host in each["hosts"] if host not in known.get(key, ()) and (each["id"], host) not in came
            )
            if hosts or (key not in known and not each["hosts"]):
                words = f"{each['group']}: " if each["group"] else ""
                yield _Change(way, 700, f"{words}{word}: {each['cause']}", hosts)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the measurements of a run prove. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import (
    Evidence,
    Found,
    Inspection,
    Limits,
    Measurement,
    Pair,
    Pairs,
    Ping,
    PlannedTest,
    Proof,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import sensible
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import Collective
from ansible_collections.fabric.rdma.plugins.module_utils._verify.outliers import outliers, touches
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    Latency,
    explain,
    explain_senseless,
    judge_bandwidth,
    judge_latency,
    measured,
    timed_out,
)

__all__ = ["build_evidence", "judged"]

Json = t.Dict[str, t.Any]

# No cause, remedy or address of ours is as long; they come from a node.
_MOST_WORDS = 2000
# Files and plans of earlier versions have no limits.
_LIMITS: Limits = {"fail": False, "share": 0.05, "us": 1.0, "software_share": 0.75}


def _plain(value: t.Any) -> t.Optional[str]:
    return None if value is None else str(value)[:_MOST_WORDS]


def judged(test: PlannedTest, result: Json, served: Json) -> Measurement:
    """One test of the evidence. result: of the client, served: of the server; {} when there is none.

    Both are data from a node: a missing or strange value is an error of the test, never one of this function.
    """
    output = str(result.get("output") or "")
    found = measured(test["test"], output)
    entry: Measurement = {
        "level": "hosts",
        "test": test["test"],
        "client": {**test["client"]},
        "server": {**test["server"], "address": test["server"]["address"] or _plain(result.get("address"))},
        "message_bytes": test["message_bytes"],
        "iterations": test["iterations"],
        "qps": test["qps"],
        "mtu_bytes": found["mtu_bytes"],
        "bandwidth_gbps": found["bandwidth_gbps"],
        "message_rate_mpps": found["message_rate_mpps"],
        "latency_us": found["latency_us"],
        "floor": test["floor"],
        "verdict": "error",
        "message": "",
        "remedy": None,
    }
    _said(entry, test)
    if test.get("all_sizes") and found["message_bytes"]:
        # what the figure is of
        entry["message_bytes"] = found["message_bytes"]
    if found["sizes"] and result.get("status") == 0:
        entry["sizes"] = found["sizes"]
    if result.get("status") == 0 and found["senseless"]:
        problem = explain_senseless(found["senseless"])
        return {**entry, "message": problem.cause, "remedy": problem.remedy}
    bandwidth, latency = found["bandwidth_gbps"], found["latency_us"]
    if result.get("status") == 0 and bandwidth:
        verdict = judge_bandwidth(bandwidth["average"], test["floor"]["min_gbps"], test["floor_reason"])
    elif result.get("status") == 0 and latency:
        verdict = judge_latency(_typical(latency), test["floor"]["max_us"], test["floor_reason"])
    else:
        message, remedy = _error(result, served, output)
        return {**entry, "message": message, "remedy": remedy}
    return {**entry, "verdict": verdict.verdict, "message": verdict.message, "remedy": verdict.remedy}


def _said(entry: Measurement, test: PlannedTest) -> None:
    """What of a test is not as usual."""
    if test.get("bidirectional"):
        entry["bidirectional"] = True
    if test.get("memory"):
        entry["memory"] = test["memory"]
    if test.get("software"):
        entry["software"] = True


def _typical(latency: Latency) -> float:
    return float(latency["average"] if latency["typical"] is None else latency["typical"])


def _error(result: Json, served: Json, output: str) -> tuple[str, t.Optional[str]]:
    """Why a test gave no figure, and what to do."""
    status = result.get("status")
    given = result.get("problem") or served.get("problem")
    if isinstance(given, t.Mapping) and status is None:
        return str(given.get("cause"))[:_MOST_WORDS], _plain(given.get("remedy"))
    # The client knew only its own side; the cause is often in what the server said.
    other = str(served.get("output") or "")
    seconds = sensible(result.get("timeout"))
    if result.get("timed_out") and seconds:
        problem = timed_out(seconds, output, other)
    else:
        # -255 to 255 are what a process can end with
        known = isinstance(status, int) and abs(status) < 256
        problem = explain(output, other, t.cast("int", status) if known else None)
    side = "" if problem.side == "client" else "the server says: "
    said = f" ({problem.line})" if problem.line and problem.line not in problem.cause else ""
    return side + problem.cause + said, problem.remedy


def _part(value: t.Any, key: str, index: int) -> Json:
    items = value.get(key) if isinstance(value, t.Mapping) else None
    if isinstance(items, (list, tuple)) and index < len(items) and isinstance(items[index], t.Mapping):
        return dict(items[index])
    return {}


def build_evidence(
    plan: Pairs, results: t.Mapping[str, t.Any], of_pods: t.Optional[t.Mapping[str, Found]] = None
) -> Proof:
    """What the measurements prove.

    plan: from pair_groups(); results: {host: [{round, server, client, stop} as the module perftest returned them]}.
    of_pods: what was measured between Pods, by group.
    """
    by_round: dict[tuple[str, int], Json] = {}
    for host, rounds in results.items():
        for one in rounds if isinstance(rounds, (list, tuple)) else []:
            if isinstance(one, t.Mapping) and isinstance(one.get("round"), int):
                by_round[(str(host), one["round"])] = dict(one)
    groups: dict[str, Evidence] = {
        group: {"schema": 1, "group": group, "tests": [], "untested": rows} for group, rows in plan["untested"].items()
    }
    for number, pairs in enumerate(plan["rounds"]):
        for pair in pairs:
            ours = by_round.get((pair["client"], number), {})
            theirs = by_round.get((pair["server"], number), {})
            for index, test in enumerate(pair["tests"]):
                result = _part(ours.get("client"), "results", index)
                # what was measured again was so on the spare server, and those come after all others
                place = index + len(pair["tests"]) if result.get("repeated") is True else index
                served = {
                    **_part(theirs.get("server"), "results", index),
                    **_part(theirs.get("stop"), "results", place),
                }
                if not result:
                    result = {"problem": _absent(pair, ours, theirs, served)}
                groups[pair["group"]]["tests"].append(judged(test, result, served))
    for group, found in (of_pods or {}).items():
        own = groups.setdefault(group, Evidence(schema=1, group=group, tests=[], untested=[]))
        own["tests"] += found["tests"]
        own["untested"] += [row for row in found["untested"] if row not in own["untested"]]
        if "inspections" in found:
            own["inspections"] = found["inspections"]
        if "pings" in found:
            own["pings"] = found["pings"]
        if "collectives" in found:
            own["collectives"] = found["collectives"]
    failures = []
    limits = plan.get("limits", _LIMITS)
    for group in sorted(groups):
        groups[group]["tests"].sort(key=_order)
        failures += _failures(groups[group], limits)
    return {"groups": groups, "failures": failures, "expected": list(plan.get("expected", []))}


def _failures(evidence: Evidence, limits: Limits) -> list[str]:
    """A sentence on all of a group that is not as wanted; puts the outliers into its evidence."""
    group, tests = evidence["group"], evidence["tests"]
    evidence["outliers"] = outliers(tests, limits)
    if limits["fail"]:
        for each in evidence["outliers"]:
            for entry in tests:
                if entry["verdict"] == "pass" and touches(each, entry):
                    entry["verdict"], entry["remedy"] = "fail", each["remedy"]
                    entry["message"] += f"; {each['message']}"
    failures = [_sentence(group, entry) for entry in tests if entry["verdict"] != "pass"]
    for look in evidence.get("inspections", []):
        if look["verdict"] != "pass":
            failures.append(_told(f"{group}: a Pod of user {look['user']} on {look['host']}", look))
    for ping in evidence.get("pings", []):
        if ping["verdict"] != "pass":
            failures.append(
                _told(f"{group}: ping from {ping['client']} to {ping['server']} in {ping['network']}", ping)
            )
    for job in evidence.get("collectives", []):
        if job["verdict"] != "pass":
            failures.append(_told(f"{group}: {job['tool']} ({job['name']})", job))
    return failures + [
        printable(f"{group}: {_unmeasured(row)} was not measured: {row['reason']}")
        for row in evidence["untested"]
        if row["defect"]
    ]


def _unmeasured(row: Untested) -> str:
    """A port, or a host as a whole."""
    return str(row["host"]) if row["device"] is None else f"{row['host']} {row['device']} port {row['port']}"


def _told(what: str, row: t.Union[Collective, Inspection, Ping]) -> str:
    remedy = f". Remedy: {row['remedy']}" if row["remedy"] else ""
    return printable(f"{what}: {row['message']}{remedy}")


def _absent(pair: Pair, ours: Json, theirs: Json, served: Json) -> t.Optional[Json]:
    """Why a client has no result at all."""
    if isinstance(served.get("problem"), t.Mapping):
        return dict(served["problem"])
    for host, one, key in ((pair["server"], theirs, "server"), (pair["client"], ours, "client")):
        answer = one.get(key)
        if not isinstance(answer, t.Mapping) or answer.get("unreachable"):
            return {
                "cause": f"{host} could not be reached, so nothing was measured",
                "remedy": f"see the messages of this run about {host}",
            }
        if answer.get("failed"):
            return {
                "cause": f"{host} could not start its side: {answer.get('msg') or 'the module failed'}",
                "remedy": f"see the messages of this run about {host}",
            }
    return {"cause": "nothing was measured", "remedy": "see the messages of this run"}


def _order(entry: Measurement) -> tuple[t.Any, ...]:
    return (
        entry["level"],
        natural_key(entry["client"]["host"]),
        natural_key(entry["server"]["host"]),
        natural_key(entry["client"]["device"]),
        entry["client"]["port"],
        natural_key(entry["server"]["device"]),
        entry["server"]["port"],
        entry["test"],
        entry.get("memory", ""),
    )


def _sentence(group: str, entry: Measurement) -> str:
    ends = [f"{entry[side]['host']} {entry[side]['device']}" for side in ("client", "server")]
    remedy = f". Remedy: {entry['remedy']}" if entry["remedy"] else ""
    # Names and messages come from nodes and end on a terminal.
    between = " between Pods" if entry["level"] == "pods" else ""
    return printable(
        "{}: {}{} from {} to {}: {}{}".format(group, entry["test"], between, *ends, entry["message"], remedy)
    )

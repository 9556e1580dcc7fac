# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence as a table for a terminal. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    hosts_label,
    printable,
    shared_domain,
    short,
    table,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import (
    Evidence,
    Measurement,
    Outlier,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.outliers import figure, unit
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import figure_of

__all__ = ["evidence_table"]

# Rows of tests that passed: more than this are told as one line for each test.
_MAX_PASSED = 40
# Rows of tests that did not pass, the rest is counted.
_MAX_FAILED = 100


def _cells(entry: Measurement, domain: str) -> tuple[str, ...]:
    value = figure(entry)
    ends = [
        f"{short(str(entry[side]['host']), domain)} {entry[side]['device']}:{entry[side]['port']}"
        for side in ("client", "server")
    ]
    verdict = entry["verdict"] if entry["verdict"] == "pass" else entry["verdict"].upper()
    shown = "-" if value is None else f"{figure_of(value)} {unit(entry)}"
    return (verdict, _what_test(entry), shown, _limit(entry), *ends)


def _what_test(entry: Measurement) -> str:
    more = ["Pods"] if entry["level"] == "pods" else []
    more += ["GPU"] if entry.get("memory", "host") != "host" else []
    more += ["both ways"] if entry.get("bidirectional") else []
    return str(entry["test"]) + (f" ({', '.join(more)})" if more else "")


def _limit(entry: Measurement) -> str:
    bound = entry["floor"]
    return f">= {figure_of(bound['min_gbps'])}" if "min_gbps" in bound else f"<= {figure_of(bound['max_us'])}"


def _many(entries: t.Sequence[Measurement]) -> tuple[str, ...]:
    """One row for many tests of one kind and limit that passed: the span of their figures."""
    first = entries[0]
    figures = [value for value in map(figure, entries) if value is not None]
    span = f"{figure_of(min(figures))} to {figure_of(max(figures))} {unit(first)}"
    hosts = {side: {str(entry[side]["host"]) for entry in entries} for side in ("client", "server")}
    return (
        "pass",
        _what_test(first),
        span,
        _limit(first),
        f"{len(entries)} tests, {hosts_label(hosts['client'], 20)}",
        hosts_label(hosts["server"], 20),
    )


def evidence_table(evidence: Evidence) -> list[str]:
    """The evidence of a group as lines of at most 100 columns: a row a test, and what was not measured.

    What did not pass comes first. Many tests that passed share a row; all of them are in the evidence itself.
    """
    tests, untested = evidence["tests"], evidence["untested"]
    hosts = {str(entry[side]["host"]) for entry in tests for side in ("client", "server")}
    hosts |= {str(row["host"]) for row in untested}
    domain = shared_domain(hosts)
    failed = [entry for entry in tests if entry["verdict"] != "pass"]
    passed = [entry for entry in tests if entry["verdict"] == "pass"]
    rows = [_cells(entry, domain) for entry in failed[:_MAX_FAILED]]
    if len(passed) <= _MAX_PASSED:
        rows += [_cells(entry, domain) for entry in passed]
    else:
        kinds: dict[tuple[str, str], list[Measurement]] = {}
        for entry in passed:
            kinds.setdefault((_what_test(entry), _limit(entry)), []).append(entry)
        rows += [_many(kinds[kind]) for kind in sorted(kinds)]
    lines = [f"all hosts in {printable(domain[1:])}", ""] if domain else []
    if rows:
        lines += table(("VERDICT", "TEST", "MEASURED", "WANTED", "CLIENT", "SERVER"), rows)
    if len(failed) > _MAX_FAILED:
        lines.append(f"and {len(failed) - _MAX_FAILED} more that did not pass, in the evidence")
    left: dict[tuple[str, str], list[str]] = {}
    for row in untested:
        left.setdefault((_what(row), str(row["reason"])), []).append(short(str(row["host"]), domain))
    if left:
        rows_left = [(hosts_label(names), what, reason) for (what, reason), names in left.items()]
        lines += ([""] if rows else []) + table(("NOT MEASURED", "PORT", "BECAUSE"), rows_left)
    lines += _looked(evidence, domain) + _job_lines(evidence)
    far = evidence.get("outliers", [])
    if far:
        lines += ["", *table(("FAR FROM THE OTHERS", "MEASURED"), [_far(each, domain) for each in far[:_MAX_FAILED]])]
        if len(far) > _MAX_FAILED:
            lines.append(f"and {len(far) - _MAX_FAILED} more, in the evidence")
    return lines or ["nothing was measured"]


def _looked(evidence: Evidence, domain: str) -> list[str]:
    """What Pods were given and whom they reach: those that are as planned share a line."""
    lines: list[str] = []
    looks, pings = evidence.get("inspections", []), evidence.get("pings", [])
    if looks:
        rows = [
            (each["verdict"].upper(), f"{short(each['host'], domain)} as user {each['user']}", each["message"])
            for each in looks
            if each["verdict"] != "pass"
        ][:_MAX_FAILED]
        for user in sorted({each["user"] for each in looks}):
            well = {short(each["host"], domain) for each in looks if each["user"] == user and each["verdict"] == "pass"}
            if well:
                rows.append(
                    ("pass", f"{hosts_label(well)} as user {user}", "locked memory, files and image are as planned")
                )
        lines += ["", *table(("VERDICT", "POD ON", "WAS GIVEN"), rows)]
    if pings:
        rows = [
            (
                each["verdict"].upper(),
                f"{each['network']}: {short(each['client'], domain)} to {short(each['server'], domain)}",
                each["message"],
            )
            for each in pings
            if each["verdict"] != "pass"
        ][:_MAX_FAILED]
        for network in sorted({each["network"] for each in pings}):
            count = sum(each["network"] == network and each["verdict"] == "pass" for each in pings)
            if count:
                rows.append(("pass", network, f"{count} pairs reach each other"))
        lines += ["", *table(("VERDICT", "NETWORK", "PING"), rows)]
    return lines


def _job_lines(evidence: Evidence) -> list[str]:
    """A row for each job of nccl-tests and nvbandwidth."""
    jobs = evidence.get("collectives", [])
    rows = [
        (
            each["verdict"] if each["verdict"] == "pass" else each["verdict"].upper(),
            each["name"],
            ", ".join(each["transports"][:4]) or each["way"] or "-",
            each["message"],
        )
        for each in jobs
    ]
    return ["", *table(("VERDICT", "JOB", "OVER", "MEASURED"), rows)] if rows else []


def _far(each: Outlier, domain: str) -> tuple[str, str]:
    ends = " to ".join(f"{short(end['host'], domain)} {end['device']}:{end['port']}" for end in each["ends"])
    return ends + (" (Pods)" if each["level"] == "pods" else ""), each["message"]


def _what(row: Untested) -> str:
    return "-" if row["device"] is None else f"{row['device']}:{row['port']}"

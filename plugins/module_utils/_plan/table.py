# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a table. Private to the collection. Pure."""

from __future__ import annotations

import re
import textwrap
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    WIDTH,
    age_in_words,
    alike,
    hosts_label,
    printable,
    shared_domain,
    short,
    table,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Group

__all__ = ["plan_table"]

_NAMED = re.compile(r"host (\S+?):? ")
# Sentences that differ only in their host are shown for that many kinds of them.
_MAX_TEXTS = 20


def plan_table(plan: Group) -> list[str]:
    """What a group's plan selects by which selectors, what it leaves out and why, and its warnings and errors."""
    known = {str(row["host"]) for row in plan["exclusions"]} | set(plan["wanted"])
    known |= {str(host) for entry in plan["classes"] for host in entry["hosts"]}
    domain = shared_domain(known)
    lines = [f"all hosts in {printable(domain[1:])}", ""] if domain else []
    rows = []
    for entry in plan["classes"]:
        rows += _class_rows(entry, hosts_label([short(host, domain) for host in entry["hosts"]]))
    lines += table(("CLASS", "ON", "SELECTS", "BY"), rows) if rows else []
    for entry in plan["classes"]:
        if entry["matched_later"]:
            lines += _paragraph(f"{entry['name']} would also match, if it came: {', '.join(entry['matched_later'])}")
    left_out = _exclusion_lines(plan, domain)
    lines += ["", *left_out] if rows and left_out else left_out
    if plan["cached"]:
        count = f"{len(plan['cached'])} hosts" if len(plan["cached"]) > 1 else next(iter(plan["cached"]))
        words = f"facts of {count} are not of this run, but {age_in_words(plan['cached'].values())}"
        lines += ["", *_paragraph(words)]
    for sort in ("warnings", "errors"):
        # An error names a host that has nothing else in the plan.
        named = known | {found.group(1) for found in map(_NAMED.match, map(str, plan[sort])) if found}
        texts = alike(plan[sort], named)
        for text, names in texts[:_MAX_TEXTS]:
            many = f"{_counted(names)}: " if len(names) > 1 else ""
            lines += ["", *_paragraph(f"{sort[:-1]}: {many}{text}")]
        if len(texts) > _MAX_TEXTS:
            lines += ["", f"and {len(texts) - _MAX_TEXTS} more {sort}, in plan.json"]
    return lines


def _class_rows(entry: Class, hosts: str) -> list[tuple[str, str, str, str]]:
    """One line for a class, or one for each of its rails."""

    def words(selectors: t.Mapping[str, t.Sequence[str]]) -> str:
        return "; ".join(f"{kind} {','.join(values)}" for kind, values in selectors.items())

    first = entry["matches"].get(entry["hosts"][0], [])
    rails = [pool for pool in entry["pools"] if pool["rail"] is not None]
    if not rails:
        matched = ",".join(row["device"] for row in first)
        return [(entry["name"], hosts, matched or "-", words(entry["selectors"]) or "nothing: software devices only")]
    rows = []
    for index, pool in enumerate(rails):
        matched = ",".join(row["device"] for row in first if row.get("rail") == pool["rail"])
        label = (entry["name"], hosts) if index == 0 else ("", "")
        rows.append((*label, f"{matched or 'nothing'} as {pool['resource']}", words(pool["selectors"])))
    return rows


def _counted(names: t.Sequence[str]) -> str:
    label = hosts_label(names)
    return label if label.endswith(" hosts)") else f"{label} ({len(names)} hosts)"


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent="  ")


def _exclusion_lines(plan: Group, domain: str) -> list[str]:
    """What a group's plan leaves out and why; hosts with the same reason share a line."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for row in plan["exclusions"]:
        what = row["device"] if row["port"] is None else f"{row['device']} port {row['port']}"
        hosts.setdefault((what, row["reason"]), []).append(short(row["host"], domain))
    rows = [(what, hosts_label(names), reason) for (what, reason), names in sorted(hosts.items())]
    return table(("LEFT OUT", "ON", "BECAUSE"), rows) if rows else []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to say of a group, worst first, and the state that follows from it. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import alike
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.evidence import Shown, hosts_of, untested
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    WORSE,
    Json,
    as_list,
    as_maps,
    clean,
    hosts_in_words,
    plural,
)

__all__ = ["problems_of", "state_of"]

# Warnings of a plan that only tell how it is made.
_NEUTRAL = ("no single configuration is exact on every host",)


def problems_of(
    plan: Json | None,
    hosts: list[str],
    nodes: list[tuple[str, Json]],
    evidence: Shown,
    measured: list[Json],
    live: list[str],
    findings: t.Sequence[Json] = (),
) -> list[Json]:
    """All that there is to say of a group, worst first.

    nodes: those of its hosts that have facts; live: those to be measured; findings: items of others.
    """
    seen = {host for host, _node in nodes}
    usable = {host for host, node in nodes if node.get("usable")}
    items = [
        *_of_planning(plan, set(hosts)),
        *_of_nodes(nodes, [host for host in hosts if host not in seen]),
        *_of_plan(plan or {}, set(hosts)),
        *_not_planned(plan, seen),
        *findings,
        *_of_measurements(evidence, measured, live, _without_ports(plan or {}), usable),
    ]
    return sorted(items, key=lambda item: -WORSE[item["state"]])


def state_of(problems: t.Iterable[Json], measured: bool) -> str:
    """The state of a group. A mere piece of information changes nothing; that nothing was measured is not the same as ready."""
    state: str = max(
        (item["state"] for item in problems if item["state"] != "info"), key=WORSE.__getitem__, default="ok"
    )
    return "info" if state == "ok" and not measured else state


_NO_PLAN = (
    "there is no plan for this group here: run the playbook plan, or set rdma_output_dir to the directory that has it"
)


def _of_planning(plan: Json | None, hosts: t.Collection[str]) -> list[Json]:
    """Why the group has no plan, or no good one."""
    if plan is None:
        return [{"state": "warn", "text": _NO_PLAN, "hosts": None}]
    return _messages(as_list(plan.get("errors")), hosts, "bad")


def _of_plan(plan: Json, hosts: t.Collection[str]) -> list[Json]:
    """What the plan says beside its errors."""
    items = _messages(as_list(plan.get("warnings")), hosts, "warn") + _messages(
        as_list(plan.get("notes")), hosts, "info"
    )
    if plan.get("kept"):
        items.append({"state": "warn", "text": clean(f"the plan is {plan['kept']}"), "hosts": None})
    return items


def _not_planned(plan: Json | None, seen: t.Collection[str]) -> list[Json]:
    """Hosts of which there are facts, and that the plan does not know: they came after it, or it is that of another inventory."""
    if plan is None or not isinstance(plan.get("hosts"), list):
        return []
    left = set(seen) - set(map(str, plan["hosts"]))
    if not left:
        return []
    text = f"{plural(len(left), 'host')} not in the plan: run the playbook plan for all hosts of the group"
    return [{"state": "warn", "text": text, "hosts": hosts_in_words(left)}]


def _of_nodes(nodes: list[tuple[str, Json]], missing: t.Collection[str]) -> list[Json]:
    """What is wrong with nodes, those of which one thing can be said in one item. missing: hosts without facts."""
    items: list[Json] = []
    if missing:
        text = f"{plural(len(missing), 'host')} without facts: not reached, or not discovered yet"
        items.append({"state": "bad", "text": text, "hosts": hosts_in_words(missing)})
    by_note: dict[str, list[str]] = {}
    for host, node in nodes:
        for note in node["notes"]:
            by_note.setdefault(note, []).append(host)
    return items + [{"state": "warn", "text": note, "hosts": hosts_in_words(by_note[note])} for note in by_note]


_NO_PORT = " has no usable port"


def _without_ports(plan: Json) -> set[str]:
    """Hosts of which an error of the plan says so."""
    errors = map(str, as_list(plan.get("errors")))
    return {text.partition(_NO_PORT)[0].removeprefix("host ") for text in errors if _NO_PORT in text}


def _of_measurements(
    evidence: Shown,
    measured: list[Json],
    expected: t.Collection[str],
    told: t.Collection[str],
    usable: t.Collection[str],
) -> list[Json]:
    """What there is to say of the measurements of a group.

    expected: hosts that were to be measured in this run; told: those that have nothing to measure with, as the plan says; usable: those
    that have something.
    """
    items: list[Json] = []
    earlier = evidence.get("earlier")
    when = f" (measured earlier: {earlier})" if earlier else ""
    failed = sum(item["failed"] for item in measured)
    total = sum(item["count"] for item in measured)
    if failed:
        worst = next(item["first_failure"] for item in measured if item["failed"])
        text = f"{failed} of {plural(total, 'measurement')} failed{when}, such as {worst}"
        items.append({"state": "bad", "text": clean(text), "hosts": None})
    for item in untested(evidence, told):
        items.append({**item, "text": clean(item["text"] + when)})
    if expected and (earlier or not total):
        text = f"nothing was measured in this run, although {plural(len(expected), 'host')} could have been"
        items.append({"state": "warn", "text": text, "hosts": hosts_in_words(expected)})
    rows = [row for key in ("tests", "untested", "inspections", "pings") for row in as_maps(evidence.get(key))]
    met = set().union(*map(hosts_of, rows))
    left = set(expected) - met
    if left and total and not earlier:
        text = f"{plural(len(left), 'host')} should have been measured in this run, without a result"
        items.append({"state": "warn", "text": text, "hosts": hosts_in_words(left)})
    if earlier and total:
        text = f"measured earlier: {earlier}, not in this run"
        items.append({"state": "info", "text": text, "hosts": None})
        # a run with a limit writes over what was known of the others
        left = set(usable) - met
        if left:
            who = f"{plural(len(left), 'host')} with a usable port {'is' if len(left) == 1 else 'are'} missing from the last measurement"
            text = f"{who} ({earlier}): run the playbook verify for all hosts of the group"
            items.append({"state": "warn", "text": text, "hosts": hosts_in_words(left)})
    return items


def _messages(texts: t.Iterable[t.Any], hosts: t.Collection[str], state: str) -> list[Json]:
    """Messages, those that differ only in the host that they name merged into one."""
    items: list[Json] = []
    for text, names in alike(texts, hosts):
        look = "info" if text.startswith(_NEUTRAL) else state
        if len(names) > 1:
            items.append({"state": look, "text": clean(f"{len(names)} hosts: {text}"), "hosts": hosts_in_words(names)})
        else:
            items.append({"state": look, "text": clean(text[len("host ") :] if names else text), "hosts": None})
    return items

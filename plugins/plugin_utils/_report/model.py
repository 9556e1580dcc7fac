# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report shows, computed once: the page and the summary only render it. Private to the collection. Pure.

Everything that comes in (facts, plan, measurements, even names of hosts) is untrusted text: it passes clean() on its way into
the model. Nodes that would look the same on the page share one card, so that a thousand nodes cost about as much as their
differences. The same input gives the same model: there is no time in it unless the caller passes one, or measurements of an
earlier run.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import outcome_lines
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.evidence import Shown, of_earlier_runs, of_this_run
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.fabric_map import fabric_view, places_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.findings import (
    SEVERITIES,
    Found,
    findings_of_checks,
    findings_of_facts,
    findings_of_files,
    findings_of_outliers,
    findings_of_traffic,
    gathered,
    ordered_views,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.groups import group_view
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.systems import system_views
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.verdict import verdict_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    MAX_MESSAGES,
    STATES,
    Json,
    ReportError,
    as_list,
    as_map,
    clean,
    hosts_in_words,
)

__all__ = ["build"]

_MAX_NODES = 50
_MAX_CHANGES = 60


def build(
    facts: t.Any,
    plan: t.Any,
    evidence: t.Any,
    groups: t.Any,
    title: str = "RDMA report",
    generated: str = "",
    earlier: t.Any = (),
    expected: t.Any = (),
    outcomes: t.Any = None,
    failures: t.Any = (),
    systems: t.Any = (),
    wished: t.Any = (),
    findings: t.Any = (),
    files: t.Any = (),
    prepared: t.Any = (),
    versions: t.Any = None,
) -> Json:
    """The model that the page and the summary show: plain text and numbers, all of it passed through clean().

    facts by host; the plan (groups by name) or nothing; evidence documents of this run (schema 1); hosts by group. earlier:
    evidence files as pairs of their stat (path, mtime in seconds) and their text, for groups without evidence of this run;
    expected: hosts that were to be measured in this run; outcomes: what became of the nodes that were prepared (schema 1);
    failures: sentences on steps of this run that failed as a whole, which come before everything else; systems: state.json of
    each system of the cluster side as such a pair, wished: names of those that are asked for; findings: sentences "group NAME:
    ..." on RoCE settings; files: fabric.json and what else has findings, as such pairs; prepared: rows of what was changed; versions:
    of the collection and of Ansible. Raises ReportError when one of these documents has another shape. Missing parts are shown as missing.
    """
    _insist_on_documents(facts, plan, evidence, groups, outcomes)
    members = {str(name): sorted(map(str, as_list(hosts)), key=natural_key) for name, hosts in as_map(groups).items()}
    current = of_this_run(evidence)
    saved, left = of_earlier_runs(earlier, members, current)
    known = {**saved, **current}
    found, documents, unread = findings_of_files(files)
    fabric, looked_at = documents.get("fabric.json", ({}, ""))
    found, loose = _with_groups([*found, *_found(facts, members, known)], members)
    items = _items(members, _by_group(members, findings), found)
    views = _views(members, facts, plan, known, expected, items, places_of(fabric))
    found += [each for view in views for each in findings_of_traffic(view["name"], view["measured"])]
    others, refused = system_views(systems, wished)
    fallen, nodes = _fallen(outcomes)
    failed = [{"state": "bad", "text": clean(text)} for text in as_list(failures) if text]
    notes = [*_warnings(plan), *left, *refused, *unread]
    return {
        "title": clean(title, 120),
        "generated": clean(generated, 60),
        "states": STATES,
        "verdict": verdict_of(views, [*notes, *loose], fallen, bool(failed)),
        "failures": failed[:MAX_MESSAGES],
        **_shown(found),
        **nodes,
        "notes": notes[:MAX_MESSAGES],
        "total": _total(views),
        "groups": views,
        "systems": others,
        "fabric": fabric_view(fabric, looked_at),
        "changes": _changes(prepared),
        "versions": {key: clean(value, 40) for key, value in as_map(versions).items() if value},
        "history": None,
    }


def _warnings(plan: t.Any) -> list[Json]:
    return [{"state": "warn", "text": clean(text)} for text in as_list(as_map(plan).get("warnings"))]


def _total(views: list[Json]) -> dict[str, int]:
    """What the groups have together."""
    return {
        key: sum(view[key] for view in views)
        for key in ("hosts", "gpus", "ports", "active", "selected", "measurements")
    }


def _found(facts: t.Any, members: t.Mapping[str, list[str]], evidence: t.Mapping[str, Shown]) -> list[Found]:
    """What facts and evidence of the groups say is wrong, but for measurements."""
    found = findings_of_facts({str(host): one for host, one in as_map(facts).items()}, members)
    for name in members:
        own: t.Mapping[str, t.Any] = evidence.get(name, {})
        found += [*findings_of_outliers(name, own), *findings_of_checks(name, own)]
    return found


def _shown(found: list[Found]) -> Json:
    shown, more, everything = ordered_views(found)
    return {"findings": shown, "more_findings": more, "all_findings": everything}


def _with_groups(found: list[Found], members: t.Mapping[str, list[str]]) -> tuple[list[Found], list[Json]]:
    """Findings, each with the group of its hosts where it names none; and those that belong to no group, as items."""
    names = {clean(name, 120) for name in members}
    group_of = {clean(host, 120): clean(name, 120) for name, hosts in members.items() for host in hosts}
    loose = []
    for each in found:
        if each["group"] not in names:
            groups = {group_of.get(host, "") for host in each["hosts"]}
            each["group"] = groups.pop() if len(groups) == 1 else ""
        if not each["group"]:
            loose.append({"state": SEVERITIES[each["severity"]][0], "text": each["cause"]})
    return found, loose


def _items(members: t.Iterable[str], sentences: t.Mapping[str, list[str]], found: list[Found]) -> dict[str, list[Json]]:
    """What there is to say of each group: settings of RoCE, and findings."""
    items: dict[str, list[Json]] = {}
    told = gathered(found)
    for name in members:
        own: list[Json] = [
            {"state": "warn", "text": clean(f"RoCE: {text}"), "hosts": None} for text in sentences.get(name, [])
        ]
        for each in told:
            if each["group"] == clean(name, 120):
                hosts = hosts_in_words(each["hosts"]) if each["hosts"] else None
                own.append({"state": SEVERITIES[each["severity"]][0], "text": each["cause"], "hosts": hosts})
        items[name] = own
    return items


def _changes(prepared: t.Any) -> list[Json]:
    """What preparing the nodes changed: rows of the nodes, what became of them, and details."""
    looks = {"changed": "ok", "would change": "info", "still missing": "bad", "to do": "warn", "not touched": "info"}
    rows = [as_list(row) for row in as_list(prepared)]
    return [
        {
            "nodes": clean(row[0], 200),
            "what": clean(row[1], 40),
            "text": clean(row[2]),
            "state": looks.get(str(row[1]), "info"),
        }
        for row in rows
        if len(row) == 3 and row[1] != "was right"
    ][:_MAX_CHANGES]


def _insist_on_documents(facts: t.Any, plan: t.Any, evidence: t.Any, groups: t.Any, outcomes: t.Any) -> None:
    """Raises ReportError when one of them cannot be what it should be."""
    for what, value in (("facts", facts), ("plan", plan), ("groups", groups), ("outcomes", outcomes)):
        if value is not None and not isinstance(value, t.Mapping):
            raise ReportError(f"{what}: expected a dictionary, found {type(value).__name__}")
    if evidence is not None and not isinstance(evidence, (list, tuple)):
        raise ReportError(f"evidence: expected a list of documents, found {type(evidence).__name__}")
    documents = [("plan", plan or {}), ("outcomes", outcomes or {}), *(("evidence", item) for item in evidence or ())]
    for what, document in documents:
        schema = as_map(document).get("schema", 1)
        if schema != 1:
            raise ReportError(f"{what}: schema {schema!r} is not known; this version of the collection reads schema 1")


def _by_group(names: t.Iterable[str], findings: t.Any) -> dict[str, list[str]]:
    """Sentences that begin with "group NAME: ", without that; of two names that begin alike the longer one counts."""
    found: dict[str, list[str]] = {}
    ordered = sorted(names, key=len, reverse=True)
    for text in map(str, as_list(findings)):
        name = next((each for each in ordered if text.startswith(f"group {each}: ")), None)
        if name is not None:
            found.setdefault(name, []).append(text[len(f"group {name}: ") :])
    return found


def _views(
    members: dict[str, list[str]],
    facts: t.Any,
    plan: t.Any,
    evidence: dict[str, Shown],
    expected: t.Any,
    items: dict[str, list[Json]],
    places: dict[tuple[str, str, str], str],
) -> list[Json]:
    """The groups, as the page shows them. members: their hosts; evidence and items: by group; places: names of leaves by port."""
    known = {str(host): value for host, value in as_map(facts).items()}
    planned = as_map(as_map(plan).get("groups"))
    live = set(map(str, as_list(expected)))
    views = []
    for position, name in enumerate(sorted(members, key=natural_key), 1):
        own = planned.get(name)
        views.append(
            group_view(
                name,
                f"group-{position}",
                members[name],
                known,
                as_map(own) if isinstance(own, t.Mapping) else None,
                evidence.get(name, Shown(tests=[], untested=[])),
                [host for host in members[name] if host in live],
                items.get(name, []),
                places,
            )
        )
    return views


def _fallen(outcomes: t.Any) -> tuple[list[str], Json]:
    """Names of the nodes whose change did not finish, and notes that say at which step and what to do."""
    hosts = {str(host): as_map(one) for host, one in as_map(as_map(outcomes).get("hosts")).items()}
    well = ("finished", "held")
    names = sorted((host for host, one in hosts.items() if str(one.get("state")) not in well), key=natural_key)
    lines = outcome_lines({"hosts": hosts})
    # the last line tells of those that were held back
    held = any(one.get("state") == "held" for one in hosts.values())
    notes = [{"state": "bad", "text": clean(line)} for line in (lines[:-1] if held else lines)]
    notes += [{"state": "warn", "text": clean(lines[-1])}] if held else []
    return names, {"nodes": notes[:_MAX_NODES], "more_nodes": max(0, len(notes) - _MAX_NODES)}

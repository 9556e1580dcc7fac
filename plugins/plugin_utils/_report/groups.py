# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One group on the page: its kinds of nodes, its classes, what is left out, what was measured. Private to the collection. Pure."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.checks import checks_counted, checks_view
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.evidence import Shown
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.links import links_view, port_rows
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.measurements import measured_views
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.nodes import Decisions, by_host, node_view
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.problems import problems_of, state_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.versions import version_views
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    MAX_MESSAGES,
    NOTHING,
    Json,
    as_list,
    as_map,
    as_maps,
    clean,
    hosts_in_words,
    plural,
)

__all__ = ["group_view"]

# What the page draws in full in each group; more kinds of nodes than this become one line each.
_MAX_CARDS = 24

_SELECTOR_WORDS = {
    "vendors": "PCI vendor",
    "deviceIDs": "PCI device",
    "drivers": "driver",
    "linkTypes": "link type",
    "ifNames": "interface",
}


def group_view(
    name: str,
    anchor: str,
    hosts: list[str],
    facts: Json,
    plan: Json | None,
    evidence: Shown,
    expected: list[str],
    findings: t.Sequence[Json] = (),
    places: t.Mapping[tuple[str, str, str], str] | None = None,
) -> Json:
    """All that the page and the summary show of a group. expected: hosts that were to be measured in this run; findings: what else there
    is to say of it, as problems are; places: names of leaves by host, device and port.
    """
    group = plan or {}
    index = by_host(group)
    decided = {host: Decisions(group, index, host) for host in hosts if host in facts}
    nodes = [(host, node_view(as_map(facts[host]), decided[host])) for host in decided]
    measured = measured_views(evidence["tests"], evidence.get("outliers", ()))
    total, failed = (sum(item[key] for item in measured) for key in ("count", "failed"))
    problems = problems_of(plan, hosts, nodes, evidence, measured, expected, findings)
    ports = {host: port_rows(host, as_map(facts[host]), decided[host], places or {}) for host in decided}
    checks, more_checks = checks_view(evidence)
    members = _members(hosts, dict(nodes), ports)
    return {
        "name": clean(name, 120),
        "anchor": anchor,
        "state": state_of(problems, bool(total)),
        "resource": _resource(group),
        "hosts": len(hosts),
        "planned": plan is not None,
        "ready": sum(1 for _host, node in nodes if node["usable"]),
        **{key: sum(node[key] for _host, node in nodes) for key in ("gpus", "ports", "active", "selected")},
        **_selected(nodes),
        "problems": problems[:MAX_MESSAGES],
        "all_problems": problems,
        "more_problems": max(0, len(problems) - MAX_MESSAGES),
        "members": members,
        "links": links_view(members),
        "checks": checks,
        "more_checks": more_checks,
        "checked": checks_counted(evidence),
        "collectives": evidence.get("collectives", []),
        "versions": version_views(facts, hosts),
        **_kinds(nodes),
        "left_out": _left_out(as_maps(group.get("exclusions"))),
        "classes": [_class(item) for item in as_maps(group.get("classes"))],
        "environment": _environment(as_map(group.get("environment"))),
        "measured": measured,
        "measurements": total,
        "between_pods": sum(item["count"] for item in measured if item["level"] == "pods"),
        "failed": failed,
        "untested": sum(bool(row.get("defect")) for row in evidence["untested"]),
        "earlier": clean(evidence.get("earlier") or "", 40),
        **_measured_in_words(measured, total, failed),
    }


def _members(hosts: t.Sequence[str], nodes: t.Mapping[str, Json], ports: t.Mapping[str, list[Json]]) -> Json:
    """The nodes as data, by name."""
    return {
        clean(host, 120): {
            "reached": host in nodes,
            "gpus": nodes[host]["gpus"] if host in nodes else 0,
            "usable_ports": nodes[host]["usable"] if host in nodes else 0,
            "ports": ports.get(host, []),
        }
        for host in hosts
    }


def _resource(group: Json) -> str:
    """The resource of a group; those of its rails as rdma/name1..8."""
    text = str(group.get("resource") or NOTHING)
    numbers = [row["rail"] for row in as_maps(group.get("resources")) if isinstance(row.get("rail"), int)]
    if numbers and "{rail}" in text:
        text = text.replace("{rail}", f"{min(numbers)}..{max(numbers)}" if len(numbers) > 1 else str(numbers[0]))
    return clean(text, 120)


def _selected(nodes: list[tuple[str, Json]]) -> Json:
    """What Pods get on a node, for the page and, shorter, for the summary."""
    counts = sorted({node["selected"] for _host, node in nodes})
    if not counts or counts == [0]:
        usable = sum(node["usable"] for _host, node in nodes)
        if not usable:
            return {"selected_words": "none", "selected_short": "none"}
        return {
            "selected_words": f"none; {plural(usable, 'port')} usable on the hosts",
            "selected_short": f"none ({usable} on hosts)",
        }
    rates = {
        f"{port['rate']} {port['link_layer']}"
        for _host, node in nodes
        for device in node["devices"]
        for port in device["ports"]
        if port["decision"] == "selected"
    }
    amount = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    what = " or ".join(sorted(rates, key=natural_key)[:3])
    return {
        "selected_words": f"{amount} a node, {what}",
        "selected_short": f"{amount.replace(' to ', '-')} x {what}",
    }


def _kinds(nodes: list[tuple[str, Json]]) -> Json:
    """Nodes that look the same as one kind, the most frequent kind first; those for which the page has no room in a line each."""
    hosts: dict[str, list[str]] = {}
    looks: dict[str, Json] = {}
    for host, node in nodes:
        key = json.dumps(node, sort_keys=True)
        hosts.setdefault(key, []).append(host)
        looks.setdefault(key, node)
    ordered = sorted(hosts, key=lambda key: (-len(hosts[key]), natural_key(hosts[key][0])))
    return {
        "kinds": [
            {"hosts": hosts_in_words(hosts[key]), "host": clean(hosts[key][0], 120), "node": looks[key]}
            for key in ordered[:_MAX_CARDS]
        ],
        "more_kinds": [
            {"hosts": hosts_in_words(hosts[key]), "text": _node_in_words(looks[key])} for key in ordered[_MAX_CARDS:]
        ],
    }


def _node_in_words(node: Json) -> str:
    return f"{plural(node['ports'], 'port')}, {node['active']} active; {node['selected']} selected"


def _left_out(exclusions: list[Json]) -> list[Json]:
    """Ports that the plan leaves out, those of which the same is said in one row."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for item in exclusions:
        port = "" if item.get("port") is None else f" port {item['port']}"
        row = (f"{item.get('device')}{port}", str(item.get("netdev") or NOTHING), str(item.get("reason")))
        hosts.setdefault(row, []).append(str(item.get("host")))
    return [
        {"port": clean(port, 80), "netdev": clean(netdev, 80), "why": clean(why), "hosts": hosts_in_words(names)}
        for (port, netdev, why), names in sorted(hosts.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _class(item: Json) -> Json:
    """A class of the plan: its hosts, what selects their ports, and its configuration."""
    rails = [pool for pool in as_maps(item.get("pools")) if pool.get("rail") is not None]
    selects = [
        {"resource": clean(pool.get("resource"), 120), "by": _selectors_in_words(pool.get("selectors"))}
        for pool in rails
    ] or [{"resource": "", "by": _selectors_in_words(item.get("selectors"))}]
    config = item.get("config")
    return {
        "name": clean(item.get("name"), 120),
        "hosts": hosts_in_words(map(str, as_list(item.get("hosts")))),
        "selects": selects,
        "config": _pretty(config) if config else None,
    }


def _selectors_in_words(selectors: t.Any) -> list[Json]:
    return [
        {
            "kind": _SELECTOR_WORDS.get(str(kind), clean(kind, 40)),
            "values": clean(" or ".join(map(str, as_list(values)))),
        }
        for kind, values in as_map(selectors).items()
    ]


def _pretty(config: t.Any) -> str:
    """JSON over several lines, each harmless."""
    text = json.dumps(config, indent=2, ensure_ascii=False, default=str)
    return "\n".join(clean(line, 2000) for line in text.split("\n"))


def _environment(by_host: Json) -> list[Json]:
    """Variables for the Pods of a node, those of nodes that have the same ones in one item."""
    hosts: dict[str, list[str]] = {}
    for host, variables in by_host.items():
        lines = [f"{key}={value}" for key, value in sorted(as_map(variables).items())]
        hosts.setdefault("\n".join(clean(line) for line in lines), []).append(host)
    return [{"text": text, "hosts": hosts_in_words(names)} for text, names in hosts.items() if text]


def _measured_in_words(measured: list[Json], total: int, failed: int) -> Json:
    """For the page and, shorter, for the summary. What Pods measured comes first, and is called so."""
    spans = {level: [item["span"] for item in measured if item["level"] == level] for level in ("pods", "hosts")}
    own = {level: [span for span in each if span] for level, each in spans.items()}
    failures = [f"{failed} of {total} failed"] if failed else []
    if not own["pods"]:
        words = failures + own["hosts"]
        short = words[:2] + (["..."] if words[2:] else [])
    else:
        levels = [
            (each, f"{each[0]} between {'Pods' if level == 'pods' else 'hosts'}") for level, each in own.items() if each
        ]
        words = failures + [", ".join([first, *each[1:]]) for each, first in levels]
        short = failures + [first for _each, first in levels]
    return {
        "measured_words": "; ".join(words) or "not measured",
        "measured_short": "; ".join(short) or "not measured",
    }

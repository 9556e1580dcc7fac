# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rules, and what they find together. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor import (
    addressing,
    driver,
    gpudirect,
    memory,
    nccl,
    plugin,
    runtime,
    scheduling,
    storage,
    vgpu,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Material, Rule
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import SEVERITIES, Finding
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.rules import health_findings

__all__ = ["FAMILIES", "RULES", "diagnose", "document_of"]

# Lines of evidence that a finding has, at most: it may be of a thousand hosts.
_MOST_EVIDENCE = 8
# In the order of the documentation; rules of one family in the order in which they look.
FAMILIES: dict[str, tuple[Rule, ...]] = {
    "The device plugin and its Pods": scheduling.RULES,
    "Resources of a node": plugin.RULES,
    "Registered memory": memory.RULES,
    "Ports, devices and queue pairs": addressing.RULES,
    "NCCL": nccl.RULES,
    "GPUDirect RDMA": gpudirect.RULES,
    "Container runtime": runtime.RULES,
    "Storage": storage.RULES,
    "Drivers": driver.RULES,
    "Shares of GPUs": vgpu.RULES,
}
RULES: tuple[Rule, ...] = tuple(rule for rules in FAMILIES.values() for rule in rules)


def _place(finding: Finding) -> tuple[t.Any, ...]:
    return (SEVERITIES.index(finding["severity"]), finding["group"], finding["id"], finding["cause"], finding["remedy"])


def _merged(findings: t.Iterable[Finding]) -> list[Finding]:
    """Findings that differ in hosts and evidence only as one, the worst first."""
    merged: dict[tuple[t.Any, ...], list[Finding]] = {}
    for finding in findings:
        merged.setdefault(_place(finding), []).append(finding)
    result: list[Finding] = []
    for place in sorted(merged):
        same = merged[place]
        lines = list(dict.fromkeys(line for each in same for line in each["evidence"]))
        if len(lines) > _MOST_EVIDENCE:
            lines = [*lines[:_MOST_EVIDENCE], f"and {len(lines) - _MOST_EVIDENCE} more"]
        hosts = sorted({host for each in same for host in each["hosts"]}, key=natural_key)
        one: Finding = {**same[0], "hosts": hosts, "evidence": lines}
        result.append(one)
    return result


class _Told:
    """What a rule has found, for rules that leave out what it tells."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.whole_hosts: set[str] = set()
        self.about: set[str] = set()

    def add(self, hit: Hit) -> None:
        self.hosts.update(hit.hosts)
        self.about.update(hit.about)
        if not hit.about:
            self.whole_hosts.update(hit.hosts)

    def covers(self, hit: Hit) -> bool:
        """A hit on a log or a Pod is covered by one on the same, or on its host as a whole."""
        if hit.about:
            return bool(self.about & set(hit.about) or self.whole_hosts & set(hit.hosts))
        return bool(self.hosts & set(hit.hosts))


def _order(hit: Hit) -> tuple[t.Any, ...]:
    return ([natural_key(host) for host in hit.hosts], hit.evidence)


def diagnose(material: Material, more: t.Iterable[Finding] = ()) -> list[Finding]:
    """What the rules find, the worst first, hosts with the same as one finding. more: findings of others, which are sorted among them."""
    case = Case(material)
    found: list[Finding] = list(more)
    told: dict[str, _Told] = {}
    for rule in RULES:
        own = told.setdefault(rule.id, _Told())
        others = [told[name] for name in rule.unless]
        for hit in sorted(rule.look(case), key=_order):
            if any(other.covers(hit) for other in others):
                continue
            own.add(hit)
            by_group: dict[str, list[str]] = {}
            for host in hit.hosts or ("",):
                by_group.setdefault(case.group_of(host) if host else "", []).append(host)
            for group, hosts in by_group.items():
                found.append(
                    {
                        "id": rule.id,
                        "severity": hit.severity or rule.severity,
                        "group": group,
                        "hosts": [host for host in hosts if host],
                        "cause": hit.cause or rule.cause,
                        "evidence": list(hit.evidence),
                        "remedy": hit.remedy or rule.remedy,
                    }
                )
    return _merged(found)


def _is_finding(each: t.Any) -> bool:
    return (
        isinstance(each, t.Mapping)
        and set(each) == set(Finding.__annotations__)
        and each["severity"] in SEVERITIES
        and all(isinstance(each[key], (list, tuple)) for key in ("hosts", "evidence"))
    )


def document_of(material: Material, more: t.Iterable[t.Any] = ()) -> Json:
    """doctor.json: findings, also on cards and links, how much was looked at, and what was not.

    more: findings of others; what has another form is left out.
    """
    groups = {name: entry["hosts"] for name, entry in (material["plan"].get("groups") or {}).items()}
    groups = {name: {"hosts": hosts} for name, hosts in {**groups, **material["groups"]}.items()}
    given = [each for each in more if _is_finding(each)]
    given += health_findings({"groups": groups, "facts": material["facts"]})
    return {
        "schema": 1,
        "findings": diagnose(material, given),
        "looked_at": {
            "hosts": len(material["facts"]),
            "nodes": len(material["cluster"].get("nodes") or ()),
            "pods": len(material["cluster"].get("pods") or ()),
            "objects": sum(
                len(part)
                for key, part in material["cluster"].items()
                if key not in ("nodes", "pods") and isinstance(part, (list, dict))
            ),
            "logs": len(material["logs"]),
        },
        "unread": material["unread"],
    }

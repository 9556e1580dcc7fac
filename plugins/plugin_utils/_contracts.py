# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a run leaves for later ones: whether they have the form of their schema in docs. Private to the collection."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._base.schema import Checker
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Group, Plan
from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import without_sriov

__all__ = ["NEWER", "completed", "completed_group", "contract_problems", "schema_of"]

# What documents of earlier versions lack, by what they are. completed() puts into plans what readers may then rely on.
NEWER: dict[str, tuple[str, ...]] = {
    "plan": (
        "cluster",
        "remove",
        "removed",
        "groups.cached",
        "groups.hosts",
        "groups.kept",
        "groups.malformed",
        "groups.planned",
        "groups.rails",
        "groups.resources",
        "groups.classes.matched_later",
        "groups.classes.pools",
        "groups.classes.reason",
        "groups.classes.sriov",
        "groups.classes.sriov.versions",
        "groups.classes.wishes",
    ),
    "evidence": (),
    "fabric": (),
    "outcomes": (),
    "report": ("groups.collectives",),
    "state": (),
}
# As large as the cluster makes them; the texts tell of all devices of a host.
_MOST_ITEMS = 50_000_000
_MOST_TEXT = 16 << 20


def schema_of(sort: str) -> t.Any:
    """The schema of facts, plan, evidence, outcomes, a report or the state of a system."""
    path = Path(__file__).resolve().parents[2] / "docs" / f"{sort}.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))


@functools.cache
def _checker(sort: str) -> Checker:
    return Checker(schema_of(sort), NEWER[sort], _MOST_ITEMS, _MOST_TEXT)


def contract_problems(sort: str, document: t.Any) -> list[str]:
    """A few sentences on what a plan, evidence, outcomes or the state of a system have that their schema does not allow, with its place."""
    return _checker(sort).problems(document)


def _completed_class(entry: t.Any) -> Class:
    newer: dict[str, t.Any] = {"wishes": "", "matched_later": [], "pools": [], "reason": None}
    return t.cast(Class, {**newer, **entry, "sriov": {**without_sriov(), **entry.get("sriov", {})}})


def completed_group(entry: t.Any) -> Group:
    """A group of a plan, with what those of earlier versions lack: nothing of it, and as its hosts all that it has something for."""
    classes = [_completed_class(each) for each in entry["classes"]]
    hosts = {*entry.get("hosts", ()), *entry.get("wanted", ()), *(host for each in classes for host in each["hosts"])}
    newer: dict[str, t.Any] = {
        "resources": [],
        "planned": True,
        "kept": None,
        "cached": {},
        "malformed": {},
        "rails": {},
    }
    return t.cast(Group, {**newer, **entry, "hosts": sorted(hosts), "classes": classes})


def completed(plan: t.Mapping[str, t.Any]) -> Plan:
    """A plan, with what those of earlier versions lack."""
    none: dict[str, t.Any] = {"config": None, "selectors": {}, "hosts": 0, "errors": [], "alternative": None}
    groups = {name: completed_group(entry) for name, entry in plan["groups"].items()}
    return t.cast(Plan, {"cluster": none, **plan, "groups": groups})

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites of captured nodes, planned by the planner; and definitions that take no field they do not have."""

from __future__ import annotations

import copy
import functools
import typing as t

import jsonschema

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import scoped_plan
from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of

Json = dict[str, t.Any]


@functools.cache
def _captured(name: str) -> Json:
    return facts_of(open_tree(str(CAPTURES / f"{name}.capture")))


def a_site(groups: dict[str, tuple[Json, list[str]]], **more: t.Any) -> Site:
    """groups: {group: (wishes by variable, captures)}; a host is called after its capture."""
    facts = {name: copy.deepcopy(_captured(name)) for _wishes, names in groups.values() for name in names}
    wishes = {
        group: {"rdma_resource": {"name": group.replace("-", "_")}, **own} for group, (own, _names) in groups.items()
    }
    planned = {
        group: {
            "hosts": names,
            "resource": wishes[group]["rdma_resource"],
            "want": wishes[group].get("rdma_want"),
            "strategy": None,
            "rails": wishes[group].get("rdma_rails"),
        }
        for group, (_own, names) in groups.items()
    }
    scoped, excusable = scoped_plan(plan_groups(facts, planned), allow_unusable=False)
    site: Json = {
        "inventory": "default",
        "groups": {group: list(names) for group, (_own, names) in groups.items()},
        "wishes": wishes,
        "facts": facts,
        "plan": scoped,
        "excusable": excusable,
        "node_names": {},
        "registry": None,
        "pull_secrets": [],
        "charts": None,
        "cidrs": {"pods": [], "services": [], "nodes": []},
        **more,
    }
    return t.cast(Site, site)


def _strict(schema: t.Any) -> t.Any:
    """A schema in which every object with known fields has no others, as strict validation on the server has it."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(item) for key, item in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    return found


@functools.cache
def _definition(name: str) -> dict[str, t.Any]:
    """Schemas of a kind by apiVersion."""
    plural, _dot, its_group = name.partition(".")
    found = definitions.read(f"{its_group}_{plural}.yaml")
    assert name in found, f"{definitions.FOLDER} lacks {name}"
    group = found[name]["spec"]["group"]
    versions = {
        f"{group}/{version['name']}": _strict(version["schema"]["openAPIV3Schema"])
        for version in found[name]["spec"]["versions"]
    }
    for schema in versions.values():
        # metadata is the server's own business
        schema["properties"]["metadata"] = {"type": "object"}
    return versions


def insist(item: Json, definition: str) -> None:
    """An object is as its definition (such as mpijobs.kubeflow.org) has it. Where there is none at all, the summary of the run says so."""
    if not definitions.FOLDER.is_dir():
        return
    jsonschema.Draft202012Validator(_definition(definition)[item["apiVersion"]]).validate(item)

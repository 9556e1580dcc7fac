# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems (networks, drivers, storage) have in a cluster that this inventory may only not see. Private.

A host or group that is not in the inventory of a run leaves when somebody says so, never because a copy or a slice lacks it.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.changes import RECORD, Json
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    applied_by_us,
    class_groups,
    describe,
    some,
    stranger,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.records import label_lines

__all__ = ["Scope", "standing", "strays_of_systems"]

# Where records are.
PLACE = "kube-system"


class Scope(t.NamedTuple):
    """What a run sees. hosts: nodes of all hosts of the inventory. groups: those that it plans or keeps, as in GROUP_LABEL.

    remove: nodes and groups that are taken out on purpose.
    """

    hosts: t.Collection[str]
    groups: t.Collection[str]
    remove: t.Collection[str]


class _Standing(t.NamedTuple):
    """What a system has, by its record. items: its objects that are for a group. nodes: {node: values of the labels that it has set}."""

    system: str
    items: list[Json]
    nodes: dict[str, list[str]]

    def nodes_of(self, groups: t.Collection[str]) -> list[str]:
        """Nodes with a label that has the name of a class of these groups."""
        classes = class_groups(self.items)
        return sorted(
            node for node, values in self.nodes.items() if {classes.get(value) for value in values} & {*groups}
        )

    def strays(self, scope: Scope) -> list[str]:
        """Nodes and objects that nothing of the inventory is behind, and that nobody takes out, in words."""
        classes = class_groups(self.items)
        seen = {*scope.groups, *scope.remove}
        nodes = [
            f"node {node}"
            for node, values in sorted(self.nodes.items())
            if node not in scope.hosts
            and node not in scope.remove
            and not {classes.get(value) for value in values} & {*scope.remove}
        ]
        items = [
            f"{describe(item)} (group {item['metadata']['labels'][GROUP_LABEL]})"
            for item in self.items
            if item["metadata"]["labels"][GROUP_LABEL] not in seen
        ]
        return nodes + sorted(items)


def standing(kube: Kube, inventory: str, system: t.Optional[str] = None, place: str = PLACE) -> list[_Standing]:
    """What each system of an inventory has, or one of them. place: the namespace of their records.

    Of a record that others have made or spoilt nothing counts: its system tells of it.
    """
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: inventory}
    selector = ",".join(f"{key}={value}" for key, value in labels.items()) + f",{SYSTEM_LABEL}"
    path = f"/api/v1/namespaces/{place}/configmaps"
    found = []
    now: t.Optional[dict[str, Json]] = None
    for record in kube.list(path, "list records of systems", labelSelector=selector):
        name = (record["metadata"].get("labels") or {}).get(SYSTEM_LABEL, "")
        named = record["metadata"]["name"].startswith(RECORD)
        asked = system is None or system.replace("_", "-") == name
        if not named or not asked or stranger({**record, "kind": "ConfigMap"}, inventory) is not None:
            continue
        lines = [line.split(" ") for line in _recorded(record, "labels") if line.count(" ") == 2]
        if lines and now is None:
            nodes = kube.list("/api/v1/nodes", "list nodes", metadata_only=True)
            now = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in nodes}
        labelled: dict[str, list[str]] = {}
        for node, key, value in lines:
            if ((now or {}).get(node) or {}).get(key) == value:
                labelled.setdefault(node, []).append(value)
        found.append(_Standing(name, _items(kube, record, f"{selector}={name}"), labelled))
    return found


def _recorded(record: t.Mapping[str, t.Any], key: str) -> list[str]:
    try:
        words = label_lines(json.loads((record.get("data") or {}).get(key) or "[]"))
    except (ValueError, TypeError, RecursionError):
        return []
    return [each for each in words if isinstance(each, str)] if isinstance(words, list) else []


def _items(kube: Kube, record: t.Mapping[str, t.Any], selector: str) -> list[Json]:
    items: list[Json] = []
    for version, _space, kind in (word.partition(" ") for word in _recorded(record, "kinds")):
        served = kube.kinds(version)
        if kind not in served:
            continue
        path = f"/{'apis' if '/' in version else 'api'}/{version}/{served[kind][0]}"
        for item in kube.list(path, f"list {served[kind][0]}", labelSelector=selector + f",{GROUP_LABEL}"):
            if applied_by_us(item):
                items.append({**item, "apiVersion": version, "kind": kind})
    return items


def strays_of_systems(found: t.Iterable[_Standing], scope: Scope) -> str:
    """Why a run must not go on, with what to do; empty when it may."""
    parts = []
    for each in found:
        strays = each.strays(scope)
        if strays:
            parts.append(f"system {each.system} has {len(strays)} that this inventory does not know: {some(strays)}")
    if not parts:
        return ""
    return (
        f"{'; '.join(parts)}. They would lose it. Run with the whole inventory (this one may be a copy that lacks them, or a slice of "
        "a sliced job), name the nodes of its hosts in rdma_rollout.node_names ({host: node}), or say that they may go: "
        "rdma_rollout.remove, a list of hosts or groups."
    )

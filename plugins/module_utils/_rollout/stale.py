# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extended resources of a device plugin that has gone. Private."""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import some, stale_on_node

__all__ = ["Stale"]


class Stale:
    """Extended resources that nodes still list although nothing advertises them any more."""

    def __init__(self, kube: Kube, resources: t.Sequence[str], nodes: t.Sequence[str]) -> None:
        self.kube = kube
        self.resources = list(resources)
        found = {item["metadata"]["name"]: item for item in kube.list("/api/v1/nodes", "list nodes")}
        missing = sorted(set(nodes) - set(found))
        if missing:
            raise KubeError(f"nodes that do not exist: {some(missing)}. The cluster has: {some(found) or 'no node'}")
        self.nodes = {name: found[name] for name in sorted(nodes or found)}
        self.removable: dict[str, list[str]] = {}
        self.blocked: dict[str, dict[str, str]] = {}
        for name in self.nodes:
            self._judge(name)

    def _judge(self, name: str) -> None:
        self.removable.pop(name, None)
        self.blocked.pop(name, None)
        status = self.nodes[name].get("status") or {}
        listed = {**(status.get("capacity") or {}), **(status.get("allocatable") or {})}
        wanted = [resource for resource in self.resources if resource in listed]
        if not wanted:
            return
        pods = self.kube.list("/api/v1/pods", "list Pods of node " + name, fieldSelector="spec.nodeName=" + name)
        for resource in wanted:
            present, obstacle = stale_on_node(self.nodes[name], pods, resource)
            if obstacle is not None:
                self.blocked.setdefault(name, {})[resource] = obstacle
            elif present:
                self.removable.setdefault(name, []).append(resource)

    def _patch(self, name: str, dry_run: bool) -> None:
        gone = dict.fromkeys(self.removable[name])
        body = {
            # a node that has reported since it was looked at is looked at again
            "metadata": {"resourceVersion": self.nodes[name]["metadata"]["resourceVersion"]},
            "status": {"capacity": gone, "allocatable": gone},
        }
        self.kube.merge(f"/api/v1/nodes/{name}/status", f"remove {', '.join(gone)} from node {name}", body, dry_run)

    def _attempt(self, name: str, dry_run: bool) -> None:
        for left in (3, 2, 1, 0):
            try:
                return self._patch(name, dry_run)
            except KubeError as exc:
                if exc.code not in (404, 409) or not left:
                    raise
            node = self.kube.find("/api/v1/nodes/" + name, "read node " + name)
            if node is None:
                # it has left the cluster, and all of its resources with it
                return None
            self.nodes[name] = node
            self._judge(name)
            if name not in self.removable:
                return None
        return None

    def listed(self) -> dict[str, dict[str, t.Any]]:
        """The resources in question of every node that lists one: {node: {resource: capacity}}."""
        found = {}
        for name, node in self.nodes.items():
            status = node.get("status") or {}
            counts = {**(status.get("allocatable") or {}), **(status.get("capacity") or {})}
            mine = {resource: counts[resource] for resource in self.resources if resource in counts}
            if mine:
                found[name] = mine
        return found

    def left(self, before: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
        """What of listed() stays."""
        after = {
            name: {
                resource: count for resource, count in counts.items() if resource not in self.removable.get(name, [])
            }
            for name, counts in before.items()
        }
        return {name: counts for name, counts in after.items() if counts}

    def rehearse(self) -> None:
        for name in list(self.removable):
            self._attempt(name, dry_run=True)

    def perform(self) -> None:
        for name in list(self.removable):
            self._attempt(name, dry_run=False)

    def returned(self) -> dict[str, list[str]]:
        """Removed resources that a kubelet has put back."""
        back: dict[str, list[str]] = {}
        for name, resources in self.removable.items():
            node = patiently(partial(self.kube.find, "/api/v1/nodes/" + name, "read node " + name)) or {}
            capacity = (node.get("status") or {}).get("capacity") or {}
            found = [resource for resource in resources if resource in capacity]
            if found:
                back[name] = found
        return back

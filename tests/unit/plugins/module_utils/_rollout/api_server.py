# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small API server in memory: it keeps objects, counts their versions and refuses what comes too late. Below it, the client is the real one."""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER

Json = dict[str, t.Any]

SERVED = {
    "/api/v1": {"Namespace": "namespaces", "Node": "nodes", "Pod": "pods", "ConfigMap": "configmaps"},
    "/apis/apps/v1": {"DaemonSet": "daemonsets", "Deployment": "deployments", "StatefulSet": "statefulsets"},
}
BARE = ("Namespace", "Node", "SpiderIPPool", "ClusterPolicy", "NicClusterPolicy", "NicNodePolicy")


class Server(Kube):
    """Objects by their paths. before_change: what somebody else does before the next change, once."""

    def __init__(self, *objects: Json) -> None:
        self.server, self.source = "https://api.example", "a test"
        self.warnings = []
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        self.served = copy.deepcopy(SERVED)  # type: ignore[assignment]
        self.items: dict[str, Json] = {}
        self.asked: list[str] = []
        self.refusals: dict[str, KubeError] = {}
        self.refused: list[str] = []
        self.before_change: t.Callable[[], None] | None = None
        self._count = 0
        for item in objects:
            self.put(item)

    @property
    def written(self) -> list[str]:
        """Changes that were made, not those that were only tried."""
        return [each for each in self.asked if not each.startswith("try ")]

    def place(self, item: Json) -> str:
        return self.path({"apiVersion": "apps/v1" if item["kind"] in SERVED["/apis/apps/v1"] else "v1", **item})

    def put(self, item: Json, manager: str = "kubectl") -> Json:
        """What somebody writes: the object has another version, and one that is new another uid."""
        path = self.place(item)
        old = (self.items.get(path) or {"metadata": {}})["metadata"]
        self._count += 1
        entries = [entry for entry in old.get("managedFields") or [] if entry["manager"] != manager]
        metadata = {
            "uid": old.get("uid") or f"uid-{self._count}",
            **item["metadata"],
            "resourceVersion": str(self._count),
            "managedFields": [*entries, {"manager": manager, "operation": "Apply", "time": self._count}],
        }
        self.items[path] = {**copy.deepcopy(item), "metadata": metadata}
        return copy.deepcopy(self.items[path])

    def report(self, path: str, **status: t.Any) -> None:
        """What a controller writes into the status: the version of the object is another, and nobody else has set more of it."""
        self._count += 1
        self.items[path].setdefault("status", {}).update(status)
        self.items[path]["metadata"]["resourceVersion"] = str(self._count)

    def request(  # type: ignore[override]
        self, method: str, path: str, doing: str, query: t.Any = (), body: t.Any = None, *_more: str, **headers: str
    ) -> Json:
        if path in self.refusals:
            self.refused.append(doing)
            raise self.refusals[path]
        if method == "GET":
            answer = self._answer_of(path, doing, dict(query))
            bare = "PartialObjectMetadata" in headers.get("accept", "")
            return {"items": [self._listed(item, bare) for item in answer["items"]]} if "items" in answer else answer
        body = json.loads(body) if isinstance(body, str) else body
        dry_run = ("dryRun", "All") in list(query) or "dryRun" in body
        if self.before_change is not None and not dry_run:
            act, self.before_change = self.before_change, None
            act()
        return self._change(method, path, doing, body, dry_run)

    def _answer_of(self, path: str, doing: str, query: dict[str, str]) -> Json:
        if path in self.served:  # type: ignore[operator]
            kinds = self.served[path]  # type: ignore[index]
            return {"resources": [{"kind": k, "name": n, "namespaced": k not in BARE} for k, n in kinds.items()]}
        if "limit" not in query:
            if path not in self.items:
                raise KubeError(f"cannot {doing}: not found", 404)
            return copy.deepcopy(self.items[path])
        found = [item for place, item in self.items.items() if self._is_in(path, place) and self._fits(item, query)]
        return {"items": copy.deepcopy(found)}

    @staticmethod
    def _listed(item: Json, metadata_only: bool) -> Json:
        """An object as a list has it: without its kind, where no definition brings that."""
        if metadata_only:
            return {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": item["metadata"]}
        own = any(item.get("kind") in kinds for kinds in SERVED.values())
        return {key: value for key, value in item.items() if not own or key not in ("apiVersion", "kind")}

    @staticmethod
    def _is_in(path: str, place: str) -> bool:
        """Whether an object is in a list: that of its namespace, or of all namespaces."""
        base, _dot, plural = path.rpartition("/")
        holder = place.rpartition("/")[0]
        return holder == path or (holder.startswith(base + "/namespaces/") and holder.endswith("/" + plural))

    @staticmethod
    def _fits(item: Json, query: dict[str, str]) -> bool:
        spec = item.get("spec") or {}
        fields = {
            "metadata.name": item["metadata"]["name"],
            "spec.nodeName": spec.get("nodeName"),
            "spec.unschedulable": str(bool(spec.get("unschedulable"))).lower(),
        }
        field, _equals, wanted = query.get("fieldSelector", "").partition("=")
        labels = item["metadata"].get("labels") or {}
        asked = [each.partition("=") for each in query.get("labelSelector", "").split(",") if each]
        return (not field or fields[field] == wanted) and all(
            key in labels and (not equals or labels[key] == value) for key, equals, value in asked
        )

    def _change(self, method: str, path: str, doing: str, body: Json, dry_run: bool) -> Json:
        holder = path.removesuffix("/status")
        found = self.items.get(holder)
        given = body.get("preconditions") or body.get("metadata") or {}
        now = (found or {"metadata": {}})["metadata"]
        if found is None and (method == "DELETE" or holder != path):
            raise KubeError(f"cannot {doing}: not found", 404)
        if any(key in given and given[key] != now.get(key) for key in ("uid", "resourceVersion")):
            raise KubeError(f"cannot {doing}: it is another by now", 409)
        place = given.get("namespace")
        if method == "PATCH" and found is None and place and f"/api/v1/namespaces/{place}" not in self.items:
            raise KubeError(f'cannot {doing}: namespaces "{place}" not found', 404)
        self.asked.append(f"{'try ' if dry_run else ''}{doing}")
        if method == "DELETE":
            return self.items[holder] if dry_run else self._deleted(holder)
        if holder != path:
            return self._merged(holder, body["status"], dry_run)
        if "kind" not in body:
            return self._labelled(holder, body["metadata"]["labels"], dry_run)
        kept = copy.deepcopy(self.items)
        metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        after = self.put({**body, "metadata": metadata}, FIELD_MANAGER)
        if dry_run:
            self.items = kept
        return after

    def _deleted(self, path: str) -> Json:
        """An object with finalizers stays until they have been taken off."""
        metadata = self.items[path]["metadata"]
        if not metadata.get("finalizers"):
            return self.items.pop(path)
        metadata.setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self.report(path)
        return self.items[path]

    def _labelled(self, path: str, labels: Json, dry_run: bool) -> Json:
        """A merge patch of the labels of a node: what is None goes."""
        item = copy.deepcopy(self.items[path])
        whole = {**(item["metadata"].get("labels") or {}), **labels}
        item["metadata"]["labels"] = {name: value for name, value in whole.items() if value is not None}
        if not dry_run:
            self.items[path] = item
            self.report(path)
        return item

    def _merged(self, path: str, status: Json, dry_run: bool) -> Json:
        """A merge patch of the status of a node: what is None goes."""
        item = copy.deepcopy(self.items[path])
        for key, values in status.items():
            whole = {**item["status"].get(key, {}), **values}
            item["status"][key] = {name: value for name, value in whole.items() if value is not None}
        if not dry_run:
            self.items[path] = item
            self.report(path)
        return item

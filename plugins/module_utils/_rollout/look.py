# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at all of a cluster that has to do with RDMA, in a few requests, and at logs of its Pods. Private to the collection."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import POLICY_VERSION
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import (
    empty_snapshot,
    kept_pods,
    part_of,
    reduced,
    sorted_snapshot,
)

__all__ = ["look", "read_logs"]

Json = t.Dict[str, t.Any]

# Logs of these parts are read; those of others tell nothing that a rule knows.
_TELLING = ("plugin", "dranet", "ofed", "gpu_driver", "toolkit", "dra", "longhorn", "vgpu")
_MOST_EVENTS = 2000
# A kubelet that is well gives a log at once; many that are not must not cost an hour.
_LOG_SECONDS = 10


class _Look:
    """A cluster while it is looked at: what may not be read is noted, and costs nothing else."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.unread: list[str] = []
        self.refused: list[str] = []

    def items(self, path: str, doing: str, **query: str) -> list[Json]:
        try:
            return self.kube.list(path, doing, False, **query)
        except Unreachable:
            raise
        except KubeError as exc:
            # a cluster without the operator has no policies
            if exc.code != 404:
                self.unread.append(str(exc))
                self.refused.append(path)
            return []

    def item(self, path: str, doing: str) -> tuple[bool, t.Optional[Json]]:
        """(whether it may be read, the object or None where there is none)."""
        try:
            return True, self.kube.find(path, doing)
        except Unreachable:
            raise
        except KubeError as exc:
            self.unread.append(str(exc))
            return False, None

    def config_maps(self, daemon_sets: t.Iterable[Json]) -> list[Json]:
        """The configurations that DaemonSets of device plugins mount."""
        places = {
            (each["metadata"].get("namespace"), volume["configMap"].get("name"))
            for each in daemon_sets
            if part_of(each) == "plugin"
            for volume in each["spec"]["template"]["spec"].get("volumes") or []
            if volume.get("configMap")
        }
        found = []
        for space, name in sorted(places, key=str):
            _readable, item = self.item(
                f"/api/v1/namespaces/{space}/configmaps/{name}", f"read ConfigMap {space}/{name}"
            )
            if item is not None:
                found.append(reduced("ConfigMap", item))
        return found

    def pods(self, named: t.Collection[str]) -> tuple[list[Json], list[str]]:
        """(all Pods, which of those that are named are not there). Who may not list all Pods may read those of some namespaces."""
        every = self.items("/api/v1/pods", "list Pods")
        if "/api/v1/pods" not in self.refused:
            there = {f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}" for pod in every}
            return every, sorted(set(named) - there)
        missing = []
        for each in sorted(named):
            space, _slash, name = each.partition("/")
            readable, pod = self.item(f"/api/v1/namespaces/{space}/pods/{name}", f"read Pod {each}")
            if pod is not None:
                every.append(pod)
            elif readable:
                missing.append(each)
        return every, missing


def _resource_names(config_maps: t.Iterable[Json], policies: t.Iterable[Json]) -> set[str]:
    """Resources that configurations of device plugins name. A configuration that cannot be read names none."""
    texts = [each["data"].get("config.json") for each in config_maps]
    texts += [
        section.get("config") for each in policies for section in each["spec"].values() if isinstance(section, dict)
    ]
    found = set()
    for text in texts:
        try:
            config = json.loads(text or "{}")
        except (TypeError, ValueError, RecursionError):
            continue
        entries = (
            [*(config.get("configList") or []), *(config.get("resourceList") or [])] if isinstance(config, dict) else []
        )
        for entry in entries:
            if isinstance(entry, dict):
                found.add(f"{entry.get('resourcePrefix') or 'rdma'}/{entry.get('resourceName')}")
    return found


def look(kube: Kube, resources: t.Collection[str], named: t.Collection[str]) -> tuple[Json, list[str]]:
    """(a snapshot, sentences on what could not be read).

    resources: those of the plan. named: Pods that the user asks about, NAMESPACE/NAME. Unreachable when nothing answers.
    """
    here = _Look(kube)
    nodes = here.items("/api/v1/nodes", "list nodes")
    every = here.items("/apis/apps/v1/daemonsets", "list DaemonSets")
    daemon_sets = [reduced("DaemonSet", each) for each in every if part_of(each)]
    config_maps = here.config_maps(daemon_sets)
    policies = []
    for kind, plural in (("NicClusterPolicy", "nicclusterpolicies"), ("NicNodePolicy", "nicnodepolicies")):
        items = here.items(f"/apis/{POLICY_VERSION}/{plural}", f"list {kind}")
        policies += [reduced(kind, each) for each in items]
    known = {*resources, *_resource_names(config_maps, policies)}
    every, missing = here.pods(named)
    pods = kept_pods(every, daemon_sets, known, named)
    kept = {(each["metadata"].get("namespace"), each["metadata"]["name"]) for each in [*pods, *daemon_sets]}
    events = [
        reduced("Event", each)
        for each in [
            *here.items("/api/v1/events", "list events", fieldSelector="type=Warning"),
            *here.items("/api/v1/events", "list events of nodes", fieldSelector="involvedObject.kind=Node,type=Normal"),
        ]
    ]
    events = [
        each
        for each in events
        if each["involvedObject"].get("kind") == "Node"
        or (each["involvedObject"].get("namespace"), each["involvedObject"].get("name")) in kept
    ]
    snapshot = {
        **empty_snapshot(),
        "nodes": {each["metadata"]["name"]: reduced("Node", each) for each in nodes},
        "daemon_sets": daemon_sets,
        "config_maps": config_maps,
        "policies": policies,
        "pods": pods,
        "events": events[-_MOST_EVENTS:],
    }
    if any(path.endswith("/pods") or POLICY_VERSION in path for path in here.refused):
        # of Pods and policies, what is not there is not missing then
        snapshot["listed"] = True
    if named and "/api/v1/pods" in here.refused:
        # Pods are those that somebody asked about, and no others
        snapshot["named"] = True
    here.unread += [f"there is no Pod {name}" for name in missing]
    return sorted_snapshot(snapshot), here.unread


def _troubled(pod: Json) -> bool:
    statuses = [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
    return (
        not statuses
        or not all(each.get("ready") for each in statuses)
        or any(each.get("restartCount") for each in statuses)
    )


def _chosen(snapshot: Json, named: t.Collection[str], most: int) -> list[Json]:
    """Pods whose logs are read: those that are named, then of each DaemonSet that tells something, the troubled ones first."""
    parts = {
        (each["metadata"].get("namespace"), each["metadata"]["name"]): part_of(each) for each in snapshot["daemon_sets"]
    }
    chosen = [
        pod for pod in snapshot["pods"] if f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}" in named
    ]
    by_owner: dict[tuple[t.Any, t.Any], list[Json]] = {}
    for pod in snapshot["pods"]:
        for owner in pod["metadata"].get("owners") or []:
            place = (pod["metadata"].get("namespace"), owner.get("name"))
            if parts.get(place) in _TELLING and pod not in chosen:
                by_owner.setdefault(place, []).append(pod)
    for place in sorted(by_owner, key=str):
        own = sorted(by_owner[place], key=lambda pod: not _troubled(pod))
        chosen += own[:most]
    return chosen


def read_logs(
    kube: Kube, snapshot: Json, named: t.Collection[str], most: int, lines: int, limit: int
) -> tuple[list[Json], list[str]]:
    """(logs: {name, source, host, pod, text}, sentences on those that could not be read).

    most: Pods of a DaemonSet; lines, limit: of the end of a container's log, lines and bytes. host is the name of the node.
    """
    logs: list[Json] = []
    unread: list[str] = []
    for pod in _chosen(snapshot, named, most):
        space, name = pod["metadata"].get("namespace"), pod["metadata"]["name"]
        statuses = {
            each.get("name"): each
            for key in ("initContainerStatuses", "containerStatuses")
            for each in pod["status"].get(key, [])
        }
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"].get("containers", [])]:
            restarted = (statuses.get(container["name"]) or {}).get("restartCount")
            for previous in (False, True) if restarted else (False,):
                query = {"container": container["name"], "tailLines": str(lines), "limitBytes": str(limit)}
                shown = f"{space}/{name} {container['name']}{' (before its restart)' if previous else ''}"
                try:
                    text = kube.text(
                        f"/api/v1/namespaces/{space}/pods/{name}/log",
                        f"read the log of {shown}",
                        _LOG_SECONDS,
                        str(pod["spec"].get("nodeName") or ""),
                        **query,
                        **({"previous": "true"} if previous else {}),
                    )
                except FabricError as exc:
                    unread.append(str(exc))
                    continue
                if text.strip():
                    host = pod["spec"].get("nodeName")
                    logs.append({"name": shown, "source": "pod", "host": host, "pod": f"{space}/{name}", "text": text})
    return logs, unread

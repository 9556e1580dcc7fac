# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout in three steps: look at the cluster, rehearse every change on the server, perform them. Private."""

from __future__ import annotations

import functools
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._kube import Kube, KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._manifests import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import (
    OWN_SELECTOR,
    applied_by_us,
    class_state,
    comparable,
    describe,
    label_changes,
    pod_trouble,
    removals,
    some,
    stale_on_node,
)

__all__ = ["Rollout", "Stale", "wait_for_class"]

Json = t.Dict[str, t.Any]
# What is being done, in words, and how.
_Step = t.Tuple[str, t.Callable[[], t.Any]]

# Tries the objects of a namespace that does not exist yet: one that every cluster has.
_STAND_IN = "default"


class Rollout:
    """look, rehearse, perform: in this order. Only the last one changes anything."""

    def __init__(self, kube: Kube, force: bool = False) -> None:
        self.kube = kube
        self.force = force
        self.warnings: t.List[str] = []
        self.labels: t.Dict[str, t.Optional[str]] = {}
        self._objects: t.List[Json] = []
        self._before: t.List[t.Optional[Json]] = []
        self._after: t.List[Json] = []
        self._gone: t.List[Json] = []
        self._old_labels: t.Dict[str, t.Optional[str]] = {}

    # look

    def look(self, objects: t.Sequence[Json], nodes: t.Mapping[str, str], keep: t.Iterable[str]) -> None:
        """objects: desired. nodes: {node: class}. keep: groups that are left alone."""
        self._objects = list(objects)
        self._before = [self.kube.find(self.kube.path(item), "read " + describe(item)) for item in objects]
        self._gone, self.warnings = removals(self._own(objects), objects, keep)
        present = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True)
        labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in present}
        gone = {item["metadata"]["labels"].get("app.kubernetes.io/instance", "") for item in self._gone}
        self.labels, missing = label_changes(labels, nodes, gone)
        if missing:
            raise KubeError(
                "%d of %d nodes of the plan are not in the cluster: %s. Hosts of the inventory are taken for nodes of the same "
                "name: say in rdma_rollout.node_names ({host: node}) how theirs are called, let them join the cluster, or take "
                "them out of rdma_groups. The cluster %s has: %s"
                % (len(missing), len(nodes), some(missing), self.kube.server, some(labels) or "no node")
            )
        self._old_labels = {name: labels[name].get(CLASS_LABEL) for name in self.labels}

    def _own(self, objects: t.Sequence[Json]) -> t.List[Json]:
        """What earlier rollouts have left, wherever it is. ConfigMaps are looked for only where a DaemonSet of ours is or will be."""
        daemon_sets = self.kube.list("/apis/apps/v1/daemonsets", "list DaemonSets", labelSelector=OWN_SELECTOR)
        for item in daemon_sets:
            item.update(apiVersion="apps/v1", kind="DaemonSet")
        found = list(daemon_sets)
        places = {item["metadata"].get("namespace") for item in [*daemon_sets, *objects]}
        for namespace in sorted(place for place in places if place):
            path = "/api/v1/namespaces/%s/configmaps" % namespace
            for item in self.kube.list(path, "list ConfigMaps of " + namespace, labelSelector=OWN_SELECTOR):
                found.append({**item, "apiVersion": "v1", "kind": "ConfigMap"})
        return found

    # rehearse

    def rehearse(self) -> None:
        """Dry run on the server of all there is to do. Raises KubeError with every refusal."""
        refusals = []
        to_come = {
            item["metadata"]["name"]
            for item, before in zip(self._objects, self._before)
            if item["kind"] == "Namespace" and before is None
        }
        for item in self._objects:
            stand_in = _STAND_IN if item["metadata"].get("namespace") in to_come else None
            try:
                after = self.kube.apply(item, dry_run=True, force=self.force, stand_in=stand_in)
            except Unreachable:
                raise
            except KubeError as exc:
                refusals.append(str(exc))
                continue
            if stand_in is not None:
                after["metadata"]["namespace"] = item["metadata"]["namespace"]
            self._after.append(after)
        for step in self._node_steps(dry_run=True) + self._removal_steps(dry_run=True):
            try:
                step[1]()
            except Unreachable:
                raise
            except KubeError as exc:
                refusals.append(str(exc))
        if refusals:
            unique = list(dict.fromkeys(refusals))
            more = " (and %d more refusals)" % (len(unique) - 3) if len(unique) > 3 else ""
            raise KubeError("Nothing was changed. " + " | ".join(unique[:3]) + more)

    def _changes(self, index: int) -> bool:
        before = self._before[index]
        return before is None or not applied_by_us(before) or comparable(before) != comparable(self._after[index])

    @property
    def changed(self) -> bool:
        return bool(self.labels or self._gone or any(self._changes(index) for index in range(len(self._objects))))

    def actions(self) -> t.Dict[str, str]:
        """What is done with each object."""
        done = {}
        for index, item in enumerate(self._objects):
            what = "created" if self._before[index] is None else "changed" if self._changes(index) else "unchanged"
            done[describe(item)] = what
        done.update((describe(item), "removed") for item in self._gone)
        return done

    def diff(self) -> t.List[Json]:
        """One entry an object that changes, and one for all labels: dictionaries, which Ansible shows line by line."""
        pairs: t.List[t.Tuple[str, t.Any, t.Any]] = [
            (describe(item), comparable(self._before[index]), comparable(self._after[index]))
            for index, item in enumerate(self._objects)
            if self._changes(index)
        ]
        if self.labels:
            pairs.append(("label %s of nodes" % CLASS_LABEL, self._old_labels, self.labels))
        pairs += [(describe(item), comparable(item), None) for item in self._gone]
        return [
            {
                "before_header": what,
                "after_header": what,
                "before": {} if before is None else before,
                "after": {} if after is None else after,
            }
            for what, before, after in pairs
        ]

    # perform

    def _node_steps(self, dry_run: bool) -> t.List[_Step]:
        steps: t.List[_Step] = []
        for node, value in self.labels.items():
            doing, body = "label node %s" % node, {"metadata": {"labels": {CLASS_LABEL: value}}}
            # a merge patch: server-side apply would make a node of that name
            steps.append((doing, functools.partial(self.kube.merge, "/api/v1/nodes/" + node, doing, body, dry_run)))
        return steps

    def _removal_steps(self, dry_run: bool) -> t.List[_Step]:
        return [("delete " + describe(item), functools.partial(self.kube.delete, item, dry_run)) for item in self._gone]

    def perform(self) -> None:
        """Do it: objects, labels, then removals. When one fails nevertheless, the error says what has been done and what not."""
        steps: t.List[_Step] = [
            ("apply " + describe(item), functools.partial(self.kube.apply, item, dry_run=False, force=self.force))
            for index, item in enumerate(self._objects)
            if self._changes(index)
        ]
        # DaemonSets are there before nodes change classes, so that a node is without a plugin for as short as can be
        steps += self._node_steps(dry_run=False) + self._removal_steps(dry_run=False)
        for number, (_doing, step) in enumerate(steps):
            try:
                step()
            except KubeError as exc:
                if number == 0 and not isinstance(exc, Unreachable):
                    raise KubeError("%s Nothing was changed." % exc, exc.code) from exc
                # what was asked and not answered may have been done
                sent = number + isinstance(exc, Unreachable)
                names = [doing for doing, _step in steps]
                parts = (
                    ("Done before that", names[:number] or ["nothing"]),
                    ("Not known", names[number:sent]),
                    ("Not done", names[sent:]),
                )
                words = ["%s: %s." % (what, some(items)) for what, items in parts if items]
                text = "%s. %s Run again: what is done is not done twice." % (str(exc).rstrip("."), " ".join(words))
                raise KubeError(text, exc.code) from exc


# --- waiting ---------------------------------------------------------------------------------------------------------


def _troubles(kube: Kube, entry: t.Mapping[str, t.Any]) -> t.List[str]:
    """What the scheduler, the kubelets and the controller say about Pods that are not ready, as far as it may be read."""
    space = "/api/v1/namespaces/%s" % entry["namespace"]
    selector = "%s,app.kubernetes.io/instance=%s" % (OWN_SELECTOR, entry["name"])
    words: t.List[str] = []
    try:
        pods = kube.list(space + "/pods", "list Pods", labelSelector=selector)
        words += [trouble for trouble in map(pod_trouble, pods) if trouble][:3]
        fields = "involvedObject.kind=DaemonSet,involvedObject.name=%s,type=Warning" % entry["daemon_set"]
        events = kube.list(space + "/events", "list events", fieldSelector=fields)
        events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
        words += ["%s: %s" % (each.get("reason"), each.get("message")) for each in events[-1:]]
    except KubeError as exc:
        words.append("more cannot be told: %s" % exc)
    return words


def wait_for_class(
    kube: Kube,
    entry: t.Mapping[str, t.Any],
    timeout: float,
    interval: float,
    clock: t.Callable[[], float] = time.monotonic,
    sleep: t.Callable[[float], None] = time.sleep,
) -> t.Tuple[t.List[str], float]:
    """(what is still not right, seconds waited). An API server that is away for a moment is waited for like everything else."""
    start = clock()
    path = "/apis/apps/v1/namespaces/%s/daemonsets/%s" % (entry["namespace"], entry["daemon_set"])
    while True:
        try:
            daemon_set = kube.find(path, "read DaemonSet %s" % entry["daemon_set"])
            selector = "%s=%s" % (CLASS_LABEL, entry["name"])
            items = kube.list("/api/v1/nodes", "list nodes", labelSelector=selector)
            reasons = class_state(daemon_set, {item["metadata"]["name"]: item for item in items}, entry)
        except KubeError as exc:
            if not isinstance(exc, Unreachable) and exc.code not in (429, 500, 502, 503, 504):
                raise
            reasons = [str(exc)]
        waited = clock() - start
        if not reasons:
            return [], waited
        if waited + interval > timeout:
            return reasons + _troubles(kube, entry), waited
        sleep(interval)


# --- stale resources -------------------------------------------------------------------------------------------------


class Stale:
    """Extended resources that nodes still list although nothing advertises them any more."""

    def __init__(self, kube: Kube, resources: t.Sequence[str], nodes: t.Sequence[str]) -> None:
        self.kube = kube
        self.resources = list(resources)
        found = {item["metadata"]["name"]: item for item in kube.list("/api/v1/nodes", "list nodes")}
        missing = sorted(set(nodes) - set(found))
        if missing:
            raise KubeError(
                "nodes that do not exist: %s. The cluster has: %s" % (some(missing), some(found) or "no node")
            )
        self.nodes = {name: found[name] for name in sorted(nodes or found)}
        self.removable: t.Dict[str, t.List[str]] = {}
        self.blocked: t.Dict[str, t.Dict[str, str]] = {}
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
        self.kube.merge(
            "/api/v1/nodes/%s/status" % name, "remove %s from node %s" % (", ".join(gone), name), body, dry_run
        )

    def _attempt(self, name: str, dry_run: bool) -> None:
        for left in (3, 2, 1, 0):
            try:
                return self._patch(name, dry_run)
            except KubeError as exc:
                if exc.code != 409 or not left:
                    raise
            self.nodes[name] = self.kube.request("GET", "/api/v1/nodes/" + name, "read node " + name)
            self._judge(name)
            if name not in self.removable:
                return None
        return None

    def listed(self) -> t.Dict[str, t.Dict[str, t.Any]]:
        """The resources in question of every node that lists one: {node: {resource: capacity}}."""
        found = {}
        for name, node in self.nodes.items():
            status = node.get("status") or {}
            counts = {**(status.get("allocatable") or {}), **(status.get("capacity") or {})}
            mine = {resource: counts[resource] for resource in self.resources if resource in counts}
            if mine:
                found[name] = mine
        return found

    def left(self, before: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.Dict[str, t.Dict[str, t.Any]]:
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

    def returned(self) -> t.Dict[str, t.List[str]]:
        """Removed resources that a kubelet has put back."""
        back: t.Dict[str, t.List[str]] = {}
        for name, resources in self.removable.items():
            node = self.kube.find("/api/v1/nodes/" + name, "read node " + name) or {}
            capacity = (node.get("status") or {}).get("capacity") or {}
            found = [resource for resource in resources if resource in capacity]
            if found:
                back[name] = found
        return back

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether objects are rolled out, or have a value, and what is in the way. Private."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import moment_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    describe,
    pod_trouble,
    value_at,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["wait_for_objects"]

Json = t.Dict[str, t.Any]


# Seconds after a change until a status that does not say of which version it is counts as one of the new version. A controller sees a change
# at once; one that has just started first takes the lease of its predecessor.
_SEEN_AFTER = 30
_NOT_SEEN = "its controller has not seen the new version yet"


def _rolled_out(item: t.Mapping[str, t.Any], nodes: t.Optional[int] = None) -> list[str]:
    """What a Deployment, DaemonSet or StatefulSet lacks, as kubectl rollout status judges it. nodes: how many a DaemonSet is for, at least.

    Pods that only their owner replaces (OnDelete), which kubectl does not judge, may be of the version before.
    """
    status, spec = item.get("status") or {}, item.get("spec") or {}
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return [_NOT_SEEN]
    short = []
    if item["kind"] == "DaemonSet":
        wanted, fields = status.get("desiredNumberScheduled", 0), ("updatedNumberScheduled", "numberAvailable")
        # also where its nodes have no label yet
        short = [f"it is for {wanted} of {nodes} nodes"] if wanted < (nodes or 0) else []
    else:
        wanted, fields = spec.get("replicas", 1), ("updatedReplicas", "availableReplicas")
        every = status.get("replicas", 0)
        old = every - status.get("updatedReplicas", 0) if item["kind"] == "Deployment" else 0
        # they are among those that are ready, and may be all of them
        short = [f"{old} of {every} Pods are of the version before"] if old > 0 else []
    words = dict(zip(fields, ("have the new version", "are ready")))
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        del words[fields[0]]
    return short + [
        f"{status.get(field, 0)} of {wanted} Pods {word}"
        for field, word in words.items()
        if status.get(field, 0) != wanted
    ]


def _version_of(status: t.Any) -> t.Optional[int]:
    """The generation that a status is of: its own, else that of its condition Ready, else the latest of all. None where it tells none."""
    status = status if isinstance(status, t.Mapping) else {}
    listed = status.get("conditions")
    conditions = [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, t.Mapping)]
    for rows in ([status], [each for each in conditions if each.get("type") == "Ready"], conditions):
        told: list[int] = [
            each["observedGeneration"] for each in rows if isinstance(each.get("observedGeneration"), int)
        ]
        if told:
            return max(told)
    return None


def _changes_of(item: Json) -> list[float]:
    """When somebody has written an object, other than its status; when a Deployment began to run."""
    metadata = item["metadata"]
    written = [each.get("time") for each in metadata.get("managedFields") or () if each.get("subresource") != "status"]
    if item["kind"] == "Deployment":
        written = [each.get("lastUpdateTime") for each in (item.get("status") or {}).get("conditions") or ()]
    return [moment for moment in map(moment_of, written) if moment is not None]


class _Look:
    """One look at all that is waited for."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        # of whose status nobody knows of which version it is, with its value, in words
        self._unsure: list[str] = []
        self._changed: list[float] = []

    def lacking(self, waits: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
        """What is not yet as it should be, in words."""
        words = [each for wait in waits for each in self._lacking(wait)]
        ago = self.kube.now() - max(self._changed) if self._unsure and self._changed else _SEEN_AFTER
        if ago < _SEEN_AFTER:
            words += [
                f"{value}, and may be of the version before: it does not name one, and the last change was {max(0, ago):.0f} s ago"
                for value in self._unsure
            ]
        return words

    def _lacking(self, wait: t.Mapping[str, t.Any]) -> list[str]:
        metadata = {"name": wait["name"], **({"namespace": wait["namespace"]} if wait.get("namespace") else {})}
        item: Json = {"apiVersion": wait["apiVersion"], "kind": wait["kind"], "metadata": metadata}
        shown = describe(item)
        if item["kind"] not in self.kube.kinds(item["apiVersion"]):
            # served a moment after its definition
            self.kube.forget_kinds()
            return [f"{shown}: the cluster does not serve {item['kind']} of {item['apiVersion']}"]
        found = self.kube.find(self.kube.path(item), "read " + shown)
        if found is None:
            return [f"{shown} does not exist"]
        found.update(apiVersion=item["apiVersion"], kind=item["kind"])
        if wait.get("path"):
            return self._other_value(found, str(wait["path"]), wait.get("value"))
        if item["kind"] == "Deployment":
            self._changed += _changes_of(found)
        return self._not_rolled_out(found, wait.get("nodes"))

    def _other_value(self, found: Json, path: str, wanted: t.Any) -> list[str]:
        shown, value = describe(found), value_at(found, path)
        if str(value) != str(wanted):
            return [f"{shown}: {path} is {value}, not {wanted}"]
        if not path.startswith("status."):
            return []
        version = _version_of(found.get("status"))
        if version is not None:
            return [f"{shown}: {_NOT_SEEN}"] if version < found["metadata"].get("generation", 0) else []
        self._unsure.append(f"{shown}: {path} is {value}")
        self._changed += _changes_of(found)
        return [words for each in self._owned(found) for words in self._not_rolled_out(each)]

    def _owned(self, found: Json) -> list[Json]:
        """DaemonSets that an operator has made for an object."""
        uid = found["metadata"].get("uid")
        every = self.kube.list("/apis/apps/v1/daemonsets", "list DaemonSets")
        return [
            {**each, "kind": "DaemonSet"}
            for each in every
            if any(owner.get("uid") == uid for owner in each["metadata"].get("ownerReferences") or ())
        ]

    def _not_rolled_out(self, found: Json, nodes: t.Optional[int] = None) -> list[str]:
        reasons = _rolled_out(found, nodes)
        return [f"{describe(found)}: {', '.join(reasons)}", *_pod_troubles(self.kube, found)] if reasons else []


def _pod_troubles(kube: Kube, workload: Json) -> list[str]:
    labels = ((workload.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    path = f"/api/v1/namespaces/{workload['metadata']['namespace']}/pods"
    try:
        pods = kube.list(path, "list Pods", labelSelector=selector)
    except KubeError as exc:
        return [f"nothing more is known: {exc}"]
    return [trouble for trouble in map(pod_trouble, pods) if trouble][:3]


def wait_for_objects(
    kube: Kube,
    waits: t.Sequence[t.Mapping[str, t.Any]],
    patience: Patience,
    between: t.Callable[[], None] = lambda: None,
) -> tuple[list[str], float]:
    """(what is still not right, seconds waited)."""
    return wait_until_right(lambda: _Look(kube).lacking(waits), patience, between)

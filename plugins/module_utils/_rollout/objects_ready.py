# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether objects are rolled out, or have a value, and what is in the way. Private."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    describe,
    pod_trouble,
    value_at,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["wait_for_objects"]

Json = t.Dict[str, t.Any]


def _rolled_out(item: t.Mapping[str, t.Any]) -> list[str]:
    """What a Deployment, DaemonSet or StatefulSet lacks, as kubectl rollout status judges it."""
    status, spec = item.get("status") or {}, item.get("spec") or {}
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return ["its controller has not seen the new version yet"]
    if item["kind"] == "DaemonSet":
        wanted, fields = status.get("desiredNumberScheduled", 0), ("updatedNumberScheduled", "numberAvailable")
    else:
        wanted, fields = spec.get("replicas", 1), ("updatedReplicas", "availableReplicas")
    words = ("have the new version", "are ready")
    return [
        f"{status.get(field, 0)} of {wanted} Pods {word}"
        for field, word in zip(fields, words)
        if status.get(field, 0) != wanted
    ]


def _lacking(kube: Kube, wait: t.Mapping[str, t.Any]) -> list[str]:
    """What is not yet as it should be of one object, in words."""
    metadata = {"name": wait["name"], **({"namespace": wait["namespace"]} if wait.get("namespace") else {})}
    item: Json = {"apiVersion": wait["apiVersion"], "kind": wait["kind"], "metadata": metadata}
    shown = describe(item)
    if item["kind"] not in kube.kinds(item["apiVersion"]):
        # served a moment after its definition
        kube.forget_kinds()
        return [f"{shown}: the cluster does not serve {item['kind']} of {item['apiVersion']}"]
    found = kube.find(kube.path(item), "read " + shown)
    if found is None:
        return [f"{shown} does not exist"]
    found.update(apiVersion=item["apiVersion"], kind=item["kind"])
    if wait.get("path"):
        value = value_at(found, str(wait["path"]))
        return (
            [] if str(value) == str(wait.get("value")) else [f"{shown}: {wait['path']} is {value}, not {wait['value']}"]
        )
    reasons = _rolled_out(found)
    return [f"{shown}: {', '.join(reasons)}", *_pod_troubles(kube, found)] if reasons else []


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
    return wait_until_right(lambda: [words for wait in waits for words in _lacking(kube, wait)], patience, between)

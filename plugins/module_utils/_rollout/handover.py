# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What steps of a handover between the device plugin and DRANET wait for, and the waiting. Private."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRANET_DRIVER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import quantity, requested
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["CONDITIONS", "Condition", "Seen", "unmet", "wait_for_conditions"]

Json = t.Dict[str, t.Any]


class Condition(t.TypedDict, total=False):
    """What is waited for; unmet() says what is missing.

    what: no_pods (of the DaemonSet), rolled_out (the DaemonSet, on exactly the nodes), not_allocatable and not_requested and
    allocatable (resources on nodes), nothing_published and no_slices and published (devices of DRANET by node), no_claims (allocated
    from nodes).
    """

    what: str
    nodes: list[str]
    namespace: str
    name: str
    resources: dict[str, int]
    devices: dict[str, list[str]]


class Seen(t.TypedDict):
    """The objects of the API that conditions are about."""

    nodes: list[Json]
    pods: list[Json]
    daemon_sets: list[Json]
    slices: list[Json]
    claims: list[Json]


def unmet(condition: Condition, seen: Seen) -> list[str]:
    """What a condition still waits for, in words; nothing when it holds."""
    return _UNMET[condition["what"]](condition, seen)


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _is(item: Json, condition: Condition) -> bool:
    return _name(item) == condition["name"] and item["metadata"].get("namespace") == condition["namespace"]


def _no_pods(condition: Condition, seen: Seen) -> list[str]:
    found = []
    for pod in seen["pods"]:
        owners = pod["metadata"].get("ownerReferences") or ()
        if pod["metadata"].get("namespace") == condition["namespace"] and any(
            owner["kind"] == "DaemonSet" and owner["name"] == condition["name"] for owner in owners
        ):
            found.append(f"Pod {_name(pod)} of DaemonSet {condition['name']} is still there")
    sets = [f"DaemonSet {_name(item)} is still there" for item in seen["daemon_sets"] if _is(item, condition)]
    return sets + found


def _rolled_out(condition: Condition, seen: Seen) -> list[str]:
    item = next((each for each in seen["daemon_sets"] if _is(each, condition)), None)
    if item is None:
        return [f"DaemonSet {condition['name']} is not there"]
    status, wanted = item.get("status") or {}, len(condition["nodes"])
    if status.get("observedGeneration") != item["metadata"].get("generation"):
        return [f"DaemonSet {condition['name']}: its newest version is not looked at yet"]
    return [
        f"DaemonSet {condition['name']}: {key} is {status.get(key, 0)} of {wanted}"
        for key in ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady")
        if status.get(key, 0) != wanted
    ]


def _allocatable(condition: Condition, seen: Seen) -> list[str]:
    found = []
    nodes = {_name(node): node for node in seen["nodes"]}
    for name in condition["nodes"]:
        there = ((nodes.get(name) or {}).get("status") or {}).get("allocatable") or {}
        for resource, count in condition["resources"].items():
            if quantity(there.get(resource)) != count:
                found.append(f"node {name}: allocatable {resource} is {there.get(resource, '0')}, not {count}")
    return found


def _not_requested(condition: Condition, seen: Seen) -> list[str]:
    found = []
    for pod in seen["pods"]:
        if pod["spec"].get("nodeName") not in condition["nodes"]:
            continue
        for resource in sorted(requested(pod) & set(condition["resources"])):
            found.append(
                f"Pod {pod['metadata'].get('namespace')}/{_name(pod)} on node {pod['spec']['nodeName']} has {resource}"
            )
    return found


def _slices(condition: Condition, seen: Seen) -> t.Iterator[Json]:
    for item in seen["slices"]:
        if item["spec"]["driver"] == DRANET_DRIVER and item["spec"].get("nodeName") in condition["nodes"]:
            yield item


def _no_slices(condition: Condition, seen: Seen) -> list[str]:
    return [
        f"ResourceSlice {_name(item)} of node {item['spec']['nodeName']} is still there"
        for item in _slices(condition, seen)
    ]


def _nothing_published(condition: Condition, seen: Seen) -> list[str]:
    return [
        f"ResourceSlice {_name(item)} of node {item['spec']['nodeName']} still has {len(item['spec']['devices'])} devices"
        for item in _slices(condition, seen)
        if item["spec"].get("devices")
    ]


def _published(condition: Condition, seen: Seen) -> list[str]:
    there: dict[str, set[str]] = {}
    for item in _slices(condition, seen):
        names = {device["name"] for device in item["spec"].get("devices") or ()}
        there.setdefault(item["spec"]["nodeName"], set()).update(names)
    return [
        f"node {node}: no ResourceSlice of {DRANET_DRIVER} has device {name}"
        for node, names in sorted(condition["devices"].items())
        for name in names
        if name not in there.get(node, ())
    ]


def _no_claims(condition: Condition, seen: Seen) -> list[str]:
    found = []
    for claim in seen["claims"]:
        results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        for row in results:
            # DRANET has a pool for each node, called like it (pkg/driver/dra_hooks.go, PublishResources())
            if row["driver"] == DRANET_DRIVER and row["pool"] in condition["nodes"]:
                found.append(
                    f"ResourceClaim {claim['metadata'].get('namespace')}/{_name(claim)} has {row['device']} of node {row['pool']}"
                )
    return found


_UNMET: dict[str, t.Callable[[Condition, Seen], list[str]]] = {
    "allocatable": _allocatable,
    "no_claims": _no_claims,
    "no_pods": _no_pods,
    "no_slices": _no_slices,
    "not_allocatable": _allocatable,
    "not_requested": _not_requested,
    "nothing_published": _nothing_published,
    "published": _published,
    "rolled_out": _rolled_out,
}

CONDITIONS = tuple(_UNMET)
_CLAIMS = "/apis/resource.k8s.io/v1"
_PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "slices": f"{_CLAIMS}/resourceslices",
    "claims": f"{_CLAIMS}/resourceclaims",
}
_NEEDED = {
    "allocatable": ("nodes",),
    "no_claims": ("claims",),
    "no_pods": ("pods", "daemon_sets"),
    "no_slices": ("slices",),
    "not_allocatable": ("nodes",),
    "not_requested": ("pods",),
    "nothing_published": ("slices",),
    "published": ("slices",),
    "rolled_out": ("daemon_sets",),
}


def _look(kube: Kube, conditions: t.Sequence[Condition]) -> list[str]:
    needed = {part for each in conditions for part in _NEEDED[each["what"]]}
    found = {
        part: kube.list(path, "list " + part.replace("_", " ")) if part in needed else []
        for part, path in _PATHS.items()
    }
    return [words for each in conditions for words in unmet(each, t.cast(Seen, found))]


def wait_for_conditions(
    kube: Kube,
    conditions: t.Sequence[Condition],
    patience: Patience,
    between: t.Callable[[], None] = lambda: None,
) -> tuple[list[str], float]:
    """(what is still waited for, seconds waited)."""
    return wait_until_right(lambda: _look(kube, conditions), patience, between)

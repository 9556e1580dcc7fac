# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of classes from the device plugin to DRANET, and back, as steps. Private. Pure.

At no moment do both offer a function, nor does one offer what a Pod has from the other. So each step is taken only once the conditions
of all before it hold, and a run that ends between two steps leaves a class that nobody offers, never one that both do. Steps are the
same for every run: one that is done changes nothing, and its conditions hold.

What the steps lean on: a device plugin that is gone leaves allocatable 0, and the kubelet starts no Pod that asks for it
(pkg/kubelet/cm/devicemanager); Pods keep what they have. A DRA driver that is gone cannot take back what Pods have, which then end
never, so that it first publishes nothing and stays until they have ended; the kubelet deletes the ResourceSlices of a driver that is
gone (pkg/kubelet/cm/dra/plugin).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, RequestError
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra import Moved
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import without_devices
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DRIVER

__all__ = ["Seen", "handover", "unmet"]


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


Labels = dict[str, dict[str, t.Optional[str]]]


class Step(t.TypedDict):
    """Delete, then label nodes, then apply, then wait until all conditions hold.

    Objects to delete need kind, apiVersion, name and namespace only. labels: {node: {label: value, None to take it off}}.
    """

    class_name: str
    why: str
    delete: list[Json]
    labels: Labels
    apply: list[Json]
    wait: list[Condition]


class Seen(t.TypedDict):
    """The objects of the API that conditions are about."""

    nodes: list[Json]
    pods: list[Json]
    daemon_sets: list[Json]
    slices: list[Json]
    claims: list[Json]


# --- the steps --------------------------------------------------------------------------------------------------------


def _of(what: str, each: Moved, **more: t.Any) -> Condition:
    return t.cast(Condition, {"what": what, "nodes": each["nodes"], **more})


def _place(item: Json) -> dict[str, str]:
    return {"namespace": item["metadata"]["namespace"], "name": item["metadata"]["name"]}


def _daemon_sets(objects: t.Iterable[Json]) -> list[Json]:
    return [item for item in objects if item["kind"] == "DaemonSet"]


def _labels(each: Moved, value: t.Optional[str]) -> Labels:
    return {node: {DRA_LABEL: value} for node in each["nodes"]}


def _step(
    each: Moved, why: str, wait: list[Condition], labels: t.Optional[Labels] = None, **objects: list[Json]
) -> Step:
    return {
        "class_name": each["name"],
        "why": why,
        "delete": objects.get("delete", []),
        "labels": labels or {},
        "apply": objects.get("apply", []),
        "wait": wait,
    }


def _to_dra(each: Moved, plugin: t.Sequence[Json]) -> list[Step]:
    gone = [_of("no_pods", each, **_place(item)) for item in _daemon_sets(plugin)]
    resources = dict.fromkeys(each["resources"], 0)
    return [
        _step(
            each,
            "take the device plugin away: nobody gets the resource any more, Pods keep what they have",
            [*gone, _of("not_allocatable", each, resources=resources)],
            # the DaemonSet before what its Pods mount
            delete=_daemon_sets(plugin) + [item for item in plugin if item["kind"] != "DaemonSet"],
        ),
        _step(
            each,
            "wait for the Pods that have it: they end when their owners end them",
            [_of("not_allocatable", each, resources=resources), _of("not_requested", each, resources=resources)],
        ),
        _step(
            each,
            "let DRANET publish the devices",
            [
                _of("rolled_out", each, **_place(each["daemon_set"])),
                _of("published", each, devices=each["devices"]),
            ],
            labels=_labels(each, each["name"]),
            apply=[*each["device_classes"], *each["templates"], each["daemon_set"]],
        ),
    ]


def _to_plugin(each: Moved, plugin: t.Sequence[Json]) -> list[Step]:
    return [
        _step(
            each,
            "let DRANET publish nothing more: nobody gets a device any more, Pods keep what they have",
            [_of("rolled_out", each, **_place(each["daemon_set"])), _of("nothing_published", each)],
            # also where an earlier run has ended in the middle, and there may be claims
            labels=_labels(each, each["name"]),
            apply=[without_devices(each["daemon_set"])],
        ),
        _step(
            each,
            "wait for the Pods that have one: they end when their owners end them, and DRANET takes the devices back",
            [_of("nothing_published", each), _of("no_claims", each)],
        ),
        _step(
            each,
            "take DRANET away",
            [_of("no_pods", each, **_place(each["daemon_set"])), _of("no_slices", each), _of("no_claims", each)],
            delete=[each["daemon_set"], *each["templates"], *each["device_classes"]],
            labels=_labels(each, None),
        ),
        _step(
            each,
            "let the device plugin offer the resource",
            [
                *(_of("rolled_out", each, **_place(item)) for item in _daemon_sets(plugin)),
                _of("allocatable", each, resources=each["resources"]),
            ],
            apply=[item for item in plugin if item["kind"] != "DaemonSet"] + _daemon_sets(plugin),
        ),
    ]


def handover(
    before: str, after: str, classes: t.Sequence[Moved], plugin: t.Mapping[str, t.Sequence[Json]]
) -> list[Step]:
    """Steps from one engine to the other, one class after the other. before, after: daemonset or dra.

    plugin: what the device plugin has of each class (ConfigMap and DaemonSet), by class. What DRANET needs for the whole cluster
    (namespace, account, permissions) is there before the first step. RequestError for a way that there is not.
    """
    if {before, after} != {"daemonset", "dra"}:
        raise RequestError(
            f"there is no way from engine {before} to {after}, one class at a time",
            "Take engine: daemonset between the two: a policy of the Network Operator is the operator's to roll out",
        )
    lost = sorted({each["name"] for each in classes} - set(plugin))
    if lost:
        raise RequestError(
            f"the device plugin has no objects of class {', '.join(lost)}", "Plan all groups in this run"
        )
    way = _to_dra if after == "dra" else _to_plugin
    return [step for each in classes for step in way(each, plugin[each["name"]])]


# --- the conditions ---------------------------------------------------------------------------------------------------


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
            if str(there.get(resource, "0")) != str(count):
                found.append(f"node {name}: allocatable {resource} is {there.get(resource, '0')}, not {count}")
    return found


def _containers(pod: Json) -> t.Iterator[Json]:
    yield from pod["spec"].get("containers") or ()
    yield from pod["spec"].get("initContainers") or ()


def _not_requested(condition: Condition, seen: Seen) -> list[str]:
    found = []
    for pod in seen["pods"]:
        if pod["spec"].get("nodeName") not in condition["nodes"]:
            continue
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        asked: set[str] = set()
        for container in _containers(pod):
            own = container.get("resources") or {}
            asked |= {*(own.get("limits") or {}), *(own.get("requests") or {})}
        for resource in sorted(asked & set(condition["resources"])):
            found.append(
                f"Pod {pod['metadata'].get('namespace')}/{_name(pod)} on node {pod['spec']['nodeName']} has {resource}"
            )
    return found


def _slices(condition: Condition, seen: Seen) -> t.Iterator[Json]:
    for item in seen["slices"]:
        if item["spec"]["driver"] == DRIVER and item["spec"].get("nodeName") in condition["nodes"]:
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
        f"node {node}: no ResourceSlice of {DRIVER} has device {name}"
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
            if row["driver"] == DRIVER and row["pool"] in condition["nodes"]:
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

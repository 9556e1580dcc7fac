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

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.handover import Condition
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    APP_NAME,
    CLASS_LABEL,
    DRA_LABEL,
    DRANET_NAME,
    INVENTORY_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import stranger
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import NOTHING
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, RequestError, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra import Moved, handover_classes
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import class_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import without_devices

__all__ = ["handover", "handover_plan"]


Labels = dict[str, dict[str, t.Optional[str]]]


class Step(t.TypedDict):
    """Delete, then label nodes, then apply, then wait until all conditions hold.

    Objects to delete need kind, apiVersion, name, namespace and the uid that was seen. labels: {node: {label: value, None to take it off}}.
    """

    class_name: str
    why: str
    delete: list[Json]
    labels: Labels
    apply: list[Json]
    wait: list[Condition]


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


# --- what is done to a cluster ------------------------------------------------------------------------------------------


class Action(t.TypedDict):
    """A step as modules take it: delete, then bring the system dra to this, then label nodes and apply, then wait.

    system: {objects, labels} of all classes that DRANET serves then, None where nothing of it changes. labels: of nodes of the device
    plugin.
    """

    class_name: str
    why: str
    delete: list[Json]
    system: t.Optional[Json]
    labels: dict[str, dict[str, str]]
    apply: list[Json]
    wait: list[Condition]


def _identity(item: Json) -> tuple[str, t.Any, str]:
    return item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]


def _actions(
    steps: t.Sequence[Step], classes: t.Sequence[Moved], common: t.Sequence[Json], there: dict[str, Json]
) -> list[Action]:
    """common: what DRANET needs for the whole cluster. there: its DaemonSets by class, as they are before the first step."""
    by_name = {each["name"]: each for each in classes}
    found: list[Action] = []
    for step in steps:
        own = by_name[step["class_name"]]
        name = _identity(own["daemon_set"])
        dra = {_identity(item) for item in (own["daemon_set"], *own["device_classes"], *own["templates"])}
        for item in step["apply"]:
            if _identity(item) == name:
                there = {**there, own["name"]: item}
        if name in map(_identity, step["delete"]):
            there = {slug: item for slug, item in there.items() if slug != own["name"]}
        changes = [item for item in (*step["apply"], *step["delete"]) if _identity(item) in dra]
        served = [each for each in classes if each["name"] in there]
        objects = [item for each in served for item in (*each["device_classes"], *each["templates"])]
        objects += [there[each["name"]] for each in served]
        labels = {node: {DRA_LABEL: each["name"]} for each in served for node in each["nodes"]}
        found.append(
            {
                "class_name": step["class_name"],
                "why": step["why"],
                "delete": [item for item in step["delete"] if _identity(item) not in dra],
                "system": {"objects": [*common, *objects] if served else [], "labels": labels} if changes else None,
                "labels": {},
                "apply": [item for item in step["apply"] if _identity(item) not in dra],
                "wait": step["wait"],
            }
        )
    return found


def _standing(drivers: t.Sequence[Json], name: str) -> dict[str, Json]:
    """DaemonSets in the cluster by class. name: of the plugin or of DRANET."""
    return {class_of(item): item for item in _daemon_sets(drivers) if _is_of(item, name)}


def _is_of(item: Json, name: str) -> bool:
    return (item["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == name


def _silent(item: Json) -> bool:
    """Whether a DaemonSet of DRANET publishes nothing: an earlier run has ended in the middle."""
    containers = item["spec"]["template"]["spec"]["containers"]
    return any(f"--filter={NOTHING}" in (each.get("args") or ()) for each in containers)


def _strangers(drivers: t.Sequence[Json], inventory: str) -> list[str]:
    """What has our labels and a class that moves, and is not this inventory's: labels alone are copied easily."""
    found = set()
    for item in drivers:
        words = stranger(item, inventory)
        if words is not None:
            other = item["metadata"]["labels"].get(INVENTORY_LABEL, inventory) != inventory
            what = (
                "hand its class over from there"
                if other
                else "roll out with rdma_rollout.adopt: true first, or delete it"
            )
            found.add(
                f"{item['kind']} {item['metadata'].get('namespace')}/{item['metadata']['name']} is {words}: {what}"
            )
    return sorted(found)


def _left_out(standing: t.Mapping[str, Json], slugs: t.Collection[str], inventory: str) -> list[str]:
    left = sorted(
        slug
        for slug, item in standing.items()
        if slug not in slugs and item["metadata"]["labels"].get(INVENTORY_LABEL) == inventory
    )
    if not left:
        return []
    return [
        f"DRANET also serves {', '.join(left)}, which rdma_rollout.classes leaves out, and what is left out would go: name all classes"
    ]


def _by_class(plugin: t.Iterable[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in plugin:
        found.setdefault(class_of(item), []).append(item)
    return found


def _finished(
    action: Action, ours: t.Collection[t.Any], spaces: t.Sequence[Json], nodes: t.Mapping[str, Json], each: Moved
) -> Action:
    """Nothing is deleted that is not known as ours: a DaemonSet of somebody else with that name is waited for, and named. The namespace
    may have gone with DRANET's needs, and nodes that the device plugin has never served are labelled for it."""
    found: Action = {**action, "delete": [item for item in action["delete"] if _identity(item) in ours]}
    if not action["apply"]:
        return found
    labels = {
        node: {CLASS_LABEL: each["name"]}
        for node in each["nodes"]
        if ((nodes.get(node) or {}).get("labels") or {}).get(CLASS_LABEL) != each["name"]
    }
    return {**found, "labels": labels, "apply": [*spaces, *action["apply"]]}


def _only_waits(action: Action) -> Action:
    return {**action, "delete": [], "system": None, "labels": {}, "apply": []}


def _with_what_is_there(wanted: t.Mapping[str, t.Sequence[Json]], old: t.Sequence[Json]) -> dict[str, list[Json]]:
    """The objects of each class as they are there, also what an earlier version, or another namespace, has left of it."""
    seen, left = {_identity(item): item for item in old}, _by_class(old)
    found = {}
    for slug, items in wanted.items():
        all_of_it = {_identity(item): item for item in (*items, *left.get(slug, ()))}
        found[slug] = [seen.get(identity, item) for identity, item in all_of_it.items()]
    return found


def handover_plan(
    after: str,
    rollout: t.Mapping[str, t.Any],
    site: Site,
    plugin: t.Sequence[Json],
    there: t.Sequence[Json],
    served: t.Optional[t.Mapping[str, t.Sequence[str]]] = None,
    groups: t.Optional[t.Collection[str]] = None,
    *,
    nodes: t.Optional[t.Mapping[str, Json]] = None,
) -> tuple[list[Action], list[str]]:
    """(what is done, in this order; what is wrong: then nothing is done).

    after: daemonset or dra. rollout: rdma_rollout, whose classes say what is handed over. plugin: objects of the device plugin for all
    classes. there: DaemonSets of both and ConfigMaps of the plugin that the cluster has. groups: of which alone classes are handed over,
    None for all. nodes: with their labels, as cluster_state has them.
    """
    classes, common, problems = handover_classes({**rollout, "engine": "dra"}, site, served)
    slugs = {each["name"] for each in classes}
    standing = _standing(there, DRANET_NAME)
    problems = [
        *problems,
        *_strangers([item for item in there if class_of(item) in slugs], site["inventory"]),
        *(_left_out(standing, slugs, site["inventory"]) if not problems else ()),
    ]
    unknown = sorted({*(groups or ())} - {each["group"] for each in classes})
    if unknown and not problems:
        problems.append(
            f"rdma_handover_groups names {', '.join(unknown)}, for which rdma_rollout.classes has nothing to hand over"
        )
    if problems:
        return [], problems
    drivers = {
        each["name"]: without_devices(each["daemon_set"]) if _silent(standing[each["name"]]) else each["daemon_set"]
        for each in classes
        if each["name"] in standing
    }
    back = after == "daemonset"
    old = [item for item in there if _is_of(item, APP_NAME)]
    of_plugin = _by_class(plugin) if back else _with_what_is_there(_by_class(plugin), old)
    ahead = [each for each in classes if groups is None or each["group"] in groups]
    steps = handover("dra" if back else "daemonset", after, ahead, of_plugin)
    # where the plugin is back, and DRANET gone, nothing is brought again: a run that was killed may only not have waited for it
    done = _standing(there, APP_NAME).keys() - standing.keys() if back else set()
    spaces = [item for item in plugin if item["kind"] == "Namespace"]
    ours, by_name = set(map(_identity, old)), {each["name"]: each for each in ahead}
    found = []
    for action in _actions(steps, classes, common, drivers):
        if action["class_name"] not in done:
            found.append(_finished(action, ours, spaces, nodes or {}, by_name[action["class_name"]]))
        elif action["apply"]:
            found.append(_only_waits(action))
    return found, []

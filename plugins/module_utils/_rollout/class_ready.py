# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the nodes of a class offer its resources, and what is in the way. Private."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    POLICY_VERSION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    OWN_SELECTOR,
    class_state,
    pod_selector,
    pod_trouble,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import (
    STATE_LABEL,
    node_labels_missing,
    old_pods,
    owned,
    policy_state,
    state_name,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["refusal", "wait_for_class"]

Json = t.Dict[str, t.Any]


def refusal(entry: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Why nothing can be waited for, in words; None where it can. entry: as wait_for_class takes it."""
    name = entry["name"]
    if not entry["nodes"]:
        return f"class {name} has no nodes: there is nothing that could offer its resource"
    # what is counted node by node, as functions of SR-IOV are, is in node_resources alone
    if not entry["resources"] and not any(entry["node_resources"].values()):
        return f"class {name} has no resources: there is nothing that its nodes could offer"
    asked = [("resources", entry["resources"])]
    asked += [(f"node_resources of {node}", counts) for node, counts in entry["node_resources"].items()]
    for where, counts in asked:
        if not isinstance(counts, dict):
            return f"class {name}, {where}: {counts!r} must be a dictionary of resources and how many of them a node offers"
        for resource, count in counts.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                return f"class {name}, {where}: {resource} is {count!r}, which must be a whole number from 0"
    return None


def _troubles(kube: Kube, entry: t.Mapping[str, t.Any], daemon_set: t.Optional[Json]) -> list[str]:
    """What the scheduler, the kubelets and the controller say about Pods that are not ready, as far as it may be read."""
    words: list[str] = []
    if entry.get("policy"):
        if daemon_set is None:
            return words
        entry = {
            **entry,
            "namespace": daemon_set["metadata"]["namespace"],
            "daemon_set": daemon_set["metadata"]["name"],
        }
        selector = pod_selector(daemon_set)
    else:
        selector = f"{OWN_SELECTOR},app.kubernetes.io/instance={entry['name']}"
    space = f"/api/v1/namespaces/{entry['namespace']}"
    try:
        pods = kube.list(space + "/pods", "list Pods", labelSelector=selector)
        words += [trouble for trouble in map(pod_trouble, pods) if trouble][:3]
        fields = f"involvedObject.kind=DaemonSet,involvedObject.name={entry['daemon_set']},type=Warning"
        events = kube.list(space + "/events", "list events", fieldSelector=fields)
        events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
        words += [f"{each.get('reason')}: {each.get('message')}" for each in events[-1:]]
    except KubeError as exc:
        words.append(f"nothing more is known: {exc}")
    return words


def _silent(reasons: t.Sequence[str], daemon_set: t.Optional[Json]) -> list[str]:
    """What to do where all Pods are ready, and nodes offer nothing. reasons: as class_state() gives them."""
    if daemon_set is None or not all("allocatable is 0, not" in reason for reason in reasons):
        return []
    place = (
        f"kubectl -n {daemon_set['metadata']['namespace']} rollout restart daemonset {daemon_set['metadata']['name']}"
    )
    return [
        "its Pods are ready all the same: their logs say whether they see a device. A plugin that sees one offers nothing where another of "
        f"this resource has ended after it had started, and taken their socket away: {place}"
    ]


def _made_by_operator(
    kube: Kube, policy: t.Mapping[str, t.Any], nodes: t.Mapping[str, Json], names: t.Sequence[str]
) -> tuple[list[str], t.Optional[Json]]:
    """(what the operator has not done yet, the DaemonSet that it made for a policy)."""
    shown, section = f"{policy['kind']} {policy['name']}", policy["section"]
    item = {"apiVersion": POLICY_VERSION, "kind": policy["kind"], "metadata": {"name": policy["name"]}}
    found = kube.find(kube.path(item), "read " + shown)
    selector = f"{STATE_LABEL}={state_name(section)}"
    daemon_sets = kube.list("/apis/apps/v1/daemonsets", "list DaemonSets", labelSelector=selector)
    daemon_set = owned(daemon_sets, found) if found else None
    config_map = None
    if daemon_set is not None:
        space = daemon_set["metadata"]["namespace"]
        volumes = daemon_set["spec"]["template"]["spec"].get("volumes") or []
        mounted = next((each["configMap"]["name"] for each in volumes if each.get("configMap")), None)
        if mounted:
            path = f"/api/v1/namespaces/{space}/configmaps/{mounted}"
            config_map = kube.find(path, f"read ConfigMap {space}/{mounted}")
    reasons = policy_state(found, section, config_map, shown) + node_labels_missing(nodes, names)
    if daemon_set is not None and config_map is not None:
        path = f"/api/v1/namespaces/{daemon_set['metadata']['namespace']}/pods"
        pods = kube.list(path, "list Pods", labelSelector=pod_selector(daemon_set))
        restart = old_pods(daemon_set, config_map, pods)
        reasons += [restart] if restart else []
    return reasons, daemon_set


def wait_for_class(
    kube: Kube,
    entry: t.Mapping[str, t.Any],
    patience: Patience,
    between: t.Callable[[], None] = lambda: None,
) -> tuple[list[str], float]:
    """(what is still not right, seconds waited)."""
    daemon_set: t.Optional[Json] = None

    def look() -> list[str]:
        nonlocal daemon_set
        selector = f"{CLASS_LABEL}={entry['name']}"
        items = kube.list("/api/v1/nodes", "list nodes", labelSelector=selector)
        nodes = {item["metadata"]["name"]: item for item in items}
        if entry.get("policy"):
            reasons, daemon_set = _made_by_operator(kube, entry["policy"], nodes, entry["nodes"])
        else:
            path = f"/apis/apps/v1/namespaces/{entry['namespace']}/daemonsets/{entry['daemon_set']}"
            reasons, daemon_set = [], kube.find(path, f"read DaemonSet {entry['daemon_set']}")
        return reasons + class_state(daemon_set, nodes, entry)

    reasons, waited = wait_until_right(look, patience, between)
    return (reasons + (_troubles(kube, entry, daemon_set) or _silent(reasons, daemon_set)) if reasons else []), waited

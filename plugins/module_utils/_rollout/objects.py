# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout changes in a cluster, when it is done, and what the API server's refusals mean. Private. Pure.

Objects are those of the Kubernetes API as dictionaries. What is ours has the label app.kubernetes.io/managed-by, the name of our
inventory, and was applied by our field manager: labels can be copied, the field manager cannot be seen by people, and another
inventory's rollout has the same one.
"""

from __future__ import annotations

import functools
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    APP_NAME,
    CLASS_LABEL,
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
    POD_SECURITY,
)

__all__ = [
    "FIELD_MANAGER",
    "OWN_SELECTOR",
    "applied_by_us",
    "changed_by",
    "class_groups",
    "class_state",
    "comparable",
    "describe",
    "explain",
    "has_ended",
    "instance_of",
    "inventory_of",
    "label_changes",
    "lost_labels",
    "other_managers",
    "pod_security_labels",
    "pod_selector",
    "pod_trouble",
    "quantity",
    "removals",
    "requested",
    "same",
    "some",
    "stale_on_node",
    "stranger",
    "strays_in_words",
    "value_at",
]

FIELD_MANAGER = "fabric.rdma"
# Also names what is ours to look for it: a rollout looks at nothing else of a cluster's DaemonSets and ConfigMaps.
OWN_SELECTOR = f"app.kubernetes.io/managed-by={MANAGED_BY},app.kubernetes.io/name={APP_NAME}"

# At most so many nodes are named in a sentence.
_NAMED = 5
# Fields of metadata that the API server writes by itself.
_SERVER_FIELDS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")

Json = t.Dict[str, t.Any]


# --- objects ---------------------------------------------------------------------------------------------------------


def describe(item: t.Mapping[str, t.Any]) -> str:
    """How messages name an object: DaemonSet kube-system/rdma-shared-dp-ib-a100."""
    metadata = item["metadata"]
    place = metadata["namespace"] + "/" if metadata.get("namespace") else ""
    return f"{item.get('kind', 'object')} {place}{metadata['name']}"


def applied_by_us(item: t.Mapping[str, t.Any]) -> bool:
    """Whether our field manager has applied the object (metadata.managedFields)."""
    return any(
        entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        for entry in item["metadata"].get("managedFields") or []
    )


def _managers(item: t.Mapping[str, t.Any]) -> list[Json]:
    """Who has set what of an object, status aside, which controllers write all the time (metadata.managedFields)."""
    return [entry for entry in item["metadata"].get("managedFields") or [] if not entry.get("subresource")]


def other_managers(item: t.Mapping[str, t.Any]) -> set[str]:
    """Who else has set something of an object, status aside."""
    return {str(entry.get("manager")) for entry in _managers(item)} - {FIELD_MANAGER}


def pod_security_labels(namespace: t.Mapping[str, t.Any]) -> list[str]:
    """Labels of Pod Security that our field manager has applied to a namespace."""
    found = []
    for entry in _managers(namespace):
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
            found += [key[2:] for key in labels if key.startswith("f:" + POD_SECURITY)]
    return sorted(found)


def instance_of(item: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The class that an object is made for; None for one of no class."""
    return t.cast("t.Optional[str]", (item["metadata"].get("labels") or {}).get("app.kubernetes.io/instance"))


def inventory_of(item: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The inventory that an object says it is of, as in INVENTORY_LABEL. Others have sections of a NicClusterPolicy, which has none of our labels."""
    told = item["metadata"].get("annotations" if item.get("kind") == "NicClusterPolicy" else "labels") or {}
    return t.cast("t.Optional[str]", told.get(INVENTORY_LABEL))


def pod_selector(daemon_set: t.Mapping[str, t.Any]) -> str:
    """The label selector of the Pods of a DaemonSet."""
    labels = daemon_set["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def stranger(item: t.Mapping[str, t.Any], inventory: str) -> t.Optional[str]:
    """Whose an object is in place of ours, in words; None when it is ours. inventory: as in INVENTORY_LABEL."""
    if not applied_by_us(item):
        names = sorted({str(entry.get("manager")) for entry in _managers(item)})
        return f"made by {', '.join(names) or 'somebody else'}"
    labels = item["metadata"].get("labels") or {}
    if item.get("kind") != "NicClusterPolicy" and labels.get("app.kubernetes.io/managed-by") != MANAGED_BY:
        return "without our label app.kubernetes.io/managed-by"
    found = inventory_of(item)
    if found is None:
        return "rolled out by an earlier version, which named no inventory"
    return None if found == inventory else f"of inventory '{found}'"


def same(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> bool:
    """Whether an object is still the one that was looked at, whatever its controllers have written into its status since."""
    return (
        before["metadata"].get("uid") == after["metadata"].get("uid")
        and comparable(before) == comparable(after)
        and _managers(before) == _managers(after)
    )


def changed_by(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> str:
    """Who has changed an object since it was looked at."""
    if before["metadata"].get("uid") != after["metadata"].get("uid"):
        before = {"metadata": {}}
    known = _managers(before)
    names = {str(entry.get("manager")) for entry in _managers(after) if entry not in known}
    # what we have lost to others changes our own entry, too
    return some(names - {FIELD_MANAGER} or names) or "somebody"


def comparable(item: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[Json]:
    """An object without what the server alone writes, with JSON texts of ConfigMaps and policies unfolded: what a diff is to show."""
    if item is None:
        return None
    plain = {key: value for key, value in item.items() if key != "status"}
    metadata = {key: value for key, value in item["metadata"].items() if key not in _SERVER_FIELDS}
    # the DaemonSet controller counts here
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != "deprecated.daemonset.template.generation"
    }
    metadata.pop("annotations", None)
    plain["metadata"] = {**metadata, "annotations": annotations} if annotations else metadata
    if item.get("kind") == "ConfigMap":
        plain["data"] = {key: _unfolded(text) for key, text in (item.get("data") or {}).items()}
    if str(item.get("kind")).startswith("Nic") and isinstance(item.get("spec"), dict):
        plain["spec"] = {
            key: {**value, "config": _unfolded(value["config"])}
            if isinstance(value, dict) and "config" in value
            else value
            for key, value in item["spec"].items()
        }
    return plain


def _unfolded(text: t.Any) -> t.Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


def removals(
    existing: t.Iterable[Json],
    desired: t.Iterable[Json],
    keep: t.Iterable[str],
    inventory: str,
    adopt: bool = False,
) -> tuple[list[Json], list[str]]:
    """(objects of ours that nothing asks for any more, warnings). Objects of the groups in keep stay, and those of others.

    adopt: what an earlier version has left, which named no inventory, is ours.
    """
    wanted = {describe(item) for item in desired}
    kept = set(keep)
    gone, warnings = [], []
    for item in existing:
        labels = item["metadata"].get("labels") or {}
        if describe(item) in wanted or labels.get(GROUP_LABEL) in kept:
            continue
        if labels.get("app.kubernetes.io/managed-by") != MANAGED_BY:
            continue
        if labels.get(INVENTORY_LABEL, inventory) != inventory:
            continue
        if not applied_by_us(item):
            warnings.append(
                f"{describe(item)} has our label, but was not applied by the field manager {FIELD_MANAGER}: it is left "
                "alone; delete it if nobody needs it"
            )
        elif GROUP_LABEL not in labels:
            warnings.append(
                f"{describe(item)} has lost its label {GROUP_LABEL}: nobody knows whose it is, so it is left alone"
            )
        elif INVENTORY_LABEL not in labels and not adopt:
            warnings.append(
                f"{describe(item)} is left alone: it was {stranger(item, inventory)}. Delete it if nobody needs it, or "
                "let rdma_rollout.adopt: true take it for ours"
            )
        else:
            gone.append(item)
    # DaemonSets first: their Pods read the ConfigMaps
    return sorted(gone, key=lambda item: (item["kind"] != "DaemonSet", describe(item))), warnings


def label_changes(
    nodes: t.Mapping[str, t.Mapping[str, str]], wanted: t.Mapping[str, str], gone: t.Iterable[str]
) -> tuple[dict[str, t.Optional[str]], list[str]]:
    """({node: new value of CLASS_LABEL, None to remove it}, wanted nodes that do not exist).

    nodes: {name: labels} of all nodes. wanted: {node: class}. gone: classes that are being removed. A label of any other class
    is left alone: its group was not planned by this run, or somebody else set it.
    """
    ours = set(wanted.values()) | set(gone)
    changes: dict[str, t.Optional[str]] = {}
    for name in sorted(nodes):
        current = nodes[name].get(CLASS_LABEL)
        if name in wanted:
            if current != wanted[name]:
                changes[name] = wanted[name]
        elif current in ours:
            changes[name] = None
    return changes, sorted(name for name in wanted if name not in nodes)


def class_groups(existing: t.Iterable[Json]) -> dict[str, str]:
    """{class: group as in GROUP_LABEL} by the labels of our objects."""
    labels = [item["metadata"].get("labels") or {} for item in existing]
    return {
        each["app.kubernetes.io/instance"]: each[GROUP_LABEL]
        for each in labels
        if each.get("app.kubernetes.io/managed-by") == MANAGED_BY
        and GROUP_LABEL in each
        and "app.kubernetes.io/instance" in each
    }


def lost_labels(
    before: t.Mapping[str, t.Optional[str]],
    changes: t.Mapping[str, t.Optional[str]],
    groups: t.Mapping[str, str],
    known: t.Collection[str],
    remove: t.Collection[str],
) -> dict[str, str]:
    """{node: class} of nodes that would lose their label, and that nobody has spoken of.

    changes: label_changes(). groups: class_groups(). known: nodes of the inventory; remove: nodes and groups that are taken out on
    purpose. Whoever is not in the inventory of a run may only not be seen by it.
    """
    spoken = {*known, *remove}
    return {
        node: str(before.get(node))
        for node, value in changes.items()
        if value is None and node not in spoken and groups.get(str(before.get(node)), "") not in remove
    }


def strays_in_words(strays: t.Mapping[str, str], groups: t.Mapping[str, str]) -> str:
    """Why a run must not go on, with what to do. strays: lost_labels(). groups: class_groups()."""
    names = [f"{node} (class {strays[node]})" for node in strays]
    remove = ", ".join(sorted(strays)[:_NAMED]) + (", ..." if len(strays) > _NAMED else "")
    # somebody may have taken the label, or the annotation of a NicClusterPolicy, that tells the group
    untold = sorted({name for name in strays.values() if name not in groups})
    hosts = f" Name the hosts: nothing in the cluster tells to which group {some(untold)} belongs." if untold else ""
    return (
        f"{len(strays)} nodes have the label {CLASS_LABEL}, and are not hosts of this inventory's RDMA groups: "
        f"{some(names)}. Their resource would go. Run with the whole inventory (this one may be a copy that lacks "
        "them, or a slice of a sliced job), name the nodes of its hosts in rdma_rollout.node_names ({host: node}), "
        f"or say that they may go: rdma_rollout.remove: [{remove}] (hosts or groups).{hosts}"
    )


# --- readiness -------------------------------------------------------------------------------------------------------


def some(names: t.Iterable[str]) -> str:
    """The first few of many names."""
    return first_of(sorted(names), _NAMED)


def quantity(value: t.Any) -> int:
    """A count of an extended resource; those are whole numbers, which the API server may write as 1k (resource.Quantity)."""
    match = re.fullmatch(r"(\d{1,19})(k|M|G)?", str(value if value is not None else 0))
    if match is None:
        return 0
    return int(match.group(1)) * {None: 1, "k": 10**3, "M": 10**6, "G": 10**9}[match.group(2)]


def class_state(
    daemon_set: t.Optional[t.Mapping[str, t.Any]],
    nodes: t.Mapping[str, t.Mapping[str, t.Any]],
    expected: t.Mapping[str, t.Any],
) -> list[str]:
    """What is not yet as it should be, in words; empty when the class serves.

    nodes: the Node objects by name. expected: {nodes: [...], resources: {name: count}} (rollout_request), with a policy also policy
    and node_resources (operator_request). Whether a DaemonSet is rolled out is judged as kubectl rollout status does: status
    counts only once observedGeneration has caught up.
    """
    if daemon_set is None:
        return ["its DaemonSet does not exist"]
    status, count = daemon_set.get("status") or {}, len(expected["nodes"])
    policy = expected.get("policy")
    others = False
    if policy:
        # a policy may serve nodes of other classes, and more than is known
        others, count = policy.get("nodes") is None, policy.get("nodes") or count
    if status.get("observedGeneration", 0) < daemon_set["metadata"].get("generation", 0):
        return ["the DaemonSet controller has not seen the new version yet (does kube-controller-manager run?)"]
    reasons = []
    desired = status.get("desiredNumberScheduled", 0)
    if desired < count or (desired > count and not others):
        whole = "plan" if policy and policy["kind"] == "NicClusterPolicy" else "class"
        reasons.append(f"the DaemonSet wants to run on {desired} nodes, the {whole} has {count}")
    for field, words in (("updatedNumberScheduled", "have the new version"), ("numberAvailable", "are ready")):
        if status.get(field, 0) != desired:
            reasons.append(f"{status.get(field, 0)} of {desired} Pods {words}")
    short: dict[str, list[str]] = {}
    for name in expected["nodes"]:
        allocatable = ((nodes.get(name) or {}).get("status") or {}).get("allocatable") or {}
        for resource, wanted in ((expected.get("node_resources") or {}).get(name) or expected["resources"]).items():
            found = quantity(allocatable.get(resource))
            if found != wanted:
                short.setdefault(f"{resource}: allocatable is {found}, not {wanted}", []).append(name)
    reasons.extend(f"{what} on {some(names)}" for what, names in sorted(short.items()))
    return reasons


def pod_trouble(pod: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Why a Pod is not ready, in the words of the scheduler or the kubelet; None when it is, or has just been made."""
    status = pod.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or []}
    if (conditions.get("Ready") or {}).get("status") == "True":
        return None
    node = (pod.get("spec") or {}).get("nodeName")
    where = f"Pod {pod['metadata']['name']} on {node}" if node else f"Pod {pod['metadata']['name']}"
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return "{} is not scheduled: {}".format(
            where,
            scheduled.get("message") or scheduled.get("reason") or "no reason given",
        )
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (
            (container.get("state") or {}).get("terminated")
            or (container.get("lastState") or {}).get("terminated")
            or {}
        )
        words = [waiting.get("reason"), waiting.get("message")]
        if ended:
            words += [f"last exit code {ended.get('exitCode')}", ended.get("message")]
        if any(words) and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            return "{}: {}".format(where, ": ".join(str(word).strip() for word in words if word))
    if status.get("reason") or status.get("message"):
        return "{}: {}".format(where, ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key)))
    return f"{where} is {status.get('phase', 'Pending')}" if node else None


# --- stale resources -------------------------------------------------------------------------------------------------


def has_ended(pod: t.Mapping[str, t.Any]) -> bool:
    """Whether nothing of a Pod runs any more, nor will."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def requested(pod: t.Mapping[str, t.Any]) -> set[str]:
    """Resources that a Pod asks for, in any of its containers or for itself. A Pod that has ended asks for nothing."""
    if has_ended(pod):
        return set()
    spec = pod.get("spec") or {}
    holders = [
        *(spec.get("initContainers") or []),
        *(spec.get("containers") or []),
        *(spec.get("ephemeralContainers") or []),
    ]
    found: set[str] = set(spec.get("overhead") or {})
    for holder in [*holders, spec]:
        resources = holder.get("resources") or {}
        found |= set(resources.get("requests") or {}) | set(resources.get("limits") or {})
    return found


def stale_on_node(
    node: t.Mapping[str, t.Any], pods: t.Iterable[t.Mapping[str, t.Any]], resource: str
) -> tuple[bool, t.Optional[str]]:
    """(whether the node has the resource, why it cannot be removed; None when it can).

    What the kubelet does (pkg/kubelet/cm/devicemanager): when a plugin goes, allocatable is 0 at once, and capacity keeps its
    count for five minutes; then capacity is 0 for ever. Removing the entry before that is undone by its next report.
    """
    status = node.get("status") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    if resource not in capacity and resource not in allocatable:
        return False, None
    if quantity(allocatable.get(resource)) > 0:
        return True, f"a device plugin advertises {allocatable[resource]} of it"
    if quantity(capacity.get(resource)) > 0:
        return True, (
            f"its plugin went less than five minutes ago (capacity {capacity[resource]}, allocatable 0), and the "
            "kubelet would put it back; run again later"
        )
    users = [describe({"kind": "Pod", **pod}) for pod in pods if resource in requested(pod)]
    return True, "requested by " + some(users) if users else None


# --- refusals --------------------------------------------------------------------------------------------------------


class Refusal(t.NamedTuple):
    """Why the API server refused, and what to do about it."""

    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.cause.rstrip('.')}. {self.remedy}"


_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)?'
)


def _forbidden(message: str) -> Refusal:
    match = _FORBIDDEN.search(message)
    if match:
        where = f" in namespace {match.group('namespace')}" if match.group("namespace") else ""
        group = ' of API group "{}"'.format(match.group("group")) if match.group("group") else ""
        return Refusal(
            f"user {match.group('user')} may not {match.group('verb')} {match.group('resource')}{group}{where}",
            "Give it that right, or use a kubeconfig that has it; the README of the role device_plugin has a ClusterRole with "
            "all that a rollout needs, that of network_operator what its policies need.",
        )
    if "exceeded quota" in message:
        return Refusal(
            message[message.index("exceeded quota") :],
            "Raise the ResourceQuota of the namespace, or set rdma_rollout.namespace to one without it.",
        )
    if "violates PodSecurity" in message:
        return Refusal(message, "Let the namespace have privileged Pods: rdma_rollout.pod_security: true.")
    return Refusal(message, "An admission policy or webhook of the cluster refused it: its words are above.")


def explain(code: int, body: t.Any, doing: str) -> str:
    """A sentence on a refused request, with what to do.

    code: the HTTP status. body: the Status object of the answer, or its text. doing: what was asked, such as "apply ConfigMap a/b".
    Texts of the API server are those of Kubernetes 1.31 to 1.36; what is not known is quoted.
    """
    status = body if isinstance(body, t.Mapping) else {}
    message = str(status.get("message") or body or "no reason given").strip()
    details = status.get("details") or {}
    causes = [each for each in details.get("causes") or [] if isinstance(each, t.Mapping)]
    if code == 401:
        refusal = Refusal(
            "the API server does not accept the credentials of the kubeconfig",
            "They may have expired: log in again, or use another kubeconfig.",
        )
    elif code == 403:
        refusal = _forbidden(message)
    elif code == 409 and any(each.get("reason") == "FieldManagerConflict" for each in causes):
        fields = "; ".join(
            "{} ({})".format(
                each.get("field", "?"), str(each.get("message", "")).replace("conflict with ", "set by ").strip()
            )
            for each in causes
            if each.get("reason") == "FieldManagerConflict"
        )
        refusal = Refusal(
            f"others have set the same fields to other values: {fields}",
            "Let the other one give them up, or take them over with rdma_rollout.force: true.",
        )
    elif code == 409:
        refusal = Refusal(message, "Somebody changed it at the same time: run again.")
    elif "unknown field" in message or "field not declared in schema" in message:
        # the first are the words of strict decoding, the second those of server-side apply
        found = re.findall(r'unknown field "([^"]+)"', message) + re.findall(r"\.(\S+): field not declared", message)
        fields = ", ".join(dict.fromkeys(found)) or message
        refusal = Refusal(
            f"this cluster does not know a field: {fields}",
            "It may be misspelt, or belong to another version of Kubernetes or of the CRD.",
        )
    elif code == 422:
        refusal = _invalid(message, causes)
    elif code == 404:
        refusal = Refusal(message, "Nothing of that name is there.")
    elif code in (429, 500, 502, 503, 504):
        refusal = Refusal(
            f"the API server could not do it ({code}): {message}",
            "Look at its health, then run again: what has been applied is not done twice.",
        )
    else:
        refusal = Refusal(
            f"{message} ({code})", "Nothing is known about this refusal: the API server's words are above."
        )
    return f"cannot {doing}: {refusal}"


def _invalid(message: str, causes: t.Sequence[t.Mapping[str, t.Any]]) -> Refusal:
    if "field is immutable" in message:
        fields = ", ".join(sorted({str(each.get("field")) for each in causes})) or "a field"
        return Refusal(
            f"{fields} of the object that is there differs, and cannot be changed",
            "Delete that object (its Pods go for a moment, running workloads keep their devices), then run again.",
        )
    limit = re.search(r"may not be (?:more|longer) than (\d+)", message)
    # what a name may have at most
    if limit and int(limit[1]) > 253:
        return Refusal(
            message,
            "The object has more data than the API server keeps: bring it to fewer nodes, or a group at a time.",
        )
    if re.search(r"must be no more than \d+ (?:characters|bytes)|may not be (?:more than|longer than)", message):
        return Refusal(message, "A name is too long: give the group or the namespace a shorter one.")
    return Refusal(message, "Correct the value in rdma_rollout or in the variables of the role device_plugin.")


def value_at(item: t.Any, path: str) -> t.Any:
    """What is at a place such as status.state; None where there is none."""
    return functools.reduce(lambda it, key: it.get(key) if isinstance(it, t.Mapping) else None, path.split("."), item)

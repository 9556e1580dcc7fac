# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies of the NVIDIA Network Operator in a cluster: whose they are, what stands in the way of others, when they serve. Private. Pure.

A NicNodePolicy of ours is ours as a whole. There is one NicClusterPolicy in a cluster, and others have sections of it, too: ours are
the fields that our field manager has applied. A section stands in the cluster policy or in node policies, not in both
(pkg/policyoverlap of the operator).
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    CLUSTER_POLICY,
    GROUPS_ANNOTATION,
    POLICY_VERSION,
    RDMA_SECTION,
    SRIOV_SECTION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    FIELD_MANAGER,
    applied_by_us,
    describe,
    some,
)

__all__ = [
    "NIC_LABEL",
    "PLUGIN_SECTIONS",
    "POLICY_KINDS",
    "STATE_LABEL",
    "WAIT_LABEL",
    "PolicyConflict",
    "Retreat",
    "cluster_classes",
    "field_owners",
    "goes_first",
    "in_its_way",
    "named_cluster_policy",
    "node_labels_missing",
    "old_pods",
    "owned",
    "policy_state",
    "retreat",
    "served_groups",
    "side_effects",
    "state_name",
    "webhook_will_agree",
]

Json = t.Dict[str, t.Any]

POLICY_KINDS = ("NicClusterPolicy", "NicNodePolicy")
PLUGIN_SECTIONS = (RDMA_SECTION, SRIOV_SECTION)
_SECTIONS = ("ofedDriver", *PLUGIN_SECTIONS)
# Fields of a NicClusterPolicy that reach the components of everybody.
_SHARED_FIELDS = ("nodeAffinity", "tolerations")
# The operator's names for its parts (pkg/state, status.appliedStates and status.conditions), and the label of what they make.
_STATES = {
    RDMA_SECTION: ("state-RDMA-device-plugin", "RDMASharedDevicePluginReady"),
    SRIOV_SECTION: ("state-SRIOV-device-plugin", "SRIOVDevicePluginReady"),
}
STATE_LABEL = "nvidia.network-operator.state"
# DaemonSets of device plugins select both (manifests/state-*).
NIC_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
WAIT_LABEL = "network.nvidia.com/operator.mofed.wait"
# Since 26.1 on the Pods, so that a changed configuration replaces them.
_HASH_ANNOTATION = "nvidia.network-operator.config-hash"


class PolicyConflict(FabricError):
    """Policies that cannot be beside each other."""


def named_cluster_policy() -> Json:
    """The NicClusterPolicy with nothing in it: what server-side apply is given to give up all that we have applied."""
    return {"apiVersion": POLICY_VERSION, "kind": "NicClusterPolicy", "metadata": {"name": CLUSTER_POLICY}}


def _spec_owners(item: t.Mapping[str, t.Any]) -> dict[str, set[str]]:
    """{field of spec: names of its field managers} (metadata.managedFields)."""
    owners: dict[str, set[str]] = {}
    for entry in item["metadata"].get("managedFields") or []:
        for field in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) if not entry.get("subresource") else ():
            if field.startswith("f:"):
                owners.setdefault(field[2:], set()).add(str(entry.get("manager")))
    return owners


def field_owners(item: t.Mapping[str, t.Any], field: str) -> set[str]:
    """Names of the field managers that have applied a field of spec; none where it is not there."""
    return _spec_owners(item).get(field, set()) if field in (item.get("spec") or {}) else set()


def cluster_classes(item: t.Optional[t.Mapping[str, t.Any]]) -> set[str]:
    """The classes that our NicClusterPolicy serves or reaches, none of another's. It reaches all nodes without rdma_rollout.node_affinity."""
    if item is None or not applied_by_us(item):
        return set()
    required = ((item.get("spec") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return set(served_groups(item)) | {
        str(value)
        for term in (required or {}).get("nodeSelectorTerms") or []
        for row in term.get("matchExpressions") or []
        if row.get("key") == CLASS_LABEL
        for value in row.get("values") or []
    }


def served_groups(item: t.Optional[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """{class: group as in GROUP_LABEL} of a NicClusterPolicy of ours."""
    text = str(((item or {}).get("metadata", {}).get("annotations") or {}).get(GROUPS_ANNOTATION) or "")
    pairs = (row.partition("=") for row in text.split(","))
    return {name: group for name, _sign, group in pairs if name and group}


def _sections(item: t.Mapping[str, t.Any]) -> set[str]:
    return {name for name in _SECTIONS if name in (item.get("spec") or {})}


# --- one policy for all, or one for each class ------------------------------------------------------------------------


class Retreat(t.NamedTuple):
    """How we leave the NicClusterPolicy: whole (delete it), fields (apply it without ours), or sections taken from others."""

    item: Json
    how: str
    sections: tuple[str, ...] = ()


def retreat(
    existing: t.Optional[Json],
    desired: t.Sequence[t.Mapping[str, t.Any]],
    keep: t.Collection[str],
    force: bool,
    ours: bool = True,
) -> list[Retreat]:
    """What of the NicClusterPolicy has to go, because nothing asks for it any more or node policies have it now.

    existing: the NicClusterPolicy of the cluster. keep: groups that stay as they are. ours: False when what our field manager has of
    it is of another inventory. PolicyConflict when it serves one of those
    too, or when a section that node policies are to have was set by somebody else (with force, it is taken out all the same).
    """
    if existing is None or any(item["kind"] == "NicClusterPolicy" for item in desired):
        return []
    found: list[Retreat] = []
    owners = _spec_owners(existing)
    own = {FIELD_MANAGER} if ours else set()
    wanted = set().union(*(_sections(item) for item in desired if item["kind"] == "NicNodePolicy"))
    foreign = {
        name: sorted(owners.get(name, set()) - own) or ["somebody"]
        for name in sorted(wanted & _sections(existing))
        if not own or owners.get(name, set()) != own
    }
    if foreign and not force:
        raise PolicyConflict(
            "{} has {}, and a section stands in the cluster policy or in node policies, not in both. Take it out there, or let this "
            "rollout take it over with rdma_rollout.force: true; policy: cluster leaves it where it is".format(
                describe(existing),
                ", ".join(f"{name} (set by {', '.join(managers)})" for name, managers in foreign.items()),
            )
        )
    if ours and applied_by_us(existing):
        left = sorted(set(served_groups(existing).values()) & set(keep))
        if left:
            if not desired:
                return []
            raise PolicyConflict(
                f"{describe(existing)} serves {some(left)}, too, which this run leaves as they are: plan all groups "
                "in the run that goes from the cluster policy to another way"
            )
        alone = set().union(*owners.values()) <= {FIELD_MANAGER} if owners else True
        found.append(Retreat(existing, "whole" if alone else "fields"))
    if foreign and not (found and found[0].how == "whole"):
        found.append(Retreat(existing, "sections", tuple(foreign)))
    return found


def in_its_way(
    desired: t.Sequence[t.Mapping[str, t.Any]],
    node_policies: t.Sequence[t.Mapping[str, t.Any]],
    gone: t.Sequence[t.Mapping[str, t.Any]],
) -> None:
    """PolicyConflict when a NicNodePolicy that stays has a section that the NicClusterPolicy is to have."""
    leaving = {describe(item) for item in gone}
    for item in desired:
        if item["kind"] != "NicClusterPolicy":
            continue
        for other in node_policies:
            both = sorted(_sections(item) & _sections(other))
            if both and describe(other) not in leaving:
                raise PolicyConflict(
                    f"{describe(other)} has {', '.join(both)}, and a section stands in the cluster policy or in node "
                    f"policies, not in both",
                    f"Remove it (kubectl delete nicnodepolicy {other['metadata']['name']}), or use policy: node",
                )


def side_effects(existing: t.Optional[t.Mapping[str, t.Any]], item: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What our NicClusterPolicy would change for components of others, None when nothing.

    nodeAffinity and tolerations are those of all components. What we have applied before, we may change.
    """
    if existing is None or item["kind"] != "NicClusterPolicy":
        return None
    before, after = existing.get("spec") or {}, item.get("spec") or {}
    owners = _spec_owners(existing)
    others = sorted(
        name
        for name in set(before) - set(after) - set(_SHARED_FIELDS) - {"global"}
        if owners.get(name, set()) != {FIELD_MANAGER}
    )
    changed = [
        field
        for field in _SHARED_FIELDS
        if after.get(field) not in (None, before.get(field)) and FIELD_MANAGER not in owners.get(field, set())
    ]
    if not others or not changed:
        return None
    return (
        f"{describe(existing)} has {', '.join(others)} of others, whose Pods {' and '.join(changed)} would move, too: "
        "there is one for all components of a NicClusterPolicy. Leave them out (rdma_rollout.node_affinity: false, "
        "tolerations: []), use policy: node where the operator has it, or engine: daemonset, or accept it with "
        "rdma_rollout.force: true"
    )


def goes_first(item: t.Mapping[str, t.Any], desired: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Whether something that is removed has to go before what comes: two plugins on a node would fight for one socket."""
    carriers = {"DaemonSet", *POLICY_KINDS}
    coming = {each["kind"] for each in desired} & carriers
    own = "DaemonSet" if item["kind"] == "ConfigMap" else item["kind"]
    return bool(coming) and own in carriers and own not in coming


def webhook_will_agree(refusal: str, first: t.Sequence[t.Any]) -> bool:
    """Whether the operator's webhook refuses only what a step before will have removed (policyoverlap.FormatSectionConflicts)."""
    return bool(first) and "already defines" in refusal and "cannot also define it" in refusal


# --- readiness --------------------------------------------------------------------------------------------------------


def state_name(section: str) -> str:
    """The value of STATE_LABEL on what the operator makes for a section."""
    return _STATES[section][0]


def owned(items: t.Iterable[Json], policy: t.Mapping[str, t.Any]) -> t.Optional[Json]:
    """The one of several objects that the operator made for a policy. Their names differ between releases, their owner does not."""
    uid = policy["metadata"].get("uid")
    for item in items:
        for reference in item["metadata"].get("ownerReferences") or []:
            if uid and reference.get("uid") == uid:
                return item
    return None


def _same_config(text: t.Any, other: t.Any) -> bool:
    try:
        return bool(json.loads(str(text)) == json.loads(str(other)))
    except (ValueError, RecursionError):
        return bool(text == other)


def policy_state(
    policy: t.Optional[t.Mapping[str, t.Any]],
    section: str,
    config_map: t.Optional[t.Mapping[str, t.Any]],
    name: str,
) -> list[str]:
    """What the operator has not done yet with a section of its policy, in words; empty when it says that it is done.

    config_map: what the Pods of its DaemonSet mount, None when there is none. Before 26.7 the status does not tell of which version of
    the policy it speaks, so what the operator made of it is looked at, too.
    """
    if policy is None:
        return [f"its {name} does not exist"]
    status = policy.get("status") or {}
    if not status.get("state"):
        return [
            f"the operator has not looked at {name} yet (does it run? kubectl get pods -A -l "
            "app.kubernetes.io/name=network-operator)"
        ]
    found = []
    if status["state"] in ("error", "ignore"):
        found.append(f"{name} is in state {status['state']}: {status.get('reason') or 'no reason given'}")
    part, condition = _STATES[section]
    rows = {row.get("name"): row for row in status.get("appliedStates") or []}
    own = rows.get(part) or {}
    if own.get("state") != "ready":
        words = ": " + own["message"] if own.get("message") else ""
        found.append(f"{name}: {part} is {own.get('state') or 'not there'}{words}")
    for row in status.get("conditions") or []:
        seen = row.get("observedGeneration")
        if row.get("type") == condition and seen is not None and seen < policy["metadata"].get("generation", 0):
            found.append(f"the operator has not seen the newest version of {name} yet")
    text = ((policy.get("spec") or {}).get(section) or {}).get("config")
    data = (config_map or {}).get("data") or {}
    if config_map is not None and not _same_config(data.get("config.json"), text):
        found.append(
            f"the operator has not put the configuration of {name} into ConfigMap {config_map['metadata']['name']} yet"
        )
    return found


def node_labels_missing(nodes: t.Mapping[str, t.Mapping[str, t.Any]], names: t.Iterable[str]) -> list[str]:
    """Which nodes lack a label that the operator's DaemonSets select, and who sets it."""
    blind, waiting, unmarked = [], [], []
    for name in names:
        labels = ((nodes.get(name) or {}).get("metadata") or {}).get("labels") or {}
        if labels.get(NIC_LABEL) != "true":
            blind.append(name)
        elif labels.get(WAIT_LABEL) is None:
            unmarked.append(name)
        elif labels[WAIT_LABEL] != "false":
            waiting.append(name)
    found = []
    if blind:
        found.append(
            f"no label {NIC_LABEL}=true on {some(blind)} (does Node Feature Discovery run there, with the rule "
            "nvidia-nics-rules of the operator's chart?)"
        )
    if unmarked:
        found.append(f"no label {WAIT_LABEL} on {some(unmarked)}, which the operator sets")
    if waiting:
        found.append(f"{WAIT_LABEL} says on {some(waiting)} that the operator's driver is not ready there")
    return found


def old_pods(
    daemon_set: t.Mapping[str, t.Any], config_map: t.Mapping[str, t.Any], pods: t.Iterable[t.Mapping[str, t.Any]]
) -> t.Optional[str]:
    """Why Pods still have an older configuration, None when they have not. A plugin reads it once, when it starts.

    The operator replaces Pods for a changed configuration since 26.1. Before, it leaves them, and somebody has to restart them.
    """
    template = daemon_set["spec"]["template"]
    if _HASH_ANNOTATION in (template["metadata"].get("annotations") or {}):
        return None
    times = [
        str(entry.get("time"))
        for entry in config_map["metadata"].get("managedFields") or []
        if "f:data" in (entry.get("fieldsV1") or {}) and entry.get("time")
    ]
    # RFC 3339 in UTC, as the API server writes them: they sort as text
    changed = max(times, default="")
    old = [
        pod["metadata"]["name"] for pod in pods if str((pod.get("status") or {}).get("startTime") or changed) < changed
    ]
    if not old:
        return None
    return (
        f"{some(old)} started before the configuration changed, and this release of the operator does not restart them: "
        f"kubectl -n {daemon_set['metadata']['namespace']} rollout restart daemonset {daemon_set['metadata']['name']}"
    )

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: why the Pods of a device plugin, or those that want its resource, are not on a node. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.node_views import tolerated
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import pod_trouble
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import NIC_LABEL, WAIT_LABEL
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, quoted, shown_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Rule

__all__ = ["RULES"]

# Init containers that wait for the operator's driver: of its own Pods, and of the GPU Operator's.
_WAITING = ("mofed", "ofed-driver-validation")
# kubelet, pkg/kubelet/cm/devicemanager/manager.go
_NOT_ALLOCATED = "which is unexpected"
# kube-scheduler, pkg/scheduler/framework/plugins/noderesources/fit.go
_SHORT = "Insufficient "
_SHORT_OF = re.compile(r"Insufficient ([a-z0-9.-]{1,200}/[A-Za-z0-9_.-]{1,63}?)(?=[.,]?(?:\s|$))")
_RESOURCE = re.compile(r"(?:unhealthy devices|unavailable for) ([a-z0-9./_-]{1,200}?)[.,]?(?:\s|$)", re.IGNORECASE)


def _tainted(case: Case) -> t.Iterator[Hit]:
    for each in filter(case.pods_are_known, case.daemon_sets("plugin")):
        tolerations = each["spec"]["template"]["spec"].get("tolerations") or []
        for node in case.nodes_for(each):
            name = node["metadata"]["name"]
            against = [
                taint
                for taint in (node.get("spec") or {}).get("taints") or []
                if taint.get("effect") in ("NoSchedule", "NoExecute")
                # the DaemonSet controller tolerates these by itself
                and not str(taint.get("key")).startswith("node.kubernetes.io/")
                and not tolerated(taint, tolerations)
            ]
            if against and not any(pod["spec"].get("nodeName") == name for pod in case.pods_of(each)):
                shown = ", ".join(
                    f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}" for taint in against
                )
                key = quoted(against[0].get("key"))
                yield Hit(
                    case.host_of(name),
                    (
                        f"node {name} has the taint {quoted(shown)}, which DaemonSet {each['metadata']['name']} does not tolerate",
                    ),
                    remedy=f"add {{key: {key}, operator: Exists}} to rdma_rollout.tolerations and roll out again, or take the taint away: "
                    f"kubectl taint nodes NODE {key}-",
                )


def _cordoned(case: Case) -> t.Iterator[Hit]:
    waiting = [
        (pod, words)
        for pod in case.workloads()
        if not pod["spec"].get("nodeName") and (words := pod_trouble(pod)) and "unschedulable" in words
    ]
    selected = {node["metadata"]["name"] for each in case.daemon_sets("plugin") for node in case.nodes_for(each)}
    for name, node in case.cluster["nodes"].items():
        labels = node["metadata"].get("labels") or {}
        if (node.get("spec") or {}).get("unschedulable") and (name in selected or CLASS_LABEL in labels):
            lines = [f"node {name} is cordoned (spec.unschedulable)", *(quoted(words) for _pod, words in waiting[:2])]
            yield Hit(case.host_of(name), tuple(lines), severity="error" if waiting else None)


def _is_waiting(pod: Json) -> bool:
    return any(
        any(word in str(each.get("name")) for word in _WAITING)
        and not each.get("ready")
        and (
            (each.get("state") or {}).get("running") is not None or (each.get("state") or {}).get("waiting") is not None
        )
        for each in (pod.get("status") or {}).get("initContainerStatuses") or []
    )


def _why_driver(case: Case, node: str) -> tuple[str, str, str]:
    """(cause, remedy, evidence): why the operator's driver is not ready on a node."""
    pods = case.pods_on(node, "ofed")
    if not pods and case.cluster.get("listed") and not case.cluster["policies"]:
        return (
            "",
            "",
            "neither a policy of the operator nor a driver Pod on the node is among the objects that were listed",
        )
    if not pods and not any("ofedDriver" in (each.get("spec") or {}) for each in case.cluster["policies"]):
        return (
            "a Pod waits for the driver of the Network Operator, and no policy of the operator has a driver (ofedDriver)",
            "where the driver is on the host, tell the GPU Operator so: driver.rdma.useHostMofed=true; else set ofed_driver in "
            "rdma_rollout",
            "no NicClusterPolicy or NicNodePolicy has the section ofedDriver",
        )
    if not pods:
        return (
            "a Pod waits for the driver of the Network Operator, whose driver Pod is not on the node",
            "kubectl get nodes -L feature.node.kubernetes.io/pci-15b3.present, and compare labels and taints with the DaemonSet mofed-*",
            f"no driver Pod on {node}",
        )
    trouble = pod_trouble(pods[0])
    where = f"kubectl -n {pods[0]['metadata'].get('namespace')} logs POD --all-containers --tail=50"
    if trouble:
        return (
            "a Pod waits for the driver of the Network Operator, whose driver Pod is not ready",
            where,
            quoted(trouble),
        )
    return (
        "a Pod waits for the driver of the Network Operator, which is ready: its label on the node is old",
        "kubectl -n nvidia-network-operator rollout restart deployment network-operator, which sets the label again",
        f"{shown_pod(pods[0])} is ready",
    )


def _mofed_wait(case: Case) -> t.Iterator[Hit]:
    nodes: dict[str, list[str]] = {}
    for pod in case.cluster["pods"]:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and _is_waiting(pod):
            nodes.setdefault(node, []).append(f"{shown_pod(pod)}: its init container waits for the driver")
    for name, node in case.cluster["nodes"].items():
        if (node["metadata"].get("labels") or {}).get(WAIT_LABEL) == "true":
            nodes.setdefault(name, []).append(f"node {name} has the label {WAIT_LABEL}=true")
    for name, lines in sorted(nodes.items()):
        cause, remedy, evidence = _why_driver(case, name)
        yield Hit(case.host_of(name), (*lines[:3], evidence), cause=cause, remedy=remedy)


def _nfd_label(case: Case) -> t.Iterator[Hit]:
    wanted = [
        each
        for each in case.daemon_sets("plugin", "ofed")
        if NIC_LABEL in (each["spec"]["template"]["spec"].get("nodeSelector") or {})
    ]
    if not wanted and not case.cluster["policies"]:
        return
    planned = {host for group in case.plan.get("groups", {}).values() for host in group.get("hosts", ())}
    for name, node in case.cluster["nodes"].items():
        labels = node["metadata"].get("labels") or {}
        host = case.host_of(name)
        if labels.get(NIC_LABEL) != "true" and (host[0] in planned or CLASS_LABEL in labels):
            who = f"DaemonSet {wanted[0]['metadata']['name']}" if wanted else "the Network Operator"
            yield Hit(host, (f"node {name} has no label {NIC_LABEL}=true, which {who} selects",))


def _not_on_node(case: Case) -> t.Iterator[Hit]:
    for each in filter(case.pods_are_known, case.daemon_sets("plugin")):
        there = {pod["spec"].get("nodeName") for pod in case.pods_of(each)}
        unscheduled = [
            words for pod in case.pods_of(each) if not pod["spec"].get("nodeName") and (words := pod_trouble(pod))
        ]
        for node in case.nodes_for(each):
            name = node["metadata"]["name"]
            if name not in there:
                lines = [f"DaemonSet {each['metadata']['name']} selects node {name}, and has no Pod there"]
                yield Hit(case.host_of(name), tuple(lines + [quoted(words) for words in unscheduled[:2]]))


def _waits_for_resource(case: Case) -> t.Iterator[Hit]:
    for pod in case.workloads():
        words = None if pod["spec"].get("nodeName") else pod_trouble(pod)
        short = [resource for resource in sorted(case.wants(pod)) if words and f"Insufficient {resource}" in words]
        if short:
            yield Hit((), (quoted(words),), about=(shown_pod(pod),))
    # what kubectl describe and kubectl get events print
    for line in case.lines(_SHORT):
        if any(name in case.resources or name.startswith("rdma/") for name in _SHORT_OF.findall(line.raw)):
            yield case.hit(line.log, [str(line)])


def _refused_by_kubelet(case: Case) -> t.Iterator[Hit]:
    for pod in case.workloads():
        status = pod.get("status") or {}
        if status.get("reason") == "UnexpectedAdmissionError":
            yield Hit(
                case.host_of(pod["spec"].get("nodeName")),
                (f"{shown_pod(pod)}: {quoted(status.get('message') or status['reason'])}",),
            )
    for line in case.lines(_NOT_ALLOCATED):
        found = _RESOURCE.search(line.raw)
        if found and (found[1] in case.resources or found[1].startswith("rdma/")):
            yield case.hit(line.log, [str(line)])


RULES = (
    Rule(
        "plugin-tainted",
        "A taint keeps the device plugin from a node",
        "error",
        ("cluster",),
        "a taint of the node keeps the device plugin from it, so the node has no RDMA resource",
        "add the taint to rdma_rollout.tolerations and roll out again, or take it away: kubectl taint nodes NODE KEY-",
        _tainted,
    ),
    Rule(
        "node-cordoned",
        "A node is cordoned",
        "warning",
        ("cluster",),
        "the node is cordoned: its device plugin runs, and Pods that ask for its RDMA resource do not get there",
        "kubectl uncordon NODE, once nobody works on it any more",
        _cordoned,
    ),
    Rule(
        "mofed-wait",
        "A Pod waits for the operator's driver",
        "error",
        ("cluster",),
        "a Pod waits for the driver of the Network Operator (mofed.wait), which is not ready on the node",
        "look at the driver Pod of the node: kubectl -n nvidia-network-operator get pods -o wide | grep -e mofed -e doca",
        _mofed_wait,
    ),
    Rule(
        "nfd-label-missing",
        "Node Feature Discovery has not marked a node",
        "error",
        ("cluster", "plan"),
        "Node Feature Discovery has not marked the node, so nothing of the Network Operator runs there",
        "see that Node Feature Discovery runs on the node, and that its rule nvidia-nics-rules is there "
        "(nfd.deployNodeFeatureRules: true of "
        "the operator's chart): kubectl get nodefeaturerules",
        _nfd_label,
    ),
    Rule(
        "plugin-not-on-node",
        "The device plugin is not on a node that it selects",
        "error",
        ("cluster",),
        "the device plugin has no Pod on a node that its DaemonSet selects",
        "kubectl describe daemonset NAME says what keeps it away: quota, admission, resources of the node",
        _not_on_node,
        ("plugin-tainted", "nfd-label-missing"),
    ),
    Rule(
        "pod-waits-for-resource",
        "No node has the RDMA resource left that a Pod asks for",
        "warning",
        ("cluster", "logs"),
        "a Pod asks for an RDMA resource that no node where it may run has left",
        "compare the name with `kubectl get nodes -o json | grep rdma/`; where all of it is used, raise rdma_resource.hca_max",
        _waits_for_resource,
    ),
    Rule(
        "pod-refused-by-kubelet",
        "A kubelet refused a Pod that asks for an RDMA resource",
        "error",
        ("cluster", "logs"),
        "the kubelet refused a Pod because the device plugin did not answer, or had no device by then",
        "delete the Pod, so that it is made again, once the node's device plugin is ready: kubectl get pods -A -l "
        "app.kubernetes.io/name=rdma-shared-dp",
        _refused_by_kubelet,
    ),
)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of DRANET, and of those who use it. Private. Pure.

DRANET's own are made after its released manifest (install.yaml of 1.4): permissions, directories of the node, probes. There is one
DaemonSet a class, so that it runs on the nodes of the classes that have moved and nowhere else, and rolls one class at a time.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL, DRANET_NAME, GROUP_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import FILTER, NOTHING
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DRIVER, PCIE_ROOT

__all__ = [
    "Want",
    "claim_template",
    "common_objects",
    "daemon_set",
    "device_class",
    "example_pod",
    "without_devices",
]

Json = dict[str, t.Any]

_API = "resource.k8s.io/v1"
_NAME = DRANET_NAME
_LABEL = {"app.kubernetes.io/name": _NAME}


class Want(t.NamedTuple):
    """What a claim asks for under a name. functions: how many, None for all that there are. gpu: the class of a GPU under the same PCIe root."""

    request: str
    device_class: str
    functions: t.Optional[int] = 1
    gpu: t.Optional[str] = None


def _labels(slug: str, group: str) -> dict[str, str]:
    return {**_LABEL, "app.kubernetes.io/instance": slug, GROUP_LABEL: group_value(group)}


def common_objects(namespace: str) -> list[Json]:
    """The account of DRANET and what it may do."""
    role = "rbac.authorization.k8s.io"
    group = "resource.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {
            "apiGroups": [group],
            "resources": ["resourceslices"],
            "verbs": ["list", "watch", "create", "update", "delete"],
        },
        {"apiGroups": [group], "resources": ["resourceclaims", "deviceclasses"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["resourceclaims/status"], "verbs": ["patch", "update"]},
        # asked for by API servers that let a driver write what is its own only
        {
            "apiGroups": [group],
            "resources": ["resourceclaims/driver"],
            "verbs": ["associated-node:patch", "associated-node:update"],
            "resourceNames": [DRIVER],
        },
    ]
    cluster = {"name": _NAME, "labels": dict(_LABEL)}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": _NAME, "namespace": namespace, "labels": dict(_LABEL)},
        },
        {"apiVersion": role + "/v1", "kind": "ClusterRole", "metadata": cluster, "rules": rules},
        {
            "apiVersion": role + "/v1",
            "kind": "ClusterRoleBinding",
            "metadata": copy.deepcopy(cluster),
            "roleRef": {"apiGroup": role, "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}],
        },
    ]


# --- the driver -------------------------------------------------------------------------------------------------------


def _volumes(kubelet: str) -> list[tuple[str, Json, Json]]:
    """(name, source, mount). The kubelet's directory has the same path inside: the driver tells it where its sockets are."""
    shared = {"mountPropagation": "HostToContainer"}
    return [
        ("device-plugin", {"path": kubelet + "/plugins"}, {"mountPath": kubelet + "/plugins"}),
        ("plugin-registry", {"path": kubelet + "/plugins_registry"}, {"mountPath": kubelet + "/plugins_registry"}),
        ("nri-plugin", {"path": "/var/run/nri"}, {"mountPath": "/var/run/nri"}),
        ("netns", {"path": "/var/run/netns"}, {"mountPath": "/var/run/netns", **shared}),
        ("infiniband", {"path": "/dev/infiniband"}, {"mountPath": "/dev/infiniband", **shared}),
        ("bpf-programs", {"path": "/sys/fs/bpf"}, {"mountPath": "/sys/fs/bpf", **shared}),
        # what it has given to which Pod: a restarted driver takes it back
        (
            "dranet-run",
            {"path": "/var/run/dranet", "type": "DirectoryOrCreate"},
            {"mountPath": "/var/run/dranet"},
        ),
    ]


def _arguments(settings: t.Mapping[str, t.Any], kubelet: str) -> list[str]:
    return [
        "/dranet",
        "--v=2",
        "--hostname-override=$(NODE_NAME)",
        f"--bind-address=:{settings['port']}",
        f"--cloud-provider-hint={settings['cloud_provider']}",
        f"--filter={FILTER}",
        f"--kubelet-root-dir={kubelet}",
        f"--move-ib-interfaces={str(settings['move_ib_interfaces']).lower()}",
    ]


def _pod(slug: str, kubelet: str, settings: t.Mapping[str, t.Any]) -> Json:
    probe = {"httpGet": {"path": "/healthz", "port": settings["port"]}}
    volumes = _volumes(kubelet)
    pod: Json = {
        "hostNetwork": True,
        "serviceAccountName": _NAME,
        "priorityClassName": settings["priority_class"],
        "nodeSelector": {DRA_LABEL: slug},
        "tolerations": settings["tolerations"],
        "containers": [
            {
                "name": _NAME,
                "image": settings["image"],
                "imagePullPolicy": "IfNotPresent",
                "args": _arguments(settings, kubelet),
                "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "resources": settings["resources"],
                "securityContext": {"privileged": True},
                "startupProbe": {**probe, "failureThreshold": 12, "periodSeconds": 5},
                "readinessProbe": probe,
                "volumeMounts": [{"name": name, **mount} for name, _source, mount in volumes],
            }
        ],
        "volumes": [{"name": name, "hostPath": source} for name, source, _mount in volumes],
    }
    if settings["image_pull_secrets"]:
        pod["imagePullSecrets"] = [{"name": name} for name in settings["image_pull_secrets"]]
    return pod


def daemon_set(slug: str, group: str, kubelet: str, settings: t.Mapping[str, t.Any]) -> Json:
    """DRANET on the nodes of a class. kubelet: the directory of their kubelets.

    settings: {namespace, image, image_pull_secrets, priority_class, tolerations, resources, max_unavailable, port, cloud_provider,
    move_ib_interfaces}.
    """
    selector = {**_LABEL, "app.kubernetes.io/instance": slug}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"{_NAME}-{slug}", "namespace": settings["namespace"], "labels": _labels(slug, group)},
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": settings["max_unavailable"]},
            },
            "template": {"metadata": {"labels": selector}, "spec": _pod(slug, kubelet, settings)},
        },
    }


def without_devices(item: Json) -> Json:
    """The DaemonSet that publishes nothing more: nobody gets a device, and what Pods have is taken back as they end."""
    changed = copy.deepcopy(item)
    for container in changed["spec"]["template"]["spec"]["containers"]:
        container["args"] = [
            f"--filter={NOTHING}" if argument.startswith("--filter=") else argument for argument in container["args"]
        ]
    return changed


# --- what is asked for ------------------------------------------------------------------------------------------------


def device_class(name: str, slug: str, group: str, text: str) -> Json:
    """What Pods ask for by name. text: the selector."""
    return {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": _labels(slug, group)},
        "spec": {"selectors": [{"cel": {"expression": text}}]},
    }


def _requests(want: Want) -> list[Json]:
    exactly: Json = {"deviceClassName": want.device_class}
    if want.functions is None:
        exactly["allocationMode"] = "All"
    elif want.functions != 1:
        exactly.update({"allocationMode": "ExactCount", "count": want.functions})
    found: list[Json] = [{"name": want.request, "exactly": exactly}]
    if want.gpu:
        found.append({"name": want.request + "-gpu", "exactly": {"deviceClassName": want.gpu}})
    return found


def claim_template(name: str, namespace: t.Optional[str], slug: str, group: str, wants: t.Sequence[Want]) -> Json:
    """What a Pod names to get a claim of its own. namespace: None for one that users fill in. A claim is of one Pod."""
    devices: Json = {"requests": [request for want in wants for request in _requests(want)]}
    constraints = [
        {"requests": [want.request, want.request + "-gpu"], "matchAttribute": PCIE_ROOT} for want in wants if want.gpu
    ]
    if constraints:
        devices["constraints"] = constraints
    metadata: Json = {"name": name, "labels": _labels(slug, group)}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": _API,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": devices}},
    }


def example_pod(name: str, slug: str, template: str) -> Json:
    """A Pod that uses a template, on the nodes of the class. Its image is for the user to say."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {DRA_LABEL: slug},
            "resourceClaims": [{"name": "rdma", "resourceClaimTemplateName": template}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/workload:1.0",
                    "resources": {"claims": [{"name": "rdma"}]},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                }
            ],
        },
    }

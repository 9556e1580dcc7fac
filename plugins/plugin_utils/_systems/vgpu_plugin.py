# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugin that offers shares of GPUs for Volcano: its objects. Private. Pure.

Follows volcano-vgpu-device-plugin (cmd/vgpu, pkg/util, doc/config.md): what it reads, writes and mounts.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.fingerprint import fingerprint
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, GROUP_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json

__all__ = ["PluginClass", "plugin_objects"]

# Where the plugin, and Volcano's scheduler with it, look for the ConfigMap (LoadConfigFromCM(), InitDevicesConfig()).
_NAMESPACE = "kube-system"
_NAME = "volcano-device-plugin"
_DEVICES, _NODES = "volcano-vgpu-device-config", "volcano-vgpu-node-config"
_LIBRARY = "/usr/local/vgpu"
_TOLERATIONS: list[Json] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "volcano.sh/gpu-memory", "operator": "Exists", "effect": "NoSchedule"},
]


class PluginClass(t.NamedTuple):
    """Nodes that one DaemonSet is for."""

    # the value of their label
    slug: str
    kubelet_root: str
    # name of a RuntimeClass, None where the nodes' default runtime hands GPUs out
    runtime_class: t.Optional[str]
    group: str
    # how many there are
    nodes: int
    # that of the rollout of the device plugin, or of DRANET
    label: str = CLASS_LABEL


def _configuration(wish: t.Mapping[str, t.Any]) -> Json:
    return {
        "nvidia": {
            "resourceCountName": "volcano.sh/vgpu-number",
            "resourceMemoryName": "volcano.sh/vgpu-memory",
            "resourceMemoryPercentageName": "volcano.sh/vgpu-memory-percentage",
            "resourceCoreName": "volcano.sh/vgpu-cores",
            "overwriteEnv": False,
            "defaultMemory": 0,
            "defaultCores": 0,
            "defaultGPUNum": 1,
            "deviceSplitCount": int(wish["split"]),
            "deviceMemoryScaling": wish["memory_scaling"],
            "deviceCoreScaling": wish["cores_scaling"],
            "gpuMemoryFactor": int(wish["memory_factor"]),
        }
    }


def _metadata(name: str, namespace: t.Optional[str] = _NAMESPACE) -> Json:
    found: Json = {"name": name, "labels": {"app.kubernetes.io/name": _NAME}}
    return {**found, "namespace": namespace} if namespace else found


def _config_map(name: str, key: str, value: t.Any) -> Json:
    # JSON, which is YAML that no name of a node can break out of
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name),
        "data": {key: json.dumps(value, indent=2) + "\n"},
    }


def _access() -> list[Json]:
    rules = [
        # the annotations by which plugin and scheduler shake hands, and the lock of a node
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        # what the scheduler has decided for a Pod is among its annotations
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(_NAME)},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": _metadata(_NAME, None), "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(_NAME, None),
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE}],
        },
    ]


def _containers(image: str, monitor: bool) -> list[Json]:
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    all_gpus = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"},
    ]
    plugin: Json = {
        "name": _NAME,
        "image": image,
        # the library that keeps a container within its share is mounted from here into every Pod with one
        "lifecycle": {
            "postStart": {"exec": {"command": ["/bin/sh", "-c", f"cp -f /k8s-vgpu/lib/nvidia/* {_LIBRARY}/"]}}
        },
        "env": [
            node,
            *all_gpus,
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
            {"name": "HOOK_PATH", "value": _LIBRARY},
        ],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "node-config", "mountPath": "/config"},
            {"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "library", "mountPath": _LIBRARY},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    watcher: Json = {
        "name": "monitor",
        "image": image,
        "command": ["volcano-vgpu-monitor"],
        "env": [node, *all_gpus, {"name": "HOOK_PATH", "value": "/tmp/vgpu"}],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "containerd", "mountPath": "/run/containerd"},
            {"name": "sys", "mountPath": "/sysinfo"},
            {"name": "var", "mountPath": "/hostvar"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    return [plugin, watcher] if monitor else [plugin]


def _volumes(kubelet_root: str, monitor: bool) -> list[Json]:
    def host(name: str, path: str, kind: str) -> Json:
        return {"name": name, "hostPath": {"path": path, "type": kind}}

    found: list[Json] = [
        {"name": "node-config", "configMap": {"name": _NODES}},
        host("device-plugins", f"{kubelet_root}/device-plugins", "Directory"),
        host("library", _LIBRARY, "DirectoryOrCreate"),
        host("tmp", "/tmp", "Directory"),
    ]
    if monitor:
        found += [
            host("containerd", "/run/containerd", "DirectoryOrCreate"),
            host("sys", "/sys", "Directory"),
            host("var", "/var", "Directory"),
        ]
    return found


def _daemon_set(
    each: PluginClass, image: str, wish: t.Mapping[str, t.Any], pull_secrets: t.Sequence[str], checksum: str
) -> Json:
    selector = {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/instance": each.slug}
    spec: Json = {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {each.label: each.slug},
        "tolerations": [*_TOLERATIONS, *wish["tolerations"]],
        "containers": _containers(image, wish["monitor"]),
        "volumes": _volumes(each.kubelet_root, wish["monitor"]),
    }
    if each.runtime_class:
        spec["runtimeClassName"] = each.runtime_class
    if pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    # it reads its configuration once
    template = {"metadata": {"labels": selector, "annotations": {"rdma.fabric/config": checksum}}, "spec": spec}
    metadata = _metadata(f"{_NAME}-{each.slug}")
    # it stays where its group does
    metadata["labels"][GROUP_LABEL] = group_value(each.group)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": template,
        },
    }


def plugin_objects(
    classes: t.Sequence[PluginClass],
    image: str,
    wish: t.Mapping[str, t.Any],
    nodes: t.Sequence[Json],
    pull_secrets: t.Sequence[str],
) -> list[Json]:
    """Configuration, access and a DaemonSet for each class, in the order in which they are applied.

    wish: {split, memory_scaling, cores_scaling, memory_factor, monitor, tolerations}, all set. nodes: rows of config.json, each for the
    node of its name.
    """
    maps = [
        _config_map(_DEVICES, "device-config.yaml", _configuration(wish)),
        _config_map(_NODES, "config.json", {"nodeconfig": list(nodes)}),
    ]
    checksum = fingerprint([each["data"] for each in maps], 16)
    return [*maps, *_access(), *(_daemon_set(each, image, wish, pull_secrets, checksum) for each in classes)]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of the shared device plugin, one ConfigMap and one DaemonSet a class. Private. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

__all__ = ["CLASS_LABEL", "MANAGED_BY", "ManifestError", "class_slug", "plan_manifests"]

# Selects the nodes of a class; the rollout sets it on them.
CLASS_LABEL = "rdma.fabric/class"
MANAGED_BY = "fabric.rdma"

_NAME_LIMIT = 63

Json = t.Dict[str, t.Any]


class ManifestError(Exception):
    """A plan or setting that cannot become a valid object; the text is for the user."""


def class_slug(name: str) -> str:
    """A class name as a DNS label (RFC 1123): Ansible groups may have underscores and capitals, objects and labels may not."""
    slug = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if not slug:
        raise ManifestError("class '%s' has no letter or digit to make an object name of" % name)
    # room for the prefix of the object's name
    if len(slug) > _NAME_LIMIT - len("rdma-shared-dp-"):
        slug = (
            slug[: _NAME_LIMIT - len("rdma-shared-dp-") - 9].rstrip("-")
            + "-"
            + hashlib.sha256(name.encode()).hexdigest()[:8]
        )
    return slug


def _metadata(slug: str, namespace: str) -> Json:
    return {
        "name": "rdma-shared-dp-" + slug,
        "namespace": namespace,
        "labels": {
            "app.kubernetes.io/name": "rdma-shared-dp",
            "app.kubernetes.io/instance": slug,
            "app.kubernetes.io/managed-by": MANAGED_BY,
        },
    }


def _daemon_set(slug: str, config_text: str, settings: t.Mapping[str, t.Any]) -> Json:
    metadata = _metadata(slug, settings["namespace"])
    selector = {"app.kubernetes.io/name": "rdma-shared-dp", "app.kubernetes.io/instance": slug}
    kubelet = str(settings["kubelet_root"]).rstrip("/")
    host_paths = [
        ("device-plugin", kubelet + "/device-plugins", "/var/lib/kubelet/device-plugins"),
        ("plugins-registry", kubelet + "/plugins_registry", "/var/lib/kubelet/plugins_registry"),
        ("devs", "/dev", "/dev"),
    ]
    container: Json = {
        "name": "rdma-shared-dp",
        "image": settings["image"],
        "imagePullPolicy": "IfNotPresent",
        # the plugin sets matched netdevs up and opens device nodes of the host
        "securityContext": {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "resources": settings["resources"],
        "volumeMounts": [{"name": name, "mountPath": inside} for name, _dummy, inside in host_paths]
        + [{"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin", "readOnly": True}],
    }
    pod: Json = {
        "hostNetwork": True,
        "priorityClassName": settings["priority_class"],
        "nodeSelector": {CLASS_LABEL: slug},
        "tolerations": settings["tolerations"],
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": outside}} for name, outside, _dummy in host_paths]
        + [
            {
                "name": "config",
                "configMap": {"name": metadata["name"], "items": [{"key": "config.json", "path": "config.json"}]},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {
                    "labels": dict(metadata["labels"]),
                    # the plugin reads its configuration once: a changed one has to roll the Pods
                    "annotations": {"rdma.fabric/config-sha256": hashlib.sha256(config_text.encode()).hexdigest()},
                },
                "spec": pod,
            },
        },
    }


def plan_manifests(plan: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> t.Dict[str, Json]:
    """Objects by relative path (``GROUP/CLASS-configmap.yaml``, ``GROUP/CLASS-daemonset.yaml``) for a whole plan.

    settings: {namespace, image, priority_class, kubelet_root, tolerations: [...], resources: {...}}. Classes without a
    configuration (software devices) have no objects. ManifestError when two classes would share a name.
    """
    objects: t.Dict[str, Json] = {}
    owners: t.Dict[str, t.Tuple[str, str]] = {}
    for group in sorted(plan["groups"]):
        for entry in plan["groups"][group]["classes"]:
            if entry["config"] is None:
                continue
            slug = class_slug(entry["name"])
            if slug in owners:
                raise ManifestError(
                    "classes '%s' of group %s and '%s' of group %s would both be named '%s' in Kubernetes; "
                    "rename one of the groups" % (*owners[slug], entry["name"], group, slug)
                )
            owners[slug] = (entry["name"], group)
            text = json.dumps(entry["config"], sort_keys=True)
            directory = re.sub(r"^\.+|[^\w.-]", "_", group)
            objects["%s/%s-configmap.yaml" % (directory, slug)] = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": _metadata(slug, settings["namespace"]),
                "data": {"config.json": text},
            }
            objects["%s/%s-daemonset.yaml" % (directory, slug)] = _daemon_set(slug, text, settings)
    return objects

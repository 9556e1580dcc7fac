# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of the shared device plugin, one ConfigMap and one DaemonSet a class. Private. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

__all__ = ["CLASS_LABEL", "MANAGED_BY", "ManifestError", "class_slug", "label_scripts", "plan_manifests"]

# Selects the nodes of a class; the rollout sets it on them.
CLASS_LABEL = "rdma.fabric/class"
MANAGED_BY = "fabric.rdma"

_NAME_LIMIT = 63
# What a node may be called (k8s.io/apimachinery/pkg/util/validation, IsDNS1123Subdomain). Nothing in it means anything to a shell.
_NODE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_NODE_NAME_LIMIT = 253

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


def _directory(group: str) -> str:
    """The directory of a group's files: no group leads out of where they are written. The role names it the same way."""
    return re.sub(r"^\.+|[^\w.-]", "_", group)


def _rendered(plan: t.Mapping[str, t.Any]) -> t.Iterator[t.Tuple[str, Json, str]]:
    """(slug, class, path without its ending) of each class that has something to roll out.

    Classes of groups that this run did not plan (planned: False) give nothing: their files are those of an earlier run. Their
    names are taken nevertheless. ManifestError when two classes would share a name.
    """
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
            if plan["groups"][group].get("planned", True):
                yield slug, entry, "%s/%s" % (_directory(group), slug)


def plan_manifests(plan: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> t.Dict[str, Json]:
    """Objects by relative path (``GROUP/CLASS-configmap.yaml``, ``GROUP/CLASS-daemonset.yaml``) for the groups of a plan.

    settings: {namespace, image, priority_class, kubelet_root, tolerations: [...], resources: {...}}. Classes without a
    configuration (software devices) have no objects, nor have groups that this run did not plan. ManifestError when two
    classes would share a name.
    """
    objects: t.Dict[str, Json] = {}
    for slug, entry, path in _rendered(plan):
        text = json.dumps(entry["config"], sort_keys=True)
        objects[path + "-configmap.yaml"] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(slug, settings["namespace"]),
            "data": {"config.json": text},
        }
        objects[path + "-daemonset.yaml"] = _daemon_set(slug, text, settings)
    return objects


def label_scripts(plan: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """Shell scripts by relative path (``GROUP/CLASS-labels.sh``) that label the nodes of each class, one line a node.

    A DaemonSet runs on no node before its nodes have the label. A host whose name in the inventory cannot be that of a node
    is a comment, and makes the script end with an error: its node has to be labelled by hand. Names are quoted always.
    """
    scripts: t.Dict[str, str] = {}
    for slug, entry, path in _rendered(plan):
        lines = [
            "#!/bin/sh",
            "# app.kubernetes.io/managed-by: %s" % MANAGED_BY,
            "# Labels the nodes of class %s. Hosts of the inventory are taken for nodes of the same name." % slug,
            "set -eu",
        ]
        others = []
        for host in entry["hosts"]:
            if len(host) <= _NODE_NAME_LIMIT and _NODE_NAME.fullmatch(host):
                lines.append("kubectl label node '%s' '%s=%s' --overwrite" % (host, CLASS_LABEL, slug))
            else:
                # as JSON: a name with a line break in it stays inside its comment
                others.append("# %s cannot be the name of a node: label its node by hand" % json.dumps(host))
        if others:
            lines += [*others, "echo '%d hosts are not labelled, see the end of this file' >&2" % len(others), "exit 1"]
        scripts[path + "-labels.sh"] = "\n".join(lines) + "\n"
    return scripts

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whereabouts by ourselves: the Network Operator brings it no more since 25.10. Private. Pure.

Follows k8snetworkplumbingwg/whereabouts (script/install-cni.sh, cmd/controlloop, cmd/reconciler, pkg/config). Objects have the names that
its own have, so that a second one is somebody else's object of the same name.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import WHEREABOUTS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import MANAGED_BY
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SPENT_ANNOTATION
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import (
    CONFIG_INSIDE,
    PROGRAMS_INSIDE,
    TEXT,
    USUAL,
    CniDirectories,
    account,
    definition,
    environment,
    events_rules,
    image_of,
    node_pod,
    node_set,
    rule,
    schema_object,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site

__all__ = ["whereabouts_file", "whereabouts_objects"]

_WHEREABOUTS_GROUP = "whereabouts.cni.cncf.io"


def _whereabouts_definitions() -> list[Json]:
    def names(kind: str) -> Json:
        return {"kind": kind, "listKind": kind + "List", "plural": kind.lower() + "s", "singular": kind.lower()}

    allocation = schema_object(["id", "podref"], id=TEXT, podref=TEXT, ifname=TEXT)
    slices = schema_object(["nodeName", "sliceRange"], nodeName=TEXT, sliceRange=TEXT)
    kinds: dict[str, Json] = {
        "IPPool": {
            "spec": schema_object(
                ["range", "allocations"],
                range=TEXT,
                allocations={"type": "object", "additionalProperties": allocation},
            )
        },
        "NodeSlicePool": {
            "spec": schema_object(["range", "sliceSize"], range=TEXT, sliceSize=TEXT),
            "status": schema_object(["allocations"], allocations={"type": "array", "items": slices}),
        },
        "OverlappingRangeIPReservation": {
            "spec": schema_object(["podref"], containerid=TEXT, podref=TEXT, ifname=TEXT),
        },
    }
    found = [definition(_WHEREABOUTS_GROUP, "v1alpha1", names(kind), properties) for kind, properties in kinds.items()]
    # it makes a pool for each range by itself, which stays when all addresses are given back
    found[0]["metadata"]["annotations"] = {SPENT_ANNOTATION: "spec.allocations"}
    return found


def whereabouts_file(directories: CniDirectories) -> t.Optional[str]:
    """The file that the plugin on the node has to be told of, where it is not at a place that it knows (pkg/config, GetFlatIPAM)."""
    return None if directories.config == USUAL.config else f"{directories.config}/whereabouts.d/whereabouts.conf"


# Its own scripts, of which the first ends with nothing to do: the second renews the token, and what gives addresses of lost Pods back
# is the process that is stopped with the Pod.
_START = ". /install-cni.sh\n/token-watcher.sh &\nexec /ip-control-loop -log-level verbose\n"
_EVERY = ["create", "delete", "get", "list", "patch", "update", "watch"]


def whereabouts_objects(wish: t.Mapping[str, t.Any], site: Site, directories: CniDirectories) -> tuple[list[Json], str]:
    """(objects in their order, image) of Whereabouts. wish: rdma_whereabouts."""
    namespace = str(wish.get("namespace") or defaults_of("rdma_whereabouts", "namespace"))
    image = image_of(WHEREABOUTS, wish, site)
    inside = "/host" + directories.config
    mounts = [
        {"name": "cni-config", "mountPath": inside},
        {"name": "cni-programs", "mountPath": PROGRAMS_INSIDE},
    ]
    if inside != CONFIG_INSIDE:
        # the control loop knows this place only
        mounts.append({"name": "cni-config", "mountPath": CONFIG_INSIDE})
    container: Json = {
        "image": image,
        "command": ["/bin/sh", "-c", _START],
        "env": [
            {"name": "NODENAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "WHEREABOUTS_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            # it takes /host away from this to know the path on the node
            {"name": "CNI_CONF_DIR", "value": inside},
            {"name": "CNI_BIN_DIR", "value": PROGRAMS_INSIDE},
            {"name": "SLEEP", "value": "false"},
            *environment(wish),
        ],
        "volumeMounts": mounts,
    }
    rules = [
        rule(_WHEREABOUTS_GROUP, ["ippools", "nodeslicepools", "overlappingrangeipreservations"], _EVERY),
        rule("coordination.k8s.io", ["leases"], _EVERY),
        rule("", ["pods", "nodes"], ["get", "list", "watch"]),
        rule("k8s.cni.cncf.io", ["network-attachment-definitions"], ["get", "list", "watch"]),
        *events_rules(),
    ]
    pod = node_pod("whereabouts", container, wish, site, directories, "whereabouts")
    objects = [
        *(_whereabouts_definitions() if wish.get("crd", defaults_of("rdma_whereabouts", "crd")) else []),
        *account("whereabouts", namespace, "whereabouts-cni", rules),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "whereabouts-config", "namespace": namespace},
            "data": {"cron-expression": str(wish.get("reconcile") or defaults_of("rdma_whereabouts", "reconcile"))},
        },
        node_set("whereabouts", "whereabouts", namespace, pod, wish),
        _reconciler(namespace, image, wish, site),
    ]
    return objects, image


def _reconciler(namespace: str, image: str, wish: t.Mapping[str, t.Any], site: Site) -> Json:
    """What gives back addresses of Pods that went with their node. One, and never two at a time: it elects no leader."""
    selector = {"name": "whereabouts-reconciler"}
    labels = {**selector, "app": "whereabouts-reconciler", "app.kubernetes.io/managed-by": MANAGED_BY}
    pod: Json = {
        "serviceAccountName": "whereabouts",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": wish.get("tolerations", defaults_of("rdma_whereabouts", "tolerations")),
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "whereabouts-reconciler",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/ip-reconciler", "-log-level", "verbose"],
                "env": [
                    {"name": "WHEREABOUTS_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    *environment(wish),
                ],
                "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "schedule", "mountPath": "/cron-schedule"}],
            }
        ],
        "volumes": [
            {
                "name": "schedule",
                "configMap": {"name": "whereabouts-config", "items": [{"key": "cron-expression", "path": "config"}]},
            }
        ],
    }
    if site["pull_secrets"]:
        pod["imagePullSecrets"] = [{"name": each} for each in site["pull_secrets"]]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "whereabouts-reconciler", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }

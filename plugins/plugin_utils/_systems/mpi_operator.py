# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MPI Operator, which runs nvbandwidth and nccl-tests on several nodes. Private. Pure.

Its own schema of an MPIJob has those of whole Pods in it, 670 kB of them, and its controller checks every job itself
(pkg/apis/kubeflow/validation): ours knows the outer form, and what the API server fills in there.
"""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import MPI_OPERATOR
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import rolled_out
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import account, definition, rule
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_workloads import (
    MPI_GROUP,
    MPI_VERSION,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site, Wait
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored

__all__ = ["mpi_operator_objects"]

# Where its controller keeps its Lease unless it is told otherwise (cmd/mpi-operator/app/options).
_NAME = _NAMESPACE = "mpi-operator"
# of the user as whom containers of its jobs run, as the definition has it
_HOME = "/root"


def _rules() -> list[Json]:
    """What its controller does: keys and host lists in Secrets and ConfigMaps, workers as Pods, the launcher as a Job."""
    return [
        rule("", ["configmaps", "secrets", "services"], ["create", "list", "update", "watch"]),
        rule("", ["pods"], ["create", "delete", "get", "list", "patch", "update", "watch"]),
        rule("", ["events"], ["create", "patch"]),
        rule("batch", ["jobs"], ["create", "list", "update", "watch"]),
        rule("coordination.k8s.io", ["leases"], ["create", "get", "update"]),
        rule("scheduling.k8s.io", ["priorityclasses"], ["get", "list", "watch"]),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"]),
        rule(MPI_GROUP, ["mpijobs"], ["get", "list", "update", "watch"]),
        rule(MPI_GROUP, ["mpijobs/finalizers", "mpijobs/status"], ["update"]),
    ]


def _definition() -> Json:
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec: Json = {
        **anything,
        "required": ["mpiReplicaSpecs"],
        "properties": {
            "launcherCreationPolicy": {"type": "string", "default": "AtStartup"},
            "mpiImplementation": {"type": "string", "default": "OpenMPI", "enum": ["OpenMPI", "Intel", "MPICH"]},
            "mpiReplicaSpecs": dict(anything),
            "runLauncherAsWorker": {"type": "boolean", "default": False},
            "slotsPerWorker": {"type": "integer", "format": "int32", "default": 1},
            "sshAuthMountPath": {"type": "string", "default": f"{_HOME}/.ssh"},
        },
    }
    names = {"kind": "MPIJob", "listKind": "MPIJobList", "plural": "mpijobs", "singular": "mpijob"}
    found = definition(MPI_GROUP, MPI_VERSION, names, {"spec": spec, "status": dict(anything)})
    found["spec"]["versions"][0]["subresources"] = {"status": {}}
    return found


def _deployment(image: str, site: Site) -> Json:
    labels = {"app": _NAME}
    pod: Json = {
        "serviceAccountName": _NAME,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": _NAME,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["-alsologtostderr"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            }
        ],
    }
    if site["pull_secrets"]:
        pod["imagePullSecrets"] = [{"name": name} for name in site["pull_secrets"]]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def mpi_operator_objects(site: Site) -> tuple[list[Json], Wait, str]:
    """(objects in their order, what is waited for, its image)."""
    image = mirrored(MPI_OPERATOR, site["registry"])
    objects = [
        _definition(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        *account(_NAME, _NAMESPACE, _NAME, _rules()),
        _deployment(image, site),
    ]
    return objects, rolled_out("Deployment", _NAMESPACE, _NAME), image

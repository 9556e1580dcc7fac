# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that prove multi-node NVLink, and the same collective over the network for comparison. Private. Pure.

Follows the definitions of ComputeDomain (NVIDIA's DRA driver) and of MPIJob v2beta1 (MPI Operator).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Group
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import policy_name
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_nodes import CLIQUE_LABEL
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import node_selections

__all__ = ["MPI_GROUP", "MPI_VERSION", "Settings", "group_slug", "group_workloads"]

MPI_GROUP, MPI_VERSION = "kubeflow.org", "v2beta1"
_DOMAIN_VERSION = "resource.nvidia.com/v1beta1"
# On the Pods of a workload, so that they find each other.
_WORKLOAD_LABEL = "rdma.fabric/workload"
# The lines in which spec.numNodes may be left out, and those whose IMEX daemons find each other by name.
_OPTIONAL_SINCE = (0, 4)
_NO_DNS_NAMES = (25, 3)
_ANY_GPU_TAINT = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


class Settings(t.NamedTuple):
    """What the workloads of a group are made with."""

    group: str
    # of the DRA driver, such as (0, 4)
    line: tuple[int, int]
    # whether IMEX daemons find each other by name (the gate IMEXDaemonsWithDNSNames)
    dns_names: bool
    namespace: str
    nodes: int
    gpus_per_node: int
    # the DRA driver serves GPUs, too: claims of this version of resource.k8s.io take the place of nvidia.com/gpu
    claims: t.Optional[str]
    nvbandwidth_image: str
    # None: no variants with nccl-tests
    nccl_image: t.Optional[str]
    ethernet: bool
    # of the nodes, by slug of class
    labels: t.Mapping[str, str]
    # (name, number of hosts) of the largest NVLink clique, where cliques are known
    clique: t.Optional[tuple[str, int]] = None

    @property
    def nvlink_nodes(self) -> int:
        """Nodes of a workload over NVLink, whose Pods are in one clique."""
        return self.nodes if self.clique is None else min(self.nodes, self.clique[1])


def group_slug(group: str) -> str:
    """What names of a group's workloads end with: short enough for those that the MPI Operator makes of them."""
    return policy_name(group_value(group))


def _nodes_of_domain(settings: Settings) -> t.Optional[int]:
    """spec.numNodes; None to leave it out.

    Where daemons find each other by name, 0 lets nodes come and go with the workload. Otherwise, and before there was that,
    Pods wait until so many nodes are in the domain. Up to 25.12 the field has to be there.
    """
    if not settings.dns_names or settings.line == _NO_DNS_NAMES:
        return settings.nodes
    return None if settings.line[0] == 0 and settings.line >= _OPTIONAL_SINCE else 0


def _domain(name: str, settings: Settings) -> Json:
    spec: Json = {"channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
    count = _nodes_of_domain(settings)
    if count is not None:
        spec["numNodes"] = count
    metadata = {"name": name, "namespace": settings.namespace}
    return {"apiVersion": _DOMAIN_VERSION, "kind": "ComputeDomain", "metadata": metadata, "spec": spec}


def _gpu_template(name: str, settings: Settings) -> Json:
    """The GPUs of a Pod as a claim, in the form of the version that the server has."""
    request: Json = {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": settings.gpus_per_node,
    }
    flat = settings.claims == "v1beta1"
    requests = [{"name": "gpus", **request} if flat else {"name": "gpus", "exactly": request}]
    return {
        "apiVersion": f"resource.k8s.io/{settings.claims}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"{name}-gpus", "namespace": settings.namespace},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def _affinity(name: str, settings: Settings, one_clique: bool) -> Json:
    """On the nodes of the group's classes, one Pod a node, and all in one clique where that is what NVLink needs."""
    clique: list[Json] = [{"key": CLIQUE_LABEL, "operator": "Exists"}] if one_clique else []
    expressions = [[*own, *clique] for own in node_selections(settings.labels)] or ([clique] if clique else [])
    same = {"labelSelector": {"matchLabels": {_WORKLOAD_LABEL: name}}}
    found: Json = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{**same, "topologyKey": "kubernetes.io/hostname"}]
        }
    }
    if expressions:
        terms = {"nodeSelectorTerms": [{"matchExpressions": own} for own in expressions]}
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if one_clique:
        found["podAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [{**same, "topologyKey": CLIQUE_LABEL}]
        }
    return found


class _Worker(t.NamedTuple):
    """What distinguishes the workers of one MPIJob from those of another."""

    image: str
    channel: t.Optional[str]
    resources: t.Sequence[str]
    command: t.Sequence[str]
    user: t.Optional[int]


def _worker_template(name: str, settings: Settings, worker: _Worker) -> Json:
    container: Json = {
        "name": "worker",
        "image": worker.image,
        "command": list(worker.command),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    limits: Json = dict.fromkeys(worker.resources, 1)
    claims: list[Json] = []
    if settings.claims is None:
        limits["nvidia.com/gpu"] = settings.gpus_per_node
    else:
        claims.append({"name": "gpus", "resourceClaimTemplateName": f"{name}-gpus"})
    if worker.channel:
        claims.append({"name": "channel", "resourceClaimTemplateName": worker.channel})
    resources: Json = {"limits": limits} if limits else {}
    if claims:
        resources["claims"] = [{"name": claim["name"]} for claim in claims]
    container["resources"] = resources
    security: Json = {"runAsUser": worker.user} if worker.user is not None else {}
    if worker.resources:
        security["capabilities"] = {"add": ["IPC_LOCK"]}
    if security:
        container["securityContext"] = security
    spec: Json = {
        "containers": [container],
        "affinity": _affinity(name, settings, worker.channel is not None),
        "tolerations": list(_ANY_GPU_TAINT),
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    if claims:
        spec["resourceClaims"] = claims
    return {"metadata": {"labels": {_WORKLOAD_LABEL: name}}, "spec": spec}


def _job(name: str, settings: Settings, worker: _Worker, args: t.Sequence[str], ssh: t.Optional[str]) -> Json:
    launcher: Json = {"name": "launcher", "image": worker.image, "command": ["mpirun"], "args": list(args)}
    if worker.user is not None:
        launcher["securityContext"] = {"runAsUser": worker.user}
    return {
        "apiVersion": f"{MPI_GROUP}/{MPI_VERSION}",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": settings.namespace},
        "spec": {
            "slotsPerWorker": settings.gpus_per_node,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running"},
            **({"sshAuthMountPath": ssh} if ssh else {}),
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [launcher]}},
                },
                "Worker": {
                    "replicas": settings.nodes,
                    "restartPolicy": "Never",
                    "template": _worker_template(name, settings, worker),
                },
            },
        },
    }


def _injection(name: str, settings: Settings) -> list[Json]:
    """A domain, and a Pod that shows the channel that it got."""
    affinity = _affinity(name, settings, True)
    # alone in its domain
    del affinity["podAffinity"], affinity["podAntiAffinity"]
    container = {
        "name": "channel",
        "image": settings.nvbandwidth_image,
        "command": ["ls", "-l", "/dev/nvidia-caps-imex-channels"],
        "resources": {"claims": [{"name": "channel"}]},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": settings.namespace},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "affinity": affinity,
            "tolerations": list(_ANY_GPU_TAINT),
            "resourceClaims": [{"name": "channel", "resourceClaimTemplateName": f"{name}-channel"}],
        },
    }
    return [_domain(name, settings._replace(nodes=1)), pod]


def _with_gpus(name: str, settings: Settings, objects: list[Json]) -> list[Json]:
    return objects if settings.claims is None else [_gpu_template(name, settings), *objects]


def _nvbandwidth(name: str, settings: Settings) -> list[Json]:
    # the image's own user and configuration of sshd
    worker = _Worker(
        settings.nvbandwidth_image,
        f"{name}-channel",
        (),
        ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"],
        1000,
    )
    processes = settings.nodes * settings.gpus_per_node
    args = ["--bind-to", "core", "--map-by", f"ppr:{settings.gpus_per_node}:node", "-np", str(processes), "-q"]
    args += ["nvbandwidth", "-t", "multinode_device_to_device_memcpy_read_ce"]
    job = _job(name, settings, worker, args, "/home/mpiuser/.ssh")
    return _with_gpus(name, settings, [_domain(name, settings), job])


def _nccl(
    name: str, settings: Settings, plan: t.Optional[Group], environment: t.Mapping[str, str], way: str
) -> list[Json]:
    """all_reduce_perf of nccl-tests. way: mnnvl, rdma or tcp."""
    mnnvl = way == "mnnvl"
    flags = {
        "NCCL_DEBUG": "INFO",
        "NCCL_MNNVL_ENABLE": "1" if mnnvl else "0",
        "NCCL_IMEX_ENABLE": "1" if mnnvl else "0",
        "NCCL_IB_DISABLE": "1" if way == "tcp" else "0",
        **(environment if way == "rdma" else {}),
    }
    resources = [row["resource"] for row in plan["resources"]] if plan and way == "rdma" else []
    channel = f"{name}-channel" if mnnvl else None
    worker = _Worker(str(settings.nccl_image), channel, resources, ["/usr/sbin/sshd", "-De"], None)
    args = ["--allow-run-as-root", "-np", str(settings.nodes * settings.gpus_per_node), "--bind-to", "none"]
    for key in sorted(flags):
        args += ["-x", f"{key}={flags[key]}"]
    args += ["all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1"]
    job = _job(name, settings, worker, args, None)
    return _with_gpus(name, settings, [*([_domain(name, settings)] if mnnvl else []), job])


def _common_environment(plan: t.Optional[Group]) -> tuple[dict[str, str], t.Optional[str]]:
    """(NCCL_IB_HCA, and NCCL_IB_TC where the plan has one, for every host of a group; why there is none).

    Hosts whose ports have other names get those that all of them have: NCCL looks for the names on each host.
    """
    by_host = {host: own.get("NCCL_IB_HCA", "") for host, own in (plan["environment"] if plan else {}).items()}
    if not by_host:
        return {}, "no host of it is planned"
    ports = [value.lstrip("=").split(",") for value in by_host.values()]
    common = [port for port in ports[0] if port and all(port in other for other in ports[1:])]
    if not common:
        return {}, "its hosts have no RDMA port of the same name"
    classes = {own.get("NCCL_IB_TC") for own in (plan["environment"] if plan else {}).values()}
    (one,) = classes if len(classes) == 1 else (None,)
    return {"NCCL_IB_HCA": "=" + ",".join(common), **({"NCCL_IB_TC": one} if one else {})}, None


def _fewer_nodes(settings: Settings) -> t.Iterator[str]:
    """That workloads over NVLink are for fewer nodes than the others."""
    if settings.clique is None or settings.nvlink_nodes == settings.nodes:
        return
    name, hosts = settings.clique
    nodes = f"{settings.nvlink_nodes} node{'s' * (settings.nvlink_nodes > 1)}"
    which = "nvbandwidth, nccl-mnnvl" if settings.nccl_image else "nvbandwidth"
    yield (
        f"group {settings.group}: workloads over NVLink ({which}) are for {nodes} and not for {settings.nodes}: their Pods are in one "
        f"NVLink clique, and the largest of the group ({name}) has {hosts} host{'s' * (hosts > 1)}"
    )


def group_workloads(settings: Settings, plan: t.Optional[Group]) -> tuple[dict[str, list[Json]], list[str]]:
    """({file name: objects}, warnings on what is left out). plan: that of the group, None where it has none.

    Files: compute-domain (a channel in a Pod), nvbandwidth, and with an image for it nccl-mnnvl, nccl-infiniband (nccl-roce on
    Ethernet) and nccl-tcp, each with the slug of the group.
    """
    slug, warnings = group_slug(settings.group), list(_fewer_nodes(settings))
    nvlink = settings._replace(nodes=settings.nvlink_nodes)
    network = "roce" if settings.ethernet else "infiniband"
    found = {
        f"compute-domain-{slug}.yaml": _injection(f"compute-domain-{slug}", settings),
        f"nvbandwidth-{slug}.yaml": _nvbandwidth(f"nvbandwidth-{slug}", nvlink),
    }
    if settings.nccl_image is None:
        return found, warnings
    environment, why = _common_environment(plan)
    if DRA_LABEL in settings.labels.values():
        why = "DRANET serves it (rdma_rollout.engine: dra), so that Pods ask for claims and not for a resource"
    for way, word in (("mnnvl", "mnnvl"), ("rdma", network), ("tcp", "tcp")):
        name = f"nccl-{word}-{slug}"
        if way == "rdma" and why:
            warnings.append(f"group {settings.group}: no workload {name}, since {why}")
        else:
            found[f"{name}.yaml"] = _nccl(name, nvlink if way == "mnnvl" else settings, plan, environment, way)
    if settings.ethernet:
        warnings.append(
            f"group {settings.group}: Pods of nccl-roce-{slug} need a network with the ports of the nodes (rdma_networks, or hostNetwork)"
        )
    return found, warnings

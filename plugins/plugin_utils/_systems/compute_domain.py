# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-node NVLink for groups: NVIDIA's DRA driver, and workloads in ComputeDomains. Private. Pure.

A cluster has one DRA driver, so the groups that wish for it have to agree in what is the driver's.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DRA_DRIVER,
    DRA_LINES,
    DRA_OLD_NAME,
    NVBANDWIDTH,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import merged
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, wished_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import device_plugin_off, switched_off
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_chart import (
    DNS_NAMES,
    VARIABLE,
    api_version_of,
    chart_of,
    chart_values,
    driver_root,
    gate_problems,
    keeps_old_names,
    kubelet_paths,
    upgrade,
    value_problems,
    waits_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_nodes import (
    NodeView,
    cliques_of,
    node_findings,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_workloads import (
    MPI_GROUP,
    MPI_VERSION,
    Settings,
    group_slug,
    group_workloads,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Request, Site, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import class_labels
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.mpi_operator import mpi_operator_objects
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored, named

__all__ = ["request"]

# The group's own keys; the others are the driver's, of which a cluster has one.
_OF_THE_GROUP = ("cliques", "host_imex", "mpi_operator", "workloads")
_HOST_IMEX_SINCE = (0, 5)
Served = t.Optional[t.Mapping[str, t.Sequence[str]]]


def _group_wishes(wish: t.Mapping[str, t.Any], site: Site) -> dict[str, Json]:
    """{group: its wish with all keys}, of the groups that have one. wish: keys that override those of every group."""
    return {
        group: {**defaults_of(VARIABLE), **own[VARIABLE], **wish}
        for group, own in sorted(site["wishes"].items())
        if own.get(VARIABLE)
    }


def _disagreements(wishes: t.Mapping[str, Json]) -> list[str]:
    """A sentence for each key of the driver in which two groups differ."""
    found, first = [], next(iter(wishes))
    for key in [each for each in defaults_of(VARIABLE) if each not in _OF_THE_GROUP]:
        other = next((group for group in wishes if wishes[group][key] != wishes[first][key]), None)
        if other is not None:
            values = (
                f"{wishes[first][key]!r} and {wishes[other][key]!r}"
                if key != "values"
                else "different values of the chart"
            )
            found.append(
                f"groups {first} and {other} wish for {VARIABLE}.{key} {values}: a cluster has one DRA driver, so set it for all "
                "groups (group_vars/rdma.yml)"
            )
    return found


def _gpu_problems(
    wish: t.Mapping[str, t.Any], site: Site, gpu_operator: t.Optional[t.Mapping[str, t.Any]], served: Served
) -> list[str]:
    """Two that serve the same GPUs."""
    wishes = [gpu_operator, *(own.get("rdma_gpu_operator") for own in site["wishes"].values())]
    # enabled: false brings no operator, and leaves the one that is there
    there = "nvidia.com" in (served or {})
    serving = [own for own in wishes if own and (there or not switched_off(own)) and not device_plugin_off(own)]
    if not wish["gpus"] or not serving:
        return []
    return [
        f"{VARIABLE}.gpus: true, and the device plugin of the GPU Operator serves the same GPUs: set gpus: false, or "
        "rdma_gpu_operator.device_plugin: false"
    ]


def _host_imex_problems(release: Version, wish: t.Mapping[str, t.Any]) -> list[str]:
    if wish["imex"] == "driver" or (release.line[0] == 0 and release.line >= _HOST_IMEX_SINCE):
        return []
    return [
        f"{VARIABLE}.imex: host needs the DRA driver 0.5 or newer, and version is {release.text}: set imex: driver, or a newer version"
    ]


# --- workloads --------------------------------------------------------------------------------------------------------


def _gpus_per_node(hosts: t.Sequence[str], site: Site) -> int:
    """As many as every host has."""
    counts = [
        sum(gpu["vendor"] == "10de" for gpu in site["facts"][host].get("gpus") or ())
        for host in hosts
        if host in site["facts"]
    ]
    return max(1, min(counts, default=1))


def _settings(
    group: str,
    wish: Json,
    release: Version,
    site: Site,
    api_version: t.Optional[str],
    rollout: t.Mapping[str, t.Any],
    cliques: t.Mapping[str, t.Sequence[str]],
) -> Settings:
    own, hosts = {**defaults_of(VARIABLE, "workloads"), **wish["workloads"]}, site["groups"].get(group) or []
    want = site["wishes"][group].get("rdma_want") or {}
    nccl = own["nccl_image"]
    return Settings(
        group=group,
        line=release.line,
        dns_names=wish["feature_gates"].get(DNS_NAMES, True) is not False,
        namespace=str(own["namespace"]),
        nodes=int(own["nodes"] or min(2, max(1, len(hosts)))),
        gpus_per_node=int(own["gpus"] or _gpus_per_node(hosts, site)),
        claims=(api_version or "v1") if wish["gpus"] else None,
        nvbandwidth_image=str(own["nvbandwidth_image"] or mirrored(NVBANDWIDTH, site["registry"])),
        nccl_image=None if nccl is None else str(nccl),
        ethernet=want.get("link_layer") == "Ethernet",
        labels=class_labels(rollout, group, (site["plan"]["groups"].get(group) or {"classes": []})["classes"]),
        # of two that are as large, the first
        clique=max(
            ((name, len(cliques[name])) for name in sorted(cliques) if name), key=lambda each: each[1], default=None
        ),
    )


def _workload_problems(settings: Settings, hosts: t.Sequence[str]) -> list[str]:
    if settings.nodes <= len(hosts):
        return []
    return [
        f"group {settings.group}: {VARIABLE}.workloads.nodes is {settings.nodes}, and the group has {named('host', hosts)}: a Pod of "
        "each would wait for ever; set at most as many as there are hosts"
    ]


def _brings_mpi(wishes: t.Mapping[str, Json]) -> bool:
    return any(wish["mpi_operator"] == "install" for wish in wishes.values())


def _with_mpi(found: Request, wishes: t.Mapping[str, Json], site: Site) -> None:
    """Adds the MPI Operator where a group asks for it."""
    if not _brings_mpi(wishes):
        found["summary"].append(
            ("MPI Operator", "has to be there for nvbandwidth and nccl-tests; it is not installed by this")
        )
        return
    objects, wait, image = mpi_operator_objects(site)
    found["objects"] += objects
    found["waits"].append(wait)
    found["images"].append(image)
    found["summary"].append(("MPI Operator", f"{image.rpartition(':')[2]} in namespace {wait['namespace']}"))


def _mpi_findings(wishes: t.Mapping[str, Json], served: Served) -> tuple[list[str], list[str]]:
    """(problems, warnings) on the MPI Operator where it is the user's own."""
    if served is None or MPI_VERSION in (served.get(MPI_GROUP) or ()) or _brings_mpi(wishes):
        return [], []
    why = (
        f"the API server has no MPIJob ({MPI_GROUP}/{MPI_VERSION}), which nvbandwidth and nccl-tests run as: install the MPI Operator "
        f"({VARIABLE}.mpi_operator: install, or deploy/v2beta1/mpi-operator.yaml of its release with kubectl apply --server-side)"
    )
    insisting = [group for group, wish in wishes.items() if wish["mpi_operator"]]
    if insisting:
        return [f"{named('group', insisting)} with {VARIABLE}.mpi_operator: true: {why}"], []
    return [], [f"{why}, or leave these workloads alone"]


# --- the request ------------------------------------------------------------------------------------------------------


def _of_groups(
    found: Request,
    wishes: t.Mapping[str, Json],
    site: Site,
    release: Version,
    api_version: t.Optional[str],
    nodes: t.Optional[NodeView],
    rollout: t.Mapping[str, t.Any],
) -> None:
    """Adds what is said and made for each group."""
    slugs: dict[str, str] = {}
    for group, wish in wishes.items():
        hosts = sorted(site["groups"].get(group) or [])
        findings = node_findings(group, hosts, site, nodes, wish)
        cliques = cliques_of(hosts, site, nodes) if nodes is not None else {}
        settings = _settings(group, wish, release, site, api_version, rollout, cliques)
        workloads, warnings = group_workloads(settings, site["plan"]["groups"].get(group))
        twin = slugs.setdefault(group_slug(group), group)
        if twin != group:
            found["problems"].append(
                f"groups {twin} and {group} differ in signs only that names of objects cannot have, so their workloads would be called "
                "the same: rename one"
            )
        found["problems"] += [*findings.problems, *_workload_problems(settings, hosts)]
        found["warnings"] += [*findings.warnings, *warnings]
        found["workloads"].update(workloads)
        found["images"] += [image for image in (settings.nvbandwidth_image, settings.nccl_image) if image]
        rows = [
            (f"NVLink clique {clique or 'unknown'}", f"group {group}, {named('host', members)}")
            for clique, members in sorted(cliques.items())
        ]
        if nodes is None:
            rows.append((f"NVLink cliques of group {group}", "not known: no cluster was asked"))
        found["group_rows"][group] = rows
        found["summary"] += rows


def _with_chart(
    found: Request,
    release: Version,
    wish: Json,
    site: Site,
    hosts: t.Sequence[str],
    api_version: t.Optional[str],
    old_names: bool,
) -> None:
    """Adds the driver."""
    root, root_problems = driver_root(wish, hosts, site)
    paths, path_problems = kubelet_paths(release, hosts, site)
    values = merged(chart_values(release, wish, site, root, api_version), paths)
    if old_names:
        values["nameOverride"] = DRA_OLD_NAME
    chart = chart_of(release, wish, values)
    found["charts"].append(chart)
    found["waits"] += waits_of(release, wish, chart, len(hosts))
    found["images"].append(f"{values['image']['repository']}:{values['image']['tag']}")
    found["problems"] += [*root_problems, *path_problems]
    imex = (
        "nvidia-imex.service of the hosts"
        if wish["imex"] == "host"
        else "the DRA driver, in a Pod for each ComputeDomain"
    )
    found["summary"] += [
        ("DRA driver of NVIDIA", f"{release.text}, release {wish['release']} in namespace {wish['namespace']}"),
        ("root of the NVIDIA driver", root),
        ("GPUs by DRA", "yes" if wish["gpus"] else "no: a device plugin serves them"),
        ("IMEX", imex),
    ]


def request(
    wish: t.Mapping[str, t.Any],
    site: Site,
    *,
    installed: t.Optional[t.Mapping[str, t.Any]] = None,
    served: Served = None,
    nodes: t.Optional[NodeView] = None,
    gpu_operator: t.Optional[t.Mapping[str, t.Any]] = None,
    rollout: t.Optional[t.Mapping[str, t.Any]] = None,
) -> Request:
    """What the groups with rdma_compute_domain ask of the cluster. Nothing where no group has it.

    wish: keys of rdma_compute_domain that override those of every group. installed: {Helm release: {chart, version, namespace, values}};
    served: {API group: [versions]}; nodes: {node: {labels, kubelet}}; each None where no cluster was asked. gpu_operator: the wish
    rdma_gpu_operator, where there is one. rollout: rdma_rollout.
    """
    found = empty_request("compute_domain")
    wishes = _group_wishes(wish, site)
    if not wishes:
        return found
    first = next(iter(wishes.values()))
    release, wrong = wished_release(f"{VARIABLE}.version", first["version"], DRA_LINES, DRA_DRIVER)
    found["problems"] += [*_disagreements(wishes), *wrong, *value_problems(first["values"])]
    if release is None:
        return found
    hosts = sorted({host for group in wishes for host in site["groups"].get(group) or []})
    api_version, api_problems = api_version_of(first, served)
    problems, warnings = upgrade(release, first, installed or {})
    found["problems"] += [*api_problems, *gate_problems(release, first["feature_gates"]), *problems]
    found["problems"] += [*_host_imex_problems(release, first), *_gpu_problems(first, site, gpu_operator, served)]
    found["warnings"] += warnings
    _with_chart(found, release, first, site, hosts, api_version, keeps_old_names(release, first, installed))
    _with_mpi(found, wishes, site)
    mpi_problems, mpi_warnings = _mpi_findings(wishes, served)
    found["problems"] += mpi_problems
    found["warnings"] += mpi_warnings
    _of_groups(found, wishes, site, release, api_version, nodes, rollout or {})
    found["images"] = sorted(set(found["images"]))
    return found

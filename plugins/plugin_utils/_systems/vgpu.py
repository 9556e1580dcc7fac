# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of GPUs for Pods: Volcano, its vGPU device plugin, and HyperNodes where they are asked for. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    VGPU_PLUGIN,
    VOLCANO,
    VOLCANO_IMAGES,
    VOLCANO_LINES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import generation
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import class_slug
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import wished_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import (
    device_plugin_off,
    rolled_out,
    switched_off,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_nodes import NodeView
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import (
    Json,
    Request,
    Site,
    empty_request,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import class_label
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.hypernodes import hypernodes as hypernodes_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import halted
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored, named
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.vgpu_chart import (
    chart_of,
    upgrade_problems,
    value_problems,
    waits_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.vgpu_plugin import PluginClass, plugin_objects
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.vgpu_scheduler import scheduler_configuration

__all__ = ["request"]

# The GPU Operator starts no device plugin of its own on a node with this label.
_DEVICE_PLUGIN_LABEL = "nvidia.com/gpu.deploy.device-plugin"
_OFF = (
    f"set rdma_vgpu.stop_device_plugin: true, which labels the nodes {_DEVICE_PLUGIN_LABEL}=false, or switch it off for the whole cluster "
    "(rdma_gpu_operator.device_plugin: false)"
)
# The most memory, in GiB, that a GPU of a generation has.
_MEMORY = {
    "Maxwell": 24,
    "Pascal": 24,
    "Volta": 32,
    "Turing": 48,
    "Ampere": 80,
    "Ada": 48,
    "Hopper": 141,
    "Grace Hopper": 144,
    "Blackwell": 288,
}
# The plugin has a device for each unit of memory, of some 64 bytes in the message to the kubelet, which takes 4 MiB.
_MOST_DEVICES = 4 * 1024 * 1024 // 64


# --- nodes ------------------------------------------------------------------------------------------------------------


def _hosts_of(wish: t.Mapping[str, t.Any], site: Site) -> dict[str, list[str]]:
    return {str(group): sorted(site["groups"][group]) for group in wish["groups"] if group in site["groups"]}


def _group_problems(wish: t.Mapping[str, t.Any], site: Site) -> list[str]:
    if not wish["groups"]:
        return ["rdma_vgpu.groups names no group: name those whose GPUs Pods may share"]
    known = ", ".join(sorted(site["groups"]))
    found = [
        f"rdma_vgpu.groups names {group}, which is not one of the RDMA groups ({known}): take it out, or put it in rdma_groups"
        for group in wish["groups"]
        if group not in site["groups"]
    ]
    both = [group for group in wish["groups"] if (site["wishes"].get(group) or {}).get("rdma_compute_domain")]
    if both:
        found.append(
            f"{named('group', both)} with rdma_compute_domain and in rdma_vgpu.groups: multi-node NVLink needs whole GPUs; take it out of "
            "one of them"
        )
    return found


def _gpu_problems(hosts: t.Sequence[str], site: Site) -> list[str]:
    without = [host for host in hosts if host in site["facts"] and not _gpus(site["facts"][host])]
    unseen = [host for host in hosts if host not in site["facts"]]
    found = []
    if without:
        found.append(
            f"{named('host', without)} without a GPU of NVIDIA: take it out of rdma_vgpu.groups, or of its group"
        )
    if unseen:
        found.append(f"no facts of {named('host', unseen)}: discover them, or take them out of their group")
    return found


def _gpus(facts: t.Mapping[str, t.Any]) -> list[Json]:
    return [gpu for gpu in facts.get("gpus") or () if gpu["vendor"] == "10de"]


def _runtime_class(hosts: t.Sequence[str], site: Site) -> tuple[t.Optional[str], list[str]]:
    """(RuntimeClass that the plugin needs on some nodes, what is wrong)."""
    needs: list[str] = []
    without: list[str] = []
    for host in hosts:
        containerd = ((site["facts"].get(host) or {}).get("runtime") or {}).get("containerd")
        if containerd is None or containerd["default_handler"] == "nvidia":
            continue
        (needs if "nvidia" in containerd["handlers"] else without).append(host)
    problems = []
    if without:
        problems.append(
            f"{named('host', without)} without the runtime nvidia in containerd, by which GPUs come into containers: install the NVIDIA "
            "Container Toolkit there (nvidia-ctk runtime configure)"
        )
    return "nvidia" if needs else None, problems


def _classes(
    wish: t.Mapping[str, t.Any], site: Site, rollout: t.Mapping[str, t.Any]
) -> tuple[list[PluginClass], list[str]]:
    """(classes of nodes, by the label that the rollout of the device plugin or of DRANET sets on them; what is wrong)."""
    found: list[PluginClass] = []
    problems: list[str] = []
    stay = halted(site)
    for group in [each for each in _hosts_of(wish, site) if each not in stay]:
        plan = site["plan"]["groups"].get(group)
        classes = plan["classes"] if plan else []
        if not classes:
            why = "; ".join(plan["errors"][:1]) if plan and plan["errors"] else "the plan has no class of it"
            problems.append(f"group {group} is not planned, so its nodes have no label to select them by: {why}")
        for each in classes:
            seen = [host for host in each["hosts"] if host in site["facts"]]
            runtime_class, wrong = _runtime_class(seen, site)
            problems += wrong
            # all hosts of a class have their kubelets in one directory
            runtime = (site["facts"][seen[0]].get("runtime") or {}) if seen else {}
            root = kubelet_root(runtime.get("distribution"))
            label = class_label(rollout, group, each)
            found.append(PluginClass(class_slug(each["name"]), root, runtime_class, group, len(each["hosts"]), label))
    return found, problems


def _other_plugin(
    hosts: t.Sequence[str],
    site: Site,
    gpu_operator: t.Optional[t.Mapping[str, t.Any]],
    served: t.Optional[t.Mapping[str, t.Sequence[str]]],
    nodes: t.Optional[NodeView],
) -> tuple[list[str], list[str]]:
    """(problems, warnings) on NVIDIA's device plugin, which would give the same GPUs away a second time."""
    wishes = [gpu_operator, *(own.get("rdma_gpu_operator") for own in site["wishes"].values())]
    wish = next((each for each in wishes if each), None)
    if device_plugin_off(wish):
        return [], []
    # enabled: false brings no operator, and leaves the one that is there
    there = (wish is not None and not switched_off(wish)) or "nvidia.com" in (served or {})
    views = {host: (nodes or {}).get(site["node_names"].get(host, host), {}).get("labels") or {} for host in hosts}
    on = [host for host, labels in views.items() if labels.get(_DEVICE_PLUGIN_LABEL) != "false"]
    if there and on:
        return [
            f"{named('node', on)} with the device plugin of the GPU Operator, which gives the same GPUs away as nvidia.com/gpu: {_OFF}"
        ], []
    if not there and on and served is None:
        return [], [
            f"nobody asked the cluster whether the GPU Operator is there; its device plugin must not run on {named('node', on)}: {_OFF}"
        ]
    return [], []


def _memory_warnings(wish: t.Mapping[str, t.Any], hosts: t.Sequence[str], site: Site) -> list[str]:
    """A list of devices that the kubelet does not take: vgpu-memory of the node is 0 then."""
    factor, found = int(wish["memory_factor"]), []
    by_need: dict[int, list[str]] = {}
    for host in hosts:
        gigabytes = sum(_MEMORY.get(generation(gpu["device"]) or "", 0) for gpu in _gpus(site["facts"].get(host) or {}))
        by_need.setdefault(-(-int(gigabytes * 1024 * float(wish["memory_scaling"])) // _MOST_DEVICES), []).append(host)
    for need, own in sorted(by_need.items()):
        if need > factor:
            found.append(
                f"{named('host', own)}: with rdma_vgpu.memory_factor {factor}, the list of shares may be more than the 4 MiB that a kubelet "
                f"takes, and volcano.sh/vgpu-memory be 0; set {need} or more, which is the unit, in MiB, that Pods ask for memory in"
            )
    return found


def _workload_warnings(wish: t.Mapping[str, t.Any], site: Site) -> list[str]:
    """What a share of a GPU cannot do, for groups that are there to do it."""
    found = []
    for group in _hosts_of(wish, site):
        own, plan = site["wishes"].get(group) or {}, site["plan"]["groups"].get(group)
        gpudirect = own.get("rdma_gpudirect") or defaults_of("rdma_gpudirect")
        if gpudirect != "none":
            found.append(
                f"group {group}: GPUDirect RDMA (rdma_gpudirect: {gpudirect}) does not work with a share of a "
                "GPU: the library that keeps Pods within their share knows nothing of memory that HCAs reach"
            )
        if plan and any(plan["environment"].values()):
            found.append(
                f"group {group}: NCCL between nodes fails or crashes in Pods with a share of a GPU: run such jobs on groups outside of "
                "rdma_vgpu.groups"
            )
    return found


def _node_rows(wish: t.Mapping[str, t.Any], site: Site) -> tuple[list[Json], list[str]]:
    """(rows of the plugin's config.json, what is wrong)."""
    known = {host for hosts in _hosts_of(wish, site).values() for host in hosts}
    rows, problems = [], []
    for host, own in sorted(wish["nodes"].items()):
        if host not in known:
            problems.append(
                f"rdma_vgpu.nodes names {host}, which is not a host of {', '.join(map(str, wish['groups']))}: take it out"
            )
        rows.append(
            {
                "name": site["node_names"].get(host, host),
                "operatingmode": "hami-core",
                "migstrategy": "none",
                "devicesplitcount": int(own.get("split", wish["split"])),
                "devicememoryscaling": own.get("memory_scaling", wish["memory_scaling"]),
                "devicecorescaling": own.get("cores_scaling", wish["cores_scaling"]),
                "filterdevices": {
                    "uuid": list(own.get("ignore_uuids") or []),
                    "index": [int(each) for each in own.get("ignore") or []],
                },
            }
        )
    return rows, problems


# --- the request ------------------------------------------------------------------------------------------------------


def _with_volcano(found: Request, wish: Json, site: Site, installed: t.Mapping[str, t.Any]) -> None:
    release, wrong = wished_release("rdma_vgpu.version (Volcano)", wish["version"], VOLCANO_LINES, VOLCANO)
    topology = bool(wish["hypernodes"])
    text, problems = scheduler_configuration(wish["scheduler"], wish["policy"], wish["arguments"], topology)
    found["problems"] += [*wrong, *problems, *value_problems(wish["values"])]
    if release is None:
        return
    found["problems"] += upgrade_problems(release, wish, installed)
    if len(site["pull_secrets"]) > 1:
        found["warnings"].append(
            f"Volcano's chart takes one pull secret, and gets {site['pull_secrets'][0]}: the other registries' images have to be pullable "
            "without"
        )
    chart = chart_of(release, wish, site, text)
    found["charts"].append(chart)
    found["waits"] += waits_of(chart)
    found["images"] += [f"{mirrored(image, site['registry'])}:v{release.text}" for image in VOLCANO_IMAGES]
    found["summary"] += [
        ("Volcano", f"{release.text}, release {wish['release']} in namespace {wish['namespace']}"),
        ("shares of GPUs", f"{wish['policy']}, {wish['split']} a GPU, memory in units of {wish['memory_factor']} MiB"),
    ]


def _with_plugin(found: Request, wish: Json, site: Site, rollout: t.Mapping[str, t.Any]) -> None:
    classes, problems = _classes(wish, site, rollout)
    rows, row_problems = _node_rows(wish, site)
    found["problems"] += list(dict.fromkeys([*problems, *row_problems]))
    image = mirrored(VGPU_PLUGIN, site["registry"])
    objects = plugin_objects(classes, image, wish, rows, site["pull_secrets"])
    found["objects"] += objects
    found["images"].append(image)
    daemon_sets = [item["metadata"] for item in objects if item["kind"] == "DaemonSet"]
    for metadata, each in zip(daemon_sets, classes, strict=True):
        found["waits"].append(rolled_out("DaemonSet", metadata["namespace"], metadata["name"], each.nodes))
    if any(each.runtime_class for each in classes):
        found["warnings"].append(
            "containerd's default runtime is not nvidia on some nodes: Pods with a share of a GPU, and the plugin itself, need "
            "runtimeClassName: nvidia, and the RuntimeClass nvidia has to be there (the GPU Operator brings it)"
        )
    groups = ", ".join(map(str, wish["groups"]))
    found["summary"].append(
        ("nodes with shares of GPUs", f"{groups} ({sum(map(len, _hosts_of(wish, site).values()))} hosts)")
    )


def request(
    wish: t.Mapping[str, t.Any],
    site: Site,
    *,
    installed: t.Optional[t.Mapping[str, t.Any]] = None,
    served: t.Optional[t.Mapping[str, t.Sequence[str]]] = None,
    nodes: t.Optional[NodeView] = None,
    gpu_operator: t.Optional[t.Mapping[str, t.Any]] = None,
    hypernodes: t.Optional[t.Sequence[Json]] = None,
    rollout: t.Optional[t.Mapping[str, t.Any]] = None,
) -> Request:
    """What rdma_vgpu asks of the cluster; nothing with an empty wish.

    installed: {Helm release: {chart, version, namespace, values}}; served: {API group: [versions]}; nodes: {node: {labels, kubelet}};
    hypernodes: HyperNodes of ours; each None where no cluster was asked. gpu_operator: the wish rdma_gpu_operator, where there is one.
    rollout: rdma_rollout.
    """
    found = empty_request("vgpu")
    if not wish:
        return found
    full = {**defaults_of("rdma_vgpu"), **wish}
    stay = halted(site)
    hosts = sorted({host for group, own in _hosts_of(full, site).items() if group not in stay for host in own})
    found["warnings"] += [
        f"group {group}: shares of its GPUs stay as they are, since the group does: {stay[group]}"
        for group in _hosts_of(full, site)
        if group in stay
    ]
    found["problems"] += [*_group_problems(full, site), *_gpu_problems(hosts, site)]
    _with_volcano(found, full, site, installed or {})
    _with_plugin(found, full, site, rollout or {})
    if full["stop_device_plugin"]:
        found["node_labels"] = {site["node_names"].get(host, host): {_DEVICE_PLUGIN_LABEL: "false"} for host in hosts}
    else:
        problems, warnings = _other_plugin(hosts, site, gpu_operator, served, nodes)
        found["problems"] += problems
        found["warnings"] += warnings
    found["warnings"] += [*_workload_warnings(full, site), *_memory_warnings(full, hosts, site)]
    if full["hypernodes"]:
        objects, topology_warnings = hypernodes_of(site, nodes, hypernodes)
        found["objects"] += objects
        found["warnings"] += topology_warnings
        found["summary"].append(("HyperNodes", f"{len(objects)}, in the tiers rails, group and fabric"))
    return found

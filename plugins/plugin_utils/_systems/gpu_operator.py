# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's GPU Operator as a system of the cluster side: what its Helm release is asked for, and what rules it out. Private. Pure.

Follows the chart of the release lines from 24.9 to 26.7. The one ClusterPolicy is always that of the chart: one that somebody writes by
hand has to be whole, and a part of one would take the rest of the operator's components away.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import CHARTS, GPU_LINES, GPU_OPERATOR
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots, nearest
from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import is_true
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of, engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import value_at
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, parsed, wished_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import (
    chart_place,
    owned,
    rolled_out,
    switched_off,
    unknown_group,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import (
    Json,
    Request,
    Site,
    Wait,
    empty_request,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator_chart import chart_images, chart_values
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator_hosts import (
    VARIABLE,
    DriverPlan,
    Host,
    driver_plan,
    gpu_hosts,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator_toolkit import toolkit_env

__all__ = ["request"]

_NAMESPACE = _RELEASE = "gpu-operator"
_CDI_DEFAULT, _NRI = (25, 10), (26, 3)

# What a wish stands for, by value of the chart.
_OWNED = {
    "cdi": f"set {VARIABLE}.cdi and .nri instead, which are checked against the release and containerd",
    "clusterPolicy": "take it out: the ClusterPolicy is that of the chart, whole or not at all",
    "devicePlugin.enabled": f"set {VARIABLE}.device_plugin instead, which other systems look at",
    "driver.enabled": f"set {VARIABLE}.driver.enabled instead, which is checked against the hosts",
    "driver.kernelModuleType": f"set {VARIABLE}.kernel_module_type instead, which is checked against the GPUs",
    "driver.nvidiaDriverCRD": "take it out: NVIDIADriver objects have other settings than those that are checked against the hosts",
    "driver.rdma": f"set {VARIABLE}.rdma and .use_host_mofed instead, which are checked against the hosts",
    "driver.upgradePolicy.autoUpgrade": f"set {VARIABLE}.driver.auto_upgrade instead",
    "driver.usePrecompiled": f"set {VARIABLE}.driver.precompiled instead, which is checked against gds and gdrcopy",
    "driver.useOpenKernelModules": f"set {VARIABLE}.kernel_module_type instead, which is checked against the GPUs",
    "driver.version": f"set {VARIABLE}.driver.version instead",
    "gdrcopy.enabled": f"set {VARIABLE}.gdrcopy instead",
    "gds.enabled": f"set {VARIABLE}.gds instead, which is checked against the kernel modules",
    "gpuCluster": "take it out: GPUCluster is a technology preview without a way to and from a ClusterPolicy",
    "nfd.enabled": f"set {VARIABLE}.nfd instead; a cluster has one Node Feature Discovery",
    "toolkit.enabled": f"set {VARIABLE}.toolkit.enabled instead",
    "toolkit.env": f"set {VARIABLE}.toolkit.env instead ({{name: value}}), to which what containerd needs is added",
}
_SECTIONS = (
    "ccManager cdi daemonsets dcgm dcgmExporter devicePlugin driver gdrcopy gds gfd global hostPaths kataManager mig migManager nfd "
    "node-feature-discovery nodeStatusExporter operator platform psa sandboxDevicePlugin sandboxWorkloads toolkit validator vfioManager "
    "vgpuDeviceManager vgpuManager"
)
_SINCE = {
    "extraObjects": (26, 3),
    "kataSandboxDevicePlugin": (26, 3),
    "draDriver": (26, 7),
    "clusterPolicy": (26, 7),
    "gpuCluster": (26, 7),
}
_GONE = {"operator.defaultRuntime": (25, 3), "cdi.default": (25, 10), "operator.initContainer": (26, 3), "psp": (24, 9)}


# --- releases and values ----------------------------------------------------------------------------------------------


def _from(installed: t.Mapping[str, Json], release: Version) -> tuple[t.Optional[Version], list[str], list[str]]:
    """(the release that is there, problems, warnings)."""
    found = installed.get(_RELEASE)
    if not found:
        return None, [], []
    there = parsed(found.get("version"))
    if there is None:
        return (
            None,
            [
                f"Helm release {_RELEASE} has version {found.get('version')!s:.40}, which is not a complete release: nobody can tell whether "
                f"v{release.text} is newer; upgrade it by hand first"
            ],
            [],
        )
    if (there.line, there.patch) > (release.line, release.patch):
        return (
            there,
            [
                f"GPU Operator v{there.text} is installed and {VARIABLE}.version is v{release.text}, which is older: its definitions do not go back; set "
                f"v{there.text} or newer, or uninstall it first"
            ],
            [],
        )
    warnings = []
    if there.line < _CDI_DEFAULT <= release.line:
        warnings.append(
            "from 25.10 on GPUs come to Pods by CDI, and nvidia is no longer the default runtime: Pods that saw GPUs without asking "
            f"for them see none then; {VARIABLE}.cdi: false keeps it as it was"
        )
    return there, [], warnings


def _value_problems(release: Version, values: t.Mapping[t.Any, t.Any]) -> list[str]:
    """What the chart of the release does not have; Helm would ignore it."""
    where, found = f"{VARIABLE}.values", []
    known = {*_SECTIONS.split(), *(name for name, line in _SINCE.items() if release.line >= line)}
    for name, value in values.items():
        if str(name) in _SINCE and release.line < _SINCE[str(name)]:
            found.append(f"{where}.{name}: came with GPU Operator {in_dots(_SINCE[str(name)])}; take it out")
        elif str(name) not in known and str(name) not in _GONE:
            found.append(
                f"{where}.{name}: the chart of GPU Operator v{release.text} has no such value, and would ignore it{nearest(str(name), known)}"
            )
        elif str(name) != "extraObjects" and not isinstance(value, t.Mapping) and str(name) in known:
            found.append(f"{where}.{name} is of type {type(value).__name__}; expected a dictionary")
    for path, line in _GONE.items():
        if value_at(values, path) is not None and release.line >= line:
            found.append(
                f"{where}.{path}: the chart no longer has it since {in_dots(line)}, and would ignore it; take it out"
            )
    return found


def _checked(release: Version, wish: Json) -> list[str]:
    """What of the wish does not go together, or not with the release."""
    found = owned(f"{VARIABLE}.values", wish["values"], _OWNED)
    found += [
        each
        for each in _value_problems(release, wish["values"])
        if not any(each.partition(":")[0] == one.partition(":")[0] for one in found)
    ]
    toolkit = wish["toolkit"]["enabled"]
    if wish["nri"] and release.line < _NRI:
        found.append(
            f"{VARIABLE}.nri came with GPU Operator 26.3, and version is v{release.text}: set nri: false, or a newer version"
        )
    elif wish["nri"] and wish["cdi"] is False:
        found.append(f"{VARIABLE}.nri needs CDI, and cdi is false: set cdi: true, or nri: false")
    elif wish["nri"] and not toolkit:
        found.append(f"{VARIABLE}.nri is the toolkit's, and toolkit.enabled is false: change one of them")
    return found


def _rollout_problems(wish: Json, rollout: t.Mapping[str, t.Any]) -> list[str]:
    """Two that bring Node Feature Discovery."""
    helm = {**engine_defaults("network_operator")["helm"], **(rollout.get("helm") or {})}
    network = rollout.get("engine") == "network_operator" and is_true(helm["install"])
    if wish["nfd"] and network and is_true(helm["nfd"]):
        return [
            f"the Network Operator's chart brings Node Feature Discovery (rdma_rollout.helm.nfd), and so does that of the GPU Operator ({VARIABLE}.nfd): "
            "a cluster has one; set rdma_rollout.helm.nfd: false, since the GPU Operator's also looks at network cards"
        ]
    return []


# --- the request ------------------------------------------------------------------------------------------------------


def request(
    wish: t.Any,
    site: Site,
    installed: t.Optional[t.Mapping[str, Json]] = None,
    rollout: t.Optional[t.Mapping[str, t.Any]] = None,
) -> Request:
    """What the GPU Operator asks of the cluster.

    wish: rdma_gpu_operator, as the table of wishes lets it through. installed: Helm releases of the cluster, None where nobody has looked.
    rollout: rdma_rollout, since the Network Operator may bring OFED and Node Feature Discovery, too. All problems at once; with
    problems, there is nothing to do.
    """
    found = empty_request("gpu_operator")
    given: Json = {**defaults_of(VARIABLE), **(wish or {})}
    for part in ("driver", "toolkit"):
        given[part] = {**defaults_of(VARIABLE, part), **(given[part] or {})}
    if not given["enabled"]:
        found["summary"] = [("GPU Operator", "not asked for")]
        return found
    release, wrong = wished_release(f"{VARIABLE}.version", given["version"], GPU_LINES, GPU_OPERATOR)
    found["problems"] += wrong
    if release is None:
        return found
    there, wrong, careful = _from(installed or {}, release)
    found["problems"] += [*_checked(release, given), *wrong, *_rollout_problems(given, rollout or {})]
    found["warnings"] += careful
    groups = sorted(site["groups"]) if given["groups"] is None else list(given["groups"])
    found["problems"] += [unknown_group(VARIABLE, name, site) for name in groups if name not in site["groups"]]
    groups = [name for name in groups if name in site["groups"]]
    hosts, wrong = gpu_hosts(site, groups)
    found["problems"] += wrong
    ofed = (rollout.get("ofed_driver") or {}) if rollout and rollout.get("engine") == "network_operator" else {}
    plan = driver_plan(release, given, hosts, bool(ofed) and not switched_off(ofed))
    found["problems"] += plan.problems
    found["warnings"] += plan.warnings
    env: dict[str, str] = {}
    if given["toolkit"]["enabled"]:
        env, wrong, careful = toolkit_env(release, given, site, [host.name for host in hosts], groups)
        found["problems"] += wrong
        found["warnings"] += careful
    if not hosts and not found["problems"]:
        found["warnings"].append(
            f"no host of {', '.join(groups) or 'any group'} has an NVIDIA GPU: the operator would have nothing to do there"
        )
    kernels = sorted({host.release for host in plan.brought} - {""})
    _add_chart(found, given, site, release, chart_values(release, given, site, plan, env), kernels)
    found["summary"] = _summary(release, there, hosts, plan, env, given)
    return found


def _add_chart(
    found: Request, wish: Json, site: Site, release: Version, values: Json, kernels: t.Sequence[str]
) -> None:
    chart, repository = chart_place(wish, "gpu-operator", CHARTS)
    found["charts"] = [
        {
            "release": _RELEASE,
            "namespace": _NAMESPACE,
            "chart": chart,
            "repository": repository,
            # of the chart, too, it has a v
            "version": f"v{release.text}",
            "values": values,
            "privileged": True,
        }
    ]
    policy: Wait = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "namespace": None,
        "name": "cluster-policy",
        "path": "status.state",
        "value": "ready",
    }
    found["waits"] = [rolled_out("Deployment", _NAMESPACE, "gpu-operator"), policy]
    found["images"], careful = chart_images(release, wish, site, values, kernels)
    found["warnings"] += careful


def _summary(
    release: Version,
    there: t.Optional[Version],
    hosts: t.Sequence[Host],
    plan: DriverPlan,
    env: t.Mapping[str, str],
    wish: Json,
) -> list[tuple[str, str]]:
    what = f"v{release.text} in {_NAMESPACE}"
    if there and there != release:
        what = f"from v{there.text} to {what}"
    own = len(hosts) - len(plan.brought)
    where = f"of {len(plan.brought)} hosts, {plan.module_type} kernel modules" if plan.enabled else "none"
    way = (
        "nvidia_peermem"
        if plan.rdma
        else "DMA-BUF"
        if any(host.way == "dmabuf" for host in plan.brought)
        else "left to the hosts"
    )
    if plan.rdma:
        way += ", OFED on the hosts" if plan.host_mofed else ", OFED in a container"
    # values of a user, such as the address of a proxy, may have passwords in them
    given = set(map(str, wish["toolkit"]["env"] or {}))
    toolkit = (
        "NRI, no file of containerd is edited"
        if wish["nri"]
        else ", ".join(f"{name} as given" if name in given else f"{name}={env[name]}" for name in sorted(env))
    )
    return [
        ("GPU Operator", what),
        ("NVIDIA driver", f"{where}; {own} with one of their own" if own else where),
        ("GPUDirect RDMA", way),
        ("container toolkit", toolkit or ("as it is by default" if wish["toolkit"]["enabled"] else "off")),
        ("Node Feature Discovery", "brought by it" if wish["nfd"] else "brought by somebody else"),
    ]

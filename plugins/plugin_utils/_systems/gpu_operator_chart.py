# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the GPU Operator's chart, and the images that it pulls. Private. Pure.

Follows values.yaml and templates/clusterpolicy.yaml of the chart, release line by release line.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GPU_LINES, NFD_IMAGE
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import value_at
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import merged
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator_hosts import VARIABLE, DriverPlan
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored

__all__ = ["chart_images", "chart_values"]

_MODULE_TYPE, _VALIDATOR_MOVED, _NRI = (25, 3), (25, 10), (26, 3)

# Of nvcr.io, by component; gpu-operator itself brings the validator since 25.10.
_IMAGES = {
    "operator": "nvidia/gpu-operator",
    "operator.initContainer": "nvidia/cuda",
    "driver": "nvidia/driver",
    "driver.manager": "nvidia/cloud-native/k8s-driver-manager",
    "toolkit": "nvidia/k8s/container-toolkit",
    "devicePlugin": "nvidia/k8s-device-plugin",
    "gfd": "nvidia/k8s-device-plugin",
    "dcgm": "nvidia/cloud-native/dcgm",
    "dcgmExporter": "nvidia/k8s/dcgm-exporter",
    "migManager": "nvidia/cloud-native/k8s-mig-manager",
    "gds": "nvidia/cloud-native/nvidia-fs",
    "gdrcopy": "nvidia/cloud-native/gdrdrv",
}
_REGISTRY = "nvcr.io"
# What they are switched on with, where they are not always there; True: without a word.
_SWITCHES = {
    "driver": True,
    "driver.manager": True,
    "toolkit": True,
    "devicePlugin": True,
    "gfd": True,
    "dcgm": False,
    "dcgmExporter": True,
    "migManager": True,
    "gds": False,
    "gdrcopy": False,
}


def _driver_values(release: Version, wish: Json, plan: DriverPlan) -> Json:
    driver: Json = {"enabled": plan.enabled, "rdma": {"enabled": plan.rdma}}
    if plan.rdma:
        driver["rdma"]["useHostMofed"] = plan.host_mofed
    if release.line >= _MODULE_TYPE:
        driver["kernelModuleType"] = plan.module_type
    else:
        driver["useOpenKernelModules"] = plan.module_type == "open"
    given = wish["driver"]
    # a changed value restarts the driver's Pods, and with them all that uses GPUs
    driver["upgradePolicy"] = {"autoUpgrade": bool(given["auto_upgrade"])}
    if given["max_parallel_upgrades"] is not None:
        driver["upgradePolicy"]["maxParallelUpgrades"] = int(given["max_parallel_upgrades"])
    if given["version"] is not None:
        driver["version"] = str(given["version"])
    if given["precompiled"]:
        driver["usePrecompiled"] = True
    return driver


def _place(component: str, release: Version) -> str:
    if component == "validator":
        return (
            "nvidia/gpu-operator" if release.line >= _VALIDATOR_MOVED else "nvidia/cloud-native/gpu-operator-validator"
        )
    return _IMAGES[component]


def _components(release: Version) -> list[str]:
    line = GPU_LINES[release.line]
    return [*line.tags, "nodeStatusExporter"]


def _mirror_values(release: Version, site: Site) -> Json:
    """Repositories and pull secrets of all components, and of the chart of Node Feature Discovery."""
    registry, secrets = site["registry"], list(site["pull_secrets"])
    values: Json = {}
    for component in _components(release):
        section: Json = {}
        if registry:
            path = _place("validator" if component == "nodeStatusExporter" else component, release)
            section["repository"] = mirrored(f"{_REGISTRY}/{path}", registry).rpartition("/")[0]
        if secrets and "." not in component:
            section["imagePullSecrets"] = secrets
        if section:
            for part in reversed(component.split(".")):
                section = {part: section}
            values = merged(values, section)
    discovery: Json = {}
    if registry:
        discovery["image"] = {"repository": mirrored(NFD_IMAGE, registry)}
    if secrets:
        discovery["imagePullSecrets"] = [{"name": name} for name in secrets]
    return merged(values, {"node-feature-discovery": discovery}) if discovery else values


def chart_values(release: Version, wish: Json, site: Site, plan: DriverPlan, env: t.Mapping[str, str]) -> Json:
    values: Json = {
        "nfd": {"enabled": wish["nfd"]},
        "driver": _driver_values(release, wish, plan),
        "toolkit": {"enabled": wish["toolkit"]["enabled"]},
        "devicePlugin": {"enabled": wish["device_plugin"]},
        "gds": {"enabled": wish["gds"]},
        "gdrcopy": {"enabled": wish["gdrcopy"]},
    }
    if env:
        values["toolkit"]["env"] = [{"name": name, "value": env[name]} for name in sorted(env)]
    if wish["cdi"] is not None or wish["nri"]:
        values["cdi"] = {"enabled": wish["cdi"] is not False}
        if release.line >= _NRI:
            values["cdi"]["nriPluginEnabled"] = wish["nri"]
    if release.line < _MODULE_TYPE:
        # its default is docker
        values["operator"] = {"defaultRuntime": "containerd"}
    if wish["mig_strategy"] is not None:
        values["mig"] = {"strategy": wish["mig_strategy"]}
    if wish["tolerations"]:
        tolerations = [dict(each) for each in wish["tolerations"]]
        values["daemonsets"] = {"tolerations": tolerations}
        if wish["nfd"]:
            values["node-feature-discovery"] = {"worker": {"tolerations": tolerations}}
    return merged(merged(values, _mirror_values(release, site)), wish["values"])


def chart_images(
    release: Version, wish: Json, site: Site, values: Json, kernels: t.Sequence[str]
) -> tuple[list[str], list[str]]:
    """(images, warnings). kernels: of the hosts whose driver the operator brings."""
    line = GPU_LINES[release.line]
    found: set[str] = set()
    warnings = []
    for component, tag in line.tags.items():
        switch = component.partition(".")[0]
        on = value_at(values, f"{switch}.enabled")
        if not (_SWITCHES.get(component, True) if on is None else on):
            continue
        tags = [str(value_at(values, f"{component}.version") or tag or f"v{release.text}")]
        if component == "driver" and wish["driver"]["precompiled"]:
            # one for each kernel (controllers/object_controls.go, resolveDriverTag())
            tags = [f"{tags[0]}-{kernel}" for kernel in kernels] or tags
        if component in ("driver", "gds", "gdrcopy"):
            # the operator adds what /etc/os-release of the node says
            tags = [f"{tag}-{name}" for tag in tags for name in wish["driver"]["distributions"]] or tags
        found |= {mirrored(f"{_REGISTRY}/{_place(component, release)}:{each}", site["registry"]) for each in tags}
    if value_at(values, "driver.enabled") and not wish["driver"]["distributions"]:
        warnings.append(
            "tags of the driver's image end with the distribution of each node, which the list of images does not know: name those that there are "
            f"in {VARIABLE}.driver.distributions (such as [ubuntu24.04]) before you fill a mirror"
        )
    if value_at(values, "sandboxWorkloads.enabled"):
        warnings.append(
            "images of sandbox workloads (values.sandboxWorkloads) are not in the list of images: take them from `helm show values` before you fill a mirror"
        )
    if wish["nfd"]:
        found.add(mirrored(f"{NFD_IMAGE}:{line.nfd}", site["registry"]))
    if line.release != f"v{release.text}":
        warnings.append(
            f"tags in the list of images are those of GPU Operator {line.release}; the chart of v{release.text} may pull other ones (`helm show values`): "
            "look there before you fill a mirror"
        )
    return sorted(found), warnings

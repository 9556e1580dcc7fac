# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's DRA driver as a Helm release: which releases there are, what each takes, what comes after what. Private. Pure.

Follows the chart of each release line (values.yaml, templates/validation.yaml, pkg/featuregates) and the driver's documentation of
upgrades. wish: that of rdma_compute_domain with all keys.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DRA_LINES, DRA_OLD_NAME
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import KUBELET_ROOT, kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import merged
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, parsed
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import rolled_out
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart, Json, Site, Wait
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import API_GROUP
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored, named

__all__ = [
    "DNS_NAMES",
    "VARIABLE",
    "api_version_of",
    "chart_of",
    "chart_values",
    "driver_root",
    "gate_problems",
    "keeps_old_names",
    "kubelet_paths",
    "upgrade",
    "value_problems",
    "waits_of",
]

VARIABLE = "rdma_compute_domain"
_API_VERSIONS = ("v1", "v1beta2", "v1beta1")
_ROOTS = {True: "/run/nvidia/driver", False: "/"}

_ORDER = list(DRA_LINES)
_GATES_SINCE, _PINNED_API_SINCE, _KUBELET_PATHS_SINCE = (25, 8), (25, 12), (25, 8)
DNS_NAMES = "IMEXDaemonsWithDNSNames"
# By the line that brought it, and whether it is on by default (pkg/featuregates/featuregates.go); the first row is of k8s.io/component-base.
_GATES: dict[str, tuple[tuple[int, int], bool]] = {
    **dict.fromkeys(("ContextualLogging", "LoggingBetaOptions", DNS_NAMES), ((25, 8), True)),
    **dict.fromkeys(("LoggingAlphaOptions", "MPSSupport", "TimeSlicingSettings"), ((25, 8), False)),
    **dict.fromkeys(("DynamicMIG", "NVMLDeviceHealthCheck", "PassthroughSupport"), ((25, 12), False)),
    **dict.fromkeys(("ComputeDomainCliques", "CrashOnNVLinkFabricErrors"), ((25, 12), True)),
    "DeviceMetadata": ((0, 4), False),
    **dict.fromkeys(
        ("ConsumableShares", "DRAListTypeAttributes", "FabricManagerPartitioning", "HostManagedIMEXDaemon"),
        ((0, 5), False),
    ),
}
_NEEDED_GATES = (("ComputeDomainCliques", DNS_NAMES), ("DeviceMetadata", "PassthroughSupport"))
_EXCLUSIVE_GATES = (
    ("DynamicMIG", "PassthroughSupport"),
    ("DynamicMIG", "NVMLDeviceHealthCheck"),
    ("DynamicMIG", "MPSSupport"),
    ("PassthroughSupport", "NVMLDeviceHealthCheck"),
)


def _since(line: tuple[int, int], first: tuple[int, int]) -> bool:
    return _ORDER.index(line) >= _ORDER.index(first)


# --- the release that is there ----------------------------------------------------------------------------------------


def _is_driver(found: t.Mapping[str, t.Any]) -> bool:
    return any(line.chart.rpartition("/")[2] == found.get("chart") for line in DRA_LINES.values())


def upgrade(
    release: Version, wish: t.Mapping[str, t.Any], installed: t.Mapping[str, t.Any]
) -> tuple[list[str], list[str]]:
    """(problems, warnings) of getting from what is installed to what is wanted."""
    problems, warnings = [], []
    for name, found in sorted(installed.items()):
        if _is_driver(found) and (name, found.get("namespace", wish["namespace"])) != (
            wish["release"],
            wish["namespace"],
        ):
            problems.append(
                f"the DRA driver is installed as release {name} in namespace {found.get('namespace')}, and a cluster has one: set "
                f"{VARIABLE}.release and .namespace to these, or uninstall that release"
            )
    there = installed.get(wish["release"])
    old = parsed(there.get("version")) if there else None
    if there and (old is None or old.line not in DRA_LINES):
        problems.append(
            f"Helm release {wish['release']} has version {there.get('version')}, which is not known here: nobody can tell whether "
            f"{release.text} is newer; upgrade it by hand, or choose another release name"
        )
    elif old and (_ORDER.index(old.line), old.patch) > (_ORDER.index(release.line), release.patch):
        problems.append(
            f"the DRA driver is {old.text} and {VARIABLE}.version is {release.text}, which is older: its checkpoints on the nodes "
            f"cannot go back; set version to {old.text} or newer (0.4 follows 25.12)"
        )
    elif old and old.line != release.line:
        warnings.append(
            f"the DRA driver goes from {old.text} to {release.text}: Helm leaves the definitions of the chart as they are, so apply "
            f"those of {release.text} first (helm show crds)"
        )
    return problems, warnings


def keeps_old_names(
    release: Version, wish: t.Mapping[str, t.Any], installed: t.Optional[t.Mapping[str, t.Any]]
) -> bool:
    """Whether objects go on being called after the chart's old name, which it lost with 0.4.

    A release that has begun before 0.4 keeps the names for ever: under others, a second set of Pods would take the place of the
    first. Where nobody knows what is there, the old names are the ones that harm nobody.
    """
    if DRA_LINES[release.line].chart == DRA_OLD_NAME:
        return False
    if installed is None:
        return True
    there = installed.get(wish["release"]) or {}
    return there.get("chart") == DRA_OLD_NAME or (there.get("values") or {}).get("nameOverride") == DRA_OLD_NAME


# --- the chart --------------------------------------------------------------------------------------------------------


def api_version_of(
    wish: t.Mapping[str, t.Any], served: t.Optional[t.Mapping[str, t.Sequence[str]]]
) -> tuple[t.Optional[str], list[str]]:
    """(version of resource.k8s.io to use, what is wrong). None: nobody asked the server, and the chart will."""
    wished = None if wish["api_version"] == "auto" else str(wish["api_version"])
    if served is None:
        return wished, []
    offered = [version for version in _API_VERSIONS if version in (served.get(API_GROUP) or ())]
    if not offered:
        return None, [
            f"the API server has no {API_GROUP}, without which there is no DRA: upgrade to Kubernetes 1.34, or on 1.32 and 1.33 set the "
            f"feature gate DynamicResourceAllocation everywhere and --runtime-config={API_GROUP}/v1beta1=true"
        ]
    if wished and wished not in offered:
        return None, [f"{VARIABLE}.api_version is {wished}, and the API server has {', '.join(offered)}: set auto"]
    return wished or offered[0], []


def gate_problems(release: Version, given: t.Mapping[str, bool]) -> list[str]:
    known = {name: on for name, (since, on) in _GATES.items() if _since(release.line, since)}
    if given and not _since(release.line, _GATES_SINCE):
        return [
            f"{VARIABLE}.feature_gates: the DRA driver {release.text} has none: take them out, or choose 25.8 or newer"
        ]
    found = [
        f"{VARIABLE}.feature_gates: the DRA driver {release.text} has no gate {name}; it knows {', '.join(sorted(known))}{nearest(name, known)}"
        for name in sorted(set(given) - set(known))
    ]
    on = {**known, **given}
    found += [
        f"{VARIABLE}.feature_gates: {name} needs {needed}: switch {needed} on, or {name} off"
        for name, needed in _NEEDED_GATES
        if on.get(name) and not on.get(needed)
    ]
    return found + [
        f"{VARIABLE}.feature_gates: {one} and {other} exclude each other: switch one of them off"
        for one, other in _EXCLUSIVE_GATES
        if on.get(one) and on.get(other)
    ]


def driver_root(wish: t.Mapping[str, t.Any], hosts: t.Sequence[str], site: Site) -> tuple[str, list[str]]:
    """(where the driver's files are on all nodes, what is wrong)."""
    by_way: dict[bool, list[str]] = {}
    for host in hosts:
        nvidia = site["facts"].get(host, {}).get("nvidia")
        if nvidia is not None:
            by_way.setdefault(bool(nvidia["operator"]), []).append(host)
    given = str(wish["driver_root"])
    root = _ROOTS[True in by_way and False not in by_way] if given == "auto" else given
    if not root.startswith("/"):
        return root, [f"{VARIABLE}.driver_root is {given!r}; expected auto, or a directory such as /run/nvidia/driver"]
    if given == "auto" and len(by_way) > 1:
        return root, [
            f"{named('host', by_way[True])} with the driver of the GPU Operator ({_ROOTS[True]}) and {named('host', by_way[False])} with "
            "its own (/): the chart has one nvidiaDriverRoot for all nodes; install the driver in one way everywhere"
        ]
    wrong = [host for way, own in by_way.items() if _ROOTS[way] != root for host in own]
    if given in _ROOTS.values() and wrong:
        return root, [
            f"{VARIABLE}.driver_root is {given}, and {named('host', wrong)} with the driver in {_ROOTS[not given.startswith('/run')]}: set auto"
        ]
    return root, []


def kubelet_paths(release: Version, hosts: t.Sequence[str], site: Site) -> tuple[Json, list[str]]:
    """(values for kubelets in another directory, what is wrong)."""
    by_root: dict[str, list[str]] = {}
    for host in hosts:
        runtime = site["facts"].get(host, {}).get("runtime")
        if runtime:
            by_root.setdefault(kubelet_root(runtime.get("distribution")), []).append(host)
    if len(by_root) > 1:
        words = "; ".join(f"{root}: {named('host', own)}" for root, own in sorted(by_root.items()))
        return {}, [
            f"kubelets in several directories ({words}), and the chart has one for all nodes: use one distribution for these groups"
        ]
    root = next(iter(by_root), KUBELET_ROOT)
    if root == KUBELET_ROOT:
        return {}, []
    if not _since(release.line, _KUBELET_PATHS_SINCE):
        return {}, [
            f"the kubelets are in {root}, which the DRA driver {release.text} cannot be told: choose 25.8 or newer"
        ]
    paths = {
        "kubeletRegistrarDirectoryPath": f"{root}/plugins_registry",
        "kubeletPluginsDirectoryPath": f"{root}/plugins",
    }
    return {"kubeletPlugin": paths}, []


# Values that wishes decide, after checks that a value of the user would go round.
_DECIDED = {
    "featureGates": "feature_gates",
    "gpuResourcesEnabledOverride": "gpus",
    "image": "version (a mirror is one for all images)",
    "namespaceOverride": "namespace",
    "nvidiaDriverRoot": "driver_root",
    "resourceApiVersion": "api_version",
    "resources": "gpus and imex",
}


def value_problems(values: t.Mapping[str, t.Any]) -> list[str]:
    return [
        f"{VARIABLE}.values has {key}, which {VARIABLE} decides: take it out, and set {wish}"
        for key, wish in _DECIDED.items()
        if key in values
    ]


def chart_values(
    release: Version, wish: t.Mapping[str, t.Any], site: Site, root: str, api_version: t.Optional[str]
) -> Json:
    image = mirrored(DRA_LINES[release.line].image, site["registry"])
    values: Json = {"nvidiaDriverRoot": root, "image": {"repository": image, "tag": f"v{release.text}"}}
    # the chart refuses GPUs without the second word, since a device plugin may serve the same
    values["resources"] = {"gpus": {"enabled": wish["gpus"]}, "computeDomains": {"enabled": True}}
    if wish["gpus"]:
        values["gpuResourcesEnabledOverride"] = True
    if site["pull_secrets"]:
        values["imagePullSecrets"] = [{"name": name} for name in site["pull_secrets"]]
    gates = dict(wish["feature_gates"])
    if wish["imex"] == "host":
        gates["HostManagedIMEXDaemon"] = True
        values["resources"]["computeDomains"]["imex"] = {"mode": "hostManaged"}
    if gates:
        values["featureGates"] = gates
    if api_version and _since(release.line, _PINNED_API_SINCE):
        values["resourceApiVersion"] = f"{API_GROUP}/{api_version}"
    return values


def chart_of(release: Version, wish: t.Mapping[str, t.Any], values: Json) -> Chart:
    line = DRA_LINES[release.line]
    return {
        "release": wish["release"],
        "namespace": wish["namespace"],
        "chart": line.chart,
        "repository": line.repository,
        "version": release.text,
        "values": merged(values, wish["values"]),
        "privileged": True,
    }


def waits_of(release: Version, wish: t.Mapping[str, t.Any], chart: Chart, nodes: int) -> list[Wait]:
    """The controller, and the Pods on the nodes. nodes: how many the groups have that want the driver; values may select others."""
    own = wish["values"].get("kubeletPlugin")
    selected = isinstance(own, t.Mapping) and bool({"affinity", "nodeSelector"} & own.keys())
    name = chart["values"].get("nameOverride") or DRA_LINES[release.line].chart.rpartition("/")[2]
    namespace = chart["namespace"]
    return [
        rolled_out("Deployment", namespace, f"{name}-controller"),
        rolled_out("DaemonSet", namespace, f"{name}-kubelet-plugin", None if selected else nodes),
    ]

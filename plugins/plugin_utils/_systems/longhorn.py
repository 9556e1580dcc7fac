# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Longhorn as a system of the cluster side: what its Helm release is asked for, and what rules it out. Private. Pure.

Follows the chart of Longhorn 1.9 to 1.12, and of its manager types/setting.go (the form of settings).
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    LONGHORN,
    LONGHORN_CHARTS,
    LONGHORN_IMAGES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import LONGHORN_PATH
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import KUBELET_ROOT, kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import value_at
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import merged
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, wished_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import (
    chart_place,
    owned,
    rolled_out,
    unknown_group,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Request, Site, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.longhorn_nodes import (
    Spdk,
    node_findings,
    taint_findings,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.longhorn_release import (
    RELEASE,
    VARIABLE,
    taint_toleration,
    upgrade_path,
    upgrade_warnings,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.longhorn_values import longhorn_value_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored, named

__all__ = ["request"]

# Its manager works in no other namespace, and its uninstaller knows no other.
_NAMESPACE = "longhorn-system"
# types/types.go, NodeCreateDefaultDiskLabelKey; with the setting create-default-disk-labeled-nodes, only these get a disk.
_DISK_LABEL = "node.longhorn.io/create-default-disk"
# types/setting.go: of the setting default-replica-count where nobody set it.
_REPLICAS = 3
_SETTINGS_BY_ENGINE = (1, 10)
_GLOBAL_REGISTRY = (1, 9, 1)
# MiB; of the settings v2-data-engine-hugepage-limit and data-engine-memory-size
_PAGES_MIB = 2048
_TWO_CPUS = (1, 12)

# What a wish stands for, by value of the chart.
_OWNED = {
    "persistence.defaultClass": f"set {VARIABLE}.default_class instead",
    "persistence.defaultClassReplicaCount": f"set {VARIABLE}.replicas instead, which is checked against the number of nodes",
    "persistence.dataEngine": f"set {VARIABLE}.data_engine instead",
    "defaultSettings.createDefaultDiskLabeledNodes": f"set {VARIABLE}.groups and .nodes instead: only these nodes store",
    "defaultSettings.defaultDataPath": f"set {VARIABLE}.data_path instead, whose file system is checked",
    "defaultSettings.defaultReplicaCount": f"set {VARIABLE}.replicas instead, which is checked against the number of nodes",
    "defaultSettings.deletingConfirmationFlag": "take it out: any `helm uninstall` would delete all volumes; it is set when Longhorn is removed",
    "defaultSettings.taintToleration": f"set {VARIABLE}.tolerations instead, which sets them in all three places that need them",
    "defaultSettings.v2DataEngine": f"set {VARIABLE}.data_engine: v2 instead, for which the nodes are checked",
    "longhornManager.tolerations": f"set {VARIABLE}.tolerations instead, which sets them in all three places that need them",
    "longhornDriver.tolerations": f"set {VARIABLE}.tolerations instead, which sets them in all three places that need them",
    "csi.kubeletRootDir": "take it out: it follows from the distribution that was discovered",
    "global.imageRegistry": "set the registry of the whole collection instead",
    "global.imagePullSecrets": "set the pull secrets of the whole collection instead",
    "privateRegistry": "set the registry and pull secrets of the whole collection instead (a password in values stays in the Helm release)",
    "namespaceOverride": f"take it out: Longhorn works in {_NAMESPACE} only",
}


# --- nodes ------------------------------------------------------------------------------------------------------------


def _hosts(wish: Json, site: Site) -> tuple[list[str], list[str], list[str]]:
    """(hosts that store, other hosts of the inventory, problems)."""
    problems = [unknown_group(VARIABLE, name, site) for name in wish["groups"] or [] if name not in site["groups"]]
    groups = site["groups"] if wish["groups"] is None else [name for name in wish["groups"] if name in site["groups"]]
    storing = sorted({host for name in groups for host in site["groups"][name]})
    using = sorted({host for hosts in site["groups"].values() for host in hosts} - set(storing))
    if not storing and not wish["nodes"] and not problems:
        problems.append(
            f"no host would store for Longhorn: name groups in {VARIABLE}.groups, or nodes in {VARIABLE}.nodes"
        )
    return storing, using, problems


def _distributions(site: Site, hosts: t.Iterable[str]) -> dict[str, list[str]]:
    """Hosts by distribution; those of which it is not known are of none."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        runtime = site["facts"].get(host, {}).get("runtime")
        if runtime:
            found.setdefault(str(runtime.get("distribution") or "none"), []).append(host)
    return found


def _kubelet(distributions: t.Mapping[str, list[str]]) -> tuple[str, list[str]]:
    roots: dict[str, list[str]] = {}
    for distribution, hosts in distributions.items():
        roots.setdefault(kubelet_root(distribution), []).extend(hosts)
    if len(roots) > 1:
        words = "; ".join(f"{root} on {named('host', hosts)}" for root, hosts in sorted(roots.items()))
        return KUBELET_ROOT, [
            f"Longhorn's CSI driver has one directory of kubelets for all nodes, and there are several: {words}; keep it to nodes of one "
            f"distribution"
        ]
    return next(iter(roots), KUBELET_ROOT), []


def _spdk(release: Version, values: t.Mapping[str, t.Any]) -> Spdk:
    """What the V2 data engine takes of a node by the values of the chart."""

    def setting(name: str) -> t.Any:
        value = value_at(values, f"defaultSettings.{name}")
        if isinstance(value, str) and value.startswith("{"):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        return value.get("v2") if isinstance(value, t.Mapping) else value

    pages = setting("dataEngineMemorySize" if release.line >= _SETTINGS_BY_ENGINE else "v2DataEngineHugepageLimit")
    mib = int(pages) if re.fullmatch(r"[0-9]{1,9}", str(pages)) else _PAGES_MIB
    if str(setting("dataEngineHugepageEnabled")).lower() == "false":
        mib = 0
    mask = str(setting("dataEngineCPUMask") or setting("v2DataEngineCPUMask") or "")
    cpus = bin(int(mask, 16)).count("1") if re.fullmatch(r"0[xX][0-9a-fA-F]{1,64}", mask) else 0
    return Spdk(mib, cpus or (2 if release.line >= _TWO_CPUS else 1))


def _replicas(wish: Json, nodes: int) -> tuple[int, list[str], list[str]]:
    """(replicas of a volume, problems, warnings)."""
    if wish["replicas"] is None:
        count = max(1, min(_REPLICAS, nodes))
        if nodes and count < _REPLICAS:
            lost = "a volume is lost with its node" if count == 1 else "a volume has no spare when one of them is away"
            return (
                count,
                [],
                [
                    f"{nodes} node{'s' * (nodes > 1)} store{'s' * (nodes == 1)} for Longhorn: {count} of the usual 3 replicas, and {lost}"
                ],
            )
        return count, [], []
    count = int(wish["replicas"])
    if nodes and count > nodes:
        return (
            count,
            [
                f"{VARIABLE}.replicas is {count} and {nodes} node{'s' * (nodes > 1)} store{'s' * (nodes == 1)}: no volume would ever be healthy; set at most "
                f"{nodes}, or have more groups or nodes store"
            ],
            [],
        )
    return count, [], []


# --- the chart --------------------------------------------------------------------------------------------------------


def _by_engine(release: Version, value: t.Any) -> str:
    """A setting that has a value for each data engine since 1.10 (types/setting.go, DataEngineSpecific)."""
    text = str(value)
    return json.dumps({"v1": text, "v2": text}) if release.line >= _SETTINGS_BY_ENGINE else text


def _values(release: Version, wish: Json, site: Site, replicas: int, kubelet: str, taints: str) -> Json:
    number = (*release.line, release.patch)
    settings: Json = {
        "createDefaultDiskLabeledNodes": True,
        "defaultDataPath": wish["data_path"],
        "defaultReplicaCount": _by_engine(release, replicas),
    }
    values: Json = {
        "persistence": {
            "defaultClass": wish["default_class"],
            "defaultClassReplicaCount": replicas,
            "dataEngine": wish["data_engine"],
        },
        "defaultSettings": settings,
    }
    if wish["data_engine"] == "v2":
        settings["v2DataEngine"] = True
    if taints:
        settings["taintToleration"] = taints
        for part in ("longhornManager", "longhornDriver"):
            values[part] = {"tolerations": [dict(each) for each in wish["tolerations"]]}
    if kubelet != KUBELET_ROOT:
        values["csi"] = {"kubeletRootDir": kubelet}
    registry, secrets = site["registry"], list(site["pull_secrets"])
    if number >= _GLOBAL_REGISTRY:
        own = {"imageRegistry": registry, "imagePullSecrets": secrets}
        if registry or secrets:
            values["global"] = {key: value for key, value in own.items() if value}
    elif registry or secrets:
        own = {"registryUrl": registry, "registrySecret": secrets[0] if secrets else None}
        values["privateRegistry"] = {key: value for key, value in own.items() if value}
    return merged(values, wish["values"])


def _images(release: Version, site: Site) -> tuple[list[str], list[str]]:
    """(images, warnings)."""
    known, images = LONGHORN_IMAGES[release.line]
    own = f"v{release.text}"
    tags = {image: own if tag == known else tag for image, tag in images.items()}
    warnings = []
    if known != own:
        warnings.append(
            f"the sidecars in the list of images are those of Longhorn {known.lstrip('v')}; the chart of {release.text} may pull other ones "
            "(`helm show values`, image.csi): look there before you fill a mirror"
        )
    return sorted(mirrored(f"docker.io/{image}:{tag}", site["registry"]) for image, tag in tags.items()), warnings


def _claim() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "checkpoints"},
        "spec": {
            # several nodes write: Longhorn serves it over NFS
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "longhorn",
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }


# --- the request ------------------------------------------------------------------------------------------------------


def _add_nodes(found: Request, wish: Json, site: Site, release: Version, values: Json) -> None:
    storing, using, problems = _hosts(wish, site)
    path = wish["data_path"]
    spdk = _spdk(release, values) if wish["data_engine"] == "v2" else None
    wrong, careful = node_findings(site, storing, using, path, spdk)
    found["problems"] += [*problems, *wrong]
    found["warnings"] += careful
    nodes = sorted({site["node_names"].get(host, host) for host in storing} | set(wish["nodes"]))
    found["node_labels"] = {node: {_DISK_LABEL: "true"} for node in nodes}
    unproved = sorted(set(wish["nodes"]) - {site["node_names"].get(host, host) for host in storing})
    if unproved:
        found["warnings"].append(
            f"{named('node', unproved, 20)} of {VARIABLE}.nodes {'are' if len(unproved) > 1 else 'is'} not discovered: nobody has "
            "proved that Longhorn can store there; `longhornctl check preflight` does"
        )
    if spdk and spdk.pages_mib:
        found["warnings"].append(
            "huge pages count once the kubelet knows them: `kubectl get nodes -o custom-columns=N:.metadata.name,"
            "H:.status.capacity.hugepages-2Mi` shows them; restart the kubelet where it shows 0"
        )
    if spdk and not path.startswith("/dev/"):
        found["warnings"].append(
            f"V2 volumes need block devices, and {path} is a directory, which serves V1 volumes only: set {VARIABLE}.data_path to a device that all "
            "nodes have (/dev/disk/by-id/... or /dev/nvme1n1), or add block disks to Longhorn's nodes"
        )


def _checked(wish: Json) -> list[str]:
    found = owned(f"{VARIABLE}.values", wish["values"], _OWNED)
    path = wish["data_path"]
    if wish["data_engine"] == "v1" and path.startswith("/dev/"):
        found.append(
            f"{VARIABLE}.data_path is the device {path}, and V1 volumes are files: name a directory on ext4 or XFS"
        )
    return found


def request(
    wish: t.Any,
    site: Site,
    installed: t.Optional[t.Mapping[str, Json]] = None,
    nodes: t.Optional[t.Mapping[str, Json]] = None,
) -> Request:
    """What Longhorn asks of the cluster.

    wish: rdma_longhorn, as the table of wishes lets it through. installed, nodes: Helm releases and nodes of the cluster, None where
    nobody has looked. All problems at once; with problems, there is nothing to do.
    """
    found = empty_request("longhorn")
    given = {**defaults_of(VARIABLE), **(wish or {})}
    if not given["enabled"]:
        found["summary"] = [("Longhorn", "not asked for")]
        return found
    release, wrong = wished_release(f"{VARIABLE}.version", given["version"], LONGHORN_IMAGES, LONGHORN)
    taints, untold = taint_toleration(given["tolerations"])
    found["problems"] += [*wrong, *untold, *_checked(given)]
    if release is None:
        return found
    wrong, careful = longhorn_value_problems(f"{VARIABLE}.values", release, given["values"])
    there, blocked = upgrade_path((installed or {}).get(RELEASE), release)
    found["problems"] += [*(each for each in wrong if not _said(each, found["problems"])), *blocked]
    found["warnings"] += [*careful, *upgrade_warnings(there, release, given["data_engine"])]
    found["warnings"] += _path_warnings(given, (installed or {}).get(RELEASE))
    storing, using, _problems = _hosts(given, site)
    distributions = _distributions(site, [*storing, *using])
    kubelet, wrong = _kubelet(distributions)
    found["problems"] += wrong
    names = {site["node_names"].get(host, host) for host in storing} | set(given["nodes"])
    strange = sorted(names - set(nodes)) if nodes is not None else []
    if strange:
        found["problems"].append(
            f"the cluster has no {named('node', strange, len(strange))}, which would store for Longhorn: correct {VARIABLE}.nodes, or list "
            "in rdma_rollout.node_names the nodes whose names differ from their hosts'"
        )
    others = {site["node_names"].get(host, host) for host in using} - names
    wrong, careful = taint_findings(names, others, nodes or {}, given["tolerations"])
    found["problems"] += wrong
    found["warnings"] += careful
    replicas, wrong, careful = _replicas(given, len(names))
    found["problems"] += wrong
    found["warnings"] += careful
    values = _values(release, given, site, replicas, kubelet, taints)
    _add_nodes(found, given, site, release, values)
    if given["default_class"] and "k3s" in distributions:
        found["warnings"].append(
            "k3s has a default StorageClass of its own, local-path, and a cluster should have one: start its servers with --disable "
            f"local-storage, or set {VARIABLE}.default_class: false"
        )
    _add_chart(found, given, site, release, values)
    found["summary"] = _summary(given, release, there, len(names), replicas, taints)
    return found


def _path_warnings(wish: Json, installed: t.Optional[t.Mapping[str, t.Any]]) -> t.Iterator[str]:
    """Longhorn makes a disk of the path only on a node that has no disk (controller/node_controller.go, syncDefaultDisks())."""
    if not installed:
        return
    was = str(value_at(installed, "values.defaultSettings.defaultDataPath") or LONGHORN_PATH)
    path = str(wish["data_path"])
    if was.rstrip("/") != path.rstrip("/"):
        yield (
            f"{VARIABLE}.data_path is {path}, and was {was.rstrip('/')}: nodes that have a disk of Longhorn keep it, and get none at {path}; add "
            "it to these nodes in Longhorn (spec.disks of nodes.longhorn.io)"
        )


def _said(problem: str, problems: t.Iterable[str]) -> bool:
    """Whether something is already said of the same value."""
    return any(each.partition(":")[0] == problem.partition(":")[0] for each in problems)


def _add_chart(found: Request, wish: Json, site: Site, release: Version, values: Json) -> None:
    chart, repository = chart_place(wish, "longhorn", LONGHORN_CHARTS)
    found["charts"] = [
        {
            "release": RELEASE,
            "namespace": _NAMESPACE,
            "chart": chart,
            "repository": repository,
            "version": release.text,
            "values": values,
            "privileged": True,
        }
    ]
    rows = (
        ("DaemonSet", "longhorn-manager"),
        ("Deployment", "longhorn-driver-deployer"),
        ("DaemonSet", "longhorn-csi-plugin"),
    )
    found["waits"] = [rolled_out(kind, _NAMESPACE, name) for kind, name in rows]
    found["images"], careful = _images(release, site)
    found["warnings"] += careful
    found["workloads"] = {"longhorn.yaml": [_claim()]}


def _summary(
    wish: Json, release: Version, there: t.Optional[Version], nodes: int, replicas: int, taints: str
) -> list[tuple[str, str]]:
    what = f"{release.text} in {_NAMESPACE}"
    if there and there != release:
        what = f"from {there.text} to {what}"
    return [
        ("Longhorn", what),
        ("stores", f"{nodes} node{'s' * (nodes != 1)} at {wish['data_path']}"),
        ("replicas", str(replicas)),
        ("data engine", wish["data_engine"]),
        ("StorageClass longhorn", "the default one" if wish["default_class"] else "not the default one"),
        ("tolerates", taints or "no taints"),
    ]

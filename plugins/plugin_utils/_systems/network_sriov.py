# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions that come into a Pod as a whole: which resource stands for them, and who offers it. Private. Pure.

Follows k8snetworkplumbingwg/sriov-network-device-plugin (its configuration and DaemonSet) and the SR-IOV network operator.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import SRIOV_PLUGIN
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Group
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    CONFIG_ANNOTATION,
    GROUP_LABEL,
    MANAGED_BY,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import NAME_LIMIT, class_slug, group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import daemon_set
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import (
    INFINIBAND,
    Attachment,
    Findings,
    Network,
    link_of,
    some,
)

__all__ = ["Functions", "functions_of", "policies", "shared_resource"]

# What the Network Operator puts before the resource of a HostDeviceNetwork, and its SR-IOV operator before those of its policies.
_OPERATOR_PREFIX = "nvidia.com"
# What the SR-IOV network operator puts before its resources where nobody says otherwise.
_UPSTREAM_PREFIX = "openshift.io"
_SUFFIX = "_hostdev"
_OR_NEWER = " or newer"
_APP = "rdma-sriov-dp"
_DEFAULTS = engine_defaults("daemonset")


class Functions(t.NamedTuple):
    """Who offers the functions of a network: resources by rail (None without rails), and the objects that are needed for it."""

    resources: dict[t.Optional[int], str]
    objects: list[Json]
    images: list[str]


def shared_resource(group: Group, rail: t.Optional[int]) -> list[str]:
    """The resources of the shared device plugin that a Pod asks for: that of a rail, or all of the group."""
    return [row["resource"] for row in group["resources"] if rail is None or row["rail"] == rail]


def functions_of(
    network: Network, rows: t.Sequence[Attachment], site: Site, rollout: t.Mapping[str, t.Any], found: Findings
) -> Functions:
    """The resources of a network of kind hostdevice or sriov. rollout: rdma_rollout."""
    group = site["plan"]["groups"][network.group]
    wished = network.wish.get("resource")
    if wished:
        return _given(network, rows, group, str(wished), found)
    if network.kind == "sriov" and network.wish.get("sriov"):
        return _of_policies(network, rows, rollout)
    if rollout.get("engine") == "network_operator":
        if network.group not in (rollout.get("sriov") or ()):
            found.problem(
                f"{network.words}: kind {network.kind} takes functions of the SR-IOV device plugin, and the group has the shared one: "
                f"put {network.group} into rdma_rollout.sriov, or name the resource of another plugin with resource"
            )
            return Functions({}, [], [])
        return Functions(_planned(network, rows, group, "", found), [], [])
    return _alone(network, rows, site, rollout, found)


def _given(network: Network, rows: t.Sequence[Attachment], group: Group, wished: str, found: Findings) -> Functions:
    shared = set(shared_resource(group, None))
    resources = {row.rail: wished.replace("{rail}", str(row.rail)) for row in rows}
    if len(rows) > 1 and "{rail}" not in wished:
        found.problem(
            f"{network.words}: each rail has a resource of its own: write {{rail}} into resource, for its number"
        )
    for resource in sorted(set(resources.values()) & shared):
        found.problem(
            f"{network.words}: {resource} is the resource of the shared device plugin, which gives a Pod no function for itself: name that "
            "of an SR-IOV device plugin"
        )
    return Functions(resources, [], [])


def _planned(
    network: Network, rows: t.Sequence[Attachment], group: Group, suffix: str, found: Findings
) -> dict[t.Optional[int], str]:
    """The resources of the plan's configuration of the SR-IOV device plugin, by rail; what rules it out goes to the findings."""
    resources: dict[t.Optional[int], str] = {}
    rails = shared_resource(group, None)
    if len(rails) > 1 and not network.rails:
        found.problem(
            f"{network.words}: the group has a resource for each rail ({some(rails)}), and a network takes functions of one: rails: true makes "
            "a network for each rail; or name one with resource"
        )
        return {}
    for entry in group["classes"]:
        sriov = entry["sriov"]
        if not sriov["config"]:
            found.problem(
                f"{network.words}: class {entry['name']} has no configuration of the SR-IOV device plugin: "
                f"{sriov['reason'] or 'the plan has none'}. Take kind: macvlan or ipoib, which share the port"
            )
            continue
        if not str(sriov["versions"]).endswith(_OR_NEWER):
            found.problem(
                f"{network.words}: the configuration of class {entry['name']} is exact for versions {sriov['versions']} of the SR-IOV device "
                "plugin only, and newer ones offer more: take kind: macvlan or ipoib, which share the port"
            )
            continue
        known = {f"{row['resourcePrefix']}/{row['resourceName']}" for row in sriov["config"]["resourceList"]}
        for row in rows:
            for resource in shared_resource(group, row.rail):
                if resource in known:
                    resources[row.rail] = resource + suffix
    for resource in sorted(set(resources.values())):
        # what Kubernetes lets a resource be called behind its prefix
        if len(resource.rpartition("/")[2]) > NAME_LIMIT:
            found.problem(
                f"{network.words}: {resource} would be longer than the {NAME_LIMIT} characters behind its prefix that a kubelet takes: give "
                "the group a shorter rdma_resource.name"
            )
    if network.wish.get("operator"):
        for resource in sorted(set(resources.values())):
            if network.kind == "hostdevice" and not resource.startswith(_OPERATOR_PREFIX + "/"):
                found.problem(
                    f"{network.words}: a HostDeviceNetwork always asks for {_OPERATOR_PREFIX}/{resource.rpartition('/')[2]}, and the group has "
                    f"{resource}: set rdma_resource.prefix to {_OPERATOR_PREFIX}, or leave operator out"
                )
    return resources


# --- the plugin alone ---------------------------------------------------------------------------------------------------


def _alone(
    network: Network, rows: t.Sequence[Attachment], site: Site, rollout: t.Mapping[str, t.Any], found: Findings
) -> Functions:
    """The SR-IOV device plugin by ourselves, beside a shared one that offers nothing: one function, one owner."""
    group = site["plan"]["groups"][network.group]
    shares = {
        int(row["rdmaHcaMax"]) for entry in group["classes"] if entry["config"] for row in entry["config"]["configList"]
    }
    if shares - {0}:
        found.problem(
            f"{network.words}: the shared device plugin offers the functions of the group to {max(shares)} Pods at once, and kind "
            f"{network.kind} takes them into one: set rdma_resource.hca_max of the group to 0, so that it offers none, or take "
            f"rdma_rollout.engine: network_operator with sriov: [{network.group}]"
        )
    if network.kind == "sriov":
        _need_virtual_functions(network, group, found)
    resources = _planned(network, rows, group, _SUFFIX, found)
    objects: list[Json] = []
    image = mirrored(SRIOV_PLUGIN, site["registry"])
    for entry in group["classes"]:
        if entry["sriov"]["config"]:
            objects += _plugin_objects(network, entry, site, rollout, image, found)
    return Functions(resources, objects, [image])


def _need_virtual_functions(network: Network, group: Group, found: Findings) -> None:
    """sriov-cni moves virtual functions; a whole card is moved by host-device."""
    if network.wish.get("sriov"):
        return
    wanted = {port["device"] for ports in group["wanted"].values() for port in ports}
    found.warn(
        f"{network.words}: kind sriov without sriov.vfs takes virtual functions that are there already (rdma_want.kinds: [vf]); the plan has "
        f"{some(wanted)}"
    )


def _kubelet(network: Network, entry: Class, site: Site, rollout: t.Mapping[str, t.Any], found: Findings) -> str:
    wished = str(rollout.get("kubelet_root") or _DEFAULTS["kubelet_root"])
    if wished != "auto":
        return wished.rstrip("/")
    roots = {
        kubelet_root(((site["facts"].get(host) or {}).get("runtime") or {}).get("distribution"))
        for host in entry["hosts"]
    }
    if len(roots) > 1:
        found.problem(
            f"{network.words}: kubelets of class {entry['name']} have their directories in {' and '.join(sorted(roots))}, and one DaemonSet "
            "mounts one of them: make them groups of their own"
        )
    return min(roots)


def _plugin_objects(
    network: Network, entry: Class, site: Site, rollout: t.Mapping[str, t.Any], image: str, found: Findings
) -> list[Json]:
    """The ConfigMap and the DaemonSet of a class."""
    slug = class_slug(entry["name"])
    rows = (entry["sriov"]["config"] or {})["resourceList"]
    config = {"resourceList": [{**row, "resourceName": row["resourceName"] + _SUFFIX} for row in rows]}
    text = json.dumps(config, sort_keys=True)
    name = f"{_APP}-{slug}"
    selector = {"app.kubernetes.io/name": _APP, "app.kubernetes.io/instance": slug}
    labels = {**selector, GROUP_LABEL: group_value(network.group)}
    pod = _plugin_pod(slug, name, _kubelet(network, entry, site, rollout, found), site, rollout, image)
    # it reads its configuration once
    annotations = {CONFIG_ANNOTATION: hashlib.sha256(text.encode()).hexdigest()}
    metadata = {"name": name, "namespace": str(rollout.get("namespace") or _DEFAULTS["namespace"]), "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.json": text}},
        daemon_set(metadata, selector, {**labels, "app.kubernetes.io/managed-by": MANAGED_BY}, annotations, pod, 1),
    ]


def _plugin_pod(slug: str, config: str, kubelet: str, site: Site, rollout: t.Mapping[str, t.Any], image: str) -> Json:
    """The Pod of a class. config: the name of its ConfigMap; kubelet: the kubelet's directory on its nodes."""
    information = "/var/run/k8s.cni.cncf.io/devinfo/dp"
    paths = [
        ("device-plugins", kubelet + "/device-plugins", "/var/lib/kubelet/device-plugins", {}),
        ("plugins-registry", kubelet + "/plugins_registry", "/var/lib/kubelet/plugins_registry", {}),
        # where it tells Multus and CNI plugins about the devices
        ("device-info", information, information, {"type": "DirectoryOrCreate"}),
    ]
    container: Json = {
        "name": "kube-sriovdp",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["--log-dir=sriovdp", "--log-level=2"],
        # it reads the host's PCI tree and makes sockets in the kubelet's directory
        "securityContext": {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "resources": rollout.get("resources", _DEFAULTS["resources"]),
        "volumeMounts": [
            *({"name": volume, "mountPath": inside} for volume, _outside, inside, _kind in paths),
            {"name": "config", "mountPath": "/etc/pcidp", "readOnly": True},
        ],
    }
    pod: Json = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "priorityClassName": str(rollout.get("priority_class") or _DEFAULTS["priority_class"]),
        "nodeSelector": {CLASS_LABEL: slug},
        "tolerations": rollout.get("tolerations", _DEFAULTS["tolerations"]),
        "containers": [container],
        "volumes": [
            *({"name": volume, "hostPath": {"path": outside, **kind}} for volume, outside, _inside, kind in paths),
            {"name": "config", "configMap": {"name": config, "items": [{"key": "config.json", "path": "config.json"}]}},
        ],
    }
    if site["pull_secrets"]:
        pod["imagePullSecrets"] = [{"name": each} for each in site["pull_secrets"]]
    return pod


# --- virtual functions by the SR-IOV operator ---------------------------------------------------------------------------


def _policy_resource(network: Network, rail: t.Optional[int]) -> str:
    name = re.sub(r"[^a-zA-Z0-9]", "_", network.name)
    return name if rail is None else f"{name}_rail{rail}"


def _of_policies(network: Network, rows: t.Sequence[Attachment], rollout: t.Mapping[str, t.Any]) -> Functions:
    ours = rollout.get("engine") == "network_operator"
    prefix = (network.wish["sriov"].get("prefix")) or (_OPERATOR_PREFIX if ours else _UPSTREAM_PREFIX)
    return Functions({row.rail: f"{prefix}/{_policy_resource(network, row.rail)}" for row in rows}, [], [])


def _matches(entry: Class, rail: t.Optional[int]) -> list[t.Any]:
    """What the plan's selectors match on all hosts of a class, of one rail where it has several networks."""
    found = [match for host in entry["hosts"] for match in entry["matches"].get(host, [])]
    return [match for match in found if rail is None or match.get("rail") == rail]


def policies(
    network: Network,
    rows: t.Sequence[Attachment],
    labels: t.Mapping[str, str],
    site: Site,
    namespace: str,
    found: Findings,
) -> list[Json]:
    """SriovNetworkNodePolicies: the operator makes the virtual functions of each class and rail, and offers them.

    By the addresses and names of the plan's physical functions on the nodes of the class. rootDevices and pfNames are lists of
    alternatives, so that all hosts of a class are in one policy. labels: of nodes, by slug of class.
    """
    group = site["plan"]["groups"][network.group]
    wish = network.wish["sriov"]
    objects = []
    found.warn(
        f"{network.words}: the SR-IOV operator drains nodes one after the other, and may reboot them, to make {wish['vfs']} virtual functions "
        "a port (SriovNetworkPoolConfig says how many at a time)"
    )
    for entry in group["classes"]:
        slug = class_slug(entry["name"])
        for row in rows:
            matches = _matches(entry, row.rail)
            if not matches:
                found.problem(
                    f"{network.words}: class {entry['name']} has no PCI function that the operator could make virtual ones of"
                    + ("" if row.rail is None else f" on rail {row.rail}")
                )
                continue
            _check_exact(network, entry, matches, site, found)
            spec: Json = {
                "resourceName": _policy_resource(network, row.rail),
                "nodeSelector": {labels[slug]: slug},
                "nicSelector": {
                    "vendor": _vendor(site, matches),
                    "rootDevices": sorted({match["pci"] for match in matches}),
                },
                "numVfs": int(wish["vfs"]),
                "deviceType": "netdevice",
                "isRdma": True,
                "linkType": "ib" if link_of(group) == INFINIBAND else "eth",
            }
            if network.wish.get("mtu"):
                spec["mtu"] = int(network.wish["mtu"])
            name = f"{row.name}-{slug}"
            objects.append(
                {
                    "apiVersion": "sriovnetwork.openshift.io/v1",
                    "kind": "SriovNetworkNodePolicy",
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "labels": {GROUP_LABEL: group_value(network.group)},
                    },
                    "spec": spec,
                }
            )
    return objects


def _check_exact(
    network: Network, entry: Class, matches: t.Sequence[t.Mapping[str, t.Any]], site: Site, found: Findings
) -> None:
    """No host has another card at an address that one of its neighbours has a wanted card at."""
    addresses = {match["pci"] for match in matches}
    for host in entry["hosts"]:
        own = {match["pci"] for match in entry["matches"].get(host, [])}
        for device in (site["facts"].get(host) or {}).get("devices") or ():
            if device["pci"] in addresses - own:
                found.problem(
                    f"{network.words}: {device['name']} of host {host} is at {device['pci']}, where other hosts of class {entry['name']} have "
                    "the card that is wanted, and one policy cannot tell them apart: put the hosts into groups"
                )


def _vendor(site: Site, matches: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The vendor of the functions; the planner's groups are of one vendor, as a rule NVIDIA's."""
    wanted = {match["pci"] for match in matches}
    vendors = {
        str(device["vendor"])
        for facts in site["facts"].values()
        for device in (facts or {}).get("devices") or ()
        if device["pci"] in wanted and device["vendor"] and device["kind"] == "pf"
    }
    return min(vendors, default="15b3")

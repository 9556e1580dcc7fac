# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CNI plugins that come as Pods of every node have in common. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import max_unavailable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, DRA_LABEL, MANAGED_BY
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site, Wait
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored

__all__ = [
    "CONFIG_INSIDE",
    "PROGRAMS_INSIDE",
    "TEXT",
    "USUAL",
    "CniDirectories",
    "account",
    "cni_directories",
    "daemon_set",
    "definition",
    "environment",
    "events_rules",
    "image_of",
    "node_pod",
    "node_set",
    "rollout_wait",
    "rule",
    "schema_object",
]

_INSTALLED = defaults_of("rdma_multus")
CONFIG_INSIDE, PROGRAMS_INSIDE = "/host/etc/cni/net.d", "/host/opt/cni/bin"


class CniDirectories(t.NamedTuple):
    """Where the container runtime of the nodes looks: for CNI configurations, and for CNI plugins."""

    config: str
    programs: str


USUAL = CniDirectories("/etc/cni/net.d", "/opt/cni/bin")
# By distribution, where it has others (https://docs.k3s.io/networking/multus-ipams, https://microk8s.io/docs/addon-multus).
_OF_DISTRIBUTIONS = {
    "k3s": CniDirectories("/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/cni"),
    "microk8s": CniDirectories("/var/snap/microk8s/current/args/cni-network", "/var/snap/microk8s/current/opt/cni/bin"),
}


def cni_directories(site: Site, wish: t.Mapping[str, t.Any]) -> tuple[CniDirectories, list[str]]:
    """(directories as wished, else of the nodes, what is wrong). One DaemonSet mounts one directory, so that all nodes have the same."""
    by_place: dict[CniDirectories, list[str]] = {}
    for host, facts in sorted(site["facts"].items()):
        runtime = (facts or {}).get("runtime")
        if runtime:
            place, distribution = _directories(runtime)
            by_place.setdefault(place, []).append(f"{host} ({distribution})")
    given = CniDirectories(str(wish.get("cni_conf_dir") or ""), str(wish.get("cni_bin_dir") or ""))
    first = next(iter(sorted(by_place)), USUAL) if by_place else USUAL
    if len(by_place) > 1 and not all(given):
        places = "; ".join(f"{' and '.join(place)} on {hosts[0]}" for place, hosts in sorted(by_place.items()))
        return first, [
            f"the nodes have CNI in different directories ({places}), and one DaemonSet mounts one: set cni_conf_dir and "
            "cni_bin_dir of rdma_multus and rdma_whereabouts, or install them by other means"
        ]
    return CniDirectories(given.config or first.config, given.programs or first.programs), []


def image_of(default: str, wish: t.Mapping[str, t.Any], site: Site) -> str:
    """The image as wished, or the known one in the wanted version. One of the user's own is taken as it is."""
    if wish.get("image"):
        return str(wish["image"])
    name, _colon, version = default.rpartition(":")
    wished = str(wish.get("version") or version)
    return mirrored(f"{name}:{wished if wished.startswith('v') else 'v' + wished}", site["registry"])


def daemon_set(
    metadata: Json,
    selector: t.Mapping[str, str],
    labels: t.Mapping[str, str],
    annotations: Json,
    pod: Json,
    at_once: t.Any,
) -> Json:
    """A DaemonSet. selector: part of the labels that never changes. at_once: how many nodes are without their Pod in an update."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": dict(selector)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": at_once}},
            "template": {
                "metadata": {"labels": dict(labels), **({"annotations": annotations} if annotations else {})},
                "spec": pod,
            },
        },
    }


def rollout_wait(item: Json) -> Wait:
    metadata = item["metadata"]
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "path": "",
        "value": None,
    }


def _directories(runtime: t.Mapping[str, t.Any]) -> tuple[CniDirectories, str]:
    """(where CNI is on a node, its distribution). That of a distribution stays when it is updated, while its containerd is told another."""
    distribution = str(runtime.get("distribution"))
    # Debian's containerd has its plugins in /usr/lib/cni
    own = (runtime.get("containerd") or {}).get("cni") or {}
    told = CniDirectories(own.get("config") or USUAL.config, own.get("programs") or USUAL.programs)
    return _OF_DISTRIBUTIONS.get(distribution, told), distribution


# --- objects -----------------------------------------------------------------------------------------------------


def account(name: str, namespace: str, role: str, rules: t.Sequence[Json]) -> list[Json]:
    """A ServiceAccount with a ClusterRole."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": list(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]


def rule(group: str, resources: t.Sequence[str], verbs: t.Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def events_rules() -> list[Json]:
    return [rule(group, ["events"], ["create", "patch", "update"]) for group in ("", "events.k8s.io")]


def environment(wish: t.Mapping[str, t.Any]) -> list[Json]:
    """Where the plugins on the nodes find the API server, which goes into their kubeconfig; the Service of Kubernetes by default."""
    address = str(wish.get("api_server") or "")
    if not address:
        return []
    host, _colon, port = address.rpartition(":")
    return [
        {"name": "KUBERNETES_SERVICE_HOST", "value": host.strip("[]")},
        {"name": "KUBERNETES_SERVICE_PORT", "value": port},
    ]


def node_pod(
    name: str, container: Json, wish: t.Mapping[str, t.Any], site: Site, directories: CniDirectories, account: str
) -> Json:
    """A Pod that writes into the CNI directories of its node, which is all that it may do there.

    In the network of the host, since there is no other before the CNI configuration. spc_t lets it write where SELinux is on, and
    CAP_DAC_OVERRIDE where the directories belong to another user, as those of some installers do; so it need not be privileged.
    """
    pod: Json = {
        "hostNetwork": True,
        "serviceAccountName": account,
        "priorityClassName": str(wish.get("priority_class") or _INSTALLED["priority_class"]),
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": wish.get("tolerations", _INSTALLED["tolerations"]),
        "terminationGracePeriodSeconds": 10,
        "containers": [
            {
                "name": name,
                "imagePullPolicy": "IfNotPresent",
                "resources": wish.get("resources", _INSTALLED["resources"]),
                "securityContext": {
                    "runAsUser": 0,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
                    "seLinuxOptions": {"type": "spc_t"},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                **container,
            }
        ],
        "volumes": [
            {"name": "cni-config", "hostPath": {"path": directories.config, "type": "DirectoryOrCreate"}},
            {"name": "cni-programs", "hostPath": {"path": directories.programs, "type": "DirectoryOrCreate"}},
        ],
    }
    if wish.get("nodes") == "rdma":
        terms = [{"matchExpressions": [{"key": label, "operator": "Exists"}]} for label in (CLASS_LABEL, DRA_LABEL)]
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    if site["pull_secrets"]:
        pod["imagePullSecrets"] = [{"name": each} for each in site["pull_secrets"]]
    return pod


def node_set(name: str, app: str, namespace: str, pod: Json, wish: t.Mapping[str, t.Any]) -> Json:
    # the label by which Multus' and Whereabouts' own DaemonSets select
    selector = {"name": app}
    labels = {**selector, "app": app, "tier": "node", "app.kubernetes.io/managed-by": MANAGED_BY}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": app, "tier": "node"}}
    at_once = max_unavailable(wish.get("max_unavailable", _INSTALLED["max_unavailable"]))
    return daemon_set(metadata, selector, labels, {}, pod, at_once)


def definition(group: str, version: str, names: Json, properties: Json) -> Json:
    """A CustomResourceDefinition of our own making: as much of a schema as its readers rely on."""
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **properties,
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def schema_object(required: t.Sequence[str], **properties: Json) -> Json:
    found: Json = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


TEXT: Json = {"type": "string"}

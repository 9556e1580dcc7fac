# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of the shared device plugin, one ConfigMap and one DaemonSet a class. Private. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.dns import SUBDOMAIN, SUBDOMAIN_LIMIT
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DIGESTS
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import is_true
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Plan
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import KUBELET_ROOT, kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._plan.shares import share_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import DIGEST, is_pinned
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    APP_NAME,
    CLASS_LABEL,
    CONFIG_ANNOTATION,
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
    POD_SECURITY,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import (
    NAME_LIMIT,
    ManifestError,
    class_slug,
    group_value,
    is_namespace,
    node_scope,
)

__all__ = [
    "cdi_warnings",
    "check_places",
    "check_settings",
    "class_labels",
    "class_resources",
    "inventory_value",
    "kept_values",
    "label_scope",
    "label_scripts",
    "max_unavailable",
    "namespace_object",
    "opens_namespace",
    "plan_manifests",
    "rendered_classes",
    "rollout_request",
    "rollout_scope",
    "scoped_classes",
]


Json = t.Dict[str, t.Any]

_DEFAULTS = engine_defaults("daemonset")


def inventory_value(settings: t.Mapping[str, t.Any]) -> str:
    """The name of the inventory (rdma_rollout.inventory) as the value of a label."""
    return group_value(str(settings.get("inventory") or _DEFAULTS["inventory"]))


def class_labels(slug: str, group: str, inventory: str) -> dict[str, str]:
    """Labels of every object that is made for one class. inventory: as inventory_value() gives it."""
    return {**_pod_labels(slug, group), INVENTORY_LABEL: inventory}


def _pod_labels(slug: str, group: str) -> dict[str, str]:
    # not the inventory: its name is not part of the Pods, which would all restart when it changes
    return {
        "app.kubernetes.io/name": APP_NAME,
        "app.kubernetes.io/instance": slug,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        GROUP_LABEL: group_value(group),
    }


def _metadata(slug: str, group: str, settings: t.Mapping[str, t.Any]) -> Json:
    labels = class_labels(slug, group, inventory_value(settings))
    return {"name": "rdma-shared-dp-" + slug, "namespace": settings["namespace"], "labels": labels}


def _image(settings: t.Mapping[str, t.Any]) -> str:
    """The image by tag and digest. One that a registry may change under a running cluster is refused."""
    image = str(settings["image"])
    digest = str(settings.get("image_digest") or DIGESTS.get(image) or "")
    if settings.get("registry") and image in DIGESTS:
        # a mirror has the same bytes
        image = str(settings["registry"]).rstrip("/") + "/" + image.partition("/")[2]
    if digest and not DIGEST.fullmatch(digest):
        raise ManifestError(f"image digest '{digest}' is not sha256: and 64 hexadecimal digits")
    _name, at, own_digest = image.partition("@")
    if digest and own_digest and own_digest != digest:
        raise ManifestError(f"image '{image}' names another digest than '{digest}'", "give one of them")
    if not digest and not is_pinned(image):
        raise ManifestError(
            f"image '{image}' is not pinned: give it a tag other than latest, preferably with its digest, so that every "
            "node runs the same"
        )
    return image if at or not digest else f"{image}@{digest}"


def check_settings(wish: t.Mapping[str, t.Any]) -> None:
    """ManifestError for what no object can have of rdma_rollout, as far as that can be said without a plan."""
    # a digest alone is that of the default image
    if wish.get("image") or wish.get("image_digest"):
        _image({"image": wish.get("image") or _DEFAULTS["image"], "image_digest": wish.get("image_digest")})
    root = str(wish.get("kubelet_root") or _DEFAULTS["kubelet_root"])
    if root != "auto" and not root.startswith("/"):
        raise ManifestError(f"rdma_rollout.kubelet_root is '{root}'; expected an absolute path, or auto")
    check_places(wish)


def check_places(wish: t.Mapping[str, t.Any]) -> None:
    """ManifestError for a namespace or a node that no cluster can have, or one node for two hosts, in rdma_rollout."""
    namespace = str(wish.get("namespace") or _DEFAULTS["namespace"])
    if not is_namespace(namespace):
        raise ManifestError(
            f"rdma_rollout.namespace is '{namespace}'; expected at most {NAME_LIMIT} small letters, digits and hyphens"
        )
    hosts: dict[str, str] = {}
    for host, name in sorted((wish.get("node_names") or {}).items(), key=str):
        node = str(name)
        if not _is_node_name(node):
            raise ManifestError(f"rdma_rollout.node_names: host {host}: '{node}' cannot be the name of a node")
        if node in hosts:
            raise ManifestError(f"rdma_rollout.node_names: hosts {hosts[node]} and {host} are both node {node}")
        hosts[node] = str(host)


def _kubelet_root(entry: Class, settings: t.Mapping[str, t.Any]) -> str:
    """The kubelet's directory on the nodes of a class: as set, or (auto) where their distribution has it."""
    wanted = str(settings["kubelet_root"])
    if wanted != "auto":
        return wanted.rstrip("/")
    known = settings.get("distributions") or {}
    hosts: dict[str, str] = {}
    for host in entry["hosts"]:
        hosts.setdefault(kubelet_root(known.get(host)), host)
    if len(hosts) > 1:
        (one, host), (other, neighbour) = sorted(hosts.items())[:2]
        raise ManifestError(
            f"class '{entry['name']}': the kubelet of host {host} has its directory in {one}, that of {neighbour} in "
            f"{other}, and one DaemonSet can mount one of them",
            "make them groups of their own",
        )
    return next(iter(hosts), KUBELET_ROOT)


def _pod(slug: str, config_map: str, kubelet: str, settings: t.Mapping[str, t.Any]) -> Json:
    """The Pod of a class. config_map: the name of its configuration; kubelet: the kubelet's directory on its nodes."""
    host_paths = [
        ("device-plugin", kubelet + "/device-plugins", "/var/lib/kubelet/device-plugins"),
        ("plugins-registry", kubelet + "/plugins_registry", "/var/lib/kubelet/plugins_registry"),
        ("devs", "/dev", "/dev"),
    ]
    container: Json = {
        "name": "rdma-shared-dp",
        "image": _image(settings),
        "imagePullPolicy": "IfNotPresent",
        # the plugin sets matched netdevs up and opens device nodes of the host
        "securityContext": {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "resources": settings["resources"],
        "volumeMounts": [{"name": name, "mountPath": inside} for name, _dummy, inside in host_paths]
        + [{"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin", "readOnly": True}],
    }
    pod: Json = {
        "hostNetwork": True,
        # it speaks with the kubelet of its node, never with the API
        "automountServiceAccountToken": False,
        "priorityClassName": settings["priority_class"],
        "nodeSelector": {CLASS_LABEL: slug},
        "tolerations": settings["tolerations"],
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": outside}} for name, outside, _dummy in host_paths]
        + [
            {
                "name": "config",
                "configMap": {"name": config_map, "items": [{"key": "config.json", "path": "config.json"}]},
            }
        ],
    }
    if settings.get("image_pull_secrets"):
        pod["imagePullSecrets"] = [{"name": name} for name in settings["image_pull_secrets"]]
    if settings.get("cdi"):
        # the plugin writes a CDI specification, from which the container runtime makes the devices
        container["args"] = ["--use-cdi"]
        container["volumeMounts"].append({"name": "cdi", "mountPath": "/var/run/cdi"})
        pod["volumes"].append({"name": "cdi", "hostPath": {"path": "/var/run/cdi", "type": "DirectoryOrCreate"}})
    return pod


def _daemon_set(slug: str, group: str, entry: Class, config_text: str, settings: t.Mapping[str, t.Any]) -> Json:
    metadata = _metadata(slug, group, settings)
    selector = {"app.kubernetes.io/name": APP_NAME, "app.kubernetes.io/instance": slug}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxUnavailable": max_unavailable(settings.get("max_unavailable", _DEFAULTS["max_unavailable"]))
                },
            },
            "template": {
                "metadata": {
                    "labels": _pod_labels(slug, group),
                    # the plugin reads its configuration once: a changed one has to roll the Pods
                    "annotations": {CONFIG_ANNOTATION: hashlib.sha256(config_text.encode()).hexdigest()},
                },
                "spec": _pod(slug, metadata["name"], _kubelet_root(entry, settings), settings),
            },
        },
    }


def _directory(group: str) -> str:
    """The directory of a group's files: no group leads out of where they are written. The role names it the same way."""
    return re.sub(r"^\.+|[^\w.-]", "_", group)


def rendered_classes(plan: Plan) -> t.Iterator[tuple[str, str, Class, str]]:
    """(slug, group, class, path without its ending) of each class that has something to roll out.

    Classes of groups that this run did not plan (planned: False) give nothing: their files are those of an earlier run. Their
    names are taken nevertheless. ManifestError when two classes would share a name.
    """
    owners: dict[str, tuple[str, str]] = {}
    for group in sorted(plan["groups"]):
        for entry in plan["groups"][group]["classes"]:
            if entry["config"] is None:
                continue
            slug = class_slug(entry["name"])
            if slug in owners:
                raise ManifestError(
                    "classes '{}' of group {} and '{}' of group {} would both be named '{}' in Kubernetes; "
                    "rename one of the groups".format(*owners[slug], entry["name"], group, slug)
                )
            owners[slug] = (entry["name"], group)
            if plan["groups"][group]["planned"]:
                yield slug, group, entry, f"{_directory(group)}/{slug}"


def plan_manifests(plan: Plan, settings: t.Mapping[str, t.Any]) -> dict[str, Json]:
    """Objects by relative path (``GROUP/CLASS-configmap.yaml``, ``GROUP/CLASS-daemonset.yaml``) for the groups of a plan.

    settings: {namespace, image, priority_class, kubelet_root, tolerations: [...], resources: {...}}, and where wanted
    {inventory: its name, image_digest, image_pull_secrets: [names], max_unavailable: number or percentage, cdi: bool,
    pod_security: bool or auto (adds ``namespace.yaml``, whose labels allow privileged Pods), distributions: {host: name} (for
    kubelet_root: auto)}. Classes without a configuration (software devices that the plugin does not see) have no objects, nor have
    groups that this run did not plan. ManifestError when two classes would share a name, and for settings that no object can have.
    """
    objects: dict[str, Json] = {}
    for slug, group, entry, path in rendered_classes(plan):
        if not objects and opens_namespace(settings.get("pod_security", False), settings["namespace"]):
            objects["namespace.yaml"] = namespace_object(settings)
        text = json.dumps(entry["config"], sort_keys=True)
        objects[path + "-configmap.yaml"] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(slug, group, settings),
            "data": {"config.json": text},
        }
        objects[path + "-daemonset.yaml"] = _daemon_set(slug, group, entry, text, settings)
    return objects


def _is_node_name(host: str) -> bool:
    return len(host) <= SUBDOMAIN_LIMIT and SUBDOMAIN.fullmatch(host) is not None


def _nodes(entry: Class, names: t.Mapping[str, str]) -> list[str]:
    nodes = []
    for host in entry["hosts"]:
        node = str(names.get(host, host))
        if not _is_node_name(node):
            raise ManifestError(
                f"host {host} of class '{entry['name']}': '{node}' cannot be the name of a node",
                "name its node in node_names",
            )
        nodes.append(node)
    return sorted(nodes)


def opens_namespace(wish: t.Any, namespace: str) -> bool:
    """Whether a namespace gets the labels that allow privileged Pods.

    wish: pod_security; where nobody says (None, auto), any but kube-system, whose labels are nobody's to change without being asked.
    """
    if wish is None or wish == "auto":
        return namespace != "kube-system"
    return is_true(wish)


def namespace_object(settings: t.Mapping[str, t.Any]) -> Json:
    """The namespace with what its admission has to know: the plugin is privileged and mounts directories of its node."""
    labels = {POD_SECURITY + mode: "privileged" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings["namespace"], "labels": labels}}


def max_unavailable(value: t.Any) -> t.Union[int, str]:
    """A share of nodes as a DaemonSet has it; ManifestError for anything else."""
    share = share_of(value)
    if share is None:
        raise ManifestError(
            f"max_unavailable '{value}' is neither a number of nodes above 0 nor a percentage such as 10%"
        )
    return f"{share.number}%" if share.percent else share.number


def kept_values(kept: t.Iterable[str], known: t.Collection[str], inventory: t.Iterable[str]) -> list[str]:
    """The groups, as group_value() has them, that stay as they are.

    kept: of the groups that a plan knows. inventory: all groups of the inventory; those that the plan does not know stay, too. One of
    these that has the value of a known one (kube-node beside kube_node) has nothing that could stay.
    """
    values = {group_value(name) for name in known}
    unknown = {group_value(name) for name in set(inventory) - set(known)}
    return sorted({group_value(name) for name in kept} | (unknown - values))


def rollout_scope(
    plan: Plan, inventory_groups: t.Iterable[str] = (), allow_unusable: bool = False
) -> tuple[Plan, list[str]]:
    """(the plan with planned: False on every group that stays as it is, the values of GROUP_LABEL that stay).

    What stays: groups of the inventory that this run did not plan, those with hosts whose facts cannot be used (nobody knows what
    these hosts have), and, unless allow_unusable, those of which it found hosts without any usable port: a switch that is down for
    an hour must not take the resource from its nodes.
    """
    groups = plan["groups"]
    halted = {name for name in groups if not groups[name]["planned"] or groups[name]["malformed"]}
    if not allow_unusable:
        halted |= {name for name in groups if groups[name]["errors"]}
    whole: Plan = {**plan, "groups": {name: {**each, "planned": name not in halted} for name, each in groups.items()}}
    return whole, kept_values(halted, groups, inventory_groups)


def scoped_classes(plan: Plan, names: t.Mapping[str, str]) -> list[tuple[str, str, Class, str, list[str]]]:
    """rendered_classes() with the nodes of each class. names: of nodes whose name differs from their host's.

    ManifestError for a host that cannot be a node, and for a node in two classes.
    """
    found = []
    owners: dict[str, str] = {}
    for slug, group, entry, path in rendered_classes(plan):
        nodes = _nodes(entry, names)
        for node in nodes:
            if node in owners:
                raise ManifestError(f"node {node} would be in the classes '{owners[node]}' and '{entry['name']}'")
            owners[node] = entry["name"]
        found.append((slug, group, entry, path, nodes))
    return found


def class_resources(entry: Class) -> dict[str, int]:
    """{extended resource: how many of it each node of the class offers} with the shared device plugin."""
    pools = entry["config"]["configList"] if entry["config"] else []
    return {f"{pool['resourcePrefix'] or 'rdma'}/{pool['resourceName']}": pool["rdmaHcaMax"] for pool in pools}


def cdi_warnings(plan: Plan, settings: t.Mapping[str, t.Any]) -> list[str]:
    """What Pods do not get where a device plugin names their devices by CDI, on nodes that have several resources.

    Both plugins do it in an annotation that is called the same for every resource (CreateContainerAnnotations() of pkg/cdi), and of
    those of one name the kubelet gives a container the first alone (pkg/kubelet/cm/devicemanager/pod_devices.go).
    """
    several = [slug for slug, _group, entry, _path in rendered_classes(plan) if len(entry["pools"]) > 1]
    if not several or not is_true(settings.get("cdi", False)):
        return []
    return [
        f"rdma_rollout.cdi: on nodes of class {first_of(several, 5)}, a container that asks for several rails gets the devices of one of them only: "
        "the plugin names those of each in an annotation of the same name, of which the kubelet keeps the first. Without cdi it gets all"
    ]


def rollout_request(
    plan: Plan,
    settings: t.Mapping[str, t.Any],
    inventory_groups: t.Iterable[str] = (),
    allow_unusable: bool = False,
) -> Json:
    """What the rollout of a plan asks of a cluster: {objects, nodes, classes, keep, inventory, place, warnings}.

    objects: in the order in which they are to be applied. nodes: {node: class}. classes: [{name, group, daemon_set, namespace, nodes,
    resources: {resource: count on each node}}]. keep: groups (as in GROUP_LABEL) that stay as they are
    (rollout_scope). place: the namespace where it is said who rolls out (Lease).
    """
    whole, keep = rollout_scope(plan, inventory_groups, allow_unusable)
    objects = plan_manifests(whole, settings)
    classes: list[Json] = []
    for slug, group, entry, path, nodes in scoped_classes(whole, settings.get("node_names") or {}):
        classes.append(
            {
                "name": slug,
                "group": group_value(group),
                "daemon_set": objects[path + "-daemonset.yaml"]["metadata"]["name"],
                "namespace": settings["namespace"],
                "nodes": nodes,
                "resources": class_resources(entry),
            }
        )
    # the namespace first, and what a Pod mounts before what makes it
    kinds = ["Namespace", "ConfigMap", "DaemonSet"]
    ordered = sorted(objects.values(), key=lambda item: (kinds.index(item["kind"]), item["metadata"]["name"]))
    return {
        "objects": ordered,
        "nodes": {node: each["name"] for each in classes for node in each["nodes"]},
        "classes": classes,
        "keep": keep,
        "inventory": inventory_value(settings),
        "place": settings["namespace"],
        "warnings": cdi_warnings(whole, settings),
    }


def label_scope(plan: Plan, settings: t.Mapping[str, t.Any], inventory: t.Mapping[str, t.Iterable[str]]) -> Json:
    """From which nodes a rollout may take the label: {known: nodes, remove: nodes and values of GROUP_LABEL}.

    known: hosts of groups that this run has planned; when they are no longer in a class, the plan says why. remove: what is taken out
    on purpose. inventory: groups with their hosts.
    """
    hosts = {host for name in plan["groups"] for host in inventory.get(name, ())}
    return node_scope(hosts, plan.get("remove") or (), settings.get("node_names") or {}, plan.get("removed") or ())


def label_scripts(plan: Plan, names: t.Optional[t.Mapping[str, str]] = None) -> dict[str, str]:
    """Shell scripts by relative path (``GROUP/CLASS-labels.sh``) that label the nodes of each class, one line a node.

    names: of nodes whose name differs from their host's.

    A DaemonSet runs on no node before its nodes have the label. A host whose name in the inventory cannot be that of a node
    is a comment, and makes the script end with an error: its node has to be labelled by hand. Names are quoted always.
    """
    scripts: dict[str, str] = {}
    for slug, _group, entry, path in rendered_classes(plan):
        lines = [
            "#!/bin/sh",
            f"# app.kubernetes.io/managed-by: {MANAGED_BY}",
            f"# Labels the nodes of class {slug}. Hosts of the inventory stand for nodes of the same name, or those of node_names.",
            "set -eu",
        ]
        others = []
        for host in entry["hosts"]:
            node = str((names or {}).get(host, host))
            if _is_node_name(node):
                lines.append(f"kubectl label node '{node}' '{CLASS_LABEL}={slug}' --overwrite")
            else:
                # as JSON: a name with a line break in it stays inside its comment
                others.append(f"# {json.dumps(host)} cannot be the name of a node: label its node by hand")
        if others:
            lines += [*others, f"echo '{len(others)} hosts are not labelled, see the end of this file' >&2", "exit 1"]
        scripts[path + "-labels.sh"] = "\n".join(lines) + "\n"
    return scripts

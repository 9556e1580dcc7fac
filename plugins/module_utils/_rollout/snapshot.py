# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a cluster's objects for whoever diagnoses it: nothing secret, nothing long. Private to the collection. Pure.

Objects keep the form that the Kubernetes API gives them, without most of their fields. Variables of containers, their commands, Secrets and
most of what ConfigMaps have are never kept.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.forms import in_form, text_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import APP_NAME, DRANET_NAME, MANAGED_BY

__all__ = [
    "KINDS",
    "empty_snapshot",
    "kept_pods",
    "part_of",
    "reduced",
    "requests_of",
    "resources_of",
    "sorted_snapshot",
]

Json = t.Dict[str, t.Any]

_LONGEST_CONFIG = 65536
_CONFIG_KEY = "config.json"
# Of a container's variables, these alone: they say which devices a job uses, and hold no credentials.
_VARIABLES = ("NCCL_", "UCX_")
_ANNOTATIONS = ("rdma.fabric/", "nvidia.network-operator.", "k8s.v1.cni.cncf.io/networks")
# A word of an image, and what its Pods do. The first that fits counts.
_PARTS = (
    ("rdma-shared-dev-plugin", "plugin"),
    ("sriov-network-device-plugin", "plugin"),
    ("dranet", "dranet"),
    ("vgpu-device-plugin", "vgpu"),
    ("projecthami/hami", "vgpu"),
    ("doca-driver", "ofed"),
    ("mellanox/mofed", "ofed"),
    ("dra-driver", "dra"),
    ("container-toolkit", "toolkit"),
    ("kata-deploy", "toolkit"),
    ("longhorn-manager", "longhorn"),
    ("nvidia/driver", "gpu_driver"),
    ("node-feature-discovery", "nfd"),
)
# {kind: its list in a snapshot}; nodes are by name.
KINDS = {
    "ConfigMap": "config_maps",
    "DaemonSet": "daemon_sets",
    "Event": "events",
    "NicClusterPolicy": "policies",
    "NicNodePolicy": "policies",
    "Node": "nodes",
    "Pod": "pods",
}


def _map(value: t.Any) -> Json:
    return value if isinstance(value, dict) else {}


def _maps(value: t.Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _some(item: Json, *keys: str) -> Json:
    """These keys of an object, as far as it has them and they have the form that they have to have; long texts are cut."""
    found = {key: in_form(key, item.get(key)) for key in keys}
    return {key: value for key, value in found.items() if value not in (None, "", [], {})}


def _metadata(item: Json) -> Json:
    metadata = _map(item.get("metadata"))
    found = _some(metadata, "name", "namespace", "labels", "creationTimestamp", "generation")
    annotations = {
        key: text_of(value)
        for key, value in _map(metadata.get("annotations")).items()
        if isinstance(value, str) and text_of(key) == key and key.startswith(_ANNOTATIONS)
    }
    # what was reduced before calls them owners
    references = _maps(metadata.get("ownerReferences") or metadata.get("owners"))
    owners = [_some(each, "kind", "name") for each in references]
    return {**found, **({"annotations": annotations} if annotations else {}), **({"owners": owners} if owners else {})}


def _node(item: Json) -> Json:
    spec, status = _map(item.get("spec")), _map(item.get("status"))
    return {
        "metadata": _metadata(item),
        "spec": _some(spec, "unschedulable", "taints"),
        "status": {
            **_some(status, "capacity", "allocatable"),
            "conditions": [
                _some(each, "type", "status", "reason", "message") for each in _maps(status.get("conditions"))
            ],
            "nodeInfo": _some(
                _map(status.get("nodeInfo")), "kubeletVersion", "kernelVersion", "containerRuntimeVersion"
            ),
        },
    }


def _container(item: Json) -> Json:
    found = _some(item, "name", "image")
    resources = _some(_map(item.get("resources")), "limits", "requests")
    security = _map(item.get("securityContext"))
    own = _some(security, "privileged", "runAsUser", "runAsNonRoot", "capabilities")
    if security.get("runAsUser") == 0:
        own["runAsUser"] = 0
    env = [
        {"name": text_of(each["name"]), "value": text_of(each["value"], 200)}
        for each in _maps(item.get("env"))
        if isinstance(each.get("name"), str)
        and each["name"].startswith(_VARIABLES)
        and isinstance(each.get("value"), str)
    ]
    for key, value in (("resources", resources), ("securityContext", own), ("env", env)):
        if value:
            found[key] = value
    return found


def _pod_spec(spec: Json) -> Json:
    found = _some(spec, "nodeName", "nodeSelector", "tolerations", "hostNetwork", "runtimeClassName", "resources")
    security = _map(spec.get("securityContext"))
    own = _some(security, "runAsUser", "runAsNonRoot")
    if security.get("runAsUser") == 0:
        own["runAsUser"] = 0
    if own:
        found["securityContext"] = own
    for key in ("initContainers", "containers"):
        containers = [_container(each) for each in _maps(spec.get(key))]
        if containers:
            found[key] = containers
    volumes = [
        {**_some(each, "name"), sort: _some(_map(each[sort]), "name", "medium", "sizeLimit", "path")}
        for each in _maps(spec.get("volumes"))
        for sort in ("configMap", "emptyDir", "hostPath")
        if sort in each
    ]
    if volumes:
        found["volumes"] = volumes
    claims = [_some(each, "name") for each in _maps(spec.get("resourceClaims"))]
    if claims:
        found["resourceClaims"] = claims
    return found


def _state(item: t.Any) -> Json:
    return {
        key: _some(_map(value), "reason", "message", "exitCode", "signal", "startedAt", "finishedAt")
        for key, value in _map(item).items()
        if key in ("waiting", "running", "terminated")
    }


def _container_status(item: Json) -> Json:
    return {
        **_some(item, "name", "ready", "restartCount"),
        "state": _state(item.get("state")),
        "lastState": _state(item.get("lastState")),
    }


def _pod(item: Json) -> Json:
    status = _map(item.get("status"))
    own = _some(status, "phase", "reason", "message", "startTime")
    own["conditions"] = [_some(each, "type", "status", "reason", "message") for each in _maps(status.get("conditions"))]
    for key in ("initContainerStatuses", "containerStatuses"):
        own[key] = [_container_status(each) for each in _maps(status.get(key))]
    return {"metadata": _metadata(item), "spec": _pod_spec(_map(item.get("spec"))), "status": own}


def _daemon_set(item: Json) -> Json:
    spec, template = _map(item.get("spec")), _map(_map(item.get("spec")).get("template"))
    return {
        "metadata": _metadata(item),
        "spec": {
            "selector": _some(_map(spec.get("selector")), "matchLabels"),
            "template": {"metadata": _metadata(template), "spec": _pod_spec(_map(template.get("spec")))},
        },
        "status": _some(
            _map(item.get("status")),
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberAvailable",
            "updatedNumberScheduled",
            "observedGeneration",
        ),
    }


def _changed(item: Json) -> t.Optional[str]:
    """When the data of a ConfigMap was last written; when it was made where nobody says that (kubectl hides managedFields)."""
    metadata = _map(item.get("metadata"))
    times = [
        text_of(entry.get("time")) or ""
        for entry in _maps(metadata.get("managedFields"))
        if "f:data" in _map(entry.get("fieldsV1"))
    ]
    return max(times, default="") or text_of(metadata.get("creationTimestamp"))


def _config_map(item: Json) -> Json:
    text = _map(item.get("data")).get(_CONFIG_KEY)
    # one that was reduced before has the time by itself
    changed = text_of(item.get("changed")) or _changed(item)
    data = {_CONFIG_KEY: text_of(text, _LONGEST_CONFIG)} if isinstance(text, str) else {}
    return {"metadata": _metadata(item), "changed": changed, "data": data}


def _event(item: Json) -> Json:
    own = _some(item, "reason", "message", "type", "count")
    metadata = _map(item.get("metadata"))
    times = (item.get("lastTimestamp"), item.get("eventTime"), metadata.get("creationTimestamp"))
    when = next((found for found in map(text_of, times) if found), None)
    about = _some(_map(item.get("involvedObject")), "kind", "name", "namespace")
    return {**own, "involvedObject": about, "lastTimestamp": when}


def _policy(item: Json) -> Json:
    spec, status = _map(item.get("spec")), _map(item.get("status"))
    sections = {
        key: _some(_map(spec[key]), "image", "version", "config")
        for key in ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin")
        if key in spec
    }
    states = [_some(each, "name", "state", "message") for each in _maps(status.get("appliedStates"))]
    return {
        "kind": item["kind"],
        "metadata": _metadata(item),
        "spec": {**sections, **_some(spec, "tolerations", "nodeSelector")},
        "status": {**_some(status, "state", "reason"), "appliedStates": states},
    }


_REDUCERS: dict[str, t.Callable[[Json], Json]] = {
    "ConfigMap": _config_map,
    "DaemonSet": _daemon_set,
    "Event": _event,
    "NicClusterPolicy": _policy,
    "NicNodePolicy": _policy,
    "Node": _node,
    "Pod": _pod,
}


def reduced(kind: str, item: t.Any) -> Json:
    """What is kept of an object of one of KINDS. What was reduced before comes out as it is."""
    return _REDUCERS[kind]({**_map(item), "kind": kind})


def part_of(daemon_set: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What the Pods of a DaemonSet do: plugin, dranet, ofed, gpu_driver, toolkit, dra, longhorn, vgpu, nfd; None for anything else."""
    labels = _map(_map(daemon_set.get("metadata")).get("labels"))
    if labels.get("app.kubernetes.io/managed-by") == MANAGED_BY:
        name = labels.get("app.kubernetes.io/name")
        if name in (APP_NAME, DRANET_NAME):
            return "plugin" if name == APP_NAME else "dranet"
    spec = _map(_map(_map(daemon_set.get("spec")).get("template")).get("spec"))
    images = [str(each.get("image")) for each in _maps(spec.get("containers"))]
    return next((part for word, part in _PARTS if any(word in image for image in images)), None)


def requests_of(pod: t.Mapping[str, t.Any]) -> set[str]:
    """Extended resources that a Pod asks for."""
    spec = _map(pod.get("spec"))
    holders = [*_maps(spec.get("initContainers")), *_maps(spec.get("containers")), spec]
    tables = [_map(_map(each.get("resources")).get(key)) for each in holders for key in ("limits", "requests")]
    return {str(name) for table in tables for name in table if "/" in str(name)}


def _is_rdma(resource: str, known: t.Collection[str]) -> bool:
    return resource in known or resource.startswith("rdma/") or "rdma" in resource.partition("/")[2]


def resources_of(pod: t.Mapping[str, t.Any], known: t.Collection[str]) -> set[str]:
    """RDMA resources that a Pod asks for: those that are known, and what is called like one."""
    return {name for name in requests_of(pod) if _is_rdma(name, known)}


def kept_pods(
    pods: t.Iterable[Json], daemon_sets: t.Sequence[Json], known: t.Collection[str], named: t.Collection[str]
) -> list[Json]:
    """Pods that matter: of the DaemonSets that are kept, those that ask for an RDMA resource, and those that are named (NAMESPACE/NAME).

    All of them reduced.
    """
    owners = {(each["metadata"].get("namespace"), each["metadata"]["name"]) for each in daemon_sets}
    found = []
    for pod in pods:
        metadata = _map(pod.get("metadata"))
        space = metadata.get("namespace")
        references = _maps(metadata.get("ownerReferences") or metadata.get("owners"))
        own = {(space, each.get("name")) for each in references}
        if own & owners or f"{space}/{metadata.get('name')}" in named or resources_of(pod, known):
            found.append(reduced("Pod", pod))
    return found


def empty_snapshot() -> Json:
    """A snapshot of nothing."""
    return {"schema": 1, "nodes": {}, **{key: [] for key in sorted(set(KINDS.values()) - {"nodes"})}}


def _name(item: Json) -> tuple[str, str, str, str]:
    metadata = _map(item.get("metadata") or item.get("involvedObject"))
    return (
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(item.get("lastTimestamp") or ""),
        str(item.get("message") or ""),
    )


def sorted_snapshot(snapshot: Json) -> Json:
    """The same, in an order that does not depend on that in which objects came."""
    return {
        key: sorted(value, key=_name)
        if isinstance(value, list)
        else dict(sorted(value.items()))
        if key == "nodes"
        else value
        for key, value in snapshot.items()
    }

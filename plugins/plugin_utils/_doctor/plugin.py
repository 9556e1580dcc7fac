# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: why a device plugin that is on a node offers nothing there. Private to the collection. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import functions_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import SHARED, matched
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    CONFIG_ANNOTATION,
    DRA_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import pod_trouble, quantity
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import (
    Case,
    entries_of,
    name_of,
    quoted,
    shown_pod,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Rule

__all__ = ["RULES"]

# k8s-rdma-shared-dev-plugin, pkg/resources/resources_manager.go
_NAME = re.compile(r"[a-zA-Z0-9_]+")
_REFUSED = (
    "one or more invalid configuration(s) given",
    "contains invalid characters",
    "no resources configuration found",
    "configuration missmatch",
    "configuration mismatch",
    "Invalid value for rdmaHcaMax",
    'invalid "periodicUpdateInterval"',
)
_NOT_JSON = ("looking for beginning of", "after object key", "unexpected end of JSON input", "cannot unmarshal")
_EXCLUSIVE = "incorrect RDMA subsystem network namespace"
_EMPTY = ("no devices in device pool, creating empty resource server", "no Rdma Devices were found for resource")
# pkg/resources/pci_net_device.go and rdma_device_spec.go of the plugin. It says so of each network card that has no RDMA device, too, for
# which rdma_cm is the first that is missing.
_NO_CHARACTER_DEVICE = "missing RDMA device spec for device {},"
_NO_CHARACTER_DEVICES = tuple(
    f"RDMA device {quote}{name}{quote} not found" for name in ("umad", "uverbs") for quote in ('"', '\\"')
)
_RESTARTED = "most likely Kubelet restarted"
# runc, libcontainer/specconv and containerd, pkg/oci
_ADDING = "adding custom device"
_STATES = ("waiting", "terminated")
_PULL = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


def _no_character_device(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        missing = [
            f"{host}: {device['name']}: {device['plugin']['reason']}"
            for device in facts.get("devices") or ()
            # whatever it is of: the plugin lists functions
            if " missing: load " in str(device["plugin"]["reason"])
        ]
        if missing:
            yield Hit((host,), tuple(map(quoted, missing[:3])))
    for log in case.logs:
        functions = {
            device["pci"]
            for host in case.hosts_of_log(log)
            for device in (case.facts.get(host) or {}).get("devices") or ()
            if device["pci"]
        }
        texts = (*_NO_CHARACTER_DEVICES, *map(_NO_CHARACTER_DEVICE.format, sorted(functions)))
        lines = list(map(str, case.lines(*texts, logs=[log])))
        if lines:
            yield case.hit(log, lines)


def _matches(facts: Json, entry: Json) -> bool:
    selectors = entry.get("selectors") or {"ifNames": entry.get("devices") or []}
    known = {
        key: set(map(str, values))
        for key, values in selectors.items()
        if key in SHARED.kinds and isinstance(values, list) and values
    }
    return any(matched(SHARED, known, function.values) for function in functions_of(facts, {}, [], []))


def _selectors_match_nothing(case: Case) -> t.Iterator[Hit]:
    for daemon_set, config_map in case.configurations():
        for resource, entry in entries_of(config_map["data"].get("config.json")):
            if "rdmaHcaMax" not in entry:
                continue
            for node in case.nodes_for(daemon_set):
                (host,) = case.host_of(node["metadata"]["name"])
                facts = case.facts.get(host) or {}
                if facts.get("devices") and not _matches(facts, entry):
                    shown = json.dumps(entry.get("selectors") or entry.get("devices"), sort_keys=True)
                    line = f"{host}: no function has what {resource} of ConfigMap {name_of(config_map)} selects: {quoted(shown)}"
                    yield Hit((host,), (line,))
    yield from case.told(*_EMPTY)


def _exclusive(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        labels = ((case.node_of(host) or {}).get("metadata") or {}).get("labels") or {}
        # DRANET works in it, too
        served = DRA_LABEL in labels and CLASS_LABEL not in labels
        if (facts.get("kernel") or {}).get("rdma_netns") == "exclusive" and not served:
            yield Hit((host,), (f"{host}: rdma system says netns exclusive",))
    yield from case.told(_EXCLUSIVE)


def _configuration_newer(case: Case) -> t.Iterator[Hit]:
    for daemon_set, config_map in case.configurations():
        text, changed = config_map["data"].get("config.json") or "", str(config_map.get("changed") or "")
        digest = hashlib.sha256(text.encode()).hexdigest()
        for pod in case.pods_of(daemon_set):
            annotations = pod["metadata"].get("annotations") or {}
            own = annotations.get(CONFIG_ANNOTATION)
            started = str((pod.get("status") or {}).get("startTime") or changed)
            # RFC 3339 in UTC, as the API server writes them: they sort as text
            old = (
                own != digest if own else started < changed and "nvidia.network-operator.config-hash" not in annotations
            )
            if old:
                yield Hit(
                    case.host_of(pod["spec"].get("nodeName")),
                    (f"{shown_pod(pod)} began at {started}, ConfigMap {name_of(config_map)} was written at {changed}",),
                    remedy=_restart_of(pod),
                )


def _starts_of_kubelets(case: Case) -> dict[str, str]:
    """{node: when its kubelet last started}, as events say it."""
    found: dict[str, str] = {}
    for event in case.cluster["events"]:
        about = event.get("involvedObject") or {}
        if about.get("kind") == "Node" and event.get("reason") == "Starting" and "kubelet" in str(event.get("message")):
            name = str(about.get("name"))
            found[name] = max(found.get(name, ""), str(event.get("lastTimestamp") or ""))
    return found


def _kubelet_restarted(case: Case) -> t.Iterator[Hit]:
    starts = _starts_of_kubelets(case)
    told = {host: line for line in case.lines(_RESTARTED) for host in case.hosts_of_log(line.log)}
    for name, pods in _running(case).items():
        host = case.host_of(name)[0]
        short = _short(case, name)
        began = min(str((pod.get("status") or {}).get("startTime") or "9") for pod in pods)
        if short and (host in told or starts.get(name, "") > began):
            line = (
                str(told[host])
                if host in told
                else f"the kubelet of {name} started at {starts[name]}, its device plugin at {began}"
            )
            yield Hit((host,), (line, *short), remedy=_restart_of(pods[0]))


def _restart_of(pod: Json) -> str:
    """The same for all nodes of a DaemonSet."""
    owners = pod["metadata"].get("owners") or [{"name": "NAME"}]
    return f"kubectl -n {pod['metadata'].get('namespace')} rollout restart daemonset {owners[0].get('name')}"


def _wrong_in(text: str) -> t.Optional[str]:
    """What the plugin refuses of its configuration, None for nothing."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as exc:
        return f"it is not JSON: {exc}"
    rows = config.get("configList") if isinstance(config, dict) else None
    if isinstance(config, dict) and "resourceList" in config:
        return None
    if not isinstance(rows, list) or not rows:
        return "configList is empty or missing"
    names = [str(row.get("resourceName")) if isinstance(row, dict) else "" for row in rows]
    for row, name in zip(rows, names, strict=True):
        if not _NAME.fullmatch(name):
            return f"resourceName '{name[:80]}' has other characters than letters, digits and _"
        if names.count(name) > 1:
            return f"resourceName '{name[:80]}' is there twice"
        if bool(row.get("selectors")) == bool(row.get("devices")):
            return f"{name[:80]} has {'both' if row.get('devices') else 'neither'} selectors and devices"
        if isinstance(row.get("rdmaHcaMax"), int) and row["rdmaHcaMax"] < 0:
            return f"{name[:80]} has a negative rdmaHcaMax"
    return None


def _configuration_refused(case: Case) -> t.Iterator[Hit]:
    for daemon_set, config_map in case.configurations():
        text = config_map["data"].get("config.json")
        wrong = _wrong_in(text) if text is not None else "it has no config.json"
        if wrong:
            nodes = [str(pod["spec"]["nodeName"]) for pod in case.pods_of(daemon_set) if pod["spec"].get("nodeName")]
            yield Hit(
                tuple(host for name in nodes for host in case.host_of(name)),
                (quoted(f"ConfigMap {name_of(config_map)}: {wrong}"),),
                about=(name_of(config_map),),
            )
    yield from case.told(*_REFUSED)
    for line in case.lines(*_NOT_JSON, source="pod"):
        if "reading configs" in line.log["text"]:
            yield case.hit(line.log, [str(line)])


def _not_pulled(case: Case) -> t.Iterator[Hit]:
    for pod in case.cluster["pods"]:
        status = pod.get("status") or {}
        for each in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _PULL:
                words = f"{shown_pod(pod)}: {waiting['reason']}: {waiting.get('message') or ''}"
                yield Hit(case.host_of(pod["spec"].get("nodeName")), (quoted(words),), about=(name_of(pod),))


def _device_file_gone(case: Case) -> t.Iterator[Hit]:
    for line in case.lines(_ADDING):
        if _is_gone(line.raw):
            yield case.hit(line.log, [str(line)])
    for pod in case.cluster["pods"]:
        host = case.host_of(pod["spec"].get("nodeName"))
        for each in (pod.get("status") or {}).get("containerStatuses") or []:
            states = [(each.get(state) or {}).get(key) or {} for state in ("state", "lastState") for key in _STATES]
            said = next((str(one.get("message")) for one in states if _is_gone(str(one.get("message")))), "")
            if said:
                yield Hit(host, (f"{shown_pod(pod)}: {quoted(said)}",), about=(name_of(pod),))


def _is_gone(text: str) -> bool:
    return _ADDING in text and "/dev/infiniband/" in text and "no such file" in text


def _crashes(case: Case) -> t.Iterator[Hit]:
    for daemon_set in case.daemon_sets("plugin", "dranet"):
        for pod in case.pods_of(daemon_set):
            statuses = (pod.get("status") or {}).get("containerStatuses") or []
            reasons = {((each.get("state") or {}).get("waiting") or {}).get("reason") for each in statuses}
            if "CrashLoopBackOff" in reasons:
                yield Hit(
                    case.host_of(pod["spec"].get("nodeName")),
                    (quoted(pod_trouble(pod)),),
                    remedy=f"kubectl -n {pod['metadata'].get('namespace')} logs POD --previous says why",
                )


def _running(case: Case) -> dict[str, list[Json]]:
    """{node: Pods of device plugins that run there}."""
    found: dict[str, list[Json]] = {}
    for each in case.daemon_sets("plugin"):
        for pod in case.pods_of(each):
            node = pod["spec"].get("nodeName")
            if node and (pod.get("status") or {}).get("phase") == "Running":
                found.setdefault(node, []).append(pod)
    return found


def _short(case: Case, name: str) -> list[str]:
    """Resources that the plugins of a node are to offer, and that it does not have."""
    node = case.cluster["nodes"].get(name)
    allocatable = ((node or {}).get("status") or {}).get("allocatable") or {}
    wanted = sorted(case.offered.get(name, ()))
    return [
        f"node {name}: {resource} is {'0' if resource in allocatable else 'missing'} in allocatable"
        for resource in wanted
        if not quantity(allocatable.get(resource))
    ]


def _resource_zero(case: Case) -> t.Iterator[Hit]:
    for name, pods in _running(case).items():
        short = _short(case, name)
        if short:
            yield Hit(
                case.host_of(name),
                (*short, f"{shown_pod(pods[0])} runs"),
                remedy=f"look at the log of its Pod, then: {_restart_of(pods[0])}",
            )


_ROLL_OUT = "correct it and roll out again: ansible-playbook fabric.rdma.rollout"

RULES = (
    Rule(
        "character-device-missing",
        "A character device of an HCA is missing",
        "error",
        ("facts", "logs"),
        "the device plugin leaves an HCA out because a character device of it is missing (/dev/infiniband: uverbs, umad, rdma_cm)",
        "ansible-playbook fabric.rdma.prepare loads ib_umad, ib_uverbs and rdma_ucm, now and at boot; by hand: modprobe -a ib_umad "
        "ib_uverbs rdma_ucm",
        _no_character_device,
    ),
    Rule(
        "exclusive-namespaces",
        "RDMA network namespaces are exclusive",
        "error",
        ("facts", "logs"),
        "the RDMA network namespace mode of the host is exclusive, and the shared device plugin does not start in it",
        "rdma_roce_host: {netns: shared} and ansible-playbook fabric.rdma.prepare; by hand: options ib_core netns_mode=1 in "
        "/etc/modprobe.d, and a reboot",
        _exclusive,
    ),
    Rule(
        "plugin-configuration-refused",
        "The device plugin refuses its configuration",
        "error",
        ("cluster", "logs"),
        "the device plugin refuses its configuration, and ends each time it is started",
        _ROLL_OUT + "; resource names have letters, digits and _ only (rdma_resource.name)",
        _configuration_refused,
    ),
    Rule(
        "selectors-match-nothing",
        "The selectors match no HCA of a node",
        "error",
        ("cluster", "facts", "logs"),
        "the selectors of the device plugin match no HCA of the node, so it offers 0 of the resource",
        "ansible-playbook fabric.rdma.rollout plans the selectors again from what the nodes have now",
        _selectors_match_nothing,
        ("character-device-missing",),
    ),
    Rule(
        "configuration-newer",
        "The configuration is newer than the device plugin's Pod",
        "error",
        ("cluster",),
        "the configuration was changed after the device plugin's Pod began, and it is read only once",
        "kubectl -n NAMESPACE rollout restart daemonset NAME",
        _configuration_newer,
    ),
    Rule(
        "kubelet-restarted",
        "The kubelet was restarted, and the device plugin did not register again",
        "error",
        ("cluster", "logs"),
        "the kubelet was restarted, and the device plugin has not registered with it again",
        "kubectl -n NAMESPACE rollout restart daemonset NAME",
        _kubelet_restarted,
    ),
    Rule(
        "image-not-pulled",
        "An image cannot be pulled",
        "error",
        ("cluster",),
        "a node cannot pull an image",
        "correct rdma_rollout.image or its registry, or name a Secret with credentials: rdma_rollout.image_pull_secrets",
        _not_pulled,
    ),
    Rule(
        "device-file-gone",
        "A device file that a Pod is to get is gone",
        "error",
        ("cluster", "logs"),
        "the device plugin gives Pods a device file that the node no longer has: the driver was loaded again after the plugin had "
        "started, and has numbered its files differently",
        "kubectl -n NAMESPACE rollout restart daemonset NAME of the device plugin, then delete the Pod, so that it is made again",
        _device_file_gone,
    ),
    Rule(
        "plugin-crashes",
        "The device plugin ends again and again",
        "error",
        ("cluster",),
        "the device plugin ends each time it is started",
        "kubectl -n NAMESPACE logs POD --previous says why",
        _crashes,
        ("plugin-configuration-refused", "exclusive-namespaces"),
    ),
    Rule(
        "resource-zero",
        "A node has none of the resource",
        "error",
        ("cluster",),
        "the device plugin runs on the node, and the node has none of its resource",
        "kubectl -n NAMESPACE logs POD of the device plugin says what it has found",
        _resource_zero,
        (
            "character-device-missing",
            "configuration-newer",
            "exclusive-namespaces",
            "kubelet-restarted",
            "plugin-configuration-refused",
            "plugin-crashes",
            "image-not-pulled",
            "selectors-match-nothing",
        ),
    ),
)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_rollout with engine: dra: DRANET in place of the shared device plugin, for some classes of the plan or all. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import is_true
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import kubelet_root
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import (
    check_places,
    class_resources,
    max_unavailable,
    namespace_object,
    opens_namespace,
    scoped_classes,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import DIGEST, MOVING, is_pinned
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import rolled_out
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import (
    Json,
    Request,
    Site,
    empty_request,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import (
    host_problems,
    names_class,
    served_problems,
    standing_problems,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_claims import claims_of, object_name
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import (
    common_objects,
    daemon_set,
    device_class,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_select import Choice, choose, pools_by_pci
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import device_name
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import halted

__all__ = ["Moved", "handover_classes", "request"]

_DRANET = engine_defaults("dra")["dranet"]
_IMAGE, _VERSION = _DRANET["image"].rsplit(":v", 1)
_LINE = _VERSION.rpartition(".")[0]
_SYSTEM_NAMESPACE = "kube-system"


class Moved(t.TypedDict):
    """A class that DRANET serves, as the handover needs it."""

    name: str
    group: str
    nodes: list[str]
    # what the shared device plugin offers of it on each node
    resources: dict[str, int]
    # what DRANET publishes of it by node: names of devices
    devices: dict[str, list[str]]
    daemon_set: Json
    device_classes: list[Json]
    templates: list[Json]


_Scoped = tuple[str, str, Class, list[str]]


def _settings(wish: t.Mapping[str, t.Any], site: Site) -> tuple[Json, list[str]]:
    """(settings of daemon_set(), what is wrong with them)."""
    own = wish.get("dranet") or {}
    version = str(_VERSION if own.get("version") is None else own["version"]).lstrip("v")
    problems = []
    if not re.fullmatch(re.escape(_LINE) + r"\.[0-9]{1,4}", version):
        problems.append(
            f"rdma_rollout.dranet.version is {version}; known here is the line {_LINE}, such as {_VERSION}: what DRANET publishes "
            "differs by release, and selectors are made for it"
        )
    image = str(own.get("image") or f"{_IMAGE}:v{version}")
    if not own.get("image") and site["registry"]:
        image = site["registry"].rstrip("/") + "/" + image.partition("/")[2]
    digest = own.get("image_digest")
    if digest and not DIGEST.fullmatch(str(digest)):
        problems.append(f"rdma_rollout.dranet.image_digest is {digest}; expected sha256: and 64 hexadecimal digits")
    if not digest and not is_pinned(image, MOVING):
        problems.append(
            f"rdma_rollout.dranet.image is {image}, which is not pinned: give it the tag of a release, or its digest, so that every "
            "node runs the same"
        )
    settings: Json = {
        "namespace": str(own.get("namespace") or wish.get("namespace") or _SYSTEM_NAMESPACE),
        "image": f"{image}@{digest}" if digest and "@" not in image else image,
        "image_pull_secrets": list(wish.get("image_pull_secrets") or site["pull_secrets"]),
        "priority_class": str(own.get("priority_class") or _DRANET["priority_class"]),
        "tolerations": list(wish["tolerations"]) if wish.get("tolerations") is not None else [{"operator": "Exists"}],
        "resources": own["resources"] if own.get("resources") is not None else _DRANET["resources"],
        "max_unavailable": _DRANET["max_unavailable"],
        "port": int(own.get("port") or _DRANET["port"]),
        "cloud_provider": str(own.get("cloud_provider") or _DRANET["cloud_provider"]),
        "move_ib_interfaces": _truth(own.get("move_ib_interfaces"), _DRANET["move_ib_interfaces"]),
    }
    try:
        settings["max_unavailable"] = max_unavailable(own.get("max_unavailable") or settings["max_unavailable"])
    except ManifestError as exc:
        problems.append(f"rdma_rollout.dranet.{exc}")
    try:
        check_places({"namespace": settings["namespace"], "node_names": site["node_names"]})
    except ManifestError as exc:
        problems.append(str(exc).replace("rdma_rollout.namespace", "rdma_rollout.dranet.namespace"))
    return settings, problems


def _truth(value: t.Any, default: bool) -> bool:
    return default if value is None else is_true(value)


def _moved_classes(wish: t.Mapping[str, t.Any], site: Site) -> tuple[list[_Scoped], list[str]]:
    """([(slug, group, class, nodes)] of the classes that DRANET is to serve, problems). The plugin serves the others.

    A group that stays as it is is a problem when it is to move: what a request lacks is removed, and a driver that is removed takes
    nothing back from Pods.
    """
    asked = wish.get("classes") or {}
    plan = site["plan"]
    problems = []
    stay = halted(site)
    wanted = list(asked.get("groups") or sorted(plan["groups"]))
    for group in wanted:
        entry = plan["groups"].get(group)
        if entry is None:
            problems.append(
                f"rdma_rollout.classes.groups names {group}, which this run did not plan (planned: "
                f"{', '.join(sorted(plan['groups'])) or 'none'}): name a group of rdma_groups, and run without --limit"
            )
        elif group in stay:
            problems.append(
                f"group {group} has no whole plan of this run: {stay[group]}. Nothing of DRANET is changed before it has"
                f"{', or rdma_allow_unusable is true' if group in site['excusable'] else ''}"
            )
    try:
        scoped = scoped_classes(plan, site["node_names"])
    except ManifestError as exc:
        return [], [*problems, str(exc)]
    found = [(slug, group, entry, nodes) for slug, group, entry, _path, nodes in scoped if group in wanted]
    names = asked.get("names") or []
    unknown = sorted(set(names) - {key for slug, _group, entry, _nodes in found for key in (slug, entry["name"])})
    if unknown:
        problems.append(
            f"rdma_rollout.classes.names: no class of the groups {', '.join(wanted)} is called {', '.join(unknown)} (there are "
            f"{', '.join(slug for slug, _group, _entry, _nodes in found) or 'none'})"
        )
    return [row for row in found if names_class(wish, row[1], row[2])], problems


def _kubelet(slug: str, entry: Class, own: t.Mapping[str, t.Any], site: Site) -> tuple[str, list[str]]:
    wanted = str(own.get("kubelet_root") or _DRANET["kubelet_root"])
    if wanted != "auto":
        wrong = (
            []
            if wanted.startswith("/")
            else [f"rdma_rollout.dranet.kubelet_root is {wanted}; expected an absolute path, or auto"]
        )
        return wanted.rstrip("/"), wrong
    roots: dict[str, str] = {}
    for host in entry["hosts"]:
        runtime = (site["facts"].get(host) or {}).get("runtime") or {}
        roots.setdefault(kubelet_root(runtime.get("distribution")), host)
    if len(roots) < 2:
        return next(iter(roots), kubelet_root(None)), []
    (one, host), (other, neighbour) = sorted(roots.items())[:2]
    return one, [
        f"class {slug}: the kubelet of host {host} has its directory in {one}, that of {neighbour} in {other}, and one DaemonSet "
        "mounts one of them: make them groups of their own"
    ]


def _devices(entry: Class, names: t.Mapping[str, str]) -> dict[str, list[str]]:
    return {
        names.get(host, host): sorted(device_name(pci) for pci in pools_by_pci(entry, host)) for host in entry["hosts"]
    }


def _warnings(slug: str, entry: Class, choices: t.Sequence[Choice]) -> list[str]:
    found = []
    for choice in choices:
        if choice.abroad:
            name, host, device = choice.abroad[0]
            found.append(
                f"DeviceClass {object_name(slug, choice.pool)} also matches {device} of host {host} (class {name}"
                f"{', and ' + str(len(choice.abroad) - 1) + ' more' if choice.abroad[1:] else ''}), which no attribute tells from what "
                f"is wanted: Pods that ask for it need the nodeSelector {DRA_LABEL}: {slug}, as in the workload files"
            )
    shared = sorted(name for name, count in class_resources(entry).items() if count != 1)
    if shared:
        found.append(
            f"class {slug}: with DRANET a function is one Pod's at a time, and its netdev is in that Pod; of {', '.join(shared)} the "
            "device plugin lets several Pods share all functions (rdma_resource.hca_max)"
        )
    return found


def request(
    wish: t.Mapping[str, t.Any],
    site: Site,
    served: t.Optional[t.Mapping[str, t.Sequence[str]]] = None,
    *,
    nodes: t.Optional[t.Mapping[str, Json]] = None,
    drivers: t.Optional[t.Sequence[Json]] = None,
    claims: t.Optional[t.Sequence[Json]] = None,
) -> Request:
    """What the cluster is asked for. wish: rdma_rollout. served: API groups with the versions that the API server has of them.

    nodes, drivers, claims: as standing_problems() takes them, None where no cluster was asked.

    Each DeviceClass matches exactly what the plan wants on each host of its class (dra_select.choose()).
    """
    found = _made(wish, site, served)[0]
    if drivers is not None and not found["problems"]:
        found["problems"] = standing_problems(found["objects"], drivers, claims or (), nodes or {}, site["inventory"])
    return found


def _made(
    wish: t.Mapping[str, t.Any],
    site: Site,
    served: t.Optional[t.Mapping[str, t.Sequence[str]]],
) -> tuple[Request, list[Moved]]:
    found = empty_request("dra")
    settings, problems = _settings(wish, site)
    classes, more = _moved_classes(wish, site)
    move_ib = settings["move_ib_interfaces"]
    checked, warnings = host_problems(wish, [entry for _slug, _group, entry, _nodes in classes], site["facts"], move_ib)
    chosen, inexact = choose([entry for _slug, _group, entry, _nodes in classes], site["facts"], move_ib)
    found["problems"] = [*problems, *more, *served_problems(served), *checked, *inexact]
    found["warnings"] = warnings
    moved: list[Moved] = []
    workloads: dict[str, list[Json]] = {}
    for slug, group, entry, nodes in classes:
        kubelet, wrong = _kubelet(slug, entry, wish.get("dranet") or {}, site)
        choices = chosen.get(entry["name"], [])
        templates, files, notes = claims_of(slug, group, entry, choices, wish.get("claims") or {}, site["facts"])
        found["problems"] += wrong
        found["warnings"] += [*_warnings(slug, entry, choices), *notes]
        workloads.update(files)
        moved.append(
            {
                "name": slug,
                "group": group,
                "nodes": nodes,
                "resources": class_resources(entry),
                "devices": _devices(entry, site["node_names"]),
                "daemon_set": daemon_set(slug, group, kubelet, settings),
                "device_classes": [
                    device_class(object_name(slug, each.pool), slug, group, each.text) for each in choices
                ],
                "templates": templates,
            }
        )
        for each in choices:
            kinds = ", ".join(each.selectors)
            row = (f"DeviceClass {object_name(slug, each.pool)}", f"{len(nodes)} nodes, selected by {kinds}")
            found["group_rows"].setdefault(group, []).append(row)
            found["summary"].append(row)
    found["problems"] += _same_names(moved)
    if found["problems"]:
        return found, []
    _fill(found, moved, settings, wish)
    found["workloads"] = workloads
    return found, moved


def _same_names(moved: t.Sequence[Moved]) -> list[str]:
    """Names of classes and resources are put together, and two pairs may give the same."""
    owners: dict[str, str] = {}
    found = []
    for each in moved:
        for item in each["device_classes"]:
            name = item["metadata"]["name"]
            if name in owners:
                found.append(
                    f"classes {owners[name]} and {each['name']} would both have a DeviceClass {name}: rename a group or a resource "
                    "(rdma_resource.name)"
                )
            owners[name] = each["name"]
    return found


def _fill(found: Request, moved: t.Sequence[Moved], settings: Json, wish: t.Mapping[str, t.Any]) -> None:
    """Adds objects, images and waits: what a thing needs before it, and the driver last, so that nothing is offered before it is whole."""
    if not moved:
        found["warnings"].append(
            "engine: dra has no class to serve: every class of the plan is left with the device plugin"
        )
        return
    namespace = settings["namespace"]
    if opens_namespace((wish.get("dranet") or {}).get("pod_security"), namespace):
        found["objects"].append(namespace_object(settings))
    found["objects"] += common_objects(namespace)
    found["objects"] += [item for each in moved for item in (*each["device_classes"], *each["templates"])]
    found["objects"] += [each["daemon_set"] for each in moved]
    found["images"] = [settings["image"]]
    found["node_labels"] = {node: {DRA_LABEL: each["name"]} for each in moved for node in each["nodes"]}
    for each in moved:
        # it is applied before its nodes have their label
        name, nodes = each["daemon_set"]["metadata"]["name"], len(each["nodes"])
        found["waits"].append(rolled_out("DaemonSet", namespace, name, nodes))
    found["summary"].insert(0, ("DRANET", f"{settings['image']} in {namespace}, {len(moved)} classes"))


def handover_classes(
    wish: t.Mapping[str, t.Any],
    site: Site,
    served: t.Optional[t.Mapping[str, t.Sequence[str]]] = None,
) -> tuple[list[Moved], list[Json], list[str]]:
    """(classes for handover.handover(), what all of them need, problems), as request() makes them."""
    found, moved = _made(wish, site, served)
    own = [item for each in moved for item in (each["daemon_set"], *each["device_classes"], *each["templates"])]
    return moved, [item for item in found["objects"] if item not in own], found["problems"]

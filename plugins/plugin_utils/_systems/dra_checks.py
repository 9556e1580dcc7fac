# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be true of a cluster and its nodes before DRANET comes to them. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import is_true
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import some_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import names_of, under_default_route
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    APP_NAME,
    CLASS_LABEL,
    DRA_LABEL,
    DRANET_NAME,
    GROUP_LABEL,
    INVENTORY_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import class_slug
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import instance_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_select import pools_by_pci
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DRIVER, too_long, uplinks

__all__ = [
    "API_GROUP",
    "class_label",
    "class_labels",
    "class_of",
    "dranet_serves",
    "host_problems",
    "names_class",
    "node_selections",
    "served_problems",
    "standing_problems",
]

Json = dict[str, t.Any]

API_GROUP, _API_VERSION = "resource.k8s.io", "v1"
# NRI of earlier releases loses what its plugins change (DRANET's documentation asks for it); 1.6 has none.
_OLDEST = (1, 7, 16)
# github.com/containerd/nri, pkg/api, DefaultSocketPath: DRANET mounts its directory and knows no other.
_NRI_SOCKETS = ("/var/run/nri/nri.sock", "/run/nri/nri.sock")


def served_problems(served: t.Optional[t.Mapping[str, t.Sequence[str]]]) -> list[str]:
    """Whether the API server has what claims are made of. None: nobody asked it."""
    if served is None or _API_VERSION in served.get(API_GROUP, ()):
        return []
    there = ", ".join(sorted(served.get(API_GROUP, ())))
    return [
        f"the API server does not serve {API_GROUP}/{_API_VERSION} (it serves {there or 'no version of it'}), which DRANET and its "
        "claims need: Kubernetes 1.34 or newer has it; until then use engine: daemonset"
    ]


def names_class(rollout: t.Mapping[str, t.Any], group: str, entry: Class) -> bool:
    """Whether rdma_rollout.classes names a class, or the whole group, or nothing. rollout: rdma_rollout."""
    asked = rollout.get("classes") or {}
    groups, names = asked.get("groups") or [group], asked.get("names") or [entry["name"]]
    return group in groups and not {entry["name"], class_slug(entry["name"])}.isdisjoint(names)


def dranet_serves(rollout: t.Mapping[str, t.Any], group: str, entry: Class) -> bool:
    """Whether DRANET is to serve a class, whose nodes have DRA_LABEL then, and offer no resource. rollout: rdma_rollout."""
    return rollout.get("engine") == "dra" and names_class(rollout, group, entry)


def class_label(rollout: t.Mapping[str, t.Any], group: str, entry: Class) -> str:
    """The label of the nodes of a class, which has its slug. rollout: rdma_rollout."""
    return DRA_LABEL if dranet_serves(rollout, group, entry) else CLASS_LABEL


def class_labels(rollout: t.Mapping[str, t.Any], group: str, classes: t.Iterable[Class]) -> dict[str, str]:
    """The label of the nodes of each class of a group, by its slug."""
    return {class_slug(entry["name"]): class_label(rollout, group, entry) for entry in classes}


def node_selections(labels: t.Mapping[str, str]) -> list[list[Json]]:
    """Alternatives of match expressions that select the nodes of classes: a node has one of the labels. labels: of class_labels()."""
    slugs: dict[str, list[str]] = {}
    for slug in sorted(labels):
        slugs.setdefault(labels[slug], []).append(slug)
    return [[{"key": label, "operator": "In", "values": own}] for label, own in sorted(slugs.items())]


def class_of(item: Json) -> str:
    return str(instance_of(item))


def _may_be_served(node: str, nodes: t.Mapping[str, Json], selector: t.Mapping[str, str]) -> bool:
    """Whether the Pods of a DaemonSet may be on a node. One that is no longer in the cluster does not count."""
    labels = (nodes.get(node) or {}).get("labels")
    return labels is None or all(labels.get(key) == value for key, value in selector.items())


def standing_problems(
    objects: t.Sequence[Json],
    drivers: t.Sequence[Json],
    claims: t.Sequence[Json],
    nodes: t.Mapping[str, Json],
    inventory: str,
    leaving: t.Optional[t.Collection[str]] = None,
) -> list[str]:
    """Why these objects cannot take the place of the drivers that the cluster has: a function is offered by one of the two, and a driver
    that goes takes nothing back from Pods.

    objects: of DRANET as it should be. drivers: DaemonSets of ours. claims: all ResourceClaims. nodes: as cluster_state has them.
    inventory: as in INVENTORY_LABEL. leaving: groups, as in GROUP_LABEL, of which alone something goes, None for all.
    """
    wanted = {class_of(item) for item in objects if item["kind"] == "DaemonSet"}
    problems = []
    by_name: dict[str, list[Json]] = {}
    for item in drivers:
        by_name.setdefault(str((item["metadata"].get("labels") or {}).get("app.kubernetes.io/name")), []).append(item)
    both = sorted({class_of(item) for item in by_name.get(APP_NAME, ())} & wanted)
    if both:
        problems.append(
            f"the device plugin still serves {some_of(both)}, and would offer the same functions as DRANET: hand these classes over first "
            "(README of the role dra, From the plugin to DRANET, and back), or leave them with the plugin (rdma_rollout.classes)"
        )
    for item in by_name.get(DRANET_NAME, ()):
        labels, slug = item["metadata"]["labels"], class_of(item)
        if slug in wanted or labels.get(INVENTORY_LABEL) != inventory:
            continue
        if leaving is not None and labels.get(GROUP_LABEL) not in leaving:
            continue
        selector = item["spec"]["template"]["spec"].get("nodeSelector") or {}
        held = sorted(
            {
                f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']} (node {row['pool']})"
                for claim in claims
                for row in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results")
                or ()
                # DRANET has a pool for each node, called like it
                if row["driver"] == DRIVER and _may_be_served(str(row["pool"]), nodes, selector)
            }
        )
        if held:
            problems.append(
                f"DRANET would go from class {slug}, and claims have devices of its nodes, so that their Pods could no longer end: "
                f"{some_of(held)}. End these Pods first"
            )
    return problems


def _version(text: t.Any) -> t.Optional[tuple[int, ...]]:
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})", str(text or ""))
    return tuple(int(part) for part in found.groups()) if found else None


def _runtime(facts: Json) -> tuple[str, str]:
    """(what is wrong with the container runtime, what is not known of it), '' each for nothing."""
    runtime = facts.get("runtime") or {}
    containerd = runtime.get("containerd")
    if not containerd:
        if (runtime.get("services") or {}).get("crio"):
            return "", "CRI-O runs there: see that NRI is on (enable_nri of crio.conf, the default from 1.26 on)"
        return "no containerd was found there, through whose NRI DRANET hands out devices", ""
    version = _version(containerd["version"])
    if version is not None and version < _OLDEST:
        return f"containerd {containerd['version']} is too old for DRANET, which needs 1.7.16 or newer for its NRI", ""
    nri = containerd.get("nri")
    if nri is None or nri["enabled"] is None:
        return (
            "",
            "it is not known whether NRI is on in containerd: run discover again, with rights to read its configuration",
        )
    if not nri["enabled"]:
        return (
            'NRI is off in containerd, through which DRANET hands out devices: set disable = false in [plugins."io.containerd.nri'
            '.v1.nri"] of its configuration, restart it, and run discover again'
        ), ""
    if nri["socket"] not in _NRI_SOCKETS:
        return (
            f"NRI of containerd listens on {nri['socket']}, and DRANET knows {_NRI_SOCKETS[0]} only: take socket_path out",
            "",
        )
    return "", "" if version else "the version of containerd is not known there, and DRANET needs 1.7.16 or newer"


def _device(host: str, row: Json, left_out: t.Collection[str], below: t.Collection[str]) -> t.Optional[str]:
    """What rules out handing a wanted device to Pods with its netdev. left_out: netdevs that DRANET does not publish; below: the default route."""
    masters = {netdev["master"] for port in row["ports"] for netdev in port["netdevs"] if netdev["master"]}
    bond = row["lag"]["netdev"] if row["lag"] else min(masters, default="")
    call = f"host {host}: {row['name']} ({row['pci']})"
    uplink = sorted({row["plugin"]["if_name"], *row["netdevs"], bond} & set(left_out))
    if uplink:
        return f"{call} carries the default route ({uplink[0]}), and DRANET publishes no such device: exclude it (rdma_want.exclude)"
    carried = sorted(names_of(row) & set(below))
    if carried:
        return f"{call} carries the default route ({carried[0]}), and DRANET would move it into a Pod: exclude it (rdma_want.exclude)"
    if bond:
        return (
            f"{call} is part of {bond}, and DRANET would take its netdev out of it: exclude it (rdma_want.exclude), or leave the "
            "group with the device plugin (rdma_rollout.classes)"
        )
    return None


def _many(found: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """One sentence for what is the same on many hosts."""
    return [
        f"{'host' if len(hosts) == 1 else 'hosts'} {some_of(sorted(hosts))}: {words}" for words, hosts in found.items()
    ]


def host_problems(
    wish: t.Mapping[str, t.Any], classes: t.Sequence[Class], facts: t.Mapping[str, Json], move_ib: bool
) -> tuple[list[str], list[str]]:
    """(problems, warnings) of the hosts of classes that DRANET is to serve."""
    wrong: dict[str, list[str]] = {}
    unsure: dict[str, list[str]] = {}
    problems = []
    allowed = is_true((wish.get("dranet") or {}).get("allow_mounts"))
    for entry in classes:
        for host in entry["hosts"]:
            own = facts.get(host)
            if own is None:
                wrong.setdefault("there are no facts: run discover first, on all hosts", []).append(host)
                continue
            problem, doubt = _runtime(own)
            if problem:
                wrong.setdefault(problem, []).append(host)
            if doubt:
                unsure.setdefault(doubt, []).append(host)
            for device, name in too_long(own):
                wrong.setdefault(
                    f"DRANET publishes nothing of a node with {device} ({name}): a ResourceSlice takes no name of more than 64 "
                    "characters. Leave the group with the device plugin (rdma_rollout.classes)",
                    [],
                ).append(host)
            wanted = pools_by_pci(entry, host)
            rows = [row for row in own["devices"] if row["pci"] in wanted]
            found = (_device(host, row, uplinks(own), under_default_route(own)) for row in rows if row["kind"] != "smi")
            problems += [text for text in found if text]
            problems += [] if allowed else _mounts(host, own, rows, move_ib)
    return [*_many(wrong), *problems], _many(unsure)


def _mounts(host: str, facts: Json, rows: t.Sequence[Json], move_ib: bool) -> list[str]:
    """A sentence for what is mounted over RDMA of a host whose netdevs go to Pods: nobody knows over which of them."""
    stays = not move_ib and all(port["link_layer"] == "InfiniBand" for row in rows for port in row["ports"])
    mounts = (facts.get("management") or {}).get("mounts_over_rdma") or []
    if stays or not mounts:
        return []
    first = mounts[0]
    return [
        f"host {host} has {first['source']} on {first['target']} ({first['via']}), and DRANET moves netdevs of RDMA devices into Pods, "
        "which would cut it off where it goes over one of them. With InfiniBand set rdma_rollout.dranet.move_ib_interfaces: false; "
        "else exclude the device (rdma_want.exclude), and say so with rdma_rollout.dranet.allow_mounts: true"
    ]

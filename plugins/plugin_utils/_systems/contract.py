# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every system of the cluster side (networks, operators, drivers, storage) is made from and answers with. Private. Pure.

A system is a function of a Site and its wish that answers with a Request; the internal role cluster_system renders, applies or removes it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan

__all__ = ["Chart", "Json", "Request", "RequestError", "Site", "Surroundings", "Wait", "empty_request"]

Json = dict[str, t.Any]


class RequestError(FabricError):
    """A wish that no request can be made of."""


class _OfFabric(t.TypedDict, total=False):
    # by host: what the leaves are called that its ports are at, sorted; hosts that are not on the map of the fabric are missing
    leaves: dict[str, list[str]]


class Site(_OfFabric):
    """What a system may look at. Everything of it is plain data; facts are untrusted."""

    # rdma_rollout.inventory
    inventory: str
    # RDMA groups of the inventory with their hosts
    groups: dict[str, list[str]]
    # by group: the wishes that a group has (rdma_networks, rdma_compute_domain, rdma_gpudirect, ...), by variable, as the user wrote them
    wishes: dict[str, Json]
    # ansible_facts.rdma by host (docs/facts.schema.json); a host may be missing
    facts: dict[str, Json]
    # planned: False on every group that stays as it is (rollout_scope())
    plan: Plan
    # those of them that only stay because hosts have no usable port: rdma_allow_unusable lets the others of the group go on
    excusable: list[str]
    # {host: node} where they differ
    node_names: dict[str, str]
    # one prefix for every image in place of its public registry, None for none
    registry: t.Optional[str]
    pull_secrets: list[str]
    # a directory of charts (NAME-VERSION.tgz) in place of repositories, None for none
    charts: t.Optional[str]
    # CIDRs that the cluster uses itself: {"pods": [...], "services": [...], "nodes": [...]}
    cidrs: dict[str, list[str]]


class Surroundings(t.TypedDict):
    """What the cluster has already; None for what nobody has looked at, such as where only files are rendered."""

    # by name of a Helm release: {chart, version, namespace, values}
    installed: t.Optional[dict[str, Json]]
    # by API group, "" for the core: its versions that are served
    served: t.Optional[dict[str, list[str]]]
    # by node: {labels, kubelet, addresses, pod_cidrs, taints}
    nodes: t.Optional[dict[str, Json]]
    # networks of Services, of clusters that tell them
    service_cidrs: t.Optional[list[str]]
    # wishes that count for the whole cluster, by variable
    wishes: Json
    # DaemonSets of ours that serve functions to Pods, and all ResourceClaims
    drivers: t.NotRequired[t.Optional[list[Json]]]
    claims: t.NotRequired[t.Optional[list[Json]]]
    # HyperNodes of ours
    hypernodes: t.NotRequired[t.Optional[list[Json]]]


class Chart(t.TypedDict):
    """A Helm release."""

    release: str
    namespace: str
    # of the chart in its repository, or a whole oci:// reference
    chart: str
    # None with an oci:// reference or a directory
    repository: t.Optional[str]
    version: str
    values: Json
    # whether its Pods are privileged: the namespace gets the labels of Pod Security
    privileged: bool


class Wait(t.TypedDict):
    """An object that is waited for. path: "" waits until a Deployment or DaemonSet is rolled out, else for a value, such as status.state.

    nodes: on how many nodes a DaemonSet is to be, at least; left out where nobody knows.
    """

    apiVersion: str
    kind: str
    namespace: t.Optional[str]
    name: str
    path: str
    value: t.Optional[str]
    nodes: t.NotRequired[t.Optional[int]]


class Request(t.TypedDict):
    """What a system asks of the cluster. With problems, nothing of it is done."""

    system: str
    # installed first, in this order; removed last, in the other
    charts: list[Chart]
    # applied in this order, removed in the other; labels of ownership are added by who applies them
    objects: list[Json]
    waits: list[Wait]
    # {file name: objects}: what users put into their workloads, for the output directory and the report
    workloads: dict[str, list[Json]]
    # every image that objects and charts pull, for mirrors
    images: list[str]
    # sentences: what (host, group, network), why, what to do
    problems: list[str]
    warnings: list[str]
    # rows for plan.yml and the report: (what, value) in words
    summary: list[tuple[str, str]]
    # by group: those rows of the summary that are of it alone
    group_rows: dict[str, list[tuple[str, str]]]
    # {node: {label: value}}: set with the objects, taken off with them
    node_labels: dict[str, dict[str, str]]


def empty_request(system: str) -> Request:
    return {
        "system": system,
        "charts": [],
        "objects": [],
        "waits": [],
        "workloads": {},
        "images": [],
        "problems": [],
        "warnings": [],
        "summary": [],
        "group_rows": {},
        "node_labels": {},
    }

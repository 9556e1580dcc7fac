# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users put into their Pods to be in a secondary network. Private. Pure."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ping import NETWORKS
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.addresses import Pool
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import Attachment, Network
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_objects import INJECT, spider_kind
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_pools import Pools

__all__ = ["workload_pods"]

# Nobody has it: users have an image of their own.
_IMAGE = "registry.example.com/workload:1"


def workload_pods(
    network: Network,
    rows: t.Sequence[Attachment],
    pools: Pools,
    resources: t.Mapping[Attachment, t.Sequence[str]],
) -> dict[str, list[Json]]:
    """{file name: Pods} of a network: one for each class that has a network of its own, and one with all rails."""
    by_class: dict[t.Optional[str], list[Attachment]] = {}
    for row in rows:
        by_class.setdefault(row.slug, []).append(row)
    everywhere = by_class.pop(None, [])
    # rails on which classes agree are the same in each
    variants = {slug: sorted([*everywhere, *own], key=_by_rail) for slug, own in by_class.items()} or {None: everywhere}
    pods = []
    for slug, own in variants.items():
        limits = {resource: 1 for row in own for resource in resources[row]}
        pods.append(_pod(network, slug, {NETWORKS: _annotation(network, own, pools)}, limits))
    if network.kind == "spiderpool" and network.wish.get("inject"):
        # its webhook adds networks, and resources but for IPoIB; it takes no Pod that names networks itself
        own = [row for row in rows if spider_kind(network, row) == "ipoib"]
        limits = {resource: 1 for row in own for resource in resources[row]}
        pods.append(_pod(network, None, {INJECT: network.name}, limits, "-injected"))
    return {f"{network.group}-{network.name}.yaml": pods}


def _by_rail(row: Attachment) -> tuple[int, str]:
    return row.rail or 0, row.name


def _annotation(network: Network, rows: t.Sequence[Attachment], pools: Pools) -> str:
    if network.ipam_type != "static":
        return ", ".join(f"{network.namespace}/{row.name}" for row in rows)
    entries = []
    for row in rows:
        entry: Json = {"name": row.name, "namespace": network.namespace}
        ips = [_first_address(pool) for pool in pools.get(row.rail) or ()]
        # documentation addresses where the wish names none: every Pod has its own
        entries.append({**entry, "ips": ips or ["198.51.100.10/24"]})
    return json.dumps(entries)


def _first_address(pool: Pool) -> str:
    return f"{pool.text(pool.spans[0].first)}/{pool.prefix}"


def _pod(
    network: Network,
    slug: t.Optional[str],
    annotations: t.Mapping[str, str],
    limits: t.Mapping[str, int],
    suffix: str = "",
) -> Json:
    container: Json = {
        "name": "workload",
        "image": _IMAGE,
        # verbs pin memory
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }
    if limits:
        container["resources"] = {"limits": dict(limits)}
    spec: Json = {"containers": [container]}
    if slug:
        spec["nodeSelector"] = {CLASS_LABEL: slug}
    name = f"{network.name}{'-' + slug if slug else ''}{suffix}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": spec,
    }

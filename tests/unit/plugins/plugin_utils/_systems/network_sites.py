# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites with secondary networks, and what is asked for them; wishes go through the table first, as users' do."""

from __future__ import annotations

import functools
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.secondary_network import request
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

Json = dict[str, t.Any]

ROCE: tuple[Json, list[str]] = (
    {"rdma_resource": {"name": "shared_cx5"}, "rdma_want": {"link_layer": "Ethernet"}, "rdma_rails": True},
    ["roce-rails-1", "roce-rails-2"],
)
# one class for each place of the cable
IB: tuple[Json, list[str]] = ({"rdma_resource": {"name": "rdma_a100"}}, ["ib-a100-1", "ib-a100-2", "ib-a100-3"])
# one Ethernet port a host, two hosts
LAB: tuple[Json, list[str]] = (
    {"rdma_resource": {"name": "rdma_soft"}, "rdma_want": {"link_layer": "Ethernet", "kinds": ["software"]}},
    ["lab-soft-roce"],
)
ADDRESSES: Json = {"type": "whereabouts", "range": "10.20.0.0/16", "per_rail": 24}
ONE: Json = {"type": "whereabouts", "range": "10.20.0.0/24"}
BROUGHT: Json = {"multus": {"install": False}, "whereabouts": {"install": False}}
OPERATOR: Json = {"engine": "network_operator", "operator_version": "26.4.1"}


def networked(base: tuple[Json, list[str]], *networks: Json, **wishes: t.Any) -> tuple[Json, list[str]]:
    own, hosts = base
    assert problems("rdma_networks", list(networks)) == []
    return {**own, **wishes, "rdma_networks": list(networks)}, hosts


def asked(wish: Json, site: Site, served: list[str] | None = None) -> Request:
    """served: API groups of the cluster, None where nobody has looked."""
    for name, value in wish.items():
        assert problems({"cidrs": "rdma_cluster_cidrs"}.get(name, f"rdma_{name}"), value) == []
    groups = None if served is None else {group: ["v1"] for group in served}
    return request(wish, site, groups)


@functools.cache
def _planned(text: str) -> Site:
    """A site by its groups as JSON, without networks: planning takes longer than all that is tested here."""
    site = a_site({group: (own, hosts) for group, (own, hosts) in json.loads(text).items()})
    if "roce" in site["groups"]:
        # the captured cards have SR-IOV switched off
        for host in site["groups"]["roce"]:
            for device in site["facts"][host]["devices"]:
                device["sriov"]["total"] = 16
    return site


def networked_site(groups: dict[str, tuple[Json, list[str]]], **more: t.Any) -> Site:
    """As a_site(), planned once; nobody may change it."""
    bare = {
        group: ({key: value for key, value in own.items() if key != "rdma_networks"}, hosts)
        for group, (own, hosts) in groups.items()
    }
    wishes = {group: own for group, (own, _hosts) in groups.items()}
    return t.cast(Site, {**_planned(json.dumps(bare, sort_keys=True)), "wishes": wishes, **more})


def roce(*networks: Json, wish: Json | None = None, wishes: Json | None = None, **more: t.Any) -> Request:
    """What networks of hosts with eight RoCE rails ask for."""
    site = networked_site({"roce": networked(ROCE, *networks, **(wishes or {}))}, **more)
    return asked({**BROUGHT, **(wish or {})}, site)


def infiniband(*networks: Json, wish: Json | None = None, wishes: Json | None = None, **more: t.Any) -> Request:
    """The same of InfiniBand hosts in two classes."""
    site = networked_site({"ib": networked(IB, *networks, **(wishes or {}))}, **more)
    return asked({**BROUGHT, **(wish or {})}, site)


def of_kind(found: Request, kind: str) -> list[Json]:
    return [item for item in found["objects"] if item["kind"] == kind]


def config(item: Json) -> Json:
    """The CNI configuration of a NetworkAttachmentDefinition."""
    parsed: Json = json.loads(item["spec"]["config"])
    return parsed


def sane(found: Request) -> Request:
    """A request that may be applied: no problem, no name twice."""
    assert found["problems"] == []
    names = [
        (item["apiVersion"], item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in found["objects"]
    ]
    assert len(set(names)) == len(names)
    return found

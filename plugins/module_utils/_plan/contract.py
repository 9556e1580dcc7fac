# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a plan, as docs/plan.schema.json describes it with a word on every key. Private. Types only."""

from __future__ import annotations

import typing as t

__all__ = [
    "Class",
    "Cluster",
    "Config",
    "Exclusion",
    "Group",
    "Match",
    "Plan",
    "Port",
    "RailRow",
    "Refused",
    "Selectors",
    "Sriov",
]

Selectors = t.Dict[str, t.List[str]]


class Port(t.TypedDict):
    device: str
    port: int
    rate_gbps: t.Optional[float]
    link_layer: str
    netdev: t.Optional[str]
    pci: t.Optional[str]


class Refused(t.TypedDict):
    device: str
    port: t.Optional[int]
    netdev: t.Optional[str]
    reason: str


class Exclusion(Refused):
    host: str


class _OfRail(t.TypedDict, total=False):
    resource: str
    rail: int


class Match(_OfRail):
    device: str
    pci: str
    if_name: str
    ports: list[int]


class Resource(t.TypedDict):
    resource: str
    rail: t.Optional[int]


class Pool(Resource):
    selectors: Selectors


class RailRow(t.TypedDict):
    rail: int
    resource: str
    gpus: list[str]
    devices: list[str]


class _Entry(t.TypedDict):
    resourceName: str
    resourcePrefix: str
    rdmaHcaMax: int
    selectors: Selectors


class Config(t.TypedDict):
    periodicUpdateInterval: int
    configList: list[_Entry]


class Sriov(t.TypedDict):
    config: t.Optional[dict[str, t.Any]]
    versions: t.Optional[str]
    reason: t.Optional[str]


class Class(t.TypedDict):
    name: str
    wishes: str
    hosts: list[str]
    selectors: Selectors
    matched_later: list[str]
    pools: list[Pool]
    config: t.Optional[Config]
    matches: dict[str, list[Match]]
    reason: t.Optional[str]
    sriov: Sriov


class Group(t.TypedDict):
    resource: str
    resources: list[Resource]
    planned: bool
    kept: t.Optional[str]
    hosts: list[str]
    cached: dict[str, t.Optional[str]]
    malformed: dict[str, str]
    classes: list[Class]
    wanted: dict[str, list[Port]]
    rails: dict[str, list[RailRow]]
    exclusions: list[Exclusion]
    environment: dict[str, dict[str, str]]
    warnings: list[str]
    errors: list[str]


class Cluster(t.TypedDict):
    config: t.Optional[Config]
    selectors: dict[str, Selectors]
    hosts: int
    errors: list[str]
    alternative: t.Optional[str]


class _OfFile(t.TypedDict, total=False):
    removed: dict[str, t.Optional[str]]
    remove: list[str]


class Plan(_OfFile):
    """removed and remove are there once it was joined with that of an earlier run."""

    schema: int
    groups: dict[str, Group]
    cluster: Cluster
    warnings: list[str]

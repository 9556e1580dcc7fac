# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of fabric.json, as docs/fabric.schema.json describes it with a word on every key. Private. Types only."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import Finding

__all__ = ["FabricMap", "Place", "Switch", "Told", "Trunk", "Unit", "Unplaced"]


class Place(t.TypedDict):
    """Where one port of an HCA is plugged in. A bond has a place for each of its members.

    rail: by the plan, else by its place among the ports that its group uses, also where one is down, from 0. leaf: the id of a switch.
    """

    host: str
    group: str
    device: str
    port: int
    netdev: t.Optional[str]
    link_layer: str
    rail: int
    subnet: t.Optional[str]
    leaf: str
    leaf_port: str


class Switch(t.TypedDict):
    """id: the GUID of an InfiniBand switch, the chassis of an Ethernet one. leaf: whether a host is plugged in there."""

    id: str
    name: str
    link_layer: str
    leaf: bool


class Trunk(t.TypedDict):
    """Cables between two switches (InfiniBand only: LLDP of hosts tells of their own cables). count: how many."""

    a: str
    b: str
    count: int


class Unit(t.TypedDict):
    """The hosts that are at the same leaves."""

    leaves: list[str]
    hosts: list[str]


class Unplaced(t.TypedDict):
    """A wanted port of which nobody says where it is."""

    host: str
    group: str
    device: str
    port: int
    reason: str


class Told(t.TypedDict):
    """Who told of the fabric. program: ibnetdiscover or lldpctl."""

    host: str
    program: str


class FabricMap(t.TypedDict):
    """leaves: hosts by the id of each leaf."""

    schema: int
    places: list[Place]
    switches: list[Switch]
    trunks: list[Trunk]
    leaves: dict[str, list[str]]
    units: list[Unit]
    unplaced: list[Unplaced]
    sources: list[Told]
    findings: list[Finding]
    warnings: list[str]

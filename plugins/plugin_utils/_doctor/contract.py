# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor looks at, what its rules are made of, and what they find. Private to the collection. Types only."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import Severity

__all__ = ["Hit", "Json", "Log", "Material", "Rule"]

Json = dict[str, t.Any]


class Log(t.TypedDict):
    """source: pod, journal, kernel or file. host: of the inventory or the cluster. pod: NAMESPACE/NAME of the one that wrote it."""

    name: str
    source: str
    host: t.Optional[str]
    pod: t.Optional[str]
    text: str


class Material(t.TypedDict):
    """All that rules look at. groups: hosts by group. node_names: {host: node} where they differ. unread: what could not be had."""

    facts: dict[str, Json]
    plan: Json
    cluster: Json
    logs: list[Log]
    groups: dict[str, list[str]]
    node_names: dict[str, str]
    unread: list[str]


@dataclass(frozen=True)
class Hit:
    """What a rule has found. about: what it is on, where that is not a host (a Pod, a log), so that a rule for the rest leaves it out.

    cause, remedy, severity: where they are better known than the rule says it.
    """

    hosts: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    cause: str = ""
    remedy: str = ""
    severity: t.Optional[Severity] = None
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """looks_at: of facts, plan, cluster, logs. look: gets the Case. unless: rules before it that tell more of the same.

    cause, remedy: for the documentation, and for hits that know nothing better.
    """

    id: str
    title: str
    severity: Severity
    looks_at: tuple[str, ...]
    cause: str
    remedy: str
    look: t.Callable[[t.Any], t.Iterable[Hit]]
    unless: tuple[str, ...] = field(default=())

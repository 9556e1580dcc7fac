# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of Volcano's scheduler that lets Pods share GPUs. Private. Pure.

Follows pkg/scheduler/plugins/deviceshare. A configuration replaces the chart's default as a whole, so it has all of it.
"""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json

__all__ = ["scheduler_configuration"]

_PLUGIN, _TOPOLOGY = "deviceshare", "network-topology-aware"
_ENABLE = "deviceshare.VGPUEnable"
# Volcano's older ways to share GPUs: with one of them beside VGPUEnable the scheduler ends at its start.
_EXCLUSIVE = ("deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable")
# Without a weight the policy chooses among the GPUs of a node, but not among nodes.
_WEIGHT = {"deviceshare.ScheduleWeight": 10}
# installer/helm/chart/volcano/config/volcano-scheduler.conf, the same in all lines that are known.
_DEFAULT: Json = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {"name": "binpack"},
            ]
        },
    ],
}
_FORM = "expected a dictionary with actions and tiers, each tier with a list of plugins that have names, as volcano-scheduler.conf has"


def _plugins(configuration: t.Any) -> t.Optional[list[Json]]:
    """The plugins of all tiers; None for what has another form."""
    tiers = configuration.get("tiers") if isinstance(configuration, dict) else None
    if not isinstance(tiers, list) or not tiers or not isinstance(configuration.get("actions"), str):
        return None
    found: list[Json] = []
    for tier in tiers:
        rows = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and isinstance(row.get("name"), str) for row in rows
        ):
            return None
        found += rows
    return found


def _on(value: t.Any) -> bool:
    """As Volcano reads arguments: framework.Arguments.GetBool() takes booleans and their text."""
    return str(value).lower() in ("true", "1", "t")


def _argument_problems(arguments: t.Mapping[t.Any, t.Any]) -> list[str]:
    found = [
        f"rdma_vgpu: {key} and {_ENABLE} exclude each other, and Volcano's scheduler would not start with both: take {key} out of the "
        f"arguments of {_PLUGIN}"
        for key in _EXCLUSIVE
        if _on(arguments.get(key, False))
    ]
    if not _on(arguments.get(_ENABLE, True)):
        found.append(
            f"rdma_vgpu: {_ENABLE} is {arguments[_ENABLE]!r}, without which no GPU is shared: take it out, or take rdma_vgpu away"
        )
    return found


def scheduler_configuration(
    base: t.Optional[t.Mapping[str, t.Any]], policy: str, arguments: t.Mapping[str, t.Any], topology: bool
) -> tuple[str, list[str]]:
    """(text of the configuration, what is wrong with it).

    base: the user's own in place of Volcano's default. policy: binpack or spread. arguments: more of deviceshare, over those of base.
    topology: whether the scheduler looks at HyperNodes. The text is JSON, which is YAML that no value can break out of.
    """
    configuration = copy.deepcopy(dict(base)) if base else copy.deepcopy(_DEFAULT)
    rows = _plugins(configuration)
    if rows is None:
        return "", [f"rdma_vgpu.scheduler is not a configuration of Volcano's scheduler: {_FORM}"]
    by_name = {row["name"]: row for row in rows}
    last = configuration["tiers"][-1]["plugins"]
    for name, wanted in ((_PLUGIN, True), (_TOPOLOGY, topology)):
        if wanted and name not in by_name:
            by_name[name] = {"name": name}
            last.append(by_name[name])
    own = by_name[_PLUGIN].get("arguments") or {}
    if not isinstance(own, t.Mapping):
        return "", [
            f"rdma_vgpu.scheduler: the arguments of {_PLUGIN} are of type {type(own).__name__}; expected a dictionary"
        ]
    merged = {_ENABLE: True, **_WEIGHT, **own, "deviceshare.SchedulePolicy": policy, **arguments}
    by_name[_PLUGIN]["arguments"] = merged
    return json.dumps(configuration, indent=2) + "\n", _argument_problems(merged)

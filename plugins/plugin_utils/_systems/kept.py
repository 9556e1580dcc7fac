# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which groups stay as they are in a rollout, for all systems as for the device plugin (rollout_scope()). Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Group, Plan
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import kept_values, rollout_scope
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site

__all__ = ["halted", "kept_groups", "known_nodes", "scoped_plan"]


def scoped_plan(plan: Plan, allow_unusable: bool) -> tuple[Plan, list[str]]:
    """(the plan with planned: False on every group that stays as it is, those of which rdma_allow_unusable would roll out the rest)."""
    scoped, allowed = (rollout_scope(plan, allow_unusable=each)[0] for each in (allow_unusable, True))
    excusable = [
        name for name, entry in allowed["groups"].items() if entry["planned"] and not scoped["groups"][name]["planned"]
    ]
    return scoped, sorted(excusable)


def halted(site: Site) -> dict[str, str]:
    """{group of the plan that stays as it is: why}."""
    return {name: _why(entry) for name, entry in sorted(site["plan"]["groups"].items()) if not entry["planned"]}


def _why(entry: Group) -> str:
    return next(iter([*entry["errors"], *entry["malformed"].values()]), entry["kept"] or "this run did not plan it")


def kept_groups(site: Site, groups: t.Iterable[str]) -> list[str]:
    """Groups, as in GROUP_LABEL, that stay as they are. groups: all of the inventory."""
    return kept_values(halted(site), site["plan"]["groups"], groups)


def known_nodes(site: Site) -> list[str]:
    """Nodes of the groups that are rolled out, and those that are taken out on purpose: what others have stays with them."""
    plan = site["plan"]
    planned = [name for name, entry in plan["groups"].items() if entry["planned"]]
    hosts = {host for name in planned for host in site["groups"].get(name, ())}
    hosts |= {*map(str, plan.get("removed") or ()), *map(str, plan.get("remove") or ())}
    return sorted({site["node_names"].get(host, host) for host in hosts})

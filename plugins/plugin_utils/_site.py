# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systems of the cluster side may look at, out of the variables of all hosts. Private to the collection."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import OF_A_GROUP, problems
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiators import duplicate_initiators
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import host_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.table import prepared_rows
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import inventory_value
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value, node_scope
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS, wished_systems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import scoped_plan
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.page import Part, plan_page
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer, ViewError, cluster_view, plain_wish

__all__ = ["plan_pages", "scope_of", "site_of", "wished"]

# What the needs of a host are told, by the variable that has it.
_PREPARING = {
    "ofed": "rdma_ofed",
    "want": "rdma_want",
    "roce_host": "rdma_roce_host",
    "storage": "rdma_storage",
    "memlock": "rdma_memlock",
    "gpudirect": "rdma_gpudirect",
    "rdma_compute_domain": "rdma_compute_domain",
}


def _wishes_of(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    insist: bool = True,
) -> dict[str, Json]:
    """By group: its wishes, by variable. With insist, ViewError where hosts of a group differ in one for a system of the cluster."""
    plain = Plainer()
    of_systems = {system.variable for system in SYSTEMS if system.of_groups}
    found: dict[str, Json] = {}
    for name in names:
        first: t.Optional[str] = None
        wishes: Json = {}
        for host in sorted(groups.get(name) or ()):
            own = hostvars[host]
            values = {
                variable: plain_wish(plain, own[variable], variable, name, host)
                for variable in OF_A_GROUP
                if variable in own
            }
            if first is None:
                first, wishes = host, values
            for variable in sorted(of_systems):
                if insist and values.get(variable) != wishes.get(variable):
                    raise ViewError(
                        f"group {name}: {variable} differs between hosts {first} and {host}",
                        "set it for the group, not for a host",
                    )
        found[name] = wishes
    return found


def _of_all(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]
) -> t.Mapping[str, t.Any]:
    """rdma_cluster_cidrs, which is the same for all hosts."""
    hosts = [host for name in names for host in groups.get(name) or ()]
    return (hostvars[hosts[0]].get("rdma_cluster_cidrs") if hosts else None) or {}


def _leaves(fabric: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """By host: the names of its leaves. Two switches of one name are told by their ids."""
    names: dict[str, str] = {switch["id"]: switch["name"] for switch in fabric.get("switches") or ()}
    count = collections.Counter(names.values())
    found: dict[str, set[str]] = {}
    for place in fabric.get("places") or ():
        leaf = place["leaf"]
        name = names.get(leaf, leaf)
        found.setdefault(place["host"], set()).add(name if count[name] == 1 else leaf)
    return {host: sorted(leaves) for host, leaves in sorted(found.items())}


def site_of(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    plan: t.Mapping[str, t.Any],
    rollout: t.Mapping[str, t.Any],
    fabric: t.Optional[t.Mapping[str, t.Any]] = None,
    allow_unusable: bool = False,
) -> Site:
    """The site of an inventory. rollout: rdma_rollout. A host whose facts cannot be used is not among those that have facts.

    fabric: the map of the fabric that the playbook fabric has left, where it has. allow_unusable: rdma_allow_unusable. ViewError for
    wishes of another form.
    """
    cidrs = _of_all(hostvars, groups, names)
    plain = Plainer()
    wrong = [*problems("rdma_rollout", plain(rollout)), *problems("rdma_cluster_cidrs", plain(cidrs))]
    if wrong:
        raise ViewError("; ".join(wrong))
    view = cluster_view(hostvars, groups, names)
    scoped, excusable = scoped_plan(completed(Plainer(whole=True)(plan)), allow_unusable)
    return {
        "inventory": inventory_value(rollout),
        "groups": {name: sorted(groups[name]) for name in names},
        "wishes": _wishes_of(hostvars, groups, names),
        "facts": view["facts"],
        "plan": scoped,
        "excusable": excusable,
        "node_names": {str(host): str(node) for host, node in (rollout.get("node_names") or {}).items()},
        "registry": str(rollout.get("registry") or "") or None,
        "pull_secrets": [str(name) for name in rollout.get("image_pull_secrets") or []],
        "charts": str(rollout.get("charts") or "") or None,
        "leaves": _leaves(fabric or {}),
        "cidrs": {str(key): [str(each) for each in value] for key, value in cidrs.items()},
    }


def scope_of(site: Site, groups: t.Mapping[str, t.Iterable[str]]) -> dict[str, list[str]]:
    """What a run sees: {hosts: nodes of all hosts of the inventory, groups: those of the plan, remove: nodes and groups that go on purpose}.

    groups: all of the inventory with their hosts. Groups are as in GROUP_LABEL.
    """
    plan = site["plan"]
    everyone = {str(host) for hosts in groups.values() for host in hosts}
    scope = node_scope(everyone, plan.get("remove") or (), site["node_names"], plan.get("removed") or ())
    return {
        "hosts": scope["known"],
        "groups": sorted({group_value(name) for name in plan["groups"]}),
        "remove": scope["remove"],
    }


def wished(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    everything: bool,
    insist: bool = True,
) -> list[str]:
    """Names of the systems that an inventory asks for, in order; with everything, of all."""
    if everything:
        return [system.name for system in SYSTEMS]
    hosts = [host for name in names for host in groups.get(name) or ()]
    # they are the same for all hosts
    own = hostvars[hosts[0]] if hosts else {}
    cluster = {system.variable: own.get(system.variable) for system in SYSTEMS if not system.of_groups}
    return wished_systems(_wishes_of(hostvars, groups, names, insist), cluster)


def _preparation(
    hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Any], facts: t.Mapping[str, Json], duplicates: t.Sequence[Json]
) -> list[tuple[str, str, str]]:
    """Rows of what the playbook prepare would do with hosts, as they are now."""
    plain = Plainer()
    found: dict[str, Json] = {}
    unknown = []
    for host in hosts:
        own = hostvars[host]
        wishes = {key: plain(own[variable]) for key, variable in _PREPARING.items() if variable in own}
        layer = (wishes.get("want") or {}).get("link_layer")
        if "kernel" not in facts.get(host, {}):
            unknown.append(
                (host, "not known", "nothing is known of it that says what it lacks: run the playbook discover")
            )
            continue
        try:
            needs = host_needs(facts[host], {**wishes, "link_layer": layer, "duplicates": duplicates, "host": host})
        except FabricError as exc:
            unknown.append((host, "refused", str(exc)))
            continue
        replayed = "rdma_capture" in own
        found[host] = {"before": needs, "after": None, "replayed": replayed, "stale_containers": []}
    return [*unknown, *prepared_rows(found, check=True)]


def plan_pages(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    plan: t.Mapping[str, t.Any],
    asked: t.Mapping[str, t.Mapping[str, Part]],
) -> dict[str, str]:
    """By group that is in the plan: all that is planned for it. asked: by system and group, what is said of it."""
    whole = completed(Plainer(whole=True)(plan))
    facts = cluster_view(hostvars, groups, names)["facts"]
    duplicates = duplicate_initiators(
        {host: own for host, own in facts.items() if "rdma_capture" not in hostvars[host]}
    )
    systems = wished(hostvars, groups, names, everything=False)
    return {
        name: plan_page(
            name,
            whole["groups"][name],
            systems,
            asked,
            _preparation(sorted(groups[name]), hostvars, facts, duplicates),
        )
        for name in names
        if name in whole["groups"]
    }

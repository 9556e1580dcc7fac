# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of all groups: device-plugin selectors that match the wanted ports and nothing else. Private. Pure.

The model of the plugin follows k8s-rdma-shared-dev-plugin (pkg/resources/resources_manager.go, device_selectors.go):
a function matches when, for every kind of selector that is given, its value is in the list; values are compared as strings;
``linkTypes`` is compared with the netlink type of the function's first netdev; port states are not known to it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import age_in_words, hosts_label
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Cluster, Group, Plan, Selectors
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import (
    PlanError,
    configuration,
    functions_of,
    plan_one,
    pools_of,
    some_of,
    validate_wishes,
    without_ipoib,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import (
    SHARED,
    Catalogue,
    Function,
    explain,
    traits_of,
)

__all__ = ["PLAN_SCHEMA", "plan_groups"]

PLAN_SCHEMA = 1


def _twins(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], hosts: t.Sequence[str]) -> list[str]:
    """Hosts of which another one has the same device: two names for one machine, or a capture that was copied."""
    owners: dict[str, list[str]] = {}
    for host in hosts:
        for guid in dict.fromkeys(device["node_guid"] or "" for device in facts_by_host[host].get("devices", [])):
            if guid.strip("0:"):
                owners.setdefault(guid, []).append(host)
    # of several devices that the same hosts have, the first
    found: dict[tuple[str, ...], str] = {}
    for guid, own in owners.items():
        if len(own) > 1:
            found.setdefault(tuple(own), guid)
    return [
        "hosts {} and {} both have a device with the node GUID {}: are they two names of one machine?".format(
            *own, guid
        )
        if len(own) == 2
        else f"{hosts_label(own)} all have a device with the node GUID {guid}: are they names of one machine, or copies of it?"
        for own, guid in sorted(found.items())
    ]


def _unplanned(wishes: t.Mapping[str, t.Any], reason: str) -> Group:
    """The plan of a group that cannot be planned: the reason, and nothing to roll out."""
    given = wishes.get("resource")
    resource = {"prefix": "rdma", "name": None, **(given if isinstance(given, t.Mapping) else {})}
    return {
        "resource": f"{resource['prefix']}/{resource['name']}",
        "resources": [],
        "planned": False,
        "kept": None,
        "hosts": _names(wishes.get("hosts")),
        "cached": {},
        "malformed": {},
        "classes": [],
        "wanted": {},
        "rails": {},
        "exclusions": [],
        "environment": {},
        "warnings": [],
        "errors": [reason],
    }


def _names(hosts: t.Any) -> list[str]:
    return sorted(host for host in hosts if isinstance(host, str)) if isinstance(hosts, (list, tuple)) else []


def _cached_in_words(hosts: t.Mapping[str, t.Optional[str]]) -> list[str]:
    if not hosts:
        return []
    some = ", ".join(sorted(hosts)[:3]) + (", ..." if len(hosts) > 3 else "")
    return [
        f"the facts of {len(hosts)} hosts ({some}) are from a fact cache or an earlier step, not discovered by this run, "
        f"so the plan may be out of date (facts {age_in_words(hosts.values())}); run discover to renew them"
    ]


def _same_machines(
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], owner: t.Mapping[str, str]
) -> list[tuple[str, str]]:
    """Pairs of hosts of different groups that have exactly the same devices, by their node GUIDs."""
    first: dict[frozenset[str], str] = {}
    found = []
    for host in sorted(host for host in owner if host in facts_by_host):
        guids = frozenset(device["node_guid"] or "" for device in facts_by_host[host].get("devices", []))
        if guids and all(guid.strip("0:") for guid in guids):
            other = first.setdefault(guids, host)
            if owner[other] != owner[host]:
                found.append((other, host))
    return found


_PER_CLASS = (
    "one configuration for each class is exact: the DaemonSets that the role device_plugin renders, or one NicNodePolicy "
    "for each class (Network Operator 26.4 or later)"
)


def _cluster(
    plans: t.Mapping[str, Group],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    functions: t.Mapping[str, t.Sequence[Function]],
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
) -> Cluster:
    """One configuration for all hosts (NicClusterPolicy).

    It reaches every host, so each resource must match what its group wants there and nothing on any other host, also not on
    those without a usable port. It is refused with a counter-example when that cannot be; a plan of half the cluster is, too.
    """
    places = dict(functions)
    for host in sorted(set(facts_by_host) - set(places)):
        # a host of no group: nothing of it is wanted
        places[host] = functions_of(facts_by_host[host], {}, [], []) if "devices" in facts_by_host[host] else []
    refused: Cluster = {"config": None, "selectors": {}, "hosts": len(places), "errors": [], "alternative": None}
    unplanned = sorted(name for name, plan in plans.items() if not plan["planned"])
    if unplanned:
        reason = (
            f"not planned: {', '.join(unplanned)}; a configuration that reaches the whole cluster must know all of it"
        )
        return {**refused, "errors": [reason]}
    pools: dict[str, dict[str, t.Any]] = {}
    strategies: dict[str, str] = {}
    owners: dict[str, tuple[str, str]] = {}
    for group, plan in plans.items():
        checked = validate_wishes(group, groups[group])
        entries = pools_of(
            checked["resource"], checked["rails"], (row["rail"] for rows in plan["rails"].values() for row in rows)
        )
        offered = {row["resource"] for entry in plan["classes"] for row in entry["pools"]}
        for pool, entry in entries.items():
            if pool not in offered:
                continue
            other_group, other = owners.setdefault(entry["name"], (group, pool))
            if other != pool or pools.get(pool, entry)["hca_max"] != entry["hca_max"]:
                reason = (
                    f"groups {other_group} and {group} both have a resource named {entry['name']} ({other} with hca_max "
                    f"{pools[other]['hca_max']}, {pool} with hca_max {entry['hca_max']}), and the plugin "
                    "does not start with two of one name, whatever their prefix"
                )
                return {**refused, "errors": [reason], "alternative": _PER_CLASS}
            pools[pool] = entry
            if strategies.get(pool, "auto") == "auto":
                strategies[pool] = checked["strategy"]
    catalogue = Catalogue(SHARED, traits=frozenset().union(*map(traits_of, places.values())))
    selectors: dict[str, Selectors] = {}
    for pool in pools:
        found = catalogue.search(pool, strategies[pool])
        if found is None:
            infiniband: dict[str, set[t.Optional[str]]] = {host: set() for host in places}
            for plan in plans.values():
                for host, rows in plan["wanted"].items():
                    infiniband[host] = {row["pci"] for row in rows if row["link_layer"] == "InfiniBand"}
            why = str(explain(SHARED, places, strategies[pool], named=True, only=pool))
            return {**refused, "errors": [why + without_ipoib(places, infiniband)], "alternative": _PER_CLASS}
        selectors[pool] = found
    if not pools:
        return {**refused, "errors": ["no group wants anything that the shared device plugin can advertise"]}
    return {**refused, "config": configuration(pools, selectors), "selectors": selectors}


def _shared_names(plans: t.Mapping[str, Group]) -> list[str]:
    """Groups of different link layers that advertise one resource: a Pod that asks for it gets the one or the other."""
    found: dict[str, dict[str, str]] = {}
    for group, plan in plans.items():
        layers = {row["link_layer"] for rows in plan["wanted"].values() for row in rows}
        for row in plan["resources"] if plan["planned"] else ():
            found.setdefault(row["resource"], {}).update(dict.fromkeys(sorted(layers), group))
    return [
        "groups {} both advertise {}, one over {} and one over {}: a Pod may get either".format(
            " and ".join(layers.values()), resource, *layers
        )
        for resource, layers in sorted(found.items())
        if len(set(layers.values())) > 1
    ]


def plan_groups(
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    cached: t.Optional[t.Mapping[str, t.Optional[str]]] = None,
    malformed: t.Optional[t.Mapping[str, str]] = None,
    earlier: t.Optional[t.Mapping[str, t.Sequence[Class]]] = None,
) -> Plan:
    """The plan of several groups.

    groups: {name: {hosts: [...], resource, want, strategy, rails}}. A group for which no configuration is exact, or of which
    facts of some hosts are missing (a plan from half a group would be wrong for the other half), has planned: False and the
    reason in its errors; the others are planned. cluster is one configuration for all groups, or why there is none. Raises
    PlanError for a host in two groups.

    cached: hosts whose facts are not of this run, with the time when they were gathered (None when nobody knows); they stand in
    cached of their group, too. malformed: hosts whose facts cannot be used, with a sentence on each. Their group is planned
    without them, has them in malformed, too, and the sentences before its other errors; one that has no other host is not planned.

    earlier: classes by group, as a plan of an earlier run has them. A class that is one of them still keeps its name (class_names()).
    """
    broken, old = malformed or {}, earlier or {}
    owner = _owners(groups)
    plans: dict[str, Group] = {}
    functions: dict[str, t.Sequence[Function]] = {}
    for group in sorted(groups):
        wrong = [broken[host] for host in sorted(groups[group].get("hosts") or []) if host in broken]
        reason = _no_plan(group, groups[group], facts_by_host, broken)
        if reason is None:
            try:
                sound = {host: facts_by_host[host] for host in groups[group]["hosts"] if host not in broken}
                plan, own = plan_one(group, sound, groups[group], sorted(groups), old.get(group) or ())
                plan["hosts"], plan["errors"] = _names(groups[group]["hosts"]), wrong + plan["errors"]
                plans[group] = plan
                functions.update(own)
                continue
            except PlanError as exc:
                reason = str(exc)
        plans[group] = _unplanned(groups[group], reason)
        plans[group]["errors"] += wrong
    for group, plan in plans.items():
        own_hosts = [host for host in sorted(owner) if owner[host] == group and host not in broken]
        plan["warnings"].extend(_twins(facts_by_host, own_hosts) if plan["planned"] else [])
    warnings = _cached_in_words(cached or {}) + _part_twins(plans, groups, facts_by_host, owner) + _shared_names(plans)
    for host in sorted(set(cached or ()) & set(owner)):
        plans[owner[host]]["cached"][host] = (cached or {})[host]
    for host in sorted(set(broken) & set(owner)):
        plans[owner[host]]["malformed"][host] = broken[host]
    cluster = _cluster(plans, groups, functions, facts_by_host)
    if broken and cluster["config"]:
        reason = (
            f"not known: {some_of(sorted(broken))}; a configuration that reaches the whole cluster must know all of it"
        )
        cluster = {**cluster, "config": None, "selectors": {}, "errors": [*cluster["errors"], reason]}
    return {"schema": PLAN_SCHEMA, "groups": plans, "cluster": cluster, "warnings": warnings}


def _owners(groups: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """{host: group}. PlanError for hosts that are not a list of names, and for a host in two groups."""
    owner: dict[str, str] = {}
    for group in sorted(groups):
        if not isinstance(groups[group], t.Mapping):
            raise PlanError(f"group {group}: its wishes are {groups[group]!r}; expected a dictionary")
        hosts = groups[group].get("hosts") or []
        if not isinstance(hosts, (list, tuple)) or not all(isinstance(host, str) for host in hosts):
            raise PlanError(f"group {group}: its hosts are {hosts!r}; expected a list of names")
        for host in hosts:
            if owner.setdefault(host, group) != group:
                raise PlanError(f"host {host} is in two RDMA groups, {owner[host]} and {group}", "put it in one")
    return owner


def _no_plan(
    group: str,
    wishes: t.Mapping[str, t.Any],
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    broken: t.Mapping[str, str],
) -> t.Optional[str]:
    """Why a group cannot be planned, whatever its hosts have; None when it can."""
    hosts = wishes.get("hosts") or []
    if not hosts:
        return f"group {group} has no hosts; put some in, or take it out of rdma_groups"
    try:
        validate_wishes(group, wishes)
    except PlanError as exc:
        return str(exc)
    missing = sorted(host for host in hosts if host not in facts_by_host and host not in broken)
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        return f"group {group}: no facts of {names} ({len(missing)} of {len(hosts)} hosts); discover the whole group, or use a fact cache"
    return f"group {group}: no facts that can be used" if all(host in broken for host in hosts) else None


def _part_twins(
    plans: dict[str, Group],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    owner: t.Mapping[str, str],
) -> list[str]:
    """Takes the plan from groups that have one machine under two names; a sentence for each pair of captures of one machine."""
    warnings = []
    for one, other in _same_machines(facts_by_host, owner):
        both = f"hosts {one} of group {owner[one]} and {other} of group {owner[other]} have the same devices, by their node GUIDs"
        if any(host in (groups[owner[host]].get("replayed") or ()) for host in (one, other)):
            warnings.append(both + ": two captures of one machine?")
            continue
        # One node would get the resources of both, and each of its functions would be in two of them.
        for group in sorted({owner[one], owner[other]}):
            reason = f"group {group}: {both}: they are two names of one machine; take one of them out"
            plans[group] = _unplanned(groups[group], reason)
    return warnings

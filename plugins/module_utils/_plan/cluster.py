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

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import age_in_words
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import (
    PlanError,
    configuration,
    functions_of,
    plan_one,
    pools_of,
    some_of,
    validate_wishes,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import (
    SHARED,
    Catalogue,
    Function,
    Selectors,
    explain,
    traits_of,
)

__all__ = ["PLAN_SCHEMA", "plan_groups"]

PLAN_SCHEMA = 1
Json = t.Dict[str, t.Any]


def _twins(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], hosts: t.Sequence[str]) -> t.List[str]:
    """Hosts of which another one has the same device: two names for one machine, or a capture that was copied."""
    first: t.Dict[str, str] = {}
    found: t.Dict[t.Tuple[str, str], str] = {}
    for host in hosts:
        for device in facts_by_host[host].get("devices", []):
            guid = device["node_guid"] or ""
            other = first.setdefault(guid, host) if guid.strip("0:") else host
            if other != host:
                found.setdefault((other, host), guid)
    return [
        "hosts %s and %s both have a device with the node GUID %s: are they two names of one machine?" % (*pair, guid)
        for pair, guid in sorted(found.items())
    ]


def _unplanned(group: str, wishes: t.Mapping[str, t.Any], reason: str) -> Json:
    """The plan of a group that cannot be planned: the reason, and nothing to roll out."""
    given = wishes.get("resource")
    resource = {"prefix": "rdma", "name": None, **(given if isinstance(given, t.Mapping) else {})}
    return {
        "resource": "%s/%s" % (resource["prefix"], resource["name"]),
        "resources": [],
        "planned": False,
        "kept": None,
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


def _cached_in_words(hosts: t.Mapping[str, t.Optional[str]]) -> t.List[str]:
    if not hosts:
        return []
    return [
        "the facts of %d hosts (%s%s) are from a fact cache or an earlier step, not discovered by this run: "
        "the plan is as old as they are (%s); run discover to renew them"
        % (len(hosts), ", ".join(sorted(hosts)[:3]), ", ..." if len(hosts) > 3 else "", age_in_words(hosts.values()))
    ]


def _same_machines(
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], owner: t.Mapping[str, str]
) -> t.List[t.Tuple[str, str]]:
    """Pairs of hosts of different groups that have exactly the same devices, by their node GUIDs."""
    first: t.Dict[t.FrozenSet[str], str] = {}
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
    plans: t.Mapping[str, Json],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    functions: t.Mapping[str, t.Sequence[Function]],
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
) -> Json:
    """One configuration for all hosts (NicClusterPolicy): {config, selectors by resource, hosts, errors, alternative}.

    It reaches every host, so each resource must match what its group wants there and nothing on any other host, also not on
    those without a usable port. It is refused with a counter-example when that cannot be; a plan of half the cluster is, too.
    """
    places = dict(functions)
    for host in sorted(set(facts_by_host) - set(places)):
        # a host of no group: nothing of it is wanted
        places[host] = functions_of(facts_by_host[host], {}, [], []) if "devices" in facts_by_host[host] else []
    refused: Json = {"config": None, "selectors": {}, "hosts": len(places), "errors": [], "alternative": None}
    unplanned = sorted(name for name, plan in plans.items() if not plan["planned"])
    if unplanned:
        reason = "not planned: %s; a configuration that reaches the whole cluster must know all of it" % ", ".join(
            unplanned
        )
        return {**refused, "errors": [reason]}
    pools: t.Dict[str, Json] = {}
    strategies: t.Dict[str, str] = {}
    owners: t.Dict[str, t.Tuple[str, str]] = {}
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
                    "groups %s and %s both have a resource named %s (%s with hca_max %d, %s with hca_max %d), and the plugin "
                    "does not start with two of one name, whatever their prefix"
                    % (other_group, group, entry["name"], other, pools[other]["hca_max"], pool, entry["hca_max"])
                )
                return {**refused, "errors": [reason], "alternative": _PER_CLASS}
            pools[pool] = entry
            if strategies.get(pool, "auto") == "auto":
                strategies[pool] = checked["strategy"]
    catalogue = Catalogue(SHARED, traits=frozenset().union(*map(traits_of, places.values())))
    selectors: t.Dict[str, Selectors] = {}
    for pool in pools:
        found = catalogue.search(pool, strategies[pool])
        if found is None:
            return {
                **refused,
                "errors": [str(explain(SHARED, places, strategies[pool], named=True, only=pool))],
                "alternative": _PER_CLASS,
            }
        selectors[pool] = found
    if not pools:
        return {**refused, "errors": ["no group wants anything that the shared device plugin can advertise"]}
    return {**refused, "config": configuration(pools, selectors), "selectors": selectors}


def _shared_names(plans: t.Mapping[str, Json]) -> t.List[str]:
    """Groups of different link layers that advertise one resource: a Pod that asks for it gets the one or the other."""
    found: t.Dict[str, t.Dict[str, str]] = {}
    for group, plan in plans.items():
        layers = {row["link_layer"] for rows in plan["wanted"].values() for row in rows}
        for row in plan["resources"] if plan["planned"] else ():
            found.setdefault(row["resource"], {}).update(dict.fromkeys(sorted(layers), group))
    return [
        "groups %s both advertise %s, the one over %s, the other over %s: a Pod that asks for it gets either"
        % (" and ".join(layers.values()), resource, *layers)
        for resource, layers in sorted(found.items())
        if len(set(layers.values())) > 1
    ]


def plan_groups(
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    cached: t.Optional[t.Mapping[str, t.Optional[str]]] = None,
    malformed: t.Optional[t.Mapping[str, str]] = None,
    earlier: t.Optional[t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]] = None,
) -> Json:
    """The plan of several groups: {schema, groups: {name: plan}, cluster, warnings}.

    groups: {name: {hosts: [...], resource, want, strategy, rails}}. A group for which no configuration is exact, or of which
    facts of some hosts are missing (a plan from half a group would be wrong for the other half), has planned: False and the
    reason in its errors; the others are planned. cluster is one configuration for all groups, or why there is none. Raises
    PlanError for a host in two groups.

    cached: hosts whose facts are not of this run, with the time when they were gathered (None when nobody knows); they stand in
    cached of their group, too. malformed: hosts whose facts cannot be used, with a sentence on each. Their group is planned
    without them, has them in malformed, too, and the sentences before its other errors; one that has no other host is not planned.

    earlier: classes by group, as a plan of an earlier run has them. A class that is one of them still keeps its name (class_names()).
    """
    broken = malformed or {}
    owner: t.Dict[str, str] = {}
    plans: t.Dict[str, Json] = {}
    functions: t.Dict[str, t.Sequence[Function]] = {}
    for group in sorted(groups):
        if not isinstance(groups[group], t.Mapping):
            raise PlanError("group %s: its wishes are %r; expected a dictionary" % (group, groups[group]))
        hosts = groups[group].get("hosts") or []
        if not isinstance(hosts, (list, tuple)) or not all(isinstance(host, str) for host in hosts):
            raise PlanError("group %s: its hosts are %r; expected a list of names" % (group, hosts))
        if not hosts:
            reason = "group %s has no hosts; put some in, or take it out of rdma_groups" % group
            plans[group] = _unplanned(group, groups[group], reason)
            continue
        for host in hosts:
            if owner.setdefault(host, group) != group:
                raise PlanError("host %s is in two RDMA groups, %s and %s; put it in one" % (host, owner[host], group))
        try:
            validate_wishes(group, groups[group])
        except PlanError as exc:
            plans[group] = _unplanned(group, groups[group], str(exc))
            continue
        missing = sorted(host for host in hosts if host not in facts_by_host and host not in broken)
        wrong = [broken[host] for host in sorted(hosts) if host in broken]
        if missing:
            reason = "group %s: no facts of %s (%d of %d hosts); discover the whole group, or use a fact cache" % (
                group,
                ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else ""),
                len(missing),
                len(hosts),
            )
            plans[group] = _unplanned(group, groups[group], reason)
            plans[group]["errors"] += wrong
            continue
        if len(wrong) == len(hosts):
            plans[group] = _unplanned(group, groups[group], "group %s: no facts that can be used" % group)
            plans[group]["errors"] += wrong
            continue
        try:
            sound = {host: facts_by_host[host] for host in hosts if host not in broken}
            plans[group], own = plan_one(group, sound, groups[group], sorted(groups), (earlier or {}).get(group) or ())
            plans[group]["errors"] = wrong + plans[group]["errors"]
            functions.update(own)
        except PlanError as exc:
            plans[group] = _unplanned(group, groups[group], str(exc))
            plans[group]["errors"] += wrong
    for group, plan in plans.items():
        own_hosts = [host for host in sorted(owner) if owner[host] == group and host not in broken]
        plan["warnings"].extend(_twins(facts_by_host, own_hosts) if plan["planned"] else [])
    warnings = _cached_in_words(cached or {})
    for one, other in _same_machines(facts_by_host, owner):
        both = "hosts %s of group %s and %s of group %s have the same devices, by their node GUIDs" % (
            one,
            owner[one],
            other,
            owner[other],
        )
        if any(host in (groups[owner[host]].get("replayed") or ()) for host in (one, other)):
            warnings.append(both + ": two captures of one machine?")
            continue
        # One node would get the resources of both, and each of its functions would be in two of them.
        for group in sorted({owner[one], owner[other]}):
            reason = "group %s: %s: they are two names of one machine; take one of them out" % (group, both)
            plans[group] = _unplanned(group, groups[group], reason)
    warnings += _shared_names(plans)
    for host in sorted(set(cached or ()) & set(owner)):
        plans[owner[host]]["cached"][host] = (cached or {})[host]
    for host in sorted(set(broken) & set(owner)):
        plans[owner[host]]["malformed"][host] = broken[host]
    cluster = _cluster(plans, groups, functions, facts_by_host)
    if broken and cluster["config"]:
        reason = "not known: %s; a configuration that reaches the whole cluster must know all of it" % some_of(
            sorted(broken)
        )
        cluster = {**cluster, "config": None, "selectors": {}, "errors": [*cluster["errors"], reason]}
    return {"schema": PLAN_SCHEMA, "groups": plans, "cluster": cluster, "warnings": warnings}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From facts and wishes to device-plugin selectors that match the wanted ports and nothing else. Private. Pure.

The model of the plugin follows k8s-rdma-shared-dev-plugin (pkg/resources/resources_manager.go, device_selectors.go):
a function matches when, for every kind of selector that is given, its value is in the list; values are compared as strings;
``linkTypes`` is compared with the netlink type of the function's first netdev; port states are not known to it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._class_names import class_names
from ansible_collections.fabric.rdma.plugins.module_utils._rails import (
    Rail,
    RailError,
    check_rails,
    group_rails,
    rail_host,
)
from ansible_collections.fabric.rdma.plugins.module_utils._solver import (
    SHARED,
    Catalogue,
    Function,
    Selectors,
    classes_of,
    explain,
    matched,
    traits_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._sriov import sriov_config, sriov_functions
from ansible_collections.fabric.rdma.plugins.module_utils._tables import age_in_words
from ansible_collections.fabric.rdma.plugins.module_utils._wishes import rail_name, with_defaults

__all__ = ["PLAN_SCHEMA", "PlanError", "plan_group", "plan_groups", "usable_ports", "validate_wishes"]

PLAN_SCHEMA = 1
# The schema of the facts that this planner reads (docs/facts.schema.json).
_FACTS_SCHEMA = 1

_PERIODIC_UPDATE_SECONDS = 300

Json = t.Dict[str, t.Any]


class PlanError(Exception):
    """Wishes that make no sense, or that no configuration can fulfil; the text is for the user."""


def validate_wishes(group: str, wishes: t.Mapping[str, t.Any]) -> Json:
    """Wishes of a group with their defaults: {resource: {name, prefix, hca_max}, want: {...}, strategy: str, rails: str | None}.

    rails is the pattern of the names of the rails' resources. PlanError names the group, the key, the value and what is allowed; a misspelt key is an error.
    """
    if not isinstance(wishes, t.Mapping):
        raise PlanError("group %s: its wishes are %r; expected a dictionary" % (group, wishes))
    checked, wrong = with_defaults(wishes)
    if wrong:
        raise PlanError("; ".join("group %s: %s" % (group, problem) for problem in wrong))
    return checked


def _names_of(device: t.Mapping[str, t.Any]) -> t.Set[str]:
    """Everything under which a user may exclude a device: RDMA name, PCI address, netdevs, bond."""
    names = {device["name"], device["pci"] or "", *device["netdevs"]}
    if device["lag"]:
        names.add(device["lag"]["netdev"])
    # members of a bond that is no LAG have devices of their own
    names.update(netdev["master"] for port in device["ports"] for netdev in port["netdevs"] if netdev["master"])
    return names


def _idle_exclusions(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], exclude: t.Sequence[str]) -> t.List[str]:
    """A sentence for each entry of rdma_want.exclude that no device of any host has for a name."""
    names: t.Set[str] = set()
    for facts in facts_by_host.values():
        names.update(*(_names_of(device) for device in facts["devices"]))
    return [
        "rdma_want.exclude: %s is no RDMA device, PCI address, netdev or bond of a device on any host of the group, so it "
        "leaves nothing out" % entry
        for entry in exclude
        if entry not in names
    ]


def _unnamed(functions: t.Mapping[str, t.Sequence[Function]], infiniband: t.Mapping[str, t.Set[str]]) -> str:
    """What to do for InfiniBand functions without a netdev, where that keeps them from being told apart; empty for none."""
    index = SHARED.kinds.index("ifNames")
    found = {
        host: [each.devices[0] for each in own if not each.values[index] and each.pci in infiniband[host]]
        for host, own in functions.items()
    }
    blind = sorted(host for host in found if found[host])
    if not blind:
        return ""
    return (
        ". InfiniBand devices without a netdev, such as %s of host %s, cannot be selected by linkTypes or ifNames: "
        "load ib_ipoib on %s" % (found[blind[0]][0], blind[0], _some(blind))
    )


def _bond_words(device: t.Mapping[str, t.Any], port: t.Mapping[str, t.Any]) -> str:
    """``Ethernet bond bond0 (active-backup)`` for a LAG, ``Ethernet, enslaved to bond0`` for a member with its own device."""
    if device["lag"]:
        mode = device["lag"]["mode"]
        return "%s bond %s%s" % (port["link_layer"], device["lag"]["netdev"], " (%s)" % mode if mode else "")
    masters = sorted({netdev["master"] for netdev in port["netdevs"] if netdev["master"]})
    return "%s, enslaved to %s" % (port["link_layer"], ", ".join(masters)) if masters else str(port["link_layer"])


def _device_refusal(device: t.Mapping[str, t.Any], want: Json) -> t.Optional[str]:
    """Why no port of a device is wanted, whatever its state; None when the ports decide."""
    kind = device["kind"]
    if kind == "smi":
        return "management-only device (SMI): it carries no data"
    if kind not in want["kinds"]:
        words = {
            "vf": "virtual function%s" % (" of " + device["sriov"]["pf"] if device["sriov"]["pf"] else ""),
            "sf": "sub-function",
            "pf": "physical function",
            "software": "software device (%s)" % (device["driver"] or "unknown driver"),
        }
        return "%s, the group wants kinds %s" % (words[kind], ", ".join(want["kinds"]))
    excluded = sorted(_names_of(device) & set(want["exclude"])) if want["exclude"] else []
    return "excluded by name (%s)" % ", ".join(excluded) if excluded else None


def _port_refusal(device: t.Mapping[str, t.Any], port: t.Mapping[str, t.Any], want: Json) -> t.Optional[str]:
    """Why a port is not wanted, None when it is."""
    if port["link_layer"] != want["link_layer"]:
        if port["link_layer"] is None:
            return "link layer unknown, the group wants %s" % want["link_layer"]
        return "%s, the group wants %s" % (_bond_words(device, port), want["link_layer"])
    if want["state"] == "Active" and port["state"] != "Active":
        return "port is %s (phys state %s), the group wants Active" % (
            port["state"] or "in an unknown state",
            port["phys_state"] or "unknown",
        )
    rate = port["rate_gbps"]
    if want["min_rate_gbps"] and (rate is None or rate < want["min_rate_gbps"]):
        return "%s, the group wants at least %g Gb/s" % (
            "rate unknown"
            if rate is None
            else "%g Gb/s%s" % (rate, " (%s %s)" % (port["width"], port["speed"]) if port["speed"] else ""),
            want["min_rate_gbps"],
        )
    return None


def usable_ports(facts: t.Mapping[str, t.Any], want: t.Mapping[str, t.Any]) -> t.Tuple[t.List[Json], t.List[Json]]:
    """(wanted, refused) ports of one host, not asking what the plugin sees.

    wanted: [{device, port, rate_gbps, link_layer, netdev, pci}]; refused: [{device, port, netdev, reason}], port None when the
    whole device is refused. want is as validate_wishes() returns it.
    """
    wish = dict(want)
    wanted: t.List[Json] = []
    refused: t.List[Json] = []
    for device in facts.get("devices", []):
        reason = _device_refusal(device, wish)
        if reason or not device["ports"]:
            netdev = device["netdevs"][0] if device["netdevs"] else None
            refused.append(
                {"device": device["name"], "port": None, "netdev": netdev, "reason": reason or "it has no ports"}
            )
            continue
        for port in device["ports"]:
            netdev = port["netdevs"][0]["name"] if port["netdevs"] else None
            reason = _port_refusal(device, port, wish)
            if reason:
                refused.append({"device": device["name"], "port": port["number"], "netdev": netdev, "reason": reason})
            else:
                wanted.append(
                    {
                        "device": device["name"],
                        "port": port["number"],
                        "rate_gbps": port["rate_gbps"],
                        "link_layer": port["link_layer"],
                        "netdev": netdev,
                        "pci": device["pci"],
                    }
                )
    return wanted, refused


def _functions(
    facts: t.Mapping[str, t.Any], pools: t.Mapping[str, str], wanted: t.List[Json], refused: t.List[Json]
) -> t.List[Function]:
    """The functions that the plugin sees on one host, sorted by PCI address. pools: the resource that wants it, by PCI address."""
    ports: t.Dict[str, t.Set[int]] = {}
    for row in wanted:
        if row["pci"]:
            ports.setdefault(row["pci"], set()).add(row["port"])
    reasons: t.Dict[str, str] = {}
    for row in refused:
        reasons.setdefault(row["device"], row["reason"])
    found: t.Dict[str, Function] = {}
    for device in facts["devices"]:
        pci, view = device["pci"], device["plugin"]
        if not pci or not view["visible"]:
            continue
        found[pci] = Function(
            values=(
                device["vendor"] or "",
                device["device"] or "",
                device["driver"] or "",
                view["link_type"],
                view["if_name"],
            ),
            pool=pools.get(pci, ""),
            pci=pci,
            devices=(found[pci].devices if pci in found else ()) + (device["name"],),
            ports=tuple(sorted(ports.get(pci, ()))),
            why="" if pci in pools else reasons.get(device["name"], ""),
        )
    return [found[pci] for pci in sorted(found)]


_EXCLUSIVE = (
    "the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it (set it to shared: "
    "rdma system set netns shared, and options ib_core netns_mode=1 for the next boot)"
)
_SOFTWARE = "software"


def _config(pools: t.Mapping[str, Json], selectors: t.Mapping[str, Selectors]) -> Json:
    """The plugin's config.json; pools: {resource: {name, prefix, hca_max}} in the order of their entries."""
    return {
        "periodicUpdateInterval": _PERIODIC_UPDATE_SECONDS,
        "configList": [
            {
                "resourceName": pools[pool]["name"],
                "resourcePrefix": pools[pool]["prefix"],
                "rdmaHcaMax": pools[pool]["hca_max"],
                "selectors": dict(selectors[pool]),
            }
            for pool in pools
            if pool in selectors
        ],
    }


def _environment(wanted: t.List[Json]) -> t.Dict[str, str]:
    """What a workload sets to use exactly these ports; '=' makes NCCL compare whole names, not prefixes."""
    ports = ["%s:%d" % (row["device"], row["port"]) for row in wanted]
    return {"NCCL_IB_HCA": "=" + ",".join(ports), "UCX_NET_DEVICES": ",".join(ports)} if ports else {}


class _Host(t.NamedTuple):
    """What one host contributes to the plan of its group."""

    wanted: t.List[Json]
    refused: t.List[Json]
    rails: t.List[Rail]
    warnings: t.List[str]


def _check_facts(group: str, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """PlanError for facts that are there and cannot be planned with: a port that they do not tell of would be lost silently."""
    for host in sorted(facts_by_host):
        facts = facts_by_host[host]
        if facts.get("schema", _FACTS_SCHEMA) != _FACTS_SCHEMA:
            raise PlanError(
                "group %s: the facts of %s have schema %r, this version reads %d: they are of another version; "
                "run discover again" % (group, host, facts["schema"], _FACTS_SCHEMA)
            )
        if "devices" not in facts:
            raise PlanError(
                "group %s: the facts of %s are partial: they do not tell of its devices; run discover again, which gathers all"
                % (group, host)
            )


def _visible_ports(facts: t.Mapping[str, t.Any], want: Json) -> t.Tuple[t.List[Json], t.List[Json]]:
    """As usable_ports(), but a port that the plugin cannot offer is refused, too."""
    rows, refused = usable_ports(facts, want)
    views = {device["name"]: device for device in facts["devices"]}
    keep: t.List[Json] = []
    for row in rows:
        device = views[row["device"]]
        if device["plugin"]["visible"] or device["kind"] == "software":
            keep.append(row)
        else:
            reason = "invisible to the plugin: %s" % (device["plugin"]["reason"] or "unknown")
            refused.append({"device": row["device"], "port": row["port"], "netdev": row["netdev"], "reason": reason})
    return keep, refused


def _may_be_on_a_rail(device: t.Mapping[str, t.Any], want: Json) -> bool:
    """Whether a device is of the sort that the group wants, be its ports up or not: a lost cable must not renumber rails."""
    patient = {**want, "state": "any", "min_rate_gbps": 0}
    return (
        bool(device["pci"])
        and not _device_refusal(device, want)
        and any(
            not _port_refusal(device, port, patient)
            and (port["state"] != "Active" or not _port_refusal(device, port, want))
            for port in device["ports"]
        )
    )


def _on_rails(hosts: t.Dict[str, _Host], facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], want: Json) -> None:
    """Adds the rails of every host, and takes the ports that are on none from the wanted ones. RailError as group_rails()."""
    netdevs: t.Dict[str, t.Dict[str, str]] = {}
    switched = {}
    for host in sorted(hosts):
        facts, own = facts_by_host[host], hosts[host]
        candidates = {device["pci"] for device in facts["devices"] if _may_be_on_a_rail(device, want)}
        candidates |= {row["pci"] for row in own.wanted if row["pci"]}
        switched[host] = rail_host(host, facts, candidates)
    rails = group_rails(switched)
    for host in sorted(hosts):
        facts, own = facts_by_host[host], hosts[host]
        own.rails.extend(rails[host])
        netdevs[host] = {device["pci"]: device["plugin"]["if_name"] for device in facts["devices"] if device["pci"]}
        functions = {pci for rail in own.rails for pci in rail.functions}
        reason = "on no rail: no GPU is under the PCIe switch that it is under"
        for row in own.wanted:
            if row["pci"] not in functions:
                own.refused.append({**{key: row[key] for key in ("device", "port", "netdev")}, "reason": reason})
        own.wanted[:] = [row for row in own.wanted if row["pci"] in functions]
    check_rails({host: own.rails for host, own in hosts.items()}, netdevs)


def _missing_rails(host: str, own: _Host, facts: t.Mapping[str, t.Any]) -> t.List[str]:
    """A sentence for each rail of a host that has nothing to offer."""
    wanted = {row["pci"] for row in own.wanted}
    names = {device["name"]: device["pci"] for device in facts["devices"]}
    found = []
    for rail in own.rails:
        if not wanted & set(rail.functions):
            reasons = [
                "%s: %s" % (row["device"], row["reason"])
                for row in own.refused
                if names[row["device"]] in rail.functions
            ]
            found.append(
                "host %s has nothing on rail %d, which is that of GPU %s (%s)"
                % (
                    host,
                    rail.number,
                    ", ".join(rail.gpu_addresses),
                    "; ".join(reasons) or "no HCA that the group wants is under its PCIe switch",
                )
            )
    return found


def _whole_functions(host: str, functions: t.Sequence[Function], refused: t.Sequence[Json]) -> t.List[str]:
    """A sentence for each function that brings a port which is not wanted."""
    found = []
    for function in functions:
        lost = sorted(
            row["port"]
            for row in refused
            if function.pool and row["device"] in function.devices and row["port"] not in (None, *function.ports)
        )
        if lost:
            found.append(
                "host %s: %s comes as a whole, so Pods that get port %s can also use port %s of it, which is not wanted"
                % (
                    host,
                    function.devices[0],
                    ", ".join(str(port) for port in function.ports),
                    ", ".join(str(port) for port in lost),
                )
            )
    return found


def _routes(host: str, facts: t.Mapping[str, t.Any], wanted: t.Sequence[Json]) -> t.List[str]:
    """A sentence for each wanted device that carries the default route."""
    routes = set(facts.get("management", {}).get("default_route_netdevs", []))
    names = {row["device"] for row in wanted}
    return [
        "host %s: %s is wanted and carries the default route (%s)"
        % (host, device["name"], sorted(routes & _names_of(device))[0])
        for device in facts["devices"]
        if device["name"] in names and routes & _names_of(device)
    ]


def _as_sets(selectors: t.Mapping[str, t.Collection[str]]) -> t.Dict[str, t.AbstractSet[str]]:
    """The same to look many functions up in: lists of names can be as long as there are hosts."""
    return {kind: frozenset(values) for kind, values in selectors.items()}


def _matches(
    hosts: t.Sequence[str],
    functions: t.Mapping[str, t.Sequence[Function]],
    selectors: t.Mapping[str, Selectors],
    rails: t.Mapping[str, t.Optional[int]],
) -> t.Dict[str, t.List[Json]]:
    """What selectors match on each host, by applying them; by PCI address."""
    seen: t.Dict[t.Tuple[str, ...], t.List[str]] = {}
    found: t.Dict[str, t.List[Json]] = {}
    lists = {pool: _as_sets(own) for pool, own in selectors.items()}
    for host in hosts:
        rows = found.setdefault(host, [])
        for function in functions[host]:
            if function.values not in seen:
                seen[function.values] = [pool for pool in lists if matched(SHARED, lists[pool], function.values)]
            if seen[function.values] != [pool for pool in [function.pool] if pool]:
                # It never happens: the search has excluded it. A plan that is not exact must not leave this function.
                raise PlanError(
                    "host %s: %s (%s) is matched by %s, not by %s"
                    % (host, function.devices[0], function.pci, seen[function.values], function.pool or "none")
                )
            if function.pool:
                row: Json = {"device": function.devices[0], "pci": function.pci, "if_name": function.values[4]}
                row["ports"] = list(function.ports)
                if rails[function.pool] is not None:
                    row.update({"resource": function.pool, "rail": rails[function.pool]})
                rows.append(row)
    return found


def _class(
    hosts: t.List[str],
    functions: t.Mapping[str, t.Sequence[Function]],
    selectors: t.Mapping[str, Selectors],
    pools: t.Mapping[str, Json],
) -> Json:
    """A class of the plan, still without its name. Where it has rails, selectors are those of all of them together, and pools has them one by one."""
    rails = {pool: pools[pool]["rail"] for pool in pools}
    together: Selectors = {}
    for kind in SHARED.kinds:
        values = {value for own in selectors.values() for value in own.get(kind, ())}
        if values:
            together[kind] = sorted(values)
    ordered = [pool for pool in pools if pool in selectors]
    return {
        "name": "",
        "hosts": hosts,
        "selectors": together,
        "matched_later": sorted({words for own in selectors.values() for words in SHARED.matched_later(own)}),
        "pools": [{"resource": pool, "rail": rails[pool], "selectors": selectors[pool]} for pool in ordered],
        "config": _config(pools, selectors),
        "matches": _matches(hosts, functions, selectors, rails),
        "reason": None,
        "sriov": {"config": None, "versions": None, "reason": None},
    }


def _add_reasons(classes: t.List[Json], functions: t.Mapping[str, t.Sequence[Function]]) -> None:
    """Why each of several classes is not one with the others: what its selectors would match where it is not wanted."""
    # one host for each sort of them
    examples: t.Dict[str, t.List[str]] = {}
    for entry in classes:
        sorts = {traits_of(functions[host]): host for host in reversed(entry["hosts"])}
        examples[entry["name"]] = sorted(sorts.values())
    for entry in classes:
        for other in classes:
            found = other is not entry and _trespass(entry, other, examples[other["name"]], functions)
            if found:
                entry["reason"] = found
                break
    for entry in classes:
        if entry["reason"] is None:
            entry["reason"] = _other_way(entry, classes, examples, functions)


def _other_way(
    entry: Json,
    classes: t.Sequence[Json],
    examples: t.Mapping[str, t.Sequence[str]],
    functions: t.Mapping[str, t.Sequence[Function]],
) -> str:
    """Why a class is not one with the others whose own selectors would match nothing else on them."""
    for other in classes:
        found = other is not entry and _trespass(other, entry, examples[entry["name"]], functions)
        if found:
            return "for the selectors of class %s: %s" % (other["name"], str(found).replace("its selectors", "they"))
    for other in classes:
        if other is not entry:
            places = {host: functions[host] for row in (entry, other) for host in examples[row["name"]]}
            found = explain(SHARED, places, named=len(entry["pools"]) > 1)
            if found:
                return "with class %s: %s" % (other["name"], found)
    return "one class with another would need more names of interfaces"


def _trespass(
    entry: Json, other: Json, hosts: t.Sequence[str], functions: t.Mapping[str, t.Sequence[Function]]
) -> t.Optional[str]:
    pools = [(pool["resource"], _as_sets(pool["selectors"])) for pool in entry["pools"]]
    for host in hosts:
        for function in functions[host]:
            for resource, selectors in pools:
                if function.pool != resource and matched(SHARED, selectors, function.values):
                    return "on host %s of class %s, its selectors would match %s (%s), which %s" % (
                        host,
                        other["name"],
                        function.devices[0],
                        function.pci,
                        "belongs to %s there" % function.pool
                        if function.pool
                        else "is not wanted there%s" % (" (%s)" % function.why if function.why else ""),
                    )
    return None


def _some(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts[:3]) + (", ..." if len(hosts) > 3 else "")


def _pools(resource: Json, pattern: t.Optional[str], numbers: t.Iterable[int]) -> t.Dict[str, Json]:
    """{resource: {name, prefix, hca_max, rail}} of a group, in the order of the plugin's configuration."""
    if pattern is None:
        return {"%s/%s" % (resource["prefix"], resource["name"]): {**resource, "rail": None}}
    names = {number: rail_name(pattern, resource["name"], number) for number in sorted(set(numbers))}
    return {
        "%s/%s" % (resource["prefix"], name): {**resource, "name": name, "rail": number}
        for number, name in names.items()
    }


def plan_group(group: str, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], wishes: t.Mapping[str, t.Any]) -> Json:
    """The plan of one group; raises PlanError with a counter-example when no configuration is exact.

    facts_by_host: ansible_facts.rdma of every host of the group. wishes: {resource, want, strategy, rails} as the user wrote them.
    """
    return _plan_group(group, facts_by_host, wishes)[0]


def _plan_group(
    group: str,
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    wishes: t.Mapping[str, t.Any],
    others: t.Collection[str] = (),
    earlier: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> t.Tuple[Json, t.Dict[str, t.List[Function]]]:
    """(plan, functions of every host, also of those on which nothing is wanted). others: names of all groups; earlier: classes."""
    checked = validate_wishes(group, wishes)
    resource, want, pattern = checked["resource"], checked["want"], checked["rails"]
    _check_facts(group, facts_by_host)
    hosts: t.Dict[str, _Host] = {}
    for host in sorted(facts_by_host):
        keep, refused = _visible_ports(facts_by_host[host], want)
        hosts[host] = _Host(keep, refused, [], [])
    if pattern is not None:
        try:
            _on_rails(hosts, facts_by_host, want)
        except RailError as exc:
            raise PlanError("group %s: %s" % (group, exc)) from exc
    pools = _pools(resource, pattern, (rail.number for own in hosts.values() for rail in own.rails))
    by_rail = {entry["rail"]: pool for pool, entry in pools.items()}
    wanted: t.Dict[str, t.List[Json]] = {}
    exclusions: t.List[Json] = []
    warnings: t.List[str] = []
    errors: t.List[str] = []
    warnings += _idle_exclusions(facts_by_host, want["exclude"])
    everything: t.Dict[str, t.List[Function]] = {}
    functions: t.Dict[str, t.List[Function]] = {}
    bare: t.List[str] = []
    for host, own in hosts.items():
        facts = facts_by_host[host]
        exclusive = facts.get("kernel", {}).get("rdma_netns") == "exclusive"
        if exclusive:
            # no class has it: a rollout would wait for a plugin that exits
            for row in own.wanted:
                own.refused.append({**{key: row[key] for key in ("device", "port", "netdev")}, "reason": _EXCLUSIVE})
            own.wanted.clear()
        exclusions.extend({"host": host, **row} for row in own.refused)
        if exclusive:
            errors.append("host %s: %s" % (host, _EXCLUSIVE))
        rails = {pci: by_rail[rail.number] for rail in own.rails for pci in rail.functions}
        wants = {
            row["pci"]: by_rail[None] if pattern is None else rails[row["pci"]] for row in own.wanted if row["pci"]
        }
        everything[host] = _functions(facts, wants, own.wanted, own.refused)
        if exclusive:
            continue
        if not own.wanted:
            found = "; ".join("%s: %s" % (row["device"], row["reason"]) for row in own.refused) or "no RDMA device"
            errors.append("host %s has no usable port (%s)" % (host, found))
            continue
        wanted[host] = own.wanted
        errors += _missing_rails(host, own, facts)
        if any(function.pool for function in everything[host]):
            functions[host] = everything[host]
            warnings += _whole_functions(host, functions[host], own.refused) + _routes(host, facts, own.wanted)
        else:
            bare.append(host)
    strategy = checked["strategy"]
    split, alone = classes_of(SHARED, functions, strategy)
    infiniband = {host: {row["pci"] for row in wanted[host] if row["link_layer"] == "InfiniBand"} for host in functions}
    if alone is not None:
        place = {alone: functions[alone]}
        reason = explain(SHARED, place, strategy, named=pattern is not None)
        raise PlanError("group %s: no selectors are exact: %s%s" % (group, reason, _unnamed(place, infiniband)))
    classes = [_class(names, functions, selectors, pools) for names, selectors in split]
    for entry, name in zip(classes, class_names(group, classes, earlier, others)):
        entry["name"] = name
    classes.sort(key=lambda entry: str(entry["name"]))
    if len(classes) > 1:
        _add_reasons(classes, functions)
        why = explain(SHARED, functions, strategy, named=pattern is not None)
        warnings.append(
            "%s. So the group is split into %d classes: %s%s"
            % (
                "no single configuration is exact on every host: %s" % why
                if why
                else "one configuration would need more names of interfaces than several do",
                len(classes),
                "; ".join("%s (%s)" % (entry["name"], _some(entry["hosts"])) for entry in classes),
                _unnamed(functions, infiniband),
            )
        )
    for entry in classes:
        seen = {host: sriov_functions(host, facts_by_host[host], functions[host]) for host in entry["hosts"]}
        refusals = [text for _found, texts in seen.values() for text in texts]
        entry["sriov"] = sriov_config({host: found for host, (found, _texts) in seen.items()}, refusals, pools)
    if bare:
        warnings.append(
            "%s: only software devices are wanted; the shared device plugin lists PCI functions only, so there is nothing to advertise"
            % _some(bare)
        )
        classes.append(
            {
                "name": "%s-%s" % (group, _SOFTWARE),
                "hosts": bare,
                "selectors": {},
                "matched_later": [],
                "pools": [],
                "config": None,
                "matches": {},
                "reason": None,
                "sriov": {"config": None, "versions": None, "reason": "software devices have no PCI function"},
            }
        )
    if resource["hca_max"] == 0:
        warnings.append(
            "rdma_resource.hca_max is 0: the plugin advertises a resource of 0 devices, and no Pod can have one"
        )
    plan = {
        "resource": _shown(resource, pattern),
        "resources": [{"resource": pool, "rail": entry["rail"]} for pool, entry in pools.items()],
        "planned": True,
        "kept": None,
        "cached": {},
        "malformed": {},
        "classes": classes,
        "wanted": wanted,
        "rails": {host: _rails_of(own, by_rail, facts_by_host[host]) for host, own in hosts.items() if own.rails},
        "exclusions": exclusions,
        "environment": {host: _environment(rows) for host, rows in wanted.items()},
        "warnings": warnings,
        "errors": errors,
    }
    return plan, everything


def _shown(resource: Json, pattern: t.Optional[str]) -> str:
    name = resource["name"] if pattern is None else pattern.replace("{name}", str(resource["name"]))
    return "%s/%s" % (resource["prefix"], name)


def _rails_of(own: _Host, by_rail: t.Mapping[t.Optional[int], str], facts: t.Mapping[str, t.Any]) -> t.List[Json]:
    """The rails of a host with what each offers."""
    wanted = {row["pci"] for row in own.wanted}
    names: t.Dict[str, t.List[str]] = {}
    for device in facts["devices"]:
        if device["pci"] in wanted:
            names.setdefault(device["pci"], []).append(device["name"])
    return [
        {
            "rail": rail.number,
            "resource": by_rail[rail.number],
            "gpus": list(rail.gpu_addresses),
            "devices": [name for pci in rail.functions for name in names.get(pci, [])],
        }
        for rail in own.rails
    ]


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
        places[host] = _functions(facts_by_host[host], {}, [], []) if "devices" in facts_by_host[host] else []
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
        entries = _pools(
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
    return {**refused, "config": _config(pools, selectors), "selectors": selectors}


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
            plans[group], own = _plan_group(
                group, sound, groups[group], sorted(groups), (earlier or {}).get(group) or ()
            )
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
        reason = "not known: %s; a configuration that reaches the whole cluster must know all of it" % _some(
            sorted(broken)
        )
        cluster = {**cluster, "config": None, "selectors": {}, "errors": [*cluster["errors"], reason]}
    return {"schema": PLAN_SCHEMA, "groups": plans, "cluster": cluster, "warnings": warnings}

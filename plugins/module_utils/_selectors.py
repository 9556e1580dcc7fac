# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From facts and wishes to device-plugin selectors that match the wanted ports and nothing else. Private. Pure.

The model of the plugin follows k8s-rdma-shared-dev-plugin (pkg/resources/resources_manager.go, device_selectors.go):
a function matches when, for every kind of selector that is given, its value is in the list; values are compared as strings;
``linkTypes`` is compared with the netlink type of the function's first netdev; port states are not known to it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import typing as t

__all__ = ["KINDS", "PLAN_SCHEMA", "PlanError", "plan_group", "plan_groups", "usable_ports", "validate_wishes"]

PLAN_SCHEMA = 1

# In the order in which a smaller set is tried; names of interfaces are the last resort.
KINDS = ("vendors", "deviceIDs", "drivers", "linkTypes", "ifNames")

STRATEGIES = ("auto", "ifnames", "device_ids")
LINK_LAYERS = ("InfiniBand", "Ethernet")
STATES = ("Active", "any")
DEVICE_KINDS = ("pf", "vf", "sf", "software")

# pkg/resources/resources_manager.go, validResourceName()
# and what Kubernetes asks of the name of an extended resource
# (k8s.io/apimachinery/pkg/util/validation, IsQualifiedName: ends are letters or digits, at most 63 characters; the prefix
# is a DNS subdomain).
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9_]{0,61}[a-zA-Z0-9])?")
_RESOURCE_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_PERIODIC_UPDATE_SECONDS = 300

_WANT_DEFAULTS: t.Dict[str, t.Any] = {
    "link_layer": "InfiniBand",
    "state": "Active",
    "min_rate_gbps": 0,
    "kinds": ["pf"],
    "exclude": [],
}
_RESOURCE_DEFAULTS: t.Dict[str, t.Any] = {"name": None, "prefix": "rdma", "hca_max": 63}

Json = t.Dict[str, t.Any]


class PlanError(Exception):
    """Wishes that make no sense, or that no configuration can fulfil; the text is for the user."""


class _Function(t.NamedTuple):
    """A PCI function as the plugin sees it; the order of the first fields is that of KINDS."""

    vendors: str
    deviceIDs: str
    drivers: str
    linkTypes: str
    ifNames: str
    wanted: bool
    pci: str
    devices: t.Tuple[str, ...]
    ports: t.Tuple[int, ...]

    def value(self, kind: str) -> str:
        return str(self[KINDS.index(kind)])


def _bad(group: str, key: str, value: t.Any, expected: str) -> PlanError:
    return PlanError("group %s: %s is %r; expected %s" % (group, key, value, expected))


def _checked(group: str, key: str, given: t.Any, defaults: Json) -> Json:
    if given is None:
        given = {}
    if not isinstance(given, t.Mapping):
        raise _bad(group, key, given, "a dictionary")
    unknown = sorted(str(name) for name in set(given) - set(defaults))
    if unknown:
        raise PlanError(
            "group %s: %s has no key %s; it knows %s" % (group, key, ", ".join(unknown), ", ".join(sorted(defaults)))
        )
    return {**defaults, **given}


def validate_wishes(group: str, wishes: t.Mapping[str, t.Any]) -> Json:
    """Wishes of a group with their defaults: {resource: {name, prefix, hca_max}, want: {...}, strategy: str}.

    PlanError names the group, the key, the value and what is allowed; a misspelt key is an error.
    """
    resource = _checked(group, "rdma_resource", wishes.get("resource"), _RESOURCE_DEFAULTS)
    want = _checked(group, "rdma_want", wishes.get("want"), _WANT_DEFAULTS)
    strategy = wishes.get("strategy") or "auto"
    name = resource["name"]
    if not isinstance(name, str) or not _RESOURCE_NAME.fullmatch(name):
        raise _bad(
            group,
            "rdma_resource.name",
            name,
            "letters, digits and underscores (the plugin refuses anything else), such as rdma_v100",
        )
    prefix = resource["prefix"]
    if not isinstance(prefix, str) or len(prefix) > 253 or not _RESOURCE_PREFIX.fullmatch(prefix):
        raise _bad(group, "rdma_resource.prefix", resource["prefix"], "a domain-like prefix, such as rdma")
    if isinstance(resource["hca_max"], bool) or not isinstance(resource["hca_max"], int) or resource["hca_max"] < 0:
        raise _bad(
            group,
            "rdma_resource.hca_max",
            resource["hca_max"],
            "an integer of 0 or more: how many Pods of a node share the devices",
        )
    if want["link_layer"] not in LINK_LAYERS:
        raise _bad(group, "rdma_want.link_layer", want["link_layer"], "one of " + ", ".join(LINK_LAYERS))
    if want["state"] not in STATES:
        raise _bad(group, "rdma_want.state", want["state"], "one of " + ", ".join(STATES))
    rate = want["min_rate_gbps"]
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < float("inf"):
        raise _bad(group, "rdma_want.min_rate_gbps", rate, "a number of Gb/s, 0 or more")
    for key, allowed in (("kinds", DEVICE_KINDS), ("exclude", None)):
        values = want[key]
        if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
            raise _bad(group, "rdma_want." + key, values, "a list of strings")
        if allowed and (not values or set(values) - set(allowed)):
            raise _bad(group, "rdma_want." + key, values, "some of " + ", ".join(allowed))
    if strategy not in STRATEGIES:
        raise _bad(group, "rdma_selector_strategy", strategy, "one of " + ", ".join(STRATEGIES))
    return {"resource": resource, "want": want, "strategy": strategy}


def _names_of(device: t.Mapping[str, t.Any]) -> t.Set[str]:
    """Everything under which a user may exclude a device: RDMA name, PCI address, netdevs, bond."""
    names = {device["name"], device["pci"] or "", *device["netdevs"]}
    if device["lag"]:
        names.add(device["lag"]["netdev"])
    return names


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
    excluded = sorted(_names_of(device) & set(want["exclude"]))
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
    wanted: t.List[Json] = []
    refused: t.List[Json] = []
    for device in facts.get("devices", []):
        reason = _device_refusal(device, dict(want))
        if reason or not device["ports"]:
            netdev = device["netdevs"][0] if device["netdevs"] else None
            refused.append(
                {"device": device["name"], "port": None, "netdev": netdev, "reason": reason or "it has no ports"}
            )
            continue
        for port in device["ports"]:
            netdev = port["netdevs"][0]["name"] if port["netdevs"] else None
            reason = _port_refusal(device, port, dict(want))
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


def _functions(facts: t.Mapping[str, t.Any], wanted: t.List[Json]) -> t.List[_Function]:
    """The functions that the plugin sees on one host, sorted by PCI address. A function is wanted when one of its ports is."""
    ports: t.Dict[str, t.Set[int]] = {}
    for row in wanted:
        if row["pci"]:
            ports.setdefault(row["pci"], set()).add(row["port"])
    found: t.Dict[str, _Function] = {}
    for device in facts.get("devices", []):
        pci, view = device["pci"], device["plugin"]
        if not pci or not view["visible"]:
            continue
        names = (found[pci].devices if pci in found else ()) + (device["name"],)
        found[pci] = _Function(
            vendors=device["vendor"] or "",
            deviceIDs=device["device"] or "",
            drivers=device["driver"] or "",
            linkTypes=view["link_type"],
            ifNames=view["if_name"],
            wanted=pci in ports,
            pci=pci,
            devices=names,
            ports=tuple(sorted(ports.get(pci, ()))),
        )
    return [found[pci] for pci in sorted(found)]


def _kind_sets(strategy: str) -> t.List[t.Tuple[str, ...]]:
    """Sets of selector kinds in the order in which they are tried: without ifNames first, then small before large."""
    if strategy == "ifnames":
        return [("ifNames",)]
    plain = [kinds for size in range(1, 5) for kinds in itertools.combinations(KINDS[:4], size)]
    if strategy == "device_ids":
        return [kinds for kinds in plain if "deviceIDs" in kinds]
    return plain + [
        kinds for size in range(1, 6) for kinds in itertools.combinations(KINDS, size) if "ifNames" in kinds
    ]


# What the plugin can tell two functions apart by, and whether the function is wanted.
_Traits = t.Tuple[str, str, str, str, str, bool]


def _search(traits: t.Collection[_Traits], strategy: str) -> t.Optional[t.Dict[str, t.List[str]]]:
    """The first set of kinds whose lists match all wanted traits and no other, None when there is none.

    With the kinds given, each list must hold every wanted value; more values can only match more. So the wanted values are
    the one candidate.
    """
    wanted = [trait for trait in traits if trait[5]]
    others = [trait for trait in traits if not trait[5]]
    for kinds in _kind_sets(strategy):
        lists = {kind: {str(trait[KINDS.index(kind)]) for trait in wanted} for kind in kinds}
        if any("" in values for values in lists.values()):
            continue
        if not any(all(trait[KINDS.index(kind)] in lists[kind] for kind in kinds) for trait in others):
            return {kind: sorted(lists[kind]) for kind in kinds}
    return None


def _traits(functions: t.Iterable[_Function]) -> t.FrozenSet[_Traits]:
    return frozenset(
        (function.vendors, function.deviceIDs, function.drivers, function.linkTypes, function.ifNames, function.wanted)
        for function in functions
    )


def _counter_example(host: str, functions: t.List[_Function], strategy: str) -> str:
    """Why one host alone has no exact selectors: a wanted and an unwanted function that look the same."""
    kinds = {"ifnames": ("ifNames",), "device_ids": KINDS[:4]}.get(strategy, KINDS)
    hint = "" if strategy == "auto" else "; rdma_selector_strategy: auto may tell them apart"
    for mine in functions:
        if not mine.wanted:
            continue
        if strategy == "ifnames" and not mine.ifNames:
            return "host %s: %s (%s) is wanted but has no netdev, so no interface name can select it%s" % (
                host,
                mine.devices[0],
                mine.pci,
                hint,
            )
        for other in functions:
            if not other.wanted and all(mine.value(kind) == other.value(kind) for kind in kinds):
                return (
                    "host %s: %s (%s) is wanted and %s (%s) is not, but the plugin cannot tell them apart by %s%s"
                    % (
                        host,
                        mine.devices[0],
                        mine.pci,
                        other.devices[0],
                        other.pci,
                        ", ".join(kinds),
                        hint,
                    )
                )
    return "host %s: several wanted functions together cannot be told from an unwanted one by %s%s" % (
        host,
        ", ".join(kinds),
        hint,
    )


# How a class is called after what it selects by; the names of interfaces speak for themselves.
_KIND_WORDS = {"vendors": "vendor", "deviceIDs": "device", "drivers": "driver", "linkTypes": "link"}
_SOFTWARE = "software"
_SLUG_LIMIT = 24


def _class_name(group: str, selectors: t.Mapping[str, t.List[str]]) -> str:
    """``ib-a100-ibp33s0``, ``gb200-device-1021``: the group and what the class selects by, never more and never less.

    The nodes of a class carry its name in a label, so it must not change because another class appears or goes: it depends
    on the selectors of this class alone. Other selectors have another name.
    """
    kind = next(iter(selectors))
    slug = "-".join(([_KIND_WORDS[kind]] if kind in _KIND_WORDS else []) + selectors[kind])
    # A name that is no label as it is, that says only half of the selectors, or that is made of names of interfaces which
    # could be read in another way, too, could be that of another class.
    ambiguous = kind == "ifNames" and (
        any("-" in name for name in selectors[kind]) or selectors[kind][0] in (*_KIND_WORDS.values(), _SOFTWARE)
    )
    if len(selectors) > 1 or ambiguous or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug) or len(slug) > _SLUG_LIMIT:
        slug = hashlib.sha256(json.dumps(selectors, sort_keys=True).encode()).hexdigest()[:8]
    return "%s-%s" % (group, slug)


def _classes(
    group: str, functions: t.Dict[str, t.List[_Function]], strategy: str
) -> t.List[t.Tuple[t.List[str], t.Dict[str, t.List[str]]]]:
    """[(hosts, selectors)]: as few classes as a greedy pass finds, the same for every order of hosts.

    Hosts with equal traits are one profile, and the search works on profiles: its cost grows with the number of different
    machines, not with the number of machines.
    """
    profiles: t.Dict[t.FrozenSet[_Traits], t.List[str]] = {}
    for host in sorted(functions):
        profiles.setdefault(_traits(functions[host]), []).append(host)
    together = _search(frozenset().union(*profiles), strategy) if profiles else None
    if together:
        return [(sorted(functions), together)]
    classes: t.List[t.Tuple[t.Set[_Traits], t.List[str], t.Dict[str, t.List[str]]]] = []
    for profile in sorted(profiles, key=sorted):
        alone = _search(profile, strategy)
        if alone is None:
            host = profiles[profile][0]
            raise PlanError(
                "group %s: no selectors are exact: %s" % (group, _counter_example(host, functions[host], strategy))
            )
        for index, (traits, hosts, _dummy) in enumerate(classes):
            joint = _search(traits | profile, strategy)
            if joint:
                classes[index] = (traits | profile, hosts + profiles[profile], joint)
                break
        else:
            classes.append((set(profile), list(profiles[profile]), alone))
    return [(sorted(hosts), selectors) for _dummy, hosts, selectors in classes]


def _config(resource: Json, selectors: t.Mapping[str, t.List[str]]) -> Json:
    return {
        "periodicUpdateInterval": _PERIODIC_UPDATE_SECONDS,
        "configList": [
            {
                "resourceName": resource["name"],
                "resourcePrefix": resource["prefix"],
                "rdmaHcaMax": resource["hca_max"],
                "selectors": dict(selectors),
            }
        ],
    }


def _environment(wanted: t.List[Json]) -> t.Dict[str, str]:
    """What a workload sets to use exactly these ports; '=' makes NCCL compare whole names, not prefixes."""
    ports = ["%s:%d" % (row["device"], row["port"]) for row in wanted]
    return {"NCCL_IB_HCA": "=" + ",".join(ports), "UCX_NET_DEVICES": ",".join(ports)} if ports else {}


def plan_group(group: str, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], wishes: t.Mapping[str, t.Any]) -> Json:
    """The plan of one group; raises PlanError with a counter-example when no configuration is exact.

    facts_by_host: ansible_facts.rdma of every host of the group. wishes: {resource, want, strategy} as the user wrote them.
    """
    checked = validate_wishes(group, wishes)
    resource, want = checked["resource"], checked["want"]
    wanted: t.Dict[str, t.List[Json]] = {}
    exclusions: t.List[Json] = []
    warnings: t.List[str] = []
    errors: t.List[str] = []
    functions: t.Dict[str, t.List[_Function]] = {}
    bare: t.List[str] = []
    for host in sorted(facts_by_host):
        facts = facts_by_host[host]
        rows, refused = usable_ports(facts, want)
        views = {device["name"]: device for device in facts.get("devices", [])}
        keep: t.List[Json] = []
        for row in rows:
            device = views[row["device"]]
            if device["plugin"]["visible"] or device["kind"] == "software":
                keep.append(row)
            else:
                refused.append(
                    {
                        "device": row["device"],
                        "port": row["port"],
                        "netdev": row["netdev"],
                        "reason": "invisible to the plugin: %s" % device["plugin"]["reason"],
                    }
                )
        exclusions.extend({"host": host, **row} for row in refused)
        if facts.get("kernel", {}).get("rdma_netns") == "exclusive":
            errors.append(
                "host %s: the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it"
                % host
            )
        if not keep:
            found = "; ".join("%s: %s" % (row["device"], row["reason"]) for row in refused) or "no RDMA device"
            errors.append("host %s has no usable port (%s)" % (host, found))
            continue
        wanted[host] = keep
        own = _functions(facts, keep)
        if any(function.wanted for function in own):
            functions[host] = own
            for function in own:
                lost = sorted(
                    row["port"]
                    for row in refused
                    if function.wanted
                    and row["device"] in function.devices
                    and row["port"] not in (None, *function.ports)
                )
                if lost:
                    warnings.append(
                        "host %s: %s comes as a whole, so Pods that get port %s can also use port %s of it, which is not wanted"
                        % (
                            host,
                            function.devices[0],
                            ", ".join(str(port) for port in function.ports),
                            ", ".join(str(port) for port in lost),
                        )
                    )
            routes = set(facts.get("management", {}).get("default_route_netdevs", []))
            for device in facts["devices"]:
                carries = sorted(routes & _names_of(device))
                if carries and any(row["device"] == device["name"] for row in keep):
                    warnings.append(
                        "host %s: %s is wanted and carries the default route (%s)" % (host, device["name"], carries[0])
                    )
        else:
            bare.append(host)
    classes: t.List[Json] = []
    split = _classes(group, functions, checked["strategy"])
    for hosts, selectors in split:
        matches = {
            host: [
                {"device": device, "pci": function.pci, "if_name": function.ifNames, "ports": list(function.ports)}
                for function in functions[host]
                if function.wanted
                for device in function.devices[:1]
            ]
            for host in hosts
        }
        classes.append(
            {
                "name": _class_name(group, selectors),
                "hosts": hosts,
                "selectors": selectors,
                "config": _config(resource, selectors),
                "matches": matches,
            }
        )
    classes.sort(key=lambda entry: str(entry["name"]))
    if len(classes) > 1:
        warnings.append(
            "no single configuration is exact on every host, so the group is split into %d classes: %s"
            % (
                len(classes),
                "; ".join(
                    "%s (%s)"
                    % (entry["name"], ", ".join(entry["hosts"][:3]) + (", ..." if len(entry["hosts"]) > 3 else ""))
                    for entry in classes
                ),
            )
        )
    if bare:
        warnings.append(
            "%s: only software devices are wanted; the shared device plugin lists PCI functions only, so there is nothing to advertise"
            % ", ".join(bare[:3] + (["..."] if len(bare) > 3 else []))
        )
        classes.append(
            {
                "name": "%s-%s" % (group, _SOFTWARE),
                "hosts": bare,
                "selectors": {},
                "config": None,
                "matches": {},
            }
        )
    return {
        "resource": "%s/%s" % (resource["prefix"], resource["name"]),
        "planned": True,
        "kept": None,
        "classes": classes,
        "wanted": wanted,
        "exclusions": exclusions,
        "environment": {host: _environment(rows) for host, rows in wanted.items()},
        "warnings": warnings,
        "errors": errors,
    }


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
    resource = {**_RESOURCE_DEFAULTS, **(wishes.get("resource") or {})}
    return {
        "resource": "%s/%s" % (resource["prefix"], resource["name"]),
        "planned": False,
        "kept": None,
        "classes": [],
        "wanted": {},
        "exclusions": [],
        "environment": {},
        "warnings": [],
        "errors": [reason],
    }


def _cached_in_words(hosts: t.Sequence[str]) -> t.List[str]:
    if not hosts:
        return []
    return [
        "the facts of %d hosts (%s%s) are from a fact cache or an earlier step, not discovered by this run: "
        "the plan is as old as they are; run discover to renew them"
        % (len(hosts), ", ".join(sorted(hosts)[:3]), ", ..." if len(hosts) > 3 else "")
    ]


def plan_groups(
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    groups: t.Mapping[str, t.Mapping[str, t.Any]],
    cached: t.Sequence[str] = (),
) -> Json:
    """The plan of several groups: {schema, groups: {name: plan}, warnings}.

    groups: {name: {hosts: [...], resource, want, strategy}}. A group for which no configuration is exact, or of which facts of
    some hosts are missing (a plan from half a group would be wrong for the other half), has planned: False and the reason in
    its errors; the others are planned. Raises PlanError for a host in two groups and for wishes that make no sense.
    """
    owner: t.Dict[str, str] = {}
    plans: t.Dict[str, Json] = {}
    for group in sorted(groups):
        hosts = groups[group]["hosts"]
        if not hosts:
            reason = "group %s has no hosts; put some in, or take it out of rdma_groups" % group
            plans[group] = _unplanned(group, groups[group], reason)
            continue
        for host in hosts:
            if owner.setdefault(host, group) != group:
                raise PlanError("host %s is in two RDMA groups, %s and %s; put it in one" % (host, owner[host], group))
        # a misspelt wish stops everything: the user is there to correct it
        validate_wishes(group, groups[group])
        missing = sorted(host for host in hosts if host not in facts_by_host)
        if missing:
            reason = "group %s: no facts of %s (%d of %d hosts); discover the whole group, or use a fact cache" % (
                group,
                ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else ""),
                len(missing),
                len(hosts),
            )
            plans[group] = _unplanned(group, groups[group], reason)
            continue
        try:
            plans[group] = plan_group(group, {host: facts_by_host[host] for host in hosts}, groups[group])
        except PlanError as exc:
            plans[group] = _unplanned(group, groups[group], str(exc))
    for group, plan in plans.items():
        own = [host for host in sorted(owner) if owner[host] == group]
        plan["warnings"].extend(_twins(facts_by_host, own) if plan["planned"] else [])
    return {"schema": PLAN_SCHEMA, "groups": plans, "warnings": _cached_in_words(cached)}

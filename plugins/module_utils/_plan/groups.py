# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one group: its ports, rails, classes, and a configuration for each that is exact. Private. Pure."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.class_names import class_names
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import (
    Class,
    Config,
    Exclusion,
    Group,
    Match,
    Port,
    RailRow,
    Refused,
    Selectors,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import by_kubelet
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import (
    device_refusal,
    driver_of_function,
    names_of,
    patient,
    port_refusal,
    under_default_route,
    usable_ports,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.rails import (
    Rail,
    RailError,
    check_rails,
    group_rails,
    rail_host,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import (
    SHARED,
    Function,
    as_sets,
    classes_of,
    explain,
    matched,
    traits_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import (
    sriov_config,
    sriov_functions,
    without_sriov,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.traffic import traffic_class
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import rail_name, with_defaults

__all__ = [
    "PlanError",
    "configuration",
    "functions_of",
    "plan_one",
    "pools_of",
    "some_of",
    "validate_wishes",
    "without_ipoib",
]

# The schema of the facts that this planner reads (docs/facts.schema.json).
_FACTS_SCHEMA = 1
_PERIODIC_UPDATE_SECONDS = 300
Json = t.Dict[str, t.Any]


class PlanError(FabricError):
    """Wishes that make no sense, or that no configuration can fulfil."""


def validate_wishes(group: str, wishes: t.Mapping[str, t.Any]) -> Json:
    """Wishes of a group with their defaults: {resource: {name, prefix, hca_max}, want: {...}, strategy: str, rails: str | None}.

    rails is the pattern of the names of the rails' resources. PlanError names the group, the key, the value and what is allowed; a misspelt key is an error.
    """
    if not isinstance(wishes, t.Mapping):
        raise PlanError(f"group {group}: its wishes are {wishes!r}; expected a dictionary")
    checked, wrong = with_defaults(wishes)
    if wrong:
        raise PlanError("; ".join(f"group {group}: {problem}" for problem in wrong))
    return checked


def _idle_exclusions(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], exclude: t.Sequence[str]) -> list[str]:
    """A sentence for each entry of rdma_want.exclude that no device of any host has for a name."""
    names: set[str] = set()
    for facts in facts_by_host.values():
        names.update(*(names_of(device) for device in facts["devices"]))
    return [
        f"rdma_want.exclude: {entry} is not an RDMA device, PCI address, netdev or bond of any host of the group, so it "
        "leaves nothing out"
        for entry in exclude
        if entry not in names
    ]


def without_ipoib(
    functions: t.Mapping[str, t.Sequence[Function]], infiniband: t.Mapping[str, t.Collection[t.Optional[str]]]
) -> str:
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
        f". InfiniBand devices without a netdev, such as {found[blind[0]][0]} of host {blind[0]}, cannot be selected "
        f"by linkTypes or ifNames: load ib_ipoib on {some_of(blind)}"
    )


def functions_of(
    facts: t.Mapping[str, t.Any],
    pools: t.Mapping[str, str],
    wanted: t.Sequence[Port],
    refused: t.Sequence[Refused],
    want: t.Optional[Json] = None,
) -> list[Function]:
    """The functions that the plugin sees on one host, sorted by PCI address. pools: the resource that wants it, by PCI address.

    A function may have several devices, such as Soft-RoCE beside the card's own: those that are wanted come first.
    """
    names = {row["device"] for row in wanted}
    ports: dict[str, set[int]] = {}
    for row in wanted:
        if row["pci"]:
            ports.setdefault(row["pci"], set()).add(row["port"])
    reasons: dict[str, str] = {}
    for each in refused:
        reasons.setdefault(each["device"], each["reason"])
    found: dict[str, Function] = {}
    for device in sorted(facts["devices"], key=lambda row: row["name"] not in names):
        pci, view = device["pci"], device["plugin"]
        if not pci or not view["visible"]:
            continue
        found[pci] = Function(
            values=(
                device["vendor"] or "",
                device["device"] or "",
                driver_of_function(device) or "",
                view["link_type"],
                view["if_name"],
            ),
            pool=pools.get(pci, ""),
            pci=pci,
            devices=(found[pci].devices if pci in found else ()) + (device["name"],),
            ports=tuple(sorted(ports.get(pci, ()))),
            why="" if pci in pools else reasons.get(device["name"], ""),
            sick=(pci in found and found[pci].sick)
            or (want is not None and pci not in pools and _is_down(device) and _may_be_wanted(device, want)),
        )
    return [found[pci] for pci in sorted(found)]


_EXCLUSIVE = (
    "the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it (set it to shared: "
    "rdma system set netns shared, and options ib_core netns_mode=1 for the next boot)"
)
_SOFTWARE = "software"


def configuration(pools: t.Mapping[str, Json], selectors: t.Mapping[str, Selectors]) -> Config:
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


def _environment(wanted: t.Sequence[Port], facts: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What a workload sets to use exactly these ports, as its host uses them; '=' makes NCCL compare whole names, not prefixes."""
    ports = [f"{row['device']}:{row['port']}" for row in wanted]
    if not ports:
        return {}
    # one for all ports, or none
    found = {traffic_class(facts, row["device"], row["port"]) for row in wanted}
    own = found.pop() if len(found) == 1 else None
    classes = {} if own is None else {"NCCL_IB_TC": str(own), "UCX_IB_TRAFFIC_CLASS": str(own)}
    return {"NCCL_IB_HCA": "=" + ",".join(ports), "UCX_NET_DEVICES": ",".join(ports), **classes}


class _Host(t.NamedTuple):
    """What one host contributes to the plan of its group."""

    wanted: list[Port]
    refused: list[Refused]
    rails: list[Rail]
    warnings: list[str]


def _check_facts(group: str, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """PlanError for facts that are there and cannot be planned with: a port that they do not tell of would be lost silently."""
    for host in sorted(facts_by_host):
        facts = facts_by_host[host]
        if facts.get("schema", _FACTS_SCHEMA) != _FACTS_SCHEMA:
            raise PlanError(
                f"group {group}: the facts of {host} have schema {facts['schema']!r}, this version reads "
                f"{_FACTS_SCHEMA}: they are of another version",
                "run discover again",
            )
        if "devices" not in facts:
            raise PlanError(
                f"group {group}: the facts of {host} are partial: they say nothing about its devices",
                "run discover again, which gathers all",
            )


def _visible_ports(facts: t.Mapping[str, t.Any], want: Json, rails: bool) -> tuple[list[Port], list[Refused]]:
    """As usable_ports(), but a port that the plugin cannot offer is refused, too.

    Software devices that it cannot offer are for use on the host; on a rail is only what is offered.
    """
    rows, refused = usable_ports(facts, want)
    views = {device["name"]: device for device in facts["devices"]}
    keep: list[Port] = []
    for row in rows:
        device = views[row["device"]]
        if device["plugin"]["visible"] or (device["kind"] == "software" and not (rails and device["pci"])):
            keep.append(row)
        else:
            reason = f"invisible to the plugin: {device['plugin']['reason'] or 'unknown'}"
            refused.append(_refused(row, reason))
    return keep, refused


def _is_down(device: t.Mapping[str, t.Any]) -> bool:
    return any(port["state"] != "Active" for port in device["ports"])


def _may_be_wanted(device: t.Mapping[str, t.Any], want: Json) -> bool:
    """Whether a device is of the sort that the group wants, be its ports up or not: a lost cable must change nothing else."""
    return (
        bool(device["pci"])
        and not device_refusal(device, want)
        and any(
            not port_refusal(device, port, patient(want))
            and (port["state"] != "Active" or not port_refusal(device, port, want))
            for port in device["ports"]
        )
    )


def _too_slow(
    hosts: t.Mapping[str, _Host], facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], want: Json
) -> set[_Slot]:
    """Slots of the group whose card is too slow wherever its port is Active: one that is down there is not the lost cable of a rail.

    A port that is down does not tell its rate (rate of /sys/class/infiniband/*/ports/*). One host alone does not tell either: its
    cable may be the bad one. Nor do fewer hosts than have it down.
    """
    patient = {**want, "min_rate_gbps": 0}
    fast: set[_Slot] = set()
    slow: dict[_Slot, int] = {}
    down: dict[_Slot, int] = {}
    for host, own in hosts.items():
        wanted = {row["pci"] for row in own.wanted}
        for device in facts_by_host[host]["devices"]:
            if device["pci"] in wanted:
                fast.add(_slot(device))
            elif any(port["state"] == "Active" and not port_refusal(device, port, patient) for port in device["ports"]):
                slow[_slot(device)] = slow.get(_slot(device), 0) + 1
            elif _is_down(device):
                down[_slot(device)] = down.get(_slot(device), 0) + 1
    return {slot for slot, count in slow.items() if slot not in fast and count > max(1, down.get(slot, 0))}


# The address of a card and its device ID.
_Slot = t.Tuple[t.Optional[str], t.Optional[str]]


def _slot(device: t.Mapping[str, t.Any]) -> _Slot:
    return device["pci"], device["device"]


def _on_rails(hosts: dict[str, _Host], facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], want: Json) -> None:
    """Adds the rails of every host, and takes the ports that are on none from the wanted ones. RailError as group_rails()."""
    netdevs: dict[str, dict[str, str]] = {}
    switched = {}
    slow = _too_slow(hosts, facts_by_host, want) if want["min_rate_gbps"] else set()
    for host in sorted(hosts):
        facts, own = facts_by_host[host], hosts[host]
        candidates = {
            device["pci"] for device in facts["devices"] if _slot(device) not in slow and _may_be_wanted(device, want)
        }
        candidates |= {row["pci"] for row in own.wanted if row["pci"]}
        switched[host] = rail_host(host, facts, candidates)
    rails = group_rails(switched)
    for host in sorted(hosts):
        facts, own = facts_by_host[host], hosts[host]
        own.rails.extend(rails[host])
        netdevs[host] = {device["pci"]: device["plugin"]["if_name"] for device in facts["devices"] if device["pci"]}
        functions = {pci for rail in own.rails for pci in rail.functions}
        reason = "on no rail: its PCIe switch has no GPU"
        for row in own.wanted:
            if row["pci"] not in functions:
                own.refused.append(_refused(row, reason))
        own.wanted[:] = [row for row in own.wanted if row["pci"] in functions]
    check_rails({host: own.rails for host, own in hosts.items()}, netdevs)


def _missing_rails(host: str, own: _Host, facts: t.Mapping[str, t.Any]) -> list[str]:
    """A sentence for each rail of a host that has nothing to offer."""
    wanted = {row["pci"] for row in own.wanted}
    names = {device["name"]: device["pci"] for device in facts["devices"]}
    found = []
    for rail in own.rails:
        if not wanted & set(rail.functions):
            reasons = [
                f"{row['device']}: {row['reason']}" for row in own.refused if names[row["device"]] in rail.functions
            ]
            why = "; ".join(reasons) or "no HCA that the group wants is under its PCIe switch"
            found.append(f"host {host} has nothing on rail {rail.number} (GPU {', '.join(rail.gpu_addresses)}; {why})")
    return found


def _short_rails(host: str, own: _Host, most: t.Mapping[int, tuple[int, str]]) -> list[str]:
    """A sentence for each rail of a host that has fewer HCAs than that of another. most: by number, how many, and on which host."""
    usable = {row["pci"] for row in own.wanted}
    return [
        f"host {host} has {len(rail.functions)} of {most[rail.number][0]} HCAs on rail {rail.number} (GPU "
        f"{', '.join(rail.gpu_addresses)}); host {most[rail.number][1]} has {most[rail.number][0]}"
        for rail in own.rails
        if len(rail.functions) < most.get(rail.number, (0, ""))[0] and usable & set(rail.functions)
    ]


def _whole_functions(host: str, functions: t.Sequence[Function], refused: t.Sequence[Refused]) -> list[str]:
    """A sentence for each function that brings a port which is not wanted."""
    found = []
    for function in functions:
        of_device = [row["port"] for row in refused if function.pool and row["device"] in function.devices]
        lost = sorted(port for port in of_device if port is not None and port not in function.ports)
        if lost:
            found.append(
                "host {}: {} comes as a whole, so Pods that get port {} can also use port {} of it, which is not wanted".format(
                    host,
                    function.devices[0],
                    ", ".join(str(port) for port in function.ports),
                    ", ".join(str(port) for port in lost),
                )
            )
    return found


def _routes(host: str, facts: t.Mapping[str, t.Any], wanted: t.Sequence[Port]) -> list[str]:
    """A sentence for each wanted device that carries the default route."""
    routes = under_default_route(facts)
    names = {row["device"] for row in wanted}
    return [
        f"host {host}: {device['name']} is wanted and carries the default route ({sorted(routes & names_of(device))[0]})"
        for device in facts["devices"]
        if device["name"] in names and routes & names_of(device)
    ]


def _matches(
    hosts: t.Sequence[str],
    functions: t.Mapping[str, t.Sequence[Function]],
    selectors: t.Mapping[str, Selectors],
    rails: t.Mapping[str, t.Optional[int]],
) -> dict[str, list[Match]]:
    """What selectors match on each host, by applying them; by PCI address."""
    seen: dict[tuple[str, ...], list[str]] = {}
    found: dict[str, list[Match]] = {}
    lists = {pool: as_sets(own) for pool, own in selectors.items()}
    for host in hosts:
        rows = found.setdefault(host, [])
        for function in functions[host]:
            if function.values not in seen:
                seen[function.values] = [pool for pool in lists if matched(SHARED, lists[pool], function.values)]
            if seen[function.values] != [pool for pool in [function.pool] if pool]:
                # It never happens: the search has excluded it. A plan that is not exact must not leave this function.
                raise PlanError(
                    f"host {host}: {function.devices[0]} ({function.pci}) is matched by {seen[function.values]}, not by "
                    f"{function.pool or 'none'}"
                )
            if function.pool:
                row: Match = {
                    "device": function.devices[0],
                    "pci": function.pci,
                    "if_name": function.values[4],
                    "ports": list(function.ports),
                }
                rail = rails[function.pool]
                if rail is not None:
                    row["resource"], row["rail"] = function.pool, rail
                rows.append(row)
    return found


def _class(
    hosts: list[str],
    functions: t.Mapping[str, t.Sequence[Function]],
    selectors: t.Mapping[str, Selectors],
    pools: t.Mapping[str, Json],
) -> Class:
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
        "wishes": "",
        "hosts": hosts,
        "selectors": together,
        "matched_later": sorted({words for own in selectors.values() for words in SHARED.matched_later(own)}),
        "pools": [{"resource": pool, "rail": rails[pool], "selectors": selectors[pool]} for pool in ordered],
        "config": configuration(pools, selectors),
        "matches": _matches(hosts, functions, selectors, rails),
        "reason": None,
        "sriov": without_sriov(),
    }


def _add_reasons(classes: t.Sequence[Class], functions: t.Mapping[str, t.Sequence[Function]]) -> None:
    """Why each of several classes is not one with the others: what its selectors would match where it is not wanted."""
    # one host for each sort of them
    examples: dict[str, list[str]] = {}
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


_APART = "hosts with a port that is down do not influence how the others are selected"


def _other_way(
    entry: Class,
    classes: t.Sequence[Class],
    examples: t.Mapping[str, t.Sequence[str]],
    functions: t.Mapping[str, t.Sequence[Function]],
) -> str:
    """Why a class is not one with the others whose own selectors would match nothing else on them."""
    for other in classes:
        found = other is not entry and _trespass(other, entry, examples[entry["name"]], functions)
        if found:
            return f"for the selectors of class {other['name']}: {str(found).replace('its selectors', 'they')}"
    for other in classes:
        if other is not entry:
            places = {host: functions[host] for row in (entry, other) for host in examples[row["name"]]}
            found = explain(SHARED, places, named=len(entry["pools"]) > 1)
            if found:
                return f"with class {other['name']}: {found}"
    if any(function.sick for host in entry["hosts"] for function in functions[host]):
        return _APART
    return "one class with another would need more names of interfaces"


def _trespass(
    entry: Class, other: Class, hosts: t.Sequence[str], functions: t.Mapping[str, t.Sequence[Function]]
) -> t.Optional[str]:
    pools = [(pool["resource"], as_sets(pool["selectors"])) for pool in entry["pools"]]
    for host in hosts:
        for function in functions[host]:
            for resource, selectors in pools:
                if function.pool != resource and matched(SHARED, selectors, function.values):
                    return "on host {} of class {}, its selectors would match {} ({}), which {}".format(
                        host,
                        other["name"],
                        function.devices[0],
                        function.pci,
                        f"belongs to {function.pool} there"
                        if function.pool
                        else "is not wanted there" + (f" ({function.why})" if function.why else ""),
                    )
    return None


def some_of(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts[:3]) + (", ..." if len(hosts) > 3 else "")


def pools_of(resource: Json, pattern: t.Optional[str], numbers: t.Iterable[int]) -> dict[str, Json]:
    """{resource: {name, prefix, hca_max, rail}} of a group, in the order of the plugin's configuration."""
    if pattern is None:
        return {f"{resource['prefix']}/{resource['name']}": {**resource, "rail": None}}
    names = {number: rail_name(pattern, resource["name"], number) for number in sorted(set(numbers))}
    return {
        f"{resource['prefix']}/{name}": {**resource, "name": name, "rail": number} for number, name in names.items()
    }


def plan_one(
    group: str,
    facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]],
    wishes: t.Mapping[str, t.Any],
    others: t.Collection[str] = (),
    earlier: t.Sequence[Class] = (),
) -> tuple[Group, dict[str, list[Function]]]:
    """(plan, functions of every host, also of those on which nothing is wanted); PlanError with a counter-example where none is exact.

    facts_by_host: ansible_facts.rdma of every host of the group. wishes: {resource, want, strategy, rails} as the user wrote them.
    others: names of all groups. earlier: classes.
    """
    checked = validate_wishes(group, wishes)
    _check_facts(group, facts_by_host)
    planner = _Planner(group, facts_by_host, checked)
    planner.keep_rails(earlier)
    for host in planner.hosts:
        planner.look_at(host)
    classes = planner.classes(earlier, others)
    return planner.plan(classes), planner.everything


class _Planner:
    """The plan of one group while it is made. wishes: as validate_wishes() gives them."""

    def __init__(
        self, group: str, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], wishes: t.Mapping[str, t.Any]
    ) -> None:
        self.group = group
        self.facts = facts_by_host
        self.resource, self.want = wishes["resource"], wishes["want"]
        self.pattern: t.Optional[str] = wishes["rails"]
        self.strategy = str(wishes["strategy"])
        # by which a plan knows whether a class was made for the same ones
        self.wishes = hashlib.sha256(json.dumps(wishes, sort_keys=True, default=str).encode()).hexdigest()[:8]
        self.hosts: dict[str, _Host] = {}
        for host in sorted(facts_by_host):
            keep, refused = _visible_ports(facts_by_host[host], self.want, self.pattern is not None)
            self.hosts[host] = _Host(keep, refused, [], [])
        if self.pattern is not None:
            try:
                _on_rails(self.hosts, facts_by_host, self.want)
            except RailError as exc:
                raise PlanError(f"group {group}: {exc.message}", exc.remedy) from exc
        # the most HCAs that a host has on each rail, and which host
        self.most: dict[int, tuple[int, str]] = {}
        for host, own in self.hosts.items():
            for rail in own.rails:
                if len(rail.functions) > self.most.get(rail.number, (0, ""))[0]:
                    self.most[rail.number] = len(rail.functions), host
        numbers = (rail.number for own in self.hosts.values() for rail in own.rails)
        self.pools = pools_of(self.resource, self.pattern, numbers)
        self.by_rail = {entry["rail"]: pool for pool, entry in self.pools.items()}
        self.wanted: dict[str, list[Port]] = {}
        self.exclusions: list[Exclusion] = []
        self.warnings = _idle_exclusions(facts_by_host, self.want["exclude"])
        self.errors: list[str] = []
        # of all hosts, and of those that a configuration can be for
        self.everything: dict[str, list[Function]] = {}
        self.functions: dict[str, list[Function]] = {}
        # hosts on which only software devices are wanted that the plugin does not see
        self.bare: list[str] = []

    def look_at(self, host: str) -> None:
        """Sorts the ports of a host into what is wanted and what is not."""
        own, facts = self.hosts[host], self.facts[host]
        exclusive = facts.get("kernel", {}).get("rdma_netns") == "exclusive"
        if exclusive:
            # no class has it: a rollout would wait for a plugin that exits
            own.refused.extend(_refused(row, _EXCLUSIVE) for row in own.wanted)
            own.wanted.clear()
        self.exclusions.extend({"host": host, **row} for row in own.refused)
        rails = {pci: self.by_rail[rail.number] for rail in own.rails for pci in rail.functions}
        wants = {
            row["pci"]: self.by_rail[None] if self.pattern is None else rails[row["pci"]]
            for row in own.wanted
            if row["pci"]
        }
        self.everything[host] = functions_of(facts, wants, own.wanted, own.refused, self.want)
        if exclusive:
            self.errors.append(f"host {host}: {_EXCLUSIVE}")
            return
        if not own.wanted:
            found = "; ".join(f"{row['device']}: {row['reason']}" for row in own.refused) or "no RDMA device"
            self.errors.append(f"host {host} has no usable port ({found})")
            return
        self.wanted[host] = own.wanted
        self.errors += _missing_rails(host, own, facts) + _short_rails(host, own, self.most)
        if any(function.pool for function in self.everything[host]):
            self.functions[host] = self.everything[host]
            self.warnings += _whole_functions(host, self.functions[host], own.refused)
            self.warnings += _routes(host, facts, own.wanted)
        else:
            self.bare.append(host)

    def keep_rails(self, earlier: t.Sequence[Class]) -> None:
        """Refuses what is still there and was on another rail: Pods would get other devices under the name of a resource.

        A GPU that is gone gives the others other numbers, as do ports that are down of cards that may belong to a rail.
        """
        for entry in earlier if self.pattern is not None else ():
            # whoever wishes for something else wants another plan
            for host in self.hosts.keys() & entry["matches"].keys() if entry["wishes"] == self.wishes else ():
                before = {row["pci"]: row["rail"] for row in entry["matches"][host] if row.get("rail") is not None}
                self._keep_rails_of(host, before)

    def _keep_rails_of(self, host: str, before: t.Mapping[str, t.Optional[int]]) -> None:
        """before: the rails of its functions in the earlier plan."""
        own = self.hosts[host]
        now = {pci: rail.number for rail in own.rails for pci in rail.functions}
        there = {device["pci"]: device["name"] for device in self.facts[host]["devices"] if device["pci"]}
        moved = sorted(pci for pci, rail in before.items() if pci in there and now.get(pci) != rail)
        if not moved:
            return
        reasons = {pci: f"it was on rail {before[pci]} in the earlier plan" for pci in moved}
        own.refused.extend(_refused(row, reasons[row["pci"]]) for row in own.wanted if row["pci"] in reasons)
        own.wanted[:] = [row for row in own.wanted if row["pci"] not in reasons]
        words = "; ".join(
            f"{there[pci]} ({pci}) was on rail {before[pci]} and would be on {f'rail {now[pci]}' if pci in now else 'none'}"
            for pci in moved
        )
        self.errors.append(
            f"host {host}: {words}, since what it has of GPUs and HCAs differs from the earlier plan. Repair it where something is missing; "
            "where it was rebuilt, move the earlier plan.json away"
        )

    def classes(self, earlier: t.Sequence[Class], others: t.Collection[str]) -> list[Class]:
        """Classes of hosts that have one configuration. PlanError when a host that has all its ports up has none that is exact."""
        known = self._still(earlier)
        split, unfit = classes_of(SHARED, self.functions, self.strategy, known)
        if known:
            fresh = classes_of(SHARED, self.functions, self.strategy)
            if len(split) > 2 * len(fresh[0]) + 1:
                # hosts that came one by one, each into a class of its own
                known, (split, unfit) = [], fresh
        for host in unfit:
            inexact = f"no selectors are exact: {self._why([host])}{self._unnamed([host])}"
            if not split:
                raise PlanError(f"group {self.group}: {inexact}")
            # a port that is down there is not a reason to take the resource from the others
            self._leave_out(host, inexact)
        pieces = by_kubelet(split, self.facts)
        classes = [_class(names, self.functions, selectors, self.pools) for names, selectors, _root in pieces]
        for entry, name in zip(classes, class_names(self.group, classes, earlier, others, stay=bool(known))):
            entry["name"], entry["wishes"] = name, self.wishes
        classes.sort(key=lambda entry: entry["name"])
        if len(split) > 1:
            _add_reasons(classes, self.functions)
            self.warnings.append(self._why_split(classes))
        roots = {host: root for names, _selectors, root in pieces for host in names if root is not None}
        for entry in classes:
            if entry["hosts"][0] in roots:
                root = roots[entry["hosts"][0]]
                entry["reason"] = (
                    f"its kubelets have their directory in {root}, and a DaemonSet mounts that of one class"
                )
                self.warnings.append(f"class {entry['name']} ({some_of(entry['hosts'])}): {entry['reason']}")
        for entry in classes:
            seen = {host: sriov_functions(host, self.facts[host], self.functions[host]) for host in entry["hosts"]}
            refusals = [text for _found, texts in seen.values() for text in texts]
            entry["sriov"] = sriov_config({host: found for host, (found, _texts) in seen.items()}, refusals, self.pools)
        if self.bare:
            self.warnings += self._nothing_to_advertise()
            classes.append(_software_class(self.group, self.bare, bool(self._unseen(self.bare))))
        return classes

    def _unseen(self, hosts: t.Iterable[str]) -> dict[str, str]:
        """Why the plugin does not see a wanted software device that has a PCI function, by host."""
        found: dict[str, str] = {}
        for host in hosts:
            names = {row["device"] for row in self.wanted[host] if row["pci"]}
            for device in self.facts[host]["devices"]:
                if device["name"] in names:
                    found.setdefault(host, f"{device['name']}: {device['plugin']['reason'] or 'unknown'}")
        return found

    def _nothing_to_advertise(self) -> list[str]:
        """Sentences on the hosts of which nothing can be advertised, those with the same reason together."""
        reasons = self._unseen(self.bare)
        hosts: dict[t.Optional[str], list[str]] = {}
        for host in self.bare:
            hosts.setdefault(reasons.get(host), []).append(host)
        words = "only software devices are wanted; the shared device plugin"
        return [
            f"{some_of(own)}: {words} "
            + ("lists PCI functions only" if reason is None else f"sees none of them ({reason})")
            + ", so there is nothing to advertise"
            for reason, own in hosts.items()
        ]

    def _still(self, earlier: t.Sequence[Class]) -> list[tuple[list[str], dict[str, Selectors]]]:
        """Earlier classes that hosts are to stay in while a port is down anywhere. When all is well, what hosts have decides again."""
        if not any(function.sick for own in self.everything.values() for function in own):
            return []
        known = [
            (list(entry["hosts"]), {row["resource"]: row["selectors"] for row in entry["pools"]})
            for entry in earlier
            # whoever wishes for something else wants another plan
            if entry["wishes"] == self.wishes
        ]
        return [(hosts, selectors) for hosts, selectors in known if set(selectors) <= set(self.pools)]

    def _why(self, hosts: t.Iterable[str]) -> t.Optional[str]:
        places = {host: self.functions[host] for host in hosts}
        return explain(SHARED, places, self.strategy, named=self.pattern is not None)

    def _unnamed(self, hosts: t.Iterable[str]) -> str:
        layers = {
            host: {row["pci"] for row in self.wanted[host] if row["link_layer"] == "InfiniBand"} for host in hosts
        }
        return without_ipoib({host: self.functions[host] for host in layers}, layers)

    def _leave_out(self, host: str, why: str) -> None:
        self.errors.append(f"host {host}: {why}")
        rows = [_refused(row, "no selectors are exact on this host") for row in self.wanted.pop(host)]
        self.exclusions += [{"host": host, **row} for row in rows]
        self.everything[host] = functions_of(self.facts[host], {}, [], self.hosts[host].refused + rows, self.want)
        del self.functions[host]

    def _why_split(self, classes: t.Sequence[Class]) -> str:
        why = self._why(self.functions)
        if why:
            reason = f"no single configuration is exact on every host: {why}"
        elif any(function.sick for own in self.functions.values() for function in own):
            reason = _APART
        else:
            reason = "one configuration would need more names of interfaces than several do"
        names = "; ".join(f"{entry['name']} ({some_of(entry['hosts'])})" for entry in classes)
        hint = self._unnamed(self.functions)
        return f"{reason}. So the group is split into {len(classes)} classes: {names}{hint}"

    def plan(self, classes: list[Class]) -> Group:
        """The plan of the group, as a plan of several has it (plan_groups())."""
        if self.resource["hca_max"] == 0:
            self.warnings.append(
                "rdma_resource.hca_max is 0: the plugin advertises a resource of 0 devices, and no Pod can have one"
            )
        rails = {host: _rails_of(own, self.by_rail, self.facts[host]) for host, own in self.hosts.items() if own.rails}
        return {
            "resource": _shown(self.resource, self.pattern),
            "resources": [{"resource": pool, "rail": entry["rail"]} for pool, entry in self.pools.items()],
            "planned": True,
            "kept": None,
            "hosts": sorted(self.facts),
            "cached": {},
            "malformed": {},
            "classes": classes,
            "wanted": self.wanted,
            "rails": rails,
            "exclusions": self.exclusions,
            "environment": {host: _environment(rows, self.facts[host]) for host, rows in self.wanted.items()},
            "warnings": self.warnings,
            "errors": self.errors,
        }


def _refused(row: Port, reason: str) -> Refused:
    """A port that was wanted, as one that is not."""
    return {"device": row["device"], "port": row["port"], "netdev": row["netdev"], "reason": reason}


def _software_class(group: str, hosts: list[str], unseen: bool) -> Class:
    """The class of hosts on which the plugin sees nothing that is wanted. unseen: although some of it has a PCI function."""
    return {
        "name": f"{group}-{_SOFTWARE}",
        "wishes": "",
        "hosts": hosts,
        "selectors": {},
        "matched_later": [],
        "pools": [],
        "config": None,
        "matches": {},
        "reason": None,
        "sriov": without_sriov(
            "the shared device plugin sees none of the software devices"
            if unseen
            else "software devices have no PCI function"
        ),
    }


def _shown(resource: Json, pattern: t.Optional[str]) -> str:
    name = resource["name"] if pattern is None else pattern.replace("{name}", str(resource["name"]))
    return f"{resource['prefix']}/{name}"


def _rails_of(own: _Host, by_rail: t.Mapping[t.Optional[int], str], facts: t.Mapping[str, t.Any]) -> list[RailRow]:
    """The rails of a host with what each offers."""
    wanted = {row["pci"] for row in own.wanted}
    names: dict[str, list[str]] = {}
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

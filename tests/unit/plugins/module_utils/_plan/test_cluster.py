# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import itertools
import json
import re
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather, record
from ansible_collections.fabric.rdma.plugins.module_utils._plan import solver
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError, validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import usable_ports
from ansible_collections.fabric.rdma.plugins.module_utils._plan.solver import SHARED, Function, classes_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import VERSIONS, sriov_config, sriov_functions
from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import plan_manifests
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of

Json = dict[str, Any]
RESOURCE = {"resource": {"name": "rdma_x"}}


# -- The plugin ------------------------------------------------------------------------------------------------------


def plugin_pools(facts: Json, config: Json) -> dict[str, set[str]]:
    """PCI addresses that the plugin would put in each of its pools, by the order of its own steps.

    DiscoverHostDevices() and NewPciNetDevice() make the list; GetFilteredDevices() applies one selector after the other, each
    only when its list is not empty (pkg/resources/resources_manager.go, device_selectors.go).
    """
    functions: dict[str, Json] = {}
    for device in facts["devices"]:
        if device["pci"] and device["plugin"]["visible"]:
            functions[device["pci"]] = {
                "vendors": device["vendor"] or "",
                "deviceIDs": device["device"] or "",
                "drivers": device["plugin"]["driver"] or "",
                "ifNames": device["plugin"]["if_name"],
                "linkTypes": device["plugin"]["link_type"],
            }
    pools: dict[str, set[str]] = {}
    names: set[str] = set()
    assert config["configList"]
    for entry in config["configList"]:
        selectors = entry["selectors"]
        assert set(selectors) <= {"vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"}
        # IsEmptySelector(): ValidateConfigs() refuses a resource without selectors, and a name that comes twice
        assert any(selectors.values())
        assert re.search(r"^[a-zA-Z0-9_]+$", entry["resourceName"])
        assert entry["resourceName"] not in names
        names.add(entry["resourceName"])
        assert entry["rdmaHcaMax"] >= 0
        left = dict(functions)
        for kind in ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"):
            if selectors.get(kind):
                left = {pci: function for pci, function in left.items() if function[kind] in selectors[kind]}
        pools[f"{entry['resourcePrefix']}/{entry['resourceName']}"] = set(left)
    return pools


def plugin_pool(facts: Json, config: Json) -> set[str]:
    (pool,) = list(plugin_pools(facts, config).values())
    return pool


def sriov_pools(facts: Json, config: Json, version: tuple[int, ...] = (3, 11, 0)) -> dict[str, set[str]]:
    """The same for sriov-network-device-plugin: a device goes to the first object of a resource's selectors that matches.

    AddTargetDevices(), GetFilteredDevices() (pkg/netdevice/netDeviceProvider.go), NewGenNetDevice() (pkg/devices/gen_net.go),
    GetPfName() (pkg/utils/utils.go), IsRdma() (pkg/devices/rdma.go), getItem() (pkg/resources/deviceSelectors.go).
    """
    rows = {device["pci"]: device for device in facts["devices"] if device["pci"]}
    listed = []
    for device in rows.values():
        routes = facts.get("management", {}).get("default_route_netdevs", [])
        software = device["kind"] == "software"
        # those of the function
        netdevs = [device["plugin"]["if_name"]] if software else device["netdevs"]
        in_use = any(netdev in routes for netdev in netdevs)
        has_functions = device["kind"] != "vf" and device["sriov"]["vfs"] > 0
        if device["class"][:2] == "02" and device["plugin"]["driver"] and not in_use and not has_functions:
            above = rows.get(device["sriov"]["pf"] or "")
            link = device["plugin"]["link_type"]
            if not device["plugin"]["if_name"] and above and version >= (3, 6):
                link = above["plugin"]["link_type"]
            listed.append(
                {
                    "vendors": device["vendor"] or "",
                    "devices": device["device"] or "",
                    "drivers": device["plugin"]["driver"],
                    "linkTypes": link,
                    "pciAddresses": device["pci"],
                    "pfNames": min(above["netdevs"], default="") if above else "",
                }
            )
        for member in device["lag"]["members"] if device["lag"] and not software and version >= (3, 8) else []:
            if member["pci"] not in (None, device["pci"]):
                # devlink may have enable_rdma for it
                leg = {"vendors": device["vendor"] or "", "devices": device["device"] or "", "linkTypes": "ether"}
                listed.append({**leg, "drivers": device["driver"], "pciAddresses": member["pci"], "pfNames": ""})

    def selected(device: Json, selectors: Json) -> bool:
        assert selectors["isRdma"] is True
        for kind, wanted in selectors.items():
            if kind == "pfNames":
                if not device[kind] or device[kind].lower() not in [item.split("#")[0].lower() for item in wanted]:
                    return False
            elif kind != "isRdma" and device[kind] not in wanted:
                return False
        return True

    pools = {}
    for entry in config["resourceList"]:
        assert entry["deviceType"] == "netDevice"
        assert re.search(r"^[a-zA-Z0-9_]+$", entry["resourceName"])
        # versions before 3.6.0 take an object only
        assert isinstance(entry["selectors"], dict)
        pools[f"{entry['resourcePrefix']}/{entry['resourceName']}"] = {
            device["pciAddresses"] for device in listed if selected(device, entry["selectors"])
        }
    return pools


SRIOV_VERSIONS = {
    "3.5.1 or newer": [(3, 5, 1), (3, 7, 0), (3, 11, 0)],
    "3.6.0 or newer": [(3, 6, 0), (3, 7, 0), (3, 11, 0)],
    "3.8.0 or newer": [(3, 8, 0), (3, 11, 0)],
    "3.5.1 to 3.7.0": [(3, 5, 1), (3, 6, 2), (3, 7, 0)],
}


# -- Random clusters -------------------------------------------------------------------------------------------------


@st.composite
def device_facts(draw: st.DrawFn, index: int) -> Json:
    """A device as discovery tells it, from few values, so that devices look alike often."""
    link = draw(st.sampled_from(["InfiniBand", "Ethernet"]))
    has_netdev = draw(st.integers(0, 5)) > 0
    netdev = f"eth{index}" if has_netdev else ""
    visible = draw(st.integers(0, 7)) > 0
    row = {
        "name": netdev,
        "type": "ether",
        "operstate": "up",
        "mtu": 1500,
        "master": None,
        "parent": None,
        "pkey": None,
    }
    kind = draw(st.sampled_from(["pf", "pf", "pf", "vf", "software"]))
    driver = draw(st.sampled_from(["mlx5_core", "mlx5_core", "irdma"]))
    physical = f"0000:{draw(st.integers(1, 3)):02x}:00.0" if kind == "vf" else None
    facts = {
        "name": f"mlx5_{index}",
        "kind": kind,
        "pci": f"0000:{index + 1:02x}:00.0",
        "vendor": draw(st.sampled_from(["15b3", "15b3", "8086", None])),
        "device": draw(st.sampled_from(["1017", "101b"])),
        "model": None,
        "class": "020000",
        # the software device's own: the plugins compare that of the function
        "driver": "rdma_rxe" if kind == "software" else driver,
        **dict.fromkeys(("numa_node", "firmware", "board_id", "hca_type", "node_guid", "sys_image_guid")),
        "netdevs": [netdev] if netdev else [],
        "lag": None,
        "sriov": {"total": 0, "vfs": draw(st.sampled_from([0] * 7 + [2])) if kind != "vf" else 0, "pf": physical},
        "ports": [
            {
                "number": number,
                "link_layer": link,
                "state": draw(st.sampled_from(["Active", "Active", "Down"])),
                "phys_state": "LinkUp",
                "rate_gbps": draw(st.sampled_from([None, 10.0, 100.0])),
                "width": None,
                "speed": None,
                "lid": 0,
                "sm_lid": 0,
                "gids": [],
                "netdevs": [row] if netdev else [],
            }
            for number in range(1, draw(st.sampled_from([1, 1, 1, 2, 0])) + 1)
        ],
        "plugin": {
            "visible": visible,
            "reason": None if visible else "umad device missing: load ib_umad",
            "driver": driver,
            "if_name": netdev,
            "link_type": draw(st.sampled_from(["infiniband" if link == "InfiniBand" else "ether"])) if netdev else "",
        },
    }
    return at_no_function(facts) if kind == "software" and draw(st.integers(0, 3)) == 0 else facts


def at_no_function(device: Json) -> Json:
    nothing = dict.fromkeys(("pci", "vendor", "device", "class"))
    view = {"visible": False, "reason": "no function", "driver": None, "if_name": "", "link_type": ""}
    return {**device, **nothing, "sriov": {"total": 0, "vfs": 0, "pf": None}, "plugin": view}


@st.composite
def host_facts(draw: st.DrawFn) -> Json:
    devices = [draw(device_facts(index)) for index in range(draw(st.integers(0, 5)))]
    return checked({"schema": 1, "devices": devices, "warnings": []})


CLUSTER = st.lists(host_facts(), min_size=1, max_size=6).map(lambda hosts: {f"n{i}": h for i, h in enumerate(hosts)})
WANT = st.fixed_dictionaries(
    {},
    optional={
        "link_layer": st.sampled_from(["InfiniBand", "Ethernet"]),
        "state": st.sampled_from(["Active", "any"]),
        "min_rate_gbps": st.sampled_from([0, 50]),
        "kinds": st.sampled_from([["pf"], ["pf", "vf"], ["vf"], ["software"], ["pf", "software"]]),
        "exclude": st.sampled_from([[], ["mlx5_0"], ["eth1", "0000:03:00.0"]]),
    },
)
STRATEGY = st.sampled_from(["auto", "auto", "ifnames", "device_ids"])


def wishes(want: Json, strategy: str = "auto") -> Json:
    return {**RESOURCE, "want": want, "strategy": strategy}


@given(CLUSTER, WANT, STRATEGY)
def test_a_plan_is_exact_or_refused_with_reason(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError as exc:
        check_refusal(cluster, want, strategy, str(exc))
        return
    names = [entry["name"] for entry in plan["classes"]]
    assert len(names) == len(set(names))
    hosts = [host for entry in plan["classes"] for host in entry["hosts"]]
    assert sorted(hosts) == sorted(plan["wanted"]), "every host with a wanted port is in one class"
    for entry in plan["classes"]:
        if strategy == "ifnames" and entry["config"]:
            assert set(entry["selectors"]) == {"ifNames"}
        for host in entry["hosts"]:
            devices = [device_of(cluster, host, row["device"]) for row in plan["wanted"][host]]
            wanted = {device["pci"] for device in devices if device["plugin"]["visible"]}
            assert all(device["plugin"]["visible"] or device["kind"] == "software" for device in devices)
            assert (entry["config"] is None) == (not wanted), "what cannot be offered is in a class of its own"
            if not wanted:
                assert any(f"{host}" in text and "nothing to advertise" in text for text in plan["warnings"])
                continue
            assert plugin_pool(cluster[host], entry["config"]) == wanted
            assert {row["pci"] for row in entry["matches"][host]} == wanted


@given(CLUSTER, WANT, STRATEGY)
def test_no_port_is_lost_silently(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError:
        assume(False)
    every = {(host, d["name"], p["number"]) for host, f in cluster.items() for d in f["devices"] for p in d["ports"]}
    wanted = [(host, row["device"], row["port"]) for host, rows in plan["wanted"].items() for row in rows]
    left_out = []
    for row in plan["exclusions"]:
        numbers = [port["number"] for port in device_of(cluster, row["host"], row["device"])["ports"]]
        left_out += [(row["host"], row["device"], n) for n in ([row["port"]] if row["port"] else numbers)]
        assert row["reason"]
    assert len(wanted) + len(left_out) == len(set(wanted) | set(left_out)), "a port is there once"
    assert set(wanted) | set(left_out) == every
    for host in cluster:
        assert (host in plan["wanted"]) != any(
            text.startswith((f"host {host} has no usable port", f"host {host}: no selectors are exact"))
            for text in plan["errors"]
        )


@given(CLUSTER, WANT, STRATEGY, st.randoms(use_true_random=False))
def test_the_order_of_hosts_changes_nothing(cluster: dict[str, Json], want: Json, strategy: str, random: Any) -> None:
    def outcome(hosts: list[str]) -> str:
        try:
            return json.dumps(plan_group("g", {host: cluster[host] for host in hosts}, wishes(want, strategy)))
        except PlanError as exc:
            return str(exc)

    hosts = list(cluster)
    expected = outcome(hosts)
    random.shuffle(hosts)
    assert outcome(hosts) == expected


def brute_force(cluster: dict[str, Json], want: Json, kinds: tuple[str, ...]) -> dict[tuple[str, ...], bool]:
    """Sets of kinds, and whether any lists of values that occur in the cluster are exact on all of its hosts.

    It tries every list, and so knows nothing of what the planner takes for granted.
    """
    rows = []
    for host, facts in cluster.items():
        ports, _refused = usable_ports(facts, validate_wishes("g", wishes(want))["want"])
        for device in facts["devices"]:
            if device["plugin"]["visible"]:
                wanted = device["name"] in {row["device"] for row in ports}
                rows.append((dict(zip(ALL_KINDS, traits(device, ALL_KINDS), strict=True)), wanted, host))
    found = {}
    for size in range(1, len(kinds) + 1):
        for chosen in itertools.combinations(kinds, size):
            values = [sorted({row[kind] for row, _wanted, _host in rows} - {""}) for kind in chosen]
            lists = itertools.product(*(nonempty_subsets(each) for each in values))
            found[chosen] = any(
                all(
                    all(row[k] in v for k, v in zip(chosen, each, strict=True)) == wanted for row, wanted, _host in rows
                )
                for each in lists
            )
    return found


# What may come to a host that wants ConnectX in InfiniBand mode, by what a plugin sees of it.
WANTED = {
    "vendors": "15b3",
    "deviceIDs": "101b",
    "drivers": "mlx5_core",
    "linkTypes": "infiniband",
    "ifNames": "ibp59s0",
}
NEWCOMERS = {
    "virtual functions": {"deviceIDs": "101c", "ifNames": "ibp59s0v0"},
    "BlueField and other models": {"deviceIDs": "a2dc", "ifNames": "ibp97s0"},
    "cards for storage, with another link": {"deviceIDs": "1017", "linkTypes": "ether", "ifNames": "enp99s0"},
    "cards of other vendors": {"vendors": "8086", "deviceIDs": "1592", "drivers": "ice", "ifNames": "enp98s0"},
}


def matched_later(kinds: tuple[str, ...]) -> list[str]:
    return [
        words
        for words, values in NEWCOMERS.items()
        if all({**WANTED, **values}[kind] == WANTED[kind] for kind in kinds)
    ]


def test_virtual_functions_that_come_later_are_not_offered() -> None:
    """The plugin looks again every few minutes, with the selectors that it has."""
    machine = Machine()
    physical = machine.nic("mlx5_0", "eth0", "0000:3b:00.0", device="0x101d", sriov_totalvfs=8)
    [entry] = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "kinds": ["pf"]}))["classes"]
    assert (entry["selectors"], entry["matched_later"]) == ({"deviceIDs": ["101d"]}, [])
    machine.link(f"{machine.nic('mlx5_1', 'eth0v0', '0000:3b:00.2', device='0x101e')}/physfn", physical)
    assert plugin_pool(facts_of(machine), entry["config"]) == {"0000:3b:00.0"}


def wanted_devices(plan: Json, cluster: dict[str, Json], host: str) -> list[Json]:
    """The devices of a host that are offered by its class."""
    names = {row["device"] for entry in plan["classes"] for row in entry["matches"].get(host, ())}
    return [device for device in cluster[host]["devices"] if device["name"] in names]


def nonempty_subsets(values: list[str]) -> list[tuple[str, ...]]:
    return [each for size in range(1, len(values) + 1) for each in itertools.combinations(values, size)]


@settings(max_examples=60)
@given(
    st.lists(host_facts(), min_size=1, max_size=2).map(lambda hosts: {f"n{i}": h for i, h in enumerate(hosts)}), WANT
)
def test_selectors_are_the_smallest_that_are_exact(cluster: dict[str, Json], want: Json) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want))
    except PlanError as exc:
        host = re.search(r"host (\w+): ", str(exc))
        assert host
        assert not any(brute_force({host.group(1): cluster[host.group(1)]}, want, ALL_KINDS).values())
        return
    plan["classes"] = [entry for entry in plan["classes"] if entry["config"]]
    served = {host for entry in plan["classes"] for host in entry["hosts"]}
    if len(plan["classes"]) != 1:
        together = brute_force({host: cluster[host] for host in served}, want, ALL_KINDS)
        plain = [is_exact for kinds, is_exact in together.items() if "ifNames" not in kinds]
        assert not plan["classes"] or not any(plain), "a group is split when only names are left"
        if any(together.values()):
            names = {device["netdevs"][0] for host in served for device in wanted_devices(plan, cluster, host)}
            assert sum(len(entry["selectors"].get("ifNames", ())) for entry in plan["classes"]) < len(names)
        return
    [entry] = plan["classes"]
    chosen = tuple(entry["selectors"])
    exact = brute_force({host: cluster[host] for host in served}, want, ALL_KINDS)
    assert exact[chosen]
    assert entry["matched_later"] == SHARED.matched_later(chosen) == sorted(matched_later(chosen))
    for kinds, is_exact in exact.items():
        if is_exact and ("ifNames" in chosen) == ("ifNames" in kinds):
            mine, other = len(matched_later(chosen)), len(matched_later(kinds))
            assert mine < other or (mine == other and len(chosen) <= len(kinds)) or "ifNames" in chosen, (kinds, chosen)
    if "ifNames" in chosen:
        assert not any(is_exact for kinds, is_exact in exact.items() if "ifNames" not in kinds), "names come last"


@given(CLUSTER, WANT, STRATEGY)
def test_the_sriov_plugin_offers_the_same(cluster: dict[str, Json], want: Json, strategy: str) -> None:
    try:
        plan = plan_group("g", cluster, wishes(want, strategy))
    except PlanError:
        assume(False)
    for entry in plan["classes"]:
        if entry["config"] is None:
            continue
        wanted = {host: {row["pci"] for row in entry["matches"][host]} for host in entry["hosts"]}
        sriov = entry["sriov"]
        if sriov["config"] is None:
            check_sriov_refusal(cluster, wanted, sriov["reason"])
            continue
        assert sriov["reason"] is None
        for host, version in itertools.product(entry["hosts"], SRIOV_VERSIONS[sriov["versions"]]):
            (pool,) = list(sriov_pools(cluster[host], sriov["config"], version).values())
            assert pool == wanted[host]


def check_sriov_refusal(cluster: dict[str, Json], wanted: dict[str, set[str]], reason: str) -> None:
    """What the reason says is true of the devices that it names."""
    out = re.match(r"host (\w+): (\w+) \((.*?)\) is wanted, but (.*)", reason)
    if out:
        host, name, pci, why = out.groups()
        device = device_of(cluster, host, name)
        assert pci in wanted[host]
        assert ("virtual functions" in why and device["sriov"]["vfs"] > 0) or (why == "it has no driver")
        return
    # otherwise a function whose address is wanted on one host, and there is an unwanted one on another
    places = re.findall(r"(\w+) \((0000:..:00\.0)\)(?: of host (\w+))?", reason)
    assert len(places) >= 2, reason
    assert "cannot" in reason


def test_both_outcomes_of_the_sriov_plugin_happen() -> None:
    outcomes = {"config": 0, "in use": 0, "alike": 0}

    @given(CLUSTER, WANT)
    def collect(cluster: dict[str, Json], want: Json) -> None:
        try:
            plan = plan_group("g", cluster, wishes(want))
        except PlanError:
            return
        for entry in plan["classes"]:
            reason = entry["sriov"]["reason"]
            outcomes["config" if reason is None else "in use" if "is wanted, but" in reason else "alike"] += 1

    collect()
    assert outcomes["config"], outcomes
    assert outcomes["in use"], outcomes


# -- Several groups --------------------------------------------------------------------------------------------------

GROUPS = st.lists(st.tuples(CLUSTER, WANT, STRATEGY), min_size=1, max_size=3)


def several(parts: list[tuple[dict[str, Json], Json, str]]) -> tuple[dict[str, Json], Json]:
    """(facts by host, groups) of random groups, each with a resource of its own."""
    facts, groups = {}, {}
    for index, (cluster, want, strategy) in enumerate(parts):
        names = {f"g{index}{host}": facts_ for host, facts_ in cluster.items()}
        facts.update(names)
        groups[f"g{index}"] = {
            "hosts": list(names),
            "resource": {"name": f"r{index}"},
            "want": want,
            "strategy": strategy,
        }
    return facts, groups


@given(GROUPS)
def test_one_configuration_for_the_cluster_is_exact_or_refused(parts: Any) -> None:
    facts, groups = several(parts)
    plan = plan_groups(facts, groups)
    cluster = plan["cluster"]
    unplanned = [name for name, entry in plan["groups"].items() if not entry["planned"]]
    matched: dict[str, dict[str, str]] = {host: {} for host in facts}
    for name, entry in plan["groups"].items():
        for own in entry["classes"]:
            for host, rows in own["matches"].items():
                matched[host].update({row["pci"]: f"rdma/r{name[1:]}" for row in rows})
    if cluster["config"] is None:
        check_cluster_refusal(facts, matched, unplanned, cluster)
        return
    assert (cluster["errors"], cluster["alternative"], cluster["hosts"]) == ([], None, len(facts))
    for host in facts:
        pools = plugin_pools(facts[host], cluster["config"])
        found = {pci: resource for resource, functions in pools.items() for pci in functions}
        assert sum(map(len, pools.values())) == len(found), "no function is in two pools"
        assert found == matched[host]


def check_cluster_refusal(facts: dict[str, Json], matched: Any, unplanned: list[str], cluster: Json) -> None:
    [error] = cluster["errors"]
    if unplanned:
        assert error.startswith(f"not planned: {', '.join(unplanned)}; ")
        return
    if not any(matched.values()):
        assert error == "no group wants anything that the shared device plugin can advertise"
        return
    assert "one configuration for each class is exact" in cluster["alternative"]
    pair = re.search(
        r"(\w+) \((\S+)\) of host (\w+) is wanted for (\S+) and (\w+) \((\S+)\) of host (\w+) "
        r"(?:is not|belongs to (\S+?)[, ]).*by ([\w, ]+)",
        error,
    )
    if pair:
        _device, pci, host, resource, _other, other_pci, other_host, owner, kinds = pair.groups()
        assert matched[host][pci] == resource
        assert matched[other_host].get(other_pci) == (owner.rstrip(",") if owner else None)
        both = [
            next(device for device in facts[name]["devices"] if device["pci"] == address)
            for name, address in ((host, pci), (other_host, other_pci))
        ]
        kinds = tuple(kind for kind in ALL_KINDS if kind in kinds)
        assert traits(both[0], kinds) == traits(both[1], kinds)
        return
    assert re.search("together cannot be told from it|but has no|some wanted function", error), error


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_groups_and_hosts_changes_nothing(parts: Any, random: Any) -> None:
    facts, groups = several(parts)
    expected = json.dumps(plan_groups(facts, groups))
    hosts, names = list(facts), list(groups)
    random.shuffle(hosts)
    random.shuffle(names)
    shuffled = {
        name: {**groups[name], "hosts": random.sample(groups[name]["hosts"], len(groups[name]["hosts"]))}
        for name in names
    }
    assert json.dumps(plan_groups({host: facts[host] for host in hosts}, shuffled)) == expected


def test_all_outcomes_for_the_cluster_happen() -> None:
    outcomes = {"config": 0, "refused": 0, "several": 0}

    @given(GROUPS)
    def collect(parts: Any) -> None:
        cluster = plan_groups(*several(parts))["cluster"]
        outcomes["config"] += cluster["config"] is not None
        outcomes["several"] += len(cluster["selectors"]) > 1
        outcomes["refused"] += cluster["alternative"] is not None

    collect()
    assert all(outcomes.values()), outcomes


def device_of(cluster: dict[str, Json], host: str, name: str) -> Json:
    return next(device for device in cluster[host]["devices"] if device["name"] == name)


KINDS = {"ifnames": ("ifNames",), "device_ids": ("vendors", "deviceIDs", "drivers", "linkTypes")}
ALL_KINDS = ("vendors", "deviceIDs", "drivers", "linkTypes", "ifNames")


def traits(device: Json, kinds: tuple[str, ...]) -> tuple[str, ...]:
    values = {
        "vendors": device["vendor"] or "",
        "deviceIDs": device["device"] or "",
        "drivers": device["plugin"]["driver"] or "",
        "linkTypes": device["plugin"]["link_type"],
        "ifNames": device["plugin"]["if_name"],
    }
    return tuple(values[kind] for kind in kinds)


def check_refusal(cluster: dict[str, Json], want: Json, strategy: str, message: str) -> None:
    """A refusal names a host that, alone, cannot be served; a named pair really looks the same."""
    found = re.match(r"group g: no selectors are exact: host (\w+): ", message)
    assert found, message
    host, kinds = found.group(1), KINDS.get(strategy, ALL_KINDS)
    rows, _refused = usable_ports(cluster[host], validate_wishes("g", wishes(want))["want"])
    visible = [device for device in cluster[host]["devices"] if device["plugin"]["visible"]]
    wanted = [device for device in visible if device["name"] in {row["device"] for row in rows}]
    others = [device for device in visible if device not in wanted]
    pair = re.search(r"host \w+: (\w+) \(.*?\) is wanted and (\w+) \(.*?\) is not", message)
    if pair:
        mine, other = (device_of(cluster, host, name) for name in pair.groups())
        assert mine in wanted
        assert other in others
        assert traits(mine, kinds) == traits(other, kinds)
    elif "has no netdev" in message:
        assert any(not device["plugin"]["if_name"] for device in wanted)
    else:
        # no list of values without an empty one keeps the others out
        usable = [kind for kind in kinds if all(traits(device, (kind,)) != ("",) for device in wanted)]
        lists = {kind: {traits(device, (kind,)) for device in wanted} for kind in usable}
        assert any(all(traits(device, (kind,)) in lists[kind] for kind in usable) for device in others), message


def test_both_outcomes_happen() -> None:
    """The properties above would hold of a planner that refuses everything."""
    outcomes = {"plan": 0, "split": 0, "refused": 0}

    @given(CLUSTER, WANT, STRATEGY)
    def collect(cluster: dict[str, Json], want: Json, strategy: str) -> None:
        try:
            plan = plan_group("g", cluster, wishes(want, strategy))
        except PlanError:
            outcomes["refused"] += 1
        else:
            outcomes["plan"] += bool(plan["classes"])
            outcomes["split"] += len(plan["classes"]) > 1

    collect()
    assert all(outcomes.values()), outcomes


# -- Machines of the groups ------------------------------------------------------------------------------------------


@functools.cache
def captured(*names: str) -> dict[str, Json]:
    return {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in names}


def selectors(plan: Json) -> dict[str, Json]:
    return {entry["name"]: entry["selectors"] for entry in plan["classes"]}


def test_ib_v100_is_one_device_id() -> None:
    plan = plan_group("ib-v100", captured("ib-v100-1", "ib-v100-2"), {"resource": {"name": "rdma_v100"}})
    assert plan["resource"] == "rdma/rdma_v100"
    assert selectors(plan) == {"ib-v100-device-1017": {"deviceIDs": ["1017"]}}
    assert plan["environment"]["ib-v100-2"] == {
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
    }


def test_what_the_plugin_cannot_see_is_told() -> None:
    machine = Machine()
    machine.entries = dict(record(open_tree(str(CAPTURES / "ib-v100-2.capture"))))
    machine.remove("/sys/class/infiniband_mad")
    plan = plan_group("g", {**captured("ib-v100-1"), "n": facts_of(machine)}, RESOURCE)
    assert [entry["hosts"] for entry in plan["classes"]] == [["ib-v100-1"]]
    reason = "invisible to the plugin: umad device missing: load ib_umad"
    assert plan["exclusions"] == [
        {"host": "n", "device": f"mlx5_{index}", "port": 1, "netdev": f"ibp94s0f{index}", "reason": reason}
        for index in (0, 1)
    ]
    assert plan["errors"] == [f"host n has no usable port (mlx5_0: {reason}; mlx5_1: {reason})"]


def test_ib_a100_is_split_by_the_card_with_the_cable() -> None:
    plan = plan_group("ib-a100", captured("ib-a100-1", "ib-a100-2", "ib-a100-3"), {"resource": {"name": "rdma_a100"}})
    assert selectors(plan) == {
        "ib-a100-ibp33s0": {"ifNames": ["ibp33s0"]},
        "ib-a100-ibp161s0": {"ifNames": ["ibp161s0"]},
    }
    assert {entry["name"]: entry["hosts"] for entry in plan["classes"]} == {
        "ib-a100-ibp33s0": ["ib-a100-2"],
        "ib-a100-ibp161s0": ["ib-a100-1", "ib-a100-3"],
    }
    assert {row["reason"] for row in plan["exclusions"]} == {
        "port is Down (phys state Disabled), the group wants Active",
        "Ethernet bond bond0 (active-backup), the group wants InfiniBand",
    }


def test_gb200_is_one_device_id() -> None:
    plan = plan_group("gb200", captured("gb200-1", "gb200-2"), {"resource": {"name": "rdma_gb200"}})
    assert selectors(plan) == {"gb200-device-1021": {"deviceIDs": ["1021"]}}
    [entry] = plan["classes"]
    assert entry["config"] == {
        "periodicUpdateInterval": 300,
        "configList": [
            {
                "resourceName": "rdma_gb200",
                "resourcePrefix": "rdma",
                "rdmaHcaMax": 63,
                "selectors": {"deviceIDs": ["1021"]},
            }
        ],
    }
    assert [row["device"] for row in entry["matches"]["gb200-2"]] == ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"]
    assert (plan["warnings"], plan["errors"]) == ([], [])


def test_roce_rails_is_one_device_id() -> None:
    want = {"link_layer": "Ethernet", "min_rate_gbps": 100}
    plan = plan_group("roce-rails", captured("roce-rails-1", "roce-rails-2"), wishes(want))
    assert selectors(plan) == {"roce-rails-device-1017": {"deviceIDs": ["1017"]}}
    assert [len(rows) for rows in plan["wanted"].values()] == [8, 8]


def test_class_names_stay_when_hosts_come_and_go() -> None:
    few = plan_group("g", captured("ib-a100-1", "ib-a100-2"), RESOURCE)
    more = plan_group("g", captured("ib-a100-3", "ib-a100-1", "ib-a100-2"), RESOURCE)
    assert selectors(few) == selectors(more)
    # nodes carry the name in a label: neither the second class nor its end may change that of the first
    alone = plan_group("g", captured("ib-a100-1"), RESOURCE)
    assert selectors(alone) == {"g-ibp161s0": {"ifNames": ["ibp161s0"]}}
    assert selectors(alone).items() < selectors(few).items()


def test_a_new_card_relabels_no_node() -> None:
    groups = {"g": {**group("a", "b", "c"), "want": {"link_layer": "Ethernet"}}}
    facts = {name: ports_of("eth0", "", ids) for name, ids in (("a", "0x1017"), ("b", "0x1017"), ("c", "0x101b"))}
    first = plan_groups({**facts, "c": facts["a"]}, groups)
    assert list(selectors(first["groups"]["g"])) == ["g-device-1017"]
    later = plan_groups(facts, groups, earlier={"g": first["groups"]["g"]["classes"]})
    assert selectors(later["groups"]["g"]) == {"g-device-1017": {"deviceIDs": ["1017", "101b"]}}
    # nobody who plans for the first time knows of it
    alone = plan_groups(facts, groups)
    assert "g-device-1017" not in selectors(alone["groups"]["g"])


@pytest.mark.parametrize("other", ["gpu-eth0", "gpu_eth0", "GPU-eth0"])
def test_classes_of_groups_with_like_names_have_different_names(other: str) -> None:
    facts = {"a": ports_of("eth0 ib0 ib1", down="ib1"), "b": two_ports("ib0", "ib1", "ib0")}
    for device in facts["b"]["devices"]:
        device["node_guid"] = None
    want = {"want": {"link_layer": "Ethernet"}}
    groups = {"gpu": {**group("a"), **want}, other: {**group("b"), **want}}
    plan = plan_groups(facts, groups)
    [[mine], [theirs]] = (list(selectors(plan["groups"][name])) for name in ("gpu", other))
    assert theirs == f"{other}-ib0"
    assert re.fullmatch("gpu-[0-9a-f]{8}", mine)
    alone = plan_groups({"a": facts["a"]}, {"gpu": groups["gpu"]})
    assert list(selectors(alone["groups"]["gpu"])) == ["gpu-eth0-ib0"]


def two_ports(first: str, second: str, wanted: str) -> Json:
    """A host with two like functions, of which one has an Active port."""
    machine = Machine()
    for index, name in enumerate((first, second)):
        function = machine.nic(f"mlx5_{index}", name, f"0000:{59 + index:02x}:00.0")
        state = "4: ACTIVE" if name == wanted else "1: DOWN"
        machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state=state)
    return facts_of(machine)


def test_classes_of_names_that_differ_little_have_different_names() -> None:
    cluster = {
        "a": two_ports("eth-0", "eth.0", "eth-0"),
        "b": two_ports("eth-0", "eth.0", "eth.0"),
        "c": two_ports("ETH-0", "eth-0", "ETH-0"),
    }
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert len(plan["classes"]) == 2
    assert len({re.sub(r"[^a-z0-9-]+", "-", entry["name"].lower()) for entry in plan["classes"]}) == 2


def test_hundreds_of_different_machines_are_planned_in_seconds() -> None:
    cluster = {f"n{i}": two_ports(f"a{i}", f"b{i}", f"a{i}") for i in range(200)}
    cluster.update({f"m{i}": two_ports(f"a{i}", f"b{i}", f"b{i}") for i in range(200)})
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    assert sum(len(entry["hosts"]) for entry in plan["classes"]) == 400


def test_machines_that_all_differ_cost_as_much_each_as_few_do() -> None:
    """Names of interfaces that contain their hardware's address are other ones on every host."""

    def cost(hosts: int) -> float:
        cluster = {}
        for host in range(hosts):
            machine = Machine()
            for index in range(8):
                function = machine.nic(f"mlx5_{index}", f"enx{host:04x}{index}", f"0000:{16 + index:02x}:00.0")
                state = "1: DOWN" if (8 * host + index) % 100 == 7 else "4: ACTIVE"
                machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state=state)
            cluster[f"n{host}"] = gather(machine.tree(), ("devices",))
        start = time.process_time()
        plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
        assert sum(len(entry["hosts"]) for entry in plan["classes"]) == hosts
        return time.process_time() - start

    few, many = cost(60), cost(480)
    assert many < 20 * few, (few, many)


def test_a_counter_example_names_both() -> None:
    machine = Machine()
    for index, state in enumerate(("4: ACTIVE", "1: DOWN")):
        hca = machine.hca(f"mlx5_{index}", machine.function(f"0000:3b:00.{index}"))
        machine.port(hca, link_layer="InfiniBand", state=state)
    message = (
        "group g: no selectors are exact: host n: mlx5_0 (0000:3b:00.0) is wanted and mlx5_1 (0000:3b:00.1) is not "
        "(port is Down (phys state LinkUp), the group wants Active), but the plugin cannot tell them apart by vendors, deviceIDs, drivers, linkTypes, ifNames"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        plan_group("g", {"n": facts_of(machine)}, RESOURCE)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            "ifnames",
            "group g: no selectors are exact: host n: mlx5_0 (0000:3b:00.0) is wanted but has no netdev, "
            "so no interface name can select it; rdma_selector_strategy: auto may tell them apart",
        ),
        ("device_ids", None),
    ],
)
def test_a_strategy_that_cannot(strategy: str, message: str | None) -> None:
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function()), link_layer="InfiniBand")
    given_wishes = wishes({}, strategy)
    if message is None:
        assert selectors(plan_group("g", {"n": facts_of(machine)}, given_wishes)) == {
            "g-device-1017": {"deviceIDs": ["1017"]}
        }
        return
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        plan_group("g", {"n": facts_of(machine)}, given_wishes)


# -- Classes that last -----------------------------------------------------------------------------------------------


def ports_of(netdevs: str, down: str = "", ids: str = "0x1017", **values: Any) -> Json:
    """A host with a function for each netdev; those of which the port is down."""
    machine = Machine()
    for index, netdev in enumerate(netdevs.split()):
        function = machine.nic(f"mlx5_{index}", netdev, f"0000:{16 + index:02x}:00.0", device=ids, **values)
        if netdev in down.split():
            machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state="1: DOWN")
    return facts_of(machine)


def test_a_healthy_host_does_not_follow_a_sick_one() -> None:
    """It would be selected by names, and get another class on the day on which the other one's port comes up."""
    cluster = {
        # by the order of what they are selected by, the sick host comes first
        "sick": ports_of("a0 a1 a2", down="a2"),
        "well": ports_of("a0 a1 a2"),
        "other": ports_of("b0 b1", ids="0x1021"),
    }
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))
    classes = {tuple(entry["hosts"]): entry["selectors"] for entry in plan["classes"]}
    assert classes.keys() == {("sick",), ("other", "well")}
    assert "ifNames" not in classes["other", "well"]
    assert classes["sick",] == {"ifNames": ["a0", "a1"]}


def test_hosts_that_leave_out_most_come_first() -> None:
    """They say what a class can be; in another order there would be three."""

    def host(*functions: tuple[str, str, str, bool]) -> list[Function]:
        return [
            Function(("15b3", device, "mlx5_core", link, netdev), "p" * wanted, f"0000:0{at}:00.0", (netdev,), (1,), "")
            for at, (device, link, netdev, wanted) in enumerate(functions)
        ]

    hosts = {
        "h0": host(("101b", "infiniband", "d", True)),
        "h1": host(("1017", "ether", "d", True)),
        "h2": host(("1017", "infiniband", "d", False), ("101b", "infiniband", "a", True)),
        "h3": host(("1021", "infiniband", "a", False), ("1021", "ether", "d", True)),
    }
    classes, refused = classes_of(SHARED, hosts, "auto")
    assert refused == []
    assert classes == [
        (["h0", "h2"], {"p": {"deviceIDs": ["101b"]}}),
        (["h1", "h3"], {"p": {"deviceIDs": ["1017", "1021"], "linkTypes": ["ether"]}}),
    ]


def test_names_of_one_host_alone_are_listed() -> None:
    """Where each host has names of its own, one list of all of them would be exact, too, and change with every new host."""
    cluster = {f"n{host}": ports_of(f"a{host}x b{host}x c{host}x") for host in range(5)}
    cluster["other"] = ports_of("a9x b9x c9x")
    plan = plan_group("g", cluster, wishes({"link_layer": "Ethernet", "exclude": ["b9x"]}))
    assert sorted(len(entry["selectors"].get("ifNames", ())) for entry in plan["classes"]) == [0, 2]
    assert any("would need more names of interfaces" in text for text in plan["warnings"])
    assert all(entry["reason"] for entry in plan["classes"])


HEALTHY = st.lists(
    st.tuples(st.sampled_from(["a0 a1", "a0 a1 a2", "b0 b1"]), st.sampled_from(["0x1017", "0x1021", "0x101b"])),
    min_size=1,
    max_size=5,
)


@given(
    HEALTHY,
    st.sampled_from(["a0 a1", "a0 a1 a2", "b0 b1 b2"]),
    st.sampled_from(["0x1017", "0x1021"]),
    st.integers(0, 2),
)
def test_a_port_that_goes_down_changes_nothing_for_other_hosts(
    others: list[tuple[str, str]], netdevs: str, ids: str, number: int
) -> None:
    """Neither whom they share a class with, nor what it is called and selected by."""
    want = wishes({"link_layer": "Ethernet"})
    cluster = {f"h{index}": ports_of(names, ids=device) for index, (names, device) in enumerate(others)}
    well = {**cluster, "h9": ports_of(netdevs, ids=ids)}
    sick = {**cluster, "h9": ports_of(netdevs, down=netdevs.split()[number % len(netdevs.split())], ids=ids)}

    def of_others(classes: list[Json]) -> dict[str, Any]:
        found = {host: entry for entry in classes for host in entry["hosts"]}
        return {
            host: (found[host]["name"], sorted({*found[host]["hosts"]} - {"h9"})) for host in cluster if host in found
        }

    before = plan_groups({**well}, {"g": {**want, "hosts": sorted(well)}})["groups"]["g"]["classes"]
    after = plan_groups(sick, {"g": {**want, "hosts": sorted(sick)}}, earlier={"g": before})["groups"]["g"]["classes"]
    alone = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before})["groups"]["g"][
        "classes"
    ]
    assert of_others(after) == of_others(alone)


def test_a_port_that_goes_down_on_a_host_that_no_selectors_fit_then() -> None:
    """By device IDs, a port that is down cannot be told from one that is not: that costs its host, and nobody else."""
    want = {**wishes({"link_layer": "Ethernet"}), "strategy": "device_ids"}
    cluster = {name: ports_of("a0 a1") for name in ("h0", "h1", "h2")}
    before = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]
    cluster["h1"] = ports_of("a0 a1", down="a1")
    cluster["h2"] = ports_of("a0 a1", down="a0")
    plan = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before["classes"]})
    after = plan["groups"]["g"]
    assert after["planned"]
    assert [(entry["name"], entry["hosts"]) for entry in after["classes"]] == [(before["classes"][0]["name"], ["h0"])]
    assert [text[: len("host h1: no selectors are exact: ")] for text in after["errors"]] == [
        "host h1: no selectors are exact: ",
        "host h2: no selectors are exact: ",
    ]
    assert sorted(after["wanted"]) == sorted(after["environment"]) == ["h0"]
    assert {row["device"] for row in after["exclusions"] if row["host"] == "h1"} == {"mlx5_0", "mlx5_1"}
    # a configuration that would reach that host, too, is none
    assert plan["cluster"]["config"] is None
    # where all are so, that is how they are: their group cannot be planned
    del cluster["h0"]
    whole = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]
    assert not whole["planned"]
    assert "no selectors are exact" in whole["errors"][0]


def on(distribution: str | None, netdevs: str = "a0 a1") -> Json:
    facts = ports_of(netdevs)
    return {**facts, "runtime": {**(facts.get("runtime") or {}), "distribution": distribution}}


def test_a_daemon_set_mounts_one_directory_of_kubelets() -> None:
    """A node that says that it runs k0s costs nobody else anything, whether or not it lies."""
    want = wishes({"link_layer": "Ethernet"})
    cluster = {name: on("kubeadm") for name in ("h0", "h1", "h2")}
    before = plan_group("g", cluster, want)
    assert [entry["hosts"] for entry in before["classes"]] == [["h0", "h1", "h2"]]
    cluster["h1"] = on("k0s")
    plan = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before["classes"]})
    after = plan["groups"]["g"]
    classes = {tuple(entry["hosts"]): entry for entry in after["classes"]}
    assert classes.keys() == {("h1",), ("h0", "h2")}
    assert classes["h0", "h2"]["name"] == before["classes"][0]["name"] != classes["h1",]["name"]
    assert classes["h0", "h2"]["selectors"] == classes["h1",]["selectors"] == before["classes"][0]["selectors"]
    assert "/var/lib/k0s/kubelet" in classes["h1",]["reason"]
    assert any("/var/lib/k0s/kubelet" in text for text in after["warnings"])
    assert not any("no single configuration" in text for text in after["warnings"])
    assert plan["cluster"]["config"]["configList"]
    # not yet in a cluster, or of another distribution with the same directory
    assert len(plan_group("g", {"h0": on(None), "h1": on("k3s"), "h2": on("rke2")}, want)["classes"]) == 1
    settings = {
        "namespace": "rdma",
        "image": "x/y:1",
        "priority_class": "p",
        "kubelet_root": "auto",
        "tolerations": [],
        "resources": {},
        "distributions": {name: facts["runtime"]["distribution"] for name, facts in cluster.items()},
    }
    mounts = {
        path.split("/")[-1]: [volume["hostPath"]["path"] for volume in each["spec"]["template"]["spec"]["volumes"][:1]]
        for path, each in plan_manifests(plan, settings).items()
        if each["kind"] == "DaemonSet"
    }
    assert sorted(mounts.values()) == [["/var/lib/k0s/kubelet/device-plugins"], ["/var/lib/kubelet/device-plugins"]]


# What is wanted on a host, and sometimes a card that is not.
CARDS = st.tuples(
    st.lists(st.sampled_from(["0x1017", "0x1021"]), min_size=1, max_size=3),
    st.sampled_from([None, None, None, "0x101b", "0x1021"]),
)


@settings(max_examples=150)
@given(st.lists(CARDS, min_size=1, max_size=4), CARDS, st.booleans(), st.data())
def test_a_port_that_goes_down_and_comes_up_again_changes_nothing_for_other_hosts(
    others: list[tuple[list[str], str | None]], own: tuple[list[str], str | None], spare: bool, data: st.DataObject
) -> None:
    """Also where every host has a card without a cable, and where the host had decided what its class is selected by."""

    def host(cards: tuple[list[str], str | None], down: int | None = None) -> Json:
        machine = Machine()
        for index, ids in enumerate(cards[0]):
            # without a netdev, as InfiniBand is without ib_ipoib
            function = machine.function(f"0000:{16 + index:02x}:00.0", device=ids)
            state = "1: DOWN" if index == down else "4: ACTIVE"
            machine.port(machine.hca(f"mlx5_{index}", function), link_layer="InfiniBand", state=state)
        if cards[1]:
            function = machine.function("0000:50:00.0", device=cards[1])
            machine.port(machine.hca("mlx5_8", function), link_layer="Ethernet")
            machine.netdev("eth0", function)
        if spare:
            function = machine.function("0000:60:00.0", device="0x1015")
            machine.port(machine.hca("mlx5_9", function), link_layer="InfiniBand", state="1: DOWN")
        return facts_of(machine)

    def planned(hosts: dict[str, Json], earlier: Any = None) -> Json:
        known = {"g": earlier} if earlier else None
        wish = {**wishes({"link_layer": "InfiniBand"}), "hosts": sorted(hosts)}
        return plan_groups(hosts, {"g": wish}, earlier=known)["groups"]["g"]

    def of_others(plan: Json) -> dict[str, Any]:
        return {
            name: (entry["name"], [other for other in entry["hosts"] if other != "h9"], entry["config"])
            for entry in plan["classes"]
            for name in entry["hosts"]
            if name != "h9"
        }

    hosts = {f"h{number}": host(cards) for number, cards in enumerate(others)}
    before = planned({**hosts, "h9": host(own)})
    assume(before["planned"] and not before["errors"])
    down = data.draw(st.integers(0, len(own[0]) - 1))
    during = planned({**hosts, "h9": host(own, down)}, before["classes"])
    assert during["planned"]
    assert of_others(during) == of_others(before)
    after = planned({**hosts, "h9": host(own)}, during["classes"])
    assert [(each["name"], each["hosts"], each["config"]) for each in after["classes"]] == [
        (each["name"], each["hosts"], each["config"]) for each in before["classes"]
    ]


def cards_of(*cards: tuple[str, str], down: str = "") -> Json:
    """A host with a wanted function for each (device ID, netdev); those of which the port is down."""
    machine = Machine()
    for index, (ids, netdev) in enumerate(cards):
        function = machine.nic(f"mlx5_{index}", netdev, f"0000:{16 + index:02x}:00.0", device="0x" + ids)
        if netdev in down.split():
            machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state="1: DOWN")
    return facts_of(machine)


def replanned(hosts: dict[str, Json], earlier: Any, **more: Any) -> dict[str, Any]:
    wish = {**wishes({"link_layer": "Ethernet"}), **more, "hosts": sorted(hosts)}
    return plan_groups(hosts, {"g": wish}, earlier={"g": earlier} if earlier else None)["groups"]["g"]["classes"]


def labels(classes: Any) -> dict[str, str]:
    return {host: entry["name"] for entry in classes for host in entry["hosts"]}


def test_the_rest_of_a_class_keeps_its_name_when_most_of_it_goes_down() -> None:
    """A leaf switch is dead: whoever is well is not disturbed, on the way down and back."""
    pair = (("1017", "a0"), ("1021", "a1"))
    hosts = {f"h{number}": cards_of(*pair) for number in range(3)}
    before = replanned(hosts, None)
    sick = {**hosts, "h0": cards_of(*pair, down="a0"), "h1": cards_of(*pair, down="a0")}
    during = replanned(sick, before)
    assert labels(during)["h2"] == labels(before)["h2"] != labels(during)["h0"]
    assert labels(replanned(hosts, during)) == labels(before)


def test_other_wishes_are_another_plan() -> None:
    """A port that never has a cable keeps hosts in their classes, and not in those of wishes that nobody has any more."""
    hosts = {f"h{number}": cards_of(("1017", "a0"), ("1015", "s0"), down="s0") for number in range(2)}
    by_name = replanned(hosts, None, strategy="ifnames")
    assert "ifNames" in by_name[0]["selectors"]
    assert replanned(hosts, by_name, strategy="ifnames") == by_name
    assert "ifNames" not in replanned(hosts, by_name)[0]["selectors"]


def test_hosts_that_come_one_by_one_have_no_class_each() -> None:
    kinds = [("1017", "1021", "101b", "1019", "101d", "a2d6")[number] for number in range(6)]
    hosts: dict[str, Json] = {}
    classes: Any = None
    for number, ids in enumerate(kinds):
        hosts[f"h{number}"] = cards_of((ids, "a0"), ("1015", "s0"), down="s0")
        classes = replanned(hosts, classes)
    assert len(classes) <= 2 * len(replanned(hosts, None)) + 1


def test_a_host_that_was_dark_does_not_join_one_with_a_port_down() -> None:
    sick = cards_of(("1017", "a0"), ("1017", "z0"), down="z0")
    hosts = {"h0": cards_of(("1017", "a0")), "h1": sick}
    before = replanned(hosts, None)
    during = replanned({**hosts, "h0": cards_of(("1017", "a0"), down="a0")}, before)
    assert labels(replanned(hosts, during)) == labels(before)


def test_many_hosts_that_no_selectors_fit_are_left_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf switch that is dead is no reason for a plan of an hour: each sort of host is searched a few times, however many there are."""
    well = Function(("15b3", "1017", "mlx5_core", "", ""), "p", "0000:01:00.0", ("mlx5_0",), (1,), "")
    sick = well._replace(pool="", pci="0000:02:00.0", devices=("mlx5_1",), why="Down", sick=True)
    hosts = {"well": [well]}
    for number in range(200):
        other = sick._replace(values=(*well.values[:4], f"e{number}"), why="", sick=False)
        hosts[f"h{number:04}"] = [well, sick, other]
    made = []

    class Counted(solver.Catalogue):
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(solver, "Catalogue", Counted)
    classes, refused = solver.classes_of(SHARED, hosts, "auto")
    assert ([names for names, _selectors in classes], len(refused)) == ([["well"]], 200)
    assert len(made) < 5 * len(hosts)


def test_twelve_hosts_do_not_follow_one_cable() -> None:
    """They had another class, and so another label, on the day on which a card of one of them went down."""
    want = wishes({"link_layer": "InfiniBand"})
    functions = [("0x1021", "InfiniBand"), ("0x1021", "InfiniBand"), ("0x1017", "InfiniBand")]

    def host(*layers: str, down: int = -1) -> Json:
        machine = Machine()
        for index, (layer, (device, _layer)) in enumerate(zip(layers, functions, strict=False)):
            function = machine.function(f"0000:{index + 1:02x}:00.0", device=device)
            state = "1: DOWN" if index == down else "4: ACTIVE"
            machine.port(machine.hca(f"mlx5_{index}", function), link_layer=layer, state=state)
            machine.netdev(f"ib{index}", function, type=32 if layer == "InfiniBand" else 1)
        return facts_of(machine)

    ib = "InfiniBand"
    cluster = {"h0": host(ib, ib, ib), "h1": host(ib, "Ethernet", ib)}
    cluster |= {f"h{index}": host(ib, ib) for index in range(2, 13)}
    before = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}})["groups"]["g"]["classes"]
    cluster["h0"] = host(ib, ib, ib, down=2)
    after = plan_groups(cluster, {"g": {**want, "hosts": sorted(cluster)}}, earlier={"g": before})["groups"]["g"][
        "classes"
    ]
    assert [entry["hosts"] for entry in before] == [sorted(cluster)]
    assert {entry["name"]: entry["hosts"] for entry in after}[before[0]["name"]] == sorted({*cluster} - {"h0"})


def test_reasons_name_functions() -> None:
    cluster = {"a": two_ports("eth0", "eth1", "eth0"), "b": two_ports("eth0", "eth1", "eth1")}
    cluster["c"] = ports_of("eth0 eth1")
    for entry in plan_group("g", cluster, wishes({"link_layer": "Ethernet"}))["classes"]:
        assert re.search(r"mlx5_\d \(0000:..:00\.0\)", entry["reason"]), entry["reason"]


@pytest.mark.parametrize(
    ("exclude", "told"),
    [
        (["bond9", "mlx5_0"], ["bond9"]),
        (["0000:3b:00.0"], []),
        (["eth0"], []),
        (["bond0"], []),
        (["MLX5_0"], ["MLX5_0"]),
    ],
)
def test_an_exclusion_of_nothing_is_told(exclude: list[str], told: list[str]) -> None:
    machine = Machine()
    function = machine.nic()
    machine.netdev("eth0", function, master="bond0")
    machine.bond("bond0", "eth0")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "exclude": exclude}))
    warnings = [text for text in plan["warnings"] if text.startswith("rdma_want.exclude: ")]
    assert [text.split()[1] for text in warnings] == told
    # a member of a bond that is no LAG goes by the bond's name, too
    assert [row["reason"] for row in plan["exclusions"]] == (
        [f"excluded by name ({', '.join(set(exclude) - set(told))})"] if set(exclude) - set(told) else []
    )


def test_a_missing_ipoib_module_is_the_remedy() -> None:
    machine = Machine()
    for index, state in enumerate(("4: ACTIVE", "1: DOWN")):
        hca = machine.hca(f"mlx5_{index}", machine.function(f"0000:3b:00.{index}"))
        machine.port(hca, link_layer="InfiniBand", state=state)
    with pytest.raises(
        PlanError, match=r"InfiniBand devices without a netdev, such as mlx5_0 of host n, .* load ib_ipoib on n$"
    ):
        plan_group("g", {"n": facts_of(machine)}, RESOURCE)


# -- Reasons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "want", "reason"),
    [
        (
            {"link_layer": "InfiniBand", "state": "1: DOWN", "phys_state": "3: Disabled"},
            {},
            "port is Down (phys state Disabled), the group wants Active",
        ),
        (
            {"link_layer": "InfiniBand", "state": "2: INIT"},
            {},
            "port is Init (phys state LinkUp), the group wants Active",
        ),
        (
            {"link_layer": "InfiniBand", "state": None, "phys_state": None},
            {},
            "port is in an unknown state (phys state unknown), the group wants Active",
        ),
        ({}, {}, "Ethernet, the group wants InfiniBand"),
        ({"link_layer": "InfiniBand"}, {"link_layer": "Ethernet"}, "InfiniBand, the group wants Ethernet"),
        ({"link_layer": None}, {}, "link layer unknown, the group wants InfiniBand"),
        (
            {"link_layer": "InfiniBand", "rate": "40 Gb/sec (4X QDR)"},
            {"min_rate_gbps": 100},
            "40 Gb/s (4X QDR), the group wants at least 100 Gb/s",
        ),
        (
            {"link_layer": "InfiniBand", "rate": "2.5 Gb/sec (1X)"},
            {"min_rate_gbps": 12.5},
            "2.5 Gb/s, the group wants at least 12.5 Gb/s",
        ),
        (
            {"link_layer": "InfiniBand", "rate": "?"},
            {"min_rate_gbps": 1},
            "rate unknown, the group wants at least 1 Gb/s",
        ),
        ({}, {"kinds": ["vf", "sf"]}, "physical function, the group wants kinds vf, sf"),
        ({}, {"exclude": ["mlx5_0", "x"]}, "excluded by name (mlx5_0)"),
        ({}, {"exclude": ["eth0", "0000:3b:00.0"]}, "excluded by name (0000:3b:00.0, eth0)"),
    ],
)
def test_why_a_port_is_left_out(port: Json, want: Json, reason: str) -> None:
    machine = Machine()
    function = machine.nic()
    machine.remove(f"{function}/infiniband/mlx5_0/ports")
    machine.port(f"{function}/infiniband/mlx5_0", **port)
    plan = plan_group("g", {"n": facts_of(machine)}, wishes(want))
    number = 1 if "port" in reason or "Gb/s" in reason or "layer" in reason or ", the group wants " in reason else None
    number = None if "kinds" in reason else number
    assert plan["exclusions"] == [{"host": "n", "device": "mlx5_0", "port": number, "netdev": "eth0", "reason": reason}]
    assert plan["errors"] == [f"host n has no usable port (mlx5_0: {reason})"]
    assert (plan["classes"], plan["wanted"], plan["environment"]) == ([], {}, {})


def virtual_function(machine: Machine) -> None:
    physical = machine.function("0000:3b:00.0")
    machine.link(f"{machine.nic(pci='0000:3b:00.2')}/physfn", physical)


def sub_function(machine: Machine) -> None:
    machine.port(machine.hca("mlx5_0", f"{machine.function()}/mlx5_core.sf.4"))


def soft_roce(machine: Machine) -> None:
    machine.port(machine.hca("mlx5_0", None))
    machine.files("/sys/devices/virtual/infiniband/mlx5_0", parent="eth0")


def management(machine: Machine) -> None:
    machine.port(machine.hca("smi1", machine.function()))


def portless(machine: Machine) -> None:
    machine.hca("mlx5_0", machine.function())


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (virtual_function, "virtual function of 0000:3b:00.0, the group wants kinds pf"),
        (sub_function, "sub-function, the group wants kinds pf"),
        (soft_roce, "software device (rdma_rxe), the group wants kinds pf"),
        (management, "management-only device (SMI): it carries no data"),
        (portless, "it has no ports"),
    ],
)
def test_why_a_device_is_left_out(build: Any, reason: str) -> None:
    machine = Machine()
    build(machine)
    [row] = plan_group("g", {"n": facts_of(machine)}, RESOURCE)["exclusions"]
    assert (row["port"], row["reason"]) == (None, reason)


def test_bonds_in_words() -> None:
    machine = Machine()
    machine.nic()
    machine.netdev("eth0", "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", master="bond0")
    machine.bond("bond0", "eth0")
    facts = facts_of(machine)
    [row] = plan_group("g", {"n": facts}, RESOURCE)["exclusions"]
    assert row["reason"] == "Ethernet, enslaved to bond0, the group wants InfiniBand"


def test_software_devices_are_wanted_and_not_advertised() -> None:
    machine = Machine()
    soft_roce(machine)
    plan = plan_group("soft", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "kinds": ["software"]}))
    assert plan["classes"] == [
        {
            "name": "soft-software",
            "wishes": "",
            "hosts": ["n"],
            "selectors": {},
            "matched_later": [],
            "pools": [],
            "config": None,
            "matches": {},
            "reason": None,
            "sriov": {"config": None, "versions": None, "reason": "software devices have no PCI function"},
        }
    ]
    assert plan["environment"] == {"n": {"NCCL_IB_HCA": "=mlx5_0:1", "UCX_NET_DEVICES": "mlx5_0:1"}}
    assert plan["errors"] == []
    assert plan["warnings"] == [
        "n: only software devices are wanted; the shared device plugin lists PCI functions only, "
        "so there is nothing to advertise"
    ]


SOFTWARE: Json = {"link_layer": "Ethernet", "kinds": ["software"]}


def soft_node(machine: Machine | None = None, **values: Any) -> Machine:
    """A node with Soft-RoCE at a function, a card of the same model without an RDMA device, and one for management."""
    machine = machine or Machine()
    machine.soft_roce(**values)
    machine.netdev("eth2", machine.function("0000:00:06.0", vendor="0x8086", device="0x10d3", driver="e1000e"))
    machine.netdev("eth0", machine.function("0000:00:04.0", vendor="0x1af4", device="0x1000", driver="virtio-pci"))
    return machine


def test_software_devices_at_a_function_are_planned_like_any_other() -> None:
    facts = {"a": facts_of(soft_node()), "b": facts_of(soft_node(name="rxe0"))}
    plan = plan_group("soft", facts, wishes(SOFTWARE))
    [entry] = plan["classes"]
    assert (entry["name"], entry["hosts"], entry["selectors"]) == (
        "soft-device-10d3",
        ["a", "b"],
        {"deviceIDs": ["10d3"]},
    )
    assert entry["matches"]["a"] == [{"device": "mlx5_0", "pci": "0000:00:05.0", "if_name": "eth1", "ports": [1]}]
    assert (plan["warnings"], plan["errors"], plan["exclusions"]) == ([], [], [])
    for host, strategy in (("a", "auto"), ("b", "ifnames")):
        [own] = plan_group("soft", facts, wishes(SOFTWARE, strategy))["classes"]
        assert plugin_pool(facts[host], own["config"]) == {"0000:00:05.0"}
    # the SR-IOV plugin looks into the same directory
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert (resource["selectors"], entry["sriov"]["versions"]) == (
        {"devices": ["10d3"], "isRdma": True},
        "3.5.1 or newer",
    )


def test_software_devices_are_selected_by_the_driver_of_their_function() -> None:
    machine = soft_node()
    machine.soft_roce("mlx5_1", "eth3", "0000:00:07.0", driver="igb", state="1: DOWN")
    facts = facts_of(machine)
    assert {device["driver"] for device in facts["devices"]} == {"rdma_rxe"}
    [entry] = plan_group("soft", {"n": facts}, wishes(SOFTWARE))["classes"]
    assert entry["selectors"] == {"deviceIDs": ["10d3"], "drivers": ["e1000e"]}
    assert plugin_pool(facts, entry["config"]) == {"0000:00:05.0"}
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "devices": ["10d3"],
        "drivers": ["e1000e"],
        "isRdma": True,
    }


def test_software_devices_that_are_not_wanted_are_told_from_the_others() -> None:
    machine = soft_node()
    machine.nic("mlx5_1", "eth3")
    facts = facts_of(machine)
    plan = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))
    [entry] = plan["classes"]
    assert plugin_pool(facts, entry["config"]) == {"0000:3b:00.0"}
    assert [row["reason"] for row in plan["exclusions"]] == ["software device (rdma_rxe), the group wants kinds pf"]
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "kinds": ["pf", "software"]}))["classes"]
    assert plugin_pool(facts, entry["config"]) == {"0000:3b:00.0", "0000:00:05.0"}


def test_a_port_of_a_software_device_that_is_down_is_told() -> None:
    facts = facts_of(soft_node(state="1: DOWN"))
    plan = plan_group("g", {"n": facts}, wishes(SOFTWARE))
    assert plan["errors"] == [
        "host n has no usable port (mlx5_0: port is Down (phys state LinkUp), the group wants Active)"
    ]


def test_software_devices_on_a_bond_are_selected_at_the_function_of_a_member() -> None:
    machine = soft_node(netdev="eth3", parent="bond0")
    machine.netdev("eth3", "/sys/devices/pci0000:00/0000:00:05.0", master="bond0")
    machine.bond("bond0", "eth2 eth3")
    # of the bond, not of the function
    machine.file("/proc/net/route", "Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    facts = facts_of(machine)
    plan = plan_group("g", {"n": facts}, wishes(SOFTWARE, "ifnames"))
    assert plan["warnings"] == ["host n: mlx5_0 is wanted and carries the default route (bond0)"]
    [entry] = plan["classes"]
    assert (entry["selectors"], plan["wanted"]["n"][0]["netdev"]) == ({"ifNames": ["eth3"]}, "bond0")
    assert entry["sriov"]["versions"] == "3.5.1 or newer"
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"devices": ["10d3"], "isRdma": True}
    assert plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["bond0"]}))["classes"] == []
    assert plan_group("g", {"n": facts}, RESOURCE)["exclusions"][0]["reason"].startswith("software device (rdma_rxe)")


def test_a_group_with_software_devices_that_are_seen_and_that_are_not() -> None:
    lost, virtual = soft_node(), Machine()
    lost.remove("/sys/class/infiniband_mad")
    soft_roce(virtual)
    machines = {"seen": soft_node(), "lost": lost, "virtual": virtual, "card": Machine()}
    machines["card"].nic()
    facts = {host: facts_of(machine) for host, machine in machines.items()}
    plan = plan_group("g", facts, wishes({**SOFTWARE, "kinds": ["pf", "software"]}))
    [entry, bare] = plan["classes"]
    assert (entry["hosts"], bare["hosts"], bare["config"]) == (["card", "seen"], ["lost", "virtual"], None)
    assert bare["sriov"]["reason"] == "the shared device plugin sees none of the software devices"
    assert plan["warnings"] == [
        "lost: only software devices are wanted; the shared device plugin sees none of them "
        "(mlx5_0: umad device missing: load ib_umad), so there is nothing to advertise",
        "virtual: only software devices are wanted; the shared device plugin lists PCI functions only, "
        "so there is nothing to advertise",
    ]


def test_a_function_with_two_devices_is_named_by_the_one_that_is_wanted() -> None:
    machine = Machine()
    function = machine.nic("mlx5_0", "eth0")
    machine.port(machine.hca("a_rxe", function, parent="eth0"))
    facts = facts_of(machine)
    for kind, name in (("pf", "mlx5_0"), ("software", "a_rxe")):
        [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "kinds": [kind]}))["classes"]
        [match] = entry["matches"]["n"]
        assert (match["device"], plugin_pool(facts, entry["config"])) == (name, {"0000:3b:00.0"})


def test_a_wanted_default_route_is_told() -> None:
    machine = Machine()
    machine.nic()
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))
    assert plan["errors"] == []
    assert plan["warnings"] == ["host n: mlx5_0 is wanted and carries the default route (eth0)"]


def test_a_host_with_exclusive_namespaces_is_in_no_class() -> None:
    """The plugin exits there, so a rollout to it, with unusable hosts allowed, would never be ready."""
    machine = Machine()
    machine.nic()
    good = facts_of(machine)
    machine.file("/sys/module/ib_core/parameters/netns_mode", "N\n")
    plan = plan_group("g", {"n": facts_of(machine), "good": good}, wishes({"link_layer": "Ethernet"}))
    reason = "the RDMA network namespace mode is exclusive, and the shared device plugin does not start in it"
    [error] = plan["errors"]
    assert error.startswith(f"host n: {reason} (set it to shared: rdma system set netns shared")
    assert [entry["hosts"] for entry in plan["classes"]] == [["good"]]
    assert (list(plan["wanted"]), list(plan["environment"])) == (["good"], ["good"])
    [row] = plan["exclusions"]
    assert (row["host"], row["device"], row["port"]) == ("n", "mlx5_0", 1)
    assert row["reason"].startswith(reason)
    # nor does one for the whole cluster offer what it has
    groups = {"g": {"hosts": ["good", "n"], **wishes({"link_layer": "Ethernet"})}}
    [error] = plan_groups({"n": facts_of(machine), "good": good}, groups)["cluster"]["errors"]
    assert "mlx5_0 (0000:3b:00.0) of host n is not (the RDMA network namespace mode is exclusive" in error


# -- Wishes and groups -----------------------------------------------------------------------------------------------

NAME = "letters, digits and underscores (the plugin refuses anything else), such as rdma_v100"


@pytest.mark.parametrize(
    ("given_wishes", "message"),
    [
        ({}, f"rdma_resource.name is None; expected {NAME}"),
        ({"resource": {"name": "a-b"}}, f"rdma_resource.name is 'a-b'; expected {NAME}"),
        ({"resource": {"name": "é"}}, f"rdma_resource.name is 'é'; expected {NAME}"),
        ({"resource": {"name": "a\n"}}, f"rdma_resource.name is 'a\\n'; expected {NAME}"),
        ({"resource": []}, "rdma_resource is of type list; expected a dictionary"),
        (
            {"resource": {"name": "x", "nmae": 1}},
            "rdma_resource has no key nmae; it knows hca_max, name, prefix; did you mean name?",
        ),
        (
            {"resource": {"name": "x", "prefix": ""}},
            "rdma_resource.prefix is ''; expected a domain-like prefix, such as rdma",
        ),
        ({"resource": {"name": "_x"}}, f"rdma_resource.name is '_x'; expected {NAME}"),
        ({"resource": {"name": "x" * 64}}, f"rdma_resource.name is '{'x' * 64}'; expected {NAME}"),
        (
            {"resource": {"name": "x", "prefix": "a b/c"}},
            "rdma_resource.prefix is 'a b/c'; expected a domain-like prefix, such as rdma",
        ),
        *(
            (
                {"resource": {"name": "x", "hca_max": value}},
                f"rdma_resource.hca_max is {value!r}; "
                "expected an integer from 0 to 10000: how many Pods of a node share the devices",
            )
            for value in (-1, True, "63", 1.5, 10**12, 10001)
        ),
        *(
            (
                {"resource": {"name": "x", "prefix": prefix}},
                f"rdma_resource.prefix is '{prefix}'; expected a prefix that Kubernetes lets others have: "
                "none that ends with kubernetes.io or starts with requests.",
            )
            for prefix in ("kubernetes.io", "node.kubernetes.io", "mykubernetes.io", "requests.example.com")
        ),
        (
            {"resource": {"name": "x", "prefix": "a" * 245}},
            f"rdma_resource.prefix is '{'a' * 79}...; expected a domain-like prefix, such as rdma",
        ),
        ({"want": {"lnk": 1}}, "rdma_want has no key lnk; it knows exclude, kinds, link_layer, min_rate_gbps, state"),
        ({"want": "x"}, "rdma_want is of type str; expected a dictionary"),
        ({"want": {"link_layer": "IB"}}, "rdma_want.link_layer is 'IB'; expected one of InfiniBand, Ethernet"),
        (
            {"want": {"state": "active"}},
            "rdma_want.state is 'active'; expected one of Active, any; did you mean Active?",
        ),
        ({"want": {"min_rate_gbps": -1}}, "rdma_want.min_rate_gbps is -1; expected a number of Gb/s, 0 or more"),
        (
            {"want": {"min_rate_gbps": float("nan")}},
            "rdma_want.min_rate_gbps is nan; expected a number of Gb/s, 0 or more",
        ),
        ({"want": {"min_rate_gbps": "9"}}, "rdma_want.min_rate_gbps is '9'; expected a number of Gb/s, 0 or more"),
        ({"want": {"kinds": []}}, "rdma_want.kinds is []; expected some of pf, vf, sf, software"),
        (
            {"want": {"kinds": ["PF"]}},
            "rdma_want.kinds is ['PF']; expected some of pf, vf, sf, software; did you mean pf?",
        ),
        ({"want": {"kinds": "pf"}}, "rdma_want.kinds is 'pf'; expected a list of strings"),
        ({"want": {"exclude": [1]}}, "rdma_want.exclude is [1]; expected a list of strings"),
        *(
            (
                {"rails": value},
                f"rdma_rails is {value!r}; expected true, false, or a pattern of names with {{rail}} in it, "
                "such as {name}_gpu{rail}" + more,
            )
            for value, more in (
                (1, ""),
                ("x", ""),
                ([], ""),
                ("", ""),
                (
                    "a-{rail}",
                    ", that makes names of letters, digits and underscores, at most 63 (a-99 is not one)",
                ),
            )
        ),
        ({"strategy": "x"}, "rdma_selector_strategy is 'x'; expected one of auto, ifnames, device_ids"),
    ],
)
def test_a_wish_that_makes_no_sense(given_wishes: Json, message: str) -> None:
    if given_wishes and "resource" not in given_wishes:
        given_wishes = {**RESOURCE, **given_wishes}
    with pytest.raises(PlanError, match=f"^{re.escape('group g: ' + message)}$"):
        plan_group("g", {}, given_wishes)


@pytest.mark.parametrize(
    ("group_wishes", "message"),
    [
        (None, "group g: its wishes are None; expected a dictionary"),
        ({"hosts": "gb200-1", **RESOURCE}, "group g: its hosts are 'gb200-1'; expected a list of names"),
        ({"hosts": [1], **RESOURCE}, "group g: its hosts are [1]; expected a list of names"),
        ({"hosts": 1, **RESOURCE}, "group g: its hosts are 1; expected a list of names"),
    ],
)
def test_a_group_of_another_form(group_wishes: Any, message: str) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_groups(captured("gb200-1"), {"g": group_wishes})


@pytest.mark.parametrize("hosts", [{}, {"hosts": None}])
def test_a_group_that_does_not_say_its_hosts(hosts: Json) -> None:
    [error] = plan_groups({}, {"g": {**hosts, **RESOURCE}})["groups"]["g"]["errors"]
    assert error == "group g has no hosts; put some in, or take it out of rdma_groups"


def test_a_port_that_comes_along_is_told() -> None:
    machine = Machine()
    function = machine.nic("mlx4_0", "ib0")
    machine.port(f"{function}/infiniband/mlx4_0", 2, state="1: DOWN")
    plan = plan_group("g", {"a": facts_of(machine)}, {**RESOURCE, "want": {"link_layer": "Ethernet"}})
    assert [row["port"] for row in plan["wanted"]["a"]] == [1]
    assert plan["warnings"] == [
        "host a: mlx4_0 comes as a whole, so Pods that get port 1 can also use port 2 of it, which is not wanted"
    ]


def test_two_names_of_one_machine_are_told() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one, two], **RESOURCE}}
    assert plan_groups(facts, groups)["groups"]["g"]["warnings"] == []
    same = {one: facts[one], two: facts[one]}
    assert plan_groups(same, groups)["groups"]["g"]["warnings"] == [
        f"hosts {one} and {two} both have a device with the node GUID {facts[one]['devices'][0]['node_guid']}: "
        "are they two names of one machine?"
    ]


def test_a_wish_of_one_group_costs_that_group() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one], **RESOURCE}, "h": {"hosts": [two], "resource": {"name": "a-b"}}}
    plans = plan_groups(facts, groups)["groups"]
    assert plans["g"]["planned"]
    assert not plans["h"]["planned"]
    assert plans["h"]["errors"] == [f"group h: rdma_resource.name is 'a-b'; expected {NAME}"]
    for value in (None, [], "x", {"name": 5}, {"nmae": "x"}, {"name": "x", "prefix": ["a"]}):
        assert not plan_groups(facts, {"h": {"hosts": [two], "resource": value}})["groups"]["h"]["planned"]


def test_facts_that_are_not_of_this_run_are_told_with_their_age() -> None:
    facts = captured("ib-v100-1", "ib-v100-2")
    one, two = facts
    groups = {"g": {"hosts": [one, two], **RESOURCE}}
    fresh = plan_groups(facts, groups)
    assert (fresh["groups"]["g"]["cached"], fresh["warnings"]) == ({}, [])
    times = {one: "2026-03-01T08:15:00Z", two: "2026-03-02T09:30:59Z"}
    plan = plan_groups(facts, groups, times)
    assert plan["groups"]["g"]["cached"] == times
    assert "(of 2026-03-01 08:15 UTC to 2026-03-02 09:30 UTC)" in plan["warnings"][0]
    text = " ".join(plan_table(plan["groups"]["g"]))
    assert "facts of 2 hosts are not of this run, but of 2026-03-01 08:15 UTC to 2026-03-02 09:30 UTC" in text
    unknown = plan_groups(facts, groups, {one: None, two: times[two]})
    assert "(of 2026-03-02 09:30 UTC, some of unknown age)" in unknown["warnings"][0]


def test_wishes_have_defaults() -> None:
    assert validate_wishes("g", {**RESOURCE, "want": None, "strategy": None}) == {
        "resource": {"name": "rdma_x", "prefix": "rdma", "hca_max": 63},
        "want": {"link_layer": "InfiniBand", "state": "Active", "min_rate_gbps": 0, "kinds": ["pf"], "exclude": []},
        "strategy": "auto",
        "rails": None,
    }


def group(*hosts: str) -> Json:
    return {"hosts": list(hosts), **RESOURCE}


def test_a_host_in_two_groups() -> None:
    message = "host ib-a100-1 is in two RDMA groups, a and b; put it in one"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_groups(captured("ib-a100-1"), {"b": group("ib-a100-1"), "a": group("ib-a100-1")})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["ib-a100-1", "x"], "no facts of x (1 of 2 hosts); discover the whole group, or use a fact cache"),
        (
            list("gfedcba"),
            "no facts of a, b, c, d, e, ... (7 of 7 hosts); discover the whole group, or use a fact cache",
        ),
        ([], "has no hosts; put some in, or take it out of rdma_groups"),
        (["blind"], "no selectors are exact: host blind: mlx5_0 (0000:3b:00.0) is wanted but has no netdev"),
    ],
)
def test_a_group_without_a_plan_keeps_no_other_from_its_own(members: list[str], message: str) -> None:
    blind = Machine()
    blind.port(blind.hca("mlx5_0", blind.function()), link_layer="InfiniBand")
    facts = {**captured("ib-a100-1", "gb200-1"), "blind": facts_of(blind)}
    groups = {"a": {**group(*members), "strategy": "ifnames"}, "good": group("gb200-1")}
    plan = plan_groups(facts, groups)
    bad = plan["groups"]["a"]
    [error] = bad["errors"]
    assert message in error
    assert error.startswith("group a")
    assert (bad["planned"], bad["classes"], bad["resource"]) == (False, [], "rdma/rdma_x")
    assert set(bad) == set(plan["groups"]["good"])
    assert plan["groups"]["good"] == plan_group("good", {"gb200-1": facts["gb200-1"]}, RESOURCE)


def test_groups_are_planned_each_for_itself() -> None:
    facts = captured("gb200-1", "gb200-2", "ib-a100-1")
    plan = plan_groups(facts, {"gb200": group("gb200-2", "gb200-1"), "ib-a100": group("ib-a100-1")})
    alone = plan_group("gb200", {name: facts[name] for name in ("gb200-1", "gb200-2")}, RESOURCE)
    assert (plan["schema"], list(plan["groups"]), plan["warnings"]) == (1, ["gb200", "ib-a100"], [])
    assert plan["groups"]["gb200"] == alone


# -- What the facts must tell ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {"schema": 1, "kernel": {}, "warnings": []},
            "group g: the facts of a are partial: they do not tell of its devices; run discover again, which gathers all",
        ),
        (
            {"schema": 2, "devices": []},
            "group g: the facts of a have schema 2, this version reads 1: they are of another version; run discover again",
        ),
    ],
)
def test_facts_that_cannot_be_planned_with(facts: Json, message: str) -> None:
    plan = plan_groups({"a": facts}, {"g": group("a")})
    assert (plan["groups"]["g"]["planned"], plan["groups"]["g"]["errors"]) == (False, [message])


def test_a_resource_of_no_devices_is_told() -> None:
    plan = plan_group("g", captured("gb200-1"), {"resource": {"name": "x", "hca_max": 0}})
    assert plan["classes"][0]["config"]["configList"][0]["rdmaHcaMax"] == 0
    assert plan["warnings"] == [
        "rdma_resource.hca_max is 0: the plugin advertises a resource of 0 devices, and no Pod can have one"
    ]


def test_one_machine_in_two_groups_by_two_names() -> None:
    facts = captured("ib-v100-1", "gb200-1")
    facts["again"] = facts["ib-v100-1"]
    groups = {"a": group("ib-v100-1"), "b": group("again"), "c": group("gb200-1")}
    plan = plan_groups(facts, groups)
    both = "hosts again of group b and ib-v100-1 of group a have the same devices, by their node GUIDs"
    for name in "ab":
        assert plan["groups"][name]["planned"] is False
        assert plan["groups"][name]["errors"] == [
            f"group {name}: {both}: they are two names of one machine; take one of them out"
        ]
    assert plan["groups"]["c"]["planned"]
    assert plan["cluster"]["config"] is None
    # captures may be copies
    groups["b"]["replayed"] = ["again"]
    plan = plan_groups(facts, groups)
    assert plan["groups"]["a"]["planned"]
    assert plan["warnings"] == [f"{both}: two captures of one machine?"]


def test_one_resource_over_two_sorts_of_links_is_told() -> None:
    facts = captured("ib-v100-1", "roce-rails-1")
    groups = {"ib": group("ib-v100-1"), "roce": {**group("roce-rails-1"), "want": {"link_layer": "Ethernet"}}}
    assert plan_groups(facts, groups)["warnings"] == [
        "groups ib and roce both advertise rdma/rdma_x, the one over InfiniBand, the other over Ethernet: "
        "a Pod that asks for it gets either"
    ]


# -- One configuration for the cluster -------------------------------------------------------------------------------


def test_groups_with_one_resource_are_one_pool() -> None:
    facts = captured("gb200-1", "ib-v100-1")
    groups = {"gb200": group("gb200-1"), "v100": group("ib-v100-1")}
    cluster = plan_groups(facts, groups)["cluster"]
    assert cluster["selectors"] == {"rdma/rdma_x": {"deviceIDs": ["1017", "1021"]}}
    assert len(cluster["config"]["configList"]) == 1
    groups["v100"]["resource"] = {"name": "rdma_x", "hca_max": 8}
    assert plan_groups(facts, groups)["cluster"]["errors"] == [
        "groups gb200 and v100 both have a resource named rdma_x (rdma/rdma_x with hca_max 63, rdma/rdma_x with hca_max 8), "
        "and the plugin does not start with two of one name, whatever their prefix"
    ]


def test_a_configuration_for_all_is_refused_with_an_example_and_a_way_out() -> None:
    facts = captured("ib-v100-1", "ib-a100-1", "ib-a100-2")
    groups = {
        "v100": {"hosts": ["ib-v100-1"], "resource": {"name": "v100"}},
        "a100": {"hosts": ["ib-a100-1", "ib-a100-2"], "resource": {"name": "a100"}},
    }
    cluster = plan_groups(facts, groups)["cluster"]
    assert (cluster["config"], cluster["selectors"], cluster["hosts"]) == (None, {}, 3)
    assert cluster["errors"] == [
        "mlx5_1 (0000:a1:00.0) of host ib-a100-1 is wanted for rdma/a100 and mlx5_1 (0000:a1:00.0) of host ib-a100-2 is not "
        "(port is Down (phys state Disabled), the group wants Active), but the plugin cannot tell them apart by "
        "vendors, deviceIDs, drivers, linkTypes, ifNames"
    ]
    assert cluster["alternative"].startswith("one configuration for each class is exact: the DaemonSets")


def test_a_host_without_a_usable_port_is_reached_by_it_too() -> None:
    """Its class runs no plugin there, but a configuration for all would offer the dead ports."""
    up = two_ports("eth0", "eth1", "eth0")
    down = two_ports("eth0", "eth1", "neither")
    groups = {"g": {**group("up", "down"), "want": {"link_layer": "Ethernet"}}}
    plan = plan_groups({"up": up, "down": down}, groups)
    assert selectors(plan["groups"]["g"]) == {"g-eth0": {"ifNames": ["eth0"]}}
    assert "mlx5_0 (0000:3b:00.0) of host down is not (port is Down" in plan["cluster"]["errors"][0]
    # nor may it match on a host that is in no group
    groups["g"]["hosts"] = ["up"]
    assert (
        "mlx5_0 (0000:3b:00.0) of host down is not,"
        in plan_groups({"up": up, "down": down}, groups)["cluster"]["errors"][0]
    )


# -- The SR-IOV plugin -----------------------------------------------------------------------------------------------


def test_a_physical_function_is_not_selected_by_its_name() -> None:
    """Since 3.5.1 only virtual functions have the name of a physical one: pfNames of a physical function selects nothing."""
    facts = two_ports("eth1", "eth10", "eth1")
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["selectors"] == {"ifNames": ["eth1"]}
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource == {
        "resourceName": "rdma_x",
        "resourcePrefix": "rdma",
        "deviceType": "netDevice",
        "selectors": {"pciAddresses": ["0000:3b:00.0"], "isRdma": True},
    }
    assert entry["sriov"]["versions"] == "3.5.1 or newer"
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.0"}}


def virtual_functions(netdevs: tuple[str, ...], *uplinks: str) -> Json:
    """Two physical functions with a virtual one each; names of netdevs of the virtual ones, '' for none."""
    machine = Machine()
    for index, netdev in enumerate(netdevs):
        bus = f"0000:{59 + index:02x}:00"
        physical = machine.nic(f"mlx5_{index}", uplinks[index], f"{bus}.0", sriov_totalvfs=8, sriov_numvfs=1)
        virtual = machine.function(f"{bus}.2", device="0x1018")
        machine.port(machine.hca(f"mlx5_{index + 8}", virtual))
        if netdev:
            machine.netdev(netdev, virtual)
        machine.link(f"{virtual}/physfn", physical)
        # a representor of the virtual function is before its uplink in the order of bytes
        machine.netdev(f"a{index}", physical, phys_port_name=f"pf{index}vf0")
    return facts_of(machine)


def test_virtual_functions_are_told_apart_by_the_name_of_the_uplink() -> None:
    facts = virtual_functions(("eth0v0", "eth1v0"), "eth0", "eth1")
    want = {"link_layer": "Ethernet", "kinds": ["vf"], "exclude": ["mlx5_9"]}
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    [resource] = entry["sriov"]["config"]["resourceList"]
    assert resource["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.2"}}
    # a name that a list would take for something else is not used
    facts = virtual_functions(("eth0v0", "eth1v0"), "eth#0", "eth1")
    [entry] = plan_group("g", {"n": facts}, wishes(want))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "pciAddresses": ["0000:3b:00.2"],
        "isRdma": True,
    }


def test_a_virtual_function_without_a_netdev_has_the_link_type_of_its_physical_one() -> None:
    """Since 3.6.0. A physical function in InfiniBand mode keeps another from being selected by linkTypes."""
    values = ("15b3", "1018", "mlx5_core")
    wanted = Function((*values, "ether", "", "a"), "r", "a", ("mlx5_0",), (1,), "")
    other = {
        version: Function((*values, link, "", "b"), "", "b", ("mlx5_1",), (), "")
        for version, link in zip(VERSIONS, ("", "ether", "ether"), strict=True)
    }
    places = {"n": {version: [wanted, other[version]] for version in VERSIONS}}
    found = sriov_config(places, [], {"r": {"name": "x", "prefix": "rdma"}})
    assert found["versions"] == "3.5.1 or newer"
    assert found["config"]["resourceList"][0]["selectors"] == {"pciAddresses": ["a"], "isRdma": True}
    facts = virtual_functions(("", "eth1v0"), "eth0", "eth1")
    seen, _refusals = sriov_functions("n", facts, [])
    assert {version: own[0].values[3] for version, own in seen.items()} == {
        "3.5.1": "",
        "3.6.0": "ether",
        "3.8.0": "ether",
    }


def test_the_other_leg_of_a_lag_may_be_offered() -> None:
    """Since 3.8.0 devlink's enable_rdma makes a function one of RDMA, also that of which the LAG has taken the device."""
    machine = Machine()
    function = machine.nic("mlx5_bond_0", "eth0", "0000:3b:00.0")
    second = machine.function("0000:3b:00.1")
    machine.netdev("eth0", function, master="bond0")
    machine.netdev("eth1", second, master="bond0")
    machine.bond("bond0", "eth0 eth1")
    facts = facts_of(machine)
    assert [member["pci"] for member in facts["devices"][0]["lag"]["members"]] == ["0000:3b:00.0", "0000:3b:00.1"]
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {
        "pciAddresses": ["0000:3b:00.0"],
        "isRdma": True,
    }
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:3b:00.0"}}


def test_virtual_functions_of_a_card_that_has_software_devices_only() -> None:
    """The plugin names them by the netdev of the physical one, and offers no function that has virtual ones."""
    machine = Machine()
    for number, bus in ((0, "05"), (1, "06")):
        pci = f"0000:{bus}:00"
        physical = machine.soft_roce(f"rxe{number}", f"eth{number}", f"{pci}.0", sriov_totalvfs=7, sriov_numvfs=1)
        virtual = machine.soft_roce(f"rxe{number + 2}", f"eth{number}v0", f"{pci}.2", device="0x10ca")
        machine.link(f"{virtual}/physfn", physical)
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["rxe0", "rxe1", "rxe3"]}))["classes"]
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"pfNames": ["eth0"], "isRdma": True}
    assert sriov_pools(facts, entry["sriov"]["config"]) == {"rdma/rdma_x": {"0000:05:00.2"}}
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "exclude": ["rxe2", "rxe3"]}))["classes"]
    assert entry["sriov"]["reason"] == (
        "host n: rxe0 (0000:05:00.0) is wanted, but it has 1 virtual functions, which the plugin offers in its place"
    )


def test_virtual_functions_by_the_name_of_theirs() -> None:
    machine = Machine()
    physical = machine.nic("mlx5_0", "eth0", "0000:3b:00.0", sriov_totalvfs=8, sriov_numvfs=1)
    machine.link(f"{machine.nic('mlx5_1', 'eth0v0', '0000:3b:00.2')}/physfn", physical)
    facts = facts_of(machine)
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet", "kinds": ["vf"]}))["classes"]
    # the plugin leaves the physical function out itself, so nothing but the virtual one is there to be told from
    assert entry["sriov"]["config"]["resourceList"][0]["selectors"] == {"devices": ["1017"], "isRdma": True}
    [entry] = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"] == {
        "config": None,
        "versions": None,
        "reason": "host n: mlx5_0 (0000:3b:00.0) is wanted, but it has 1 virtual functions, "
        "which the plugin offers in its place",
    }


def test_what_carries_the_default_route_is_not_offered() -> None:
    machine = Machine()
    machine.nic()
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    [entry] = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))["classes"]
    assert entry["sriov"]["reason"] == (
        "host n: mlx5_0 (0000:3b:00.0) is wanted, but it carries the default route of the host"
    )

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts to plan, and the rules by which the device plugins read a plan, written a second time from their sources."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import usable_ports
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


def sriov_devices(facts: Json, version: tuple[int, ...]) -> list[Json]:
    """What the selectors of sriov-network-device-plugin are compared with, for each device that it takes.

    AddTargetDevices() (pkg/netdevice/netDeviceProvider.go), NewGenNetDevice() (pkg/devices/gen_net.go), GetPfName() (pkg/utils/utils.go).
    """
    rows = {device["pci"]: device for device in facts["devices"] if device["pci"]}
    members = [member for device in facts["devices"] if device["lag"] for member in device["lag"]["members"]]
    # name and link type of physical functions; legs of LAGs have no row of their own
    physical = {member["pci"]: (member["netdev"], "ether") for member in members}
    physical |= {pci: (min(row["netdevs"], default=""), row["plugin"]["link_type"]) for pci, row in rows.items()}
    bare = {row["pci"]: row for row in facts.get("bare_functions", []) if row["pci"] not in rows}
    physical = {pci: (min(row["netdevs"], default=""), row["link_type"]) for pci, row in bare.items()} | physical
    listed = []
    for device in rows.values():
        routes = facts.get("management", {}).get("default_route_netdevs", [])
        software = device["kind"] == "software"
        # those of the function
        netdevs = [device["plugin"]["if_name"]] if software else device["netdevs"]
        # HasDefaultRoute() asks for routes without a destination, which netlink 1.3.0 has none of
        in_use = version < (3, 8) and any(netdev in routes for netdev in netdevs)
        has_functions = device["kind"] != "vf" and device["sriov"]["vfs"] > 0
        if device["class"][:2] == "02" and device["plugin"]["driver"] and not in_use and not has_functions:
            name, above = physical.get(device["sriov"]["pf"], ("", ""))
            link = device["plugin"]["link_type"]
            if not device["plugin"]["if_name"] and version >= (3, 6):
                link = above
            listed.append(
                {
                    "vendors": device["vendor"] or "",
                    "devices": device["device"] or "",
                    "drivers": device["plugin"]["driver"],
                    "linkTypes": link,
                    "pciAddresses": device["pci"],
                    "pfNames": name,
                }
            )
        for member in device["lag"]["members"] if device["lag"] and not software and version >= (3, 8) else []:
            if member["pci"] not in (None, device["pci"]):
                # devlink may have enable_rdma for it
                leg = {"vendors": device["vendor"] or "", "devices": device["device"] or "", "linkTypes": "ether"}
                listed.append({**leg, "drivers": device["driver"], "pciAddresses": member["pci"], "pfNames": ""})

    for row in bare.values() if version >= (3, 8) else []:
        if not row["sriov"]["vfs"] and row["pci"] not in [device["pciAddresses"] for device in listed]:
            # the same: the worst that devlink may say
            name, above = physical.get(row["sriov"]["pf"], ("", ""))
            link = row["link_type"] if row["netdevs"] or not row["sriov"]["pf"] else above
            own = {"vendors": row["vendor"], "devices": row["device"] or "", "linkTypes": link, "pfNames": name}
            listed.append({**own, "drivers": row["driver"], "pciAddresses": row["pci"]})
    return listed


def sriov_selected(device: Json, selectors: Json) -> bool:
    """IsRdma() (pkg/devices/rdma.go), getItem() (pkg/resources/deviceSelectors.go)."""
    assert selectors["isRdma"] is True
    for kind, wanted in selectors.items():
        if kind == "pfNames":
            if not device[kind] or device[kind].lower() not in [item.split("#")[0].lower() for item in wanted]:
                return False
        elif kind != "isRdma" and device[kind] not in wanted:
            return False
    return True


def sriov_pools(facts: Json, config: Json, version: tuple[int, ...] = (3, 11, 0)) -> dict[str, set[str]]:
    """As plugin_pools() for sriov-network-device-plugin: a device goes to the first object of a resource's selectors that matches.

    GetFilteredDevices() (pkg/netdevice/netDeviceProvider.go).
    """
    listed = sriov_devices(facts, version)
    pools = {}
    for entry in config["resourceList"]:
        assert entry["deviceType"] == "netDevice"
        assert re.search(r"^[a-zA-Z0-9_]+$", entry["resourceName"])
        # versions before 3.6.0 take an object only
        assert isinstance(entry["selectors"], dict)
        pools[f"{entry['resourcePrefix']}/{entry['resourceName']}"] = {
            device["pciAddresses"] for device in listed if sriov_selected(device, entry["selectors"])
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
    virtual = {row["pci"] for row in devices if row["sriov"]["pf"]}
    for row in devices:
        # a virtual function has none of its own
        if row["sriov"]["pf"] in virtual:
            row["sriov"]["pf"] = "0000:7f:00.0"
    return checked({"schema": 1, "devices": devices, "warnings": []})


@st.composite
def bare_function(draw: st.DrawFn, index: int) -> Json:
    """A function without an RDMA device: a physical one, also of devices that there are, or a virtual one."""
    physical = draw(st.sampled_from([None, None, "0000:01:00.0", "0000:7f:00.0"]))
    netdevs = draw(st.sampled_from([[f"eth{9 + index}"], []]))
    return {
        "pci": f"0000:{index + (3 if draw(st.booleans()) else 0x7F):02x}:00.{'2' if physical else '0'}",
        "vendor": "15b3",
        "device": draw(st.sampled_from(["1017", "101b"])),
        "driver": "mlx5_core",
        "netdevs": netdevs,
        "link_type": draw(st.sampled_from(["ether", "infiniband"])) if netdevs else "",
        "sriov": {"total": 0, "vfs": 0 if physical else draw(st.sampled_from([0, 0, 2])), "pf": physical},
    }


CLUSTER = st.lists(host_facts(), min_size=1, max_size=6).map(lambda hosts: {f"n{i}": h for i, h in enumerate(hosts)})


@st.composite
def routed(draw: st.DrawFn) -> dict[str, Json]:
    """A cluster of which some hosts have their default route over an HCA, or functions without RDMA devices."""
    found = {}
    for host, facts in draw(CLUSTER).items():
        routes = draw(st.sampled_from([[], [], [], ["eth0"], ["eth1"]]))
        management = {"default_route_netdevs": routes, "rdma_backed": False, "mounts_over_rdma": []}
        bare = [draw(bare_function(index)) for index in range(draw(st.sampled_from([0, 0, 1, 2])))]
        found[host] = checked({**facts, "management": management, "bare_functions": bare})
    return found


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


def wanted_devices(plan: Json, cluster: dict[str, Json], host: str) -> list[Json]:
    """The devices of a host that are offered by its class."""
    names = {row["device"] for entry in plan["classes"] for row in entry["matches"].get(host, ())}
    return [device for device in cluster[host]["devices"] if device["name"] in names]


def nonempty_subsets(values: list[str]) -> list[tuple[str, ...]]:
    return [each for size in range(1, len(values) + 1) for each in itertools.combinations(values, size)]


def check_sriov_refusal(cluster: dict[str, Json], wanted: dict[str, set[str]], reason: str) -> None:
    """What the reason says is true of the devices that it names."""
    out = re.match(r"host (\w+): (\w+) \((.*?)\) is wanted, but (.*)", reason)
    if out:
        host, name, pci, why = out.groups()
        device = device_of(cluster, host, name)
        assert pci in wanted[host]
        if why == "it carries the default route of the host":
            legs = [member["netdev"] for member in device["lag"]["members"]] if device["lag"] else []
            assert {*device["netdevs"], *legs} & set(cluster[host]["management"]["default_route_netdevs"])
            return
        assert ("virtual functions" in why and device["sriov"]["vfs"] > 0) or (why == "it has no driver")
        return
    # otherwise a function whose address is wanted on one host, and there is an unwanted one on another
    places = re.findall(r"(\w+) \((0000:..:00\.0)\)(?: of host (\w+))?", reason)
    assert len(places) >= 2, reason
    assert "cannot" in reason


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
    assert re.search("together cannot be told from it|but has no|is missing on at least one wanted function", error), (
        error
    )


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


# -- Machines of the groups ------------------------------------------------------------------------------------------


@functools.cache
def captured(*names: str) -> dict[str, Json]:
    return {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in names}


def selectors(plan: Json) -> dict[str, Json]:
    return {entry["name"]: entry["selectors"] for entry in plan["classes"]}


def two_ports(first: str, second: str, wanted: str) -> Json:
    """A host with two like functions, of which one has an Active port."""
    machine = Machine()
    for index, name in enumerate((first, second)):
        function = machine.nic(f"mlx5_{index}", name, f"0000:{59 + index:02x}:00.0")
        state = "4: ACTIVE" if name == wanted else "1: DOWN"
        machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state=state)
    return facts_of(machine)


# -- Classes that last -----------------------------------------------------------------------------------------------


def ports_of(netdevs: str, down: str = "", ids: str = "0x1017", **values: Any) -> Json:
    """A host with a function for each netdev; those of which the port is down."""
    machine = Machine()
    for index, netdev in enumerate(netdevs.split()):
        function = machine.nic(f"mlx5_{index}", netdev, f"0000:{16 + index:02x}:00.0", device=ids, **values)
        if netdev in down.split():
            machine.files(f"{function}/infiniband/mlx5_{index}/ports/1", state="1: DOWN")
    return facts_of(machine)


HEALTHY = st.lists(
    st.tuples(st.sampled_from(["a0 a1", "a0 a1 a2", "b0 b1"]), st.sampled_from(["0x1017", "0x1021", "0x101b"])),
    min_size=1,
    max_size=5,
)


def on(distribution: str | None, netdevs: str = "a0 a1") -> Json:
    facts = ports_of(netdevs)
    return {**facts, "runtime": {**(facts.get("runtime") or {}), "distribution": distribution}}


# What is wanted on a host, and sometimes a card that is not.
CARDS = st.tuples(
    st.lists(st.sampled_from(["0x1017", "0x1021"]), min_size=1, max_size=3),
    st.sampled_from([None, None, None, "0x101b", "0x1021"]),
)


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


SOFTWARE: Json = {"link_layer": "Ethernet", "kinds": ["software"]}


def soft_node(machine: Machine | None = None, **values: Any) -> Machine:
    """A node with Soft-RoCE at a function, a card of the same model without an RDMA device, and one for management."""
    machine = machine or Machine()
    machine.soft_roce(**values)
    machine.netdev("eth2", machine.function("0000:00:06.0", vendor="0x8086", device="0x10d3", driver="e1000e"))
    machine.netdev("eth0", machine.function("0000:00:04.0", vendor="0x1af4", device="0x1000", driver="virtio-pci"))
    return machine


# -- Wishes and groups -----------------------------------------------------------------------------------------------

NAME = "letters, digits and underscores (the plugin refuses anything else), such as rdma_v100"


def group(*hosts: str) -> Json:
    return {"hosts": list(hosts), **RESOURCE}


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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every port that is left out is told, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import (
    CLUSTER,
    RESOURCE,
    SOFTWARE,
    STRATEGY,
    WANT,
    Json,
    captured,
    device_of,
    management,
    plugin_pool,
    portless,
    soft_node,
    soft_roce,
    sub_function,
    virtual_function,
    wishes,
)


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


def test_what_the_plugin_cannot_see_is_reported() -> None:
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
def test_an_exclusion_that_matches_nothing_is_a_warning(exclude: list[str], told: list[str]) -> None:
    machine = Machine()
    function = machine.nic()
    machine.netdev("eth0", function, master="bond0")
    machine.bond("bond0", "eth0")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet", "exclude": exclude}))
    warnings = [text for text in plan["warnings"] if text.startswith("rdma_want.exclude: ")]
    assert [text.split()[1] for text in warnings] == told
    # a member of a bond that is not a LAG goes by the bond's name, too
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


@pytest.mark.parametrize("rate", ["10 Gb/sec (4X SDR)", "200 Gb/sec (4X HDR)", "?"])
def test_the_rate_of_a_port_that_is_down_decides_nothing(rate: str) -> None:
    """It is that of a link which is not there: a group that plans before its cables are in gets what it will have."""
    machine = Machine()
    for index, (state, own) in enumerate([("4: ACTIVE", "200 Gb/sec (4X HDR)"), ("1: DOWN", rate)]):
        function = machine.function(f"0000:{index + 1}b:00.0", device="0x101b")
        machine.port(machine.hca(f"mlx5_{index}", function), link_layer="InfiniBand", state=state, rate=own)
        machine.netdev(f"ib{index}", function, type="32")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"state": "any", "min_rate_gbps": 100}))
    assert [row["device"] for row in plan["wanted"]["n"]] == ["mlx5_0", "mlx5_1"]
    (entry,) = plan["classes"]
    assert entry["selectors"] == {"deviceIDs": ["101b"]}


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
def test_a_port_that_is_left_out_has_its_reason(port: Json, want: Json, reason: str) -> None:
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


def test_the_reason_of_a_member_names_its_bond() -> None:
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


def test_unwanted_software_devices_are_distinguished_from_the_others() -> None:
    machine = soft_node()
    machine.nic("mlx5_1", "eth3")
    facts = facts_of(machine)
    plan = plan_group("g", {"n": facts}, wishes({"link_layer": "Ethernet"}))
    [entry] = plan["classes"]
    assert plugin_pool(facts, entry["config"]) == {"0000:3b:00.0"}
    assert [row["reason"] for row in plan["exclusions"]] == ["software device (rdma_rxe), the group wants kinds pf"]
    [entry] = plan_group("g", {"n": facts}, wishes({**SOFTWARE, "kinds": ["pf", "software"]}))["classes"]
    assert plugin_pool(facts, entry["config"]) == {"0000:3b:00.0", "0000:00:05.0"}


def test_a_port_of_a_software_device_that_is_down_is_reported() -> None:
    facts = facts_of(soft_node(state="1: DOWN"))
    plan = plan_group("g", {"n": facts}, wishes(SOFTWARE))
    assert plan["errors"] == [
        "host n has no usable port (mlx5_0: port is Down (phys state LinkUp), the group wants Active)"
    ]


def test_a_wanted_default_route_is_reported() -> None:
    machine = Machine()
    machine.nic()
    machine.file("/proc/net/route", "Iface\neth0\t00000000\t0\t3\t0\t0\t0\t00000000\n")
    plan = plan_group("g", {"n": facts_of(machine)}, wishes({"link_layer": "Ethernet"}))
    assert plan["errors"] == []
    assert plan["warnings"] == ["host n: mlx5_0 is wanted and carries the default route (eth0)"]


def test_a_port_that_comes_along_is_a_warning() -> None:
    machine = Machine()
    function = machine.nic("mlx4_0", "ib0")
    machine.port(f"{function}/infiniband/mlx4_0", 2, state="1: DOWN")
    plan = plan_group("g", {"a": facts_of(machine)}, {**RESOURCE, "want": {"link_layer": "Ethernet"}})
    assert [row["port"] for row in plan["wanted"]["a"]] == [1]
    assert plan["warnings"] == [
        "host a: mlx4_0 comes as a whole, so Pods that get port 1 can also use port 2 of it, which is not wanted"
    ]


@pytest.mark.parametrize("leg", ["bond0", "enp225s0f0np0", "enp225s0f1np1", "0000:e1:00.1"])
def test_each_name_of_each_leg_excludes_a_lag(leg: str) -> None:
    """Its legs have one RDMA device together."""
    want = {"link_layer": "Ethernet", "exclude": [leg]}
    plan = plan_group("g", captured("ib-a100-1"), wishes(want))
    assert [row["reason"] for row in plan["exclusions"] if row["device"] == "mlx5_bond_0"] == [
        f"excluded by name ({leg})"
    ]
    assert not [text for text in plan["warnings"] if text.startswith("rdma_want.exclude: ")]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the real DRANET publishes of recorded nodes, and what is said of it from their facts (_systems/dranet.py), by which selectors are chosen.

The driver runs unmodified, below a node's files, in a network namespace with links of the recorded names. API server, kubelet and runtime
are stand-ins that let it come as far as its first ResourceSlice (recorded_driver.py).
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import FILTER
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import published
from ansible_collections.fabric.rdma.tests.judges.running import Node, publishes
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of

Json = dict[str, t.Any]
pytestmark = pytest.mark.judges

# Host -> how many functions with RDMA it has.
RECORDED = {"ib-v100-1": 2, "ib-a100-1": 3, "gb200-1": 8, "roce-rails-1": 8}
# Of a link that was made here, or of its device, which not every recording links it to; no selector reads them.
OTHERS = {f"dra.net/{name}" for name in ("mtu", "state", "type", "sriov", "sriovVfs", "isSriovVf")}
# What DRANET tells besides, which no selector reads either.
UNREAD = OTHERS | {f"dra.net/{name}" for name in ("alias", "ebpf", "ipv4", "ipv6", "mac", "pciSubsystem")}


def assert_foretold(facts: Json, real: dict[str, Json], count: int) -> None:
    """Of each function with RDMA, by every attribute that a selector can read, and of no other."""
    foretold = {each.name: each.views for each in published(facts, move_ib=False) if each.pci}
    assert real.keys() == foretold.keys()
    assert len(real) == count
    for name, own in real.items():
        print(f"\n{name}: {own}", end="")
        read = {key: value for key, value in own.items() if key not in UNREAD}
        views = [{key: value for key, value in view.items() if key not in UNREAD} for view in foretold[name]]
        assert read in views, views


@pytest.mark.parametrize("host", RECORDED)
def test_what_dranet_publishes_of_a_recorded_node_is_foretold(host: str, tmp_path: Path) -> None:
    tree = open_tree(str(CAPTURES / f"{host}.capture"))
    real = publishes(Node(dict(record(tree)), tmp_path), 2, FILTER)
    assert_foretold(checked(gather(tree)), real, RECORDED[host])


@pytest.mark.parametrize("numa_nodes", [1, 2])
def test_a_numa_node_is_published_where_there_are_several(numa_nodes: int, tmp_path: Path) -> None:
    machine = Machine()
    machine.nic()
    real = publishes(Node(machine.entries, tmp_path), numa_nodes, FILTER)
    assert_foretold(facts_of(machine), real, 1)
    [own] = real.values()
    assert own.get("dra.net/numaNode") == (0 if numa_nodes == 2 else None)


def test_soft_roce_at_a_function_is_foretold(tmp_path: Path) -> None:
    """As nodes of the lab have it, beside a network card without RDMA, which the filter leaves out."""
    machine = Machine()
    machine.soft_roce()
    machine.netdev("eth0", machine.function("0000:00:04.0", "pci0000:00", driver="e1000e"))
    assert_foretold(facts_of(machine), publishes(Node(machine.entries, tmp_path), 1, FILTER), 1)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as they are wished for, and what makes a node this node."""

from __future__ import annotations

import io
import re
import tarfile
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import (
    RESERVED_NAMES,
    NodePlan,
    config_archive,
    console_tail,
    plan_nodes,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LOCK_FILE
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import NODES


@pytest.mark.parametrize("value", [2, "2", ["lab1", "lab2"], [{"name": "lab1"}, "lab2"]])
def test_nodes_are_given_in_any_form(value: object) -> None:
    assert plan_nodes(value, 1024, 1) == (NodePlan("lab1", 0, 1024, 1), NodePlan("lab2", 1, 1024, 1))


def test_a_node_may_differ() -> None:
    (node,) = plan_nodes([{"name": "big", "memory_mib": 4096, "cpus": "4"}], 1024, 1)
    assert node == NodePlan("big", 0, 4096, 4)
    assert (node.address, node.mac(0), node.mac(1)) == ("198.51.100.1", "52:54:00:fa:00:01", "52:54:00:fa:01:01")


def test_an_hca_has_its_network_cable_and_bond() -> None:
    """Two cards of one network, of which one has its cable out, a bond, and a card of another network."""
    bond = {"name": "mlx5_bond_0", "bond": True}
    wishes = ["mlx5_0", {"name": "mlx5_1", "cable": "no"}, bond, {"name": "mlx5_2", "rail": "1"}]
    (_first, node) = plan_nodes(["a", {"name": "b", "hcas": wishes}], 1024, 1)
    assert [(hca.name, hca.netdev, node.address_of(hca), hca.cable, list(hca.cards)) for hca in node.hcas] == [
        ("mlx5_0", "eth1", "198.51.100.2", True, [1]),
        ("mlx5_1", "eth2", "198.51.100.34", False, [2]),
        ("mlx5_bond_0", "bond0", "198.51.100.66", True, [3, 4]),
        ("mlx5_2", "eth5", "198.18.1.2", True, [5]),
    ]
    data = config_archive(node, [node], "", "", "")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        text = t.cast(t.IO[bytes], archive.extractfile("etc/fabric-rdma-lab.conf")).read().decode()
    assert "mlx5_bond_0 bond0 198.51.100.66/24 eth3 eth4\n" in text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "the lab has 0 nodes: give 1 to 32"),
        (33, "the lab has 33 nodes: give 1 to 32"),
        ([], "the lab has 0 nodes"),
        (True, "nodes is True"),
        (None, "nodes is None"),
        ("two", "nodes is 'two'"),
        ([1], "nodes[0] is 1: give a name or a dict with name"),
        (["a", {"memory_mib": 512}], "nodes[1] is {'memory_mib': 512}"),
        (["Lab1"], "nodes[0].name is 'Lab1'"),
        (["lab1\n"], "nodes[0].name is 'lab1\\n'"),
        (["../x"], "nodes[0].name is '../x'"),
        (["-oProxyCommand=x"], "nodes[0].name is '-oProxyCommand=x'"),
        (["a", "a"], "nodes[1].name is 'a', and so is an earlier one"),
        (["lock"], "nodes[0].name is 'lock', which the lab uses itself: give another name"),
        (["a", "control-plane"], "nodes[1].name is 'control-plane', which the lab uses itself"),
        ([{"name": "localhost"}], "nodes[0].name is 'localhost', which the lab uses itself"),
        ([{"name": "a", "ram": 1}], "nodes[0] has the unknown keys ram"),
        ([{"name": "a", "cpus": 0}], "nodes[0].cpus is 0: give a whole number from 1 to 64"),
        ([{"name": "a", "memory_mib": "1G"}], "nodes[0].memory_mib is '1G'"),
        ([{"name": "a", "hcas": []}], "nodes[0].hcas is []: give a list of 1 to 7 names"),
        ([{"name": "a", "hcas": "mlx5_0"}], "nodes[0].hcas is 'mlx5_0': give a list"),
        ([{"name": "a", "hcas": ["mlx5_0"] * 8}], "nodes[0].hcas is ["),
        ([{"name": "a", "hcas": ["x", "x"]}], "nodes[0].hcas[1].name is 'x', and so is an earlier one"),
        ([{"name": "a", "hcas": [1]}], "nodes[0].hcas[0] is 1: give a name"),
        ([{"name": "a", "hcas": ["0"]}], "nodes[0].hcas[0].name is '0'"),
        ([{"name": "a", "hcas": ["x y"]}], "nodes[0].hcas[0].name is 'x y'"),
        ([{"name": "a", "hcas": [{"name": "x", "link": "up"}]}], "nodes[0].hcas[0] has the unknown keys link"),
        (
            [{"name": "a", "hcas": [{"name": "x", "cable": "out"}]}],
            "nodes[0].hcas[0].cable is 'out': give true or false",
        ),
        ([{"name": "a", "hcas": [{"name": "x", "rail": 256}]}], "nodes[0].hcas[0].rail is 256"),
    ],
)
def test_wrong_nodes_are_named(value: object, message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        plan_nodes(value, 1024, 1)


def test_no_node_has_the_name_of_a_file_of_the_lab() -> None:
    assert {LOCK_FILE, CLUSTER_DIRECTORY} <= set(RESERVED_NAMES)


def test_a_node_finds_its_names_and_keys_on_its_disk() -> None:
    data = config_archive(NODES[0], NODES, "PRIVATE\n", "PUBLIC\n", "CLIENT\n")
    assert len(data) % 512 == 0  # a disk has whole sectors
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        content = {member.name: t.cast(t.IO[bytes], archive.extractfile(member)).read().decode() for member in archive}
        modes = {member.name: member.mode for member in archive}
    assert content["etc/hostname"] == "lab1\n"
    assert content["etc/hosts"].splitlines()[1:] == ["198.51.100.1 lab1", "198.51.100.2 lab2"]
    assert "LAB_FABRIC_ADDRESS=198.51.100.1/24\n" in content["etc/fabric-rdma-lab.conf"]
    assert modes["etc/ssh/ssh_host_ed25519_key"] == modes["root/.ssh/authorized_keys"] == 0o600
    # Only files: an entry for a directory would change the mode of one that the node has.
    assert all(not name.endswith("/") for name in content)


def test_console_tail_is_plain_text() -> None:
    text = "[    0.1] one\r\n\x1b[0;32m  OK  \x1b[0m] two\r\n\r\n\x1bc\x1b[?7l\x1b[2Jthree\r"
    assert console_tail(text, 2) == "  OK  ] two\nthree"
    assert console_tail("", 5) == ""

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import fabric_map
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.table import fabric_table
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._fabric.fabrics import answers_of, view_of


def test_leaves_then_what_nobody_knows_then_what_is_wrong() -> None:
    cables = {"n1": "AB", "n2": "BA", "n3": "AB", "n4": "A-"}
    view = view_of(cables)
    lines = fabric_table(fabric_map(view, None, answers_of(view, cables)))
    assert [line.split() for line in lines[:3]] == [
        ["LEAF", "LINK", "RAILS", "HOSTS"],
        ["leaf-A", "InfiniBand", "0,", "1", "n1..n4", "(4", "hosts)"],
        ["leaf-B", "InfiniBand", "0,", "1", "n1..n3", "(3", "hosts)"],
    ]
    assert lines[3].startswith("not on the map: ports of n4: it is in none of the fabrics")
    assert any(line.startswith("warning: the cables of n2 mlx5_0 port 1 and n2 mlx5_1 port 1") for line in lines)
    assert max(len(line) for line in lines) <= 100


def test_a_map_of_nothing_says_so() -> None:
    lines = fabric_table(fabric_map(view_of({"n1": "A"}), None, {}))
    assert lines[0] == "no port of a host is on the map"
    assert len(lines) > 1


def test_what_switches_call_themselves_moves_no_cursor() -> None:
    cables = {"n1": "A"}
    view = view_of(cables)
    found = fabric_map(view, None, answers_of(view, cables))
    found["switches"][0]["name"] = "\x1b[2J" + "x" * 300
    lines = fabric_table(found)
    assert all(line.isprintable() and len(line) <= 100 for line in lines)

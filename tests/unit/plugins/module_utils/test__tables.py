# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._selectors import plan_group
from ansible_collections.fabric.rdma.plugins.module_utils._tables import (
    WIDTH,
    device_table,
    plan_table,
    printable,
    table,
)
from ansible_collections.fabric.rdma.plugins.module_utils._tree import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of

NAMES = sorted(path.stem for path in CAPTURES.glob("*.capture"))
EVERY = {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in NAMES}


@pytest.mark.parametrize(
    ("value", "text"),
    [("a\x1b[31mb", "a?[31mb"), ("a\nb\rc\0", "a?b?c?"), ("\u202eb", "?b"), ("\udcff", "?"), ("é", "é"), (1.5, "1.5")],
)
def test_control_characters_do_not_reach_the_terminal(value: object, text: str) -> None:
    assert printable(value) == text


def test_a_last_column_is_wrapped_where_it_may_be() -> None:
    rows = [("x", "one two three"), ("y", ""), ("z", "four")]
    expected = ["A  B", "x  one two", "   three", "y", "z  four"]
    assert table(("A", "B"), rows, 11, wrap=True) == expected
    wide = table(("A", "B"), [("x" * 8, "one two three")], 11, wrap=True)
    assert wide == ["A         B", "xxxxxxxx  …"], "no room to wrap in"


def test_a_table_is_aligned_and_cut() -> None:
    assert table(("A", "LONG"), [("xyz", 1), ("", "w" * 20)], 12) == ["A    LONG", "xyz  1", "     wwwwww…"]


@given(st.lists(st.lists(st.text(max_size=80), min_size=3, max_size=3), max_size=5), st.booleans())
def test_no_line_is_too_long(rows: list[list[str]], wrap: bool) -> None:
    lines = table(("A", "B", "C"), rows, wrap=wrap)
    assert len(lines) == len(rows) + 1 or (wrap and len(lines) > len(rows))
    assert all(len(line) <= WIDTH and line.isprintable() for line in lines)


def test_the_table_of_the_devices_of_a_cluster() -> None:
    lines = device_table(EVERY)
    assert max(len(line) for line in lines) <= WIDTH
    groups = {name.rpartition("-")[0] for name in EVERY}
    for group in groups:
        alone = device_table({name: facts for name, facts in EVERY.items() if name.startswith(group)})
        assert not any(line.endswith("…") for line in alone), "nothing has to be cut for real machines"
    assert lines[0].split() == ["HOST", "DEVICE", "P", "LINK", "STATE", "GB/S", "NETDEV", "PCI", "PLUGIN", "SEES"]
    assert ["no-rdma", "no", "RDMA", "device"] in [line.split() for line in lines]


def test_the_table_of_one_host() -> None:
    assert [line.split() for line in device_table({"ib-a100-1": EVERY["ib-a100-1"]})[1:]] == [
        ["ib-a100-1", "mlx5_0", "1", "IB", "Down", "10", "ibp33s0", "0000:21:00.0", "infiniband"],
        ["mlx5_1", "1", "IB", "Active", "200", "ibp161s0", "0000:a1:00.0", "infiniband"],
        ["mlx5_bond_0", "1", "Eth", "Active", "10", "bond0", "0000:e1:00.0", "ether", "enp225s0f0np0"],
    ]


def test_what_the_plugin_does_not_see() -> None:
    machine = Machine()
    machine.nic()
    machine.remove("/sys/class/infiniband_mad")
    machine.hca("mlx5_1", machine.function("0000:3b:00.1"), nodes=False)
    machine.files("/sys/class/infiniband_mad/umad1", ibdev="mlx5_1")
    machine.files("/sys/class/infiniband_verbs/uverbs1", ibdev="mlx5_1")
    lines = device_table({"n": facts_of(machine)})
    assert [line.split("  ")[-1].strip() for line in lines] == ["PLUGIN SEES", "no: umad device missing", "no netdev"]
    assert lines[2].split()[:5] == ["mlx5_1", "-", "-", "-", "-"]


def plan(*hosts: str, **wishes: Any) -> dict[str, Any]:
    return plan_group("ib-a100", {host: EVERY[host] for host in hosts}, {"resource": {"name": "x"}, **wishes})


def test_the_table_of_a_plan() -> None:
    lines = plan_table(plan("ib-a100-1", "ib-a100-2", "ib-a100-3"))
    rows = [line.split() for line in lines]
    assert rows[0] == ["CLASS", "ON", "SELECTS", "BY"]
    assert ["ib-a100-ibp161s0", "ib-a100-1", "and", "1", "more", "mlx5_1", "ifNames", "ibp161s0"] in rows
    assert ["ib-a100-ibp33s0", "ib-a100-2", "mlx5_0", "ifNames", "ibp33s0"] in rows
    assert ["LEFT", "OUT", "ON", "BECAUSE"] in rows
    at = next(number for number, line in enumerate(lines) if "bond0" in line)
    assert "ib-a100-1 and 2 more" in lines[at]
    reason = " ".join(line.split("  ")[-1].strip() for line in lines[at : at + 2])
    assert reason == "Ethernet bond bond0 (active-backup), the group wants InfiniBand"
    assert any(line.startswith("warning: no single configuration is exact on every host") for line in lines)
    assert max(len(line) for line in lines) <= WIDTH


def test_a_plan_of_errors_only() -> None:
    lines = plan_table(plan("no-rdma"))
    assert lines == ["", "error: host no-rdma has no usable port (no RDMA device)"]


@given(st.text(max_size=300))
def test_texts_of_a_plan_are_wrapped(text: str) -> None:
    empty = {"classes": [], "exclusions": [], "warnings": [text], "errors": [text]}
    lines = plan_table({**empty, "exclusions": [{"host": text, "device": text, "port": 1, "reason": text}]})
    assert all(len(line) <= WIDTH and (line.isprintable() or not line) for line in lines)

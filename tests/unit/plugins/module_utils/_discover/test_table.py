# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    WIDTH,
    hosts_label,
    printable,
    shared_domain,
    short,
    table,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.table import device_table
from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
from ansible_collections.fabric.rdma.tests.unit.contracts import a_group, plan_group
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of

NAMES = sorted(path.stem for path in CAPTURES.glob("*.capture"))
EVERY = {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in NAMES}


@pytest.mark.parametrize(
    ("value", "text"),
    [("a\x1b[31mb", "a?[31mb"), ("a\nb\rc\0", "a?b?c?"), ("\u202eb", "?b"), ("\udcff", "?"), ("é", "é"), (1.5, "1.5")],
)
def test_control_characters_do_not_reach_the_terminal(value: object, text: str) -> None:
    assert printable(value) == text


def test_what_does_not_fit_is_continued() -> None:
    rows = [("x", "one two three"), ("y", ""), ("z", "four")]
    assert table(("A", "B"), rows, 11) == ["A  B", "x  one two", "   three", "y", "z  four"]
    assert table(("A", "LONG"), [("xyz", 1), ("", "w" * 20)], 16) == [
        *("A    LONG", "xyz  1"),
        *("     wwwwwwwwwww", "     wwwwwwwww"),
    ]
    lists = table(("A", "B"), [("x", "ifNames ibp1s0,ibp2s0,ibp3s0")], 20)
    assert lists == ["A  B", "x  ifNames ibp1s0,", "   ibp2s0,ibp3s0"], "broken after a comma, not in a name"


@given(st.lists(st.lists(st.text(max_size=300), min_size=3, max_size=3), max_size=5), st.integers(20, 120))
def test_no_line_is_too_long_and_nothing_is_lost(rows: list[list[str]], width: int) -> None:
    lines = table(("A", "B", "C"), rows, width)
    assert all(len(line) <= width and line.isprintable() for line in lines)
    wanted = sorted(char for row in rows for cell in row for char in printable(cell) if not char.isspace())
    shown = sorted(char for line in lines[1:] for char in line if not char.isspace())
    assert shown == wanted


@given(st.lists(st.text(max_size=150), min_size=9, max_size=9))
def test_many_columns_fit_too(cells: list[str]) -> None:
    assert all(len(line) <= WIDTH for line in table(["H"] * 9, [cells]))


def test_the_table_of_a_cluster_shows_every_host_within_its_width() -> None:
    lines = device_table(EVERY)
    assert max(len(line) for line in lines) <= WIDTH
    assert lines[0].split() == ["DEVICE", "P", "LINK", "STATE", "GB/S", "NETDEV", "PCI", "PLUGIN", "SEES"]
    assert ["no", "RDMA", "device"] in [line.split() for line in lines]
    for group in sorted({name.rpartition("-")[0] for name in EVERY}):
        for host, facts in EVERY.items():
            if host.startswith(group):
                alone = device_table({host: facts})
                assert alone[0].startswith("HOST "), "names stand beside the devices of real machines"


DOMAIN = ".cluster.rack7.datacentre.example.com"


@pytest.mark.parametrize("hosts", [["gpu-node-0001" + DOMAIN], ["n1" + DOMAIN, "n2.other" + DOMAIN]])
def test_long_names_of_hosts_leave_room_for_what_the_plugin_sees(hosts: list[str]) -> None:
    lines = device_table(dict.fromkeys(hosts, EVERY["ib-v100-unprepared"]))
    assert max(len(line) for line in lines) <= WIDTH
    assert ", ".join(hosts)[:40] in " ".join(lines)
    assert [line for line in lines if line.endswith("no: umad device missing")] == lines[-2:]


def test_a_shared_domain_is_said_once() -> None:
    kinds = {"n1": "ib-v100-1", "n2": "gb200-1", "n10": "no-rdma"}
    lines = device_table({name + DOMAIN: EVERY[kind] for name, kind in kinds.items()})
    assert lines[0] == "all hosts in cluster.rack7.datacentre.example.com"
    assert [line.split()[0] for line in lines[2:] if not line.startswith(" ")] == ["HOST", "n1", "n2", "n10"]
    assert "example" not in "".join(lines[1:])


def test_a_thousand_equal_hosts_take_as_many_lines_as_one() -> None:
    hosts = {f"gpu-{number:04}{DOMAIN}": EVERY["gb200-1"] for number in range(1, 1001)}
    lines = device_table(hosts)
    assert len(lines) == 2 + 1 + 1 + 8
    assert "gpu-0001..gpu-1000 (1000 hosts)" in lines
    hosts[f"gpu-0500{DOMAIN}"] = EVERY["gb200-1"] | {"devices": EVERY["gb200-1"]["devices"][:7]}
    lines = device_table(hosts)
    assert len(lines) == 2 + 1 + 1 + 8 + 1 + 7
    assert {"gpu-0001..gpu-0499, gpu-0501..gpu-1000 (999 hosts)", "gpu-0500"} <= set(lines)


def test_continued_lines_stay_with_their_host() -> None:
    facts = EVERY["ib-v100-1"] | {
        "devices": [device | {"name": device["name"] + "q" * 60} for device in EVERY["ib-v100-1"]["devices"]]
    }
    lines = device_table({"a" + "n" * 90: facts, "b" + "n" * 90: EVERY["gb200-1"]})
    assert max(len(line) for line in lines) <= WIDTH
    at = lines.index("b" + "n" * 90)
    assert lines[1] == "a" + "n" * 90
    assert "".join(line[:50].strip().split(" ")[0] for line in lines[2:at]).count("q") == 120
    assert len(lines) - at - 1 == 8


@pytest.mark.parametrize(
    ("hosts", "label"),
    [
        ([], ""),
        (["a1"], "a1"),
        (["a3", "a1"], "a1, a3"),
        (["a1", "a2", "a3"], "a1..a3 (3 hosts)"),
        ([f"n{number:02}" for number in range(1, 13) if number != 7], "n01..n06, n08..n12 (11 hosts)"),
        ([f"n{number}" for number in range(0, 99, 2)], "n0, n2, n4, n6, n8, n10, n12, n14, n16, ... (50 hosts)"),
        # Python reads no number of more than 4300 digits
        (["n" + "1" * 5000], "n" + "1" * 5000),
        ([f"n{'1' * 5000}{number}" for number in range(3)], f"n{'1' * 5000}0..n{'1' * 5000}2 (3 hosts)"),
        (["x" * 60, "y" * 60], "x" * 60 + ", ... (2 hosts)"),
    ],
)
def test_hosts_in_a_row_are_a_range(hosts: list[str], label: str) -> None:
    assert hosts_label(hosts) == label


@pytest.mark.parametrize(
    ("hosts", "domain"),
    [
        (["a.x.y", "b.x.y"], ".x.y"),
        (["a.x", "b.y"], ""),
        (["a.x"], ""),
        (["a", "b"], ""),
        (["10.0.0.1", "11.0.0.1"], ""),
        ([".x", "a.x"], ""),
    ],
)
def test_a_domain_that_all_hosts_share_is_left_out(hosts: list[str], domain: str) -> None:
    assert shared_domain(hosts) == domain
    assert [short(host, domain) + domain for host in hosts] == hosts


def test_the_table_of_one_host_has_a_row_for_each_port() -> None:
    assert [line.split() for line in device_table({"ib-a100-1": EVERY["ib-a100-1"]})[1:]] == [
        ["ib-a100-1", "mlx5_0", "1", "IB", "Down", "10", "ibp33s0", "0000:21:00.0", "infiniband"],
        ["mlx5_1", "1", "IB", "Active", "200", "ibp161s0", "0000:a1:00.0", "infiniband"],
        ["mlx5_bond_0", "1", "Eth", "Active", "10", "bond0", "0000:e1:00.0", "ether", "enp225s0f0np0"],
    ]


def test_the_table_names_what_the_plugin_cannot_see() -> None:
    machine = Machine()
    machine.nic()
    machine.remove("/sys/class/infiniband_mad")
    machine.hca("mlx5_1", machine.function("0000:3b:00.1"), nodes=False)
    machine.files("/sys/class/infiniband_mad/umad1", ibdev="mlx5_1")
    machine.files("/sys/class/infiniband_verbs/uverbs1", ibdev="mlx5_1")
    lines = device_table({"n": facts_of(machine)})
    assert [line.rpartition("  ")[2].strip() for line in lines] == [
        "PLUGIN SEES",
        "no: umad device missing for good",
        "no netdev",
    ]
    assert lines[2].split()[:5] == ["mlx5_1", "-", "-", "-", "-"]


def plan(*hosts: str, **wishes: Any) -> dict[str, Any]:
    return plan_group("ib-a100", {host: EVERY[host] for host in hosts}, {"resource": {"name": "x"}, **wishes})


def test_the_table_of_a_plan_says_what_is_selected_and_why_the_rest_is_not() -> None:
    lines = plan_table(plan("ib-a100-1", "ib-a100-2", "ib-a100-3"))
    rows = [line.split() for line in lines]
    assert rows[0] == ["CLASS", "ON", "SELECTS", "BY"]
    assert ["ib-a100-ibp161s0", "ib-a100-1,", "ib-a100-3", "mlx5_1", "ifNames", "ibp161s0"] in rows
    assert ["ib-a100-ibp33s0", "ib-a100-2", "mlx5_0", "ifNames", "ibp33s0"] in rows
    assert ["LEFT", "OUT", "ON", "BECAUSE"] in rows
    at = next(number for number, line in enumerate(lines) if "bond0" in line)
    assert "ib-a100-1..ib-a100-3 (3 hosts)" in lines[at]
    reason = " ".join(line.rpartition("  ")[2].strip() for line in lines[at : at + 2])
    assert reason == "Ethernet bond bond0 (active-backup), the group wants InfiniBand"
    assert any(line.startswith("warning: no single configuration is exact on every host") for line in lines)
    assert max(len(line) for line in lines) <= WIDTH


def test_rails_have_a_line_each() -> None:
    hosts = {host: EVERY[host] for host in ("roce-rails-1", "roce-rails-2")}
    wishes = {"resource": {"name": "x"}, "want": {"link_layer": "Ethernet"}, "rails": True}
    lines = plan_table(plan_group("roce", hosts, wishes))
    rows = [re.split("  +", line.strip()) for line in lines]
    assert rows[0] == ["CLASS", "ON", "SELECTS", "BY"]
    assert rows[1][1:] == ["roce-rails-1, roce-rails-2", "mlx5_0 as rdma/x_gpu1", "ifNames enp11s0f0np0"]
    assert rows[8] == ["mlx5_7 as rdma/x_gpu8", "ifNames enp18s0f0np0"]
    assert max(len(line) for line in lines) <= WIDTH


def test_what_a_class_would_match_later_has_a_line() -> None:
    own = plan("ib-a100-1")
    before = plan_table(own)
    assert [entry["matched_later"] for entry in own["classes"]] == [[]]
    assert not [line for line in before if "match" in line]
    own["classes"][0]["matched_later"] = ["a virtual function", "a card of another model"]
    said = "ib-a100-ibp161s0 would also match, if it came: a virtual function, a card of another model"
    assert [line for line in plan_table(own) if line not in before] == [said]


def test_a_plan_of_errors_has_no_table_of_classes() -> None:
    lines = plan_table(plan("no-rdma"))
    assert lines == ["", "error: host no-rdma has no usable port (no RDMA device)"]


def test_errors_that_differ_only_in_the_host_are_one() -> None:
    errors = [f"host n{number} has no usable port (no RDMA device)" for number in range(1, 1001)]
    errors += ["host n7: exclusive", "host n8: exclusive", "host n9: other", "of all"]
    lines = plan_table(a_group(errors=errors))
    assert [line for line in lines if line] == [
        "error: n1..n1000 (1000 hosts): each has no usable port (no RDMA device)",
        "error: n7, n8 (2 hosts): exclusive",
        "error: host n9: other",
        "error: of all",
    ]
    many = plan_table(a_group(warnings=[str(n) for n in range(99)]))
    assert many[-1] == "and 79 more warnings, in plan.json"


@given(st.text(max_size=300))
def test_texts_of_a_plan_are_wrapped(text: str) -> None:
    row = {"host": text, "device": text, "port": 1, "netdev": None, "reason": text}
    lines = plan_table(a_group(exclusions=[row], warnings=[text], errors=[text]))
    assert all(len(line) <= WIDTH and (line.isprintable() or not line) for line in lines)

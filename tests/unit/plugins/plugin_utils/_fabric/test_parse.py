# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.parse import (
    Neighbour,
    Spot,
    parse_ibnetdiscover,
    parse_lldp,
)

# A leaf, a spine, two hosts, in the form of infiniband-diags; a description may hold anything.
DISCOVERED = """#
# Topology file: generated on Mon Mar  2 10:00:00 2026
#
# Initiated from node 0200000300001000 port 0200000300001000

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x20000030000aaa0
switchguid=0x20000030000aaa0(20000030000aaa0)
Switch\t41 "S-020000030000aaa0"\t\t# "MF0;leaf-1:MQM8700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-0200000300001000"[1](200000300001000) \t\t# "n1 mlx5_0" lid 5 4xHDR
[2]\t"H-0200000300002000"[1](200000300002000) \t\t# "n2 "[9]" mlx5_0" lid 6 4xHDR
[39]\t"S-020000030000bbb0"[1]\t\t# "MF0;spine-1:MQM8700/U1" lid 2 4xHDR
[40]\t"S-020000030000bbb0"[2]\t\t# "MF0;spine-1:MQM8700/U1" lid 2 4xHDR

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x20000030000bbb0
switchguid=0x20000030000bbb0(20000030000bbb0)
Switch\t41 "S-020000030000bbb0"\t\t# "" enhanced port 0 lid 2 lmc 0
[1]\t"S-020000030000aaa0"[39]\t\t# "MF0;leaf-1:MQM8700/U1" lid 1 4xHDR
[2]\t"S-020000030000aaa0"[40]\t\t# "MF0;leaf-1:MQM8700/U1" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x200000300001000
caguid=0x200000300001000
Ca\t1 "H-0200000300001000"\t\t# "n1 mlx5_0"
[1](200000300001000) \t"S-020000030000aaa0"[1]\t\t# lid 5 lmc 0 "MF0;leaf-1:MQM8700/U1" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x200000300003000
caguid=0x200000300003000
Ca\t2 "H-0200000300003000"\t\t# "n3 mlx5_0"
[2](0x200000300003001) \t"S-0x020000030000bbb0"[7]\t\t# lid 5 lmc 0 "x" lid 1 4xHDR
"""
LEAF, SPINE = "020000030000aaa0", "020000030000bbb0"


def test_switches_ends_and_trunks() -> None:
    found = parse_ibnetdiscover(DISCOVERED)
    assert found.switches == {LEAF: "MF0;leaf-1:MQM8700/U1", SPINE: ""}
    assert found.ends == {
        "0200000300001000": Spot(LEAF, "1"),
        "0200000300002000": Spot(LEAF, "2"),
        "0200000300003001": Spot(SPINE, "7"),
    }
    assert found.trunks == {(LEAF, SPINE): 2}


@pytest.mark.parametrize(
    "text", ["", "ibwarn: [42] mad_rpc: _do_madrpc failed", '[1] "H-1"[1](2)', "\0" * 100, 'Switch\t1 "S-"']
)
def test_text_that_is_not_from_ibnetdiscover_gives_no_fabric(text: str) -> None:
    assert parse_ibnetdiscover(text) == ({}, {}, {})


@given(st.integers(0, len(DISCOVERED)), st.text(max_size=40))
def test_a_fabric_that_was_cut_or_changed_says_less_and_never_fails(at: int, inserted: str) -> None:
    assert len(parse_ibnetdiscover(DISCOVERED[:at]).ends) <= 3
    found = parse_ibnetdiscover(DISCOVERED[:at] + inserted + DISCOVERED[at:])
    assert all(len(guid) == 16 for guid in [*found.switches, *found.ends])
    assert all(name.isprintable() and len(name) <= 128 for name in found.switches.values())


@given(st.text(max_size=300))
def test_any_text_is_a_fabric_or_none(text: str) -> None:
    parse_ibnetdiscover(text)
    parse_lldp(text)


@pytest.mark.parametrize(
    "text", ['"S-' * 3_000_000, "[1]\t" * 3_000_000, "\n" * 8_000_000, '# "' * 3_000_000, "[" * 8_000_000]
)
def test_megabytes_of_nothing_are_read_in_seconds(text: str) -> None:
    began = time.monotonic()
    assert parse_ibnetdiscover(text).ends == {}
    assert parse_lldp(text) == {}
    assert time.monotonic() - began < limit(20)


# What the programs themselves have printed: ibnetdiscover of infiniband-diags 44.0, on a fabric that ibsim 0.10 simulates (two leaves, a
# spine, four hosts with two HCAs, on n4 with exchanged cables), and lldpctl of lldpd 1.0.16, of a host with two netdevs and of a leaf with one.
RECORDED = Path(__file__).parent / "recorded"


def test_what_ibnetdiscover_has_printed_of_a_fabric_is_read() -> None:
    found = parse_ibnetdiscover((RECORDED / "ibnetdiscover.txt").read_text())
    leaves = {name: guid for guid, name in found.switches.items()}
    assert sorted(leaves) == ["leaf-1", "leaf-2", "spine-1"]
    one, two, spine = (leaves[name] for name in sorted(leaves))
    # the first HCA of each host is at the first leaf, and the other way round on the last one
    guids = [f"{0x100001 + 2 * number:016x}" for number in range(8)]
    assert found.ends == {
        guid: Spot((one, two)[number % 2 if number < 6 else 1 - number % 2], str(number // 2 + 1))
        for number, guid in enumerate(guids)
    }
    assert found.trunks == {(leaf, spine): 1 for leaf in (one, two)}


def test_what_lldpctl_has_printed_of_neighbours_is_read() -> None:
    """Neighbours that call themselves a switch and tell of their port its address alone, beside its name."""
    both, one = (parse_lldp((RECORDED / f"lldpctl-{name}.json").read_text()) for name in ("two", "one"))
    assert {netdev: (each.name, each.port) for netdev, each in both.items()} == {
        "rail1": ("leaf-1", "swp7"),
        "rail2": ("leaf-2", "swp7"),
    }
    assert both["rail1"].id == "a6:a2:6c:22:9f:3a"
    assert {netdev: (each.name, each.port) for netdev, each in one.items()} == {"swp7": ("n1", "rail1")}


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[str, dict[str, Spot]]:
    """A fabric as ibnetdiscover prints it, and where its HCAs are."""
    switches = draw(st.lists(st.integers(1, 2**64 - 1), unique=True, min_size=1, max_size=4))
    guids = draw(st.lists(st.integers(1, 2**64 - 1), unique=True, max_size=12))
    names = draw(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=64), min_size=1))
    ends, lines = {}, ["#", "# Topology file: generated on some day", "#", ""]
    for index, switch in enumerate(switches):
        lines += ["vendid=0x2c9", f"switchguid=0x{switch:x}({switch:x})"]
        lines.append(
            f'Switch\\t36 "S-{switch:016x}"\\t\\t# "{names[index % len(names)]}" base port 0 lid 1 lmc 0'.replace(
                "\\t", "\t"
            )
        )
        for port, guid in enumerate(guids[index :: len(switches)], 1):
            lines.append(f'[{port}]\t"H-{guid:016x}"[1]({guid:x}) \t\t# "{names[port % len(names)]}" lid 5 4xHDR')
            ends[f"{guid:016x}"] = Spot(f"{switch:016x}", str(port))
        lines.append("")
    return "\n".join(lines), ends


@given(fabrics())
def test_every_hca_is_found_where_it_is_whatever_it_calls_itself(fabric: tuple[str, dict[str, Spot]]) -> None:
    assert parse_ibnetdiscover(fabric[0]).ends == fabric[1]


def told(chassis: Any, port: Any) -> Any:
    return {"via": "LLDP", "rid": "1", "age": "0 day, 01:02:03", "chassis": chassis, "port": port}


MAC = {"type": "mac", "value": "02:00:5e:00:00:01"}
NAMED = {"leaf-1": {"id": MAC, "descr": "Cumulus Linux", "mgmt-ip": "192.0.2.9"}}
IFNAME = {"id": {"type": "ifname", "value": "swp7"}, "descr": "rail 3", "ttl": "120"}


@pytest.mark.parametrize("several", [False, True])
def test_neighbours_of_one_or_more_netdevs_are_read(several: bool) -> None:
    """lldpctl writes a list where there are several interfaces, and a dictionary for one."""
    one = {"eth0": told(NAMED, IFNAME)}
    two = {"eth1": told({"id": MAC}, {"id": {"type": "mac", "value": "02:00:5e:00:00:09"}, "descr": "Ethernet1/7"})}
    found = parse_lldp(json.dumps({"lldp": {"interface": [one, two] if several else one}}))
    assert found["eth0"] == Neighbour("02:00:5e:00:00:01", "leaf-1", "swp7")
    assert found.get("eth1") == (
        Neighbour("02:00:5e:00:00:01", "02:00:5e:00:00:01", "Ethernet1/7") if several else None
    )


@pytest.mark.parametrize(
    ("port", "spot"),
    [
        # SONiC; Junos and ArubaOS number their ports for themselves; a number alone is better than nothing
        ({"id": {"type": "local", "value": "Ethernet12"}, "descr": "server 4"}, "Ethernet12"),
        ({"id": {"type": "local", "value": "526"}, "descr": "et-0/0/1"}, "et-0/0/1"),
        ({"id": {"type": "local", "value": "526"}}, "526"),
    ],
)
def test_a_port_is_what_its_switch_calls_it(port: Any, spot: str) -> None:
    found = parse_lldp(json.dumps({"lldp": {"interface": {"eth0": told(NAMED, port)}}}))
    assert found["eth0"].port == spot


def test_of_several_on_one_cable_a_switch_counts() -> None:
    """A DPU, or another machine behind the same port, speaks LLDP, too, and may be heard first."""
    able = {"capability": [{"type": "Bridge", "enabled": True}, {"type": "Router", "enabled": False}]}
    alone = {"capability": {"type": "Station", "enabled": True}}
    off = {"capability": [{"type": "Bridge", "enabled": False}, {"type": "Station", "enabled": True}]}
    rows = [
        {"eth0": told({name: {"id": {"type": "mac", "value": name}, **more}}, IFNAME)}
        for name, more in (("dpu", alone), ("vm", off), ("leaf", able), ("other-leaf", able))
    ]
    found = parse_lldp(json.dumps({"lldp": {"interface": rows}}))
    assert found["eth0"].name == "leaf"
    # where none is one, the first
    assert parse_lldp(json.dumps({"lldp": {"interface": rows[:2]}}))["eth0"].name == "dpu"


ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["lldp", "interface", "chassis", "port", "id", "value", "descr", "eth0", "capability", "type"]
            ),
            inner,
        ),
    ),
)


@given(ODD, ODD, ODD)
def test_any_json_is_neighbours_or_none(first: Any, second: Any, third: Any) -> None:
    parse_lldp(json.dumps(first))
    for value in ({"lldp": {"interface": first}}, {"lldp": {"interface": {"eth0": told(second, third)}}}):
        for neighbour in parse_lldp(json.dumps(value)).values():
            assert all(text.isprintable() and len(text) <= 128 for text in neighbour)


def test_json_that_is_nested_too_deeply() -> None:
    assert parse_lldp("[" * 100_000) == parse_lldp('{"lldp": ' * 100_000) == {}

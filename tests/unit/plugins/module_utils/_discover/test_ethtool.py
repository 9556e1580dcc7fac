# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ioctl of ethtool on the kernel of this machine, and memories of modules by the standards that describe them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover import ethtool
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ethtool import ethtool_answer, parse_module


def a_module(identifier: int, **at: bytes | int) -> bytes:
    memory = bytearray(256)
    memory[0] = identifier
    for place, value in at.items():
        data = bytes([value]) if isinstance(value, int) else value.ljust(16)
        start = int(place[1:])
        memory[start : start + len(data)] = data
    return bytes(memory)


@pytest.mark.parametrize(
    ("memory", "length"),
    [
        (a_module(0x11, b148=b"Mellanox", b168=b"MCP1600-C003", b196=b"MT1234VS01234", b146=3), 3.0),
        (a_module(0x03, b20=b"Mellanox", b40=b"MCP1600-C003", b68=b"MT1234VS01234", b18=2), 2.0),
        (a_module(0x18, b129=b"Mellanox", b148=b"MCP1600-C003", b166=b"MT1234VS01234", b202=0b00001111), 1.5),
        (a_module(0x19, b129=b"Mellanox", b148=b"MCP1600-C003", b166=b"MT1234VS01234", b202=0), None),
    ],
    ids=["QSFP28", "SFP", "QSFP-DD", "OSFP with optics"],
)
def test_a_cable_names_its_maker_and_its_length(memory: bytes, length: float | None) -> None:
    identity = {"vendor": "Mellanox", "part": "MCP1600-C003", "serial": "MT1234VS01234"}
    assert parse_module(memory) == {**identity, "length_m": length}


@given(st.binary(max_size=300))
def test_any_memory_is_printable_or_none(memory: bytes) -> None:
    found = parse_module(memory)
    known = len(memory) >= 256 and memory[0] in (0x03, 0x0C, 0x0D, 0x11, 0x18, 0x19, 0x1E)
    assert (found is not None) == known
    assert found is None or all(
        found[key].isprintable() and len(found[key]) <= 16 for key in ("vendor", "part", "serial")
    )


@pytest.mark.parametrize("netdev", ["lo", "nope", "", "x" * 200, "a\udcff"])
def test_a_netdev_without_such_counters_tells_nothing(netdev: str) -> None:
    assert ethtool_answer(netdev) is None


def test_counters_are_those_that_the_kernel_of_this_machine_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loopback counts nothing; whatever else is there is asked for all that it counts, so that the form is the kernel's."""
    monkeypatch.setattr(ethtool, "PHY_COUNTER", re.compile(r"\w+"))
    with open("/proc/net/dev", encoding="utf-8") as handle:
        names = [line.partition(":")[0].strip() for line in handle.readlines()[2:]]
    assert "lo" in names
    told = [json.loads(answer) for name in names if (answer := ethtool_answer(name)) is not None]
    for each in told:
        assert 0 < len(each["counters"]) <= ethtool.MOST_COUNTERS
        assert all(isinstance(value, int) and value >= 0 for value in each["counters"].values())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of netdevs: what the kernel of this machine answers, and which of them count."""

from __future__ import annotations

import os
import socket

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover import addresses
from ansible_collections.fabric.rdma.plugins.module_utils._discover.addresses import addresses_answer, read_addresses
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of


def test_the_kernel_of_this_machine_tells_addresses_that_it_has() -> None:
    rows = [line.split(" ") for line in (addresses_answer("") or "").splitlines()]
    assert ["lo", "127.0.0.1"] in rows
    for name, address in rows:
        assert name in os.listdir("/sys/class/net")
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as handle:
            # only what is an address of this machine can be bound
            handle.bind((address, 0))


def test_more_addresses_than_there_was_room_for_are_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = addresses_answer("")
    real = addresses.array.array
    sizes = []

    def small(kind: str, data: bytes) -> object:
        # the first buffer has room for one
        sizes.append(len(data))
        return real(kind, data[: addresses._ROW]) if len(sizes) == 1 else real(kind, data)

    monkeypatch.setattr(addresses.array, "array", small)
    assert addresses_answer("") == whole
    assert len(sizes) == 2


def test_a_kernel_that_tells_nothing_is_not_one_without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError("not here")

    monkeypatch.setattr(addresses, "_ipv4", refused)
    monkeypatch.setattr(addresses, "_ipv6", lambda: [("ib0", "fd00::1")])
    assert addresses_answer("") == "ib0 fd00::1\n"
    monkeypatch.setattr(addresses, "_ipv6", refused)
    assert addresses_answer("") is None


def machine(answer: str) -> Machine:
    """An HCA with an IPoIB child, a default route on a bond, and a netdev of Pods."""
    found = Machine()
    function = found.function("0000:3b:00.0")
    found.hca("mlx5_0", function)
    found.netdev("ib0", function)
    child = found.netdev("ib0.8001")
    found.link(f"{child}/lower_ib0", "/sys/class/net/ib0")
    found.netdev("bond0")
    found.netdev("cni0")
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
    found.file("/proc/net/route", head + "bond0\t00000000\t0201A8C0\t3\t0\t0\t0\t00000000\n")
    found.file("/.answers/addresses", answer)
    return found


def test_netdevs_of_the_fabric_and_of_default_routes_count_and_those_of_pods_do_not() -> None:
    told = "bond0 192.0.2.7\ncni0 10.244.1.1\nib0 10.20.0.12\nib0 10.20.0.11\nib0 fd00::1\nib0.8001 10.21.0.11\nlo 127.0.0.1\n"
    assert facts_of(machine(told))["management"]["addresses"] == {
        "bond0": ["192.0.2.7"],
        "ib0": ["10.20.0.11", "10.20.0.12", "fd00::1"],
        "ib0.8001": ["10.21.0.11"],
    }


@given(st.text(max_size=60))
def test_any_answer_is_addresses_or_nothing(told: str) -> None:
    found = read_addresses(machine(told).tree(), {"ib0", "bond0"})
    assert found is not None
    for own in found.values():
        for address in own:
            socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def test_a_capture_of_an_earlier_version_does_not_tell() -> None:
    assert "addresses" not in facts_of(Machine())["management"]

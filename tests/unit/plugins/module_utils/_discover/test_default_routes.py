# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default routes of IPv6: what the kernel answers of the tables of a network namespace, and which netdevs count."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import (
    default6_answer,
    default_netdevs,
    routes_answer,
)
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._discover.test_routes import ZERO

LOOK = (
    "from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import default6_answer\n"
    "print(repr(default6_answer('')))"
)
BRIDGES = "for name in a b c d; do ip link add name $name type bridge; ip link set dev $name up; done\n"
OBJECT = "ip -6 addr add 2001:db8:a::1/64 dev a nodad\nip -6 nexthop add id 1 dev a\n"


@pytest.mark.parametrize(
    ("routes", "told"),
    [
        ("", ""),
        ("ip -6 route add default dev a", "a\n"),
        # a rail with a table of its own, one of them with a number above 255
        ("ip -6 route add default dev a table 101\nip -6 route add default dev b table 1001", ""),
        ("ip -6 route add default dev a table 101\nip -6 route add default dev b", "b\n"),
        ("ip -6 route add default dev a metric 5\nip -6 route add default dev b metric 7", "a\nb\n"),
        (
            "ip -6 addr add 2001:db8:c::1/64 dev c nodad\nip -6 addr add 2001:db8:d::1/64 dev d nodad\n"
            "ip -6 route add default nexthop via 2001:db8:c::9 nexthop via 2001:db8:d::9",
            "c\nd\n",
        ),
        ("ip -6 route add unreachable default metric 9\nip -6 route add 2001:db8::/32 dev a", ""),
        # of an object for the next hop, the kernel may tell no netdev, whereas the file has it
        (f"{OBJECT}ip -6 route add default nhid 1", "a\n"),
        (f"echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode\n{OBJECT}ip -6 route add default nhid 1", None),
        (f"echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode\n{OBJECT}ip -6 route add default nhid 1 table 101", ""),
        # more than one answer of the kernel holds
        (
            "ip -6 route add default dev d\nseq -f 'route add 2001:db8:%g::/48 dev a' 1 2000 | ip -6 -batch -",
            "d\n",
        ),
    ],
)
def test_the_kernel_tells_the_netdevs_of_its_main_table(routes: str, told: str | None) -> None:
    script = f'set -e\n{BRIDGES}{routes}\nexec {sys.executable} -c "$1"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", LOOK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (repr(told), "")


def test_of_one_that_is_asked_of_routes_alone_nothing_else_is_told() -> None:
    assert routes_answer("addresses", "") is None
    assert routes_answer("default6", "") == default6_answer("")


@given(st.binary(max_size=200))
def test_any_message_is_netdevs_or_nothing(data: bytes) -> None:
    netdevs, done = default_netdevs(data)
    assert isinstance(netdevs, set) or (netdevs, done) == (None, True)


def routed(answer: str | None) -> list[str]:
    machine = Machine()
    line = f"{ZERO} 00 {ZERO} 00 {ZERO} 00000400 00000001 00000000 00000001 "
    machine.file("/proc/net/ipv6_route", f"{line}eth0\n{line}rail0\n")
    if answer is not None:
        machine.file("/.answers/default6", answer)
    found: list[str] = facts_of(machine)["management"]["default_route_netdevs"]
    return found


def test_a_route_of_another_table_is_not_that_of_the_host() -> None:
    assert routed("eth0\n") == ["eth0"]
    assert routed("") == []


def test_a_capture_of_an_earlier_version_does_not_tell_tables() -> None:
    assert routed(None) == ["eth0", "rail0"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes as the kernel prints them, and lines that it does not print."""

from __future__ import annotations

import ipaddress

from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.routes import Network, routes_of
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import default_route_netdevs

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ZERO = "0" * 32
NETDEVS = st.from_regex(r"[a-z][a-z0-9.-]{0,14}", fullmatch=True).filter(lambda name: name != "lo")
METRICS = st.integers(0, 2**31 - 1)
V4 = st.builds(
    lambda number, length: ipaddress.IPv4Network((number, length), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)
V6 = st.builds(
    lambda number, length: ipaddress.IPv6Network((number, length), strict=False),
    st.integers(0, 2**128 - 1),
    st.integers(0, 128),
)
NOISE = st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=60).filter(
    lambda line: len(line.split()) < 8
)


def tree_of(route: str, route6: str) -> MemoryTree:
    files = {"/proc/net/route": route, "/proc/net/ipv6_route": route6}
    return MemoryTree({path: Entry("f", text.encode()) for path, text in files.items()})


def little(address: ipaddress.IPv4Address) -> str:
    return address.packed[::-1].hex().upper()


def printed(network: Network, metric: int, netdev: str) -> str:
    """fib_route_seq_show() of net/ipv4/fib_trie.c and rt6_info_route() of net/ipv6/ip6_fib.c."""
    if isinstance(network, ipaddress.IPv4Network):
        address, mask = little(network.network_address), little(network.netmask)
        return f"{netdev}\t{address}\t00000000\t0001\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"
    address = network.network_address.packed.hex()
    return f"{address} {network.prefixlen:02x} {ZERO} 00 {ZERO} {metric:08x} 00000001 00000000 00000001 {netdev:>8}\n"


@given(
    four=st.lists(st.tuples(V4, METRICS, NETDEVS), max_size=5),
    six=st.lists(st.tuples(V6, METRICS, NETDEVS), max_size=5),
    noise=NOISE,
)
def test_what_the_kernel_prints_is_read_whatever_stands_between(
    four: list[tuple[Network, int, str]], six: list[tuple[Network, int, str]], noise: str
) -> None:
    between = f"{noise}\n"
    tree = tree_of(HEAD + between.join(printed(*each) for each in four), between.join(printed(*each) for each in six))
    assert list(routes_of(tree)) == [*four, *six]
    everywhere = {netdev for network, _metric, netdev in [*four, *six] if network.prefixlen == 0}
    assert default_route_netdevs(tree) == sorted(everywhere)


def test_what_leads_nowhere_is_no_route() -> None:
    everywhere = ipaddress.IPv4Network("0.0.0.0/0")
    lines = [printed(everywhere, 0, "*"), printed(everywhere, 0, "down").replace("\t0001\t", "\t0000\t")]
    lo = printed(ipaddress.IPv6Network("::/0"), 2**32 - 1, "lo")
    assert list(routes_of(tree_of(HEAD + "".join(lines), lo))) == []


def test_a_node_without_ipv6_has_the_routes_of_ipv4() -> None:
    wanted = (ipaddress.IPv4Network("10.1.0.0/16"), 100, "eno1")
    tree = MemoryTree({"/proc/net/route": Entry("f", (HEAD + printed(*wanted)).encode())})
    assert list(routes_of(tree)) == [wanted]

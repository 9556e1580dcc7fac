# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address plans: what texts mean, and that pools are what brute force says they are."""

from __future__ import annotations

import ipaddress
import itertools

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems import addresses
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.addresses import (
    AddressError,
    Pool,
    Span,
    check_netaddr,
    clashes,
    count,
    cut,
    make_pool,
    merged,
    parse_exclusion,
    parse_gateway,
    parse_network,
    parse_range,
    rail_range,
    span_networks,
    span_words,
)


def bounds(span: Span) -> tuple[str, str]:
    first, last = (
        ipaddress.ip_address(number) if span.version == 4 else ipaddress.IPv6Address(number) for number in span[1:]
    )
    return str(first), str(last)


# --- tables ---------------------------------------------------------------------------------------------------------------

GOOD_RANGES = [
    # text, network, first, last
    ("192.0.2.0/24", "192.0.2.0/24", "192.0.2.1", "192.0.2.254"),
    (" 192.0.2.0/24 ", "192.0.2.0/24", "192.0.2.1", "192.0.2.254"),
    ("192.0.2.152/27", "192.0.2.128/27", "192.0.2.129", "192.0.2.158"),
    ("192.0.2.10-192.0.2.20/24", "192.0.2.0/24", "192.0.2.10", "192.0.2.20"),
    ("192.0.2.10 - 192.0.2.20/24", "192.0.2.0/24", "192.0.2.10", "192.0.2.20"),
    ("192.0.2.0-192.0.2.255/24", "192.0.2.0/24", "192.0.2.1", "192.0.2.254"),
    ("198.51.100.7-198.51.100.7/24", "198.51.100.0/24", "198.51.100.7", "198.51.100.7"),
    ("198.51.100.0/30", "198.51.100.0/30", "198.51.100.1", "198.51.100.2"),
    ("10.0.0.0/8", "10.0.0.0/8", "10.0.0.1", "10.255.255.254"),
    ("2001:db8::/64", "2001:db8::/64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:fffe"),
    ("2001:DB8::10-2001:db8::1f/64", "2001:db8::/64", "2001:db8::10", "2001:db8::1f"),
    ("2001:db8::77/120", "2001:db8::/120", "2001:db8::1", "2001:db8::fe"),
    ("fd00::/126", "fd00::/126", "fd00::1", "fd00::2"),
]
BAD_RANGES = [
    ("", "no prefix length"),
    ("192.0.2.0", "has no prefix length, such as /24"),
    ("192.0.2.10-192.0.2.20", "has no prefix length, such as /24"),
    ("192.0.2.0/33", "'/33' is not a prefix length of IPv4 (0 to 32)"),
    ("192.0.2.0/-1", "'/-1' is not a prefix length"),
    ("192.0.2.0/", "'/' is not a prefix length"),
    ("192.0.2.0/24/24", "'/24/24' is not a prefix length"),
    ("192.0.2.0/255.255.255.0", "is not a prefix length"),
    ("192.0.2.0/\N{ARABIC-INDIC DIGIT TWO}4", "is not a prefix length"),
    ("192.0.2.0/0024", "is not a prefix length"),
    ("192.0.2.0/31", "no address for a Pod beside its network and broadcast address"),
    ("192.0.2.1/32", "no address for a Pod"),
    ("2001:db8::1/127", "no address for a Pod"),
    ("192.0.2/24", "'192.0.2' is not an IP address"),
    ("192.0.2.256/24", "is not an IP address"),
    ("192.0.02.1/24", "is not an IP address"),
    ("0xc0000200/24", "is not an IP address"),
    ("3221225984/24", "is not an IP address"),
    ("fabric/24", "'fabric' is not an IP address"),
    ("192.0.2.0\n/24", None),
    ("fe80::1%eth0/64", "is not an IP address"),
    ("2001:db8::/129", "'/129' is not a prefix length of IPv6 (0 to 128)"),
    ("192.0.2.20-192.0.2.10/24", "192.0.2.20-192.0.2.10 ends before it begins"),
    ("192.0.2.20-2001:db8::1/24", "goes from IPv4 to IPv6"),
    ("192.0.2.20-192.0.3.10/24", "192.0.2.20 and 192.0.3.10 are not in one network of /24"),
    ("192.0.2.0-192.0.2.0/24", "no address for a Pod"),
    ("192.0.2.255-192.0.2.255/24", "no address for a Pod"),
    ("192.0.2.20-/24", "is not an IP address"),
    ("-/24", "is not an IP address"),
    ("127.0.0.0/8", "loopback addresses (127.0.0.0/8)"),
    ("127.0.0.0/24", "loopback addresses"),
    ("0.0.0.0/0", "which Pods cannot have"),
    ("::/0", "which Pods cannot have"),
    ("169.254.0.0/16", "link-local addresses"),
    ("224.0.0.0/4", "multicast addresses"),
    ("255.255.255.0/24", "reserved addresses"),
    ("fe80::/64", "link-local addresses"),
    ("ff02::/16", "multicast addresses"),
    ("::ffff:192.0.2.0/120", "IPv4 addresses in the form of IPv6"),
]


@pytest.mark.parametrize(("text", "network", "first", "last"), GOOD_RANGES)
def test_a_range_is_normalised(text: str, network: str, first: str, last: str) -> None:
    given = parse_range(text)
    pool = make_pool("p", given, [], None)
    assert pool.network == network
    assert [bounds(span) for span in pool.spans] == [(first, last)]


@pytest.mark.parametrize(("text", "message"), BAD_RANGES)
def test_a_range_that_cannot_be_says_why(text: str, message: str | None) -> None:
    if message is None:
        # white space is not an address; whether it is stripped is nobody's concern, as long as nothing else comes of it
        assert parse_range(text)[:3] == parse_range("192.0.2.0/24")[:3]
        return
    with pytest.raises(AddressError) as raised:
        parse_range(text)
    assert message in str(raised.value)


def test_a_network_that_is_not_aligned_says_what_it_covers() -> None:
    note = "192.0.2.152/27 is not network-aligned: it covers 192.0.2.128 to 192.0.2.159, which is 192.0.2.128/27"
    assert parse_range("192.0.2.152/27").note == note
    assert parse_network("192.0.2.152/27") == (Span(4, 0xC0000280, 0xC000029F), note)
    assert parse_exclusion("192.0.2.152/27") == parse_network("192.0.2.152/27")
    assert parse_range("192.0.2.128/27").note == ""
    # a part of a network is not a network
    assert parse_range("192.0.2.152-192.0.2.155/27").note == ""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.7"),
        ("192.0.2.0/30", "192.0.2.0", "192.0.2.3"),
        ("192.0.2.7-192.0.2.9", "192.0.2.7", "192.0.2.9"),
        ("2001:db8::1-2001:db8::ff", "2001:db8::1", "2001:db8::ff"),
        ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
    ],
)
def test_an_exclusion_is_an_address_a_network_or_what_is_between_two(text: str, first: str, last: str) -> None:
    assert bounds(parse_exclusion(text)[0]) == (first, last)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an IP address"),
        ("192.0.2.9-192.0.2.7", "ends before it begins"),
        ("192.0.2.7-192.0.2.9/24", "has a prefix length"),
        ("192.0.2.7-9", "'9' is not an IP address"),
        ("192.0.2.0/40", "is not a prefix length"),
        ("gateway", "is not an IP address"),
    ],
)
def test_an_exclusion_that_cannot_be_says_why(text: str, message: str) -> None:
    with pytest.raises(AddressError) as raised:
        parse_exclusion(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("wish", "text", "found"),
    [
        ("first", "192.0.2.152/27", "192.0.2.129"),
        ("last", "192.0.2.152/27", "192.0.2.158"),
        ("192.0.2.130", "192.0.2.152/27", "192.0.2.130"),
        # of the network, though it is in no part that Pods get
        ("192.0.2.1", "192.0.2.10-192.0.2.20/24", "192.0.2.1"),
        ("first", "2001:db8::/64", "2001:db8::1"),
    ],
)
def test_a_gateway_is_found_in_its_network(wish: str, text: str, found: str) -> None:
    assert parse_gateway(wish, parse_range(text)) == int(ipaddress.ip_address(found))


def test_a_gateway_of_the_other_family_does_not_count() -> None:
    assert parse_gateway("2001:db8::1", parse_range("192.0.2.0/24")) is None


@pytest.mark.parametrize("wish", ["192.0.2.0", "192.0.2.255", "192.0.3.1", "middle", ""])
def test_a_gateway_that_is_no_host_of_the_network_is_refused(wish: str) -> None:
    with pytest.raises(AddressError, match=r"not an address of a host in 192\.0\.2\.0/24|is not an IP address"):
        parse_gateway(wish, parse_range("192.0.2.0/24"))


@pytest.mark.parametrize(
    ("text", "prefix", "rail", "network"),
    [
        ("10.0.0.0/16", 24, 1, "10.0.0.0/24"),
        ("10.0.0.0/16", 24, 8, "10.0.7.0/24"),
        ("10.0.0.0/16", 16, 1, "10.0.0.0/16"),
        ("10.0.99.0/16", 24, 1, "10.0.0.0/24"),
        ("2001:db8::/48", 64, 3, "2001:db8:0:2::/64"),
    ],
)
def test_a_rail_has_the_network_of_its_number(text: str, prefix: int, rail: int, network: str) -> None:
    assert make_pool("p", rail_range(parse_range(text), prefix, rail), [], None).network == network


@pytest.mark.parametrize(
    ("text", "prefix", "rail", "message"),
    [
        ("10.0.0.0/22", 24, 5, "holds 4 networks of /24, and rail 5 needs one more"),
        ("10.0.0.0/24", 22, 1, "per_rail /22 is outside /24 to /30"),
        ("10.0.0.0/24", 31, 1, "per_rail /31 is outside /24 to /30"),
        ("2001:db8::/64", 127, 1, "per_rail /127 is outside /64 to /126"),
        ("10.0.0.1-10.0.0.9/24", 28, 1, "is a part of a network, and cannot be divided among rails"),
    ],
)
def test_a_range_that_has_nothing_for_a_rail_says_why(text: str, prefix: int, rail: int, message: str) -> None:
    with pytest.raises(AddressError) as raised:
        rail_range(parse_range(text), prefix, rail)
    assert message in str(raised.value)


def test_a_gateway_and_exclusions_are_not_for_pods() -> None:
    pool = make_pool("p", parse_range("192.0.2.0/28"), [parse_exclusion("192.0.2.4-192.0.2.6")[0]], 0xC000020E)
    assert [span_words(span) for span in pool.spans] == ["192.0.2.1 to 192.0.2.3", "192.0.2.7 to 192.0.2.13"]
    assert [span_words(span) for span in pool.excluded] == [
        "192.0.2.0",
        "192.0.2.4 to 192.0.2.6",
        "192.0.2.14 to 192.0.2.15",
    ]


def test_a_missing_netaddr_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_netaddr() is None
    monkeypatch.setattr(addresses, "HAS_NETADDR", False)
    assert "netaddr is not installed" in str(check_netaddr())


# --- properties -----------------------------------------------------------------------------------------------------------

# Networks of one small corner, so that they often meet.
BASES = {4: int(ipaddress.IPv4Address("192.0.2.0")), 6: int(ipaddress.IPv6Address("2001:db8::"))}
BITS = {4: 32, 6: 128}
versions = st.sampled_from([4, 6])


@st.composite
def spans(draw: st.DrawFn, version: int | None = None) -> Span:
    version = draw(versions) if version is None else version
    first, last = sorted((draw(st.integers(0, 63)), draw(st.integers(0, 63))))
    return Span(version, BASES[version] + first, BASES[version] + last)


def brute(rows: list[Span]) -> set[tuple[int, int]]:
    return {(span.version, number) for span in rows for number in range(span.first, span.last + 1)}


@given(st.lists(spans(), max_size=8), st.lists(spans(), max_size=8))
def test_sets_of_addresses_are_those_of_brute_force(one: list[Span], other: list[Span]) -> None:
    assert brute(merged(one)) == brute(one)
    assert brute(cut(one, other)) == brute(one) - brute(other)
    assert count(merged(one)) == len(brute(one))
    # in order, and none touches the next
    rows = merged(one)
    assert all(left.version < right.version or left.last + 1 < right.first for left, right in itertools.pairwise(rows))


@given(spans())
def test_networks_of_a_span_cover_exactly_it(span: Span) -> None:
    covered = [ipaddress.ip_network(text) for text in span_networks(span)]
    numbers = [int(address) for network in covered for address in network]
    assert sorted(numbers) == list(range(span.first, span.last + 1))


@st.composite
def pools(draw: st.DrawFn) -> tuple[Pool, list[Span], int | None]:
    version = draw(versions)
    prefix = BITS[version] - draw(st.integers(2, 6))
    address = BASES[version] + draw(st.integers(0, 63))
    text = f"{ipaddress.ip_address(address) if version == 4 else ipaddress.IPv6Address(address)}/{prefix}"
    away = draw(st.lists(spans(), max_size=4))
    given_range = parse_range(text)
    gateway = draw(st.sampled_from(["first", "last", None]))
    number = None if gateway is None else parse_gateway(gateway, given_range)
    return make_pool("p", given_range, away, number), away, number


@given(pools())
def test_a_pool_is_its_network_without_ends_exclusions_and_gateway(made: tuple[Pool, list[Span], int | None]) -> None:
    pool, away, gateway = made
    network = ipaddress.ip_network(pool.network)
    hosts = {int(address) for address in network} - {int(network[0]), int(network[-1])}
    wanted = hosts - {number for version, number in brute(away) if version == pool.version} - {gateway}
    found = brute(list(pool.spans))
    assert found == {(pool.version, number) for number in wanted}
    assert count(pool.spans) == len(wanted)
    # exclusions stay excluded, and nothing is in both
    assert brute(list(pool.excluded)) | found == {(pool.version, int(address)) for address in network}
    assert not brute(list(pool.excluded)) & found


@given(st.lists(pools(), max_size=6))
def test_pools_without_a_clash_are_disjoint_and_others_are_named(
    made: list[tuple[Pool, list[Span], int | None]],
) -> None:
    named = [(str(number), pool.spans) for number, (pool, _away, _gateway) in enumerate(made)]
    own = {name: brute(list(rows)) for name, rows in named}
    both = {frozenset({one, other}) for one in own for other in own if one < other and own[one] & own[other]}
    found = clashes(named)
    assert {frozenset({one, other}) for one, other, _span in found} == both
    assert len(found) == len(both)
    for one, other, span in found:
        assert brute([span]) <= own[one] & own[other]
        assert brute([span])


@given(versions, st.integers(2, 6), st.integers(0, 4))
def test_networks_of_rails_are_disjoint_and_fill_their_range(version: int, host_bits: int, more: int) -> None:
    outer = BITS[version] - host_bits - more
    base = ipaddress.ip_address("198.51.100.0") if version == 4 else ipaddress.ip_address("2001:db8:1::")
    given_range = parse_range(f"{base}/{outer}")
    rails = [rail_range(given_range, BITS[version] - host_bits, rail) for rail in range(1, 2**more + 1)]
    numbers = [number for rail in rails for number in range(rail.address, rail.address + 2**host_bits)]
    assert sorted(numbers) == numbers
    assert len(set(numbers)) == len(numbers) == 2 ** (host_bits + more)
    with pytest.raises(AddressError):
        rail_range(given_range, BITS[version] - host_bits, 2**more + 1)


@given(st.text(alphabet="0123456789abcdef.:/-% ", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_range_or_an_address_error(text: str) -> None:
    for parse in (parse_network, parse_exclusion):
        try:
            span, _note = parse(text)
        except AddressError:
            continue
        assert 0 <= span.first <= span.last < 1 << BITS[span.version]
    try:
        found = parse_range(text)
    except AddressError:
        return
    assert (
        found.address
        < found.span.first
        <= found.span.last
        < found.address + (1 << (BITS[found.version] - found.prefix)) - 1
    )

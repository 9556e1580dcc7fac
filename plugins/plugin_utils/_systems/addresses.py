# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address plans: ranges as users write them, made into pools that are normal, disjoint and large enough. Private. Pure.

A pool is what may be given to Pods: the range without its network and broadcast address, its exclusions and its gateway. Addresses are
numbers here, so that a pool of IPv6 costs no more than one of IPv4.
"""

from __future__ import annotations

import typing as t

try:
    import netaddr
except ImportError:
    # said by check_netaddr(): a filter that cannot be loaded tells nobody why
    HAS_NETADDR = False
else:
    HAS_NETADDR = True

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "AddressError",
    "Pool",
    "Range",
    "Span",
    "check_netaddr",
    "clashes",
    "count",
    "cut",
    "make_pool",
    "merged",
    "parse_exclusion",
    "parse_gateway",
    "parse_network",
    "parse_range",
    "rail_range",
    "span_networks",
    "span_words",
]


class AddressError(FabricError):
    """A text that is not an address, network or range, or not one that Pods can have. str() is a sentence without its end."""


class Span(t.NamedTuple):
    """Addresses from the first to the last, both included. version: 4 or 6."""

    version: int
    first: int
    last: int


class Range(t.NamedTuple):
    """network: (version, number of its address, prefix length), aligned. span: what of it is asked for. note: what was not aligned."""

    version: int
    address: int
    prefix: int
    span: Span
    text: str
    note: str


class Pool(t.NamedTuple):
    """name: as messages call it. spans: what Pods get, in order. excluded: what they do not get of the network, in order."""

    name: str
    version: int
    address: int
    prefix: int
    spans: tuple[Span, ...]
    excluded: tuple[Span, ...]
    gateway: t.Optional[int]

    @property
    def network(self) -> str:
        return f"{_text(self.version, self.address)}/{self.prefix}"

    def text(self, number: int) -> str:
        return _text(self.version, number)


_BITS = {4: 32, 6: 128}
# What no interface of a Pod can have, or nobody can reach it there (IANA's registries of special addresses).
_IMPOSSIBLE = {
    "0.0.0.0/8": "addresses of this network",
    "127.0.0.0/8": "loopback addresses",
    "169.254.0.0/16": "link-local addresses",
    "224.0.0.0/4": "multicast addresses",
    "240.0.0.0/4": "reserved addresses",
    "::/127": "the unspecified and the loopback address",
    "::ffff:0:0/96": "IPv4 addresses in the form of IPv6",
    "fe80::/10": "link-local addresses",
    "ff00::/8": "multicast addresses",
}


def check_netaddr() -> t.Optional[str]:
    """What to do where the package is not there; None where it is."""
    if HAS_NETADDR:
        return None
    return (
        "the Python package netaddr is not installed where Ansible runs, and address plans need it: install what requirements.txt of "
        "this collection names into the Python of ansible-playbook"
    )


# --- texts --------------------------------------------------------------------------------------------------------------


def _address(text: str) -> tuple[int, int]:
    """(version, number) of an address in full: no octets left out, no leading zeros, no zone."""
    try:
        found = netaddr.IPAddress(text.strip(), flags=netaddr.INET_PTON)
    except (netaddr.AddrFormatError, ValueError, TypeError, UnicodeError):
        raise AddressError(f"{text.strip()!r} is not an IP address") from None
    return int(found.version), int(found)


def _ip(version: int, number: int) -> netaddr.IPAddress:
    return netaddr.IPAddress(number, 4 if version == 4 else 6)


def _text(version: int, number: int) -> str:
    return str(_ip(version, number))


def _prefix(text: str, version: int) -> int:
    """A number as text; a netmask such as 255.255.255.0 is refused, since not all that read it take it."""
    if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) > _BITS[version]:
        raise AddressError(f"'/{text}' is not a prefix length of IPv{version} (0 to {_BITS[version]})")
    return int(text)


def _aligned(version: int, number: int, prefix: int) -> tuple[int, int]:
    """First and last address of the network that an address is in."""
    host = (1 << (_BITS[version] - prefix)) - 1
    return number & ~host, number | host


def _note(text: str, version: int, number: int, prefix: int) -> str:
    """What a network covers that is not written with its own address; empty where it is."""
    first, last = _aligned(version, number, prefix)
    if first == number:
        return ""
    return (
        f"{text} is not network-aligned: it covers {_text(version, first)} to {_text(version, last)}, which is "
        f"{_text(version, first)}/{prefix}"
    )


def span_words(span: Span) -> str:
    first = _text(span.version, span.first)
    return first if span.first == span.last else f"{first} to {_text(span.version, span.last)}"


def span_networks(span: Span) -> list[str]:
    """The fewest networks that cover exactly these addresses, for what knows networks only."""
    first, last = (_ip(span.version, number) for number in (span.first, span.last))
    return [str(each) for each in netaddr.iprange_to_cidrs(first, last)]


def parse_network(text: str) -> tuple[Span, str]:
    """(addresses of a network or of a single address, a note where it is not aligned). AddressError for anything else."""
    address, slash, prefix = text.strip().partition("/")
    version, number = _address(address)
    if not slash:
        return Span(version, number, number), ""
    length = _prefix(prefix, version)
    return Span(version, *_aligned(version, number, length)), _note(text.strip(), version, number, length)


def _between(text: str) -> tuple[int, int, int]:
    """(version, first, last) of FIRST-LAST."""
    first, _sign, last = text.partition("-")
    version, low = _address(first)
    other, high = _address(last)
    if version != other:
        raise AddressError(f"{text} goes from IPv{version} to IPv{other}")
    if low > high:
        raise AddressError(f"{text} ends before it begins")
    return version, low, high


def parse_exclusion(text: str) -> tuple[Span, str]:
    """(addresses, note) of an address, a network, or FIRST-LAST."""
    if "-" not in text:
        return parse_network(text)
    if "/" in text:
        raise AddressError(f"{text} has a prefix length; write an excluded range as FIRST-LAST, without one")
    return Span(*_between(text.strip())), ""


def parse_range(text: str) -> Range:
    """The range of a pool: NETWORK/PREFIX, or FIRST-LAST/PREFIX for a part of the network that has more than Pods.

    Without network and broadcast address, as Whereabouts (pkg/iphelpers, GetIPRange) and nv-ipam (ipam-controller/allocator) give none
    of these, in IPv6 either. AddressError for what has no address to give.
    """
    whole = text.strip()
    head, slash, length = whole.partition("/")
    if not slash:
        raise AddressError(f"{whole} has no prefix length, such as /24")
    if "-" in head:
        version, low, high = _between(head)
    else:
        version, low = _address(head)
        high = low
    prefix = _prefix(length, version)
    first, last = _aligned(version, low, prefix)
    if prefix > _BITS[version] - 2:
        raise AddressError(f"{whole} has no address for a Pod beside its network and broadcast address")
    span, note = Span(version, first + 1, last - 1), ""
    if "-" in head:
        if _aligned(version, high, prefix)[0] != first:
            raise AddressError(
                f"{whole}: {_text(version, low)} and {_text(version, high)} are not in one network of /{prefix}"
            )
        span = Span(version, max(low, first + 1), min(high, last - 1))
        if span.first > span.last:
            raise AddressError(f"{whole} has no address for a Pod beside its network and broadcast address")
    else:
        note = _note(whole, version, low, prefix)
    for network, what in _IMPOSSIBLE.items():
        other = parse_network(network)[0]
        if other.version == version and other.first <= last and first <= other.last:
            raise AddressError(f"{whole} has {what} ({network}), which Pods cannot have")
    return Range(version, first, prefix, span, whole, note)


def rail_range(given: Range, prefix: int, rail: int) -> Range:
    """The network of this length that a rail gets of a range. Rail 1 gets the first, whichever rails there are.

    AddressError where the range holds fewer, or is none that can be divided.
    """
    bits = _BITS[given.version]
    whole = _aligned(given.version, given.address, given.prefix)
    if (given.span.first, given.span.last) != (whole[0] + 1, whole[1] - 1):
        raise AddressError(f"{given.text} is a part of a network, and cannot be divided among rails: write a network")
    if not given.prefix <= prefix <= bits - 2:
        raise AddressError(f"per_rail /{prefix} is outside /{given.prefix} to /{bits - 2}, which {given.text} can give")
    networks = 1 << (prefix - given.prefix)
    if not 1 <= rail <= networks:
        raise AddressError(f"{given.text} holds {networks} networks of /{prefix}, and rail {rail} needs one more")
    first = given.address + (rail - 1) * (1 << (bits - prefix))
    last = first + (1 << (bits - prefix)) - 1
    name = f"{_text(given.version, first)}/{prefix}"
    return Range(given.version, first, prefix, Span(given.version, first + 1, last - 1), name, "")


def parse_gateway(wish: str, given: Range) -> t.Optional[int]:
    """The gateway in a range: its first or last address, or one by its name; None where that is of the other family.

    AddressError for an address that is not in the network.
    """
    first, last = _aligned(given.version, given.address, given.prefix)
    if wish in ("first", "last"):
        return first + 1 if wish == "first" else last - 1
    version, number = _address(wish)
    if version != given.version:
        return None
    if not first < number < last:
        raise AddressError(
            f"gateway {wish} is not an address of a host in {_text(given.version, first)}/{given.prefix}"
        )
    return number


# --- sets of addresses --------------------------------------------------------------------------------------------------


def merged(spans: t.Iterable[Span]) -> list[Span]:
    """The same addresses in the fewest spans, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and found[-1].version == span.version and span.first <= found[-1].last + 1:
            found[-1] = Span(span.version, found[-1].first, max(found[-1].last, span.last))
        else:
            found.append(span)
    return found


def cut(spans: t.Iterable[Span], away: t.Iterable[Span]) -> list[Span]:
    """The first without the second, in order."""
    left = merged(spans)
    for hole in merged(away):
        after: list[Span] = []
        for span in left:
            if span.version != hole.version or hole.last < span.first or span.last < hole.first:
                after.append(span)
                continue
            if span.first < hole.first:
                after.append(Span(span.version, span.first, hole.first - 1))
            if hole.last < span.last:
                after.append(Span(span.version, hole.last + 1, span.last))
        left = after
    return left


def count(spans: t.Iterable[Span]) -> int:
    """How many addresses; of spans that do not overlap."""
    return sum(span.last - span.first + 1 for span in spans)


def make_pool(name: str, given: Range, exclusions: t.Iterable[Span], gateway: t.Optional[int]) -> Pool:
    """What is left of a range for Pods. Exclusions of the other family, and outside of the network, do not count."""
    version = given.version
    whole = Span(version, *_aligned(version, given.address, given.prefix))
    away = list(exclusions)
    if gateway is not None:
        away.append(Span(version, gateway, gateway))
    spans = cut([given.span], away)
    return Pool(name, version, given.address, given.prefix, tuple(spans), tuple(cut([whole], spans)), gateway)


def clashes(named: t.Sequence[tuple[str, t.Sequence[Span]]]) -> list[tuple[str, str, Span]]:
    """(name, other name, what both have) of each pair that overlaps, once, in the order of addresses.

    named: each with spans that do not overlap among themselves. A sweep over all ends, so that thousands of pools take no time.
    """
    rows = sorted((span, number) for number, (_name, spans) in enumerate(named) for span in spans)
    found: dict[tuple[int, int], Span] = {}
    open_rows: list[tuple[Span, int]] = []
    for span, number in rows:
        open_rows = [row for row in open_rows if row[0].version == span.version and row[0].last >= span.first]
        for other, owner in open_rows:
            pair = (min(owner, number), max(owner, number))
            if owner != number and pair not in found:
                found[pair] = Span(span.version, span.first, min(span.last, other.last))
        open_rows.append((span, number))
    return [(named[one][0], named[two][0], span) for (one, two), span in found.items()]

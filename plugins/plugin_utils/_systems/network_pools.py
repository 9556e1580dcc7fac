# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address plan of all secondary networks: a pool for each rail and family, and what rules them out. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.addresses import (
    AddressError,
    Pool,
    Range,
    Span,
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
    span_words,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import (
    Findings,
    Network,
    group_hosts,
    node_addresses,
    rails_of,
    some,
)

__all__ = ["Pools", "block_size", "check_pools", "make_pools", "pods_per_node", "routes_of"]

# Pools by rail, None without rails: one for each family.
Pools = dict[t.Optional[int], list[Pool]]

# Types that hand out addresses of a range.
_OF_A_RANGE = ("whereabouts", "nv_ipam", "spiderpool", "host_local")
_FAMILIES = {4: "ipv4", 6: "ipv6"}
_WHOSE = {"pods": "Pods", "services": "Services", "nodes": "nodes"}
_SHOWN = 3


def _texts(value: t.Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else [str(value)]


def pods_per_node(network: Network, site: Site) -> int:
    """How many Pods of a node have an address of the network (of each rail): as wished, else one for each GPU or function."""
    wished = network.ipam.get("pods_per_node")
    if wished:
        return int(wished)
    if network.kind == "sriov" and (network.wish.get("sriov") or {}).get("vfs"):
        return int(network.wish["sriov"]["vfs"])
    hosts = group_hosts(site["plan"]["groups"][network.group])
    return max([1, *(len((site["facts"].get(host) or {}).get("gpus") or ()) for host in hosts)])


def make_pools(network: Network, site: Site, found: Findings) -> Pools:
    """The pools of a network; what cannot be goes to the findings."""
    if network.ipam_type not in (*_OF_A_RANGE, "static"):
        _refuse_leftovers(network, found)
        return {}
    rails: list[t.Optional[int]] = [None]
    if network.rails:
        rails = list(rails_of(site["plan"]["groups"][network.group]))
    _check_rail_ranges(network, rails, found)
    exclusions = _exclusions(network, found)
    pools: Pools = {}
    for rail in rails:
        ranges = _ranges(network, rail, found)
        name = network.name if rail is None else f"{network.name}-rail{rail}"
        pools[rail] = []
        for given in ranges:
            gateway = _gateway(network, given, len(rails), found)
            suffix = f"-v{given.version}" if len(ranges) > 1 else ""
            pools[rail].append(make_pool(name + suffix, given, exclusions, gateway))
    _check_exclusions(network, pools, exclusions, found)
    _check_gateways(network, pools, found)
    _check_routes(network, pools, found)
    _check_size(network, site, pools, found)
    return pools


def _refuse_leftovers(network: Network, found: Findings) -> None:
    """Without IPAM nobody reads the rest."""
    unread = sorted(set(network.ipam) - {"type"})
    if unread:
        found.problem(
            f"{network.words}: ipam.type is {network.ipam_type}, which reads no {', '.join(unread)}: take them out, or choose a type"
        )


def _one_of_each_family(network: Network, ranges: list[Range], where: str, found: Findings) -> list[Range]:
    if len({given.version for given in ranges}) < len(ranges):
        found.problem(f"{network.words}: {where} has two ranges of one family; give one of IPv4, one of IPv6, or both")
        return []
    return sorted(ranges)


def _parsed(network: Network, texts: t.Iterable[str], where: str, found: Findings) -> list[Range]:
    ranges = []
    for text in texts:
        try:
            given = parse_range(text)
        except AddressError as exc:
            found.problem(f"{network.words}: {where}: {exc}")
            continue
        if given.note:
            found.warn(f"{network.words}: {where}: {given.note}")
        ranges.append(given)
    return _one_of_each_family(network, ranges, where, found)


def _ranges(network: Network, rail: t.Optional[int], found: Findings) -> list[Range]:
    """The ranges of a rail, or of the network: what its wish says, made whole."""
    ipam = network.ipam
    if ipam.get("ranges") is not None:
        if rail is None:
            found.problem(
                f"{network.words}: ipam.ranges are those of rails, by number, and the network has none: write ipam.range"
            )
            return []
        if ipam.get("range") is not None or ipam.get("per_rail") is not None:
            found.problem(f"{network.words}: ipam.ranges says what each rail has; leave range and per_rail out")
        own = {str(key): value for key, value in ipam["ranges"].items()}.get(str(rail))
        if own is None:
            found.problem(f"{network.words}: ipam.ranges has no range for rail {rail}: add it")
            return []
        return _parsed(network, _texts(own), f"ipam.ranges of rail {rail}", found)
    if ipam.get("range") is None:
        if network.ipam_type != "static":
            found.problem(f"{network.words}: ipam.type {network.ipam_type} needs ipam.range, such as 198.51.100.0/24")
        return []
    ranges = _parsed(network, _texts(ipam["range"]), "ipam.range", found)
    if rail is None:
        if ipam.get("per_rail") is not None:
            found.problem(
                f"{network.words}: ipam.per_rail divides a range among rails, and the network has none: set rails: true"
            )
        return ranges
    return [each for each in (_of_rail(network, given, rail, found) for given in ranges) if each]


def _check_rail_ranges(network: Network, rails: t.Sequence[t.Optional[int]], found: Findings) -> None:
    """Ranges by rail of which one would silently not count."""
    seen = set()
    # YAML has numbers for keys, JSON has texts
    for key in map(str, network.ipam.get("ranges") or () if network.rails else ()):
        if key in seen:
            found.problem(
                f"{network.words}: ipam.ranges has two ranges for rail {key}, as a number and as text: keep one"
            )
        elif key not in map(str, rails):
            found.warn(
                f"{network.words}: ipam.ranges has a range for rail {key}, and the group has no such rail: it is not used"
            )
        seen.add(key)


def _of_rail(network: Network, given: Range, rail: int, found: Findings) -> t.Optional[Range]:
    wished = network.ipam.get("per_rail")
    prefix = wished.get(_FAMILIES[given.version]) if isinstance(wished, t.Mapping) else wished
    if prefix is None:
        found.problem(
            f"{network.words}: rails need addresses that are disjoint: ipam.per_rail says which prefix length each gets of {given.text} "
            f"({{ipv4: 26, ipv6: 64}} where there are both), or ipam.ranges names a range for each"
        )
        return None
    try:
        return rail_range(given, int(prefix), rail)
    except AddressError as exc:
        found.problem(f"{network.words}: ipam: {exc}")
        return None


def _exclusions(network: Network, found: Findings) -> list[Span]:
    spans = []
    for text in _texts(network.ipam.get("exclude")):
        try:
            span, note = parse_exclusion(text)
        except AddressError as exc:
            found.problem(f"{network.words}: ipam.exclude: {exc}")
            continue
        if note:
            found.warn(f"{network.words}: ipam.exclude: {note}")
        spans.append(span)
    return spans


def _gateway(network: Network, given: Range, rails: int, found: Findings) -> t.Optional[int]:
    gateways = []
    for wish in _texts(network.ipam.get("gateway")):
        try:
            number = parse_gateway(wish, given)
        except AddressError as exc:
            each = ": each rail has a network of its own, so write first or last" if rails > 1 else ""
            found.problem(f"{network.words}: ipam.gateway: {exc}{each}")
            continue
        if number is not None:
            gateways.append(number)
    if len(gateways) > 1:
        found.problem(f"{network.words}: ipam.gateway has two gateways for {given.text}; give one")
    return gateways[0] if gateways else None


def _check_gateways(network: Network, pools: Pools, found: Findings) -> None:
    families = {pool.version for own in pools.values() for pool in own}
    for wish in _texts(network.ipam.get("gateway")):
        try:
            span, _note = (None, "") if wish in ("first", "last") else parse_network(wish)
        except AddressError:
            continue
        if families and span is not None and span.version not in families:
            found.problem(f"{network.words}: ipam.gateway: {wish} is of IPv{span.version}, and no range is")


def routes_of(network: Network, pool: Pool) -> list[Json]:
    """[{dst, gw}] of the family of a pool, for what goes through its gateway."""
    if pool.gateway is None:
        return []
    rows = []
    for text in _texts(network.ipam.get("routes")):
        span, _note = parse_network(text)
        if span.version == pool.version:
            rows.append({"dst": _network_text(text), "gw": pool.text(pool.gateway)})
    return rows


def _network_text(text: str) -> str:
    """A network as it is written by its own address."""
    span, _note = parse_network(text)
    bits = 32 if span.version == 4 else 128
    prefix = bits - (span.last - span.first).bit_length()
    return f"{span_words(Span(span.version, span.first, span.first))}/{prefix}"


def _check_routes(network: Network, pools: Pools, found: Findings) -> None:
    families = {pool.version for own in pools.values() for pool in own if pool.gateway is not None}
    spans: dict[int, list[Span]] = {}
    texts: dict[int, list[str]] = {}
    for text in _texts(network.ipam.get("routes")):
        try:
            span, note = parse_network(text)
        except AddressError as exc:
            found.problem(f"{network.words}: ipam.routes: {exc}")
            continue
        if note:
            found.warn(f"{network.words}: ipam.routes: {note}")
        if span.version not in families:
            found.problem(
                f"{network.words}: ipam.routes: {text} goes through a gateway of IPv{span.version}, and there is none: set ipam.gateway"
            )
        spans.setdefault(span.version, []).append(span)
        texts.setdefault(span.version, []).append(text)
    for version, own in spans.items():
        # also in two halves
        if version in families and count(merged(own)) == 1 << (32 if version == 4 else 128):
            found.problem(
                f"{network.words}: ipam.routes: {', '.join(texts[version])} would take the default route of every Pod from the network of "
                "the cluster: name the networks of the other rails or racks"
            )


def _check_exclusions(network: Network, pools: Pools, exclusions: t.Sequence[Span], found: Findings) -> None:
    """An exclusion that takes nothing away is probably a typing error."""
    rows = [pool for own in pools.values() for pool in own]
    for span in exclusions:
        if rows and not any(
            pool.version == span.version
            and any(row.first <= span.last and span.first <= row.last for row in pool.excluded)
            for pool in rows
        ):
            found.warn(
                f"{network.words}: ipam.exclude: {span_words(span)} is outside of all its ranges, and changes nothing"
            )


# --- size ---------------------------------------------------------------------------------------------------------------


def block_size(network: Network, site: Site) -> int:
    """Addresses of a block that nv-ipam gives to a node: as wished, else one for each Pod and one for a gateway."""
    wished = network.ipam.get("block_size")
    return int(wished) if wished else pods_per_node(network, site) + (1 if network.ipam.get("gateway") else 0)


def _check_size(network: Network, site: Site, pools: Pools, found: Findings) -> None:
    if network.ipam_type == "static":
        for pool in [pool for own in pools.values() for pool in own if not pool.spans]:
            found.problem(
                f"{network.words}: pool {pool.name} ({pool.network}) has no address for a Pod: take a larger range, or exclude less"
            )
        return
    hosts = group_hosts(site["plan"]["groups"][network.group])
    each = pods_per_node(network, site)
    if network.ipam_type == "host_local" and len(hosts) > 1:
        found.problem(
            f"{network.words}: host-local counts on each node by itself, so that Pods of two nodes ({some(hosts)}) get the same addresses: "
            "take type: whereabouts, nv_ipam or spiderpool; host_local is for a group of one node"
        )
    for own in pools.values():
        for pool in own:
            if network.ipam_type == "nv_ipam":
                _check_blocks(network, pool, len(hosts), each, block_size(network, site), found)
                continue
            have, need = count(pool.spans), len(hosts) * each
            if have < need:
                found.problem(
                    f"{network.words}: pool {pool.name} ({pool.network}) has {have} addresses for Pods, and {len(hosts)} nodes with "
                    f"{each} Pods each need {need}: take a larger range, exclude less, or lower ipam.pods_per_node"
                )


def _check_blocks(network: Network, pool: Pool, nodes: int, each: int, size: int, found: Findings) -> None:
    """Blocks as nv-ipam deals them out: from the first host address on, one after the other, none that is excluded as a whole
    (pkg/ipam-controller/allocator/allocator.go, AllocateFromPool)."""
    whole = _hosts_of(pool)
    blocks, last = (whole.last - whole.first + 1) // size, -1
    usable = 0
    short: t.Optional[tuple[Span, int]] = None
    for span in pool.spans:
        # a block that a span before has reached is counted
        for number in range(max(last + 1, (span.first - whole.first) // size), (span.last - whole.first) // size + 1):
            if number >= blocks or usable == nodes:
                break
            block = Span(pool.version, whole.first + number * size, whole.first + (number + 1) * size - 1)
            free = count(cut([block], pool.excluded))
            usable, last = usable + 1, number
            if free < each and short is None:
                short = (block, free)
    if usable < nodes:
        found.problem(
            f"{network.words}: pool {pool.name} ({pool.network}) has {usable} blocks of {size} addresses, and there are {nodes} nodes: take a "
            "larger range, exclude less, or lower ipam.pods_per_node or ipam.block_size"
        )
    elif short:
        found.problem(
            f"{network.words}: pool {pool.name} ({pool.network}): the block {span_words(short[0])}, which a node gets as a whole, has "
            f"{short[1]} addresses for {each} Pods: raise ipam.block_size, or exclude at the ends of blocks of {size}"
        )


def _hosts_of(pool: Pool) -> Span:
    """All host addresses of the network of a pool."""
    bits = 32 if pool.version == 4 else 128
    return Span(pool.version, pool.address + 1, pool.address + (1 << (bits - pool.prefix)) - 2)


# --- what pools overlap with --------------------------------------------------------------------------------------------


def check_pools(
    pools: t.Sequence[tuple[Network, Pool]],
    cidrs: t.Mapping[str, t.Sequence[str]],
    site: Site,
    nodes: t.Optional[t.Mapping[str, Json]],
    services: t.Optional[t.Sequence[str]],
    found: Findings,
    standing: t.Sequence[tuple[Network, Pool]] = (),
) -> None:
    """All pools of all groups against each other, the CIDRs of the cluster (rdma_cluster_cidrs, and its own), and what nodes have.

    nodes: {node: {addresses, pod_cidrs}}, services: CIDRs, both as cluster_state has them, None where nobody has looked. standing: pools of
    groups that stay as they are, of which nothing else is said.
    """
    named = _named(pools)
    _check_each_other([*pools, *standing], {name for name, _spans in _named(standing)}, found)
    rows = [(kind, str(text), f"rdma_cluster_cidrs.{kind}") for kind, texts in sorted(cidrs.items()) for text in texts]
    written = {text for kind, text, _source in rows if kind == "services"}
    rows += [("services", text, "ServiceCIDR") for text in services or () if text not in written]
    for kind, text, source in rows:
        try:
            cidr, note = parse_network(text)
        except AddressError as exc:
            found.problem(f"{source}: {exc}")
            continue
        if note:
            found.warn(f"{source}: {note}")
        whose = f"{_WHOSE.get(kind, kind)} ({source})"
        for name, spans in named:
            both = _common(spans, cidr)
            if both:
                found.problem(
                    f"{name} overlaps {text}, which the cluster gives to {whose}: both have {span_words(both)}; take another range, or exclude "
                    "what they have in common"
                )
        if kind != "nodes":
            _check_ways(pools, text, cidr, whose, found)
    _check_nodes(named, site, nodes or {}, found)
    told = {"pods": _check_pod_cidrs(named, nodes or {}, found), "services": bool(services)}
    unknown = [_WHOSE[kind] for kind in ("pods", "services") if not cidrs.get(kind) and not told[kind]]
    if named and unknown:
        found.warn(
            f"rdma_cluster_cidrs names no networks of {' and '.join(unknown)}, so it is not known whether pools of secondary networks "
            "overlap with them: name them"
        )


def _named(pools: t.Iterable[tuple[Network, Pool]]) -> list[tuple[str, t.Sequence[Span]]]:
    return [(f"{network.words} (pool {pool.name}, {pool.network})", pool.spans) for network, pool in pools]


def _check_each_other(pools: t.Sequence[tuple[Network, Pool]], staying: t.Collection[str], found: Findings) -> None:
    """No two pools have an address in common, and none gives the gateway of another to a Pod, which takes its way from all Pods of that."""
    named = _named(pools)
    for one, two, span in clashes(named):
        if not {one, two} <= {*staying}:
            found.problem(f"{one} and {two} both have {span_words(span)}: give them ranges of their own")
    gateways = {
        f"the gateway of {name}": (Span(pool.version, pool.gateway, pool.gateway),)
        for (_network, pool), (name, _spans) in zip(pools, named, strict=True)
        if pool.gateway is not None
    }
    # of a pair, what is earlier in the list comes first
    for one, two, span in clashes([*named, *gateways.items()]):
        if two in gateways and one not in gateways and not {one, two.removeprefix("the gateway of ")} <= {*staying}:
            found.problem(
                f"{one} gives Pods {span_words(span)}, which is {two}: name it in ipam.exclude, or make it the gateway of both"
            )


def _check_ways(pools: t.Sequence[tuple[Network, Pool]], text: str, cidr: Span, whose: str, found: Findings) -> None:
    """Routes of Pods that would send what is for the cluster into the fabric."""
    for network, pool in pools:
        for route in _texts(network.ipam.get("routes")) if pool.gateway is not None else ():
            try:
                span = parse_network(route)[0]
            except AddressError:
                # said of the network
                continue
            if _common([span], cidr):
                found.problem(
                    f"{network.words}: ipam.routes: {route} would take the way to {text} from Pods, which the cluster gives to {whose}: "
                    "name the networks of the other rails or racks"
                )


def _common(spans: t.Sequence[Span], other: Span) -> t.Optional[Span]:
    for span in spans:
        if span.version == other.version and span.first <= other.last and other.first <= span.last:
            return Span(span.version, max(span.first, other.first), min(span.last, other.last))
    return None


def _check_pod_cidrs(
    named: t.Sequence[tuple[str, t.Sequence[Span]]], nodes: t.Mapping[str, Json], found: Findings
) -> bool:
    """What the cluster has given to nodes for their Pods. Whether it tells that at all."""
    rows = []
    for node, view in sorted(nodes.items()):
        for cidr in view.get("pod_cidrs") or ():
            try:
                rows.append((str(cidr), node, parse_network(str(cidr))[0]))
            except AddressError:
                continue
    for name, spans in named:
        hits = [(cidr, node) for cidr, node, span in rows if _common(spans, span)]
        if hits:
            more = f" (and {len(hits) - 1} more to others)" if len(hits) > 1 else ""
            found.problem(
                f"{name} overlaps {hits[0][0]}, which the cluster gives to Pods of node {hits[0][1]}{more}: take another range, or exclude what "
                "they have in common"
            )
    return bool(rows)


def _check_nodes(
    named: t.Sequence[tuple[str, t.Sequence[Span]]], site: Site, nodes: t.Mapping[str, Json], found: Findings
) -> None:
    hits: dict[str, list[str]] = {}
    for address, where in node_addresses(site, nodes):
        try:
            span, _note = parse_network(address)
        except AddressError:
            continue
        for name, spans in named:
            if _common(spans, span):
                hits.setdefault(name, []).append(f"{span_words(span)} ({where})")
    for name, rows in hits.items():
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        found.problem(
            f"{name} has addresses that nodes have: {', '.join(rows[:_SHOWN])}{more}; name them in ipam.exclude, or take a part of the "
            "network that nodes have nothing of (FIRST-LAST/PREFIX)"
        )

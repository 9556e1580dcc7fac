# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where hosts of one group differ in what decides how RoCE behaves between them. Private to the collection. Pure.

A path has one MTU, PFC works when both ends and all switches between have it, and a packet is where its DSCP puts it: what two hosts
have set differently is lost packets, and nobody says why.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import hosts_label, shared_domain, short
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import roce_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_wish import chosen_ports, read_want, read_wish

__all__ = ["roce_findings"]

Json = t.Mapping[str, t.Any]

_NAMES = {
    "mtu": "the MTU",
    "trust": "what the priority is taken from (trust)",
    "pfc": "the priorities with PFC",
    "ecn": "the priorities with ECN",
    "default_tos": "the ToS of RDMA-CM",
    "traffic_class": "the traffic class",
    "netns": "the RDMA network namespace mode",
    **{name: name for name in ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")},
}


def _settings(facts: Json, want: dict[str, t.Any]) -> dict[str, dict[str, str]]:
    """{setting: {netdev or device: value in words}} of the ports that the group wants; what nobody tells is not there."""
    found: dict[str, dict[str, t.Any]] = {name: {} for name in _NAMES}
    roce = facts["roce"]
    ports = chosen_ports(facts, want)
    for port in ports:
        found["mtu"][port["netdev"]] = port["mtu"]
        for name in ("default_tos", "traffic_class"):
            found[name][port["device"]] = port[name]
        for name, value in port["ipv4"].items():
            others = roce["all"][name]
            # net/ipv4/devinet.c: the larger one of all and of the netdev counts
            found[name][port["address_netdev"]] = None if value is None else max(value, others or 0)
        for card in port["cards"]:
            found["trust"][card["netdev"]] = card["trust"]
            found["pfc"][card["netdev"]] = card["pfc"]
            ecn = card["ecn"]
            same = ecn is not None and ecn["np"] == ecn["rp"]
            found["ecn"][card["netdev"]] = ecn and (
                ecn["np"] if same else f"{_words(ecn['np'])} (np), {_words(ecn['rp'])} (rp)"
            )
    if ports:
        found["netns"]["it"] = roce["netns"]["mode"]
    return {
        name: {target: _words(value) for target, value in values.items() if value is not None}
        for name, values in found.items()
    }


def _words(value: t.Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _where(hosts: t.Mapping[str, t.Collection[str]], everywhere: t.Mapping[str, t.Collection[str]], domain: str) -> str:
    """Hosts with one value; the netdevs where a host has it on some only. hosts, everywhere: netdevs by host, of the value and of all."""
    alike: dict[str, list[str]] = {}
    for host, targets in sorted(hosts.items()):
        part = "" if len(targets) == len(everywhere[host]) else f" ({', '.join(sorted(targets))})"
        alike.setdefault(part, []).append(short(host, domain))
    return ", ".join(hosts_label(names) + part for part, names in sorted(alike.items()))


def _differences(group: str, facts_by_host: t.Mapping[str, Json], want: dict[str, t.Any]) -> t.Iterator[str]:
    domain = shared_domain(facts_by_host)
    settings = {host: _settings(facts, want) for host, facts in facts_by_host.items()}
    for name, words in _NAMES.items():
        everywhere = {host: found[name] for host, found in settings.items() if found[name]}
        values: dict[str, dict[str, list[str]]] = {}
        for host, targets in everywhere.items():
            for target, value in targets.items():
                values.setdefault(value, {}).setdefault(host, []).append(target)
        if len(values) > 1:
            # what most have comes first: the others are to be looked at
            order = sorted(values, key=lambda value: (-sum(map(len, values[value].values())), value))
            parts = [f"{value} on {_where(values[value], everywhere, domain)}" for value in order]
            yield f"group {group}: ports differ in {words}: {'; '.join(parts)}"


def _of_wish(group: str, facts_by_host: t.Mapping[str, Json], wish: t.Any, want: t.Any) -> t.Iterator[str]:
    """What goes against the wish, by itself or on hosts."""
    wished = read_wish(wish)
    if wished.tos is not None and wished.pfc and wished.trust == "dscp" and wished.tos >> 5 not in wished.pfc:
        yield (
            f"group {group}: the ToS {wished.tos} (DSCP {wished.tos >> 2}) is priority {wished.tos >> 5} unless somebody maps it otherwise, and "
            f"rdma_roce_host.pfc has {_words(wished.pfc)}: RoCE would be lossy"
        )
    domain = shared_domain(facts_by_host)
    cards = {
        host: [card for port in chosen_ports(facts, read_want(want)) for card in port["cards"]]
        for host, facts in facts_by_host.items()
    }
    spoken = [host for host in sorted(cards) if any(card["dcbx"] == "firmware" for card in cards[host])]
    if spoken and (wished.pfc is not None or wished.trust is not None):
        yield (
            f"group {group}: on {hosts_label([short(host, domain) for host in spoken])} the firmware speaks DCBX with the switch, which "
            "may overrule rdma_roce_host (mlnx_qos -d os leaves it to the host)"
        )
    alike: dict[str, list[str]] = {}
    for host, facts in sorted(facts_by_host.items()):
        needs = roce_needs(facts, wish, want)
        for sentence in [*needs["reasons"], *needs["pending"]]:
            alike.setdefault(sentence, []).append(short(host, domain))
    for sentence, hosts in alike.items():
        yield f"group {group}: {hosts_label(hosts)}: {sentence}"


def roce_findings(groups: t.Mapping[str, Json], facts_by_host: t.Mapping[str, Json]) -> list[str]:
    """Sentences on what is set differently on hosts of one group, and on what is not as wished.

    groups: by name {hosts, want, roce_host}: the wishes rdma_want and rdma_roce_host, None where there is none. facts_by_host:
    ansible_facts.rdma; hosts without the subsets devices, management and roce, and groups that want InfiniBand, are passed over.
    WishError for a wish that makes no sense.
    """
    found: list[str] = []
    for name, group in sorted(groups.items()):
        facts = {
            host: facts_by_host[host]
            for host in group["hosts"]
            if {"devices", "management", "roce"} <= set(facts_by_host.get(host) or ())
        }
        want = read_want(group.get("want"))
        if want["link_layer"] == "Ethernet":
            found += _differences(name, facts, want)
        if group.get("roce_host"):
            found += _of_wish(name, facts, group["roce_host"], group.get("want"))
    return found

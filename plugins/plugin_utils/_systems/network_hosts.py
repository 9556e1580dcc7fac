# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which netdevs of a group's hosts a secondary network hangs on, and what rules it out there. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Group
from ansible_collections.fabric.rdma.plugins.module_utils._plan.sriov import NETDEV_TYPES
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import class_slug
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site

__all__ = [
    "ETHERNET",
    "INFINIBAND",
    "ON_A_NETDEV",
    "Attachment",
    "Findings",
    "Network",
    "attachments",
    "group_hosts",
    "host_objections",
    "link_of",
    "node_addresses",
    "rails_of",
    "some",
]

# As netlink names the type of a netdev.
ETHERNET, INFINIBAND = "ether", "infiniband"
# Kinds that hang on a netdev of the host. The others take a function of a device plugin into the Pod.
ON_A_NETDEV = ("macvlan", "ipoib", "spiderpool")
_SHOWN = 3


class Findings:
    """Sentences, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}
        self._warnings: dict[str, None] = {}

    def problem(self, text: str) -> None:
        self._problems[text] = None

    def warn(self, text: str) -> None:
        self._warnings[text] = None

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    @property
    def warnings(self) -> list[str]:
        return list(self._warnings)


class Network(t.NamedTuple):
    """One entry of rdma_networks. wish: as the table of wishes let it through, without None."""

    group: str
    name: str
    kind: str
    namespace: str
    wish: Json

    @property
    def words(self) -> str:
        return f"group {self.group}: network {self.name}"

    @property
    def rails(self) -> bool:
        return bool(self.wish.get("rails"))

    @property
    def ipam(self) -> Json:
        return {key: value for key, value in (self.wish.get("ipam") or {}).items() if value is not None}

    @property
    def ipam_type(self) -> str:
        return str(self.ipam.get("type") or ("spiderpool" if self.kind == "spiderpool" else "none"))


class Attachment(t.NamedTuple):
    """What becomes one object of the network.

    slug: the class that it is for, where classes have different netdevs, else None. master: the netdev, None where a function comes
    into the Pod. link: its type, as netlink names it. serves: the rail whose resource Pods ask for, None for all of the group.
    """

    name: str
    rail: t.Optional[int]
    slug: t.Optional[str]
    master: t.Optional[str]
    link: str
    serves: t.Optional[int]


# {rail, None without rails: {netdev: [hosts]}} of a class
_Ways = dict[t.Optional[int], dict[str, list[str]]]


def some(names: t.Iterable[str]) -> str:
    """``a, b, c and 4 more``."""
    return first_of(sorted(names), _SHOWN)


def group_hosts(group: Group) -> list[str]:
    """Hosts of the classes of a group, which are those whose Pods get its resource."""
    return sorted(host for entry in group["classes"] for host in entry["hosts"])


def rails_of(group: Group) -> list[int]:
    """The numbers of the group's rails, in order; none where it is planned without."""
    return sorted(row["rail"] for row in group["resources"] if row["rail"] is not None)


def _ways(group: Group, entry: Class) -> _Ways:
    found: _Ways = {}
    with_rails = bool(rails_of(group))
    for host in entry["hosts"]:
        places: dict[tuple[str, int], t.Optional[int]] = {
            (match["device"], port): match.get("rail")
            for match in entry["matches"].get(host, [])
            for port in match["ports"]
        }
        for port in group["wanted"].get(host, []):
            key = (port["device"], port["port"])
            if port["netdev"] is None or (with_rails and key not in places):
                continue
            found.setdefault(places.get(key), {}).setdefault(port["netdev"], []).append(host)
    return found


def link_of(group: Group) -> str:
    """The link type of the ports of a group: all are of the link layer that it wants."""
    layers = {port["link_layer"] for ports in group["wanted"].values() for port in ports}
    return NETDEV_TYPES.get(min(layers, default="Ethernet"), ETHERNET)


def _netdevs(site: Site, host: str) -> dict[str, t.Mapping[str, t.Any]]:
    """What facts know of the netdevs of RDMA ports of a host, by name."""
    return {
        netdev["name"]: netdev
        for device in (site["facts"].get(host) or {}).get("devices") or ()
        for port in device["ports"]
        for netdev in port["netdevs"]
    }


def _link_type(site: Site, hosts: t.Iterable[str], master: str, otherwise: str) -> str:
    for host in hosts:
        known = _netdevs(site, host).get(master)
        if known and known["type"]:
            return str(known["type"])
    return otherwise


def _wished_master(network: Network, rail: t.Optional[int]) -> t.Optional[str]:
    wish = network.wish.get("master")
    if isinstance(wish, t.Mapping):
        # YAML has numbers for keys, JSON has texts
        found = {str(key): value for key, value in wish.items()}.get(str(rail))
        return None if found is None else str(found)
    return str(wish) if wish else None


def attachments(network: Network, site: Site, found: Findings) -> list[Attachment]:
    """The objects of a network, by rail and class; what cannot be goes to the findings."""
    group = site["plan"]["groups"][network.group]
    rails: list[t.Optional[int]] = [None]
    if network.rails:
        rails = list(rails_of(group))
        if not rails:
            found.problem(
                f"{network.words} has rails: true, and the group is planned without rails: set rdma_rails of the group, which numbers "
                "them by the GPUs"
            )
    if network.kind in ON_A_NETDEV:
        _check_masters(network, rails, found)
    rows: list[Attachment] = []
    for rail in rails:
        name = network.name if rail is None else f"{network.name}-rail{rail}"
        if network.kind in ON_A_NETDEV:
            rows += _on_netdevs(network, site, name, rail, found)
        else:
            rows.append(Attachment(name, rail, None, None, link_of(group), rail))
    return rows


def _check_masters(network: Network, rails: t.Sequence[t.Optional[int]], found: Findings) -> None:
    """Each rail has RDMA devices of its own, which are at the netdev of no other."""
    by_master: dict[str, list[str]] = {}
    for rail in rails:
        master = _wished_master(network, rail)
        if master:
            by_master.setdefault(master, []).append(str(rail))
    for master, own in by_master.items():
        if len(own) > 1:
            found.problem(
                f"{network.words}: rails {', '.join(own)} all hang on {master}, and the devices of but one of them are there: name a netdev for "
                "each with master: {1: eth1, 2: eth2, ...}, or leave master out to take the plan's"
            )


def _rail_of(group: Group, master: str) -> t.Optional[int]:
    """The one rail that a netdev is on, None where it is on none."""
    rails = {rail for entry in group["classes"] for rail, netdevs in _ways(group, entry).items() if master in netdevs}
    return rails.pop() if len(rails) == 1 else None


def _on_netdevs(network: Network, site: Site, name: str, rail: t.Optional[int], found: Findings) -> list[Attachment]:
    group = site["plan"]["groups"][network.group]
    link = link_of(group)
    wished = _wished_master(network, rail)
    if wished:
        serves = rail if rail is not None else _rail_of(group, wished)
        return [Attachment(name, rail, None, wished, _link_type(site, group_hosts(group), wished, link), serves)]
    if isinstance(network.wish.get("master"), t.Mapping):
        found.problem(
            f"{network.words}: master names netdevs of rails, and the network has none: set rails: true, or name one netdev"
            if rail is None
            else f"{network.words}: master names no netdev for rail {rail}; add it, or leave master out to take the plan's"
        )
        return []
    by_class: dict[str, dict[str, list[str]]] = {}
    for entry in group["classes"]:
        ways = _ways(group, entry)
        own: dict[str, list[str]] = {}
        for key, netdevs in ways.items():
            if rail is None or key == rail:
                for netdev, hosts in netdevs.items():
                    own.setdefault(netdev, []).extend(hosts)
        by_class[class_slug(entry["name"])] = own
    where = "" if rail is None else f" on rail {rail}"
    for slug, own in by_class.items():
        if len(own) == 1:
            continue
        found.problem(f"{network.words}: {_no_one_netdev(slug, own, where, rail, bool(rails_of(group)))}")
    if any(len(own) != 1 for own in by_class.values()):
        return []
    names = {next(iter(own)) for own in by_class.values()}
    if len(names) == 1:
        hosts = group_hosts(group)
        (master,) = names
        return [Attachment(name, rail, None, master, _link_type(site, hosts, master, link), rail)]
    if network.wish.get("inject"):
        found.problem(
            f"{network.words}: its classes have different netdevs{where} ({', '.join(sorted(names))}), and with inject Spiderpool's webhook "
            "gives a Pod the networks of all of them, of which no node has more than one: leave inject out, or give the netdevs the same name "
            "on all hosts"
        )
    found.warn(
        f"{network.words}: its classes have different netdevs{where} ({', '.join(sorted(names))}), so each class has a network of its "
        "own, and Pods have to say which class of nodes they want"
    )
    return [
        Attachment(f"{name}-{slug}", rail, slug, master, _link_type(site, own[master], master, link), rail)
        for slug, own in sorted(by_class.items())
        for master in own
    ]


def _no_one_netdev(slug: str, own: t.Mapping[str, list[str]], where: str, rail: t.Optional[int], railed: bool) -> str:
    """Why a class has no netdev to hang a network on, and what to do."""
    if not own:
        return f"class {slug} has no netdev{where} that the plan knows: name one with master"
    shown = "; ".join(f"{netdev} on {some(hosts)}" for netdev, hosts in sorted(own.items())[:_SHOWN])
    both = [host for host in next(iter(own.values())) if all(host in hosts for hosts in own.values())]
    if not both:
        return (
            f"class {slug} has different netdevs{where} ({shown}), and a network hangs on one name: give the netdevs the same name on "
            "all hosts, or put the hosts into groups"
        )
    if rail is not None:
        return f"a host has several netdevs{where} ({shown}): name one with master: {{{rail}: {sorted(own)[0]}}}"
    more = "rails: true makes a network for each rail" if railed else "or take the others out with rdma_want.exclude"
    return f"a host has several netdevs ({shown}), and a network hangs on one: name it with master; {more}"


# --- what rules it out ---------------------------------------------------------------------------------------------


def host_objections(network: Network, rows: t.Sequence[Attachment], site: Site, found: Findings) -> None:
    """What facts of the hosts say against a network."""
    hosts = group_hosts(site["plan"]["groups"][network.group])
    _check_netns(network, site, hosts, found)
    _check_vfs(network, site, hosts, found)
    for row in rows:
        if row.master is None:
            continue
        _check_link(network, row, found)
        for host in hosts:
            if row.slug is None or host in _hosts_of(site, network.group, row.slug):
                _check_netdev(network, row, site, host, found)


def _hosts_of(site: Site, group: str, slug: str) -> list[str]:
    return [
        host
        for entry in site["plan"]["groups"][group]["classes"]
        if class_slug(entry["name"]) == slug
        for host in entry["hosts"]
    ]


def _check_link(network: Network, row: Attachment, found: Findings) -> None:
    wanted = str(network.wish.get("cni") or "") if network.kind == "spiderpool" else network.kind
    if row.link == INFINIBAND and wanted in ("macvlan", "ipvlan", "vlan"):
        why = {
            "macvlan": "the kernel makes macvlan on Ethernet only, since an InfiniBand port has one hardware address for each queue pair",
            "ipvlan": "RDMA has no GID of its own on an ipvlan above IPoIB",
            "vlan": "InfiniBand has partitions in place of VLANs",
        }[wanted]
        other = "cni: ipoib" if network.kind == "spiderpool" else "kind: ipoib"
        found.problem(
            f"{network.words}: {wanted} cannot hang on {row.master}, which is an InfiniBand netdev: {why}. Take {other}"
        )
    if row.link == ETHERNET and wanted == "ipoib":
        other = "cni: macvlan" if network.kind == "spiderpool" else "kind: macvlan"
        found.problem(f"{network.words}: ipoib cannot hang on {row.master}, which is an Ethernet netdev. Take {other}")


def _check_netdev(network: Network, row: Attachment, site: Site, host: str, found: Findings) -> None:
    known = _netdevs(site, host)
    netdev = known.get(str(row.master))
    if netdev is None:
        if host in site["facts"]:
            found.warn(
                f"{network.words}: {row.master} is not among the netdevs of RDMA ports of host {host} ({', '.join(sorted(known)) or 'none'}): "
                "Pods there do not start unless it is there all the same"
            )
        return
    if netdev["master"]:
        found.problem(
            f"{network.words}: {row.master} of host {host} is a member of {netdev['master']}, which takes all its frames: name "
            f"{netdev['master']} with master, or take {row.master} out of it"
        )
    mtu = network.wish.get("mtu")
    if mtu and netdev["mtu"] and int(mtu) > int(netdev["mtu"]):
        found.problem(
            f"{network.words}: mtu {mtu} is more than that of {row.master} on host {host} ({netdev['mtu']}): raise it there, or lower mtu"
        )


def _check_netns(network: Network, site: Site, hosts: t.Sequence[str], found: Findings) -> None:
    """ib_core.netns_mode: the shared device plugin ends in exclusive mode, the RDMA CNI plugin in shared mode."""
    modes: dict[str, list[str]] = {}
    for host in hosts:
        mode = ((site["facts"].get(host) or {}).get("kernel") or {}).get("rdma_netns")
        modes.setdefault(str(mode), []).append(host)
    if network.kind in ON_A_NETDEV and "exclusive" in modes:
        found.problem(
            f"{network.words}: RDMA network namespaces are exclusive on {some(modes['exclusive'])}, where the shared device plugin of its "
            "resource ends at once: set rdma_roce_host.netns to shared (or, by hand, rdma system set netns shared), or take kind: sriov with "
            "isolate_rdma: true"
        )
    if network.wish.get("isolate_rdma") and "shared" in modes:
        found.problem(
            f"{network.words}: isolate_rdma needs exclusive RDMA network namespaces, and they are shared on {some(modes['shared'])}: set "
            "rdma_roce_host.netns to exclusive (or, by hand, rdma system set netns exclusive), or leave isolate_rdma out"
        )


def _check_vfs(network: Network, site: Site, hosts: t.Sequence[str], found: Findings) -> None:
    """Whether the cards can have as many virtual functions as the policy makes."""
    wished = (network.wish.get("sriov") or {}).get("vfs")
    if network.kind != "sriov" or not wished:
        return
    group = site["plan"]["groups"][network.group]
    for host in hosts:
        totals = {
            device["name"]: device["sriov"]["total"]
            for device in (site["facts"].get(host) or {}).get("devices") or ()
            if any(port["device"] == device["name"] for port in group["wanted"].get(host, []))
        }
        for device, total in sorted(totals.items()):
            if total < int(wished):
                found.problem(
                    f"{network.words}: sriov.vfs is {wished}, and {device} of host {host} can have {total}: lower it, or raise NUM_OF_VFS "
                    "(and set SRIOV_EN) in the firmware of the card"
                )


def node_addresses(site: Site, nodes: t.Mapping[str, Json]) -> list[tuple[str, str]]:
    """[(address, where it was seen)]: what netdevs of hosts have, where nobody tells what GIDs of RDMA ports do, and what the cluster knows.

    A GID may be of a Pod whose netdev is called like one of the host. Link-local addresses do not count. A name that stands for an address is
    one, too, and means nothing here.
    """
    found: dict[str, str] = {}
    for host in sorted(site["facts"]):
        facts = site["facts"][host] or {}
        told = (facts.get("management") or {}).get("addresses")
        for device in facts.get("devices") or () if told is None else ():
            for port in device["ports"]:
                for gid in port["gids"]:
                    address = gid["ipv4"] or (gid["gid"] if port["link_layer"] == "Ethernet" else None)
                    if address and not address.lower().startswith(("fe80:", "0000:0000:0000:0000:0000:0000:0000:0000")):
                        found.setdefault(address, f"{gid['netdev'] or device['name']} of host {host}")
        for netdev, addresses in (told or {}).items():
            for address in addresses:
                found.setdefault(address, f"{netdev} of host {host}")
    for node in sorted(nodes):
        for address in nodes[node].get("addresses") or ():
            found.setdefault(str(address), f"node {node}")
    return list(found.items())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that can measure, which of two hosts' meet, and what they are to carry. Private to the collection. Pure."""

from __future__ import annotations

import collections
import itertools
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port
from ansible_collections.fabric.rdma.plugins.module_utils._plan.traffic import traffic_class
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Endpoint, Floor, Untested
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import is_atomic, kind_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.places import Place, places_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings

__all__ = ["End", "data_gbps", "ends_of", "floor", "gpu_memory", "not_measured", "pcie_gbps", "rails_of", "sensible"]

Json = t.Dict[str, t.Any]

# Shorter messages do not fill a link, whatever its rate.
_FILLS_BYTES = 4096
# Fewer hosts do not tell what is usual.
_LEAST_USUAL = 3
# Of what is on a PCIe link, 16 bytes of header and 8 of framing go with each payload of 256 (PCI Express Base Specification, 2.2),
# and acknowledgements and credits take a part: what an HCA gets through at best.
_PCIE_SHARE = 0.9
# Of InfiniBand up to QDR (its Architecture, volume 2), of whose rate the kernel does not take off the 8b/10b coding. It names other links so, too.
_CODED, _CODED_SHARE = ("SDR", "DDR", "QDR"), 0.8


@dataclass(frozen=True)
class End:
    """One port of one host. fabric: what both ends of a pair must have in common; address: for the exchange, None: unknown.

    rate_gbps: of the link, by its speed and width, without its coding; pcie_gbps: what its place in the host carries at most, None:
    unknown; gpu: how its memory is reached by the HCA (a name of perftest.MEMORIES), None: there is no GPU; nearest: the PCI address of the
    GPU whose memory it is, None: the first one; traffic_class: what its packets are given, None: nothing; place: see places_of, None:
    its name tells its rail. usual_gbps: the rate of this port on most hosts of the group where that is higher, else None: a link that
    trained down is a defect, and lowers no floor.
    """

    host: str
    device: str
    port: int
    gid_index: t.Optional[int]
    address: t.Optional[str]
    rate_gbps: t.Optional[float]
    software: bool
    fabric: str
    pcie_gbps: t.Optional[float] = None
    gpu: t.Optional[str] = None
    nearest: t.Optional[str] = None
    traffic_class: t.Optional[int] = None
    place: t.Optional[Place] = None
    usual_gbps: t.Optional[float] = None

    def facts(self) -> Endpoint:
        return {
            "host": self.host,
            "device": self.device,
            "port": self.port,
            "gid_index": self.gid_index,
            "address": self.address,
        }


def sensible(value: t.Any) -> t.Optional[float]:
    """A number that can be a rate or a time, None for everything else that a node may say."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        return None
    return float(value)


def not_measured(host: str, device: t.Optional[str], port: t.Optional[int], reason: str, defect: bool) -> Untested:
    """A row of what was not measured."""
    return {"host": host, "device": device, "port": port, "reason": reason, "defect": defect}


# --- what a host has --------------------------------------------------------------------------------------------------


def pcie_gbps(gts: t.Any, lanes: t.Any) -> t.Optional[float]:
    """Gb/s of data that an HCA gets through a PCIe link of so many GT/s and lanes at best; None for anything else.

    8b/10b coding up to 5 GT/s, 128b/130b up to 32 GT/s, and above that flits of 256 bytes with 242 of data.
    """
    speed, width = sensible(gts), sensible(lanes)
    if speed is None or width is None or width > 32 or speed > 256:
        return None
    coding = 0.8 if speed <= 5 else 128 / 130 if speed <= 32 else 242 / 256
    return round(speed * width * coding * _PCIE_SHARE, 1)


def _place(device: Json) -> t.Optional[float]:
    """What card and slot can do together, whatever they do now: a link that trained down is a defect, and lowers no floor."""
    link = device.get("pcie")
    if not isinstance(link, t.Mapping):
        return None
    found = pcie_gbps(link.get("max_speed_gts"), link.get("max_width"))
    bridge = link.get("bridge")
    above = pcie_gbps(bridge.get("max_speed_gts"), bridge.get("max_width")) if isinstance(bridge, t.Mapping) else None
    now = pcie_gbps(link.get("speed_gts"), link.get("width"))
    # bridges of virtual machines say less than what goes through them
    above = max(above, now) if above and now else above
    return min((one for one in (found, above) if one), default=None)


def gpu_memory(facts: Json, gpudirect: str) -> t.Optional[str]:
    """Where in a GPU's memory a test of this host can be (a name of perftest.MEMORIES); None without GPU or wish."""
    if gpudirect == "none" or not facts.get("gpus"):
        return None
    if gpudirect != "auto":
        return "cuda" if gpudirect == "peermem" else "cuda_dmabuf"
    module = ((facts.get("kernel") or {}).get("modules") or {}).get("nvidia_peermem") or {}
    return "cuda" if module.get("loaded") else "cuda_dmabuf"


def _nearest_gpu(facts: Json, device: Json) -> t.Optional[str]:
    """The GPU with the shortest way to an HCA; None where nobody knows. Behind another socket it is slower than the port."""
    gpus = [gpu for gpu in facts.get("gpus") or () if gpu.get("vendor") == "10de"]
    node = device.get("numa_node")
    near = [gpu for gpu in gpus if device["name"] in (gpu.get("nearest") or ())]
    near = near or [gpu for gpu in gpus if node is not None and gpu.get("numa_node") == node]
    return str(near[0]["pci"]) if near else None


def data_gbps(port: t.Mapping[str, t.Any]) -> t.Optional[float]:
    """Gb/s of data that a port of the facts carries; None where its rate is not known."""
    rate = sensible(port["rate_gbps"])
    coded = port["link_layer"] == "InfiniBand" and port.get("speed") in _CODED
    return rate * _CODED_SHARE if rate and coded else rate


def _end(host: str, facts: Json, wanted: Port, settings: Settings) -> t.Union[End, str]:
    """The end for a wanted port, or why there is none."""
    device = next(item for item in facts["devices"] if item["name"] == wanted["device"])
    port = next(item for item in device["ports"] if item["number"] == wanted["port"])
    gids = port.get("gids") or []
    software = device["kind"] == "software"
    gid_index = address = None
    if port["state"] != "Active":
        return f"the port is {port['state'] or 'in no known state'}, only Active ports carry traffic"
    if wanted["link_layer"] == "Ethernet":
        usable = [gid for gid in gids if gid["type"] == "RoCE v2" and gid["ipv4"]]
        if not usable:
            return f"the port has no RoCE v2 GID with an IPv4 address: give {wanted['netdev'] or 'its netdev'} one"
        # A port can have several (VLANs); the untagged interface of the port itself is the fabric's.
        own = [gid for gid in usable if gid["netdev"] == wanted["netdev"]]
        # the interface of a Pod may have the same name
        ours = ((facts.get("management") or {}).get("addresses") or {}).get(str(wanted["netdev"])) or ()
        known = [gid for gid in own if gid["ipv4"] in ours]
        # no router takes what a host gave itself (RFC 3927), and it may come first in the table
        chosen = min(
            known or own or usable, key=lambda gid: (str(gid["ipv4"]).startswith("169.254."), int(gid["index"]))
        )
        gid_index, address = int(chosen["index"]), str(chosen["ipv4"])
        fabric = "RoCE"
    else:
        # Addressed by LID, so no GID index; GID 0 says the subnet (InfiniBand Architecture, 4.1.1).
        first = next((gid["gid"] for gid in gids if gid["index"] == 0), None)
        prefix = ":".join(str(first).split(":")[:4]) if first else ""
        fabric = f"{wanted['link_layer']} {prefix}"
    return End(
        host,
        str(wanted["device"]),
        int(wanted["port"]),
        gid_index,
        address,
        data_gbps(port),
        software,
        fabric.strip(),
        None if software else _place(device),
        None if software else gpu_memory(facts, settings.gpudirect),
        _nearest_gpu(facts, device),
        traffic_class(facts, device["name"], int(wanted["port"])) if wanted["link_layer"] == "Ethernet" else None,
    )


def ends_of(
    hosts: t.Sequence[str], facts: t.Mapping[str, Json], wanted: t.Mapping[str, t.Sequence[Port]], settings: Settings
) -> tuple[dict[str, list[End]], list[Untested]]:
    """Ends by host, and the wanted ports that cannot be measured."""
    found: dict[str, list[End]] = {}
    untested: list[Untested] = []
    places = places_of({host: facts[host] for host in hosts if wanted.get(host)})
    for host in hosts:
        for row in wanted.get(host, []):
            end = _end(host, facts[host], row, settings)
            if isinstance(end, str):
                untested.append(not_measured(host, str(row["device"]), row["port"], end, True))
            else:
                place = places.get(host, {}).get(end.device)
                found.setdefault(host, []).append(replace(end, place=place) if place else end)
    # Subnets are told apart only where every InfiniBand port says its own: an unknown one may be any.
    ends = [end for own in found.values() for end in own]
    if any(end.fabric == "InfiniBand" for end in ends):
        found = {
            host: [replace(end, fabric=end.fabric.partition(" ")[0]) for end in own] for host, own in found.items()
        }
    return _with_usual_rates(found, facts), untested


def _with_usual_rates(found: t.Mapping[str, t.Sequence[End]], facts: t.Mapping[str, Json]) -> dict[str, list[End]]:
    """The same ends, with the rate that more than half of the hosts have at the port of this number of a card of this model, at its place.

    By name where too few hosts have a card at this place.
    """
    models = {(host, item["name"]): str(item.get("model")) for host in found for item in facts[host]["devices"]}
    ends = [end for own in found.values() for end in own if not end.software and end.rate_gbps]
    usual: dict[End, t.Optional[float]] = {}
    for whose in (_name_of, _place_of):
        alike: dict[tuple[t.Any, ...], list[End]] = {}
        for end in ends:
            if whose(end):
                alike.setdefault((models[(end.host, end.device)], whose(end), end.fabric), []).append(end)
        for group in alike.values():
            if len(group) >= _LEAST_USUAL:
                usual.update(dict.fromkeys(group, _most(group)))
    slow = {end: rate for end, rate in usual.items() if rate and end.rate_gbps and end.rate_gbps < rate}
    return {host: [replace(end, usual_gbps=slow.get(end)) for end in own] for host, own in found.items()}


def _most(ends: t.Sequence[End]) -> t.Optional[float]:
    """The rate of more than half of them."""
    rate, times = collections.Counter(end.rate_gbps for end in ends).most_common(1)[0]
    return rate if times * 2 > len(ends) else None


def _name_of(end: End) -> tuple[t.Any, ...]:
    return end.device, end.port


def _place_of(end: End) -> t.Optional[tuple[t.Any, ...]]:
    return (*end.place, end.port) if end.place else None


def _met(client: t.Sequence[End], server: t.Sequence[End]) -> dict[End, End]:
    """Ports of two hosts that are on one rail, which the place tells on hosts of one make, where names are those of neighbours."""
    makes = [{end.place[0] for end in own if end.place} for own in (client, server)]
    by_place = {_place_of(end): end for end in server if end.place}
    met = {end: by_place[_place_of(end)] for end in client if _place_of(end) in by_place}
    named = [[end for end in own if not end.place or not makes[0] & makes[1]] for own in (client, server)]
    by_name = {_name_of(end): end for end in named[1]}
    return {**met, **{end: by_name[_name_of(end)] for end in named[0] if _name_of(end) in by_name}}


def rails_of(client: t.Sequence[End], server: t.Sequence[End], rails: str = "same") -> list[tuple[End, End]]:
    """Ports of two hosts in one fabric that meet. all: each with each. same: those of one rail first, the others in their order."""
    if rails == "all":
        return list(itertools.product(client, server))
    met = _met(client, server)
    taken = set(met.values())
    free = [end for end in server if end not in taken]
    met.update(zip([end for end in client if end not in met], free))
    # A port without a counterpart is measured against the last one rather than not at all.
    met.update({end: server[-1] for end in client if end not in met})
    pairs = [(end, met[end]) for end in client]
    reached = {peer for _end, peer in pairs}
    return pairs + [(client[-1], end) for end in server if end not in reached]


# --- what is enough ---------------------------------------------------------------------------------------------------


def floor(
    test: str, client: End, server: End, settings: Settings, message_bytes: t.Optional[int] = None
) -> tuple[Floor, str]:
    """The bound for a test between two ends, and where it comes from in words. message_bytes: None where it fills the link."""
    software = client.software or server.software
    if kind_of(test) == "latency":
        if settings.max_us is not None:
            return {"max_us": settings.max_us}, "as set for all devices"
        if software:
            return {"max_us": settings.software_max_us}, "as set for software devices"
        return {"max_us": settings.hardware_max_us}, "as set for devices in hardware"
    small = is_atomic(test) or (message_bytes is not None and message_bytes < _FILLS_BYTES)
    if settings.min_gbps is not None and not small:
        return {"min_gbps": settings.min_gbps}, "as set for all devices"
    lowest: Floor = {"min_gbps": settings.software_min_gbps}
    if software:
        # Its rate is a constant of the driver and says nothing about the CPU that does the work.
        return lowest, "as set for software devices"
    if small:
        return lowest, "messages this short do not fill a link"
    return _share(client, server, settings) or (lowest, "the rate of the ports is unknown")


def _share(client: End, server: End, settings: Settings) -> t.Optional[tuple[Floor, str]]:
    """By the slowest of both links and both places in their hosts; None where no rate is known."""
    ends = [end for end in (client, server) if end.rate_gbps]
    if not ends:
        return None
    slowest = min(ends, key=_should_have)
    rate, both = _should_have(slowest), 2 if settings.bidirectional else 1
    share, ways = settings.min_share, " in both directions" if settings.bidirectional else ""
    places = [place for place in (client.pcie_gbps, server.pcie_gbps) if place]
    if places and min(places) < rate:
        where = f"{share * 100:g} % of the {min(places):g} Gb/s that PCIe carries at most, less than the port's {rate:g} Gb/s"
        return {"min_gbps": round(share * min(places) * both, 6)}, where + ways
    where = f"{share * 100:g} % of the port's {rate:g} Gb/s{ways}"
    down = [f"{end.host} {end.device} port {end.port} has {end.rate_gbps:g} Gb/s" for end in ends if end.usual_gbps]
    if down:
        where += f", as on most hosts: {', '.join(down)}"
    # Rounded: 0.9 * 200 shall not read 180.00000000000003.
    return {"min_gbps": round(share * rate * both, 6)}, where


def _should_have(end: End) -> float:
    return end.usual_gbps or end.rate_gbps or 0.0

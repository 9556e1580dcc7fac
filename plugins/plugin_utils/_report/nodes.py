# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node on the page: its devices and ports, what the plan says of them, and the drawing. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    NOTHING,
    Json,
    as_list,
    as_map,
    as_maps,
    clean,
    in_figures,
)

__all__ = ["Decisions", "by_host", "node_view"]

# Names of the GPUs that are usual in such clusters, by the PCI id of vendor 10de; others are shown by their id.
_GPU_MODELS = {
    "1db1": "V100 16 GB", "1db4": "V100 16 GB", "1db5": "V100 32 GB", "1db6": "V100 32 GB", "1eb8": "T4",
    "20b0": "A100 40 GB", "20b2": "A100 80 GB", "20b5": "A100 80 GB", "20f1": "A100 40 GB", "26b9": "L40S",
    "2330": "H100 80 GB", "2331": "H100 80 GB", "2335": "H200", "2342": "GH200", "2901": "B200", "2941": "GB200",
}  # fmt: skip

# What a port that is not Active is waiting for.
_PORT_HINTS = {
    ("Down", "Polling"): "no signal from the other end: cable, transceiver or switch port",
    ("Down", "Disabled"): "switched off here or by the switch",
    ("Down", "LinkUp"): "linked, but not brought up: subnet manager, or a virtual function without a GUID",
    ("Down", "Sleep"): "asleep",
    ("Init", "LinkUp"): "linked, waiting for a subnet manager",
    ("Armed", "LinkUp"): "configured by the subnet manager, not released for data yet",
}


class Decisions:
    """What the plan says of the ports of one host."""

    def __init__(self, group: Json, index: Json, host: str) -> None:
        self.wanted = index["wanted"].get(host, set())
        self.offered = index["offered"].get(host, set())
        self.excluded = index["excluded"].get(host, {})
        self.planned = bool(group)

    def of(self, device: str, port: t.Any) -> tuple[str, str]:
        """(kind, words): selected, host (usable, but not through the plugin), out, none."""
        key = (device, str(port))
        if key in self.wanted:
            if device in self.offered:
                return "selected", "selected"
            return "host", "usable on the host, not offered by the plugin"
        reason = self.excluded.get(key) or self.excluded.get((device, str(None)))
        if reason is not None:
            return "out", clean(reason)
        return "none", "not considered" if self.planned else "no plan"


def _port_key(item: Json) -> tuple[str, str]:
    return str(item.get("device")), str(item.get("port"))


def by_host(group: Json) -> Json:
    """The plan of a group by host, so that a node costs no search."""
    wanted: dict[str, set[tuple[str, str]]] = {}
    for host, ports in as_map(group.get("wanted")).items():
        wanted[host] = {_port_key(port) for port in as_maps(ports)}
    offered: dict[str, set[str]] = {}
    for item in as_maps(group.get("classes")):
        for host, matches in as_map(item.get("matches")).items():
            offered.setdefault(host, set()).update(str(match.get("device")) for match in as_maps(matches))
    excluded: dict[str, dict[tuple[str, str], str]] = {}
    for item in as_maps(group.get("exclusions")):
        excluded.setdefault(str(item.get("host")), {})[_port_key(item)] = str(item.get("reason"))
    return {"wanted": wanted, "offered": offered, "excluded": excluded}


def _port(device: Json, port: Json, decisions: Decisions) -> Json:
    state, phys = port.get("state"), port.get("phys_state")
    active = state == "Active"
    kind, words = decisions.of(str(device.get("name")), port.get("number"))
    speed = " ".join(str(part) for part in (port.get("width"), port.get("speed")) if part)
    netdevs = []
    for netdev in as_maps(port.get("netdevs")):
        notes = [str(netdev.get("operstate") or "state unknown")]
        if netdev.get("master"):
            notes.append(f"in {netdev['master']}")
        netdevs.append({"name": clean(netdev.get("name"), 80), "notes": clean(", ".join(notes), 80)})
    return {
        "number": clean(port.get("number"), 8),
        "link_layer": clean(port.get("link_layer") or "unknown", 20),
        "state": clean(state or "unknown", 20),
        "phys": clean(phys, 30) if phys and not (active and phys == "LinkUp") else "",
        "hint": _PORT_HINTS.get((str(state), str(phys)), ""),
        "look": "active" if active else ("down" if state in ("Down", "Nop", None) else "waiting"),
        # the rate of a port that is not Active says nothing of the link
        "rate": in_figures(port.get("rate_gbps")) + " Gb/s" if active and port.get("rate_gbps") else NOTHING,
        "speed": clean(speed, 20) if active else "",
        "netdevs": netdevs,
        "decision": kind,
        "why": words,
    }


def _device(device: Json, decisions: Decisions) -> Json:
    plugin = as_map(device.get("plugin"))
    lag = as_map(device.get("lag"))
    members = [str(member.get("netdev")) for member in as_maps(lag.get("members"))]
    sriov = as_map(device.get("sriov"))
    kind = {"vf": "virtual function", "sf": "sub-function", "software": "software", "smi": "management only"}
    notes = [kind[str(device.get("kind"))]] if str(device.get("kind")) in kind else []
    if lag:
        notes.append(f"{lag.get('netdev')}, {lag.get('mode') or 'bond'} of {' and '.join(members)}")
    if sriov.get("vfs"):
        notes.append(f"{sriov['vfs']} virtual functions in use")
    seen = plugin.get("if_name") or "no interface"
    return {
        "name": clean(device.get("name"), 80),
        "model": clean(device.get("model") or as_map(device).get("driver") or "unknown model", 80),
        "pci": clean(device.get("pci") or NOTHING, 20),
        "firmware": clean(device.get("firmware") or "", 40),
        "notes": clean("; ".join(notes), 200),
        "visible": bool(plugin.get("visible")),
        "link_type": clean(plugin.get("link_type") or "", 40),
        "seen": clean(seen if plugin.get("visible") else plugin.get("reason") or "invisible", 200),
        "ports": [_port(device, port, decisions) for port in as_maps(device.get("ports"))],
    }


def _slot(pci: t.Any, name: str) -> str:
    """Functions of one card share everything but the function number."""
    return str(pci).rpartition(".")[0] if pci else name


def _panels(devices: list[Json], gpus: list[Json], views: dict[str, Json]) -> list[Json]:
    """The drawing: one panel a NUMA node; in it GPUs and cards, and frames around those that are nearest to each other."""
    card_of = {str(item.get("name")): _slot(item.get("pci"), str(item.get("name"))) for item in devices}

    def numa(item: Json) -> str:
        if item.get("kind") == "software" and not item.get("pci"):
            return "software"
        node = item.get("numa_node")
        return "unknown" if node is None else str(node)

    last = {"unknown": 1, "software": 2}
    keys = sorted({numa(item) for item in [*devices, *gpus]}, key=lambda key: (last.get(key, 0), natural_key(key)))
    panels = []
    for key in keys:
        cards: dict[str, list[Json]] = {}
        for item in devices:
            if numa(item) == key:
                cards.setdefault(card_of[str(item.get("name"))], []).append(views[str(item.get("name"))])
        frames: list[Json] = []
        alone: list[Json] = []
        framed: dict[tuple[str, ...], Json] = {}
        placed: set[str] = set()
        for gpu in gpus:
            if numa(gpu) != key:
                continue
            view = {
                "model": clean(_GPU_MODELS.get(str(gpu.get("device")), f"GPU {gpu.get('device')}"), 40),
                "pci": clean(gpu.get("pci"), 20),
            }
            near = tuple(sorted({card_of[name] for name in map(str, as_list(gpu.get("nearest"))) if name in card_of}))
            # nearest to some cards of the panel, not to all of them: that is more than the NUMA node says
            if near and set(near) < set(cards) and (near in framed or not placed & set(near)):
                if near not in framed:
                    framed[near] = {"gpus": [], "cards": [cards[slot] for slot in near]}
                    frames.append(framed[near])
                    placed |= set(near)
                framed[near]["gpus"].append(view)
            else:
                alone.append(view)
        rest = [card for slot, card in cards.items() if slot not in placed]
        titles = {"software": "Software devices", "unknown": "NUMA node not reported"}
        title = titles.get(key, f"NUMA node {clean(key, 8)}")
        panels.append({"title": title, "frames": frames, "gpus": alone, "cards": rest})
    return panels


def node_view(facts: Json, decisions: Decisions) -> Json:
    """All that the page shows of a node, without anything that is its own by nature (name, addresses, GUIDs, LIDs)."""
    devices, gpus = as_maps(facts.get("devices")), as_maps(facts.get("gpus"))
    views = {str(device.get("name")): _device(device, decisions) for device in devices}
    kernel, ofed, management = (as_map(facts.get(key)) for key in ("kernel", "ofed", "management"))
    about = []
    if kernel.get("release"):
        about.append(f"kernel {kernel['release']}")
    if isinstance(kernel.get("page_size"), int) and kernel["page_size"] != 4096:
        about.append(f"{kernel['page_size'] // 1024} KiB pages")
    if ofed.get("flavour"):
        words = {"inbox": "drivers of the distribution", "mlnx_ofed": "MLNX_OFED", "doca": "DOCA"}
        about.append(" ".join(str(part) for part in (words.get(str(ofed["flavour"])), ofed.get("version")) if part))
    routes = as_list(management.get("default_route_netdevs"))
    if routes:
        about.append(f"default route over {', '.join(map(str, routes))}")
    notes = [clean(text) for text in as_list(facts.get("warnings"))]
    if kernel.get("rdma_netns") == "exclusive":
        notes.append(
            "RDMA namespaces are exclusive: the shared device plugin refuses to start; boot with ib_core.netns_mode=1"
        )
    ports = [port for view in views.values() for port in view["ports"]]
    return {
        "about": [clean(text, 120) for text in about],
        "cautions": ["the default route runs over an RDMA driver: reloading it cuts the node off"]
        if management.get("rdma_backed")
        else [],
        "notes": notes,
        "panels": _panels(devices, gpus, views),
        "devices": list(views.values()),
        "gpus": len(gpus),
        "ports": len(ports),
        "active": sum(port["look"] == "active" for port in ports),
        "selected": sum(port["decision"] == "selected" for port in ports),
        "usable": sum(port["decision"] in ("selected", "host") for port in ports),
    }

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map of the fabric: which port of which host is plugged in where, out of facts, wishes and what programs of hosts say. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import hosts_label, printable
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import patient, usable_ports
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.cables import cable_findings, subnet_findings
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.contract import (
    FabricMap,
    Place,
    Switch,
    Told,
    Trunk,
    Unit,
    Unplaced,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.parse import (
    Fabric,
    Neighbour,
    parse_ibnetdiscover,
    parse_lldp,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.rules import sorted_findings

__all__ = ["Question", "asked_hosts", "fabric_map"]

Json = t.Mapping[str, t.Any]
_SCHEMA = 1
_IBNETDISCOVER, _LLDPCTL = "ibnetdiscover", "lldpctl"


# One would do; the other one is there in case that the first does not answer.
_ASKED = 2


class Question(t.TypedDict):
    """What the module fabric_map is to do on a host."""

    programs: list[str]
    ports: list[dict[str, t.Any]]


class _Known(t.NamedTuple):
    """What all hosts have told. neighbours: by host; a host that told nothing is not there. silent: why a host gave no answer."""

    fabric: Fabric
    neighbours: dict[str, dict[str, Neighbour]]
    sources: list[Told]
    warnings: list[str]
    silent: dict[str, str]


class _Wanted(t.NamedTuple):
    """A wanted port of a host."""

    host: str
    group: str
    rail: int
    device: Json
    port: Json


class _Joined:
    """What several hosts see of the fabric. Where two disagree, one is wrong or in wrong hands: neither counts."""

    def __init__(self) -> None:
        self.fabric = Fabric({}, {}, {})
        self.warnings: list[str] = []
        # who has told of a switch, or of a port, first
        self._told: dict[str, str] = {}
        self._disputed: set[str] = set()

    def add(self, host: str, own: Fabric) -> None:
        against: dict[str, list[str]] = {}
        tables: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
            (self.fabric.switches, own.switches),
            (self.fabric.ends, own.ends),
        ]
        for known, told in tables:
            for guid, value in told.items():
                first = self._told.setdefault(guid, host)
                if known.setdefault(guid, value) != value and guid not in self._disputed:
                    self._disputed.add(guid)
                    against.setdefault(first, []).append(guid)
        self.fabric.trunks.update(own.trunks)
        for first, guids in against.items():
            more = f" and {len(guids) - 1} more" if len(guids) > 1 else ""
            self.warnings.append(f"hosts {first} and {host} disagree about {guids[0]}{more}; the map ignores both")

    def agreed(self) -> Fabric:
        switches = {guid: "" if guid in self._disputed else name for guid, name in self.fabric.switches.items()}
        ends = {guid: spot for guid, spot in self.fabric.ends.items() if guid not in self._disputed}
        return Fabric(switches, ends, self.fabric.trunks)


def _heard(answers: t.Mapping[str, t.Any]) -> _Known:
    """answers: by host what the module fabric_map returned, {programs: [{program, text, error}]}."""
    known = _Known(Fabric({}, {}, {}), {}, [], [], {})
    joined = _Joined()
    for host in sorted(answers, key=natural_key):
        rows = answers[host].get("programs") if isinstance(answers[host], t.Mapping) else None
        if rows is None:
            given = answers[host] if isinstance(answers[host], t.Mapping) else {}
            known.silent[host] = printable(" ".join(str(given.get("msg") or "it did not answer").split()))[:200]
            known.warnings.append(f"host {host}: its cables were not looked at: {known.silent[host]}")
        for row in rows if isinstance(rows, (list, tuple)) else ():
            if not isinstance(row, t.Mapping):
                continue
            program, text = printable(row.get("program")), row.get("text")
            if not isinstance(text, str) or not text:
                if row.get("error"):
                    known.warnings.append(f"host {host}: {program[:200]}: {printable(row['error'])[:200]}")
                continue
            told = False
            if program == _LLDPCTL:
                neighbours = parse_lldp(text)
                known.neighbours.setdefault(host, {}).update(neighbours)
                told = bool(neighbours)
            elif program == _IBNETDISCOVER:
                own = parse_ibnetdiscover(text)
                # two ports in one subnet tell the same
                joined.add(host, own)
                told = bool(own.switches)
            if told and {"host": host, "program": program} not in known.sources:
                known.sources.append({"host": host, "program": program})
            elif not told:
                known.warnings.append(f"host {host}: {program[:200]} reported no switch")
    return known._replace(fabric=joined.agreed(), warnings=[*known.warnings, *joined.warnings])


def _rails(plan: t.Optional[Json], group: str, host: str) -> dict[str, int]:
    """The rail of each device of a host, where the plan has rails."""
    entry = ((plan or {}).get("groups") or {}).get(group) or {}
    rows = (entry.get("rails") or {}).get(host) or ()
    return {device: row["rail"] for row in rows for device in row["devices"]}


def _wanted(view: Json, plan: t.Optional[Json], absent: t.Iterable[Place] = ()) -> list[_Wanted]:
    """absent: places of hosts that this run knows nothing of. What these use are rails of the group, too."""
    found = []
    for group, entry in view["groups"].items():
        # not the resource: a fabric can be looked at before its group has one
        want = validate_wishes(group, {"resource": {"name": "any"}, "want": entry.get("want")})["want"]
        elsewhere = {(place["device"], place["port"]) for place in absent if place["group"] == group}
        own: list[_Wanted] = []
        seats: set[int] = set()
        for host in sorted(entry["hosts"], key=natural_key):
            facts = view["facts"].get(host)
            if facts and facts.get("devices"):
                able = [(row["device"], row["port"]) for row in usable_ports(facts, patient(want))[0]]
                seats.update(seat for seat, port in enumerate(able) if port in elsewhere)
                own += _wanted_of_host(host, group, facts, want, able)
        # what no host of the group uses does not count
        used = {seat: rail for rail, seat in enumerate(sorted({row.rail for row in own} | seats))}
        rails = {row.host: _rails(plan, group, row.host) for row in own}
        found += [row._replace(rail=rails[row.host].get(row.device["name"], used[row.rail])) for row in own]
    return found


def _wanted_of_host(host: str, group: str, facts: Json, want: Json, able: t.Sequence[tuple[str, int]]) -> list[_Wanted]:
    """Those of one host. rail: the place among able, its ports, also those that are down, or the others would not be beside those of other hosts."""
    devices = {device["name"]: device for device in facts["devices"]}
    seats = {port: seat for seat, port in enumerate(able)}
    found = []
    for row in usable_ports(facts, want)[0]:
        device = devices[row["device"]]
        port = next(port for port in device["ports"] if port["number"] == row["port"])
        if device["kind"] != "software" or row["link_layer"] == "Ethernet":
            found.append(_Wanted(host, group, seats[(row["device"], row["port"])], device, port))
    return found


def asked_hosts(view: Json, present: t.Collection[str]) -> dict[str, Question]:
    """Whom to ask: of each group two hosts for InfiniBand, from each of their ports, and every host for Ethernet."""
    found: dict[str, Question] = {}
    seen: dict[str, set[str]] = {}
    replayed = {host for entry in view["groups"].values() for host in entry.get("replayed") or ()}
    for row in _wanted(view, None):
        if row.host not in present or row.host in replayed:
            continue
        own = found.setdefault(row.host, {"programs": [], "ports": []})
        if row.port["link_layer"] == "Ethernet":
            own["programs"] = sorted({*own["programs"], _LLDPCTL})
            continue
        of_group = seen.setdefault(row.group, set())
        if row.host in of_group or len(of_group) < _ASKED:
            of_group.add(row.host)
            own["programs"] = sorted({*own["programs"], _IBNETDISCOVER})
            own["ports"].append({"device": row.device["name"], "port": row.port["number"]})
    return {host: question for host, question in found.items() if question["programs"]}


def _gid(port: Json) -> t.Optional[str]:
    return next((str(gid["gid"]) for gid in port["gids"] if gid["index"] == 0), None)


def _place(row: _Wanted, netdev: t.Optional[str], leaf: str, leaf_port: str) -> Place:
    gid = _gid(row.port) if row.port["link_layer"] == "InfiniBand" else None
    return {
        "host": row.host,
        "group": row.group,
        "device": row.device["name"],
        "port": row.port["number"],
        "netdev": netdev,
        "link_layer": row.port["link_layer"],
        "rail": row.rail,
        "subnet": gid[:19] if gid else None,
        "leaf": leaf,
        "leaf_port": leaf_port,
    }


def _netdevs(row: _Wanted) -> list[str]:
    """Those that have a cable: of a bond its members."""
    lag = row.device["lag"]
    if lag:
        return [member["netdev"] for member in lag["members"]]
    return [netdev["name"] for netdev in row.port["netdevs"]]


def _found(row: _Wanted, known: _Known) -> tuple[list[Place], str]:
    """(where a port is, why that is not known)."""
    if row.port["link_layer"] == "InfiniBand":
        guid = (_gid(row.port) or "")[20:].replace(":", "")
        spot = known.fabric.ends.get(guid)
        if spot:
            return [_place(row, None, spot.switch, spot.port)], ""
        if not known.fabric.switches:
            return (
                [],
                "no host has reported an InfiniBand fabric: ibnetdiscover needs infiniband-diags, ib_umad and root on one host",
            )
        return [], "it is in none of the fabrics that ibnetdiscover has seen"
    if row.host in known.silent:
        return [], f"its host gave no answer: {known.silent[row.host]}"
    if row.host not in known.neighbours:
        return [], "its host does not tell of neighbours: install and start lldpd, and let the switches speak LLDP"
    told = known.neighbours[row.host]
    places = [_place(row, name, told[name].id, told[name].port) for name in _netdevs(row) if name in told]
    return (
        places,
        "no switch has announced itself on its cable (LLDP): the firmware of the card may keep LLDP to itself",
    )


def _unseen(place: Place, view: Json, known: _Known, wanted: t.Collection[tuple[str, str, int]]) -> bool:
    """Whether nobody has looked where a port is: its host is not in this run, or is lost, or nobody has told of its fabric or neighbours.

    wanted: ports that the facts have, also those of a cache, and that the groups want.
    """
    if view["facts"].get(place["host"]) is None:
        return True
    if _port_of(place) not in wanted:
        return False
    if place["link_layer"] == "InfiniBand":
        # there may be several fabrics: a host of one tells nothing of the others
        return place["leaf"] not in known.fabric.switches
    return place["host"] not in known.neighbours


def _port_of(row: t.Union[Place, Unplaced]) -> tuple[str, str, int]:
    return row["host"], row["device"], row["port"]


def _switches(places: t.Sequence[Place], known: _Known, earlier: t.Iterable[Switch]) -> list[Switch]:
    leaves = {place["leaf"]: place["link_layer"] for place in places}
    names = {guid: ("InfiniBand", name or guid) for guid, name in known.fabric.switches.items()}
    for told in known.neighbours.values():
        for neighbour in told.values():
            # one that hosts call differently has its id for a name
            if (
                neighbour.id in leaves
                and names.setdefault(neighbour.id, ("Ethernet", neighbour.name))[1] != neighbour.name
            ):
                names[neighbour.id] = (names[neighbour.id][0], neighbour.id)
    for switch in earlier:
        if switch["id"] in leaves:
            names.setdefault(switch["id"], (switch["link_layer"], switch["name"]))
    for leaf, layer in leaves.items():
        names.setdefault(leaf, (layer, leaf))
    return [
        {"id": key, "name": name, "link_layer": layer, "leaf": key in leaves}
        for key, (layer, name) in sorted(names.items(), key=lambda item: (item[1][0], natural_key(item[1][1]), item[0]))
    ]


def _units(places: t.Sequence[Place]) -> list[Unit]:
    """Hosts by the leaves that their ports are at."""
    by_host: dict[str, set[str]] = {}
    for place in places:
        by_host.setdefault(place["host"], set()).add(place["leaf"])
    units: dict[tuple[str, ...], list[str]] = {}
    for host, leaves in by_host.items():
        units.setdefault(tuple(sorted(leaves)), []).append(host)
    return [
        {"leaves": list(leaves), "hosts": sorted(hosts, key=natural_key)} for leaves, hosts in sorted(units.items())
    ]


def fabric_map(
    view: Json,
    plan: t.Optional[Json],
    answers: t.Mapping[str, t.Any],
    earlier: t.Optional[Json] = None,
    groups: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
) -> FabricMap:
    """The map of a view ({groups: {name: {hosts, want}}, facts}), with what is not as it should be.

    plan: its rails count, where it has some. answers: by host what the module fabric_map returned; whatever is in there is a node's.
    earlier: the map before this one, by which those hosts of groups (all of the inventory) stay where they were that nobody has looked at.
    """
    known = _heard(answers)
    fresh: list[Place] = []
    unplaced: list[Unplaced] = []
    before = earlier or {}
    placed = [place for place in before.get("places") or () if place["host"] in (groups or {}).get(place["group"], ())]
    rows = _wanted(view, plan, [place for place in placed if view["facts"].get(place["host"]) is None])
    for row in rows:
        own, reason = _found(row, known)
        fresh += own
        if not own:
            name, number = row.device["name"], row.port["number"]
            unplaced.append({"host": row.host, "group": row.group, "device": name, "port": number, "reason": reason})
    wanted = {(row.host, row.device["name"], row.port["number"]) for row in rows}
    found = {_port_of(place) for place in fresh}
    kept = [place for place in placed if _port_of(place) not in found and _unseen(place, view, known, wanted)]
    stay = {_port_of(place) for place in kept}
    unplaced = [row for row in unplaced if _port_of(row) not in stay]
    places = sorted(fresh + kept, key=lambda place: (place["group"], natural_key(place["host"]))) if kept else fresh
    leaves: dict[str, list[str]] = {}
    for place in places:
        hosts = leaves.setdefault(place["leaf"], [])
        if place["host"] not in hosts:
            hosts.append(place["host"])
    switches = _switches(places, known, before.get("switches") or ())
    trunks: list[Trunk] = [{"a": a, "b": b, "count": count} for (a, b), count in sorted(known.fabric.trunks.items())]
    names = {switch["id"]: switch["name"] for switch in switches}
    findings = cable_findings(fresh, names) + subnet_findings(fresh, unplaced, bool(known.fabric.switches))
    unseen = hosts_label({place["host"] for place in kept})
    words = [f"not looked at, and where the map before this one has it: {unseen}"] if kept else []
    return {
        "schema": _SCHEMA,
        "places": places,
        "switches": switches,
        "trunks": trunks,
        "leaves": {leaf: sorted(hosts, key=natural_key) for leaf, hosts in sorted(leaves.items())},
        "units": _units(places),
        "unplaced": unplaced,
        "sources": known.sources,
        "findings": sorted_findings(findings),
        "warnings": [*known.warnings, *words],
    }

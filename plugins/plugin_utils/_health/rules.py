# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with cards and links, by the facts of the hosts of a group. Private to the collection. Pure.

Hosts of a group are meant to be alike: a card is compared with the cards in the same slot of the other hosts, by PCI address and model.
What most of them have is taken for right; where there is no majority, all of them are named. Facts may lack anything that this looks at.
"""

from __future__ import annotations

import collections
import statistics
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import hosts_label, printable
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import data_gbps
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import SEVERITIES, Finding, Severity
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.kinds import LINKS, PAUSED, PAUSES

__all__ = ["health_findings", "sorted_findings"]

Json = t.Mapping[str, t.Any]
# (slot: PCI address and model): what hosts have there
_Slot = tuple[str, str]

# Gb/s of a lane after its encoding (8b/10b below 8 GT/s, 128b/130b from there on, FLITs at 64).
_LANE = {2.5: 2.0, 5.0: 4.0, 8.0: 7.877, 16.0: 15.754, 32.0: 31.508, 64.0: 60.5}
_MOST_EVIDENCE, _MOST_TEXT = 20, 300
# Characters of a line that names hosts, which are cut between two of them.
_MOST_NAMES = 200
# Cables are pulled and switches restarted: a few lost links are not a sign of anything.
_DOWNS, _DOWNS_ABOVE_MEDIAN, _DOWNS_ANYWAY = 10, 5, 100
# As many pauses as nobody has for a moment of congestion, and as a share of the packets.
_PAUSES, _PAUSE_SHARE = 10_000, 0.01
_HOT = 10.0
_WIRE = (
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "link_error_recovery",
    "excessive_buffer_overrun_errors",
)
_WIRE_OF_NETDEV = ("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy")


class _Row(t.NamedTuple):
    """A device of a host."""

    host: str
    device: Json


class _Group(t.NamedTuple):
    """slots: devices in hardware by slot. cards: Gb/s of each Active port of a card, by host and address. health: by host."""

    name: str
    slots: dict[_Slot, list[_Row]]
    cards: dict[tuple[str, str], list[float]]
    health: dict[str, Json]


# What to do, by the id of a finding.
_REMEDIES = {kind.id: kind.remedy for kind in LINKS}


def _finding(
    group: _Group,
    key: str,
    severity: Severity,
    hosts: t.Iterable[str],
    cause: str,
    evidence: t.Iterable[str],
    remedy: str = "",
) -> Finding:
    """remedy: in place of the one of its kind."""
    lines = [printable(str(line))[:_MOST_TEXT] for line in evidence]
    more = [f"and {len(lines) - _MOST_EVIDENCE} more"] if len(lines) > _MOST_EVIDENCE else []
    return {
        "id": key,
        "severity": severity,
        "group": group.name,
        "hosts": sorted(set(hosts), key=natural_key),
        "cause": printable(cause)[:_MOST_TEXT],
        "evidence": lines[:_MOST_EVIDENCE] + more,
        "remedy": remedy or _REMEDIES[key],
    }


def sorted_findings(findings: t.Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(
        findings,
        key=lambda each: (SEVERITIES.index(each["severity"]), each["group"], each["id"], each["cause"], each["hosts"]),
    )


def _device(row: _Row) -> str:
    return f"{row.device['name']} ({row.device['pci']})"


def _most(values: t.Iterable[t.Any]) -> t.Any:
    """What more than half of them are; None where there is no such value."""
    counted = collections.Counter(values)
    if not counted:
        return None
    value, count = counted.most_common(1)[0]
    return value if 2 * count > sum(counted.values()) else None


def _by_value(rows: t.Iterable[tuple[t.Any, str]]) -> list[str]:
    """``VALUE: HOST, HOST`` of (value, host), what most have first."""
    found: dict[t.Any, list[str]] = {}
    for value, host in rows:
        found.setdefault(value, []).append(host)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), str(item[0])))
    return [f"{value}: {hosts_label(hosts, _MOST_NAMES)}" for value, hosts in ordered]


# --- PCIe -------------------------------------------------------------------------------------------------------------


def _link(speed: float, width: int) -> str:
    return f"x{width} at {speed:g} GT/s"


def _carries(speed: float, width: int) -> float:
    return _LANE.get(speed, speed * 0.95) * width


def _now(row: _Row) -> t.Optional[tuple[float, int]]:
    pcie = row.device.get("pcie") or {}
    speed, width = pcie.get("speed_gts"), pcie.get("width")
    return (speed, width) if speed and width else None


def _possible(row: _Row) -> t.Optional[tuple[float, int]]:
    """What both the card and the slot can do."""
    pcie = row.device.get("pcie") or {}
    bridge = pcie.get("bridge") or {}
    if not pcie.get("max_speed_gts") or not pcie.get("max_width"):
        return None
    speed, width = pcie["max_speed_gts"], pcie["max_width"]
    return min(speed, bridge.get("max_speed_gts") or speed), min(width, bridge.get("max_width") or width)


def _card(row: _Row) -> tuple[str, str]:
    """The host, and the address without the number of the function: all functions of a card share its lanes."""
    return row.host, row.device["pci"].rpartition(".")[0]


def _rates(row: _Row) -> list[float]:
    """Gb/s of data of its Active ports."""
    return [data_gbps(port) or 0.0 for port in row.device["ports"] if port["state"] == "Active"]


def _needed(group: _Group, row: _Row) -> list[float]:
    """Gb/s of the Active ports of its card. A virtual function has the ports of another one."""
    return group.cards[_card(row)] if row.device["kind"] == "pf" else _rates(row)


def _pcie_degraded(group: _Group) -> t.Iterator[Finding]:
    for (_pci, model), rows in group.slots.items():
        for row in rows:
            now, possible = _now(row), _possible(row)
            if now is None or possible is None or (now[0] >= possible[0] and now[1] >= possible[1]):
                continue
            carries, needed = _carries(*now), sum(_needed(group, row))
            evidence = [
                f"{row.host} {_device(row)}: {_link(*now)}, about {carries:.0f} Gb/s; card and slot can do {_link(*possible)}"
            ]
            if needed:
                evidence.append(f"its Active ports have {needed:g} Gb/s")
            others = [_now(other) for other in rows if other.host != row.host]
            evidence += _by_value((_link(*each), "other hosts") for each in others if each is not None)
            severity: Severity = "error" if needed > carries else "warning"
            cause = (
                f"{row.host}: the PCIe link of {row.device['name']} ({model}) came up slower than card and slot can do"
            )
            remedy = _REMEDIES["pcie-degraded"].replace("PCI ", f"{row.device['pci']} ")
            yield _finding(group, "pcie-degraded", severity, [row.host], cause, evidence, remedy)


def _pcie_slot(group: _Group) -> t.Iterator[Finding]:
    """Card and slot do what they can, and that is too little for the ports; a note where it is enough for each of them alone."""
    told: set[tuple[str, str]] = set()
    for (pci, model), rows in group.slots.items():
        found = []
        alone = True
        for row in rows:
            now, possible, needed = _now(row), _possible(row), _needed(group, row)
            # once for all functions of a card
            if now is None or possible is None or _card(row) in told:
                continue
            told.add(_card(row))
            if now >= possible and now[1] >= possible[1] and sum(needed) > _carries(*now):
                found.append((f"{_link(*now)}, about {_carries(*now):.0f} Gb/s for {sum(needed):g} Gb/s", row.host))
                alone = alone and max(needed) <= _carries(*now)
        if found:
            cause = f"the slot of {model} at {pci} carries less than the ports of the card"
            hosts = [host for _text, host in found]
            yield _finding(group, "pcie-slot", "note" if alone else "warning", hosts, cause, _by_value(found))


def _pcie_unlike_neighbours(group: _Group) -> t.Iterator[Finding]:
    for (pci, model), rows in group.slots.items():
        known = [(now, row) for row in rows if (now := _now(row)) is not None]
        most = _most(now for now, _row in known)
        slower = [
            row
            for now, row in known
            if most is not None and _carries(*now) < _carries(*most) and (_possible(row) or now) <= now
        ]
        if slower:
            cause = f"the PCIe link of {model} at {pci} is slower than on the other hosts"
            evidence = _by_value((_link(*now), row.host) for now, row in known)
            hosts = [row.host for row in slower]
            yield _finding(group, "pcie-unlike-neighbours", "warning", hosts, cause, evidence)


# --- cards ------------------------------------------------------------------------------------------------------------


def _firmware(group: _Group) -> t.Iterator[Finding]:
    """By model and board: another board has another firmware."""
    boards: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for (_pci, model), rows in group.slots.items():
        for row in rows:
            if row.device["firmware"] and row.device["kind"] == "pf":
                own = boards.setdefault((model, row.device["board_id"] or ""), set())
                own.add((row.device["firmware"], row.host))
    for (model, board), found in sorted(boards.items()):
        versions = {version for version, _host in found}
        if len(versions) > 1:
            most = _most(version for version, _host in found)
            hosts = [host for version, host in found if version != most]
            cause = f"{model} ({board or 'unknown board'}) has {len(versions)} versions of firmware in the group"
            yield _finding(group, "firmware-differs", "warning", hosts, cause, _by_value(sorted(found)))


def _board(group: _Group) -> t.Iterator[Finding]:
    for (pci, model), rows in group.slots.items():
        found = [(row.device["board_id"], row.host) for row in rows if row.device["board_id"]]
        most = _most(board for board, _host in found)
        if len({board for board, _host in found}) > 1:
            hosts = [host for board, host in found if board != most]
            cause = f"{model} at {pci} is of different boards (PSID) in the group"
            yield _finding(group, "psid-differs", "warning", hosts, cause, _by_value(found))


# --- ports ------------------------------------------------------------------------------------------------------------


def _ports(rows: t.Iterable[_Row]) -> dict[int, list[tuple[_Row, Json]]]:
    """The Active ports of a slot by number."""
    found: dict[int, list[tuple[_Row, Json]]] = {}
    for row in rows:
        for port in row.device["ports"]:
            if port["state"] == "Active":
                found.setdefault(port["number"], []).append((row, port))
    return found


def _slower(group: _Group) -> t.Iterator[Finding]:
    for (pci, model), rows in group.slots.items():
        for number, ports in _ports(rows).items():
            known = [
                (port["rate_gbps"], f"{port['rate_gbps']:g} Gb/s ({port['width']} {port['speed']})", row.host)
                for row, port in ports
                if port["rate_gbps"]
            ]
            most = _most(rate for rate, _text, _host in known)
            # one of two: the faster one shows what the slower one could have
            most = max((rate for rate, _text, _host in known), default=None) if most is None else most
            hosts = [host for rate, _text, host in known if most is not None and rate < most]
            if hosts:
                cause = f"{model} at {pci}, port {number}, is slower than on the other hosts"
                evidence = _by_value((text, host) for _rate, text, host in known)
                yield _finding(group, "port-slower", "warning", hosts, cause, evidence)


def _mtu(group: _Group) -> t.Iterator[Finding]:
    for (pci, model), rows in group.slots.items():
        for number, ports in _ports(rows).items():
            # a child of IPoIB has less than its parent wherever it is: it is compared with those of its partition
            partitions: dict[str, list[tuple[int, str, str]]] = {}
            for row, port in ports:
                for netdev in port["netdevs"]:
                    if netdev["mtu"]:
                        partition = str(netdev.get("pkey") or "") if netdev.get("parent") else ""
                        partitions.setdefault(partition, []).append((netdev["mtu"], row.host, port["link_layer"]))
            for partition, known in sorted(partitions.items()):
                if len({mtu for mtu, _host, _layer in known}) > 1:
                    where = f"port {number}" + (f", partition {partition}" if partition else "")
                    yield _unlike_mtu(group, f"{model} at {pci}, {where},", known)


def _unlike_mtu(group: _Group, what: str, known: t.Sequence[tuple[int, str, str]]) -> Finding:
    """known: (MTU, host, link layer)."""
    most = _most(mtu for mtu, _host, _layer in known)
    hosts = [host for mtu, host, _layer in known if mtu != most]
    ethernet = any(layer == "Ethernet" for _mtu, _host, layer in known)
    severity: Severity = "warning" if ethernet else "note"
    evidence = _by_value((f"MTU {mtu}", host) for mtu, host, _layer in known)
    return _finding(group, "mtu-differs", severity, hosts, f"the MTU of {what} differs between hosts", evidence)


# --- counters ---------------------------------------------------------------------------------------------------------


def _counted(group: _Group, key: str) -> t.Iterator[tuple[str, Json]]:
    """(host, row) of the ports, netdevs or temperatures of all hosts."""
    for host, health in sorted(group.health.items(), key=lambda item: natural_key(item[0])):
        for row in health[key]:
            yield host, row


def _downs(group: _Group) -> dict[str, dict[str, int]]:
    """How often each link was lost, by its name and host: as the port, its netdev and its wire count, the highest."""
    found: dict[str, dict[str, int]] = {}
    for host, row in _counted(group, "ports"):
        own = found.setdefault(f"{row['device']} port {row['port']}", {})
        own[host] = max(own.get(host, 0), row["counters"]["link_downed"] or 0)
    for host, row in _counted(group, "netdevs"):
        own = found.setdefault(f"{row['device']} ({row['netdev']})", {})
        own[host] = max(row["carrier_downs"] or 0, row["counters"].get("link_down_events_phy", 0))
    return found


def _flapping(group: _Group) -> t.Iterator[Finding]:
    # one cable is counted as a port and as a netdev
    told: dict[str, dict[str, list[str]]] = {}
    for link, by_host in _downs(group).items():
        # of two hosts the better one
        usual = statistics.median_low(by_host.values()) if len(by_host) > 1 else 0
        for host, count in by_host.items():
            if count >= _DOWNS_ANYWAY or (count >= _DOWNS and count >= _DOWNS_ABOVE_MEDIAN * (usual + 1)):
                evidence = f"{host} {link}: lost {count} times since its driver was loaded; usual in the group: {usual}"
                told.setdefault(host, {}).setdefault(link.split(" ")[0], []).append(evidence)
    for host, devices in told.items():
        for device, lines in devices.items():
            cause = f"{host}: the link of {device} comes and goes"
            yield _finding(group, "link-flapping", "warning", [host], cause, lines)


def _pause_storms(group: _Group) -> t.Iterator[Finding]:
    packets: dict[tuple[str, str], int] = {}
    for host, row in _counted(group, "ports"):
        own = sum(row["counters"][name] or 0 for name in ("port_xmit_packets", "port_rcv_packets"))
        packets[(host, row["device"])] = packets.get((host, row["device"]), 0) + own
    for host, row in _counted(group, "netdevs"):
        counters = row["counters"]
        moved = packets.get((host, row["device"]), 0)
        storms = {name: counters.get(f"tx_pause_storm_{name}_events", 0) for name in ("error", "warning")}
        pauses = {name: count for name, count in counters.items() if name.endswith("_pause") and count >= _PAUSES}
        many = {name: count for name, count in pauses.items() if count > _PAUSE_SHARE * moved}
        if not any(storms.values()) and not many:
            continue
        evidence = [
            f"{host} {row['netdev']}: tx_pause_storm_{name}_events {count}" for name, count in storms.items() if count
        ]
        evidence += [
            f"{host} {row['netdev']}: {name} {count}, with {moved} RDMA packets" for name, count in many.items()
        ]
        sends = any(storms.values()) or any(name.startswith("tx_") for name in many)
        cause = f"{host}: {row['netdev']} ({row['device']}) " + (
            "asks the switch to pause all the time: the host cannot keep up with incoming traffic"
            if sends
            else "is paused by the switch all the time: a receiver behind the switch cannot keep up"
        )
        severity: Severity = "error" if storms["error"] else "warning"
        yield _finding(group, "pause-storm", severity, [host], cause, evidence, PAUSES if sends else PAUSED)


def _errors(group: _Group) -> t.Iterator[Finding]:
    """Errors of the wire since the driver was loaded. Whether they still grow, traffic tells (verify)."""
    for key, names in (("ports", _WIRE), ("netdevs", _WIRE_OF_NETDEV)):
        for host, row in _counted(group, key):
            found = {name: count for name in names if (count := row["counters"].get(name))}
            if found:
                link = f"port {row['port']}" if key == "ports" else f"({row['netdev']})"
                cause = f"{host}: {row['device']} {link} has had errors on its wire since its driver was loaded"
                evidence = [f"{name}: {count}" for name, count in found.items()]
                yield _finding(group, "link-errors", "note", [host], cause, evidence)


def _hot(group: _Group) -> t.Iterator[Finding]:
    for host, row in _counted(group, "temperatures"):
        limit = row["critical"]
        if limit is not None and row["celsius"] > limit - _HOT:
            over = row["celsius"] >= limit
            cause = f"{host}: {row['device']} is {'too hot' if over else 'almost too hot'}"
            evidence = [f"{row['label'] or 'sensor'}: {row['celsius']:g} degrees Celsius; the limit is {limit:g}"]
            yield _finding(group, "too-hot", "error" if over else "warning", [host], cause, evidence)


_RULES: tuple[t.Callable[[_Group], t.Iterator[Finding]], ...] = (
    _pcie_degraded,
    _pcie_slot,
    _pcie_unlike_neighbours,
    _firmware,
    _board,
    _slower,
    _mtu,
    _flapping,
    _pause_storms,
    _errors,
    _hot,
)


def _group_of(name: str, hosts: t.Iterable[str], facts: t.Mapping[str, Json]) -> _Group:
    slots: dict[_Slot, list[_Row]] = {}
    cards: dict[tuple[str, str], list[float]] = {}
    health: dict[str, Json] = {}
    for host in sorted(set(hosts) & set(facts), key=natural_key):
        for device in facts[host].get("devices") or ():
            if device["kind"] in ("pf", "vf") and device["pci"]:
                model = device["model"] or f"{device['vendor']}:{device['device']}"
                row = _Row(host, device)
                slots.setdefault((device["pci"], model), []).append(row)
                if device["kind"] == "pf":
                    cards.setdefault(_card(row), []).extend(_rates(row))
        if facts[host].get("health"):
            health[host] = facts[host]["health"]
    return _Group(name, dict(sorted(slots.items())), cards, health)


def health_findings(view: t.Mapping[str, t.Any]) -> list[Finding]:
    """Findings on the hosts of each group of a view ({groups: {name: {hosts}}, facts}), the worst first.

    facts: as docs/facts.schema.json describes them, checked; a host without facts, or facts without devices or health, is left out.
    """
    found: list[Finding] = []
    for name, entry in view["groups"].items():
        group = _group_of(name, entry["hosts"], view["facts"])
        for rule in _RULES:
            found += rule(group)
    return sorted_findings(found)

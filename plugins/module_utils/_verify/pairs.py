# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who measures against whom, and what the measurements prove. Private to the collection. Pure.

A round is a set of pairs without a common host: its pairs run at the same time and share no link, so that none halves
another's bandwidth. Hosts are paired only inside a fabric, and port by port (rail by rail).
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    hosts_label,
    printable,
    shared_domain,
    short,
    table,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import (
    Endpoint,
    Evidence,
    Floor,
    Found,
    Job,
    JobTest,
    Measurement,
    Pair,
    Pairs,
    PlannedTest,
    Proof,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    PROGRAMS,
    Latency,
    Side,
    explain,
    explain_senseless,
    figure_of,
    judge_bandwidth,
    judge_latency,
    kind_of,
    measured,
    timed_out,
)

__all__ = [
    "Settings",
    "build_evidence",
    "evidence_table",
    "judged",
    "not_measured",
    "pair_groups",
    "schedule",
    "settings_from",
]

Json = t.Dict[str, t.Any]
Hosts = t.Tuple[str, str]

# Each side, and the other one.
_ROLES: tuple[tuple[Side, Side], ...] = (("client", "server"), ("server", "client"))
_TOPOLOGIES = ("pairs", "ring", "full")


@dataclass(frozen=True)
class Settings:
    """How to measure. Bounds: Gb/s and microseconds; min_gbps and max_us None: by the devices (see floor()).

    timeout: seconds a client may take for one test; forks: how many hosts the controller works on at a time.
    """

    tests: tuple[str, ...] = ("ib_write_bw", "ib_write_lat")
    topology: str = "pairs"
    iterations: int = 5000
    software_iterations: int = 100
    bandwidth_bytes: int = 65536
    latency_bytes: int = 2
    qps: int = 1
    min_gbps: t.Optional[float] = None
    min_share: float = 0.8
    software_min_gbps: float = 0.001
    max_us: t.Optional[float] = None
    hardware_max_us: float = 20.0
    software_max_us: float = 1000000.0
    timeout: int = 60
    forks: int = 5

    def __post_init__(self) -> None:
        unknown = [test for test in self.tests if test not in PROGRAMS]
        if unknown:
            raise WishError(f"test {unknown[0]} is unknown; there are {', '.join(PROGRAMS)}")
        if self.topology not in _TOPOLOGIES:
            raise WishError(f"topology {self.topology!r} is unknown; there are {', '.join(_TOPOLOGIES)}")
        if not 0 <= self.min_share <= 1:
            raise WishError(f"min_share is {self.min_share:g}; allowed is 0 to 1")
        for key in ("timeout", "forks"):
            if getattr(self, key) < 1:
                raise WishError(f"{key} is {getattr(self, key)}; allowed is 1 or more")


def settings_from(given: t.Mapping[str, t.Any]) -> Settings:
    """Settings from variables; None stands for the default. WishError names an unknown key or a value that makes no sense."""
    defaults = Settings()
    values: dict[str, t.Any] = {}
    for key, value in given.items():
        if key not in Settings.__dataclass_fields__:
            raise WishError(f"setting {key} is unknown; there are {', '.join(Settings.__dataclass_fields__)}")
        if value is None or (value == "" and key in ("min_gbps", "max_us")):
            continue
        try:
            if key == "tests":
                values[key] = tuple(str(item) for item in value)
            elif key == "topology":
                values[key] = str(value)
            else:
                # A bound without a default is a float, too.
                number = float(value)
                if not math.isfinite(number):
                    raise ValueError(value)
                values[key] = int(value) if isinstance(getattr(defaults, key), int) else number
        except (OverflowError, TypeError, ValueError):
            raise WishError(f"setting {key} is {value!r}, which is not a number") from None
    return Settings(**values)


@dataclass(frozen=True)
class End:
    """One port of one host. fabric: what both ends of a pair must have in common; address: for the exchange, None: unknown."""

    host: str
    device: str
    port: int
    gid_index: t.Optional[int]
    address: t.Optional[str]
    rate_gbps: t.Optional[float]
    software: bool
    fabric: str

    def facts(self) -> Endpoint:
        return {
            "host": self.host,
            "device": self.device,
            "port": self.port,
            "gid_index": self.gid_index,
            "address": self.address,
        }


def _sensible(value: t.Any) -> t.Optional[float]:
    """A number that can be a rate or a time, None for everything else that a node may say."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        return None
    return float(value)


# No cause, remedy or address of ours is as long; they come from a node.
_MOST_WORDS = 2000


def _plain(value: t.Any) -> t.Optional[str]:
    return None if value is None else str(value)[:_MOST_WORDS]


# --- ends -------------------------------------------------------------------------------------------------------------


def _end(host: str, facts: Json, wanted: Port) -> t.Union[End, str]:
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
        chosen = min(own or usable, key=lambda gid: int(gid["index"]))
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
        _sensible(wanted["rate_gbps"]),
        software,
        fabric.strip(),
    )


def _ends(
    hosts: t.Sequence[str], facts: t.Mapping[str, Json], wanted: t.Mapping[str, t.Sequence[Port]]
) -> tuple[dict[str, list[End]], list[Untested]]:
    """Ends by host, and the wanted ports that cannot be measured."""
    found: dict[str, list[End]] = {}
    untested: list[Untested] = []
    for host in hosts:
        for row in wanted.get(host, []):
            end = _end(host, facts[host], row)
            if isinstance(end, str):
                untested.append(not_measured(host, str(row["device"]), row["port"], end, True))
            else:
                found.setdefault(host, []).append(end)
    # Subnets are told apart only where every InfiniBand port says its own: an unknown one may be any.
    ends = [end for own in found.values() for end in own]
    if any(end.fabric == "InfiniBand" for end in ends):
        found = {
            host: [End(**{**end.__dict__, "fabric": end.fabric.partition(" ")[0]}) for end in own]
            for host, own in found.items()
        }
    return found, untested


def not_measured(host: str, device: t.Optional[str], port: t.Optional[int], reason: str, defect: bool) -> Untested:
    """A row of what was not measured."""
    return {"host": host, "device": device, "port": port, "reason": reason, "defect": defect}


def _rails(client: t.Sequence[End], server: t.Sequence[End]) -> list[tuple[End, End]]:
    """Ports of two hosts in one fabric: those of the same name first, the others in their order."""
    by_name = {(end.device, end.port): end for end in server}
    rails = {end: by_name[(end.device, end.port)] for end in client if (end.device, end.port) in by_name}
    taken = set(rails.values())
    free = [end for end in server if end not in taken]
    rails.update(zip([end for end in client if end not in rails], free))
    # A port without a counterpart is measured against the last one rather than not at all.
    rails.update({end: server[-1] for end in client if end not in rails})
    pairs = [(end, rails[end]) for end in client]
    reached = {peer for _end, peer in pairs}
    return pairs + [(client[-1], end) for end in server if end not in reached]


# --- rounds -----------------------------------------------------------------------------------------------------------


def schedule(hosts: t.Sequence[str], topology: str = "pairs") -> list[list[Hosts]]:
    """Rounds of (client, server) without a common host; every host takes part when there are two or more.

    pairs: each host once, one host of an odd number a second time; full: every two hosts once (circle method);
    ring: each host once as client and once as server.
    """
    names = list(hosts)
    count = len(names)
    if count < 2:
        return []
    if topology == "full":
        # One stays, the others move round it; with an odd number, who meets None pauses.
        circle: list[t.Optional[str]] = [*names] if count % 2 == 0 else [*names, None]
        rounds = []
        for _turn in range(len(circle) - 1):
            half = len(circle) // 2
            facing = zip(circle[:half], reversed(circle[half:]))
            rounds.append([(one, other) for one, other in facing if one is not None and other is not None])
            circle = [circle[0], circle[-1], *circle[1:-1]]
        return rounds
    if topology == "ring":
        edges = [(names[index], names[(index + 1) % count]) for index in range(count)]
        if count % 2 == 0:
            return [edges[0::2], edges[1::2]]
        return [edges[0 : count - 1 : 2], edges[1:count:2], [edges[-1]]]
    rounds = [[(names[index], names[index + 1]) for index in range(0, count - 1, 2)]]
    if count % 2:
        rounds.append([(names[-1], names[0])])
    return rounds


def _merge(rounds: t.Sequence[t.Sequence[tuple[Hosts, Pair]]]) -> list[dict[Hosts, Pair]]:
    """The rounds of all groups and fabrics as one sequence, no host twice in a round."""
    merged: list[tuple[set[str], dict[Hosts, Pair]]] = []
    for one in rounds:
        for pair, content in one:
            for used, pairs in merged:
                if pair in pairs:
                    pairs[pair]["tests"] += content["tests"]
                    break
                if not used & set(pair):
                    used |= set(pair)
                    pairs[pair] = content
                    break
            else:
                merged.append((set(pair), {pair: content}))
    return [pairs for _used, pairs in merged]


def floor(test: str, client: End, server: End, settings: Settings) -> tuple[Floor, str]:
    """The bound for a test between two ends, and where it comes from in words."""
    software = client.software or server.software
    if kind_of(test) == "latency":
        if settings.max_us is not None:
            return {"max_us": settings.max_us}, "as set for all devices"
        if software:
            return {"max_us": settings.software_max_us}, "as set for software devices"
        return {"max_us": settings.hardware_max_us}, "as set for devices in hardware"
    if settings.min_gbps is not None:
        return {"min_gbps": settings.min_gbps}, "as set for all devices"
    if software:
        # Its rate is a constant of the driver and says nothing about the CPU that does the work.
        return {"min_gbps": settings.software_min_gbps}, "as set for software devices"
    rates = [rate for rate in (client.rate_gbps, server.rate_gbps) if rate]
    if not rates:
        return {"min_gbps": settings.software_min_gbps}, "the rate of the ports is unknown"
    # Rounded: 0.8 * 200 shall not read 160.00000000000003.
    return (
        {"min_gbps": round(settings.min_share * min(rates), 6)},
        f"{settings.min_share * 100:g} % of the port's {min(rates):g} Gb/s",
    )


def _tests(rails: t.Sequence[tuple[End, End]], settings: Settings) -> list[PlannedTest]:
    tests: list[PlannedTest] = []
    for client, server in rails:
        for name in settings.tests:
            latency = kind_of(name) == "latency"
            bound, why = floor(name, client, server, settings)
            tests.append(
                {
                    "test": name,
                    "client": client.facts(),
                    "server": server.facts(),
                    "message_bytes": settings.latency_bytes if latency else settings.bandwidth_bytes,
                    "iterations": settings.software_iterations
                    if client.software or server.software
                    else settings.iterations,
                    "qps": 1 if latency else settings.qps,
                    "floor": bound,
                    "floor_reason": why,
                }
            )
    return tests


def pair_groups(
    groups: t.Mapping[str, t.Sequence[str]],
    facts: t.Mapping[str, Json],
    wanted: t.Mapping[str, t.Sequence[Port]],
    settings: Settings,
) -> Pairs:
    """Who measures against whom. groups: hosts by group; wanted: usable ports by host, as the plan has them."""
    rounds: list[list[tuple[Hosts, Pair]]] = []
    untested: dict[str, list[Untested]] = {}
    for group in sorted(groups):
        hosts = sorted(groups[group], key=natural_key)
        ends, untested[group] = _ends(hosts, facts, wanted)
        for host in hosts:
            if not wanted.get(host):
                untested[group].append(
                    not_measured(host, None, None, "no port of the host is wanted and usable", False)
                )
        for fabric in sorted({end.fabric for own in ends.values() for end in own}):
            members = {
                host: [end for end in ends.get(host, []) if end.fabric == fabric]
                for host in hosts
                if any(end.fabric == fabric for end in ends.get(host, []))
            }
            planned = schedule(list(members), settings.topology)
            if not planned:
                reason = f"no other host of this run has a port in its fabric ({fabric})"
                for host, own in members.items():
                    untested[group] += [not_measured(host, end.device, end.port, reason, False) for end in own]
            for one in planned:
                rounds.append(
                    [
                        (
                            (a, b),
                            {
                                "group": group,
                                "client": a,
                                "server": b,
                                "tests": _tests(_rails(members[a], members[b]), settings),
                            },
                        )
                        for a, b in one
                    ]
                )
    merged = [[pairs[pair] for pair in pairs] for pairs in _merge(rounds)]
    return {"rounds": merged, "untested": untested, "jobs": _jobs(merged, settings)}


def _deadline(pairs: t.Sequence[Pair], settings: Settings) -> int:
    """Seconds after which the servers of a round are surely of no use any more.

    All servers of a round start before its first client does, and the clients run `forks` at a time: the last one's turn
    comes after all batches before it. A connection or a slow start may cost two minutes in each, and each test is made twice at most.
    """
    batches = -(-len(pairs) // settings.forks)
    longest = max(len(pair["tests"]) for pair in pairs)
    return batches * (settings.timeout * (2 * longest + 1) + 120)


def _jobs(rounds: t.Sequence[t.Sequence[Pair]], settings: Settings) -> dict[str, list[t.Optional[Job]]]:
    jobs: dict[str, list[t.Optional[Job]]] = {}
    for index, pairs in enumerate(rounds):
        deadline = _deadline(pairs, settings)
        for pair in pairs:
            for role, other in _ROLES:
                tests: list[JobTest] = [
                    {
                        "test": test["test"],
                        "device": test[role]["device"],
                        "port": test[role]["port"],
                        "gid_index": test[role]["gid_index"],
                        "message_bytes": test["message_bytes"],
                        "iterations": test["iterations"],
                        "qps": test["qps"],
                        "address": test["server"]["address"],
                    }
                    for test in pair["tests"]
                ]
                own = jobs.setdefault(pair[role], [None] * len(rounds))
                own[index] = {"role": role, "peer": pair[other], "deadline": deadline, "tests": tests}
    return jobs


# --- evidence ---------------------------------------------------------------------------------------------------------


def judged(test: PlannedTest, result: Json, served: Json) -> Measurement:
    """One test of the evidence. result: of the client, served: of the server; {} when there is none.

    Both are data from a node: a missing or strange value is an error of the test, never one of this function.
    """
    output = str(result.get("output") or "")
    found = measured(test["test"], output)
    entry: Measurement = {
        "level": "hosts",
        "test": test["test"],
        "client": {**test["client"]},
        "server": {**test["server"], "address": test["server"]["address"] or _plain(result.get("address"))},
        "message_bytes": test["message_bytes"],
        "iterations": test["iterations"],
        "qps": test["qps"],
        "mtu_bytes": found["mtu_bytes"],
        "bandwidth_gbps": found["bandwidth_gbps"],
        "message_rate_mpps": found["message_rate_mpps"],
        "latency_us": found["latency_us"],
        "floor": test["floor"],
        "verdict": "error",
        "message": "",
        "remedy": None,
    }
    if result.get("status") == 0 and found["senseless"]:
        problem = explain_senseless(found["senseless"])
        return {**entry, "message": problem.cause, "remedy": problem.remedy}
    bandwidth, latency = found["bandwidth_gbps"], found["latency_us"]
    if result.get("status") == 0 and bandwidth:
        verdict = judge_bandwidth(bandwidth["average"], test["floor"]["min_gbps"], test["floor_reason"])
    elif result.get("status") == 0 and latency:
        verdict = judge_latency(_typical(latency), test["floor"]["max_us"], test["floor_reason"])
    else:
        message, remedy = _error(result, served, output)
        return {**entry, "message": message, "remedy": remedy}
    return {**entry, "verdict": verdict.verdict, "message": verdict.message, "remedy": verdict.remedy}


def _typical(latency: Latency) -> float:
    return float(latency["average"] if latency["typical"] is None else latency["typical"])


def _error(result: Json, served: Json, output: str) -> tuple[str, t.Optional[str]]:
    """Why a test gave no figure, and what to do."""
    status = result.get("status")
    given = result.get("problem") or served.get("problem")
    if isinstance(given, t.Mapping) and status is None:
        return str(given.get("cause"))[:_MOST_WORDS], _plain(given.get("remedy"))
    # The client knew only its own side; the cause is often in what the server said.
    other = str(served.get("output") or "")
    seconds = _sensible(result.get("timeout"))
    if result.get("timed_out") and seconds:
        problem = timed_out(seconds, output, other)
    else:
        # -255 to 255 are what a process can end with
        known = isinstance(status, int) and abs(status) < 256
        problem = explain(output, other, t.cast("int", status) if known else None)
    side = "" if problem.side == "client" else "the server says: "
    said = f" ({problem.line})" if problem.line and problem.line not in problem.cause else ""
    return side + problem.cause + said, problem.remedy


def _part(value: t.Any, key: str, index: int) -> Json:
    items = value.get(key) if isinstance(value, t.Mapping) else None
    if isinstance(items, (list, tuple)) and index < len(items) and isinstance(items[index], t.Mapping):
        return dict(items[index])
    return {}


def build_evidence(
    plan: Pairs, results: t.Mapping[str, t.Any], of_pods: t.Optional[t.Mapping[str, Found]] = None
) -> Proof:
    """What the measurements prove.

    plan: from pair_groups(); results: {host: [{round, server, client, stop} as the module perftest returned them]}.
    of_pods: what was measured between Pods, by group.
    """
    by_round: dict[tuple[str, int], Json] = {}
    for host, rounds in results.items():
        for one in rounds if isinstance(rounds, (list, tuple)) else []:
            if isinstance(one, t.Mapping) and isinstance(one.get("round"), int):
                by_round[(str(host), one["round"])] = dict(one)
    groups: dict[str, Evidence] = {
        group: {"schema": 1, "group": group, "tests": [], "untested": rows} for group, rows in plan["untested"].items()
    }
    for number, pairs in enumerate(plan["rounds"]):
        for pair in pairs:
            ours = by_round.get((pair["client"], number), {})
            theirs = by_round.get((pair["server"], number), {})
            for index, test in enumerate(pair["tests"]):
                result = _part(ours.get("client"), "results", index)
                # what was measured again was so on the spare server, and those come after all others
                place = index + len(pair["tests"]) if result.get("repeated") is True else index
                served = {
                    **_part(theirs.get("server"), "results", index),
                    **_part(theirs.get("stop"), "results", place),
                }
                if not result:
                    result = {"problem": _absent(pair, ours, theirs, served)}
                groups[pair["group"]]["tests"].append(judged(test, result, served))
    for group, found in (of_pods or {}).items():
        own = groups.setdefault(group, Evidence(schema=1, group=group, tests=[], untested=[]))
        own["tests"] += found["tests"]
        own["untested"] += [row for row in found["untested"] if row not in own["untested"]]
    failures = []
    for group in sorted(groups):
        groups[group]["tests"].sort(key=_order)
        failures += [_sentence(group, entry) for entry in groups[group]["tests"] if entry["verdict"] != "pass"]
        failures += [
            printable(f"{group}: {row['host']} {row['device']} port {row['port']} was not measured: {row['reason']}")
            for row in groups[group]["untested"]
            if row["defect"]
        ]
    return {"groups": groups, "failures": failures, "expected": list(plan.get("expected", []))}


def _absent(pair: Pair, ours: Json, theirs: Json, served: Json) -> t.Optional[Json]:
    """Why a client has no result at all."""
    if isinstance(served.get("problem"), t.Mapping):
        return dict(served["problem"])
    for host, one, key in ((pair["server"], theirs, "server"), (pair["client"], ours, "client")):
        answer = one.get(key)
        if not isinstance(answer, t.Mapping) or answer.get("unreachable"):
            return {
                "cause": f"{host} could not be reached, so nothing was measured",
                "remedy": f"see the messages of this run about {host}",
            }
        if answer.get("failed"):
            return {
                "cause": f"{host} could not start its side: {answer.get('msg') or 'the module failed'}",
                "remedy": f"see the messages of this run about {host}",
            }
    return {"cause": "nothing was measured", "remedy": "see the messages of this run"}


def _order(entry: Measurement) -> tuple[t.Any, ...]:
    return (
        entry["level"],
        natural_key(entry["client"]["host"]),
        natural_key(entry["server"]["host"]),
        natural_key(entry["client"]["device"]),
        entry["client"]["port"],
        natural_key(entry["server"]["device"]),
        entry["server"]["port"],
        entry["test"],
    )


def _sentence(group: str, entry: Measurement) -> str:
    ends = [f"{entry[side]['host']} {entry[side]['device']}" for side in ("client", "server")]
    remedy = f". Remedy: {entry['remedy']}" if entry["remedy"] else ""
    # Names and messages come from nodes and end on a terminal.
    between = " between Pods" if entry["level"] == "pods" else ""
    return printable(
        "{}: {}{} from {} to {}: {}{}".format(group, entry["test"], between, *ends, entry["message"], remedy)
    )


# Rows of tests that passed: more than this are told as one line for each test.
_MAX_PASSED = 40
# Rows of tests that did not pass, the rest is counted.
_MAX_FAILED = 100


def _cells(entry: Measurement, domain: str) -> tuple[str, ...]:
    figure = _figure(entry)
    ends = [
        f"{short(str(entry[side]['host']), domain)} {entry[side]['device']}:{entry[side]['port']}"
        for side in ("client", "server")
    ]
    verdict = entry["verdict"] if entry["verdict"] == "pass" else entry["verdict"].upper()
    shown = "-" if figure is None else f"{figure_of(figure)} {_unit(entry)}"
    return (verdict, _what_test(entry), shown, _limit(entry), *ends)


def _figure(entry: Measurement) -> t.Optional[float]:
    """What a test is judged by."""
    bandwidth, latency = entry["bandwidth_gbps"], entry["latency_us"]
    return bandwidth["average"] if bandwidth else _typical(latency) if latency else None


def _unit(entry: Measurement) -> str:
    return "Gb/s" if entry["bandwidth_gbps"] else "us"


def _what_test(entry: Measurement) -> str:
    return f"{entry['test']} (Pods)" if entry["level"] == "pods" else str(entry["test"])


def _limit(entry: Measurement) -> str:
    bound = entry["floor"]
    return f">= {figure_of(bound['min_gbps'])}" if "min_gbps" in bound else f"<= {figure_of(bound['max_us'])}"


def _many(entries: t.Sequence[Measurement]) -> tuple[str, ...]:
    """One row for many tests of one kind and limit that passed: the span of their figures."""
    first = entries[0]
    figures = [figure for figure in map(_figure, entries) if figure is not None]
    span = f"{figure_of(min(figures))} to {figure_of(max(figures))} {_unit(first)}"
    hosts = {side: {str(entry[side]["host"]) for entry in entries} for side in ("client", "server")}
    return (
        "pass",
        _what_test(first),
        span,
        _limit(first),
        f"{len(entries)} tests, {hosts_label(hosts['client'], 20)}",
        hosts_label(hosts["server"], 20),
    )


def evidence_table(evidence: Evidence) -> list[str]:
    """The evidence of a group as lines of at most 100 columns: a row a test, and what was not measured.

    What did not pass comes first. Many tests that passed share a row; all of them are in the evidence itself.
    """
    tests, untested = evidence["tests"], evidence["untested"]
    hosts = {str(entry[side]["host"]) for entry in tests for side in ("client", "server")}
    hosts |= {str(row["host"]) for row in untested}
    domain = shared_domain(hosts)
    failed = [entry for entry in tests if entry["verdict"] != "pass"]
    passed = [entry for entry in tests if entry["verdict"] == "pass"]
    rows = [_cells(entry, domain) for entry in failed[:_MAX_FAILED]]
    if len(passed) <= _MAX_PASSED:
        rows += [_cells(entry, domain) for entry in passed]
    else:
        kinds: dict[tuple[str, str], list[Measurement]] = {}
        for entry in passed:
            kinds.setdefault((_what_test(entry), _limit(entry)), []).append(entry)
        rows += [_many(kinds[kind]) for kind in sorted(kinds)]
    lines = [f"all hosts in {printable(domain[1:])}", ""] if domain else []
    if rows:
        lines += table(("VERDICT", "TEST", "MEASURED", "WANTED", "CLIENT", "SERVER"), rows)
    if len(failed) > _MAX_FAILED:
        lines.append(f"and {len(failed) - _MAX_FAILED} more that did not pass, in the evidence")
    left: dict[tuple[str, str], list[str]] = {}
    for row in untested:
        left.setdefault((_what(row), str(row["reason"])), []).append(short(str(row["host"]), domain))
    if left:
        rows_left = [(hosts_label(names), what, reason) for (what, reason), names in left.items()]
        lines += ([""] if rows else []) + table(("NOT MEASURED", "PORT", "BECAUSE"), rows_left)
    return lines or ["nothing was measured"]


def _what(row: Untested) -> str:
    return "-" if row["device"] is None else f"{row['device']}:{row['port']}"

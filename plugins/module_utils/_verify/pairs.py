# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who measures against whom. Private to the collection. Pure.

Hosts are paired only inside a fabric, and port by port (rail by rail).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import (
    Job,
    JobTest,
    Limits,
    Pair,
    Pairs,
    PlannedTest,
    Untested,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import (
    End,
    ends_of,
    floor,
    not_measured,
    rails_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    ATOMIC_BYTES,
    Side,
    is_atomic,
    kind_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.rounds import Hosts, merged, schedule
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings

__all__ = ["pair_groups"]

Json = t.Dict[str, t.Any]

# Each side, and the other one.
_ROLES: tuple[tuple[Side, Side], ...] = (("client", "server"), ("server", "client"))


def _tests(rails: t.Sequence[tuple[End, End]], settings: Settings) -> list[PlannedTest]:
    tests: list[PlannedTest] = []
    for client, server in rails:
        for name in settings.tests:
            tests.append(_test(name, client, server, settings))
            # the memory of GPUs is worth its own test where both ends have some, and reach it in the same way
            if client.gpu and client.gpu == server.gpu and not is_atomic(name):
                near: dict[Side, t.Optional[str]] = {"client": client.nearest, "server": server.nearest}
                gpus = {side: gpu for side, gpu in near.items() if gpu}
                tests.append({**tests[-1], "memory": client.gpu, "gpus": gpus})
    return tests


def _test(name: str, client: End, server: End, settings: Settings) -> PlannedTest:
    latency, atomic = kind_of(name) == "latency", is_atomic(name)
    size = ATOMIC_BYTES if atomic else settings.latency_bytes if latency else settings.bandwidth_bytes
    all_sizes = settings.all_sizes and not atomic
    bound, why = floor(name, client, server, settings, None if all_sizes else size)
    software = client.software or server.software
    test: PlannedTest = {
        "test": name,
        "client": client.facts(),
        "server": server.facts(),
        "message_bytes": size,
        "iterations": settings.software_iterations if software else settings.iterations,
        "qps": 1 if latency else settings.qps,
        "floor": bound,
        "floor_reason": why,
    }
    # only what is wished for is said
    if all_sizes:
        test["all_sizes"] = True
    if settings.bidirectional and not latency:
        test["bidirectional"] = True
    if software:
        test["software"] = True
    known: dict[Side, t.Optional[int]] = {"client": client.traffic_class, "server": server.traffic_class}
    classes = {side: value for side, value in known.items() if value is not None}
    if classes:
        test["traffic_classes"] = classes
    return test


def pair_groups(
    groups: t.Mapping[str, t.Sequence[str]],
    facts: t.Mapping[str, Json],
    wanted: t.Mapping[str, t.Sequence[Port]],
    settings: Settings,
    wishes: t.Optional[t.Mapping[str, t.Any]] = None,
    lacks: t.Optional[t.Mapping[str, str]] = None,
) -> Pairs:
    """Who measures against whom. groups: hosts by group; wanted: usable ports by host, as the plan has them.

    wishes: rdma_verify by group. lacks: of hosts without a wanted port that should have one, why.
    """
    rounds: list[list[tuple[Hosts, Pair]]] = []
    untested: dict[str, list[Untested]] = {}
    for group in sorted(groups):
        hosts = sorted(groups[group], key=natural_key)
        own = settings.of_group((wishes or {}).get(group))
        ends, untested[group] = ends_of(hosts, facts, wanted, own)
        for host in hosts:
            if not wanted.get(host):
                untested[group].append(_without_ports(host, (lacks or {}).get(host)))
        for fabric in sorted({end.fabric for each in ends.values() for end in each}):
            members = {
                host: [end for end in ends.get(host, []) if end.fabric == fabric]
                for host in hosts
                if any(end.fabric == fabric for end in ends.get(host, []))
            }
            rounds += _in_fabric(group, fabric, members, own, untested[group])
    found = merged(rounds, _join)
    limits: Limits = {
        "fail": settings.outliers == "fail",
        "share": settings.outlier_share,
        "us": settings.outlier_us,
        "software_share": settings.software_outlier_share,
    }
    return {"rounds": found, "untested": untested, "jobs": _jobs(found, settings), "limits": limits}


def _without_ports(host: str, lacks: t.Optional[str]) -> Untested:
    """A host that measures nothing: a defect where it should have a port, and somebody knows why it has none."""
    reason = "no port of the host is wanted and usable" + (f" ({lacks})" if lacks else "")
    return not_measured(host, None, None, reason, lacks is not None)


def _join(first: Pair, other: Pair) -> None:
    first["tests"] += other["tests"]


def _in_fabric(
    group: str, fabric: str, members: t.Mapping[str, list[End]], settings: Settings, untested: list[Untested]
) -> list[list[tuple[Hosts, Pair]]]:
    """The rounds of the hosts of a group that are in one fabric."""
    planned = schedule(list(members), settings.topology, settings.partners, settings.seed, settings.canaries)
    met = {host for one in planned for pair in one for host in pair}
    alone = f"no other host of this run has a port in its fabric ({fabric})"
    reason = alone if not planned else f"the topology {settings.topology} leaves it out"
    untested += [
        not_measured(host, end.device, end.port, reason, False)
        for host, own in members.items()
        if host not in met
        for end in own
    ]
    return [
        [
            (
                (a, b),
                {
                    "group": group,
                    "client": a,
                    "server": b,
                    "tests": _tests(rails_of(members[a], members[b], settings.rails), settings),
                },
            )
            for a, b in one
        ]
        for one in planned
    ]


def _deadline(pairs: t.Sequence[Pair], settings: Settings) -> int:
    """Seconds after which the servers of a round are surely of no use any more.

    All servers of a round start before its first client does, and the clients run `forks` at a time: the last one's turn
    comes after all batches before it. A connection or a slow start may cost two minutes in each, and each test is made twice at most.
    """
    batches = -(-len(pairs) // settings.forks)
    longest = max(len(pair["tests"]) for pair in pairs)
    return batches * (settings.timeout * (2 * longest + 1) + 120)


def _job_test(test: PlannedTest, role: Side) -> JobTest:
    """What one side of a test has to know."""
    own: JobTest = {
        "test": test["test"],
        "device": test[role]["device"],
        "port": test[role]["port"],
        "gid_index": test[role]["gid_index"],
        "message_bytes": test["message_bytes"],
        "iterations": test["iterations"],
        "qps": test["qps"],
        "address": test["server"]["address"],
    }
    if test.get("all_sizes"):
        own["all_sizes"] = True
    if test.get("bidirectional"):
        own["bidirectional"] = True
    if test.get("memory"):
        own["memory"] = test["memory"]
    gpu = test.get("gpus", {}).get(role)
    if gpu:
        own["gpu"] = gpu
    traffic_class = test.get("traffic_classes", {}).get(role)
    if traffic_class is not None:
        own["traffic_class"] = traffic_class
    return own


def _jobs(rounds: t.Sequence[t.Sequence[Pair]], settings: Settings) -> dict[str, list[t.Optional[Job]]]:
    jobs: dict[str, list[t.Optional[Job]]] = {}
    for index, pairs in enumerate(rounds):
        deadline = _deadline(pairs, settings)
        for pair in pairs:
            for role, other in _ROLES:
                tests = [_job_test(test, role) for test in pair["tests"]]
                own = jobs.setdefault(pair[role], [None] * len(rounds))
                own[index] = {"role": role, "peer": pair[other], "deadline": deadline, "tests": tests}
    return jobs

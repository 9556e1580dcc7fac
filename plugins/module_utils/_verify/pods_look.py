# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Pod on each node, for each user: what it was given, and whom it reaches in secondary networks. Private to the collection.

All Pods of a batch are watched at once, by one list. One that does not do its part holds up no other.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.ping import (
    addresses_of,
    networks_problem,
    parse_ping,
    peer_body,
    ping_body,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import (
    GIVEN,
    LOOK,
    START_SECONDS,
    Wish,
    give_up,
    given_up,
    look_words,
    misplaced,
    name_of,
    not_again,
    not_done,
    parse_log,
    pod_body,
    problem_of,
    stage_of,
    succeeded,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run import (
    OLD_SECONDS,
    Api,
    clear,
    refused_remedy,
    watch,
)

__all__ = ["look_at", "ping_rounds", "unanswered"]

Json = t.Dict[str, t.Any]

# So many Pods at once: an API server and its kubelets have other work.
_BATCH = 100


@dataclass
class _Task:
    """A Pod on its way. wanted: of stage_of(); ready: what else it has to have, None for nothing."""

    name: str
    host: str
    node: str
    resources: t.Sequence[str]
    body: Json
    wanted: str = "ended"
    ready: t.Optional[t.Callable[[Json], bool]] = None
    since: float = 0.0
    done: bool = False
    pod: Json = field(default_factory=dict)
    problem: t.Optional[Json] = None
    log: str = ""


class _Watch:
    """Makes Pods, and waits for each until it is as wanted, or never will be.

    gone: as measure_rounds() has it.
    """

    def __init__(self, api: Api, wish: Wish, gone: dict[str, Json]) -> None:
        self._api, self._wish, self._gone = api, wish, gone

    def run(self, tasks: t.Sequence[_Task]) -> None:
        self._api.begin()
        for task in tasks:
            task.since = time.monotonic()
            before = given_up(self._gone, task.host, task.resources)
            if before is not None:
                self._finish(task, not_again(task.host, before))
                continue
            try:
                self._api.make(task.body)
                # the time that it took is not the Pod's
                task.since = time.monotonic()
            except FabricError as exc:
                self._finish(task, {"cause": str(exc), "remedy": refused_remedy(exc)})
        watch(
            self._api,
            lambda: [task for task in tasks if not task.done],
            lambda pods: self._steps(tasks, pods),
            lambda exc: self._give_up(tasks, exc),
        )

    def _steps(self, tasks: t.Sequence[_Task], pods: t.Mapping[str, Json]) -> None:
        listed = time.monotonic()
        for task in tasks:
            if not task.done:
                self._step(tasks, task, pods.get(task.name))
            if time.monotonic() - listed > OLD_SECONDS:
                return

    def _give_up(self, tasks: t.Sequence[_Task], exc: FabricError) -> None:
        for task in tasks:
            self._finish(task, {"cause": str(exc), "remedy": ""})

    def _step(self, tasks: t.Sequence[_Task], task: _Task, pod: t.Optional[Json]) -> None:
        if pod is None:
            cause = f"the Pod {task.name} on {task.node} was deleted by somebody"
            self._finish(task, {"cause": cause, "remedy": "run again, and no other run at the same time"})
            return
        task.pod = pod
        stage, late = stage_of(pod), time.monotonic() - task.since
        elsewhere = misplaced(pod, task.node)
        if elsewhere is not None:
            self._finish(task, elsewhere)
        elif stage == task.wanted and (task.ready is None or task.ready(pod)):
            well = task.wanted != "ended" or succeeded(pod)
            self._finish(task, None if well else problem_of(pod, self._wish, task.name, task.node))
        elif stage == "ended" or stage == "stuck":
            self._finish(task, problem_of(pod, self._wish, task.name, task.node))
        elif stage == "unschedulable" and late > self._wish.timeout:
            self._late(tasks, task, stage, f"without a place for {self._wish.timeout} s")
        elif late > self._wish.timeout + START_SECONDS:
            without = stage == "running" and task.wanted == "running"
            limit = self._wish.timeout + START_SECONDS
            if without:
                self._finish(task, networks_problem(task.name, self._wish.networks))
            else:
                self._late(tasks, task, stage, f"not done within {limit} s")

    def _late(self, tasks: t.Sequence[_Task], task: _Task, stage: str, words: str) -> None:
        """Of a Pod that was waited for. Where it did not even start, the next one on its host would be, too.

        Not where another one of ours did, or has what this one waits for.
        """
        found = {stage_of(each.pod) for each in tasks if each is not task and each.host == task.host and each.pod}
        problem = problem_of(task.pod, self._wish, task.name, task.node, words)
        self._finish(task, problem)
        if stage != "running" and not found & {"running", "ended", *(["pending"] if stage == "unschedulable" else [])}:
            give_up(self._gone, task.host, problem, stage, task.resources)

    def _finish(self, task: _Task, problem: t.Optional[Json]) -> None:
        if task.done:
            return
        task.done, task.problem = True, problem
        if task.pod and stage_of(task.pod) == "ended":
            try:
                task.log = self._api.log(task.pod)
            except FabricError as exc:
                task.problem = task.problem or {"cause": str(exc), "remedy": ""}

    def remove(self, tasks: t.Iterable[_Task]) -> None:
        for task in tasks:
            if task.pod:
                self._api.delete_early(task.pod)


def look_at(
    api: Api,
    wish: Wish,
    looks: t.Sequence[Json],
    users: t.Sequence[int],
    programs: t.Collection[str],
    gone: dict[str, Json],
) -> list[Json]:
    """What Pods on hosts are given, for each host and user: {host, as_user, pod, problem, and what GIVEN names}.

    looks: of pods.checked_look(); gone: as measure_rounds() has it. None of the Pods is there afterwards.
    """
    words = look_words(programs)
    asked = [(look, user) for look in looks for user in users]
    found: list[Json] = []
    watch = _Watch(api, wish, gone)
    try:
        for start in range(0, len(asked), _BATCH):
            tasks = []
            for number, (look, user) in enumerate(asked[start : start + _BATCH], start):
                name = name_of(wish, number, LOOK)
                body = pod_body(wish, name, look["node"], look["resources"], words, user)
                tasks.append(_Task(name, look["host"], look["node"], look["resources"], body))
            watch.run(tasks)
            watch.remove(tasks)
            for task, (look, user) in zip(tasks, asked[start:]):
                said = parse_log(task.log)
                given = {key: said[key] for key in GIVEN}
                found.append(
                    {"host": look["host"], "as_user": user, "pod": task.name, "problem": task.problem, **given}
                )
    finally:
        clear(api)
    return found


def unanswered(
    rounds: t.Sequence[t.Sequence[Json]], looks: t.Sequence[Json], users: t.Sequence[int], wish: Wish, why: str
) -> Json:
    """What there is where nothing could be asked of the cluster."""
    problem = {"cause": why, "remedy": ""}
    given = {key: parse_log("")[key] for key in GIVEN}
    looked = [
        {"host": look["host"], "as_user": user, "pod": "", "problem": problem, **given}
        for look in looks
        for user in users
    ]
    if not wish.networks:
        return {"looks": looked, "pings": [], "results": not_done(rounds, wish, why)}
    none = _Task("", "", "", (), {}, problem=problem)
    pings = [row for pairs in rounds for pair in pairs for row in _answers(wish, pair, none, None)]
    return {"looks": looked, "pings": pings, "results": []}


def ping_rounds(api: Api, wish: Wish, rounds: t.Sequence[t.Sequence[Json]], gone: dict[str, Json]) -> list[Json]:
    """What Pods reach over the networks of the wish: {client, server, network, address, sent, received, rtt_us, problem} for each pair of
    hosts and network. rounds: of pods.checked(); gone: as measure_rounds() has it.

    A Pod on each node has an address in each network; in each round, one more on each client pings those of its server.
    """
    peers: dict[str, _Task] = {}
    found: list[Json] = []
    watch = _Watch(api, wish, gone)

    def there(pod: Json) -> bool:
        return addresses_of(pod, wish.networks) is not None

    try:
        for pair in (pair for pairs in rounds for pair in pairs):
            node = pair["nodes"]["server"]
            if node not in peers:
                name = name_of(wish, len(peers), "peer")
                resources = pair["resources"]["server"]
                body = peer_body(wish, name, node, resources)
                peers[node] = _Task(name, pair["server"], node, resources, body, "running", there)
        watch.run(list(peers.values()))
        number = 0
        for pairs in rounds:
            tasks: list[tuple[Json, t.Optional[_Task]]] = []
            for pair in pairs:
                tasks.append((pair, _pinging(wish, pair, peers[pair["nodes"]["server"]], number)))
                number += 1
            own = [task for _pair, task in tasks if task is not None]
            watch.run(own)
            watch.remove(own)
            for pair, task in tasks:
                found += _answers(wish, pair, peers[pair["nodes"]["server"]], task)
    finally:
        clear(api)
    return found


def _pinging(wish: Wish, pair: Json, peer: _Task, number: int) -> t.Optional[_Task]:
    """The client of a pair, None where its server has no addresses."""
    addresses = addresses_of(peer.pod, wish.networks)
    if peer.problem is not None or addresses is None:
        return None
    name, node = name_of(wish, number, "ping"), pair["nodes"]["client"]
    resources = pair["resources"]["client"]
    return _Task(name, pair["client"], node, resources, ping_body(wish, name, node, resources, addresses))


def _answers(wish: Wish, pair: Json, peer: _Task, task: t.Optional[_Task]) -> list[Json]:
    addresses: t.Sequence[t.Optional[str]] = addresses_of(peer.pod, wish.networks) or [None] * len(wish.networks)
    runs = parse_log(task.log)["runs"] if task else {}
    problem = peer.problem if task is None else task.problem
    rows = []
    for number, (network, address) in enumerate(zip(wish.networks, addresses)):
        run = runs.get(number) or {"status": None, "output": ""}
        said = parse_ping(run["output"])
        # a Pod in which one ping failed has failed; what it printed of the others counts
        why = problem if said["sent"] is None else None
        if why is None and said["sent"] is None:
            why = {"cause": f"ping printed no figures: {run['output'][-200:]}", "remedy": "name an image with ping"}
        rows.append(
            {
                "client": pair["client"],
                "server": pair["server"],
                "network": network,
                "address": address,
                **said,
                "problem": why,
            }
        )
    return rows

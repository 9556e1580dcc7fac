# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making the Pods of a round, watching them, reading what they printed, and removing them whatever happens. Private to the collection.

All pairs of a round are watched at once, by one list of the Pods of this run. A pair that fails holds up no other.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import code_of, patiently
from ansible_collections.fabric.rdma.plugins.module_utils._verify.client import Client
from ansible_collections.fabric.rdma.plugins.module_utils._verify.interrupt import raise_what_was_lost
from ansible_collections.fabric.rdma.plugins.module_utils._verify.patience import Patience, Row, make_patiently
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import (
    CONTAINER,
    SIDES,
    START_SECONDS,
    Wish,
    budget,
    give_up,
    given_up,
    misplaced,
    name_of,
    not_again,
    pod_body,
    problem_of,
    result_of,
    senseless,
    stage_of,
    succeeded,
    words_of,
)

__all__ = ["OLD_SECONDS", "Api", "clear", "measure_rounds", "refused_remedy", "remove_leftovers", "watch"]

Json = t.Dict[str, t.Any]

_POLL_SECONDS = 1.0
# For the server's Pod to end and say why, after a client that failed.
_GRACE_SECONDS = 10
# For what was deleted to be gone: its ports may be taken until then.
_GONE_SECONDS = 60
_MOST_BYTES = 1 << 20
# All that may be lost to logs that nobody gives, such as those of a rack without power, or to Pods that nobody makes or deletes. After
# that, a log has to come within some seconds: a kubelet that is well gives it at once.
_MOST_LOST_SECONDS, _BRIEF_SECONDS = 300, 5
# What was listed says nothing any more after so long, as it takes to wait for a log that nobody gives.
OLD_SECONDS = 5


class Api:
    """Pods of a namespace that have the given labels."""

    def __init__(self, client: Client, namespace: str, owner: t.Mapping[str, str], run_label: str, run: str) -> None:
        """owner: labels of all Pods that are ours; run_label, run: one more, of those of this run."""
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.namespace = namespace
        # why Pods of this run may be left, empty when there are none
        self.left = ""
        self._making, self._reading, self._deleting = (Patience(_MOST_LOST_SECONDS) for _kind in range(3))
        self._owner, self._run_label, self._run = owner, run_label, run
        self.labels = {**owner, run_label: run}

    def _found(self, *labels: str) -> dict[str, Json]:
        ours = [f"{key}={value}" for key, value in sorted(self._owner.items())]
        items = self._client.list(
            self._path, f"list Pods in {self.namespace}", labelSelector=",".join([*ours, *labels])
        )
        return {str(item["metadata"]["name"]): item for item in items}

    def of_this_run(self) -> dict[str, Json]:
        return self._found(f"{self._run_label}={self._run}")

    def of_others(self) -> dict[str, Json]:
        return self._found(self._run_label, f"{self._run_label}!={self._run}")

    def begin(self) -> None:
        """More Pods are made now, after those of another round."""
        self._making.try_once_more()

    def make(self, body: Json) -> None:
        name = body["metadata"]["name"]
        doing = f"make Pod {self.namespace}/{name}"
        if self._making.hopeless:
            raise self._making.given_up(doing)
        make = partial(self._client.request, "POST", self._path, doing, body=body)
        self._making.take(partial(make_patiently, there=lambda: name in self.of_this_run()), make)

    def log(self, pod: Json) -> str:
        name, node = pod["metadata"]["name"], str((pod.get("spec") or {}).get("nodeName") or "")
        path, doing = f"{self._path}/{name}/log", f"read the log of Pod {self.namespace}/{name}"
        within = _BRIEF_SECONDS if self._reading.spent else None
        ask = partial(self._client.text, path, doing, within, node, container=CONTAINER, limitBytes=str(_MOST_BYTES))
        return t.cast(str, self._reading.take(patiently, ask))

    def delete_early(self, pod: Json) -> None:
        """Deletes a Pod that is done with, at one try. One that stays goes with what is left at the end: nothing is insisted on."""
        if not self._deleting.hopeless:
            with contextlib.suppress(FabricError):
                self._deleting.take(lambda ask: ask(), partial(self.delete, pod))

    def delete(self, pod: Json) -> None:
        """Exactly this Pod; one that is gone is fine."""
        name = pod["metadata"]["name"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        try:
            self._client.request("DELETE", f"{self._path}/{name}", f"delete Pod {self.namespace}/{name}", body=body)
        except FabricError as exc:
            # 409: another one of this name is there, which is not ours to delete
            if code_of(exc) not in (404, 409):
                raise


def _delete_all(api: Api, find: t.Callable[[], dict[str, Json]]) -> list[str]:
    """Deletes what is found, and waits until it is gone. Names of it."""
    end = time.monotonic() + _GONE_SECONDS
    names: set[str] = set()
    while True:
        there = patiently(find)
        for name, pod in there.items():
            names.add(name)
            patiently(partial(api.delete, pod))
        if not there:
            return sorted(names)
        if time.monotonic() > end:
            raise FabricError(
                f"{api.namespace}: Pods {', '.join(sorted(there)[:5])} are still there {_GONE_SECONDS} s after they were deleted",
                "See what keeps them (finalizers), and delete them",
            )
        time.sleep(_POLL_SECONDS)


def remove_leftovers(api: Api) -> list[str]:
    """Removes Pods of earlier runs that were killed; their names."""
    return _delete_all(api, api.of_others)


def clear(api: Api) -> None:
    """Removes the Pods of this run. What may be left is in api.left then: the next run finds it, and its kubelets end it."""
    try:
        _delete_all(api, api.of_this_run)
        api.left = ""
    except FabricError as exc:
        api.left = str(exc)


def watch(
    api: Api,
    waiting: t.Callable[[], t.Collection[t.Any]],
    step: t.Callable[[dict[str, Json]], None],
    give_up: t.Callable[[FabricError], None],
) -> None:
    """Lists the Pods of this run again and again while somebody waits, and calls step with them, by name.

    give_up: called when the API server refuses to answer, or has been silent for too long.
    """
    row = Row()
    while waiting():
        time.sleep(_POLL_SECONDS)
        raise_what_was_lost()
        try:
            pods = api.of_this_run()
            row.end()
        except FabricError as exc:
            if row.enough(exc):
                give_up(exc)
            continue
        step(pods)


@dataclass
class _Pair:
    """A pair on its way. stage: server | client | ending | done."""

    hosts: t.Mapping[str, str]
    nodes: t.Mapping[str, str]
    resources: t.Mapping[str, t.Sequence[str]]
    tests: list[Json]
    number: int
    first_port: int
    stage: str = "server"
    since: float = 0.0
    started: t.Optional[float] = None
    pods: dict[str, Json] = field(default_factory=dict)
    answer: Json = field(default_factory=dict)


class _Round:
    """Pairs without a common host, all at once. gone: gets why of each host that did not start its Pod in time."""

    def __init__(self, api: Api, wish: Wish, pairs: t.Sequence[_Pair], gone: dict[str, Json]) -> None:
        self._api, self._wish, self._pairs, self._gone = api, wish, pairs, gone

    def run(self) -> list[Json]:
        """{client, server} of each pair, as result_of() has them. No Pod of it is there afterwards."""
        try:
            self._api.begin()
            for pair in self._pairs:
                self._begin(pair, "server")
            watch(self._api, self._open, self._steps, self._give_up)
        finally:
            clear(self._api)
        return [pair.answer for pair in self._pairs]

    def _open(self) -> list[_Pair]:
        return [pair for pair in self._pairs if pair.stage != "done"]

    def _steps(self, pods: t.Mapping[str, Json]) -> None:
        listed = time.monotonic()
        for pair in self._open():
            self._step(pair, pods)
            if time.monotonic() - listed > OLD_SECONDS:
                return

    def _give_up(self, exc: FabricError) -> None:
        for pair in self._open():
            self._finish(pair, {"cause": str(exc), "remedy": ""}, "")

    def _begin(self, pair: _Pair, side: str, address: str = "") -> None:
        """Makes the Pod of a side."""
        name = name_of(self._wish, pair.number, side)
        pair.stage, pair.since, pair.started = side, time.monotonic(), None
        try:
            words = words_of(pair.tests, side, self._wish, pair.first_port, address)
            self._api.make(pod_body(self._wish, name, pair.nodes[side], pair.resources[side], words))
            # the time that it took is not the Pod's
            pair.since = time.monotonic()
        except FabricError as exc:
            self._finish(pair, {"cause": str(exc), "remedy": refused_remedy(exc)}, side)

    def _step(self, pair: _Pair, pods: t.Mapping[str, Json]) -> None:
        """Looks at the Pods of a pair, and does what is next."""
        for side in SIDES:
            found = pods.get(name_of(self._wish, pair.number, side))
            if found is not None:
                pair.pods[side] = found
                elsewhere = misplaced(found, pair.nodes[side])
                if elsewhere is not None:
                    self._finish(pair, elsewhere, side)
                    return
            elif side in pair.pods or (pair.stage in SIDES and side == pair.stage):
                cause = (
                    f"the Pod {name_of(self._wish, pair.number, side)} on {pair.nodes[side]} was deleted by somebody"
                )
                self._finish(pair, {"cause": cause, "remedy": "run again, and no other run at the same time"}, side)
                return
        if pair.stage == "ending":
            if stage_of(pair.pods["server"]) == "ended" or time.monotonic() - pair.since > _GRACE_SECONDS:
                self._finish(pair, None, "")
            return
        current, now = pair.stage, time.monotonic()
        pod = pair.pods[current]
        stage = stage_of(pod)
        if stage in ("running", "ended") and pair.started is None:
            pair.started = now
        address = (pod.get("status") or {}).get("podIP")
        if stage == "ended":
            self._ended(pair, current, pod)
        elif stage == "running" and current == "server" and address:
            self._begin(pair, "client", str(address))
        else:
            late = self._late(pair, stage, now)
            if late is not None:
                problem = problem_of(pod, self._wish, pod["metadata"]["name"], pair.nodes[current], late)
                if late and pair.started is None:
                    give_up(self._gone, pair.hosts[current], problem, stage, pair.resources[current])
                self._finish(pair, problem, current)

    def _late(self, pair: _Pair, stage: str, now: float) -> t.Optional[str]:
        """What a Pod did not do in time; empty when it never will, None when there is time left."""
        if stage == "stuck":
            return ""
        limit = self._wish.timeout
        if stage == "unschedulable":
            return f"without a place for {limit} s" if now - pair.since > limit else None
        if stage == "pending":
            limit += START_SECONDS
            return f"not started within {limit} s" if now - pair.since > limit else None
        limit = budget(self._wish, len(pair.tests))
        return f"not done within {limit} s" if now - (pair.started or now) > limit else None

    def _ended(self, pair: _Pair, side: str, pod: Json) -> None:
        if side == "server":
            # before anybody has connected
            self._finish(pair, problem_of(pod, self._wish, pod["metadata"]["name"], pair.nodes[side]), side)
        elif succeeded(pod):
            self._finish(pair, None, "")
        else:
            pair.stage, pair.since = "ending", time.monotonic()

    def _finish(self, pair: _Pair, problem: t.Optional[Json], whose: str) -> None:
        """Reads what the Pods of a pair have printed, and removes them. problem: why it has not finished; whose: of which side."""
        pair.stage = "done"
        for side in SIDES:
            name = name_of(self._wish, pair.number, side)
            log, why = "", problem if whose in ("", side) else None
            pod = pair.pods.get(side)
            if pod is not None and stage_of(pod) in ("running", "ended"):
                try:
                    log = self._api.log(pod)
                except FabricError as exc:
                    why = why or {"cause": str(exc), "remedy": ""}
                if why is None and stage_of(pod) == "ended" and side == "client":
                    why = problem_of(pod, self._wish, name, pair.nodes[side])
            pair.answer[side] = result_of(log, name, pair.tests, self._wish, why)
        if whose == "server" and "client" not in pair.pods:
            # there was no client; what the server said of a test is the better reason
            pair.answer["client"]["problem"] = problem
            for result, served in zip(pair.answer["client"]["results"], pair.answer["server"]["results"]):
                result["problem"] = None if served["status"] is not None else served["problem"] or problem
        for pod in pair.pods.values():
            self._api.delete_early(pod)


_FORBIDDEN = (
    "Give the user of the kubeconfig the rights that the role verify_pod names; where Pod Security refuses the network of the host, name "
    "another namespace with verify_pod_namespace"
)


def refused_remedy(exc: FabricError) -> str:
    """What to do about a Pod that cannot be made, beside what the refusal says itself."""
    return _FORBIDDEN if code_of(exc) == 403 else ""


def measure_rounds(
    api: Api, wish: Wish, rounds: t.Sequence[t.Sequence[Json]], gone: dict[str, Json]
) -> list[list[Json]]:
    """Measures round after round; pairs are those of pods.checked(). What cannot be measured is told in its result.

    Figures that cannot be are measured once more, in Pods and on ports of their own. gone: hosts on which no Pod starts, each with a
    cause, a remedy and resources; what asks for these is not tried again, so that one costs a single wait, and those that show now are
    added.
    """
    answers: list[list[Json]] = []
    number = 0
    for pairs in rounds:
        found = [_not_tried(wish, each, gone) for each in pairs]
        own = [
            _Pair(
                {side: each[side] for side in SIDES},
                each["nodes"],
                each["resources"],
                list(each["tests"]),
                number + place,
                wish.first_port,
            )
            for place, each in enumerate(pairs)
        ]
        number += len(own)
        tried = [place for place, answer in enumerate(found) if not answer]
        for place, answer in zip(tried, _Round(api, wish, [own[place] for place in tried], gone).run()):
            found[place] = answer
        again: list[tuple[Json, list[int], _Pair]] = []
        for pair, answer in zip(own, found):
            numbers = senseless(pair.tests, answer["client"])
            if numbers:
                tests = [pair.tests[index] for index in numbers]
                port = min(pair.first_port + len(pair.tests), 65535 - len(tests))
                repeated = _Pair(pair.hosts, pair.nodes, pair.resources, tests, number, port)
                number += 1
                again.append((answer, numbers, repeated))
        if again:
            seconds = _Round(api, wish, [pair for _answer, _numbers, pair in again], gone).run()
            for (answer, numbers, _pair), second in zip(again, seconds):
                for side in SIDES:
                    for place, index in enumerate(numbers):
                        answer[side]["results"][index] = {**second[side]["results"][place], "repeated": True}
        answers.append(found)
    return answers


def _not_tried(wish: Wish, pair: Json, gone: t.Mapping[str, Json]) -> Json:
    """The answer of a pair with a host on which no Pod starts; {} for one that is to be tried."""
    for side in SIDES:
        problem = given_up(gone, pair[side], pair["resources"][side])
        if problem is not None:
            why = not_again(pair[side], problem)
            return {each: result_of("", "", pair["tests"], wish, why) for each in SIDES}
    return {}

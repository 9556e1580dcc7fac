# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods come and go: each pair gets its answer, and none is there afterwards, whatever happens."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._verify import pods_run
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import checked
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run import (
    Api,
    clear,
    measure_rounds,
    remove_leftovers,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.rounds import schedule
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import (
    UNSCHEDULABLE,
    a_log,
    a_pair,
    a_pod,
    a_wish,
    recorded,
)
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import (
    PodCluster,
    Refused,
    ended,
    healthy,
    on,
    running,
    side_of,
)

Json = dict[str, t.Any]
OWNER = {"app.kubernetes.io/managed-by": "fabric.rdma", "rdma.fabric/inventory": "default"}
RUN = "rdma.fabric/traffic"


@pytest.fixture(autouse=True)
def _time_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll takes a second of a clock of its own."""
    now = [0.0]
    monkeypatch.setattr(pods_run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pods_run.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def api_of(cluster: PodCluster) -> Api:
    return Api(cluster, "default", OWNER, RUN, "abc")


def measured(cluster: PodCluster, *pairs: Json, **given: t.Any) -> list[list[Json]]:
    wish = a_wish(labels={**OWNER, RUN: "abc"}, **given)
    return measure_rounds(api_of(cluster), wish, [[checked(pair, {}) for pair in pairs]], {})


def good(pod: Json) -> str:
    """Two tests that went well."""
    return a_log((0, recorded("bandwidth-gbits-two-qps-client")), (0, recorded("latency-client")))


def causes(answer: Json, side: str = "client") -> list[str]:
    return [result["problem"]["cause"] if result["problem"] else "" for result in answer[side]["results"]]


def test_a_pair_runs_in_two_pods_that_are_gone_afterwards() -> None:
    cluster = PodCluster(healthy, good)
    ((answer,),) = measured(cluster, a_pair())
    assert [pod["metadata"]["name"] for pod in cluster.made] == [
        "fabric-rdma-verify-abc-0-server",
        "fabric-rdma-verify-abc-0-client",
    ]
    server, client = (pod["spec"]["containers"][0] for pod in cluster.made)
    assert server["command"][4] == "server"
    assert client["command"][-1].split()[-1] == "198.51.100.2"
    nodes = [str(pod["spec"]["affinity"]) for pod in cluster.made]
    assert "'lab2'" in nodes[0]
    assert "'lab1'" in nodes[1]
    assert [result["status"] for result in answer["client"]["results"]] == [0, 0]
    assert answer["server"]["files"] == ["issm0", "rdma_cm", "umad0", "uverbs0"]
    assert not cluster.pods


def test_a_pod_that_another_container_keeps_running_has_ended() -> None:
    proxy = {"name": "proxy", "state": {"running": {"startedAt": "x"}}}

    def status(pod: Json, looks: int) -> Json:
        found = healthy(pod, looks)
        return {**found, "phase": "Running", "containerStatuses": [proxy, *found.get("containerStatuses", [])]}

    ((answer,),) = measured(PodCluster(status, good), a_pair())
    assert causes(answer) == ["", ""]
    assert answer["client"]["problem"] is None


def test_the_client_comes_when_the_server_runs() -> None:
    def slow(pod: Json, looks: int) -> Json:
        return {"phase": "Pending"} if side_of(pod) == "server" and looks < 4 else healthy(pod, looks + 1)

    cluster = PodCluster(slow, good)
    measured(cluster, a_pair())
    assert [side_of(pod) for pod in cluster.made] == ["server", "client"]
    assert (
        len(
            [
                1
                for method, _path in cluster.asked[: cluster.asked.index(("POST", cluster.asked[0][1]), 1)]
                if method == "GET"
            ]
        )
        == 4
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (UNSCHEDULABLE["status"], "is Pending, without a place for 5 s: 0/2 nodes are available: 1 Insufficient rdma"),
        ({"phase": "Pending"}, "is Pending, not started within 185 s"),
        (
            a_pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"})["status"],
            "ImagePullBackOff: no such image",
        ),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"},
            "UnexpectedAdmissionError: no device",
        ),
    ],
    ids=["unschedulable", "slow", "image", "admission"],
)
@pytest.mark.parametrize("side", ["server", "client"])
def test_a_pod_that_does_not_start_is_an_error_of_its_pair_alone(side: str, status: Json, words: str) -> None:
    def one_is_bad(pod: Json, looks: int) -> Json:
        return status if pod["metadata"]["name"].endswith(f"-0-{side}") else healthy(pod, looks)

    cluster = PodCluster(one_is_bad, lambda pod: "" if pod["metadata"]["name"].endswith(f"-0-{side}") else good(pod))
    other = {**a_pair(), "client": "lab3", "server": "lab4"}
    ((bad, well),) = measured(cluster, a_pair(), other)
    for cause in causes(bad):
        assert f"the Pod default/fabric-rdma-verify-abc-0-{side} on " in cause or side == "client"
        assert words in cause
    assert causes(well) == ["", ""]
    assert not cluster.pods


def test_a_server_that_fails_at_once_says_why() -> None:
    def status(pod: Json, _looks: int) -> Json:
        return ended(1)

    log = a_log((1, recorded("memlock-server")), (127, "sh: ib_write_lat: not found"))
    ((answer,),) = measured(PodCluster(status, lambda _pod: log), a_pair())
    first, second = answer["client"]["results"]
    # what the server printed of the first test explains it
    assert (first["status"], first["problem"]) == (None, None)
    assert answer["server"]["results"][0]["status"] == 1
    assert "is not in the image" in second["problem"]["cause"]


def test_a_client_that_fails_waits_for_what_the_server_says() -> None:
    def status(pod: Json, looks: int) -> Json:
        if side_of(pod) == "server":
            return ended(1) if looks > 6 else running()
        return ended(1)

    cluster = PodCluster(status, lambda _pod: a_log((1, recorded("no-server-client")), (1, "")))
    ((answer,),) = measured(cluster, a_pair())
    assert [result["status"] for result in answer["server"]["results"]] == [1, 1]
    assert not cluster.pods


def test_a_client_that_hangs_is_given_up() -> None:
    def status(_pod: Json, _looks: int) -> Json:
        return running()

    cluster = PodCluster(status, lambda _pod: a_log((0, recorded("bandwidth-gbits-two-qps-client"))))
    ((answer,),) = measured(cluster, a_pair())
    assert [result["status"] for result in answer["client"]["results"]] == [0, None]
    assert "is Running, not done within 80 s" in causes(answer)[1]
    assert not cluster.pods


def test_figures_that_cannot_be_are_measured_once_more() -> None:
    row = " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n 65536 100 {0} {0} 0.001\n"

    def log(pod: Json) -> str:
        if "-0-" in pod["metadata"]["name"]:
            return a_log((0, row.format("inf")), (0, recorded("latency-client")))
        return a_log((0, row.format("0.07")))

    cluster = PodCluster(healthy, log)
    ((answer,),) = measured(cluster, a_pair())
    first, second = answer["client"]["results"]
    assert (first["repeated"], "0.07" in first["output"], second["repeated"]) == (True, True, False)
    again = cluster.made[2]["spec"]["containers"][0]["command"]
    # that test alone, and on a port that no other has had
    assert len(again) == 7
    assert "-p 18517 " in again[-1]
    assert not cluster.pods


def test_a_pod_that_somebody_deletes_is_the_cause() -> None:
    def status(pod: Json, looks: int) -> Json:
        if looks == 2:
            cluster.pods.pop(pod["metadata"]["name"], None)
        return running()

    cluster = PodCluster(status, good)
    ((answer,),) = measured(cluster, a_pair())
    assert "was deleted by somebody" in causes(answer)[0] + causes(answer, "server")[0]


@pytest.mark.parametrize("code", [403, -1], ids=["forbidden", "no answer"])
def test_a_cluster_that_refuses(code: int) -> None:
    cluster = PodCluster(healthy, good, lambda method, _path: code if method == "POST" else 0)
    ((answer,),) = measured(cluster, a_pair())
    assert causes(answer) == ["cannot make Pod default/fabric-rdma-verify-abc-0-server: refused"] * 2
    assert bool(answer["client"]["problem"]["remedy"]) == (code == 403)


def test_a_cluster_that_is_gone_meanwhile() -> None:
    lists: list[str] = []

    def refuse(method: str, path: str) -> int:
        if method == "GET":
            lists.append(path)
        return -1 if method == "GET" and 2 < len(lists) < 34 else 0

    cluster = PodCluster(lambda _pod, _looks: running(), lambda _pod: "", refuse)
    ((answer,),) = measured(cluster, a_pair())
    assert causes(answer, "server")[-1]
    assert "cannot list Pods in default: refused" in str(answer)
    assert not cluster.pods


def test_an_api_server_that_starts_again_ends_no_round() -> None:
    """It refuses the connection at once, and takes half a minute."""
    begun: list[float] = []

    def refuse(method: str, _path: str) -> int:
        if method != "GET" or len(cluster.made) < 2:
            return 0
        begun.append(pods_run.time.monotonic())
        return -1 if begun[-1] - begun[0] < 29 else 0

    cluster = PodCluster(healthy, good, refuse)
    ((answer,),) = measured(cluster, a_pair())
    assert len(begun) > 29
    assert causes(answer) == ["", ""]


@pytest.mark.parametrize("code", [401, 403, 404])
def test_an_api_server_that_refuses_for_good_is_not_asked_again(code: int) -> None:
    cluster = PodCluster(healthy, good, lambda method, _path: code if method == "GET" and len(cluster.made) else 0)
    ((answer,),) = measured(cluster, a_pair())
    assert "cannot list Pods in default: refused" in str(answer)
    # once by the round, once to remove what it made
    assert len([method for method, _path in cluster.asked if method == "GET"]) == 2


class Refusing:
    """Refuses the first so many requests of a method whose path ends with a text."""

    def __init__(self, code: int, times: int, method: str, end: str) -> None:
        self._code, self._times, self._method, self._end = code, times, method, end
        self.refused: list[str] = []

    def __call__(self, method: str, path: str) -> int:
        if method != self._method or not path.endswith(self._end) or len(self.refused) == self._times:
            return 0
        self.refused.append(path)
        return self._code


def test_a_log_that_cannot_be_read() -> None:
    refusing = Refusing(403, 99, "GET", "-client/log")
    cluster = PodCluster(healthy, good, refusing)
    ((answer,),) = measured(cluster, a_pair())
    assert "cannot read the log of Pod default/fabric-rdma-verify-abc-0-client: refused" in causes(answer)
    assert len(refusing.refused) == 1
    assert not cluster.pods


@pytest.mark.parametrize("code", [500, 503, 429, -1])
@pytest.mark.parametrize(("method", "end"), [("GET", "-client/log"), ("POST", "/pods")])
def test_what_a_busy_kubelet_or_api_server_refuses_is_asked_three_times(code: int, method: str, end: str) -> None:
    refusing = Refusing(code, 2, method, end)
    cluster = PodCluster(healthy, good, refusing)
    ((answer,),) = measured(cluster, a_pair())
    assert causes(answer) == ["", ""]
    assert len(refusing.refused) == 2
    refusing = Refusing(code, 99, method, end)
    cluster = PodCluster(healthy, good, refusing)
    ((answer,),) = measured(cluster, a_pair())
    assert all(": refused" in cause for cause in causes(answer))
    assert len(refusing.refused) == 3
    assert not cluster.pods


def test_a_log_is_asked_for_with_the_node_that_has_to_give_it() -> None:
    class Placed(PodCluster):
        def _seen(self, pod: Json) -> Json:
            found = super()._seen(pod)
            node = "lab2" if side_of(pod) == "server" else "lab1"
            return {**found, "spec": {**found["spec"], "nodeName": node}}

    cluster, asked = Placed(healthy, lambda pod: asked.append((side_of(pod), cluster.asked_of)) or good(pod)), []
    measured(cluster, a_pair())
    assert sorted(asked) == [("client", "lab1"), ("server", "lab2")]


def pairs_of(number: int) -> list[Json]:
    return [a_pair(client=f"c{each}", server=f"s{each}") for each in range(number)]


class Silent(Refusing):
    """Each refusal takes the time of a request that nobody answers."""

    cluster: PodCluster | None = None

    def __call__(self, method: str, path: str) -> int:
        code = super().__call__(method, path)
        if code:
            brief = self.cluster and path.endswith("/log") and self.cluster.within
            pods_run.time.sleep(brief or 60)
        return code


def waited(cluster: PodCluster, refusing: Silent, pairs: int) -> tuple[float, list[str]]:
    """(seconds that it took to measure these, why each test of the clients has failed)."""
    refusing.cluster = cluster
    begun = pods_run.time.monotonic()
    (answers,) = measured(cluster, *pairs_of(pairs))
    return pods_run.time.monotonic() - begun, [cause for answer in answers for cause in causes(answer)]


def test_logs_of_a_rack_without_power_cost_minutes_and_not_hours() -> None:
    refusing = Silent(-1, 9999, "GET", "/log")
    seconds, found = waited(PodCluster(healthy, good, refusing), refusing, 50)
    # the first two three times, the others within five seconds each
    assert len(refusing.refused) == 2 * 3 + 98
    assert seconds < 2 * 184 + 98 * 5 + 120
    assert all(": refused" in cause for cause in found)


def test_pairs_that_are_well_are_measured_beside_a_rack_without_power() -> None:
    class Some(Silent):
        def __call__(self, method: str, path: str) -> int:
            return super().__call__(method, path) if re.search(r"-[0-9]-(client|server)/log$", path) else 0

    refusing = Some(-1, 9999, "GET", "/log")
    _seconds, found = waited(PodCluster(healthy, good, refusing), refusing, 50)
    assert all(": refused" in cause for cause in found[:20])
    assert found[20:] == [""] * 80


@pytest.mark.parametrize("code", [-1, 504])
def test_an_api_server_that_hangs_costs_minutes_and_not_hours(code: int) -> None:
    refusing = Silent(code, 9999, "POST", "/pods")
    seconds, found = waited(PodCluster(healthy, good, refusing), refusing, 50)
    assert len(refusing.refused) == 2 * 3
    assert seconds < 2 * 184 + 60
    assert all(": refused" in cause for cause in found[:4])
    assert all("not asked, the API server has not answered such requests for 368 s" in cause for cause in found[4:])


def test_an_api_server_that_is_well_in_the_next_round_is_asked_again() -> None:
    refusing = Silent(-1, 6, "POST", "/pods")
    rounds = [[checked(pair, {}) for pair in pairs_of(3)] for _round in range(2)]
    first, second = measure_rounds(
        api_of(PodCluster(healthy, good, refusing)), a_wish(labels={**OWNER, RUN: "abc"}), rounds, {}
    )
    assert all("cannot make Pod" in cause for answer in first for cause in causes(answer))
    assert [cause for answer in second for cause in causes(answer)] == [""] * 6


@pytest.mark.parametrize("code", [-1, 504])
def test_pods_that_nobody_deletes_cost_minutes_and_not_hours(code: int) -> None:
    refusing = Silent(code, 9999, "DELETE", "")
    seconds, found = waited(PodCluster(healthy, good, refusing), refusing, 50)
    assert found == [""] * 100
    # six in the round, and three at its end
    assert seconds < 6 * 60 + 184 + 60


def test_the_time_that_making_a_pod_takes_makes_no_node_late() -> None:
    def taken(pod: Json, looks: int) -> Json:
        # until what had it is gone
        return UNSCHEDULABLE["status"] if looks < 4 else healthy(pod, 9)

    refusing = Silent(-1, 2, "POST", "/pods")
    cluster = PodCluster(taken, good, refusing)
    gone: dict[str, Json] = {}
    wish = a_wish(labels={**OWNER, RUN: "abc"}, timeout=100)
    ((answer,),) = measure_rounds(api_of(cluster), wish, [[checked(a_pair(), {})]], gone)
    assert len(refusing.refused) == 2
    assert causes(answer) == ["", ""]
    assert gone == {}


def test_a_pair_whose_log_nobody_gives_makes_no_other_late() -> None:
    """While one is waited for, what was listed of the others gets old."""

    def slow(pod: Json, _looks: int) -> Json:
        # an image that takes a while
        pulling = pod["metadata"]["name"].endswith("-1-server") and pods_run.time.monotonic() < 40
        return {"phase": "Pending"} if pulling else healthy(pod, 9)

    refusing = Silent(-1, 9999, "GET", "-0-client/log")
    gone: dict[str, Json] = {}
    cluster = PodCluster(slow, good, refusing)
    wish = a_wish(labels={**OWNER, RUN: "abc"})
    ((first, second),) = measure_rounds(api_of(cluster), wish, [[checked(pair, {}) for pair in pairs_of(2)]], gone)
    assert all(": refused" in cause for cause in causes(first))
    assert causes(second) == ["", ""]
    assert gone == {}


def test_a_pod_of_which_the_api_server_did_not_say_that_it_made_it_is_used() -> None:
    class Cluster(PodCluster):
        """Makes the first Pod, and loses the answer."""

        lost = 0

        def request(
            self, method: str, path: str, doing: str, query: t.Sequence[tuple[str, str]] = (), body: t.Any = None
        ) -> Json:
            if method == "POST" and body["metadata"]["name"] in self.pods:
                raise Refused(f"cannot {doing}: there is one", 409)
            answer = super().request(method, path, doing, query, body)
            if method == "POST" and not self.lost:
                self.lost = 1
                raise Refused(f"cannot {doing}: no answer", 0)
            return answer

    cluster = Cluster(healthy, good)
    ((answer,),) = measured(cluster, a_pair())
    assert cluster.lost
    assert causes(answer) == ["", ""]
    assert not cluster.pods


def test_a_pod_that_a_quota_refuses_for_a_moment_is_made_again() -> None:
    """Two that draw on one at the same time: 409, and nothing was made."""

    class Cluster(PodCluster):
        left = 2

        def request(
            self, method: str, path: str, doing: str, query: t.Sequence[tuple[str, str]] = (), body: t.Any = None
        ) -> Json:
            if method == "POST" and self.left:
                self.left -= 1
                raise Refused(f"cannot {doing}: the quota has been modified", 409, "Conflict")
            return super().request(method, path, doing, query, body)

    cluster = Cluster(healthy, good)
    ((answer,),) = measured(cluster, a_pair())
    assert causes(answer) == ["", ""]
    assert cluster.left == 0


@pytest.mark.parametrize("codes", [(500, 409), (-1, 503, 409)])
def test_a_pod_that_was_not_made_does_not_count_as_made(codes: tuple[int, ...]) -> None:
    left = list(codes)
    cluster = PodCluster(healthy, good, lambda method, _path: left.pop(0) if method == "POST" and left else 0)
    ((answer,),) = measured(cluster, a_pair())
    assert not left
    assert all("cannot make Pod" in cause and ": refused" in cause for cause in causes(answer))


def test_a_pod_that_was_there_before_is_not_ours() -> None:
    refusing = Refusing(409, 1, "POST", "/pods")
    ((answer,),) = measured(PodCluster(healthy, good, refusing), a_pair())
    assert all(": refused" in cause for cause in causes(answer))


def test_pods_that_cannot_be_removed_are_reported() -> None:
    cluster = PodCluster(healthy, good, lambda method, _path: 403 if method == "DELETE" else 0)
    api = api_of(cluster)
    wish = a_wish(labels={**OWNER, RUN: "abc"})
    ((answer,),) = measure_rounds(api, wish, [[checked(a_pair(), {})]], {})
    assert causes(answer) == ["", ""]
    assert answer["client"]["problem"] is None
    assert "cannot delete Pod default/fabric-rdma-verify-abc-0-" in api.left


def test_ports_beyond_the_last_one_are_an_error_of_the_pair() -> None:
    ((answer,),) = measured(PodCluster(healthy, good), a_pair(), first_port=65535)
    assert causes(answer) == ["tcp_port is 65536; allowed is 1 to 65535"] * 2


def test_pods_that_go_at_last_are_not_reported_as_left() -> None:
    refused = [403]
    cluster = PodCluster(healthy, good, lambda method, _path: refused[0] if method == "DELETE" else 0)
    api = api_of(cluster)
    measure_rounds(api, a_wish(labels={**OWNER, RUN: "abc"}), [[checked(a_pair(), {})]], {})
    assert api.left
    refused[0] = 0
    clear(api)
    assert (api.left, cluster.pods) == ("", {})


@pytest.mark.parametrize("code", [500, 503, -1])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_pod_is_left_by_a_server_that_refuses_for_a_moment(method: str, code: int) -> None:
    refusing = Refusing(code, 2, method, "")
    cluster = PodCluster(healthy, good, refusing)
    cluster.request("POST", "/pods", "make", body={"metadata": {"name": "mine", "labels": {**OWNER, RUN: "abc"}}})
    api = api_of(cluster)
    clear(api)
    assert len(refusing.refused) == 2
    assert (api.left, cluster.pods) == ("", {})


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_no_pod_is_left_when_the_run_ends(error: type[BaseException]) -> None:
    raised: list[type[BaseException]] = []

    def status(pod: Json, looks: int) -> Json:
        if side_of(pod) == "client" and looks == 2 and not raised:
            raised.append(error)
            raise error
        return healthy(pod, min(looks, 2))

    cluster = PodCluster(status, good)
    with pytest.raises(error):
        measured(cluster, a_pair(), {**a_pair(), "client": "lab3", "server": "lab4"})
    assert len(cluster.made) >= 3
    assert not cluster.pods


def test_only_what_is_ours_is_removed() -> None:
    labels = {
        "left": {**OWNER, RUN: "old"},
        "other-inventory": {**OWNER, "rdma.fabric/inventory": "b", RUN: "old"},
        "somebody": {RUN: "old"},
        "plugin": OWNER,
        "mine": {**OWNER, RUN: "abc"},
    }
    cluster = PodCluster(healthy, good)
    for name, own in labels.items():
        cluster.request("POST", "/pods", "make", body={"metadata": {"name": name, "labels": own}})
    assert remove_leftovers(api_of(cluster)) == ["left"]
    assert sorted(cluster.pods) == ["mine", "other-inventory", "plugin", "somebody"]


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_pod_on_another_node_measures_nothing(side: str) -> None:
    """Its traffic would be taken for that of the node that was meant."""

    class Elsewhere(PodCluster):
        def _seen(self, pod: Json) -> Json:
            found = super()._seen(pod)
            return {**found, "spec": {**found["spec"], "nodeName": "lab9"}} if side_of(pod) == side else found

    cluster = Elsewhere(healthy, good)
    ((answer,),) = measured(cluster, a_pair())
    assert (
        f"landed on the node lab9 and not on {'lab2' if side == 'server' else 'lab1'}"
        in answer[side]["problem"]["cause"]
    )
    assert not cluster.pods


def everyone(*hosts: str) -> list[list[Json]]:
    """All pairs of hosts, in rounds that share none."""
    return [
        [checked({**a_pair(), "client": client, "server": server}, {}) for client, server in pairs]
        for pairs in schedule(hosts, "full")
    ]


def dead(node: str) -> t.Callable[[Json, int], Json]:
    """Its Pods are placed there, and nobody starts them."""
    return lambda pod, looks: {"phase": "Pending"} if on(pod, node) else healthy(pod, looks)


@pytest.mark.parametrize("place", range(5))
def test_a_node_that_starts_no_pod_costs_one_wait_and_not_one_in_each_round(place: int) -> None:
    hosts = [f"n{number}" for number in range(5)]
    gone: Json = {}
    cluster = PodCluster(dead(hosts[place]), good)
    rounds = everyone(*hosts)
    answers = measure_rounds(api_of(cluster), a_wish(labels={**OWNER, RUN: "abc"}), rounds, gone)
    assert len([pod for pod in cluster.made if on(pod, hosts[place])]) == 1
    # a wait is of 185 s
    assert pods_run.time.monotonic() < 300
    assert list(gone) == [hosts[place]]
    told = []
    for pairs, found in zip(rounds, answers, strict=True):
        for pair, answer in zip(pairs, found, strict=True):
            mine = hosts[place] in (pair["client"], pair["server"])
            assert all(causes(answer)) is any(causes(answer)) is mine
            told += causes(answer)[:1] if mine else []
    # of each of its pairs why it was not measured
    assert len(told) == 4
    assert all("not started within 185 s" in cause for cause in told)
    again = f"{hosts[place]} did not start its Pod before, and is not tried again: "
    assert [again in cause for cause in told] == [False, True, True, True]


def test_a_node_that_is_given_up_before_is_not_tried() -> None:
    cluster = PodCluster(healthy, good)
    gone = {"lab2": {"cause": "it is off", "remedy": "switch it on"}}
    other = checked({**a_pair(), "client": "lab3", "server": "lab4"}, {})
    ((bad, well),) = measure_rounds(
        api_of(cluster), a_wish(labels={**OWNER, RUN: "abc"}), [[checked(a_pair(), {}), other]], gone
    )
    assert causes(bad) == ["lab2 did not start its Pod before, and is not tried again: it is off"] * 2
    assert bad["client"]["results"][0]["problem"]["remedy"] == "switch it on"
    assert causes(well) == ["", ""]
    assert len(cluster.made) == 2


@pytest.mark.parametrize(
    "status",
    [
        running(),
        ended(1),
        a_pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"})["status"],
        {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"},
    ],
    ids=["hangs", "fails", "image", "admission"],
)
def test_a_node_that_answers_is_tried_again(status: Json) -> None:
    """What fails at once costs no wait, and a pair that hangs says nothing of either node alone."""
    gone: Json = {}
    cluster = PodCluster(lambda pod, looks: status if on(pod, "n0") else healthy(pod, looks), lambda _pod: "")
    measure_rounds(api_of(cluster), a_wish(labels={**OWNER, RUN: "abc"}), everyone("n0", "n1", "n2"), gone)
    assert gone == {}
    assert len([pod for pod in cluster.made if on(pod, "n0")]) == 2


def test_a_node_whose_gpus_are_taken_is_tried_without_them() -> None:
    """Only a Pod that asks for all of what had no place is left out; a node that has none for less is given up as a whole."""

    def full(pod: Json, looks: int) -> Json:
        asked = pod["spec"]["containers"][0]["resources"]["limits"]
        return UNSCHEDULABLE["status"] if on(pod, "n0") and set(asked) & lacks else healthy(pod, looks)

    # at last without one
    rounds = everyone("n0", "n1", "n2", "n3")[::-1]
    for pairs in rounds:
        for pair in pairs:
            if "n3" not in (pair["client"], pair["server"]):
                pair["resources"] = {side: [*pair["resources"][side], "nvidia.com/gpu"] for side in pair["resources"]}
    plain = next(name for name in rounds[-1][0]["resources"]["client"] if name != "nvidia.com/gpu")
    for lacks, most in (({"nvidia.com/gpu"}, 2), ({"nvidia.com/gpu", plain}, 2)):
        gone: Json = {}
        cluster = PodCluster(full, good)
        answers = measure_rounds(api_of(cluster), a_wish(labels={**OWNER, RUN: "abc"}), rounds, gone)
        failed = {
            frozenset((pair["client"], pair["server"]))
            for pairs, found in zip(rounds, answers, strict=True)
            for pair, answer in zip(pairs, found, strict=True)
            if any(causes(answer))
        }
        with_gpu = {frozenset(("n0", "n1")), frozenset(("n0", "n2"))}
        assert failed == with_gpu | ({frozenset(("n0", "n3"))} if plain in lacks else set())
        assert len([pod for pod in cluster.made if on(pod, "n0")]) <= most

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that tell what they are given, and Pods that ping: each host gets its answer, and no Pod is there afterwards."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._verify import pods_look
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import checked, checked_look
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_look import look_at, ping_rounds, unanswered
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run import Api
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_ping import IPUTILS, NETWORKS, STATUS
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import (
    UNSCHEDULABLE,
    a_log,
    a_pair,
    a_pod,
    a_wish,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods_run import (
    OWNER,
    RUN,
    Silent,
    everyone,
)
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import PodCluster, ended, on, running, side_of

Json = dict[str, t.Any]


@pytest.fixture(autouse=True)
def _time_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll takes a second of a clock of its own."""
    now = [0.0]
    monkeypatch.setattr(pods_look.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pods_look.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def api_of(cluster: PodCluster) -> Api:
    return Api(cluster, "default", OWNER, RUN, "abc")


def looked(
    cluster: PodCluster, *hosts: str, users: t.Sequence[int] = (1000, 0), gone: Json | None = None
) -> list[Json]:
    looks = [checked_look({"host": host, "resources": ["rdma/r"]}, {}) for host in hosts]
    wish = a_wish(labels={**OWNER, RUN: "abc"})
    return look_at(api_of(cluster), wish, looks, users, ["ib_write_bw"], {} if gone is None else gone)


def user_of(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["securityContext"]["runAsUser"])


def at_once(pod: Json, looks: int) -> Json:
    return {"phase": "Pending"} if looks == 1 else ended()


def test_every_host_is_looked_at_as_every_user() -> None:
    cluster = PodCluster(at_once, lambda pod: a_log(user=user_of(pod)))
    rows = looked(cluster, "n1", "n2", "n3")
    assert [(row["host"], row["as_user"], row["user"], row["problem"]) for row in rows] == [
        (host, user, user, None) for host in ("n1", "n2", "n3") for user in (1000, 0)
    ]
    assert rows[0]["memlock"] == {"soft": "unlimited", "hard": "unlimited"}
    assert {pod["spec"]["containers"][0]["resources"]["limits"]["rdma/r"] for pod in cluster.made} == {"1"}
    assert not cluster.pods


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (UNSCHEDULABLE["status"], "without a place for 5 s"),
        ({"phase": "Pending"}, "not done within 185 s"),
        (a_pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"})["status"], "no such image"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"}, "no device"),
    ],
    ids=["unschedulable", "slow", "image", "admission"],
)
def test_one_that_does_not_come_up_is_a_problem_of_its_host_alone(status: Json, words: str) -> None:
    def one_is_bad(pod: Json, looks: int) -> Json:
        return status if "'n2'" in str(pod["spec"]["affinity"]) else at_once(pod, looks)

    cluster = PodCluster(one_is_bad, lambda pod: "" if "'n2'" in str(pod["spec"]["affinity"]) else a_log())
    rows = looked(cluster, "n1", "n2", users=[1000])
    assert rows[0]["problem"] is None
    assert words in rows[1]["problem"]["cause"]
    assert " on n2 is " in rows[1]["problem"]["cause"]
    assert not cluster.pods


def test_a_pod_on_another_node_says_nothing_of_its_own() -> None:
    """As an admission webhook could do it that knows better."""

    class Elsewhere(PodCluster):
        def _seen(self, pod: Json) -> Json:
            found = super()._seen(pod)
            return {**found, "spec": {**found["spec"], "nodeName": "n9"}}

    cluster = Elsewhere(at_once, lambda _pod: a_log())
    (row,) = looked(cluster, "n1", users=[1000])
    assert "landed on the node n9 and not on n1" in row["problem"]["cause"]
    assert not cluster.pods


def test_many_are_looked_at_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_look, "_BATCH", 4)
    most = [0]

    def status(pod: Json, looks: int) -> Json:
        most[0] = max(most[0], len(cluster.pods))
        return at_once(pod, looks)

    cluster = PodCluster(status, lambda pod: a_log(user=user_of(pod)))
    rows = looked(cluster, *(f"n{number}" for number in range(5)))
    assert len(rows) == 10
    assert most[0] == 4
    assert {row["problem"] for row in rows} == {None}


def test_a_log_that_nobody_gives_makes_no_other_node_late() -> None:
    """While it is waited for, what was listed of the others gets old."""

    def status(pod: Json, _looks: int) -> Json:
        # an image that takes a while
        return {"phase": "Pending"} if on(pod, "n2") and pods_look.time.monotonic() < 40 else ended()

    refusing = Silent(-1, 99, "GET", "-0-look/log")
    gone: Json = {}
    rows = looked(PodCluster(status, lambda _pod: a_log(), refusing), "n1", "n2", users=[1000], gone=gone)
    assert ": refused" in rows[0]["problem"]["cause"]
    assert rows[1]["problem"] is None
    assert gone == {}


def test_the_time_that_making_a_pod_takes_makes_no_node_late() -> None:
    def taken(_pod: Json, looks: int) -> Json:
        # until what had it is gone
        return UNSCHEDULABLE["status"] if looks < 4 else ended()

    refusing = Silent(-1, 2, "POST", "/pods")
    gone: Json = {}
    rows = looked(PodCluster(taken, lambda _pod: a_log(), refusing), "n1", users=[1000], gone=gone)
    assert len(refusing.refused) == 2
    assert rows[0]["problem"] is None
    assert gone == {}


def test_nodes_whose_logs_nobody_gives_cost_no_other_node_its_answer() -> None:
    class Some(Silent):
        def __call__(self, method: str, path: str) -> int:
            return super().__call__(method, path) if re.search(r"-[0-3]-look/log$", path) else 0

    refusing = Some(-1, 9999, "GET", "/log")
    cluster = PodCluster(at_once, lambda pod: a_log(user=user_of(pod)), refusing)
    refusing.cluster = cluster
    rows = looked(cluster, *(f"n{number}" for number in range(60)))
    assert [row["host"] for row in rows if row["problem"]] == ["n0", "n0", "n1", "n1"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_no_pod_is_left_when_the_run_ends(error: type[BaseException]) -> None:
    raised: list[int] = []

    def status(pod: Json, looks: int) -> Json:
        if not raised:
            raised.append(1)
            raise error
        return running()

    cluster = PodCluster(status, lambda _pod: "")
    with pytest.raises(error):
        looked(cluster, "n1", "n2")
    assert len(cluster.made) == 4
    assert not cluster.pods


def test_a_cluster_that_refuses_is_a_problem_of_every_host() -> None:
    cluster = PodCluster(at_once, lambda _pod: "", lambda method, _path: 403 if method == "POST" else 0)
    rows = looked(cluster, "n1", users=[0])
    assert "cannot make Pod default/fabric-rdma-verify-abc-0-look: refused" in rows[0]["problem"]["cause"]


def test_a_node_that_starts_no_pod_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its Pods are in two batches, and when it was given up before."""
    monkeypatch.setattr(pods_look, "_BATCH", 3)
    cluster = PodCluster(
        lambda pod, looks: {"phase": "Pending"} if on(pod, "n2") else at_once(pod, looks),
        lambda pod: a_log(user=user_of(pod)),
    )
    gone: Json = {"n3": {"cause": "it is off", "remedy": ""}}
    rows = looked(cluster, "n1", "n2", "n3", "n4", gone=gone)
    assert [(row["host"], row["as_user"]) for row in rows] == [
        (host, user) for host in ("n1", "n2", "n3", "n4") for user in (1000, 0)
    ]
    assert sorted(gone) == ["n2", "n3"]
    assert [bool(row["problem"]) for row in rows] == [False, False, True, True, True, True, False, False]
    assert "not done within 185 s" in rows[2]["problem"]["cause"]
    assert rows[3]["problem"]["cause"].startswith("n2 did not start its Pod before, and is not tried again: ")
    assert rows[4]["problem"]["cause"] == "n3 did not start its Pod before, and is not tried again: it is off"
    assert len([pod for pod in cluster.made if on(pod, "n2")]) == 1
    assert not [pod for pod in cluster.made if on(pod, "n3")]
    assert pods_look.time.monotonic() < 300


def test_a_node_whose_only_device_another_pod_of_ours_has_is_not_given_up() -> None:
    """The second user's waits for what the first one's has, whose image takes its time."""

    def one_device(pod: Json, _looks: int) -> Json:
        if user_of(pod) == 0:
            return UNSCHEDULABLE["status"]
        return {"phase": "Pending"} if pods_look.time.monotonic() < 100 else ended()

    gone: Json = {}
    rows = looked(PodCluster(one_device, lambda pod: a_log(user=user_of(pod))), "n1", gone=gone)
    assert [bool(row["problem"]) for row in rows] == [False, True]
    assert gone == {}


# --- pings -----------------------------------------------------------------------------------------------------------


class Networks(PodCluster):
    """Pods get addresses in their networks when they run, but for those on nodes that have none."""

    without: t.ClassVar[set[str]] = set()

    def _seen(self, pod: Json) -> Json:
        found = super()._seen(pod)
        names = pod["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/networks", "").split(", ")
        if any(f"'{node}'" in str(pod["spec"]["affinity"]) for node in self.without):
            return found
        rows = [
            {"name": name, "interface": name.partition("@")[2], "ips": [f"198.51.100.{place + 4}"]}
            for place, name in enumerate(names)
        ]
        notes = {**pod["metadata"]["annotations"], STATUS: json.dumps(rows)}
        return {**found, "metadata": {**found["metadata"], "annotations": notes}}


def pinged(cluster: PodCluster, *rounds: list[Json], gone: Json | None = None) -> list[Json]:
    wish = a_wish(labels={**OWNER, RUN: "abc"}, networks=NETWORKS)
    asked = [[checked(pair, {}) for pair in pairs] for pairs in rounds]
    return ping_rounds(api_of(cluster), wish, asked, {} if gone is None else gone)


def status_of(pod: Json, looks: int) -> Json:
    return running() if side_of(pod) == "peer" or looks == 1 else ended()


def answered(_pod: Json) -> str:
    return a_log((0, IPUTILS.format(5)), (1, IPUTILS.format(2)))


def test_every_pair_pings_in_every_network() -> None:
    cluster = Networks(status_of, answered)
    other = {**a_pair(), "client": "lab3", "server": "lab4"}
    rows = pinged(cluster, [a_pair(), other], [{**a_pair(), "client": "lab3", "server": "lab2"}])
    assert [(row["client"], row["server"], row["network"], row["address"]) for row in rows] == [
        (client, server, network, f"198.51.100.{place + 4}")
        for client, server in (("lab1", "lab2"), ("lab3", "lab4"), ("lab3", "lab2"))
        for place, network in enumerate(NETWORKS)
    ]
    assert [row["received"] for row in rows] == [5, 2] * 3
    assert {row["problem"] for row in rows} == {None}
    # one server for all that ask it
    assert sorted(side_of(pod) for pod in cluster.made) == ["peer", "peer", "ping", "ping", "ping"]
    assert not cluster.pods


def test_a_node_without_addresses_fails_its_pairs_alone() -> None:
    class One(Networks):
        without: t.ClassVar[set[str]] = {"lab4"}

    cluster = One(status_of, answered)
    rows = pinged(cluster, [a_pair(), {**a_pair(), "client": "lab3", "server": "lab4"}])
    assert [bool(row["problem"]) for row in rows] == [False, False, True, True]
    assert "runs without an address in all of default/rail1, rdma/rail2" in rows[2]["problem"]["cause"]
    assert not cluster.pods


def test_a_node_on_which_a_pod_runs_and_does_not_end_is_tried_again() -> None:
    """It has started, so it is not the node that starts none."""
    gone: Json = {}
    cluster = PodCluster(lambda _pod, _looks: running(), lambda _pod: "")
    rows = looked(cluster, "n1", gone=gone)
    assert all("is Running, not done within 185 s" in row["problem"]["cause"] for row in rows)
    assert gone == {}


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_pings_of_a_node_that_starts_no_pod_cost_one_wait(known: bool) -> None:
    hosts = ("n0", "n1", "n2", "n3", "n4")
    problem = {"cause": "it is off", "remedy": ""}
    for place in hosts:
        cluster = Networks(
            lambda pod, looks, place=place: {"phase": "Pending"} if on(pod, place) else status_of(pod, looks), answered
        )
        began, gone = pods_look.time.monotonic(), ({place: problem} if known else {})
        wish = a_wish(labels={**OWNER, RUN: "abc"}, networks=NETWORKS)
        rows = ping_rounds(api_of(cluster), wish, everyone(*hosts), gone)
        assert list(gone) == [place]
        assert len([pod for pod in cluster.made if on(pod, place)]) == (0 if known else 1)
        assert pods_look.time.monotonic() - began < 300
        assert len(rows) == 10 * len(NETWORKS)
        for row in rows:
            assert bool(row["problem"]) is (place in (row["client"], row["server"]))


def test_an_image_without_ping_is_reported() -> None:
    cluster = Networks(status_of, lambda _pod: a_log((127, "sh: ping: not found"), (127, "")))
    rows = pinged(cluster, [a_pair()])
    assert "sh: ping: not found" in rows[0]["problem"]["cause"]


def test_no_answer_from_the_cluster_is_one_for_all() -> None:
    rounds = [[checked(a_pair(), {})]]
    looks = [checked_look({"host": "n1", "resources": []}, {})]
    found = unanswered(rounds, looks, [1000, 0], a_wish(networks=NETWORKS), "it is off")
    assert [row["problem"]["cause"] for row in (*found["looks"], *found["pings"])] == ["it is off"] * 4
    assert (
        unanswered(rounds, [], [0], a_wish(), "it is off")["results"][0][0]["client"]["problem"]["cause"] == "it is off"
    )

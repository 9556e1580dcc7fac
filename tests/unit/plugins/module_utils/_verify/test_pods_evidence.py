# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods measure against each other, and what is made of what they print."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_evidence import rdma_evidence
from ansible_collections.fabric.rdma.plugins.filter.rdma_pairs import rdma_pairs
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import checked, not_done, result_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_evidence import pair_pods
from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import settings_from
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_group, a_plan
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pairs import node, wanted_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_log, a_wish, recorded

Json = dict[str, t.Any]
NOTHING: Json = {"rounds": [], "jobs": {}, "untested": {}, "expected": []}


def match(device: str, **more: t.Any) -> Json:
    return {"device": device, "pci": "0000:3b:00.0", "if_name": "eth1", "ports": [1], **more}


def facts_of(*hosts: str) -> Json:
    """Nodes with two software devices."""
    return {
        host: node("mlx5_0", "mlx5_1", link="Ethernet", ipv4=f"198.51.100.{number}", kind="software")
        for number, host in enumerate(hosts, 1)
    }


def plan_of(**devices: list[str]) -> Json:
    """A plan in which Pods on a host get these devices."""
    classes = [
        a_class(f"c-{host}", host, matches={host: [match(device) for device in own]}) for host, own in devices.items()
    ]
    return a_plan(g=a_group(*classes, resource="rdma/rdma_a100"))


def planned(plan: Json, *hosts: str, resource: t.Any = "r", **settings: t.Any) -> Json:
    facts = facts_of(*hosts)
    groups = {"g": {"hosts": sorted(hosts), "resource": resource}}
    return pair_pods(groups, facts, wanted_of(facts), plan, settings_from(settings))


@pytest.fixture
def lab() -> Json:
    return planned(plan_of(lab1=["mlx5_0"], lab2=["mlx5_1"]), "lab1", "lab2")


def answer(lab: Json, client: str, server: str) -> Json:
    """What the module returns for the one pair."""
    tests = checked(lab["rounds"][0][0], {})["tests"]
    pair = {"client": result_of(client, "c", tests, a_wish()), "server": result_of(server, "s", tests, a_wish())}
    return {"results": [[pair]], "image": "registry.example/perftest:1"}


def judged(lab: Json, given: Json) -> Json:
    found = rdma_evidence({**NOTHING, "expected": ["lab1", "lab2"]}, {}, lab, given)
    json.dumps(found)
    return found


BOTH = ((0, recorded("bandwidth-gbits-two-qps-client")), (0, recorded("latency-client")))


# --- who measures ----------------------------------------------------------------------------------------------------


def test_only_what_pods_get_is_measured(lab: Json) -> None:
    """Hosts of two classes have one resource: they are one fabric, whatever the card is called."""
    (((pair),),) = lab["rounds"]
    assert {(test["client"]["device"], test["server"]["device"]) for test in pair["tests"]} == {("mlx5_0", "mlx5_1")}
    assert pair["pods"] == {
        "client": {"resources": ["rdma/rdma_a100"], "devices": ["mlx5_0"], "whole": True},
        "server": {"resources": ["rdma/rdma_a100"], "devices": ["mlx5_1"], "whole": True},
    }
    assert lab["untested"] == {"g": []}


def test_with_rails_a_pod_asks_for_each() -> None:
    rails = [match(f"mlx5_{n}", resource=f"rdma/r_gpu{n + 1}", rail=n + 1) for n in (0, 1)]
    plan = a_plan(g=a_group(a_class("c", "a", "b", matches={"a": rails, "b": rails}), resource="rdma/r_gpu{rail}"))
    (((pair),),) = planned(plan, "a", "b")["rounds"]
    assert pair["pods"]["client"]["resources"] == ["rdma/r_gpu1", "rdma/r_gpu2"]
    assert len(pair["tests"]) == 4


def test_a_host_whose_pods_get_nothing_is_a_defect_where_there_is_a_resource() -> None:
    plan = plan_of(lab1=["mlx5_0"], lab2=["mlx5_0"], lab3=[])
    rows = planned(plan, "lab1", "lab2", "lab3", "lab4")["untested"]["g"]
    assert [(row["host"], row["defect"]) for row in rows] == [("lab3", True), ("lab4", True)]
    none = planned(a_plan(), "lab1", "lab2", resource=None)
    assert none["rounds"] == []
    assert [row["defect"] for row in none["untested"]["g"]] == [False, False]


def test_only_a_host_without_a_usable_port_is_excused_from_giving_pods_one() -> None:
    facts = facts_of("lab1", "lab2", "lab3", "lab4")
    wanted = {host: rows for host, rows in wanted_of(facts).items() if host != "lab4"}
    groups = {"g": {"hosts": sorted(facts), "resource": "r"}}
    plan = plan_of(lab1=["mlx5_0"], lab2=["mlx5_0"], lab3=[])
    rows = pair_pods(groups, facts, wanted, plan, settings_from({"allow_unusable": True}))["untested"]["g"]
    assert [(row["host"], row["defect"]) for row in rows] == [("lab3", True), ("lab4", False)]


def test_the_filter_takes_a_plan() -> None:
    groups = {"g": {"hosts": ["lab1", "lab2"], "resource": {"name": "rdma_a100"}, "want": None, "replayed": []}}
    groups["g"]["want"] = {"link_layer": "Ethernet", "kinds": ["software"]}
    facts = facts_of("lab1", "lab2")
    for each in facts.values():
        for device in each["devices"]:
            device.update(pci=None, plugin={"visible": True, "reason": None})
    view = {"groups": groups, "facts": facts, "unseen": {}}
    found = rdma_pairs(view, ["lab1", "lab2"], {}, plan_of(lab1=["mlx5_0"], lab2=["mlx5_1"]))
    assert found["expected"] == ["lab1", "lab2"]
    (((pair),),) = found["rounds"]
    assert pair["pods"]["server"]["devices"] == ["mlx5_1"]
    with pytest.raises(AnsibleFilterError, match="expects a plan, found str"):
        rdma_pairs(view, ["lab1"], {}, "x")


# --- what it proves --------------------------------------------------------------------------------------------------


def test_evidence_of_pods_says_so_and_has_both_sides(lab: Json) -> None:
    found = judged(lab, answer(lab, a_log(*BOTH, files="1"), a_log((0, ""), (0, ""))))
    assert found["failures"] == []
    assert found["expected"] == ["lab1", "lab2"]
    bandwidth, latency = found["groups"]["g"]["tests"]
    assert bandwidth["level"] == latency["level"] == "pods"
    assert bandwidth["verdict"] == "pass"
    assert bandwidth["bandwidth_gbps"]["average"] > 0
    assert latency["latency_us"]["average"] > 0
    assert bandwidth["pods"] == {
        "user": 1000,
        "memlock": {"soft": "unlimited", "hard": "unlimited"},
        "files": {
            "client": ["issm1", "rdma_cm", "umad1", "uverbs1"],
            "server": ["issm0", "rdma_cm", "umad0", "uverbs0"],
        },
        "image": "registry.example/perftest:1",
    }
    assert "ib_write_bw (Pods)" in found["tables"]["g"]
    assert all(len(line) <= 100 for line in found["tables"]["g"].splitlines())


def test_a_limit_of_locked_memory_fails_a_pair_with_traffic(lab: Json) -> None:
    found = judged(lab, answer(lab, a_log(*BOTH), a_log(soft="64", hard="8192")))
    (bandwidth, _latency) = found["groups"]["g"]["tests"]
    assert bandwidth["verdict"] == "fail"
    assert bandwidth["message"].startswith(
        "a Pod on lab2 may lock only so much memory: soft 64 KiB and hard 8192 KiB; "
    )
    assert "containerd_memlock" in bandwidth["remedy"]
    assert bandwidth["pods"]["memlock"] == {"soft": "64", "hard": "8192"}
    assert found["failures"][0].startswith("g: ib_write_bw between Pods from lab1 mlx5_0 to lab2 mlx5_1: a Pod on lab2")


def test_traffic_alone_proves_nothing_of_what_a_pod_was_given(lab: Json) -> None:
    (entry, _latency) = judged(lab, answer(lab, a_log(*BOTH), ""))["groups"]["g"]["tests"]
    assert entry["verdict"] == "fail"
    assert entry["message"].startswith("what a Pod on lab2 was given is not known; ")
    silent = a_log(*BOTH).replace("memlock unlimited", "memlock ?")
    (entry, _latency) = judged(lab, answer(lab, silent, a_log()))["groups"]["g"]["tests"]
    assert entry["message"].startswith("what a Pod on lab1 was given is not known; ")


def test_memory_that_cannot_be_locked_explains_what_was_not_measured(lab: Json) -> None:
    log = a_log((1, recorded("memlock-client")), (1, recorded("memlock-client")), soft="64", hard="64")
    entry = judged(lab, answer(lab, log, a_log()))["groups"]["g"]["tests"][0]
    assert entry["verdict"] == "error"
    assert "a Pod on lab1 may lock only so much memory" in entry["message"]
    assert "the memory of the test could not be locked" in entry["message"]


@pytest.mark.parametrize("extra", ["@fabric.rdma file uverbs7\n", None], ids=["more", "none"])
def test_other_files_than_planned_fail_a_pair(lab: Json, extra: str | None) -> None:
    log = a_log(*BOTH)
    log = extra + log if extra else "".join(line for line in log.splitlines(True) if " file " not in line)
    entry = judged(lab, answer(lab, log, a_log()))["groups"]["g"]["tests"][0]
    assert entry["verdict"] == "fail"
    assert "a Pod on lab1 has the files " in entry["message"]
    assert "planned is mlx5_0" in entry["message"]


def test_what_the_server_says_explains_a_client_that_never_came(lab: Json) -> None:
    given = answer(lab, "", a_log((1, recorded("port-down-client")), (1, "")))
    for result in given["results"][0][0]["client"]["results"]:
        result["problem"] = None
    entry = judged(lab, given)["groups"]["g"]["tests"][0]
    assert entry["verdict"] == "error"
    assert entry["message"].startswith("the server says: port 1 of the device is in state ")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"failed": True, "msg": "image 'a b' is not a reference"}, "image 'a b' is not a reference"),
        ({}, "the Pods were not measured"),
        ({"results": "x"}, "the Pods were not measured"),
        ({"results": [[{"client": 5, "server": {"files": 3, "memlock": 1}}]]}, "the Pods were not measured"),
        ({"results": [[{"client": {"results": [{"status": "x", "output": 5}] * 2}, "server": None}]]}, ""),
    ],
    ids=str,
)
def test_strange_answers_are_errors_of_every_pair(lab: Json, given: Json, words: str) -> None:
    found = judged(lab, given)
    assert [entry["verdict"] for entry in found["groups"]["g"]["tests"]] == ["error", "error"]
    assert all(words in entry["message"] for entry in found["groups"]["g"]["tests"])
    assert len(found["failures"]) == 2


def test_a_cluster_that_does_not_answer_is_an_error_of_every_pair(lab: Json) -> None:
    rounds = [[checked(pair, {}) for pair in pairs] for pairs in lab["rounds"]]
    found = judged(lab, {"results": not_done(rounds, a_wish(), "no answer from the API server"), "image": "i"})
    assert all("no answer from the API server" in sentence for sentence in found["failures"])
    assert found["groups"]["g"]["tests"][0]["pods"] == {
        "user": None,
        "memlock": {"soft": None, "hard": None},
        "files": {"client": [], "server": []},
        "image": "i",
    }


def test_hosts_and_pods_are_in_one_document(lab: Json) -> None:
    hosts = {**lab, "expected": []}
    found = rdma_evidence(hosts, {}, lab, answer(lab, a_log(*BOTH), a_log()))
    assert [(entry["level"], entry["verdict"]) for entry in found["groups"]["g"]["tests"]] == [
        ("hosts", "error"),
        ("hosts", "error"),
        ("pods", "pass"),
        ("pods", "pass"),
    ]
    with pytest.raises(AnsibleFilterError, match="expects pod_results as a dictionary, found list"):
        rdma_evidence(hosts, {}, lab, [])


# --- what Pods are given ---------------------------------------------------------------------------------------------


def a_look(host: str = "lab1", as_user: int = 1000, **given: t.Any) -> Json:
    """What a Pod that only looks tells where all is well."""
    device = {"lab1": "mlx5_0", "lab2": "mlx5_1"}[host]
    files = dict.fromkeys(("issm0", "umad0", "uverbs0"), device)
    row = {
        "host": host,
        "as_user": as_user,
        "pod": "p",
        "user": as_user,
        "ipc_lock": False,
        "memory": None,
        "lacks": [],
    }
    row.update(memlock={"soft": "unlimited", "hard": "unlimited"}, files=["rdma_cm", *files], hcas=files, problem=None)
    return {**row, **given}


def looked(lab: Json, *looks: Json, **given: t.Any) -> Json:
    """As the role registers it: what was looked at, and the one round."""
    first = {"item": "look", "image": "i", "memory_bytes": None, "results": [], "looks": list(looks), "pings": []}
    second = {"item": 0, "image": "i", "memory_bytes": None, **answer(lab, a_log(*BOTH), a_log())}
    return judged(lab, {"results": [{**first, **given}, second]})


EVERYWHERE = [a_look(host, user) for host in ("lab1", "lab2") for user in (1000, 0)]


def test_every_host_is_to_be_looked_at(lab: Json) -> None:
    assert [(look["group"], look["host"], look["devices"]) for look in lab["looks"]] == [
        ("g", "lab1", ["mlx5_0"]),
        ("g", "lab2", ["mlx5_1"]),
    ]


def test_what_is_as_planned_passes_and_shares_a_line(lab: Json) -> None:
    found = looked(lab, *EVERYWHERE)
    assert found["failures"] == []
    looks = found["groups"]["g"]["inspections"]
    assert [(look["host"], look["user"], look["verdict"]) for look in looks] == [
        (host, user, "pass") for host in ("lab1", "lab2") for user in (1000, 0)
    ]
    assert [test["verdict"] for test in found["groups"]["g"]["tests"]] == ["pass", "pass"]
    lines = found["tables"]["g"].splitlines()
    assert sum("locked memory, files and image are as planned" in line for line in lines) == 2


SICK = [
    (
        {"memlock": {"soft": "64", "hard": "64"}},
        "may lock only so much memory: soft 64 KiB and hard 64 KiB",
        "containerd_memlock",
    ),
    ({"memlock": {"soft": "8192", "hard": "unlimited"}}, "only so much memory: soft 8192 KiB", "containerd_memlock"),
    ({"memory": 512 << 20}, "may use only 512 MiB of memory, which nobody asked for", "LimitRange"),
    ({"lacks": ["ib_read_bw", "date"]}, "the image of a Pod on lab1 lacks ib_read_bw, date", "verify_pod_image"),
    ({"files": []}, "has the files none in /dev/infiniband; planned is mlx5_0", "configuration of the device plugin"),
    ({"hcas": {"uverbs0": "mlx5_7"}}, "and some are of mlx5_7", "configuration of the device plugin"),
    (
        {"hcas": {"uverbs0": "mlx5_0", "umad0": "mlx5_1"}},
        "and some are of mlx5_1",
        "configuration of the device plugin",
    ),
    ({"files": ["uverbs0"], "hcas": {"uverbs0": "mlx5_0"}}, "has no /dev/infiniband/rdma_cm", "rdma_ucm"),
    ({"user": 0}, "it runs as user 0, and not as 1000", "admission webhook"),
]


def test_a_limit_that_a_shell_does_not_tell_is_not_named(lab: Json) -> None:
    """Some know `ulimit -S` only."""
    found = looked(lab, a_look(memlock={"soft": "64", "hard": None}), *EVERYWHERE[1:])
    (look, *_others) = found["groups"]["g"]["inspections"]
    assert "may lock only so much memory: soft 64 KiB" in look["message"]
    assert "None" not in look["message"]


@pytest.mark.parametrize(("given", "cause", "remedy"), SICK, ids=[row[1][:30] for row in SICK])
def test_what_a_pod_is_not_given_fails_with_its_remedy(lab: Json, given: Json, cause: str, remedy: str) -> None:
    found = looked(lab, a_look(**given), *EVERYWHERE[1:])
    (failure,) = found["failures"]
    assert failure.startswith("g: a Pod of user 1000 on lab1: ")
    assert cause in failure
    assert remedy in failure.partition("Remedy: ")[2]
    assert found["groups"]["g"]["inspections"][0]["verdict"] == "fail"
    assert "FAIL" in found["tables"]["g"]
    assert all(len(line) <= 100 for line in found["tables"]["g"].splitlines())


def test_a_limit_does_not_bind_who_has_the_capability(lab: Json) -> None:
    limited = {"memlock": {"soft": "64", "hard": "64"}}
    assert looked(lab, a_look(**limited, ipc_lock=True), *EVERYWHERE[1:])["failures"] == []


def test_a_limit_of_memory_that_was_asked_for_is_no_surprise(lab: Json) -> None:
    own = [{**look, "memory": 2 << 30} for look in EVERYWHERE]
    assert looked(lab, *own, memory_bytes=2 << 30)["failures"] == []


def test_a_pool_gives_one_of_its_devices() -> None:
    plan = plan_of(lab1=["mlx5_0", "mlx5_1"], lab2=["mlx5_0", "mlx5_1"])
    for pools, count in ((["g"], 0), ([], 2)):
        lab = planned(plan, "lab1", "lab2", pools=pools)
        given = {"results": [{"item": "look", "looks": [a_look("lab1"), a_look("lab2")]}]}
        looks = judged(lab, given)["groups"]["g"]["inspections"]
        assert [look["verdict"] for look in looks] == (["fail"] * count or ["pass"] * 2)
        assert not count or "and none is of mlx5_1" in looks[0]["message"]


def test_a_pod_that_did_not_start_is_an_error_of_its_host(lab: Json) -> None:
    problem = {"cause": "the Pod default/p on lab1 is Pending: no place", "remedy": "see the node"}
    silent = {"user": None, "memlock": {"soft": None, "hard": None}, "files": [], "hcas": {}}
    found = looked(lab, a_look(problem=problem, **silent), *EVERYWHERE[1:])
    assert found["groups"]["g"]["inspections"][0]["verdict"] == "error"
    (failure,) = found["failures"]
    assert (
        failure == "g: a Pod of user 1000 on lab1: the Pod default/p on lab1 is Pending: no place. Remedy: see the node"
    )
    (said,) = looked(lab, a_look(**silent), *EVERYWHERE[1:])["failures"]
    assert "it did not say what it was given" in said


def test_hosts_at_which_nobody_looked_are_named(lab: Json) -> None:
    """The module failed for the looks, and measured all the same."""
    found = looked(lab, looks=None, failed=True, msg="it is off")
    assert [(row["host"], row["reason"]) for row in found["groups"]["g"]["untested"]] == [
        ("lab1", "no Pod was looked at: it is off"),
        ("lab2", "no Pod was looked at: it is off"),
    ]
    assert len(found["failures"]) == 2
    assert [test["verdict"] for test in found["groups"]["g"]["tests"]] == ["pass", "pass"]


@pytest.mark.parametrize(
    "odd",
    [None, 5, "x", [], {}, [[1]], {"host": "lab1"}, {"host": "lab1", "memlock": 5, "hcas": [], "as_user": "0"}],
    ids=str,
)
def test_strange_looks_and_pings_are_no_traceback(lab: Json, odd: t.Any) -> None:
    for rows in (odd, [odd]):
        found = judged(lab, {"results": [{"item": "look", "looks": rows, "pings": rows}, {"item": 0}, odd]})
        assert found["failures"]


# --- pings -----------------------------------------------------------------------------------------------------------


def a_ping(**given: t.Any) -> Json:
    row = {
        "client": "lab1",
        "server": "lab2",
        "network": "default/rail1",
        "address": "198.51.100.4",
        "sent": 5,
        "received": 5,
    }
    return {**row, "rtt_us": {"min": 71.0, "average": 83.0, "max": 95.0}, "problem": None, **given}


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, "pass", "5 of 5 came back"),
        ({"received": 4}, "fail", "4 of 5 came back"),
        ({"received": 0, "rtt_us": None}, "fail", "0 of 5 came back"),
        ({"sent": None, "received": None, "rtt_us": None}, "error", "ping printed no figures"),
        ({"problem": {"cause": "no address", "remedy": "see Multus"}}, "error", "no address"),
        ({"sent": -1, "received": True}, "error", "ping printed no figures"),
    ],
)
def test_a_ping_is_judged(lab: Json, given: Json, verdict: str, words: str) -> None:
    found = looked(lab, *EVERYWHERE, pings=[a_ping(**given), a_ping(client="elsewhere")])
    (ping,) = found["groups"]["g"]["pings"]
    assert (ping["verdict"], ping["message"]) == (verdict, words)
    assert len(found["failures"]) == (verdict != "pass")
    assert "PING" in found["tables"]["g"]
    assert bool(ping["remedy"]) == (verdict != "pass")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"failed": True, "msg": "network 'rail1' is not namespace/name"}, "network 'rail1' is not namespace/name"),
        ({"pings": []}, "the Pods gave no answer"),
        ({"pings": "x"}, "the Pods gave no answer"),
    ],
    ids=str,
)
def test_pings_that_were_asked_for_and_nobody_made_are_failures(lab: Json, given: Json, why: str) -> None:
    """What the role registers of its last call, for all pairs together."""
    first = {"item": "look", "looks": EVERYWHERE}
    second = {"item": 0, **answer(lab, a_log(*BOTH), a_log())}
    found = judged(lab, {"results": [first, second, {"item": "ping", **given}]})
    assert found["failures"] == [
        f"g: {host} was not measured: its secondary networks: {why}" for host in ("lab1", "lab2")
    ]
    assert [test["verdict"] for test in found["groups"]["g"]["tests"]] == ["pass", "pass"]
    assert judged(lab, {"results": [first, second]})["failures"] == []


# --- GPUs ------------------------------------------------------------------------------------------------------------


def test_pods_ask_for_a_gpu_where_its_memory_is_measured() -> None:
    facts = {host: {**node(ipv4=None), "gpus": [{}]} for host in ("lab1", "lab2")}
    groups = {"g": {"hosts": ["lab1", "lab2"], "resource": "r"}}
    plan = plan_of(lab1=["mlx5_0"], lab2=["mlx5_0"])
    for gpudirect, resources in (("auto", ["rdma/rdma_a100", "nvidia.com/gpu"]), ("none", ["rdma/rdma_a100"])):
        found = pair_pods(groups, facts, wanted_of(facts), plan, settings_from({"gpudirect": gpudirect}))
        assert found["rounds"][0][0]["pods"]["client"]["resources"] == resources
        # a Pod that only looks keeps no GPU from others
        assert found["looks"][0]["resources"] == ["rdma/rdma_a100"]

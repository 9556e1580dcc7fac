# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module pod_traffic against an API server that plays: what it makes, returns and leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.filter.rdma_pairs import rdma_pairs
from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.filter.rdma_view import rdma_view
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_log, a_pair, recorded
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import differs, insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import LEFT, Served, healthy, running

Json = dict[str, t.Any]
# Pods here are as they will be at the next look.
SOON = "import ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run as run; run._POLL_SECONDS = 0.05\n"


def good(_pod: Json) -> str:
    # a byte that is not UTF-8, as a program may print it
    return "\udcff\n" + a_log((0, recorded("bandwidth-gbits-two-qps-client")), (0, recorded("latency-client")))


def said(kubeconfig: str, check: bool = False, **given: t.Any) -> Json:
    arguments = {"rounds": [[a_pair()]], "image": "registry.example/perftest:1", "kubeconfig": kubeconfig, **given}
    result = run("pod_traffic", check, SOON, **arguments)
    insist_on_return("pod_traffic", result)
    return result


def test_a_check_asks_the_cluster_nothing(tmp_path: Path) -> None:
    result = said(str(tmp_path / "none"), check=True)
    assert result["changed"] is False
    assert result["msg"] == "between Pods would be measured: lab1 and lab2 (ib_write_bw, ib_write_lat)"


def test_a_measurement_leaves_no_pod(tmp_path: Path) -> None:
    with Served(healthy, good) as cluster:
        cluster.request("POST", "/pods", "make", body={"metadata": {"name": "left", "labels": LEFT}})
        place = cluster.kubeconfig(tmp_path)
        checked = said(place, check=True, node_names={"lab1": "n1"})
        assert (checked["changed"], checked["removed"], len(cluster.pods)) == (False, [], 1)
        first, second = (said(place, node_names={"lab1": "n1"}) for _run in range(2))
        assert (first["changed"], first["removed"]) == (True, ["left"])
        assert first["diff"] == {"before": "left\n", "after": ""}
        assert (second["changed"], second["removed"]) == (False, [])
        assert [differs(each.get("diff")) for each in (checked, first, second)] == [False, True, False]
        ((pair,),) = first["results"]
        assert pair["client"]["user"] == 1000
        assert [result["status"] for result in pair["client"]["results"]] == [0, 0]
        assert len(cluster.made) == 5
        assert "n1" in json.dumps(cluster.made[2])
        names = {pod["metadata"]["name"] for pod in cluster.made}
        assert len(names) == 5
        assert not cluster.pods


def test_pods_are_looked_at_and_ping(tmp_path: Path) -> None:
    looks = [
        {"group": "g", "host": host, "resources": ["rdma/r"], "devices": ["mlx5_0"], "whole": True}
        for host in ("lab1", "lab2")
    ]

    def log(pod: Json) -> str:
        return a_log(user=pod["spec"]["containers"][0]["securityContext"]["runAsUser"])

    with Served(lambda pod, look: healthy(pod, look + 1), log) as cluster:
        result = said(cluster.kubeconfig(tmp_path), rounds=[], looks=looks, users=[7, 0], node_names={"lab2": "n2"})
        assert [(look["host"], look["as_user"], look["user"]) for look in result["looks"]] == [
            ("lab1", 7, 7),
            ("lab1", 0, 0),
            ("lab2", 7, 7),
            ("lab2", 0, 0),
        ]
        assert {look["problem"] for look in result["looks"]} == {None}
        assert "n2" in str(cluster.made[2]["spec"]["affinity"])
        assert not cluster.pods
    check = said("/none", check=True, networks=["default/rail1"])
    assert check["msg"] == "between Pods would be measured: lab1 and lab2 (ping in default/rail1)"


def test_a_host_that_is_given_up_is_passed_on_and_not_tried(tmp_path: Path) -> None:
    """What starts no Pod, on a clock that cannot be wound: without a place it waits for the time of a test."""
    nowhere = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}],
    }
    with Served(lambda _pod, _looks: nowhere, good) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path)
        looks = [{"group": "g", "host": "lab2", "resources": ["rdma/rdma_a100"], "devices": ["mlx5_0"], "whole": True}]
        first = said(kubeconfig, rounds=[], looks=looks, timeout=1)
        assert "without a place for 1 s" in first["given_up"]["lab2"]["cause"]
        made = len(cluster.made)
        second = said(kubeconfig, given_up=first["given_up"])
        assert len(cluster.made) == made
    assert second["given_up"] == first["given_up"]
    ((pair,),) = second["results"]
    problem = pair["client"]["results"][0]["problem"]
    assert problem["cause"].startswith("lab2 did not start its Pod before, and is not tried again: the Pod default/")
    # also where nothing can be asked, and in a check
    for check in (True, False):
        assert said(str(tmp_path / "none"), check, given_up=first["given_up"])["given_up"] == first["given_up"]
    assert said(str(tmp_path / "none"), given_up={"lab2": "odd"})["given_up"] == {}


def test_no_cluster_is_a_problem_of_every_look_and_ping(tmp_path: Path) -> None:
    looks = [{"host": "lab1", "resources": ["rdma/r"]}]
    result = said(str(tmp_path / "none"), looks=looks, networks=["default/rail1"])
    assert ["does not exist" in row["problem"]["cause"] for row in (*result["looks"], *result["pings"])] == [True] * 3
    assert result["results"] == []


def test_a_cluster_that_does_not_answer_is_a_result(tmp_path: Path) -> None:
    with Served(healthy, good) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path)
    ((pair,),) = said(kubeconfig)["results"]
    assert "no answer from the API server http://127.0.0.1:" in pair["client"]["results"][0]["problem"]["cause"]
    ((pair,),) = said(str(tmp_path / "none"))["results"]
    assert "does not exist" in pair["client"]["results"][0]["problem"]["cause"]


def test_a_refusal_names_what_was_asked(tmp_path: Path) -> None:
    with Served(healthy, good, lambda method, _path: 403 if method == "POST" else 0) as cluster:
        ((pair,),) = said(cluster.kubeconfig(tmp_path))["results"]
    problem = pair["client"]["results"][0]["problem"]
    assert problem["cause"].startswith("cannot make Pod default/fabric-rdma-verify-")
    assert "rights that the role verify_pod names" in problem["remedy"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "$(x)"}, "image '$(x)' is not a reference"),
        ({"rounds": [[{"client": "a"}]]}, "a pair is not one of fabric.rdma.rdma_pairs"),
        ({"inventory": "a,b"}, "cannot be the value of the label"),
        ({"users": [1000, -1]}, "user is -1; allowed is"),
        ({"programs": ["$(x)"]}, "'$(x)' is not the name of a program"),
        ({"users": []}, "there is no user to measure as"),
        ({"memory": "lots"}, "memory 'lots' is not a quantity such as 2Gi"),
        ({"memory": "100Mi"}, "memory is 100 MiB, and the tests of a Pod take up to 129 MiB"),
        ({"networks": ["rail1"]}, "network 'rail1' is not namespace/name"),
        ({"looks": [{"host": "a b", "resources": []}]}, "host a b: 'a b' cannot be the name of a node"),
        ({"looks": [{}]}, "a host to look at is not one of"),
    ],
    ids=str,
)
@pytest.mark.parametrize("check", [True, False])
def test_bad_input_is_named_and_nothing_is_asked(given: Json, words: str, check: bool, tmp_path: Path) -> None:
    with Served(healthy, good) as cluster:
        result = said(cluster.kubeconfig(tmp_path), check, **given)
        assert result["failed"] is True
        assert words in result["msg"]
        assert not cluster.asked


def started(arguments: Json) -> subprocess.Popen[str]:
    """The module, on its way."""
    code = (
        "import sys, json, runpy\n"
        "try:\n"
        "    from ansible.module_utils.testing import patch_module_args as patched\n"
        "except ImportError:\n"
        "    import contextlib, ansible.module_utils.basic as basic\n"
        "    basic._ANSIBLE_ARGS = json.dumps({'ANSIBLE_MODULE_ARGS': json.loads(sys.argv[1])}).encode()\n"
        "    patched = contextlib.nullcontext\n"
        "with patched(json.loads(sys.argv[1])):\n"
        "    runpy.run_module('ansible_collections.fabric.rdma.plugins.modules.pod_traffic', run_name='__main__')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, json.dumps({**arguments, "_ansible_remote_tmp": "/tmp"})],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_pod_is_left_after_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    with Served(lambda _pod, _looks: running(), lambda _pod: "") as cluster:
        arguments = {"rounds": [[a_pair()]], "image": "i", "kubeconfig": cluster.kubeconfig(tmp_path)}
        process = started(arguments)
        end = time.monotonic() + limit(60)
        while len(cluster.pods) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        assert len(cluster.pods) == 2
        process.send_signal(number)
        result = json.loads(process.communicate(timeout=limit(60))[0])
        assert result["failed"] is True
        assert result["msg"] == f"ended by signal {int(number)}; its Pods are removed"
        assert not cluster.pods


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP])
def test_no_pod_is_left_after_a_signal_while_they_are_removed(second: signal.Signals, tmp_path: Path) -> None:
    """As when a user presses Ctrl-C, and Ansible ends what runs then."""
    deleting = threading.Event()

    def slow(method: str, _path: str) -> int:
        if method == "DELETE":
            deleting.set()
            time.sleep(1)
        return 0

    with Served(lambda _pod, _looks: running(), lambda _pod: "", slow) as cluster:
        arguments = {"rounds": [[a_pair()]], "image": "i", "kubeconfig": cluster.kubeconfig(tmp_path)}
        process = started(arguments)
        end = time.monotonic() + limit(60)
        while len(cluster.pods) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert deleting.wait(limit(60))
        process.send_signal(second)
        result = json.loads(process.communicate(timeout=limit(60))[0])
        assert result["msg"] == "ended by signal 2; its Pods are removed"
        assert not cluster.pods


def test_pods_that_may_be_left_after_a_signal_are_told(tmp_path: Path) -> None:
    refuse = {"DELETE": 403}
    with Served(
        lambda _pod, _looks: running(), lambda _pod: "", lambda method, _path: refuse.get(method, 0)
    ) as cluster:
        arguments = {"rounds": [[a_pair()]], "image": "i", "kubeconfig": cluster.kubeconfig(tmp_path)}
        process = started(arguments)
        end = time.monotonic() + limit(60)
        while len(cluster.pods) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        result = json.loads(process.communicate(timeout=limit(60))[0])
        assert result["msg"].startswith("ended by signal 15; Pods of this run may be left, the next one removes them: ")
        assert "refused" in result["msg"]
        assert "are removed" not in result["msg"]


def test_the_examples_measure(tmp_path: Path) -> None:
    hosts = ["ib-a100-1", "ib-a100-2"]
    facts = {host: gather(open_tree(str(CAPTURES / f"{host}.capture"))) for host in hosts}
    known = {
        "hostvars": {
            host: {"ansible_facts": {"rdma": facts[host]}, "rdma_resource": {"name": "rdma_a100"}} for host in hosts
        },
        "groups": {"ib-a100": hosts},
        "rdma_groups": ["ib-a100"],
        "ansible_play_hosts": hosts,
    }
    filters = {
        "fabric.rdma.rdma_view": rdma_view,
        "fabric.rdma.rdma_pairs": rdma_pairs,
        "fabric.rdma.rdma_selectors": rdma_selectors,
    }
    with Served(healthy, good) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path)
        (result,) = run_examples(
            "pod_traffic",
            lambda module, given: run(module, prelude=SOON, **given, kubeconfig=kubeconfig),
            filters,
            **known,
        )
        assert {pod["spec"]["containers"][0]["image"] for pod in cluster.made} == {"registry.example/perftest:24.01"}
        assert not cluster.pods
    assert result["results"][0][0]["client"]["results"][0]["status"] == 0

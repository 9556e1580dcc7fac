# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""verify.yml with Pods, against an API server that plays: evidence and report, and what a cluster that does not answer costs."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.contracts import load
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_log, recorded
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import Served, healthy, on

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
HOSTS = ("ib-a100-1", "ib-a100-2")
# The facts of a capture on hosts that are not replayed: those are never measured.
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - fabric.rdma.ib_facts: {capture: "{{ capture }}"}
      check_mode: false
- import_playbook: fabric.rdma.verify
  vars: {verify_insist: false}
- import_playbook: fabric.rdma.report
- hosts: rdma
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: fabric.rdma.verify, tasks_from: insist}
"""


def log(pod: dict[str, t.Any]) -> str:
    """A client and a server of the tests that the Pod has for arguments, or one that only looks."""
    (container,) = pod["spec"]["containers"]
    lines = [line for line in container["command"][6:] if " -d " in line]
    names = ["latency-client" if "_lat" in line else "bandwidth-gbits-two-qps-client" for line in lines]
    return a_log(*((0, recorded(name)) for name in names), user=container["securityContext"]["runAsUser"])


def run(user: User, directory: Path, kubeconfig: str, *more: str, fails: bool) -> str:
    hosts = {name: {"ansible_connection": "local", "capture": str(CAPTURES / f"{name}.capture")} for name in HOSTS}
    variables = {
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "rdma_groups": ["rdma"],
        "rdma_resource": {"name": "rdma_a100"},
        "rdma_output_dir": str(directory / "output"),
        "rdma_rollout": {"kubeconfig": kubeconfig},
        "verify_level": "pods",
        "verify_pod_image": "registry.example/perftest:1",
        "verify_min_gbps": 0.001,
        "verify_max_us": 1000000,
    }
    (directory / "hosts.json").write_text(json.dumps({"rdma": {"hosts": hosts, "vars": variables}}))
    (directory / "play.yml").write_text(PLAY)
    done = user.run(
        "ansible-playbook", "-i", str(directory / "hosts.json"), str(directory / "play.yml"), *more, check=False
    )
    assert (done.returncode != 0) is fails, done.stdout
    return " ".join((done.stdout + done.stderr).split())


def of_task(said: str, name: str) -> list[str]:
    """Hosts that a task of the role verify was run for."""
    (_before, after) = said.split(f"TASK [fabric.rdma.verify : {name}] ")
    return sorted(re.findall(r"\w+: \[([\w-]+)", after.partition(" TASK [")[0]))


def test_a_run_makes_its_pods_measures_and_removes_them(user: User, tmp_path: Path) -> None:
    with Served(healthy, log) as cluster:
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), "--check", fails=False)
        assert "Pods on ib-a100-1, ib-a100-2 would be looked at" in said
        assert "between Pods would be measured: ib-a100-1 and ib-a100-2 (ib_write_bw, ib_write_lat)" in said
        assert not cluster.asked
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), fails=False)
        # what is shown meanwhile
        assert "(item=what Pods on 2 nodes are given)" in said
        assert "(item=round 1 of 1, 1 pairs)" in said
        # on each node as an ordinary user and as root, then the pair
        assert len(cluster.made) == 2 * 2 + 2
        assert not cluster.pods
        limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in cluster.made]
    assert limits == [{"rdma/rdma_a100": "1"}] * 6
    evidence = load(tmp_path / "output" / "evidence" / "rdma.json")
    looks = [(look["host"], look["user"], look["verdict"]) for look in evidence["inspections"]]
    assert sorted(looks) == [(host, user, "pass") for host in HOSTS for user in (0, 1000)]
    tests = evidence["tests"]
    assert [(test["test"], test["level"], test["verdict"]) for test in tests] == [
        ("ib_write_bw", "pods", "pass"),
        ("ib_write_lat", "pods", "pass"),
    ]
    assert "0.0729 Gb/s between Pods" in (tmp_path / "output" / "summary.txt").read_text()


def test_a_node_that_starts_no_pod_is_tried_once_and_its_pairs_have_the_reason(user: User, tmp_path: Path) -> None:
    """Each call of the module hears from the one before what not to try again."""
    nowhere = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}],
    }
    with Served(lambda pod, looks: nowhere if on(pod, HOSTS[1]) else healthy(pod, looks), log) as cluster:
        timeout = ("-e", "verify_timeout=3")
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), *timeout, fails=True)
        # as both users at once, when it is looked at
        assert len([pod for pod in cluster.made if on(pod, HOSTS[1])]) == 2
        assert len(cluster.made) == 4
        assert not cluster.pods
    assert "(item=round 1 of 1, 1 pairs)" in said
    tests = load(tmp_path / "output" / "evidence" / "rdma.json")["tests"]
    assert [(test["test"], test["verdict"]) for test in tests] == [("ib_write_bw", "error"), ("ib_write_lat", "error")]
    for test in tests:
        assert test["message"].startswith("ib-a100-2 did not start its Pod before, and is not tried again: the Pod ")
        assert "without a place for 3 s: 0/2 nodes are available" in test["message"]
        assert "kubectl describe node" in test["remedy"]


def test_a_cluster_that_does_not_answer(user: User, tmp_path: Path) -> None:
    said = run(user, tmp_path, str(tmp_path / "none"), fails=True)
    assert "Traffic: 6 failure(s). rdma: ib_write_bw between Pods from ib-a100-1 mlx5_1 to ib-a100-2 mlx5_0" in said
    assert "none does not exist" in said
    assert "none does not exist" in (tmp_path / "output" / "report.html").read_text()


def test_pods_without_an_image_are_refused_before_anything_is_measured(user: User, tmp_path: Path) -> None:
    said = run(user, tmp_path, "none", "-e", "verify_pod_image=", "-e", "verify_level=both", fails=True)
    assert "verify_level is both: set verify_pod_image to an image with sh and perftest" in said
    assert "Start the servers" not in said


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"verify_pod_jobs": [{"file": "/job.yaml"}]}, "missing required arguments: group found in verify_pod_jobs"),
        ({"verify_pod_users": ["root"]}, "verify_pod_users"),
    ],
    ids=["job", "users"],
)
def test_wishes_for_pods_of_another_shape_are_refused_before_anything_is_measured(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path, wish: dict[str, t.Any], why: str
) -> None:
    """Of all hosts at once: what is refused of one throws that one out, and the others measure."""
    user: User = request.getfixturevalue(whose)
    with Served(healthy, log) as cluster:
        more = ("-e", "verify_level=both", "-e", json.dumps(wish))
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), *more, fails=True)
        assert not cluster.asked
    assert why in said
    assert "Start the servers" not in said
    assert "Check Pods on every node" not in said
    assert not (tmp_path / "output" / "evidence" / "rdma.json").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("a: [", "not YAML that Kubernetes could read"),
        ("{}", "something that is not an object of Kubernetes"),
    ],
    ids=["missing", "torn", "empty"],
)
def test_a_job_that_cannot_be_read_throws_no_host_out(
    user: User, tmp_path: Path, content: str | None, why: str
) -> None:
    """A failure of a task that runs once fails every host: rescued, it leaves all but the first one out of the rest of the play."""
    manifest = tmp_path / "job.yaml"
    if content is not None:
        manifest.write_text(content)
    jobs = json.dumps({"verify_pod_jobs": [{"file": str(manifest), "group": "rdma"}]})
    with Served(healthy, log) as cluster:
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), "-e", jobs, "--check", fails=False)
        assert why in said
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), "-e", jobs, fails=True)
    evidence = load(tmp_path / "output" / "evidence" / "rdma.json")
    assert [test["verdict"] for test in evidence["tests"]] == ["pass", "pass"]
    (job,) = evidence["collectives"]
    assert (job["name"], job["verdict"]) == (str(manifest), "error")
    assert why in job["message"]
    assert why in (tmp_path / "output" / "report.html").read_text()
    assert "Traffic: 1 failure(s)" in said
    assert of_task(said, "Read the counters of the links after the traffic") == list(HOSTS)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_pods_that_a_wish_forbids_throw_no_host_out(whose: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    user: User = request.getfixturevalue(whose)
    with Served(healthy, log) as cluster:
        said = run(user, tmp_path, cluster.kubeconfig(tmp_path), "-e", "verify_pod_memory=lots", fails=True)
        assert not cluster.made
    evidence = load(tmp_path / "output" / "evidence" / "rdma.json")
    assert [test["verdict"] for test in evidence["tests"]] == ["error", "error"]
    assert "verify_pod_memory" in evidence["tests"][0]["message"]
    assert of_task(said, "Read the counters of the links after the traffic") == list(HOSTS)

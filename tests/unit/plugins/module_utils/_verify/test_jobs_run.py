# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPIJobs on an API server that plays: made, watched, read, and removed whatever happens."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._verify import jobs_run
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import checked_job, judge_job
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs_run import remove_objects, run_job
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs import manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nccl_tests import INFO, a_table
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import Refused

Json = dict[str, t.Any]
OURS = "managed=us"
LABELS = {"managed": "us", "run": "abc"}


@pytest.fixture(autouse=True)
def _time_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(jobs_run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(jobs_run.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


class JobCluster:
    """Objects by path; a job ends in a state after some looks. What its launchers print is given."""

    def __init__(self, state: str = "Succeeded", looks: int = 2, log: str = "figures", refuse: t.Any = None) -> None:
        self.objects: dict[str, Json] = {}
        self.made: list[str] = []
        self.deleted: list[str] = []
        self._state, self._left, self._log = state, looks, log
        self._refuse = refuse or (lambda _method, _path: 0)

    def _insist(self, method: str, path: str, doing: str) -> None:
        code = self._refuse(method, path)
        if code:
            raise Refused(f"cannot {doing}: refused", 0 if code < 0 else code)

    def request(self, method: str, path: str, doing: str, query: t.Any = (), body: t.Any = None) -> Json:
        self._insist(method, path, doing)
        if method == "POST":
            name = f"{path}/{body['metadata']['name']}"
            if name in self.objects:
                raise Refused(f"cannot {doing}: already there", 409)
            self.made.append(body["kind"])
            self.objects[name] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{len(self.made)}"}}
            return self.objects[name]
        if path not in self.objects:
            raise Refused(f"cannot {doing}: not found", 404)
        if method == "DELETE":
            assert body["preconditions"] == {"uid": self.objects[path]["metadata"]["uid"]}
            self.deleted.append(path.rpartition("/")[2])
            return self.objects.pop(path)
        self._left -= 1
        done = [{"type": self._state, "status": "True", "message": "the end"}] if self._left <= 0 else []
        return {**self.objects[path], "status": {"conditions": done}}

    def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> list[Json]:
        self._insist("GET", path, doing)
        if path.endswith("/pods"):
            names = (("old", "launcher", "1"), ("new", "launcher", "2"), ("w0", "worker", "3"))
            return [
                {
                    "metadata": {
                        "name": name,
                        "creationTimestamp": when,
                        "labels": {"training.kubeflow.org/job-role": role},
                    }
                }
                for name, role, when in names
            ]
        wanted = dict(term.split("=") for term in query["labelSelector"].split(",") if "=" in term and "!" not in term)
        # as the API server lists them: without their kind
        return [
            {"metadata": item["metadata"]}
            for name, item in self.objects.items()
            if name.rpartition("/")[0] == path and wanted.items() <= item["metadata"].get("labels", {}).items()
        ]

    def text(self, path: str, doing: str, **query: str) -> str:
        self._insist("GET", path, doing)
        return f"{self._log} of {path.split('/')[-2]}"


def the_job(name: str = "nccl-mnnvl") -> t.Any:
    return checked_job(manifests()[name], LABELS, 5)


def test_a_job_is_made_read_and_removed() -> None:
    cluster, job = JobCluster(), the_job()
    assert run_job(cluster, job, 60) == ("figures of new", None)
    assert cluster.made == ["ComputeDomain", "MPIJob"]
    assert remove_objects(cluster, job, OURS) == ["MPIJob nccl-mnnvl-gb200", "ComputeDomain nccl-mnnvl-gb200"]
    assert cluster.objects == {}


class Talkative(JobCluster):
    """With a log as the API server gives it: so many of the last lines, and of these so many bytes."""

    def text(self, path: str, doing: str, **query: str) -> str:
        lines = self._log.splitlines(True)
        if "tailLines" in query:
            lines = lines[-int(query["tailLines"]) :]
        return "".join(lines)[: int(query["limitBytes"])]


@pytest.mark.parametrize("ranks", [8, 1000])
def test_of_a_long_log_the_ways_at_its_beginning_and_the_figures_at_its_end_are_read(ranks: int) -> None:
    """NCCL_DEBUG=INFO on a thousand GPUs; each rank says that it ends behind the table."""
    ways = "".join(INFO.format(rank % 10, "NET/IB/0/GDRDMA") * 100 for rank in range(ranks))
    ends = "".join(f"n{rank}:95:120 [0] NCCL INFO comm 0x55 rank {rank} - Destroy COMPLETE\n" for rank in range(ranks))
    table, end = a_table(100.0, 480.0).split("# Out of bounds")
    log, problem = run_job(Talkative(log=f"{ways}{table}{ends}# Out of bounds{end}"), the_job("nccl-infiniband"), 60)
    found = judge_job(the_job("nccl-infiniband"), log, problem, 400.0)
    assert (found["verdict"], found["best_gbs"], found["transports"]) == ("pass", 480.0, ["NET/IB/0/GDRDMA"])
    assert len(log) < 2 << 20


@pytest.mark.parametrize(
    ("state", "looks", "words"),
    [("Failed", 2, "has failed: the end"), ("Succeeded", 1000, "has not ended within 60 s")],
)
def test_a_job_that_does_not_succeed_is_told_with_what_it_printed(state: str, looks: int, words: str) -> None:
    log, problem = run_job(JobCluster(state, looks), the_job(), 60)
    assert log == "figures of new"
    assert problem is not None
    assert problem["cause"] == f"MPIJob nccl-mnnvl-gb200 {words}"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(404, "install the MPI Operator"), (403, "rights"), (409, "somebody has one of this name"), (-1, "")],
)
def test_what_cannot_be_made_has_its_remedy(code: int, remedy: str) -> None:
    log, problem = run_job(JobCluster(refuse=lambda method, _path: code if method == "POST" else 0), the_job(), 60)
    assert log == ""
    assert problem is not None
    assert "cannot make ComputeDomain proof/nccl-mnnvl-gb200" in problem["cause"]
    assert remedy in problem["remedy"]


def test_a_cluster_that_is_silent_is_given_up() -> None:
    log, problem = run_job(JobCluster(refuse=lambda method, _path: -1 if method == "GET" else 0), the_job(), 60)
    assert (log, bool(problem)) == ("", True)


def test_an_api_server_that_starts_again_ends_no_job() -> None:
    """It refuses the connection at once, and takes half a minute: more than three looks."""
    looks: list[float] = []

    def refuse(method: str, _path: str) -> int:
        looks.append(jobs_run.time.monotonic())
        return -1 if method == "GET" and looks[-1] < 31 else 0

    assert run_job(JobCluster(refuse=refuse), the_job(), 60) == ("figures of new", None)
    assert len(looks) > 12


@pytest.mark.parametrize("code", [401, 403, 404])
def test_an_api_server_that_refuses_for_good_is_not_asked_again(code: int) -> None:
    looks: list[str] = []

    def refuse(method: str, path: str) -> int:
        looks.append(path)
        return code if method == "GET" else 0

    _log, problem = run_job(JobCluster(refuse=refuse), the_job("nccl-tcp"), 60)
    assert problem is not None
    assert [path for path in looks if path.endswith(A_JOB)] == looks[1:]
    assert len(looks) == 2


JOBS = "/mpijobs"
A_JOB = "/mpijobs/nccl-tcp-gb200"


@pytest.mark.parametrize("code", [500, 429, -1])
@pytest.mark.parametrize(("method", "end"), [("POST", JOBS), ("DELETE", A_JOB), ("GET", A_JOB), ("GET", JOBS)])
def test_a_request_that_is_refused_for_a_moment_is_made_again(code: int, method: str, end: str) -> None:
    left = [2]

    def refuse(asked: str, path: str) -> int:
        left[0] -= asked == method and path.endswith(end)
        return code if asked == method and path.endswith(end) and left[0] >= 0 else 0

    cluster, job = JobCluster(refuse=refuse), the_job("nccl-tcp")
    assert run_job(cluster, job, 60) == ("figures of new", None)
    assert remove_objects(cluster, job, OURS) == [f"{item['kind']} {item['metadata']['name']}" for item in job.objects]
    assert cluster.objects == {}
    assert left[0] < 0


class Loses(JobCluster):
    """Does not answer the first request to make something. done: whether it has made it."""

    def __init__(self, done: bool) -> None:
        super().__init__()
        self._done, self._lost = done, False

    def request(self, method: str, path: str, doing: str, query: t.Any = (), body: t.Any = None) -> Json:
        if method != "POST" or self._lost:
            return super().request(method, path, doing, query, body)
        self._lost = True
        if self._done:
            super().request(method, path, doing, query, body)
        raise Refused(f"cannot {doing}: no answer", 0)


def test_a_job_of_which_the_api_server_did_not_say_that_it_made_it_is_used() -> None:
    cluster, job = Loses(done=True), the_job("nccl-tcp")
    assert run_job(cluster, job, 60) == ("figures of new", None)
    assert cluster.made == ["MPIJob"]


def test_a_job_that_goes_while_it_is_looked_at_is_told_as_one_of_somebody_else() -> None:
    class Goes(Loses):
        """Another one has the name when ours is made, and is gone when it is looked at."""

        def request(self, method: str, path: str, doing: str, query: t.Any = (), body: t.Any = None) -> Json:
            if method == "POST" and self._lost:
                raise Refused(f"cannot {doing}: already there", 409)
            return super().request(method, path, doing, query, body)

    _log, problem = run_job(Goes(done=False), the_job("nccl-tcp"), 60)
    assert problem is not None
    assert problem["remedy"].startswith("somebody has one of this name")


@pytest.mark.parametrize("labels", [{"managed": "them"}, {"managed": "us", "run": "another"}])
def test_a_job_of_somebody_else_is_not_measured_though_making_ours_was_not_answered(labels: Json) -> None:
    cluster, job = Loses(done=False), the_job("nccl-tcp")
    metadata = {**job.objects[0]["metadata"], "labels": labels, "uid": "theirs"}
    place = "/apis/kubeflow.org/v2beta1/namespaces/proof/mpijobs/nccl-tcp-gb200"
    cluster.objects[place] = {**job.objects[0], "metadata": metadata}
    log, problem = run_job(cluster, job, 60)
    assert log == ""
    assert problem is not None
    assert problem["remedy"].startswith("somebody has one of this name")


def test_kinds_that_a_cluster_does_not_know_have_nothing_to_remove() -> None:
    cluster = JobCluster(refuse=lambda method, _path: 404 if method == "GET" else 0)
    assert remove_objects(cluster, the_job(), OURS) == []


def test_what_stays_is_named() -> None:
    cluster, job = JobCluster(refuse=lambda method, _path: 409 if method == "DELETE" else 0), the_job("nccl-tcp")
    run_job(cluster, job, 60)
    with pytest.raises(FabricError, match="MPIJob nccl-tcp-gb200 are still there 120 s"):
        remove_objects(cluster, job, OURS)


def test_only_what_is_ours_is_removed() -> None:
    cluster, job = JobCluster(), the_job("nccl-tcp")
    other = {**job.objects[0], "metadata": {"name": "theirs", "namespace": "proof", "labels": {"managed": "them"}}}
    cluster.request("POST", "/apis/kubeflow.org/v2beta1/namespaces/proof/mpijobs", "make", body=other)
    run_job(cluster, job, 60)
    remove_objects(cluster, job, OURS)
    assert cluster.deleted == ["nccl-tcp-gb200"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making an MPIJob with what it needs, waiting for its end, reading its launcher, and removing all of it. Private to the collection."""

from __future__ import annotations

import time
import typing as t
from functools import partial

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import code_of, patiently
from ansible_collections.fabric.rdma.plugins.module_utils._verify.client import Client
from ansible_collections.fabric.rdma.plugins.module_utils._verify.interrupt import raise_what_was_lost
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import Job, path_of, state_of, why_of
from ansible_collections.fabric.rdma.plugins.module_utils._verify.patience import Row, make_patiently

__all__ = ["remove_objects", "run_job"]

Json = t.Dict[str, t.Any]

_POLL_SECONDS = 2.0
_GONE_SECONDS = 120
_MOST_BYTES = 2 << 20
# NCCL_DEBUG=INFO on a thousand GPUs prints some 10 MB: the ways of the data at the beginning, figures at the end.
_FIRST_BYTES, _LAST_LINES = 1 << 20, 4000
_JOB, _ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"


def _doing(verb: str, item: t.Mapping[str, t.Any]) -> str:
    return f"{verb} {item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}"


def _found(client: Client, job: Job, selector: str) -> list[Json]:
    """Objects of the kinds of a job with labels. A kind that the cluster does not know has none."""
    found: list[Json] = []
    for path, item in {path_of(item, name=False): item for item in job.objects}.items():
        try:
            doing = f"list {item['kind']}s in {job.namespace}"
            rows = patiently(partial(client.list, path, doing, labelSelector=selector))
        except FabricError as exc:
            if code_of(exc) != 404:
                raise
            continue
        # items of a list do not say their kind
        found += [{**row, "apiVersion": item["apiVersion"], "kind": item["kind"]} for row in rows]
    return found


def remove_objects(client: Client, job: Job, selector: str) -> list[str]:
    """Deletes objects with these labels, the job first, and waits until they are gone. What there was; FabricError names what stays."""
    end = time.monotonic() + _GONE_SECONDS
    names: dict[str, None] = {}
    while True:
        there = _found(client, job, selector)
        if not there:
            return list(names)
        for item in sorted(there, key=lambda item: item["kind"] != "MPIJob"):
            names[f"{item['kind']} {item['metadata']['name']}"] = None
            options = {"propagationPolicy": "Background", "preconditions": {"uid": item["metadata"]["uid"]}}
            body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
            try:
                patiently(partial(client.request, "DELETE", path_of(item), _doing("delete", item), body=body))
            except FabricError as exc:
                if code_of(exc) not in (404, 409):
                    raise
        if time.monotonic() > end:
            raise FabricError(
                f"{job.namespace}: {', '.join(names)} are still there {_GONE_SECONDS} s after they were deleted",
                "See what keeps them (finalizers), and delete them",
            )
        time.sleep(_POLL_SECONDS)


def _pods(client: Client, job: Job) -> list[Json]:
    path = f"/api/v1/namespaces/{job.namespace}/pods"
    return client.list(path, f"list Pods of MPIJob {job.name}", labelSelector=f"{_JOB}={job.name}")


def _log(client: Client, job: Job, pods: t.Sequence[Json]) -> str:
    """What the last launcher has printed, '' when there is none."""
    launchers = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(_ROLE) == "launcher"]
    if not launchers:
        return ""
    name = max(launchers, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))["metadata"]["name"]
    path = f"/api/v1/namespaces/{job.namespace}/pods/{name}/log"
    doing = f"read the log of Pod {job.namespace}/{name}"
    if job.tool != "nccl-tests":
        # of matrices, nothing between may be missing
        return client.text(path, doing, limitBytes=str(_MOST_BYTES))
    first = client.text(path, doing, limitBytes=str(_FIRST_BYTES))
    if len(first.encode()) < _FIRST_BYTES:
        return first
    last = client.text(path, doing, tailLines=str(_LAST_LINES), limitBytes=str(_MOST_BYTES - _FIRST_BYTES))
    return first.rpartition("\n")[0] + "\n" + last


def _made(client: Client, item: Json) -> bool:
    """Whether an object is there with our labels, that of this run among them: somebody else's may have its name."""
    try:
        there = patiently(partial(client.request, "GET", path_of(item), _doing("read", item)))
    except FabricError as exc:
        if code_of(exc) == 404:
            return False
        raise
    return bool(item["metadata"]["labels"].items() <= (there["metadata"].get("labels") or {}).items())


def run_job(client: Client, job: Job, timeout: int) -> tuple[str, t.Optional[Json]]:
    """(what its launcher printed, {cause, remedy} when it failed). The caller removes what was made."""
    try:
        for item in job.objects:
            make = partial(client.request, "POST", path_of(item, name=False), _doing("make", item), body=item)
            make_patiently(make, partial(_made, client, item))
    except FabricError as exc:
        remedy = {
            404: "install the MPI Operator, and for ComputeDomains NVIDIA's DRA driver",
            409: "somebody has one of this name: remove it, or rename it in the manifest",
            403: "give the user of the kubeconfig the rights that the role verify_pod names",
        }
        return "", {"cause": str(exc), "remedy": remedy.get(code_of(exc), "")}
    (main,) = [item for item in job.objects if item["kind"] == "MPIJob"]
    end, row = time.monotonic() + timeout, Row()
    while True:
        time.sleep(_POLL_SECONDS)
        raise_what_was_lost()
        late = time.monotonic() > end
        try:
            state, words = state_of(client.request("GET", path_of(main), _doing("read", main)))
            if state == "running" and not late:
                row.end()
                continue
            pods = _pods(client, job)
            log = _log(client, job, pods)
        except FabricError as exc:
            if row.enough(exc):
                return "", {"cause": str(exc), "remedy": ""}
            continue
        if state == "succeeded":
            return log, None
        why = why_of(pods)
        if state == "failed":
            cause = f"MPIJob {job.name} has failed: {words or why or 'it says no reason'}"
        else:
            cause = f"MPIJob {job.name} has not ended within {timeout} s" + (f": {why}" if why else "")
        return log, {"cause": cause, "remedy": "see its Pods, and the log of the MPI Operator"}

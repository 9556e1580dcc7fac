# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests and nvbandwidth as MPIJobs: what a manifest asks for, how it is doing, what it proves. Private to the collection. Pure.

Follows MPIJob v2beta1 of the MPI Operator, whose Pods have the labels training.kubeflow.org/job-name and job-role.
"""

from __future__ import annotations

import re
import statistics
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.findings import Finding
from ansible_collections.fabric.rdma.plugins.module_utils._verify.nccl_tests import RDMA_WAYS, parse_nccl
from ansible_collections.fabric.rdma.plugins.module_utils._verify.nvbandwidth import parse_nvbandwidth

__all__ = ["Collective", "Job", "checked_job", "collective_of", "judge_job", "path_of", "state_of", "why_of"]

Json = t.Dict[str, t.Any]

# kind -> (what its apiVersion looks like, how the API server calls it)
_KINDS = {
    "MPIJob": (r"kubeflow\.org/v2beta1", "mpijobs"),
    "ComputeDomain": (r"resource\.nvidia\.com/v1beta1", "computedomains"),
    "ResourceClaimTemplate": (r"resource\.k8s\.io/v1(?:beta[12])?", "resourceclaimtemplates"),
}
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
# What NCCL has to say of how it moved its data.
_WAYS = {"mnnvl": ("MNNVL",), "rdma": RDMA_WAYS, "tcp": ("NET/Socket",)}
_WORDS = {"mnnvl": "multi-node NVLink", "rdma": "RDMA", "tcp": "TCP"}
# Of the median of a matrix: below is a link that is sick, since all of one matrix are alike.
_LINK_SHARE, _LEAST_LINKS = 0.8, 4
_MOST_WORDS = 2000


class Collective(t.TypedDict):
    """A job of nccl-tests or nvbandwidth. GB/s are 10^9 bytes. way: mnnvl, rdma or tcp, None for nvbandwidth."""

    name: str
    tool: t.Literal["nccl-tests", "nvbandwidth"]
    way: t.Optional[str]
    test: t.Optional[str]
    ranks: t.Optional[int]
    best_gbs: t.Optional[float]
    average_gbs: t.Optional[float]
    lowest_gbs: t.Optional[float]
    size_bytes: t.Optional[int]
    transports: list[str]
    floor_gbs: t.Optional[float]
    verdict: t.Literal["pass", "fail", "error"]
    message: str
    remedy: t.Optional[str]


class Job(t.NamedTuple):
    """way: how NCCL is to move its data (mnnvl, rdma or tcp), None for nvbandwidth."""

    name: str
    namespace: str
    tool: t.Literal["nccl-tests", "nvbandwidth"]
    way: t.Optional[str]
    objects: list[Json]


def path_of(item: t.Mapping[str, t.Any], name: bool = True) -> str:
    """Where an object lies, or without its name all of its kind in its namespace."""
    plural = _KINDS[item["kind"]][1]
    path = f"/apis/{item['apiVersion']}/namespaces/{item['metadata']['namespace']}/{plural}"
    return f"{path}/{item['metadata']['name']}" if name else path


def checked_job(documents: t.Any, labels: t.Mapping[str, str], deadline: int) -> Job:
    """The objects of a manifest, each with the labels, in the order of making; the MPIJob ends by itself. WishError for anything else."""
    objects: list[Json] = []
    for item in documents if isinstance(documents, (list, tuple)) else [documents]:
        if item is not None:
            objects.append(_checked(item, labels))
    jobs = [item for item in objects if item["kind"] == "MPIJob"]
    namespaces = sorted({str(item["metadata"]["namespace"]) for item in objects})
    if len(jobs) != 1 or len(namespaces) != 1:
        there = f"MPIJobs: {len(jobs)}, namespaces: {', '.join(namespaces) or 'none'}"
        raise WishError(f"a manifest has one MPIJob and what it needs in one namespace, this one has {there}")
    (job,) = jobs
    words = _launched(job)
    policy = job["spec"].setdefault("runPolicy", {})
    policy.setdefault("activeDeadlineSeconds", deadline)
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    if any(word.rpartition("/")[2] == "nvbandwidth" for word in words):
        return Job(name, namespace, "nvbandwidth", None, objects)
    if not any(word.endswith("_perf") for word in words):
        raise WishError(
            f"the launcher of MPIJob {name} runs neither nvbandwidth nor a program of nccl-tests (..._perf)"
        )
    flags = dict(word.partition("=")[::2] for word in words if "=" in word)
    way = "mnnvl" if flags.get("NCCL_MNNVL_ENABLE") == "1" else "tcp" if flags.get("NCCL_IB_DISABLE") == "1" else "rdma"
    return Job(name, namespace, "nccl-tests", way, objects)


def _checked(item: t.Any, labels: t.Mapping[str, str]) -> Json:
    try:
        own = {**item, "metadata": {"namespace": "default", **item["metadata"]}}
        kind, name, namespace = own["kind"], own["metadata"]["name"], own["metadata"]["namespace"]
        version = str(own["apiVersion"])
        given = own["metadata"].get("labels") or {}
        own["metadata"]["labels"] = {**given, **labels}
        if kind == "MPIJob":
            own["spec"] = {**own["spec"]}
            own["spec"]["runPolicy"] = {**(own["spec"].get("runPolicy") or {})}
    except (AttributeError, KeyError, TypeError) as exc:
        raise WishError(f"a manifest has something that is not an object of Kubernetes: {exc!r}") from exc
    if not isinstance(kind, str) or kind not in _KINDS or not re.fullmatch(_KINDS[kind][0], version):
        raise WishError(f"{kind} of {version} is not made here; expected one of {', '.join(_KINDS)}")
    if not all(isinstance(each, str) and _NAME.fullmatch(each) for each in (name, namespace)):
        raise WishError(f"{namespace!r} and {name!r} are not names of Kubernetes")
    return t.cast(Json, own)


def _launched(job: Json) -> list[str]:
    """Words of the launcher's command, and its environment as KEY=VALUE."""
    try:
        containers = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
        words = [str(word) for own in containers for word in (*(own.get("command") or ()), *(own.get("args") or ()))]
        variables = [entry for own in containers for entry in own.get("env") or ()]
        return words + [f"{entry['name']}={entry['value']}" for entry in variables if "value" in entry]
    except (AttributeError, KeyError, TypeError) as exc:
        raise WishError(f"MPIJob {job['metadata']['name']} has no launcher: {exc!r}") from exc


# --- how it is doing --------------------------------------------------------------------------------------------------


def state_of(job: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """(running | succeeded | failed, what it says of that)."""
    conditions = (job.get("status") or {}).get("conditions")
    for each in conditions if isinstance(conditions, (list, tuple)) else ():
        if isinstance(each, t.Mapping) and each.get("status") == "True" and each.get("type") in ("Succeeded", "Failed"):
            return str(each["type"]).lower(), str(each.get("message") or each.get("reason") or "")[:_MOST_WORDS]
    return "running", ""


def why_of(pods: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What Pods of a job say that do not start; '' when all do."""
    for pod in pods:
        status, name = pod.get("status") or {}, (pod.get("metadata") or {}).get("name")
        for each in status.get("conditions") or ():
            if (each.get("type"), each.get("status")) == ("PodScheduled", "False"):
                return f"Pod {name} has no place: {each.get('message') or each.get('reason')}"[:_MOST_WORDS]
        for own in status.get("containerStatuses") or ():
            waiting = (own.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                return f"Pod {name} waits: {waiting['reason']}: {waiting.get('message') or ''}"[:_MOST_WORDS]
    return ""


# --- what it proves ---------------------------------------------------------------------------------------------------


def judge_job(job: Job, log: str, problem: t.Optional[t.Mapping[str, t.Any]], min_gbs: t.Optional[float]) -> Collective:
    """What the log of a launcher proves. problem: why it did not finish; min_gbs: floor in GB/s (10^9 bytes), None for none.

    Of nccl-tests the best bus bandwidth is judged, of nvbandwidth the lowest link.
    """
    found: Collective = {
        "name": job.name,
        "tool": job.tool,
        "way": job.way,
        "test": None,
        "ranks": None,
        "best_gbs": None,
        "average_gbs": None,
        "lowest_gbs": None,
        "size_bytes": None,
        "transports": [],
        "floor_gbs": min_gbs,
        "verdict": "error",
        "message": "",
        "remedy": None,
    }
    findings = _of_nccl(job, log, found) if job.tool == "nccl-tests" else _of_nvbandwidth(log, found)
    figure = found["best_gbs"] if job.tool == "nccl-tests" else found["lowest_gbs"]
    if figure is None:
        causes = [each.cause for each in findings]
        given = str((problem or {}).get("cause") or "")
        found["message"] = "; ".join(dict.fromkeys([each for each in (given, *causes) if each]))[:_MOST_WORDS]
        remedies = [str((problem or {}).get("remedy") or ""), *(each.remedy for each in findings)]
        found["remedy"] = next((each for each in remedies if each), None)
        return found
    what = f"{figure:.4g} GB/s"
    if min_gbs is not None:
        below = figure < min_gbs
        what += f" {'<' if below else '>='} {min_gbs:.4g} GB/s"
        if below:
            findings.append(
                Finding(what, "compare it with the other transports and with perftest between the same nodes", "")
            )
    if problem:
        findings.append(Finding(str(problem.get("cause")), str(problem.get("remedy") or ""), ""))
    found["verdict"] = "fail" if findings else "pass"
    causes = list(dict.fromkeys(each.cause for each in findings))
    found["message"] = "; ".join(causes if what in causes else [what, *causes])[:_MOST_WORDS]
    found["remedy"] = "; ".join(dict.fromkeys(each.remedy for each in findings if each.remedy))[:_MOST_WORDS] or None
    return found


def _of_nccl(job: Job, log: str, found: Collective) -> list[Finding]:
    report = parse_nccl(log)
    best = report.best
    found["test"], found["ranks"] = report.program, report.ranks or None
    found["transports"] = list(report.transports)
    findings = list(report.findings)
    if best is not None:
        found["best_gbs"], found["average_gbs"], found["size_bytes"] = best.busbw, report.average_busbw, best.size_bytes
    wanted = _WAYS[job.way or "rdma"]
    if job.way == "tcp":
        findings = [each for each in findings if "over TCP, not over RDMA" not in each.cause]
    if job.way in ("mnnvl", "tcp"):
        # neither needs one
        findings = [each for each in findings if each.cause != "NCCL found no HCA"]
    if report.transports and not any(way in each for each in report.transports for way in wanted):
        words = f"NCCL did not use {_WORDS[job.way or 'rdma']}, but {', '.join(report.transports[:5])}"
        findings.append(Finding(words, "see NCCL_DEBUG=INFO of the launcher, and what the Pods have asked for", ""))
    elif best is not None and not report.transports:
        findings.append(Finding("how NCCL moved its data is not known", "set NCCL_DEBUG=INFO in the job", ""))
    return findings


def _of_nvbandwidth(log: str, found: Collective) -> list[Finding]:
    report = parse_nvbandwidth(log)
    findings = list(report.findings)
    figures = [figure for each in report.matrices if each.unit == "GB/s" for figure in each.figures]
    found["test"] = report.started[0] if report.started else None
    if figures:
        found["best_gbs"], found["lowest_gbs"] = max(figures), min(figures)
        found["average_gbs"] = round(statistics.fmean(figures), 3)
    elif any(each.figures for each in report.matrices):
        words = "nvbandwidth measured latencies only, and what is judged is bandwidth"
        findings.append(Finding(words, "run a test that copies, such as device_to_device_memcpy_read_ce", ""))
    for each in report.matrices:
        own = each.figures
        median = statistics.median(own) if own else 0.0
        slow = [
            f"{row} and {column} ({cell:.4g} {each.unit})"
            for row, cells in enumerate(each.cells)
            for column, cell in enumerate(cells)
            if cell is not None and cell < _LINK_SHARE * median
        ]
        if each.unit == "GB/s" and len(own) >= _LEAST_LINKS and slow:
            words = (
                f"{each.name or each.title}: GPUs {', '.join(slow[:10])} are far below the median of {median:.4g} GB/s"
            )
            findings.append(
                Finding(
                    words, "look at NVLink of these GPUs (nvidia-smi nvlink -s and -e) and at their switch trays", ""
                )
            )
    return findings


def collective_of(row: t.Mapping[str, t.Any]) -> Collective:
    """What a module returned for an entry of a loop; an error where it returned nothing."""
    given = row.get("collective")
    item = row.get("item")
    name = str(item.get("file") if isinstance(item, t.Mapping) else "")
    error: Collective = {
        **judge_job(
            Job(name, "", "nccl-tests", None, []), "", {"cause": str(row.get("msg") or "the job was not run")}, None
        ),
        "message": str(row.get("msg") or "the job was not run")[:_MOST_WORDS],
        "remedy": "see the messages of this run about the job",
    }
    if not isinstance(given, t.Mapping) or set(given) != set(error):
        return error
    return t.cast(Collective, dict(given))

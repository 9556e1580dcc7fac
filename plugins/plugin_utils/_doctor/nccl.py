# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: what NCCL says of its ways between nodes. Private to the collection. Pure.

Follows NCCL from 2.7 on: src/misc/param.cc, src/transport/net_ib (init.cc: what it uses), src/transport/net.cc (channels), src/os/linux.cc
(shared memory), src/init.cc (texts of errors).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._verify.nccl_tests import RDMA_WAYS
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.addressing import devices_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, quoted, shown_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Log, Rule
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.memory import refusals

__all__ = ["RULES"]

_CRASH = ("segfault", "SIGSEGV", "Segmentation fault", "signal 11", "Signal: 11")
_SHM = (
    "shared memory segment /dev/shm/nccl",
    "failed to extend /dev/shm/nccl",
    "failed to create shared memory file /dev/shm/nccl",
    # up to 2.12
    "shared memory segment nccl-shm-",
    "Call to posix_fallocate failed",
)
_SYSTEM_ERROR = ("unhandled system error", "ncclSystemError", "ncclUnhandledSystemError")
_CHANNEL = "] via NET/Socket"
_SOCKET = (_CHANNEL, "Using network Socket", "NET/Socket : Using", "Assigned NET plugin Socket")
# between GPUs of one node
_INSIDE = (" via P2P/", " via SHM/")
_OVER_RDMA = tuple(
    text.format(way.partition("/")[2])
    for way in RDMA_WAYS
    for text in ("Using network {}", "NET/{} : Using", "Assigned NET plugin {}", "] via NET/{}")
)
_NO_DEVICE = "NET/IB : No device found"
_USES = "NET/IB : Using"
_HCA = re.compile(r"\[\d{1,3}\]([\w.-]{1,64}):(\d{1,3})(?::\d{0,4}){0,2}/(IB|RoCE)")


def _proxy_crash(case: Case) -> t.Iterator[Hit]:
    for line in case.lines("ncclProxyServiceUDS"):
        if any(word in line.log["text"] for word in _CRASH):
            crashes = [str(crash) for crash in case.lines(*_CRASH, logs=[line.log])]
            yield case.hit(line.log, [*crashes[:1], str(line)])
    # the thread has this name in the kernel's log (src/proxy.cc, ncclSetThreadName)
    for line in case.lines("NCCL UDS Service", "libnccl.so"):
        if "segfault at" in line.raw:
            yield case.hit(line.log, [str(line)])


def _shared_memory(case: Case) -> t.Iterator[Hit]:
    yield from case.told(*_SHM)


def _volumes(pod: Json) -> set[str]:
    return {str((each.get("emptyDir") or {}).get("medium")) for each in pod["spec"].get("volumes") or []}


def _system_error(case: Case) -> t.Iterator[Hit]:
    failed = {line.log["name"] for line in refusals(case)}
    for log in case.logs:
        lines = [str(line) for line in case.lines(*_SYSTEM_ERROR, logs=[log])]
        if not lines or log["name"] in failed:
            continue
        pod = case.pod_of(log)
        if pod is not None and "Memory" not in _volumes(pod):
            lines.append(f"{shown_pod(pod)} has no volume in memory for /dev/shm, which then has 64 MiB")
        yield case.hit(log, lines)


def _why_socket(case: Case, log: Log) -> tuple[str, str, list[str]]:
    """(cause, remedy, evidence) of what keeps NCCL from the HCAs; '' where the rule says it best."""
    pod = case.pod_of(log)
    env = {
        row["name"]: row["value"]
        for each in (pod or {"spec": {}})["spec"].get("containers") or []
        for row in each.get("env") or []
    }
    if env.get("NCCL_IB_DISABLE") not in (None, "", "0") or "NCCL_IB_DISABLE set by environment to 1" in log["text"]:
        return "NCCL_IB_DISABLE is set, so NCCL goes over TCP", "take NCCL_IB_DISABLE out of the Pod", []
    if "libibverbs" in log["text"] and (
        "Failed to open libibverbs" in log["text"] or "libibverbs.so: cannot open" in log["text"]
    ):
        return (
            "the image has no libibverbs, so NCCL goes over TCP",
            "install libibverbs1 and ibverbs-providers (rdma-core) in the image",
            [],
        )
    if pod is not None and case.asks_for_none(pod):
        remedy = "resources: {limits: {RESOURCE: 1}} in the container, with the resource of its group"
        return (
            "the Pod asks for no RDMA resource, so NCCL finds no HCA and goes over TCP",
            remedy,
            [f"{shown_pod(pod)} asks for no RDMA resource"],
        )
    if env.get("NCCL_IB_HCA"):
        return (
            "NCCL_IB_HCA names no HCA that is there, so NCCL goes over TCP",
            _environment(case, log),
            [f"NCCL_IB_HCA={quoted(env['NCCL_IB_HCA'])}"],
        )
    return "", "", []


def _over_socket(case: Case) -> t.Iterator[Hit]:
    for log in case.logs:
        lines = list(case.lines(*_SOCKET, logs=[log]))
        if lines and not any(text in log["text"] for text in _OVER_RDMA):
            cause, remedy, evidence = _why_socket(case, log)
            none = [str(line) for line in case.lines(_NO_DEVICE, logs=[log])]
            pod = case.pod_of(log)
            wanted = any(_CHANNEL in line.raw for line in lines) or (pod is not None and bool(case.wants(pod)))
            # a job on one node has no need of HCAs
            if not wanted and any(way in log["text"] for way in _INSIDE) and "] via NET/" not in log["text"]:
                continue
            found = [*none[:1], str(lines[0]), *evidence]
            yield case.hit(log, found, cause=cause, remedy=remedy, severity="error" if wanted else None)


def _environment(case: Case, log: Log) -> str:
    """What the plan says for workloads of the host of a log; '' where nobody planned it."""
    for host in case.hosts_of_log(log):
        for group in case.plan.get("groups", {}).values():
            own = (group.get("environment") or {}).get(host) or {}
            if own.get("NCCL_IB_HCA"):
                return f"NCCL_IB_HCA={own['NCCL_IB_HCA']}"
    return ""


def _wrong_hca(case: Case) -> t.Iterator[Hit]:
    for line in case.lines(_USES):
        used = {(name, int(port)): layer for name, port, layer in _HCA.findall(line.raw)}
        layers = set(used.values())
        for host in case.hosts_of_log(line.log):
            wanted = {
                (row["device"], row["port"])
                for group in case.plan.get("groups", {}).values()
                for row in (group.get("wanted") or {}).get(host, ())
            }
            known = {
                (device["name"], port["number"]): str(port["state"])
                for device in devices_of(case.facts.get(host, {}))
                for port in device["ports"]
            }
            down = [
                f"{name}:{port} is {known[(name, port)]}"
                for name, port in used
                if known.get((name, port), "Active") != "Active"
            ]
            other = [
                f"{name}:{port} ({used[(name, port)]}) is not planned for RDMA"
                for name, port in used
                if wanted and (name, port) not in wanted
            ]
            if down or other:
                yield case.hit(line.log, [str(line), *down, *other][:6], remedy=_environment(case, line.log))
                break
        else:
            if len(layers) > 1:
                yield case.hit(line.log, [str(line), "HCAs of both InfiniBand and RoCE are used side by side"])


RULES = (
    Rule(
        "nccl-proxy-crash",
        "NCCL crashes in ncclProxyServiceUDS",
        "error",
        ("logs",),
        "NCCL crashed in its service for shared handles, as it does when memory could not be locked or shared: no IPC_LOCK, a low limit, "
        "a small /dev/shm",
        "securityContext: {capabilities: {add: [IPC_LOCK]}}, an emptyDir {medium: Memory} at /dev/shm, and rdma_memlock: {enabled: true}",
        _proxy_crash,
    ),
    Rule(
        "nccl-shared-memory",
        "/dev/shm is too small for NCCL",
        "error",
        ("logs",),
        "NCCL could not get shared memory: /dev/shm of a container has 64 MiB when nothing is mounted there",
        "mount a volume emptyDir {medium: Memory, sizeLimit: 8Gi} at /dev/shm of the container",
        _shared_memory,
    ),
    Rule(
        "nccl-system-error",
        "NCCL has an unhandled system error",
        "error",
        ("logs", "cluster"),
        "a call to the system failed in NCCL, most often for memory that cannot be locked (IPC_LOCK, memlock) or a small /dev/shm",
        "run again with NCCL_DEBUG=INFO, which names the call; give the Pod IPC_LOCK and a volume in memory at /dev/shm, and set "
        "rdma_memlock: {enabled: true}",
        _system_error,
        ("nccl-shared-memory", "nccl-proxy-crash", "qp-different-fabrics", "qp-gid-index", "qp-roce-route"),
    ),
    Rule(
        "nccl-over-socket",
        "NCCL goes over TCP",
        "warning",
        ("logs", "cluster", "plan"),
        "NCCL found no HCA that it may use, and goes over TCP (NET/Socket), many times slower",
        "ask for the RDMA resource in the Pod, and set NCCL_IB_HCA as the plan has it (environment in plan.json)",
        _over_socket,
    ),
    Rule(
        "nccl-wrong-hca",
        "NCCL uses an HCA that it should not",
        "warning",
        ("logs", "facts", "plan"),
        "NCCL uses an HCA that is Down, of the other link layer, or not meant for RDMA traffic of the group",
        "set NCCL_IB_HCA to the ports of the plan (environment in plan.json)",
        _wrong_hca,
    ),
)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: why memory cannot be registered with an HCA. Private to the collection. Pure.

Registered memory is locked: it counts against RLIMIT_MEMLOCK, unless the process has CAP_IPC_LOCK, which ordinary users in a container
do not have even where the Pod asks for it. It counts against the memory limit of the Pod, too.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, Line, name_of, quoted, shown_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Log, Rule

__all__ = ["RULES", "is_of_gpu", "refusals"]

_KIB, _MIB = 1 << 10, 1 << 20
_UNLIMITED = (1 << 64) - 1
# perftest, NCCL (src/misc/ibvwrap.cc), UCX (uct/ib/base/ib_md.c)
_FAILURES = (
    "Couldn't allocate MR",
    "Failed to create MR",
    "Call to ibv_reg_mr",
    "Call to ibv_reg_dmabuf_mr",
    "ibv_reg_mr(",
    "Please set max locked memory",
    # Open MPI (btl/openib, help-mpi-btl-openib.txt)
    "trying to allocate some locked memory",
)
# What has another cause: GPU memory that no HCA reaches (EFAULT, EINVAL, EOPNOTSUPP), which has rules of its own.
_OTHERS = ("error=14", "error=22", "Bad address", "Invalid argument", "not supported")
# perftest, before 23.04 without the number of the error
_OF_GPU, _KNOWN = "allocated GPU buffer address", "MR with error="
# mlx5_core (cmd.c: mlx5_cmd_out_err(), and mlx5_cmd_check() in older ones; mr.c: create_mkey_callback())
_KEYS = ("CREATE_MKEY(", "create_mkey(", "async reg mr failed")
_SPENT = re.compile(r"limits exceeded|no resources|err\(-1[12]\)|status -1[12]\b")
# libibverbs (init.c), /proc/PID/limits, ulimit -a and UCX, ulimit -l as our own Pods say it
_SAYS = ("RLIMIT_MEMLOCK is ", "Max locked memory", "max locked memory", "memlock soft ")
# Of these, a shell on a host may have been asked, whose limit is not that of containers.
_OF_A_SHELL = ("Max locked memory", "max locked memory")
_IN_BYTES = re.compile(r"(?:RLIMIT_MEMLOCK is|Max locked memory|memlock soft)\s{1,40}(\d{1,15}|unlimited)")
_IN_KIB = re.compile(
    r"max locked memory\s{1,40}(?:\(k[bB][a-z]{0,4}, -l\)\s{1,9}|\(ulimit -l\) to 'unlimited' \(current: )(\d{1,15}|unlimited)"
)


def _limit_in(line: str) -> t.Optional[int]:
    """The limit of locked memory that a line tells, bytes."""
    for pattern, unit in ((_IN_BYTES, 1), (_IN_KIB, _KIB)):
        found = pattern.search(line)
        if found:
            return _UNLIMITED if found.group(1) == "unlimited" else int(found.group(1)) * unit
    return None


def _told_limits(case: Case, log: Log) -> list[tuple[int, Line]]:
    found = [(_limit_in(line.raw), line) for line in case.lines(*_SAYS, logs=[log])]
    return [(limit, line) for limit, line in found if limit is not None]


def pod_limit(facts: Json) -> t.Optional[int]:
    """The soft limit of containers of the default handler on a host, bytes; None where facts do not tell it."""
    runtime = facts.get("runtime") or {}
    containerd = runtime.get("containerd") or {}
    handlers = containerd.get("handlers") or {}
    own = (handlers.get(containerd.get("default_handler") or "runc") or {}).get("base_runtime_spec")
    spec = (runtime.get("specs") or {}).get(own) or {}
    found: t.Any = next((row["soft"] for row in spec.get("rlimits") or [] if row["type"] == "RLIMIT_MEMLOCK"), None)
    if found is None:
        found = ((containerd.get("daemon_rlimits") or {}).get("memlock") or {}).get("soft")
    if found is None:
        return None
    return _UNLIMITED if found == "unlimited" else int(found)


def refusals(case: Case) -> t.Iterator[Line]:
    """Lines that say that memory could not be registered, whatever the cause."""
    yield from case.lines(*_FAILURES)


def is_of_gpu(line: Line) -> bool:
    """Whether a test with memory of a GPU could not register it, and says no more."""
    text = line.log["text"]
    return line.raw.endswith((" MR", " mr")) and _OF_GPU in text and _KNOWN not in text


def _not_registered_in(case: Case) -> t.Iterator[tuple[Log, list[Line]]]:
    """Logs in which memory of a host could not be registered, with the lines that say it."""
    found: dict[str, tuple[Log, list[Line]]] = {}
    for line in refusals(case):
        if not is_of_gpu(line) and not any(word in line.raw for word in _OTHERS):
            found.setdefault(line.log["name"], (line.log, []))[1].append(line)
    yield from found.values()


def _has_lock(pod: Json) -> bool:
    for each in pod["spec"].get("containers") or []:
        security = each.get("securityContext") or {}
        added = (security.get("capabilities") or {}).get("add") or []
        if security.get("privileged") or {"IPC_LOCK", "CAP_IPC_LOCK", "ALL"} & set(added):
            return True
    return False


def _is_ordinary(pod: Json) -> bool:
    """Whether a Pod runs as another user than root, as far as it says so."""
    contexts = [pod["spec"].get("securityContext") or {}]
    contexts += [each.get("securityContext") or {} for each in pod["spec"].get("containers") or []]
    users = [each["runAsUser"] for each in contexts if each.get("runAsUser") is not None]
    return any(users) or (not users and any(each.get("runAsNonRoot") for each in contexts))


def _memory_limit(pod: Json) -> t.Optional[str]:
    limits = [
        ((each.get("resources") or {}).get("limits") or {}).get("memory")
        for each in pod["spec"].get("containers") or []
    ]
    return next((str(limit) for limit in limits if limit), None)


def _limited(case: Case, low: int, high: int) -> t.Iterator[Hit]:
    """Where the limit of locked memory is above low, and at most high, bytes."""
    by_log = {log["name"]: [str(line) for line in lines] for log, lines in _not_registered_in(case)}
    by_host: dict[str, list[str]] = {}
    for log in case.logs:
        failed = by_log.get(log["name"], [])
        for host in case.hosts_of_log(log):
            by_host.setdefault(host, []).extend(failed)
        for told, line in _told_limits(case, log):
            of_a_job = failed or log["pod"] or not any(word in line.raw for word in _OF_A_SHELL)
            if low < told <= high and of_a_job:
                yield case.hit(log, [str(line), *failed], severity="error" if failed else None)
    for host, facts in case.facts.items():
        limit = pod_limit(facts)
        if limit is not None and low < limit <= high:
            failed = by_host.get(host, [])
            words = f"{host}: containers may lock {limit // _KIB} KiB (RLIMIT_MEMLOCK)"
            yield Hit((host,), (words, *failed), severity="error" if failed else None)


def _refused(case: Case, test: t.Callable[[Json, Log], bool], words: t.Callable[[Json], str]) -> t.Iterator[Hit]:
    for log, lines in _not_registered_in(case):
        pod = case.pod_of(log)
        if pod is not None and test(pod, log):
            yield case.hit(log, [words(pod), *map(str, lines)])


def _limit_of(case: Case, pod: Json) -> t.Optional[int]:
    """The limit of containers on the host of a Pod."""
    host = case.host_of(pod["spec"].get("nodeName"))
    return pod_limit(case.facts.get(host[0], {})) if host else None


def _may_lock_all(case: Case, pod: Json, log: Log) -> bool:
    """Whether the limit of locked memory refuses a Pod nothing, as its log says it, its host, or what it asks for."""
    told = [limit for limit, _line in _told_limits(case, log)]
    if told:
        return min(told) == _UNLIMITED
    # that of the host does not count for who has the capability
    return (_has_lock(pod) and not _is_ordinary(pod)) or _limit_of(case, pod) == _UNLIMITED


def _ordinary_user(case: Case) -> t.Iterator[Hit]:
    def test(pod: Json, _log: Log) -> bool:
        return _is_ordinary(pod) and _limit_of(case, pod) != _UNLIMITED

    yield from _refused(case, test, lambda pod: f"{shown_pod(pod)} does not run as root")


def _below_memory_limit(case: Case) -> t.Iterator[Hit]:
    # most Pods with GPUs have one, which says nothing where they may not lock all of it anyway
    yield from _refused(
        case,
        lambda pod, log: _memory_limit(pod) is not None and _may_lock_all(case, pod, log),
        lambda pod: f"{shown_pod(pod)} has the memory limit {_memory_limit(pod)}",
    )
    for pod in case.workloads():
        ended = [
            (each.get(key) or {}).get("terminated") or {}
            for each in (pod.get("status") or {}).get("containerStatuses") or []
            for key in ("state", "lastState")
        ]
        if any(each.get("reason") == "OOMKilled" for each in ended):
            line = f"{shown_pod(pod)} was killed for its memory (OOMKilled), its limit is {_memory_limit(pod) or 'that of the node'}"
            yield Hit(case.host_of(pod["spec"].get("nodeName")), (line,), about=(name_of(pod),))


def _memory_limit_there(case: Case) -> t.Iterator[Hit]:
    for pod in case.workloads():
        limit = _memory_limit(pod)
        if limit:
            yield Hit((), (f"{shown_pod(pod)} has the memory limit {quoted(limit)}",), about=(name_of(pod),))


def _no_lock(case: Case) -> t.Iterator[Hit]:
    for pod in case.workloads():
        host, limit = case.host_of(pod["spec"].get("nodeName")), _limit_of(case, pod)
        if not _has_lock(pod) and limit != _UNLIMITED:
            known = "" if limit is None else f", and containers there may lock {limit // _KIB} KiB"
            yield Hit(host, (f"{shown_pod(pod)} has no capability IPC_LOCK{known}",), about=(name_of(pod),))


def _refused_keys(case: Case, spent: bool) -> t.Iterator[Hit]:
    """Where the firmware refuses memory keys; spent: because it has none left, or for another reason."""
    for log in case.logs:
        lines = [str(line) for line in case.lines(*_KEYS, logs=[log]) if bool(_SPENT.search(line.raw)) is spent]
        lines = [line for line in lines if "failed" in line]
        if lines:
            yield case.hit(log, lines)


def _not_registered(case: Case) -> t.Iterator[Hit]:
    for log, lines in _not_registered_in(case):
        yield case.hit(log, [str(line) for line in lines])


_LIFT = "rdma_memlock: {enabled: true} and ansible-playbook fabric.rdma.prepare; then make the Pods again"

RULES = (
    Rule(
        "memlock-64-kib",
        "Locked memory is limited to 64 KiB",
        "warning",
        ("facts", "logs"),
        "containers may lock 64 KiB of memory only, the kernel's default: too little for any RDMA program",
        _LIFT,
        lambda case: _limited(case, -1, 64 * _KIB),
    ),
    Rule(
        "memlock-8-mib",
        "Locked memory is limited to 8 MiB",
        "warning",
        ("facts", "logs"),
        "containers may lock a few MiB of memory only (systemd's default is 8 MiB): small tests pass, and larger buffers do not",
        _LIFT,
        lambda case: _limited(case, 64 * _KIB, 64 * _MIB),
    ),
    Rule(
        "mkeys-used-up",
        "An HCA has no memory keys left",
        "error",
        ("logs",),
        "the HCA has no memory keys left: programs register more regions than it can have, or have ended without giving them back",
        "`rdma resource show mr` names the processes that hold them: end these, and let programs register fewer, larger regions; what no "
        "process holds is given back by devlink dev reload pci/ADDRESS, or a reboot",
        lambda case: _refused_keys(case, spent=True),
    ),
    Rule(
        "mkey-refused",
        "An HCA refuses a memory key",
        "error",
        ("logs",),
        "the firmware of the HCA refuses to register a region of memory (CREATE_MKEY): it does not fit the driver, or does not have what a "
        "program asks for",
        "compare driver and firmware: `ethtool -i NETDEV` or `ibv_devinfo`, and the release notes of the driver; mlxfwmanager --query says "
        "which firmware is newer. A program that asks for signatures or GPU memory may have a switch to go without",
        lambda case: _refused_keys(case, spent=False),
        ("mkeys-used-up",),
    ),
    Rule(
        "mr-ordinary-user",
        "An ordinary user cannot lock memory",
        "error",
        ("cluster", "facts", "logs"),
        "the Pod does not run as root: the capability IPC_LOCK has no effect for it, and the limit of locked memory counts",
        _LIFT,
        _ordinary_user,
    ),
    Rule(
        "mr-memory-limit",
        "The memory limit of a Pod is too small for what it registers",
        "error",
        ("cluster", "logs"),
        "memory that is registered counts against the Pod's memory limit, which is too small for it",
        "raise resources.limits.memory of the container, or take it out",
        _below_memory_limit,
    ),
    Rule(
        "pod-without-ipc-lock",
        "A Pod may not lock memory",
        "warning",
        ("cluster", "facts"),
        "a Pod asks for an RDMA resource, has no capability IPC_LOCK, and its node does not let containers lock all memory",
        "securityContext: {capabilities: {add: [IPC_LOCK]}} in the container, or for all Pods " + _LIFT,
        _no_lock,
    ),
    Rule(
        "pod-memory-limit",
        "A Pod with RDMA has a memory limit",
        "note",
        ("cluster",),
        "a Pod asks for an RDMA resource and has a memory limit: what it registers has to fit into it as a whole",
        "see that resources.limits.memory is larger than all buffers that the program registers, and /dev/shm",
        _memory_limit_there,
        ("mr-memory-limit",),
    ),
    Rule(
        "mr-refused",
        "Memory could not be registered",
        "error",
        ("logs",),
        "memory could not be registered with the HCA, most often for the limit of locked memory",
        "look with `ulimit -l` in the Pod; " + _LIFT,
        _not_registered,
        ("memlock-64-kib", "memlock-8-mib", "mkeys-used-up", "mkey-refused", "mr-ordinary-user", "mr-memory-limit"),
    ),
)

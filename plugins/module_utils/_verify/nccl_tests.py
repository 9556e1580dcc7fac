# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests: tables, how NCCL moved the data, and what went wrong. Private to the collection. Pure.

Follows nccl-tests from 2.0 on: common.cu prints the header and, for each size, time (us), algbw and busbw (GB/s, 10^9 bytes) and the
number of wrong elements (#wrong; error in earlier ones; N/A where it was not checked), out of place and in place. busbw is what the
slowest link of a ring has to carry, so it is the figure that is compared with a link. Launchers put a rank in front of each line.
Units here: bytes, microseconds, GB/s.
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._verify.findings import Finding, explained, head

__all__ = ["RDMA_WAYS", "Half", "parse_nccl", "staged_hosts"]

# How ways over RDMA begin: NCCL's own (NET/IB, NET/IBext_v10), Google's plugin for RoCE, that of AWS for EFA in two versions.
RDMA_WAYS = ("NET/IB", "NET/gIB", "NET/AWS Libfabric", "NET/Libfabric")


@dataclass(frozen=True)
class Half:
    """Out of place or in place. wrong: elements, as printed; None where they were not checked."""

    time_us: float
    algbw: float
    busbw: float
    wrong: t.Optional[str]


@dataclass(frozen=True)
class NcclRow:
    size_bytes: int
    out_of_place: t.Optional[Half]
    in_place: t.Optional[Half]

    @property
    def busbw(self) -> float:
        """The better one, GB/s."""
        return max(half.busbw for half in (self.out_of_place, self.in_place) if half)


@dataclass(frozen=True)
class NcclReport:
    """What an output says. transports: how NCCL moved data between ranks, each once (NET/IB/0/GDRDMA, NET/Socket/0, P2P/MNNVL).

    staged: hosts of which no data went from GPU to HCA directly; average_busbw: the last line, GB/s; out_of_bounds: wrong elements, None
    when it was not printed.
    """

    program: t.Optional[str]
    version: t.Optional[str]
    ranks: int
    hosts: tuple[str, ...]
    rows: tuple[NcclRow, ...]
    average_busbw: t.Optional[float]
    out_of_bounds: t.Optional[int]
    transports: tuple[str, ...]
    staged: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def best(self) -> t.Optional[NcclRow]:
        """The row with the highest bus bandwidth."""
        return max(self.rows, key=lambda row: row.busbw, default=None)


# "0: ", "[1,0]<stdout>:" of mpirun --tag-output, and the time that kubectl logs --timestamps prints
_LAUNCHER = re.compile(r"^(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z? )?(?:\[\d+,\d+\]<std(?:out|err)>:|\d{1,6}: )?")
_NUMBER = re.compile(r"-?(?:\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?|nan|inf)")
# Elements. Earlier programs print the largest error there, with a point or an exponent, and judge it below the table.
_WRONG = re.compile(r"0{0,20}[1-9][0-9]{0,20}")
_AVERAGE = re.compile(r"Avg bus bandwidth\s{0,20}:\s{0,20}(\S{1,30})")
_BOUNDS = re.compile(r"Out of bounds values\s{0,20}:\s{0,20}(\d{1,18}) ")
_PROGRAM = re.compile(r"\b(\w{1,30}_perf)\b")
_VERSION = re.compile(r"NCCL version ([\w.+-]{1,40})")
_RANK = re.compile(r"^#?\s*Rank\s+(\d{1,7})\s.*?\bon\s+(\S{1,253})\s+device\b")
# NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
_VIA = re.compile(r" via ((?:NET|P2P|SHM|COLLNET)[\w/ .-]{0,40}?)(?: comm |[^\w/ .-]|$)")
# the rank that sends for another one of its host (PXN): via NET/IB/0(4)/GDRDMA
_PROXY = re.compile(r"( via NET/[\w .-]{1,40}/\d{1,4})\(\d{1,7}\)")
# n1:95:120 [0] NCCL INFO Channel ..., behind whatever launchers, kubectl logs --prefix and collectors of logs put before it
_CHANNEL = " NCCL INFO Channel "
_SPEAKER = re.compile(r"(?:.*[^\w.-])?([\w.-]{1,253}):\d{1,10}:\d{1,10} \[\d{1,4}\]")
_USING = re.compile(r"NCCL INFO Using network (AWS Libfabric|\S{1,30})")
_MOST_ROWS = 200
_MOST_NAMES = 64
# hosts in a sentence
_SHOWN = 8

_WRONG_WAY = "name the HCAs in NCCL_IB_HCA (the plan of the group has the value), ask for the RDMA resource, and see NCCL_DEBUG=INFO"
_WRONG_VALUES = (
    "repeat it on fewer nodes to find the one; look at the memory errors (ECC) of its GPUs and the errors of its ports"
)
_DIRECT = "load nvidia_peermem, or use the open kernel modules of the driver with DMA-BUF (rdma_gpudirect)"
_MEMORY = "lift the limit of locked memory of containers (the role containerd_memlock), or add the capability IPC_LOCK"

# (pattern, cause, remedy): of NCCL (src/transport/net_ib, bootstrap.cc), nccl-tests and the launcher.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"Call to ibv_reg_(?:mr|mr_iova2|dmabuf_mr) failed with error (?P<what>Bad address|Invalid argument|Operation not supported)",
        "NCCL could not register memory with the HCA, as of a GPU that it does not reach ({what})",
        _DIRECT,
    ),
    (
        r"Call to ibv_reg_(?:mr|mr_iova2|dmabuf_mr) failed(?! with error (?:Bad address|Invalid argument|Operation not supported))"
        r"|ibv_reg_mr.{0,60}(?:Cannot allocate memory|ENOMEM)",
        "NCCL could not register memory with the HCA: the limit of locked memory (memlock) is too low",
        _MEMORY,
    ),
    (
        r"Call to ibv_create_(?:qp|cq) failed|ibv_create_(?:qp|cq).{0,60}Cannot allocate memory",
        "NCCL could not create queues on the HCA, usually for a limit of locked memory that is too low",
        _MEMORY,
    ),
    (
        r"Call to ibv_modify_qp failed with (?P<what>[^\n]{1,80})|ibv_modify_qp failed",
        "an HCA cannot reach that of the other side: GID index, routes, or HCAs of different fabrics",
        "set NCCL_IB_GID_INDEX, or name HCAs of one fabric in NCCL_IB_HCA",
    ),
    (
        r"NET/IB : No device found|Failed to initialize NET plugin IB|No IB devices? found",
        "NCCL found no HCA",
        "ask for the RDMA resource in the Pod, and see that the names in NCCL_IB_HCA are there",
    ),
    (
        r"Got completion (?:from peer \S{1,80} )?with (?:status=|error )(?:\w{1,40}\()?(?P<status>\d+)",
        "a transfer between HCAs failed (status {status}; 12: no answer from the other side)",
        "look at cables, port counters, and for RoCE at PFC, MTU and routes between the two",
    ),
    (
        r"(?:[Ee]rror while creating shared memory segment|No space left on device)[^\n]{0,120}",
        "the shared memory of the container (/dev/shm) is too small",
        "mount an emptyDir with medium: Memory at /dev/shm",
    ),
    (
        r"segmentation fault[^\n]{0,80}ncclProxyServiceUDS|ncclProxyServiceUDS[^\n]{0,80}[Ss]egmentation fault",
        "NCCL's proxy ended with a segmentation fault",
        f"{_MEMORY}; mount an emptyDir with medium: Memory at /dev/shm",
    ),
    (
        r"NCCL WARN (?P<what>Cuda failure[^\n]{1,120})",
        "CUDA failed: {what}",
        "check the driver with nvidia-smi on the node that says it, and its Xid messages in the kernel log",
    ),
    (
        r"unhandled (?P<what>system|cuda|remote process) error|remote process exited or there was a network error",
        "NCCL gave up ({0})",
        "set NCCL_DEBUG=WARN and see the line before it; often locked memory, /dev/shm, or a rank that ended before",
    ),
    (
        r"Test (?:NCCL|CUDA) failure (?P<what>[^\n]{1,160})",
        "nccl-tests ended: {what}",
        "set NCCL_DEBUG=INFO and see which rank says why",
    ),
    (
        r"There are not enough slots available",
        "mpirun has fewer places than ranks were asked for",
        "see that all workers run, and slotsPerWorker is the number of GPUs of each",
    ),
    (
        r"ssh: (?:Could not resolve hostname|connect to host) (?P<host>\S{1,253})|Host key verification failed",
        "the launcher cannot reach a worker by ssh",
        "see that the workers run, their names resolve, and the image starts sshd",
    ),
)


def _way_of(line: str) -> str:
    via = _VIA.search(_PROXY.sub(r"\1", line))
    return via.group(1).strip().rstrip("/") if via else ""


def staged_hosts(lines: t.Iterable[str]) -> dict[str, str]:
    """Hosts of which no data went from GPU to HCA directly, by their own words, each with a line that says so."""
    first: dict[str, str] = {}
    direct: set[str] = set()
    for line in lines:
        end = line.find(_CHANNEL)
        speaker = _SPEAKER.fullmatch(line, max(end - 300, 0), end) if end > 0 else None
        way = _way_of(line[end : end + 300]) if speaker else ""
        if speaker and way.startswith(RDMA_WAYS):
            first.setdefault(speaker.group(1), line[speaker.start(1) :])
            if "GDRDMA" in way:
                direct.add(speaker.group(1))
    return {host: line for host, line in first.items() if host not in direct}


def parse_nccl(text: str) -> NcclReport:
    """Everything that an output says; any text is read, up to a bound."""
    rows: list[NcclRow] = []
    columns: tuple[str, ...] = ()
    hosts: dict[str, None] = {}
    transports: dict[str, None] = {}
    ranks = 0
    plain = [_LAUNCHER.sub("", line, count=1) for line in head(text)]
    for line in plain:
        words = line.replace("#wrong", "wrong").lstrip("# ").split()
        if words[:2] == ["size", "count"] and "busbw" in words:
            columns = tuple(words)
            continue
        row = _row(words, columns)
        if row is not None and len(rows) < _MOST_ROWS:
            rows.append(row)
            continue
        rank = _RANK.match(line)
        if rank:
            ranks = max(ranks, int(rank.group(1)) + 1)
            hosts[rank.group(2)] = None
        via = _way_of(line)
        if via and len(transports) < _MOST_NAMES:
            transports[via] = None
    whole = "\n".join(plain)
    average, bounds = _AVERAGE.search(whole), _BOUNDS.search(whole)
    using = _USING.search(whole)
    report = NcclReport(
        program=_group(_PROGRAM, whole),
        version=_group(_VERSION, whole),
        ranks=ranks,
        hosts=tuple(sorted(hosts)),
        rows=tuple(rows),
        average_busbw=_figure(average.group(1)) if average else None,
        out_of_bounds=int(bounds.group(1)) if bounds else None,
        transports=tuple(sorted(transports)) or ((f"NET/{using.group(1)}",) if using else ()),
        staged=tuple(sorted(staged_hosts(plain))),
        findings=(),
    )
    return NcclReport(**{**report.__dict__, "findings": (*explained(_CAUSES, whole), *_doubts(report, whole))})


def _group(pattern: t.Pattern[str], text: str) -> t.Optional[str]:
    found = pattern.search(text)
    return found.group(1) if found else None


def _figure(word: str) -> t.Optional[float]:
    """A number that can be, None for all else."""
    if not _NUMBER.fullmatch(word):
        return None
    value = float(word)
    return value if math.isfinite(value) and value >= 0 else None


def _row(words: t.Sequence[str], columns: t.Sequence[str]) -> t.Optional[NcclRow]:
    """size, count, type and others, then four columns for each half. Columns before the halves differ: redop and root come and go."""
    if len(words) < 11 or not (words[0].isascii() and words[0].isdigit() and len(words[0]) < 20):
        return None
    if columns and len(words) != len(columns):
        return None
    if not columns and len(words) not in (11, 12, 13):
        return None
    halves = [_half(words[-8:-4]), _half(words[-4:])]
    if halves == [None, None]:
        return None
    return NcclRow(int(words[0]), halves[0], halves[1])


def _half(words: t.Sequence[str]) -> t.Optional[Half]:
    time_us, algbw, busbw = (_figure(word) for word in words[:3])
    if time_us is None or algbw is None or busbw is None:
        return None
    return Half(time_us, algbw, busbw, None if words[3] == "N/A" else words[3][:30])


def _doubts(report: NcclReport, text: str) -> t.Iterator[Finding]:
    """What an output proves against itself."""
    if report.out_of_bounds:
        yield Finding(
            f"the collective gave {report.out_of_bounds} wrong values",
            _WRONG_VALUES,
            f"Out of bounds values : {report.out_of_bounds}",
        )
    halves = [(row, half) for row in report.rows for half in (row.out_of_place, row.in_place) if half]
    wrong = [row for row, half in halves if _WRONG.fullmatch(half.wrong or "")]
    if wrong and report.out_of_bounds is None:
        yield Finding(
            f"the collective gave wrong values with {wrong[0].size_bytes} bytes",
            _WRONG_VALUES,
            "the column #wrong is not 0",
        )
    if report.rows and report.average_busbw is None:
        yield Finding(
            "the output of nccl-tests has no end: larger sizes may be missing, and whether all values were right",
            "see the log of the launcher; lower NCCL_DEBUG_SUBSYS to INIT,NET if it is very long",
            "no line with Avg bus bandwidth",
        )
    sockets = [way for way in report.transports if way.startswith("NET/Socket")]
    if sockets and "NCCL_IB_DISABLE set by environment to 1" not in text:
        yield Finding("NCCL moved its data over TCP, not over RDMA", _WRONG_WAY, sockets[0])
    # the name of the network alone does not say how data gets there
    inside = [way for way in report.transports if way.startswith(RDMA_WAYS) and way.count("/") > 1]
    if inside and not any("GDRDMA" in way for way in inside):
        yield Finding(
            "NCCL used RDMA without GPUDirect: all data goes through the memory of the hosts", _DIRECT, inside[0]
        )
    elif report.staged:
        more = f" and {len(report.staged) - _SHOWN} more" if len(report.staged) > _SHOWN else ""
        yield Finding(
            f"NCCL used RDMA without GPUDirect on {', '.join(report.staged[:_SHOWN])}{more}: all data of these goes through the memory "
            "of the hosts",
            _DIRECT,
            next((way for way in inside if "GDRDMA" not in way), ""),
        )
    if not report.rows:
        yield Finding("nccl-tests printed no figures", "see the log of the launcher, with NCCL_DEBUG=INFO", "")

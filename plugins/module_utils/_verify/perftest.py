# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest: command lines, outputs, causes of failures, verdicts. Private to the collection. Pure.

Follows the linux-rdma perftest programs from 4.5 on: perftest_parameters.h (RESULT_FMT and REPORT_FMT are the tables),
perftest_parameters.c (options, ctx_print_test_info), perftest_communication.c and perftest_resources.c (texts of errors).
Units here: bytes, Gb/s (10^9 bits), microseconds, Mpps (10^6 messages a second).
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError

__all__ = [
    "ATOMIC_BYTES",
    "LIMITS",
    "MEMORIES",
    "MOST_OUTPUT",
    "PROGRAMS",
    "Bandwidth",
    "BandwidthRow",
    "Latency",
    "LatencyRow",
    "Report",
    "Side",
    "Size",
    "command_line",
    "explain",
    "explain_senseless",
    "figure_of",
    "gbps",
    "is_atomic",
    "judge_bandwidth",
    "judge_latency",
    "kind_of",
    "measured",
    "parse",
    "timed_out",
]

Side = t.Literal["client", "server"]

PROGRAMS = (
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
)
# An atomic operation is on 64 bits, and has no option for another size.
ATOMIC_BYTES = 8
# Where the memory of a test is, and the options that put it there. dmabuf: the kernel's own way for devices to share memory.
MEMORIES: dict[str, tuple[str, ...]] = {
    "host": (),
    "cuda": ("--use_cuda=0",),
    "cuda_dmabuf": ("--use_cuda=0", "--use_cuda_dmabuf"),
}

# What command_line() takes, from the least to the most.
LIMITS: dict[str, tuple[int, int]] = {
    "port": (1, 254),
    "gid_index": (0, 255),
    "traffic_class": (0, 255),
    "message_bytes": (1, 1 << 31),
    "iterations": (5, 100000000),
    "qps": (1, 16384),
    "tcp_port": (1, 65535),
}

# "MB/sec" is printed by perftest up to 6.2x, "MiB/sec" later. Both divide by 0x100000 (perftest_parameters.c).
_GBPS = {"Gb/sec": 1.0, "MB/sec": 8 * 0x100000 / 1e9, "MiB/sec": 8 * 0x100000 / 1e9}

# No port carries near as much: the fastest has 800 Gb/s. What divides by a time that is almost none prints it.
_MOST_GBPS = 10000.0
# The program counts messages and bytes in 64 bits.
_MOST = (1 << 64) - 1

# The verb in the title of an output ("RDMA_Write BW Test"), as ctx_print_test_info() names it.
_VERBS = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send", "RDMA_Atomic": "atomic", "Atomic": "atomic"}


@dataclass(frozen=True)
class BandwidthRow:
    """One line of a bandwidth table. peak is None when it was not measured (--noPeak, --duration, --run_infinitely: 0.00).

    senseless: the figures that cannot be, with their names and as printed; '' when all can.
    """

    message_bytes: int
    iterations: int
    peak: t.Optional[float]
    average: float
    rate_mpps: float
    unit: str
    senseless: str = field(default="", compare=False)

    @property
    def peak_gbps(self) -> t.Optional[float]:
        return None if self.peak is None else gbps(self.peak, self.unit)

    @property
    def average_gbps(self) -> float:
        return gbps(self.average, self.unit)


@dataclass(frozen=True)
class LatencyRow:
    """One line of a latency table, microseconds, one way (half a round trip). None: the form of the table does not have it."""

    message_bytes: int
    iterations: int
    minimum: t.Optional[float]
    maximum: t.Optional[float]
    typical: t.Optional[float]
    average: float
    stdev: t.Optional[float]
    p99: t.Optional[float]
    p999: t.Optional[float]
    senseless: str = field(default="", compare=False)


Row = t.Union[BandwidthRow, LatencyRow]


@dataclass(frozen=True)
class Report:
    """What an output says. Outputs of both sides may be interleaved: rows of both are kept, other values are the first seen.

    kind: bandwidth | latency | None; units: of the tables, as printed, in order; mtu_bytes: path MTU; bidirectional: bandwidths are
    the sum of both directions.
    """

    test: t.Optional[str]
    kind: t.Optional[str]
    units: tuple[str, ...]
    device: t.Optional[str]
    link_type: t.Optional[str]
    mtu_bytes: t.Optional[int]
    qps: t.Optional[int]
    gid_index: t.Optional[int]
    bidirectional: bool
    rows: tuple[Row, ...]

    @property
    def bandwidth(self) -> tuple[BandwidthRow, ...]:
        return tuple(row for row in self.rows if isinstance(row, BandwidthRow))

    @property
    def latency(self) -> tuple[LatencyRow, ...]:
        return tuple(row for row in self.rows if isinstance(row, LatencyRow))


class Bandwidth(t.TypedDict):
    """Gb/s. peak None: it was not measured."""

    peak: t.Optional[float]
    average: float


class Latency(t.TypedDict):
    """Microseconds, one way. None: the program does not print it."""

    min: t.Optional[float]
    max: t.Optional[float]
    typical: t.Optional[float]
    average: float
    stdev: t.Optional[float]
    p99: t.Optional[float]
    p999: t.Optional[float]


class Size(t.TypedDict, total=False):
    """What was measured with one size of message, of a table of many: one of both figures."""

    bytes: int
    gbps: float
    us: float


class Measured(t.TypedDict):
    """The row that counts (see measured()): nulls where there is none, or where its figures cannot be (senseless: those, as printed).

    sizes: all rows of a table of many sizes (-a), each size once; None where there was one size.
    """

    test: str
    senseless: t.Optional[str]
    mtu_bytes: t.Optional[int]
    message_bytes: t.Optional[int]
    iterations: t.Optional[int]
    bandwidth_gbps: t.Optional[Bandwidth]
    message_rate_mpps: t.Optional[float]
    latency_us: t.Optional[Latency]
    sizes: t.Optional[list[Size]]


@dataclass(frozen=True)
class Problem:
    """Why a test gave no numbers. side: client | server; line: what the program said, '' when it said nothing."""

    side: str
    cause: str
    remedy: str
    line: str


@dataclass(frozen=True)
class Verdict:
    """verdict: pass | fail; message: the numbers in words; remedy: what to look at, None when it passed."""

    verdict: t.Literal["pass", "fail"]
    message: str
    remedy: t.Optional[str]


def gbps(value: float, unit: str) -> float:
    """A bandwidth in a unit as perftest prints it (Gb/sec, MB/sec, MiB/sec) in Gb/s."""
    return value * _GBPS[unit]


def kind_of(program: str) -> str:
    """bandwidth or latency."""
    return "latency" if program.endswith("_lat") else "bandwidth"


def is_atomic(program: str) -> bool:
    """Whether a program measures operations on 64 bits, which are far from filling a link."""
    return program.startswith("ib_atomic_")


# --- command line -----------------------------------------------------------------------------------------------------


def _insist_on_words(
    program: str, device: str, address: t.Optional[str], memory: str, gpu: t.Optional[str] = None
) -> None:
    if program not in PROGRAMS:
        raise WishError(f"test {program!r} is unknown; expected one of {', '.join(PROGRAMS)}")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", device):
        raise WishError(f"device {device!r} is not the name of an RDMA device")
    if address is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:%-]*|::[A-Fa-f0-9:.]*", address):
        raise WishError(f"address {address!r} is neither an IP address nor a host name")
    if memory not in MEMORIES:
        raise WishError(f"memory {memory!r} is unknown; expected one of {', '.join(MEMORIES)}")
    if gpu is not None and not re.fullmatch(r"[0-9a-f:]{10,14}\.[0-7]", gpu):
        raise WishError(f"gpu {gpu!r} is not the PCI address of a GPU")


def _insist_on_limits(**given: int) -> None:
    for name, value in given.items():
        low, high = LIMITS[name]
        if not low <= value <= high:
            raise WishError(f"{name} is {value}; allowed is {low} to {high}")


def _memory_options(memory: str, gpu: t.Optional[str]) -> t.Sequence[str]:
    options = MEMORIES[memory]
    return (f"--use_cuda_bus_id={gpu}", *options[1:]) if gpu and options else options


def command_line(
    program: str,
    device: str,
    port: int = 1,
    gid_index: t.Optional[int] = None,
    message_bytes: t.Optional[int] = None,
    iterations: int = 1000,
    qps: int = 1,
    tcp_port: int = 18515,
    address: t.Optional[str] = None,
    all_sizes: bool = False,
    bidirectional: bool = False,
    memory: str = "host",
    ipv6: bool = False,
    gpu: t.Optional[str] = None,
    traffic_class: t.Optional[int] = None,
) -> list[str]:
    """Arguments for one side of a test: the server's without address, the client's with the server's address.

    all_sizes: a table of sizes from 2 bytes to 8 MiB; bidirectional: both sides send; memory: one of MEMORIES, for the others than
    host that of the GPU with the PCI address gpu, else of the first one; ipv6: the server's address is one of IPv6, as clients see by
    themselves; traffic_class: what the packets carry, DSCP and ECN. Only options that perftest has had since 4.5, but for those of GPUs,
    and of IPv6 (23.07). WishError says what is wrong with a value.
    """
    _insist_on_words(program, device, address, memory, gpu)
    latency, atomic = kind_of(program) == "latency", is_atomic(program)
    if all_sizes and atomic:
        raise WishError(f"all_sizes is true; {program} has one size, {ATOMIC_BYTES} bytes")
    if bidirectional and latency:
        raise WishError(f"bidirectional is true; {program} measures one direction")
    size = message_bytes if message_bytes is not None else (2 if latency else 65536)
    _insist_on_limits(
        port=port,
        gid_index=gid_index or 0,
        traffic_class=traffic_class or 0,
        message_bytes=size,
        iterations=iterations,
        qps=qps,
        tcp_port=tcp_port,
    )
    # -F: a CPU that clocks up is not worth a warning between the rows.
    command = [program, "-F", "-d", device, "-i", str(port)]
    command += [] if atomic else ["-a"] if all_sizes else ["-s", str(size)]
    command += ["-n", str(iterations), "-p", str(tcp_port)]
    if gid_index is not None:
        command += ["-x", str(gid_index)]
    if traffic_class is not None:
        command.append(f"--tclass={traffic_class}")
    if not latency:
        command += ["-q", str(qps), "--report_gbits", *(["-b"] if bidirectional else [])]
    elif qps != 1:
        raise WishError(f"qps is {qps}; {program} measures one queue pair")
    command += _memory_options(memory, gpu)
    if ipv6 or ":" in (address or ""):
        # both sides resolve and listen in IPv4 only without it (perftest_communication.c)
        command.append("--ipv6-addr")
    return command if address is None else [*command, address]


# --- outputs ----------------------------------------------------------------------------------------------------------

# What a node sends is read line by line, and what no perftest prints is cut off: expressions that look at a line, or at an output,
# from each of its characters would take hours for some MB. A table of all sizes is 3 kB, and its lines have 100 characters.
MOST_OUTPUT = 64 * 1024
_MOST_LINE = 500
# "RDMA_Write Bidirectional BW Test", "Atomic FETCH_AND_ADD BW Test", "Send BW Post List Test"
_TITLE = re.compile(
    r"^[ \t]*(\w+) (?:FETCH_AND_ADD |CMP_AND_SWAP )?(Bidirectional )?(BW|Latency) (?:[\w-]+ ){0,4}Test\b", re.MULTILINE
)
_PROGRAM = re.compile(r"\bib_(?:write|read|send|atomic)_(?:bw|lat)\b")
_COLUMN = re.compile(r"#\w+|[A-Za-z_0-9.%]{1,30}(?: [A-Za-z0-9]{1,30})?\[[^]]{0,30}\]|tps average")
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
_ROW = re.compile(rf"^\s*\d+(?:\s+{_NUMBER}){{3,}}\s*$")

_LATENCY_COLUMNS = ("#bytes", "#iterations", "min", "max", "typical", "average", "stdev", "p99", "p999")
_BANDWIDTH_COLUMNS = ("#bytes", "#iterations", "peak", "average", "rate")
_COLUMN_NAMES = {
    "BW peak": "peak",
    "BW average": "average",
    "MsgRate": "rate",
    "t_min": "min",
    "t_max": "max",
    "t_typical": "typical",
    "t_avg": "average",
    "t_stdev": "stdev",
    "99%": "p99",
    "percentile": "",
    "99.9%": "p999",
}


def _cut(text: str) -> str:
    """What is read of an output: its beginning, and the beginning of each line. What is left of a longer one is not a row of figures."""
    lines = text[:MOST_OUTPUT].splitlines()
    return "\n".join(line if len(line) <= _MOST_LINE else line[:_MOST_LINE] + " ..." for line in lines)


def _first(pattern: str, text: str) -> t.Optional[str]:
    # The values end at a tab or at two blanks, where the second column of the header begins.
    found = re.search(rf"\b{pattern}[ \t]*:[ \t]*(\S+)", text)
    return found.group(1) if found else None


def _int(value: t.Optional[str]) -> t.Optional[int]:
    # Nothing that is printed has more digits, and Python converts only so many.
    found = re.match(r"\d{1,18}(?!\d)", value or "")
    return int(found.group()) if found else None


def _columns(line: str) -> tuple[tuple[str, ...], t.Optional[str]]:
    """Names of the columns of a table's header, and the unit of its bandwidths (None for latencies)."""
    names = []
    for cell in _COLUMN.findall(line.replace("% percentile", "%")):
        name = cell.partition("[")[0].strip()
        names.append(_COLUMN_NAMES.get(name, name))
    unit = re.search(r"BW average\[([^]]+)\]", line)
    return tuple(names), unit.group(1) if unit else None


def _row(values: t.Sequence[str], columns: tuple[str, ...], unit: t.Optional[str]) -> t.Optional[Row]:
    if len(values) < len(columns):
        return None
    # The program appends columns (CPU utilisation, one for each port), it never inserts them.
    cells = dict(zip(columns, values))
    try:
        size, iterations = int(cells["#bytes"]), int(cells["#iterations"])
        numbers = {name: float(value) for name, value in cells.items() if not name.startswith("#")}
        if unit in _GBPS:
            peak = numbers["peak"]
            # 0.00: not measured, the table says it like that
            row = BandwidthRow(size, iterations, peak or None, numbers["average"], numbers["rate"], str(unit))
            return replace(row, senseless=_senseless(_bandwidth_figures(row), cells))
        latency = LatencyRow(
            size,
            iterations,
            numbers.get("min"),
            numbers.get("max"),
            numbers.get("typical"),
            numbers["average"],
            numbers.get("stdev"),
            numbers.get("p99"),
            numbers.get("p999"),
        )
        return replace(latency, senseless=_senseless(_latency_figures(latency), cells))
    except (KeyError, ValueError):
        return None


def _can_be(value: t.Optional[float], least: float = 0.0, most: float = math.inf) -> bool:
    """Whether a figure is none, or finite and more than the least that it cannot be."""
    return value is None or (math.isfinite(value) and least < value <= most)


def _bandwidth_figures(row: BandwidthRow) -> dict[str, bool]:
    # Six digits: what is below one message in two seconds is printed as 0.
    rounded = row.rate_mpps == 0 and _can_be(row.average_gbps, most=8e-9 * min(row.message_bytes, _MOST))
    return {
        "#bytes": 0 < row.message_bytes <= _MOST,
        "#iterations": 0 < row.iterations <= _MOST,
        "peak": _can_be(row.peak_gbps, most=_MOST_GBPS),
        "average": _can_be(row.average_gbps, most=_MOST_GBPS),
        "rate": _can_be(row.rate_mpps) or rounded,
    }


def _latency_figures(row: LatencyRow) -> dict[str, bool]:
    return {
        "#bytes": 0 < row.message_bytes <= _MOST,
        "#iterations": 0 < row.iterations <= _MOST,
        "min": _can_be(row.minimum),
        "max": _can_be(row.maximum),
        "typical": _can_be(row.typical),
        "average": _can_be(row.average),
        # all the same
        "stdev": row.stdev == 0 or _can_be(row.stdev),
        "p99": _can_be(row.p99),
        "p999": _can_be(row.p999),
    }


def _senseless(figures: t.Mapping[str, bool], cells: t.Mapping[str, str]) -> str:
    """Names and printed values of the figures that cannot be."""
    wrong = [name for name, sensible in figures.items() if not sensible]
    labels = {"peak": "BW peak", "average": "BW average", "rate": "MsgRate"} if "rate" in figures else {}
    return ", ".join(f"{labels.get(name, name)} {cells[name][:50]}" for name in wrong)


def parse(text: str) -> Report:
    """Everything that one or more outputs of perftest say, of the client, the server or both interleaved.

    Lines that are neither header nor row (warnings of the CPU frequency, prompts) are passed over. A table without its header
    is recognised by its number of columns; its bandwidths are taken for Gb/s, which is what command_line() asks for.
    """
    rows: list[Row] = []
    units: list[str] = []
    columns: tuple[str, ...] = ()
    unit: t.Optional[str] = None
    text = _cut(text)
    for line in text.splitlines():
        if "#bytes" in line:
            columns, unit = _columns(line)
            if "average" in columns:
                units.append(unit or "usec")
        elif _ROW.match(line):
            values = line.split()
            if not columns and len(values) == len(_LATENCY_COLUMNS):
                row = _row(values, _LATENCY_COLUMNS, None)
            elif not columns:
                row = _row(values, _BANDWIDTH_COLUMNS, "Gb/sec")
            else:
                row = _row(values, columns, unit)
            if row is not None:
                rows.append(row)
    test, kind = _test(text)
    if rows:
        kind = "bandwidth" if isinstance(rows[0], BandwidthRow) else "latency"
    return Report(
        test=test,
        kind=kind,
        units=tuple(units),
        device=_first("Device", text),
        link_type=_first("Link type", text),
        mtu_bytes=_int(_first("Mtu", text)) or None,
        qps=_int(_first("Number of qps", text)),
        gid_index=_int(_first("GID index", text)),
        bidirectional=any(found.group(2) for found in _TITLE.finditer(text)),
        rows=tuple(rows),
    )


def _test(text: str) -> tuple[t.Optional[str], t.Optional[str]]:
    """(program, kind) by the title of the output, else by the first program that the text names."""
    title = _TITLE.search(text)
    if title and title.group(1) in _VERBS:
        kind = "latency" if title.group(3) == "Latency" else "bandwidth"
        return "ib_{}_{}".format(_VERBS[title.group(1)], "lat" if kind == "latency" else "bw"), kind
    named = _PROGRAM.search(text)
    return (named.group(), kind_of(named.group())) if named else (None, None)


def measured(test: str, text: str) -> Measured:
    """The row of an output that counts, as plain values: a bandwidth with the largest messages, a latency with the shortest. Nulls
    where there is none.

    A machine without time for its clock prints figures that cannot be (inf, nan, 0, negative, more than any port carries). None of
    such a row is taken; they are in `senseless` then, as printed, which is null otherwise.
    """
    report = parse(text)
    rows: t.Sequence[Row] = report.latency if kind_of(test) == "latency" else report.bandwidth
    values: Measured = {
        "test": test,
        "senseless": None,
        "mtu_bytes": report.mtu_bytes,
        "message_bytes": None,
        "iterations": None,
        "bandwidth_gbps": None,
        "message_rate_mpps": None,
        "latency_us": None,
        "sizes": None,
    }
    if rows:
        row = _of_shortest(rows) if kind_of(test) == "latency" else rows[-1]
        values["sizes"] = _sizes(rows)
        if row.senseless:
            return {**values, "sizes": None, "senseless": row.senseless}
        values["message_bytes"], values["iterations"] = row.message_bytes, row.iterations
        if isinstance(row, BandwidthRow):
            peak = row.peak_gbps
            values["bandwidth_gbps"] = {
                "peak": None if peak is None else round(peak, 6),
                "average": round(row.average_gbps, 6),
            }
            values["message_rate_mpps"] = row.rate_mpps
        else:
            values["latency_us"] = {
                "min": row.minimum,
                "max": row.maximum,
                "typical": row.typical,
                "average": row.average,
                "stdev": row.stdev,
                "p99": row.p99,
                "p999": row.p999,
            }
    return values


def _of_shortest(rows: t.Sequence[Row]) -> Row:
    """The last row with the shortest messages: the time that long ones take is that of their bandwidth."""
    least = min(row.message_bytes for row in rows)
    return [row for row in rows if row.message_bytes == least][-1]


def _sizes(rows: t.Sequence[Row]) -> t.Optional[list[Size]]:
    """The sizes of a table of many, the last figure of each; None for one size. Figures that cannot be are left out."""
    found: dict[int, Size] = {}
    for row in rows:
        if row.senseless:
            continue
        if isinstance(row, BandwidthRow):
            found[row.message_bytes] = {"bytes": row.message_bytes, "gbps": round(row.average_gbps, 6)}
        else:
            typical = row.average if row.typical is None else row.typical
            found[row.message_bytes] = {"bytes": row.message_bytes, "us": typical}
    # perftest has 23 sizes; two outputs in one text have no more
    return [found[size] for size in sorted(found)[:32]] if len(found) > 1 else None


# --- what went wrong --------------------------------------------------------------------------------------------------

_MEMLOCK = (
    "raise the limit of locked memory (ulimit -l shows it): memlock in /etc/security/limits.d for a login, LimitMEMLOCK=infinity "
    "for a service, the base runtime spec of containerd for Pods"
)
_LINK = "check link and counters of both ports, the MTU along the path, and for RoCE addresses, VLAN, routes and firewall (UDP 4791)"

# (pattern, cause, remedy), the most telling first: a program goes on after an error and prints what follows from it.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"Unsupported memory type|(?:unrecognized|invalid) option[^\n]*use_cuda(?:_dmabuf)?",
        "this perftest was built without the memory of GPUs ({0})",
        "take a perftest that was built with CUDA (configure CUDA_H_PATH=...; for DMA-BUF 23.04 or newer with rdma-core 34 or newer)",
    ),
    (
        r"(?:unrecognized|invalid) option[^\n]*ipv6-addr",
        "this perftest does not meet its other side over IPv6 ({0})",
        "install perftest 23.07 or newer on both hosts, or give them addresses of IPv4",
    ),
    (
        r"DMA-?BUF is not supported on this GPU|[Dd]ma-?buf[^\n]{0,80}not supported",
        "the GPU, or its driver, does not give its memory as DMA-BUF",
        "take the open kernel modules of NVIDIA's driver (515 or newer, Turing or newer) and a kernel of 5.12 or newer, or nvidia_peermem",
    ),
    (
        r"cuInit\(0\) returned \d+|no available device\(s\) that support CUDA|No CUDA devices? found|error from cuDeviceGetByPCIBusId: \d+"
        r"|CUDA (?:error|failure)[^\n]{0,80}",
        "no GPU can be used here ({0})",
        "ask for a GPU in the Pod (nvidia.com/gpu), and check the driver with nvidia-smi",
    ),
    (
        r"Couldn't allocate MR with error=(?!12\b)(?P<error>\d+)",
        "the device could not register the memory of the test (error {error})",
        "see the kernel log of the host; for GPU memory check nvidia_peermem or dma-buf support",
    ),
    (
        # before 23.04, without the number of the error
        r"allocated GPU buffer address[^\n]{0,200}(?:\n[^\n]{0,200}){0,2}?\n\W{0,9}Couldn't allocate MR(?! with error)",
        "the device could not register the memory of the GPU",
        "check nvidia_peermem or DMA-BUF support, and see the kernel log of the host",
    ),
    (
        r"Couldn't allocate MR|[Ff]ailed to create [mM][rR]\b",
        "the memory of the test could not be locked: the limit of locked memory (memlock) is too low",
        _MEMLOCK,
    ),
    (
        r"Port number (?P<port>\d+) state is (?P<state>Init\w*|Armed?|Arm)",
        "port {port} of the device is in state {state}: it has a link, but no subnet manager has brought it up",
        "start a subnet manager in its InfiniBand fabric, or find out why the present one does not sweep this port",
    ),
    (
        r"Local lid 0x0 detected",
        "the port has no LID: no subnet manager has given it one",
        "start a subnet manager in its InfiniBand fabric, or find out why the present one does not sweep this port",
    ),
    (
        r"Port number (?P<port>\d+) state is (?P<state>\w+)",
        "port {port} of the device is in state {state}",
        "check cable, transceiver and switch port, and set the port's network interface up",
    ),
    (
        r"IB device (?P<device>\S+) not found",
        "there is no RDMA device {device}",
        "name a device of /sys/class/infiniband, and check that its driver is loaded",
    ),
    (
        r"Unable to find the Infiniband/RoCE device|Did not detect devices|No IB devices found",
        "no RDMA device was found",
        "check that the driver and ib_uverbs are loaded, and that the user space library of the device (rdma-core) is installed",
    ),
    (
        r"Unable to query port (?P<port>\d+) attributes",
        "the device has no port {port}",
        "name a port of /sys/class/infiniband/<device>/ports",
    ),
    (
        r"Link layer on port (?P<port>\d+) is Unknown",
        "port {port} tells no link layer",
        "check that the driver of the device is loaded completely, and the kernel log of the host",
    ),
    (
        r"Found Incompatibility issue with GID types",
        "the two sides use GIDs of different types or IP versions",
        "give both sides the index of a GID of the same type, such as RoCE v2 with an IPv4 address",
    ),
    (
        r"Couldn't set GID|[Ii]nvalid GID index|[Ff]ailed to (?:get|query) (?:the )?GID|Unable to read GID",
        "the GID index is not in the table of the port",
        "take an index that /sys/class/infiniband/<device>/ports/<port>/gids lists with an address",
    ),
    (
        r"(?m:^)[^\S\n]*(?P<what>\S.*?) mismatch: local=(?P<local>\S+), remote=(?P<remote>\S+)",
        "the two sides were started with different options: {what} is {local} here and {remote} there",
        "start both sides with the same options, and with the same version of perftest",
    ),
    (
        r"not compatible with versions? older than (?P<version>[\d.]+\d)|[Pp]erftest version.*(?:mismatch|differ)",
        "the two sides have versions of perftest that do not understand each other",
        "install the same version of perftest on both hosts",
    ),
    (
        r"Failed to negotiate parameters|Failed to exchange negotiation parameters",
        "the two sides could not agree on parameters, usually because their versions of perftest differ",
        "install the same version of perftest on both hosts",
    ),
    (
        r"Failed to modify (?:UD )?QP(?: \d+)? to (?P<state>RTR)",
        "the device cannot reach the other side's address: an unused GID index, GIDs that do not fit, or no route to it",
        "check the GID indexes of both sides (type RoCE v2, address of the port) and that the two addresses reach each other",
    ),
    (
        r"Failed to modify (?:UD )?QP(?: \d+)? to (?P<state>\w+)",
        "the device refused to bring the queue pair to state {state}",
        "check port, GID index and P_Key of the device, and the kernel log of the host",
    ),
    (
        r"Couldn't get context for the device|[Ff]ailed to open (?:the )?device|Couldn't open device|ibv_open_device",
        "the RDMA device could not be opened",
        "check that /dev/infiniband/uverbs* is there and may be opened (in a Pod: ask for the RDMA resource)",
    ),
    (
        r"Couldn't get device attributes|Failed to query device (?:attributes|capabilities)",
        "the RDMA device does not answer questions about itself",
        "check the kernel log of the host for errors of its driver or firmware",
    ),
    (
        r"Couldn't connect to (?P<address>\S+):(?P<port>\d+)",
        "no server answers at {address}, TCP port {port}",
        "check that the address belongs to the other host, that the two reach each other, and that no firewall is in between",
    ),
    (
        r"Couldn't listen to port (?P<port>\d+)|server accept",
        "the server cannot listen on its TCP port",
        "choose other TCP ports: another program uses this one",
    ),
    (
        r"Problem in resolving basic address and port|Name or service not known",
        "the address of the server cannot be resolved",
        "give the server's IP address",
    ),
    (
        r"Failed status (?P<status>12)\b",
        "packets did not reach the other side, or its answers did not come back (transport retries exceeded)",
        _LINK,
    ),
    (
        r"Failed status (?P<status>13)\b",
        "the other side had no buffer ready in time (receiver not ready, retries exceeded)",
        "check that the other side was not stopped meanwhile, and the load of its host",
    ),
    (
        r"Failed status (?P<status>10|9)\b",
        "the other side refused access to its memory: the two sides run different tests or message sizes",
        "start both sides with the same test and message size",
    ),
    (
        r"Failed status (?P<status>\d+)\b|Completion with error at (?P<where>\w+)",
        "a transfer ended with an error of the device",
        "look up the status in ibv_wc_status, check the kernel log of both hosts and the counters of both ports",
    ),
    (
        r"[Cc]ouldn't create (?:CQ|a receiver CQ|rdma \w+ QP|SRQ)|Failed to create (?:CQs|QP)|Unable to create QP",
        "the device could not create its queues",
        "lower qps; " + _MEMLOCK,
    ),
    (
        r"Couldn't allocate PD|Couldn't create IB resources|Couldn't allocate context",
        "the device has no resources left for the test, or they could not be had",
        "check the kernel log of the host; " + _MEMLOCK,
    ),
    (
        r"Unable to Connect the HCA's through the link",
        "the two devices cannot reach each other",
        _LINK,
    ),
    (
        r"unrecognized option.*|invalid option.*|Iteration num should be.*|Invalid (?:size|Command line|MTU|Connection type).*",
        "this version of perftest does not accept the options: {0}",
        "install perftest 4.5 or newer, and correct the values of the test",
    ),
    (
        r"BW result is below bw limit",
        "the bandwidth is below the limit given to perftest",
        "see the bandwidth in the output",
    ),
    (
        r"error while loading shared libraries: (?P<library>[^:\s]+)|undefined symbol: (?P<symbol>\S+)",
        "the program does not fit the libraries of the host",
        "install perftest and rdma-core from the same source",
    ),
    (
        r"Couldn't read remote address|Couldn't parse line|Unable to (?:read|write) (?:to|from) socket|Failed to exchange data"
        r"|Couldn't read reports|Failed to (?:sync|close connection) between",
        "the other side ended before the test was over",
        "see what the other side says",
    ),
    (
        r"Parser function exited with Error|Unable to init the socket connection|Unable to set up socket connection",
        "perftest gave up: {line}",
        "run the command by hand on both hosts to see more",
    ),
)
_COMPILED = tuple((re.compile(pattern), cause, remedy) for pattern, cause, remedy in _CAUSES)


def explain(client: str, server: str = "", status: t.Optional[int] = None) -> Problem:
    """Why a test gave no numbers: the most telling line of both outputs. status: the client's exit status (negative: signal)."""
    client, server = _cut(client), _cut(server)
    for pattern, cause, remedy in _COMPILED:
        for side, text in (("client", client), ("server", server)):
            found = pattern.search(text)
            if found:
                start = text.rfind("\n", 0, found.start()) + 1
                line = text[start:].split("\n", 1)[0].strip()
                values = {key: value or "" for key, value in found.groupdict().items()}
                return Problem(side, cause.format(found.group(), line=line, **values), remedy, line)
    last = [line.strip() for line in client.splitlines() if line.strip(" -*\t")]
    ending = f"with status {status}" if status is not None and status >= 0 else f"by signal {-(status or 0)}"
    cause = f"perftest ended {ending} and without numbers" if status is not None else "perftest gave no numbers"
    return Problem("client", cause, "run the command by hand on both hosts to see more", last[-1] if last else "")


def explain_senseless(figures: str) -> Problem:
    """Why figures are not a measurement; figures: as measured() gives them in `senseless`."""
    return Problem(
        "client",
        f"perftest printed figures that cannot be: {figures}",
        "measure again when the hosts have less to do: their clocks did not advance while they measured, or jumped",
        "",
    )


def timed_out(seconds: float, client: str, server: str = "") -> Problem:
    """Why a test did not end in time. A telling line in the outputs is better than the bare fact."""
    problem = explain(client, server)
    if problem.cause != "perftest gave no numbers":
        return problem
    connected = "remote address" in client or "remote address" in server
    return Problem(
        "client",
        "the test did not end within {:g} s, {}".format(
            seconds,
            "though the two sides had found each other"
            if connected
            else "the two sides did not even exchange their addresses, or the output of one was lost",
        ),
        "raise the time limit or lower the iterations if the devices are slow, else " + _LINK,
        "",
    )


# --- verdicts ---------------------------------------------------------------------------------------------------------


def figure_of(value: float) -> str:
    """Three significant digits, and no digit of the integer part lost."""
    return f"{round(value)}" if 1000 <= abs(value) < math.inf else f"{value:.3g}"


def judge_bandwidth(average_gbps: float, min_gbps: float, why: str = "") -> Verdict:
    """average against the floor, both Gb/s; why: where the floor comes from, in words."""
    reason = f" ({why})" if why else ""
    if average_gbps >= min_gbps:
        return Verdict("pass", f"{figure_of(average_gbps)} Gb/s >= {figure_of(min_gbps)} Gb/s", None)
    return Verdict(
        "fail",
        f"{figure_of(average_gbps)} Gb/s < {figure_of(min_gbps)} Gb/s{reason}",
        "compare link rate and PCI width and speed of both devices with what they can, look for errors in the port counters, "
        "for other traffic, and for a process on another NUMA node than the device",
    )


def judge_latency(typical_us: float, max_us: float, why: str = "") -> Verdict:
    """typical (median) latency against the bound, both microseconds."""
    reason = f" ({why})" if why else ""
    if typical_us <= max_us:
        return Verdict("pass", f"{figure_of(typical_us)} us <= {figure_of(max_us)} us", None)
    return Verdict(
        "fail",
        f"{figure_of(typical_us)} us > {figure_of(max_us)} us{reason}",
        "look for other traffic, for power saving states of the CPUs, for a congested or long path, and for errors in the port counters",
    )

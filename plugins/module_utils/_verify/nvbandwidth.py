# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth: matrices, sums, and what went wrong. Private to the collection. Pure.

Follows nvbandwidth 0.5 to 0.10 (output.cpp, testcases*.cpp): "Running NAME.", a title with the unit, a row of column numbers, rows of figures with N/A
where nothing is measured, and "SUM NAME figure". Titles say the unit: GB/s (10^9 bytes), and ns for latencies.
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._verify.findings import Finding, explained, head

__all__ = ["parse_nvbandwidth"]


@dataclass(frozen=True)
class Matrix:
    """One test. cells: rows of figures, None for N/A; sum: as printed, None when it was not; unit: GB/s or ns."""

    name: t.Optional[str]
    title: str
    unit: str
    cells: tuple[tuple[t.Optional[float], ...], ...]
    sum: t.Optional[float]

    @property
    def figures(self) -> tuple[float, ...]:
        return tuple(cell for row in self.cells for cell in row if cell is not None)


@dataclass(frozen=True)
class NvReport:
    """What an output says. waived: tests that this machine cannot do."""

    version: t.Optional[str]
    driver: t.Optional[str]
    started: tuple[str, ...]
    waived: int
    matrices: tuple[Matrix, ...]
    findings: tuple[Finding, ...]

    @property
    def sums(self) -> dict[str, float]:
        return {each.name: each.sum for each in self.matrices if each.name and each.sum is not None}


_LAUNCHER = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|\d{1,6}: )?")
# "memcpy CE ... bandwidth", "memory latency SM ...", "Device to Device Latency SM GPU(row) <-> GPU(column)"
_TITLE = re.compile(r"^\s{0,20}(mem\w{2,5} .{1,200}|\w.{0,100} [CG]PU\(.{1,100})\((GB/s|ns|us)\)\s*$")
_SUM = re.compile(r"^SUM (\S{1,100}) (\S{1,30})\s*$")
_RUNNING = re.compile(r"^Running (\S{1,100}?)\.?\s*$")
_CELL = re.compile(r"N/A|-?\d{1,15}(?:\.\d{1,10})?|nan|inf")
_MOST_SIDE = 2048
# how far a sum may be from that of the cells, which are rounded to two digits
_ROUNDED = 0.006

_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"\[?(?P<what>CUDA_ERROR_\w{1,60})[^\n]{0,120}",
        "CUDA failed: {what}",
        "see the Xid messages in the kernel log of the node, and nvidia-smi; for CUDA_ERROR_NOT_PERMITTED or INVALID_VALUE across nodes "
        "see that the Pod has a channel of its ComputeDomain (/dev/nvidia-caps-imex-channels)",
    ),
    (
        r"NVML_ERROR\w{0,60}|Failed to initialize NVML[^\n]{0,80}",
        "the driver does not answer ({0})",
        "compare the version of the driver with that of its libraries on the node (nvidia-smi)",
    ),
    (r"No CUDA-capable device|no CUDA devices? (?:found|detected)", "no GPU was found", "ask for GPUs in the Pod"),
    (
        r"Invalid (?:test|testcase)[^\n]{0,120}|unrecognised option[^\n]{0,80}",
        "this nvbandwidth does not know the test: {0}",
        "take an image with nvbandwidth 0.7 or newer, built with MPI for tests across nodes (MULTINODE=1)",
    ),
    (
        r"verification failed|[Mm]emory content mismatch|Data validation failed",
        "what was copied is not what arrived",
        "look for memory errors (ECC, Xid) of the GPUs, and errors of NVLink (nvidia-smi nvlink -e)",
    ),
    (
        r"There are not enough slots available|Host key verification failed|ssh: (?:Could not resolve|connect to host)[^\n]{0,200}",
        "the launcher could not start all ranks",
        "see that all workers run, their names resolve, and the image starts sshd",
    ),
)


def parse_nvbandwidth(text: str) -> NvReport:
    """Everything that an output says; any text is read, up to a bound."""
    lines = [_LAUNCHER.sub("", line, count=1) for line in head(text)]
    started: list[str] = []
    matrices: list[Matrix] = []
    waived = 0
    title: t.Optional[tuple[str, str]] = None
    cells: list[tuple[t.Optional[float], ...]] = []
    for line in lines:
        running, heading, total = _RUNNING.match(line), _TITLE.match(line), _SUM.match(line)
        if title and (running or heading or total):
            name = total.group(1) if total else started[-1] if started else None
            matrices.append(Matrix(name, *title, tuple(cells), _figure(total.group(2)) if total else None))
            title, cells = None, []
        if running:
            started.append(running.group(1))
        elif heading:
            title = (heading.group(1).strip(), heading.group(2))
        elif line.startswith("Waived:"):
            waived += 1
        elif title:
            row = _row(line)
            if row is not None and len(cells) < _MOST_SIDE:
                cells.append(row)
    if title:
        matrices.append(Matrix(started[-1] if started else None, *title, tuple(cells), None))
    whole = "\n".join(lines)
    return NvReport(
        version=_after("nvbandwidth Version", whole),
        driver=_after("Driver Version", whole),
        started=tuple(started),
        waived=waived,
        matrices=tuple(matrices),
        findings=(*explained(_CAUSES, whole), *_doubts(matrices)),
    )


def _after(label: str, text: str) -> t.Optional[str]:
    found = re.search(rf"(?m)^{label}: (\S{{1,60}})", text)
    return found.group(1) if found else None


def _figure(word: str) -> t.Optional[float]:
    """A figure that can be, None for N/A and all else."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _row(line: str) -> t.Optional[tuple[t.Optional[float], ...]]:
    """The cells of a row behind its number; the row of column numbers is none, since it has no number of its own."""
    words = line.split()
    if len(words) < 2 or len(words) > _MOST_SIDE or not all(_CELL.fullmatch(word) for word in words):
        return None
    if not re.fullmatch(r"\d{1,5}", words[0]) or all(re.fullmatch(r"\d{1,5}", word) for word in words):
        return None
    return tuple(_figure(word) for word in words[1:])


def _doubts(matrices: t.Sequence[Matrix]) -> t.Iterator[Finding]:
    """What an output proves against itself."""
    if not any(each.figures for each in matrices):
        yield Finding("nvbandwidth printed no figures", "see the log of the launcher", "")
    for each in matrices:
        figures = each.figures
        if any(figure == 0 for figure in figures):
            yield Finding(
                f"{each.name or each.title}: a pair of GPUs moved nothing (0 {each.unit})",
                "look at NVLink and PCIe between them (nvidia-smi topo -m, nvidia-smi nvlink -s)",
                each.title,
            )
        if each.sum is None and figures:
            yield Finding(
                f"{each.name or each.title}: the matrix has no sum below it: a part of the output is missing",
                "see the log of the launcher: nvbandwidth may have ended in this test",
                each.title,
            )
        if each.sum is not None and figures and abs(sum(figures) - each.sum) > _ROUNDED * len(figures) + 0.01:
            yield Finding(
                f"{each.name}: the figures do not add up to the sum that is printed: a part of the output is missing",
                "keep the whole log of the launcher",
                f"SUM {each.name} {each.sum}",
            )

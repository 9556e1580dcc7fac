# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrices of nvbandwidth."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._verify.nvbandwidth import parse_nvbandwidth

NAME = "multinode_device_to_device_memcpy_read_ce"
HEAD = "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nDriver Version: 580.95.05\n\n"
Cells = list[list[float | None]]


def a_test(cells: Cells, name: str = NAME, total: float | None = None, unit: str = "GB/s", prefix: str = "") -> str:
    lines = [f"Running {name}.", f"memcpy CE GPU(row) -> GPU(column) bandwidth ({unit})"]
    lines.append("".join(f"{number:>10}" for number in range(len(cells[0]))))
    for number, row in enumerate(cells):
        lines.append(f"{number:>2}" + "".join(f"{'N/A' if cell is None else f'{cell:.2f}':>10}" for cell in row))
    figures = [cell for row in cells for cell in row if cell is not None]
    lines += ["", f"SUM {name} {sum(figures) if total is None else total:.2f}", ""]
    return "\n".join(prefix + line for line in lines)


def square(side: int, figure: float = 26.34) -> Cells:
    return [[None if row == column else figure for column in range(side)] for row in range(side)]


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(0.01, 5000)), min_size=3, max_size=3).filter(
            lambda row: row != [None] * 3
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["", "0: ", "[1,0]<stdout>:"]),
    st.sampled_from(["GB/s", "ns"]),
)
def test_matrices_survive_the_programs_own_format(cells: Cells, prefix: str, unit: str) -> None:
    report = parse_nvbandwidth(HEAD + a_test(cells, unit=unit, prefix=prefix))
    (matrix,) = report.matrices
    assert matrix.cells == tuple(tuple(None if cell is None else float(f"{cell:.2f}") for cell in row) for row in cells)
    assert (matrix.name, matrix.unit) == (NAME, unit)
    assert report.sums == {NAME: matrix.sum}
    assert (report.version, report.driver, report.started) == ("v0.8", "580.95.05", (NAME,))
    assert report.findings == ()


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        ("memcpy CE GPU(row) <- GPU(column) bandwidth", "GB/s"),
        ("memcpy local GPU(column) bandwidth", "GB/s"),
        ("memcpy CE GPU(columns) <- CPU(rows) bandwidth", "GB/s"),
        ("memory latency SM CPU(row) <-> GPU(column)", "ns"),
        ("Device to Device Latency SM GPU(row) <-> GPU(column)", "ns"),
        ("Multinode Device to Device Latency SM GPU(row) <-> GPU(column) across nodes", "ns"),
    ],
)
def test_each_title_begins_a_matrix(title: str, unit: str) -> None:
    text = a_test([[None, 826.42], [825.83, None]], unit=unit)
    report = parse_nvbandwidth(HEAD + text.replace("memcpy CE GPU(row) -> GPU(column) bandwidth", title))
    (matrix,) = report.matrices
    assert (matrix.title, matrix.unit, matrix.figures) == (title, unit, (826.42, 825.83))
    assert report.findings == ()


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    parse_nvbandwidth(text)
    parse_nvbandwidth(HEAD + a_test(square(2)) + text)
    parse_nvbandwidth("memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n" + text)


@pytest.mark.parametrize("piece", [" ", "\n", "a", "0: ", "mem", "memcpy x (GB/s)\n", "SUM ", "0 1.5\n"])
def test_what_a_node_sends_stops_nobody(piece: str) -> None:
    assert [
        row for matrix in parse_nvbandwidth(piece * (4_000_000 // len(piece))).matrices for row in matrix.cells
    ] == []


def test_several_tests_have_their_matrices_and_waived_ones_are_counted() -> None:
    text = HEAD + a_test(square(2), "one") + "Waived: \nWaived:\n" + a_test([[369.36]], "two")
    report = parse_nvbandwidth(text)
    assert [matrix.name for matrix in report.matrices] == ["one", "two"]
    assert report.matrices[0].figures == (26.34, 26.34)
    assert (report.waived, report.started) == (2, ("one", "two"))


def test_a_matrix_without_its_sum_is_incomplete() -> None:
    """The program ends each with it, so that one without is cut off."""
    report = parse_nvbandwidth(HEAD + a_test(square(3), "whole") + a_test(square(3)).partition("SUM")[0])
    matrix = report.matrices[-1]
    assert (matrix.name, matrix.sum, len(matrix.cells)) == (NAME, None, 3)
    (missing,) = report.findings
    assert missing.cause == f"{NAME}: the matrix has no sum below it: a part of the output is missing"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "nvbandwidth printed no figures"),
        (a_test(square(2, 0.0)), "a pair of GPUs moved nothing (0 GB/s)"),
        (a_test(square(3), total=500.0), "do not add up to the sum"),
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemImportFromShareableHandle",
            "CUDA_ERROR_NOT_PERMITTED",
        ),
        ("NVML_ERROR_LIB_RM_VERSION_MISMATCH", "the driver does not answer"),
        ("Invalid testcase multinode_x", "does not know the test"),
        ("There are not enough slots available in the system", "could not start all ranks"),
        ("WARNING: verification failed at 5", "what was copied is not what arrived"),
    ],
)
def test_what_went_wrong_is_a_finding_with_words(text: str, cause: str) -> None:
    findings = parse_nvbandwidth(text).findings
    assert any(cause in finding.cause for finding in findings)
    assert all(finding.remedy for finding in findings)


@pytest.mark.parametrize("cell", ["nan", "inf", "-5.00", "x"])
def test_an_impossible_figure_is_left_out(cell: str) -> None:
    (matrix,) = parse_nvbandwidth(a_test(square(2)).replace("26.34", cell, 1)).matrices
    assert matrix.figures in ((26.34,), (26.34, 26.34)[:1])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of nccl-tests and nvbandwidth that others published, which lie beside the checkout (../shared/captures/tools-*)."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._verify.nccl_tests import Half, parse_nccl
from ansible_collections.fabric.rdma.plugins.module_utils._verify.nvbandwidth import parse_nvbandwidth


def _half(half: Half | None) -> dict[str, t.Any] | None:
    return half and {"time_us": half.time_us, "algbw": half.algbw, "busbw": half.busbw, "err": half.wrong or "N/A"}


def _nccl(text: str) -> dict[str, t.Any]:
    report = parse_nccl(text)
    last = report.rows[-1]
    return {
        "n_rows": len(report.rows),
        "avg_bus_bandwidth": report.average_busbw,
        "out_of_bounds": None if report.out_of_bounds is None else f"{report.out_of_bounds} OK",
        "last_size_bytes": last.size_bytes,
        "out_of_place": _half(last.out_of_place),
        "in_place": _half(last.in_place),
    }


def _nvbandwidth(text: str) -> dict[str, t.Any]:
    report = parse_nvbandwidth(text)
    return {
        "version": report.version,
        "driver": report.driver,
        "sums": report.sums,
        "tests_started": list(report.started),
        "waived": report.waived,
    }


@pytest.mark.captures
@pytest.mark.parametrize(("tool", "read"), [("nccl-tests", _nccl), ("nvbandwidth", _nvbandwidth)])
def test_published_outputs_are_read_as_their_authors_did(
    tool: str,
    read: t.Callable[[str], dict[str, t.Any]],
    shared_captures: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = shared_captures / f"tools-{tool}"
    if not directory.is_dir():
        pytest.skip(f"no recorded outputs at {directory}")
    differing, count = [], 0
    truth = json.loads((directory / "expected.json").read_text())
    for name, fields in truth.items():
        found = read((directory / name).read_text(errors="replace"))
        for key, value in fields.items():
            if key in found:
                count += 1
                if found[key] != value:
                    differing.append(f"{name}: {key} is {found[key]!r}, expected {value!r}")
    with capsys.disabled():
        print(f"\n{tool}: {count - len(differing)} of {count} fields of {len(truth)} outputs agree")
    assert not differing, "\n".join(differing)
    assert count


@pytest.mark.captures
def test_nothing_is_wrong_with_published_matrices(shared_captures: Path) -> None:
    """All of them are of machines that were well: no finding is one too many."""
    directory = shared_captures / "tools-nvbandwidth"
    if not directory.is_dir():
        pytest.skip(f"no recorded outputs at {directory}")
    for path in directory.glob("*.txt"):
        assert parse_nvbandwidth(path.read_text(errors="replace")).findings == ()

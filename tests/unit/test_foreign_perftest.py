# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of perftest that others published, which lie beside the checkout (../shared/captures/tools-perftest)."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    BandwidthRow,
    LatencyRow,
    Report,
    parse,
)

ENOUGH = 0.98


def _plain(row: BandwidthRow | LatencyRow) -> list[t.Any]:
    """A row as the program printed it."""
    if isinstance(row, BandwidthRow):
        return [row.message_bytes, row.iterations, row.peak or 0.0, row.average, row.rate_mpps]
    return [
        row.message_bytes,
        row.iterations,
        row.minimum,
        row.maximum,
        row.typical,
        row.average,
        row.stdev,
        row.p99,
        row.p999,
    ]


def _fields(report: Report) -> dict[str, t.Any]:
    averages = [row.average for row in report.bandwidth]
    return {
        "kind": report.kind,
        "test": report.test,
        "unit": report.units[0] if report.units else None,
        "device": report.device,
        "link_type": report.link_type,
        "mtu": report.mtu_bytes,
        "qps": report.qps,
        "n_rows": len(report.rows),
        "first_row": _plain(report.rows[0]) if report.rows else None,
        "last_row": _plain(report.rows[-1]) if report.rows else None,
        "max_bw_average": max(averages) if averages else None,
    }


def _expected(key: str, value: t.Any) -> t.Any:
    """The truth in our words: programs instead of titles, bytes instead of "4096[B]"."""
    if key == "mtu" and value is not None:
        return int(re.sub(r"\D", "", value))
    title = re.fullmatch(r"RDMA_(\w+) (BW|Latency) Test", str(value)) if key == "test" else None
    return f"ib_{title[1].lower()}_{'bw' if title[2] == 'BW' else 'lat'}" if title else value


@pytest.mark.captures
def test_published_outputs_are_read_as_their_authors_did(
    shared_captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shared_captures / "tools-perftest"
    assert directory.is_dir(), f"no recorded outputs at {directory}"
    differing = []
    count = 0
    truth = json.loads((directory / "expected.json").read_text())
    for name, fields in truth.items():
        found = _fields(parse((directory / name).read_text(errors="replace")))
        for key, value in fields.items():
            if key in found:
                count += 1
                if found[key] != _expected(key, value):
                    differing.append(f"{name}: {key} is {found[key]!r}, expected {value!r}")
    agreeing = count - len(differing)
    with capsys.disabled():
        print(
            f"\nperftest: {agreeing} of {count} fields of {len(truth)} outputs agree ({100 * agreeing / count:.1f} %)"
        )
    assert agreeing >= ENOUGH * count, "\n".join(differing)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary: it fits a terminal."""

from __future__ import annotations

from typing import Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import SUMMARY_WIDTH
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import summary_of


def test_the_summary_fits_a_terminal(sample: dict[str, Any]) -> None:
    lines = summary_of(sample).splitlines()
    assert lines[0] == "✓  Group ib-a100 is ready"
    assert "✓  ib-a100  3      rdma/rdma_a100  1 x 200 Gb/s InfiniBand  194 to 196 Gb/s" in lines
    sample["groups"].update({f"a-group-with-a-rather-long-name-{number}": ["nowhere"] for number in range(8)})
    sample["plan"]["groups"]["ib-a100"]["warnings"] = ["x" * 300, "word " * 80]
    lines = summary_of(sample).splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= SUMMARY_WIDTH for line in lines)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the report share."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.contracts import evidence_of
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    a100_plan,
    facts_of,
    measurement,
)


@pytest.fixture
def sample() -> dict[str, Any]:
    """Three A100 nodes of two kinds, a plan, two measurements."""
    hosts = ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
    tests = [measurement("ib-a100-1", "ib-a100-3", 195.6), measurement("ib-a100-3", "ib-a100-1", 194.0)]
    return {
        "facts": {host: facts_of(host) for host in hosts},
        "plan": a100_plan(["ib-a100-1", "ib-a100-3"], ["ib-a100-2"]),
        "evidence": [evidence_of("ib-a100", *tests)],
        "groups": {"ib-a100": hosts},
    }

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests share: where things lie, and how hypothesis behaves on a slow machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ansible_collections.fabric.rdma.tests.unit.contracts import watch

ROOT = Path(__file__).resolve().parents[2]

# Two busy cores must not turn into a failure; a failing example is printed, so a run can be repeated exactly.
settings.register_profile(
    "fabric", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fabric")

# No test makes a plan, evidence or outcomes that their schemas do not allow.
watch()


@pytest.fixture(scope="session")
def repo() -> Path:
    """Root directory of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_captures() -> Path:
    """Directory of recorded nodes beside the checkout; skips the test where it is absent."""
    captures = ROOT.parent / "shared" / "captures"
    if not captures.is_dir():
        pytest.skip(f"no recorded nodes at {captures}")
    return captures

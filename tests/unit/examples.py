# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many examples a test of a rule tries that sets this itself."""

from __future__ import annotations

from hypothesis import settings

FEW = 15


def examples(count: int) -> settings:
    """So many, and few in the inner loop (the profile `check` of conftest.py), whose own number a test's would replace."""
    few = settings.get_current_profile_name() == "check"
    return settings(max_examples=min(count, FEW) if few else count)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.models import _MODELS
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_cards import ROWS, check_cards, release_number

# -- Cards and releases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "method", "version", "verdict"),
    [
        # ConnectX-3, 3 Pro, Connect-IB: MLNX_OFED 4.9 LTS only
        ("ConnectX-3", "mlnx_iso", "4.9-7.1.0.0", "fine"),
        ("ConnectX-3", "mlnx_iso", "5.0-2.1.8.0", "refused"),
        ("ConnectX-3 Pro", "mlnx_iso", "5.1-0.6.6.0", "refused"),
        ("Connect-IB", "mlnx_iso", "23.10-0.5.5.0", "refused"),
        ("ConnectX-3", "doca", "2.9.1", "refused"),
        ("Connect-IB", "doca", "3.2.0", "refused"),
        # ConnectX-4: last in DOCA 2.9 LTS, MLNX_OFED 24.10 and 23.10
        ("ConnectX-4", "doca", "2.8.0", "fine"),
        ("ConnectX-4", "doca", "2.9.3", "fine"),
        ("ConnectX-4", "doca", "2.10.0", "refused"),
        ("ConnectX-4", "doca", "3.2.0", "refused"),
        ("ConnectX-4 Virtual Function", "doca", "3.0.0", "refused"),
        ("ConnectX-4", "mlnx_iso", "24.10-1.1.4.0", "fine"),
        ("ConnectX-4", "mlnx_iso", "23.10-2.1.3.1", "fine"),
        # ConnectX-4 Lx, 5: listed for DOCA 2.9; what newer ones list is not settled
        ("ConnectX-4 Lx", "doca", "2.9.1", "fine"),
        ("ConnectX-4 Lx", "doca", "2.10.0", "unsure"),
        ("ConnectX-5", "doca", "3.2.0", "unsure"),
        ("ConnectX-5 Ex", "doca", "2.9.1", "fine"),
        ("ConnectX-5", "mlnx_iso", "5.8-1.0.1.1", "fine"),
        # ConnectX-6 to 7, BlueField-2: all, and the last of MLNX_OFED
        ("ConnectX-6", "doca", "3.4.0", "fine"),
        ("ConnectX-6 Dx", "doca", "2.9.1", "fine"),
        ("ConnectX-6 Lx", "mlnx_iso", "24.10-1.1.4.0", "fine"),
        ("ConnectX-7", "doca", "3.4.0", "fine"),
        ("ConnectX-7", "mlnx_iso", "24.10-1.1.4.0", "fine"),
        ("BlueField-2", "mlnx_iso", "24.10-1.1.4.0", "fine"),
        ("BlueField-2", "doca", "3.2.0", "fine"),
        # BlueField-3: DOCA-Host only
        ("BlueField-3", "doca", "2.9.1", "fine"),
        ("BlueField-3", "mlnx_iso", "24.10-1.1.4.0", "refused"),
        # ConnectX-8: not in DOCA 2.9 LTS, but for a build of its own
        ("ConnectX-8", "doca", "2.9.1", "refused"),
        ("ConnectX-8", "doca", "2.9.0_CX8", "fine"),
        ("ConnectX-8", "doca", "2.10.0", "fine"),
        ("ConnectX-8", "doca", "3.1.0", "fine"),
        ("ConnectX-8", "mlnx_iso", "24.10-1.1.4.0", "refused"),
        # newer than the table
        ("ConnectX-9", "doca", "3.4.0", "unsure"),
        ("BlueField-4", "mlnx_iso", "24.10-1.1.4.0", "refused"),
        ("ConnectX Family mlx5Gen Virtual Function", "doca", "2.9.1", "unsure"),
        # not of this vendor, or not known
        ("Elastic Fabric Adapter (EFA)", "doca", "3.4.0", "fine"),
        (None, "doca", "3.4.0", "fine"),
        # the kernel's own driver has no release
        ("ConnectX-3", "inbox", "", "fine"),
        ("ConnectX-3", "none", "", "fine"),
    ],
)
def test_a_release_is_judged_by_each_card(model: str | None, method: str, version: str, verdict: str) -> None:
    plan = check_cards([("mlx5_0 at 0000:3b:00.0", model)], method, version)
    assert (len(plan.refusals), len(plan.warnings)) == {"fine": (0, 0), "refused": (1, 0), "unsure": (0, 1)}[verdict]
    for text in (*plan.refusals, *plan.warnings):
        assert text.startswith(f"mlx5_0 at 0000:3b:00.0 ({str(model).replace(' Virtual Function', '')})")
        assert version in text


def test_every_model_has_a_row() -> None:
    """But the first BlueField, of which the release notes no longer speak."""
    rows = [model for row in ROWS for model in row.models]
    assert len(rows) == len(set(rows))
    assert {model for (vendor, _id), model in _MODELS.items() if vendor == "15b3"} - set(rows) == {"BlueField"}


@given(st.sampled_from(ROWS), st.integers(2, 4), st.integers(0, 20))
def test_a_refusal_says_what_would_do(row: Any, major: int, minor: int) -> None:
    for text in check_cards([("x", row.models[0])], "doca", f"{major}.{minor}.0").refusals:
        assert row.text in text
        assert text.endswith(row.remedy)
        assert row.remedy


@pytest.mark.parametrize(
    ("version", "number"),
    [("2.9.1", (2, 9)), ("2.10", (2, 10)), ("2.9.0_CX8", (2, 9)), ("24.10-1.1.4.0", (24, 10)), ("4.9", (4, 9))],
)
def test_a_release_is_judged_by_its_first_two_numbers(version: str, number: tuple[int, int]) -> None:
    assert release_number(version) == number


@given(st.text(max_size=12))
def test_a_release_has_two_numbers_or_is_refused(version: str) -> None:
    with contextlib.suppress(WishError):
        assert len(release_number(version)) == 2

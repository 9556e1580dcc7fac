# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests of the checkout: in continuous integration, and in the stages of tools/test, a skipped test is a failed one.

A test that is skipped where a program is missing, or a right, or other people's definitions, proves nothing, and nobody sees it. The
exceptions are listed here: what they wait for is somebody's own cluster, and not a machine that is set up.
"""

from __future__ import annotations

import os
import typing as t

import pytest

MAY_SKIP = (
    # KUBECONFIG is set
    "the cluster of KUBECONFIG is not ours",
)


def _all_has_to_run() -> bool:
    """tools/test does not set CI: with it, sanity would want every Python of nodes, and other programs would be others, too."""
    return os.environ.get("CI", "") not in ("", "0", "false") or os.environ.get("FABRIC_RDMA_SKIPS") == "fail"


def _forbidden(report: t.Any) -> str | None:
    """Why a skip is none that is allowed; None for everything else."""
    if not _all_has_to_run() or not report.skipped or hasattr(report, "wasxfail"):
        return None
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    return None if reason.startswith(MAY_SKIP) else reason


def _judge(report: t.Any) -> None:
    reason = _forbidden(report)
    if reason is not None:
        report.outcome = "failed"
        report.longrepr = f"skipped where all has to run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> t.Generator[None, t.Any, t.Any]:
    """A test."""
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> t.Generator[None, t.Any, t.Any]:
    """A file of tests."""
    report = yield
    _judge(report)
    return report

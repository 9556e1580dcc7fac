# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collector is as it was afterwards, whatever happened."""

from __future__ import annotations

import contextlib
import gc

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.module_utils._plan import cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._collector import paused


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_after_a_failure_too(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with contextlib.suppress(ZeroDivisionError), paused():
            seen = gc.isenabled()
            raise ZeroDivisionError
        assert (seen, gc.isenabled()) == (False, enabled)
    finally:
        (gc.enable if before else gc.disable)()


def test_a_plan_is_made_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = cluster.plan_groups

    def plan_groups(*arguments: object, **named: object) -> object:
        seen.append(gc.isenabled())
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster, "plan_groups", plan_groups)
    assert gc.isenabled()
    rdma_selectors({}, {})
    assert (seen, gc.isenabled()) == ([False], True)

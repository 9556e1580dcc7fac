# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plays the device plugins of the scenarios' nodes looks at all Pods once for each change, and after a failure again."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.tests.cluster.kubelets import report_once


class Store:
    """An API server without nodes and Pods. It counts what it is asked for."""

    def __init__(self) -> None:
        self.revision, self.listed, self.down = 7, 0, False

    def request(
        self, method: str, path: str, _doing: str, query: t.Sequence[tuple[str, str]] = ()
    ) -> dict[str, dict[str, str]]:
        assert (method, path, query) == ("GET", "/api/v1/nodes", [("limit", "1")])
        return {"metadata": {"resourceVersion": str(self.revision)}}

    def list(self, _path: str, _doing: str, **_query: str) -> list[dict[str, t.Any]]:
        if self.down:
            raise KubeError("cannot list: it is down", 503)
        self.listed += 1
        return []


def test_nothing_is_looked_at_while_nothing_was_written() -> None:
    store = Store()
    seen = report_once(t.cast(t.Any, store), "")
    whole = store.listed
    assert whole > 0
    assert report_once(t.cast(t.Any, store), seen) == seen
    assert store.listed == whole
    store.revision += 1
    assert report_once(t.cast(t.Any, store), seen) != seen
    assert store.listed == 2 * whole


def test_a_look_that_failed_is_told_and_done_again() -> None:
    store = Store()
    seen = report_once(t.cast(t.Any, store), "")
    whole = store.listed
    store.revision += 1
    store.down = True
    with pytest.raises(KubeError):
        report_once(t.cast(t.Any, store), seen)
    store.down = False
    # nothing else was written meanwhile
    assert report_once(t.cast(t.Any, store), seen) == str(store.revision)
    assert store.listed == 2 * whole

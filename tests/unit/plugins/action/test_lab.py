# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of lab, in check mode: what they would start is planned and told. Nodes boot in tests/integration/test_lab.py and molecule."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.action.lab import ActionModule
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples


def test_the_examples_say_what_they_would_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # nothing is built yet
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(_module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        given = {**arguments, "directory": str(tmp_path / arguments["directory"])}
        task = SimpleNamespace(async_val=0, check_mode=True, diff=True, action="fabric.rdma.lab", args=given)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
        return ActionModule(task, connection, SimpleNamespace(), None, None, None).run(task_vars={})

    *started, stopped = run_examples("lab", call)
    assert [result["changed"] for result in started] == [True] * 4
    names = [[line.split()[0] for line in result["diff"]["after"].splitlines()] for result in started]
    assert names == [["lab1", "lab2"], ["lab1", "lab2", "lab3"], ["lab1", "lab2"], ["lab1", "lab2", "control"]]
    assert (stopped["changed"], stopped["nodes"]) == (False, [])
    assert list(tmp_path.iterdir()) == []

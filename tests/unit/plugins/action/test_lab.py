# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lab as a task, without a node that boots, which tests/integration/test_lab.py and molecule have: what is left of a lab goes, and what the
examples would start is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.fabric.rdma.plugins.action.lab import ActionModule
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import content, differs, insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import a_lab


def act(directory: Path, check: bool = False, **arguments: Any) -> dict[str, Any]:
    given = {**arguments, "directory": str(directory)}
    task = SimpleNamespace(async_val=0, check_mode=check, diff=True, action="fabric.rdma.lab", args=given)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
    return ActionModule(task, connection, SimpleNamespace(), None, None, None).run(task_vars={})


def test_a_lab_goes_as_predicted(tmp_path: Path) -> None:
    """A check changes nothing, a second run has nothing to do, and the difference is there exactly when something changes."""
    directory = (tmp_path / "lab").resolve()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        a_lab(directory, foreign.pid)
        foreign.kill()
    results = []

    def call(check: bool = False, **arguments: Any) -> dict[str, Any]:
        kept = content(tmp_path)
        result = act(directory, check, **arguments)
        assert not check or content(tmp_path) == kept
        insist_on_return("lab", result)
        assert differs(result.get("diff")) is result["changed"]
        results.append(result)
        return result

    assert [node["running"] for node in call(state="status")["nodes"]] == [False]
    again = call(True, state="present", nodes=["lab1"])
    assert (again["changed"], again["diff"]["before"]) == (True, "lab1 stopped 198.51.100.1\n")
    assert "lab1 running" in again["diff"]["after"]
    predicted, gone = call(True, state="absent"), call(state="absent")
    assert (gone["changed"], gone["diff"], gone["nodes"]) == (True, predicted["diff"], [])
    assert not directory.exists()
    for check in (True, False):
        assert call(check, state="absent")["changed"] is False
    for wrong in ({"state": "gone"}, {"nodes": ["../evil"]}):
        with pytest.raises(AnsibleActionFail):
            act(directory, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_the_examples_say_what_they_would_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # nothing is built yet
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(_module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        directory = tmp_path / arguments["directory"]
        return act(directory, True, **{key: value for key, value in arguments.items() if key != "directory"})

    *started, stopped = run_examples("lab", call)
    assert [result["changed"] for result in started] == [True] * 4
    names = [[line.split()[0] for line in result["diff"]["after"].splitlines()] for result in started]
    assert names == [["lab1", "lab2"], ["lab1", "lab2", "lab3"], ["lab1", "lab2"], ["lab1", "lab2", "control"]]
    assert (stopped["changed"], stopped["nodes"]) == (False, [])
    assert list(tmp_path.iterdir()) == []

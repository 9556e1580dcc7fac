# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules whose result is as long as the cluster is large: what was read is hidden, what is wrong is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.utils.display import Display

from ansible_collections.fabric.rdma.plugins.action import cluster_snapshot, cluster_state, kubernetes_info
from ansible_collections.fabric.rdma.plugins.plugin_utils import _quiet_action


def act(monkeypatch: pytest.MonkeyPatch, action: Any, answer: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(result, modules that were run)"""
    task = SimpleNamespace(async_val=0, check_mode=False, diff=False, action="", args={"context": "c"})
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
    plugin, ran = action.ActionModule(task, connection, SimpleNamespace(), None, None, None), []

    def execute(module_name: str, module_args: dict[str, Any], **_others: Any) -> dict[str, Any]:
        assert module_args == {"context": "c"}
        ran.append(module_name)
        return answer

    monkeypatch.setattr(plugin, "_execute_module", execute)
    return dict(plugin.run(task_vars={})), ran


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (cluster_snapshot, "fabric.rdma.cluster_snapshot"),
        (cluster_state, "fabric.rdma.cluster_state"),
        (kubernetes_info, "fabric.rdma.kubernetes_info"),
    ],
)
def test_what_was_read_is_for_whoever_registers_it(monkeypatch: pytest.MonkeyPatch, action: Any, name: str) -> None:
    result, ran = act(monkeypatch, action, {"changed": False, "nodes": {"n1": {}}})
    assert (result["nodes"], result["_ansible_no_log"], ran) == ({"n1": {}}, True, [name])


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"unreachable": True, "msg": "no"}])
def test_a_failure_is_shown(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    assert "_ansible_no_log" not in act(monkeypatch, cluster_state, answer)[0]


@pytest.mark.parametrize("shows_them", [True, False], ids=["from 2.19 on", "until 2.18"])
def test_a_warning_is_shown_once(monkeypatch: pytest.MonkeyPatch, shows_them: bool) -> None:
    """Of a result that is hidden, ansible-core shows it from 2.19 on; before, the action does."""
    said: list[str] = []
    monkeypatch.setattr(Display(), "warning", said.append)
    monkeypatch.setattr(_quiet_action, "SHOWS_WARNINGS", shows_them)
    result = act(monkeypatch, cluster_state, {"changed": False, "warnings": ["look"]})[0]
    assert (result["warnings"], result["_ansible_no_log"]) == (["look"], True)
    assert said == ([] if shows_them else ["look"])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the answer of a node becomes facts: a node that is in wrong hands answers what it likes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.action.ib_facts import ActionModule

FOUND = {"schema": 1, "warnings": []}


def answered(monkeypatch: pytest.MonkeyPatch, answer: Any, facts: Any = None) -> dict[str, Any]:
    task = SimpleNamespace(async_val=0, check_mode=False, diff=False, action="fabric.rdma.ib_facts", args={})
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"), has_pipelining=True)
    plugin = ActionModule(task, connection, SimpleNamespace(), None, None, None)

    def execute(**_arguments: Any) -> Any:
        # as Ansible does it: what it has found of the interpreter, it adds itself
        plugin._discovered_interpreter_key = "discovered_interpreter_python"
        plugin._discovered_interpreter = "/usr/bin/python3"
        return answer

    monkeypatch.setattr(plugin, "_execute_module", execute)
    return plugin.run(task_vars={"inventory_hostname": "n", "ansible_facts": facts or {}})


def test_only_the_fact_rdma_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"rdma_groups": ["all"], "ofed_key": "/etc/shadow", "distribution": "x", "ansible_host": "elsewhere"}
    result = answered(monkeypatch, {"changed": False, "ansible_facts": {**others, "rdma": FOUND}})
    gathered = result["ansible_facts"]["rdma"].pop("gathered")
    assert result["ansible_facts"] == {"rdma": FOUND}
    assert gathered.endswith("Z")


def test_the_time_is_that_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(monkeypatch, {"ansible_facts": {"rdma": {**FOUND, "gathered": "1970-01-01T00:00:00Z"}}})
    assert result["ansible_facts"]["rdma"]["gathered"] > "2026"


def test_the_interpreter_is_what_ansible_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(
        monkeypatch, {"ansible_facts": {"rdma": FOUND, "discovered_interpreter_python": "/tmp/somebody-elses"}}
    )
    assert set(result["ansible_facts"]) == {"rdma", "discovered_interpreter_python"}
    assert result["ansible_facts"]["discovered_interpreter_python"] == "/usr/bin/python3"


@pytest.mark.parametrize("facts", [None, {}, [], "x", {"rdma": None}, {"rdma": []}, {"distribution": "x"}])
def test_an_answer_without_the_fact_is_a_failure(monkeypatch: pytest.MonkeyPatch, facts: Any) -> None:
    result = answered(monkeypatch, {"ansible_facts": facts})
    assert (result["failed"], result["msg"]) == (True, "host n returned no facts named rdma")
    assert "ansible_facts" not in result


def test_a_module_that_fails_gives_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(monkeypatch, {"failed": True, "msg": "no", "ansible_facts": {"rdma": FOUND}})
    assert result["msg"] == "no"
    assert "ansible_facts" not in result


def test_facts_that_are_variables_of_ours_are_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(monkeypatch, {"ansible_facts": {"rdma": FOUND}}, {"rdma_groups": ["all"]})
    assert result["failed"]
    assert "rdma_groups" in result["msg"]
    assert "ansible_facts" not in result

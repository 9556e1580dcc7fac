# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""quiet_value as a task: the value comes back as it was given, once and again, in a check as in a run."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.fabric.rdma.plugins.action.quiet_value import ActionModule
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return


def act(arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
    given = {"async_val": 0, "check_mode": check, "diff": True, "action": "fabric.rdma.quiet_value"}
    task = SimpleNamespace(**given, args=arguments)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
    return dict(ActionModule(task, connection, SimpleNamespace(), None, None, None).run(task_vars={}))


@pytest.mark.parametrize("value", [{"groups": {"a": [1]}}, ["x"] * 1000, "text", "", 0, None, False])
def test_a_value_comes_back_unchanged_and_no_run_of_it_is_a_change(value: Any) -> None:
    kept = copy.deepcopy(value)
    results = [act({"value": value}, check) for check in (True, False, False, True)]
    for result in results:
        assert (result["value"], result["changed"], result["_ansible_no_log"]) == (kept, False, True)
        assert "diff" not in result
        insist_on_return("quiet_value", {key: each for key, each in result.items() if not key.startswith("_")})
    assert results == [results[0]] * 4
    assert value == kept


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"valu": 1}, {"value": "secret", "more": "secret"}])
def test_bad_input_is_named_by_its_options(arguments: dict[str, Any], check: bool) -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        act(arguments, check)
    assert f"quiet_value has one option, value, and was given {sorted(arguments)}" in str(caught.value)
    # not even by accident
    assert "secret" not in str(caught.value)

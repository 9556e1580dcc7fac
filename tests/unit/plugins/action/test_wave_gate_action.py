# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""wave_gate as a task, with the inventory and variables of Ansible: what it says again, in a check, and of what makes no sense."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.fabric.rdma.plugins.action.wave_gate import ActionModule
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return

Json = dict[str, Any]


class Run:
    """A play of two hosts, each of which is a wave."""

    def __init__(self) -> None:
        loader = DataLoader()
        self.inventory = InventoryManager(loader, sources="n1,n2,")
        self.variables = VariableManager(loader, self.inventory)
        self.hostvars = HostVars(self.inventory, self.variables, loader)

    def act(self, host: str, check: bool = False, ignore: bool = False, **arguments: Any) -> Json:
        self.inventory.restrict_to_hosts([self.inventory.get_host(host)])
        given = {"async_val": 0, "check_mode": check, "diff": True, "action": "fabric.rdma.wave_gate"}
        task = SimpleNamespace(**given, args=arguments, register="ofed_begun", ignore_errors=ignore)
        task.get_play = lambda: SimpleNamespace(order=None)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
        both = ["n1", "n2"]
        variables = {"inventory_hostname": host, "ansible_play_hosts_all": both, "ansible_play_hosts": both}
        variables |= {"ansible_current_hosts": both, "ansible_failed_hosts": [], "hostvars": self.hostvars}
        return dict(ActionModule(task, connection, SimpleNamespace(), None, None, None).run(task_vars=variables))

    def register(self, host: str, name: str, result: Json) -> None:
        self.variables.set_nonpersistent_facts(host, {name: result})


@pytest.mark.parametrize("state", ["look", "begin"])
def test_it_may_be_asked_again_and_a_check_says_the_same(state: str) -> None:
    run = Run()
    results = [run.act("n1", check, state=state) for check in (True, False, False, True)]
    for result in results:
        assert result["changed"] is False
        assert "diff" not in result
        insist_on_return("wave_gate", result)
        # a look begins nothing
        assert ("at" in result) is (state == "begin")
    times = [result["at"] for result in results if "at" in result]
    assert times == sorted(times)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("state", ["look", "begin"])
def test_the_next_wave_waits_for_the_end_of_a_change(state: str, check: bool) -> None:
    run = Run()
    begun = run.act("n1", state="begin")
    run.register("n1", "ofed_begun", begun)
    # the host itself may try again
    assert run.act("n1", check, state="begin")["changed"] is False
    for _again in range(2):
        with pytest.raises(AnsibleError, match=r"n2 is left as it is: n1, of an earlier wave, has begun .*ofed"):
            run.act("n2", check, state=state)
    run.register("n1", "ofed_ended", {**begun, "at": begun["at"] + 1})
    assert run.act("n2", check, state=state)["changed"] is False


def test_no_change_begins_where_errors_are_ignored_but_a_check_may() -> None:
    run = Run()
    with pytest.raises(AnsibleError, match="n1 is left as it is: ignore_errors is in effect here"):
        run.act("n1", ignore=True, state="begin")
    assert run.act("n1", check=True, ignore=True, state="begin")["changed"] is False
    assert run.act("n1", ignore=True, state="look")["changed"] is False


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: state"),
        ({"state": "ended"}, "value of state must be one of: look, begin, end, got: ended"),
        ({"state": "look", "wave": 1}, "wave"),
    ],
)
def test_bad_input_is_named(arguments: Json, words: str, check: bool) -> None:
    with pytest.raises(AnsibleError) as caught:
        Run().act("n1", check, **arguments)
    assert words in str(caught.value)

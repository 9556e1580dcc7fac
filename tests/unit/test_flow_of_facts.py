# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever runs on a node may return facts that become variables: they are looked at before the controller uses one.

Every playbook and every role is followed from its first task to its last, through all that it includes. A task that runs on the node
forgets that its facts were looked at. A task that uses variables on the controller (is delegated to it, fetches, sends one of its files,
includes by a variable) needs that they were; where it does so once for all hosts, those of all.
"""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import ROLES as CHANGING
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

UNKNOWN, OWN, ALL = 0, 1, 2
KEYWORDS = {
    *(
        "name",
        "when",
        "vars",
        "register",
        "become",
        "loop",
        "loop_control",
        "delegate_to",
        "delegate_facts",
        "run_once",
        "notify",
    ),
    *(
        "until",
        "retries",
        "delay",
        "throttle",
        "changed_when",
        "failed_when",
        "ignore_errors",
        "ignore_unreachable",
        "no_log",
        "diff",
    ),
    *("block", "rescue", "always", "tags", "check_mode", "environment"),
}
# What connects to no node. ib_facts does, and its action looks at the facts first, and takes nothing from the node but one of its own.
HARMLESS = {
    f"ansible.builtin.{name}"
    for name in ("assert", "debug", "fail", "set_fact", "set_stats", "meta", "add_host", "group_by", "include_vars")
} | {"fabric.rdma.wave_gate", "fabric.rdma.quiet_value", "fabric.rdma.output_files", "fabric.rdma.ib_facts"}
INCLUDES = {f"ansible.builtin.{way}_{what}": what for way in ("include", "import") for what in ("tasks", "role")}
# An own table of names, whatever chooses from it.
TABLE = re.compile(r"\{\{ \{((?:'[\w-]+': '[\w.-]+'(?:, )?)+)\}\[[\w.\[\]']+\] \}\}")

Task = dict[str, t.Any]


@functools.cache
def loaded(path: Path) -> list[Task]:
    return yaml.safe_load(path.read_text()) or []


class Flow:
    """problems: what uses variables of a node on the controller without a look at them; seen: files that were followed."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.uses = 0
        self.seen: set[Path] = set()
        self._stack: list[Path] = []

    def file(self, path: Path, state: int = UNKNOWN, once: bool = False) -> tuple[int, int]:
        """(what is known of the facts after it, the least that is known on the way)."""
        assert path not in self._stack, path
        self.seen.add(path)
        self._stack.append(path)
        found = self.tasks(loaded(path), state, once)
        self._stack.pop()
        return found

    def tasks(
        self, tasks: t.Iterable[Task], state: int, once: bool = False, delegated: bool = False
    ) -> tuple[int, int]:
        least = state
        for task in tasks:
            after, low = self._task(
                task, state, once or task.get("run_once", False), delegated or "delegate_to" in task
            )
            skipped = "when" in task and not self._looks(task, next(iter(set(task) - KEYWORDS), ""))
            state = min(state, after) if skipped else after
            least = min(least, low, state)
        return state, least

    def _task(self, task: Task, state: int, once: bool, delegated: bool) -> tuple[int, int]:
        if "block" in task:
            end, least = self.tasks(task["block"], state, once, delegated)
            if "rescue" in task:
                saved, low = self.tasks(task["rescue"], least, once, delegated)
                end, least = min(end, saved), min(least, low)
            if "always" in task:
                end, low = self.tasks(task["always"], min(end, least), once, delegated)
                least = min(least, low)
            return end, least
        [action] = set(task) - KEYWORDS
        given = task[action] or {}
        if looked := self._looks(task, action):
            return looked, state
        if action in INCLUDES:
            return self._include(task, INCLUDES[action], given, state, once)
        file = given.get("src", "") if isinstance(given, dict) and not given.get("remote_src") else ""
        file = given.get("file", "") if action == "ansible.builtin.include_vars" else file
        by_variable = action.rpartition(".")[2] in ("copy", "template", "include_vars") and self._by_variable(str(file))
        uses = (
            (delegated and action not in HARMLESS)
            or action in ("ansible.builtin.fetch", "fabric.rdma.lab")
            or by_variable
        )
        if uses:
            self._use(task, state, once)
        on_node = (not delegated and action not in HARMLESS) or given == "flush_handlers"
        return (UNKNOWN if on_node else state), state

    def _include(self, task: Task, what: str, given: t.Any, state: int, once: bool) -> tuple[int, int]:
        name = str(given if isinstance(given, str) else given.get("file", given.get("name")))
        if self._by_variable(name):
            self._use(task, state, once)
        if what == "tasks":
            here = self._stack[-1].parent
            names = re.findall(r": '([\w.-]+)'", name) or [name]
            # one that is included by an included one is named from the playbook's directory
            files = [here / each if (here / each).exists() else here.parent / each for each in names]
        else:
            # what these loop over
            lists = {"{{ prepare_role }}": CHANGING, "{{ system }}": [system.name for system in SYSTEMS]}
            short = name.removeprefix("fabric.rdma.")
            roles = lists.get(short, [short])
            files = [ROOT / "roles" / role / "tasks" / f"{given.get('tasks_from', 'main')}.yml" for role in roles]
        least = end = state
        # of a loop, the second time begins where the first has ended
        for _time in range(2 if "loop" in task else 1):
            ends = [self.file(file, end, once) for file in files]
            end, least = min(after for after, _low in ends), min([least, *(low for _after, low in ends)])
        return end, least

    @staticmethod
    def _looks(task: Task, action: str) -> int:
        """What is known once the task has passed, or is skipped by its own condition."""
        if task.get("ignore_errors"):
            return UNKNOWN
        for name, value in task.get("vars", {}).items():
            # An assert would go through the facts of all hosts twice: for what it asserts, and for what it would say.
            fails = action == "ansible.builtin.fail" and task.get("when") == f"{name} | length > 0"
            if fails and value == "{{ hostvars | fabric.rdma.rdma_foreign(ansible_play_hosts_all) }}":
                return ALL
            asserts = action == "ansible.builtin.assert" and "when" not in task
            asserts = asserts and task[action]["that"] == f"{name} | length == 0"
            if asserts and value == "{{ ansible_facts | fabric.rdma.rdma_foreign(host=inventory_hostname) }}":
                return OWN
        return UNKNOWN

    @staticmethod
    def _by_variable(text: str) -> bool:
        return "{{" in text and not TABLE.fullmatch(text)

    def _use(self, task: Task, state: int, once: bool) -> None:
        self.uses += 1
        if state < (ALL if once else OWN):
            place = self._stack[-1].relative_to(ROOT) if self._stack else "here"
            self.problems.append(f"{place}: {task.get('name')}")


def entries() -> list[Path]:
    """Playbooks, and what a playbook of somebody else may include of a role."""
    found = sorted((ROOT / "playbooks").glob("*.yml"))
    for specs in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        names = yaml.safe_load(specs.read_text())["argument_specs"]
        found += [specs.parents[1] / "tasks" / f"{name}.yml" for name in names]
    return found


def followed(path: Path) -> Flow:
    flow = Flow()
    if path.parent.name != "playbooks":
        flow.file(path)
        return flow
    flow._stack.append(path)
    for play in yaml.safe_load(path.read_text()):
        # the controller's own facts are not a node's
        if play.get("hosts", "localhost") != "localhost":
            flow.tasks(play["tasks"], UNKNOWN)
    return flow


@pytest.mark.parametrize("path", entries(), ids=lambda path: str(path.relative_to(ROOT).with_suffix("")))
def test_the_controller_uses_no_variable_that_a_node_has_set(path: Path) -> None:
    assert not followed(path).problems


def test_all_tasks_are_followed() -> None:
    flows = [followed(path) for path in entries()]
    there = {*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml")}
    assert there - {path for flow in flows for path in flow.seen} == set()
    assert sum(flow.uses for flow in flows) > 50


LOOK = {
    "ansible.builtin.assert": {"that": "x | length == 0"},
    "vars": {"x": "{{ ansible_facts | fabric.rdma.rdma_foreign(host=inventory_hostname) }}"},
}
LOOK_AT_ALL = {
    "ansible.builtin.fail": {"msg": "{{ x }}"},
    "when": "x | length > 0",
    "vars": {"x": "{{ hostvars | fabric.rdma.rdma_foreign(ansible_play_hosts_all) }}"},
}
NODE = {"ansible.builtin.stat": {"path": "/x"}}
NEUTRAL = {"ansible.builtin.debug": {"msg": "x"}}
POD = {"name": "use", "kubernetes.core.k8s": {"name": "x"}, "delegate_to": "localhost"}
FETCH = {"name": "use", "ansible.builtin.fetch": {"src": "/x", "dest": "x"}}
COPY = {"name": "use", "ansible.builtin.copy": {"src": "{{ x }}", "dest": "/x"}}
VARS = {"name": "use", "ansible.builtin.include_vars": {"file": "{{ x }}.yml"}}
OWN_VARS = {"ansible.builtin.include_vars": {"file": "{{ {'a': 'a.yml', 'b': 'b.yml'}[x] }}"}}


@pytest.mark.parametrize("use", [POD, FETCH, COPY, VARS], ids=["delegated", "fetch", "copy", "include"])
@pytest.mark.parametrize(
    ("before", "well"),
    [
        ([], False),
        ([LOOK], True),
        ([LOOK, NEUTRAL], True),
        ([LOOK, NODE], False),
        ([LOOK, {**NODE, "when": "x"}], False),
        ([LOOK, NODE, {**LOOK, "when": "x"}], False),
        ([LOOK, NODE, {**LOOK, "ignore_errors": True}], False),
        ([{**LOOK, "ansible.builtin.assert": {"that": "true"}}], False),
        ([LOOK, {"block": [NODE]}], False),
        ([LOOK, {"block": [NODE, LOOK]}], True),
        ([LOOK, {"block": [NODE, LOOK], "rescue": [NEUTRAL]}], False),
        ([LOOK, {"block": [NEUTRAL], "always": [NODE]}], False),
        ([{"block": [LOOK], "when": "x"}], False),
        ([LOOK, {"ansible.builtin.meta": "flush_handlers"}], False),
    ],
)
def test_what_is_not_looked_at_is_found(use: Task, before: list[Task], well: bool) -> None:
    flow = Flow()
    flow.tasks([*before, use], UNKNOWN)
    assert (flow.problems == []) == well


def test_what_is_done_once_needs_a_look_at_all() -> None:
    sometimes = {**LOOK_AT_ALL, "when": "x | length > 0 and y"}
    twice = {**LOOK, "vars": LOOK_AT_ALL["vars"]}
    for looks, well in (
        ([LOOK], False),
        ([LOOK_AT_ALL], True),
        ([LOOK_AT_ALL, LOOK], False),
        ([sometimes], False),
        ([twice], False),
        ([{**LOOK_AT_ALL, "ignore_errors": True}], False),
    ):
        flow = Flow()
        flow.tasks([*looks, {**POD, "run_once": True}], UNKNOWN)
        assert (flow.problems == []) == well


def test_a_table_of_names_needs_none() -> None:
    flow = Flow()
    flow.tasks([OWN_VARS, NODE, OWN_VARS], UNKNOWN)
    assert not flow.problems
    assert not flow.uses


def facts_set_in(tasks: t.Any) -> list[Task]:
    """Tasks that make a variable of all facts of a host, blocks followed."""
    found: list[Task] = []
    for task in tasks if isinstance(tasks, list) else []:
        for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            found += facts_set_in(task.get(key))
        given = task.get("ansible.builtin.set_fact") or {}
        found += [task] if "{{ ansible_facts['rdma'] }}" in given.values() else []
    return found


def test_facts_that_are_kept_under_another_name_are_in_no_event() -> None:
    """What set_fact sets is its result, which ansible-runner keeps of each host."""
    places = [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]
    kept = {f"{path.relative_to(ROOT)}: {task['name']}": task for path in places for task in facts_set_in(loaded(path))}
    assert len(kept) > 5
    assert [name for name, task in kept.items() if task.get("no_log") is not True] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the answer of a node becomes facts: a node that is in wrong hands answers what it likes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.utils.display import Display

from ansible_collections.fabric.rdma.plugins.action.ib_facts import ActionModule
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.plugin_utils import _quiet_action

FOUND = {"schema": 1, "warnings": []}
BEFORE: dict[str, Any] = {"devices": [], "runtime": {}, "storage": {}}


def task_of(arguments: dict[str, Any], **keywords: Any) -> SimpleNamespace:
    defaults = {"async_val": 0, "check_mode": False, "diff": False, "delegate_to": None, "delegate_facts": None}
    return SimpleNamespace(**defaults | keywords, action="fabric.rdma.ib_facts", args=arguments)


def answered(
    monkeypatch: pytest.MonkeyPatch, answer: Any, facts: Any = None, before: Any = None, **keywords: Any
) -> dict[str, Any]:
    task = task_of({"before": before} if before else {}, **keywords)
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
    assert result["ansible_facts"] == {"rdma": {**FOUND, "gathered_of": "n"}}
    assert gathered.endswith("Z")


def test_the_time_is_that_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(monkeypatch, {"ansible_facts": {"rdma": {**FOUND, "gathered": "1970-01-01T00:00:00Z"}}})
    assert result["ansible_facts"]["rdma"]["gathered"] > "2026"


def test_the_host_is_what_the_inventory_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"ansible_facts": {"rdma": {**FOUND, "gathered_of": "another"}}}
    assert answered(monkeypatch, answer)["ansible_facts"]["rdma"]["gathered_of"] == "n"
    there = answered(monkeypatch, {"ansible_facts": {"rdma": FOUND}}, delegate_to="m")
    assert there["ansible_facts"]["rdma"]["gathered_of"] == "n"


def test_facts_that_go_to_another_host_are_called_those_of_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"ansible_facts": {"rdma": {**FOUND, "gathered_of": "n"}}}
    result = answered(monkeypatch, answer, delegate_to="m", delegate_facts=True)
    assert result["ansible_facts"]["rdma"]["gathered_of"] == "m"


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


CAPTURE = Path(__file__).resolve().parents[3] / "captures" / "ib-v100-1.capture"


def acted(
    arguments: dict[str, Any],
    variables: dict[str, Any],
    check: bool = False,
    answer: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the action answers, and with which arguments it has started the module."""
    task = task_of(arguments, check_mode=check)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"), has_pipelining=True)
    plugin = ActionModule(task, connection, SimpleNamespace(), None, Templar(DataLoader()), None)
    plugin._discovered_interpreter_key = None
    started: list[dict[str, Any]] = []

    def execute(module_args: dict[str, Any], **_others: Any) -> Any:
        started.append(module_args)
        return answer or {"changed": False, "ansible_facts": {"rdma": FOUND}}

    plugin._execute_module = execute  # type: ignore[method-assign]
    return plugin.run(task_vars={"inventory_hostname": "n", **variables}), started


def test_a_capture_is_read_on_the_controller_and_nobody_connects() -> None:
    result, started = acted({"capture": str(CAPTURE), "gather_subset": ["devices"]}, {})
    facts = result["ansible_facts"]["rdma"]
    assert facts.pop("gathered").endswith("Z")
    assert facts.pop("gathered_of") == "n"
    assert facts == gather(open_tree(str(CAPTURE)), ["devices"])
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"capture": "/nothing"}, "root '/nothing' cannot be read"),
        ({"capture": str(CAPTURE), "gather_subset": ["devices", "sky"]}, "gather_subset knows no sky"),
    ],
)
def test_a_capture_that_cannot_be_read_is_a_failure(arguments: dict[str, Any], said: str) -> None:
    result, started = acted(arguments, {})
    assert result["failed"]
    assert said in result["msg"]
    assert "ansible_facts" not in result
    assert started == []


def of_this_run(**facts: Any) -> dict[str, Any]:
    return {"ansible_facts": {"rdma": {**FOUND, **facts}}, "discover_gathered": {"ansible_facts": {}}}


@pytest.mark.parametrize(
    ("arguments", "variables", "check", "runs"),
    [
        ({"before": BEFORE, "gather_subset": ["devices"]}, of_this_run(devices=[]), True, 0),
        ({"before": BEFORE, "gather_subset": "devices"}, of_this_run(devices=[]), True, 0),
        ({"before": BEFORE, "gather_subset": ["devices"]}, of_this_run(devices=[]), False, 1),
        ({"gather_subset": ["devices"]}, of_this_run(devices=[]), True, 1),
        ({"before": BEFORE}, of_this_run(devices=[]), True, 1),
        ({"before": BEFORE, "gather_subset": ["devices"]}, {"ansible_facts": {"rdma": {"devices": []}}}, True, 1),
    ],
    ids=["checked", "as a text", "changed", "the first look", "a part is known", "of a cache"],
)
def test_what_a_check_has_not_changed_is_not_gathered_again(
    arguments: dict[str, Any], variables: dict[str, Any], check: bool, runs: int
) -> None:
    result, started = acted(dict(arguments), variables, check)
    assert len(started) == runs
    assert bool(result["ansible_facts"]) is bool(runs)


def test_facts_of_this_run_are_not_gathered_again() -> None:
    result, started = acted({"unless": ["devices"]}, of_this_run(devices=[]))
    assert (result["changed"], result["ansible_facts"]) == (False, {})
    assert started == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"ansible_facts": {"rdma": {"devices": []}}},
        {**of_this_run(devices=[]), "discover_gathered": {"unreachable": True}},
        of_this_run(gpus=[]),
        of_this_run(devices=[], gathered_of="another"),
        of_this_run(devices=[], runtime={"as_root": False}),
        {**of_this_run(), "ansible_facts": {"rdma": "devices"}},
    ],
    ids=[
        "none",
        "of a cache",
        "of one that does not answer",
        "of another subset",
        "of another host",
        "without root",
        "of no form",
    ],
)
def test_facts_that_are_not_of_this_run_or_not_all_are_gathered(variables: dict[str, Any]) -> None:
    result, started = acted({"unless": ["devices"], "wait_timeout": 5}, variables)
    assert started == [{"wait_timeout": 5}]
    assert set(result["ansible_facts"]) == {"rdma"}


def test_facts_of_a_capture_need_no_root() -> None:
    known = of_this_run(devices=[], runtime={"as_root": False})
    assert acted({"unless": ["devices"], "capture": str(CAPTURE)}, known)[0]["ansible_facts"] == {}


def decided(expression: str, *, arguments: dict[str, Any], **variables: Any) -> dict[str, Any]:
    """The answer to a conclusion, whose value an inventory has."""
    return acted({**arguments, "conclude": "decision"}, {**variables, "decision": trust_as_template(expression)})[0]


def test_a_conclusion_is_made_of_the_facts_that_have_just_come() -> None:
    """And not of those that a fact cache had."""
    old = {"ansible_facts": {"rdma": {"schema": 0}, "distribution": "x"}}
    expression = "{{ [ansible_facts['rdma'].schema, ansible_facts['distribution'], wish] }}"
    result = decided(expression, arguments={}, wish="w", **old)
    assert result["concluded"] == [1, "x", "w"]
    assert set(result["ansible_facts"]) == {"rdma"}


def test_a_conclusion_is_made_of_the_facts_that_this_run_has() -> None:
    result, started = acted(
        {"unless": ["devices"], "conclude": "decision"},
        {**of_this_run(devices=[7]), "decision": trust_as_template("{{ ansible_facts['rdma'].devices }}")},
    )
    assert (result["concluded"], result["ansible_facts"], started) == ([7], {}, [])


def test_a_conclusion_is_made_of_a_capture() -> None:
    result = decided("{{ ansible_facts['rdma'].devices | length }}", arguments={"capture": str(CAPTURE)})
    assert result["concluded"] == len(result["ansible_facts"]["rdma"]["devices"]) > 0


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("{{ no_such_wish }}", "no_such_wish"),
        ("{{ 1 // 0 }}", "by zero"),
        ("{{ x | no_such_filter }}", "no_such_filter"),
    ],
)
def test_what_cannot_be_concluded_costs_no_facts(expression: str, why: str) -> None:
    result = decided(expression, arguments={})
    assert why in result["inconclusive"]
    assert "concluded" not in result
    assert "failed" not in result
    assert result["ansible_facts"]["rdma"]["schema"] == 1


def test_a_conclusion_that_nobody_has_written_is_named() -> None:
    assert acted({"conclude": "decision"}, {})[0]["inconclusive"] == "conclude: there is no variable decision"


FORGED = {"concluded": "mine", "inconclusive": "mine"}


@pytest.mark.parametrize(
    ("answer", "expression", "kept"),
    [
        ({}, "{{ 1 }}", {"concluded": 1}),
        ({}, "{{ no_such_wish }}", {"inconclusive": "'no_such_wish' is undefined"}),
        ({"failed": True, "msg": "no"}, "{{ 1 }}", {}),
        ({}, None, {}),
    ],
    ids=["concluded", "inconclusive", "failed", "not asked"],
)
def test_a_node_concludes_nothing(answer: dict[str, Any], expression: str | None, kept: dict[str, Any]) -> None:
    there = {"changed": False, "ansible_facts": {"rdma": FOUND}, **FORGED, **answer}
    arguments = {} if expression is None else {"conclude": "decision"}
    variables = {} if expression is None else {"decision": trust_as_template(expression)}
    result = acted(arguments, variables, answer=there)[0]
    assert {key: result[key] for key in FORGED if key in result} == kept


ODD: list[Any] = [None, 5, "x", True, [5], [["x"]], {"a": {"b": 5}}, {"data": {"rdma_ofed": {}}, "per_host": False}]


@pytest.mark.parametrize("value", ODD, ids=str)
@pytest.mark.parametrize(
    "key",
    ["skipped", "rc", "results", "ansible_stats", "failed_when_result", "add_host", "notify", "diff", "_x", "item"],
)
def test_of_an_answer_only_what_a_module_has_to_say_counts(key: str, value: Any) -> None:
    """Not what Ansible makes of its answer, nor what it tells the next job: a node would hide itself, or wish."""
    plain = acted({}, {})[0]
    there = {"changed": False, "ansible_facts": {"rdma": FOUND}, key: value}
    result = acted({}, {}, answer=there)[0]
    for each in (plain, result):
        each["ansible_facts"]["rdma"].pop("gathered")
    assert result == plain


def test_what_a_module_has_to_say_is_heard() -> None:
    there = {"failed": True, "rc": 1, "msg": "no", "module_stdout": "out", "_ansible_parsed": True, "warnings": ["w"]}
    result = acted({}, {}, answer=there)[0]
    assert {key: result[key] for key in there} == there


@pytest.mark.parametrize("key", ["warnings", "deprecations"])
@pytest.mark.parametrize("value", [5, "x", {"a": 1}, [5, None, [1]]], ids=str)
def test_what_is_shown_has_the_form_that_ansible_shows(key: str, value: Any) -> None:
    there = {"changed": False, "ansible_facts": {"rdma": FOUND}, key: value}
    assert not acted({}, {}, answer=there)[0].get(key)


def test_a_warning_in_the_form_that_ansible_has_for_it_is_shown() -> None:
    """A class of its own, from 2.19 on."""
    warning, event = type("WarningSummary", (), {})(), SimpleNamespace(msg="careful")
    there = {"changed": False, "ansible_facts": {"rdma": FOUND}, "warnings": [warning, event, 5, "old"]}
    assert acted({}, {}, answer=there)[0]["warnings"] == [warning, "old"]


def test_a_deprecation_has_what_ansible_says_of_one() -> None:
    """Another key of it is an argument that Display.deprecated lacks, and removed makes an error of it."""
    old = {"msg": "old", "version": "3.0.0", "collection_name": "a.b"}
    odd = [{**old, "date": "2027-01-01", "removed": True, "x": 1}, {"version": "1"}, {"msg": 5}]
    # what has no name of a collection there fails, from ansible-core 2.19 on
    odd.append({"msg": "old", "collection_name": "a"})
    there = {"changed": False, "ansible_facts": {"rdma": FOUND}, "deprecations": odd}
    assert acted({}, {}, answer=there)[0]["deprecations"] == [old, {"msg": "old"}]


def test_a_later_look_keeps_what_was_concluded() -> None:
    before = {"discover_gathered": {"ansible_facts": {}, "concluded": {"ofed": 1}}}
    assert acted({}, before)[0]["concluded"] == {"ofed": 1}
    assert acted({"unless": []}, {**of_this_run(), **before})[0]["concluded"] == {"ofed": 1}
    # but not in place of a new one
    assert "concluded" not in acted({"conclude": "nothing"}, before)[0]
    assert "concluded" not in acted({"capture": "/nothing"}, before)[0]


def test_a_conclusion_sees_facts_that_are_variables_as_they_are_now() -> None:
    """As they are where inject_facts_as_vars is on."""
    old = {"ansible_facts": {"rdma": {"schema": 0}}}
    assert decided("{{ rdma.schema }}", arguments={}, rdma={"schema": 0}, **old)["concluded"] == 1
    assert "rdma" in decided("{{ rdma.schema }}", arguments={}, **old)["inconclusive"]


def test_what_a_node_says_is_no_template_of_a_conclusion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FOUND, "warnings", ["{{ 7 * 7 }}"])
    assert decided("{{ ansible_facts['rdma'].warnings }}", arguments={})["concluded"] == ["{{ 7 * 7 }}"]


def test_a_state_before_of_another_host_is_no_state_of_this_one() -> None:
    """As a neighbour may leave it, with which this host shares its facts."""
    before = {"devices": [], "gathered_of": "another"}
    result, started = acted({"before": before}, {})
    assert result["failed"]
    assert "before: host n has the facts of host 'another'" in result["msg"]
    assert started == []
    assert acted({"before": {**before, "gathered_of": "n"}}, {})[1] == [{"before": {"devices": []}}]


def test_a_state_before_is_of_the_host_whose_facts_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """With delegate_facts that is the other one."""
    before = {"devices": [], "gathered_of": "m"}
    answer = {"ansible_facts": {"rdma": FOUND}}
    there = answered(monkeypatch, answer, before=before, delegate_to="m", delegate_facts=True)
    assert there["ansible_facts"]["rdma"]["gathered_of"] == "m"
    assert answered(monkeypatch, answer, before=before, delegate_to="m")["failed"]


@pytest.mark.parametrize(
    ("arguments", "answer", "verbosity", "hidden"),
    [
        ({"quiet": True}, {}, 1, True),
        ({"quiet": "yes", "unless": []}, {}, 1, True),
        ({"quiet": True, "capture": str(CAPTURE), "gather_subset": ["kernel"]}, {}, 1, True),
        ({"quiet": True}, {}, 3, False),
        ({"quiet": False}, {}, 1, False),
        ({}, {}, 1, False),
        ({"quiet": True}, {"failed": True, "msg": "no"}, 1, False),
        ({"quiet": True}, {"unreachable": True, "msg": "gone"}, 1, False),
    ],
    ids=["quiet", "known", "capture", "-vvv", "not quiet", "by default", "failed", "unreachable"],
)
def test_facts_are_kept_out_of_output_and_events_and_no_failure_is(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], answer: dict[str, Any], verbosity: int, hidden: bool
) -> None:
    monkeypatch.setattr(Display(), "verbosity", verbosity)
    result, started = acted(arguments, of_this_run(), answer=answer or None)
    assert result.get("_ansible_no_log", False) is hidden
    # who registers it has all of it, and the node is told nothing of it
    assert (
        ("rdma" in result["ansible_facts"] or "unless" in arguments) if not answer else result["msg"] == answer["msg"]
    )
    assert all("quiet" not in given for given in started)


@pytest.mark.parametrize("keyword", ["failed_when", "until"])
def test_what_the_task_may_call_a_failure_is_not_hidden(monkeypatch: pytest.MonkeyPatch, keyword: str) -> None:
    monkeypatch.setattr(Display(), "verbosity", 0)
    for given, hidden in (({keyword: ["x"]}, False), ({keyword: []}, True)):
        task = task_of({"quiet": True}, **given)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"), has_pipelining=True)
        plugin = ActionModule(task, connection, SimpleNamespace(), None, Templar(DataLoader()), None)
        plugin._discovered_interpreter_key = None
        monkeypatch.setattr(plugin, "_execute_module", lambda **_given: {"ansible_facts": {"rdma": FOUND}})
        assert ("_ansible_no_log" in plugin.run(task_vars={"inventory_hostname": "n"})) is hidden


@pytest.mark.parametrize("shows_them", [True, False], ids=["from 2.19 on", "until 2.18"])
def test_a_warning_is_shown_whatever_is_quiet(monkeypatch: pytest.MonkeyPatch, shows_them: bool) -> None:
    """ansible-core 2.19 shows it beside a result that is hidden, an earlier one hides both: there, the action shows it."""
    said: list[str] = []
    monkeypatch.setattr(Display(), "warning", said.append)
    monkeypatch.setattr(_quiet_action, "SHOWS_WARNINGS", shows_them)
    answer = {"ansible_facts": {"rdma": FOUND}, "warnings": ["look"]}
    result = acted({"quiet": True}, {}, answer=answer)[0]
    assert (result["warnings"], result["_ansible_no_log"]) == (["look"], True)
    assert said == ([] if shows_them else ["look"])

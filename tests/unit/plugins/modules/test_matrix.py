# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every module: a check predicts and writes nothing, a second run finds nothing to do, a difference is shown exactly
when something changes, bad input changes nothing, and examples give what RETURN describes."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import os
import re
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT, lay, unpacked
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import rails
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import answer, run

CAPTURE = CAPTURES / "ib-a100-1.capture"
FACTS = gather(open_tree(str(CAPTURE)))
SPEC = {"ociVersion": "1.2.0", "process": {"rlimits": []}}
# a module that is loaded everywhere
LOADED = "printk"
BEFORE_IT = "kernel"
IN_PLACE = (
    "import ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules as boot_modules\n"
    "boot_modules.DIRECTORIES = ('DIRECTORY', 'DIRECTORY/run')\n"
    "import ansible_collections.fabric.rdma.plugins.module_utils._base.places as places\n"
    "places.DRIVER_PROOF = 'DIRECTORY/driver-proof.json'\n"
)


class Step(t.NamedTuple):
    """arguments: a text @/NAME is a path in the test's directory; files, links: what is written there before."""

    what: str
    arguments: dict[str, t.Any]
    changed: bool
    files: t.Mapping[str, str] | None = None
    links: t.Mapping[str, str] | None = None


class Case(t.NamedTuple):
    """bad: arguments that are refused, and what is said. here: what keeps an example in the test's directory."""

    steps: tuple[Step, ...]
    bad: tuple[dict[str, t.Any], str]
    here: Callable[[dict[str, t.Any]], dict[str, t.Any]]
    shows_differences: bool = True


# A card on a host whose files lie in the test's directory.
ROCE = {"root": "@/", "want": {"link_layer": "Ethernet"}, "wait_timeout": 0}
ROCE_FILES = {path.lstrip("/"): entry.data.decode() for path, entry in rails(1).entries.items() if entry.kind == "f"}
ROCE_LINKS = {path.lstrip("/"): entry.target for path, entry in rails(1).entries.items() if entry.kind == "l"}
INITIATOR = {"path": "@/initiatorname.iscsi", "sessions": "@/none"}
NAME = "iqn.2016-04.com.open-iscsi:4f1c5a7d90e2"
MARK = {"path": "@/change.json"}
CASES = {
    "capture": Case(
        (
            Step("create", {"root": str(CAPTURE), "dest": "@/a.capture"}, True),
            Step("change", {"root": str(CAPTURE), "dest": "@/a.capture", "anonymize": True}, True),
        ),
        ({"root": str(CAPTURE), "dest": "@/none/a.capture"}, "none"),
        lambda given: {**given, "root": str(CAPTURE), "dest": f"@/{Path(given['dest']).name}"},
    ),
    "driver_check": Case(
        (Step("look", {}, False),),
        ({"log_window": "x"}, "log_window"),
        lambda given: {**given, **({"log_window": 1} if "log_window" in given else {})},
        shows_differences=False,
    ),
    "driver_gate": Case(
        (Step("look", {"root": unpacked(CAPTURE), "version": "2.9.1"}, False),),
        ({"version": "2.9.1", "activate": "now"}, "value of activate must be one of"),
        lambda given: {**given, "root": unpacked(CAPTURE)},
        shows_differences=False,
    ),
    "driver_proof": Case(
        (
            Step("create", {"method": "doca", "version": "2.9.1", "facts": FACTS}, True),
            Step("change", {"method": "doca", "version": "3.0.0", "facts": FACTS}, True),
            Step("absent", {"state": "done"}, True),
        ),
        ({"state": "gone"}, "value of state must be one of"),
        lambda given: {**given, "facts": FACTS},
    ),
    "fabric_map": Case(
        (Step("look", {}, False),),
        ({"programs": ["ibnetdiscover", "nmap"]}, "nmap"),
        lambda given: given,
        shows_differences=False,
    ),
    "ib_facts": Case(
        (Step("look", {"root": unpacked(CAPTURE)}, False),),
        ({"root": "/nonexistent/node17"}, "/nonexistent/node17"),
        # the action reads a capture in place of the module, and concludes (test_ib_facts.py)
        lambda given: {
            **{key: value for key, value in given.items() if key not in ("capture", "conclude")},
            "root": unpacked(CAPTURE),
            **({"before": FACTS} if "before" in given else {}),
        },
        shows_differences=False,
    ),
    "iscsi_initiator": Case(
        (
            Step("create", {**INITIATOR, "name": NAME}, True),
            Step("change", {**INITIATOR, "name": NAME + "1"}, True),
        ),
        ({**INITIATOR, "name": "no name"}, "no name"),
        lambda given: {**given, **INITIATOR},
    ),
    "kernel_module": Case(
        (
            Step("not at boot", {"name": LOADED, "persistent": False}, False),
            Step("create", {"name": LOADED}, True),
            # somebody has another module in the file of that name: it stays
            Step("change", {"name": LOADED, "after": [BEFORE_IT]}, True, {f"{LOADED}.conf": "# ours\nfuse\n"}),
        ),
        ({"name": "../evil"}, "../evil"),
        lambda given: given,
    ),
    "link_counters": Case(
        (Step("look", {"root": unpacked(CAPTURE)}, False),),
        ({"root": "/nonexistent/node17"}, "/nonexistent/node17"),
        lambda given: {**given, "root": unpacked(CAPTURE)},
        shows_differences=False,
    ),
    "node_change": Case(
        (
            Step("create", {**MARK, "state": "begun", "before": FACTS, "roles": ["ofed"]}, True),
            Step("change", {**MARK, "state": "begun", "before": FACTS, "roles": ["ofed", "roce_host"]}, True),
            Step("absent", {**MARK, "state": "ended"}, True),
        ),
        ({**MARK, "state": "begun", "before": {"devices": "x"}, "roles": ["ofed"]}, "before"),
        lambda given: {**given, **MARK, **({"before": FACTS} if "before" in given else {})},
    ),
    "node_file": Case(
        (
            Step("create", {"path": "@/a/b.conf", "content": "one\n"}, True),
            Step("change", {"path": "@/a/b.conf", "content": "two\n", "private": True}, True),
            Step("again", {"path": "@/a/b.conf", "content": "two\n"}, False),
        ),
        ({"path": "@/b.conf", "content": "", "mode": "u=rw"}, "mode is 'u=rw'"),
        lambda given: {**given, "path": "@/volumes.conf"},
    ),
    "roce_host": Case(
        (
            Step("create", {**ROCE, "wish": {"mtu": 9000, "netns": "shared"}}, True, ROCE_FILES, ROCE_LINKS),
            Step("change", {**ROCE, "wish": {"mtu": 4200, "multi_rail": True}}, True),
            Step("absent", {**ROCE, "wish": {"persist": False}}, True),
        ),
        ({**ROCE, "wish": {"mtu": 1}}, "rdma_roce_host.mtu is 1"),
        lambda given: {**given, **ROCE},
    ),
    "node_logs": Case(
        (Step("look", {"units": ["containerd"], "lines": 5}, False),),
        ({"units": ["-k; reboot"]}, "-k; reboot"),
        lambda given: {**given, "lines": 5},
        shows_differences=False,
    ),
    "oci_rlimits": Case(
        (
            Step("edit", {"path": "@/spec.json", "ctr": "/nowhere"}, True, {"spec.json": json.dumps(SPEC)}),
            Step(
                "change",
                {"path": "@/spec.json", "ctr": "/nowhere", "rlimits": [{"type": "NOFILE", "soft": 5, "hard": 6}]},
                True,
            ),
            Step("copy", {"path": "@/new.json", "adopt": "@/spec.json", "ctr": "/nowhere"}, True),
            Step("adopt", {"path": "@/other.json", "adopt": "@/new.json", "ctr": "/nowhere"}, True),
        ),
        ({"path": "@/spec.json", "ctr": "/nowhere", "rlimits": [{"type": "MEMLOCK", "soft": "-2"}]}, "-2"),
        lambda given: {
            **given,
            "path": "@/spec.json" if "adopt" not in given else "@/new.json",
            "ctr": "/nowhere",
            **({"adopt": "@/spec.json"} if "adopt" in given else {}),
        },
    ),
}
# What needs more than a directory is put through the same by these tests.
ELSEWHERE = {
    "cluster_access": "tests/cluster/test_matrix.py::test_what_is_beside_a_rollout_fits_the_matrix",
    "cluster_snapshot": "tests/cluster/test_matrix.py::test_what_is_beside_a_rollout_fits_the_matrix",
    "cluster_state": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "containerd_memlock": "tests/unit/plugins/module_utils/_prepare/test_memlock_apply.py::test_a_fresh_node_is_changed_as_predicted_and_only_once",
    "driver_packages": "tests/unit/plugins/modules/test_driver_modules.py::test_what_others_held_is_put_back_as_predicted",
    "kubernetes_info": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "lab": "tests/unit/plugins/action/test_lab.py::test_a_lab_goes_as_predicted",
    "mpi_traffic": "tests/unit/plugins/modules/test_mpi_traffic.py::test_only_what_a_killed_run_had_left_is_a_change",
    "perftest": "tests/unit/plugins/modules/test_perftest_module.py::test_a_check_stops_no_server",
    "pod_traffic": "tests/unit/plugins/modules/test_pod_traffic.py::test_a_measurement_leaves_no_pod",
    "rollout": "tests/cluster/test_matrix.py::test_modules_of_a_rollout_keep_the_rules_of_the_matrix",
    "rollout_departures": "tests/cluster/test_matrix.py::test_modules_of_a_rollout_keep_the_rules_of_the_matrix",
    "rollout_lease": "tests/cluster/test_matrix.py::test_what_is_beside_a_rollout_fits_the_matrix",
    "rollout_ready": "tests/cluster/test_matrix.py::test_modules_of_a_rollout_keep_the_rules_of_the_matrix",
    "stale_resources": "tests/cluster/test_matrix.py::test_what_is_beside_a_rollout_fits_the_matrix",
    "system_objects": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "handover_objects": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "handover_ready": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "system_ready": "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix",
    "output_files": "tests/unit/plugins/action/test_output_files.py::test_files_come_as_predicted",
    "quiet_value": "tests/unit/plugins/action/test_quiet_value.py::test_a_value_comes_back_unchanged_and_no_run_of_it_is_a_change",
    "wave_gate": "tests/unit/plugins/action/test_wave_gate_action.py::test_it_may_be_asked_again_and_a_check_says_the_same",
}
# The one that runs the core of a module instead of it.
BY_ITS_CORE = {"containerd_memlock": "lift"}
# What reads alone, with arguments of it: its tests on a cluster make no check of it.
AS_A_RUN: dict[str, dict[str, t.Any]] = {
    "cluster_access": {},
    "cluster_state": {},
    "handover_ready": {
        "class_name": "c",
        "conditions": [{"what": "allocatable", "nodes": ["n1"], "resources": {"r/r": 1}}],
    },
    "kubernetes_info": {"api_version": "v1", "kind": "Node"},
    "rollout_departures": {"hosts": ["n1"]},
    "system_ready": {
        "system": "test",
        "waits": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "rdma", "name": "none"}],
    },
}
# Where the examples of these run.
EXAMPLES_ELSEWHERE = {
    **dict.fromkeys(ELSEWHERE, "tests/cluster/test_matrix.py"),
    "containerd_memlock": "tests/unit/plugins/module_utils/_prepare/test_memlock_apply.py",
    "driver_packages": "tests/unit/plugins/modules/test_driver_modules.py",
    "lab": "tests/unit/plugins/action/test_lab.py",
    "mpi_traffic": "tests/unit/plugins/modules/test_mpi_traffic.py",
    "perftest": "tests/unit/plugins/modules/test_perftest_module.py",
    "pod_traffic": "tests/unit/plugins/modules/test_pod_traffic.py",
    "output_files": "tests/unit/plugins/action/test_output_files.py",
    "quiet_value": "tests/integration/test_events.py",
    "wave_gate": "tests/integration/test_wave_gate.py",
}
each = pytest.mark.parametrize("module", CASES)
KINDS: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "dict": dict,
    "float": (int, float),
    "int": int,
    "list": list,
    "raw": object,
    "str": str,
}


def here(value: t.Any, directory: Path) -> t.Any:
    """@/NAME becomes a path in the directory."""
    if isinstance(value, dict):
        return {key: here(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [here(item, directory) for item in value]
    return str(directory / value[2:]) if isinstance(value, str) and value.startswith("@/") else value


def call(module: str, directory: Path, arguments: dict[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    prelude = IN_PLACE.replace("DIRECTORY", str(directory))
    return run(module, check=check, prelude=prelude, _ansible_diff=True, **here(arguments, directory))


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def differs(shown: t.Any) -> bool:
    """Whether a difference shows anything. One that shows nothing must not be there."""
    entries = shown if isinstance(shown, list) else [shown] if shown is not None else []
    assert all(entry["before"] != entry["after"] for entry in entries)
    return bool(entries)


def documented(module: str, name: str) -> t.Any:
    source = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.modules.{module}")
    return yaml.safe_load(getattr(source, name))


def insist_on_types(values: dict[str, t.Any], told: dict[str, t.Any]) -> None:
    """Each value has the type that is documented, and a dictionary no other keys than those that are."""
    for key, value in values.items():
        assert value is None or isinstance(value, KINDS[told[key]["type"]]), (key, value)
        items = value if isinstance(value, list) else [value]
        if told[key].get("elements"):
            assert all(isinstance(item, KINDS[told[key]["elements"]]) for item in value or [])
        for item in items if "contains" in told[key] else ():
            assert set(item or {}) <= set(told[key]["contains"]), (key, set(item) - set(told[key]["contains"]))
            insist_on_types(item or {}, told[key]["contains"])


def insist_on_return(module: str, result: dict[str, t.Any]) -> None:
    """Everything that a module returns is documented, has the type that is documented, and is there when it should be."""
    told = documented(module, "RETURN")
    own = set(result) - {"changed", "diff", "failed", "msg", "warnings", "deprecations", "exception"}
    # what exit_json() says of a file whose path is returned
    own -= {"size"} - set(told)
    assert own <= set(told), own - set(told)
    insist_on_types({key: result[key] for key in own}, told)
    if not result.get("failed"):
        assert {key for key, entry in told.items() if entry["returned"] == "success"} <= own


def test_every_module_is_somewhere() -> None:
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert set(CASES) | set(ELSEWHERE) == modules
    assert not set(CASES) & set(ELSEWHERE)


def code_of(path: Path, function: str) -> list[ast.FunctionDef]:
    """A function, and the functions and methods of its file that it uses."""
    functions = {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
    ahead, found = [function], dict[str, ast.FunctionDef]()
    while ahead:
        name = ahead.pop()
        if name in functions and name not in found:
            found[name] = functions[name]
            ahead += [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
            ahead += [node.attr for node in ast.walk(functions[name]) if isinstance(node, ast.Attribute)]
    return list(found.values())


def calls_in(code: list[ast.FunctionDef]) -> list[ast.Call]:
    return [node for each in code for node in ast.walk(each) if isinstance(node, ast.Call)]


def names(call: ast.Call, module: str) -> bool:
    """Whether the module, or its core, is what is called or an argument."""
    return module in ast.unparse(call.func).split(".") or any(
        isinstance(each, ast.Constant) and each.value == module for each in call.args
    )


def is_check(call: ast.Call) -> bool:
    """Whether a call is made in a check: as the helpers of all of these tests are told."""
    given = {each.arg: ast.unparse(each.value) for each in call.keywords}
    return given.get("check", "False") != "False" or bool({"True", "check"} & {ast.unparse(each) for each in call.args})


def run_and_checked(path: Path, function: str, module: str) -> tuple[bool, bool]:
    """Whether a test runs a module, and whether it does so in a check, too."""
    code = code_of(path, function)
    runs = [call for call in calls_in(code) if names(call, module)]
    if path.parent.name != "cluster":
        return bool(runs), any(is_check(call) for call in calls_in(code))
    # several modules share a test there: the helper that is given the name does it, or the call itself
    makes = {each.name: [keyword for call in calls_in([each]) for keyword in call.keywords] for each in code}
    helpers = {
        name: any((each.arg, ast.unparse(each.value)) == ("check", "True") for each in keywords)
        for name, keywords in makes.items()
    }
    return bool(runs), any(is_check(call) or helpers.get(ast.unparse(call.func), False) for call in runs)


def compares(code: list[ast.FunctionDef]) -> bool:
    """Whether code looks at a difference: with differs(), ["diff"] or .get("diff")."""
    looked = [ast.unparse(call) for call in calls_in(code)]
    looked += [ast.unparse(node) for each in code for node in ast.walk(each) if isinstance(node, ast.Subscript)]
    return any(re.match(r"differs\(|.*(\['diff'\]|\.get\('diff'\))$", each) for each in looked)


def looks_at_a_difference(path: Path, function: str, module: str) -> bool:
    """Whether a test that runs a module does so, too."""
    code = code_of(path, function)
    if path.parent.name != "cluster":
        return compares(code)
    helpers = {ast.unparse(call.func) for call in calls_in(code) if names(call, module)}
    return any(compares([each]) for each in code if each.name in helpers)


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_module_is_run_and_checked_where_it_is_said_to_be(module: str) -> None:
    path, _colons, function = ELSEWHERE[module].partition("::")
    assert function.startswith("test_")
    ran, checked = run_and_checked(ROOT / path, function, BY_ITS_CORE.get(module, module))
    assert (ran, checked) == (True, module not in AS_A_RUN)


@pytest.mark.parametrize("module", AS_A_RUN)
def test_a_check_asks_the_cluster_as_a_run_does(module: str, tmp_path: Path) -> None:
    """These only read: a check that did not ask would say that all is well."""
    asked = {**AS_A_RUN[module], "kubeconfig": "@/none"}
    checked, result = (call(module, tmp_path, asked, check) for check in (True, False))
    # the one that comes before a plan warns, and leaves the refusal to the rollout
    said = result.get("msg") or json.dumps(result["warnings"])
    assert f"no kubeconfig: {tmp_path / 'none'} does not exist" in said
    assert checked == result
    assert not result.get("changed")


@pytest.mark.parametrize("module", EXAMPLES_ELSEWHERE)
def test_the_examples_of_a_module_are_run(module: str) -> None:
    text = (ROOT / EXAMPLES_ELSEWHERE[module]).read_text()
    assert re.search(rf'\b(run_examples|documented)\(\s*"{module}"', text)


@each
def test_a_check_predicts_and_a_second_run_finds_nothing_to_do(module: str, tmp_path: Path) -> None:
    case = CASES[module]
    for step in case.steps:
        for name, text in (step.files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        for name, target in (step.links or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).symlink_to(target)
        before = content(tmp_path)
        predicted = call(module, tmp_path, step.arguments, check=True)
        assert (predicted["changed"], content(tmp_path)) == (step.changed, before), step.what
        result = call(module, tmp_path, step.arguments)
        assert result["changed"] is step.changed, step.what
        assert (content(tmp_path) != before) is step.changed
        after = content(tmp_path)
        again = call(module, tmp_path, step.arguments)
        assert (again["changed"], content(tmp_path)) == (False, after), step.what
        assert call(module, tmp_path, step.arguments, check=True)["changed"] is False
        for each_result in (predicted, result, again):
            insist_on_return(module, each_result)
            shown = differs(each_result.get("diff"))
            assert shown is (case.shows_differences and each_result["changed"]), step.what
        if case.shows_differences and step.changed:
            assert predicted["diff"] == result["diff"]


@each
def test_bad_input_changes_nothing(module: str, tmp_path: Path) -> None:
    arguments, message = CASES[module].bad
    for check in (True, False):
        result = call(module, tmp_path, arguments, check)
        assert result["failed"] is True
        assert message in result["msg"]
        assert "Traceback" not in result["msg"]
        assert content(tmp_path) == {}


# These run in a process of the controller: their actions take their arguments, and have tests of their own.
ACTIONS = ("lab", "output_files", "quiet_value", "wave_gate")
PROCESSES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem not in ACTIONS)
OF_TYPE = {"bool": False, "dict": {}, "float": 1.0, "int": 1, "list": [], "path": "/nowhere", "raw": "x", "str": "x"}
# What one of several options asks for.
ALSO_NEEDED: dict[str, dict[str, t.Any]] = {
    "driver_proof": {"method": "doca", "version": "3.0.0", "facts": FACTS},
    "node_change": {"path": "@/change.json", "before": FACTS, "roles": ["ofed"]},
    "node_file": {"path": "@/file", "content": "x"},
    "perftest": {"tests": []},
    "rollout_lease": {"holder": "root@here/1"},
    "rollout_ready": {"daemon_set": "d", "namespace": "rdma"},
}
NOT_OF_TYPE = {"bool": "perhaps", "float": "many", "int": "many"}


def wrong_options(module: str) -> Iterator[tuple[str, t.Any]]:
    """Each option of a module with a value that cannot be meant."""
    for name, option in documented(module, "DOCUMENTATION").get("options", {}).items():
        if "choices" in option:
            yield name, ["nothing of these"] if option["type"] == "list" else "nothing of these"
        elif option["type"] in NOT_OF_TYPE:
            yield name, NOT_OF_TYPE[option["type"]]


@pytest.mark.parametrize("module", PROCESSES)
def test_an_option_that_is_unknown_or_of_another_type_is_refused_by_its_name(module: str, tmp_path: Path) -> None:
    """In a check as in a run, wherever the module is tested otherwise: this comes before it does anything."""
    options = documented(module, "DOCUMENTATION").get("options", {})
    needed = {
        name: option.get("choices", [OF_TYPE[option["type"]]])[0]
        for name, option in options.items()
        if option.get("required")
    } | ALSO_NEEDED.get(module, {})
    wrong = [("no_option_of_it", 1), *itertools.islice(wrong_options(module), 1)]
    for name, value in wrong:
        for check in (True, False):
            result = call(module, tmp_path, {**needed, name: value}, check)
            assert result["failed"] is True, (name, result)
            assert name in result["msg"]
            assert "Traceback" not in result["msg"]
    assert content(tmp_path) == {}


WHERE = {
    "capture": lambda path: {"root": str(CAPTURE), "dest": f"{path}/a.capture"},
    "oci_rlimits": lambda path: {"path": f"{path}/new.json", "adopt": "@/spec.json", "ctr": "/nowhere"},
}


@pytest.mark.parametrize("place", ["@/none", "@/spec.json"])
@pytest.mark.parametrize("module", WHERE)
def test_a_check_fails_where_a_run_would(module: str, place: str, tmp_path: Path) -> None:
    """These make no directories: one that is missing, or a file in its place."""
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    results = [call(module, tmp_path, WHERE[module](place), check) for check in (True, False)]
    assert all(each["failed"] for each in results)
    assert results[0]["msg"] == results[1]["msg"]
    assert str(here(place, tmp_path)) in results[0]["msg"]


def examples() -> Iterator[t.Any]:
    for module in CASES:
        for number, task in enumerate(documented(module, "EXAMPLES")):
            if f"fabric.rdma.{module}" in task:
                yield pytest.param(module, task[f"fabric.rdma.{module}"] or {}, id=f"{module}-{number}")


@pytest.mark.parametrize(("module", "arguments"), list(examples()))
def test_an_example_gives_what_is_documented(module: str, arguments: dict[str, t.Any], tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    if module == "roce_host":
        lay(rails(1).entries, tmp_path)
    result = call(module, tmp_path, CASES[module].here(arguments))
    # the example is of a module for GPUs, which is not on every machine
    assert not result.get("failed") or arguments.get("name") == "nvidia-peermem", result
    insist_on_return(module, result)
    if arguments.get("name") == "nvidia-peermem" and result.get("failed"):
        assert os.listdir(tmp_path) == ["spec.json"]


@pytest.mark.parametrize(
    ("module", "arguments", "facts"),
    [
        ("node_change", {**MARK, "state": "begun", "before": FACTS, "roles": ["ofed"]}, "before"),
        ("driver_proof", {"method": "doca", "version": "2.9.1", "facts": FACTS}, "facts"),
    ],
)
def test_arguments_that_are_facts_do_not_come_back_whole(
    module: str, arguments: dict[str, t.Any], facts: str, tmp_path: Path
) -> None:
    """Ansible returns the arguments of a module, and ansible-runner keeps them in the event of each host."""
    for check in (True, False):
        prelude = IN_PLACE.replace("DIRECTORY", str(tmp_path))
        result = answer(module, check, prelude, **here(arguments, tmp_path))
        assert result["changed"]
        assert "devices" in result["invocation"]["module_args"][facts]
        assert len(json.dumps(result["invocation"])) < len(json.dumps(FACTS)) / 4

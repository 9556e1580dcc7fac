# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every module: a check predicts and writes nothing, a second run finds nothing to do, a difference is shown exactly
when something changes, bad input changes nothing, and examples give what RETURN describes. The rules are in matrix.py."""

from __future__ import annotations

import ast
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
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs import manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_pair
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import (
    STEPS,
    Case,
    Step,
    content,
    documented,
    here,
    insist_on_return,
    keep_the_rules,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import answer
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.worlds import (
    IN_PLACE,
    Jobs,
    Packages,
    Pods,
    Process,
    left_lab,
    world_of,
)

CAPTURE = CAPTURES / "ib-a100-1.capture"
FACTS = gather(open_tree(str(CAPTURE)))
SPEC = {"ociVersion": "1.2.0", "process": {"rlimits": []}}
# a module that is loaded everywhere
LOADED = "printk"
BEFORE_IT = "kernel"

# A card on a host whose files lie in the test's directory.
ROCE = {"root": "@/", "want": {"link_layer": "Ethernet"}, "wait_timeout": 0}
ROCE_FILES = {path.lstrip("/"): entry.data.decode() for path, entry in rails(1).entries.items() if entry.kind == "f"}
ROCE_LINKS = {path.lstrip("/"): entry.target for path, entry in rails(1).entries.items() if entry.kind == "l"}
INITIATOR = {"path": "@/initiatorname.iscsi", "sessions": "@/none"}
NAME = "iqn.2016-04.com.open-iscsi:4f1c5a7d90e2"
MARK = {"path": "@/change.json"}
OUTPUT = {"directory": "@/out"}
MANIFEST = yaml.safe_dump_all(manifests()["nccl-mnnvl"])
# Why a module has none of these steps.
READS = dict.fromkeys(("create", "change", "absent", "diff"), "it only reads")
MEASURES = dict.fromkeys(("create", "change"), "what it makes goes at the end of the same run")
CASES = {
    "capture": Case(
        (
            Step("create", {"root": str(CAPTURE), "dest": "@/a.capture"}, True),
            Step("change", {"root": str(CAPTURE), "dest": "@/a.capture", "anonymize": True}, True),
        ),
        ({"root": str(CAPTURE), "dest": "@/none/a.capture"}, "none"),
        {"absent": "an archive is for somebody who takes it along"},
    ),
    "driver_check": Case(
        (Step("look", {}, False),),
        ({"log_window": "x"}, "log_window"),
        READS,
    ),
    "driver_gate": Case(
        (Step("look", {"root": unpacked(CAPTURE), "version": "2.9.1"}, False),),
        ({"version": "2.9.1", "activate": "now"}, "value of activate must be one of"),
        READS,
    ),
    "driver_proof": Case(
        (
            Step("create", {"method": "doca", "version": "2.9.1", "facts": FACTS}, True),
            Step("change", {"method": "doca", "version": "3.0.0", "facts": FACTS}, True),
            Step("absent", {"state": "done"}, True),
        ),
        ({"state": "gone"}, "value of state must be one of"),
        {},
    ),
    "fabric_map": Case(
        (Step("look", {}, False),),
        ({"programs": ["ibnetdiscover", "nmap"]}, "nmap"),
        READS,
    ),
    "ib_facts": Case(
        (Step("look", {"root": unpacked(CAPTURE)}, False),),
        ({"root": "/nonexistent/node17"}, "/nonexistent/node17"),
        READS,
    ),
    "iscsi_initiator": Case(
        (
            Step("create", {**INITIATOR, "name": NAME}, True),
            Step("change", {**INITIATOR, "name": NAME + "1"}, True),
        ),
        ({**INITIATOR, "name": "no name"}, "no name"),
        {"absent": "a host always has a name"},
    ),
    "kernel_module": Case(
        (
            Step("look", {"name": LOADED, "persistent": False}, False),
            Step("create", {"name": LOADED}, True),
            # somebody has another module in the file of that name: it stays
            Step("change", {"name": LOADED, "after": [BEFORE_IT]}, True, {f"{LOADED}.conf": "# ours\nfuse\n"}),
        ),
        ({"name": "../evil"}, "../evil"),
        {"absent": "a module is never unloaded, and its file may be of somebody else"},
    ),
    "link_counters": Case(
        (Step("look", {"root": unpacked(CAPTURE)}, False),),
        ({"root": "/nonexistent/node17"}, "/nonexistent/node17"),
        READS,
    ),
    "node_change": Case(
        (
            Step("create", {**MARK, "state": "begun", "before": FACTS, "roles": ["ofed"]}, True),
            Step("change", {**MARK, "state": "begun", "before": FACTS, "roles": ["ofed", "roce_host"]}, True),
            Step("absent", {**MARK, "state": "ended"}, True),
        ),
        ({**MARK, "state": "begun", "before": {"devices": "x"}, "roles": ["ofed"]}, "before"),
        {},
    ),
    "node_file": Case(
        (
            Step("create", {"path": "@/a/b.conf", "content": "one\n"}, True),
            Step("change", {"path": "@/a/b.conf", "content": "two\n", "private": True}, True),
            Step("look", {"path": "@/a/b.conf", "content": "two\n"}, False),
        ),
        ({"path": "@/b.conf", "content": "", "mode": "u=rw"}, "mode is 'u=rw'"),
        {"absent": "ansible.builtin.file removes files"},
    ),
    "roce_host": Case(
        (
            Step("create", {**ROCE, "wish": {"mtu": 9000, "netns": "shared"}}, True, ROCE_FILES, ROCE_LINKS),
            Step("change", {**ROCE, "wish": {"mtu": 4200, "multi_rail": True}}, True),
            Step("absent", {**ROCE, "wish": {"persist": False}}, True),
        ),
        ({**ROCE, "wish": {"mtu": 1}}, "rdma_roce_host.mtu is 1"),
        {},
    ),
    "node_logs": Case(
        (Step("look", {"units": ["containerd"], "lines": 5}, False),),
        ({"units": ["-k; reboot"]}, "-k; reboot"),
        READS,
        # this machine goes on writing them
        moving=("logs",),
    ),
    "oci_rlimits": Case(
        (
            Step("change", {"path": "@/spec.json", "ctr": "/nowhere"}, True, {"spec.json": json.dumps(SPEC)}),
            Step(
                "change",
                {"path": "@/spec.json", "ctr": "/nowhere", "rlimits": [{"type": "NOFILE", "soft": 5, "hard": 6}]},
                True,
            ),
            Step("create", {"path": "@/new.json", "adopt": "@/spec.json", "ctr": "/nowhere"}, True),
            Step("create", {"path": "@/other.json", "adopt": "@/new.json", "ctr": "/nowhere"}, True),
        ),
        ({"path": "@/spec.json", "ctr": "/nowhere", "rlimits": [{"type": "MEMLOCK", "soft": "-2"}]}, "-2"),
        {"absent": "a limit is set to another value"},
    ),
    "containerd_memlock": Case(
        (
            Step("create", {"handlers": ["runc"]}, True),
            Step("change", {"handlers": ["all"]}, True),
        ),
        ({"soft": "lots"}, "rdma_memlock.soft is 'lots'; expected a number of bytes"),
        {"absent": "a limit that was lifted stays lifted"},
    ),
    "driver_packages": Case(
        (
            Step("absent", {"state": "restored", "manager": "apt"}, True, before=Packages.hold),
            Step("change", {"state": "settled", "manager": "apt"}, True, before=Packages.cut_short),
        ),
        ({"state": "gone"}, "value of state must be one of"),
        {"create": "it brings no package"},
    ),
    "lab": Case(
        (
            Step("look", {"state": "status", "directory": "@/lab"}, False, before=left_lab),
            Step("absent", {"state": "absent", "directory": "@/lab"}, True),
        ),
        ({"state": "gone", "directory": "@/lab"}, "value of state must be one of"),
        dict.fromkeys(
            ("create", "change"),
            "tests/integration/test_lab.py::test_a_node_comes_dies_comes_back_and_leaves_nothing",
        ),
    ),
    "mpi_traffic": Case(
        (Step("absent", {"file": "@/job.yaml"}, True, {"job.yaml": MANIFEST}, before=Jobs.killed),),
        ({"file": "@/none.yaml"}, "none.yaml cannot be read: No such file or directory"),
        {**MEASURES, "check": "tests/unit/plugins/modules/test_mpi_traffic.py::test_a_check_asks_the_cluster_nothing"},
    ),
    "output_files": Case(
        (
            Step("create", {**OUTPUT, "files": {"plan.json": "{}\n", "group/objects.yaml": "kind: Pod\n"}}, True),
            Step("change", {**OUTPUT, "files": {"plan.json": "[]\n"}, "header": "# ours\n"}, True),
        ),
        ({**OUTPUT, "files": {"good": "text", "../x": "text"}}, "'../x' is not a path below "),
        {"absent": "it takes no file away"},
    ),
    "pod_traffic": Case(
        (Step("absent", {"rounds": [[a_pair()]], "image": "registry.example/perftest:1"}, True, before=Pods.killed),),
        ({"rounds": [[a_pair()]], "image": "$(x)"}, "image '$(x)' is not a reference"),
        {**MEASURES, "check": "tests/unit/plugins/modules/test_pod_traffic.py::test_a_check_asks_the_cluster_nothing"},
    ),
    "quiet_value": Case(
        (Step("look", {"value": {"groups": {"a": [1]}}}, False),),
        ({"valu": 1}, "quiet_value has one option, value"),
        READS,
    ),
    "wave_gate": Case(
        (Step("look", {"state": "look"}, False), Step("look", {"state": "begin"}, False)),
        ({"state": "ended"}, "value of state must be one of: look, begin, end"),
        READS,
        # a clock
        moving=("at",),
    ),
}

# What needs a cluster, or a second host, is put through the same by these tests.
OF_A_ROLLOUT = "tests/cluster/test_matrix.py::test_modules_of_a_rollout_keep_the_rules_of_the_matrix"
BESIDE_ONE = "tests/cluster/test_matrix.py::test_what_is_beside_a_rollout_fits_the_matrix"
OF_A_SYSTEM = "tests/cluster/test_matrix.py::test_modules_of_a_system_keep_the_rules_of_the_matrix"
HERE_TOO = "tests/unit/plugins/modules/test_matrix.py::"
ASKED = f"{HERE_TOO}test_a_check_asks_the_cluster_as_a_run_does"
REFUSED = f"{HERE_TOO}test_an_option_that_is_unknown_or_of_another_type_is_refused_by_its_name"
PAIR = "tests/unit/plugins/modules/test_perftest_module.py::"
ASKS = {**READS, "again": ASKED, "check": ASKED, "bad input": REFUSED}
ELSEWHERE = {
    "cluster_access": ASKS,
    "cluster_snapshot": {**ASKS, "bad input": BESIDE_ONE},
    "cluster_state": ASKS,
    "handover_objects": dict.fromkeys(STEPS, OF_A_SYSTEM),
    "handover_ready": ASKS,
    "kubernetes_info": ASKS,
    "perftest": {
        **MEASURES,
        "absent": f"{PAIR}test_a_check_stops_no_server",
        "again": f"{PAIR}test_a_check_stops_no_server",
        "check": f"{PAIR}test_a_check_starts_no_process_and_says_so",
        "diff": "processes come and go, and nothing else changes",
        "bad input": f"{PAIR}test_bad_input_is_named_and_nothing_is_started",
    },
    "rollout": dict.fromkeys(STEPS, OF_A_ROLLOUT),
    "rollout_departures": ASKS,
    "rollout_lease": {**dict.fromkeys(STEPS, BESIDE_ONE), "change": "a Lease is held or not"},
    "rollout_ready": {**ASKS, "bad input": OF_A_ROLLOUT},
    "stale_resources": {
        **dict.fromkeys(STEPS, BESIDE_ONE),
        **dict.fromkeys(("create", "change"), "it takes away what a plugin has left"),
    },
    "system_objects": dict.fromkeys(STEPS, OF_A_SYSTEM),
    "system_ready": ASKS,
}
# Where each of these is run with something to see or to do.
RUN = {
    "cluster_access": BESIDE_ONE,
    "cluster_snapshot": BESIDE_ONE,
    "cluster_state": OF_A_SYSTEM,
    "kubernetes_info": OF_A_SYSTEM,
    "perftest": f"{PAIR}test_a_check_stops_no_server",
    "rollout": OF_A_ROLLOUT,
    "rollout_departures": OF_A_ROLLOUT,
    "rollout_lease": BESIDE_ONE,
    "rollout_ready": OF_A_ROLLOUT,
    "stale_resources": BESIDE_ONE,
    "system_objects": OF_A_SYSTEM,
    "handover_objects": OF_A_SYSTEM,
    "handover_ready": OF_A_SYSTEM,
    "system_ready": OF_A_SYSTEM,
}
# What reads alone, with arguments of it: its tests on a cluster make no check of it, or look once.
AS_A_RUN: dict[str, dict[str, t.Any]] = {
    "cluster_access": {},
    "cluster_snapshot": {},
    "cluster_state": {},
    "handover_ready": {
        "class_name": "c",
        "conditions": [{"what": "allocatable", "nodes": ["n1"], "resources": {"r/r": 1}}],
    },
    "kubernetes_info": {"api_version": "v1", "kind": "Node"},
    "rollout_departures": {"hosts": ["n1"]},
    "rollout_ready": {"name": "c", "namespace": "n", "daemon_set": "d", "nodes": ["n1"], "resources": {"r/r": 1}},
    "system_ready": {
        "system": "test",
        "waits": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "rdma", "name": "none"}],
    },
}
# What keeps the arguments of an example in the test's directory.
HERE: dict[str, Callable[[dict[str, t.Any]], dict[str, t.Any]]] = {
    "capture": lambda given: {**given, "root": str(CAPTURE), "dest": f"@/{Path(given['dest']).name}"},
    "driver_check": lambda given: {**given, **({"log_window": 1} if "log_window" in given else {})},
    "driver_gate": lambda given: {**given, "root": unpacked(CAPTURE)},
    "driver_proof": lambda given: {**given, "facts": FACTS},
    "fabric_map": lambda given: given,
    # the action reads a capture in place of the module, and concludes (test_ib_facts.py)
    "ib_facts": lambda given: {
        **{key: value for key, value in given.items() if key not in ("capture", "conclude")},
        "root": unpacked(CAPTURE),
        **({"before": FACTS} if "before" in given else {}),
    },
    "iscsi_initiator": lambda given: {**given, **INITIATOR},
    "kernel_module": lambda given: given,
    "link_counters": lambda given: {**given, "root": unpacked(CAPTURE)},
    "node_change": lambda given: {**given, **MARK, **({"before": FACTS} if "before" in given else {})},
    "node_file": lambda given: {**given, "path": "@/volumes.conf"},
    "roce_host": lambda given: {**given, **ROCE},
    "node_logs": lambda given: {**given, "lines": 5},
    "oci_rlimits": lambda given: {
        **given,
        "path": "@/spec.json" if "adopt" not in given else "@/new.json",
        "ctr": "/nowhere",
        **({"adopt": "@/spec.json"} if "adopt" in given else {}),
    },
}
# Where the examples of the others run.
EXAMPLES_ELSEWHERE = {
    **dict.fromkeys(RUN, "tests/cluster/test_matrix.py"),
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


def test_every_module_has_a_row() -> None:
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert set(CASES) | set(ELSEWHERE) == modules
    assert not set(CASES) & set(ELSEWHERE)
    assert set(RUN) == set(ELSEWHERE)
    assert set(HERE) | set(EXAMPLES_ELSEWHERE) == modules


def is_there(test: str) -> bool:
    """Whether pytest collects a test: PATH::NAME."""
    path, _colons, name = test.partition("::")
    if not re.fullmatch(r"tests/(.*/)?test_\w+\.py", path) or not name.startswith("test_"):
        return False
    body = ast.parse((ROOT / path).read_text()).body
    return name in [each.name for each in body if isinstance(each, ast.FunctionDef)]


@pytest.mark.parametrize("module", [*CASES, *ELSEWHERE])
def test_each_step_of_a_module_is_proved_or_has_a_reason(module: str) -> None:
    """Here, by a test that is named, or not at all: then it says why."""
    proved, told = (CASES[module].proved, CASES[module].without) if module in CASES else (set[str](), ELSEWHERE[module])
    assert not proved & set(told)
    assert proved | set(told) == set(STEPS)
    for step, said in told.items():
        assert is_there(said) if "::" in said else len(said.split()) > 2, step


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
    path, _colons, function = RUN[module].partition("::")
    assert is_there(RUN[module])
    ran, checked = run_and_checked(ROOT / path, function, module)
    assert ran
    assert checked or module in AS_A_RUN


@pytest.mark.parametrize("module", AS_A_RUN)
def test_a_check_asks_the_cluster_as_a_run_does(module: str, tmp_path: Path) -> None:
    """These only read: a check that did not ask would say that all is well."""
    asked = {**AS_A_RUN[module], "kubeconfig": "@/none"}
    results = [Process(module, tmp_path).call(asked, check) for check in (True, False, False)]
    # the one that comes before a plan warns, and leaves the refusal to the rollout
    assert f"no kubeconfig: {tmp_path / 'none'} does not exist" in json.dumps(results[0])
    assert results == [results[0]] * 3
    assert not results[0].get("changed")


@pytest.mark.parametrize("module", EXAMPLES_ELSEWHERE)
def test_the_examples_of_a_module_are_run(module: str) -> None:
    text = (ROOT / EXAMPLES_ELSEWHERE[module]).read_text()
    assert re.search(rf'\b(run_examples|documented)\(\s*"{module}"', text)


# the containerd of a package does not belong to a machine on which modules are written
ROWS = [pytest.param(each, marks=pytest.mark.parts if each == "containerd_memlock" else ()) for each in CASES]


@pytest.mark.parametrize("module", ROWS)
def test_a_module_keeps_the_rules(module: str, tmp_path: Path) -> None:
    with world_of(module, tmp_path) as world:
        keep_the_rules(module, CASES[module], world)


def test_a_module_that_breaks_a_rule_is_found(tmp_path: Path) -> None:
    """One that writes in a check, in a second run, or without a word, and one that takes what makes no sense."""

    class Writer(Process):
        """left: for each call whether it writes, and whether it tells of a change."""

        left: list[tuple[bool, bool]]

        def call(self, arguments: dict[str, t.Any], check: bool = False) -> dict[str, t.Any]:
            if "bad" in arguments:
                return {"failed": True, "msg": "bad"}
            writes, tells = self.left.pop(0)
            if writes:
                (self.directory / "file").write_text(str(len(self.left)))
            diff = {"diff": {"before": "a", "after": "b"}} if tells else {}
            return {"changed": tells, "value": 1, **diff}

        def content(self) -> t.Any:
            return content(self.directory)

    case = Case((Step("create", {}, True),), ({"bad": 1}, "bad"), {})
    right = [(False, True), (True, True), (False, False), (False, False)]
    wrong = [
        [(True, True), *right[1:]],
        [(False, False), *right[1:]],
        [right[0], (True, False), *right[2:]],
        [right[0], (False, True), *right[2:]],
        [*right[:2], (True, False), right[3]],
        [*right[:2], (False, True), right[3]],
        [*right[:3], (True, False)],
        [*right[:3], (False, True)],
    ]
    for number, said in enumerate([right, *wrong]):
        directory = tmp_path / str(number)
        directory.mkdir()
        world = Writer("quiet_value", directory)
        world.left = list(said)
        if said is right:
            keep_the_rules("quiet_value", case, world)
            continue
        with pytest.raises(AssertionError):
            keep_the_rules("quiet_value", case, world)


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
            result = Process(module, tmp_path).call({**needed, name: value}, check)
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
    results = [Process(module, tmp_path).call(WHERE[module](place), check) for check in (True, False)]
    assert all(each["failed"] for each in results)
    assert results[0]["msg"] == results[1]["msg"]
    assert str(here(place, tmp_path)) in results[0]["msg"]


def examples() -> Iterator[t.Any]:
    for module in HERE:
        for number, task in enumerate(documented(module, "EXAMPLES")):
            if f"fabric.rdma.{module}" in task:
                yield pytest.param(module, task[f"fabric.rdma.{module}"] or {}, id=f"{module}-{number}")


@pytest.mark.parametrize(("module", "arguments"), list(examples()))
def test_an_example_gives_what_is_documented(module: str, arguments: dict[str, t.Any], tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    if module == "roce_host":
        lay(rails(1).entries, tmp_path)
    result = Process(module, tmp_path).call(HERE[module](arguments))
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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tree says about itself is true: lists, versions, specifications, names."""

from __future__ import annotations

import ast
import fnmatch
import functools
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible import template
from ansible.inventory.manager import split_host_pattern
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.plugins.module_utils._plan.names import OF_A_RUN
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import ROLES as CHANGING
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_matrix import (
    CASES,
    RUN,
    looks_at_a_difference,
)

ROOT = Path(__file__).resolve().parents[2]
NAMES = re.compile(r"^[a-z][a-z0-9_]*$")
MAX_OPTIONS = 20
# text that Ansible is not to take for a template
yaml.SafeLoader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def load(path: str) -> t.Any:
    return yaml.safe_load((ROOT / path).read_text())


def stems(pattern: str) -> list[str]:
    return sorted(path.stem for path in ROOT.glob(pattern))


MODULES = stems("plugins/modules/*.py")
FILTERS = stems("plugins/filter/*.py")
# plays and their tasks; vars/ has data
PLAY_FILES = [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml")]
ROLES = sorted(path.name for path in ROOT.glob("roles/*") if path.is_dir())
PLAYBOOKS = stems("playbooks/*.yml")


def files() -> list[Path]:
    """Files that are in git or would be added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


# --- modules and filters -------------------------------------------------------------------------------------------


def test_action_group_lists_every_module() -> None:
    groups = load("meta/runtime.yml")["action_groups"]
    assert groups == {"rdma": MODULES}


@pytest.mark.parametrize(
    "path", [f"plugins/modules/{m}.py" for m in MODULES] + [f"plugins/filter/{f}.py" for f in FILTERS]
)
def test_plugin_is_documented_and_thin(path: str) -> None:
    source = (ROOT / path).read_text()
    assigned = {
        target.id: node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert {"DOCUMENTATION", "EXAMPLES", "RETURN"} <= set(assigned)
    documentation = yaml.safe_load(ast.literal_eval(assigned["DOCUMENTATION"].value))
    name = Path(path).stem
    assert documentation.get("module", documentation.get("name")) == name
    assert documentation["version_added"]
    if "/modules/" in path:
        fragments = documentation["extends_documentation_fragment"]
        assert any(fragment.startswith("fabric.rdma.attributes") for fragment in fragments)
    end_of_docs = max(assigned[key].end_lineno or 0 for key in ("DOCUMENTATION", "EXAMPLES", "RETURN"))
    code = len(source.splitlines()) - end_of_docs
    assert code < 200, f"{path} has {code} lines after its documentation: move logic to module_utils"


@pytest.fixture(scope="session")
def module_docs() -> dict[str, t.Any]:
    """Documentation of every module with its fragments, as ansible-doc puts it together."""
    names = [f"fabric.rdma.{name}" for name in MODULES]
    command = [sys.executable, "-m", "ansible", "doc", "--type", "module", "--json", *names]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


@pytest.mark.parametrize("name", MODULES)
def test_module_tells_its_attributes(module_docs: dict[str, t.Any], name: str) -> None:
    attributes = module_docs[f"fabric.rdma.{name}"]["doc"]["attributes"]
    for attribute in ("check_mode", "diff_mode", "idempotent"):
        support = attributes[attribute].get("support")
        assert support in ("full", "partial", "none", "N/A"), f"{name}: support of {attribute} is {support}"
        if support in ("partial", "none"):
            assert attributes[attribute].get("details"), f"{name}: {attribute} is {support} without details"


def test_the_matrix_expects_a_difference_where_one_is_documented(module_docs: dict[str, t.Any]) -> None:
    """test_matrix.py insists on it for each change, or, where none is documented, on its absence."""
    documented = {
        name: module_docs[f"fabric.rdma.{name}"]["doc"]["attributes"]["diff_mode"]["support"] for name in CASES
    }
    assert {name: case.shows_differences for name, case in CASES.items()} == {
        name: support in ("full", "partial") for name, support in documented.items()
    }


@pytest.mark.parametrize("name", RUN)
def test_a_difference_is_looked_at_elsewhere_where_one_is_documented(module_docs: dict[str, t.Any], name: str) -> None:
    path, _colons, function = RUN[name].partition("::")
    shown = module_docs[f"fabric.rdma.{name}"]["doc"]["attributes"]["diff_mode"]["support"] in ("full", "partial")
    assert looks_at_a_difference(ROOT / path, function, name) or not shown


def test_a_helper_of_other_modules_shows_no_difference_of_one(tmp_path: Path) -> None:
    place = tmp_path / "cluster" / "test_sample.py"
    place.parent.mkdir()
    place.write_text(
        "def changes(name):\n    assert differs(said(name).get('diff'))\ndef said(name):\n    return {}\n"
        "def test_it():\n    changes('rollout')\n    said('rollout_ready')\n"
    )
    looked = {name: looks_at_a_difference(place, "test_it", name) for name in ("rollout", "rollout_ready")}
    assert looked == {"rollout": True, "rollout_ready": False}


@pytest.mark.parametrize("path", sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("plugins/*_utils/**/*.py")))
def test_utils_are_private_and_say_so(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    assert any(part.startswith("_") for part in Path(path).parts), path
    assert "private" in (ast.get_docstring(tree) or "").lower(), (
        f"{path}: the docstring does not say that it is private"
    )
    assigned = [n.targets[0] for n in tree.body if isinstance(n, ast.Assign)]
    assigned += [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
    assert "__all__" in [n.id for n in assigned if isinstance(n, ast.Name)]


def test_plugins_have_no_package_markers() -> None:
    assert not list(ROOT.glob("plugins/**/__init__.py"))


# --- roles and playbooks -------------------------------------------------------------------------------------------


WISH = re.compile(r"^\{\{ *rdma_[\w.]+ *\| *default\((.*)\) *\}\}$", re.S)


def normal(value: t.Any) -> t.Any:
    """Value of a default: a role takes it from a wish of the inventory, and from the literal where there is none.

    Documentation tools want the literal in the specification ("default: false"), not the template around it.
    """
    if not isinstance(value, str):
        return value
    folded = " ".join(value.split())
    if not (match := WISH.match(folded)):
        return folded
    literal = match[1].removesuffix(", true").strip()
    return yaml.safe_load(literal)


@pytest.mark.parametrize("role", ROLES)
def test_role_specification_equals_defaults(role: str) -> None:
    assert NAMES.match(role.lstrip("_"))
    specs = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]
    assert "main" in specs
    defaults_file = ROOT / "roles" / role / "defaults" / "main.yml"
    defaults = (yaml.safe_load(defaults_file.read_text()) or {}) if defaults_file.is_file() else {}
    prefix = role.lstrip("_") + "_"
    options: dict[str, t.Any] = {}
    for entry, spec in specs.items():
        assert spec.get("short_description"), f"{role}: entry point {entry} has no short_description"
        for name, option in (spec.get("options") or {}).items():
            assert name.startswith(prefix), f"{role}: option {name} does not start with {prefix}"
            assert option.get("type"), f"{role}: option {name} has no type"
            assert option.get("description"), f"{role}: option {name} has no description"
            if "default" in option or not option.get("required"):
                options[name] = option
    assert len(options) <= MAX_OPTIONS
    assert {name: normal(option.get("default")) for name, option in options.items()} == {
        name: normal(value) for name, value in defaults.items()
    }


@pytest.mark.parametrize(
    ("rollout", "node"),
    [
        ({}, "n1"),
        ({"rdma_rollout": {}}, "n1"),
        ({"rdma_rollout": {"node_names": None}}, "n1"),
        ({"rdma_rollout": {"node_names": {"n2": "n1"}}}, "n1"),
        ({"rdma_rollout": {"node_names": {"n1": "n2", "n2": "n1"}}}, "n2"),
    ],
)
def test_the_node_that_is_drained_is_the_one_that_a_rollout_takes_for_the_host(rollout: t.Any, node: str) -> None:
    text = load("roles/ofed/defaults/main.yml")["ofed_node_name"]
    trusted = getattr(template, "trust_as_template", lambda plain: plain)(text)
    templar = template.Templar(DataLoader(), variables={"inventory_hostname": "n1", **rollout})
    assert templar.template(trusted) == node


@pytest.mark.parametrize("role", ROLES)
def test_role_has_its_papers(role: str) -> None:
    readme = ROOT / "roles" / role / "README.md"
    assert readme.is_file(), f"{readme.relative_to(ROOT)} is missing: say what the role changes on a node"
    assert len(readme.read_text()) > 200


@pytest.mark.parametrize("role", ROLES)
def test_internal_variables_are_marked(role: str) -> None:
    for path in (ROOT / "roles" / role).glob("vars/**/*.yml"):
        for name in yaml.safe_load(path.read_text()) or {}:
            assert name.startswith(f"__{role.lstrip('_')}_"), f"{path.relative_to(ROOT)}: {name}"


def test_playbook_names_can_be_called_by_full_name() -> None:
    names = [path.stem for path in ROOT.glob("playbooks/*.y*ml")]
    assert all(NAMES.match(name) for name in names), names
    assert not list(ROOT.glob("playbooks/*_vars")), "variables beside playbooks hide an inventory's"


# --- reference and versions ----------------------------------------------------------------------------------------


def listed_names(heading: str) -> list[str]:
    """Names in the first column of the table under a heading: rows look like ``| `name` | text |``."""
    text = (ROOT / "docs" / "reference.md").read_text()
    match = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert match, f"docs/reference.md has no heading '{heading}'"
    return sorted(re.findall(r"^\| *(?:\[)?`(?:fabric\.rdma\.)?([a-z0-9_]+)`", match[1], re.M))


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Modules", MODULES),
        ("Filters", FILTERS),
        ("Roles", [role for role in ROLES if not role.startswith("_")]),
        ("Playbooks", PLAYBOOKS),
    ],
)
def test_the_reference_lists_what_there_is(heading: str, names: list[str]) -> None:
    assert listed_names(heading) == names


def test_galaxy_yml_and_changelog_have_the_same_version() -> None:
    version = load("galaxy.yml")["version"]
    releases = load("changelogs/changelog.yaml")["releases"]
    assert version in releases
    assert re.search(rf"^v{re.escape(version)}$", (ROOT / "CHANGELOG.rst").read_text(), re.M)


def test_fragments_are_kept_for_the_next_changelog() -> None:
    assert list(ROOT.glob("changelogs/fragments/*.yml"))


def test_changelog_lists_what_is_new() -> None:
    text = (ROOT / "CHANGELOG.rst").read_text()
    missing = [
        name for name in MODULES + FILTERS + ROLES if f"fabric.rdma.{name}" not in text and not name.startswith("_")
    ]
    assert not missing, f"run `make changelog`: {missing}"


def test_changelog_of_a_first_release_has_features_only() -> None:
    """Nobody ever had what was repaired before it."""
    sections = {
        section for path in ROOT.glob("changelogs/fragments/*.yml") for section in load(str(path.relative_to(ROOT)))
    }
    assert sections <= {"release_summary", "major_changes", "minor_changes"}
    # of what was otherwise before, or of another entry, which is nowhere near in the sorted list
    repairs = r"\bused to\b|not missing|are new|earlier version|these two|no longer"
    told = [
        entry
        for path in ROOT.glob("changelogs/fragments/*.yml")
        for entries in load(str(path.relative_to(ROOT))).values()
        for entry in ([entries] if isinstance(entries, str) else entries)
    ]
    # they are read as one page, and none is longer than a few lines of it
    assert 40 < len(told) < 80
    assert [entry for entry in told if len(entry) > 350] == []
    assert [entry for entry in told if re.search(repairs, entry)] == []
    assert not re.search(repairs, (ROOT / "CHANGELOG.rst").read_text())


def test_requirements_name_the_collections_of_galaxy_yml_and_then_what_these_need() -> None:
    wanted = [entry["name"] for entry in load("collections/requirements.yml")["collections"]]
    own = list(load("galaxy.yml")["dependencies"])
    assert wanted[: len(own)] == own


def test_gates_have_no_exceptions() -> None:
    assert not list(ROOT.glob("tests/sanity/ignore*"))
    assert not list(ROOT.glob(".ansible-lint-ignore"))
    lint = load(".ansible-lint")
    assert lint["profile"] == "production"
    assert not {"skip_list", "warn_list", "enable_list", "mock_modules", "mock_roles"} & set(lint)


# --- Makefile, scenarios ---------------------------------------------------------------------------------------------

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"^([a-z-]+):.*?## (.*)$", MAKEFILE, re.M))
SCENARIOS = sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))


def test_papers_name_targets_that_there_are() -> None:
    papers = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md"), *ROOT.glob("tests/**/*.md")]
    named = {
        (path.relative_to(ROOT).as_posix(), target)
        for path in [*papers, ROOT / ".ci" / "run"]
        for target in re.findall(r"(?:`|^|exec )make ([a-z][a-z-]*)", path.read_text(), re.M)
    }
    assert len(named) > 5
    assert not [(path, target) for path, target in named if target not in TARGETS]


def test_make_test_says_what_it_runs() -> None:
    # with recordings of others where they lie beside the checkout
    (recipe,) = re.findall(r"^test: .*\n(?:\t.*\n)*\t@tools/test (.+)$", MAKEFILE.replace(" $(RECORDED)", ""), re.M)
    said, _dummy, left_out = TARGETS["test"].partition("(not: ")
    assert sorted(re.findall(r"\w+", said.partition(": ")[2])) == sorted(re.findall(r"\w+", recipe))
    # what is left out is a target, and runs tests
    assert set(re.findall(r"\w+", left_out)) <= set(TARGETS) - set(re.findall(r"\w+", recipe))
    # make everything runs both: what has nodes in one stage, beside others, and before it what that runs is built
    (everything,) = re.findall(
        r"^everything: .*\n(?:\t.*\n)*\t@tools/test (.+)$", MAKEFILE.replace(" $(RECORDED)", ""), re.M
    )
    both = {*re.findall(r"\w+", recipe), *re.findall(r"\w+", left_out)} - {"molecule", "cluster", "matrix"}
    # the scenario kubernetes runs all tests of a directory
    assert "tests/cluster/test_matrix.py" in re.findall(r"^matrix: .*\n(?:\t.*\n)*", MAKEFILE, re.M)[0]
    assert "directory: ../../tests/cluster\n" in (ROOT / "molecule" / "kubernetes" / "molecule.yml").read_text()
    assert sorted(re.findall(r"\w+", everything)) == sorted({*both, "scenarios", "programs"})
    (nodes,) = re.findall(r'^scenarios: .*\n\t@SCENARIOS="(.+)" tools/molecule', MAKEFILE, re.M)
    # the longest first: nothing would be beside its end; it has the tests of pods
    verifier = yaml.safe_load((ROOT / "molecule" / "cluster" / "molecule.yml").read_text())["verifier"]
    own = sorted(path.name for path in ROOT.glob("molecule/pods/tests/test_*.py"))
    assert verifier["additional_files_or_dirs"] == [f"../../pods/tests/{name}" for name in own]
    of_molecule = re.findall(r"\((.*)\)", TARGETS["molecule"])[0].split(", ")
    assert nodes.split() == ["cluster", *(name for name in of_molecule if name != "pods")]


def test_make_molecule_says_what_it_runs() -> None:
    """The scenarios that tools/molecule takes when nobody names one; another has a target of its own that says so."""
    apart = re.findall(r"^\t@SCENARIOS=(\w+) tools/molecule", MAKEFILE, re.M)
    assert f"grep -vxE '{'|'.join(apart)}'" in (ROOT / "tools" / "molecule").read_text()
    (said,) = re.findall(r"\((.*)\)", TARGETS["molecule"])
    assert said.split(", ") == [name for name in SCENARIOS if name not in apart]
    assert all(f"the scenario {name}" in TARGETS[name] for name in apart)
    # of make test, which runs no other
    number = ("no", "one", "two", "three", "four", "five")[len(said.split(", "))]
    assert f", and {number} scenarios on virtual nodes." in " ".join((ROOT / "CONTRIBUTING.md").read_text().split())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_says_what_it_is(name: str) -> None:
    first, second = (ROOT / "molecule" / name / "molecule.yml").read_text().splitlines()[:2]
    assert (first, second[:2]) == ("---", "# ")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_begins_with_what_a_killed_run_left(name: str) -> None:
    """Molecule would take nodes for created that a killed run, or a machine that was off since, has noted as created."""
    own = yaml.safe_load((ROOT / "molecule" / name / "molecule.yml").read_text()).get("scenario", {})
    common = yaml.safe_load((ROOT / ".config" / "molecule" / "config.yml").read_text())["scenario"]
    sequence = {**common, **own}["test_sequence"]
    assert sequence[:2] == ["syntax", "destroy"]
    assert sequence[-1] == "destroy"
    assert "create" in sequence
    # and forgets what it has written, which molecule leaves there: its changes would count as those of this run
    assert ROOT / "molecule" / "shared" / "forget.yml" in playbooks_of(ROOT / "molecule" / name / destroying(name))


def destroying(name: str) -> str:
    """The playbook that a scenario ends with."""
    provisioner = yaml.safe_load((ROOT / "molecule" / name / "molecule.yml").read_text()).get("provisioner", {})
    return str(provisioner.get("playbooks", {}).get("destroy", "destroy.yml"))


def playbooks_of(path: Path) -> list[Path]:
    """A playbook and all that it imports."""
    found = [path.resolve()]
    for play in yaml.safe_load(path.read_text()):
        if "ansible.builtin.import_playbook" in play:
            found += playbooks_of(path.parent / play["ansible.builtin.import_playbook"])
    return found


def test_the_table_of_the_control_plane_lists_its_tests() -> None:
    listed = re.findall(r"^\| `(test_\w+\.py)` \|", (ROOT / "tests/cluster/README.md").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in ROOT.glob("tests/cluster/test_*.py"))


def test_tests_that_are_named_for_a_run_are_there() -> None:
    """A test that has another name now would end `make unit`, or run where it should not."""
    for name, tests in re.findall(r"(tests/\S+\.py)((?:::\w+)*)", (ROOT / "Makefile").read_text()):
        text = (ROOT / name).read_text()
        assert [each for each in tests.split("::")[1:] if f"def {each}(" not in text] == [], name
    unit = ROOT / "tests" / "unit"
    parts = re.findall(r'^    "(test_\w+\.py)",$', (unit / "conftest.py").read_text(), re.M)
    assert parts
    assert [name for name in parts if not list(unit.rglob(name))] == []
    every = re.findall(r'^    "(test_\w+\.py)::(test_\w+)",$', (unit / "conftest.py").read_text(), re.M)
    assert every
    texts = {name: "".join(path.read_text() for path in unit.rglob(name)) for name, _test in every}
    assert [test for name, test in every if f"def {test}(" not in texts[name]] == []


# --- docs/faults.md ------------------------------------------------------------------------------------------------


def test_faults_of_writers_name_every_writer() -> None:
    """The heading names the modules with which each of its rows is tried: all that write on a node."""
    (heading,) = re.findall(
        r"^## Files that any module writes \((.*)\)$", (ROOT / "docs" / "faults.md").read_text(), re.M
    )
    source = (ROOT / "tests" / "unit" / "plugins" / "modules" / "test_writers.py").read_text()
    table = source[source.index("WRITERS = {") : source.index("\n}\n")]
    tried = set(re.findall(r'^            "([a-z_]+)",$', table, re.M)) & set(MODULES)
    assert set(re.findall(r"`(\w+)`", heading)) == tried
    through = re.compile(r"files import .*\b(replace|replace_all)\b|_base\.files import \([^)]*\breplace\b", re.S)
    writes = {name for name in MODULES if through.search((ROOT / "plugins" / "modules" / f"{name}.py").read_text())}
    # on the controller
    assert writes - tried <= {"capture"}


def tool(name: str) -> t.Any:
    """A program of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FAULTS = tool("faults")


@pytest.mark.parametrize("row", FAULTS.rows(FAULTS.PAGE.read_text()), ids=lambda row: row.fault)
def test_a_fault_names_what_proves_it(row: t.Any) -> None:
    for name, test in FAULTS.references(row):
        FAULTS.check(name, test)
    if row.proof == FAULTS.NOT_PROVED:
        assert not FAULTS.references(row)


@pytest.mark.parametrize("row", FAULTS.rows(FAULTS.PAGE.read_text()), ids=lambda row: row.fault)
def test_a_fault_says_where_only_a_longer_run_proves_it(row: t.Any) -> None:
    """A target of its own, each, which takes a while."""
    places = {FAULTS.locate(name).relative_to(ROOT).parts[:2] for name, _test in FAULTS.references(row)}
    line = FAULTS.PAGE.read_text().splitlines()[row.number - 1]
    longer = {
        "driver": {("molecule", "driver")},
        "kubernetes": {("molecule", "kubernetes"), ("tests", "cluster")},
        "cluster": {("molecule", "cluster")},
        "networks": {("molecule", "networks")},
        "dranet": {("molecule", "dranet")},
        "runtimes": {("molecule", "runtimes")},
        "judges": {("tests", "judges")},
    }
    assert set(longer) == set(re.findall(r"\w+", TARGETS["test"].partition("(not: ")[2]))
    for scenario, own in longer.items():
        assert (f"(`make {scenario}`)" in line) == (bool(places) and places <= own)


ROW = "| fault | it ends well | {} |"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("| fault | it ends well |", "a row has a fault, an outcome and a proof"),
        ("| fault | it ends well | |", "a row has a fault, an outcome and a proof"),
        (ROW.format("everywhere"), "a proof is `FILE::NAME`"),
        (ROW.format("`test_metadata.py`"), "a proof is `FILE::NAME`"),
        (
            ROW.format("`test_metadata.py::test_nothing_names_a_machine_a_registry_or_a_tracker` in part"),
            "a proof is `FILE::NAME`",
        ),
        (ROW.format("`test_nowhere.py::test_it`"), "test_nowhere.py is not there"),
        (ROW.format("`molecule.yml::Boot`"), "molecule.yml may be molecule/"),
        (ROW.format("`test_metadata.py::test_nothing_at_all`"), "has no test test_nothing_at_all"),
        (ROW.format("`test_metadata.py::tool`"), "test_metadata.py::tool is not a test"),
        (ROW.format("`node.py::disk: lost`"), "has no case 'disk: lost'"),
        (ROW.format("`containers.py::disk: full`"), "has no dictionary CASES"),
        (ROW.format("`driver/converge.yml::Go home`"), "has no task 'Go home'"),
    ],
)
def test_a_fault_without_a_proof_is_found(row: str, message: str) -> None:
    with pytest.raises(FAULTS.FaultsError, match=re.escape(message)):
        FAULTS.follow(f"## Here\n\n| fault | outcome | proof |\n|---|---|---|\n{row}\n")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def test_it():\n    pass\n", "asserts nothing"),
        ("def test_it():\n    look()\n\ndef look():\n    test_it()\n", "asserts nothing"),
        ("@pytest.mark.skip(reason='x')\ndef test_it():\n    assert 1\n", "is not run"),
        ("@pytest.mark.xfail\ndef test_it():\n    assert 1\n", "is not run"),
        ("@pytest.mark.skipif(1, reason='x')\ndef test_it():\n    look()\n\ndef look():\n    assert 1\n", None),
        ("@given(st.binary())\ndef test_it(data):\n    parse(data)\n", None),
    ],
)
def test_an_empty_proof_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str | None
) -> None:
    path = tmp_path / "test_made.py"
    path.write_text(code)
    monkeypatch.setattr(FAULTS, "locate", lambda _name: path)
    if message is None:
        FAULTS.check("test_made.py", "test_it")
    else:
        with pytest.raises(FAULTS.FaultsError, match=message):
            FAULTS.check("test_made.py", "test_it")


def test_every_run_of_a_proof_is_counted(tmp_path: Path) -> None:
    """As pytest collects them, examples of random tests too; a case on each of its nodes, a task for each item of its loop."""
    page = tmp_path / "page.md"
    proofs = [
        "`_containerd/test_grpc.py::test_bytes_that_are_no_message`",
        "`_containerd/test_grpc.py::test_any_bytes_are_a_message_or_an_error`",
        "`node.py::restart: CRI in error`, `driver/tasks/peermem.yml::Go through the ways in which it fails`",
        FAULTS.NOT_PROVED,
    ]
    page.write_text("## Here\n" + "\n".join(f"| {number} | x | {proof} |" for number, proof in enumerate(proofs)))
    command = [sys.executable, FAULTS.__file__, str(page)]
    # as many examples as there are, whatever this run is content with
    environment = {name: value for name, value in os.environ.items() if name != "FABRIC_RDMA_HYPOTHESIS"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[-6:] == [
        "| 0 | 1 | 5 |",
        "| 1 | 1 | 100 |",
        # three nodes, four ways
        "| 2 | 2 | 7 |",
        "| 3 | designed, not proved |  |",
        "",
        "3 of 4 faults are proved, by at least 112 runs; 1 are designed, not proved.",
    ]


# --- time limits of tests ---------------------------------------------------------------------------------------------

PACE = "molecule/shared/pace.py"
# What waits: the keyword timeout, or the first argument.
WAITING = {"run", "check_output", "communicate", "urlopen", "wait", "join"}
AT_FIRST = {"wait", "join"}


def fixed_limits(source: str) -> list[int]:
    """Lines where something waits for a number of seconds, one or more, that no machine changes."""
    found = []
    for node in ast.walk(ast.parse(source)):
        limits: list[ast.expr] = []
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Add)
            and ast.unparse(node.left).endswith("monotonic()")
        ):
            limits = [node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITING:
            limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            limits += node.args[:1] if node.func.attr in AT_FIRST else []
        for limit in limits:
            if isinstance(limit, ast.Constant) and isinstance(limit.value, (int, float)) and limit.value >= 1:
                found.append(limit.lineno)
    return found


def test_time_limits_of_tests_follow_the_machine() -> None:
    """A machine that is busy is not a failure: limits go through pace.limit()."""
    assert fixed_limits(
        "end = time.monotonic() + 60\nrun(x, timeout=5)\nx.run(timeout=5)\nx.wait(3)\nx.wait(limit(3))"
    ) == [1, 3, 4]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for top in ("tests", "molecule")
        for path in sorted((ROOT / top).rglob("*.py"))
        for line in fixed_limits(path.read_text())
    ]
    assert not found


def pace_of(tmp_path: Path, **environment: str) -> float:
    program = "import pace; print(pace.factor(), pace.limit(10))"
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str((ROOT / PACE).parent), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=variables, cwd=tmp_path, check=True, capture_output=True)
    factor, ten = map(float, done.stdout.split())
    assert ten == pytest.approx(10 * factor)
    return factor


@pytest.mark.parametrize(
    ("text", "factor"), [("40", 1), ("12.5", 1), ("100", 2.5), ("4000", 20), ("-1", None), ('"x"', None), ("", None)]
)
def test_the_pace_of_a_machine_follows_the_boot_of_its_lab(tmp_path: Path, text: str, factor: float | None) -> None:
    """By the boot of the lab; where that is not known, by a few processes."""
    (tmp_path / "state.json").write_text(f'{{"boot_seconds": {text}}}')
    found = pace_of(tmp_path, FABRIC_RDMA_LAB=str(tmp_path))
    assert 1 <= found <= 20
    assert factor is None or found == factor
    assert pace_of(tmp_path, FABRIC_RDMA_LAB=str(tmp_path), FABRIC_RDMA_PACE="3.5") == 3.5
    # for what runs beside more than there was when it was measured
    patient = pace_of(tmp_path, FABRIC_RDMA_LAB=str(tmp_path), FABRIC_RDMA_PACE_LEAST="7")
    assert patient >= 7
    assert factor is None or patient == max(factor, 7)


# --- words that do not belong ---------------------------------------------------------------------------------------

# Put together here, so that this file does not hold them itself.
FORBIDDEN = {
    "a path of a machine": "/" + "work/",
    "a path of a home directory": "/" + "root/",
    "a package registry's host": r"(?:pypi|pythonhosted|registry\.npmjs|crates|golang|maven)" + r"\." + "(?:org|io)",
    "a package mirror's host": r"[a-z0-9.-]*" + r"\b(?:debian|ubuntu)\." + r"(?:org|com|net)",
    "a reference to a tracker by number": r"\b(?:issue|ticket|PR)s? #?" + r"[0-9]+",
    # Colours of a style sheet look alike: they stand behind a colon, or have six digits.
    "a reference to a tracker by mark": r"(?<![\w&/#])(?<!: )#" + r"[0-9]{1,5}\b",
}
# Recorded or generated, or the licence.
NOT_PROSE = (
    "LICENSE",
    "tests/captures/",
    "roles/lab/files/containerd/go.mod",
    "roles/lab/files/containerd/go.sum",
    "roles/lab/files/device_plugin/go.mod",
    "roles/lab/files/device_plugin/go.sum",
    "roles/lab/files/dranet/go.mod",
    "roles/lab/files/dranet/go.sum",
    "roles/lab/files/kubernetes/go.mod",
    "roles/lab/files/kubernetes/go.sum",
    "roles/lab/files/networks/go.mod",
    "roles/lab/files/networks/go.sum",
    "tests/judges/go.mod",
    "tests/judges/go.sum",
)


# Nobody says so in English. Put together, too.
TRANSLATED = {
    "again": r"\ba" + r"new\b",
    "no longer": r"\bnot any " + r"more\b",
    "rules it out": r"\bspeaks? " + r"against\b",
    "look whether": r"\blooked " + r"whether\b",
    "the inventory no longer asks for it": r"\bwishes for any " + r"more\b",
    "is not a": r"(?i)(?<!\bthere )(?<!\bhere )(?<!\bwhere )\b(?:is|are) n"
    + r"o (?!longer|more|worse|exact|problem|reason)[a-z]",
    "finished": r"\b(?:comes?|came) to (?:its|an?|their|no)(?: good)? e" + r"nd\b",
    "those that are gone": r"\bthat there are no " + r"more\b",
    "that stay as they are": r"\bof which every" + r"thing\b",
    "no longer runs": r"\bdoes not \w+ any " + r"more\b",
    "malformed, or is not one": r"\b(?:that|what) (?:is|are) no" + r"ne\b(?! of)|_that_(?:is|are)_no" + r"ne\b",
    "is unknown; expected one of": r"; there are [{]",
    "a killed run": r"\bwhich was kil" + r"led\b",
    "an empty list counts": r"\bnone for n" + r"one\b",
    "whose name differs from their host's": r"\bcalled other" + r"wise\b",
    "do not influence": r"\bha(?:ve|s|d) no part i" + r"n\b",
    "is wanted": r"\b(?:is|are|was|were|be) wis" + r"hed\b(?! for\b)",
    "each treat the other as": r"\btakes? each ot" + r"her for the\b",
    "(GPU ...)": r", which is that of G" + r"PU\b",
    "does not happen": r"\b(?:do|does|did) not come abo" + r"ut\b",
    "tells ours from": r"\bby which (?:it is|they are) tol" + r"d from\b",
    "name its node": r"\bhow (?:its|his|their|the|hosts|nodes)(?: \w+){0,2} (?:is|are) cal" + r"led\b",
}


def test_names_of_tests_say_a_rule() -> None:
    """One or two words name a subject only."""
    names = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for top in ("benchmarks", "molecule", "tests")
        for path in (ROOT / top).rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert len(names) > 2000
    assert sorted(name for name in names if name.count("_", name.index("::")) < 3) == []


@pytest.mark.parametrize("better", sorted(TRANSLATED))
def test_texts_are_not_translated_word_by_word(better: str) -> None:
    pattern = re.compile(TRANSLATED[better])
    found = [
        f"{path.relative_to(ROOT)}: {' '.join(match[0].split())}"
        for path in files()
        if path.suffix in (".md", ".py", ".rst", ".yml", ".yaml", ".json")
        if not path.relative_to(ROOT).as_posix().startswith(NOT_PROSE)
        for match in pattern.finditer(" ".join(path.read_text().split()))
    ]
    assert found == []


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_nothing_names_a_machine_a_registry_or_a_tracker(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NOT_PROSE):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{name}:{number}: {match[0]!r}")
    assert not found, f"{what}: " + "; ".join(found[:20])


def test_scripts_are_executable_and_others_are_not() -> None:
    wrong = []
    for path in files():
        if path.parent == ROOT / "plugins" / "modules":
            continue  # Ansible's own rule: a shebang, and never executable
        first = path.read_bytes()[:2]
        if (first == b"#!") != bool(path.stat().st_mode & 0o100):
            wrong.append(path.relative_to(ROOT).as_posix())
    assert not wrong, f"shebang and executable bit disagree: {wrong}"


def methods_as_keys(text: str) -> list[str]:
    """Names of methods of a dictionary that a template reads with a dot and does not call: Jinja takes the method, not the key."""
    return re.findall(r"\w\.(?:values|items|keys|copy|get|pop|update)\b(?!\s*\()(?=[^\n]*(?:\}\}|%\}|\|))", text)


def test_templates_read_no_key_by_the_name_of_a_method() -> None:
    assert methods_as_keys("{{ helm.values | default({}) }}\n{{ found.items() | list }}\n{{ helm['values'] }}") == [
        "m.values"
    ]
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for top in ("roles", "playbooks", "molecule")
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in (".yml", ".j2")
        for name in methods_as_keys(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize("path", sorted((ROOT / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_plays_are_linear_whatever_the_site_prefers(path: Path) -> None:
    """Decisions for all hosts are made once, and what is added to the inventory is there for the next task. A failed host ends no play."""
    plays = [play for play in yaml.safe_load(path.read_text()) if "hosts" in play]
    pinned = {"strategy": "ansible.builtin.linear", "any_errors_fatal": False}
    assert {play["name"]: {key: play.get(key) for key in pinned} for play in plays} == {
        play["name"]: pinned for play in plays
    }


# It begins with nodes that are not there yet.
OTHER_ROLES = ["lab"]


def flat(tasks: t.Iterable[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    """Every task, also those of plays and in blocks."""
    for task in tasks:
        yield task
        for section in ("tasks", "block", "rescue", "always"):
            yield from flat(task.get(section, ()))


@functools.cache
def tasks_in(path: Path) -> tuple[dict[str, t.Any], ...]:
    """Every task of a file."""
    return tuple(flat(yaml.safe_load(path.read_text()) or ()))


def tasks_of(role: str) -> t.Iterator[dict[str, t.Any]]:
    """Every task of a role, also those in blocks."""
    for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml")):
        yield from tasks_in(path)


def test_variables_that_are_read_once_are_known() -> None:
    """What a role reads once for all hosts must not differ between them; the wishes are checked for it."""
    once = {
        "cluster_chart",
        "cluster_objects",
        "cluster_system",
        "compute_domain",
        "device_plugin",
        "discover",
        "doctor",
        "dra",
        "fabric",
        "gpu_operator",
        "longhorn",
        "network_operator",
        "plan",
        "report",
        "secondary_network",
        "topology",
        "verify",
        "verify_pod",
        "vgpu",
    }
    assert set(ROLES) - set(CHANGING) - once == set(OTHER_ROLES)
    of_a_host = {"verify_address", "verify_first_port", "report_generated"}
    of_a_host |= {
        "discover_gather_subset",
        "discover_before",
        "discover_conclude",
        "discover_needs",
        "discover_wait_timeout",
    }
    # who includes one of these says everything
    internal = {"cluster_chart", "cluster_objects", "cluster_system"}
    names = {name for role in once - internal for name in load(f"roles/{role}/defaults/main.yml")}
    assert sorted(names - of_a_host) == list(OF_A_RUN)


def test_what_differs_between_hosts_is_included_without_a_loop() -> None:
    """Side by side, what a loop includes runs in the order in which it first comes up at any host: a host's own order is lost."""
    paths = [*PLAY_FILES, *(ROOT / "roles").glob("*/tasks/*.yml")]
    loops = {
        (str(path.relative_to(ROOT)), task["loop"])
        for path in paths
        for task in tasks_in(path)
        if "loop" in task
        and not task.get("run_once")
        and {"ansible.builtin.include_tasks", "ansible.builtin.include_role"} & set(task)
    }
    turns = {("playbooks/prepare.yml", f"{{{{ __prepare_own[{level}] | default([]) }}}}") for level in range(8)}
    rounds = "{{ range(__verify_pairs.rounds | length) | list if inventory_hostname in __verify_pairs.jobs else [] }}"
    # turns of one level may be taken in any order, and a host has one; the rounds are the same for all that have any
    assert loops == turns | {("roles/verify/tasks/main.yml", rounds)}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_changes_nodes_passes_the_gate(role: str) -> None:
    """wave_gate reads by these names what became of the hosts; a role that prepare.yml calls, and no other, changes nodes."""
    gates = [task for task in tasks_of(role) if "fabric.rdma.wave_gate" in task]
    states = [task["fabric.rdma.wave_gate"]["state"] for task in gates]
    if role not in CHANGING:
        # by which those that change nodes look at one
        assert states == (["look"] if role == "discover" else [])
        return
    main = flat(yaml.safe_load((ROOT / "roles" / role / "tasks" / "main.yml").read_text()))
    included = [task["ansible.builtin.include_role"] for task in main if "ansible.builtin.include_role" in task]
    assert included[0] == {"name": "fabric.rdma.discover", "tasks_from": "before_change", "rolespec_validate": False}
    assert set(states) == {"begin", "end"}
    # nothing is changed before the first one
    telling = {"ansible.builtin." + name for name in ("assert", "debug", "include_role", "include_tasks", "set_fact")}
    telling.add("fabric.rdma.quiet_value")
    directory = ROOT / "roles" / role / "tasks"
    begins = next(path for path in sorted(directory.glob("*.yml")) if "state: begin" in path.read_text())
    places = {
        begins: "state: begin",
        **({} if begins.stem == "main" else {directory / "main.yml": f"include_tasks: {begins.name}"}),
    }
    for path, last in places.items():
        ahead = list(flat(yaml.safe_load(path.read_text().partition(last)[0].rpartition("- name: ")[0]) or ()))
        assert not [task["name"] for task in ahead if not telling & set(task)], path.name
    for task, state in zip(gates, states, strict=True):
        assert task["register"] == {"begin": f"{role}_begun", "end": f"{role}_ended"}[state]
        assert task["when"] == "not prepare_in_waves | default(false) | bool"


def test_nothing_is_imported_by_what_is_imported_or_included() -> None:
    """Ansible would take a file of this name from the directory where the playbook was started."""
    for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks" / "tasks").glob("*.yml")]:
        if path.stem != "main":
            tasks = tasks_in(path)
            assert not [task["name"] for task in tasks if "ansible.builtin.import_tasks" in task], path


def test_who_compares_a_node_with_what_it_was_waits_first() -> None:
    """A port waits for its subnet manager, a daemon for its start: whoever looks at one instant takes a good change back."""
    comparing = {
        str(path.relative_to(ROOT / "roles")): path.read_text()
        for path in (ROOT / "roles").glob("*/tasks/*.yml")
        if "fabric.rdma.rdma_worse" in path.read_text()
    }
    # what it gathers waits for the discover_before of whoever includes it
    assert "include_tasks: gather.yml" in comparing.pop("discover/tasks/compare.yml")
    # the judgement of a driver is made of what prove.yml and failed.yml have looked at
    assert "discover_before:" not in comparing.pop("ofed/tasks/driver.yml")
    assert set(comparing) == {"ofed/tasks/failed.yml", "ofed/tasks/judge.yml"}
    assert all("discover_before:" in text for text in comparing.values())


def told_before(path: Path, what: str, end: str) -> bool:
    """Whether a file of tasks says something before it says the end, itself or in a file that it includes by then."""
    ahead = path.read_text().partition(end)[0]
    included = [path.parent / name for name in re.findall(r"include_tasks: (\w+\.yml)", ahead)]
    of_discover = re.findall(r"name: fabric\.rdma\.discover\n +tasks_from: (\w+)\n", ahead)
    included += [ROOT / "roles" / "discover" / "tasks" / f"{name}.yml" for name in of_discover]
    return what in ahead or any(told_before(each, what, end) for each in included)


@pytest.mark.parametrize("role", CHANGING)
def test_a_change_ends_after_the_node_was_compared(role: str) -> None:
    """Else a role that is used alone lets the next wave begin, whatever this node has lost."""
    directory = ROOT / "roles" / role / "tasks"
    end = "state: end\n"
    ends = [path for path in directory.glob("*.yml") if end in path.read_text()]
    assert ends
    for path in ends:
        for what in ("fabric.rdma.rdma_worse", f"__{role}_before: \"{{{{ ansible_facts['rdma'] }}}}\""):
            assert told_before(path, what, end), path.name


def test_headers_are_installed_on_a_node_that_is_changed_only() -> None:
    """What stays as it is for another reason stays without them."""
    text = (ROOT / "roles" / "ofed" / "tasks" / "driver.yml").read_text()
    order = ["tasks: gate.yml", "tasks: snapshot.yml", "tasks: headers.yml", "tasks: install.yml"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)


SECTIONS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
# What runs on a node and is not this collection's: it looks, or leaves the writing to a program that has its own way (a package manager,
# systemd). fabric.rdma.capture writes into the directory of tempfile.
OF_ANSIBLE = {
    *(
        "add_host",
        "assert",
        "debug",
        "fail",
        "group_by",
        "import_playbook",
        "import_role",
        "import_tasks",
        "include_role",
        "include_tasks",
    ),
    *(
        "meta",
        "set_fact",
        "set_stats",
        "command",
        "fetch",
        "reboot",
        "service_facts",
        "setup",
        "slurp",
        "stat",
        "tempfile",
        "validate_argument_spec",
        "wait_for_connection",
    ),
    *("apt", "dnf", "package", "rpm_key", "service", "systemd_service"),
}
ON_NODES = {*(f"ansible.builtin.{name}" for name in OF_ANSIBLE), "community.general.modprobe"}


def on_nodes(tasks: t.Iterable[dict[str, t.Any]], controller: bool = False) -> t.Iterator[tuple[str, str]]:
    """The name and the module of every task that runs on a node: neither it nor a block or play around it is the controller's."""
    for task in tasks:
        here = controller or "localhost" in (task.get("delegate_to"), task.get("hosts"))
        inner = [section for section in SECTIONS if section in task]
        for section in inner:
            yield from on_nodes(task[section] or (), here)
        removes = "ansible.builtin.file" in task and task["ansible.builtin.file"].get("state") == "absent"
        if not inner and not here and "hosts" not in task and not removes:
            yield from ((task["name"], key) for key in task if "." in key)


def other_writers(tasks: t.Iterable[dict[str, t.Any]]) -> list[str]:
    """Tasks that write on a node, and not the way this collection does."""
    return [
        name for name, module in on_nodes(tasks) if module not in ON_NODES and not module.startswith("fabric.rdma.")
    ]


def test_one_writer_for_all_that_roles_write_on_a_node() -> None:
    """fabric.rdma.node_file, or a module of its own, all over _base/files.py: whole or not at all, on the disk, and nobody else's."""
    paths = [*(ROOT / "roles").rglob("*.yml"), *PLAY_FILES]
    tasks = {
        path: yaml.safe_load(path.read_text()) for path in paths if {"tasks", "handlers", "playbooks"} & {*path.parts}
    }
    assert sum(len(list(on_nodes(found or ()))) for found in tasks.values()) > 300
    assert {
        path.relative_to(ROOT): names for path, found in tasks.items() if (names := other_writers(found or ()))
    } == {}


def test_a_directory_of_the_user_is_expanded_before_paths_are_compared_with_it() -> None:
    """Modules expand ~, and relpath does not: what was just written below ~/out would be taken for what is not wanted there."""
    paths = [*(ROOT / "roles").rglob("*.yml"), *PLAY_FILES]
    found = {
        path: re.findall(r"'relpath', (\w+)( \| ansible\.builtin\.expanduser)?\)", path.read_text()) for path in paths
    }
    assert sum(map(len, found.values())) == 3
    for path, uses in found.items():
        for name, expanded in uses:
            assert expanded or re.search(rf"{name}: .*\| ansible\.builtin\.expanduser ", path.read_text()), (path, name)


def test_what_a_loss_of_power_has_cut_short_is_ended_before_a_role_asks_for_packages() -> None:
    """apt installs and removes nothing until then, so that every run of the role would fail."""

    def settles(task: dict[str, t.Any]) -> bool:
        return task.get("fabric.rdma.driver_packages", {}).get("state") in ("opened", "settled")

    asks: list[str] = []
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        tasks = FAULTS.tasks(path)
        if path.relative_to(ROOT) == Path("roles/ofed/tasks/apt.yml"):
            # after what is before it in the file that leads there
            before = FAULTS.tasks(path.parent / "install.yml")
            tasks = {**dict(itertools.takewhile(lambda pair: "doca.yml" not in str(pair[1]), before.items())), **tasks}
        ready = False
        for name, task in tasks.items():
            ready = ready or settles(task)
            if {"ansible.builtin.apt", "ansible.builtin.package"} & set(task):
                asks.append(name)
                assert ready, name
    assert len(asks) == 8


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ({"ansible.builtin.copy": {"dest": "/x"}}, True),
        ({"ansible.builtin.copy": {"dest": "/x"}, "delegate_to": "localhost"}, False),
        ({"ansible.builtin.copy": {"dest": "/x"}, "delegate_to": "{{ item }}"}, True),
        ({"block": [{"name": "x", "ansible.builtin.template": {}}], "delegate_to": "localhost"}, False),
        ({"block": [], "rescue": [{"name": "x", "ansible.builtin.lineinfile": {}}]}, True),
        ({"hosts": "localhost", "tasks": [{"name": "x", "ansible.builtin.copy": {}}]}, False),
        ({"hosts": "all", "handlers": [{"name": "x", "community.general.ini_file": {}}]}, True),
        ({"ansible.builtin.file": {"path": "/x", "state": "absent"}}, False),
        ({"ansible.builtin.file": {"path": "/x", "state": "directory"}}, True),
        ({"ansible.builtin.get_url": {"url": "x"}}, True),
        ({"fabric.rdma.node_file": {"path": "/x"}}, False),
    ],
)
def test_another_writer_is_found(task: dict[str, t.Any], found: bool) -> None:
    assert bool(other_writers([{"name": "x", **task}])) is found


def task_lists(value: t.Any) -> t.Iterator[list[dict[str, t.Any]]]:
    """Every list of tasks: of a file, of a play, and of each block in it."""
    if isinstance(value, list):
        yield value
        for task in value:
            for section in SECTIONS:
                yield from task_lists(task.get(section))


def unjudged(tasks: t.Any) -> list[str]:
    """Tasks that may fail without a word: the next one neither fails for what they return nor keeps what they say, for a later one that does."""
    found = []
    for each in task_lists(tasks):
        for task, following in zip(each, [*each[1:], {}], strict=True):
            kept, name = str(following.get("ansible.builtin.set_fact")), task.get("register")
            # of a loop all that it returned
            keeps = f"{name}.msg" in kept or ("loop" in task and f"{{{{ {name} }}}}" in kept)
            judge = following if keeps or {"ansible.builtin.fail", "ansible.builtin.assert"} & set(following) else {}
            if task.get("ignore_errors") or (
                task.get("failed_when") is False and str(task.get("register")) not in str(judge)
            ):
                found.append(task["name"])
    return found


@functools.lru_cache
def switches() -> frozenset[str]:
    """Variables that are true or false: options of roles, and what playbooks take for one when nobody sets it."""
    found = {
        name
        for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
        for name, option in (entry.get("options") or {}).items()
        if option.get("type") == "bool"
    }
    for path in PLAY_FILES:
        found |= set(re.findall(r"\b([a-z]\w+) \| default\((?:true|false)\)", path.read_text()))
    return frozenset(found)


def words_taken_for_true(text: str) -> set[str]:
    """Switches of a condition that are not made true or false: `-e NAME=false` is a text, which ansible-core takes for true or refuses."""
    made = r"(?: \| default\((?:true|false)\))? \| bool"
    found = re.finditer(rf"(?<![\w.'\"])([a-z]\w+)\b(?!['\"(=]|{made}| is )", text)
    return {match[1] for match in found if match[1] in switches()}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("not verify_insist", {"verify_insist"}),
        ("plan_insist and plan_result is defined", {"plan_insist"}),
        ("compare_insist | default(false)", {"compare_insist"}),
        ("compare_insist | default(false) | bool and verify_insist | bool", set()),
        ("verify_insist is defined", set()),
    ],
)
def test_a_text_is_not_taken_for_true(text: str, names: set[str]) -> None:
    assert words_taken_for_true(text) == names


def test_who_types_a_switch_as_a_text_is_understood() -> None:
    conditions = ("when", "that", "until", "failed_when", "changed_when")
    wrong = {}
    for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]:
        for task in tasks_in(path):
            arguments = [value for value in task.values() if isinstance(value, dict)]
            for each in (task, *arguments):
                for text in (each[key] for key in conditions if key in each):
                    if names := words_taken_for_true(" ".join(map(str, text)) if isinstance(text, list) else str(text)):
                        wrong[f"{path.relative_to(ROOT)}: {task.get('name')}"] = names
        # in a template, too: there every text but an empty one is true
        text = " ".join(path.read_text().split())
        for match in re.finditer(r"\b(?:if|not|and|or) (?=([a-z]\w+)\b([^}'\"]{0,60}))", text):
            if match[1] in words_taken_for_true(match[1] + match[2]):
                wrong[f"{path.relative_to(ROOT)}: {match[1] + match[2]}"] = {match[1]}
    assert wrong == {}


def test_no_task_fails_without_a_word() -> None:
    """Who lets a task pass because Ansible would show a secret in its failure judges it in the next one."""
    paths = [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]
    assert {str(path): names for path in paths if (names := unjudged(yaml.safe_load(path.read_text()) or []))} == {}
    passes = {"name": "x", "failed_when": False, "register": "found"}
    judge = {"name": "y", "ansible.builtin.fail": {}, "when": "found.msg is defined"}
    assert unjudged([passes, judge]) == []
    keeper = {
        "name": "y",
        "ansible.builtin.set_fact": {"lines": "{{ [found.msg] + lines }}"},
        "when": "found.msg is defined",
    }
    assert unjudged([passes, keeper]) == []
    assert unjudged([passes, {**keeper, "ansible.builtin.set_fact": {"lines": []}}]) == ["x"]
    keeper = {"name": "y", "ansible.builtin.set_fact": {"all": "{{ found }}"}}
    assert unjudged([{**passes, "loop": [1]}, keeper]) == []
    assert unjudged([passes, keeper]) == ["x"]
    assert unjudged([{"block": [passes]}, judge]) == ["x"]
    assert unjudged([passes, {**judge, "when": "other is defined"}]) == ["x"]
    assert unjudged([{"name": "z", "ignore_errors": True}]) == ["z"]


def test_modules_for_boot_have_one_writer() -> None:
    """community.general.modprobe with "persistent" rewrites a file of modules-load.d, whatever somebody else has in it."""
    loads = [task for role in ROLES for task in tasks_of(role) if "community.general.modprobe" in task]
    assert loads
    assert not [task["name"] for task in loads if "persistent" in task["community.general.modprobe"]]


def test_the_gate_knows_every_role_that_is_called_for_a_node() -> None:
    source = (ROOT / "plugins" / "module_utils" / "_prepare" / "needs.py").read_text()
    called = {role for role in ROLES if f'"{role}"' in source}
    assert called == set(CHANGING)


def test_every_filter_is_used_by_a_role_or_a_playbook() -> None:
    text = "".join(path.read_text() for top in ("roles", "playbooks") for path in (ROOT / top).rglob("*.yml"))
    assert [name for name in stems("plugins/filter/*.py") if not re.search(rf"fabric\.rdma\.{name}\b", text)] == []


def test_the_architecture_has_every_role_and_playbook() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = [*(f"`{name}`" for name in ROLES), *(f"`{name}.yml`" for name in PLAYBOOKS)]
    assert len(names) > 40
    assert [name for name in names if name not in text] == []


def test_no_plugin_reads_a_private_variable() -> None:
    """What a role or playbook keeps for itself has a name with two underscores; a plugin is told the names of what it is to read."""
    private = re.compile(rf"__(?:{'|'.join([*ROLES, *PLAYBOOKS])})_\w+")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "plugins").rglob("*.py")
        for name in private.findall(path.read_text())
    }
    assert found == set()


PRIVATE = re.compile(rf"\b__({'|'.join(sorted(ROLES, key=len, reverse=True))})_\w+")


def private_names(directory: Path) -> dict[str, str]:
    """Variables that are named as private to a role, each with that role, of all files of a directory that Ansible reads."""
    return {
        match[0]: match[1]
        for path in directory.rglob("*")
        if path.suffix in (".yml", ".j2")
        for match in PRIVATE.finditer(path.read_text())
    }


def test_no_play_is_left_by_one_host_after_the_other() -> None:
    """Ansible searches the list of all that have left a play for each host and task: with ten thousand of them, for hours."""
    leaving = {
        path.relative_to(ROOT): str(task.get("when"))
        for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]
        for task in tasks_in(path)
        if task.get("ansible.builtin.meta") in ("end_host", "end_role")
    }
    # the controller; and whom choose.yml has added
    few = {Path("playbooks/tasks/controller.yml"), Path("playbooks/tasks/chosen.yml")}
    assert set(leaving) == few
    assert "inventory_hostname == 'localhost'" in leaving[Path("playbooks/tasks/controller.yml")]
    begins = [
        (path.name, play["hosts"])
        for path in PLAY_FILES
        for play in yaml.safe_load(path.read_text()) or ()
        if any("chosen.yml" in str(task.get("ansible.builtin.import_tasks")) for task in play.get("tasks", ()))
    ]
    assert sorted(name for name, _hosts in begins) == ["discover.yml", "prepare.yml", "probe.yml", "verify.yml"]
    assert [name for name, hosts in begins if "__probe_pattern" not in hosts] == []


def test_whom_a_run_is_for_is_checked_wherever_it_is_read() -> None:
    """A list, or a pattern that only leaves hosts out, would be other hosts in a play that has the controller, too."""
    read = [
        (path.relative_to(ROOT), after)
        for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]
        for after in re.findall(r"rdma_hosts \| default\('rdma'\)(.{0,28})", path.read_text())
    ]
    assert len(read) > 20
    unchecked = [path for path, after in read if not after.startswith((" | fabric.rdma.rdma_pattern", " }}. "))]
    assert unchecked == []


def test_a_play_of_the_controller_alone_reads_no_wish() -> None:
    """The controller has no variables of the group rdma: it would work on another cluster than the rollout, with default wishes."""
    plays = [
        play for path in PLAY_FILES for play in yaml.safe_load(path.read_text()) if play.get("hosts") == "localhost"
    ]
    assert sorted(play["name"] for play in plays) == [
        "Create its objects in AWX",
        "Lab of virtual machines with RDMA devices",
    ]
    assert [play["name"] for play in plays if re.search(r"\brdma_(rollout|groups)\b", json.dumps(play["tasks"]))] == []


@pytest.mark.parametrize(
    "name",
    [
        "node1",
        "node-1.example.org",
        "fd00::1",
        "fe80:0:0:0:1:2:3:4",
        "aa:bb:cc:dd:ee:ff",
        "cafe:beef",
        "a,b",
        "x[1:3]",
        "!a",
    ],
)
def test_whom_a_play_is_for_is_no_pattern_of_others(name: str) -> None:
    """Ansible splits names at commas and colons, but for addresses, and the play would be without this one."""
    tasks = yaml.safe_load((ROOT / "playbooks" / "tasks" / "choose.yml").read_text())
    (plain,) = [task["vars"]["__probe_plain"] for task in tasks if "__probe_plain" in task.get("vars", {})]
    pattern = name if re.match(plain, name) else re.sub(r"[^\w.-]", "?", name)
    assert split_host_pattern([pattern]) == [pattern]
    # a question mark stands for any one character
    assert fnmatch.fnmatchcase(name, pattern)
    assert not pattern.startswith(("!", "&", "~"))


def run_once_in(tasks: t.Iterable[dict[str, t.Any]], once: bool = False) -> t.Iterator[dict[str, t.Any]]:
    """Every task that runs once, also where a block or a play says so."""
    for task in tasks:
        whole = once or bool(task.get("run_once"))
        if whole:
            yield task
        for section in ("tasks", "block", "rescue", "always"):
            yield from run_once_in(task.get(section, ()), whole)


def test_what_is_only_said_once_is_said_of_no_host() -> None:
    """Otherwise ansible-core 2.21 gives all hosts of the play an empty set of facts: those that had none share it, and a fact cache writes
    a file for each."""
    said = [
        (str(path.relative_to(ROOT)), task["name"], task.get("delegate_facts"))
        for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]
        for task in run_once_in(yaml.safe_load(path.read_text()) or ())
        if "ansible.builtin.debug" in task
    ]
    assert len(said) > 30
    assert [(path, name) for path, name, alone in said if not alone] == []


# Facts that are computed once for all hosts, and are as long as there are groups, systems or words, not hosts.
SHORT = {
    "__longhorn_reason",
    "__plan_failure",
    "__prepare_more",
    "__prepare_stop",
    "__site_rollout_failure",
    "__systems_all",
    "__systems_wished",
    "cluster_chart_there",
    "cluster_system_held",
    "cluster_system_refused",
}


def test_what_grows_with_the_cluster_is_kept_out_of_events() -> None:
    """set_fact tells ansible-runner and AWX all that it sets."""
    computed = [
        (str(path.relative_to(ROOT)), name, bool(task.get("no_log")))
        for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]
        for task in run_once_in(yaml.safe_load(path.read_text()) or ())
        for name, value in task.get("ansible.builtin.set_fact", {}).items()
        if "{{" in str(value)
    ]
    assert len(computed) > 20
    assert [(path, name) for path, name, hidden in computed if not hidden and name not in SHORT] == []
    assert {name for _path, name, hidden in computed if not hidden} == SHORT


def test_objects_are_read_by_what_never_takes_silence_for_nothing_and_shows_none_of_them() -> None:
    """k8s_info finds nothing where an API server is too busy to tell its kinds, and events have all that it finds."""
    tasks = [task for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES] for task in tasks_in(path)]
    assert [task["name"] for task in tasks if "kubernetes.core.k8s_info" in task] == []
    assert len([task for task in tasks if "fabric.rdma.kubernetes_info" in task]) > 5


SETS = r"^ *(?:register: )?(__\w+)(?::|$)"
OF_PLAYBOOKS = {name for path in PLAY_FILES for name in re.findall(SETS, path.read_text(), re.M)}


@pytest.mark.parametrize("directory", [*(f"roles/{role}" for role in ROLES), "playbooks", "molecule"])
def test_nobody_names_a_private_variable_of_another_role_or_of_a_playbook(directory: str) -> None:
    """What others may give to a role or read of it has a name without underscores, and its documentation."""
    own = directory.removeprefix("roles/")
    of_roles = {name for name, role in private_names(ROOT / directory).items() if role != own}
    if own == "playbooks":
        # some playbooks and roles share a name
        assert of_roles - OF_PLAYBOOKS == set()
        return
    texts = [path.read_text() for path in (ROOT / directory).rglob("*") if path.suffix in (".yml", ".j2")]
    of_playbooks = {name for text in texts for name in re.findall(r"\b__\w+", text)} & OF_PLAYBOOKS
    assert (of_roles, of_playbooks) == (set(), set())


def test_no_variable_is_set_by_a_playbook_and_by_a_role() -> None:
    files = (ROOT / "roles").glob("*/*/*.yml")
    of_roles = {name for path in files for name in re.findall(SETS, path.read_text(), re.M)}
    assert OF_PLAYBOOKS & of_roles == set()


def included_roles(role: str) -> set[str]:
    """Roles of the collection that a role includes or imports."""
    words = ("ansible.builtin.include_role", "ansible.builtin.import_role")
    names = {task[word]["name"] for task in tasks_of(role) for word in words if word in task}
    assert all(name.removeprefix("fabric.rdma.") in ROLES for name in names), names
    return {name.removeprefix("fabric.rdma.") for name in names}


@pytest.mark.parametrize("role", ROLES)
def test_no_role_includes_itself_by_way_of_others(role: str) -> None:
    ahead, seen = included_roles(role), set[str]()
    while ahead:
        one = ahead.pop()
        seen.add(one)
        ahead |= included_roles(one) - seen
    assert role not in seen


@pytest.mark.parametrize("role", ROLES)
def test_what_another_includes_of_a_role_is_specified(role: str) -> None:
    paths = [*(ROOT / "roles").glob("*/tasks/*.yml"), *PLAY_FILES]
    entries = {
        task[word].get("tasks_from", "main")
        for path in paths
        for task in tasks_in(path)
        for word in ("ansible.builtin.include_role", "ansible.builtin.import_role")
        if word in task and task[word]["name"] == f"fabric.rdma.{role}"
    }
    assert entries <= set(load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"])


@pytest.mark.parametrize("role", ROLES)
def test_a_role_says_what_it_does_in_a_check(role: str) -> None:
    """Every entry point does, and whether it shows differences and finds nothing to do the second time."""
    entries = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]
    for name, spec in entries.items():
        assert set(spec.get("attributes", ())) == {"check_mode", "diff_mode", "idempotent"}, name
        for attribute in spec["attributes"].values():
            assert attribute["support"] == "full" or attribute["details"]


# What a run leaves for the next one. Evidence is a file for each group in a directory of this name.
DOCUMENT = re.compile(r"(?:^|/)(?:(?:facts|plan|outcomes|state)\.json$|evidence/)")
# in the text of a file, to look at few of them
NAMED = re.compile(r"\.json|evidence")


def inside(scope: ast.AST) -> t.Iterator[ast.AST]:
    """The nodes of a file or a function, without those of functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from inside(node)


def bound(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """By the name of a variable, what it may come from."""
    found: dict[str, list[ast.expr]] = {}
    for node in inside(scope):
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.For, ast.comprehension)):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.withitem):
            pairs = [(node.optional_vars, node.context_expr)]
        for target, value in pairs:
            for name in ast.walk(target) if target else ():
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(value)
    return found


def paths_named(value: ast.expr, names: dict[str, list[ast.expr]]) -> set[str]:
    """Every text in an expression, and in what its variables come from. A directory ends with a slash."""
    ahead, seen, texts = [value], set[str](), set[str]()
    while ahead:
        for node in ast.walk(ahead.pop()):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
                    texts.add(node.right.value + "/")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                ahead += names.get(node.id, [])
    return texts


def unchecked_reads(text: str) -> list[str]:
    """Where a program reads such a document as JSON: by itself, over several lines and variables, or with a function of its own."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    readers = {"json.load", "json.loads"}

    def reads(scope: ast.AST) -> list[ast.Call]:
        return [node for node in inside(scope) if isinstance(node, ast.Call) and ast.unparse(node.func) in readers]

    readers |= {
        function.name
        for function in functions
        for call in reads(function)
        if {arg.arg for arg in function.args.args} & {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
    }
    found = {}
    for scope in [tree, *functions]:
        names = bound(scope)
        for call in reads(scope):
            if any(DOCUMENT.search(name) for each in call.args for name in paths_named(each, names)):
                found[call.lineno, call.col_offset] = ast.unparse(call)
    return [found[place] for place in sorted(found)]


# "file: call" -> why it is not read with load() of tests/unit/contracts.py.
READ_UNCHECKED = {
    "molecule/default/tests/test_results.py: json.loads((Path(os.environ['FABRIC_RDMA_LAB']) / 'state.json').read_text())": "of the lab",
    "tests/cluster/test_interrupted.py: json.loads(text.replace(names[0], name))": "it was checked, and has another name since",
    "tests/integration/test_planning.py: json.loads(text)": "it was checked, and has another name since",
    "tests/integration/test_untrusted_facts.py: json.loads((tmp_path / 'output' / 'facts.json').read_text())": "they are hostile",
    "tests/unit/plugins/plugin_utils/_lab/test_layout.py: json.loads(Path(directory.file('state.json')).read_text())": "of the lab",
    "tests/unit/plugins/plugin_utils/test__view.py: json.loads(path.read_text())": "it is damaged",
}


def test_what_a_run_has_written_is_checked_when_a_test_reads_it() -> None:
    """tests/unit/contracts.py, load(): a document that its schema does not allow is found, whatever the test looks at."""
    found = {
        f"{path.relative_to(ROOT)}: {read}"
        for top in ("molecule", "tests")
        for path in sorted((ROOT / top).rglob("*.py"))
        if path != Path(__file__).resolve() and NAMED.search(text := path.read_text())
        for read in unchecked_reads(text)
    }
    assert found == set(READ_UNCHECKED)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("json.loads((out / 'plan.json').read_text())", True),
        ("json.loads(\n    (out / 'evidence' / f'{group}.json')\n    .read_text()\n)", True),
        ("for path in out.glob('evidence/*.json'):\n    json.loads(path.read_text())", True),
        ("path = out / 'systems' / 'dra' / 'state.json'\nwith open(path) as stream:\n    json.load(stream)", True),
        ("def read(path):\n    return json.loads(path.read_text())\nread(out / 'outcomes.json')", True),
        ("load(out / 'plan.json')", False),
        ("json.loads((out / 'doctor.json').read_text())", False),
        ("json.loads(document['evidence'])", False),
    ],
)
def test_a_document_is_found_however_it_is_read(text: str, found: bool) -> None:
    assert bool(unchecked_reads(text)) is found


@pytest.mark.parametrize("path", sorted(ROOT.glob("roles/*/templates/**/*.j2")), ids=lambda path: path.name)
def test_who_manages_a_file_is_said_in_a_comment(path: Path) -> None:
    """ansible_managed may have several lines, of which Jinja would comment the first one only."""
    uses = re.findall(r"{{([^}]*ansible_managed[^}]*)}}", path.read_text())
    assert path.read_text().count("ansible_managed") == len(uses)
    assert all(re.search(r"ansible_managed \| comment\b", use) for use in uses)


def test_what_is_not_linted_has_a_reason() -> None:
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for directory in ("benchmarks", "molecule", "plugins", "roles", "playbooks", "tests", "tools")
        for path in sorted((ROOT / directory).rglob("*"))
        if path.suffix in (".py", ".yml") and path != Path(__file__).resolve()
        for line in path.read_text().splitlines()
        if re.search(r"# noqa\b", line) and not re.search(r"# noqa: [A-Z0-9, ]+ - \w", line)
    ]
    assert lines == []


# What changes a cluster. A module of this collection that does asks for the Lease itself, whoever has taken it.
CHANGES_CLUSTERS = (
    "kubernetes.core.k8s",
    "kubernetes.core.helm",
    "fabric.rdma.handover_objects",
    "fabric.rdma.system_objects",
)
# The files in which a role may do so, with what they include before: the Lease is held by then.
HOLDS = (
    "tasks: lease.yml",
    "tasks_from: hold",
    "fabric.rdma.rollout_lease:",
    "when: cluster_system_held | default({}) | length > 0",
)
# who includes them holds it
HELD = {"cluster_chart/tasks/absent.yml", "cluster_chart/tasks/present.yml"}
# a node leaves work and comes back, Pods with old limits start again: not a rollout
OF_NODES = {"ofed/tasks/drain.yml", "ofed/tasks/uncordon.yml", "containerd_memlock/tasks/pods.yml"}


def changers() -> dict[str, str]:
    """Files of tasks with a task that changes a cluster, by their path below roles, with their text."""
    found = {}
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        if any(module in task for task in tasks_in(path) for module in CHANGES_CLUSTERS):
            found[str(path.relative_to(ROOT / "roles"))] = path.read_text()
    return found


def test_no_task_waits_for_a_pod_by_its_name() -> None:
    """Modules of kubernetes.core do, and a StatefulSet makes one of the same name at once: they wait in vain."""
    asked = {
        (path.parent.parent.name, task["name"])
        for path in (ROOT / "roles").glob("*/tasks/*.yml")
        for task in tasks_in(path)
        if (task.get("kubernetes.core.k8s") or {}).get("kind") == "Pod" and "wait" in task["kubernetes.core.k8s"]
    }
    assert asked == set()


def test_an_api_server_that_does_not_answer_is_heard_where_objects_are_waited_for() -> None:
    """What has failed tells no resources, and the task would end with an error on its own condition."""
    asked, deaf = set(), set()
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        for task in tasks_in(path):
            if "fabric.rdma.kubernetes_info" in task and "until" in task:
                name, told = (path.parent.parent.name, task["name"]), task["register"]
                asked.add(name)
                if not re.match(
                    rf"{told} is (failed|succeeded)\s+or |{told}\.resources is defined and ", task["until"]
                ):
                    deaf.add(name)
    assert len(asked) > 1
    assert deaf == set()


def test_nothing_changes_a_cluster_before_the_lease_is_held() -> None:
    """Two rollouts at the same time, of whichever systems, would undo each other."""
    found = changers()
    assert {*found} >= {*HELD, *OF_NODES, "cluster_system/tasks/apply.yml", "cluster_system/tasks/remove.yml"}
    early = [
        name
        for name, text in found.items()
        if name not in {*HELD, *OF_NODES}
        and not any(
            word in text[: min(text.index(f"{module}:") for module in CHANGES_CLUSTERS if f"{module}:" in text)]
            for word in HOLDS
        )
    ]
    assert early == []


def test_the_steps_of_a_handover_renew_the_lease() -> None:
    """The playbook holds it (test_a_class_goes_to_dranet_and_back_and_never_do_both_offer_it)."""
    tasks = yaml.safe_load((ROOT / "playbooks" / "tasks" / "handover_step.yml").read_text())
    names = [name for task in tasks for name in task if name.startswith(("fabric.", "kubernetes."))]
    assert names == ["fabric.rdma.handover_objects", "fabric.rdma.system_objects", "fabric.rdma.handover_ready"]
    assert {task[name]["lease"] for task, name in zip(tasks, names, strict=True)} == {"{{ cluster_system_held }}"}


def test_modules_of_this_collection_make_and_delete_what_a_cluster_has() -> None:
    """kubernetes.core applies over, and deletes, what somebody has made of an object since it was looked at. It brings namespaces, which are
    everybody's, ends Pods with old limits, which are named by who runs the playbook, and patches what is there."""
    paths = [*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").glob("tasks/*.yml")]
    tasks = [task for path in paths for task in tasks_in(path)]
    found = [task["kubernetes.core.k8s"] for task in tasks if "kubernetes.core.k8s" in task]
    assert found
    assert {each.get("kind") for each in found if each.get("state") == "absent"} == {"Pod"}
    brought = {
        each.get("definition") or each["kind"] for each in found if each.get("state") not in ("absent", "patched")
    }
    spaces = {"{{ __network_operator_request.namespace }}", "{{ cluster_chart_namespace_object }}"}
    assert brought == {"Namespace", *spaces}


@pytest.mark.parametrize("system", [each.name for each in SYSTEMS if each.name != "device_plugin"])
def test_a_system_is_brought_and_removed_by_the_one_role_that_holds_the_lease(system: str) -> None:
    """The device plugin is brought by a module that holds it itself (test_lease.py)."""
    tasks = ROOT / "roles" / system / "tasks"
    own = {name for name in changers() if name.startswith(f"{system}/")}
    # the second one only asks what would go
    assert own <= {"longhorn/tasks/remove.yml", "compute_domain/tasks/look.yml", "longhorn/tasks/protect.yml"}
    included = {
        role["name"]
        for path in tasks.glob("*.yml")
        for task in tasks_in(path)
        for role in [task.get("ansible.builtin.include_role") or {}]
        if "tasks_from" not in role and role
    }
    assert included == {"fabric.rdma.cluster_system"}


def test_the_output_directory_is_a_whole_path() -> None:
    """A relative one begins where Ansible was started: modules that run on the controller begin in the directory of the playbook."""
    whole = " | default('rdma-output', true) | ansible.builtin.expanduser | ansible.builtin.realpath"
    paths = [*(ROOT / "playbooks").glob("*.yml"), *(ROOT / "playbooks" / "tasks").glob("*.yml")]
    paths += (ROOT / "roles").glob("*/*/*.yml")
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    found = {name: re.findall(r"\brdma_output_dir( \|.*?)(?=\)? }}|\) }})", text) for name, text in texts.items()}
    assert {"playbooks/plan.yml", "roles/report/defaults/main.yml"} <= {name for name, uses in found.items() if uses}
    assert {name: uses for name, uses in found.items() if set(uses) - {whole}} == {}

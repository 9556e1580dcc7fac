# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms of module_utils and plugin_utils: who may import whom, that a module brings to a node what it needs, that what is public is
used, how long a function is."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
UTILS = PLUGINS / "module_utils"
COLLECTION = "ansible_collections.fabric.rdma.plugins."
PREFIX = COLLECTION + "module_utils."
# Each room may import from itself and from those before it. The last three are beside each other: none imports from another one of them.
ORDER = ("_base", "_containerd", "_discover", "_plan", "_prepare", "_rollout", "_verify")
BESIDE = ("_prepare", "_rollout", "_verify")
FILES = sorted(path.relative_to(UTILS) for path in UTILS.rglob("*.py"))
# What runs on the controller only: a file or a directory each, and what of plugins/ it may import beside itself.
CONTROLLER = PLUGINS / "plugin_utils"
MAY_IMPORT = {
    "_arguments": set(),
    "_quiet_action": set(),
    "_changes": {"module_utils", "_view"},
    "_collector": set(),
    "_contracts": {"module_utils"},
    "_doctor": {"module_utils", "_contracts", "_health", "_view"},
    "_fabric": {"module_utils", "_health"},
    "_health": {"module_utils"},
    "_inventory": {"module_utils", "_contracts", "_view"},
    "_lab": {"module_utils"},
    "_report": {"module_utils", "_contracts", "_fabric", "_health", "_view"},
    "_site": {"module_utils", "_contracts", "_systems", "_view"},
    "_systems": {"module_utils"},
    "_view": {"module_utils", "_contracts"},
}
CONTROLLER_FILES = sorted(path.relative_to(CONTROLLER) for path in CONTROLLER.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path) -> frozenset[Path]:
    """Files of module_utils that a file imports, relative to module_utils."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(PREFIX):
            module = Path(*f"{node.module}.".removeprefix(PREFIX).split("."))
            names = [module.with_suffix(".py")] if module.suffix or len(module.parts) == 2 else []
            found |= set(names or [module / f"{alias.name}.py" for alias in node.names])
    return frozenset(found)


@functools.cache
def shipped(path: Path) -> frozenset[Path]:
    """All that comes to a node with a file, whatever it is called there."""
    found: set[Path] = set()
    ahead = list(imports(path))
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead += imports(UTILS / one)
    return frozenset(found)


def test_every_file_is_in_a_room() -> None:
    assert {path.parts[0] for path in FILES} == set(ORDER)
    assert {len(path.parts) for path in FILES} == {2}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_arrow_goes_back(path: Path) -> None:
    room = path.parts[0]
    before = ORDER[: ORDER.index(room) + 1]
    allowed = {each for each in before if each == room or not {each, room} <= set(BESIDE)}
    found = imports(UTILS / path)
    assert {each for each in found if not (UTILS / each).exists()} == set()
    assert {str(each) for each in found if each.parts[0] not in allowed} == set()


@functools.cache
def imported_modules(path: Path) -> frozenset[str]:
    """What a file imports from plugins/, as module_utils._base.text or plugin_utils._view: of a package, each of its modules."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix(COLLECTION) for alias in node.names if alias.name.startswith(COLLECTION)}
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports have the whole name"
            module = f"{node.module}."
            if module.startswith(COLLECTION):
                name = module.removeprefix(COLLECTION).rstrip(".")
                package = (PLUGINS / Path(*name.split("."))).is_dir()
                found |= {f"{name}.{alias.name}" for alias in node.names} if package else {name}
    return frozenset(found)


def test_every_part_of_plugin_utils_has_its_arrows() -> None:
    assert {path.parts[0].removesuffix(".py") for path in CONTROLLER_FILES} == set(MAY_IMPORT)


def test_the_picture_has_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert [name for name in MAY_IMPORT if f"\n plugin_utils/{name} " not in text] == []
    assert [name for name in ORDER if f"\n {name} " not in text] == []


@pytest.mark.parametrize("path", CONTROLLER_FILES, ids=str)
def test_no_arrow_of_plugin_utils_goes_back(path: Path) -> None:
    part = path.parts[0].removesuffix(".py")
    found = imported_modules(CONTROLLER / path)
    assert {name for name in found if not (PLUGINS / Path(*name.split("."))).with_suffix(".py").exists()} == set()
    parts = {name.split(".")[1] if name.startswith("plugin_utils.") else name.split(".")[0] for name in found}
    assert parts <= MAY_IMPORT[part] | {part}


@pytest.mark.parametrize("path", CONTROLLER_FILES, ids=str)
def test_no_file_of_plugin_utils_imports_itself_by_way_of_others(path: Path) -> None:
    here = ".".join(("plugin_utils", *path.with_suffix("").parts))
    ahead, seen = [here], set[str]()
    while ahead:
        ours = {
            name for name in imported_modules(PLUGINS / f"{ahead.pop().replace('.', '/')}.py") if "plugin_utils" in name
        }
        assert here not in ours
        ahead += ours - seen
        seen |= ours


@pytest.mark.parametrize(
    "path", [*(UTILS / each for each in FILES), *(PLUGINS / "modules").glob("*.py")], ids=lambda path: path.stem
)
def test_what_runs_on_nodes_imports_nothing_of_the_controller(path: Path) -> None:
    assert {name for name in imported_modules(path) if not name.startswith("module_utils.")} == set()


@pytest.mark.parametrize(
    "path",
    [*(UTILS / each for each in FILES), *(CONTROLLER / each for each in CONTROLLER_FILES)],
    ids=lambda path: str(path.relative_to(PLUGINS)),
)
def test_nothing_private_is_imported(path: Path) -> None:
    """What another file uses has a name without an underscore."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(COLLECTION):
            private = {alias.name for alias in node.names if alias.name.startswith("_")}
            assert private - {*ORDER, *MAY_IMPORT} == set()


@pytest.mark.parametrize(
    "path", [*PLUGINS.rglob("*.py"), *(ROOT / "tools").glob("*.py")], ids=lambda path: str(path.relative_to(ROOT))
)
def test_nothing_private_is_left_unused(path: Path) -> None:
    made = {}
    for node in parsed(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            made |= {each.id: node for each in names}
    read = [each for each in ast.walk(parsed(path)) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    for name, node in made.items():
        if name.startswith("_") and not name.startswith("__"):
            # a function that calls itself is not used for that
            own = {id(each) for each in ast.walk(node)}
            assert any(each.id == name and id(each) not in own for each in read), name


def test_a_filter_loads_what_it_needs_when_it_is_called() -> None:
    """Ansible loads all filters of a collection in every process that uses one of them, and compiles what they load each time."""
    light = {
        "module_utils",
        "module_utils._base",
        "module_utils._base.errors",
        "plugin_utils",
        "plugin_utils._arguments",
    }
    names = [path.stem for path in (PLUGINS / "filter").glob("rdma_*.py")]
    program = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module("{COLLECTION}filter." + name)
print(*(name.removeprefix("{COLLECTION}") for name in sys.modules if name.startswith("{COLLECTION}")))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT / ".collections", capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded - {"filter", *(f"filter.{name}" for name in names)} == light


# Lines of module_utils that come to a node with a module, at most. What grows beyond it has probably come for one function of a file.
# The HCAs of all vendors that are told without a driver are 20 lines of each module that reads devices.
# What changes objects of a cluster leaves alone what somebody has taken over, or deletes, since they were read: 50 lines.
# Of a change of many nodes, it tells the first ones, and how many more: 120 lines.
# A list that the API server has forgotten the beginning of is read at once: 7 lines of each module that asks one.
# Which table a default route is in, the kernel tells over rtnetlink: 110 lines of each module that asks for the way to its node.
# On the way there and back, driver_packages waits for locks of apt, and ends what dpkg has begun: 30 lines.
MOST_LINES = {
    # also the size and digest of what it writes
    # also what stands for names of volumes, and for names that are made of addresses; and that a note on IMEX makes no sense
    "capture": 7165,
    "cluster_access": 1300,
    "cluster_snapshot": 1980,
    "cluster_state": 1350,
    # also what a restart would not bring back, since its file went after containerd had started
    "containerd_memlock": 5350,
    "driver_check": 910,
    "driver_gate": 2385,
    # also which keys RPM trusts since the change
    "driver_packages": 1600,
    "driver_proof": 630,
    "fabric_map": 135,
    "handover_objects": 2220,
    "handover_ready": 1950,
    "ib_facts": 6080,
    "iscsi_initiator": 1000,
    # also what is built in, and what modprobe would load
    "kernel_module": 1375,
    "kubernetes_info": 1370,
    "lab": 0,
    "link_counters": 945,
    "mpi_traffic": 2460,
    "node_change": 515,
    "node_file": 500,
    "node_logs": 70,
    "oci_rlimits": 700,
    "output_files": 0,
    # also over which family of addresses both sides meet, whose GPU's memory it is, and what packets carry
    "perftest": 1660,
    # also on which nodes no Pod starts, so that one costs a single wait, and what packets carry
    "pod_traffic": 4025,
    "roce_host": 4230,
    # also which nodes the Network Operator's driver would leave, and which plugins have to end before others come
    "rollout": 3300,
    "rollout_departures": 3475,
    "rollout_lease": 1650,
    "rollout_ready": 2250,
    "stale_resources": 1420,
    # also waits until what it has deleted has gone, and which blocks of addresses nv-ipam would give out twice
    "system_objects": 3165,
    "system_ready": 1905,
    "quiet_value": 0,
    "wave_gate": 0,
}


@pytest.mark.parametrize("path", sorted((PLUGINS / "modules").glob("*.py")), ids=lambda path: path.stem)
def test_a_module_brings_what_it_needs(path: Path) -> None:
    lines = sum(len((UTILS / each).read_text(encoding="utf-8").splitlines()) for each in shipped(path))
    assert lines <= MOST_LINES[path.stem]


def test_no_module_runs_programs_with_what_can_lose_their_output() -> None:
    """_base/programs.py says how Ansible's own way does."""
    found = [str(path) for path in PLUGINS.rglob("*.py") if re.search(r"\.run_command\(", path.read_text())]
    assert found == []
    assert any("run_program(" in path.read_text() for path in PLUGINS.glob("modules/*.py"))


def test_a_module_that_brings_much_says_why() -> None:
    text = (
        (ROOT / "docs" / "architecture.md")
        .read_text()
        .partition("### What a module brings to a node")[2]
        .partition("\n## ")[0]
    )
    told = {name for names in re.findall(r"^\| (`.*`) \| \w", text, re.MULTILINE) for name in re.findall(r"\w+", names)}
    assert told == {name for name, most in MOST_LINES.items() if most > 2000}


@pytest.mark.parametrize("utils", ["module_utils", "plugin_utils"])
def test_every_test_is_where_its_file_is(utils: str) -> None:
    """tests/unit/plugins has the rooms of plugins/."""
    there = Path(__file__).parent / "plugins" / utils
    tests = {path.relative_to(there) for path in there.glob("_*/test_*.py")}
    assert tests
    assert {
        str(path) for path in tests if not (PLUGINS / utils / path.parent / path.name[len("test_") :]).exists()
    } == set()


# Lines of a function, with its documentation, at most: what does not fit on a screen cannot be read at once.
MOST_LINES_OF_A_FUNCTION = 60
# "file::function" -> why it is longer. It is read at a glance all the same, such as a table.
LONGER: dict[str, str] = {
    **{
        f"tests/captures/build.py::{name}": "the description of a machine, part by part"
        for name in ("gb200", "ib_a100")
    },
    "tests/unit/plugins/module_utils/test_containerd_distributions.py::k3s_config": "the text of two files, as k3s writes them",
}


def functions(path: Path) -> dict[str, int]:
    """The lines of each function of a file, from its def to its end."""
    found: dict[str, int] = {}
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            # functions of the same name: the longest counts
            found[node.name] = max(lines, found.get(node.name, 0))
    return found


def test_a_function_fits_on_a_screen() -> None:
    lines = {
        f"{path.relative_to(ROOT)}::{name}": count
        for top in ("benchmarks", "molecule", "plugins", "tests", "tools")
        for path in (ROOT / top).rglob("*.py")
        for name, count in functions(path).items()
    }
    assert {name for name, count in lines.items() if count > MOST_LINES_OF_A_FUNCTION} == set(LONGER)
    assert all(LONGER.values())


# A body of so many characters is worth a place of its own, where names and constants are as short as they can be. What is shorter is a
# line or two, which a call would not make clearer: to search and take the first group, to fill a row, to compare a length and a form.
LONG_ENOUGH_TO_SHARE = 70


class Shape(ast.NodeTransformer):
    """Code of a function, whatever its own names are and whatever its constants, also those that the file has given a name."""

    def __init__(self, function: ast.FunctionDef) -> None:
        inside = list(ast.walk(function))
        own = [each.arg for each in inside if isinstance(each, ast.arg)]
        own += [each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        own += [each.name for each in inside if isinstance(each, ast.ExceptHandler) and each.name]
        self.own = set(own)
        # in the order in which they come
        self.names: dict[str, str] = {}

    def renamed(self, name: str) -> str:
        return self.names.setdefault(name, f"n{len(self.names)}") if name in self.own else name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", node.id):
            return ast.Constant(0)
        return ast.Name(self.renamed(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.renamed(node.arg))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        node.name = self.renamed(node.name) if node.name else None
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(0)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        filled = [self.visit(each.value) for each in node.values if isinstance(each, ast.FormattedValue)]
        return ast.Tuple(filled, ast.Load())

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value else node


def shapes(path: Path) -> list[tuple[str, str]]:
    """(name, shape of the code) of each function of a file, however it is laid out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = copy.deepcopy(node.body[ast.get_docstring(node) is not None :])
            shape = Shape(node)
            found.append(
                (node.name, "\n".join(ast.unparse(ast.fix_missing_locations(shape.visit(each))) for each in body))
            )
    return found


def test_no_function_is_written_twice(tmp_path: Path) -> None:
    places: dict[str, list[str]] = {}
    for path in PLUGINS.rglob("*.py"):
        for name, shape in shapes(path):
            if len(shape) > LONG_ENOUGH_TO_SHARE:
                places.setdefault(shape, []).append(f"{path.relative_to(PLUGINS)}::{name}")
    assert len(places) > 1000
    assert [sorted(same) for same in places.values() if len(same) > 1] == []
    sample = tmp_path / "sample.py"
    sample.write_text(
        "def f(one):\n    'Text.'\n    try:\n        two: int = one + LEAST\n    except OSError as three:\n"
        "        raise E(f'{one} is wrong') from three\n    return g(two, 'a')\n"
        "def h(b, c):\n    try:\n        d = b + 'x'\n    except OSError as e:\n        raise E(f'no {b}: wrong') from e\n"
        "    return g(d, MOST)\n"
        "def i(b, c):\n    try:\n        d = c + 'x'\n    except OSError as e:\n        raise E(f'no {b}: wrong') from e\n"
        "    return g(d, MOST)\n"
    )
    (_f, first), (_h, second), (_i, third) = shapes(sample)
    assert first == second != third


# A text or a list of texts of so many characters is worth a name of its own, and one place.
LONG_ENOUGH_TO_NAME = 13
# What is the same in several files by chance, or where a shared place would be wrong -> why.
SAME_BY_CHANCE: dict[str | bytes, str] = {
    r"(\d{1,4})\.(\d{1,4})": "what begins with two numbers: releases of containerd, and those of kernels",
    "fe80:0000:0000:0000": "of an address of a node it is the scope, of a subnet of InfiniBand the prefix that nobody has set",
    "0, f, false, n, no, off": "cluster_access reads a variable of kubernetes.core's, and would bring all checks of wishes",
}
PATTERNS = {f"re.{name}" for name in ("compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub")}
# What Ansible reads in each plugin, and what Python does.
OF_EVERY_FILE = {"DOCUMENTATION", "EXAMPLES", "RETURN", "__all__"}


def constant(node: ast.AST) -> str | bytes | None:
    """The text, the pattern or the texts that an expression stands for; None for anything else."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in {*PATTERNS, "frozenset", "set", "tuple"}:
        node = node.args[0]
    try:
        value = ast.literal_eval(node)
    except (TypeError, ValueError):
        return None
    if isinstance(value, dict):
        value = repr(sorted(value.items(), key=repr))
    elif isinstance(value, (list, set, tuple)) and all(isinstance(each, str) for each in value):
        value = ", ".join(sorted(value))
    return value if isinstance(value, (str, bytes)) and len(value) >= LONG_ENOUGH_TO_NAME else None


def constants(path: Path) -> set[str | bytes | None]:
    """What a file gives a name of its own, also several at once, and the patterns that it looks for anywhere."""
    found: set[str | bytes | None] = set()
    for node in parsed(path).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not OF_EVERY_FILE & set(map(ast.unparse, targets)):
                several = isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
                found |= set(map(constant, node.value.elts if several else [node.value]))
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PATTERNS:
            found.add(constant(node))
    return found - {None}


def test_no_constant_is_written_twice(tmp_path: Path) -> None:
    """One place says what something is called, and what it looks like: who changes it there has changed it everywhere."""
    places: dict[str | bytes | None, list[str]] = {}
    for path in PLUGINS.rglob("*.py"):
        for value in constants(path):
            places.setdefault(value, []).append(str(path.relative_to(PLUGINS)))
    assert len(places) > 500
    twice = {value: sorted(paths) for value, paths in places.items() if len(paths) > 1}
    assert {value: paths for value, paths in twice.items() if value not in SAME_BY_CHANCE} == {}
    assert set(SAME_BY_CHANCE) == set(twice)
    assert all(SAME_BY_CHANCE.values())
    sample = tmp_path / "sample.py"
    sample.write_text(
        "A = 'a longer text'\nB, C = 'another longer text', 1\nD: str = 'short'\nE = re.compile(r'a longer pattern')\n"
        "F = {'two', 'long', 'texts'}\nG = {'key': 'a long value'}\nH = f(A)\nRETURN = 'a long documentation'\n"
        "def f(x):\n    I = 'one of a function'\n    return re.match(r'[0-9]{4}-[0-9]{2}', x)\n"
    )
    assert constants(sample) == {
        "a longer text",
        "another longer text",
        "a longer pattern",
        "long, texts, two",
        "[('key', 'a long value')]",
        "[0-9]{4}-[0-9]{2}",
    }


def texts_named(tree: ast.Module) -> set[str]:
    """Names that a file binds to a text, by itself or in a row of a loop."""
    found = set()

    def bind(target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            found.add(ast.unparse(target))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, its in zip(target.elts, value.elts, strict=False):
                bind(one, its)

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            bind(node.target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, (ast.List, ast.Set, ast.Tuple)):
            for row in node.iter.elts:
                bind(node.target, row)
    return found


def named_templates(path: Path) -> list[str]:
    """Where a file fills a text in with %, and the text has a name."""
    tree = parsed(path)
    names = texts_named(tree)
    return [
        f"{node.lineno}: {ast.unparse(node.left)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and ast.unparse(node.left) in names
    ]


def test_a_text_with_a_name_is_not_filled_in_far_from_it(tmp_path: Path) -> None:
    """The linter finds a text with % behind it, and not the name of one. A function with an f-string says what it takes."""
    paths = [path for top in ("plugins", "tools") for path in (ROOT / top).rglob("*.py")]
    assert {str(path.relative_to(ROOT)): found for path in paths if (found := named_templates(path))} == {}
    sample = tmp_path / "sample.py"
    sample.write_text(
        "A = 'a %s'\nB = b'b %s'\nc: int = 3\nA % 1\nB % 1\nc % 2\n"
        "for d, _ in (('d %s', 1), ('e %s', 2)):\n    d % 1\nprint(*(e % 1 for e in ('f %s',)))\n"
    )
    assert named_templates(sample) == ["4: A", "8: d", "9: e"]


# "file::function" -> why it writes a file itself, or stages one. All others have _base/files.py do both.
WRITERS = {
    "action/output_files.py::write": "of two runs the last one wins; a directory with a file of each host is not listed for each of them",
    "module_utils/_base/files.py::back_up": "it is the one writer",
    "module_utils/_base/files.py::put": "it is the one writer",
    "module_utils/_base/files.py::replace": "it is the one writer",
    "module_utils/_base/files.py::stage": "it is the one writer",
    **{
        f"module_utils/_base/transaction.py::{name}": "all files of a change are staged before the first one gets its name"
        for name in ("_copy", "_save", "apply", "begin", "undo")
    },
    "module_utils/_prepare/memlock_apply.py::_lock": "the lock of a run has no content",
    "module_utils/_prepare/roce_run.py::_write": "a file of the kernel takes one write, and cannot be replaced",
    "module_utils/_verify/perftest_run.py::start_servers": "a process writes there what it says",
}
# Rooms that are not looked into, and why.
WRITES_ITS_OWN = {
    "plugin_utils/_lab": "disks, sockets and logs of machines that are thrown away with their directory, and need no fsync",
}
WRITING_CALLS = {
    "os.link",
    "os.rename",
    "os.replace",
    "os.truncate",
    "put",
    "shutil.copy",
    "shutil.copy2",
    "shutil.copyfile",
    "shutil.move",
    "stage",
}
WRITING_FLAGS = {"O_APPEND", "O_CREAT", "O_RDWR", "O_WRONLY"}


def writes(function: ast.FunctionDef) -> bool:
    """Whether a function opens a file for writing, or gives one another name."""
    flags = WRITING_FLAGS & {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        if name in WRITING_CALLS or name.endswith((".write_text", ".write_bytes")) or (name == "os.open" and flags):
            return True
        if name in ("open", "io.open", "os.fdopen"):
            mode = [each.value for each in call.keywords if each.arg == "mode"] or call.args[1:2]
            # what is not written there may be anything
            if mode and not (isinstance(mode[0], ast.Constant) and not set("wax+") & set(str(mode[0].value))):
                return True
    return False


def writers(path: Path) -> set[str]:
    functions = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if writes(function)}


def test_one_file_writes_for_all(tmp_path: Path) -> None:
    """It syncs, keeps owner and mode, follows links, and does not overwrite what somebody else wrote."""
    found = {f"{path.relative_to(PLUGINS)}::{name}" for path in PLUGINS.rglob("*.py") for name in writers(path)}
    theirs = {each for each in found if each.startswith(tuple(f"{room}/" for room in WRITES_ITS_OWN))}
    assert {str(Path(each).parent) for each in theirs} == set(WRITES_ITS_OWN)
    assert found - theirs == set(WRITERS)
    sample = tmp_path / "sample.py"
    bodies = [
        "open('x', 'w')",
        "open('x')",
        "os.replace('x', 'y')",
        "os.open('x', os.O_RDONLY)",
        "open('x', mode='r+')",
        "stage('x', b'')",
        "queue.put('x')",
    ]
    sample.write_text("".join(f"def f{number}():\n    {body}\n" for number, body in enumerate(bodies)))
    assert writers(sample) == {"f0", "f2", "f4", "f5"}


@functools.cache
def names_used(path: Path) -> frozenset[tuple[str, str]]:
    """(module, name) of what a file takes out of modules of the collection, by import or as an attribute of a module."""
    found: set[tuple[str, str]] = set()
    modules: dict[str, str] = {}
    attributes: set[tuple[str, str]] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(COLLECTION):
            found |= {(node.module, alias.name) for alias in node.names}
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.add((node.value.id, node.attr))
    return frozenset(found | {(modules[name], attribute) for name, attribute in attributes if name in modules})


@functools.cache
def all_names_used(*tops: str) -> frozenset[tuple[str, str]]:
    return frozenset().union(*(names_used(path) for top in tops for path in (ROOT / top).rglob("*.py")))


# "file::name" of what only tests use -> why it is there.
FOR_OTHERS = {
    "module_utils/_base/sources.py::COLLECTIONS": "all that is pulled is in one table; galaxy.yml cannot read it",
    **{
        f"module_utils/_base/sources.py::{name}": "all that is pulled is in one table; execution-environment.yml cannot read it"
        for name in ("EXECUTION_BASE", "EXECUTION_COLLECTIONS", "EXECUTION_CORE")
    },
    "module_utils/_base/sources.py::HELM_PACKAGE": "all that is pulled is in one table; texts cannot read it",
    "plugin_utils/_health/kinds.py::CABLES": "tools/troubleshooting.py writes a page out of it",
    **{
        f"plugin_utils/_systems/{system.name}.py::request": "the catalogue calls it by the name of the system"
        for system in SYSTEMS
        if system.name != "device_plugin"
    },
}


def public_names(path: Path) -> list[tuple[str, bool]]:
    """Each name that a file makes public, and whether the file itself uses it."""
    module = COLLECTION + ".".join(path.with_suffix("").parts)
    tree = parsed(PLUGINS / path)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return [(name, name in read) for name in importlib.import_module(module).__all__]


EVERY_FILE = [Path("module_utils", path) for path in FILES] + [Path("plugin_utils", path) for path in CONTROLLER_FILES]


@pytest.mark.parametrize("path", EVERY_FILE, ids=str)
def test_a_public_name_is_used_by_another_file(path: Path) -> None:
    module = COLLECTION + ".".join(path.with_suffix("").parts)
    used = all_names_used("benchmarks", "molecule", "plugins", "tests", "tools")
    names = {name for name, _own in public_names(path)}
    # a program of its own has none
    assert names or path.parts[:2] == ("plugin_utils", "_lab")
    assert sorted(name for name in names if (module, name) not in used) == []


@pytest.mark.parametrize("path", EVERY_FILE, ids=str)
def test_what_another_file_takes_is_public(path: Path) -> None:
    """Else the two tests around this one would not look at it."""
    module = COLLECTION + ".".join(path.with_suffix("").parts)
    taken = {name for where, name in all_names_used("plugins") if where == module and not name.startswith("_")}
    assert sorted(taken - {name for name, _own in public_names(path)}) == []


@pytest.mark.parametrize("path", EVERY_FILE, ids=str)
def test_nothing_is_there_for_tests_alone(path: Path) -> None:
    """What only tests use is theirs."""
    module = COLLECTION + ".".join(path.with_suffix("").parts)
    used = all_names_used("benchmarks", "molecule", "plugins", "tools")
    dead = {f"{path}::{name}" for name, own in public_names(path) if not own and (module, name) not in used}
    assert dead == {name for name in FOR_OTHERS if name.startswith(f"{path}::")}


def evaluated(path: Path) -> list[int]:
    """Lines where a builtin collection is subscripted when the file is read, which Python 3.8 cannot do: annotations are not."""
    tree = parsed(path)
    notes = {
        id(child)
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(note, ast.AST)
        for child in ast.walk(note)
    }
    builtin = ("dict", "list", "tuple", "set", "frozenset", "type")
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in builtin
        if id(node) not in notes
    ]


def test_nodes_read_no_collection_with_its_type(tmp_path: Path) -> None:
    """The linter writes dict[...] in annotations, and does not look at what is evaluated."""
    paths = [*(ROOT / "plugins" / "module_utils").rglob("*.py"), *(ROOT / "plugins" / "modules").glob("*.py")]
    assert {path.name: lines for path in paths if (lines := evaluated(path))} == {}
    sample = tmp_path / "sample.py"
    sample.write_text("Json = dict[str, int]\ndef one(of: list[int]) -> set[int]:\n    two: dict[int, int] = {}\n")
    assert evaluated(sample) == [1]


def test_what_a_node_keeps_has_one_place() -> None:
    """_base/places.py names it; a role that writes there itself says the same."""
    places = PLUGINS / "module_utils" / "_base" / "places.py"
    elsewhere = {
        str(path.relative_to(PLUGINS))
        for utils in ("module_utils", "plugin_utils", "action", "filter")
        for path in (PLUGINS / utils).rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant)
        and re.search(r"/var/lib/fabric.rdma(/|$)", str(node.value))
        and path != places
    }
    assert elsewhere == set()
    kept = {value for value in ast.walk(parsed(places)) if isinstance(value, ast.Constant)}
    names = {str(value.value).rpartition("/")[2] for value in kept if str(value.value).startswith("/")}
    written = {
        match
        for path in (ROOT / "roles").glob("*/[tvd]*/*.yml")
        for match in re.findall(r"/var/lib/fabric.rdma/([\w.-]+)", path.read_text())
    }
    assert "nvidia-imex.json" in written
    assert written <= names

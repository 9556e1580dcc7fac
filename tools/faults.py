# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read docs/faults.md, follow the names of the tests in it, and count how often each fault is tried.

usage: faults.py [PAGE]      the table of faults with the number of runs of each, as Markdown

A row of docs/faults.md is ``| fault | outcome | proof |``. Its proof is "designed, not proved", or names of the form `FILE::NAME`
with commas between them. FILE is the end of a path that only one file has. NAME is a test in a file test_*.py, a key of CASES in
another Python file, or the name of a task in a YAML file.

Runs are counted without running anything: cases as pytest collects them, times the examples of hypothesis; a case of CASES on every
node of its scenario; a task once for each item of its loop. What a test tries in a loop of its own counts once, so these are lower
bounds.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import io
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "faults.md"
HEADER = ["fault", "outcome", "proof"]
NOT_PROVED = "designed, not proved"
REFERENCE = re.compile(r"`([\w./-]+\.(?:py|yml))::([^`|]+)`")
# What a task has beside what it does.
_PLAIN_KEYS = {"name", "when", "loop", "loop_control", "register", "vars", "tags", "become", "delegate_to", "run_once"}


class Row(t.NamedTuple):
    """A row of the page; `number` is that of its line, from 1. `proof` is the third cell as it stands."""

    number: int
    section: str
    fault: str
    proof: str


class FaultsError(Exception):
    """The page says something that is not so."""


def rows(text: str) -> list[Row]:
    """The rows of all tables. Raises FaultsError for one with other columns."""
    found: list[Row] = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:].strip()
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == HEADER or all(set(cell) <= {"-"} for cell in cells):
            continue
        if len(cells) != len(HEADER) or not all(cells):
            raise FaultsError(f"{PAGE.name}:{number}: a row has a fault, an outcome and a proof: {line}")
        found.append(Row(number, section, cells[0], cells[2]))
    return found


def references(row: Row) -> list[tuple[str, str]]:
    """File and name of each test of a row; none where nothing is proved. Raises FaultsError."""
    if row.proof == NOT_PROVED:
        return []
    found = REFERENCE.findall(row.proof)
    if not found or REFERENCE.sub("", row.proof).strip(" ,"):
        raise FaultsError(
            f"{PAGE.name}:{row.number}: a proof is `FILE::NAME`, with commas between several, or {NOT_PROVED!r}: {row.proof}"
        )
    return found


@functools.cache
def _files() -> list[Path]:
    """Files in which a proof may be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "tests", "molecule"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    return [ROOT / name for name in sorted(set(names)) if name.endswith((".py", ".yml")) and (ROOT / name).is_file()]


@functools.cache
def locate(name: str) -> Path:
    """The one file whose path ends so. Raises FaultsError."""
    found = [path for path in _files() if f"/{path.relative_to(ROOT)}".endswith(f"/{name}")]
    if len(found) != 1:
        what = "is not there" if not found else "may be " + " or ".join(str(path.relative_to(ROOT)) for path in found)
        raise FaultsError(f"{name} {what}")
    return found[0]


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef)}


def asserts(path: Path, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function can fail: an assertion or an expected exception in it, or in a function of its file that it calls."""
    functions = _functions(path)
    if name in seen or name not in functions:
        return False
    for node in ast.walk(functions[name]):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("raises", "fail") or asserts(path, called, seen | {name}):
                return True
    return False


def _literal(path: Path, name: str) -> ast.expr | None:
    """What a module sets a name to."""
    for node in _tree(path).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return t.cast("ast.Assign | ast.AnnAssign", node).value
    return None


def cases(path: Path) -> set[str]:
    """The keys of CASES in a file."""
    value = _literal(path, "CASES")
    if not isinstance(value, ast.Dict):
        raise FaultsError(f"{path.relative_to(ROOT)} has no dictionary CASES")
    return {key.value for key in value.keys if isinstance(key, ast.Constant)}


@functools.cache
def tasks(path: Path) -> dict[str, dict[str, t.Any]]:
    """The tasks of a playbook or a list of tasks, by name, also those inside of blocks."""
    found: dict[str, dict[str, t.Any]] = {}

    def walk(node: t.Any) -> None:
        for item in node if isinstance(node, list) else []:
            if isinstance(item, dict):
                if "hosts" not in item and item.get("name"):
                    found[item["name"]] = item
                for key in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
                    walk(item.get(key))

    walk(yaml.safe_load(path.read_text()))
    return found


def check(name: str, test: str) -> None:
    """Raises FaultsError unless a test is there and proves something."""
    path = locate(name)
    if path.name.startswith("test_"):
        if not test.startswith("test_"):
            raise FaultsError(f"{name}::{test} is not a test")
        if test not in _functions(path):
            raise FaultsError(f"{name} has no test {test}")
        decorators = [ast.unparse(node) for node in _functions(path)[test].decorator_list]
        if any(re.match(r"pytest\.mark\.(skip|xfail)\b(?!if)", decorator) for decorator in decorators):
            raise FaultsError(f"{name}::{test} is not run")
        # a property that holds for anything may be that there is no other exception
        if not asserts(path, test) and not any(decorator.startswith("given(") for decorator in decorators):
            raise FaultsError(f"{name}::{test} asserts nothing")
    elif path.suffix == ".py":
        if test not in cases(path):
            raise FaultsError(f"{name} has no case {test!r}")
    else:
        if test not in tasks(path):
            raise FaultsError(f"{name} has no task {test!r}")
        if not set(tasks(path)[test]) - _PLAIN_KEYS:
            raise FaultsError(f"{name}::{test} does nothing")


def follow(text: str) -> list[tuple[Row, list[tuple[str, str]]]]:
    """The rows of a page with the tests of each, all of them there. Raises FaultsError."""
    found = [(row, references(row)) for row in rows(text)]
    for _row, named in found:
        for name, test in named:
            check(name, test)
    return found


# --- counting --------------------------------------------------------------------------------------------------------


class _Collector:
    """Counts what pytest collects, by file and function."""

    def __init__(self) -> None:
        self.runs: collections.Counter[tuple[Path, str]] = collections.Counter()

    def pytest_collection_modifyitems(self, items: list[t.Any]) -> None:
        for item in items:
            settings = getattr(item.obj, "_hypothesis_internal_use_settings", None)
            examples = settings.max_examples if getattr(item.obj, "is_hypothesis_test", False) and settings else 1
            self.runs[(item.path, item.originalname)] += examples


def collect(paths: t.Iterable[Path]) -> collections.Counter[tuple[Path, str]]:
    """How often pytest would call each function of some files."""
    import pytest  # noqa: PLC0415 - the page is read without it

    collector = _Collector()
    output = io.StringIO()
    # Tests of a scenario read this when they are imported.
    for variable in ("FABRIC_RDMA_OUTPUT", "FABRIC_RDMA_LAB", "FABRIC_RDMA_CHANGES"):
        os.environ.setdefault(variable, os.devnull)
    with contextlib.redirect_stdout(output):
        code = pytest.main(["--collect-only", "-q", *sorted(str(path) for path in paths)], plugins=[collector])
    if code != 0:
        raise FaultsError(f"pytest cannot collect the tests: {output.getvalue()[-2000:]}")
    return collector.runs


def _nodes(path: Path) -> int:
    """How many hosts the inventory of a scenario has."""
    scenario = ROOT / "molecule" / path.relative_to(ROOT / "molecule").parts[0]
    inventory = yaml.safe_load((scenario / "inventory" / "hosts.yml").read_text())

    def hosts(group: dict[str, t.Any]) -> set[str]:
        inner = [hosts(child or {}) for child in (group.get("children") or {}).values()]
        return set(group.get("hosts") or {}).union(*inner)

    return len(set().union(*(hosts(group or {}) for group in inventory.values())))


def runs_of(name: str, test: str, collected: t.Mapping[tuple[Path, str], int]) -> int:
    """How often a test is run, at least."""
    path = locate(name)
    if path.name.startswith("test_"):
        return collected[(path, test)]
    if path.suffix == ".py":
        return _nodes(path)
    loop = tasks(path)[test].get("loop")
    return len(loop) if isinstance(loop, list) else 1


def main() -> int:
    """The command line."""
    try:
        found = follow((Path(sys.argv[1]) if sys.argv[1:] else PAGE).read_text())
        paths = {locate(name) for _row, named in found for name, _test in named}
        collected = collect(path for path in paths if path.name.startswith("test_"))
    except FaultsError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    section, total, proved = "", 0, 0
    for row, named in found:
        if row.section != section:
            section = row.section
            print(f"\n## {section}\n\n| fault | tests | runs |\n|---|---:|---:|")
        runs = sum(runs_of(name, test, collected) for name, test in named)
        total += runs
        proved += bool(named)
        print(f"| {row.fault} | {len(named) or NOT_PROVED} | {runs or ''} |")
    print(
        f"\n{proved} of {len(found)} faults are proved, by at least {total} runs; {len(found) - proved} are {NOT_PROVED}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

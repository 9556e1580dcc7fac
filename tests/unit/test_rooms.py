# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms of module_utils: who may import whom, that what a module brings to a node is what it needs, and that what is public is used."""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
UTILS = PLUGINS / "module_utils"
COLLECTION = "ansible_collections.fabric.rdma."
PREFIX = COLLECTION + "plugins.module_utils."
# Each room may import from itself and from those before it. The last three are beside each other: none imports from another one of them.
ORDER = ("_base", "_containerd", "_discover", "_plan", "_prepare", "_rollout", "_verify")
BESIDE = ("_prepare", "_rollout", "_verify")
FILES = sorted(path.relative_to(UTILS) for path in UTILS.rglob("*.py"))


@functools.cache
def imports(path: Path) -> frozenset[Path]:
    """Files of module_utils that a file imports, relative to module_utils."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_private_is_imported(path: Path) -> None:
    """What another file uses has a name without an underscore."""
    for node in ast.walk(ast.parse((UTILS / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(PREFIX):
            assert not [alias.name for alias in node.names if alias.name.startswith("_") and alias.name not in ORDER]


# Lines of module_utils that come to a node with a module, at most. What grows beyond it has probably come for one function of a file.
MOST_LINES = {
    "capture": 6000,
    "cluster_access": 1500,
    "containerd_memlock": 5200,
    "driver_check": 250,
    "driver_gate": 6950,
    "driver_packages": 1300,
    "driver_proof": 2300,
    "ib_facts": 5900,
    "iscsi_initiator": 450,
    "kernel_module": 1250,
    "lab": 0,
    "node_change": 450,
    "oci_rlimits": 600,
    "perftest": 1200,
    "rollout": 4500,
    "rollout_departures": 4300,
    "rollout_lease": 1700,
    "rollout_ready": 4500,
    "stale_resources": 4300,
    "wave_gate": 0,
}


@pytest.mark.parametrize("path", sorted((PLUGINS / "modules").glob("*.py")), ids=lambda path: path.stem)
def test_a_module_brings_what_it_needs(path: Path) -> None:
    lines = sum(len((UTILS / each).read_text(encoding="utf-8").splitlines()) for each in shipped(path))
    assert lines <= MOST_LINES[path.stem]


def test_every_test_is_where_its_file_is() -> None:
    """tests/unit/plugins/module_utils has the rooms of plugins/module_utils."""
    there = Path(__file__).parent / "plugins" / "module_utils"
    tests = {path.relative_to(there) for path in there.glob("_*/test_*.py")}
    assert {str(path) for path in tests if path.parent / path.name.removeprefix("test_") not in FILES} == set()


def names_used(path: Path) -> set[tuple[str, str]]:
    """(module, name) of what a file takes out of modules of the collection, by import or as an attribute of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[tuple[str, str]] = set()
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(COLLECTION):
            found |= {(node.module, alias.name) for alias in node.names}
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add((modules[node.value.id], node.attr))
    return found


@functools.cache
def all_names_used() -> frozenset[tuple[str, str]]:
    tops = ("benchmarks", "molecule", "plugins", "tests", "tools")
    return frozenset().union(*(names_used(path) for top in tops for path in (ROOT / top).rglob("*.py")))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_public_name_is_used_by_another_file(path: Path) -> None:
    module = PREFIX + ".".join(path.with_suffix("").parts)
    public = set(importlib.import_module(module).__all__)
    assert public
    assert sorted(name for name in public if (module, name) not in all_names_used()) == []

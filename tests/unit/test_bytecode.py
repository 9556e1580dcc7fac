# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools/setup-venv has Python do for playbooks: keep compiled code, which is what that code says now, wherever it lies; fork for little."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What Ansible's importer makes of a filter plugin of a collection, and where a function of that says that it is.
LOAD = """
import sys
from ansible.utils.collection_loader import _collection_finder
_collection_finder._AnsibleCollectionFinder(paths=[sys.argv[1]])._install()
import ansible_collections.some.where.plugins.filter.one as one
print(one.said(), one.said.__code__.co_filename)
"""

# How many objects the collector leaves alone: in a child, and in its parent afterwards.
FORK = """
import gc, os
kept = [{} for _ in range(1000)]
if os.fork() == 0:
    print("child", gc.get_freeze_count(), flush=True)
    os._exit(0)
os.wait()
print("parent", gc.get_freeze_count())
"""

# What Ansible finds that a source imports, and how often it parsed one to say so.
FIND = """
import ast, builtins, sys
parsed = []
real = builtins.compile
def compile(source, filename, mode, flags=0, *more):
    parsed.extend([source] if flags == ast.PyCF_ONLY_AST else [])
    return real(source, filename, mode, flags, *more)
from ansible.executor import module_common
builtins.compile = compile
name, source, package = sys.argv[1], sys.argv[2].encode(), sys.argv[3] == "package"
tree = None if hasattr(module_common, "EmbeddedResource") else module_common.compile(source, "file", "exec", ast.PyCF_ONLY_AST)
found = module_common.ModuleDepFinder(name, tree or source, package)
times = len(parsed)
print(sorted(found.submodules), sorted(found.optional_imports), times, len((tree or found.tree).body))
"""


def customize(directory: Path, kept: Path) -> Path:
    """A directory that has Python do what the tools' Python does."""
    directory.mkdir()
    written = subprocess.run(
        [sys.executable, ROOT / "tools" / "bytecode.py", kept],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (directory / "sitecustomize.py").write_text(written)
    return directory


def load(site: Path, collections: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(collections)], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def test_code_of_collections_is_compiled_once(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    site = customize(tmp_path / "site", kept)

    def collection(name: str, said: str) -> tuple[Path, Path]:
        path = tmp_path / name / "ansible_collections" / "some" / "where" / "plugins" / "filter" / "one.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def said():\n    return {said!r}\n")
        return tmp_path / name, path

    first, path = collection("first", "this")
    assert load(site, first) == ["this", str(path)]
    files = {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert files
    # the same again, and the same code elsewhere: nothing is compiled, and each says where it lies
    second, other = collection("second", "this")
    assert load(site, first) == ["this", str(path)]
    assert load(site, second) == ["this", str(other)]
    assert {file: file.stat().st_mtime_ns for file in kept.iterdir()} == files
    # what is kept is what is run
    for file in files:
        file.write_bytes(file.read_bytes().replace(b"this", b"that"))
    assert load(site, first) == ["that", str(path)]
    # code that has changed is another
    collection("first", "other")
    assert load(site, first) == ["other", str(path)]
    # what is damaged, or cannot be kept, is compiled
    for file in files:
        file.write_bytes(b"")
    assert load(site, second) == ["this", str(other)]


def test_a_child_collects_no_garbage_of_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(customize(tmp_path / "site", tmp_path / "kept"))}
    done = subprocess.run(
        [sys.executable, "-c", FORK], env=environment, check=True, capture_output=True, text=True
    ).stdout
    (child, frozen), (parent, left) = (line.split() for line in done.splitlines())
    assert (child, parent) == ("child", "parent")
    assert int(frozen) > 1000
    assert int(left) == 0


def test_what_a_module_imports_is_looked_for_once(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    site = customize(tmp_path / "site", kept)

    def find(source: str, where: str = "ansible.module_utils.some.one", kind: str = "module", times: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", FIND, where, source, kind],
            env={**os.environ, "PYTHONPATH": str(site)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        # the last number is of who asks for the syntax itself, and gets it
        assert done.endswith(f" {times} {source.count('import')}")
        return done.rsplit(" ", 2)[0]

    source = "from . import other\ntry:\n    from ansible.module_utils.basic import this\nfinally:\n    pass\n"
    said = find(source, times=1)
    basic, other = ("ansible", "module_utils", "basic", "this"), ("ansible", "module_utils", "some", "other")
    assert said == f"{[basic, other]} {[basic]}"
    assert find(source) == said
    # elsewhere, or as a package, "." is something else
    elsewhere = find(source, "ansible.module_utils.more.one", times=1)
    assert "('ansible', 'module_utils', 'more', 'other')" in elsewhere
    package = find(source, kind="package", times=1)
    assert "('ansible', 'module_utils', 'some', 'one', 'other')" in package
    assert (find(source), find(source, "ansible.module_utils.more.one"), find(source, kind="package")) == (
        said,
        elsewhere,
        package,
    )
    # code that has changed is another, and what is damaged is looked for again
    assert "('ansible', 'module_utils', 'some', 'third')" in find(source.replace("other", "third"), times=1)
    for damage in (b"", marshal.dumps(None), marshal.dumps({"another": ()})[:-2]):
        for file in kept.glob("*.imports-*"):
            file.write_bytes(damage)
        assert find(source, times=1) == said
        assert find(source) == said


def test_a_playbook_looks_less_often_whether_a_task_has_ended(tmp_path: Path) -> None:
    site = customize(tmp_path / "site", tmp_path / "kept")
    look = "from ansible.plugins import strategy; print(strategy.C.DEFAULT_INTERNAL_POLL_INTERVAL)"
    seconds = [
        float(
            subprocess.check_output(
                [sys.executable, "-c", look], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, text=True
            )
        )
        for path in ("", str(site))
    ]
    assert seconds == [0.001, 0.01]

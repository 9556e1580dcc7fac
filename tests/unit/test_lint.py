# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-lint has passed is not read again, and whatever it reads and has changed is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

READ = (
    "playbooks/site.yml",
    "plugins/modules/ib_facts.py",
    "plugins/module_utils/text.py",
    ".ansible-lint",
    "tools/lint",
    "requirements-dev.txt",
)
OTHERS = ("README.md", "tests/unit/test_it.py", "tools/demo")


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], tuple[int, int]]:
    """Runs that part of tools/lint in a small checkout: (its exit code, how often ansible-lint was started so far)."""
    for name in (*READ, *OTHERS, "requirements.txt", "collections/requirements.yml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    # as playbooks/collections is
    (tmp_path / "linked").symlink_to("playbooks")
    (tmp_path / ".gitignore").write_text("/.cache/\n/bin/\n/count\n/fail\n")
    stub = tmp_path / "bin" / "ansible-lint"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\necho >> count\n! [ -e fail ]\n")
    stub.chmod(0o755)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "tools/lint"], check=True)
    code = (ROOT / "tools" / "lint").read_text()
    start = code.index("ansible_lint() {")
    program = f"set -uo pipefail\n{code[start : code.index(chr(10) + '}', start)]}\n}}\nansible_lint"
    environment = {**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}"}

    def run() -> tuple[int, int]:
        done = subprocess.run(["bash", "-c", program], cwd=tmp_path, env=environment, check=False)
        return done.returncode, len((tmp_path / "count").read_text())

    return run


def test_what_has_passed_is_not_read_again(runs: Callable[[], tuple[int, int]], tmp_path: Path) -> None:
    assert [runs(), runs()] == [(0, 1), (0, 1)]
    for name in OTHERS:
        (tmp_path / name).write_text("two\n")
        assert runs() == (0, 1), name


@pytest.mark.parametrize("name", [*READ, "roles/new/tasks/main.yml"])
def test_what_has_changed_is_read(runs: Callable[[], tuple[int, int]], tmp_path: Path, name: str) -> None:
    runs()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("two\n")
    assert [runs(), runs()] == [(0, 2), (0, 2)]


def test_what_has_failed_is_read_again(runs: Callable[[], tuple[int, int]], tmp_path: Path) -> None:
    runs()
    (tmp_path / "playbooks" / "site.yml").write_text("two\n")
    (tmp_path / "fail").touch()
    assert [runs(), runs()] == [(1, 2), (1, 3)]
    # as it was when it passed
    (tmp_path / "playbooks" / "site.yml").write_text("one\n")
    (tmp_path / "fail").unlink()
    assert runs() == (0, 4)


@pytest.mark.parametrize("lost", ["HEAD", "index"])
def test_where_git_cannot_tell_it_is_read_each_time(
    runs: Callable[[], tuple[int, int]], tmp_path: Path, lost: str
) -> None:
    """A copy without its repository, perhaps in a directory that another one ignores."""
    (tmp_path / ".git" / lost).unlink()
    assert [runs(), runs()] == [(0, 1), (0, 2)]

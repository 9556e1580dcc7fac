# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In continuous integration a skip fails, but for the ones that are named, and so does a Python of nodes that is not there.

In `make test` a skip fails, too: that the stages of tools/test are told so is tested in test_stages.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_passes():
    pass

def test_program():
    pytest.skip("no such program")

@pytest.mark.skipif(True, reason="not on this machine")
def test_mark():
    pass

def test_cluster():
    pytest.skip("the cluster of KUBECONFIG is not ours")

@pytest.mark.xfail(reason="known", strict=True)
def test_known():
    assert False
"""


FAILS = "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error"
SKIPS = "1 passed, 3 skipped, 1 xfailed"


@pytest.mark.parametrize(
    ("ci", "skips", "last"),
    [("true", "", FAILS), ("", "fail", FAILS), ("", "", SKIPS), ("false", "", SKIPS)],
    ids=["ci", "stages", "alone", "no ci"],
)
@pytest.mark.parametrize("whole", [False, True], ids=["tests", "file"])
def test_a_skip_fails_where_all_has_to_run_unless_it_may(
    repo: Path, tmp_path: Path, ci: str, skips: str, last: str, whole: bool
) -> None:
    (tmp_path / "conftest.py").write_text((repo / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    text = 'import pytest\npytest.skip("not on this machine", allow_module_level=True)\n' if whole else TESTS
    (tmp_path / "test_it.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CI": ci, "FABRIC_RDMA_SKIPS": skips},
        cwd=tmp_path,
    )
    strict = last == FAILS
    if whole:
        last = "1 error" if strict else "1 skipped"
    assert last in done.stdout.splitlines()[-1], done.stdout
    assert ("skipped where all has to run: not on this machine" in done.stdout) is strict
    assert done.returncode == (1 if strict and not whole else 2 if strict else 5 if whole else 0)


@pytest.mark.parametrize(
    ("ci", "absent", "passes"),
    [
        ("true", "", True),
        ("true", "3.14", True),
        ("true", "3.8", False),
        ("true", "3.14 3.9", False),
        ("", "3.8", True),
    ],
)
def test_a_python_of_nodes_that_is_missing_fails_in_continuous_integration(
    repo: Path, tmp_path: Path, ci: str, absent: str, passes: bool
) -> None:
    """With stand-ins for ansible-test and for what looks for interpreters."""
    sanity = (repo / "tools" / "sanity").read_text()
    ran = "".join(f"echo 'Running sanity test \"t{number}\"'\n" for number in range(24))
    for name, text in {
        "tools/sanity": sanity,
        "tools/find-python": f'case " {absent} " in *" $1 "*) exit 1;; esac; echo {sys.executable}\n',
        ".venv/bin/python": f'exec {sys.executable} "$@"\n',
        ".venv/bin/ansible-test": ran,
        "stand-in/ansible_test/__init__.py": "",
        "stand-in/ansible_test/_internal/python_requirements.py": "",
        # releases of ansible-core know others
        "stand-in/ansible_test/_util/target/common/constants.py": "REMOTE_ONLY_PYTHON_VERSIONS = '3.8', '3.9'\n"
        "CONTROLLER_PYTHON_VERSIONS = '3.12', '3.13', '3.14'\n",
    }.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)
    (tmp_path / "checkout" / "tools" / "check_floor.py").write_text("")
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "checkout")], check=True)
    done = subprocess.run(
        [tmp_path / "checkout" / "tools" / "sanity"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CI": ci, "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "checkout" / "stand-in")},
    )
    assert "sanity: 24 passed with Python" in done.stdout, done.stdout + done.stderr
    assert (done.returncode == 0) is passes, done.stderr
    for version in absent.split():
        assert version in done.stdout

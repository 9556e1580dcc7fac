# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python the tools get: the distribution's own where it is new enough, which is compiled for speed, or another one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NEW = "3.77"
# a Python of that version, which says where it was called
PYTHON = f"""#!/bin/sh
case "$*" in
  *version_info*_base_executable*) echo "{NEW} $0" ;;
  *ensurepip*) [ ! -e "$0.part" ] ;;
  *version_info*) echo 3.12 ;;
  *"-m venv"*) echo "$0"; exit 3 ;;
esac
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def find(repo: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "PYENV_ROOT": "/nonexistent"}
    command = [repo / "tools" / "find-python", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_python_of_the_distribution_is_one_that_came_with_the_system(repo: Path, tmp_path: Path) -> None:
    other = program(tmp_path / f"python{NEW}", PYTHON)
    assert find(repo, tmp_path, NEW).stdout.strip() == str(other)
    found = find(repo, tmp_path, "--distribution", NEW)
    assert (found.returncode, found.stdout) == (1, "")
    # Debian splits off what makes virtual environments
    assert find(repo, tmp_path, "--whole", NEW).stdout.strip() == str(other)
    (tmp_path / f"python{NEW}.part").touch()
    assert find(repo, tmp_path, "--whole", NEW).returncode == 1
    command = ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    found = find(repo, tmp_path, "--distribution", NEW, version)
    assert Path(found.stdout.strip()).samefile("/usr/bin/python3")


@pytest.mark.parametrize("there", ["whole", "part", "none"])
def test_the_tools_get_the_python_of_the_distribution_before_any_other(repo: Path, tmp_path: Path, there: str) -> None:
    """With stand-ins for interpreters, and for what looks for them, on a machine that gets no package."""
    (tmp_path / "tools").mkdir()
    shutil.copy(repo / "tools" / "setup-venv", tmp_path / "tools")
    own, other = (program(tmp_path / name, PYTHON) for name in ("own", "other"))
    if there == "part":
        (tmp_path / "own.part").touch()
    found = "exit 1" if there == "none" else f"echo {own}; exit"
    program(
        tmp_path / "tools" / "find-python", f'#!/bin/sh\n[ "$1" != --distribution ] || {{ {found}; }}\necho {other}\n'
    )
    program(tmp_path / "tools" / "apt-install", "#!/bin/sh\nexit 1\n")
    done = subprocess.run([tmp_path / "tools" / "setup-venv"], stdout=subprocess.PIPE, text=True, check=False)
    expected = (3, str(own if there == "whole" else other))
    assert (done.returncode, done.stdout.splitlines()[-1]) == expected, done.stdout

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two execution nodes on this machine, with what the execution environment of the project pins."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.integration.conftest import environment
from ansible_collections.fabric.rdma.tests.receptor.mesh import Mesh

ROOT = Path(__file__).resolve().parents[2]
EXECUTING = ("exec1", "exec2")


@pytest.fixture(scope="session")
def program() -> Path:
    """Receptor's."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "receptor.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def execution_environment() -> Path:
    """The programs of a virtual environment that has what execution-environment.yml pins, with the Python that it names.

    With that of the tests where that one is not here: as in tools/sanity, none may be missing with CI=true.
    """
    definition = yaml.safe_load((ROOT / "execution-environment.yml").read_text())["dependencies"]
    version = definition["python_interpreter"]["package_system"].removeprefix("python")
    command = [ROOT / "tools" / "find-python", "--whole", version]
    python = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    assert python or os.environ.get("CI") != "true", (
        f"execution-environment.yml names Python {version}: none is on PATH or of pyenv that has venv and ensurepip"
    )
    pinned = [definition[part]["package_pip"] for part in ("ansible_core", "ansible_runner")] + definition["python"]
    return environment("execution-environment", pinned, python or sys.executable)


@pytest.fixture(scope="session")
def pinned_collections() -> Path:
    """Where the collections are that it pins: those of .venv are older where its Python is."""
    place = ROOT / ".venv" / "execution-environment-collections"
    complete = place / "complete"
    wanted = [ROOT / "requirements-dev.txt", ROOT / "collections" / "requirements.yml"]
    if not complete.exists() or complete.stat().st_mtime < max(path.stat().st_mtime for path in wanted):
        tool = [sys.executable, str(ROOT / "tools" / "fetch_collections.py")]
        subprocess.run([*tool, *map(str, wanted), str(place), "pinned"], check=True)
        complete.touch()
    return place / "ansible_collections"


@pytest.fixture(scope="session")
def nodes_env(
    execution_environment: Path, pinned_collections: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The environment of the execution nodes. Their collections are those that the execution environment has, ours not among them."""
    home = tmp_path_factory.mktemp("node")
    collections = home / ".ansible" / "collections" / "ansible_collections"
    collections.mkdir(parents=True)
    for name in ("community", "kubernetes"):
        (collections / name).symlink_to(pinned_collections / name)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return env | {"HOME": str(home), "PATH": f"{execution_environment}:{os.environ['PATH']}"}


@pytest.fixture(scope="session")
def job_env(nodes_env: dict[str, str]) -> dict[str, str]:
    """What AWX sets for every job; its paths begin with what our ansible.cfg has."""
    paths = "requirements_collections:.collections:~/.ansible/collections:/usr/share/ansible/collections"
    return {
        "ANSIBLE_COLLECTIONS_PATH": paths,
        "ANSIBLE_FORCE_COLOR": "True",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "MAX_EVENT_RES": "700000",
    }


@pytest.fixture
def mesh(program: Path, nodes_env: dict[str, str], tmp_path: Path) -> t.Iterator[Mesh]:
    there = Mesh(program, tmp_path, nodes_env, *EXECUTING)
    try:
        yield there
    finally:
        there.stop()

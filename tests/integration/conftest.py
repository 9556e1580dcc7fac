# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's machine: the built collection in an otherwise empty collections path, and none of the checkout's settings."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.integration.stand_ins import Node, stand_in

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# those that the newest ansible-core of requirements-dev.txt runs on
NEWER_PYTHONS = ("3.12", "3.13", "3.14")


class User(t.NamedTuple):
    """Where things are on that machine."""

    home: Path
    collections: Path
    env: dict[str, str]
    bin: Path = BIN

    @property
    def collection(self) -> Path:
        return self.collections / "ansible_collections" / "fabric" / "rdma"

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the virtual environment in the user's home directory."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.home,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection as it would be published."""
    target = tmp_path_factory.mktemp("build")
    command = [str(BIN / "ansible-galaxy"), "collection", "build", "--output-path", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(target.glob("fabric-rdma-*.tar.gz"))


@pytest.fixture(scope="session")
def user(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A home directory with the tarball installed."""
    home = tmp_path_factory.mktemp("home")
    # Who works where files of these names are gets none of them run: Ansible looks there, too.
    for path in [*ROOT.glob("playbooks/tasks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]:
        for directory in (home, home / "tasks"):
            directory.mkdir(exist_ok=True)
            (directory / path.name).write_text("- ansible.builtin.fail: {msg: a file of somebody else}\n")
    collections = home / "collections"
    # What it depends on; our own name in .collections is a link to the checkout.
    shutil.copytree(ROOT / ".collections", collections, ignore=shutil.ignore_patterns("fabric"), symlinks=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    env |= {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_NOCOLOR": "1",
        "HOME": str(home),
        "PATH": f"{BIN}:{env['PATH']}",
        "PWD": str(home),
    }
    there = User(home, collections, env)
    # Offline, so that the dependency is looked for among what is installed, with the versions that galaxy.yml allows.
    there.run("ansible-galaxy", "collection", "install", "--offline", str(tarball), "-p", str(collections))
    return there


def _build(directory: Path, wanted: list[str], python: str) -> None:
    done = directory / "requirements.txt"
    if done.exists() and done.read_text().splitlines() == wanted:
        return
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(directory)], check=True)
    unfinished = directory / "unfinished.txt"
    unfinished.write_text("\n".join(wanted) + "\n")
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", str(unfinished)], check=True)
    unfinished.rename(done)


def environment(name: str, wanted: list[str], python: str = sys.executable) -> Path:
    """Programs of a virtual environment with these packages, which is kept beside the tools' own."""
    # its programs name their interpreter by its path: not by one through a link that may go
    directory = (ROOT / ".venv").resolve() / name
    with open(ROOT / ".venv" / f"{name}.lock", "w", encoding="ascii") as lock:
        # several workers, one environment
        fcntl.flock(lock, fcntl.LOCK_EX)
        # another interpreter makes another one
        _build(directory, [f"# {python}", *wanted], python)
    return directory / "bin"


@pytest.fixture(scope="session")
def oldest_core() -> Path:
    """Programs of the oldest supported ansible-core."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    wanted = [line.removeprefix("#oldest:").strip() for line in lines if line.startswith("#oldest:")]
    assert wanted
    return environment("oldest-core", wanted)


@pytest.fixture(scope="session")
def oldest_user(user: User, oldest_core: Path) -> User:
    """The same home directory, used with the oldest supported ansible-core."""
    return user._replace(bin=oldest_core, env=user.env | {"PATH": f"{oldest_core}:{os.environ['PATH']}"})


@pytest.fixture(scope="session")
def newest_core() -> Path:
    """Programs of the newest ansible-core that a Python of this machine can run: the tools' own, or those of a newer Python."""
    if sys.version_info >= (3, 12):
        return BIN
    command = [ROOT / "tools" / "find-python", "--whole", *NEWER_PYTHONS]
    python = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    if not python:
        # as in tools/sanity: there, no Python may be missing
        assert os.environ.get("CI") != "true", "the newest ansible-core needs Python 3.12 or newer"
        return BIN
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    wanted = [line for line in lines if line.startswith("ansible-core==")]
    assert wanted
    return environment("newest-core", wanted, python)


@pytest.fixture(scope="session")
def newest_user(user: User, newest_core: Path) -> User:
    """The same home directory, used with the newest ansible-core."""
    return user._replace(bin=newest_core, env=user.env | {"PATH": f"{newest_core}:{os.environ['PATH']}"})


@pytest.fixture
def node(user: User, tmp_path: Path) -> Node:
    """The collection of a user, with stand-ins for its modules."""
    return stand_in(user, tmp_path)

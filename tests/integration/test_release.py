# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/release in a repository of its own that has what this checkout has: what it refuses, and what it makes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.receptor.controller import copy_project

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
URL = "https://git.example.com/rdma.git"
NEWS = "release - a sentence that the changelog does not have yet."


class Repository(t.NamedTuple):
    directory: Path

    def run(self, *command: str, repository: str = "") -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GIT_"))}
        env |= {"REPOSITORY": repository, "GIT_CONFIG_GLOBAL": "/dev/null"}
        return subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True, check=False)

    def git(self, *words: str) -> str:
        done = self.run("git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.com", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Whatever it is")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Without an origin, and with the tools and collections of the checkout, which make has nothing to do for."""
    there = Repository(tmp_path / "checkout")
    copy_project(there.directory)
    (there.directory / ".venv").symlink_to((ROOT / ".venv").resolve())
    for name in ("requirements-dev.txt", "collections/requirements.yml"):
        os.utime(there.directory / name, (0, 0))
    collections = there.directory / ".collections" / "ansible_collections"
    (collections / "fabric").mkdir(parents=True)
    (collections / "fabric" / "rdma").symlink_to("../../..")
    for path in (ROOT / ".collections" / "ansible_collections").iterdir():
        if path.name != "fabric":
            (collections / path.name).symlink_to(path.resolve())
    there.git("init", "--quiet")
    there.commit()
    return there


def test_a_release_is_made_of_what_is_committed_with_its_changelog(repository: Repository) -> None:
    checkout = repository.directory
    refused = repository.run("tools/release")
    assert (refused.returncode, "say where the sources are" in refused.stderr) == (1, True), refused.stderr
    # a password in the address of origin, as a clone of continuous integration has it, is neither published nor shown
    for address in (
        "https://ci:hunter2@git.example.com/rdma.git",
        "https://git.example.com/rdma?token=hunter2",
        "rdma|&hunter2",
    ):
        refused = repository.run("tools/release", repository=address)
        assert (refused.returncode, "is published as it is" in refused.stderr) == (1, True), refused.stderr
        assert "hunter2" not in refused.stdout + refused.stderr
    repository.git("remote", "add", "origin", "https://ci:hunter2@git.example.com/rdma.git")
    assert "is published as it is" in repository.run("tools/release").stderr
    repository.git("remote", "remove", "origin")
    # what users notice, and nobody has written into the changelog
    fragment = checkout / "changelogs" / "fragments" / "news.yml"
    fragment.write_text(yaml.safe_dump({"minor_changes": [NEWS]}))
    repository.commit()
    refused = repository.run("tools/release", repository=URL)
    assert (refused.returncode, "a release is made of what is committed" in refused.stderr) == (1, True), refused.stderr
    assert NEWS in (checkout / "CHANGELOG.rst").read_text()
    assert sorted(repository.git("status", "--porcelain").split()) == [
        "CHANGELOG.rst",
        "M",
        "M",
        "changelogs/changelog.yaml",
    ]
    assert not (checkout / "out" / "release").exists()
    repository.commit()
    done = repository.run("tools/release", repository=URL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert repository.git("status", "--porcelain") == ""
    version = yaml.safe_load((checkout / "galaxy.yml").read_text())["version"]
    tarball = checkout / "out" / "release" / f"fabric-rdma-{version}.tar.gz"
    assert f"release: {tarball}, checked by galaxy-importer==" in done.stdout
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    assert tarball.with_name(f"{tarball.name}.sha256").read_text() == f"{digest}  {tarball.name}\n"
    # what Galaxy asked of it, and that it had nothing to say
    told = (tarball.parent / "importer.log").read_text()
    assert "Importer processing completed successfully" in told
    with tarfile.open(tarball) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive if each.isfile()}  # type: ignore[union-attr]
    manifest = json.loads(files.pop("MANIFEST.json"))["collection_info"]
    assert (manifest["version"], manifest["repository"]) == (version, URL)
    files.pop("FILES.json")
    assert NEWS in files["CHANGELOG.rst"].decode()
    # nothing but what is committed, as it is committed
    committed = set(repository.git("ls-files").splitlines())
    assert {name for name in files if name not in committed or files[name] != (checkout / name).read_bytes()} == set()
    assert {"README.md", "plugins/modules/ib_facts.py", "playbooks/site.yml", "roles/plan/tasks/main.yml"} <= set(files)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment: what it pins is what is tested, and ansible-builder makes of it what an image is built from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.archives import unpack

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
BUILDER = Path(sys.executable).parent / "ansible-builder"


def definition() -> dict[str, t.Any]:
    found: dict[str, t.Any] = yaml.safe_load((ROOT / "execution-environment.yml").read_text())
    return found


def test_what_it_pins_is_what_is_tested(pinned_collections: Path) -> None:
    wanted = definition()["dependencies"]
    tested = (ROOT / "requirements-dev.txt").read_text().splitlines()
    assert wanted["ansible_runner"]["package_pip"] in tested
    for line in [wanted["ansible_core"]["package_pip"], *wanted["python"]]:
        assert re.fullmatch(r"[\w-]+==\d[\w.]*", line), line
    # all that the collection asks for, each of one version: that with which everything else is tested
    own = [
        re.split(r"[<>=]", line)[0]
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if line[:1] not in "#"
    ]
    ours = [line for line in wanted["python"] if line.partition("==")[0] in own]
    assert sorted(own) == sorted(line.partition("==")[0] for line in ours)
    assert set(ours) <= set(tested)
    asked = yaml.safe_load((ROOT / "collections" / "requirements.yml").read_text())["collections"]
    pinned = {each["name"]: each["version"] for each in wanted["galaxy"]["collections"]}
    assert pinned == {each["name"]: each["version"] for each in asked}
    # what the collection depends on, and what that depends on: nothing else is installed
    needed = list(yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"])
    for name in needed:
        manifest = json.loads((pinned_collections / name.replace(".", "/") / "MANIFEST.json").read_text())
        assert manifest["collection_info"]["version"] == pinned[name], name
        needed += [each for each in manifest["collection_info"]["dependencies"] if each not in needed]
    assert sorted(pinned) == sorted(needed)


def test_every_python_package_is_pinned(execution_environment: Path) -> None:
    """Also what the others bring: the same build gives the same packages."""
    python = execution_environment / "python"
    listed = [str(python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    found = json.loads(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
    installed = {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in found}
    # what a virtual environment comes with
    for name in ("pip", "setuptools", "wheel"):
        installed.pop(name, None)
    wanted = definition()["dependencies"]
    lines = [*(wanted[part]["package_pip"] for part in ("ansible_core", "ansible_runner")), *wanted["python"]]
    assert installed == dict(line.split("==") for line in lines)


def test_its_python_is_the_one_that_it_names(execution_environment: Path) -> None:
    """Other Pythons get other packages of the same pins."""
    named = definition()["dependencies"]["python_interpreter"]
    command = [str(execution_environment / "python"), "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    wanted = named["package_system"]
    assert named["python_path"] == f"/usr/bin/{wanted}"
    # where it is not here, that of the tests does instead (conftest.py)
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert version == wanted or (version == own and os.environ.get("CI") != "true")


def test_the_base_image_has_a_tag_or_a_digest() -> None:
    image = definition()["images"]["base_image"]["name"].rpartition("/")[2]
    assert re.fullmatch(r"[\w.-]+(:[\w.-]*\d[\w.-]*|@sha256:[0-9a-f]{64})", image)


def test_facts_reach_the_next_job() -> None:
    """AWX 24 reads the fact cache by the names of hosts, which it has below ansible-core 2.19 only."""
    core = definition()["dependencies"]["ansible_core"]["package_pip"].partition("==")[2]
    assert tuple(map(int, core.split(".")))[:2] < (2, 19)


def test_ansible_builder_makes_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "execution-environment.yml", tmp_path)
    done = subprocess.run(
        [str(BUILDER), "create", "--context", str(tmp_path / "context"), "--output-filename", "Containerfile"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recipe = (tmp_path / "context" / "Containerfile").read_text()
    wanted = definition()["dependencies"]
    assert f'ARG EE_BASE_IMAGE="{definition()["images"]["base_image"]["name"]}"' in recipe
    for part in ("ansible_core", "ansible_runner"):
        assert wanted[part]["package_pip"] in recipe
    made = tmp_path / "context" / "_build"
    assert (made / "requirements.txt").read_text().split() == wanted["python"]
    assert yaml.safe_load((made / "requirements.yml").read_text()) == wanted["galaxy"]
    assert "openssh-clients" in (made / "bindep.txt").read_text()


def test_ansible_builder_finds_what_the_collection_asks_for(tmp_path: Path) -> None:
    """Where others put the collection into an execution environment of their own."""
    built = subprocess.run(
        [str(BUILDER.with_name("ansible-galaxy")), "collection", "build", "--output-path", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    target = tmp_path / "collections" / "ansible_collections" / "fabric" / "rdma"
    target.mkdir(parents=True)
    with tarfile.open(next(tmp_path.glob("fabric-rdma-*.tar.gz"))) as archive:
        unpack(archive, str(target))
    # how a checkout finds itself is of no use there
    assert not (target / "playbooks" / "collections").exists()
    command = [
        str(BUILDER),
        "introspect",
        str(tmp_path / "collections"),
        "--write-pip",
        str(tmp_path / "pip"),
        "--write-bindep",
        str(tmp_path / "bindep"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = (tmp_path / "pip").read_text()
    assert "kubernetes" in found
    assert "netaddr" in found

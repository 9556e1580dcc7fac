# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection does its work outside the checkout: by full name, and under ansible-runner."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.integration.conftest import BIN
from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
# The demo's groups that are replayed from captures and therefore need no node.
REPLAYED = ["ib-v100", "ib-a100", "gb200", "roce-rails"]
ONLY_REPLAYED = json.dumps({"rdma_hosts": ":".join(REPLAYED), "rdma_groups": REPLAYED})


def replayed_hosts(user: User) -> list[str]:
    inventory = str(user.collection / "inventories" / "demo")
    listed = json.loads(user.run("ansible-inventory", "-i", inventory, "--list").stdout)
    return sorted(host for group in REPLAYED for host in listed[group]["hosts"])


def test_tarball_holds_what_git_does_and_no_tools(tarball: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    known = set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0"))
    with tarfile.open(tarball) as archive:
        members = {member.name for member in archive if member.isfile()}
    assert members - known == {"MANIFEST.json", "FILES.json"}
    for needed in ("README.md", "LICENSE", "meta/runtime.yml", "inventories/demo/hosts.yml", "playbooks/site.yml"):
        assert needed in members
    assert not [name for name in members if name.startswith((".", "ansible.cfg", "molecule/"))]


def test_a_git_address_in_requirements_installs_it(user: User, tmp_path: Path) -> None:
    """As the quick start has it; what it depends on is there already."""
    repository = tmp_path / "fabric.rdma.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(ROOT), str(repository)], check=True)
    readme = (ROOT / "docs" / "quickstart.md").read_text()
    (text,) = re.findall(r"```yaml\n# requirements\.yml\n(.*?)```", readme, re.DOTALL)
    wanted = yaml.safe_load(text)
    assert wanted["collections"][0]["name"].startswith("git+https://")
    commit = subprocess.run(["git", "-C", str(repository), "rev-parse", "HEAD"], check=True, capture_output=True)
    wanted["collections"][0] |= {"name": f"git+file://{repository}", "version": commit.stdout.decode().strip()}
    requirements = tmp_path / "requirements.yml"
    requirements.write_text(yaml.safe_dump(wanted))
    collections = tmp_path / "collections"
    shutil.copytree(user.collections, collections, ignore=shutil.ignore_patterns("fabric"), symlinks=True)
    env = {**user.env, "ANSIBLE_COLLECTIONS_PATH": str(collections)}
    there = type(user)(tmp_path, collections, env)
    there.run("ansible-galaxy", "collection", "install", "--offline", "-r", str(requirements), "-p", str(collections))
    assert "fabric.rdma.rollout" in there.run("ansible-doc", "--list", "fabric.rdma").stdout
    assert (there.collection / "requirements.txt").is_file()


def test_an_upgrade_and_the_way_back_take_the_version_that_is_named(user: User, tarball: Path, tmp_path: Path) -> None:
    """As docs/upgrade.md has it: by a newer commit, and back by the tarball of the earlier version."""
    sources, collections = tmp_path / "sources", tmp_path / "collections"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(sources)], check=True)
    galaxy = sources / "galaxy.yml"
    (version,) = re.findall(r"^version: (.+)$", galaxy.read_text(), re.MULTILINE)
    galaxy.write_text(galaxy.read_text().replace(f"version: {version}\n", "version: 99.0.0\n", 1))
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    subprocess.run(["git", "-C", str(sources), *identity, "commit", "--quiet", "-am", "Release"], check=True)
    shutil.copytree(user.collections, collections, ignore=shutil.ignore_patterns("fabric"), symlinks=True)
    there = type(user)(tmp_path, collections, {**user.env, "ANSIBLE_COLLECTIONS_PATH": str(collections)})

    def install(*source: str) -> str:
        there.run("ansible-galaxy", "collection", "install", "--offline", *source, "-p", str(collections))
        return str(json.loads((there.collection / "MANIFEST.json").read_text())["collection_info"]["version"])

    requirements = tmp_path / "requirements.yml"
    for commit, expected in (("HEAD~1", version), ("HEAD", "99.0.0")):
        sha = subprocess.run(
            ["git", "-C", str(sources), "rev-parse", commit], check=True, capture_output=True, text=True
        )
        source = {"name": f"git+file://{sources}", "type": "git", "version": sha.stdout.strip()}
        requirements.write_text(yaml.safe_dump({"collections": [source]}))
        assert install("-r", str(requirements), "--upgrade") == expected
    assert install(str(tarball), "--force") == version


def test_what_is_downloaded_for_an_air_gap_is_installed_behind_it(user: User, tmp_path: Path) -> None:
    """With the commands of docs/air-gap.md, but for those of pip. What the collection depends on is there already."""
    before, behind = tmp_path / "before", tmp_path / "behind"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(ROOT), str(before / "fabric.rdma.git")], check=True)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    source = {"name": f"git+file://{before}/fabric.rdma.git", "type": "git", "version": commit.stdout.strip()}
    (before / "requirements.yml").write_text(yaml.safe_dump({"collections": [source]}))
    collections = tmp_path / "there"
    shutil.copytree(user.collections, collections, ignore=shutil.ignore_patterns("fabric"), symlinks=True)
    env = {**user.env, "ANSIBLE_COLLECTIONS_PATH": str(collections)}
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "docs" / "air-gap.md").read_text(), re.DOTALL)
    for directory, block in zip((before, behind), blocks, strict=False):
        lines = [line for line in block.splitlines() if not line.startswith("pip ")]
        assert any(line.startswith("ansible-galaxy collection ") for line in lines)
        script = "\n".join(line.replace(" download ", " download --no-deps ") for line in lines)
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=directory,
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if directory == before:
            behind.mkdir()
            shutil.copytree(before / "collections", behind / "collections")
            assert "netaddr" in (before / "requirements.txt").read_text()
    there = type(user)(tmp_path, collections, env)
    assert "fabric.rdma.rollout" in there.run("ansible-doc", "--list", "fabric.rdma").stdout


def pythons(programs: Path) -> tuple[str, str, str]:
    """The ansible-core of a virtual environment, and the oldest Python that it takes on the controller and on nodes."""
    (packages,) = programs.parent.glob("lib/python3*/site-packages")
    (about,) = packages.glob("ansible_core-*.dist-info/METADATA")
    version, here = (
        re.search(rf"^{key}: (?:>=)?(\d+\.\d+)", about.read_text(), re.M) for key in ("Version", "Requires-Python")
    )
    there = re.search(r"^_PY_MIN = \((\d+), (\d+)\)", (packages / "ansible/module_utils/basic.py").read_text(), re.M)
    assert version
    assert here
    assert there
    return version[1], here[1], f"{there[1]}.{there[2]}"


def test_the_pythons_of_each_core_are_those_that_it_takes(oldest_core: Path, newest_core: Path) -> None:
    """docs/support.md. Our modules need 3.8 (ruff.toml), whatever an older core is content with."""
    text = (ROOT / "docs" / "support.md").read_text()
    told = {
        core: (here, there)
        for cores, here, there in re.findall(r"^\| (2\.[\d., ]+) \| (3\.\d+) \| (3\.\d+) \|$", text, re.M)
        for core in cores.split(", ")
    }
    (own,) = re.findall(r'^target-version = "py3(\d+)"', (ROOT / "ruff.toml").read_text(), re.M)
    for programs in (oldest_core, BIN, newest_core):
        core, here, there = pythons(programs)
        assert told[core] == (here, max(there, f"3.{own}", key=lambda python: int(python[2:]))), core


def test_modules_are_found_by_full_name(user: User) -> None:
    modules = sorted(f"fabric.rdma.{path.stem}" for path in ROOT.glob("plugins/modules/*.py"))
    docs = json.loads(user.run("ansible-doc", "--type", "module", "--json", *modules).stdout)
    assert sorted(docs) == modules


def test_every_playbook_parses_by_full_name(user: User) -> None:
    inventory = str(user.collection / "inventories" / "demo")
    for path in sorted(ROOT.glob("playbooks/*.yml")):
        user.run("ansible-playbook", "--syntax-check", "-i", inventory, f"fabric.rdma.{path.stem}")


def test_replayed_nodes_are_discovered_and_planned(user: User, tmp_path: Path) -> None:
    inventory = str(user.collection / "inventories" / "demo")
    for playbook in ("discover", "plan"):
        user.run(
            *("ansible-playbook", f"fabric.rdma.{playbook}", "-i", inventory),
            *("-e", ONLY_REPLAYED, "-e", f"rdma_output_dir={tmp_path}"),
        )
    hosts = replayed_hosts(user)
    assert hosts
    facts_by_host = load(tmp_path / "facts.json")
    assert sorted(facts_by_host) == hosts
    for host, facts in facts_by_host.items():
        assert facts["schema"] == 1
        assert facts["devices"], f"{host} has no device"
    plan = load(tmp_path / "plan.json")
    assert sorted(plan["groups"]) == sorted(REPLAYED)
    for group, planned in plan["groups"].items():
        assert not planned["errors"], (group, planned["errors"])
        assert planned["classes"]
        assert list((tmp_path / "rendered" / group).glob("*.yaml"))


def test_a_part_of_the_cluster_is_not_planned(user: User, tmp_path: Path) -> None:
    """A run with --limit does not see all groups that it is to plan: it is refused, and nothing is written."""
    done = user.run(
        *("ansible-playbook", "fabric.rdma.plan", "-i", str(user.collection / "inventories" / "demo")),
        *("--limit", "ib-a100", "-e", f"rdma_output_dir={tmp_path / 'output'}"),
        check=False,
    )
    assert done.returncode == 2
    said = " ".join((done.stdout + done.stderr).split())
    for group in ("soft-roce", "ib-v100", "gb200", "roce-rails"):
        assert f"This run does not see the group {group}." in said
    assert not (tmp_path / "output").exists()


def test_site_under_runner_leaves_its_report_in_the_artifacts(user: User, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts" / "site"
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "envvars").write_text(yaml.safe_dump({"ANSIBLE_COLLECTIONS_PATH": str(user.collections)}))
    extra = json.loads(ONLY_REPLAYED) | {"rdma_output_dir": str(artifacts / "rdma")}
    (tmp_path / "env" / "extravars").write_text(yaml.safe_dump(extra))
    done = user.run(
        *("ansible-runner", "run", str(tmp_path), "--ident", "site", "--playbook", "fabric.rdma.site"),
        *("--inventory", str(user.collection / "inventories" / "demo"), "--quiet"),
        check=False,
    )
    output = artifacts / "stdout"
    assert done.returncode == 0, output.read_text()[-6000:] if output.exists() else done.stderr
    assert (artifacts / "status").read_text() == "successful"
    page = (artifacts / "rdma" / "report.html").read_text()
    for host in replayed_hosts(user):
        assert host in page
    for group in REPLAYED:
        assert group in page
    assert (artifacts / "rdma" / "summary.txt").read_text().strip()

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of the documentation are followed from top to bottom: what is to be written is written, what is to be typed is typed.

By a user who has the collection where ansible-galaxy puts it, and whose nodes are recorded ones. What needs a cluster, a package index or
nodes that answer is left out (tests/unit/documentation.py says which commands these are).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.unit.contracts import load
from ansible_collections.fabric.rdma.tests.unit.documentation import (
    NAMED,
    PAPERS,
    SAME,
    Block,
    blocks,
    inventory_files,
    typed,
)
from ansible_collections.fabric.rdma.tests.unit.test_demo_inventory import CAPTURES, HOSTS

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

PAGES = [paper for paper in PAPERS if any(map(typed, blocks(paper, "console"))) and paper not in SAME]


def recorded(host: str, group: str) -> str:
    prefix = {"ib-v100": "ib-", "ib-a100": "ib-", "roce-rails": "roce-"}.get(group, "")
    return str(CAPTURES / f"{prefix}{host}.capture")


class Reader:
    """Who follows a page in a directory of his own."""

    def __init__(self, user: User, home: Path, paper: str) -> None:
        self.home = home
        (home / ".ansible").mkdir()
        (home / ".ansible" / "collections").symlink_to(user.collections)
        self.env = {**user.env, "HOME": str(home), "PWD": str(home)}
        del self.env["ANSIBLE_COLLECTIONS_PATH"]
        self.example = user.collection / "inventories" / "example"
        self.paper = paper
        self.mine = home / "inventories" / "mine"
        files = {path: content for path, _name, content in inventory_files(paper)}
        copies = any("inventories/example" in line for block in blocks(paper, "console") for line in typed(block))
        if "hosts.yml" not in files:
            # of a page that begins later, or leaves the hosts out
            shutil.copytree(self.example, self.mine)
            wide = files.get("group_vars/rdma.yml") or yaml.safe_load((self.mine / "group_vars/rdma.yml").read_text())
            groups = {name: {"hosts": dict.fromkeys(HOSTS[name])} for name in wide["rdma_groups"]}
            (self.mine / "hosts.yml").write_text(yaml.safe_dump({"rdma": {"children": groups}}))
        elif not copies:
            self.mine.mkdir(parents=True)
        (home / "inventory").symlink_to(self.mine)
        # what an earlier day has left
        (home / "rdma-output").mkdir()
        # it is kept without what is another in each version
        versions = {"collection": None, "ansible": None}
        report = json.dumps(
            json.loads((CAPTURES / "demo-report.json").read_text())["document"] | {"versions": versions}
        )
        for name in ("rdma-output/report.json", "monday.json"):
            (home / name).write_text(report)
        (home / "ticket").mkdir()
        shutil.copy(CAPTURES / "gb200-1.capture", home / "ticket")

    def write(self, block: Block) -> None:
        """A file of the inventory, when the block is one."""
        if match := NAMED.match(block.text):
            path = self.mine / match[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)

    def type(self, block: Block) -> None:
        """Those of its commands that can be."""
        for line in typed(block):
            if self.mine.is_dir():
                captures = {host: recorded(host, group) for group, hosts in HOSTS.items() for host in hosts}
                variables = {"recorded": captures, "rdma_capture": "{{ recorded[inventory_hostname] }}"}
                (self.mine / "group_vars").mkdir(exist_ok=True)
                (self.mine / "group_vars" / "all.yml").write_text(yaml.safe_dump(variables))
            done = subprocess.run(
                ["sh", "-ec", line],
                cwd=self.home,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{self.paper}: {line}\n{done.stdout[-5000:]}\n{done.stderr}"


@pytest.mark.parametrize("paper", PAGES)
def test_a_page_can_be_followed(user: User, tmp_path: Path, paper: str) -> None:
    reader = Reader(user, tmp_path, paper)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "rdma-output").iterdir()}
    for block in blocks(paper, "yaml", "console"):
        (reader.write if block.language == "yaml" else reader.type)(block)
    output = tmp_path / "rdma-output"
    lines = [line for block in blocks(paper, "console") for line in typed(block)]
    # what each leaves, of this run
    left = {"site": "report.html", "report": "report.html", "plan": "plan.json", "discover": "facts.json"}
    left |= {"doctor": "doctor.json", "prepare": "outcomes.json"}
    for playbook, name in left.items():
        if any(f"fabric.rdma.{playbook} " in line for line in lines):
            assert (output / name).stat().st_mtime_ns > before.get(output / name, 0), name
    if any("fabric.rdma.plan " in line or "fabric.rdma.site " in line for line in lines):
        plan = load(output / "plan.json")
        assert plan["groups"]
        assert [group for group, planned in plan["groups"].items() if planned["errors"] or not planned["classes"]] == []

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role ofed does in which order, also when what it relies on fails: on a host whose modules of this collection are stand-ins.

A stand-in says what it is told to say and changes nothing. The role, its filters and Ansible's own modules are the real ones. What
the modules do on a node, the scenario driver shows.
"""

from __future__ import annotations

import json
import shutil
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._tree import open_tree

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"

# answers.json: {module: [what it returns, ..., the last one again and again]}
STAND_IN = """#!/usr/bin/python
# WANT_JSON
import json, pathlib, sys

there = pathlib.Path("@THERE@")
with open(sys.argv[1]) as handle:
    given = json.load(handle)
name = given["_ansible_module_name"].rpartition(".")[2]
arguments = {key: value for key, value in given.items() if not key.startswith("_ansible") and key != "facts"}
arguments["tmp"] = given["_ansible_remote_tmp"]
with open(there / "calls", "a") as handle:
    handle.write(json.dumps([name, arguments]) + "\\n")
answers = json.loads((there / "answers.json").read_text())
said = answers.get("%s %s" % (name, arguments.get("state")), answers.get(name, [{}]))
key = "%s %s" % (name, arguments.get("state"))
calls = [json.loads(line) for line in (there / "calls").read_text().splitlines()]
count = sum(1 for call in calls if call[0] == name and (key not in answers or call[1].get("state") == arguments.get("state")))
print(json.dumps({"changed": False, **said[min(count, len(said)) - 1]}))
"""

INBOX = gather(open_tree(str(CAPTURES / "ib-v100-1.capture")))
WORKS = json.loads(json.dumps(INBOX))
WORKS["ofed"] |= {"flavour": "doca", "version": "24.10-1.1.4.0", "packages": {"doca-ofed": "2.9.1-1"}}
WORKS["ofed"]["mlx5_core"] = {"path_kind": "updates", "version": "24.10-1.1.4"}
WISH = {
    "ofed_method": "doca",
    "ofed_version": "2.9.1",
    "ofed_repository": "file:/srv/doca/",
    "ofed_key": "/srv/key.asc",
    "ofed_activate": "none",
}
FAILS = {"failed": True, "msg": "No space left on device"}
BUILT = {"kernel": "6.1.0", "build_log": None, "problems": [], "driver": {"path": "updates/x.ko", "pending": False}}
BUILT["initramfs"] = {"stale": False, "rebuild": []}
RESTORED = {"found": True, "restored": ["doca-ofed is out"], "left": [], "complete": True}


class Node(t.NamedTuple):
    """One host, and what its stand-ins say."""

    user: User
    directory: Path
    answers: dict[str, list[dict[str, t.Any]]]

    def play(self, install: dict[str, t.Any], **variables: t.Any) -> str:
        """What a run of the role says, on one line; install: the task that stands for the installation."""
        (self.directory / "answers.json").write_text(json.dumps(self.answers))
        tasks = self.collection / "roles" / "ofed" / "tasks"
        (tasks / "doca.yml").write_text(json.dumps([install]))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
        play = {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": {"name": "fabric.rdma.ofed"}}],
            # nothing of this machine is written
            "vars": {
                "__ofed_kept_log": str(self.directory / "kept.log"),
                "__ofed_staged_log": str(self.directory / "staged.log"),
                **WISH,
                **variables,
            },
        }
        (self.directory / "play.yml").write_text(json.dumps([play]))
        extra = json.dumps({name: value for name, value in play["vars"].items() if name.startswith("__")})
        arguments = ["-i", str(self.directory / "hosts.json"), "-e", extra, str(self.directory / "play.yml")]
        done = self.user.run("ansible-playbook", *arguments, check=False)
        return " ".join((done.stdout + done.stderr).split())

    @property
    def collection(self) -> Path:
        return self.user.collection

    def calls(self) -> list[str]:
        """Modules in the order in which they were called, with their states."""
        lines = (self.directory / "calls").read_text().splitlines()
        return [" ".join(filter(None, (name, given.get("state")))) for name, given in map(json.loads, lines)]


@pytest.fixture
def node(user: User, tmp_path: Path) -> Node:
    """The collection of a user, with stand-ins for its modules."""
    collections = tmp_path / "collections"
    there = collections / "ansible_collections"
    shutil.copytree(user.collection, there / "fabric" / "rdma")
    for other in user.collection.parents[1].iterdir():
        if other.name != "fabric":
            (there / other.name).symlink_to(other)
    for module in (there / "fabric" / "rdma" / "plugins" / "modules").glob("*.py"):
        module.write_text(STAND_IN.replace("@THERE@", str(tmp_path)))
    env = user.env | {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    answers: dict[str, list[dict[str, t.Any]]] = {
        "ib_facts": [{"ansible_facts": {"rdma": INBOX}}],
        "driver_gate": [{"blocked": [], "refusals": []}],
        "driver_packages checked": [{"no_way_back": []}],
        "driver_packages restored": [RESTORED],
        "driver_check": [BUILT],
    }
    return Node(user._replace(env=env, collections=collections), tmp_path, answers)


DOES_NOT_INSTALL = {"name": "Fill the disk", "ansible.builtin.fail": {"msg": "dpkg: no space left"}}
INSTALLS = {"name": "Install", "ansible.builtin.debug": {"msg": "installed"}}


def test_a_proof_is_due_before_anything_is_installed(node: Node) -> None:
    """And until it is done, with the way back kept for as long: a run may be killed anywhere."""
    proof = {"method": "doca", "release": "2.9.1", "installed": True, "booted": False, "devices": []}
    node.answers["ib_facts"] += [{"ansible_facts": {"rdma": WORKS | {"ofed": {**WORKS["ofed"], "proof": proof}}}}]
    node.answers["ib_facts"] += [{"ansible_facts": {"rdma": WORKS}}]
    (node.collection / "roles" / "ofed" / "tasks" / "activate.yml").write_text("[]")
    said = node.play(INSTALLS, ofed_activate="reload", ofed_log_window=0)
    assert "failed=0" in said
    states = [call for call in node.calls() if call.startswith(("driver_proof", "driver_packages"))]
    assert states == [
        "driver_packages checked",
        "driver_proof",
        "driver_packages opened",
        "driver_packages closed",
        "driver_proof",
        "driver_packages forgotten",
        "driver_proof done",
    ]
    calls = [json.loads(line) for line in (node.directory / "calls").read_text().splitlines()]
    due = [given for name, given in calls if name == "driver_proof" and "version" in given]
    assert [given.get("installed", True) for given in due] == [False, True]


def test_no_proof_is_due_of_what_was_never_begun(node: Node) -> None:
    node.answers["driver_packages opened"] = [FAILS]
    node.answers["driver_packages restored"] = [{"found": False, "restored": [], "left": [], "complete": True}]
    node.play(INSTALLS)
    states = [call for call in node.calls() if call.startswith(("driver_proof", "driver_packages"))]
    assert states[-3:] == ["driver_packages opened", "driver_packages restored", "driver_proof done"]


def test_a_log_that_finds_no_room_keeps_nothing_from_being_put_back(node: Node) -> None:
    log = node.directory / "make.log"
    log.write_text("gcc: no space left\n")
    problems = ["it was not built"]
    node.answers["driver_check"] = [{**BUILT, "build_log": {"path": str(log), "errors": "gcc"}, "problems": problems}]
    said = node.play(DOES_NOT_INSTALL, __ofed_kept_log="/proc/kept.log", __ofed_staged_log="/proc/staged.log")
    assert "driver_packages restored" in node.calls()
    assert 'failed at "Fill the disk": dpkg: no space left. it was not built. What was done: put back' in said
    assert "put back: doca-ofed is out. the log of the build is not kept: " in said
    assert "Its driver stack and its ports are as before." in said


def test_a_log_that_finds_room_afterwards_is_kept(node: Node) -> None:
    """The package that goes takes the log of its build along."""
    log = node.directory / "make.log"
    log.write_text("gcc: no space left\n")
    node.answers["driver_check"] = [{**BUILT, "build_log": {"path": str(log), "errors": "gcc"}, "problems": ["x"]}]
    kept = node.directory / "full"
    restore = node.collection / "roles" / "ofed" / "tasks" / "restore.yml"
    room = {"ansible.builtin.file": {"path": str(kept), "state": "directory", "mode": "0755"}}
    restore.write_text(restore.read_text() + "\n- " + json.dumps({"name": "Make room", **room}) + "\n")
    said = node.play(DOES_NOT_INSTALL, __ofed_kept_log=str(kept / "kept.log"))
    assert f"The log is kept in {kept / 'kept.log'}." in said
    assert (kept / "kept.log").read_text() == log.read_text()
    assert not (node.directory / "staged.log").exists()


def test_a_driver_in_use_keeps_no_packages(node: Node) -> None:
    """There is no openibd to be stopped here: as on a node where a module is in use, that fails."""
    said = node.play(INSTALLS, ofed_activate="reload")
    assert "driver_packages restored" in node.calls()
    assert 'failed at "activate | Load the new modules"' in said
    assert "What was done: put back: doca-ofed is out. the kernel may still run the new modules, which a reboot" in said


def test_a_node_on_which_everything_fails_tells_the_first_reason(node: Node) -> None:
    node.answers["driver_check"] = node.answers["driver_packages restored"] = [FAILS]
    node.answers["ib_facts"] = [*node.answers["ib_facts"], FAILS]
    said = node.play(DOES_NOT_INSTALL)
    assert "driver_packages restored" in node.calls()
    assert (
        'failed at "Fill the disk": dpkg: no space left. What was done: what was built cannot be looked at: No' in said
    )
    assert (
        'putting back what was there failed, too, at "restore | Put back packages, pins and holds": No space left'
        in said
    )
    assert "What it is now cannot be told: No space left on device." in said


# What nobody wishes for, so that the role ofed is all that there is to do.
NOTHING_ELSE = {
    "rdma_memlock": {"enabled": False},
    "rdma_gpudirect": "none",
    "rdma_storage": {"iscsi": False, "nfs": False, "dm_crypt": False, "multipath": False, "path": ""},
}


@pytest.mark.parametrize("what", ["roles", "prepare"])
def test_facts_of_a_cache_decide_nothing(node: Node, what: str) -> None:
    """Yesterday the driver was there. It is not any more."""
    roles = {"n1": "ofed", "n2": "storage_prereqs", "n3": "nvidia_peermem"}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    wishes = {**NOTHING_ELSE, "rdma_ofed": {name.removeprefix("ofed_"): value for name, value in WISH.items()}}
    # what a module is told of its host is the directory for its files there
    names = roles if what == "roles" else ["n1"]
    hosts = {name: {**local, "ansible_remote_tmp": str(node.directory / name)} for name in names}
    groups = {"rdma": {"children": {"a": {"hosts": hosts, "vars": wishes}}, "vars": {"rdma_groups": ["a"]}}}
    (node.directory / "hosts.json").write_text(json.dumps(groups))
    (node.collection / "roles" / "ofed" / "tasks" / "doca.yml").write_text(json.dumps([INSTALLS]))
    env = {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(node.directory / "cache"),
    }
    user = node.user._replace(env=node.user.env | env)
    inventory = ("-i", str(node.directory / "hosts.json"))
    answers = node.directory / "answers.json"
    answers.write_text(json.dumps({"ib_facts": [{"ansible_facts": {"rdma": WORKS}}]}))
    user.run("ansible", *inventory, "all", "-m", "fabric.rdma.ib_facts")
    (node.directory / "calls").write_text("")
    answers.write_text(json.dumps(node.answers))
    plays = [
        {
            "hosts": host,
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": {"name": f"fabric.rdma.{role}"}}],
        }
        for host, role in roles.items()
    ]
    (node.directory / "play.yml").write_text(json.dumps(plays))
    playbook = str(node.directory / "play.yml") if what == "roles" else "fabric.rdma.prepare"
    done = user.run("ansible-playbook", "--check", *inventory, playbook, check=False)
    asked: dict[str, set[str]] = {}
    for name, given in map(json.loads, (node.directory / "calls").read_text().splitlines()):
        asked.setdefault(name, set()).add(Path(given["tmp"]).name)
    assert asked.get("ib_facts") == set(hosts), done.stdout
    assert asked.get("driver_gate") == {"n1"}, done.stdout

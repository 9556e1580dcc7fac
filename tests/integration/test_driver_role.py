# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role ofed does in which order, also when what it relies on fails: on a host whose modules of this collection are stand-ins.

A stand-in says what it is told to say and changes nothing. The role, its filters and Ansible's own modules are the real ones. What
the modules do on a node, the scenario driver shows.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.integration.stand_ins import BUILT, INBOX, WISH

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.integration.stand_ins import Node

pytestmark = pytest.mark.integration

WORKS = json.loads(json.dumps(INBOX))
WORKS["ofed"] |= {"flavour": "doca", "version": "24.10-1.1.4.0", "packages": {"doca-ofed": "2.9.1-1"}}
WORKS["ofed"]["mlx5_core"] = {"path_kind": "updates", "version": "24.10-1.1.4"}
FAILS = {"failed": True, "msg": "No space left on device"}
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
    twice = node.directory / "twice.yml"
    twice.write_text(json.dumps([{"ansible.builtin.import_playbook": "fabric.rdma.prepare"}] * 2))
    playbook = node.directory / "play.yml" if what == "roles" else twice
    done = user.run("ansible-playbook", "--check", *inventory, str(playbook), check=False)
    asked: dict[str, set[str]] = {}
    for name, given in map(json.loads, (node.directory / "calls").read_text().splitlines()):
        asked.setdefault(name, set()).add(Path(given["tmp"]).name)
    assert asked.get("ib_facts") == set(hosts), done.stdout
    assert asked.get("driver_gate") == {"n1"}, done.stdout
    # its nodes would take their turns again, outside of the waves of the second
    assert ("Nodes have been prepared in this run: n1. Prepare all" in done.stdout) is (what == "prepare"), done.stdout

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role nvidia_imex on a node whose systemd is real. The service is a stand-in for NVIDIA's daemon; masks, states and files are not."""

from __future__ import annotations

import json
import re
import shutil
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.integration.booted import Booted

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

UNIT = "/usr/lib/systemd/system/nvidia-imex.service"
OWN = "/etc/systemd/system/nvidia-imex.service"
REMEMBERED = "/var/lib/fabric.rdma/nvidia-imex.json"
SERVICE = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep infinity
{more}
[Install]
WantedBy=multi-user.target
"""
# active, enabled, whether something is remembered
RUNS, GIVEN = ("active", "enabled", False), ("inactive", "masked", True)


class Node(t.NamedTuple):
    """A node, and the collection that it is prepared with, whose tasks that need a cluster only say that they ran."""

    user: User
    machine: Booted
    directory: Path

    def install(self, path: str = UNIT, more: str = "") -> None:
        """A service that runs, and starts at boot."""
        self.machine.write(path, SERVICE.format(more=more))
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "enable", "--now", "nvidia-imex.service")

    def play(self, wish: str, *options: str, **more: t.Any) -> str:
        """What a run of the role says, on one line."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
        role = {"ansible.builtin.include_role": {"name": "fabric.rdma.nvidia_imex"}}
        variables = {"nvidia_imex_wish": wish, "discover_wait_timeout": 1, **more}
        play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [role]}
        (self.directory / "play.yml").write_text(json.dumps([play]))
        program = str(self.user.bin / "ansible-playbook")
        words = ["-i", str(self.directory / "hosts.json"), *options, str(self.directory / "play.yml")]
        done = self.machine.run(program, *words, check=False, env=self.user.env)
        return " ".join((done.stdout + done.stderr).split())

    def killed(self, wish: str, when: str, word: str) -> None:
        """A run that is killed right before or after systemctl stops, disables, masks ... the service."""
        self.machine.kill_at(when, word)
        said = self.play(wish)
        assert "PLAY RECAP" not in said, said
        assert self.machine.run("test", "-e", "/run/kill", check=False).returncode == 1, said

    def remembered(self) -> dict[str, t.Any]:
        found: dict[str, t.Any] = json.loads(self.machine.run("cat", REMEMBERED).stdout)
        return found

    def state(self) -> tuple[str, str, bool]:
        """What systemd says of the service: active, enabled, and whether we remember what it was."""
        active, enabled = (
            self.machine.run("systemctl", verb, "nvidia-imex.service", check=False).stdout.strip()
            for verb in ("is-active", "is-enabled")
        )
        return active, enabled, self.machine.run("test", "-e", REMEMBERED, check=False).returncode == 0

    @property
    def collection(self) -> Path:
        return self.user.collection

    def moves(self) -> list[str]:
        """Whether the node was taken out of service and put back, in order."""
        path = self.directory / "moves"
        return path.read_text().split() if path.exists() else []


def recorder(directory: Path, word: str, when: str) -> str:
    """Tasks in place of those that speak with a cluster."""
    step = {"path": str(directory / "moves"), "line": word, "create": True, "mode": "0644", "insertafter": "EOF"}
    return json.dumps([{"name": word, "ansible.builtin.lineinfile": step, "when": when}])


@pytest.fixture
def node(user: User, tmp_path: Path) -> t.Iterator[Node]:
    collections = tmp_path / "collections"
    there = collections / "ansible_collections"
    shutil.copytree(user.collection, there / "fabric" / "rdma")
    for other in user.collection.parents[1].iterdir():
        if other.name != "fabric":
            (there / other.name).symlink_to(other)
    tasks = there / "fabric" / "rdma" / "roles" / "ofed" / "tasks"
    away = {"resources": [{"metadata": {"labels": {"rdma.fabric/away": "was-in-work"}}}]}
    (tasks / "look.yml").write_text(json.dumps([{"ansible.builtin.set_fact": {"__ofed_node": away}}]))
    (tasks / "drain.yml").write_text(recorder(tmp_path, "out", "ofed_kubeconfig == '/nowhere'"))
    (tasks / "uncordon.yml").write_text(recorder(tmp_path, "back", "true"))
    env = user.env | {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    machine = Booted(tmp_path / "machine", user.home, tmp_path)
    # a GPU is all that this machine has to be given
    machine.run("mount", "-t", "tmpfs", "tmpfs", "/sys/bus/pci/devices")
    for name, text in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2941"), ("numa_node", "0")):
        machine.write(f"/sys/bus/pci/devices/0008:01:00.0/{name}", text + "\n")
    try:
        yield Node(user._replace(env=env, collections=collections), machine, tmp_path)
    finally:
        machine.stop()


def changed(said: str) -> int:
    found = re.search(r"n1 : ok=\d+ changed=(\d+)", said)
    assert found, said
    return int(found[1])


def test_it_is_given_away_and_given_back(node: Node) -> None:
    node.install()
    said = node.play("mask", "--check")
    assert changed(said) > 0
    assert "failed=0" in said
    assert node.state() == RUNS

    said = node.play("mask")
    assert "failed=0" in said, said
    assert node.state() == GIVEN
    # for the day on which it is unmasked by hand, too
    links = node.machine.run("find", "/etc/systemd/system", "-name", "nvidia-imex.service").stdout.split()
    assert links == [OWN]
    remembered = node.machine.run("cat", REMEMBERED).stdout
    assert json.loads(remembered) == {"enabled": True, "running": True, "version": 1}
    assert node.machine.run("stat", "--format=%a %U", REMEMBERED).stdout == "600 root\n"

    assert changed(node.play("mask")) == 0
    assert node.state() == GIVEN

    said = node.play("restore", "--check")
    assert changed(said) > 0
    assert "failed=0" in said
    assert node.state() == GIVEN

    said = node.play("restore")
    assert "failed=0" in said, said
    assert node.state() == RUNS
    assert changed(node.play("restore")) == 0
    assert node.state() == RUNS


def test_what_did_not_run_does_not_run_afterwards(node: Node) -> None:
    node.install()
    node.machine.run("systemctl", "disable", "--now", "nvidia-imex.service")
    assert "failed=0" in node.play("mask")
    assert node.state() == GIVEN
    assert "failed=0" in node.play("restore")
    assert node.state() == ("inactive", "disabled", False)
    # nobody uses a daemon that does not run
    assert node.moves() == []


def test_one_whose_package_was_removed_meanwhile_takes_its_mask_with_it(node: Node) -> None:
    """Nobody comes back, so that no Pod has to go."""
    node.install()
    kubeconfig = {"rdma_kubeconfig": "/nowhere"}
    assert "failed=0" in node.play("mask", **kubeconfig)
    before = node.moves()
    node.machine.run("rm", UNIT)
    said = node.play("restore", **kubeconfig)
    assert "failed=0" in said, said
    assert node.machine.run("test", "-L", OWN, check=False).returncode == 1
    assert (node.state()[2], node.moves()) == (False, before)
    assert changed(node.play("restore", **kubeconfig)) == 0


def test_a_mask_that_fails_halfway_is_undone(node: Node) -> None:
    """A unit of the administrator's own in /etc: systemd stops and disables it, and then refuses to mask it."""
    node.install(OWN)
    said = node.play("mask", rdma_kubeconfig="/nowhere")
    assert 'nvidia-imex.service failed at "mask | Mask it": ' in said, said
    assert "already exists" in said
    assert "What it was before was put back." in said
    assert node.state() == RUNS
    assert node.machine.run("test", "-L", OWN, check=False).returncode == 1
    assert node.moves() == ["out", "back"]


def test_a_service_that_work_has_not_left_stays_as_it_is(node: Node) -> None:
    """Also one that somebody has started since a run of ours noted that it did not run."""
    node.install()
    node.machine.write(REMEMBERED, json.dumps({"version": 1, "enabled": False, "running": False}))
    fails = [
        {"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": False}},
        {"ansible.builtin.fail": {"msg": "a Pod stays"}},
    ]
    (node.collection / "roles" / "ofed" / "tasks" / "drain.yml").write_text(json.dumps(fails))
    said = node.play("mask", rdma_kubeconfig="/nowhere")
    assert "a Pod stays. It stays as it is." in said, said
    # the note is still there
    assert node.state() == (*RUNS[:2], True)
    assert node.moves() == ["back"]


def test_what_cannot_be_put_back_is_told_and_stays_out_of_work(node: Node) -> None:
    """It fails to start once it was stopped."""
    more = "ExecStartPre=/bin/test ! -e /run/stopped\nExecStopPost=/bin/touch /run/stopped"
    node.install(OWN, more)
    said = node.play("mask", rdma_kubeconfig="/nowhere")
    assert (
        'What it was before could not be put back in full, at "back | Let it start at boot and run, as before": '
        in said
    )
    assert node.moves() == ["out"]
    # for the next run
    assert json.loads(node.machine.run("cat", REMEMBERED).stdout)["running"] is True


@pytest.mark.parametrize("start", ["ExecStartPre=/bin/false", "ExecStopPost=/bin/true"])
def test_a_service_that_does_not_come_back_stays_given_away(node: Node, start: str) -> None:
    """One whose start fails, and one that starts and ends: the host would be worse than before it was given away."""
    node.install()
    assert "failed=0" in node.play("mask")
    node.machine.write(UNIT, SERVICE.format(more=start).replace("/bin/sleep infinity", "/bin/false"))
    said = node.play("restore", rdma_kubeconfig="/nowhere")
    assert "What it was before was put back." in said, said
    if "Stop" in start:
        assert "n1 is worse than before: nvidia-imex ran and no longer runs" in said
    assert (node.state()[1:], node.state()[0] == "active") == (GIVEN[1:], False)
    assert json.loads(node.machine.run("cat", REMEMBERED).stdout) == {"enabled": True, "running": True, "version": 1}
    assert node.moves() == ["out", "back"]


WAS = {"enabled": True, "running": True, "version": 1}


def test_killed_at_each_step_of_giving_it_away_and_of_giving_it_back(node: Node) -> None:
    """Each run goes on from what the killed one has left, and is killed a step later; what the service was stays known."""
    node.install()
    for word in ("disable", "stop", "mask"):
        for when in ("before", "after"):
            node.killed("mask", when, word)
            assert node.remembered() == WAS
    assert "failed=0" in node.play("mask")
    assert node.state() == GIVEN
    assert node.remembered() == WAS
    for word in ("daemon-reload", "unmask", "enable", "start"):
        for when in ("before", "after"):
            node.killed("restore", when, word)
            assert node.remembered() == WAS
    assert "failed=0" in node.play("restore")
    assert node.state() == RUNS
    assert changed(node.play("restore")) == 0


def test_a_node_that_a_killed_run_has_left_out_of_work_goes_back(node: Node) -> None:
    """All is as wished by then, so that the role has nothing else to do."""
    node.install()
    back = node.collection / "roles" / "ofed" / "tasks" / "uncordon.yml"
    whole = back.read_text()
    kills = {"ansible.builtin.command": {"argv": ["systemctl", "show", "kills"]}}
    back.write_text(json.dumps([{"name": "be killed", **kills}]))
    node.machine.kill_at("before", "kills")
    said = node.play("mask", rdma_kubeconfig="/nowhere")
    assert "PLAY RECAP" not in said, said
    assert (node.state(), node.moves()) == (GIVEN, ["out"])

    back.write_text(whole)
    said = node.play("mask", rdma_kubeconfig="/nowhere")
    assert "failed=0" in said, said
    assert node.moves() == ["out", "back"]
    # once
    assert "failed=0" in node.play("mask", rdma_kubeconfig="/nowhere")
    assert node.moves() == ["out", "back"]


@pytest.mark.parametrize("word", ["stop", "disable"])
def test_a_mask_that_fails_after_a_run_that_was_killed_is_undone_to_what_was_before_both(node: Node, word: str) -> None:
    node.install(OWN)
    node.killed("mask", "after", word)
    said = node.play("mask")
    assert 'nvidia-imex.service failed at "mask | Mask it": ' in said, said
    assert "What it was before was put back." in said
    assert node.state() == RUNS


def test_giving_it_back_that_fails_after_a_run_that_was_killed_is_undone_to_what_was_before_both(node: Node) -> None:
    node.install()
    assert "failed=0" in node.play("mask")
    node.killed("restore", "after", "unmask")
    node.machine.write(UNIT, SERVICE.format(more="ExecStartPre=/bin/false"))
    said = node.play("restore")
    assert "What it was before was put back." in said, said
    assert (node.state()[1:], node.remembered()) == (GIVEN[1:], WAS)


def test_a_node_of_a_cluster_is_drained_or_left_alone(node: Node) -> None:
    node.install()
    node.machine.run("cp", "/bin/sleep", "/usr/local/bin/kubelet")
    unit = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/usr/local/bin/kubelet infinity\n"
    node.machine.write("/etc/systemd/system/kubelet.service", unit)
    node.machine.run("systemctl", "start", "kubelet.service")
    said = node.play("mask")
    assert (
        "n1: nvidia-imex.service stays as it is. not_drained: the node is in a cluster and has not been drained" in said
    )
    assert node.state() == RUNS
    assert "failed=0" in node.play("mask", rdma_kubeconfig="/nowhere")
    assert node.moves() == ["out", "back"]
    assert "failed=0" in node.play("restore", nvidia_imex_override=["not_drained"])
    assert node.state() == RUNS
    assert node.moves() == ["out", "back"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role storage_prereqs on a node whose systemd and apt are real: killed before a daemon has read what was written for it, and locked out.

Daemons, programs and packages are stand-ins that are there, start and reload; files, units, locks and what is done with them are not.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.integration.booted import Booted

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

NAME = "InitiatorName=iqn.1993-08.org.debian:01:clone\n"
INITIATOR = "/etc/iscsi/initiatorname.iscsi"
PROGRAMS = ("awk", "bash", "blkid", "curl", "findmnt", "grep", "iscsiadm", "iscsid", "lsblk", "multipathd")
# What each start and each reload has read is kept.
UNITS = {
    "iscsid": f"ExecStart=/bin/sh -c 'cat {INITIATOR} > /run/iscsid.read; exec sleep infinity'\n",
    "multipathd": "ExecStart=/bin/sleep infinity\nExecReload=/bin/sh -c 'ls /etc/multipath/conf.d > /run/multipathd.read'\n",
}
# multipathd's own word for what it has read
SHOWS = """#!/bin/sh
[ ! -s /run/multipathd.read ] || printf 'blacklist {\\n\\tdevice {\\n\\t\\tvendor "IET"\\n\\t}\\n}\\n'
"""


class Node(t.NamedTuple):
    user: User
    machine: Booted
    directory: Path

    def play(self, **more: t.Any) -> str:
        """What a run of the role says, on one line."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
        role = {"ansible.builtin.include_role": {"name": "fabric.rdma.storage_prereqs"}}
        wish = {"iscsi": True, "nfs": False, "multipath": True, "path": ""}
        variables = {"rdma_storage": wish, "discover_wait_timeout": 1, **more}
        play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [role]}
        (self.directory / "play.yml").write_text(json.dumps([play]))
        program = str(self.user.bin / "ansible-playbook")
        words = ["-i", str(self.directory / "hosts.json"), str(self.directory / "play.yml")]
        done = self.machine.run(program, *words, check=False, env=self.user.env)
        return " ".join((done.stdout + done.stderr).split())

    def text(self, path: str) -> str:
        return self.machine.run("cat", path, check=False).stdout

    def notes(self) -> list[str]:
        return self.machine.run("ls", "/run/fabric.rdma", check=False).stdout.split()


@pytest.fixture
def node(user: User, tmp_path: Path) -> t.Iterator[Node]:
    machine = Booted(tmp_path / "machine", user.home, tmp_path)
    # its kernel is this machine's, which may not have the module
    machine.run("mount", "-t", "tmpfs", "tmpfs", "/sys/module")
    machine.write("/sys/module/iscsi_tcp/initstate", "live\n")
    machine.write("/etc/modules-load.d/volumes.conf", "iscsi_tcp\n")
    for program in PROGRAMS:
        there = machine.run("sh", "-c", f"command -v {program}", check=False).returncode == 0
        if not there or program == "multipathd":
            machine.write(f"/usr/sbin/{program}", SHOWS)
            machine.run("chmod", "755", f"/usr/sbin/{program}")
    machine.write(INITIATOR, NAME)
    for name, text in UNITS.items():
        unit = f"[Unit]\nDefaultDependencies=no\n[Service]\n{text}[Install]\nWantedBy=multi-user.target\n"
        machine.write(f"/usr/lib/systemd/system/{name}.service", unit)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", "--now", *UNITS)
    try:
        yield Node(user, machine, tmp_path)
    finally:
        machine.stop()


@pytest.mark.parametrize(
    ("when", "word", "daemon"),
    [("before", "restart", "iscsid"), ("after", "restart", "iscsid"), ("before", "reload", "multipathd")],
)
def test_a_daemon_that_a_killed_run_has_not_restarted_is_by_the_next(
    node: Node, when: str, word: str, daemon: str
) -> None:
    # another name at every start is none to keep
    node.machine.write(INITIATOR, NAME + "GenerateName=yes\n")
    node.machine.kill_at(when, word)
    said = node.play()
    assert "PLAY RECAP" not in said, said
    assert node.machine.run("test", "-e", "/run/kill", check=False).returncode == 1, said
    # the file is as wished already, and says nothing of the daemon
    new = node.text(INITIATOR)
    assert "GenerateName" not in new
    assert f"{daemon}.restart" in node.notes()

    said = node.play()
    assert "failed=0" in said, said
    assert node.text(INITIATOR) == new
    assert node.text("/run/iscsid.read") == new
    assert node.text("/run/multipathd.read") == "fabric-rdma-longhorn.conf\n"
    assert node.notes() == []
    again = node.play()
    assert "changed=0" in again, again


# Some other apt, which ends when its file of /run goes.
LOCKS = """import fcntl, os, time
locks = [open("/var/lib/dpkg/" + name, "w") for name in ("lock-frontend", "lock")]
for lock in locks:
    fcntl.lockf(lock, fcntl.LOCK_EX)
open("/run/theirs", "w").close()
while os.path.exists("/run/theirs"):
    time.sleep(0.1)
"""
CONTROL = """Package: open-iscsi
Version: 9.9-1
Architecture: all
Maintainer: fabric.rdma contributors <nobody@example.org>
Description: stand-in for what volumes over iSCSI need
"""


@pytest.fixture
def lacking(node: Node) -> Node:
    """A node without a program that a package of its one repository brings, and somebody else in apt."""
    run, write = node.machine.run, node.machine.write
    write("/srv/tree/DEBIAN/control", CONTROL)
    write("/srv/tree/usr/sbin/iscsiadm", SHOWS)
    run("chmod", "-R", "u=rwX,go=rX", "/srv/tree")
    run("chmod", "755", "/srv/tree/usr/sbin/iscsiadm")
    run("dpkg-deb", "--root-owner-group", "--build", "/srv/tree", "/srv/open-iscsi_9.9-1_all.deb")
    run("rm", "-rf", "/usr/sbin/iscsiadm", "/etc/apt/sources.list", "/etc/apt/sources.list.d", "/var/lib/apt/lists")
    size, digest = run(
        "sh", "-c", "cd /srv && stat --format=%s *.deb && sha256sum *.deb | cut -d ' ' -f 1"
    ).stdout.split()
    entry = f"Filename: ./open-iscsi_9.9-1_all.deb\nSize: {size}\nSHA256: {digest}\n"
    write("/srv/Packages", CONTROL + entry)
    write("/etc/apt/sources.list", "deb [trusted=yes] file:/srv ./\n")
    write("/run/locks.py", LOCKS)
    node.machine.start("theirs", sys.executable, "/run/locks.py")
    end = time.monotonic() + limit(30)
    while run("test", "-e", "/run/theirs", check=False).returncode:
        assert time.monotonic() < end, "nobody locks it"
        time.sleep(0.1)
    return node


def installed(node: Node) -> bool:
    words = ("dpkg-query", "--show", "--showformat=${db:Status-Status}", "open-iscsi")
    return node.machine.run(*words, check=False).stdout == "installed"


def test_apt_that_stays_with_somebody_else_is_an_error(lacking: Node) -> None:
    """With the lock that it could not get, and nothing done; the run after it does all."""
    before = lacking.text(INITIATOR)
    said = lacking.play(storage_prereqs_lock_timeout=2)
    assert "failed=1" in said, said
    assert "/var/lib/dpkg/lock" in said
    assert not installed(lacking)
    assert lacking.text(INITIATOR) == before
    lacking.machine.run("rm", "/run/theirs")
    said = lacking.play(storage_prereqs_lock_timeout=2)
    assert "failed=0" in said, said
    assert installed(lacking)


def test_apt_is_waited_for_while_somebody_else_has_it(lacking: Node) -> None:
    # until apt has been asked to install, and waits
    asked = "until pgrep -f '[A]nsiballZ_apt' > /dev/null; do sleep 0.2; done; sleep 5; rm /run/theirs"
    lacking.machine.start("ends", "sh", "-c", asked)
    said = lacking.play(storage_prereqs_lock_timeout=int(limit(120)))
    assert "failed=0" in said, said
    assert lacking.machine.run("test", "-e", "/run/theirs", check=False).returncode
    assert installed(lacking)


def test_what_a_loss_of_power_has_cut_short_is_ended(lacking: Node) -> None:
    """dpkg has noted a step and not ended it: apt does nothing for anybody until that is done."""
    lacking.machine.run("rm", "/run/theirs")
    status = lacking.machine.run("dpkg-query", "--status", "dpkg").stdout
    lacking.machine.write("/var/lib/dpkg/updates/0001", status)
    # who has it ends a moment after its file
    waits = f"--option=DPkg::Lock::Timeout={int(limit(30))}"
    refused = lacking.machine.run("apt-get", waits, "install", "--yes", "open-iscsi", check=False)
    assert refused.returncode
    assert "dpkg was interrupted" in refused.stderr
    said = lacking.play()
    assert "failed=0" in said, said
    assert installed(lacking)
    again = lacking.play()
    assert "changed=0" in again, again

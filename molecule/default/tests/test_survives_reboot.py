# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left when a node was restarted. The last of the files: what others look at is gone afterwards."""

from __future__ import annotations

import subprocess
import time
import typing as t

import nodes
import pace
import pytest

testinfra_hosts = ["ssh://lab1"]

# The lab loads none of these.
MODULES = {"ib_umad", "ib_uverbs", "rdma_ucm", "iscsi_tcp", "nfs"}


@pytest.fixture(scope="module")
def rebooted() -> None:
    """The node after its next start, when systemd is through with it."""
    before = nodes.boot_id("lab1")
    assert before
    # the connection may or may not end with an error
    subprocess.run(nodes.command("lab1", "systemctl", "reboot"), stdin=subprocess.DEVNULL, check=False)
    deadline = time.monotonic() + pace.limit(300)
    while nodes.boot_id("lab1") in ("", before):
        assert time.monotonic() < deadline, "the node did not come back"
        time.sleep(2)
    wait = nodes.command("lab1", "systemctl", "is-system-running", "--wait")
    subprocess.run(wait, stdin=subprocess.DEVNULL, check=False, timeout=pace.limit(300))


@pytest.mark.usefixtures("rebooted")
def test_modules_are_loaded(host: t.Any) -> None:
    assert set(host.check_output("ls /sys/module").split()) >= MODULES


@pytest.mark.usefixtures("rebooted")
def test_device_is_active(host: t.Any) -> None:
    assert host.check_output("cat /sys/class/infiniband/rxe0/ports/1/state") == "4: ACTIVE"
    assert set(host.check_output("ls /dev/infiniband").split()) >= {"rdma_cm", "umad0", "uverbs0"}


@pytest.mark.usefixtures("rebooted")
def test_iscsid_is_ready(host: t.Any) -> None:
    assert "active" in host.check_output("systemctl is-active iscsid.socket iscsid.service; true").split()


@pytest.mark.usefixtures("rebooted")
def test_containers_may_lock_memory() -> None:
    after = nodes.look("lab1")["after"]
    assert [after[user]["memlock"] for user in ("root", "user")] == [["unlimited"] * 2] * 2


@pytest.mark.usefixtures("rebooted")
def test_no_service_failed(host: t.Any) -> None:
    assert not host.check_output("systemctl list-units --failed --plain --no-legend")

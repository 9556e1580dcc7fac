# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes for real: a disk from an iSCSI target and a directory over NFS 4.2, both served by the other node.

storage_peer.yml makes the second node the server. The first one attaches, writes, reads and lets go.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

import pace
import pytest
import testinfra

testinfra_hosts = ["ssh://lab1"]

SERVER = "198.51.100.2"
TARGET = "iqn.2019-10.io.longhorn:proof"
MOUNT = "/mnt/fabric-rdma-proof"
MODULES = {"iscsi_tcp", "nfs"}


def test_iscsid_is_ready_and_will_be_at_boot(host: t.Any) -> None:
    states = "systemctl is-active iscsid.socket iscsid.service; systemctl is-enabled iscsid.socket iscsid.service; true"
    active_socket, active_service, *enabled = host.check_output(states).split()
    assert "active" in (active_socket, active_service)
    assert "enabled" in enabled


def test_modules_are_loaded_now_and_at_boot(host: t.Any) -> None:
    assert set(host.check_output("ls /sys/module").split()) >= MODULES
    assert {line.strip() for line in host.check_output("cat /etc/modules-load.d/*.conf").splitlines()} >= MODULES


def test_of_two_nodes_with_one_initiator_name_one_gets_another(host: t.Any) -> None:
    """They began as clones of one image."""
    other = testinfra.get_host("ssh://lab2", ssh_config=host.backend.ssh_config)
    names = [node.check_output("grep ^InitiatorName= /etc/iscsi/initiatorname.iscsi") for node in (host, other)]
    assert names[0] == "InitiatorName=iqn.1993-08.org.debian:01:golden-image"
    assert re.fullmatch(r"InitiatorName=iqn\.[0-9]{4}-[0-9]{2}\.\S+", names[1])
    assert names[1] != names[0]


@pytest.fixture
def disk(host: t.Any) -> Iterator[str]:
    """The disk of the other node's target while a session is open."""
    host.check_output(f"iscsiadm --mode discovery --type sendtargets --portal {SERVER}")
    host.check_output(f"iscsiadm --mode node --targetname {TARGET} --portal {SERVER} --login")
    path = f"/dev/disk/by-path/ip-{SERVER}:3260-iscsi-{TARGET}-lun-1"
    host.check_output(f"udevadm settle --timeout {pace.limit(60):.0f} --exit-if-exists {path}")
    yield path
    host.check_output(f"iscsiadm --mode node --targetname {TARGET} --portal {SERVER} --logout")
    host.check_output(f"iscsiadm --mode node --targetname {TARGET} --op delete")


def test_a_disk_from_the_other_node(host: t.Any, disk: str) -> None:
    host.check_output(f"echo written over iSCSI | dd of={disk} bs=512 count=1 conv=sync oflag=direct status=none")
    assert (
        host.check_output(f"dd if={disk} bs=512 count=1 iflag=direct status=none | head -c 18") == "written over iSCSI"
    )
    assert TARGET in host.check_output("iscsiadm --mode session")
    assert host.check_output(f"cat /sys/block/$(basename $(readlink -f {disk}))/device/model").strip() == "VIRTUAL-DISK"


def maps(host: t.Any, disk: str) -> list[str]:
    """Maps on top of the disk, when multipathd has looked at it with its present configuration."""
    host.check_output(f"multipathd reconfigure && udevadm settle --timeout {pace.limit(60):.0f}")
    # it answers once it is through
    host.check_output("multipathd show daemon")
    return t.cast("list[str]", host.check_output(f"ls /sys/block/$(basename $(readlink -f {disk}))/holders").split())


def test_multipathd_leaves_the_disk_alone(host: t.Any, disk: str) -> None:
    assert host.check_output("systemctl is-active multipathd.service").strip() == "active"
    assert maps(host, disk) == []
    drop_in = "/etc/multipath/conf.d/fabric-rdma-longhorn.conf"
    host.check_output(f"mv {drop_in} {drop_in}.away")
    try:
        # nothing but the drop-in kept it from the disk
        assert len(maps(host, disk)) == 1
    finally:
        host.check_output(f"mv {drop_in}.away {drop_in}")
    assert maps(host, disk) == []


def test_a_directory_from_the_other_node(host: t.Any) -> None:
    host.check_output(f"mkdir -p {MOUNT} && mount -t nfs4 -o vers=4.2,timeo=600 {SERVER}:/srv/proof {MOUNT}")
    try:
        assert host.check_output(f"cat {MOUNT}/who") == "from lab2"
        options = host.check_output(f"findmnt --noheadings --output FSTYPE,OPTIONS {MOUNT}")
        assert options.startswith("nfs4")
        assert "vers=4.2" in options.split(None, 1)[1].split(",")
        host.check_output(f"echo back >{MOUNT}/answer && sync {MOUNT}/answer")
    finally:
        host.check_output(f"umount {MOUNT} && rmdir {MOUNT}")

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture of storage gives the same facts as its node, also when its names are replaced."""

from __future__ import annotations

import gzip

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import Recorder
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import anonymize
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage_excerpt import excerpt
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._discover.storage_node import (
    BLACKLIST,
    LISTENS,
    NAME,
    SOCKETS,
    mountinfo,
    node,
    with_map,
)


def test_a_capture_gives_the_same_facts() -> None:
    machine = node()
    machine.file(
        "/proc/self/mountinfo", mountinfo("/", "ext4", source="server.example:/export") + mountinfo("/sys", "sysfs")
    )
    machine.file("/proc/net/unix", SOCKETS + "0: 1 0 10000 1 1 9 /run/secret\n" + LISTENS)
    machine.file(
        "/etc/multipath.conf",
        'defaults {\n user_friendly_names yes\n}\nmultipaths {\n multipath {\n  wwid "36"\n }\n}\n' + BLACKLIST,
    )
    machine.file(
        "/etc/nfsmount.conf",
        '[ Server "secret.example" ]\nNfsvers=3\n[ NFSMount_Global_Options ]\nDefaultvers=4\nretry=1\n',
    )
    machine.file("/proc/config.gz", gzip.compress(b"CONFIG_NFS_V4=y\nCONFIG_X=y\n"))
    recorder = Recorder(machine.tree())
    facts = read_storage(recorder, [])
    kept = {
        path: Entry("f", excerpt(path, entry.data)) if entry.kind == "f" else entry
        for path, entry in recorder.entries.items()
    }
    assert read_storage(MemoryTree(kept), []) == facts
    assert facts["nfs"]["default_version"] == "4"
    everything = b"\n".join(entry.data for entry in kept.values())
    for word in (b"secret", b"server.example", b"CONFIG_X", b"sysfs", b"multipaths", b"retry"):
        assert word not in everything


def test_an_anonymous_capture_gives_the_same_facts_but_for_names() -> None:
    machine = node()
    del machine.entries["/var/lib"]
    machine.link("/var/lib/longhorn", "/site/volumes")
    machine.directory("/site/volumes")
    mounts = mountinfo("/", "btrfs") + mountinfo("/site", "ext4") + mountinfo("/home/somebody", "xfs")
    machine.file("/proc/self/mountinfo", mounts)
    machine.file("/etc/iscsi/initiatorname.iscsi", f"# somebody\nInitiatorName={NAME}\nInitiatorAlias=somebody\n")
    machine.files("/sys/class/iscsi_session/session1", targetname="iqn.2000-01.somebody:1", state="LOGGED_IN")
    machine.file("/etc/multipath.conf", 'blacklist {\n wwid "36somebody"\n}\n' + BLACKLIST)
    with_map(machine, "mpath1", ("sda", "ACME", "LUN"))
    machine.file("/sys/block/dm-1/dm/name", "somebody\n")
    machine.file("/sys/block/dm-1/dm/uuid", "mpath-36somebody\n")
    recorder = Recorder(machine.tree())
    facts = read_storage(recorder, [])
    entries = anonymize(recorder.entries)
    assert b"somebody" not in b"".join(entry.data for entry in entries.values())
    other = read_storage(MemoryTree(entries), [])
    assert other["iscsi"].pop("initiator_name") == "iqn.2000-01.example:1"
    assert other["iscsi"].pop("sessions") == [
        {"name": "session1", "target": "iqn.2000-01.example:target1", "state": "LOGGED_IN"}
    ]
    assert other["filesystem_of"] == {"/": "btrfs", "/mnt/1": "xfs", "/site": "ext4", "/var/lib/longhorn": "ext4"}
    del facts["iscsi"]["initiator_name"], facts["iscsi"]["sessions"]
    assert other["iscsi"] == facts["iscsi"]
    assert other["multipathd"]["blacklists"]
    assert other["multipathd"]["maps"][0]["paths"] == facts["multipathd"]["maps"][0]["paths"]


def test_an_excerpt_of_an_odd_file_is_what_can_be_read_of_it() -> None:
    assert excerpt("/proc/config.gz", b"nonsense") == b""
    assert (
        gzip.decompress(excerpt("/proc/config.gz", gzip.compress(b"CONFIG_NFS_V4=y\nCONFIG_X=y\n")))
        == b"CONFIG_NFS_V4=y\n"
    )
    assert excerpt("/etc/os-release", b"ID=x\n") == b"ID=x\n"

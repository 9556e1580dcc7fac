# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of storage prerequisites, and what they need, from the facts of small machines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage_excerpt import excerpt
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_needs import storage_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_table import storage_table
from ansible_collections.fabric.rdma.tests.unit.machines import Machine
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._discover.storage_node import (
    BLACKLIST,
    MODULE,
    NAME,
    RELEASE,
    SOCKETS,
    facts_of,
    node,
    with_map,
)

PATHS = [
    "/etc/os-release",
    "/proc/sys/kernel/osrelease",
    "/proc/net/unix",
    "/proc/self/mountinfo",
    "/proc/config.gz",
    "/run/iscsid.pid",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/multipath.conf",
    "/etc/nfsmount.conf",
    "/sys/class/iscsi_session/session1/state",
    "/sys/block/dm-0/dm/uuid",
    "/sys/block/dm-0/slaves/sda",
    f"/boot/config-{RELEASE}",
]


CONTENT = st.one_of(
    st.binary(max_size=60),
    st.text(alphabet='blacklist{}_exceptions devnode "^!*[](+)\\\n=#@-:0/ ', max_size=120).map(str.encode),
    st.just(BLACKLIST.encode()),
    st.just(b"mpath-1"),
)


@given(st.dictionaries(st.sampled_from(PATHS), CONTENT, max_size=8))
def test_no_tree_is_too_odd(files: dict[str, bytes]) -> None:
    tree = MemoryTree({path: Entry("f", data) for path, data in files.items()})
    facts = read_storage(tree, [])
    json.dumps(facts)
    assert facts == read_storage(
        MemoryTree({path: Entry("f", excerpt(path, data)) for path, data in files.items()}), []
    )
    facts = {
        "kernel": {"release": None, "modules": dict.fromkeys(("dm_crypt", "iscsi_tcp", "nfs"), MODULE)},
        "storage": facts,
    }
    wish = {"dm_crypt": True}
    needs, checks = storage_needs(facts, wish), storage_checks(facts, wish)
    assert needs["needed"] == bool(needs["reasons"])
    assert set(needs["reasons"]) <= {check["message"] for check in checks}
    assert {check["message"] for check in checks if check["status"] == "error"} <= set(needs["reasons"])
    for line in storage_table({"node": {"checks": checks}}):
        assert len(line) <= 100
        assert line.isprintable()


# -- checks and needs ------------------------------------------------------------------------------------------------


def bad(facts: dict[str, Any], wish: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
    checks = storage_checks(facts, wish)
    assert all((check["remedy"] is None) == (check["status"] == "ok") for check in checks)
    return [(check["check"], check["status"], check["message"]) for check in checks if check["status"] != "ok"]


def test_a_node_in_order_needs_nothing() -> None:
    facts = facts_of(node())
    assert [check["message"] for check in storage_checks(facts)] == [
        "Service iscsid is inactive, but it can still be activated by iscsid.socket",
        f"InitiatorName is {NAME}",
        "multipathd.service is not running",
        "NFS4 is supported (4.0, 4.1, 4.2)",
        "Package open-iscsi is installed",
        "Package nfs-common is installed",
        "Module iscsi_tcp is loaded",
        "Module nfs is loaded",
        "/var/lib/longhorn is on ext4",
        "Mount propagation is enabled",
    ]
    assert storage_needs(facts) == {
        "needed": False,
        "reasons": [],
        "blocked": [],
        "packages": False,
        "parts": [],
        "tools": [],
        "install": [],
        "modules": [],
        "unit": None,
        "initiator": None,
        "multipath": False,
        "restarts": [],
    }
    assert storage_table({"node": {"checks": storage_checks(facts)}}) == ["node: 10 of 10 checks in order"]


def test_nothing_is_asked_for() -> None:
    wish = {"iscsi": False, "nfs": False}
    facts = {**facts_of(Machine()), "storage": read_storage(MemoryTree({}), [])}
    assert storage_checks(facts, wish) == []
    assert not storage_needs(facts, wish)["needed"]


def test_a_fresh_node_lacks_packages_services_and_modules() -> None:
    machine = node()
    for path in [path for path in machine.entries if "iscsi" in path or "mount.nfs4" in path or "curl" in path]:
        del machine.entries[path]
    machine.file("/proc/net/unix", SOCKETS)
    facts = facts_of(machine, iscsi_tcp={"loaded": False, "persisted": False}, nfs={"persisted": False})
    assert bad(facts) == [
        ("packages", "error", "Package open-iscsi is not installed"),
        ("packages", "error", "Package nfs-common is not installed"),
        ("programs", "error", "Program curl is not there"),
        ("modules", "error", "Module iscsi_tcp is not loaded"),
        ("modules", "warning", "Module nfs is loaded, but not at boot"),
    ]
    needs = storage_needs(facts)
    assert (needs["packages"], needs["parts"], needs["tools"]) == (True, ["iscsi", "nfs"], ["curl"])
    assert needs["install"] == ["open-iscsi", "nfs-common", "curl"]
    assert (needs["modules"], needs["unit"], needs["initiator"]) == (["iscsi_tcp", "nfs"], None, None)
    assert needs["blocked"] == []


@pytest.mark.parametrize(
    ("service", "units", "enabled", "unit"),
    [
        ("stopped", ["iscsid.service", "iscsid.socket"], [], {"name": "iscsid.socket", "start": True}),
        ("stopped", ["iscsid.service"], [], {"name": "iscsid.service", "start": True}),
        ("stopped", ["iscsid.service", "iscsid.socket"], ["iscsid.service"], {"name": "iscsid.service", "start": True}),
        ("running", ["iscsid.service", "iscsid.socket"], [], {"name": "iscsid.socket", "start": False}),
        ("running", ["iscsid.service", "iscsid.socket"], ["iscsid.service"], None),
        ("listening", ["iscsid.service", "iscsid.socket"], ["iscsid.socket"], None),
    ],
)
def test_the_socket_is_enabled_before_the_service(
    service: str, units: list[str], enabled: list[str], unit: Any
) -> None:
    facts = facts_of(node())
    facts["storage"]["iscsi"].update(service=service, units=units, enabled=enabled)
    assert storage_needs(facts)["unit"] == unit


def test_a_masked_unit_is_the_administrators_word() -> None:
    facts = facts_of(node())
    facts["storage"]["iscsi"].update(service="stopped", enabled=[], masked=["iscsid.service"])
    needs = storage_needs(facts)
    assert needs["unit"] is None
    assert needs["blocked"] == [
        "iscsid.service is masked: `systemctl unmask iscsid.service` if iSCSI may be used on this host, "
        "else rdma_storage.iscsi: false"
    ]


CGROUP = "/sys/fs/cgroup/system.slice/{}.service/cgroup.procs"


def test_a_daemon_that_an_earlier_run_has_not_restarted_is() -> None:
    """The run wrote what it has to read, and was killed before it did."""
    machine = node()
    machine.file("/usr/sbin/multipathd")
    machine.file("/etc/multipath/conf.d/longhorn.conf", BLACKLIST)
    for name in ("iscsid", "multipathd"):
        machine.file(f"/run/fabric.rdma/{name}.restart")
    # one that its socket starts, or nobody, reads it then
    assert storage_needs(facts_of(machine))["needed"] is False
    for name in ("iscsid", "multipathd"):
        machine.file(CGROUP.format(name), "1\n")
    facts = facts_of(machine)
    needs = storage_needs(facts)
    assert (needs["needed"], needs["restarts"], needs["blocked"]) == (True, ["iscsid", "multipathd"], [])
    assert (needs["initiator"], needs["multipath"]) == (None, False)
    assert needs["reasons"][0] == "iscsid still has its old initiator name: a run ended before it was restarted"
    facts["storage"]["iscsi"]["sessions"] = [{"name": "session1", "target": "iqn.x:1", "state": "LOGGED_IN"}]
    needs = storage_needs(facts)
    assert needs["restarts"] == ["multipathd"]
    assert "the initiator name cannot change while sessions are open (iqn.x:1): drain the node" in needs["blocked"][0]


def test_a_running_multipathd_is_told_to_leave_longhorns_disks_alone() -> None:
    machine = node()
    machine.file("/usr/sbin/multipathd")
    assert storage_needs(facts_of(machine))["multipath"] is False
    machine.file("/sys/fs/cgroup/system.slice/multipathd.service/cgroup.procs", "1\n")
    facts = facts_of(machine)
    assert bad(facts) == [("multipathd", "warning", "multipathd.service is running, and grabs Longhorn's devices")]
    assert storage_needs(facts)["multipath"] is True
    assert storage_needs(facts, {"multipath": False})["needed"] is False

    # one path is a volume that was grabbed; foreign storage does not matter to a list of one make
    with_map(machine, "mpath1", ("sda", "IET", "VIRTUAL-DISK"))
    with_map(machine, "mpath2", ("sdb", "ACME", "LUN"), ("sdc", "ACME", "LUN"))
    assert storage_needs(facts_of(machine))["multipath"] is True
    with_map(machine, "mpath3", ("sdd", "IET", "VIRTUAL-DISK"), ("sde", "IET", "VIRTUAL-DISK"))
    facts = facts_of(machine)
    assert storage_needs(facts)["needed"] is False
    assert "the maps mpath3 have several paths" in storage_checks(facts)[2]["remedy"]

    machine.file("/etc/multipath/conf.d/longhorn.conf", BLACKLIST)
    assert bad(facts_of(machine)) == []


@pytest.mark.parametrize(
    ("key", "value", "check", "status", "message", "blocked"),
    [
        ("nfs", {"versions": ["4.0"]}, "NFSv4", "error", f"NFS4 is not supported: kernel {RELEASE} has 4.0", True),
        (
            "nfs",
            {"versions": []},
            "NFSv4",
            "error",
            f"NFS4 is not supported: kernel {RELEASE} has no version of it",
            True,
        ),
        (
            "nfs",
            {"versions": None},
            "NFSv4",
            "warning",
            f"It is not known whether kernel {RELEASE} supports NFS4",
            False,
        ),
        (
            "nfs",
            {"default_version": "3"},
            "NFS default version",
            "warning",
            "NFS default version is 3 in /etc/nfsmount.conf",
            False,
        ),
        (
            "filesystem_of",
            {"/var/lib/longhorn": "btrfs"},
            "file system",
            "error",
            "/var/lib/longhorn is on btrfs",
            True,
        ),
        (
            "mount_propagation",
            {"/": "private"},
            "mount propagation",
            "error",
            "The mount of / is private: mounts made by Pods do not reach the host",
            True,
        ),
    ],
)
def test_what_is_not_changed(key: str, value: Any, check: str, status: str, message: str, blocked: bool) -> None:
    facts = facts_of(node())
    facts["storage"][key].update(value)
    assert bad(facts) == [(check, status, message)]
    needs = storage_needs(facts)
    assert needs["needed"] is blocked
    assert [reason.startswith(message + ": ") for reason in needs["blocked"]] == [True] * blocked


def test_the_file_system_of_the_wished_directory_is_checked() -> None:
    facts = facts_of(node())
    facts["storage"]["filesystem_of"].update({"/data": "zfs"})
    assert bad(facts, {"path": "/data/volumes"}) == [("file system", "error", "/data/volumes is on zfs")]
    assert not [check for check in storage_checks(facts, {"path": ""}) if check["check"] == "file system"]


def test_a_module_that_is_not_there() -> None:
    facts = facts_of(node(), dm_crypt=dict.fromkeys(MODULE, False))
    assert bad(facts) == []
    needs = storage_needs(facts, {"dm_crypt": True})
    assert needs["modules"] == []
    assert needs["blocked"][0].startswith(f"Module dm_crypt is not there for kernel {RELEASE}: install the modules")


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (
            {"iscsid": True},
            "rdma_storage has no key iscsid; it knows dm_crypt, iscsi, multipath, nfs, path; did you mean iscsi?",
        ),
        ({"nfs": "maybe"}, "rdma_storage.nfs is 'maybe'; expected true or false"),
        (
            {"path": "data"},
            "rdma_storage.path is 'data'; expected an absolute path, or an empty string to check no directory",
        ),
    ],
)
def test_wishes_that_make_no_sense(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(WishError, match=re.escape(message)):
        storage_needs(facts_of(node()), wish)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of storage from small machines."""

from __future__ import annotations

import gzip

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage, value_at
from ansible_collections.fabric.rdma.tests.unit.machines import Machine
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._discover.storage_node import (
    BLACKLIST,
    LISTENS,
    NAME,
    RELEASE,
    SOCKETS,
    mountinfo,
    node,
    storage_of,
    with_map,
)

# -- facts -----------------------------------------------------------------------------------------------------------


def test_an_empty_root_has_no_storage_and_no_warning() -> None:
    warnings: list[str] = []
    facts = read_storage(MemoryTree({}), warnings)
    assert warnings == []
    assert facts["family"] is None
    assert not any(facts["programs"].values())
    assert facts["tools_missing"] == ["awk", "bash", "blkid", "curl", "findmnt", "grep", "lsblk"]
    assert (facts["filesystem_of"], facts["mount_propagation"]) == ({}, {})
    assert facts["iscsi"] == {
        "installed": False,
        "service": None,
        "units": [],
        "enabled": [],
        "masked": [],
        "initiator_name": None,
        "generate_name": False,
        "initiator_file": "missing",
        "sessions": [],
    }
    assert facts["nfs"] == {"installed": False, "versions": None, "default_version": None}
    assert facts["multipathd"] == {
        "installed": False,
        "service": None,
        "enabled": [],
        "blacklists": False,
        "config_dir": "/etc/multipath/conf.d",
        "maps": [],
    }


def test_all_that_is_said_about_a_node_in_order() -> None:
    facts = storage_of(node())
    assert facts["family"] == "debian"
    assert facts["tools_missing"] == []
    assert facts["iscsi"] == {
        "installed": True,
        "service": "listening",
        "units": ["iscsid.service", "iscsid.socket"],
        "enabled": ["iscsid.socket"],
        "masked": [],
        "initiator_name": NAME,
        "generate_name": False,
        "initiator_file": "present",
        "sessions": [],
    }
    assert facts["nfs"] == {"installed": True, "versions": ["4.0", "4.1", "4.2"], "default_version": None}
    assert facts["filesystem_of"] == {"/": "ext4", "/var/lib/longhorn": "ext4"}
    assert facts["mount_propagation"] == {"/": "shared", "/var/lib/longhorn": "shared"}


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "rhel"),
        ("ID=ubuntu\nID_LIKE=debian\n", "debian"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "suse"),
        ("ID=nixos\n", None),
    ],
)
def test_the_family_follows_from_os_release(text: str, family: str | None) -> None:
    machine = Machine()
    machine.file("/etc/os-release", text)
    assert storage_of(machine)["family"] == family


@pytest.mark.parametrize("base", ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"])
def test_a_service_with_a_process_runs(base: str) -> None:
    machine = node()
    machine.file(f"{base}/system.slice/iscsid.service/cgroup.procs", "4711\n")
    assert storage_of(machine)["iscsi"]["service"] == "running"


@pytest.mark.parametrize(("comm", "service"), [("iscsid\n", "running"), ("cron\n", "stopped"), (None, "stopped")])
def test_a_pid_file_counts_while_its_process_is_iscsid(comm: str | None, service: str) -> None:
    machine = node()
    machine.file("/proc/net/unix", SOCKETS + LISTENS.replace("00010000", "00000000") + "x y z\n")
    machine.file("/run/iscsid.pid", "4711\n")
    if comm:
        machine.file("/proc/4711/comm", comm)
    assert storage_of(machine)["iscsi"]["service"] == service


def test_a_socket_is_known_under_a_padded_name() -> None:
    machine = node()
    machine.file("/proc/net/unix", SOCKETS + LISTENS.rstrip() + "@" * 80 + "\n")
    assert storage_of(machine)["iscsi"]["service"] == "listening"


def test_a_unit_that_leads_to_nowhere_is_masked() -> None:
    machine = node()
    machine.link("/etc/systemd/system/iscsid.service", "/dev/null")
    assert storage_of(machine)["iscsi"]["masked"] == ["iscsid.service"]


def test_sessions_are_in_the_order_of_their_numbers() -> None:
    machine = node()
    for number in (10, 9):
        machine.files(f"/sys/class/iscsi_session/session{number}", targetname=f"iqn.t:{number}", state="LOGGED_IN")
    machine.directory("/sys/class/iscsi_session/session11")
    assert storage_of(machine)["iscsi"]["sessions"] == [
        {"name": "session9", "target": "iqn.t:9", "state": "LOGGED_IN"},
        {"name": "session10", "target": "iqn.t:10", "state": "LOGGED_IN"},
        {"name": "session11", "target": None, "state": None},
    ]


def test_a_name_that_only_root_can_read() -> None:
    machine = node()
    # a directory is there and cannot be read as a file
    del machine.entries["/etc/iscsi/initiatorname.iscsi"]
    machine.directory("/etc/iscsi/initiatorname.iscsi")
    warnings: list[str] = []
    assert storage_of(machine, warnings)["iscsi"]["initiator_file"] == "unreadable"
    assert warnings == [
        "/etc/iscsi/initiatorname.iscsi cannot be read: the initiator name is not known (it takes root to read it)"
    ]


V4 = "CONFIG_NFS_V4=m\n"


@pytest.mark.parametrize(
    ("config", "versions"),
    [
        ("CONFIG_X=y\n", None),
        ("# CONFIG_NFS_FS is not set\n", []),
        ("CONFIG_NFS_FS=m\n# CONFIG_NFS_V4 is not set\n", []),
        (V4 + "# CONFIG_NFS_V4_1 is not set\n", ["4.0"]),
        (V4 + "CONFIG_NFS_V4_1=y\n# CONFIG_NFS_V4_2 is not set\n", ["4.0", "4.1"]),
        (V4 + "CONFIG_NFS_V4_1=y\nCONFIG_NFS_V4_2=y\n", ["4.0", "4.1", "4.2"]),
        # kernels of which NFSv4.1 is a fixed part
        (V4 + "# CONFIG_NFS_V4_0 is not set\nCONFIG_NFS_V4_2=y\n", ["4.1", "4.2"]),
    ],
)
@pytest.mark.parametrize("path", [f"/boot/config-{RELEASE}", f"/lib/modules/{RELEASE}/config", "/proc/config.gz"])
def test_nfs_versions_are_those_that_the_kernel_was_built_with(
    path: str, config: str, versions: list[str] | None
) -> None:
    machine = node()
    del machine.entries[f"/boot/config-{RELEASE}"]
    machine.file(path, gzip.compress(config.encode()) if path.endswith(".gz") else config)
    assert storage_of(machine)["nfs"]["versions"] == versions


def test_a_kernel_configuration_that_is_no_archive() -> None:
    machine = node()
    del machine.entries[f"/boot/config-{RELEASE}"]
    machine.file("/proc/config.gz", b"\x1f\x8b\x08nonsense")
    assert storage_of(machine)["nfs"]["versions"] is None


@pytest.mark.parametrize(
    ("text", "drop_in", "version"),
    [
        ("[ NFSMount_Global_Options ]\nDefaultvers=3\n", None, "3"),
        ("[ NFSMount_Global_Options ]\n# Defaultvers=3\n", None, None),
        ('[ Server "a.example" ]\nNfsvers=3\n', None, None),
        ("[ NFSMount_Global_Options ]\nnfsvers = 4.2 # new\n", "[NFSMount_Global_Options]\nDefaultvers=3\n", "3"),
    ],
)
def test_the_last_file_sets_the_default_version_of_nfs(text: str, drop_in: str | None, version: str | None) -> None:
    machine = node()
    machine.file("/etc/nfsmount.conf", text)
    if drop_in:
        machine.file("/etc/nfsmount.conf.d/10-x.conf", drop_in)
        machine.file("/etc/nfsmount.conf.d/readme", "[NFSMount_Global_Options]\nDefaultvers=2\n")
    assert storage_of(machine)["nfs"]["default_version"] == version


@pytest.mark.parametrize(
    ("text", "blacklists"),
    [
        ("", False),
        (BLACKLIST, True),
        ('blacklist {\n devnode "^sd[a-z0-9]+"\n}\n', True),
        ("blacklist {\n devnode ^sd[[:alpha:]]+\n}\n", True),
        ("blacklist {\n # devnode ^sd[a-z]\n}\n", False),
        ('blacklist {\n devnode "!^(sd[a-z]|nvme)"\n}\n', False),
        ('blacklist {\n devnode "^sda$"\n}\n', False),
        ('blacklist {\n devnode "^sd["\n}\n', False),
        ('blacklist {\n devnode "^[[s--]"\n}\n', False),
        ("blacklist {\n wwid .*\n}\n", True),
        ('blacklist {\n device {\n  vendor "*"\n }\n}\n', True),
        ('blacklist {\n device {\n  vendor "IET"\n }\n device {\n  product "OTHER"\n }\n}\n', True),
        ('blacklist {\n device {\n  vendor "IET"\n  product "OTHER"\n }\n}\n', False),
        ('blacklist {\n devnode "^sd"\n}\nblacklist_exceptions {\n devnode "^sd"\n}\n', False),
        ('blacklist {\n devnode "^sd"\n}\nblacklist_exceptions {\n device {\n  vendor "ACME"\n }\n}\n', True),
        ('multipaths {\n multipath {\n  wwid "*"\n }\n}\n}\n}\ngarbage\n', False),
    ],
)
def test_a_blacklist_counts_where_it_has_longhorns_disks(text: str, blacklists: bool) -> None:
    machine = node()
    machine.file("/etc/multipath.conf", text)
    assert storage_of(machine)["multipathd"]["blacklists"] is blacklists


def test_drop_ins_of_multipath_count_in_the_directory_that_it_reads() -> None:
    machine = node()
    machine.file("/etc/multipath/conf.d/longhorn.conf", BLACKLIST)
    machine.file("/etc/multipath/conf.d/longhorn.conf.bak", "")
    assert storage_of(machine)["multipathd"]["blacklists"] is True
    machine.file("/etc/multipath.conf", 'defaults {\n config_dir "/etc/other"\n}\n')
    facts = storage_of(machine)["multipathd"]
    assert (facts["blacklists"], facts["config_dir"]) == (False, "/etc/other")
    machine.file("/etc/multipath.conf", 'defaults {\n config_dir ""\n}\n')
    assert storage_of(machine)["multipathd"]["config_dir"] is None


def test_a_map_names_the_disks_below_it() -> None:
    machine = node()
    machine.files("/sys/block/dm-0/dm", uuid="LVM-x", name="vg-root")
    with_map(machine, "mpath1", ("sda", "ACME", "LUN"), ("sdb", "ACME", "LUN"))
    assert storage_of(machine)["multipathd"]["maps"] == [
        {
            "name": "mpath1",
            "paths": [
                {"name": "sda", "vendor": "ACME", "model": "LUN"},
                {"name": "sdb", "vendor": "ACME", "model": "LUN"},
            ],
        }
    ]


def test_mounts_that_can_hold_volumes_are_facts() -> None:
    machine = node()
    machine.file(
        "/proc/self/mountinfo",
        mountinfo("/", "xfs")
        + mountinfo("/proc", "proc")
        + mountinfo("/data\\040disk", "btrfs", "")
        + mountinfo("/data\\040disk", "ext4", "master:2")
        + mountinfo("/var/lib/kubelet/pods/x/volumes/y", "ext4")
        + mountinfo("/var/lib/containerd/z", "overlay")
        + mountinfo("/run/user/0", "tmpfs")
        + "nonsense\n - \n",
    )
    facts = storage_of(machine)
    assert facts["filesystem_of"] == {"/": "xfs", "/data disk": "ext4", "/var/lib/longhorn": "xfs"}
    assert facts["mount_propagation"] == {"/": "shared", "/data disk": "slave", "/var/lib/longhorn": "shared"}


@pytest.mark.parametrize("link", ["/var/lib/longhorn", "/var/lib", "/var"])
def test_a_linked_directory_is_followed(link: str) -> None:
    machine = node()
    del machine.entries["/var/lib"]
    machine.file("/proc/self/mountinfo", mountinfo("/", "btrfs") + mountinfo("/data", "ext4"))
    machine.directory("/data/here")
    machine.link(link, "/data/here")
    assert storage_of(machine)["filesystem_of"]["/var/lib/longhorn"] == "ext4"


def test_the_deepest_directory_above_a_path_counts() -> None:
    assert value_at({"/": 1, "/a": 2, "/a/b": 3}, "/a/b/c/") == 3
    assert value_at({"/": 1, "/a": 2}, "/ab") == 1
    assert value_at({"/a": 2}, "/") is None

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage prerequisites: facts from small machines, the checks of these facts, and what they need."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Entry, MemoryTree, Recorder
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import anonymize
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import excerpt, read_storage, value_at
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import (
    duplicate_initiators,
    storage_checks,
    storage_needs,
    storage_table,
)
from ansible_collections.fabric.rdma.tests.unit.machines import Machine

RELEASE = "6.1.0-41-amd64"
NAME = "iqn.1993-08.org.debian:01:a1b2c3d4e5f6"
PROGRAMS = [
    "awk",
    "bash",
    "blkid",
    "cryptsetup",
    "curl",
    "dmsetup",
    "findmnt",
    "grep",
    "iscsiadm",
    "iscsid",
    "lsblk",
    "mount.nfs4",
]
MODULE = {"loaded": True, "builtin": False, "available": True, "persisted": True}
SOCKETS = "Num       RefCount Protocol Flags    Type St Inode Path\n"
LISTENS = "0000000000000000: 00000002 00000000 00010000 0001 01 10 @ISCSIADM_ABSTRACT_NAMESPACE\n"
BLACKLIST = 'blacklist {\n    device {\n        vendor "IET"\n        product "VIRTUAL-DISK"\n    }\n}\n'


def mountinfo(path: str, kind: str, optional: str = "shared:1", source: str = "/dev/vda") -> str:
    return f"22 1 254:0 / {path} rw,relatime {optional}{' ' if optional else ''}- {kind} {source} rw,secret\n"


def node() -> Machine:
    """A Debian node on which everything is in order."""
    machine = Machine()
    machine.file("/proc/sys/kernel/osrelease", RELEASE + "\n")
    machine.file("/etc/os-release", 'PRETTY_NAME="Debian"\nID=debian\n')
    for program in PROGRAMS:
        machine.file(f"/usr/bin/{program}")
    for unit in ("iscsid.service", "iscsid.socket"):
        machine.file(f"/lib/systemd/system/{unit}")
    machine.link("/etc/systemd/system/sockets.target.wants/iscsid.socket", "/lib/systemd/system/iscsid.socket")
    machine.file("/proc/net/unix", SOCKETS + LISTENS)
    machine.file("/etc/iscsi/initiatorname.iscsi", f"InitiatorName={NAME}\n")
    machine.file(f"/boot/config-{RELEASE}", "CONFIG_NFS_V4=m\nCONFIG_NFS_V4_1=y\nCONFIG_NFS_V4_2=y\nCONFIG_X=y\n")
    machine.file("/proc/self/mountinfo", mountinfo("/", "ext4"))
    machine.directory("/var/lib")
    return machine


def storage_of(machine: Machine, warnings: list[str] | None = None) -> dict[str, Any]:
    return read_storage(machine.tree(), [] if warnings is None else warnings)


def facts_of(machine: Machine, **modules: dict[str, bool]) -> dict[str, Any]:
    states = {name: {**MODULE, **modules.get(name, {})} for name in ("dm_crypt", "iscsi_tcp", "nfs")}
    return {"kernel": {"release": RELEASE, "modules": states}, "storage": storage_of(machine)}


# -- facts -----------------------------------------------------------------------------------------------------------


def test_an_empty_root() -> None:
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


def test_a_node_in_order() -> None:
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
def test_families(text: str, family: str | None) -> None:
    machine = Machine()
    machine.file("/etc/os-release", text)
    assert storage_of(machine)["family"] == family


@pytest.mark.parametrize("base", ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"])
def test_a_running_service(base: str) -> None:
    machine = node()
    machine.file(f"{base}/system.slice/iscsid.service/cgroup.procs", "4711\n")
    assert storage_of(machine)["iscsi"]["service"] == "running"


@pytest.mark.parametrize(("comm", "service"), [("iscsid\n", "running"), ("cron\n", "stopped"), (None, "stopped")])
def test_a_pid_file(comm: str | None, service: str) -> None:
    machine = node()
    machine.file("/proc/net/unix", SOCKETS + LISTENS.replace("00010000", "00000000") + "x y z\n")
    machine.file("/run/iscsid.pid", "4711\n")
    if comm:
        machine.file("/proc/4711/comm", comm)
    assert storage_of(machine)["iscsi"]["service"] == service


def test_a_name_padded_with_nul_bytes() -> None:
    machine = node()
    machine.file("/proc/net/unix", SOCKETS + LISTENS.rstrip() + "@" * 80 + "\n")
    assert storage_of(machine)["iscsi"]["service"] == "listening"


def test_masked_units() -> None:
    machine = node()
    machine.link("/etc/systemd/system/iscsid.service", "/dev/null")
    assert storage_of(machine)["iscsi"]["masked"] == ["iscsid.service"]


def test_sessions_in_their_order() -> None:
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
def test_nfs_versions(path: str, config: str, versions: list[str] | None) -> None:
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
def test_nfs_default_version(text: str, drop_in: str | None, version: str | None) -> None:
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
def test_blacklists(text: str, blacklists: bool) -> None:
    machine = node()
    machine.file("/etc/multipath.conf", text)
    assert storage_of(machine)["multipathd"]["blacklists"] is blacklists


def test_drop_ins_of_multipath() -> None:
    machine = node()
    machine.file("/etc/multipath/conf.d/longhorn.conf", BLACKLIST)
    machine.file("/etc/multipath/conf.d/longhorn.conf.bak", "")
    assert storage_of(machine)["multipathd"]["blacklists"] is True
    machine.file("/etc/multipath.conf", 'defaults {\n config_dir "/etc/other"\n}\n')
    facts = storage_of(machine)["multipathd"]
    assert (facts["blacklists"], facts["config_dir"]) == (False, "/etc/other")
    machine.file("/etc/multipath.conf", 'defaults {\n config_dir ""\n}\n')
    assert storage_of(machine)["multipathd"]["config_dir"] is None


def with_map(machine: Machine, name: str, *disks: tuple[str, str, str]) -> None:
    machine.files(f"/sys/block/dm-{name[-1]}/dm", uuid="mpath-36000", name=name)
    for disk, vendor, model in disks:
        machine.files(f"/sys/block/{disk}/device", vendor=f"{vendor:8}", model=f"{model:16}")
        machine.link(f"/sys/block/dm-{name[-1]}/slaves/{disk}", f"/sys/block/{disk}")


def test_multipath_maps() -> None:
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


def test_mounts() -> None:
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
def test_a_directory_that_is_a_link(link: str) -> None:
    machine = node()
    del machine.entries["/var/lib"]
    machine.file("/proc/self/mountinfo", mountinfo("/", "btrfs") + mountinfo("/data", "ext4"))
    machine.directory("/data/here")
    machine.link(link, "/data/here")
    assert storage_of(machine)["filesystem_of"]["/var/lib/longhorn"] == "ext4"


def test_the_nearest_directory() -> None:
    assert value_at({"/": 1, "/a": 2, "/a/b": 3}, "/a/b/c/") == 3
    assert value_at({"/": 1, "/a": 2}, "/ab") == 1
    assert value_at({"/a": 2}, "/") is None


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


def test_excerpts_of_odd_files() -> None:
    assert excerpt("/proc/config.gz", b"nonsense") == b""
    assert (
        gzip.decompress(excerpt("/proc/config.gz", gzip.compress(b"CONFIG_NFS_V4=y\nCONFIG_X=y\n")))
        == b"CONFIG_NFS_V4=y\n"
    )
    assert excerpt("/etc/os-release", b"ID=x\n") == b"ID=x\n"


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
    }
    assert storage_table({"node": {"checks": storage_checks(facts)}}) == ["node: 10 of 10 checks in order"]


def test_nothing_is_asked_for() -> None:
    wish = {"iscsi": False, "nfs": False}
    facts = {**facts_of(Machine()), "storage": read_storage(MemoryTree({}), [])}
    assert storage_checks(facts, wish) == []
    assert not storage_needs(facts, wish)["needed"]


def test_a_fresh_node() -> None:
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
def test_the_unit_to_enable(service: str, units: list[str], enabled: list[str], unit: Any) -> None:
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


def test_multipathd() -> None:
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


def test_another_directory_or_none() -> None:
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


# -- duplicates ------------------------------------------------------------------------------------------------------


def host(name: str | None, sessions: int = 0, **more: Any) -> dict[str, Any]:
    facts = copy.deepcopy(facts_of(node()))
    open_sessions = [{"name": f"session{n}", "target": f"iqn.t:{n}", "state": "LOGGED_IN"} for n in range(sessions)]
    facts["storage"]["iscsi"].update(initiator_name=name, sessions=open_sessions, **more)
    return facts


@pytest.mark.parametrize("name", ["missing", "no name", "generate"])
def test_a_host_without_a_name(name: str) -> None:
    facts = {
        "missing": host(None, initiator_file="missing"),
        "no name": host(None),
        "generate": host(NAME, generate_name=True),
    }[name]
    assert storage_needs(facts)["initiator"] == {"taken": []}
    busy = copy.deepcopy(facts)
    busy["storage"]["iscsi"]["sessions"] = [{"name": "session1", "target": "iqn.t:1", "state": "LOGGED_IN"}]
    needs = storage_needs(busy)
    assert needs["initiator"] is None
    assert "a name is not changed under open sessions (iqn.t:1)" in needs["blocked"][0]


def test_unique_names_and_hosts_without_facts() -> None:
    hosts = {"a": host("iqn.a"), "b": host("iqn.b"), "c": host(None), "d": host(None), "e": {}, "f": {"kernel": {}}}
    assert duplicate_initiators(hosts) == []


def test_the_first_host_keeps_the_name() -> None:
    hosts = {"c": host(NAME), "a": host(NAME.upper()), "b": host(NAME), "d": host("iqn.d")}
    found = duplicate_initiators(hosts)
    assert found == [{"name": NAME, "hosts": ["a", "b", "c"], "keeper": "a", "regenerate": ["b", "c"], "refused": []}]
    assert storage_needs(hosts["a"], {}, found, "a")["needed"] is False
    assert storage_checks(hosts["a"], {}, found, "a")[1]["remedy"] == "this host keeps it; b, c must get others"
    needs = storage_needs(hosts["b"], {}, found, "b")
    assert needs["initiator"] == {"taken": [NAME]}
    assert needs["reasons"] == [f"InitiatorName {NAME} is also that of a, c"]
    assert storage_needs(hosts["d"], {}, found, "d")["needed"] is False
    # what was found before it got a name of its own
    assert storage_needs(host("iqn.new"), {}, found, "b")["needed"] is False


def test_the_host_with_sessions_keeps_the_name() -> None:
    (found,) = duplicate_initiators({"a": host(NAME), "b": host(NAME, 1), "c": host(NAME)})
    assert (found["keeper"], found["regenerate"], found["refused"]) == ("b", ["a", "c"], [])


def test_sessions_on_several_hosts() -> None:
    hosts = {"a": host(NAME), "b": host(NAME, 1), "c": host(NAME, 2)}
    found = duplicate_initiators(hosts)
    assert (found[0]["keeper"], found[0]["regenerate"], found[0]["refused"]) == (None, ["a"], ["b", "c"])
    needs = storage_needs(hosts["c"], {}, found, "c")
    assert needs["initiator"] is None
    assert needs["blocked"] == [
        f"InitiatorName {NAME} is also that of a, b: a name is not changed under open sessions (iqn.t:0, iqn.t:1): drain the "
        "node, detach its volumes until `iscsiadm -m session` is empty, then run again"
    ]
    assert storage_needs(hosts["a"], {}, found, "a")["initiator"] == {"taken": [NAME]}


@given(st.lists(st.tuples(st.sampled_from(["iqn.a", "iqn.b"]), st.integers(0, 1)), max_size=5), st.data())
def test_waves_in_any_order_end_unique(states: list[tuple[str, int]], data: st.DataObject) -> None:
    """Whatever the order in which hosts are treated, the result is the same hosts with the same names, and no duplicates
    but between hosts with sessions."""
    hosts = {
        f"n{number}": {"storage": {"iscsi": {"initiator_name": name, "sessions": [0] * count}}}
        for number, (name, count) in enumerate(states)
    }
    before = {name: facts["storage"]["iscsi"]["initiator_name"] for name, facts in hosts.items()}
    first = {name for entry in duplicate_initiators(hosts) for name in entry["regenerate"]}
    fresh = itertools.count()
    for name in data.draw(st.permutations(sorted(hosts))):
        if any(name in entry["regenerate"] for entry in duplicate_initiators(hosts)):
            hosts[name]["storage"]["iscsi"]["initiator_name"] = f"iqn.new:{next(fresh)}"
    changed = {name for name in hosts if hosts[name]["storage"]["iscsi"]["initiator_name"] != before[name]}
    assert changed == first
    assert all(entry["hosts"] == entry["refused"] for entry in duplicate_initiators(hosts))

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the lab as containers: names, commands, files. (That they boot is tests/integration/test_lab.py's to prove.)"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import container
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import config_archive
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import NODES


def test_names_are_names_of_network_devices_and_differ_between_labs() -> None:
    names = [container.machine_name(lab, index) for lab in ("/a", "/b") for index in (0, 31)]
    assert len(set(names)) == 4
    # systemd-nspawn names the outer end of a link vb- and the node; the kernel has room for 15 characters
    assert all(len("vb-" + name) <= 15 for name in names)
    assert all(
        name.startswith(container.bridge_name(lab)) for lab, name in zip(["/a", "/a", "/b", "/b"], names, strict=True)
    )
    assert container.link_local(31) == "fe80::fab:20"


@pytest.mark.parametrize(
    ("mounts", "places"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", ["/sys/fs/cgroup"]),
        (
            "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n"
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
            ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"],
        ),
        ("", []),
        ("damaged\n", []),
    ],
)
def test_a_container_gets_the_control_groups_of_its_host(mounts: str, places: list[str]) -> None:
    assert container.cgroup_places(mounts) == places


def test_a_container_boots_on_the_bridge_of_its_lab() -> None:
    command = container.container_command(
        "lab1", "lab123456-1", "lab123456", "/c/root.ext4", "/l,x/a:b/lab1", ["/sys/fs/cgroup"]
    )
    words = " ".join(command)
    assert "--network-bridge=lab123456" in command
    assert "--hostname=lab1" in command
    # a colon ends a path there
    assert "--bind=/l,x/a\\:b/lab1/containerd:/var/lib/containerd" in command
    # no path is in a script, and none is an option of mount(8)
    assert all("/l,x" not in script and "/c/root" not in script for script in command if "\n" in script)
    assert words.index("/sys/fs/cgroup --") < words.index("unshare")
    start = command.index("unshare")
    assert container.is_our_container(["/usr/bin/unshare", *command[start + 1 :]], "/l,x/a:b/lab1/container.pid")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [""],
        ["unshare", "lab", "/other/container.pid"],
        ["unshare", "/l/container.pid"],
        ["vim", "lab", "/l/container.pid"],
    ],
)
def test_only_our_own_process_is_ours(arguments: list[str]) -> None:
    assert container.is_our_container(arguments, "/l/container.pid") is False


def test_a_layer_has_the_modes_that_a_node_needs(tmp_path: Path) -> None:
    archive = config_archive(NODES[0], NODES, "PRIVATE\n", "PUBLIC\n", "CLIENT\n", management="fe80::fab:1/64")
    before = os.umask(0o077)
    try:
        container.unpack_configuration(archive, str(tmp_path))
        # again, over what is there
        container.unpack_configuration(archive, str(tmp_path))
        container.make_directories(str(tmp_path), "usr/local/sbin")
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {name: modes[name] for name in ("etc", "etc/ssh", "usr/local/sbin", "root", "root/.ssh")} == {
        "etc": 0o755,
        "etc/ssh": 0o755,
        "usr/local/sbin": 0o755,
        "root": 0o700,
        "root/.ssh": 0o700,
    }
    assert (modes["etc/hostname"], modes["etc/ssh/ssh_host_ed25519_key"]) == (0o644, 0o600)
    assert "LAB_MANAGEMENT_ADDRESS=fe80::fab:1/64\n" in (tmp_path / "etc/fabric-rdma-lab.conf").read_text()


def test_what_speaks_against_containers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert container.container_trouble() == "containers that boot need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(container, "find_tool", lambda name: None if name == "systemd-nspawn" else name)
    assert container.container_trouble() == "systemd-nspawn is not installed (Debian, Ubuntu: systemd-container)"
    monkeypatch.setattr(container, "find_tool", lambda name: name)
    monkeypatch.setattr(container, "places_here", list)
    assert container.container_trouble() == "control groups cannot be made here"


def test_what_is_left_in_a_control_group_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control group that is a plain directory: the kernel's part, removing its file with the last process, is played."""
    monkeypatch.setattr(container, "places_here", lambda: [str(tmp_path)])
    group = tmp_path / "fabric-rdma-lab-x" / "payload" / "ssh.service"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        (group / "cgroup.procs").write_text(f"0\n{process.pid}\n")
        start = time.monotonic()
        assert container.end_container(None, "x", seconds=0.3) is False
        assert time.monotonic() - start < limit(5)
        assert process.wait(limit(5)) < 0
    (group / "cgroup.procs").unlink()
    assert container.end_container(None, "x") is True
    assert not (tmp_path / "fabric-rdma-lab-x").exists()

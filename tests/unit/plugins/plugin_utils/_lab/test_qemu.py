# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines: cables and commands. (That they boot is molecule's to prove.)"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import find_tool
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.qemu import (
    TCG_CPU,
    fabric_links,
    fabric_netdevs,
    is_our_process,
    qemu_command,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import IMAGE, NODES, options


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_pair_of_nodes_is_joined_and_no_frame_can_go_in_a_circle(count: int) -> None:
    links = fabric_links(count)
    assert len(links) == count - 1  # joined, and no circle: a tree
    reached = {0}
    for one, other in links:
        assert one in reached
        reached.add(other)
    assert reached == set(range(count))


def test_netdevs() -> None:
    assert fabric_netdevs(0, 1, []) == ["-netdev", "hubport,id=fabric,hubid=0"]
    assert fabric_netdevs(0, 2, [7]) == ["-netdev", "socket,id=fabric,fd=7"]
    assert fabric_netdevs(1, 2, [8]) == ["-netdev", "socket,id=fabric,fd=8"]
    assert fabric_netdevs(2, 3, [9]) == ["-netdev", "socket,id=fabric,fd=9"]
    assert fabric_netdevs(0, 3, [5, 6])[1::2] == [
        "hubport,id=fabric,hubid=0",
        "socket,id=cable0,fd=5",
        "hubport,id=port0,hubid=0,netdev=cable0",
        "socket,id=cable1,fd=6",
        "hubport,id=port1,hubid=0,netdev=cable1",
    ]


@pytest.mark.parametrize(("accel", "cpu"), [("kvm", "host"), ("tcg", TCG_CPU)])
def test_qemu_command(accel: str, cpu: str) -> None:
    command = qemu_command(NODES[1], 2, IMAGE, "/tmp/a,b/lab2", accel, 40022, [9])
    assert options(command, "-accel")[0].split(",")[0] == accel
    assert options(command, "-cpu") == [cpu]
    assert options(command, "-kernel") == ["/cache/image-0123456789abcdef/vmlinuz"]
    assert options(command, "-pidfile") == ["/tmp/a,b/lab2/qemu.pid"]
    assert options(command, "-drive")[0].startswith("file=/tmp/a,,b/lab2/disk.qcow2,")
    management, fabric = options(command, "-netdev")
    assert management == "user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:40022-10.0.2.15:22"
    assert fabric == "socket,id=fabric,fd=9"
    assert "systemd.hostname=lab2 " in options(command, "-append")[0]


def test_qemu_understands_the_command(tmp_path: Path) -> None:
    program = find_tool("qemu-system-x86_64")
    assert program, "bindep.txt has it"
    command = qemu_command(NODES[0], 1, IMAGE, str(tmp_path), "tcg", 1, [])
    # With everything but the files and the port: it starts, waits for the word to run, and is told to quit.
    kept = [program]
    skip = {"-kernel", "-initrd", "-append", "-pidfile"}
    for option, value in zip(command[1:], [*command[2:], ""], strict=True):
        if not option.startswith("-") or option in skip or option == "-daemonize":
            continue
        if value.startswith("-") or not value:
            kept.append(option)
            continue
        if "disk.qcow2" in value or "config.tar" in value:
            value = re.sub("file=[^,]*,", "file.driver=null-co,", value).replace("format=qcow2", "format=raw")
        kept += [option, re.sub(",hostfwd=.*", "", value)]
    kept = [part for index, part in enumerate(kept) if part != "-monitor" and kept[index - 1] != "-monitor"]
    result = subprocess.run(
        [*kept, "-S", "-monitor", "stdio"],
        input="quit\n",
        text=True,
        capture_output=True,
        timeout=limit(60),
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        (["/usr/bin/qemu-system-x86_64", "-pidfile", "/l/lab1/qemu.pid"], True),
        (["/usr/bin/qemu-system-x86_64", "-pidfile", "/other/lab1/qemu.pid"], False),
        (["/usr/bin/qemu-system-x86_64", "/l/lab1/qemu.pid"], False),
        (["vim", "-pidfile", "/l/lab1/qemu.pid"], False),
        ([""], False),
        ([], False),
    ],
)
def test_only_our_own_process_is_ours(arguments: list[str], ours: bool) -> None:
    assert is_our_process(arguments, "/l/lab1/qemu.pid") is ours

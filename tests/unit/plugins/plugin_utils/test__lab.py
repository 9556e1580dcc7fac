# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's nodes: wishes, commands, files, processes. (That they boot is molecule's to prove.)"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
import subprocess
import sys
import tarfile
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils import _lab as lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import Lab, LabError, LabSpec, NodePlan, plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab_image import Image, find_tool

IMAGE = Image("0123456789abcdef", "/cache/image-0123456789abcdef")
NODES = plan_nodes(2, 1024, 1)


@pytest.mark.parametrize("value", [2, "2", ["lab1", "lab2"], [{"name": "lab1"}, "lab2"]])
def test_nodes_in_every_form(value: object) -> None:
    assert plan_nodes(value, 1024, 1) == (NodePlan("lab1", 0, 1024, 1), NodePlan("lab2", 1, 1024, 1))


def test_a_node_may_differ() -> None:
    (node,) = plan_nodes([{"name": "big", "memory_mib": 4096, "cpus": "4"}], 1024, 1)
    assert node == NodePlan("big", 0, 4096, 4)
    assert (node.address, node.mac(0), node.mac(1)) == ("198.51.100.1", "52:54:00:fa:00:01", "52:54:00:fa:01:01")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "the lab has 0 nodes: give 1 to 32"),
        (33, "the lab has 33 nodes: give 1 to 32"),
        ([], "the lab has 0 nodes"),
        (True, "nodes is True"),
        (None, "nodes is None"),
        ("two", "nodes is 'two'"),
        ([1], "nodes[0] is 1: give a name or a dict with name"),
        (["a", {"memory_mib": 512}], "nodes[1] is {'memory_mib': 512}"),
        (["Lab1"], "nodes[0].name is 'Lab1'"),
        (["lab1\n"], "nodes[0].name is 'lab1\\n'"),
        (["../x"], "nodes[0].name is '../x'"),
        (["-oProxyCommand=x"], "nodes[0].name is '-oProxyCommand=x'"),
        (["a", "a"], "nodes[1].name is 'a', and so is an earlier one"),
        ([{"name": "a", "ram": 1}], "nodes[0] has the unknown keys ram"),
        ([{"name": "a", "cpus": 0}], "nodes[0].cpus is 0: give a whole number from 1 to 64"),
        ([{"name": "a", "memory_mib": "1G"}], "nodes[0].memory_mib is '1G'"),
    ],
)
def test_wrong_nodes_are_named(value: object, message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        plan_nodes(value, 1024, 1)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_pair_of_nodes_is_joined_and_no_frame_can_go_in_a_circle(count: int) -> None:
    links = lab.fabric_links(count)
    assert len(links) == count - 1  # joined, and no circle: a tree
    reached = {0}
    for one, other in links:
        assert one in reached
        reached.add(other)
    assert reached == set(range(count))


def test_netdevs() -> None:
    assert lab.fabric_netdevs(0, 1, []) == ["-netdev", "hubport,id=fabric,hubid=0"]
    assert lab.fabric_netdevs(0, 2, [7]) == ["-netdev", "socket,id=fabric,fd=7"]
    assert lab.fabric_netdevs(1, 2, [8]) == ["-netdev", "socket,id=fabric,fd=8"]
    assert lab.fabric_netdevs(2, 3, [9]) == ["-netdev", "socket,id=fabric,fd=9"]
    assert lab.fabric_netdevs(0, 3, [5, 6])[1::2] == [
        "hubport,id=fabric,hubid=0",
        "socket,id=cable0,fd=5",
        "hubport,id=port0,hubid=0,netdev=cable0",
        "socket,id=cable1,fd=6",
        "hubport,id=port1,hubid=0,netdev=cable1",
    ]


def options(command: list[str], name: str) -> list[str]:
    return [value for option, value in itertools.pairwise(command) if option == name]


@pytest.mark.parametrize(("accel", "cpu"), [("kvm", "host"), ("tcg", lab.TCG_CPU)])
def test_qemu_command(accel: str, cpu: str) -> None:
    command = lab.qemu_command(NODES[1], 2, IMAGE, "/tmp/a,b/lab2", accel, 40022, [9])
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
    if program is None:
        pytest.skip("QEMU is not installed")
    command = lab.qemu_command(NODES[0], 1, IMAGE, str(tmp_path), "tcg", 1, [])
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


def test_ssh_config_as_ssh_reads_it(tmp_path: Path) -> None:
    if find_tool("ssh") is None:
        pytest.skip("ssh is not installed")
    directory = tmp_path / "with blank and %h"
    directory.mkdir()
    config = tmp_path / "config"
    places = {"lab1": ("127.0.0.1", 40021), "lab2": ("fe80::fab:2%lab123456", 40022)}
    config.write_text(lab.ssh_config(NODES, places, str(directory)))
    config.chmod(0o600)
    seen: dict[str, dict[str, str]] = {}
    for name in ("lab1", "lab2", "elsewhere.example.com"):
        output = subprocess.run(
            ["ssh", "-G", "-F", str(config), name], capture_output=True, text=True, check=True
        ).stdout
        seen[name] = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    assert [seen[name]["port"] for name in seen] == ["40021", "40022", "22"]
    for name in ("lab1", "lab2"):
        assert seen[name]["hostname"] == places[name][0]
        assert seen[name]["user"] == "root"
        assert seen[name]["stricthostkeychecking"] == "true"
        assert seen[name]["hostkeyalias"] == name
        assert seen[name]["identitiesonly"] == "yes"
        assert seen[name]["userknownhostsfile"].replace("%%", "%").strip('"') == str(directory / "known_hosts")
    assert seen["elsewhere.example.com"]["user"] != "root" or seen["elsewhere.example.com"]["identitiesonly"] == "no"


def test_known_hosts() -> None:
    assert lab.known_hosts({"lab1": "ssh-ed25519 AAAA lab1\n", "lab2": "ssh-ed25519 BBBB\n"}) == (
        "lab1 ssh-ed25519 AAAA\nlab2 ssh-ed25519 BBBB\n"
    )


def test_configuration_disk() -> None:
    data = lab.config_archive(NODES[0], NODES, "PRIVATE\n", "PUBLIC\n", "CLIENT\n")
    assert len(data) % 512 == 0  # a disk has whole sectors
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        content = {member.name: t.cast(t.IO[bytes], archive.extractfile(member)).read().decode() for member in archive}
        modes = {member.name: member.mode for member in archive}
    assert content["etc/hostname"] == "lab1\n"
    assert content["etc/hosts"].splitlines()[1:] == ["198.51.100.1 lab1", "198.51.100.2 lab2"]
    assert "LAB_FABRIC_ADDRESS=198.51.100.1/24\n" in content["etc/fabric-rdma-lab.conf"]
    assert modes["etc/ssh/ssh_host_ed25519_key"] == modes["root/.ssh/authorized_keys"] == 0o600
    # Only files: an entry for a directory would change the mode of one that the node has.
    assert all(not name.endswith("/") for name in content)


def test_console_tail_is_plain_text() -> None:
    text = "[    0.1] one\r\n\x1b[0;32m  OK  \x1b[0m] two\r\n\r\n\x1bc\x1b[?7l\x1b[2Jthree\r"
    assert lab.console_tail(text, 2) == "  OK  ] two\nthree"
    assert lab.console_tail("", 5) == ""


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
    assert lab.is_our_process(arguments, "/l/lab1/qemu.pid") is ours


def spec(directory: Path, **changes: t.Any) -> LabSpec:
    return dataclasses.replace(LabSpec(str(directory), str(directory / "cache"), NODES), **changes)


def test_spec_key_changes_with_what_running_nodes_depend_on(tmp_path: Path) -> None:
    wish = spec(tmp_path)
    others = [
        spec(tmp_path, accel="tcg").key(IMAGE),
        spec(tmp_path, engine="container").key(IMAGE),
        spec(tmp_path, nodes=plan_nodes(3, 1024, 1)).key(IMAGE),
        spec(tmp_path, nodes=plan_nodes(2, 2048, 1)).key(IMAGE),
        wish.key(Image("fedcba9876543210", "/cache/image-fedcba9876543210")),
    ]
    assert len({wish.key(IMAGE), *others}) == 6
    assert wish.key(IMAGE) == spec(tmp_path, boot_timeout=1).key(IMAGE)


def a_lab(directory: Path, pid: int) -> Lab:
    (directory / "lab1").mkdir(parents=True)
    for name in ("qemu.pid", "console.log", "disk.qcow2"):
        (directory / "lab1" / name).write_text(str(pid))
    state = {"format": lab.STATE_FORMAT, "spec": "x", "accel": "tcg", "image": "/i"}
    nodes = [{"name": "lab1", "address": "198.51.100.1", "port": 40021}]
    (directory / "state.json").write_text(json.dumps({**state, "nodes": nodes}))
    return Lab(str(directory), pytest.fail)


def test_absent_leaves_a_foreign_process_and_foreign_files_alone(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        try:
            mine = a_lab(directory, foreign.pid)
            (directory / "notes.txt").write_text("somebody's")
            assert mine.status().nodes[0].running is False
            assert mine.absent(check=True).changed is True
            assert (directory / "state.json").exists()
            result = mine.absent()
            assert (result.changed, result.before, result.after) == (True, ["lab1 stopped 198.51.100.1"], [])
            assert foreign.poll() is None
            assert [path.name for path in directory.iterdir()] == ["notes.txt"]
            assert mine.absent().changed is False
        finally:
            foreign.kill()


def test_absent_ends_our_process_and_removes_the_directory(tmp_path: Path) -> None:
    directory = (tmp_path / "lab").resolve()
    program = tmp_path / "qemu-system-x86_64"
    program.symlink_to("/bin/sh")
    # The arguments are what counts; sh takes what follows its script as parameters.
    command = [str(program), "-c", "sleep 60; :", "sh", "-pidfile", str(directory / "lab1/qemu.pid")]
    with subprocess.Popen(command) as process:
        mine = a_lab(directory, process.pid)
        # For a moment after exec(2) the kernel shows no arguments yet.
        deadline = time.monotonic() + limit(10)
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mine.status().nodes[0].pid == process.pid
        assert mine.absent().changed is True
        assert process.wait(limit(5)) < 0
    assert not directory.exists()


def test_guard_kills_what_a_killed_process_has_started(tmp_path: Path) -> None:
    pidfile = tmp_path / "qemu.pid"
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)", str(pidfile)]
    for word, survives in ((b"alive", True), (b"", False)):
        with subprocess.Popen(sleeper) as process:
            pidfile.write_text(str(process.pid))
            subprocess.run(
                [sys.executable, "-I", "-c", lab._GUARD, str(pidfile)], input=word, check=True, timeout=limit(30)
            )
            assert (process.poll() is None) is survives
            process.kill()


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(LabError, match=r"is not empty and has no lab in it"):
        Lab(str(tmp_path), pytest.fail)._refuse_foreign()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "state.json is damaged"),
        ('{"format": 99}', "another version of the lab (format 99"),
        ("[]", "another version of the lab"),
    ],
)
def test_strange_state_is_an_error_that_says_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match=re.escape(message) + ".*by hand"):
        Lab(str(tmp_path), pytest.fail).status()


def test_an_engine_that_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "container_trouble", lambda: "containers that boot need root")
    told: list[str] = []
    mine, notes = Lab(str(tmp_path), told.append), list[str]()
    assert mine._engine(spec(tmp_path), notes) == "qemu"
    assert (notes, told) == ([], [])
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "qemu"
    assert notes == ["virtual machines: containers that boot need root"]
    assert told == ["lab: nodes are virtual machines, since containers that boot need root"]
    with pytest.raises(
        LabError, match=r"cannot be containers here: containers that boot need root; use engine: qemu, or auto"
    ):
        mine._engine(spec(tmp_path, engine="container"), notes)
    monkeypatch.setattr(lab, "container_trouble", lambda: None)
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "container"
    assert len(notes) == 1


def test_what_is_mounted_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "lab1" / "root"
    (root / "etc").mkdir(parents=True)
    monkeypatch.setattr(lab, "_read", lambda _path: f"overlay {root} overlay rw 0 0\n")
    with pytest.raises(LabError, match="is mounted: unmount it"):
        Lab(str(tmp_path), pytest.fail)._remove_tree(str(root))
    assert (root / "etc").is_dir()

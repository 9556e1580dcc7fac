# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines: cables and commands. (That they boot is molecule's to prove.)"""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.monitor import listen, plug
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan, plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.qemu import (
    TCG_CPU,
    fabric_cables,
    fabric_netdevs,
    is_our_process,
    qemu_command,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import IMAGE, NODES, options


def _joined(nodes: tuple[NodePlan, ...], rail: int) -> None:
    """Whether all cards of a rail are joined, and no frame can go in a circle: a tree, whose middle is the hub of the first node."""
    cards = {(node.index, card) for node in nodes for card, hca in node.cards if hca.rail == rail}
    hub = "hub"
    edges: list[tuple[object, object]] = []
    direct = set()
    for cable in fabric_cables(nodes):
        if cable.rail == rail:
            here: object = hub if cable.card is None else (0, cable.card)
            edges.append((here, cable.other))
            direct |= {here, cable.other}
    # cards of the first node without a cable of their own are in its hub
    edges += [(hub, card) for card in cards if card[0] == 0 and card not in direct]
    reached: set[object] = {next(iter(cards))}
    for _step in edges:
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    assert cards <= reached or len(cards) == 1
    assert len(edges) == len({end for edge in edges for end in edge}) - 1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "hcas", [["rxe0"], ["a", "b"], ["a", {"name": "b", "rail": 1}], ["a", {"name": "b", "bond": True}]]
)
def test_every_pair_of_cards_of_a_rail_is_joined(count: int, hcas: list[t.Any]) -> None:
    nodes = plan_nodes([{"name": f"n{number}", "hcas": hcas} for number in range(count)], 1024, 1)
    for rail in {hca.rail for hca in nodes[0].hcas}:
        _joined(nodes, rail)


def test_every_pair_of_nodes_shares_a_cable() -> None:
    one, two, three = (plan_nodes(count, 1024, 1) for count in (1, 2, 3))

    def netdevs(nodes: tuple[NodePlan, ...], index: int, descriptors: list[int]) -> list[str]:
        return fabric_netdevs(nodes[index], fabric_cables(nodes), descriptors)[1::2]

    assert netdevs(one, 0, []) == ["hubport,id=fabric1,hubid=0"]
    assert netdevs(two, 0, [7]) == ["socket,id=fabric1,fd=7"]
    assert netdevs(two, 1, [8]) == ["socket,id=fabric1,fd=8"]
    assert netdevs(three, 2, [9]) == ["socket,id=fabric1,fd=9"]
    assert netdevs(three, 0, [5, 6]) == [
        "socket,id=cable0,fd=5",
        "hubport,id=port0,hubid=0,netdev=cable0",
        "socket,id=cable1,fd=6",
        "hubport,id=port1,hubid=0,netdev=cable1",
        "hubport,id=fabric1,hubid=0",
    ]


@pytest.mark.parametrize(("accel", "cpu"), [("kvm", "host"), ("tcg", TCG_CPU)])
def test_a_node_has_its_own_disk_networks_and_processor(accel: str, cpu: str) -> None:
    fabric_network = fabric_netdevs(NODES[1], fabric_cables(NODES), [9])
    command = qemu_command(NODES[1], IMAGE, "/tmp/a,b/lab2", accel, (40022, 40023), fabric_network, 10)
    assert options(command, "-accel")[0].split(",")[0] == accel
    assert options(command, "-cpu") == [cpu]
    assert options(command, "-kernel") == ["/cache/image-0123456789abcdef/vmlinuz"]
    assert options(command, "-pidfile") == ["/tmp/a,b/lab2/qemu.pid"]
    assert options(command, "-drive")[0].startswith("file=/tmp/a,,b/lab2/disk.qcow2,")
    # a node that cannot write says so, instead of being stopped
    assert ",werror=report" in options(command, "-drive")[0]
    management, fabric = options(command, "-netdev")
    assert management == "user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:40022-10.0.2.15:22"
    assert fabric == "socket,id=fabric1,fd=9"
    # without it, a node on a busy machine may panic in the check of its timer
    assert "no_timer_check" in options(command, "-append")[0].split()
    # of an emulated one it may take the TSC for unstable, which KVM knows better
    assert ("tsc=nowatchdog" in options(command, "-append")[0].split()) is (accel == "tcg")
    assert "systemd.hostname=lab2 " in options(command, "-append")[0]


def test_qemu_understands_the_command(tmp_path: Path) -> None:
    program = find_tool("qemu-system-x86_64")
    assert program, "bindep.txt has it"
    (node,) = plan_nodes([{"name": "lab1", "hcas": ["mlx5_0", {"name": "mlx5_1", "rail": 1, "bond": True}]}], 1024, 1)
    monitor = listen(str(tmp_path))
    fabric = fabric_netdevs(node, [], [])
    command = qemu_command(node, IMAGE, str(tmp_path), "tcg", (1, 2), fabric, monitor.fileno())
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
    place = LabDirectory(str(tmp_path.parent))
    with subprocess.Popen(
        [*kept, "-S"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[monitor.fileno()],
    ) as process:
        monitor.close()
        try:
            plug(place, tmp_path.name, {"card1": False, "card2": True})
            plug(place, tmp_path.name, {"card1": True})
            with pytest.raises(LabError, match="set_link: Device 'card9' not found"):
                plug(place, tmp_path.name, {"card9": False})
            assert process.poll() is None
        finally:
            process.kill()
            output = process.communicate(timeout=limit(60))[0]
    # a network of one node
    assert [line for line in output.splitlines() if "is not connected to host network" not in line] == []
    with pytest.raises(
        LabError, match=f"the cables of {tmp_path.name} cannot be changed: QEMU's monitor says .*refused"
    ):
        plug(place, tmp_path.name, {"card1": False})


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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts nodes, as containers or as virtual machines. Private to the collection.

Virtual machines are linked by socket pairs that QEMU inherits, so that their second network needs no port and nobody else can join it;
the price is that they are started together: when one of them has died, all are started again (their disks are kept). Containers are
started one by one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import tell_ports
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import (
    bridge_name,
    container_command,
    end_container,
    machine_name,
    places_here,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    LabError,
    Progress,
    find_tool,
    free_ports,
    run,
    write,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.monitor import cables_of, listen, plug
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.qemu import (
    fabric_cables,
    fabric_netdevs,
    qemu_command,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.ssh import ssh_config
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory, LabSpec

__all__ = ["start_container", "start_virtual_machines"]


def start_container(directory: LabDirectory, node: NodePlan, image: Image) -> None:
    """Starts one node, and waits until its process is there."""
    machine = machine_name(directory.path, node.index)
    # What a node that was killed has left in the kernel, where the first of all looks like the second.
    end_container(None, machine)
    own = directory.file(node.name)
    bridge = bridge_name(directory.path)
    command = container_command(node.name, machine, bridge, image.disk, own, places_here())
    with open(os.path.join(own, "console.log"), "wb") as log:
        try:
            done = subprocess.run(
                [find_tool(command[0]) or command[0], *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise LabError(f"starting {node.name} failed: {exc}") from exc
    if done.returncode != 0:
        raise LabError(f"starting {node.name} failed (setsid ended with {done.returncode})")
    deadline = time.monotonic() + 30
    while directory.pid(node.name) is None:
        if time.monotonic() > deadline:
            raise LabError(directory.epitaph(node.name, "it has not started", "container"))
        time.sleep(0.02)


def start_virtual_machines(
    directory: LabDirectory,
    spec: LabSpec,
    image: Image,
    accel: str,
    progress: Progress,
    cluster: tuple[str, str] | None = None,
) -> None:
    """Starts all nodes, with the cables between them. cluster: as `qemu_command` has it."""
    state = directory.state()
    state["accel"] = accel
    ports: dict[str, tuple[int, int]] = {}
    cables = fabric_cables(spec.nodes)
    with contextlib.ExitStack() as stack:
        ends: list[list[int]] = [[] for _node in spec.nodes]
        for cable in cables:
            # One datagram is one frame. A stream has been seen to lose its place between two frames after some 80 MB of
            # RoCE traffic, and then nothing arrives any more.
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            for index, end in zip((0, cable.other[0]), pair, strict=True):
                stack.callback(end.close)
                ends[index].append(end.fileno())
        for node in spec.nodes:
            fabric = fabric_netdevs(node, cables, ends[node.index])
            ports[node.name] = _start_virtual_machine(directory, node, image, accel, fabric, ends[node.index], cluster)
    for entry in state["nodes"]:
        entry["port"] = ports[entry["name"]][0]
    state["cables"] = {node.name: cables_of(node) for node in spec.nodes}
    directory.save(state)
    places = {name: ("127.0.0.1", port) for name, (port, _kubelet) in ports.items()}
    if cluster is not None:
        tell_ports(directory, {node.address: ports[node.name][1] for node in spec.nodes})
    write(directory.file("ssh_config"), ssh_config(spec.nodes, places, directory.path))
    progress(
        "lab: started {} with {}".format(
            ", ".join(n.name for n in spec.nodes), "KVM" if accel == "kvm" else "plain emulation (TCG)"
        )
    )


def _start_virtual_machine(
    directory: LabDirectory,
    node: NodePlan,
    image: Image,
    accel: str,
    fabric: t.Sequence[str],
    descriptors: t.Sequence[int],
    cluster: tuple[str, str] | None,
) -> tuple[int, int]:
    """Starts a node, with the cables out that are to be. The ports of its SSH server and of its kubelet."""
    own = directory.file(node.name)
    for attempt in range(5):
        port, kubelet = free_ports(2)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(own, "console.log"))
        with listen(own) as monitor:
            command = qemu_command(node, image, own, accel, (port, kubelet), fabric, monitor.fileno(), cluster)
            try:
                run(command, f"starting {node.name}", pass_fds=[*descriptors, monitor.fileno()])
            except LabError as exc:
                if "host forwarding" not in str(exc) or attempt == 4:
                    raise
                continue
        out = {card: plugged for card, plugged in cables_of(node).items() if not plugged}
        if out:
            plug(directory, node.name, out)
        return port, kubelet
    raise AssertionError("unreachable")

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in a lab's directory before its nodes start: keys, disks, the layers of containers. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import join_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import (
    CONTAINER_DIRECTORIES,
    SETUP,
    bridge_name,
    link_local,
    make_directories,
    unpack_configuration,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import stop_control_plane
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import read, run, write
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan, config_archive
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.processes import stop_all
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.ssh import known_hosts, make_keypair, ssh_config
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import (
    CLUSTER_DIRECTORY,
    STATE_FORMAT,
    LabDirectory,
    LabSpec,
)

__all__ = ["lay_out", "prepare"]


def prepare(directory: LabDirectory, spec: LabSpec, image: Image, engine: str, cluster: str = "") -> None:
    """Stops what runs, and removes what was made for another wish. cluster: as `LabSpec.key` has it.

    Containers that run as they are wished for are left alone.
    """
    state = directory.state()
    key = spec.key(image, cluster)
    same = bool(state) and state.get("spec") == key and state.get("engine", "qemu") == engine
    if not (same and engine == "container"):
        stop_all(directory)
    if state and not same:
        stop_control_plane(directory.file(CLUSTER_DIRECTORY))
        directory.remove_files()
    os.makedirs(directory.path, mode=0o700, exist_ok=True)
    # First of all: from now on `absent` knows what to remove.
    kept = {"kubernetes": state["kubernetes"]} if same and state.get("kubernetes") else {}
    directory.save({**_first_state(spec, key, image, engine), **kept})


def lay_out(directory: LabDirectory, spec: LabSpec, image: Image, engine: str) -> None:
    """Lays out keys and disks in a directory that is prepared. Disks are kept when the wish is the one that they were made for."""
    client = directory.file("id_ed25519")
    make_keypair(client, "fabric.rdma lab")
    keys: dict[str, str] = {}
    for node in spec.nodes:
        os.makedirs(directory.file(node.name), exist_ok=True)
        key = directory.node_path(node.name, "ssh_host_ed25519_key")
        make_keypair(key, node.name)
        keys[node.name] = read(key + ".pub")
        texts = (read(key), keys[node.name], read(client + ".pub"))
        if engine == "qemu":
            more = join_files(directory, node) if spec.kubernetes else {}
            _lay_out_disks(directory, node, image, config_archive(node, spec.nodes, *texts, more=more))
        elif directory.pid(node.name) is None:
            archive = config_archive(node, spec.nodes, *texts, management=link_local(node.index) + "/64")
            _lay_out_layers(directory, node, archive)
    write(directory.file("known_hosts"), known_hosts(keys))
    if engine == "container":
        bridge = bridge_name(directory.path)
        places = {node.name: (f"{link_local(node.index)}%{bridge}", 22) for node in spec.nodes}
        write(directory.file("ssh_config"), ssh_config(spec.nodes, places, directory.path))


def _first_state(spec: LabSpec, key: str, image: Image, engine: str) -> dict[str, t.Any]:
    """The state of a lab of which nothing runs yet."""
    port = 22 if engine == "container" else 0
    return {
        "format": STATE_FORMAT,
        "spec": key,
        "image": image.directory,
        "engine": engine,
        "accel": None,
        "nodes": [{"name": node.name, "address": node.address, "port": port} for node in spec.nodes],
    }


def _lay_out_disks(directory: LabDirectory, node: NodePlan, image: Image, archive: bytes) -> None:
    """The disks of a virtual machine: its configuration, and its own layer over the image."""
    write(directory.node_path(node.name, "config.tar"), archive, 0o600)
    disk = directory.node_path(node.name, "disk.qcow2")
    if not os.path.exists(disk):
        run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image.disk, disk],
            f"making the disk of {node.name}",
        )


def _lay_out_layers(directory: LabDirectory, node: NodePlan, archive: bytes) -> None:
    """The directories of a container, and what is its own in them."""
    for name in CONTAINER_DIRECTORIES:
        os.makedirs(directory.node_path(node.name, name), mode=0o755, exist_ok=True)
    upper = directory.node_path(node.name, "upper")
    unpack_configuration(archive, upper)
    for path, mode, text in (
        ("usr/local/sbin/fabric-rdma-lab-setup", 0o755, SETUP),
        # The modules of the running kernel are the controller's: none of them can be loaded from here.
        (f"usr/lib/modules/{os.uname().release}/modules.builtin", 0o644, ""),
        (f"usr/lib/modules/{os.uname().release}/modules.order", 0o644, ""),
    ):
        target = os.path.join(upper, path)
        make_directories(upper, os.path.dirname(path))
        # what somebody has written there since is kept
        if text or not os.path.exists(target):
            write(target, text, mode)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a lab: what is written there, and what runs from it. Private to the collection.

`state.json` in it says which nodes there are; a node runs when its pid file names a process that was started with this very pid file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import typing as t
from dataclasses import asdict, dataclass, field

from ansible_collections.fabric.rdma.plugins.module_utils._base.fingerprint import fingerprint
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import CONTAINER_DIRECTORIES, is_our_container
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, free_mib, read, write
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan, console_tail
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.qemu import is_our_process

__all__ = [
    "CLUSTER_DIRECTORY",
    "LOCK_FILE",
    "STATE_FORMAT",
    "LabDirectory",
    "LabResult",
    "LabSpec",
    "lines_of",
]

STATE_FORMAT = 1

# Exists in every lab directory and says that its content is ours to remove.
STATE_FILE = "state.json"
LOCK_FILE = "lock"
# Of the control plane, which makes and removes it.
CLUSTER_DIRECTORY = "control-plane"
# Of Linux, on the console.
PANIC_TEXT = "Kernel panic"
# Where less is free, nodes cannot write.
LITTLE_MIB = 100
# What was being written first of all when its writer was killed.
UNFINISHED_STATE = STATE_FILE + ".new"
TOP_FILES = ("ssh_config", "known_hosts", "id_ed25519", "id_ed25519.pub", UNFINISHED_STATE, STATE_FILE)

NODE_FILES = (
    "disk.qcow2",
    "config.tar",
    "console.log",
    "qemu.pid",
    "qemu.log",
    "monitor.sock",
    "container.pid",
    # of systemd-nspawn, when it was killed
    ".#root.lck",
    "ssh_host_ed25519_key",
    "ssh_host_ed25519_key.pub",
)


@dataclass(frozen=True)
class LabSpec:
    """A lab as it is wished for."""

    directory: str
    cache_dir: str
    nodes: tuple[NodePlan, ...]
    accel: str = "auto"
    boot_timeout: int = 600
    engine: str = "qemu"
    kubernetes: bool = False
    # what a cluster has the images of (cluster.SYSTEMS)
    systems: tuple[str, ...] = ()

    def key(self, image: Image, cluster: str = "") -> str:
        """Changes when running nodes no longer fit the wish. Cables can be changed while they run.

        cluster: the key of what they run of Kubernetes.
        """
        nodes = [asdict(node) for node in self.nodes]
        for hca in [hca for node in nodes for hca in node["hcas"]]:
            del hca["cable"]
        return fingerprint([STATE_FORMAT, image.key, self.accel, self.engine, nodes, self.kubernetes, cluster], 16)


@dataclass
class NodeStatus:
    """One node as it is."""

    name: str
    address: str
    port: int
    running: bool
    pid: int | None
    console: str
    # whether each card has its cable in, by the card's name for QEMU; of containers nothing
    cables: dict[str, bool] = field(default_factory=dict)


@dataclass
class LabResult:
    """What a call did or found."""

    changed: bool
    directory: str
    nodes: list[NodeStatus]
    engine: str | None = None
    accel: str | None = None
    image: str | None = None
    kubeconfig: str | None = None
    # whether it runs, None when the nodes are not a cluster
    control_plane: bool | None = None
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class LabDirectory:
    """A lab's directory. All paths of it are made here."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(os.path.expanduser(path))

    def file(self, name: str) -> str:
        """Path of a file of the lab."""
        return os.path.join(self.path, name)

    def node_path(self, name: str, file: str) -> str:
        """Path of a node's file."""
        return os.path.join(self.path, name, file)

    def state(self) -> dict[str, t.Any]:
        """What `present` has written: {} when there is no lab here."""
        text = read(self.file(STATE_FILE))
        if not text:
            return {}
        try:
            state = json.loads(text)
        except ValueError as exc:
            raise LabError(f"{STATE_FILE} is damaged ({exc}): remove the directory {self.path} by hand") from exc
        if not isinstance(state, dict) or state.get("format") != STATE_FORMAT:
            found = state.get("format") if isinstance(state, dict) else None
            raise LabError(
                f"{self.path}/{STATE_FILE} was written by another version of the lab (format {found!r}, this one writes {STATE_FORMAT}): "
                "remove the lab with that version, or the directory by hand"
            )
        return state

    def save(self, state: t.Mapping[str, t.Any]) -> None:
        """Keeps the state for the next call."""
        write(self.file(STATE_FILE), json.dumps(state, indent=1, sort_keys=True) + "\n")

    def pid(self, name: str) -> int | None:
        """The process of a node, when it runs and is ours."""
        for file, ours in (("qemu.pid", is_our_process), ("container.pid", is_our_container)):
            pidfile = self.node_path(name, file)
            text = read(pidfile).strip()
            if text.isdigit() and ours(read(f"/proc/{text}/cmdline").split("\0"), pidfile):
                return int(text)
        return None

    def panicked(self, name: str) -> bool:
        """Whether the kernel of a node has given up: its process goes on then, and does nothing any more."""
        return PANIC_TEXT in read(self.node_path(name, "console.log"))

    def nodes(self) -> list[NodeStatus]:
        """The nodes that the state names, and whether they run."""
        result: list[NodeStatus] = []
        state = self.state()
        for node in state.get("nodes", []):
            pid = self.pid(node["name"])
            result.append(
                NodeStatus(
                    name=node["name"],
                    address=node["address"],
                    port=node["port"],
                    running=pid is not None and not self.panicked(node["name"]),
                    pid=pid,
                    console=self.node_path(node["name"], "console.log"),
                    cables=state.get("cables", {}).get(node["name"], {}),
                )
            )
        return result

    def fits(self, key: str) -> bool:
        """Whether all nodes run as they are wished for. key: of the wish."""
        return self.state().get("spec") == key and all(node.running for node in self.nodes())

    def refuse_foreign(self) -> None:
        """What is not a lab is not ours to write to."""
        if os.path.isdir(self.path) and not self.state() and set(os.listdir(self.path)) - {LOCK_FILE, UNFINISHED_STATE}:
            raise LabError(f"{self.path} is not empty and has no lab in it: name a directory of the lab's own")

    def epitaph(self, name: str, what: str, accel: str) -> str:
        """Why a node did not come up, with what it said last."""
        console = self.node_path(name, "console.log")
        tail = console_tail(read(console)) or "(nothing)"
        free = free_mib(self.path)
        if free < LITTLE_MIB:
            what += f"; only {free} MiB are free in {self.path}"
        return f"{name} did not come up with {accel}: {what}. Last lines of its console ({console}):\n{tail}"

    def remove_files(self) -> None:
        """Removes what `present` has made, but for the lock."""
        for node in self.state().get("nodes", []):
            for directory in CONTAINER_DIRECTORIES:
                _remove_tree(self.node_path(node["name"], directory))
            for file in NODE_FILES:
                # a node's directory may never have been made, for a file that had its name
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(self.node_path(node["name"], file))
            with contextlib.suppress(OSError):
                os.rmdir(self.file(node["name"]))
        # The state last: while it is there, a second attempt knows what is left.
        for file in TOP_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file(file))


def _remove_tree(path: str) -> None:
    """Removes what a container had as its root. Whatever is mounted there is not ours to remove."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    mounts = [line.split(" ")[1] for line in read("/proc/self/mounts").splitlines() if " " in line]
    if any(mount == path or mount.startswith(path + "/") for mount in mounts):
        raise LabError(f"{path} is mounted: unmount it before the lab is removed")
    shutil.rmtree(path)


def lines_of(nodes: t.Iterable[tuple[str, str, bool, t.Mapping[str, bool]]], control_plane: bool | None) -> list[str]:
    """A lab in lines, for the diff: without what differs from start to start.

    nodes: name, address, whether it runs, its cables as `NodeStatus` has them; control_plane: whether it runs, None when there is none.
    """
    words = {True: "running", False: "stopped"}
    lines = []
    for name, address, running, cables in nodes:
        # a card has the number of its network device on the node
        out = ["eth" + card.removeprefix("card") for card in cables if not cables[card]]
        lines.append(f"{name} {words[running]} {address}" + (f", cables out: {', '.join(out)}" if out else ""))
    return lines if control_plane is None else [*lines, f"control plane {words[control_plane]}"]

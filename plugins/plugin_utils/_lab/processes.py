# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of nodes: when the lab is removed, or when whoever has started them is killed. Private to the collection."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import (
    bridge_name,
    end_container,
    machine_name,
    remove_bridge,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import LOCK_FILE as CONTROL_PLANE_LOCK
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LabDirectory

__all__ = ["GUARD", "guarded", "stop_all"]

# A process of its own that reads until the other end of its standard input is closed. SIGKILL closes it without the word that all is
# well. It stands alone, without an import from the collection, whose place only Ansible's import machinery knows.
GUARD = """
import os, signal, sys, time
if sys.stdin.buffer.read() != b"alive":
    for attempt in range(20):  # a node that is just starting has no pid file yet
        for pidfile, word in zip(sys.argv[1::2], sys.argv[2::2]):
            try:
                with open(pidfile) as stream:
                    pid = int(stream.read())
                with open(f"/proc/{pid}/cmdline") as stream:
                    if word in stream.read().split("\\0"):
                        os.kill(pid, signal.SIGKILL)
            except (OSError, ValueError):
                pass
        time.sleep(0.2)
"""


@contextlib.contextmanager
def guarded(directory: LabDirectory, names: t.Iterable[str]) -> t.Iterator[None]:
    """Ends nodes and control plane when this process is killed before the body is through: then nobody knows that they are there."""
    files = ("qemu.pid", "container.pid")
    pidfiles = [directory.node_path(name, file) for name in names for file in files]
    # Each with a word of the command of its process, which is its own name but for the control plane's.
    words = [word for pidfile in pidfiles for word in (pidfile, pidfile)]
    plane = directory.file(CLUSTER_DIRECTORY)
    words += [os.path.join(plane, CONTROL_PLANE_LOCK), plane]
    with subprocess.Popen(
        [sys.executable, "-I", "-c", GUARD, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield
        finally:
            # Whatever has happened, this process has lived to deal with it.
            process.communicate(b"alive")


def stop_all(directory: LabDirectory) -> None:
    """Ends the nodes' processes, after a look at each that it is ours."""
    state = directory.state()
    names = [node["name"] for node in state.get("nodes", [])]
    if state.get("engine") == "container":
        _end_containers(directory, names)
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        pids = {name: pid for name in names for pid in [directory.pid(name)] if pid is not None}
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + 10
        while any(directory.pid(name) is not None for name in pids) and time.monotonic() < deadline:
            time.sleep(0.05)
    left = [name for name in names if directory.pid(name) is not None]
    if left:
        raise LabError(f"cannot end the QEMU processes of {', '.join(left)}: end them by hand")
    for name in names:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(directory.node_path(name, "qemu.pid"))


def _end_containers(directory: LabDirectory, names: t.Sequence[str]) -> None:
    left = []
    for index, name in enumerate(names):
        if not end_container(directory.pid(name), machine_name(directory.path, index)):
            left.append(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(directory.node_path(name, "container.pid"))
    remove_bridge(bridge_name(directory.path))
    if left:
        raise LabError(f"cannot end the processes of {', '.join(left)}: end them by hand")

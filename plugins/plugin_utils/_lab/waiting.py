# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until nodes can be used. Private to the collection."""

from __future__ import annotations

import contextlib
import subprocess
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import Alive, LabError, Progress, read, said_in
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import console_tail
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory

__all__ = ["TROUBLE_TEXT", "Panicked", "insist_that_nodes_live", "wait_until_ready"]

# What the image's setup script says on the console, and the file that it leaves.
_READY_TEXT = " is set up"
# What it says where there is no point in waiting, and why.
TROUBLE_TEXT = " is not set up: "
_READY_FILE = "/run/fabric-rdma-lab"


class Panicked(LabError):
    """The kernel of a node has given up before all was ready, as emulated ones do on a machine that has no time for them."""


def wait_until_ready(
    directory: LabDirectory, names: t.Iterable[str], accel: str, timeout: float, progress: Progress, alive: Alive
) -> None:
    """Waits until every node answers over SSH and has its RDMA device. All are asked at the same time."""
    waiting = {name: Probe(directory, name) for name in names}
    with contextlib.ExitStack() as stack:
        for probe in waiting.values():
            stack.callback(probe.close)
        started = told = time.monotonic()
        while waiting:
            time.sleep(0.3)
            alive()
            now = time.monotonic()
            for name, probe in list(waiting.items()):
                if probe.ready():
                    del waiting[name]
                    if now - started > 2:
                        progress(f"{name}: ready after {now - started:.0f} s")
                    continue
                if directory.panicked(name):
                    raise Panicked(directory.epitaph(name, "its kernel panicked", accel))
                reason = _given_up(directory, name, probe, timeout if now - started > timeout else None)
                if reason is not None:
                    raise LabError(directory.epitaph(name, reason, accel))
            if waiting and now - told >= 8:
                told = now
                for name in waiting:
                    last = _last_line(directory, name) or "(nothing on the console yet)"
                    progress(f"{name}: booting ({now - started:.0f} s): {last[:70]}")


def _given_up(directory: LabDirectory, name: str, probe: Probe, passed: float | None) -> str | None:
    """Why there is no point in waiting for a node; None when there is. passed: the time that it had, when that is over."""
    if directory.pid(name) is None:
        return "its process ended"
    trouble = read(directory.node_path(name, "console.log")).partition(TROUBLE_TEXT)[2]
    if "\n" in trouble:
        return "it cannot be set up: " + console_tail(trouble.partition("\n")[0])
    if passed is not None:
        return f"no answer over SSH within {passed:.0f} s (boot_timeout; last: {probe.last})"
    return None


def insist_that_nodes_live(directory: LabDirectory, names: t.Iterable[str], accel: str, when: str) -> None:
    """Raises what there is to say of a node whose kernel has panicked, or whose process has ended: nothing more comes of it."""
    for name in names:
        panicked = directory.panicked(name)
        if panicked or directory.pid(name) is None:
            what = "its kernel panicked" if panicked else "its process ended"
            remedy = "The next run starts all nodes again, with the disks that they had."
            text = f"{directory.epitaph(name, f'{what} while {when}', accel)}\n{remedy}"
            raise Panicked(text) if panicked else LabError(text)


def _last_line(directory: LabDirectory, name: str) -> str:
    return console_tail(read(directory.node_path(name, "console.log")), 1)


class Probe:
    """Asks one node over SSH, in the background, whether it is set up: with its RDMA device, or as a container."""

    def __init__(self, directory: LabDirectory, name: str) -> None:
        self._console = directory.node_path(name, "console.log")
        self._command = [
            "ssh",
            "-F",
            directory.file("ssh_config"),
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=20",
        ]
        self._command += [name, "cat", _READY_FILE]
        self._process: subprocess.Popen[bytes] | None = None
        self._announced = False
        self.last = "the node is not set up yet"

    def ready(self) -> bool:
        """Never blocks."""
        if not self._announced:
            # Every connection costs an emulated node a second of its processor: none before there is something to connect to.
            self._announced = _READY_TEXT in read(self._console)
        elif self._process is None:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        elif self._process.poll() is not None:
            output, _unused = self._process.communicate()
            code, self._process = self._process.returncode, None
            self.last = said_in(output)
            return code == 0
        return False

    def close(self) -> None:
        """Ends a question that nobody waits for any more."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

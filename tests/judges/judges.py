# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugins' own code as judges of a plan: built once from their Go modules, cached."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GO_MODULES
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import GoProgram, build_go_program
from ansible_collections.fabric.rdma.tests.cluster import cluster

HERE = Path(__file__).resolve().parent
PCI_IDS = (
    "C 02  Network controller\n\t00  Ethernet controller\n\t07  Infiniband controller\n15b3  Mellanox Technologies\n"
)

Json = dict[str, Any]


PROGRAM = GoProgram(
    label="judges",
    version=GO_MODULES["github.com/Mellanox/k8s-rdma-shared-dev-plugin"],
    name="judges",
    sources=str(HERE),
    remedy="GO=/path/to/go names another Go",
)


def stage(entries: dict[str, Any], root: Path) -> None:
    """Writes a tree of the unit tests' Machine, with what the plugins read beside it on a node."""
    for path, entry in entries.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "d":
            place.mkdir(exist_ok=True)
        elif entry.kind == "l":
            place.symlink_to(entry.target)
        else:
            place.write_bytes(entry.data)
    # of drivers only their existence is read: a link that leads nowhere counts as none
    for path, entry in entries.items():
        if entry.kind == "l" and path.endswith("/driver"):
            (root / path.lstrip("/")).parent.joinpath(entry.target).mkdir(parents=True, exist_ok=True)
    # of netdevs that have nothing to do with RDMA the facts take no more than their names
    for place in root.glob("sys/class/net/*"):
        if not (place / "type").exists():
            place.unlink()
    if "/sys/class/misc/rdma_cm" in entries:
        # udev makes it on a node
        place = root / "dev" / "infiniband" / "rdma_cm"
        place.parent.mkdir(parents=True)
        place.touch()
    # ghw names vendors and classes from there, and does nothing without it
    ids = root / "usr" / "share" / "misc" / "pci.ids"
    ids.parent.mkdir(parents=True, exist_ok=True)
    ids.write_text(PCI_IDS)


class Judges:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self._process = process
        self._scratch = scratch
        self._trees = 0

    def tree(self, entries: dict[str, Any]) -> Path:
        """The directory of a host."""
        self._trees += 1
        root = self._scratch / str(self._trees)
        root.mkdir()
        stage(entries, root)
        return root

    def offers(self, root: Path, shared: Json | None = None, sriov: Json | None = None) -> Json:
        """{shared, sriov: {resource name: PCI addresses}}, by the plugins' own code."""
        assert self._process.stdin
        assert self._process.stdout
        given = {"root": str(root), **({"shared": shared} if shared else {}), **({"sriov": sriov} if sriov else {})}
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            said = (self._scratch / "log").read_text()[-2000:]
            raise AssertionError(f"the judges ended with {self._process.wait()} at {given}: {said}")
        found: Json = json.loads(line)
        return found


@contextmanager
def judges() -> Iterator[Judges]:
    """The program while it runs. It changes its root, which takes root, or a user namespace where it is root."""
    command = [build_go_program(PROGRAM, str(cluster.cache_directory()), cluster.say, lambda: None)]
    if os.geteuid():
        command = ["unshare", "--user", "--map-root-user", *command]
    scratch = Path(tempfile.mkdtemp(prefix="judges-"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    try:
        with (
            open(scratch / "log", "w", encoding="utf-8") as log,
            subprocess.Popen(command, text=True, stderr=log, **pipes) as process,
        ):
            try:
                yield Judges(process, scratch)
            finally:
                process.kill()
    finally:
        shutil.rmtree(scratch)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugins' own code as judges of a plan: built once from their Go modules, cached."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.tests.cluster import cluster

HERE = Path(__file__).resolve().parent
PCI_IDS = (
    "C 02  Network controller\n\t00  Ethernet controller\n\t07  Infiniband controller\n15b3  Mellanox Technologies\n"
)

Json = dict[str, Any]


def program() -> Path:
    """The judges' program, built when it is not in the cache."""
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    place = cluster.cache_directory() / "judges" / key.hexdigest()[:12]
    found = place / "judges"
    if found.exists():
        return Path(found)
    place.mkdir(parents=True, exist_ok=True)
    unfinished = place / f".unfinished-{os.getpid()}"
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": os.environ.get("FABRIC_RDMA_GOFLAGS", "-p=2") + " -mod=readonly -buildvcs=false",
    }
    command = ["nice", "-n", "19", cluster.find_go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(unfinished)]
    cluster.say("building the device plugins' own discovery (once; 1 to 5 minutes on two cores)")
    try:
        subprocess.run([*command, "-gcflags=all=-l -dwarf=false", "."], cwd=HERE, env=environment, check=True)
        unfinished.replace(found)
    finally:
        unfinished.unlink(missing_ok=True)
    return Path(found)


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
    command = [str(program())]
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

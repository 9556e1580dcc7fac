# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, an image, wishes and directories to test the lab with."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import socket
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import control_plane
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import claim, leave_running
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import ImageRecipe, default_recipe
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import AptSource
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import STATE_FORMAT, LabSpec

IMAGE = Image("0123456789abcdef", "/cache/image-0123456789abcdef")
NODES = plan_nodes(2, 1024, 1)
DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
TRIXIE = {"ID": "debian", "VERSION_CODENAME": "trixie"}
UBUNTU = {"ID": "ubuntu", "VERSION_CODENAME": "noble"}
MODULE = {"lab.c": "int lab;\n"}
MEGABYTE = bytes(range(256)) * 4096
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
COLLECTIONS = Path(__file__).resolve().parents[5] / ".collections"
# A process that holds one program, for which it waits until there is a file.
HOLDER = f"""
import os, sys
from {control_plane.__name__} import Parts, hold

class Sleeper(Parts):
    def begin(self):
        self.start("sleeper", "sleep", "1000")
        with open(self.file("pid"), "w") as stream:
            stream.write(str(self.parts["sleeper"].pid))
        self.wait("the word", "sleeper", lambda: os.path.exists(self.file("word")))

hold(sys.argv[1], Sleeper(sys.argv[1], 60))
"""


def options(command: list[str], name: str) -> list[str]:
    return [value for option, value in itertools.pairwise(command) if option == name]


def spec(directory: Path, **changes: t.Any) -> LabSpec:
    return dataclasses.replace(LabSpec(str(directory), str(directory / "cache"), NODES), **changes)


def a_lab(directory: Path, pid: int) -> Lab:
    (directory / "lab1").mkdir(parents=True)
    for name in ("qemu.pid", "console.log", "disk.qcow2"):
        (directory / "lab1" / name).write_text(str(pid))
    state = {"format": STATE_FORMAT, "spec": "x", "accel": "tcg", "image": "/i"}
    nodes = [{"name": "lab1", "address": "198.51.100.1", "port": 40021}]
    (directory / "state.json").write_text(json.dumps({**state, "nodes": nodes}))
    return Lab(str(directory), pytest.fail)


def source(suite: str, signed_by: str | None = KEY, components: tuple[str, ...] = ("main",)) -> AptSource:
    return AptSource("http://m.example.com/" + suite, suite, components, signed_by)


def recipe(**changes: t.Any) -> ImageRecipe:
    return dataclasses.replace(default_recipe("bookworm", [source("bookworm")], DEBIAN, MODULE), **changes)


@contextlib.contextmanager
def echo() -> t.Iterator[int]:
    """Sends back what it gets, until nothing more comes. Its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _address = listening.accept()
                    with connection:
                        while data := connection.recv(1 << 16):
                            connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])


def eventually(test: t.Callable[[], bool]) -> bool:
    end = time.monotonic() + limit(30)
    while not test() and time.monotonic() < end:
        time.sleep(0.05)
    return test()


def sleeper(directory: Path) -> int:
    assert eventually(lambda: (directory / "pid").exists() and (directory / "pid").read_text() != "")
    return int((directory / "pid").read_text())


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def held(directory: Path, holder: str = HOLDER) -> int:
    """Leaves a process running in a directory, which may have begun before. The number of its program's process."""
    claim(str(directory))
    (directory / "word").touch()
    (directory / "pid").unlink(missing_ok=True)
    leave_running(
        str(directory), [sys.executable, "-c", holder, str(directory)], lambda: None, PYTHONPATH=str(COLLECTIONS)
    )
    return sleeper(directory)

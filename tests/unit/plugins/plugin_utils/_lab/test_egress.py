# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the API server to a kubelet of the lab."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import egress
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.egress import PORTS_FILE, SOCKET_FILE
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import MEGABYTE, echo


def listens(directory: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(directory / SOCKET_FILE)) == 0


@pytest.fixture
def proxy(tmp_path: Path) -> t.Iterator[Path]:
    """The directory of one that runs."""
    command = [sys.executable, "-I", str(egress.__file__), "serve", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        end = time.monotonic() + limit(20)
        # the file is there before somebody listens
        while not listens(tmp_path):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        yield tmp_path
        process.kill()


def ask(directory: Path, address: str, data: bytes = b"") -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(limit(20))
        client.connect(str(directory / SOCKET_FILE))
        client.sendall(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += client.recv(1)
        if data:
            threading.Thread(
                target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)), daemon=True
            ).start()
            while block := client.recv(1 << 16):
                answer += block
        return answer


def test_only_kubelets_that_are_told_are_reached(proxy: Path) -> None:
    """The API server reaches the kubelets that it is told of, and nothing else on the controller."""
    with echo() as port:
        ports = {"198.51.100.1:10250": port, "198.51.100.2:10250": 1, "198.51.100.3:10250": "x"}
        (proxy / PORTS_FILE).write_text(json.dumps(ports))
        found = ask(proxy, "198.51.100.1:10250", MEGABYTE)
        assert found == b"HTTP/1.1 200 Connection established\r\n\r\n" + MEGABYTE
        for address in ("198.51.100.3:10250", "198.51.100.9:10250", f"127.0.0.1:{port}", "198.51.100.1:22"):
            assert ask(proxy, address).startswith(b"HTTP/1.1 403 ")
        assert ask(proxy, "198.51.100.2:10250").startswith(b"HTTP/1.1 502 ")
    assert (proxy / SOCKET_FILE).stat().st_mode & 0o777 == 0o700

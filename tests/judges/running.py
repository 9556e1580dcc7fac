# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared device plugin and DRANET themselves, running on a recorded node; the plugin is asked as a kubelet asks it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import (
    DRANET_PROGRAM,
    build_go_program,
    device_plugin_program,
)
from ansible_collections.fabric.rdma.tests.cluster import cluster
from ansible_collections.fabric.rdma.tests.judges.judges import HERE, stage

SECONDS = 60
SOCKETS = Path("var/lib/kubelet/plugins_registry")

# RFC 9113
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4
CALL = {
    b":method": b"POST",
    b":scheme": b"http",
    b":authority": b"localhost",
    b"content-type": b"application/grpc",
    b"te": b"trailers",
}
ALLOCATE = b"/v1beta1.DevicePlugin/Allocate"
# AllocateRequest{container_requests: [{devices_ids: ["0"]}]}
REQUEST = b"\x0a\x03\x0a\x010"


class Node:
    """A recorded node: files below a directory."""

    def __init__(self, entries: dict[str, Any], root: Path) -> None:
        self.root = root
        stage(entries, root)
        (root / SOCKETS).mkdir(parents=True)

    def devices(self) -> dict[str, tuple[str, str]]:
        """Character device below /dev/infiniband -> the RDMA device that it is of, and its PCI address."""
        found = {}
        for link in self.root.glob("sys/class/infiniband_[mv]*/u*"):
            target = link.readlink()
            # .../0000:21:00.0/infiniband_verbs/uverbs0
            found[link.name] = (link.joinpath("ibdev").read_text().strip(), target.parts[-3])
        return found


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _answer(stream: IO[bytes]) -> bytes:
    """The data of the first stream."""
    data = b""
    while len(head := stream.read(9)) == 9:
        payload = stream.read(int.from_bytes(head[:3], "big"))
        kind, flags, number = head[3], head[4], int.from_bytes(head[5:], "big")
        if number == 1 and kind == DATA:
            data += payload
        if number == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
            break
    return data


def ask(path: Path, method: bytes, request: bytes) -> bytes:
    """The answer to a request over gRPC by a socket."""
    call = {**CALL, b":path": method}
    headers = b"".join(
        b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in sorted(call.items())
    )
    message = b"\x00" + len(request).to_bytes(4, "big") + request
    directory = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        try:
            # its own path may be longer than the 107 bytes that a socket's may have
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
        connection.sendall(
            PREFACE
            + _frame(SETTINGS, 0, 0, b"")
            + _frame(HEADERS, END_HEADERS, 1, headers)
            + _frame(DATA, END_STREAM, 1, message)
        )
        with connection.makefile("rb") as stream:
            return _answer(stream)


def allocate(path: Path) -> set[str]:
    """The files below /dev/infiniband that a plugin gives to a container that asks for one device."""
    return {name.decode() for name in re.findall(rb"/dev/infiniband/(\w+)", ask(path, ALLOCATE, REQUEST))}


def _wait_for_servers(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while "All servers started." not in log.read_text():
        assert process.poll() is None, f"the plugin ended with {process.returncode}: {log.read_text()}"
        assert time.monotonic() < end, f"not within {SECONDS} s: the plugin serves: {log.read_text()}"
        time.sleep(0.05)


def publishes(node: Node, numa_nodes: int, selected: str) -> dict[str, dict[str, Any]]:
    """Device -> attributes, in the first ResourceSlice of a DRANET with this filter. numa_nodes: how many the machine has."""
    program = build_go_program(DRANET_PROGRAM, str(cluster.cache_directory()), cluster.say, lambda: None)
    (node.root / "proc").mkdir(exist_ok=True)
    (node.root / "proc/meminfo").write_text("Hugepagesize: 2048 kB\nHugetlb: 0 kB\n")
    for number in range(numa_nodes):
        place = node.root / f"sys/devices/system/node/node{number}"
        (place / "hugepages").mkdir(parents=True)
        (place / "distance").write_text(
            " ".join("10" if other == number else "21" for other in range(numa_nodes)) + "\n"
        )
        (place / "meminfo").write_text(f"Node {number} MemTotal: 1048576 kB\n")
    namespaces = ["unshare", "--net", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    arguments = ["--hostname-override=node", "--bind-address=127.0.0.1:9177", "--cloud-provider-hint=NONE"]
    done = subprocess.run(
        [
            *[*namespaces, sys.executable, str(HERE / "recorded_driver.py"), str(node.root), program],
            *[*arguments, f"--filter={selected}"],
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def gives(node: Node, config: dict[str, Any]) -> dict[str, set[str]]:
    """Resource of a configuration -> the files that the plugin gives for one of it."""
    program = device_plugin_program(str(cluster.cache_directory()), cluster.say, lambda: None)
    (node.root / "config.json").write_text(json.dumps(config))
    names = [entry["resourceName"] for entry in config["configList"]]
    namespaces = ["unshare", "--net", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    command = [*namespaces, sys.executable, str(HERE / "recorded_node.py"), str(node.root), program]
    with (
        open(log := node.root / "log", "wb") as output,
        subprocess.Popen(
            [*command, "-config-file", "/config.json"], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process,
    ):
        try:
            _wait_for_servers(process, log)
            given = {name: allocate(node.root / SOCKETS / f"{name}.sock") for name in names}
        finally:
            process.kill()
    assert all(given.values()), log.read_text()
    return given

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: unshare --net python recorded_driver.py ROOT PROGRAM [ARGUMENT...]

Runs DRANET on the node whose files are below ROOT, with its network links, and stands in for the API server, the kubelet and the runtime
that it talks to. Prints the devices of the first ResourceSlice that it publishes as JSON: name -> attributes.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import typing as t
from fcntl import ioctl
from pathlib import Path

from recorded_node import add_links

from ansible_collections.fabric.rdma.tests.judges.running import ask

SECONDS = 240
# linux/sockios.h, linux/if.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
# ARPHRD_INFINIBAND
INFINIBAND = "32"
REGISTRAR = "var/lib/kubelet/plugins_registry/dra.net-reg.sock"
REGISTERED = b"/pluginregistration.Registration/NotifyRegistrationStatus"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PROTOBUF = "application/vnd.kubernetes.protobuf"
Fields = dict[int, list[t.Any]]


def fields(data: bytes) -> Fields:
    """Of a message of Protocol Buffers: number -> numbers and bytes that it has under it."""
    found: Fields = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while place < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.setdefault(number, []).append(varint())
            continue
        assert kind == 2, f"wire type {kind}"
        size = varint()
        found.setdefault(number, []).append(data[place : place + size])
        place += size
    return found


def devices(body: bytes) -> dict[str, dict[str, bool | int | str]]:
    """Of a ResourceSlice as clients send it (generated.proto of k8s.io/api/resource/v1 and of k8s.io/apimachinery/pkg/runtime)."""
    assert body[:4] == b"k8s\x00"
    [spec] = fields(fields(body[4:])[2][0])[2]
    found: dict[str, dict[str, bool | int | str]] = {}
    for device in map(fields, fields(spec).get(6, [])):
        own = found.setdefault(device[1][0].decode(), {})
        for entry in map(fields, device.get(2, [])):
            [(kind, [value])] = list(fields(entry[2][0]).items())
            own[entry[1][0].decode()] = {2: int, 3: bool, 4: bytes.decode}[kind](value)
    return found


class Server(http.server.ThreadingHTTPServer):
    """Of an API without objects but a node, which takes what it is given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.published: list[bytes] = []
        self.there = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if "watch=" in self.path:
            # nothing ever happens
            time.sleep(SECONDS)
            return
        version, kind = ("resource.k8s.io/v1", "ResourceSliceList") if self.path.startswith(SLICES) else ("v1", "Node")
        metadata = {"resourceVersion": "1", "name": self.path.rpartition("/")[2], "uid": "1"}
        found = {"apiVersion": version, "kind": kind, "metadata": metadata, "items": []}
        self.answer(200, "application/json", json.dumps(found).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith(SLICES):
            self.server.published.append(body)
            self.server.there.set()
        self.answer(201, PROTOBUF, body)

    def log_message(self, *_arguments: object) -> None:
        pass


def complete(root: Path) -> None:
    """Makes drivers of functions be there, which recordings name only, and what a kernel calls a function by its numbers.

    Takes links of InfiniBand away: no link that can be made here has an address of its length, without which DRANET ends. A function is
    then as where such links stay on the node.
    """
    for link in root.glob("sys/bus/pci/devices/*/driver"):
        target = link.resolve()
        assert target.is_relative_to(root.resolve()), target
        target.mkdir(parents=True, exist_ok=True)
    for function in root.glob("sys/bus/pci/devices/*"):
        if not (function / "modalias").exists():
            vendor, device, sort = (
                (function / name).read_text().strip()[2:].upper() for name in ("vendor", "device", "class")
            )
            name = f"pci:v{vendor:0>8}d{device:0>8}sv00000000sd00000000bc{sort[:2]}sc{sort[2:4]}i{sort[4:]}\n"
            (function / "modalias").write_text(name)
    for link in root.glob("sys/class/net/*"):
        if (link / "type").read_text().strip() == INFINIBAND:
            subprocess.run(["ip", "link", "delete", link.name], check=True)


def runtime(directory: Path) -> socket.socket:
    """A socket of NRI on which nobody answers: DRANET waits for it, and goes on with what it publishes."""
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    found = socket.socket(socket.AF_UNIX)
    found.bind("nri.sock")
    found.listen()
    return found


def start(root: Path, program: str, arguments: t.Sequence[str], server: Server) -> int:
    """DRANET below the node's files; its process."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{"name": "node", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": ""}}],
    }
    (root / "kubeconfig").write_text(json.dumps(config))
    for place in ("tmp", "var/run/dranet", "var/lib/kubelet/plugins", "var/lib/kubelet/plugins_registry"):
        (root / place).mkdir(parents=True, exist_ok=True)
    binary = os.open(program, os.O_RDONLY)
    process = os.fork()
    if not process:
        os.chroot(root)
        os.chdir("/")
        # one question for what there is, and one for what changes
        os.execve(binary, [program, "--kubeconfig=/kubeconfig", *arguments], {"KUBE_FEATURE_WatchListClient": "false"})
    return process


def main(root: Path, program: str, *arguments: str) -> None:
    add_links(f"{root}/sys/class/net")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    complete(root)
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with runtime(root / "var/run/nri"):
        process = start(root, program, arguments, server)
        try:
            end = time.monotonic() + SECONDS
            while not server.there.is_set():
                assert time.monotonic() < end, "it has published nothing"
                assert os.waitpid(process, os.WNOHANG) == (0, 0), "it has ended"
                # as the kubelet does that has taken it
                with contextlib.suppress(FileNotFoundError, ConnectionError):
                    ask(root / REGISTRAR, REGISTERED, b"\x08\x01")
                server.there.wait(0.5)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    print(json.dumps(devices(server.published[0]), sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of the API server to the kubelets of the lab's nodes, for logs and commands in Pods. Private to the collection.

The controller has no way into the network of the nodes, only a port of 127.0.0.1 for each kubelet. The API server asks a proxy
(EgressSelectorConfiguration, HTTPConnect over a Unix socket) for the address and port that a node has reported, and this one knows which
port that is: from `kubelets.json` in its directory, {"198.51.100.1:10250": port}. It stands alone: Python runs it with its own library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import socketserver
import sys
import threading

__all__ = ["PORTS_FILE", "SOCKET_FILE"]

SOCKET_FILE = "egress.sock"
PORTS_FILE = "kubelets.json"
_SECONDS = 30.0
_LIMIT = 8192


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Connection(socketserver.StreamRequestHandler):
    timeout = _SECONDS

    def handle(self) -> None:
        """One connection of the API server to a kubelet."""
        match = re.match(rb"CONNECT (\S+) HTTP/1\.[01]\r\n", self.rfile.readline(_LIMIT))
        while self.rfile.readline(_LIMIT) not in (b"\r\n", b"\n", b""):
            pass
        port = self._port(match[1].decode("ascii", "replace")) if match else None
        if port is None:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        try:
            kubelet = socket.create_connection(("127.0.0.1", port), _SECONDS)
        except OSError:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with kubelet:
            kubelet.settimeout(None)
            self.connection.settimeout(None)
            back = threading.Thread(target=_pass_on, args=(kubelet, self.connection), daemon=True)
            back.start()
            _pass_on(self.connection, kubelet)
            back.join()

    @staticmethod
    def _port(address: str) -> int | None:
        """The port of 127.0.0.1 that leads to a kubelet; None for everything else."""
        try:
            with open(PORTS_FILE, encoding="ascii") as stream:
                found = json.load(stream).get(address)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, int) else None


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until the source has nothing more to say."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def main(directory: str) -> None:
    """Serves in a directory, where its socket has a short name."""
    os.chdir(directory)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET_FILE)
    os.umask(0o077)
    with _Server(SOCKET_FILE, _Connection) as server:
        server.serve_forever()


if __name__ == "__main__" and sys.argv[1:2] == ["serve"]:
    main(*sys.argv[2:])

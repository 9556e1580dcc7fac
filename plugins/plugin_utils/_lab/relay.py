# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins its standard input and output with a port of 127.0.0.1. Private to the collection.

QEMU starts it for each connection of a node to the API server. It stands alone: Python runs it with nothing but its own library.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

__all__: list[str] = []

_BLOCK = 1 << 16


def _send(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def main(port: int) -> None:
    """Passes on what comes, both ways, until one of them ends."""
    with socket.create_connection(("127.0.0.1", port)) as server, selectors.DefaultSelector() as selector:
        ways = {0: server.fileno(), server.fileno(): 1}
        for source in ways:
            selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _events in selector.select():
                data = os.read(key.fd, _BLOCK)
                if not data:
                    return
                _send(ways[key.fd], data)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except OSError:
        # the node comes again
        sys.exit(1)

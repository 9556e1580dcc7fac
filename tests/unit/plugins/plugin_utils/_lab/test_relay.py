# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a node of the lab to the API server."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import relay
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import MEGABYTE, echo


def test_a_relay_passes_everything_both_ways() -> None:
    """Everything, both ways, in its order."""
    with echo() as port:
        command = [sys.executable, "-I", str(relay.__file__), str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin
            assert process.stdout
            threading.Thread(target=lambda: (process.stdin.write(MEGABYTE), process.stdin.flush()), daemon=True).start()
            assert process.stdout.read(len(MEGABYTE)) == MEGABYTE
            process.stdin.close()
            assert process.wait(limit(10)) == 0


def test_relay_without_a_echo() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    command = [sys.executable, "-I", str(relay.__file__), str(port)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit(20), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")

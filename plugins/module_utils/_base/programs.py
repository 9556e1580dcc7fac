# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of which all output counts, on a node that is busy, too. Private to the collection.

Ansible's own `run_command` leaves its loop when nothing came for a second and the program has ended by then: where the module is kept from
running between these two looks, what the program wrote in the meantime is lost, and the empty output of a program that succeeded is taken for
its answer (seen with `systemctl show` on a busy node; https://github.com/ansible/ansible/issues/51393).
"""

from __future__ import annotations

import os
import selectors
import subprocess

__all__ = ["run_program"]

# How long the end of a program may stay unseen, in seconds, where something that it started keeps its output open.
_LOOK = 0.2


def run_program(command: list[str], errors: str = "surrogateescape", **environment: str) -> tuple[int, str, str]:
    """Runs a program to its end, in English, in /, with nothing to read: (status, output, what it said on standard error).

    The status is negative for a signal. errors: what becomes of bytes that are not UTF-8. environment: further variables.
    OSError when the program cannot be started. What it leaves behind may keep its output open, and is not waited for.
    """
    # in place of run_command(), which loses output
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={**os.environ, "LC_ALL": "C", **environment},
    ) as process, selectors.DefaultSelector() as selector:
        written = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr) if pipe}
        for descriptor in written:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        ended = False
        while selector.get_map() and not ended:
            # first this, then what is there: all that it wrote is there when it has ended
            ended = process.poll() is not None
            for key, _events in selector.select(0 if ended else _LOOK):
                _take(selector, key.fd, written[key.fd])
        status = process.wait()
    output, error = (bytes(text).decode("utf-8", errors) for text in written.values())
    return status, output, error


def _take(selector: selectors.BaseSelector, descriptor: int, text: bytearray) -> None:
    """Adds all that can be read now."""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        if not part:
            selector.unregister(descriptor)
            return
        text += part

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Talks to the QEMU of a node: plugs its cables in and out. Private to the collection.

The protocol is QEMU's own, QMP (docs/interop/qmp-spec of its sources): a line of JSON each.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory

__all__ = ["cables_of", "listen", "plug"]

_MONITOR_FILE = "monitor.sock"
_SECONDS = 30.0


def cables_of(node: NodePlan) -> dict[str, bool]:
    """Whether each card of a node has its cable in, by the card's name for QEMU."""
    return {f"card{card}": hca.cable for card, hca in node.cards}


@contextlib.contextmanager
def _short(directory: str) -> t.Iterator[str]:
    """A name of the socket in a directory that is short enough for an address, however long the directory's is."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_MONITOR_FILE}"
    finally:
        os.close(descriptor)


def listen(directory: str) -> socket.socket:
    """A socket in the directory of a node that QEMU answers on, once it has inherited it."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, _MONITOR_FILE))
    result = socket.socket(socket.AF_UNIX)
    with _short(directory) as path:
        result.bind(path)
    result.listen(1)
    return result


def plug(directory: LabDirectory, node: str, cables: t.Mapping[str, bool]) -> None:
    """Plugs the cables of a node's cards in (true) and out. Raises LabError when QEMU does not do it."""
    try:
        with socket.socket(socket.AF_UNIX) as connection, _short(directory.file(node)) as path:
            connection.settimeout(_SECONDS)
            connection.connect(path)
            with connection.makefile("rw", encoding="utf-8") as stream:
                _answer(stream)
                _do(stream, "qmp_capabilities")
                for card, plugged in cables.items():
                    _do(stream, "set_link", name=card, up=plugged)
    except (OSError, ValueError) as exc:
        raise LabError(f"the cables of {node} cannot be changed: QEMU's monitor says {exc}") from exc


def _do(stream: t.TextIO, command: str, **arguments: object) -> None:
    stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    stream.flush()
    answer = _answer(stream)
    while "return" not in answer:
        if "error" in answer:
            raise ValueError(f"{command}: {answer['error'].get('desc')}")
        # an event that nobody has asked for
        answer = _answer(stream)


def _answer(stream: t.TextIO) -> dict[str, t.Any]:
    found = json.loads(stream.readline() or "null")
    if not isinstance(found, dict):
        raise ValueError("nothing")
    return found

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few things about a live node that no file of it says. Private to the collection.

Each is a question that discovery puts to a Tree. A capture keeps the answers, so that it replays without a node.
"""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import Cri
from ansible_collections.fabric.rdma.plugins.module_utils._discover.addresses import addresses_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import default6_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import is_stack_package
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ethtool import ethtool_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import qos_answer

__all__ = ["live_answers", "node_answers"]

Run = t.Callable[[t.List[str]], t.Tuple[int, str, str]]

# A status of a busy node takes a tenth of a second; a daemon that hangs must not hang discovery.
_CRI_TIMEOUT = 5.0

# /proc counts in hundredths of a second on every architecture that containerd is built for (USER_HZ).
_TICKS = 100


def _changed(path: str) -> t.Optional[str]:
    """PID/FILE: 1 when the file was changed (also by a rename, also with an old time of modification) after the process started."""
    pid, _slash, name = path.partition("/")
    try:
        with open(f"/proc/{int(pid)}/stat", "rb") as handle:
            started = int(handle.read().rpartition(b")")[2].split()[19]) / _TICKS
        changed = os.stat("/" + name).st_ctime
    except (OSError, ValueError, IndexError):
        return None
    # not /proc/stat's btime, which is off by up to a second: a file written just before a restart would count
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return "1" if changed - booted > started + 1 / _TICKS else "0"


def _cri(path: str) -> t.Optional[str]:
    """SOCKET: JSON of what the running daemon says: {version, ready, default_handler, handlers}, or {error}.

    None for who may not ask. Of the daemon's configuration, which may hold credentials, only the handlers are passed on.
    """
    socket_path = "/" + path
    if not os.access(socket_path, os.R_OK | os.W_OK):
        return None
    cri = Cri(socket_path, _CRI_TIMEOUT)
    try:
        version = cri.version()[1]
        status = cri.status()
    except FabricError as exc:
        return json.dumps({"error": " ".join(str(exc).split())[:300]})
    condition = status["conditions"].get("RuntimeReady")
    return json.dumps(
        {
            "version": version,
            "ready": None if condition is None else condition["status"],
            "default_handler": status["default_handler"],
            "handlers": status["handlers"],
        },
        sort_keys=True,
    )


def _symbol(path: str) -> t.Optional[str]:
    """NAME: 1 when the running kernel has the symbol, 0 when not. /proc/kallsyms is ten megabytes, modules at its end."""
    needle = (f" {path}\t").encode()
    tail = b""
    try:
        with open("/proc/kallsyms", "rb", buffering=0) as handle:
            while True:
                chunk = handle.read(1 << 20)
                if not chunk:
                    return "0" if tail else None
                if needle in tail + chunk:
                    return "1"
                tail = chunk[-len(needle) :]
    except OSError:
        return None


def live_answers(run: Run) -> t.Callable[[str, str], t.Optional[str]]:
    """What answers the questions of a DirectoryTree of ``/``. run: runs a program: (exit status, output, error output)."""

    def version(path: str) -> t.Optional[str]:
        """PROGRAM: what it prints with --version."""
        if not os.access("/" + path, os.X_OK):
            return None
        status, output, _error = run(["/" + path, "--version"])
        return output.strip()[:300] if status == 0 else None

    def packages(path: str) -> t.Optional[str]:
        """RPM: name and version of each package of the RDMA stack that it has, a line each."""
        if not os.access("/" + path, os.X_OK):
            return None
        status, output, _error = run(["/" + path, "-qa", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\n"])
        kept = sorted(line for line in output.splitlines() if is_stack_package(line.partition(" ")[0]))
        return "".join(line + "\n" for line in kept) if status == 0 else None

    questions = {
        "addresses": addresses_answer,
        "changed": _changed,
        "cri": _cri,
        "default6": default6_answer,
        "ethtool": ethtool_answer,
        "packages": packages,
        "qos": qos_answer(run),
        "symbol": _symbol,
        "version": version,
    }

    def ask(question: str, path: str) -> t.Optional[str]:
        return questions[question](path.lstrip("/"))

    return ask


def node_answers() -> t.Callable[[str, str], t.Optional[str]]:
    """The same for a module, which runs the programs of its node."""

    def run(command: list[str]) -> tuple[int, str, str]:
        try:
            return run_program(command)
        except OSError as exc:
            return 126, "", f"{command[0]}: {exc.strerror}"

    return live_answers(run)

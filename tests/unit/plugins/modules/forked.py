# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that begin with Ansible's part of a module loaded, which takes a module longer than its own work.

Each is forked from a process that has loaded that and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

PARENT = """\
import gc, json, os, signal, sys

import ansible.module_utils.basic
try:
    import ansible.module_utils.testing
except ImportError:
    # ansible-core 2.17 and 2.18
    pass
# what is here now is not looked through, and so not copied, in each of them
gc.freeze()

while line := sys.stdin.readline():
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        left = False
    else:
        left = True
    print(json.dumps([code, left]), flush=True)
else:
    sys.exit()

os.setpgid(0, 0)

for number, path in enumerate((os.devnull, asked["out"], asked["err"])):
    os.dup2(os.open(path, os.O_RDWR), number)
os.chdir(asked["directory"])
os.environ.clear()
os.environ.update(asked["env"])
sys.argv[:] = ["-c", *asked["arguments"]]
exec(asked["code"], {"__name__": "__main__"})
"""
_ONE_AT_A_TIME = threading.Lock()


def python(code: str, arguments: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
    """What `python -c CODE ARGUMENT...` ends with (-N for signal N), and what it says on both its streams.

    subprocess.TimeoutExpired after so many seconds. AssertionError where a process of its group outlives it, for which Ansible would wait on
    a node. Limits, umask, time zone and locale are those that this process had at its first call.
    """
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as name:
        out, err = Path(name, "out"), Path(name, "err")
        out.touch()
        err.touch()
        asked = {"code": code, "arguments": list(arguments), "env": dict(os.environ), "directory": os.getcwd()}
        parent = _parent(os.getpid())
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps({**asked, "out": str(out), "err": str(err)}) + "\n")
        parent.stdin.flush()
        if not select.select([parent.stdout], [], [], timeout)[0]:
            _end(parent)
            raise subprocess.TimeoutExpired(code, timeout)
        answer = parent.stdout.readline()
        if not answer:
            _end(parent)
            raise AssertionError(f"it ended the process that started it: {err.read_text()}")
        ended, left = json.loads(answer)
        assert not left, "a process that it has started outlives it"
        return ended, out.read_text(), err.read_text()


def _end(parent: subprocess.Popen[str]) -> None:
    """Ends the process that forks, and what it has forked; the next call starts another one."""
    _parent.cache_clear()
    for number in (*_children(parent.pid), parent.pid):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
    with parent:
        pass


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


@functools.lru_cache(maxsize=1)
def _parent(_owner: int) -> subprocess.Popen[str]:
    """The process that forks for one that asks. It ends with that."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

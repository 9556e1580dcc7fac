# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a process of its own, which gets a real SIGKILL on its way: nothing in Python cleans up after it."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Ask = Callable[..., Any]

# What of Python's audit events changes a file system; each is raised before that.
_CHANGES = (
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.removexattr",
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.symlink",
    "os.truncate",
    "os.utime",
)


class Killed(Exception):
    """The process was killed, and it is gone."""


def apart(work: Callable[[Ask], T], answer: Callable[..., Any]) -> T:
    """What the work gives or raises, done in a process of its own.

    It can ask this one: `answer` gets what it asks, and is what it hears. Where that raises Killed, the process gets SIGKILL at this
    very place, since it waits there.
    """
    ours, theirs = multiprocessing.Pipe()
    with warnings.catch_warnings():
        # pytest-xdist has threads; nothing that they may hold is needed there
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ours.close()
        _work(work, theirs)
    theirs.close()
    with ours:
        try:
            while (heard := ours.recv())[0] == "asks":
                ours.send(answer(*heard[1]))
        except BaseException:
            os.kill(child, signal.SIGKILL)
            _pid, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            raise
        os.waitpid(child, 0)
    word, content = heard
    if word == "raises":
        raise content
    found: T = content
    return found


def _work(work: Callable[[Ask], Any], connection: multiprocessing.connection.Connection) -> NoReturn:
    def ask(*content: Any) -> Any:
        connection.send(("asks", content))
        return connection.recv()

    try:
        try:
            said = ("gives", work(ask))
        except Exception as exc:
            said = ("raises", exc)
        connection.send(said)
    finally:
        os._exit(0)


def watch(tell: Callable[[str], Any]) -> None:
    """Tells what this process is about to change in a file system, as `os.rename OLD NEW`, until it ends."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            words = [argument for argument in arguments if isinstance(argument, str)]
            tell(" ".join([event, *words]))

    sys.addaudithook(hook)


def killed_before_change(number: int, work: Callable[[], T]) -> T:
    """Work that is killed before it changes the file system for the n-th time (from 1); Killed when it has come so far."""
    count = itertools.count(1)

    def answer(what: str) -> None:
        if next(count) == number:
            raise Killed(what)

    def watched(ask: Ask) -> T:
        watch(ask)
        return work()

    return apart(watched, answer)


# ptrace(2), sys/ptrace.h
_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_SYSGOOD, _EXITKILL = 0x1, 0x100000


def _ptrace(request: int, child: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, child, None, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "ptrace")


def killed_at_system_call(number: int, work: Callable[[], Any]) -> bool:
    """Does work in a process of its own, and kills that at its n-th system call (from 1), which is not made; whether it came so far.

    The kernel stops it at every call, whatever Python tells of them. What the work returns or raises is lost: it has to end well.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            code = 0
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    assert os.WIFSTOPPED(status), status
    _ptrace(_SETOPTIONS, child, _SYSGOOD | _EXITKILL)
    calls, entering, given = 0, True, 0
    while True:
        _ptrace(_SYSCALL, child, given)
        _pid, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0, status
            return False
        stopped_by = os.WSTOPSIG(status)
        if stopped_by != signal.SIGTRAP | 0x80:
            given = stopped_by
            continue
        # it stops as it enters a call, and as it leaves it
        given, calls = 0, calls + entering
        if entering and calls == number:
            os.kill(child, signal.SIGKILL)
            _pid, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            return True
        entering = not entering

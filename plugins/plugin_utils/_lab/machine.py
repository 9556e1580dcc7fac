# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab uses of the machine that it runs on: programs, files, locks. Private to the collection."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "ROLE_FILES",
    "TOOL_PACKAGES",
    "Alive",
    "LabError",
    "Progress",
    "find_tool",
    "free_mib",
    "free_ports",
    "locked",
    "port_is_free",
    "read",
    "require_tools",
    "room",
    "run",
    "said_in",
    "search_path",
    "sweep",
    "termination_is_an_exception",
    "write",
]

# What is made into programs and modules for the nodes lies with the role.
ROLE_FILES = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4, "roles", "lab", "files"))

Progress = t.Callable[[str], None]

# Called now and then in every wait; raises when there is no point in going on.
Alive = t.Callable[[], None]

# Program on the controller -> Debian package that has it. bindep.txt names the same packages (a test compares them).
TOOL_PACKAGES: dict[str, str] = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "newuidmap": "uidmap",
    "systemd-nspawn": "systemd-container",
}


class LabError(FabricError):
    """Something that the operator can act on."""


def find_tool(name: str) -> str | None:
    """Where a program is; ordinary users often have no sbin directory in their PATH."""
    return shutil.which(name, path=search_path())


def search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _missing_tools(names: t.Iterable[str]) -> list[str]:
    """The Debian packages of those programs which are not there, sorted."""
    return sorted({TOOL_PACKAGES[name] for name in names if find_tool(name) is None})


def require_tools(names: t.Iterable[str]) -> None:
    """Raises LabError with the line to type when a program is missing."""
    packages = _missing_tools(names)
    if packages:
        sudo = "" if os.geteuid() == 0 else "sudo "
        raise LabError(
            f"the lab needs programs that are not installed on this machine; install them with: {sudo}apt-get install "
            f"--yes {' '.join(packages)}"
        )


@contextlib.contextmanager
def locked(path: str, progress: Progress, alive: Alive, what: str) -> t.Iterator[None]:
    """Holds an exclusive lock on a file; says what it waits for when somebody else holds it."""
    started = time.monotonic()
    told = -10.0
    stream = _try_lock(path)
    while stream is None:
        alive()
        waited = time.monotonic() - started
        if waited - told >= 10:
            progress(f"{what}: another process holds {path}, waiting ({waited:.0f} s)")
            told = waited
        time.sleep(0.5)
        stream = _try_lock(path)
    with stream:
        yield


def _try_lock(path: str) -> t.TextIO | None:
    """The open, locked file; None while somebody else has it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Not closed here: the lock lives as long as the file is open, which the caller decides.
    stream = open(path, "a", encoding="utf-8")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one before may have removed the file; then this is the lock of nothing.
        if os.path.samestat(os.stat(path), os.fstat(stream.fileno())):
            return stream
    except (BlockingIOError, FileNotFoundError):
        pass
    stream.close()
    return None


@contextlib.contextmanager
def termination_is_an_exception() -> t.Iterator[None]:
    """Lets the clean-up run when this process is told to end (Ansible ends its workers with SIGTERM after Ctrl-C)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> t.NoReturn:
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def write(path: str, content: str | bytes, mode: int = 0o644) -> None:
    """Writes a file at once or not at all."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    os.replace(temporary, path)


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def run(command: t.Sequence[str], what: str, pass_fds: t.Sequence[int] = (), timeout: float = 60) -> None:
    """Runs a program to its end; files that it makes are its user's alone. Raises LabError with what it said when it fails."""
    program = find_tool(command[0]) or command[0]
    try:
        result = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            timeout=timeout,
            umask=0o077,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"{what} failed: {exc}") from exc
    if result.returncode != 0:
        raise LabError(f"{what} failed ({command[0]} ended with {result.returncode}): {said_in(result.stdout)}")


def said_in(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip() or "it said nothing"


def free_mib(path: str) -> int:
    """What this user may write below a path, which need not be there yet, in MiB."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return (found.f_bavail * found.f_frsize) >> 20


@contextlib.contextmanager
def room(what: str, cache_dir: str, needed: str) -> t.Iterator[None]:
    """Tells of a build that the cache has no room for, or that cannot write there, where that is and what to do.

    needed: what it takes of the disk.
    """
    free = free_mib(cache_dir)
    try:
        yield
    except OSError as exc:
        remedy = f"It takes {needed}; {free} MiB were free: make room, or name another directory (lab_cache_dir)"
        raise LabError(f"{what} cannot be built in {cache_dir}: {exc}", remedy) from exc
    except LabError as exc:
        # of a program that the build runs
        if os.strerror(errno.ENOSPC).lower() not in exc.message.lower():
            raise
        remedy = f"It takes {needed} of {cache_dir}; {free} MiB were free there: make room"
        raise LabError(exc.message, remedy) from exc


def sweep(place: str) -> None:
    """Removes what killed builds of a place have left beside it, whose lock the caller holds: directories building-NAME-*."""
    directory, name = os.path.split(place)
    for leftover in glob.glob(os.path.join(glob.escape(directory), f"building-{glob.escape(name)}-*")):
        shutil.rmtree(leftover, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that are free now, none of them twice. Somebody else may take one before it is used."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _number in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def port_is_free(port: int) -> bool:
    """Whether a server could listen on a port of 127.0.0.1. Connections of an earlier one do not matter, as to servers."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
            attempt.listen(1)
        except OSError:
            return False
    return True

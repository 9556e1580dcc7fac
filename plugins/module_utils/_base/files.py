# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way in which files of a node are read to be changed, and written. Private to the collection.

A file is replaced as a whole or not at all, and is on the disk when the call returns: a new one beside it, synced, renamed
over it, the directory synced (rename(2), fsync(2)). A symbolic link stays one, and the file that it leads to is replaced.
Owner, mode, access list and label stay. What somebody else wrote since the file was read is not overwritten.

Errors are OSError, always with the path that the user knows: write(2) and fsync(2) name none, and a temporary name says
nothing to anybody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import typing as t

__all__ = [
    "MOST",
    "back_up",
    "errors_name",
    "make_directories",
    "put",
    "read",
    "rehearse",
    "replace",
    "stage",
    "sync_directory",
    "unlink",
]

# Attributes that a new file must not take over: signatures of the old content (security/integrity in the kernel).
_OF_CONTENT = ("security.ima", "security.evm")
_ACL = "system.posix_acl_access"
# No file that is read to be changed is nearly as large.
MOST = 16 << 20
# A file that is not whole yet, with the process that writes it.
_UNFINISHED = re.compile(r"[.]fabric-rdma-([0-9]+)[.]tmp")


@contextlib.contextmanager
def errors_name(path: str, *aliases: str) -> t.Iterator[None]:
    """Gives errors of the body that name no file, or one of the aliases, the path."""
    try:
        yield
    except OSError as exc:
        if isinstance(exc.filename, str) and exc.filename not in aliases:
            raise
        raise OSError(exc.errno, exc.strerror, path) from exc


def read(path: str, most: t.Optional[int] = MOST) -> t.Optional[bytes]:
    """Content of a file; None when there is none. OSError when it is not a regular file, cannot be read, or has more bytes than most."""
    try:
        # a pipe that nobody writes to must not hold us
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    # a directory cannot be made a stream: it is asked before
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Is a directory" if stat.S_ISDIR(mode) else "Is not a regular file", path)
    with os.fdopen(handle, "rb") as stream, errors_name(path):
        data = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"Is larger than {most >> 20} MiB", path)
    return data


def sync_directory(path: str) -> None:
    """A name that was made, changed or removed is on the disk only when its directory is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with errors_name(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def make_directories(path: str, mode: int = 0o755) -> list[str]:
    """Makes a directory and those above it that are missing; which these were, from the top."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    for made in missing:
        with contextlib.suppress(FileExistsError):
            os.mkdir(made, mode)
        sync_directory(os.path.dirname(made))
    return missing


def unlink(path: str) -> None:
    """Removes a file; one that is not there is fine."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def _attributes(path: str) -> set[str]:
    try:
        return set(os.listxattr(path))
    except OSError as exc:
        if exc.errno != errno.ENOTSUP:
            raise
        return set()


def _copy_attributes(source: str, target: str) -> None:
    """Owner, access list, label and mode of one file for another."""
    status = os.stat(source)
    os.chown(target, status.st_uid, status.st_gid)
    wanted = _attributes(source) - set(_OF_CONTENT)
    for name in _attributes(target) - wanted:
        # of the default list of the directory, which the old file may have been taken off
        if name == _ACL:
            os.removexattr(target, name)
    for name in wanted:
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as exc:
            # those of the kernel and of other programs are taken over where that is allowed; who may read is not up to chance
            if name == _ACL or exc.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENODATA, errno.EINVAL):
                raise
    os.chmod(target, stat.S_IMODE(status.st_mode))


def _set_owner(handle: int, owner: tuple[int, int]) -> None:
    """An owner for a file, where it has another one."""
    status = os.fstat(handle)
    if (status.st_uid, status.st_gid) != owner:
        os.fchown(handle, *owner)


def stage(
    temporary: str,
    data: bytes,
    *,
    name: t.Optional[str] = None,
    like: t.Optional[str] = None,
    mode: t.Optional[int] = None,
    owner: t.Optional[tuple[int, int]] = None,
) -> None:
    """A file under a temporary name, on the disk when this returns. like: the file whose owner, mode and so on it gets.

    mode, owner: what it gets in place of those of `like`; without, 0644 and us. name: what errors call it.
    """
    with errors_name(name or temporary, temporary):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            if like is not None:
                _copy_attributes(like, temporary)
            if owner is not None:
                _set_owner(stream.fileno(), owner)
            if like is None or mode is not None:
                os.fchmod(stream.fileno(), 0o644 if mode is None else mode)
            os.fsync(stream.fileno())


def put(temporary: str, path: str) -> None:
    """The file gets its name, and with it the place of the one that had it."""
    with errors_name(path, temporary):
        os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def _unfinished(directory: str) -> str:
    """A name for a file that is not whole yet. What a killed process has left under such a name is removed."""
    for name in os.listdir(directory):
        found = _UNFINISHED.fullmatch(name)
        if found and not os.path.exists("/proc/" + found.group(1)):
            # what cannot be removed is in nobody's way
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
    return os.path.join(directory, f".fabric-rdma-{os.getpid()}.tmp")


def rehearse(path: str) -> None:
    """What a check does in place of replace(): OSError where no file could be made beside the one that is to be written."""
    directory = os.path.dirname(os.path.realpath(path))
    number = 0
    if not os.path.isdir(directory):
        number = errno.ENOTDIR if os.path.exists(directory) else errno.ENOENT
    elif not os.access(directory, os.W_OK | os.X_OK):
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), path)


def replace(
    path: str,
    data: bytes,
    before: t.Optional[bytes],
    mode: int = 0o644,
    exactly: t.Optional[tuple[int, tuple[int, int]]] = None,
) -> None:
    """Writes a file. before: its content when the change was planned, None when it was not there; mode: that of a new one.

    exactly: mode and owner that it gets, whatever it has. OSError when it is no longer what it was.
    """
    real = os.path.realpath(path)
    with errors_name(path, os.path.dirname(real)):
        temporary = _unfinished(os.path.dirname(real))
    try:
        like = None if before is None else real
        wanted, owner = exactly or (mode if like is None else None, None)
        stage(temporary, data, name=path, like=like, mode=wanted, owner=owner)
        if read(real) != before:
            raise OSError(errno.EBUSY, "somebody else changed it just now, and it was left alone; run again", path)
        put(temporary, real)
    except BaseException:
        unlink(temporary)
        raise


def back_up(path: str, data: bytes) -> str:
    """Keeps the content of a file beside it, under a name with the time, with its owner, mode and so on; the name."""
    real = os.path.realpath(path)
    kept = f"{real}.{os.getpid()}.{time.strftime('%Y-%m-%d@%H:%M:%S')}~"
    temporary = _unfinished(os.path.dirname(real))
    try:
        stage(temporary, data, name=kept, like=real)
        put(temporary, kept)
    except BaseException:
        unlink(temporary)
        raise
    return kept

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one seam between the core and a node's files. Private to the collection.

A L(Tree) answers the three questions that discovery asks (what does this file say, what is in this directory, where does
this path really lead) for a live node, for an unpacked capture and for a capture file that is never unpacked. Paths are
always written from the node's point of view (``/sys/class/infiniband``), whatever the root is.

Confinement: symbolic links are resolved here and not by the kernel, so that a link in a capture, absolute or with any number
of ``..``, stays inside the root as it would in a chroot(2).
"""

from __future__ import annotations

import os
import posixpath
import stat
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import glob

__all__ = [
    "ANSWERS",
    "MAX_CAPTURE_BYTES",
    "MAX_CAPTURE_ENTRIES",
    "DirectoryTree",
    "Space",
    "Tree",
    "TreeError",
    "too_large",
]

# Where a capture keeps what no file of a node says (answer()). No system has files there.
ANSWERS = "/.answers"

# A link chain longer than this is a loop (the kernel's own limit is 40: include/linux/namei.h, MAXSYMLINKS).
_MAX_LINKS = 40

# modules.dep of a distribution kernel is about 1 MB; nothing that discovery reads is larger.
_MAX_FILE_BYTES = 8 * 1024 * 1024

# What a capture file may hold in all, unpacked. A node with 16 HCAs and 16 GPUs needs less than 2 MB.
MAX_CAPTURE_BYTES = 64 * 1024 * 1024
MAX_CAPTURE_ENTRIES = 200_000


class Space(t.NamedTuple):
    """A file system: what tells it from others, and the MiB that are free in it."""

    device: int
    free_mib: int


class TreeError(FabricError):
    """A root or capture that cannot be used."""


def too_large(source: str) -> TreeError:
    """What to raise of a capture that nobody can have taken."""
    return TreeError(
        f"{source}: more than {MAX_CAPTURE_BYTES >> 20} MiB or {MAX_CAPTURE_ENTRIES} entries: this is not a capture"
    )


class Tree:
    """Read-only view of a node's file system below a root.

    Every method takes an absolute path of the node and answers with a value or with nothing: a file that is missing,
    unreadable, not regular or gone between two calls is C(None), a directory of that sort has no names. TreeError only for a
    directory of a capture that has more names than a whole capture may.

    Where a path leads, or that it leads nowhere, is kept: who looks again after a change takes a new Tree.
    """

    def __init__(self) -> None:
        # canonical path by asked path; None: does not exist
        self._real: dict[str, t.Optional[str]] = {"/": "/"}
        # (kind, target of a link) by path whose parent is canonical
        self._steps: dict[str, tuple[str, str]] = {}
        # of links: (where it leads, how many links that takes, whether this is known: it may be nowhere, and take more)
        self._leads: dict[str, tuple[t.Optional[str], int, bool]] = {}

    # What a backend supplies. `path` is canonical but for its last component, which is not followed.
    def _kind(self, path: str) -> str:
        """``f``, ``l``, ``d``, or an empty string when there is nothing (usable) at the path."""
        raise NotImplementedError

    def _target(self, path: str) -> str:
        raise NotImplementedError

    def _data(self, path: str) -> t.Optional[bytes]:
        raise NotImplementedError

    def _children(self, path: str) -> list[str]:
        raise NotImplementedError

    def _opaque(self, path: str) -> bool:
        """True where links must be left to the kernel (/proc of a live node: /proc/self is another one for each reader)."""
        return False

    def real(self, path: str) -> t.Optional[str]:
        """The canonical path (still from the node's point of view), or None when it leads nowhere."""
        if path not in self._real:
            if self._opaque(path):
                self._real[path] = path if self._kind(path) else None
            else:
                parent, _dummy, name = path.rpartition("/")
                if parent and parent not in self._real:
                    self._real[parent] = self._walk("/", parent)
                base = self._real[parent or "/"]
                if base is not None and self._steps.get(base, ("d", ""))[0] == "f":
                    base = None
                self._real[path] = None if base is None else self._walk(base, name)
        return self._real[path]

    def _walk(self, base: str, path: str) -> t.Optional[str]:
        """Where a relative path leads from a canonical directory. A loop and no recursion: a link may be as long as it likes.

        Where a link leads is worked out once, however many paths go over it.
        """
        todo = path.split("/")[::-1]
        # links on the way, from the outermost: its path, how much of todo is not of its target, links before it
        followed: list[tuple[str, int, int]] = []
        links, kind, known = 0, "d", True
        while True:
            while followed and followed[-1][1] == len(todo):
                link, _rest, before = followed.pop()
                self._leads[link] = (base, links - before, True)
            if not todo:
                return base
            if kind == "f":
                break
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                base = base.rpartition("/")[0] or "/"
                continue
            here = ("" if base == "/" else base) + "/" + name
            if self._opaque(here):
                here = "/".join([here, *todo[::-1]])
                return here if self._kind(here) else None
            kind, target = self._step(here)
            if kind == "l":
                where, count, known = self._leads.get(here, (None, 1, False))
                if links + count > _MAX_LINKS:
                    links, known = links + count, False
                    break
                if known and where is not None:
                    base, links, kind = where, links + count, self._steps.get(where, ("d", ""))[0]
                    continue
                if known or not target:
                    known = True
                    break
                followed.append((here, len(todo), links))
                links, kind, known = links + 1, "d", True
                todo += target.split("/")[::-1]
                base = "/" if target.startswith("/") else base
            elif kind:
                base = here
            else:
                break
        # a link that is in a circle is there more than once
        for link, _rest, before in reversed(followed):
            self._leads[link] = (None, links - before, known)
        return None

    def _step(self, path: str) -> tuple[str, str]:
        if path not in self._steps:
            kind = self._kind(path)
            self._steps[path] = (kind, self._target(path) if kind == "l" else "")
        return self._steps[path]

    def read(self, path: str) -> t.Optional[bytes]:
        """Content of a regular file, or None."""
        real = self.real(path)
        return None if real is None else self._data(real)

    def excerpt(self, path: str, reduce: t.Callable[[bytes], bytes]) -> t.Optional[bytes]:
        """What a function leaves of a file, or None. For files with secrets: no more than this ever gets into a capture.

        reduce has to give its own result again when it is put to that.
        """
        data = self.read(path)
        return None if data is None else reduce(data)

    def text(self, path: str) -> t.Optional[str]:
        """Content as text without surrounding white space and NUL bytes, or None.

        Bytes that are not UTF-8 (vendor-written node_desc, for example) come out as U+FFFD: what is printed, compared
        or put in JSON later is always valid Unicode.
        """
        data = self.read(path)
        return None if data is None else data.decode("utf-8", "replace").strip("\0 \t\r\n")

    def names(self, path: str) -> list[str]:
        """Names in a directory in byte order (the order of Go's os.ReadDir), [] when there is none."""
        real = self.real(path)
        return [] if real is None else sorted(self._children(real), key=os.fsencode)

    def exists(self, path: str) -> bool:
        """True when the path leads to something."""
        return self.real(path) is not None

    def link_name(self, path: str) -> t.Optional[str]:
        """Last component of what a symbolic link says (the idiom of sysfs: ``driver``, ``master``), or None.

        Answered even when the target is not there, as in a partial capture.
        """
        parent, _dummy, name = path.rpartition("/")
        base = self.real(parent or "/")
        if base is None:
            return None
        here = ("" if base == "/" else base) + "/" + name
        return self._target(here).rstrip("/").rpartition("/")[2] or None if self._kind(here) == "l" else None

    def link_target(self, path: str) -> t.Optional[str]:
        """What a symbolic link says, or None. For those that are not files of this tree, such as ``/proc/PID/exe``."""
        parent, _dummy, name = path.rpartition("/")
        base = self.real(parent or "/")
        return None if base is None else self._target(("" if base == "/" else base) + "/" + name) or None

    def glob(self, pattern: str) -> list[str]:
        """Paths that a pattern names, as Go reads it, in its order."""
        return glob(pattern, self.names, self.exists)

    def modified(self, path: str) -> t.Optional[float]:
        """When a file of a live node was changed last, in seconds since 1970, or None. A capture does not tell."""
        del path
        return None

    def space(self, path: str) -> t.Optional[Space]:
        """The file system of a live node that a directory is on, or None. A capture does not tell."""
        del path
        return None

    def answer(self, question: str, path: str) -> t.Optional[str]:
        """What a live node answers to one of the few questions that no file of it does, or None (_discover/live.py).

        A capture has the answers of the node that it was taken from, as files below ANSWERS.
        """
        return self.text(posixpath.normpath(f"{ANSWERS}/{question}/{path}"))


class DirectoryTree(Tree):
    """The files below a directory: ``/`` on a live node, else an unpacked capture.

    ask answers the questions of answer() on a live node; without it there is no answer.
    """

    def __init__(self, root: str, ask: t.Optional[t.Callable[[str, str], t.Optional[str]]] = None) -> None:
        super().__init__()
        self._ask = ask
        # a link to / is the live node, too; POSIX lets // be something else, Linux does not
        self._root = os.path.realpath(root).rstrip("/")

    def _opaque(self, path: str) -> bool:
        return not self._root and path.startswith("/proc/")

    def _kind(self, path: str) -> str:
        try:
            mode = (os.stat if self._opaque(path) else os.lstat)(self._root + path).st_mode
        except (OSError, ValueError):
            return ""
        if stat.S_ISLNK(mode):
            return "l"
        if stat.S_ISDIR(mode):
            return "d"
        return "f" if stat.S_ISREG(mode) else ""

    def _target(self, path: str) -> str:
        try:
            return os.readlink(self._root + path)
        except OSError:
            return ""

    def _data(self, path: str) -> t.Optional[bytes]:
        # O_NONBLOCK: a pipe that somebody put in a capture must not hang us.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if self._opaque(path) else os.O_NOFOLLOW)
        try:
            handle = os.open(self._root + path, flags)
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            first = os.read(handle, 65536)
            # A sysfs attribute is at most a page, and one read is all of it. A list in /proc comes a page at a time, each page cut
            # at the end of a line (fs/seq_file.c), so that a short read says nothing there; nor in a control group, whose processes are
            # such a list.
            if len(first) < 4096 and path.startswith("/sys/") and not path.startswith("/sys/fs/cgroup/"):
                return first
            chunks, total = [first], len(first)
            while total < _MAX_FILE_BYTES:
                chunk = os.read(handle, 65536)
                if not chunk:
                    break
                chunks.append(chunk)
                total += len(chunk)
            return b"".join(chunks)
        except OSError:
            # sysfs says EINVAL for an empty GID slot and EIO/ENODEV while a device goes away
            return None
        finally:
            os.close(handle)

    def _children(self, path: str) -> list[str]:
        try:
            names = os.listdir(self._root + path)
        except (OSError, ValueError):
            return []
        if self._root and len(names) > MAX_CAPTURE_ENTRIES:
            raise too_large(self._root + path)
        return names

    def modified(self, path: str) -> t.Optional[float]:
        real = None if self._root else self.real(path)
        try:
            return None if real is None else os.stat(real).st_mtime
        except OSError:
            return None

    def space(self, path: str) -> t.Optional[Space]:
        real = None if self._root else self.real(path)
        try:
            if real is None:
                return None
            found = os.statvfs(real)
            return Space(os.stat(real).st_dev, found.f_bavail * found.f_frsize >> 20)
        except OSError:
            return None

    def answer(self, question: str, path: str) -> t.Optional[str]:
        if self._root:
            return super().answer(question, path)
        return None if self._ask is None else self._ask(question, path)

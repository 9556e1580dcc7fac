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

import fnmatch
import gzip
import importlib
import io
import json
import os
import posixpath
import stat
import tarfile
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "ANSWERS",
    "CAPTURE_HEADER",
    "DirectoryTree",
    "Entry",
    "MemoryTree",
    "Recorder",
    "Space",
    "Tree",
    "TreeError",
    "dump_archive",
    "dump_listing",
    "load_archive",
    "load_listing",
    "open_tree",
]

# First line of the text form of a capture.
CAPTURE_HEADER = "# fabric.rdma capture 1"

# Where a capture keeps what no file of a node says (answer()). No system has files there.
ANSWERS = "/.answers"

# A link chain longer than this is a loop (the kernel's own limit is 40: include/linux/namei.h, MAXSYMLINKS).
_MAX_LINKS = 40

# modules.dep of a distribution kernel is about 1 MB; nothing that discovery reads is larger.
_MAX_FILE_BYTES = 8 * 1024 * 1024

# What a capture file may hold in all, unpacked. A node with 16 HCAs and 16 GPUs needs less than 2 MB.
_MAX_CAPTURE_BYTES = 64 * 1024 * 1024
_MAX_CAPTURE_ENTRIES = 200_000

# include/uapi/linux/limits.h, PATH_MAX
_MAX_PATH = 4096


class Space(t.NamedTuple):
    """A file system: what tells it from others, and the MiB that are free in it."""

    device: int
    free_mib: int


class TreeError(FabricError):
    """A root or capture that cannot be used."""


class Entry(t.NamedTuple):
    """One object of a capture: kind is ``f`` (data), ``l`` (target) or ``d``."""

    kind: str
    data: bytes = b""
    target: str = ""


class Tree:
    """Read-only view of a node's file system below a root.

    Every method takes an absolute path of the node and answers with a value or with nothing: a file that is missing,
    unreadable, not regular or gone between two calls is C(None), a directory of that sort has no names. TreeError only for a
    directory of a capture that has more names than a whole capture may.
    """

    def __init__(self) -> None:
        # canonical path by asked path; None: does not exist
        self._real: dict[str, t.Optional[str]] = {"/": "/"}
        # (kind, target of a link) by path whose parent is canonical
        self._steps: dict[str, tuple[str, str]] = {}

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
        """Where a relative path leads from a canonical directory. A loop and no recursion: a link may be as long as it likes."""
        todo = path.split("/")[::-1]
        links = 0
        while todo:
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
            if here not in self._steps:
                kind = self._kind(here)
                self._steps[here] = (kind, self._target(here) if kind == "l" else "")
            kind, target = self._steps[here]
            if kind == "l":
                links += 1
                if links > _MAX_LINKS or not target:
                    return None
                todo += target.split("/")[::-1]
                base = "/" if target.startswith("/") else base
            elif kind == "d" or (kind and not todo):
                base = here
            else:
                return None
        return base

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
        """What a symbolic link says, or None. For those that are no files of this tree, such as ``/proc/PID/exe``."""
        parent, _dummy, name = path.rpartition("/")
        base = self.real(parent or "/")
        return None if base is None else self._target(("" if base == "/" else base) + "/" + name) or None

    def glob(self, pattern: str) -> list[str]:
        """Paths that a pattern names, in byte order. As in Go's filepath.Glob, ``*`` takes a leading dot, too."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(sign in part for sign in "*?["):
                found = [
                    base + "/" + name
                    for base in found
                    for name in self.names(base or "/")
                    if fnmatch.fnmatchcase(name, part)
                ]
            else:
                found = [base + "/" + part for base in found if self.exists(base + "/" + part)]
        return sorted(found, key=os.fsencode)

    def modified(self, path: str) -> t.Optional[float]:
        """When a file of a live node was changed last, in seconds since 1970, or None. A capture does not tell."""
        del path
        return None

    def space(self, path: str) -> t.Optional[Space]:
        """The file system of a live node that a directory is on, or None. A capture does not tell."""
        del path
        return None

    def answer(self, question: str, path: str) -> t.Optional[str]:
        """What a live node answers to one of the few questions that no file of it does, or None (module _live).

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
            # at the end of a line (fs/seq_file.c), so that a short read says nothing there.
            if len(first) < 4096 and path.startswith("/sys/"):
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
        if self._root and len(names) > _MAX_CAPTURE_ENTRIES:
            raise _too_large(self._root + path)
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


class MemoryTree(Tree):
    """A capture that was read into memory; parents of its entries are implied.

    TreeError, with the source, where that makes more than a capture may have.
    """

    def __init__(self, entries: t.Mapping[str, Entry], source: str = "capture") -> None:
        super().__init__()
        self._entries: dict[str, Entry] = {"/": Entry("d")}
        self._names: dict[str, list[str]] = {"/": []}
        for path, entry in entries.items():
            self._add("/" + path.strip("/"), entry)
            if len(self._entries) > _MAX_CAPTURE_ENTRIES:
                raise _too_large(source)

    def _add(self, path: str, entry: Entry) -> None:
        while path != "/":
            known = self._entries.get(path)
            if known is not None and (known.kind != "d" or entry.kind == "d"):
                return
            self._entries[path] = entry
            if entry.kind == "d":
                self._names.setdefault(path, [])
            if known is not None:
                return
            parent, _dummy, name = path.rpartition("/")
            parent = parent or "/"
            self._names.setdefault(parent, []).append(name)
            path, entry = parent, Entry("d")

    def _kind(self, path: str) -> str:
        entry = self._entries.get(path)
        return "" if entry is None else entry.kind

    def _target(self, path: str) -> str:
        return self._entries.get(path, Entry("d")).target

    def _data(self, path: str) -> t.Optional[bytes]:
        entry = self._entries.get(path)
        return entry.data if entry is not None and entry.kind == "f" else None

    def _children(self, path: str) -> list[str]:
        return list(self._names.get(path, []))


class Recorder(Tree):
    """Passes every question on to another tree and keeps what was asked and answered.

    L(entries) is then the smallest capture that gives the same answers to the same questions.
    """

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self._tree = tree
        self._unreadable: set[str] = set()
        self._reduce: dict[str, t.Callable[[bytes], bytes]] = {}
        self.entries: dict[str, Entry] = {}

    def _opaque(self, path: str) -> bool:
        return self._tree._opaque(path)

    def _kind(self, path: str) -> str:
        kind = self._tree._kind(path)
        if kind == "l":
            self.entries[path] = Entry("l", target=self._tree._target(path))
        elif kind and path not in self._unreadable:
            self.entries.setdefault(path, Entry(kind))
        return kind

    def _target(self, path: str) -> str:
        target = self._tree._target(path)
        if target:
            # also those below /proc, which are left to the kernel
            self.entries[path] = Entry("l", target=target)
        return target

    def excerpt(self, path: str, reduce: t.Callable[[bytes], bytes]) -> t.Optional[bytes]:
        real = self.real(path)
        if real is not None:
            self._reduce[real] = reduce
        return super().excerpt(path, reduce)

    def _data(self, path: str) -> t.Optional[bytes]:
        data = self._tree._data(path)
        if data is not None:
            self.entries[path] = Entry("f", self._reduce[path](data) if path in self._reduce else data)
        elif self.entries.get(path, Entry("f")).kind == "f":
            # what cannot be read on the node must not be readable in the capture
            self._unreadable.add(path)
            self.entries.pop(path, None)
        return data

    def _children(self, path: str) -> list[str]:
        names = self._tree._children(path)
        for name in names:
            self._kind(("" if path == "/" else path) + "/" + name)
        return names

    def answer(self, question: str, path: str) -> t.Optional[str]:
        answer = self._tree.answer(question, path)
        if answer is not None:
            self.entries[posixpath.normpath(f"{ANSWERS}/{question}/{path}")] = Entry("f", answer.encode())
        return answer


def dump_listing(entries: t.Mapping[str, Entry]) -> str:
    """The text form of a capture: one line an entry, sorted, readable by a person before it is sent anywhere."""
    lines = [CAPTURE_HEADER]
    parents = {path.rpartition("/")[0] for path in entries}
    for path in sorted(entries):
        entry = entries[path]
        name = path.strip("/").replace("%", "%25").replace(" ", "%20").replace("\n", "%0A")
        if entry.kind == "l":
            # a target may hold blanks: it is the rest of the line
            lines.append("l {} {}".format(name, entry.target.replace("%", "%25").replace("\n", "%0A")))
        elif entry.kind == "f":
            lines.append("f {} {}".format(name, json.dumps(entry.data.decode("utf-8", "surrogateescape"))))
        elif path not in parents and name:
            lines.append(f"d {name}")
    return "\n".join(lines) + "\n"


def dump_archive(entries: t.Mapping[str, Entry]) -> bytes:
    """A capture as a gzip-compressed tar archive; the same entries give the same bytes (no times, no owners)."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(entries):
            entry = entries[path]
            member = tarfile.TarInfo(path.strip("/") or ".")
            member.mode = 0o755 if entry.kind == "d" else 0o644
            if entry.kind == "d":
                member.type = tarfile.DIRTYPE
            elif entry.kind == "l":
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
            else:
                member.size = len(entry.data)
            archive.addfile(member, io.BytesIO(entry.data))
    return gzip.compress(raw.getvalue(), 6, mtime=0)


def load_listing(text: str, source: str) -> dict[str, Entry]:
    """Entries by path from the text form; raises TreeError naming the source and line."""
    # more lines than a capture has are not taken apart
    lines = text.split("\n", 2 * _MAX_CAPTURE_ENTRIES)
    if lines[0].rstrip() != CAPTURE_HEADER:
        raise TreeError(f"{source}: not a capture: the first line is not '{CAPTURE_HEADER}'")
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line or line.startswith("#"):
            continue
        kind, _dummy, rest = line.partition(" ")
        name, _dummy, value = rest.partition(" ")
        path = "/" + name.replace("%0A", "\n").replace("%20", " ").replace("%25", "%")
        odd = {"", ".", ".."} & set(path[1:].split("/"))
        if kind not in ("d", "f", "l") or odd or (kind == "l" and not value):
            raise TreeError(
                f"{source}, line {number}: expected 'd PATH', 'f PATH JSON' or 'l PATH TARGET', found '{line!s:.60}'"
            )
        if len(path) > _MAX_PATH:
            raise TreeError(
                f"{source}, line {number}: a path of {len(path)} characters; no system has one of more than {_MAX_PATH}"
            )
        if len(entries) >= _MAX_CAPTURE_ENTRIES or number > 2 * _MAX_CAPTURE_ENTRIES:
            raise _too_large(source)
        if kind == "f":
            try:
                content = json.loads(value)
                entries[path] = Entry("f", content.encode("utf-8", "surrogateescape"))
            except (ValueError, AttributeError, RecursionError) as exc:
                reason = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
                raise TreeError(
                    f"{source}, line {number}: the content of {name} is not a JSON string: {reason}"
                ) from exc
        else:
            entries[path] = Entry(kind, target=value.replace("%0A", "\n").replace("%25", "%") if kind == "l" else "")
    return entries


def _too_large(source: str) -> TreeError:
    return TreeError(
        f"{source}: more than {_MAX_CAPTURE_BYTES >> 20} MiB or {_MAX_CAPTURE_ENTRIES} entries: this is not a capture"
    )


def _uncompressed(blob: bytes, source: str) -> bytes:
    """The plain tar archive. Not left to tarfile, which holds extended headers in memory, however much they unpack to."""
    for magic, name in ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "lzma")):
        if blob.startswith(magic):
            # a minimal Python may lack one of them
            with importlib.import_module(name).open(io.BytesIO(blob)) as stream:
                blob = stream.read(_MAX_CAPTURE_BYTES + 1)
            break
    if len(blob) > _MAX_CAPTURE_BYTES:
        raise _too_large(source)
    return blob


class _Member(tarfile.TarInfo):
    """The next member after one of negative size is the one before it: older versions of tarfile read them for ever."""

    @classmethod
    def frombuf(cls, buf: t.Any, encoding: str, errors: str) -> "_Member":
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0:
            raise tarfile.ReadError(f"member '{found.name!s:.60}' has a negative size")
        return found


def load_archive(blob: bytes, source: str) -> dict[str, Entry]:
    """Entries by path from a tar archive (plain or compressed), read in memory: nothing is unpacked anywhere.

    Members with ``..`` in their name, hard links and devices are refused; numbers, sizes and lengths are bounded, so that a
    hostile archive costs a clear error, and neither the memory of the host nor its time.
    """
    entries: dict[str, Entry] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(_uncompressed(blob, source)), mode="r:", tarinfo=_Member) as archive:
            for count, member in enumerate(archive):
                # an extended header may say another size than its member
                if member.size < 0:
                    raise TreeError(f"{source}: member '{member.name!s:.60}' has a negative size")
                # a sparse member is larger than what it takes up in the archive
                total += member.size
                if count >= _MAX_CAPTURE_ENTRIES or total > _MAX_CAPTURE_BYTES:
                    raise _too_large(source)
                parts = [part for part in member.name.split("/") if part not in ("", ".")]
                if not parts:
                    continue
                if ".." in parts:
                    raise TreeError(f"{source}: member '{member.name}' leads out of the archive")
                if len(member.name) > _MAX_PATH:
                    raise TreeError(
                        f"{source}: a member's name has {len(member.name)} characters; no system has a path of more "
                        f"than {_MAX_PATH}"
                    )
                path = "/" + "/".join(parts)
                if member.isdir():
                    entries[path] = Entry("d")
                elif member.issym():
                    entries[path] = Entry("l", target=member.linkname)
                elif member.isreg():
                    handle = archive.extractfile(member)
                    entries[path] = Entry("f", handle.read() if handle else b"")
                else:
                    raise TreeError(f"{source}: member '{member.name}' is neither file, directory nor symbolic link")
    except TreeError:
        raise
    # zlib.error, LZMAError, ValueError, UnicodeError, ...: a damaged archive fails anywhere in the libraries
    except Exception as exc:
        raise TreeError(f"{source}: not a readable tar archive: {' '.join(str(exc).split())}") from exc
    return entries


def open_tree(root: str, ask: t.Optional[t.Callable[[str, str], t.Optional[str]]] = None) -> Tree:
    """The tree of a root: a directory, a capture listing or a tar archive. TreeError when it is none of these.

    ask: what answers on a live node to what no file of it does (DirectoryTree).
    """
    if os.path.isdir(root):
        return DirectoryTree(root, ask)
    try:
        # a pipe would make us wait for ever
        handle = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise TreeError(f"root '{root}' is neither a directory nor a capture file")
            blob = stream.read(_MAX_CAPTURE_BYTES + 1)
    except OSError as exc:
        raise TreeError(
            f"root '{root}' cannot be read: {exc.strerror} (expected a directory or a capture file)"
        ) from exc
    if len(blob) > _MAX_CAPTURE_BYTES:
        raise TreeError(f"root '{root}' is larger than {_MAX_CAPTURE_BYTES >> 20} MiB: this is not a capture")
    if blob.startswith(CAPTURE_HEADER.encode()):
        return MemoryTree(load_listing(blob.decode("utf-8", "surrogateescape"), root), root)
    return MemoryTree(load_archive(blob, root), root)

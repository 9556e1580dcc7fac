# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures as trees: read in memory, never unpacked, whatever a stranger put in them. Private to the collection."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import stat
import tarfile
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import (
    MAX_CAPTURE_BYTES,
    MAX_CAPTURE_ENTRIES,
    DirectoryTree,
    Tree,
    TreeError,
    too_large,
)

__all__ = ["CAPTURE_HEADER", "Entry", "MemoryTree", "load_archive", "load_listing", "open_tree"]

# First line of the text form of a capture.
CAPTURE_HEADER = "# fabric.rdma capture 1"

# include/uapi/linux/limits.h, PATH_MAX
_MAX_PATH = 4096
# What extended headers of an archive may have: two paths, attributes and times of a file make a few records, and no number or name has
# a longer row of digits.
_MAX_HEADER_BYTES = 64 * 1024
_MAX_RECORDS = 64
_MAX_DIGITS = 255
# How much of an archive is unpacked at once.
_PIECE = 1024 * 1024
# Of how many pieces a file with holes may be: each is put to a copy of all before it (tarfile, _FileInFile.read()).
_MAX_PIECES = 64


class Entry(t.NamedTuple):
    """One object of a capture: kind is ``f`` (data), ``l`` (target) or ``d``."""

    kind: str
    data: bytes = b""
    target: str = ""


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
            if len(self._entries) > MAX_CAPTURE_ENTRIES:
                raise too_large(source)

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


def load_listing(text: str, source: str) -> dict[str, Entry]:
    """Entries by path from the text form; raises TreeError naming the source and line."""
    # more lines than a capture has are not taken apart
    lines = text.split("\n", 2 * MAX_CAPTURE_ENTRIES)
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
        if kind == "l" and len(value) > _MAX_PATH:
            raise TreeError(
                f"{source}, line {number}: a link to {len(value)} characters; no system has a path of more than {_MAX_PATH}"
            )
        if len(entries) >= MAX_CAPTURE_ENTRIES or number > 2 * MAX_CAPTURE_ENTRIES:
            raise too_large(source)
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


def _uncompressed(blob: bytes, source: str, charge: t.Callable[[int, int], None]) -> bytes:
    """The plain tar archive. Not left to tarfile, which holds extended headers in memory, however much they unpack to.

    charge: as in load_archive(); of what is damaged, what there was before.
    """
    for magic, name in ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "lzma")):
        if blob.startswith(magic):
            # a minimal Python may lack one of them
            with importlib.import_module(name).open(io.BytesIO(blob)) as stream:
                pieces, size = [], 0
                while size <= MAX_CAPTURE_BYTES:
                    piece = stream.read(_PIECE)
                    if not piece:
                        break
                    pieces.append(piece)
                    size += len(piece)
                    charge(len(piece), 0)
                blob = b"".join(pieces)
            break
    if len(blob) > MAX_CAPTURE_BYTES:
        raise too_large(source)
    return blob


def _insist_on_records(data: bytes) -> None:
    """tarfile.ReadError for an extended header that is damaged, or longer than any file needs.

    Records are "LENGTH KEY=VALUE" and a line feed. Older versions of tarfile take those that overlap, and look for one in a row of digits
    from each of its digits (CVE-2024-6232); any version gives each member a copy of all that global headers have.
    """
    if len(data) > _MAX_HEADER_BYTES or any(len(digits) > _MAX_DIGITS for digits in re.findall(rb"[0-9]+", data)):
        raise tarfile.ReadError("an extended header is longer than that of any file")
    count = position = 0
    while position < len(data) and data[position]:
        found = re.match(rb"([1-9][0-9]{0,8}) [^=]+=", data[position : position + _MAX_PATH])
        length = int(found.group(1)) if found else 0
        record = data[position : position + length]
        if found is None or len(record) != length or found.end() >= length or not record.endswith(b"\n"):
            raise tarfile.ReadError("an extended header is damaged")
        position, count = position + length, count + 1
    if count > _MAX_RECORDS:
        raise tarfile.ReadError(
            f"an extended header has {count} records, and that of no file has more than {_MAX_RECORDS}"
        )


def _insist_on_few(headers: t.Sized) -> None:
    """Of global ones, which every member after them gets a copy of."""
    if len(headers) > _MAX_RECORDS:
        raise tarfile.ReadError(f"global headers have more than {_MAX_RECORDS} records")


class _Member(tarfile.TarInfo):
    """The next member after one of negative size is the one before it: older versions of tarfile read them for ever."""

    def _proc_pax(self, tarfile: t.Any) -> t.Any:
        stream = tarfile.fileobj
        start = stream.tell()
        _insist_on_records(stream.read(min(self.size, _MAX_HEADER_BYTES + 1)))
        stream.seek(start)
        _insist_on_few(tarfile.pax_headers)
        return super()._proc_pax(tarfile)  # type: ignore[misc]

    @classmethod
    def frombuf(cls, buf: t.Any, encoding: str, errors: str) -> "_Member":
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0:
            raise tarfile.ReadError(f"member '{found.name!s:.60}' has a negative size")
        return found


def _entry_of(archive: tarfile.TarFile, member: tarfile.TarInfo, source: str) -> Entry:
    if member.isdir():
        return Entry("d")
    if member.issym():
        if len(member.linkname) > _MAX_PATH:
            raise TreeError(
                f"{source}: member '{member.name}' is a link to {len(member.linkname)} characters; no system has a path of more than "
                f"{_MAX_PATH}"
            )
        return Entry("l", target=member.linkname)
    if not member.isreg():
        raise TreeError(f"{source}: member '{member.name}' is neither file, directory nor symbolic link")
    if len(member.sparse or ()) > _MAX_PIECES:
        raise TreeError(
            f"{source}: member '{member.name}' has {len(member.sparse or ())} pieces with holes between them"
        )
    handle = archive.extractfile(member)
    return Entry("f", handle.read() if handle else b"")


def load_archive(
    blob: bytes, source: str, charge: t.Callable[[int, int], None] = lambda _size, _entries: None
) -> dict[str, Entry]:
    """Entries by path from a tar archive (plain or compressed), read in memory: nothing is unpacked anywhere.

    Members with ``..`` in their name, hard links and devices are refused; numbers, sizes and lengths are bounded, so that a
    hostile archive costs a clear error, and neither the memory of the host nor its time. charge: is told how many bytes, and how many
    entries, were unpacked, also of one that is refused: who reads many archives bounds what all of them cost.
    """
    entries: dict[str, Entry] = {}
    total = 0
    try:
        with tarfile.open(
            fileobj=io.BytesIO(_uncompressed(blob, source, charge)), mode="r:", tarinfo=_Member
        ) as archive:
            for count, member in enumerate(archive):
                # it would keep all of them, with a copy of their headers each
                archive.members.clear()  # type: ignore[attr-defined]
                # an extended header may say another size than its member
                if member.size < 0:
                    raise TreeError(f"{source}: member '{member.name!s:.60}' has a negative size")
                # a sparse member is larger than what it takes up in the archive
                total += member.size
                charge(member.size if member.sparse else 0, 1)
                if count >= MAX_CAPTURE_ENTRIES or total > MAX_CAPTURE_BYTES:
                    raise too_large(source)
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
                entries["/" + "/".join(parts)] = _entry_of(archive, member, source)
    except TreeError:
        raise
    # zlib.error, LZMAError, ValueError, UnicodeError, ...: a damaged archive fails anywhere in the libraries
    except Exception as exc:
        raise TreeError(f"{source}: not a readable tar archive: {' '.join(str(exc).split())}") from exc
    return entries


def open_tree(root: str, ask: t.Optional[t.Callable[[str, str], t.Optional[str]]] = None) -> Tree:
    """The tree of a root: a directory, a capture listing or a tar archive. TreeError for anything else.

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
            blob = stream.read(MAX_CAPTURE_BYTES + 1)
    except OSError as exc:
        raise TreeError(
            f"root '{root}' cannot be read: {exc.strerror} (expected a directory or a capture file)"
        ) from exc
    if len(blob) > MAX_CAPTURE_BYTES:
        raise TreeError(f"root '{root}' is larger than {MAX_CAPTURE_BYTES >> 20} MiB: this is not a capture")
    if blob.startswith(CAPTURE_HEADER.encode()):
        return MemoryTree(load_listing(blob.decode("utf-8", "surrogateescape"), root), root)
    return MemoryTree(load_archive(blob, root), root)

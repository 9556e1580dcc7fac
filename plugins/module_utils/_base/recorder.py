# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a capture is made: what somebody asked a tree, kept and written down. Private to the collection."""

from __future__ import annotations

import gzip
import io
import json
import posixpath
import tarfile
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import CAPTURE_HEADER, Entry
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import ANSWERS, Tree

__all__ = ["Recorder", "dump_archive", "dump_listing"]


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

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of several files that is done as a whole or undone, also when it is killed halfway. Private to the collection.

A journal is written first. It names the files, where the old ones are kept, and what the old and the new content are. Then
all that needs room is written (copies of the old files, the new ones under other names), so that a full disk is noticed
while nothing has changed yet. Then the new files take their places, one rename(2) each, in the order given. A journal that
is still there when the next run starts belongs to one that died: undo() puts every file back that is as that one left it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import typing as t

__all__ = ["Transaction", "TransactionError", "digest"]

Json = t.Dict[str, t.Any]

_VERSION = 1


class TransactionError(Exception):
    """A change that cannot be made or undone; the text is for the user."""


def digest(data: t.Optional[bytes]) -> t.Optional[str]:
    """What tells one content of a file from another; None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def _read(path: str) -> t.Optional[bytes]:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _sync_directory(path: str) -> None:
    # A rename is on the disk only when its directory is.
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: str, data: bytes, like: t.Optional[str] = None, mode: int = 0o644) -> None:
    """A new file, on the disk when this returns; owner, mode and labels of another one when that is given."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        if like is None:
            os.fchmod(stream.fileno(), mode)
        else:
            _like(like, path)
        os.fsync(stream.fileno())


def _like(source: str, target: str) -> None:
    status = os.stat(source)
    os.chown(target, status.st_uid, status.st_gid)
    # mode and extended attributes, of which SELinux' label is one; the times are those of now again afterwards
    shutil.copystat(source, target)
    os.utime(target)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


class Transaction:
    """The change that a journal describes; there is one at a time for each journal.

    step is called with a name after each thing that is on the disk: the places at which a process can be killed.
    """

    def __init__(self, directory: str, step: t.Callable[[str], None]) -> None:
        self._directory = directory
        self._journal = os.path.join(directory, "journal.json")
        self._record = os.path.join(directory, "last.json")
        self._step = step
        self._state: Json = {}

    def _load(self, path: str) -> Json:
        data = _read(path)
        if data is None:
            return {}
        try:
            state = json.loads(data.decode("utf-8"))
        except ValueError as exc:
            raise TransactionError("%s is not JSON: %s" % (path, exc)) from exc
        if not isinstance(state, dict) or state.get("version") != _VERSION:
            raise TransactionError(
                "%s is of another version of the collection; finish with that one, or compare the files it names with "
                "their backups and remove it" % path
            )
        return state

    def _save(self, path: str, state: Json) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        temporary = path + ".new"
        _write(temporary, (json.dumps({**state, "version": _VERSION}, indent=2) + "\n").encode("utf-8"), mode=0o600)
        os.replace(temporary, path)
        _sync_directory(self._directory)

    def unfinished(self) -> Json:
        """The note of a run that died before its end, with the key since; empty when there is none."""
        state = self._load(self._journal)
        return {**state["note"], "since": state["since"]} if state else {}

    def last(self) -> Json:
        """What the last change that was finished noted."""
        try:
            return self._load(self._record)
        except TransactionError:
            return {}

    def before(self) -> t.Dict[str, t.Optional[bytes]]:
        """The old content of the files of an unfinished change that undo() would put back, by path."""
        found: t.Dict[str, t.Optional[bytes]] = {}
        for entry in self._load(self._journal).get("files", []):
            if digest(_read(entry["path"])) == entry["after"]:
                found[entry["path"]] = _read(entry["backup"]) if entry["backup"] else None
        return found

    def begin(self, changes: t.Sequence[t.Tuple[str, bytes]], note: Json) -> None:
        """Writes the journal, the copies of the old files, and the new ones under other names. Nothing has changed then."""
        since = time.strftime("%Y-%m-%d@%H:%M:%S")
        kept = os.path.join(self._directory, "%s.%d" % (since.replace(":", ""), os.getpid()))
        entries: t.List[Json] = []
        for number, (path, data) in enumerate(changes):
            # a link stays a link: the file that it leads to is replaced
            real = os.path.realpath(path)
            old = _read(real)
            head, name = os.path.split(real)
            entries.append(
                {
                    "path": real,
                    "staged": os.path.join(head, ".fabric-rdma-%d-%d.tmp" % (os.getpid(), number)),
                    "backup": None if old is None else os.path.join(kept, "%d-%s" % (number, name)),
                    "before": digest(old),
                    "after": digest(data),
                    "made": self._missing(head),
                }
            )
        self._state = {"note": note, "since": since, "files": entries}
        self._save(self._journal, self._state)
        self._step("journal")
        os.makedirs(kept, mode=0o700, exist_ok=True)
        for entry, (_path, data) in zip(entries, changes):
            for made in entry["made"]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(made, 0o755)
            if entry["backup"]:
                _write(entry["backup"], _read(entry["path"]) or b"", like=entry["path"])
                shutil.copystat(entry["path"], entry["backup"])
            _write(entry["staged"], data, like=entry["path"] if entry["backup"] else None)
        self._step("staged")

    @staticmethod
    def _missing(directory: str) -> t.List[str]:
        missing: t.List[str] = []
        while not os.path.isdir(directory):
            missing.insert(0, directory)
            directory = os.path.dirname(directory)
        return missing

    def apply(self) -> None:
        """Puts the new files in their places, in their order."""
        for entry in self._state["files"]:
            if digest(_read(entry["path"])) != entry["before"]:
                raise TransactionError("%s was changed by somebody else in this moment" % entry["path"])
            os.replace(entry["staged"], entry["path"])
            _sync_directory(os.path.dirname(entry["path"]))
            self._step("written %s" % entry["path"])

    def backups(self) -> t.Dict[str, str]:
        """The copies of the old files of this change, by path."""
        return {entry["path"]: entry["backup"] for entry in self._state.get("files", []) if entry["backup"]}

    def undo(self) -> t.List[str]:
        """Puts the old files back; what was left alone, in sentences. The journal stays until finish()."""
        self._state = self._load(self._journal)
        left = []
        for entry in reversed(self._state.get("files", [])):
            path, current = entry["path"], digest(_read(entry["path"]))
            if current == entry["after"] and current != entry["before"]:
                if entry["backup"]:
                    data = _read(entry["backup"])
                    if digest(data) != entry["before"] or data is None:
                        raise TransactionError(
                            "%s cannot be put back: its copy %s is not the file it was" % (path, entry["backup"])
                        )
                    _write(entry["staged"], data, like=entry["backup"])
                    shutil.copystat(entry["backup"], entry["staged"])
                    os.replace(entry["staged"], path)
                else:
                    _unlink(path)
                _sync_directory(os.path.dirname(path))
            elif current != entry["before"]:
                left.append(
                    "%s was changed by somebody else since %s and stays as it is; the file from before is %s"
                    % (path, self._state["since"], entry["backup"] or "none")
                )
            _unlink(entry["staged"])
            for made in reversed(entry["made"]):
                # somebody else may have put something there
                with contextlib.suppress(OSError):
                    os.rmdir(made)
            self._step("restored %s" % path)
        return left

    def finish(self, record: t.Optional[Json] = None) -> None:
        """The end of a change or of its undoing: the journal goes. A record is kept for last()."""
        if record is not None:
            self._save(self._record, record)
        _unlink(self._journal)
        if os.path.isdir(self._directory):
            _sync_directory(self._directory)
        self._step("finished")

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
import json
import os
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import (
    make_directories,
    put,
    read,
    stage,
    sync_directory,
    unlink,
)

__all__ = ["Overtaken", "Transaction", "TransactionError"]

Json = t.Dict[str, t.Any]

_VERSION = 1
# What a note is called while it is written.
_UNFINISHED = ".new"


# Digest of files by real path, None for one that was not there.
Planned = t.Mapping[str, t.Optional[str]]


class TransactionError(FabricError):
    """A change that cannot be made or undone."""


class Overtaken(TransactionError):
    """Somebody else changed a file before anything was written."""


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
        data = read(path)
        if data is None:
            return {}
        try:
            state = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as exc:
            raise TransactionError(f"{path} is not JSON: {exc}") from exc
        if not isinstance(state, dict) or state.get("version") != _VERSION:
            raise TransactionError(
                f"{path} is of another version of the collection",
                "finish with that one, or compare the files it names with their backups and remove it",
            )
        return state

    def _save(self, path: str, state: Json) -> None:
        make_directories(self._directory, 0o700)
        temporary = path + _UNFINISHED
        data = (json.dumps({**state, "version": _VERSION}, indent=2) + "\n").encode("utf-8")
        try:
            stage(temporary, data, name=path, mode=0o600)
            put(temporary, path)
        except BaseException:
            unlink(temporary)
            raise

    def tidy(self) -> None:
        """Removes notes that a run was writing when it was killed: they never got their names, and say nothing."""
        for path in (self._journal + _UNFINISHED, self._record + _UNFINISHED):
            if os.path.lexists(path):
                unlink(path)

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

    def before(self) -> dict[str, t.Optional[bytes]]:
        """The old content of the files of an unfinished change that undo() would put back, by path."""
        found: dict[str, t.Optional[bytes]] = {}
        for entry in self._load(self._journal).get("files", []):
            if digest(read(entry["path"])) == entry["after"]:
                found[entry["path"]] = read(entry["backup"]) if entry["backup"] else None
        return found

    def begin(self, changes: t.Sequence[tuple[str, bytes]], note: Json, planned: Planned) -> None:
        """Writes the journal, the copies of the old files, and the new ones under other names. Nothing has changed then.

        planned: what the files were that the changes were made from, also those that are not changed themselves.
        Overtaken when one of them is not that any more.
        """
        since = time.strftime("%Y-%m-%d@%H:%M:%S")
        kept = os.path.join(self._directory, f"{since.replace(':', '')}.{os.getpid()}")
        entries: list[Json] = []
        old: dict[str, t.Optional[bytes]] = {}
        for path in sorted({*planned, *(os.path.realpath(path) for path, _data in changes)}):
            old[path] = read(path)
            if path in planned and digest(old[path]) != planned[path]:
                raise Overtaken(
                    f"{path} was changed by somebody else since it was read, and nothing was written", "run again"
                )
        for number, (path, data) in enumerate(changes):
            # a link stays a link: the file that it leads to is replaced
            real = os.path.realpath(path)
            head, name = os.path.split(real)
            entries.append(
                {
                    "path": real,
                    "staged": os.path.join(head, f".fabric-rdma-{os.getpid()}-{number}.tmp"),
                    "backup": None if old[real] is None else os.path.join(kept, f"{number}-{name}"),
                    "before": digest(old[real]),
                    "after": digest(data),
                    "made": self._missing(head),
                }
            )
        self._state = {"note": note, "since": since, "files": entries}
        self._save(self._journal, self._state)
        self._step("journal")
        make_directories(kept, 0o700)
        for entry, (_path, data) in zip(entries, changes):
            path = entry["path"]
            for made in entry["made"]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(made, 0o755)
                sync_directory(os.path.dirname(made))
            if entry["backup"]:
                self._copy(old[path] or b"", entry["backup"], like=path)
            stage(entry["staged"], data, name=path, like=path if entry["backup"] else None)
        # where the copies lie has to outlive a loss of power, as the journal that names them does
        sync_directory(kept)
        sync_directory(self._directory)
        self._step("staged")

    @staticmethod
    def _copy(data: bytes, target: str, like: str, name: t.Optional[str] = None) -> None:
        """A file with the time of another one, too: what is put back looks as if nothing had been."""
        stage(target, data, name=name, like=like)
        status = os.stat(like)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    @staticmethod
    def _missing(directory: str) -> list[str]:
        missing: list[str] = []
        while not os.path.isdir(directory):
            missing.insert(0, directory)
            directory = os.path.dirname(directory)
        return missing

    def apply(self) -> None:
        """Puts the new files in their places, in their order."""
        for entry in self._state["files"]:
            if digest(read(entry["path"])) != entry["before"]:
                raise TransactionError(f"{entry['path']} was changed by somebody else just now")
            put(entry["staged"], entry["path"])
            self._step(f"written {entry['path']}")

    def backups(self) -> dict[str, str]:
        """The copies of the old files of this change, by path."""
        return {entry["path"]: entry["backup"] for entry in self._state.get("files", []) if entry["backup"]}

    def undo(self) -> list[str]:
        """Puts the old files back; what was left alone, in sentences. The journal stays until finish()."""
        self._state = self._load(self._journal)
        left: list[str] = []
        theirs: list[bytes] = []
        for entry in reversed(self._state.get("files", [])):
            path, current = entry["path"], digest(read(entry["path"]))
            if current == entry["after"] and current != entry["before"]:
                if entry["backup"]:
                    data = read(entry["backup"])
                    if digest(data) != entry["before"] or data is None:
                        raise TransactionError(
                            f"{path} cannot be put back: its copy {entry['backup']} is not the file it was"
                        )
                    self._copy(data, entry["staged"], like=entry["backup"], name=path)
                    put(entry["staged"], path)
                elif any(path.encode("utf-8", "surrogateescape") in text for text in theirs):
                    # without it, what somebody else made of our file would be worse than before
                    left.append(f"{path} is new and stays, since that file names it")
                else:
                    unlink(path)
                    sync_directory(os.path.dirname(path))
            elif current != entry["before"]:
                theirs.append(read(path) or b"")
                left.append(
                    "{} was changed by somebody else since {} and stays as it is; the file from before is {}".format(
                        path, self._state["since"], entry["backup"] if self._is_copied(entry) else "none"
                    )
                )
            if entry["backup"] and current == entry["before"] and not self._is_copied(entry):
                # killed before it was written, or while that was done
                unlink(entry["backup"])
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.dirname(entry["backup"]))
            unlink(entry["staged"])
            for made in reversed(entry["made"]):
                # somebody else may have put something there
                with contextlib.suppress(OSError):
                    os.rmdir(made)
            self._step(f"restored {path}")
        return left

    @staticmethod
    def _is_copied(entry: Json) -> bool:
        """Whether the old file is kept, and is whole."""
        return entry["backup"] is not None and digest(read(entry["backup"])) == entry["before"]

    def finish(self, record: t.Optional[Json] = None) -> t.Optional[str]:
        """The end of a change or of its undoing: the journal goes. A record is kept for last(); why not, if it cannot be.

        The change is done when the journal is gone: a disk that is full by now must not have the next run take it back.
        """
        unlink(self._journal)
        if os.path.isdir(self._directory):
            sync_directory(self._directory)
        self._step("finished")
        if record is None:
            return None
        try:
            self._save(self._record, record)
        except OSError as exc:
            return f"{exc.filename}: {exc.strerror}"
        self._step("recorded")
        return None

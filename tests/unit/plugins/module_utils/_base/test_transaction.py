# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of several files: done as a whole, undone after a kill at any place, and after a disk that is full."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import transaction as _transaction
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.transaction import (
    Overtaken,
    Transaction,
    TransactionError,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.processes import (
    Ask,
    Killed,
    apart,
    killed_at_system_call,
    killed_before_change,
)

CHANGES = (
    ("etc/new.json", b"spec"),
    ("etc/config.toml", b"new"),
    ("etc/link.toml", b"changed"),
    ("etc/unit.d/a/drop.conf", b"drop"),
    ("etc/unit.d/a/drop2.conf", b"drop2"),
)


class Steps:
    """Counts the steps."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> None:
        self.names.append(name)


def tree(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a directory but our own notes: mode, and of a file time and content, by name."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            *((path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else ()),
        )
        for path in sorted(root.rglob("*"))
        if "state" not in path.parts
    }


def prepare(root: Path) -> None:
    """Two files that are there, one behind a link and one with a mode of its own, one new, one in a new directory."""
    (root / "etc").mkdir(parents=True)
    (root / "etc/config.toml").write_bytes(b"old")
    (root / "etc/config.toml").chmod(0o600)
    (root / "etc/real.toml").write_bytes(b"real")
    (root / "etc/link.toml").symlink_to("real.toml")
    for name in ("config.toml", "real.toml"):
        os.utime(root / "etc" / name, (1e9, 1e9))


def change(root: Path, steps: Callable[[str], None]) -> Transaction:
    transaction = Transaction(str(root / "state"), steps)
    transaction.begin([(str(root / name), data) for name, data in CHANGES], {"unit": "x"}, {})
    transaction.apply()
    return transaction


def test_a_change_from_begin_to_end(tmp_path: Path) -> None:
    prepare(tmp_path)
    steps = Steps()
    transaction = change(tmp_path, steps)
    assert {name: (tmp_path / name).read_bytes() for name, _data in CHANGES} == dict(CHANGES)
    assert (tmp_path / "etc/config.toml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "etc/new.json").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "etc/link.toml").is_symlink()
    assert {Path(path).name: Path(kept).read_bytes() for path, kept in transaction.backups().items()} == {
        "config.toml": b"old",
        "real.toml": b"real",
    }
    assert transaction.unfinished()["unit"] == "x"
    assert transaction.before() == {
        str(tmp_path / "etc/new.json"): None,
        str(tmp_path / "etc/config.toml"): b"old",
        str(tmp_path / "etc/real.toml"): b"real",
        str(tmp_path / "etc/unit.d/a/drop.conf"): None,
        str(tmp_path / "etc/unit.d/a/drop2.conf"): None,
    }
    transaction.finish({"kept": 1})
    assert (transaction.unfinished(), transaction.last()["kept"]) == ({}, 1)
    assert not list((tmp_path / "etc").rglob(".fabric*"))
    assert steps.names == [
        "journal",
        "staged",
        *(f"written {os.path.realpath(tmp_path / name)}" for name, _data in CHANGES),
        "finished",
        "recorded",
    ]


def interrupted(root: Path, last: str) -> None:
    """A change that is killed after it has written a file."""

    def step(ask: Ask) -> None:
        change(root, ask)

    def answer(name: str) -> None:
        if name == f"written {os.path.realpath(root / last)}":
            raise Killed

    with pytest.raises(Killed):
        apart(step, answer)


def undo(root: Path) -> None:
    transaction = Transaction(str(root / "state"), Steps())
    transaction.tidy()
    assert transaction.undo() == []
    transaction.finish()


def kept(root: Path) -> set[tuple[str, bytes]]:
    """The notes and copies that are there, without the names of the runs."""
    return {(path.name, path.read_bytes()) for path in (root / "state").rglob("*") if path.is_file()}


def kills(prepared: Callable[[int], Callable[[], object]]) -> Iterator[int]:
    """Work that is killed before its first change of the file system, before its second one, and so on, until it finishes."""
    for number in itertools.count(1):
        work = prepared(number)
        try:
            killed_before_change(number, work)
        except Killed:
            yield number
        else:
            return


def test_killed_anywhere_the_next_one_undoes_it(tmp_path: Path) -> None:
    """Before each change of the file system, and the undoing before each of its own."""

    def prepared(number: int) -> Callable[[], object]:
        root = tmp_path / str(number)
        prepare(root)
        return lambda: change(root, Steps()).finish({"kept": 1})

    prepare(tmp_path / "before")
    done, undone = [], []
    for number in kills(prepared):
        root = tmp_path / str(number)
        done.append((root / "etc/unit.d/a/drop2.conf").exists() and not (root / "state/journal.json").exists())
        undone.append(len(list(kills(lambda _second, root=root: lambda: undo(root)))))
        if done[-1]:
            assert {name: (root / name).read_bytes() for name, _data in CHANGES} == dict(CHANGES)
            assert not list(root.rglob(".fabric*"))
        else:
            assert tree(root) == tree(tmp_path / "before")
        assert kept(root) - {("last.json", b'{\n  "kept": 1,\n  "version": 1\n}\n')} <= {
            ("1-config.toml", b"old"),
            ("2-real.toml", b"real"),
        }
    # once the journal is gone, all that is left to do is to note what was done
    assert done == sorted(done)
    assert 0 < sum(done) < 10
    assert (len(done) > 40, max(undone) > 10) == (True, True)


def whole(root: Path) -> bool:
    """Whether a change is done, with nothing left of it; else everything is as it was, with nothing beside it."""
    done = (root / "etc/unit.d/a/drop2.conf").exists()
    if done:
        assert {name: (root / name).read_bytes() for name, _data in CHANGES} == dict(CHANGES)
        assert not list(root.rglob(".fabric*"))
    return done


@pytest.mark.parts
def test_killed_at_any_system_call_the_next_one_undoes_it(tmp_path: Path) -> None:
    """Also between two calls that one function of Python makes, such as those that open, write and sync a file."""
    prepare(tmp_path / "before")
    done = []
    for number in itertools.count(1):
        root = tmp_path / str(number)
        prepare(root)
        if not killed_at_system_call(number, lambda root=root: change(root, Steps()).finish({"kept": 1})):
            break
        undo(root)
        done.append(whole(root))
        if not done[-1]:
            assert tree(root) == tree(tmp_path / "before")
    assert done == sorted(done)
    assert len(done) > 200
    assert 0 < sum(done) < 50


@pytest.mark.parts
@pytest.mark.parametrize("last", ["etc/config.toml", "etc/unit.d/a/drop2.conf"])
def test_an_undoing_that_is_killed_at_any_system_call_is_completed(tmp_path: Path, last: str) -> None:
    prepare(tmp_path / "before")
    for number in itertools.count(1):
        root = tmp_path / str(number)
        prepare(root)
        interrupted(root, last)
        killed = killed_at_system_call(number, lambda root=root: undo(root))
        if killed:
            undo(root)
        assert tree(root) == tree(tmp_path / "before")
        if not killed:
            break
    assert number > 80


def test_what_a_change_needs_to_be_undone_is_on_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power that is lost then leaves the journal, the directory that it names, and the copies there."""
    prepare(tmp_path)
    synced: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        real_sync(handle)
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))

    def rename(old: str, new: str) -> None:
        if not new.startswith(str(tmp_path / "state")):
            synced.append("changed")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    copies = change(tmp_path, Steps()).backups().values()
    before = {Path(path) for path in synced[: synced.index("changed")]}
    (kept,) = {Path(copy).parent for copy in copies}
    assert {tmp_path, tmp_path / "state", kept, *map(Path, copies)} <= before
    # the directory after the last of what is in it
    last = {path: max(index for index, each in enumerate(synced) if each == str(path)) for path in (kept, *copies)}
    assert last[kept] == max(last.values())


def test_only_a_whole_copy_is_named(tmp_path: Path) -> None:
    """Killed before each change of the file system; then somebody else edits a file, and is told where the one from before is."""

    def prepared(number: int) -> Callable[[], object]:
        root = tmp_path / str(number)
        prepare(root)
        return lambda: change(root, Steps())

    named = set()
    for number in kills(prepared):
        root = tmp_path / str(number)
        (root / "etc/config.toml").write_bytes(b"theirs")
        for said in Transaction(str(root / "state"), Steps()).undo():
            copy = said.rpartition(" ")[2]
            named.add(copy != "none")
            assert copy == "none" or Path(copy).read_bytes() == b"old"
        assert (root / "etc/config.toml").read_bytes() == b"theirs"
    assert named == {False, True}


def test_what_somebody_else_wrote_meanwhile_stays(tmp_path: Path) -> None:
    prepare(tmp_path)
    interrupted(tmp_path, "etc/link.toml")
    (tmp_path / "etc/config.toml").write_bytes(b"theirs")
    left = Transaction(str(tmp_path / "state"), Steps()).undo()
    assert len(left) == 1
    assert left[0].startswith(f"{tmp_path}/etc/config.toml was changed by somebody else since ")
    assert Path(left[0].rpartition(" ")[2]).read_bytes() == b"old"
    assert (tmp_path / "etc/config.toml").read_bytes() == b"theirs"
    assert (tmp_path / "etc/real.toml").read_bytes() == b"real"
    assert not (tmp_path / "etc/new.json").exists()


def test_a_file_that_changes_before_it_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path)
    transaction = Transaction(str(tmp_path / "state"), Steps())
    transaction.begin([(str(tmp_path / "etc/config.toml"), b"new")], {}, {})
    (tmp_path / "etc/config.toml").write_bytes(b"theirs")
    with pytest.raises(TransactionError, match="changed by somebody else just now"):
        transaction.apply()
    transaction.undo()
    assert (tmp_path / "etc/config.toml").read_bytes() == b"theirs"


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_full_disk_is_noticed_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    prepare(tmp_path)
    before = tree(tmp_path)
    calls = 0
    real = _transaction.stage

    def stage(path: str, data: bytes, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            real(path, data[:1], **more)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        real(path, data, **more)

    monkeypatch.setattr(_transaction, "stage", stage)
    with pytest.raises(OSError, match="No space left"):
        change(tmp_path, Steps())
    monkeypatch.undo()
    assert {
        name: kept for name, kept in tree(tmp_path).items() if "fabric" not in name and "unit.d" not in name
    } == before
    transaction = Transaction(str(tmp_path / "state"), Steps())
    assert transaction.undo() == []
    transaction.finish()
    assert tree(tmp_path) == before


def test_notes_that_cannot_be_used(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "journal.json").write_text("{")
    with pytest.raises(TransactionError, match=r"journal\.json is not JSON"):
        Transaction(str(state), Steps()).unfinished()
    (state / "journal.json").write_text('{"version": 9}')
    with pytest.raises(TransactionError, match="another version of the collection"):
        Transaction(str(state), Steps()).unfinished()
    (state / "last.json").write_text("[")
    assert Transaction(str(state), Steps()).last() == {}


@pytest.mark.parametrize("name", ["etc/config.toml", "etc/real.toml", "etc/new.json", "etc/imported.toml"])
def test_what_changed_since_it_was_read_is_not_overwritten(tmp_path: Path, name: str) -> None:
    """Also a file that is not to be changed, and one that was not there when the plan was made."""
    prepare(tmp_path)
    paths = [tmp_path / one for one in ("etc/config.toml", "etc/real.toml", "etc/new.json", "etc/imported.toml")]
    planned = {str(path): digest(path.read_bytes() if path.exists() else None) for path in paths}
    (tmp_path / name).write_bytes(b"theirs")
    before = tree(tmp_path)
    transaction = Transaction(str(tmp_path / "state"), Steps())
    with pytest.raises(
        Overtaken, match=r"was changed by somebody else since it was read, and nothing was written"
    ) as error:
        transaction.begin([(str(tmp_path / one), data) for one, data in CHANGES], {}, planned)
    assert str(error.value).startswith(str(tmp_path / name))
    assert tree(tmp_path) == before
    assert transaction.unfinished() == {}


def test_a_new_file_that_their_edit_names_stays(tmp_path: Path) -> None:
    """Somebody adds a comment to what we wrote, and our change is taken back: their file must not name one that is gone."""
    prepare(tmp_path)
    interrupted(tmp_path, "etc/link.toml")
    (tmp_path / "etc/config.toml").write_text(f"spec = '{tmp_path}/etc/new.json' # theirs\n")
    left = Transaction(str(tmp_path / "state"), Steps()).undo()
    assert left[1:] == [f"{tmp_path}/etc/new.json is new and stays, since that file names it"]
    assert (tmp_path / "etc/new.json").read_bytes() == b"spec"


def test_a_disk_that_is_full_at_the_very_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is done: the next run does not take it back."""
    prepare(tmp_path)
    transaction = change(tmp_path, Steps())

    def full(path: str, data: bytes, **more: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), more["name"])

    monkeypatch.setattr(_transaction, "stage", full)
    assert transaction.finish({"kept": 1}) == f"{tmp_path}/state/last.json: No space left on device"
    assert Transaction(str(tmp_path / "state"), Steps()).unfinished() == {}
    assert (tmp_path / "etc/config.toml").read_bytes() == b"new"


def test_a_copy_that_was_damaged_is_not_put_back(tmp_path: Path) -> None:
    prepare(tmp_path)
    transaction = change(tmp_path, Steps())
    kept = transaction.backups()[str(tmp_path / "etc/config.toml")]
    Path(kept).write_bytes(b"o")
    with pytest.raises(TransactionError, match=r"cannot be put back: its copy .* is not the file it was"):
        transaction.undo()

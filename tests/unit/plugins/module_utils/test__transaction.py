# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of several files: done as a whole, undone after a kill at any place, and after a disk that is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils import _transaction
from ansible_collections.fabric.rdma.plugins.module_utils._files import digest
from ansible_collections.fabric.rdma.plugins.module_utils._transaction import Overtaken, Transaction, TransactionError

CHANGES = (
    ("etc/new.json", b"spec"),
    ("etc/config.toml", b"new"),
    ("etc/link.toml", b"changed"),
    ("etc/unit.d/a/drop.conf", b"drop"),
    ("etc/unit.d/a/drop2.conf", b"drop2"),
)


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Steps:
    """Counts the steps, and kills at one of them."""

    def __init__(self, last: int | None = None) -> None:
        self.names: list[str] = []
        self.last = last

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if self.last == len(self.names):
            raise Killed


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory but our own notes: mode and content by name."""
    return {
        str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
        if "state" not in path.parts
    }


def prepare(root: Path) -> None:
    """Two files that are there, one behind a link and one with a mode of its own, one new, one in a new directory."""
    (root / "etc").mkdir()
    (root / "etc/config.toml").write_bytes(b"old")
    (root / "etc/config.toml").chmod(0o600)
    (root / "etc/real.toml").write_bytes(b"real")
    (root / "etc/link.toml").symlink_to("real.toml")


def change(root: Path, steps: Steps) -> Transaction:
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


def test_killed_anywhere_the_next_one_undoes_it(tmp_path: Path) -> None:
    count = 0
    for number in range(1, 20):
        root = tmp_path / str(number)
        root.mkdir()
        prepare(root)
        before = tree(root)
        modified = (root / "etc/config.toml").stat().st_mtime
        try:
            change(root, Steps(number)).finish()
        except Killed:
            count += 1
        else:
            break
        # and the undoing is killed in each place, too
        for second in range(1, 20):
            transaction = Transaction(str(root / "state"), Steps(second))
            try:
                assert transaction.undo() == []
                transaction.finish()
            except Killed:
                continue
            break
        if number == 8:
            # it had come to its end already
            assert (root / "etc/config.toml").read_bytes() == b"new"
        else:
            assert tree(root) == before
            assert (root / "etc/config.toml").stat().st_mtime == modified
        assert Transaction(str(root / "state"), Steps()).unfinished() == {}
    # journal, staged, five files, finished
    assert count == 8


def test_what_somebody_else_wrote_meanwhile_stays(tmp_path: Path) -> None:
    prepare(tmp_path)
    with pytest.raises(Killed):
        change(tmp_path, Steps(5))
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
    with pytest.raises(TransactionError, match="changed by somebody else in this moment"):
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
    with pytest.raises(Killed):
        change(tmp_path, Steps(5))
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

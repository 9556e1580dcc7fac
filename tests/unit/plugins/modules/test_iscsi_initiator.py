# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iscsi_initiator as a process: missing, ordered, taken and good names; open sessions; with and without check mode."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

PREFIX = "iqn.1993-08.org.debian:01"
NAME = f"{PREFIX}:a1b2c3d4e5f6"
GOOD = f"# kept\nInitiatorName={NAME}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "iscsi" / "initiatorname.iscsi"


def call(path: Path, check: bool = False, **arguments: Any) -> dict[str, Any]:
    sessions = str(path.parent.parent / "sessions")
    return run("iscsi_initiator", check, path=str(path), sessions=sessions, prefix=PREFIX, **arguments)


def prepared(path: Path, text: str | None) -> None:
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
        path.chmod(0o640)


@pytest.mark.parametrize(
    ("text", "taken", "reason"),
    [
        (None, [], "the file is missing"),
        ("# nothing\n", [], "the file has no InitiatorName"),
        ("GenerateName=yes\n", [], "the file has no InitiatorName"),
        (f"{GOOD}GenerateName=yes\n", [], "the file orders a new name with GenerateName=yes"),
        (GOOD, [NAME.upper()], "another host has this name, too"),
    ],
)
def test_a_missing_or_taken_name_is_replaced(path: Path, text: str | None, taken: list[str], reason: str) -> None:
    prepared(path, text)
    predicted = call(path, True, taken=taken)
    assert (predicted["changed"], predicted["name"], predicted["reason"]) == (True, PREFIX, reason)
    assert predicted["diff"]["after"] == f"InitiatorName={PREFIX}:...\n"
    lines = (text or "").splitlines(keepends=True)
    assert predicted["diff"]["before"] == "".join(sorted(line for line in lines if not line.startswith("#")))
    assert (path.read_text() if path.exists() else None) == text

    result = call(path, taken=taken)
    name = result["name"]
    assert (result["changed"], result["reason"], result["previous"]) == (True, reason, predicted["previous"])
    assert re.fullmatch(re.escape(PREFIX) + ":[0-9a-f]{12}", name)
    assert name != NAME
    assert f"InitiatorName={name}\n" in path.read_text()
    assert "GenerateName" not in path.read_text()
    assert path.stat().st_mode & 0o777 == (0o600 if text is None else 0o640)
    if text is not None:
        assert Path(result["backup_file"]).read_text() == text
    assert not [entry for entry in os.listdir(path.parent) if entry.startswith(".iscsi")]

    again = call(path, taken=taken)
    assert (again["changed"], again["name"], again["reason"]) == (False, name, None)


def test_an_order_of_a_new_name_is_taken_back_where_the_name_is_right(path: Path) -> None:
    prepared(path, f"{GOOD}GenerateName=yes\n")
    for check in (True, False):
        result = call(path, check, name=NAME)
        assert (result["changed"], result["name"]) == (True, NAME)
        assert result["diff"]["before"] == f"GenerateName=yes\n{result['diff']['after']}"
    assert call(path, name=NAME)["changed"] is False


def test_a_good_name_is_kept_also_with_sessions(path: Path, tmp_path: Path) -> None:
    prepared(path, GOOD)
    (tmp_path / "sessions" / "session1").mkdir(parents=True)
    result = call(path, taken=["iqn.2000-01.x:1"])
    assert (result["changed"], result["name"], path.read_text()) == (False, NAME, GOOD)


@pytest.mark.parametrize("check", [True, False])
def test_open_sessions_keep_the_name(path: Path, tmp_path: Path, check: bool) -> None:
    prepared(path, GOOD)
    session = tmp_path / "sessions" / "session1"
    session.mkdir(parents=True)
    (session / "targetname").write_text("iqn.2019-10.io.longhorn:pvc-1\n")
    result = call(path, check, taken=[NAME])
    assert result["msg"] == (
        f"{path}: the name has to change (another host has this name, too), but iSCSI sessions are open: "
        "iqn.2019-10.io.longhorn:pvc-1. Close them (drain the node, detach its volumes, `iscsiadm -m session` must be empty), "
        "then run again"
    )
    assert path.read_text() == GOOD


@pytest.mark.parametrize("sessions", [False, True])
def test_a_restart_that_is_due_is_noted_where_the_name_changes(path: Path, tmp_path: Path, sessions: bool) -> None:
    prepared(path, GOOD)
    note = tmp_path / "run" / "iscsid.restart"
    assert not call(path, note=str(note))["changed"]
    if sessions:
        (tmp_path / "sessions" / "session1").mkdir(parents=True)
    call(path, True, taken=[NAME], note=str(note))
    assert not note.exists()
    call(path, taken=[NAME], note=str(note))
    assert note.exists() is not sessions


def test_it_is_noted_before_the_name_changes(path: Path, tmp_path: Path) -> None:
    """A run that ends between the two leaves a restart too much, never one too few."""
    prepared(path, GOOD)
    note = tmp_path / "run" / "iscsid.restart"
    # it cannot be written
    note.mkdir(parents=True)
    assert str(note) in call(path, taken=[NAME], note=str(note))["msg"]
    assert path.read_text() == GOOD


def test_a_name_that_is_asked_for(path: Path) -> None:
    prepared(path, GOOD)
    wish = "iqn.2000-01.x:9"
    assert call(path, name=wish)["reason"] == "another name is asked for"
    assert path.read_text() == f"# kept\nInitiatorName={wish}\n"
    assert call(path, name=wish.upper())["changed"] is False
    assert "another host has it" in call(path, name=wish, taken=[wish])["msg"]
    assert "is not the name of an iSCSI initiator" in call(path, name="node 1")["msg"]


def test_a_file_that_cannot_be_written(path: Path) -> None:
    path.parent.write_text("a file where the directory should be")
    assert str(path.parent) in call(path)["msg"]

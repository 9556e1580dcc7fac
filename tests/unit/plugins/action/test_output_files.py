# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""output_files as a task: files of the controller, each whole or not at all, and nothing of them in a result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.fabric.rdma.plugins.action import output_files
from ansible_collections.fabric.rdma.plugins.action.output_files import ActionModule
from ansible_collections.fabric.rdma.plugins.filter.rdma_json import rdma_json
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import summary
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import stage
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import content, differs, insist_on_return


def act(check: bool = False, diff: bool = True, **arguments: Any) -> dict[str, Any]:
    task = SimpleNamespace(async_val=0, check_mode=check, diff=diff, action="fabric.rdma.output_files", args=arguments)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
    return ActionModule(task, connection, SimpleNamespace(), None, None, None).run(task_vars={})


def test_files_come_as_predicted(tmp_path: Path) -> None:
    """A check changes nothing, a second run has nothing to do, and the difference is there exactly when something changes."""
    files = {"plan.json": "{}\n", "group/objects.yaml": "kind: DaemonSet\n"}

    def call(check: bool = False, **arguments: Any) -> dict[str, Any]:
        kept = content(tmp_path)
        result = act(check, directory=str(tmp_path / "out"), **arguments)
        assert not check or content(tmp_path) == kept
        insist_on_return("output_files", result)
        assert differs(result.get("diff")) is result["changed"]
        return result

    predicted = call(True, files=files, header="# ours\n")
    made = call(files=files, header="# ours\n")
    assert (made["written"], made["diff"]) == (["group/objects.yaml", "plan.json"], predicted["diff"])
    assert made["written"] == predicted["written"]
    assert (tmp_path / "out" / "group" / "objects.yaml").read_text() == "# ours\nkind: DaemonSet\n"
    assert (tmp_path / "out" / "plan.json").stat().st_mode & 0o777 == 0o644
    for check in (True, False):
        assert call(check, files=files, header="# ours\n")["changed"] is False
    changed = call(files={**files, "plan.json": "[]\n"}, header="# ours\n")
    assert changed["written"] == ["plan.json"]
    # no text is in the result but in its difference, and nothing is left beside the files
    assert "[]" not in json.dumps({**changed, "diff": None})
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["group", "objects.yaml", "plan.json"]


def test_jobs_in_containers_of_their_own_may_have_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that two of them write is whole, of one or the other."""
    seen = []

    def staged(temporary: str, data: bytes, **rest: Any) -> None:
        seen.append(temporary)
        stage(temporary, data, **rest)

    monkeypatch.setattr(output_files, "stage", staged)
    monkeypatch.setattr(output_files.os, "getpid", lambda: 7)
    for text in ("a", "b"):
        act(directory=str(tmp_path), files={"facts.json": text})
    assert len(set(seen)) == 2


def test_the_mode_of_a_file_is_seen_to(tmp_path: Path) -> None:
    """Also of one that has the text already, and that of a new text before anybody can read it."""
    path = tmp_path / "values.yaml"
    path.write_text("password: x\n")
    path.chmod(0o644)
    for text in ("password: x\n", "password: y\n"):
        path.chmod(0o644)
        predicted = act(True, True, directory=str(tmp_path), files={path.name: text}, mode="0600")
        (shown,) = predicted["diff"]
        same = text == path.read_text()
        assert predicted["changed"] is True
        assert (shown["before"], shown["after"]) == (
            ("mode 0644\n", "mode 0600\n") if same else ("password: x\n", "password: y\n")
        )
        assert path.stat().st_mode & 0o777 == 0o644
        result = act(directory=str(tmp_path), files={path.name: text}, mode="0600", diff=False)
        assert (result["changed"], "diff" in result) == (True, False)
        assert (path.read_text(), path.stat().st_mode & 0o777) == (text, 0o600)


def test_directories_of_a_run_let_others_through(tmp_path: Path) -> None:
    """Whatever the umask is: a web server shows the page as a user of its own. One that is there keeps its mode."""
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)
    before = os.umask(0o077)
    try:
        for name in ("private", "shared"):
            act(directory=str(tmp_path / name), files={"plan/a/page.txt": "text"})
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*")}
    assert modes == {
        "private": 0o700,
        "private/plan": 0o755,
        "private/plan/a": 0o755,
        "private/plan/a/page.txt": 0o644,
        "shared": 0o2775,
        "shared/plan": 0o2755,
        "shared/plan/a": 0o2755,
        "shared/plan/a/page.txt": 0o644,
    }


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to("elsewhere/report.html")
    (tmp_path / "elsewhere" / "report.html").write_text("old")
    assert act(directory=str(tmp_path), files={link.name: "new"})["changed"] is True
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "report.html").read_text() == "new"


@pytest.mark.parametrize(
    ("text", "data"),
    [("a\udcffb", b"a\xffb"), ("a\ud800b", b"a?b"), ("\ud83d\ude00", b"??")],
    ids=["byte", "half", "two halves"],
)
def test_what_a_node_says_can_be_written(tmp_path: Path, text: str, data: bytes) -> None:
    """JSON can name half a character of UTF-16: one host's log would cost the report of all."""
    assert act(directory=str(tmp_path), files={"log.txt": text})["changed"] is True
    assert (tmp_path / "log.txt").read_bytes() == data
    assert act(directory=str(tmp_path), files={"log.txt": text})["changed"] is False


def test_a_file_is_larger_than_what_is_shown(tmp_path: Path) -> None:
    """As the facts of thousands of nodes are."""
    text = "x" * (17 << 20)
    assert act(directory=str(tmp_path), files={"facts.json": "old"})["changed"] is True
    (difference,) = act(directory=str(tmp_path), files={"facts.json": text})["diff"]
    assert difference["after"] == summary(text.encode())
    assert (tmp_path / "facts.json").stat().st_size == len(text)
    assert act(directory=str(tmp_path), files={"facts.json": text})["changed"] is False
    # one of the same size
    (difference,) = act(directory=str(tmp_path), files={"facts.json": text[:-1] + "y"})["diff"]
    assert difference["before"] != difference["after"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"files": {"../x": "text"}}, "'../x' is not a path below "),
        ({"files": {"/etc/x": "text"}}, "'/etc/x' is not a path below "),
        ({"files": {"a//b": "text"}}, "'a//b' is not a path below "),
        ({"files": {"x": 1}}, "x is to hold int; expected a text"),
        ({"files": ["x"]}, "files is list; expected a dictionary"),
        ({"directory": ""}, "directory is ''; expected a path"),
        ({"mode": "rw"}, "mode is 'rw'; expected an octal number"),
        ({"file": "x"}, "output_files has the options directory, files, header, mode, and was given file"),
    ],
)
def test_what_makes_no_sense_writes_nothing(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleActionFail, match=words):
        act(**{"directory": str(tmp_path / "out"), "files": {"good": "text"}, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the directory should be")
    result = act(directory=str(tmp_path / "out"), files={"plan.json": "{}"})
    assert result["failed"] is True
    assert result["msg"].startswith(f"{tmp_path / 'out'}")
    (tmp_path / "plan.json").mkdir()
    result = act(directory=str(tmp_path), files={"plan.json": "{}"})
    assert (result["failed"], result["msg"]) == (True, f"{tmp_path / 'plan.json'}: Is a directory")


def test_a_directory_is_relative_to_where_ansible_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert act(directory="out", files={"plan.json": "{}"})["changed"] is True
    assert os.listdir("out") == ["plan.json"]


def test_the_examples_write_what_they_say(tmp_path: Path) -> None:
    def call(_module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return act(**{**arguments, "directory": str(tmp_path)})

    (made,) = run_examples("output_files", call, {"fabric.rdma.rdma_json": rdma_json}, plan_result={"schema": 1})
    assert made["written"] == ["notes/README", "plan.json"]
    assert (tmp_path / "plan.json").read_text() == '{\n  "schema": 1\n}\n'

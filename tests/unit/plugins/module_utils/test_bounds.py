# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read has bounds: a pipe keeps nobody waiting, a large file fills no memory, deep JSON is an error and no traceback."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import files as _files
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.remembered import RememberedError, recall
from ansible_collections.fabric.rdma.plugins.module_utils._base.transaction import Transaction, TransactionError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import _object
from ansible_collections.fabric.rdma.plugins.module_utils._discover.runtime import _running
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_check import failed_build
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import _unfolded
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import _same_config
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run import _state
from ansible_collections.fabric.rdma.plugins.modules import capture, node_change
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    ViewError,
    found_departures,
    merged_facts,
    merged_plan,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import a_plan

DEEP = "[" * 200_000


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A read that never returns is a failure, and not a run that never ends."""

    def late(_number: int, _frame: object) -> None:
        pytest.fail("still waiting after a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("reader", "error", "message"),
    [
        (_files.read, OSError, "Is not a regular file: '{}'"),
        (node_change.read, OSError, "Is not a regular file: '{}'"),
        (capture.read_or_none, OSError, "Is not a regular file: '{}'"),
        (recall, RememberedError, "{} is damaged (Is not a regular file); look at it and remove it"),
    ],
)
def test_a_pipe_keeps_nobody_waiting(
    reader: Callable[[str], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(error, match=re.escape(message.format(path)) + "$"):
        reader(str(path))


def test_a_pipe_in_the_place_of_a_log_is_no_log(tmp_path: Path) -> None:
    build = tmp_path / "var" / "lib" / "dkms" / "n" / "1" / "build"
    build.mkdir(parents=True)
    os.mkfifo(build / "make.log")
    assert failed_build(open_tree(str(tmp_path)), [("n", "1")]) is None


@pytest.mark.parametrize("name", ["plan.json", "facts.json"])
def test_a_pipe_in_the_place_of_what_an_earlier_run_left(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ViewError, match=f"^{re.escape(str(tmp_path / name))} cannot be read .*Is not a regular file"):
        found_departures(str(tmp_path), {}, [], [], {})


@pytest.mark.parametrize("reader", [_files.read, node_change.read])
def test_a_large_file_fills_no_memory(reader: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "large"
    with open(path, "wb") as handle:
        handle.truncate((16 << 20) + 1)
    with pytest.raises(OSError, match=re.escape(f"Is larger than 16 MiB: '{path}'")):
        reader(str(path))
    os.truncate(path, 16 << 20)
    assert len(reader(str(path))) == 16 << 20


def test_deep_json_of_an_earlier_run_is_an_error_with_its_path(tmp_path: Path) -> None:
    for name in ("plan.json", "facts.json"):
        (tmp_path / name).write_text(DEEP)
    message = "cannot be read as the {} of an earlier run (it is nested too deeply)"
    plan = re.escape(f"{tmp_path}/plan.json " + message.format("plan"))
    with pytest.raises(ViewError, match=plan):
        found_departures(str(tmp_path), {}, [], [], {})
    with pytest.raises(ViewError, match=plan):
        merged_plan(a_plan(), str(tmp_path / "plan.json"), [])
    with pytest.raises(ViewError, match=re.escape(f"{tmp_path}/facts.json " + message.format("facts"))):
        merged_facts({}, str(tmp_path / "facts.json"))


def test_deep_json_on_a_node_is_an_error_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text(DEEP)
    with pytest.raises(TransactionError, match=r"journal\.json is not JSON"):
        Transaction(str(tmp_path), lambda _step: None).unfinished()
    (tmp_path / "servers.json").write_text(DEEP)
    assert _state(str(tmp_path)) == {"boot": "", "servers": []}
    assert _object(DEEP) == {}
    assert _unfolded(DEEP) == DEEP
    assert _same_config(DEEP, DEEP)
    assert not _same_config(DEEP, "{}")
    assert _running(MemoryTree({"/.answers/cri/x": Entry("f", DEEP.encode())}), "/x") is None

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are waited for: those that will never answer are given up, with what they said last."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import state
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import wait_until_ready


@pytest.mark.parametrize(
    ("pid", "console", "timeout", "message"),
    [
        (None, "starting", 60, "its process ended"),
        (1, "Kernel panic - not syncing", 60, "its kernel panicked"),
        (1, "lab: lab1 is not set up: insmod: ERROR\r\nmore", 60, "it cannot be set up: insmod: ERROR"),
        (1, "starting", 0, r"no answer over SSH within 0 s \(boot_timeout; last: the node is not set up yet\)"),
    ],
)
def test_a_node_that_will_not_answer_is_given_up_with_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int | None, console: str, timeout: float, message: str
) -> None:
    (tmp_path / "lab1").mkdir()
    (tmp_path / "lab1" / "console.log").write_text(console)
    monkeypatch.setattr(LabDirectory, "pid", lambda _self, _name: pid)
    said = console.splitlines()[0]
    with pytest.raises(LabError, match=rf"^lab1 did not come up with tcg: {message}\. Last lines .*:\n{said}"):
        wait_until_ready(LabDirectory(str(tmp_path)), ["lab1"], "tcg", timeout, pytest.fail, lambda: None)


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "free_mib", lambda _path: 3)
    text = LabDirectory(str(tmp_path)).epitaph("lab1", "its process ended", "tcg")
    assert text.startswith(f"lab1 did not come up with tcg: its process ended; only 3 MiB are free in {tmp_path}. Last")


def test_waiting_ends_with_the_caller(tmp_path: Path) -> None:
    def gone() -> None:
        raise LabError("gone")

    with pytest.raises(LabError, match="gone"):
        wait_until_ready(LabDirectory(str(tmp_path)), ["lab1"], "tcg", 60, pytest.fail, gone)

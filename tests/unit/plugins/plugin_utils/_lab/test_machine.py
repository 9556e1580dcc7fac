# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs and locks."""

from __future__ import annotations

import errno
import re
import shutil
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import machine
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    TOOL_PACKAGES,
    LabError,
    free_mib,
    locked,
    require_tools,
    room,
)

ROOT = Path(__file__).resolve().parents[5]


def bindep(profile: str) -> set[str]:
    """The packages of a profile."""
    text = (ROOT / "bindep.txt").read_text()
    return {name for name, words in re.findall(r"^(\S+) \[(.*)\]$", text, re.M) if profile in words.split()}


def test_bindep_names_the_same_packages() -> None:
    assert bindep("lab") == set(TOOL_PACKAGES.values())


@pytest.mark.parametrize("program", ["mke2fs", "qemu-img", "qemu-system-x86_64", "ssh-keygen"])
def test_what_these_tests_run_is_installed_for_them(program: str) -> None:
    assert TOOL_PACKAGES[program] in bindep("test")


def test_no_room_in_the_cache_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = str(tmp_path / "cache")
    monkeypatch.setattr(machine, "free_mib", lambda _path: 3)
    full = f"[Errno 28] No space left on device: '{cache}/building-x/disk'"
    said = "It takes 7 MiB; 3 MiB were free: make room, or name another directory (lab_cache_dir)"
    with pytest.raises(LabError) as failed, room("the image", cache, "7 MiB"):
        raise OSError(errno.ENOSPC, "No space left on device", f"{cache}/building-x/disk")
    assert str(failed.value) == f"the image cannot be built in {cache}: {full}. {said}"
    with pytest.raises(LabError) as failed, room("the image", cache, "7 MiB"):
        raise LabError("mke2fs ended with 1: No space left on device", "ask somebody")
    assert failed.value.remedy == f"It takes 7 MiB of {cache}; 3 MiB were free there: make room"
    with pytest.raises(LabError) as failed, room("the image", cache, "7 MiB"):
        raise LabError("no network", "ask somebody")
    assert failed.value.remedy == "ask somebody"


def test_free_space_is_that_of_the_nearest_directory(tmp_path: Path) -> None:
    """Also where the directory is still to be made."""
    assert free_mib(str(tmp_path / "a" / "b")) == pytest.approx(shutil.disk_usage(tmp_path).free >> 20, abs=2000)


def test_missing_tools_gives_the_line_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"sudo apt-get install --yes openssh-client qemu-utils$"):
        require_tools(["ssh", "ssh-keygen", "qemu-img"])


def test_lock_lets_one_in_at_a_time_even_when_its_file_is_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "deep/lock")
    inside: list[int] = []
    most: list[int] = []
    told: list[str] = []

    def enter(number: int) -> None:
        with locked(path, told.append, lambda: None, "test"):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.1)
            inside.remove(number)
            if number == 0:
                Path(path).unlink()

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(30))
    assert most == [1, 1, 1]
    assert all("another process holds" in line for line in told)


def test_waiting_for_a_lock_ends_with_the_caller(tmp_path: Path) -> None:
    def gone() -> None:
        raise LabError("gone")

    path = str(tmp_path / "lock")
    first = locked(path, pytest.fail, lambda: None, "test")
    with first, pytest.raises(LabError, match="gone"), locked(path, pytest.fail, gone, "test"):
        pytest.fail("two at a time")

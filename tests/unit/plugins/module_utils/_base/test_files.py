# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one writer of files, killed wherever the kernel can see it. What modules make of it: tests/unit/plugins/modules/test_writers.py."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.files import back_up, replace
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.processes import killed_at_system_call


def test_what_a_living_process_writes_is_left_to_it(tmp_path: Path) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    theirs, left = (tmp_path / f".fabric-rdma-{number}.tmp" for number in (os.getppid(), ended.pid))
    for path in (theirs, left):
        path.write_bytes(b"half")
    replace(str(tmp_path / "x"), b"x", None)
    assert {each.name for each in tmp_path.iterdir()} == {"x", theirs.name}


@pytest.mark.parts
def test_killed_at_any_system_call_a_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    """And so is its copy whole, or not there under its name; the next writer removes what is half."""
    found = []
    for number in itertools.count(1):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "x.conf"
        path.write_bytes(b"old" * 10_000)
        path.chmod(0o640)

        def work(path: Path = path) -> None:
            back_up(str(path), b"old" * 10_000)
            replace(str(path), b"new" * 10_000, b"old" * 10_000)

        killed = killed_at_system_call(number, work)
        found.append(path.read_bytes())
        assert found[-1] in (b"old" * 10_000, b"new" * 10_000)
        assert path.stat().st_mode & 0o777 == 0o640
        copies = [each for each in directory.iterdir() if each.name.endswith("~")]
        assert [each.read_bytes() for each in copies] in ([], [b"old" * 10_000])
        assert copies or found[-1].startswith(b"old")
        replace(str(path), b"next", found[-1])
        assert {each.name for each in directory.iterdir()} == {"x.conf", *(each.name for each in copies)}
        if not killed:
            break
    assert [each[:3] for each in found] == sorted((each[:3] for each in found), reverse=True)
    assert len(found) > 40

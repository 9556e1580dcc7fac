# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of modules-load.d: a new one, one of somebody else, one without an end of its last line."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modules_load import Due, due, hidden_by, with_modules


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            None,
            b"# Made by fabric.rdma.kernel_module. The modules are loaded in this order.\nmlx5_ib\nnvidia-peermem\n",
        ),
        (b"", b"mlx5_ib\nnvidia-peermem\n"),
        (b"# theirs\nnfs", b"# theirs\nnfs\nmlx5_ib\nnvidia-peermem\n"),
        (b"mlx5-ib\n; nvidia-peermem\n\xff\n", b"mlx5-ib\n; nvidia-peermem\n\xff\nnvidia-peermem\n"),
        (b" nvidia_peermem\nmlx5_ib\n", b" nvidia_peermem\nmlx5_ib\n"),
    ],
)
def test_what_is_there_stays(before: bytes | None, after: bytes) -> None:
    assert with_modules(before, ["mlx5_ib", "nvidia-peermem"]) == after


BOOT = "/etc/modules-load.d/nvidia-peermem.conf"


@pytest.mark.parametrize(
    ("loaded", "at_boot", "persistent", "wanted"),
    [
        (False, False, True, Due(load=True, path=BOOT)),
        (True, False, True, Due(load=False, path=BOOT)),
        (True, True, True, Due(load=False, path=None)),
        (False, False, False, Due(load=True, path=None)),
        (True, False, False, Due(load=False, path=None)),
    ],
)
def test_what_is_due_is_what_is_missing(*, loaded: bool, at_boot: bool, persistent: bool, wanted: Due) -> None:
    entries = {"/proc": Entry("d")}
    if loaded:
        entries["/sys/module/nvidia_peermem/refcnt"] = Entry("f", data=b"0\n")
    if at_boot:
        entries["/usr/lib/modules-load.d/theirs.conf"] = Entry("f", data=b"nvidia-peermem\n")
    for name in ("nvidia-peermem", "nvidia_peermem"):
        assert due(MemoryTree(entries), name, persistent) == wanted


def test_a_built_in_module_is_not_loaded_over_and_over() -> None:
    """One without parameters has no directory in /sys/module."""
    entries = {
        "/proc/sys/kernel/osrelease": Entry("f", data=b"6.1.0-9-amd64\n"),
        "/lib/modules/6.1.0-9-amd64/modules.builtin": Entry("f", data=b"kernel/drivers/md/dm-crypt.ko\n"),
    }
    assert not due(MemoryTree(entries), "dm_crypt", True).load
    assert due(MemoryTree(entries), "crypt", True).load


def test_a_file_of_ours_takes_the_place_of_its_namesakes() -> None:
    assert hidden_by("/etc/modules-load.d/mlx5-ib.conf") == [
        "/run/modules-load.d/mlx5-ib.conf",
        "/usr/local/lib/modules-load.d/mlx5-ib.conf",
        "/usr/lib/modules-load.d/mlx5-ib.conf",
    ]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of modules-load.d: a new one, one of somebody else, one without an end of its last line."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modules_load import with_modules


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

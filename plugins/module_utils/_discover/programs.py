# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where distributions put programs. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["program_path"]

_BINARY_DIRECTORIES = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin")


def program_path(tree: Tree, name: str) -> t.Optional[str]:
    """The path of a program, None where there is none."""
    paths = (f"{directory}/{name}" for directory in _BINARY_DIRECTORIES)
    return next((path for path in paths if tree.exists(path)), None)

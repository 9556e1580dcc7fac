# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree of a node for modules: what reads captures does not come to nodes with them. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree, TreeError

__all__ = ["open_root"]


def open_root(root: str, ask: t.Optional[t.Callable[[str, str], t.Optional[str]]] = None) -> DirectoryTree:
    """The files of a live node or of an unpacked capture; TreeError for anything else. ask: as for DirectoryTree."""
    if not os.path.isdir(root):
        raise TreeError(
            f"root '{root}' is not a directory",
            "Unpack a capture, or name it in the option capture of fabric.rdma.ib_facts, which reads it on the controller",
        )
    return DirectoryTree(root, ask)

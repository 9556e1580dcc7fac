# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree of a node, live or captured, for modules: they run on live nodes, which then do not
compile what reads captures. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree, Tree

__all__ = ["open_root"]


def open_root(root: str, ask: t.Optional[t.Callable[[str, str], t.Optional[str]]] = None) -> Tree:
    """What captures.open_tree gives for the same arguments."""
    if os.path.isdir(root):
        return DirectoryTree(root, ask)
    from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree  # noqa: PLC0415 - see above

    return open_tree(root, ask)

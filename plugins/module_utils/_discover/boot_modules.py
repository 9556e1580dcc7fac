# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules that a node loads at boot, from files alone. Private to the collection."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["DIRECTORIES", "persisted"]

# A file in one of them hides its namesakes in those after it (modules-load.d(5)).
DIRECTORIES = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)


def persisted(tree: Tree) -> set[str]:
    """Modules that systemd-modules-load(8) or /etc/modules loads at every boot.

    A file in /etc hides its namesakes in the other directories. What rdma-core lists in /etc/rdma/modules is not counted: it is
    loaded only when hardware of the right sort appears.
    """
    files: dict[str, str] = {}
    for directory in reversed(DIRECTORIES):
        for name in tree.names(directory):
            if name.endswith(".conf"):
                files[name] = f"{directory}/{name}"
    found = set()
    for path in [*files.values(), "/etc/modules"]:
        for line in (tree.text(path) or "").splitlines():
            line = line.strip()
            if line and line[0] not in "#;":
                found.add(line.split()[0].replace("-", "_"))
    return found

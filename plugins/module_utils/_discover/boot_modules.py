# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running kernel, and its modules: those that are built in, those that a node loads at boot. From files alone. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["DIRECTORIES", "builtin_list", "is_builtin", "kernel_release", "persisted"]

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


def kernel_release(tree: Tree, warnings: list[str]) -> t.Optional[str]:
    """The release of the running kernel. Anything else goes to the warnings."""
    release = tree.text("/proc/sys/kernel/osrelease") or None
    if release and not re.fullmatch(r"[\w.+~-]+", release):
        warnings.append(f"/proc/sys/kernel/osrelease says '{release!s:.60}', which is not a kernel release")
        return None
    return release


def builtin_list(tree: Tree, release: t.Optional[str]) -> bytes:
    """The list of what a kernel release has built in, for is_builtin()."""
    return (tree.read(f"/lib/modules/{release}/modules.builtin") or b"") if release else b""


def is_builtin(listing: bytes, name: str) -> bool:
    """name: with underscores. The file's name has the dashes or underscores of the build."""
    return any((f"/{spelling}.ko").encode() in listing for spelling in (name, name.replace("_", "-")))

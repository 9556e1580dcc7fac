# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of modules-load.d(5). Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules import (
    DIRECTORIES,
    builtin_list,
    is_builtin,
    kernel_release,
    persisted,
)

__all__ = ["Due", "due", "hidden_by", "is_there", "with_modules"]


class Due(t.NamedTuple):
    """What there is to do for a module: load it, and have it loaded at boot by the file path (None: no file has to change)."""

    load: bool
    path: t.Optional[str]


def is_there(tree: Tree, name: str) -> bool:
    """Whether a module is loaded or built in; one that is built in has no directory where it has no parameters. name: as in due()."""
    plain = name.replace("-", "_")
    return tree.exists("/sys/module/" + plain) or is_builtin(builtin_list(tree, kernel_release(tree, [])), plain)


def due(tree: Tree, name: str, persistent: bool) -> Due:
    """name: with hyphens or underscores."""
    plain = name.replace("-", "_")
    path = f"{DIRECTORIES[0]}/{plain.replace('_', '-')}.conf"
    return Due(not is_there(tree, name), path if persistent and plain not in persisted(tree) else None)


def hidden_by(path: str) -> list[str]:
    """Files that a file in /etc takes the place of, the one that counts first: what they load has to be in it, too."""
    return [f"{directory}/{path.rpartition('/')[2]}" for directory in DIRECTORIES[1:]]


_HEAD = b"# Made by fabric.rdma.kernel_module. The modules are loaded in this order.\n"


def with_modules(before: t.Optional[bytes], modules: t.Sequence[str]) -> bytes:
    """The content of a file that loads these modules in this order, after all that it loads already.

    before: what the file says now, None when there is none. Nothing of it is lost: it may be somebody else's.
    """
    text = _HEAD if before is None else before
    if text and not text.endswith(b"\n"):
        text += b"\n"
    lines = [line.strip().replace(b"-", b"_") for line in text.splitlines()]
    missing = [module for module in modules if module.encode("ascii").replace(b"-", b"_") not in lines]
    return text + b"".join(module.encode("ascii") + b"\n" for module in missing)

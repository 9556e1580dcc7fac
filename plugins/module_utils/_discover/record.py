# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest capture of a node that has the same facts. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import Recorder
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import MODULES, gather
from ansible_collections.fabric.rdma.plugins.module_utils._discover.runtime import COMMANDS
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage_excerpt import excerpt

__all__ = ["record"]


def record(tree: Tree) -> dict[str, Entry]:
    """The smallest capture with the same facts: what gather() looks at, and nothing else.

    Of the kernel's module lists only the lines of MODULES are kept: the rest is hundreds of kilobytes that no fact is made of.
    Of other large files and of those that may hold secrets, too, only the lines that facts are made of are kept.
    """
    recorder = Recorder(tree)
    gather(recorder)
    entries = _settled(recorder.entries)
    for path, entry in entries.items():
        if entry.kind == "f":
            data = excerpt(path, entry.data)
            if data != entry.data:
                entries[path] = Entry("f", data)
        if entry.kind == "f" and re.search(r"/modules/[^/]+/modules\.(dep|builtin)$", path):
            lines = entry.data.split(b"\n")
            entries[path] = Entry("f", b"".join(line + b"\n" for line in lines if _own_name(line) in MODULES))
    return entries


def _own_name(line: bytes) -> str:
    """Name of the module that a line of modules.dep or modules.builtin is about."""
    name = line.partition(b":")[0].rpartition(b"/")[2].partition(b".ko")[0]
    return name.decode("utf-8", "replace").replace("-", "_")


def _settled(entries: t.Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries of a recording without processes that no fact tells of: shims and the like come and go with Pods."""
    strangers = {
        path.split("/")[2]
        for path, entry in entries.items()
        if re.fullmatch(r"/proc/\d+/comm", path) and entry.data.decode("utf-8", "replace").strip() not in COMMANDS
    }
    result: dict[str, Entry] = {}
    for path, entry in entries.items():
        if re.match(r"/proc/\d+(/|$)", path) and path.split("/")[2] in strangers:
            continue
        if path.endswith("/cgroup.procs"):
            pids = [pid for pid in entry.data.decode("utf-8", "replace").split() if pid not in strangers]
            entry = Entry("f", "".join(pid + "\n" for pid in pids).encode("ascii", "replace"))
        result[path] = entry
    return result

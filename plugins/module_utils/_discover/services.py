# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd has of a service, from files alone. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["CGROUPS", "UNIT_DIRECTORIES", "runs", "units_of"]

# Where systemd puts the processes of a service: unified hierarchy, the named one of version 1, both at once.
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
# systemd.unit(5), the first wins; /lib is a link to /usr/lib but on old systems.
UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_TARGETS = ("basic", "local-fs", "multi-user", "network-online", "remote-fs", "sockets", "sysinit")


class _Units(t.NamedTuple):
    """Those of some units that are there, that start at boot, and that an administrator forbade."""

    units: list[str]
    enabled: list[str]
    masked: list[str]


def runs(tree: Tree, daemon: str) -> bool:
    """Whether systemd has a process for it, or its pid file names one that is it."""
    for base in CGROUPS:
        if tree.text(f"{base}/system.slice/{daemon}.service/cgroup.procs"):
            return True
    for path in (f"/run/{daemon}.pid", f"/run/{daemon}/{daemon}.pid"):
        pid = tree.text(path) or ""
        if re.fullmatch(r"[0-9]{1,10}", pid) and tree.text(f"/proc/{pid}/comm") == daemon:
            return True
    return False


def units_of(tree: Tree, *names: str) -> _Units:
    """A unit that is masked is there, too, but not where its package was removed: the link of the mask outlives that."""
    found = _Units([], [], [])
    for unit in names:
        masked = tree.link_name("/etc/systemd/system/" + unit) == "null"
        if any(tree.exists(f"{directory}/{unit}") for directory in UNIT_DIRECTORIES[int(masked) :]):
            found.units.append(unit)
        if any(tree.link_name(f"/etc/systemd/system/{target}.target.wants/{unit}") for target in _TARGETS):
            found.enabled.append(unit)
        if masked:
            found.masked.append(unit)
    return found

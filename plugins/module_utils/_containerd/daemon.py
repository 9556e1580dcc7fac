# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a containerd says of itself, and the kernel of its process. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["generation_of", "in_user_namespace", "printed_version"]


def printed_version(text: str) -> t.Optional[str]:
    """The version in what `containerd --version` prints, or in the version alone."""
    # containerd github.com/containerd/containerd/v2 2.1.9 REVISION; k3s writes v2.1.5-k3s1
    found = re.search(r"(?:^|\s)v?(\d+\.\d+\.\S+)", text)
    return found.group(1) if found else None


def generation_of(version: t.Optional[str]) -> t.Optional[tuple[int, int]]:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    return (int(found.group(1)), int(found.group(2))) if found else None


def in_user_namespace(uid_map: str) -> t.Optional[bool]:
    """Whether a process with this /proc/PID/uid_map is in another namespace than the first one; None without one."""
    # include/linux/uidgid.h: the first namespace maps all numbers to themselves
    return uid_map.split() != ["0", "0", "4294967295"] if uid_map.strip() else None

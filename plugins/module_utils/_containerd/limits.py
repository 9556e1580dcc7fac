# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of processes and units. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import UNLIMITED, limit_words

__all__ = ["Limit", "limit_text", "limit_value", "parse_limits", "parse_unit_limit"]

Limit = t.Tuple[int, int]


def limit_value(value: str) -> t.Optional[int]:
    if value in ("unlimited", "infinity"):
        return UNLIMITED
    return int(value) if re.fullmatch(r"[0-9]{1,20}", value) else None


def parse_limits(text: str) -> dict[str, Limit]:
    """(soft, hard) of memlock and nofile from /proc/PID/limits (fs/proc/base.c, proc_pid_limits())."""
    found = {}
    for name, title in (("memlock", "Max locked memory"), ("nofile", "Max open files")):
        for line in text.splitlines():
            words = line[len(title) :].split()
            if line.startswith(title + " ") and len(words) >= 2:
                soft, hard = limit_value(words[0]), limit_value(words[1])
                if soft is not None and hard is not None:
                    found[name] = (soft, hard)
    return found


def parse_unit_limit(properties: t.Mapping[str, str]) -> t.Optional[Limit]:
    """(soft, hard) of LimitMEMLOCKSoft and LimitMEMLOCK as `systemctl show` prints them."""
    hard = limit_value(properties.get("LimitMEMLOCK", ""))
    soft = limit_value(properties.get("LimitMEMLOCKSoft", properties.get("LimitMEMLOCK", "")))
    return None if soft is None or hard is None else (soft, hard)


def limit_text(limit: t.Optional[Limit]) -> str:
    """Such as ``8388608`` (bytes), ``unlimited``, or ``8388608 (hard: unlimited)``."""
    if limit is None:
        return "unknown"
    soft, hard = limit
    return limit_words(soft) if soft == hard else f"{limit_words(soft)} (hard: {limit_words(hard)})"

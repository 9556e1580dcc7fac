# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of storage prerequisites as lines for people. Private to the collection. Pure."""

from __future__ import annotations

import textwrap
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import WIDTH, printable

__all__ = ["storage_table"]


def storage_table(results_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Lines of at most 100 columns: a host and how many of its checks are in order, below it those that are not, with remedies."""
    lines: list[str] = []
    for host in sorted(results_by_host):
        checks = results_by_host[host]["checks"]
        bad = [check for check in checks if check["status"] != "ok"]
        head = f"{printable(host)}: {len(checks) - len(bad)} of {len(checks)} checks in order"
        lines.append(head if len(head) <= WIDTH else "…" + head[1 - WIDTH :])
        for check in sorted(bad, key=lambda check: str(check["status"])):
            words = f"{check['message']} ({check['check']})"
            if check["remedy"]:
                words += f". Remedy: {check['remedy']}"
            lines += textwrap.wrap(
                printable(words), WIDTH, initial_indent=f"  {check['status']:<8} ", subsequent_indent=" " * 11
            )
    return lines

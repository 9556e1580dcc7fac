# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of hardware and fabric that is not as it should be: one form for who finds it and who shows it. Private. Types only."""

from __future__ import annotations

import typing as t

__all__ = ["SEVERITIES", "Finding", "Severity"]

# error: traffic fails or is far too slow; warning: it will, or somebody pays for it; note: to know, nothing to do at once.
Severity = t.Literal["error", "warning", "note"]
# The worst first.
SEVERITIES: tuple[Severity, ...] = t.get_args(Severity)


class Finding(t.TypedDict):
    """One cause, whatever it shows at. All texts are plain, of bounded length, and untrusted: they hold what nodes said.

    id: of the rule, such as pcie-slower-than-card, the same in each run. group: "" for what concerns no group. hosts: sorted
    naturally. evidence: what was read, and where. remedy: a command, a variable, or what to do by hand.
    """

    id: str
    severity: Severity
    group: str
    hosts: list[str]
    cause: str
    evidence: list[str]
    remedy: str

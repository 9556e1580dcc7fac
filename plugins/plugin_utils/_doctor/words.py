# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings as a plain text for terminals and tickets. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import WIDTH, fold_text, hosts_label, printable
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import SEVERITIES, Finding

__all__ = ["findings_text"]

_INDENT = "  "


def _counted(findings: t.Sequence[Finding], looked_at: t.Mapping[str, int]) -> str:
    if not findings and not any(looked_at.values()):
        return "Nothing was looked at: there are no facts, no objects of a cluster and no logs"
    counts = [(sum(each["severity"] == severity for each in findings), severity) for severity in SEVERITIES]
    words = [f"{count} {severity}{'s' if count > 1 else ''}" for count, severity in counts if count]
    return ", ".join(words) or "Nothing that a rule knows is wrong"


def _paragraph(label: str, text: str) -> list[str]:
    start = f"{_INDENT}{label:<7}"
    lines = fold_text(printable(text), WIDTH - len(start))
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]


def findings_text(findings: t.Sequence[Finding], unread: t.Sequence[str], looked_at: t.Mapping[str, int]) -> str:
    """At most 100 columns wide, remedies next to their causes; ends with a newline. looked_at: how much of each sort."""
    lines = [_counted(findings, looked_at)]
    for each in findings:
        where = ", ".join(
            part
            for part in (
                f"group {each['group']}" if each["group"] else "",
                hosts_label(each["hosts"], 60) if each["hosts"] else "",
            )
            if part
        )
        lines += [
            "",
            *fold_text(printable(f"{each['severity'].upper()} {each['id']}{': ' + where if where else ''}"), WIDTH),
        ]
        lines += _paragraph("cause", each["cause"])
        for line in each["evidence"]:
            lines += _paragraph("seen", line)
        lines += _paragraph("remedy", each["remedy"])
    if unread:
        lines += ["", "Not looked at:"]
        for line in unread:
            lines += _paragraph("", line)
    return "\n".join(line.rstrip() for line in lines) + "\n"

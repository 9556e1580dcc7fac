# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the record of a system has the labels of nodes. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["grouped_lines", "label_lines"]


def grouped_lines(lines: t.Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """{label: {value: [nodes]}} of lines with node, label and value: a record has room for 1 MiB, and clusters have ten thousand nodes."""
    found: dict[str, dict[str, list[str]]] = {}
    words = (line.split(" ") for line in lines if line.count(" ") == 2)
    for key, value, node in sorted({(key, value, node) for node, key, value in words}):
        found.setdefault(key, {}).setdefault(value, []).append(node)
    return found


def label_lines(words: t.Any) -> t.Any:
    """The lines again. What is something else, such as the lines that an earlier version has written, comes back as it is."""
    try:
        groups = [(key, value, nodes) for key, own in words.items() for value, nodes in own.items()]
        if all(isinstance(nodes, list) for _key, _value, nodes in groups):
            return [" ".join((node, key, value)) for key, value, nodes in groups for node in nodes]
    except (AttributeError, TypeError):
        pass
    return words

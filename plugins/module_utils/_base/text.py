# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts, and plain-text tables for terminals, at most 100 columns wide. Private to the collection. Pure.

Nothing is cut: what does not fit is continued on the next line. Hosts that would get the same lines share them.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key

__all__ = [
    "WIDTH",
    "age_in_words",
    "alike",
    "column_widths",
    "fold_text",
    "hosts_label",
    "printable",
    "shared_domain",
    "short",
    "table",
]

WIDTH = 100
# Narrower than this no column is made, as long as all of them fit side by side.
_NARROWEST = 8


def printable(value: t.Any) -> str:
    """A value as one line without control characters: a node's text must not move the cursor of a terminal."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


def shared_domain(hosts: t.Iterable[str]) -> str:
    """The domain, with its first dot, that all of several hosts have; '' when there is none."""
    names = set(hosts)
    domains = {name.partition(".")[2] for name in names}
    # An address has no domain, and a name alone shares nothing.
    if len(names) < 2 or len(domains) != 1 or any(name.startswith(".") or re.match(r"[\d.]+$", name) for name in names):
        return ""
    domain = domains.pop()
    return "." + domain if domain else ""


def short(host: str, domain: str) -> str:
    """The name of a host without the domain that all share."""
    return host[: -len(domain)] if domain and host.endswith(domain) else host


def _sequences(names: t.Sequence[str]) -> list[str]:
    """Names in their natural order, complete sequences of three or more as "first..last"."""
    runs: list[list[str]] = []
    last: t.Optional[tuple[str, str, int]] = None
    for name in names:
        # Python reads numbers of so many digits only
        found = re.match(r"(.*?)([0-9]{1,18})([^0-9]*)$", name, re.DOTALL)
        key = (found.group(1), found.group(3), int(found.group(2))) if found else None
        if key and last and key == (last[0], last[1], last[2] + 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        last = key
    pieces = []
    for run in runs:
        pieces += run if len(run) < 3 else [f"{run[0]}..{run[-1]}"]
    return pieces


def hosts_label(hosts: t.Collection[str], width: int = 40) -> str:
    """Names of hosts in about so many characters, with their number where they are not all there to be counted."""
    names = sorted(set(hosts), key=natural_key)
    pieces = _sequences(names)
    if len(pieces) == len(names) and (len(names) < 2 or len(", ".join(names)) <= width):
        return ", ".join(names)
    shown = pieces[:1]
    for piece in pieces[1:]:
        if len(", ".join([*shown, piece])) > width:
            break
        shown.append(piece)
    more = ", ..." if len(shown) < len(pieces) else ""
    return f"{', '.join(shown)}{more} ({len(names)} hosts)"


def alike(texts: t.Iterable[t.Any], hosts: t.Collection[str]) -> list[tuple[str, list[str]]]:
    """Sentences that begin with "host NAME", those that differ only in the host as one: [(sentence, hosts)].

    The sentence of one host is as it was, that of several is without their names. One of another form has no hosts.
    """
    merged: dict[tuple[str, bool], list[str]] = {}
    for text in map(str, texts):
        found = re.match(r"host (\S+?)(:? .*)", text, re.DOTALL)
        if found and found.group(1) in hosts:
            merged.setdefault((found.group(2), True), []).append(found.group(1))
        else:
            merged.setdefault((text, False), [])
    sentences = []
    for (text, named), names in merged.items():
        if len(names) > 1:
            sentences.append((text[2:] if text.startswith(": ") else "each" + text, names))
        else:
            sentences.append((f"host {names[0]}{text}" if named else text, names))
    return sentences


def fold_text(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken after a blank or a comma where there is one."""
    lines = [""]
    for word in re.findall(r"[^\s,]*,|[^\s,]+\s*|\s+", text):
        if len((lines[-1] + word).rstrip()) > width and lines[-1].strip():
            lines.append("")
        word = word if lines[-1] or len(lines) == 1 else word.lstrip()
        while len(word.rstrip()) > width:
            lines[-1] = word[:width]
            word = word[width:]
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines if line.strip()] or [""]


def column_widths(cells: t.Sequence[t.Sequence[str]], width: int) -> list[int]:
    """Widths of the columns: what they need, and when that is too much, less for the last one, then for the widest."""
    sizes = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    room = width - 2 * (len(sizes) - 1)
    if sum(sizes) > room:
        # the last column has the sentences, which are broken with the least harm
        sizes[-1] = min(sizes[-1], max(room - sum(sizes[:-1]), min(sizes[-1], width // 4)))
    while sum(sizes) > room:
        widest = max(range(len(sizes)), key=lambda index: sizes[index])
        if sizes[widest] <= 1:
            break
        sizes[widest] = max(1, sizes[widest] - max(1, min(sum(sizes) - room, sizes[widest] - _NARROWEST)))
    return sizes


def table(header: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]], width: int = WIDTH) -> list[str]:
    """Lines of a left-aligned table. A cell that does not fit is continued in the next line, nothing is cut."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    sizes = column_widths(cells, width)
    lines = []
    for row in cells:
        folded = [fold_text(cell, size) for cell, size in zip(row, sizes)]
        for number in range(max(len(cell) for cell in folded)):
            parts = [cell[number] if number < len(cell) else "" for cell in folded]
            lines.append("  ".join(part.ljust(size) for part, size in zip(parts, sizes)).rstrip())
    return lines


def age_in_words(times: t.Iterable[t.Optional[str]]) -> str:
    """``of 2026-03-01 08:15 UTC``, the span where there are several, and that nobody knows where one is None. times: ISO 8601, UTC."""
    given = list(times)
    known = sorted({time[:16].replace("T", " ") for time in given if time})
    words = ["of " + " to ".join(time + " UTC" for time in known[:1] + known[1:][-1:])] if known else []
    if None in given:
        words.append("some of unknown age" if known else "of unknown age")
    return ", ".join(words)

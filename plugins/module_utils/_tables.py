# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain-text tables for terminals, at most 100 columns wide. Private to the collection. Pure.

Nothing is cut: what does not fit is continued on the next line. Hosts that would get the same lines share them.
"""

from __future__ import annotations

import re
import textwrap
import typing as t

__all__ = [
    "WIDTH",
    "age_in_words",
    "alike",
    "device_table",
    "hosts_label",
    "plan_table",
    "printable",
    "shared_domain",
    "short",
    "table",
]

WIDTH = 100

_LINKS = {"InfiniBand": "IB", "Ethernet": "Eth", "Unknown": "?"}
# Narrower than this no column is made, as long as all of them fit side by side.
_NARROWEST = 8
_NAMED = re.compile(r"host (\S+?):? ")
# Sentences that differ only in their host are shown for that many kinds of them.
_MAX_TEXTS = 20


def printable(value: t.Any) -> str:
    """A value as one line without control characters: a node's text must not move the cursor of a terminal."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


# --- names of hosts ---------------------------------------------------------------------------------------------------


def _natural(text: str) -> t.Tuple[t.Tuple[int, int, str], ...]:
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)


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


def _sequences(names: t.Sequence[str]) -> t.List[str]:
    """Names in their natural order, complete sequences of three or more as "first..last"."""
    runs: t.List[t.List[str]] = []
    last: t.Optional[t.Tuple[str, str, int]] = None
    for name in names:
        found = re.match(r"(.*?)([0-9]+)([^0-9]*)$", name, re.DOTALL)
        key = (found.group(1), found.group(3), int(found.group(2))) if found else None
        if key and last and key == (last[0], last[1], last[2] + 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        last = key
    pieces = []
    for run in runs:
        pieces += run if len(run) < 3 else ["%s..%s" % (run[0], run[-1])]
    return pieces


def hosts_label(hosts: t.Collection[str], width: int = 40) -> str:
    """Names of hosts in about so many characters, with their number where they are not all there to be counted."""
    names = sorted(set(hosts), key=_natural)
    pieces = _sequences(names)
    if len(pieces) == len(names) and (len(names) < 2 or len(", ".join(names)) <= width):
        return ", ".join(names)
    shown = pieces[:1]
    for piece in pieces[1:]:
        if len(", ".join([*shown, piece])) > width:
            break
        shown.append(piece)
    return "%s%s (%d hosts)" % (", ".join(shown), ", ..." if len(shown) < len(pieces) else "", len(names))


def alike(texts: t.Iterable[t.Any], hosts: t.Collection[str]) -> t.List[t.Tuple[str, t.List[str]]]:
    """Sentences that begin with "host NAME", those that differ only in the host as one: [(sentence, hosts)].

    The sentence of one host is as it was, that of several is without their names. One of another form has no hosts.
    """
    merged: t.Dict[t.Tuple[str, bool], t.List[str]] = {}
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
            sentences.append(("host %s%s" % (names[0], text) if named else text, names))
    return sentences


# --- lines ------------------------------------------------------------------------------------------------------------


def _fold(text: str, width: int) -> t.List[str]:
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


def _sizes(cells: t.Sequence[t.Sequence[str]], width: int) -> t.List[int]:
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


def table(header: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]], width: int = WIDTH) -> t.List[str]:
    """Lines of a left-aligned table. A cell that does not fit is continued in the next line, nothing is cut."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    sizes = _sizes(cells, width)
    lines = []
    for row in cells:
        folded = [_fold(cell, size) for cell, size in zip(row, sizes)]
        for number in range(max(len(cell) for cell in folded)):
            parts = [cell[number] if number < len(cell) else "" for cell in folded]
            lines.append("  ".join(part.ljust(size) for part, size in zip(parts, sizes)).rstrip())
    return lines


# --- devices ----------------------------------------------------------------------------------------------------------


def _rate(port: t.Mapping[str, t.Any]) -> str:
    return "-" if port["rate_gbps"] is None else "%g" % port["rate_gbps"]


def _view(device: t.Mapping[str, t.Any], netdevs: str) -> str:
    """The netlink type, with the interface where it is another one than the port's (a bond's first member)."""
    view = device["plugin"]
    if not view["visible"]:
        return "no: %s" % (view["reason"] or "unknown").partition(":")[0]
    if not view["if_name"]:
        return "no netdev"
    return str(view["link_type"]) if view["if_name"] == netdevs else "%s %s" % (view["link_type"], view["if_name"])


_COLUMNS = ("DEVICE", "P", "LINK", "STATE", "GB/S", "NETDEV", "PCI", "PLUGIN SEES")


def _device_rows(facts: t.Mapping[str, t.Any]) -> t.Tuple[t.Tuple[str, ...], ...]:
    """One row a port of a host."""
    rows = []
    for device in facts.get("devices", []):
        for port in device["ports"] or [None]:
            netdevs = ",".join(netdev["name"] for netdev in port["netdevs"]) if port else ""
            rows.append(
                (
                    str(device["name"]),
                    str(port["number"]) if port else "-",
                    _LINKS.get(port["link_layer"], "-") if port else "-",
                    (port["state"] or "-") if port else "-",
                    _rate(port) if port else "-",
                    netdevs or "-",
                    device["pci"] or "-",
                    _view(device, netdevs),
                )
            )
    return tuple(rows) or (("no RDMA device", "", "", "", "", "", "", ""),)


def device_table(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[str]:
    """One line a port: what it is, its state, and what the device plugin sees of it; hosts that look the same together.

    Names of hosts stand in the first column; where that leaves too little room for the others, on lines of their own.
    """
    if not facts_by_host:
        return []
    domain = shared_domain(facts_by_host)
    same: t.Dict[t.Tuple[t.Tuple[str, ...], ...], t.List[str]] = {}
    for host in sorted(facts_by_host, key=_natural):
        same.setdefault(_device_rows(facts_by_host[host]), []).append(short(host, domain))
    blocks = [(hosts_label(hosts), rows) for rows, hosts in same.items()]
    lines = ["all hosts in %s" % printable(domain[1:]), ""] if domain else []
    cells = [_COLUMNS, *(row for _label, rows in blocks for row in rows)]
    needed = sum(max(len(printable(row[index])) for row in cells) for index in range(len(_COLUMNS)))
    needed += 2 * len(_COLUMNS) + max(len("HOST"), *(len(printable(label)) for label, _rows in blocks))
    if needed <= WIDTH:
        beside = [(label if number == 0 else "", *row) for label, rows in blocks for number, row in enumerate(rows)]
        return lines + table(("HOST", *_COLUMNS), beside)
    body = table(_COLUMNS, (row for _label, rows in blocks for row in rows), WIDTH - 2)
    # Lines that continue a cell belong to the row above: each row's own lines are found by making its table again.
    sizes = _sizes([[printable(cell) for cell in row] for row in cells], WIDTH - 2)
    lines.append("  " + body[0])
    at = 1
    for label, rows in blocks:
        count = sum(max(len(_fold(printable(cell), size)) for cell, size in zip(row, sizes)) for row in rows)
        lines += _fold(printable(label), WIDTH)
        lines += ["  " + line for line in body[at : at + count]]
        at += count
    return lines


def age_in_words(times: t.Iterable[t.Optional[str]]) -> str:
    """``of 2026-03-01 08:15 UTC``, the span where there are several, and that nobody knows where one is None. times: ISO 8601, UTC."""
    given = list(times)
    known = sorted({time[:16].replace("T", " ") for time in given if time})
    words = ["of " + " to ".join(time + " UTC" for time in known[:1] + known[1:][-1:])] if known else []
    if None in given:
        words.append("some of unknown age" if known else "of unknown age")
    return ", ".join(words)


# --- plan -------------------------------------------------------------------------------------------------------------


def plan_table(plan: t.Mapping[str, t.Any]) -> t.List[str]:
    """What a group's plan selects by which selectors, what it leaves out and why, and its warnings and errors."""
    known = {str(row["host"]) for row in plan["exclusions"]} | set(plan.get("wanted", {}))
    known |= {str(host) for entry in plan["classes"] for host in entry["hosts"]}
    domain = shared_domain(known)
    lines = ["all hosts in %s" % printable(domain[1:]), ""] if domain else []
    rows = []
    for entry in plan["classes"]:
        rows += _class_rows(entry, hosts_label([short(host, domain) for host in entry["hosts"]]))
    lines += table(("CLASS", "ON", "SELECTS", "BY"), rows) if rows else []
    for entry in plan["classes"]:
        # a plan of an earlier version does not tell
        if entry.get("matched_later"):
            lines += _paragraph(
                "%s would also match, if it came: %s" % (entry["name"], ", ".join(entry["matched_later"]))
            )
    left_out = _exclusion_lines(plan, domain)
    lines += ["", *left_out] if rows and left_out else left_out
    if plan.get("cached"):
        count = "%d hosts" % len(plan["cached"]) if len(plan["cached"]) > 1 else next(iter(plan["cached"]))
        words = "facts of %s are not of this run, but %s" % (count, age_in_words(plan["cached"].values()))
        lines += ["", *_paragraph(words)]
    for sort in ("warnings", "errors"):
        # An error names a host that has nothing else in the plan.
        named = known | {found.group(1) for found in map(_NAMED.match, map(str, plan[sort])) if found}
        texts = alike(plan[sort], named)
        for text, names in texts[:_MAX_TEXTS]:
            many = "%s: " % _counted(names) if len(names) > 1 else ""
            lines += ["", *_paragraph("%s: %s%s" % (sort[:-1], many, text))]
        if len(texts) > _MAX_TEXTS:
            lines += ["", "and %d more %s, in plan.json" % (len(texts) - _MAX_TEXTS, sort)]
    return lines


def _class_rows(entry: t.Mapping[str, t.Any], hosts: str) -> t.List[t.Tuple[str, str, str, str]]:
    """One line for a class, or one for each of its rails."""

    def words(selectors: t.Mapping[str, t.Sequence[str]]) -> str:
        return "; ".join("%s %s" % (kind, ",".join(values)) for kind, values in selectors.items())

    first = entry["matches"].get(entry["hosts"][0], [])
    # a plan of an earlier version has no pools
    rails = [pool for pool in entry.get("pools", ()) if pool["rail"] is not None]
    if not rails:
        matched = ",".join(row["device"] for row in first)
        return [(entry["name"], hosts, matched or "-", words(entry["selectors"]) or "nothing: software devices only")]
    rows = []
    for index, pool in enumerate(rails):
        matched = ",".join(row["device"] for row in first if row.get("rail") == pool["rail"])
        label = (entry["name"], hosts) if index == 0 else ("", "")
        rows.append((*label, "%s as %s" % (matched or "nothing", pool["resource"]), words(pool["selectors"])))
    return rows


def _counted(names: t.Sequence[str]) -> str:
    label = hosts_label(names)
    return label if label.endswith(" hosts)") else "%s (%d hosts)" % (label, len(names))


def _paragraph(text: str) -> t.List[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent="  ")


def _exclusion_lines(plan: t.Mapping[str, t.Any], domain: str) -> t.List[str]:
    """What a group's plan leaves out and why; hosts with the same reason share a line."""
    hosts: t.Dict[t.Tuple[str, str], t.List[str]] = {}
    for row in plan["exclusions"]:
        what = row["device"] if row["port"] is None else "%s port %d" % (row["device"], row["port"])
        hosts.setdefault((what, row["reason"]), []).append(short(row["host"], domain))
    rows = [(what, hosts_label(names), reason) for (what, reason), names in sorted(hosts.items())]
    return table(("LEFT OUT", "ON", "BECAUSE"), rows) if rows else []

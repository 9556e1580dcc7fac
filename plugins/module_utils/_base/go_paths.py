# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of paths as Go reads them (path/filepath, Match and Glob), and with it containerd. Private to the collection. Pure.

They differ from Python's: ``*`` takes a leading dot, too, ``[^a]`` and not ``[!a]`` leaves a character out, and a backslash takes a sign
for itself.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["PatternError", "glob", "malformed", "matches", "order", "quoted"]


class PatternError(FabricError):
    """A pattern that names, or searches, more paths than anybody means."""


_SIGNS = "*?[\\"
# Paths of a pattern. A link of a capture may lead to its own directory, and each star would take it once more.
_MOST = 10_000
# Names that are compared: none of them may be one of the pattern.
_MOST_COMPARED = 200_000
_CHARACTER = r"(?:\\.|[^\\\]-])"
_TOKEN = re.compile(
    rf"(?P<star>\*)|(?P<any>\?)|\[(?P<but>\^|(?!\^))(?P<ranges>(?:{_CHARACTER}(?:-{_CHARACTER})?)+)\]|\\(?P<quoted>.)|(?P<plain>[^*?\[\\])",
    re.DOTALL,
)
_RANGE = re.compile(rf"({_CHARACTER})(?:-({_CHARACTER}))?", re.DOTALL)


def _class(but: str, ranges: str) -> str:
    found = ""
    for first, last in _RANGE.findall(ranges):
        low, high = first[-1], (last or first)[-1]
        # one that ends before it begins takes nothing
        found += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
    if not found:
        return "." if but else r"(?!)"
    return f"[{but}{found}]"


@functools.lru_cache(maxsize=256)
def _chunks(part: str) -> t.Optional[list[tuple[t.Pattern[str], int]]]:
    """What is between the stars of one name of a path, each with the number of its characters.

    None where Go sees an error, such as a bracket that nothing closes.
    """
    chunks, place = [("", 0)], 0
    while place < len(part):
        token = _TOKEN.match(part, place)
        if token is None:
            return None
        place = token.end()
        text, length = chunks[-1]
        if token["star"]:
            chunks.append(("", 0))
        elif token["any"]:
            chunks[-1] = (text + ".", length + 1)
        elif token["ranges"]:
            chunks[-1] = (text + _class(token["but"], token["ranges"]), length + 1)
        else:
            chunks[-1] = (text + re.escape(token["quoted"] or token["plain"]), length + 1)
    return [(re.compile(text, re.DOTALL), length) for text, length in chunks]


def _name_matches(name: str, part: str) -> bool:
    """Chunk by chunk, each at the first place where it fits: no pattern of somebody else takes long."""
    chunks = _chunks(part)
    if chunks is None:
        return False
    (first, place), (last, length) = chunks[0], chunks[-1]
    if len(chunks) == 1:
        return first.fullmatch(name) is not None
    if first.match(name) is None:
        return False
    for chunk, _length in chunks[1:-1]:
        found = chunk.search(name, place)
        if found is None:
            return False
        place = found.end()
    end = len(name) - length
    return end >= place and last.match(name, end) is not None


def matches(path: str, pattern: str) -> bool:
    """Whether a path is one that a pattern names. No sign stands for a slash."""
    names, parts = path.split("/"), pattern.split("/")
    return len(names) == len(parts) and all(map(_name_matches, names, parts))


def malformed(pattern: str) -> bool:
    """Whether Go sees an error in a pattern. Glob does at once before the first star, and behind it when a name gets so far."""
    return any(_chunks(part) is None for part in pattern.split("/"))


def quoted(name: str) -> str:
    """A part of a pattern that takes this name alone."""
    return re.sub(r"([*?\[\\])", r"\\\1", name)


def order(path: str) -> list[bytes]:
    """The key by which Glob has paths in order: directory by directory, each by its bytes."""
    return os.fsencode(path).split(b"/")


def glob(pattern: str, names: t.Callable[[str], t.Iterable[str]], exists: t.Callable[[str], bool]) -> list[str]:
    """The existing paths that an absolute pattern names, in Go's order.

    names: what is in a directory, nothing where there is none. exists: whether something is there. PatternError where there are too many,
    or too many to look through.
    """
    compared = 0

    def named(base: str, part: str) -> t.Iterator[str]:
        nonlocal compared
        for name in names(base or "/"):
            compared += 1
            if compared > _MOST_COMPARED:
                raise PatternError(
                    f"{pattern[:200]} searches more than {_MOST_COMPARED} names", "Write a pattern with fewer stars"
                )
            if _name_matches(name, part):
                yield f"{base}/{name}"

    found = [""]
    for part in pattern.strip("/").split("/"):
        paths: t.Iterable[str]
        if any(sign in part for sign in _SIGNS):
            paths = itertools.chain.from_iterable(named(base, part) for base in found)
        else:
            paths = (f"{base}/{part}" for base in found if exists(f"{base}/{part}"))
        # no more than it takes to know
        found = list(itertools.islice(paths, _MOST + 1))
        if len(found) > _MOST:
            raise PatternError(f"{pattern[:200]} names more than {_MOST} paths", "Write a pattern that names fewer")
    return sorted(found, key=order)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees for tests: entries of every sort, and what they answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import (
    Entry,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree


def write(root: Path, entries: Mapping[str, Entry]) -> DirectoryTree:
    """Entries as files below a directory."""
    base = os.fsencode(str(root))
    for path in sorted(entries):
        entry, place = entries[path], base + os.fsencode(path)
        os.makedirs(place if entry.kind == "d" else os.path.dirname(place), exist_ok=True)
        if entry.kind == "f":
            with open(place, "wb") as handle:
                handle.write(entry.data)
        elif entry.kind == "l":
            os.symlink(entry.target, place)
    return DirectoryTree(str(root))


# -- Captures --------------------------------------------------------------------------------------------------------

NAME = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)
# a byte that is not UTF-8 reaches Python as a lone surrogate
RAW = st.builds(lambda name, byte: name + chr(0xDC80 + byte), NAME, st.integers(0, 0x7F))
PATH = st.lists(st.one_of(st.sampled_from("abc"), NAME, RAW), min_size=1, max_size=4).map(lambda p: "/" + "/".join(p))
TARGET = st.one_of(
    PATH,
    PATH.map(lambda path: "../.." + path),
    st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join),
)
ENTRY = st.one_of(
    st.binary(max_size=40).map(lambda data: Entry("f", data)),
    TARGET.map(lambda target: Entry("l", target=target)),
    st.just(Entry("d")),
)


def _consistent(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Without entries below something that is not a directory."""
    return {
        path: entry
        for path, entry in entries.items()
        if not any(
            entries[above].kind != "d"
            for above in (path[:at] for at in range(1, len(path)) if path[at] == "/")
            if above in entries
        )
    }


ENTRIES = st.dictionaries(PATH, ENTRY, max_size=12).map(_consistent)


def questions(entries: Mapping[str, Entry]) -> set[str]:
    paths = {"/", "/nothing", *entries}
    paths |= {path.rpartition("/")[0] or "/" for path in entries}
    return paths | {path + suffix for path in entries for suffix in ("/a", "/..", "/../b")}

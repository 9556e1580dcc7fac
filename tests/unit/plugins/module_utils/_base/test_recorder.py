# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import (
    Entry,
    MemoryTree,
    load_archive,
    load_listing,
    open_tree,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import Recorder, dump_archive, dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, checked
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._base.trees import (
    ENTRIES,
    PATH,
    questions,
)


@given(ENTRIES)
def test_a_round_trip_loses_nothing(entries: dict[str, Entry]) -> None:
    assert load_archive(dump_archive(entries), "x") == entries
    loaded = load_listing(dump_listing(entries), "x")
    # a directory that holds something is implied
    assert loaded.items() <= entries.items()
    assert {path for path, entry in entries.items() if entry.kind != "d"} <= set(loaded)
    assert dump_listing(loaded) == dump_listing(entries)
    assert dump_archive(entries) == dump_archive(dict(reversed(entries.items())))


class Faulty(MemoryTree):
    """A tree with files that exist and cannot be read, as empty GID slots are."""

    def _data(self, path: str) -> bytes | None:
        data = super()._data(path)
        return None if data is not None and data.startswith(b"!") else data


@given(ENTRIES, st.sets(PATH), st.lists(st.booleans()))
def test_a_recording_answers_like_the_original(entries: dict[str, Entry], unread: set[str], order: list[bool]) -> None:
    entries = {path: Entry("f", b"!") if path in unread else entry for path, entry in entries.items()}
    tree = Faulty(entries)
    recorder = Recorder(tree)
    asked = questions(entries)
    # exists() is not asked: a file that is there and cannot be read is not there in a recording
    for path in sorted(asked, reverse=bool(order)):
        assert recorder.read(path) == tree.read(path)
        assert recorder.link_name(path) == tree.link_name(path)
    replay = MemoryTree(recorder.entries)
    assert {path: replay.read(path) for path in asked} == {path: tree.read(path) for path in asked}
    assert {path: replay.link_name(path) for path in asked} == {path: tree.link_name(path) for path in asked}


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.capture")), ids=lambda path: path.stem)
def test_what_discovery_looked_at_is_enough_to_discover_the_same(capture: Path) -> None:
    recorder = Recorder(open_tree(str(capture)))
    facts = checked(gather(recorder))
    assert facts == gather(open_tree(str(capture)))
    assert gather(MemoryTree(recorder.entries)) == facts
    assert gather(MemoryTree(load_archive(dump_archive(recorder.entries), "x"))) == facts
    again = Recorder(MemoryTree(recorder.entries))
    gather(again)
    assert again.entries == recorder.entries


def test_only_an_excerpt_of_a_file_is_recorded() -> None:
    entries = {"/a": Entry("f", b"user\npassword\n"), "/link": Entry("l", target="a"), "/b": Entry("f", b"b")}
    recorder = Recorder(MemoryTree(entries))

    def first_line(data: bytes) -> bytes:
        return data.split(b"\n")[0] + b"\n"

    assert recorder.excerpt("/link", first_line) == b"user\n"
    assert recorder.excerpt("/none", first_line) is None
    # also when it is read whole later, under another name
    assert recorder.read("/a") == b"user\npassword\n"
    assert recorder.entries["/a"] == Entry("f", b"user\n")
    replayed = MemoryTree(recorder.entries)
    assert replayed.excerpt("/link", first_line) == b"user\n"


def test_a_link_that_leads_out_of_the_tree_is_recorded() -> None:
    recorder = Recorder(DirectoryTree("/"))
    target = recorder.link_target("/proc/self/exe")
    assert target
    assert recorder.entries["/proc/self/exe"] == Entry("l", target=target)
    assert MemoryTree(recorder.entries).link_target("/proc/self/exe") == target
    assert MemoryTree({}).link_target("/proc/self/exe") is None

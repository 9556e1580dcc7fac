# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of a file that changes: something, where anything changes, and never too much."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import (
    content_difference,
    difference,
    mode_difference,
    summary,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password

PATH = "/etc/a"
FILES = st.one_of(st.none(), st.binary(max_size=20))


@given(FILES, FILES)
@example(None, b"")
@example(b"caf\xe9", b"caf\xe8")
@example(b"a\0", b"b\0")
def test_contents_that_differ_are_shown_as_different(before: bytes | None, after: bytes | None) -> None:
    found = content_difference(PATH, before, after)
    assert (found["before"] == found["after"]) is (before == after)


@pytest.mark.parametrize("size", [0, 1])
def test_what_is_large_or_no_text_is_told_by_size_and_digest(size: int) -> None:
    text = b"x" * (104448 + size)
    found = content_difference(PATH, b"a\0b", text)
    assert found["before"] == summary(b"a\0b")
    assert re.fullmatch(r"\(3 bytes, SHA-256 [0-9a-f]{64}\)\n", found["before"])
    assert found["after"] == (summary(text) if size else text.decode())
    assert summary(None) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [("me:one@", "me:two@"), ("", "me:one@"), ("me:one@", "")],
    ids=["another", "a first", "none"],
)
def test_a_password_is_a_difference_that_is_not_shown(before: str, after: str) -> None:
    texts = [f"URIs: https://{each}example.com/\n".encode() for each in (before, after)]
    found = content_difference(PATH, texts[0], texts[1], without_password)
    assert found["before"] != found["after"]
    assert not re.search("one@|two@", str(found))
    # where anything else differs, too, that is shown
    found = content_difference(PATH, texts[0], texts[1] + b"Suites: ./\n", without_password)
    assert found["after"] == "URIs: https://example.com/\nSuites: ./\n"


def test_a_difference_names_its_file() -> None:
    assert difference(PATH, "one\n", "") == {
        "before_header": PATH,
        "after_header": PATH,
        "before": "one\n",
        "after": "",
    }
    modes = mode_difference(PATH, 0o644, 0o600)
    assert (modes["before"], modes["after"]) == ("mode 0644\n", "mode 0600\n")

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of a file that changes: something, where anything changes, and never too much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import (
    MOST_SHOWN,
    difference,
    mode_difference,
    shown,
    summary,
)


@given(st.one_of(st.none(), st.text().map(str.encode)), st.one_of(st.none(), st.text().map(str.encode)))
def test_texts_that_differ_are_shown_as_different(one: bytes | None, other: bytes | None) -> None:
    assert (shown(one) == shown(other)) is ((one or b"") == (other or b""))


def test_what_is_large_or_no_text_is_told_by_size_and_digest() -> None:
    for data in (b"x" * (MOST_SHOWN + 1), b"a\0b"):
        assert shown(data) == summary(data)
        assert summary(data).startswith(f"({len(data)} bytes, SHA-256 ")
        assert shown(data) != shown(data[:-1] + b"y")
    assert shown(b"x" * MOST_SHOWN) == "x" * MOST_SHOWN
    assert summary(None) == ""


def test_a_difference_names_its_file() -> None:
    assert difference("/etc/a", "one\n", "") == {
        "before_header": "/etc/a",
        "after_header": "/etc/a",
        "before": "one\n",
        "after": "",
    }
    modes = mode_difference("/etc/a", 0o644, 0o600)
    assert (modes["before"], modes["after"]) == ("mode 0644\n", "mode 0600\n")

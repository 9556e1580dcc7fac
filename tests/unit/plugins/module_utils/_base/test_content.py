# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes of a file's content and mode, downloads, and what differs from them."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.checksum import Checksum
from ansible_collections.fabric.rdma.plugins.module_utils._base.content import (
    check_download,
    decoded,
    difference_of,
    mode_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError, WishError

NOTHING = Checksum.of("sha256:" + "0" * 64, "checksum")


@pytest.mark.parametrize("data", [b"", b"a key"])
def test_a_download_with_the_checksum_passes(data: bytes) -> None:
    check_download("http://x/", data, NOTHING.like(data))


def test_a_download_with_another_checksum_or_too_large_is_refused_by_name() -> None:
    with pytest.raises(
        FabricError, match=r"^http://x/ has the checksum sha256:e3b0c44\w+, not sha256:0{64}; nothing was"
    ):
        check_download("http://x/", b"", NOTHING)
    with pytest.raises(FabricError, match=r"^http://x/ is larger than 16 MiB$"):
        check_download("http://x/", bytes((16 << 20) + 1), NOTHING)


@given(st.binary())
def test_base64_gives_back_what_was_encoded(data: bytes) -> None:
    assert decoded(base64.b64encode(data).decode()) == data


@pytest.mark.parametrize("text", ["a", "a\nb=", "é", "YQ==\n"])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(WishError, match=r"^content_base64 cannot be decoded: "):
        decoded(text)


@pytest.mark.parametrize(
    ("text", "private", "mode"),
    [("0644", False, 0o644), ("755", False, 0o755), ("0644", True, 0o600), ("0777", True, 0o700)],
)
def test_a_private_file_has_no_right_for_others(text: str, private: bool, mode: int) -> None:
    assert mode_of(text, private) == mode


@pytest.mark.parametrize("text", ["", "64", "0888", "u=rw", "4755", "0644\n"])
def test_what_is_not_a_mode_is_refused(text: str) -> None:
    with pytest.raises(WishError, match="expected an octal number of three digits, such as 0644"):
        mode_of(text, False)


@given(st.one_of(st.none(), st.binary()), st.binary(), st.integers(0, 0o777), st.booleans())
def test_a_difference_is_shown_exactly_where_content_or_privacy_differ(
    before: bytes | None, after: bytes, mode: int, private: bool
) -> None:
    found = difference_of("/f", before, after, None if before is None else mode, private)
    open_to_others = before is not None and private and mode & 0o077 != 0
    assert (found is not None) == (before != after or open_to_others)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums as somebody wishes for them."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.checksum import Checksum
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError


@given(st.binary(), st.binary(), st.sampled_from(["sha224", "sha256", "sha384", "sha512"]), st.booleans())
def test_data_have_exactly_their_own_checksum(data: bytes, other: bytes, algorithm: str, shout: bool) -> None:
    value = hashlib.new(algorithm, data).hexdigest()
    checksum = Checksum.of(f"{algorithm}:{value.upper() if shout else value}", "checksum")
    assert str(checksum) == f"{algorithm}:{value}"
    assert checksum.like(data) == checksum
    assert (checksum.like(other) == checksum) == (other == data)


@pytest.mark.parametrize(
    "text",
    ["", "sha256", "sha256:", "md5:" + "0" * 32, "sha256:" + "g" * 64, "sha512:" + "0" * 64, f"sha256:{'0' * 64}\n"],
)
def test_a_checksum_that_nothing_can_have_is_refused(text: str) -> None:
    with pytest.raises(WishError) as refused:
        Checksum.of(text, "rdma_ofed.key_checksum")
    assert str(refused.value) == (
        f"rdma_ofed.key_checksum is {text!r}; expected sha256: and 64 hexadecimal digits, or sha224, sha384, sha512"
    )

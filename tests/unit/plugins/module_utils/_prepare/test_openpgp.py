# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys as GnuPG 2.4 exports them, with the fingerprint that it tells."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.openpgp import fingerprints, is_key_of

KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawZnuxYJKwYBBAHaRw8BAQdAh/46IqehQSPcmS8O4CdOUKYuMWQIPHCuLT4N
opWgQc60FlZlbmRvciA8dkBleGFtcGxlLmNvbT6IkAQTFggAOBYhBCP8SCv1W5W1
dSYZ3TMMjjJUm3VJBQJrBme7AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJ
EDMMjjJUm3VJ0UgBAMZmnOb6X/X171Fx2dDBS+laouSmRwHbVEO7Xp2Qcb1fAQCV
ZV9jKlys+B+Y+WsHWApibXExN+oe6GLZPw9jdqe4Dw==
=jx+N
-----END PGP PUBLIC KEY BLOCK-----
"""
PRINT = "23fc482bf55b95b5752619dd330c8e32549b7549"
PLAIN = base64.b64decode("".join(KEY.splitlines()[2:-2]))
# the same key, its length in the newer ways
NEWER = [b"\xc6\x33" + PLAIN[2:], b"\xc6\xff\x00\x00\x00\x33" + PLAIN[2:], b"\x99\x00\x33" + PLAIN[2:]]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (KEY.encode(), [PRINT]),
        (KEY.replace("\n", "\r\n").replace("BLOCK-----\r\n\r", "BLOCK-----\r\nVersion: x\r\n\r", 1).encode(), [PRINT]),
        ((KEY + KEY).encode(), [PRINT] * 2),
        (PLAIN, [PRINT]),
        *[(data, [PRINT]) for data in NEWER],
        (PLAIN[:40], []),
        (b"", []),
        (b"no key", []),
    ],
)
def test_fingerprints_are_those_that_gnupg_tells(data: bytes, found: list[str]) -> None:
    assert fingerprints(data) == found


@given(st.binary() | st.binary().map(lambda data: PLAIN[:1] + data))
def test_any_bytes_are_keys_or_none(data: bytes) -> None:
    assert all(len(each) == 40 for each in fingerprints(data))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("gpg-pubkey-549b7549-6b0667bb", True),
        (f"gpg-pubkey-{PRINT}-6b0667bb", True),
        ("gpg-pubkey-330c8e32-6b0667bb", False),
        ("gpg-pubkey-9-6b0667bb", False),
        ("doca-ofed.noarch", False),
    ],
)
def test_a_key_of_rpm_is_known_by_the_end_of_its_fingerprint(name: str, is_one: bool) -> None:
    assert is_key_of(name, [PRINT]) is is_one

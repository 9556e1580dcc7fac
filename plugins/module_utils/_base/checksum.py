# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checksum as somebody wishes for it: the name of its algorithm and its digits. Private to the collection. Pure."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError

__all__ = ["Checksum"]

# hexadecimal digits of each algorithm
_DIGITS = {"sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}


class Checksum(t.NamedTuple):
    """str() is sha256:0123..., in lower case."""

    algorithm: str
    digits: str

    @classmethod
    def of(cls, text: str, name: str) -> Checksum:
        """That of a wish; name: what the user calls it, for the WishError."""
        algorithm, _colon, digits = text.partition(":")
        if algorithm not in _DIGITS or not re.fullmatch(f"[0-9a-fA-F]{{{_DIGITS[algorithm]}}}", digits):
            raise WishError(
                f"{name} is {text!r}; expected sha256: and 64 hexadecimal digits, or sha224, sha384, sha512"
            )
        return cls(algorithm, digits.lower())

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digits}"

    def like(self, data: bytes) -> Checksum:
        """That of data, by the same algorithm."""
        return self._replace(digits=hashlib.new(self.algorithm, data).hexdigest())

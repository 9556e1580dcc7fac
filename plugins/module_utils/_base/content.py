# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file is to hold and who may read it: wishes as they are written, and how the file differs from them. Private to the collection. Pure."""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.checksum import Checksum
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import content_difference, mode_difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError, WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import MOST
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password

__all__ = ["check_download", "decoded", "difference_of", "mode_of"]


def check_download(url: str, data: bytes, wished: Checksum) -> None:
    """FabricError for data from an address that have another checksum, or are more than a file of ours may have."""
    if len(data) > MOST:
        raise FabricError(f"{url} is larger than {MOST >> 20} MiB")
    found = wished.like(data)
    if found != wished:
        raise FabricError(f"{url} has the checksum {found}, not {wished}; nothing was written")


def decoded(text: str) -> bytes:
    """What a text in base64 stands for."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise WishError(f"content_base64 cannot be decoded: {exc}") from exc


def mode_of(text: str, private: bool) -> int:
    """The mode of a file; private: of which nobody but its owner has rights."""
    if not re.fullmatch("0?[0-7]{3}", text):
        raise WishError(f"mode is '{text}'; expected an octal number of three digits, such as 0644")
    return int(text, 8) & (0o700 if private else 0o777)


def difference_of(
    path: str, before: t.Optional[bytes], after: bytes, mode: t.Optional[int], private: bool
) -> t.Optional[dict[str, t.Any]]:
    """What Ansible shows of a change; None where a file is as it has to be. before, mode: of the file that is there, None without one.

    The mode of a file that is there is left alone, but for what is private and others can read.
    """
    if before != after:
        # what is replaced may have the password of an address that nobody names any more
        return content_difference(path, before, after, without_password)
    if private and mode is not None and mode & 0o077:
        return mode_difference(path, mode, mode & 0o700)
    return None

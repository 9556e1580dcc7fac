# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be known of a node in a later run is kept on the node, one JSON file each. Private to the collection."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import (
    make_directories,
    read,
    replace,
    sync_directory,
)

__all__ = ["RememberedError", "forget", "recall", "remember"]

_VERSION = 1


class RememberedError(FabricError):
    """A file that cannot be used."""


def remember(path: str, value: t.Mapping[str, t.Any]) -> None:
    """Writes a file as a whole or not at all; on the disk when this returns. OSError with the path."""
    make_directories(os.path.dirname(path))
    data = (json.dumps({**value, "version": _VERSION}, sort_keys=True) + "\n").encode("utf-8")
    # it may name repositories with passwords
    replace(path, data, read(path), mode=0o600)


def recall(path: str) -> t.Optional[dict[str, t.Any]]:
    """What was remembered; None when nothing was. RememberedError for a file that is not ours."""
    try:
        data = read(path)
    except OSError as exc:
        raise RememberedError(f"{path} is damaged ({exc.strerror})", "look at it and remove it") from exc
    if data is None:
        return None
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise RememberedError(f"{path} is damaged ({exc})", "look at it and remove it") from exc
    if not isinstance(value, dict) or value.get("version") != _VERSION:
        raise RememberedError(f"{path} is of another version of the collection", "look at it and remove it")
    return value


def forget(path: str) -> bool:
    """Whether there was anything to forget."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    sync_directory(os.path.dirname(path))
    return True

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of an API server here. Private to the collection. Types only."""

from __future__ import annotations

import builtins
import typing as t

__all__ = ["Client"]

Json = t.Dict[str, t.Any]


class Client(t.Protocol):
    """An API server, as Kube of _rollout is one. Refusals are FabricErrors with the HTTP status as code, 0 without an answer.

    passing says of one whether the same may go well in a moment.
    """

    def request(
        self, method: str, path: str, doing: str, query: t.Sequence[tuple[str, str]] = ..., body: t.Any = ...
    ) -> Json: ...

    def list(self, path: str, doing: str, metadata_only: bool = ..., **query: str) -> builtins.list[Json]: ...

    def text(self, path: str, doing: str, within: t.Optional[float] = ..., node: str = ..., /, **query: str) -> str: ...

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig for a server of a test."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

Json = dict[str, t.Any]


def kubeconfig_of(server: str, user: t.Mapping[str, t.Any] | None = None, **cluster: t.Any) -> Json:
    """The one context leads to the server as the user; cluster: more keys of the cluster, such as a certificate."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }


def written(directory: Path, config: Json) -> str:
    """The path of a kubeconfig that was written into a directory."""
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig for a server of a test."""

from __future__ import annotations

import base64
import json
import shlex
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


def typed(lines: t.Iterable[str]) -> Json:
    """What lines of kubectl config leave in a kubeconfig that was not there, as kubectl has them: not every machine has that program."""
    config: Json = {"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []}
    for line in lines:
        _kubectl, _config, _option, _path, verb, name, *rest = shlex.split(line)
        given = dict(zip(rest[::2], [*rest[1::2], ""], strict=False))
        if verb == "set-cluster":
            authority = base64.b64encode(Path(given["--certificate-authority"]).read_bytes()).decode()
            assert "--embed-certs" in given
            cluster = {"server": given["--server"], "certificate-authority-data": authority}
            config["clusters"].append({"name": name, "cluster": cluster})
        elif verb == "set-credentials":
            config["users"].append({"name": name, "user": {"token": given["--token"]}})
        elif verb == "set-context":
            context = {"cluster": given["--cluster"], "user": given["--user"]}
            config["contexts"].append({"name": name, "context": context})
        else:
            assert verb == "use-context", line
            config["current-context"] = name
    return config

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory out of which the doctor finds again what it found in a cluster. Private to the collection. Pure."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.anonymous import Names
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Json, Material
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import CONTEXT

__all__ = ["bundle_files"]

# How deep in a file hosts are keys, and nothing but keys of its form below.
_HOSTS_AT = {"facts.json": 1, "cluster.json": 2}


def _text(document: t.Any) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _file_name(number: int, name: str) -> str:
    return f"logs/{number:04d}-{re.sub(r'[^A-Za-z0-9.-]+', '_', name)[:80].strip('._')}.log"


def bundle_files(material: Material, anonymize: bool = False) -> dict[str, str]:
    """{path in the directory: text} of a bundle.

    anonymize: names of hosts and their domain, addresses, GUIDs and names of initiators are replaced, each by the same everywhere.
    """
    names = Names(material) if anonymize else None
    index: list[Json] = []
    files: dict[str, str] = {}
    for number, log in enumerate(material["logs"], 1):
        # a host may be in the name
        path = _file_name(number, names.text(log["name"]) if names else log["name"])
        files[path] = log["text"]
        index.append({"file": path, **{key: value for key, value in log.items() if key != "text"}})
    context = {
        "schema": 1,
        "groups": material["groups"],
        "node_names": material["node_names"],
        "unread": material["unread"],
        "logs": index,
    }
    for path, document in (
        ("facts.json", material["facts"]),
        ("plan.json", material["plan"]),
        ("cluster.json", material["cluster"]),
        (CONTEXT, context),
    ):
        if document:
            files[path] = _text(document)
    return {path: names.text(text, _HOSTS_AT.get(path, 0)) for path, text in files.items()} if names else files

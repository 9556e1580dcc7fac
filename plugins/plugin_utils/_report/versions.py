# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions the nodes have, and where they differ inside a group. Private to the collection. Pure, but for the version of the
collection, which is read."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    Json,
    as_map,
    as_maps,
    clean,
    hosts_in_words,
)

__all__ = ["collection_version", "version_views"]

_FLAVOURS = {"inbox": "of the distribution", "mlnx_ofed": "MLNX_OFED", "doca": "DOCA"}
# Rows of a group; more sorts of cards than that are no longer news.
_MAX_ROWS = 24
_MAX_VERSIONS = 8


@functools.cache
def collection_version() -> str:
    """Of this collection: an installed one has MANIFEST.json, a checkout galaxy.yml. Empty where neither says it."""
    root = Path(__file__).resolve().parents[3]
    found = re.search(r'"version": *"([^"]+)"', _text(root / "MANIFEST.json"))
    found = found or re.search(r"^version: *(\S+)", _text(root / "galaxy.yml"), re.M)
    return found.group(1) if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _versions_of(facts: Json) -> dict[str, str]:
    """What a node has, by what it is: sorts of cards with all firmware that they have."""
    kernel, ofed, nvidia = (as_map(facts.get(key)) for key in ("kernel", "ofed", "nvidia"))
    runtime = as_map(facts.get("runtime"))
    flavour = _FLAVOURS.get(str(ofed.get("flavour")), ofed.get("flavour"))
    found: dict[str, t.Any] = {
        "kernel": kernel.get("release"),
        "RDMA driver": " ".join(str(part) for part in (flavour, ofed.get("version")) if part),
        "NVIDIA driver": nvidia.get("driver"),
        "containerd": as_map(runtime.get("containerd")).get("version"),
        "distribution of Kubernetes": runtime.get("distribution") if runtime.get("distribution") != "none" else None,
    }
    firmware: dict[str, set[str]] = {}
    for device in as_maps(facts.get("devices")):
        if device.get("firmware") and device.get("kind") != "software":
            name = f"firmware of {device.get('model') or device.get('driver') or 'cards'}"
            firmware.setdefault(name, set()).add(str(device["firmware"]))
    found |= {name: ", ".join(sorted(each, key=natural_key)) for name, each in sorted(firmware.items())}
    return {clean(what, 80): clean(version, 120) for what, version in found.items() if version}


def version_views(facts: t.Mapping[str, Json], hosts: t.Sequence[str]) -> list[Json]:
    """Rows of a group: what, and each version with the hosts that have it, the most frequent first."""
    found: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        if host in facts:
            for what, version in _versions_of(as_map(facts[host])).items():
                found.setdefault(what, {}).setdefault(version, []).append(host)
    rows = []
    for what, versions in list(found.items())[:_MAX_ROWS]:
        ordered = sorted(versions, key=lambda version: (-len(versions[version]), natural_key(version)))
        rows.append(
            {
                "what": what,
                "differs": len(versions) > 1,
                "versions": [
                    {"text": each, "hosts": hosts_in_words(versions[each])} for each in ordered[:_MAX_VERSIONS]
                ],
                "more": max(0, len(ordered) - _MAX_VERSIONS),
            }
        )
    return rows

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of charts: what a release knows, what a wish stands for, and how they are put together. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site, Wait

__all__ = ["chart_place", "device_plugin_off", "owned", "rolled_out", "switched_off", "unknown_group"]


def _there(values: t.Any, path: str) -> bool:
    for key in path.split("."):
        if not isinstance(values, t.Mapping) or key not in values:
            return False
        values = values[key]
    return True


def owned(where: str, values: t.Mapping[str, t.Any], owners: t.Mapping[str, str]) -> list[str]:
    """A sentence on each value that a wish stands for: what was checked of the wish would not hold for the value.

    where: such as rdma_longhorn.values. owners: {path with dots: what to do instead}. Values are never shown: some are passwords.
    """
    return [f"{where}.{path}: {instead}" for path, instead in owners.items() if _there(values, path)]


def chart_place(wish: t.Mapping[str, t.Any], name: str, repository: str) -> tuple[str, t.Optional[str]]:
    """(chart, repository) of a wish, else the publisher's. name: of the chart. A path or an address needs no repository."""
    chart = str(wish.get("chart") or name)
    return (chart, None) if "/" in chart else (chart, str(wish.get("repository") or repository))


def rolled_out(kind: str, namespace: str, name: str, nodes: t.Optional[int] = None) -> Wait:
    """Waits until a Deployment or DaemonSet is rolled out. nodes: on how many a DaemonSet is to be, at least, where that is known."""
    wait: Wait = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "path": "",
        "value": None,
    }
    return wait if nodes is None else {**wait, "nodes": nodes}


def unknown_group(variable: str, group: str, site: Site) -> str:
    known = ", ".join(sorted(site["groups"])) or "none"
    return f"{variable}.groups names {group}, which is not in rdma_groups ({known}){nearest(group, site['groups'])}"


def switched_off(wish: t.Any) -> bool:
    """Whether a wish says ``enabled: false``: it asks for nothing, and leaves what is there."""
    return isinstance(wish, t.Mapping) and wish.get("enabled") is False


def device_plugin_off(wish: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Whether a wish rdma_gpu_operator has the GPU Operator's device plugin off in the whole cluster."""
    values = (wish or {}).get("values")
    section = values.get("devicePlugin") if isinstance(values, t.Mapping) else None
    return switched_off(section) or (wish or {}).get("device_plugin") is False

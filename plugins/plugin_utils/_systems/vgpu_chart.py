# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volcano as a Helm release: which releases there are, what comes after what. Private. Pure.

Follows installer/helm/chart/volcano of each release line. wish: rdma_vgpu with all keys.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import VOLCANO_CHARTS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, parsed
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import rolled_out
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart, Json, Site, Wait

__all__ = ["chart_of", "upgrade_problems", "value_problems", "waits_of"]


def upgrade_problems(release: Version, wish: t.Mapping[str, t.Any], installed: t.Mapping[str, t.Any]) -> list[str]:
    others = [
        name
        for name, each in sorted(installed.items())
        if each.get("chart") == "volcano"
        and (name, each.get("namespace", wish["namespace"])) != (wish["release"], wish["namespace"])
    ]
    if others:
        where = installed[others[0]].get("namespace")
        return [
            f"Volcano is installed as release {others[0]} in namespace {where}: set rdma_vgpu.release and .namespace to these, or uninstall "
            "that release"
        ]
    there = installed.get(wish["release"])
    old = parsed(there.get("version")) if there else None
    if old and (old.line, old.patch) > (release.line, release.patch):
        return [
            f"Volcano is {old.text}, and rdma_vgpu.version is {release.text}, which is older: its definitions do not go back; set {old.text} "
            "or newer"
        ]
    return []


def value_problems(values: t.Mapping[str, t.Any]) -> list[str]:
    """Values that would go round what this decides."""
    found = []
    for section, keys in (
        ("basic", ("image_registry", "image_tag_version")),
        ("custom", ("scheduler_config_override",)),
    ):
        own = values.get(section, {})
        if not isinstance(own, t.Mapping):
            found.append(f"rdma_vgpu.values.{section} is of type {type(own).__name__}; expected a dictionary")
            continue
        found += [
            f"rdma_vgpu.values.{section} has {key}, which rdma_vgpu decides: take it out"
            + (", and give your own configuration as rdma_vgpu.scheduler" if section == "custom" else "")
            for key in keys
            if key in own
        ]
    return found


def chart_of(release: Version, wish: t.Mapping[str, t.Any], site: Site, configuration: str) -> Chart:
    given = {
        key: value if isinstance(value, t.Mapping) else {}
        for key, value in wish["values"].items()
        if key in ("basic", "custom")
    }
    basic: Json = {"image_tag_version": f"v{release.text}"}
    if site["registry"]:
        basic["image_registry"] = site["registry"].rstrip("/")
    if site["pull_secrets"]:
        basic["image_pull_secret"] = site["pull_secrets"][0]
    values = {
        **wish["values"],
        "basic": {**basic, **given.get("basic", {})},
        "custom": {**given.get("custom", {}), "scheduler_config_override": configuration},
    }
    return {
        "release": wish["release"],
        "namespace": wish["namespace"],
        "chart": "volcano",
        "repository": VOLCANO_CHARTS,
        "version": release.text,
        "values": values,
        "privileged": False,
    }


def waits_of(chart: Chart) -> list[Wait]:
    """The Deployments that the chart has, but for those that the user's values leave out."""
    custom = chart["values"]["custom"]
    parts = (("controller", "controllers"), ("scheduler", "scheduler"), ("admission", "admission"))
    return [
        rolled_out("Deployment", chart["namespace"], f"{chart['release']}-{name}")
        for key, name in parts
        if custom.get(f"{key}_enable") is not False
    ]

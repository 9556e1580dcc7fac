# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request looks like in files and to Helm. Private. Pure."""

from __future__ import annotations

import json
import re
import shlex
import typing as t

import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import POD_SECURITY
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart, Json, Request, Site

__all__ = ["charts_for_helm", "files_of", "given_values", "record_of"]

# what a run removes again when nobody asks for it any more
_OURS = "# app.kubernetes.io/managed-by: fabric.rdma\n"


def given_values(wish: t.Any) -> t.Iterator[t.Any]:
    """What users give to charts and containers, in any depth of a wish: values and env, in which passwords may be."""
    if isinstance(wish, t.Mapping):
        for key, each in wish.items():
            yield from [each] if key in ("values", "env") else given_values(each)
    elif isinstance(wish, (list, tuple)):
        for each in wish:
            yield from given_values(each)


def charts_for_helm(charts: t.Iterable[Chart], site: Site, wish: t.Any = None) -> list[Json]:
    """Charts with what Helm is told: where each comes from, its namespace as an object ({} leaves it to Helm), NAMESPACE/RELEASE.

    secrets: what no message may repeat. What is made here is told, so that a message stays readable.
    """
    secrets = list(given_values([wish, site["wishes"]]))
    found = []
    for chart in charts:
        told: Json = dict(chart)
        name, version = chart["chart"].rpartition("/")[2], chart["version"]
        if site["charts"]:
            told.update(chart=f"{site['charts'].rstrip('/')}/{name}-{version}.tgz", repository=None)
        labels = {f"{POD_SECURITY}{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
        metadata = {"name": chart["namespace"], "labels": labels}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        told["namespace_object"] = namespace if chart["privileged"] and chart["namespace"] != "kube-system" else {}
        told["secrets"] = {"given": secrets}
        told["release_key"] = f"{chart['namespace']}/{chart['release']}"
        found.append(told)
    return found


def record_of(request: Request) -> Json:
    """What the report shows of a system, without its state: who has rendered or applied it adds that (systems/NAME/state.json)."""
    files = files_of(request)
    uses: Json = {}
    for objects in request["workloads"].values():
        for item in objects:
            if item.get("kind") == "Pod":
                limits = [each.get("resources", {}).get("limits", {}) for each in item["spec"]["containers"]]
                uses[item["metadata"]["name"]] = {
                    "annotations": item["metadata"].get("annotations", {}),
                    "resources": {key: value for each in limits for key, value in each.items()},
                }
    return {
        "schema": 1,
        "system": request["system"],
        "summary": [list(row) for row in request["summary"]],
        "problems": request["problems"],
        "warnings": request["warnings"],
        "uses": uses,
        "workloads": {name: file["text"] for name, file in files.items() if name.startswith("workloads/")},
    }


def _plain(value: t.Any) -> t.Any:
    """Without what ansible-core hangs on values of an inventory (its tags), which the writer of YAML does not know."""
    return json.loads(json.dumps(value))


def _documents(items: t.Iterable[t.Any]) -> str:
    return _OURS + yaml.safe_dump_all(
        [_plain(item) for item in items], explicit_start=True, sort_keys=False, width=1000, allow_unicode=True
    )


def _labelling(labels: t.Mapping[str, t.Mapping[str, str]]) -> str:
    """Commands that label the nodes as the objects need it, for whoever applies the files by hand."""
    lines = [
        shlex.join(
            ["kubectl", "label", "node", node, *(f"{key}={value}" for key, value in sorted(own.items())), "--overwrite"]
        )
        for node, own in sorted(labels.items())
    ]
    return f"#!/bin/sh\n{_OURS}" + "\n".join(lines) + "\n"


def files_of(request: Request) -> dict[str, dict[str, str]]:
    """{name: {text, mode}}: objects, values of charts, labels of nodes, workloads, images."""
    files: dict[str, dict[str, str]] = {}
    if request["objects"]:
        files["objects.yaml"] = {"text": _documents(request["objects"]), "mode": "0644"}
    for chart in request["charts"]:
        source = f"{without_password(chart['chart'])} {chart['version']}, release {chart['release']}, namespace {chart['namespace']}"
        text = f"{_OURS}# values of {source}\n" + yaml.safe_dump(
            _plain(chart["values"]), explicit_start=True, sort_keys=False
        )
        # they may have secrets in them
        files[f"{chart['release']}-values.yaml"] = {"text": text, "mode": "0600"}
    if request["node_labels"]:
        files["labels.sh"] = {"text": _labelling(request["node_labels"]), "mode": "0755"}
    for name, objects in request["workloads"].items():
        # groups may be called as they like, files below our directory may not
        files[f"workloads/{re.sub(r'^[.]+|[^A-Za-z0-9._-]+', '_', name)}"] = {
            "text": _documents(objects),
            "mode": "0644",
        }
    if request["images"]:
        files["images.txt"] = {"text": _OURS + "".join(f"{image}\n" for image in request["images"]), "mode": "0644"}
    return files

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What device plugins and kubelets do to the status of nodes, which kwok does not, for the nodes that cluster.py plays.

A node on which a Pod of the device plugin is ready offers the resources of its configuration. One whose Pod went lists them
with an allocatable count of 0, and its capacity keeps the count, as a kubelet's does for five minutes. On a node whose annotation
has the value "broken" no plugin starts.
"""

from __future__ import annotations

import json
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._kube import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import OWN_SELECTOR

NODE_ANNOTATION = "rdma.fabric/test-node"


def offered(kube: Kube) -> dict[str, dict[str, int]]:
    """Resources of each node on which a plugin runs."""
    found: dict[str, dict[str, int]] = {}
    for pod in kube.list("/api/v1/pods", "list", labelSelector=OWN_SELECTOR):
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if pod["status"].get("phase") != "Running" or metadata.get("deletionTimestamp"):
            continue
        space, instance = metadata["namespace"], metadata["labels"]["app.kubernetes.io/instance"]
        config = kube.find(f"/api/v1/namespaces/{space}/configmaps/rdma-shared-dp-{instance}", "read")
        for pool in json.loads(config["data"]["config.json"])["configList"] if config else []:
            name = f"{pool.get('resourcePrefix') or 'rdma'}/{pool['resourceName']}"
            found.setdefault(node, {})[name] = pool["rdmaHcaMax"]
    return found


def report(kube: Kube) -> None:
    plugins = offered(kube)
    for node in kube.list("/api/v1/nodes", "list"):
        name, status = node["metadata"]["name"], node.get("status") or {}
        role = (node["metadata"].get("annotations") or {}).get(NODE_ANNOTATION)
        if role is None:
            continue
        mine = {} if role == "broken" else plugins.get(name, {})
        allocatable = status.get("allocatable") or {}
        listed = {resource for resource in {*(status.get("capacity") or {}), *allocatable} if "/" in resource}
        wanted = {resource: str(mine.get(resource, 0)) for resource in {*listed, *mine}}
        if {resource: allocatable.get(resource) for resource in wanted} != wanted:
            capacity = {resource: str(count) for resource, count in mine.items()}
            body: dict[str, t.Any] = {"status": {"capacity": capacity, "allocatable": wanted}}
            kube.merge(f"/api/v1/nodes/{name}/status", "report", body, dry_run=False)


def main() -> None:
    kube = Kube()
    while True:
        # the API server is ended in some tests, and nodes go while they are looked at
        try:
            report(kube)
        except KubeError as exc:
            print(exc, flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What device plugins and kubelets do to the status of nodes, which kwok does not, for the nodes that cluster.py plays.

A node on which a Pod of a device plugin is ready offers the resources of its configuration. One whose Pod went lists them with an
allocatable count of 0, and its capacity keeps the count, as a kubelet's does for five minutes. On a node whose annotation has the
value "broken" no plugin starts, and of one with "silent" nothing is reported. How many functions the SR-IOV plugin finds is said by another annotation.
"""

from __future__ import annotations

import json
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import OWN_SELECTOR

NODE_ANNOTATION = "rdma.fabric/test-node"
FUNCTIONS_ANNOTATION = "rdma.fabric/test-functions"
# Pods of our DaemonSets, and those that the Network Operator makes for its policies.
SELECTORS = (OWN_SELECTOR, "ds-owner")


def configurations(kube: Kube) -> dict[str, list[dict[str, t.Any]]]:
    """What the plugins that run on each node have mounted."""
    found: dict[str, list[dict[str, t.Any]]] = {}
    for pod in [pod for selector in SELECTORS for pod in kube.list("/api/v1/pods", "list", labelSelector=selector)]:
        if pod["status"].get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
            continue
        (name,) = [each["configMap"]["name"] for each in pod["spec"]["volumes"] if each.get("configMap")]
        mounted = kube.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{name}", "read")
        if mounted:
            found.setdefault(pod["spec"]["nodeName"], []).append(json.loads(mounted["data"]["config.json"]))
    return found


def offered(config: dict[str, t.Any], functions: int) -> dict[str, int]:
    """What a plugin advertises."""
    shared = {
        f"{pool.get('resourcePrefix') or 'rdma'}/{pool['resourceName']}": pool["rdmaHcaMax"]
        for pool in config.get("configList", [])
    }
    return {
        **shared,
        **{f"{row['resourcePrefix']}/{row['resourceName']}": functions for row in config.get("resourceList", [])},
    }


def report(kube: Kube) -> None:
    plugins = configurations(kube)
    for node in kube.list("/api/v1/nodes", "list"):
        name, status = node["metadata"]["name"], node.get("status") or {}
        annotations = node["metadata"].get("annotations") or {}
        if annotations.get(NODE_ANNOTATION, "silent") == "silent":
            continue
        mine: dict[str, int] = {}
        for config in plugins.get(name, []) if annotations[NODE_ANNOTATION] != "broken" else []:
            mine.update(offered(config, int(annotations.get(FUNCTIONS_ANNOTATION, 0))))
        allocatable = status.get("allocatable") or {}
        listed = {resource for resource in {*(status.get("capacity") or {}), *allocatable} if "/" in resource}
        wanted = {resource: str(mine.get(resource, 0)) for resource in {*listed, *mine}}
        if {resource: allocatable.get(resource) for resource in wanted} != wanted:
            capacity = {resource: str(count) for resource, count in mine.items()}
            body: dict[str, t.Any] = {"status": {"capacity": capacity, "allocatable": wanted}}
            kube.merge(f"/api/v1/nodes/{name}/status", "report", body, dry_run=False)


def revision(kube: Kube) -> str:
    """Of the whole store: each write of any object makes it another one, whatever kind is listed (etcd's revision)."""
    listed = kube.request("GET", "/api/v1/nodes", "ask for the revision", [("limit", "1")])
    return str(listed["metadata"]["resourceVersion"])


def report_once(kube: Kube, seen: str) -> str:
    """Reports where anything at all was written since `seen`. The revision that was reported on.

    To look at all Pods and their configurations costs ten times what this question does, and scenarios wait more than they write.
    """
    found = revision(kube)
    if found != seen:
        report(kube)
    return found


def main() -> None:
    kube, seen = Kube(), ""
    while True:
        # the API server is ended in some tests, and nodes go while they are looked at
        try:
            seen = report_once(kube, seen)
        except KubeError as exc:
            print(exc, flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_state
short_description: Report the APIs, nodes and networks of a cluster
version_added: "0.1.0"
description:
  - Asks the API server which API groups and versions it serves, for the labels, kubelet version, addresses, taints and Pod networks of
    each node, and for the networks of Services.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.looks
options:
  inventory:
    description:
      - The name of an inventory, as in the label C(rdma.fabric/inventory). Its systems are returned, too.
      - If they cannot be read, that is a warning.
    type: str
seealso:
  - plugin: fabric.rdma.rdma_system
    plugin_type: filter
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the cluster
  fabric.rdma.cluster_state:
    kubeconfig: /etc/kubernetes/admin.conf
    inventory: default
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
served:
  description: Versions that are served, by API group. The core group is the empty text.
  returned: success
  type: dict
  sample: {"": [v1], apps: [v1], resource.k8s.io: [v1]}
nodes:
  description: Labels, version of the kubelet, addresses and names, networks of Pods, and taints, by node.
  returned: success
  type: dict
  sample:
    gpu-1: {labels: {nvidia.com/gpu.present: "true"}, kubelet: v1.34.2, addresses: [192.0.2.11, gpu-1], pod_cidrs: [10.244.3.0/24], taints: []}
service_cidrs:
  description:
    - Networks of Services, from objects of the kind ServiceCIDR, which Kubernetes has from 1.33 on.
    - V(null) if the cluster does not know this kind, or does not let its objects be listed.
  returned: success
  type: list
  elements: str
  sample: [10.96.0.0/12]
systems:
  description: Names of the systems that rollouts of O(inventory) installed. V(null) if they could not be read.
  returned: when O(inventory) is given
  type: list
  elements: str
  sample: [longhorn, secondary_network]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import (
    CONNECTION_OPTIONS,
    Kube,
    KubeError,
    Unreachable,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.node_views import node_views


def service_cidrs(kube: Kube) -> t.Optional[list[str]]:
    """None where nobody tells. Who needs them says so, and a rollout without secondary networks needs no right to read them."""
    try:
        items = kube.list("/apis/networking.k8s.io/v1/servicecidrs", "list ServiceCIDRs")
    except Unreachable:
        raise
    except KubeError as exc:
        if exc.code not in (403, 404):
            raise
        return None
    return [str(cidr) for item in items for cidr in (item.get("spec") or {}).get("cidrs") or ()]


def systems(module: AnsibleModule, kube: Kube) -> t.Optional[list[str]]:
    """Those that have a record. Nobody needs the right to read it for a rollout without systems."""
    selector = (
        f"app.kubernetes.io/managed-by={MANAGED_BY},{SYSTEM_LABEL},{INVENTORY_LABEL}={module.params['inventory']}"
    )
    path = "/api/v1/namespaces/kube-system/configmaps"
    try:
        records = kube.list(path, "list records of systems", metadata_only=True, labelSelector=selector)
    except KubeError as exc:
        module.warn(f"Which systems inventory '{module.params['inventory']}' has in the cluster is not known: {exc}")
        return None
    return sorted({item["metadata"]["labels"][SYSTEM_LABEL].replace("-", "_") for item in records})


def main() -> None:
    module = AnsibleModule(argument_spec={**CONNECTION_OPTIONS, "inventory": {"type": "str"}}, supports_check_mode=True)
    try:
        kube = connected(module)
        result: dict[str, t.Any] = {
            "served": kube.served(),
            "nodes": node_views(kube.list("/api/v1/nodes", "list nodes")),
            "service_cidrs": service_cidrs(kube),
        }
        if module.params["inventory"] is not None:
            result["systems"] = systems(module, kube)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

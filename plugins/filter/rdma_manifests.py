# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_manifests
short_description: Make the Kubernetes objects of a plan
version_added: "0.1.0"
description:
  - Gives one ConfigMap and one DaemonSet of the shared device plugin for each class of the plan.
  - The DaemonSet selects the nodes of its class by the label C(rdma.fabric/class) and carries a checksum of its configuration.
  - For the NVIDIA Network Operator, gives its policies instead, a NicNodePolicy for each class or one NicClusterPolicy.
positional: settings
options:
  _input:
    description: The plan of P(fabric.rdma.rdma_selectors#filter).
    type: dict
    required: true
  settings:
    description:
      - The keys C(namespace), C(image), C(priority_class), C(kubelet_root), C(tolerations) and C(resources).
      - With C(engine=network_operator), the key C(version) (release of the operator), and those that are named after options of
        P(fabric.rdma.network_operator#role).
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the objects
  ansible.builtin.debug:
    msg: "{{ plan_result | fabric.rdma.rdma_manifests(settings) }}"
  vars:
    settings:
      namespace: kube-system
      image: ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3
      priority_class: system-node-critical
      kubelet_root: /var/lib/kubelet
      tolerations: []
      resources: {}
"""

RETURN = r"""
_value:
  description: Objects by relative path of the file to write, such as C(ib-v100/ib-v100-daemonset.yaml).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_manifests(plan: t.Any, settings: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import plan_manifests
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_manifests
    from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed

    insist_on_mapping("rdma_manifests", plan, "the plan of fabric.rdma.rdma_selectors", "groups")
    try:
        make = operator_manifests if (settings or {}).get("engine") == "network_operator" else plan_manifests
        return make(completed(plan), settings)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_manifests": rdma_manifests}

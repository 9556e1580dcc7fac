# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_rollout
short_description: Make the objects that the rollout of a plan applies
version_added: "0.1.0"
description:
  - Gives the objects of the classes, the nodes of each class with the resources that they have to offer, and the groups that stay as they
    are in the cluster, as M(fabric.rdma.rollout) and M(fabric.rdma.rollout_ready) take them.
  - A group that this run did not plan stays as it is. So does one with hosts that have no usable port, unless O(allow_unusable)
    says that this is on purpose.
positional: settings, groups, allow_unusable
options:
  _input:
    description: The plan of P(fabric.rdma.rdma_selectors#filter).
    type: dict
    required: true
  settings:
    description:
      - The settings of P(fabric.rdma.rdma_manifests#filter), and C(node_names) (host to node), C(pod_security) (a bool, or V(auto),
        which is V(false) for C(kube-system) only), for the Network Operator C(namespace).
    type: dict
    required: true
  groups:
    description: The variable C(groups), all groups of the inventory with their hosts.
    type: dict
    default: {}
  allow_unusable:
    description:
      - Roll groups out without their hosts that have no usable port.
      - A group with hosts whose facts cannot be used still stays as it is.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what would be asked of a cluster
  ansible.builtin.debug:
    msg: "{{ plan_result | fabric.rdma.rdma_rollout(settings, groups) }}"
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
  description:
    - The keys C(objects), C(nodes), C(classes), C(keep), C(known), C(remove), C(inventory) and C(place), which are options of
      M(fabric.rdma.rollout), and C(warnings), a list of sentences. With C(engine=network_operator) also
      C(reload_objections), C(reload_undrained) and C(namespace), the object of the
      namespace in which the operator's Pods run, V(null) where its labels are not ours to change.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_rollout(plan: t.Any, settings: t.Any, groups: t.Any = None, allow_unusable: bool = False) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import label_scope, rollout_request
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_request
    from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed

    insist_on_mapping("rdma_rollout", plan, "the plan of fabric.rdma.rdma_selectors", "groups")
    insist_on_mapping("rdma_rollout", groups or {}, "groups with their hosts")
    inventory = {str(name): [str(host) for host in hosts] for name, hosts in (groups or {}).items()}
    try:
        make = operator_request if (settings or {}).get("engine") == "network_operator" else rollout_request
        whole = completed(plan)
        request = make(whole, settings, list(inventory), bool(allow_unusable))
        return {**request, **label_scope(whole, settings or {}, inventory)}
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_rollout": rdma_rollout}

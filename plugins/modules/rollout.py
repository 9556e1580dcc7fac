#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Bring the device plugin of every class to a cluster, all of it or nothing
version_added: "0.1.0"
description:
  - Asks the API server first whether it would take every object, label and removal (server-side dry run with strict field
    validation). One refusal, and nothing is changed.
  - Then applies what differs (server-side apply, field manager C(fabric.rdma)), labels the nodes of each class, and removes what
    no class asks for any more.
  - Removes only DaemonSets, ConfigMaps and NicNodePolicies that have the label C(app.kubernetes.io/managed-by=fabric.rdma), were
    applied by this field manager, and belong to no group in O(keep). Of the cluster's one NicClusterPolicy, only the fields that
    this field manager has applied are given up; it is deleted when nobody else has a field of it.
  - Removes the label C(rdma.fabric/class) only from nodes that are in no class any more, and that O(known) or O(remove) name. Deletes no namespace and no Pod.
  - A section of a policy of the NVIDIA Network Operator stands in the NicClusterPolicy or in NicNodePolicies, not in both. What has
    to go from the one goes before the other comes, and what others have there is refused by name.
  - Does not wait. M(fabric.rdma.rollout_ready) does.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    support: full
    details:
      - The API server is asked all the same, and a refusal is a failure.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  objects:
    description: Objects to apply, in this order. P(fabric.rdma.rdma_rollout#filter) makes them.
    type: list
    elements: dict
    required: true
  nodes:
    description: The class of every node that is in one, as the value of the label C(rdma.fabric/class).
    type: dict
    required: true
  keep:
    description: Groups, as in the label C(rdma.fabric/group), of which everything stays as it is.
    type: list
    elements: str
    default: []
  known:
    description:
      - Nodes of the inventory from which the label C(rdma.fabric/class) may go when they are in no class any more.
      - Any other node that would lose its label is a failure that names it, before anything is changed.
    type: list
    elements: str
    default: []
  remove:
    description: Nodes, and groups as in the label C(rdma.fabric/group), that are taken out on purpose.
    type: list
    elements: str
    default: []
  force:
    description:
      - Take over fields that others have set to other values, and sections of the NicClusterPolicy that NicNodePolicies are to have.
      - Let C(nodeAffinity) and C(tolerations) of the NicClusterPolicy move what others have in it.
    type: bool
    default: false
seealso:
  - module: fabric.rdma.rollout_ready
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Roll out what is planned
  fabric.rdma.rollout:
    kubeconfig: /etc/kubernetes/admin.conf
    objects: "{{ request.objects }}"
    nodes: "{{ request.nodes }}"
    keep: "{{ request.keep }}"
    known: "{{ request.known }}"
    remove: "{{ request.remove }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
objects:
  description: What was done with each object, or would be done in check mode.
  returned: success
  type: dict
  sample:
    DaemonSet kube-system/rdma-shared-dp-ib-a100: created
    ConfigMap kube-system/rdma-shared-dp-ib-a100: unchanged
    DaemonSet kube-system/rdma-shared-dp-ib-v100: removed
labels:
  description: Nodes whose label C(rdma.fabric/class) was changed, and its new value. V(null) where it was removed.
  returned: success
  type: dict
  sample: {a100-1: ib-a100, v100-1: null}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._kube import CONNECTION_OPTIONS, Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._kube_rollout import Rollout


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "objects": {"type": "list", "elements": "dict", "required": True},
            "nodes": {"type": "dict", "required": True},
            "keep": {"type": "list", "elements": "str", "default": []},
            "known": {"type": "list", "elements": "str", "default": []},
            "remove": {"type": "list", "elements": "str", "default": []},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    parameters: t.Dict[str, t.Any] = module.params
    try:
        rollout = Rollout(Kube(parameters["kubeconfig"], parameters["context"]), force=parameters["force"])
        rollout.look(parameters["objects"], parameters["nodes"], parameters["keep"])
        rollout.insist(parameters["known"], parameters["remove"])
        rollout.rehearse()
        for warning in rollout.warnings:
            module.warn(warning)
        result: t.Dict[str, t.Any] = {
            "changed": rollout.changed,
            "objects": rollout.actions(),
            "labels": rollout.labels,
            "diff": rollout.diff(),
        }
        if not module.check_mode:
            rollout.perform()
    except KubeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

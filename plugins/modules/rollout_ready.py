#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_ready
short_description: Wait until every node of a class offers its RDMA resource
version_added: "0.1.0"
description:
  - Waits until the controller has seen the newest version of the DaemonSet, it runs on exactly as many nodes as the class has,
    every Pod has that version and is ready, and the B(allocatable) of every node has each resource with the expected count.
  - When that does not happen in time, fails with the last state, and with what the scheduler, the kubelets and the DaemonSet
    controller say about it.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
  - fabric.rdma.kubernetes.waits
options:
  name:
    description: The class, as in the label C(rdma.fabric/class).
    type: str
    required: true
  namespace:
    description: The namespace of its DaemonSet.
    type: str
  daemon_set:
    description: The name of its DaemonSet. Needed where there is no O(policy).
    type: str
  policy:
    description:
      - The policy of the NVIDIA Network Operator that serves the class. The module finds and checks the operator's own DaemonSet for it.
      - The operator has to say that the device plugin is ready, with the configuration that the policy has now.
      - Nodes that lack a label which the operator's DaemonSets select are named.
    type: dict
    suboptions:
      kind:
        description: The kind of policy.
        type: str
        choices: [NicClusterPolicy, NicNodePolicy]
        required: true
      name:
        description: Its name.
        type: str
        required: true
      section:
        description: The section of the device plugin.
        type: str
        choices: [rdmaSharedDevicePlugin, sriovDevicePlugin]
        default: rdmaSharedDevicePlugin
      nodes:
        description:
          - The number of nodes on which its device plugin should run, including those of other classes.
          - When omitted, that may be any number from that of O(nodes).
        type: int
  nodes:
    description: Its nodes. A class without nodes is a failure.
    type: list
    elements: str
    required: true
  resources:
    description: Extended resources, and how many of each a node has to offer.
    type: dict
    required: true
  node_resources:
    description: The same by node, for nodes that offer something else than O(resources).
    type: dict
    default: {}
seealso:
  - module: fabric.rdma.rollout
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Wait for the nodes of a class
  fabric.rdma.rollout_ready:
    name: ib-a100
    namespace: kube-system
    daemon_set: rdma-shared-dp-ib-a100
    nodes: [a100-1, a100-2]
    resources: {rdma/rdma_a100: 63}
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
waited:
  description: Seconds until everything was right.
  returned: success, and when the time is up
  type: float
  sample: 12.4
missing:
  description: What is not right, in words. Empty on success.
  returned: success, and when the time is up
  type: list
  elements: str
  sample: ["rdma/rdma_a100: allocatable is 0, not 63 on a100-2"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.class_ready import refusal, wait_for_class
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import WAIT_OPTIONS, wait_or_fail


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **WAIT_OPTIONS,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str"},
            "daemon_set": {"type": "str"},
            "policy": {
                "type": "dict",
                "options": {
                    "kind": {"type": "str", "choices": ["NicClusterPolicy", "NicNodePolicy"], "required": True},
                    "name": {"type": "str", "required": True},
                    "section": {
                        "type": "str",
                        "choices": ["rdmaSharedDevicePlugin", "sriovDevicePlugin"],
                        "default": "rdmaSharedDevicePlugin",
                    },
                    "nodes": {"type": "int"},
                },
            },
            "nodes": {"type": "list", "elements": "str", "required": True},
            "resources": {"type": "dict", "required": True},
            "node_resources": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
        required_one_of=[("policy", "daemon_set")],
        required_together=[("daemon_set", "namespace")],
    )
    entry, policy = module.params, module.params["policy"]
    why_not = refusal(entry)
    if why_not:
        module.fail_json(msg=why_not, invocation=invocation(entry))
    what = (
        f"describe {policy['kind'].lower()} {policy['name']}"
        if policy
        else f"-n {entry['namespace']} describe daemonset {entry['daemon_set']}"
    )
    wait_or_fail(
        module,
        lambda kube, patience, renew: wait_for_class(kube, entry, patience, renew),
        lambda waited, missing: (
            f"class {entry['name']} does not serve after {waited}: {missing}. `kubectl {what}` tells more."
        ),
    )


if __name__ == "__main__":
    main()

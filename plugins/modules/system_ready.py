#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: system_ready
short_description: Wait until the objects of a system are ready
version_added: "0.1.0"
description:
  - Waits until Deployments, DaemonSets and StatefulSets are rolled out, as C(kubectl rollout status) judges it, and until fields of
    other objects have a value.
  - A status of an earlier version of an object does not count (C(observedGeneration) of the status, or of its condition C(Ready)). One that names no
    version, such as that of the GPU Operator's ClusterPolicy, counts 30 seconds after the last change of the object, and of the Deployments that are
    waited for with it, and once the DaemonSets that the object owns are rolled out.
  - At the time limit, reports what is missing of each, with the messages of the scheduler and the kubelets about Pods that are not ready.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
  - fabric.rdma.kubernetes.waits
options:
  system:
    description: The name of the system, for messages.
    type: str
    required: true
  waits:
    description: What is waited for.
    type: list
    elements: dict
    required: true
    suboptions:
      apiVersion:
        description: Of the object.
        type: str
        required: true
      kind:
        description: Of the object.
        type: str
        required: true
      namespace:
        description: Namespace of the object, if it has one.
        type: str
      name:
        description: Of the object.
        type: str
        required: true
      path:
        description: A field, such as C(status.state). Empty waits until the object is rolled out.
        type: str
        default: ""
      value:
        description: The value that the field has to have.
        type: str
      nodes:
        description: The least number of nodes on which a DaemonSet has to run. By default, none is enough if no node is meant for it.
        type: int
        version_added: "0.1.0"
seealso:
  - module: fabric.rdma.system_objects
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Wait until the cluster can attach networks
  fabric.rdma.system_ready:
    system: secondary_network
    waits:
      - {apiVersion: apps/v1, kind: DaemonSet, namespace: kube-system, name: kube-multus-ds}
    timeout: 300
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
  sample: ["DaemonSet kube-system/kube-multus-ds: 1 of 2 Pods are ready"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects_ready import wait_for_objects
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import WAIT_OPTIONS, wait_or_fail


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **WAIT_OPTIONS,
            "system": {"type": "str", "required": True},
            "waits": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "apiVersion": {"type": "str", "required": True},
                    "kind": {"type": "str", "required": True},
                    "namespace": {"type": "str"},
                    "name": {"type": "str", "required": True},
                    "path": {"type": "str", "default": ""},
                    "value": {"type": "str"},
                    "nodes": {"type": "int"},
                },
            },
        },
        supports_check_mode=True,
    )
    asked = module.params
    wait_or_fail(
        module,
        lambda kube, patience, renew: wait_for_objects(kube, asked["waits"], patience, renew),
        lambda waited, missing: f"{asked['system']} is not ready after {waited}: {missing}",
    )


if __name__ == "__main__":
    main()

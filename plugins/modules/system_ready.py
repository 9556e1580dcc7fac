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
  - When the time is up, says of each what is missing, with the words of the scheduler and the kubelets about Pods that are not ready.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is changed; in check mode, it waits all the same.
  diff_mode:
    support: none
    details:
      - Nothing is changed.
  idempotent:
    support: full
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
        description: Of the object, where it has one.
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
        description: What the field is to be.
        type: str
  lease:
    description: The Lease that M(fabric.rdma.rollout_lease) has taken. It is renewed meanwhile.
    type: dict
    suboptions:
      namespace:
        description: Where it is.
        type: str
        required: true
      holder:
        description: Who holds it.
        type: str
        required: true
      duration:
        description: For how long it is taken.
        type: int
        default: 120
  timeout:
    description: Seconds to wait.
    type: int
    default: 600
  interval:
    description: Seconds between two looks.
    type: int
    default: 3
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
  returned: always
  type: float
  sample: 12.4
missing:
  description: What is not right, in words. Empty on success.
  returned: always
  type: list
  elements: str
  sample: ["DaemonSet kube-system/kube-multus-ds: 1 of 2 Pods are ready"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import LEASE_OPTIONS, Lease
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import wait_for_objects


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
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
                },
            },
            "lease": LEASE_OPTIONS,
            "timeout": {"type": "int", "default": 600},
            "interval": {"type": "int", "default": 3},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        kube = Kube(asked["kubeconfig"], asked["context"])
        for warning in kube.warnings:
            module.warn(warning)
        between = Lease(kube, **asked["lease"]).renew if asked["lease"] else lambda: None
        missing, waited = wait_for_objects(kube, asked["waits"], asked["timeout"], max(1, asked["interval"]), between)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    result: dict[str, t.Any] = {"changed": False, "waited": round(waited, 1), "missing": missing}
    if missing:
        module.fail_json(msg=f"{asked['system']} is not ready after {waited:.0f} s: {'; '.join(missing)}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

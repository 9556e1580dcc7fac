#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: handover_objects
short_description: Remove or install the device plugin of a class in a step of a handover
version_added: "0.1.0"
description:
  - Deletes O(delete), then sets O(labels), then applies O(objects) (server-side apply, field manager C(fabric.rdma)).
  - Asks the API server first whether it would take all of it (server-side dry run with strict field validation). If anything is refused,
    nothing is changed.
  - What somebody has changed, taken over or recreated since it was read is neither deleted nor overwritten. The module fails and names it.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
attributes:
  check_mode:
    details:
      - The API server is still asked, and a refusal is a failure.
options:
  delete:
    description:
      - Objects to delete, in this order, as they were read, with all of their metadata.
      - An object that is already gone is not a failure. One that is not of O(inventory) is.
    type: list
    elements: dict
    default: []
  labels:
    description: Labels of nodes, by node. A missing node is a failure.
    type: dict
    default: {}
  objects:
    description: Objects to apply, in this order.
    type: list
    elements: dict
    default: []
  inventory:
    description: The name of the inventory, as in the label C(rdma.fabric/inventory).
    type: str
    default: default
  adopt:
    description: Take over objects of the same names, whoever has made them.
    type: bool
    default: false
  force:
    description: Take over fields that others have set to other values.
    type: bool
    default: false
seealso:
  - module: fabric.rdma.handover_ready
  - plugin: fabric.rdma.rdma_handover
    plugin_type: filter
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Bring the device plugin of a class
  fabric.rdma.handover_objects:
    objects:
      - apiVersion: v1
        kind: ConfigMap
        metadata:
          name: rdma-shared-dp-g
          namespace: default
          labels: {app.kubernetes.io/managed-by: fabric.rdma, rdma.fabric/inventory: default}
        data: {config.json: "{}"}
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
objects:
  description:
    - What was done with each object, or would be done in check mode.
    - V(created), V(changed), V(unchanged), V(taken over) or V(removed).
  returned: success
  type: dict
  sample: {ConfigMap default/rdma-shared-dp-g: created}
labels:
  description: Labels of the first 20 nodes that were changed, and their new values.
  returned: success
  type: dict
  sample: {gb200-1: {rdma.fabric/class: gb200-device-1021}}
labelled:
  description: The number of all nodes whose labels were changed.
  returned: success
  type: int
  sample: 1
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import first_nodes
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.class_change import ClassChange
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import LEASE_OPTIONS, Lease


def run(module: AnsibleModule) -> dict[str, t.Any]:
    asked = module.params
    kube = Kube(asked["kubeconfig"], asked["context"])
    change = ClassChange(kube, **{key: asked[key] for key in ("force", "inventory", "adopt")})
    change.look(asked["delete"], asked["objects"], asked["labels"])
    change.rehearse()
    result = {
        "changed": change.changed,
        "objects": change.actions(),
        "labels": first_nodes(change.labels),
        "labelled": len(change.labels),
        "diff": change.diff(),
    }
    for warning in kube.warnings + change.warnings:
        module.warn(warning)
    if not module.check_mode:
        change.perform(Lease(kube, **asked["lease"]).renew if asked["lease"] else lambda: None)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "delete": {"type": "list", "elements": "dict", "default": []},
            "labels": {"type": "dict", "default": {}},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "inventory": {"type": "str", "default": "default"},
            "adopt": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "lease": LEASE_OPTIONS,
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc), invocation=invocation(module.params))
    module.exit_json(invocation=invocation(module.params), **result)


if __name__ == "__main__":
    main()

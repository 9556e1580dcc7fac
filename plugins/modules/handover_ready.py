#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: handover_ready
short_description: Wait until a step of a handover between the device plugin and DRANET has come true
version_added: "0.1.0"
description:
  - Waits until all conditions of a step hold, so that the next one may be taken.
  - At the time limit, reports what it still waits for.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
  - fabric.rdma.kubernetes.waits
attributes:
  check_mode:
    support: full
    details:
      - Nothing is changed; it also waits in check mode.
  diff_mode:
    support: none
    details:
      - Nothing is changed.
  idempotent:
    support: full
options:
  class_name:
    description: The class that is handed over, for messages.
    type: str
    required: true
  conditions:
    description: What is waited for, as P(fabric.rdma.rdma_handover#filter) gives it.
    type: list
    elements: dict
    required: true
    suboptions:
      what:
        description: The sort of the condition.
        type: str
        choices:
          - allocatable
          - no_claims
          - no_pods
          - no_slices
          - not_allocatable
          - not_requested
          - nothing_published
          - published
          - rolled_out
        required: true
      nodes:
        description: The nodes that it is about.
        type: list
        elements: str
        required: true
      namespace:
        description: The namespace of a DaemonSet.
        type: str
      name:
        description: The name of a DaemonSet.
        type: str
      resources:
        description: Resources of nodes, with their count.
        type: dict
      devices:
        description: Devices that DRANET publishes, by node.
        type: dict
seealso:
  - plugin: fabric.rdma.rdma_handover
    plugin_type: filter
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Wait until nobody gets the resource any more
  fabric.rdma.handover_ready:
    class_name: gb200-device-1021
    conditions:
      - {what: not_allocatable, nodes: [gb200-1, gb200-2], resources: {rdma/rdma_gb200: 0}}
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
  description: What is still waited for, in words. Empty on success.
  returned: always
  type: list
  elements: str
  sample: ["node gb200-1: allocatable rdma/rdma_gb200 is 63, not 0"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.handover import CONDITIONS, wait_for_conditions
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import WAIT_OPTIONS, wait_or_fail


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **WAIT_OPTIONS,
            "class_name": {"type": "str", "required": True},
            "conditions": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "what": {"type": "str", "choices": sorted(CONDITIONS), "required": True},
                    "nodes": {"type": "list", "elements": "str", "required": True},
                    "namespace": {"type": "str"},
                    "name": {"type": "str"},
                    "resources": {"type": "dict"},
                    "devices": {"type": "dict"},
                },
            },
        },
        supports_check_mode=True,
    )
    asked = module.params
    wait_or_fail(
        module,
        lambda kube, patience, renew: wait_for_conditions(kube, asked["conditions"], patience, renew),
        lambda waited, missing: (
            f"class {asked['class_name']} still waits after {waited}: {missing}. "
            "End the Pods that are named, if any, and run again to go on, or the other way (rdma_handover_to)"
        ),
    )


if __name__ == "__main__":
    main()

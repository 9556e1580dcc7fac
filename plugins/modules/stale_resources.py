#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stale_resources
short_description: Remove leftover extended resources, which no device plugin advertises any more, from nodes
version_added: "0.1.0"
description:
  - After a device plugin is removed for good, the kubelet keeps its resource in the status of the node for ever, with a count of 0. People
    and schedulers then believe that the node could have it. This module removes the entry from capacity and allocatable (the status
    subresource of the node).
  - Removes it from a node only when no plugin advertises it there (capacity and allocatable are 0), and no Pod of the node asks
    for it. For five minutes after a plugin went, the capacity still has its count, and the kubelet would put the entry back; the
    node is left alone then, too.
  - Looks again after O(verify) seconds, because a plugin that runs without any device advertises 0 of its resource, which looks
    the same.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    details:
      - The API server is asked whether it would allow the change.
options:
  resources:
    description: Names with their prefix, such as V(rdma/hca_shared_devices_a).
    type: list
    elements: str
    required: true
  nodes:
    description: Nodes to look at. All of the cluster when empty.
    type: list
    elements: str
    default: []
  verify:
    description:
      - Seconds after which the module checks that the entries have not come back. V(0) skips this.
      - By default a little more than the five minutes that a kubelet waits for a plugin to come back.
    type: int
    default: 330
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Remove the resource of a plugin that is gone
  fabric.rdma.stale_resources:
    resources: [rdma/hca_shared_devices_a]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
removed:
  description: What was removed from which node, or would be in check mode.
  returned: success
  type: dict
  sample: {a100-1: [rdma/hca_shared_devices_a]}
blocked:
  description: What was not removed, and why.
  returned: success
  type: dict
  sample: {a100-2: {rdma/hca_shared_devices_a: requested by Pod train/worker-0}}
server:
  description: Address of the API server, without a password that stands in it.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.stale import Stale


def run(module: AnsibleModule) -> dict[str, t.Any]:
    resources = module.params["resources"]
    for name in resources:
        if "/" not in name.strip("/") or name.split("/")[0].endswith("kubernetes.io"):
            raise KubeError(
                f"'{name}' is not the name of an extended resource, which has a prefix of its own (rdma/...)"
            )
    kube = connected(module)
    stale = Stale(kube, resources, module.params["nodes"])
    stale.rehearse()
    before = stale.listed()
    if stale.removable and not module.check_mode:
        stale.perform()
        if module.params["verify"]:
            time.sleep(module.params["verify"])
            back = stale.returned()
            if back:
                raise KubeError(
                    "{}: a kubelet has put it back, because a device plugin still registers it, or went less than five minutes "
                    "ago. Remove the plugin (its DaemonSet), then run again".format(
                        "; ".join(f"{', '.join(names)} on {node}" for node, names in sorted(back.items()))
                    )
                )
    header = "extended resources of nodes"
    result = {
        "changed": bool(stale.removable),
        "removed": stale.removable,
        "blocked": stale.blocked,
        "server": kube.server,
    }
    if stale.removable:
        shown = {"before_header": header, "after_header": header, "before": before, "after": stale.left(before)}
        result["diff"] = shown
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "resources": {"type": "list", "elements": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "verify": {"type": "int", "default": 330},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_departures
short_description: Check that this inventory has the nodes of earlier rollouts
version_added: "0.1.0"
description:
  - Looks for nodes with the label C(rdma.fabric/class) that a rollout of this inventory would take it from, because no host of the
    inventory is behind them, and for nodes and groups that other systems (DRANET, networks, storage) have labels on or objects for. The
    inventory may be a slice of a sliced job, or a copy that lacks some hosts. Fails with their names, unless O(remove) takes them out on
    purpose.
  - M(fabric.rdma.rollout) and, with O(fabric.rdma.system_objects#module:hosts), M(fabric.rdma.system_objects) check the same before they
    change the cluster. This module asks before the nodes are prepared.
  - Where the cluster cannot be asked, warns. C(rollout) asks again.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
options:
  hosts:
    description: Hosts of the RDMA groups that the run plans.
    type: list
    elements: str
    required: true
  others:
    description: Further hosts of the inventory, or all of them. Other systems may have labels on their nodes.
    type: list
    elements: str
    default: []
  groups:
    description: Groups that the run plans, for which other systems may have objects.
    type: list
    elements: str
    default: []
  keep:
    description: Groups of the inventory that the run does not plan, and that stay as they are.
    type: list
    elements: str
    default: []
  remove:
    description: Hosts and groups that are removed on purpose.
    type: list
    elements: str
    default: []
  node_names:
    description: Names of nodes that differ from their host's, by host.
    type: dict
    default: {}
  inventory:
    description: The name of the inventory, as in C(rdma_rollout.inventory).
    type: str
    default: default
seealso:
  - module: fabric.rdma.rollout
  - module: fabric.rdma.system_objects
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Check that no node of an earlier rollout is missing
  fabric.rdma.rollout_departures:
    kubeconfig: /etc/kubernetes/admin.conf
    hosts: "{{ groups['ib-a100'] }}"
    others: "{{ groups['all'] }}"
    groups: [ib-a100]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
strays:
  description: Classes of the first 20 nodes that no host of the inventory is behind, by node.
  returned: always
  type: dict
  sample: {}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import first_nodes
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value, node_scope
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.standing import Scope, standing, strays_of_systems


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "hosts": {"type": "list", "elements": "str", "required": True},
            "others": {"type": "list", "elements": "str", "default": []},
            "groups": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "list", "elements": "str", "default": []},
            "remove": {"type": "list", "elements": "str", "default": []},
            "node_names": {"type": "dict", "default": {}},
            "inventory": {"type": "str", "default": "default"},
        },
        supports_check_mode=True,
    )
    given = module.params
    asked = invocation(given)
    inventory, keep = group_value(given["inventory"]), [group_value(name) for name in given["keep"]]
    try:
        kube = Kube(given["kubeconfig"], given["context"])
        rollout = Rollout(kube, inventory=inventory)
        rollout.look([], {}, keep)
        found = standing(kube, inventory)
    except KubeError as exc:
        module.warn(f"It is not known which nodes earlier rollouts have labelled: {exc}. A rollout asks again.")
        module.exit_json(changed=False, strays={}, invocation=asked)
    strays = rollout.strays(**node_scope(given["hosts"], given["remove"], given["node_names"]))
    if strays:
        module.fail_json(
            msg=rollout.told(strays) + " Nothing was written or changed.", strays=first_nodes(strays), invocation=asked
        )
    everyone = node_scope([*given["hosts"], *given["others"]], given["remove"], given["node_names"])
    groups = [*keep, *(group_value(name) for name in given["groups"])]
    words = strays_of_systems(found, Scope(everyone["known"], groups, everyone["remove"]))
    if words:
        module.fail_json(msg=f"The {words} Nothing was written or changed.", strays={}, invocation=asked)
    module.exit_json(changed=False, strays={}, invocation=asked)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: system_objects
short_description: Apply the objects of one system to a cluster, after a dry run of all of them
version_added: "0.1.0"
description:
  - A system is anything that is installed for a group or a cluster besides the device plugin, such as secondary networks, a driver or storage.
  - Asks the API server first whether it would take every object and removal (server-side dry run with strict field validation). If anything
    is refused, nothing is changed. Objects whose CustomResourceDefinition this run installs cannot be tried; a warning names them.
  - If a change fails afterwards, the message says what was done, and the next run completes it.
  - Then applies what differs (server-side apply, field manager C(fabric.rdma)), in the order of O(objects), and removes what earlier runs
    made for this system and nothing asks for any longer.
  - An object of the wished name that others have made, or another inventory's rollout, is a failure, unless O(adopt) takes it over.
  - Every object gets the labels C(app.kubernetes.io/managed-by=fabric.rdma), C(rdma.fabric/inventory) and C(rdma.fabric/system), but
    for namespaces, which are everybody's and are never removed.
  - Removes only what has these labels and was applied by this field manager. A CustomResourceDefinition stays if others have objects of it.
  - Deletes custom resources first. If Deployments, or charts that O(charts) no longer names, are to go as well, waits until the custom
    resources have gone, since their controllers may have to remove finalizers. The record is kept until then. Otherwise only warns of what
    is still there, such as a network from which Pods have addresses.
  - The ConfigMap C(fabric-rdma-SYSTEM) in O(place) records kinds of objects, charts, labels and namespaces of the system. For another inventory
    than V(default), its name has a suffix.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
attributes:
  check_mode:
    details:
      - The API server is still asked, and a refusal is a failure.
options:
  system:
    description: The name of the system.
    type: str
    required: true
  objects:
    description: Objects to apply, in this order.
    type: list
    elements: dict
    required: true
  charts:
    description:
      - Releases of charts that the system has in the cluster, as C(NAMESPACE/RELEASE). They are remembered with the kinds.
      - Without O(objects), O(charts) and O(labels), the system is removed.
    type: list
    elements: str
    default: []
  opened:
    description:
      - Namespaces in which O(charts) have privileged Pods. They are remembered, too.
      - Our labels of Pod Security are taken from them when their charts have gone, and nothing else of ours runs there.
    type: list
    elements: str
    default: []
  labels:
    description:
      - Labels of nodes, by node.
      - A label that this module set is removed when it is no longer asked for, unless somebody has changed its value.
    type: dict
    default: {}
  known:
    description:
      - Nodes whose labels may be removed. Others are not in this run, and keep theirs.
      - By default, all. With O(only), the nodes of these groups; by default, none but those in a class of theirs.
    type: list
    elements: str
  hosts:
    description:
      - Nodes of all hosts of the inventory.
      - With them, the module fails before it changes anything where the system has labels on a node that none of them is, or objects for a
        group that neither O(groups) nor O(keep) name, unless O(remove) takes it out on purpose. The inventory may be a slice of a sliced job,
        or a copy that lacks some hosts.
    type: list
    elements: str
  groups:
    description: Groups, as in the label C(rdma.fabric/group), that the run plans.
    type: list
    elements: str
    default: []
  remove:
    description:
      - Nodes and groups that are removed on purpose. The labels of these nodes, and of those in a class of these groups, are removed.
    type: list
    elements: str
    default: []
  tried:
    description:
      - With O(remember), releases that Helm has just worked on, as O(charts) has them. Those that are there are remembered with the time at which
        they were installed, which tells ours from a release that replaced it. The others are forgotten.
    type: list
    elements: str
    default: []
    version_added: "0.1.0"
  remember:
    description:
      - Only remember O(charts), before they are installed, and how the installation of those that were O(tried) ended. O(objects) have to
        be empty.
      - A release of such a name that is there, and that no rollout of O(inventory) has installed, is a failure, unless O(adopt) takes it
        over.
    type: bool
    default: false
  keep:
    description: Groups, as in the label C(rdma.fabric/group), that stay as they are.
    type: list
    elements: str
    default: []
  only:
    description:
      - Remove only what is of these groups, named as in the label C(rdma.fabric/group), and labels that this module has set on nodes that
        are in a class of theirs or O(known). O(objects) and O(charts) have to be empty.
      - By default, everything of the system that is no longer asked for.
    type: list
    elements: str
  inventory:
    description: The name of the inventory, as in the label C(rdma.fabric/inventory).
    type: str
    default: default
  adopt:
    description: Take over objects of the same names, whoever has made them. From then on they are changed and removed like any other.
    type: bool
    default: false
  force:
    description: Take over fields that others have set to other values.
    type: bool
    default: false
  place:
    description: The namespace of the ConfigMap that remembers kinds.
    type: str
    default: kube-system
  pending:
    description: Kinds of O(objects) may be missing, because check mode did not install the charts that define them.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait until what was deleted has gone. After that, the module fails with the finalizers that hold it. The next run goes on.
    type: int
    default: 600
    version_added: "0.1.0"
  lease:
    description: The Lease that M(fabric.rdma.rollout_lease) has taken. It is renewed before each change, and while the module waits.
seealso:
  - module: fabric.rdma.system_ready
  - module: fabric.rdma.rollout_lease
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Bring a network to the cluster
  fabric.rdma.system_objects:
    system: secondary_network
    objects:
      - apiVersion: v1
        kind: ConfigMap
        metadata: {name: rdma-network, namespace: default}
        data: {mtu: "9000"}
  delegate_to: localhost
  run_once: true

- name: Remove it
  fabric.rdma.system_objects:
    system: secondary_network
    objects: []
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
objects:
  description:
    - What was done with each object, or would be done in check mode.
    - V(created), V(changed), V(unchanged), V(taken over), V(removed) or, for labels of a namespace, V(given up).
  returned: success
  type: dict
  sample: {ConfigMap default/rdma-network: created, ConfigMap kube-system/fabric-rdma-secondary-network: created}
labels:
  description: Labels of the first 20 nodes that were changed, and their new values. V(null) where one was removed.
  returned: success
  type: dict
  sample: {node-1: {node.longhorn.io/create-default-disk: "true"}}
labelled:
  description: The number of all nodes whose labels were changed.
  returned: success
  type: int
  sample: 1
charts:
  description:
    - Releases that an earlier run has remembered, that O(charts) does not name, and that are still in the cluster, the last one first.
    - This module leaves them there, and remembers them until they are gone.
  returned: success
  type: list
  elements: str
  sample: [gpu-operator/gpu-operator]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import first_nodes
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import LEASE_OPTIONS, Lease
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.standing import Scope, standing, strays_of_systems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience


def see_whole(kube: Kube, parameters: dict[str, t.Any]) -> None:
    """Raises KubeError where something would go that this inventory may only not see. Nodes that are taken out are known from then on."""
    found = standing(kube, parameters["inventory"], parameters["system"], parameters["place"])
    groups = [*parameters["groups"], *parameters["keep"]]
    strays = strays_of_systems(found, Scope(parameters["hosts"], groups, parameters["remove"]))
    if strays:
        raise KubeError(f"Nothing was changed. The {strays}")
    if parameters["known"] is not None:
        parameters["known"] += [node for each in found for node in each.nodes_of(parameters["remove"])]


def run(module: AnsibleModule) -> dict[str, t.Any]:
    parameters = module.params
    kube = Kube(parameters["kubeconfig"], parameters["context"])
    options = {key: parameters[key] for key in ("force", "inventory", "adopt", "pending")}
    rollout = SystemRollout(kube, parameters["system"], parameters["place"], **options)
    if parameters["only"] is not None and (parameters["objects"] or parameters["charts"]):
        module.fail_json(
            msg="objects and charts have to be empty where only is set, which names the groups that lose something",
            invocation=invocation(parameters),
        )
    if parameters["remember"]:
        if parameters["objects"]:
            module.fail_json(
                msg="remember is for charts alone; objects have to be empty", invocation=invocation(parameters)
            )
        rollout.remember(parameters["charts"], parameters["opened"], parameters["tried"])
    else:
        if parameters["hosts"] is not None:
            see_whole(kube, parameters)
        rollout.look(*(parameters[key] for key in ("objects", "keep", "charts", "only", "labels", "known", "opened")))
    rollout.rehearse()
    result = {
        "changed": rollout.changed,
        "objects": rollout.actions(),
        "charts": rollout.old_charts,
        "labels": first_nodes(rollout.labels),
        "labelled": len(rollout.labels),
        "diff": rollout.diff(),
    }
    try:
        if not module.check_mode:
            renew = Lease(kube, **parameters["lease"]).renew if parameters["lease"] else lambda: None
            rollout.perform(renew, Patience(parameters["timeout"], 1))
    finally:
        # some are of what was done
        for warning in kube.warnings + rollout.warnings:
            module.warn(warning)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "system": {"type": "str", "required": True},
            "objects": {"type": "list", "elements": "dict", "required": True},
            "charts": {"type": "list", "elements": "str", "default": []},
            "opened": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "known": {"type": "list", "elements": "str"},
            "hosts": {"type": "list", "elements": "str"},
            "groups": {"type": "list", "elements": "str", "default": []},
            "remove": {"type": "list", "elements": "str", "default": []},
            "remember": {"type": "bool", "default": False},
            "tried": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "list", "elements": "str", "default": []},
            "only": {"type": "list", "elements": "str"},
            "inventory": {"type": "str", "default": "default"},
            "adopt": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "place": {"type": "str", "default": "kube-system"},
            "pending": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 600},
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

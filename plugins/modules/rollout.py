#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Apply the device plugin of every class to a cluster, after a dry run of all of it
version_added: "0.1.0"
description:
  - Asks the API server first whether it would take every object, label and removal (server-side dry run with strict field validation). If
    anything is refused, nothing is changed. If a change fails afterwards, the message says what was done, and the next run completes it.
  - Then applies what differs (server-side apply, field manager C(fabric.rdma)), labels the nodes of each class, and removes what
    no class asks for any more.
  - An object of the wished name that others have made, another inventory's rollout, or a version of this collection that did not
    name the inventory yet, is a failure, unless O(adopt) takes it over.
  - What somebody changes while this module runs is left as it is, and is a failure.
  - Removes only DaemonSets, ConfigMaps and NicNodePolicies that have the labels C(app.kubernetes.io/managed-by=fabric.rdma) and
    C(rdma.fabric/inventory) of O(inventory), were applied by this field manager, and belong to no group in O(keep). Of the
    cluster's one NicClusterPolicy, only the fields that this field manager has applied are given up; it is deleted when nobody else
    has a field of it.
  - Removes the label C(rdma.fabric/class) only from nodes that are no longer in a class, and that O(known) or O(remove) name. Deletes no
    namespace and no Pod.
  - Takes the labels of Pod Security that it has applied to a namespace from it again when no object of ours is left there, or when
    O(objects) no longer ask for them.
  - A section of a policy of the NVIDIA Network Operator stands in the NicClusterPolicy or in NicNodePolicies, not in both. What has to
    leave one of them is removed before it is added to the other. If others have set it there, that is refused and named.
  - Holds the Lease C(fabric-rdma-rollout) in O(place) meanwhile. While another rollout holds it, this module fails and says who that
    is. A Lease that is not renewed, because its holder was killed, expires.
  - Where nodes get another device plugin, waits until the old one has ended there, or for a minute in which none ends. Does not wait for what
    comes. M(fabric.rdma.rollout_ready) does.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.lease
attributes:
  check_mode:
    details:
      - The API server is still asked, and a refusal is a failure.
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
    description: Groups, as in the label C(rdma.fabric/group), that stay as they are.
    type: list
    elements: str
    default: []
  known:
    description:
      - Nodes of the inventory from which the label C(rdma.fabric/class) may go when they are no longer in a class.
      - Any other node that would lose its label is a failure that names it, before anything is changed.
    type: list
    elements: str
    default: []
  remove:
    description: Nodes, and groups as in the label C(rdma.fabric/group), that are removed on purpose.
    type: list
    elements: str
    default: []
  reload_objections:
    description:
      - What rules out that the driver of a node is reloaded, in sentences, by node. Of a node that is not named, nothing is known.
      - Where the driver of the Network Operator would leave a node, since its policy goes, loses C(ofedDriver) or no longer selects the
        node, these are a failure. So is a node of which nothing is known, which is not cordoned, or on which Pods use RDMA, unless
        O(reload_undrained) is set.
    type: dict
    default: {}
  reload_undrained:
    description: Let the driver of the Network Operator leave nodes that are not drained, or of which nothing is known.
    type: bool
    default: false
  inventory:
    description: The name of the inventory, as in the label C(rdma.fabric/inventory) of O(objects).
    type: str
    default: default
  adopt:
    description:
      - Take over objects of the same names, whoever has made them, and let what an earlier version has rolled out, which named no
        inventory, be of O(inventory). From then on they are changed and removed like any other.
    type: bool
    default: false
  force:
    description:
      - Take over fields that others have set to other values, and sections of the NicClusterPolicy that NicNodePolicies are to have.
      - Let C(nodeAffinity) and C(tolerations) of the NicClusterPolicy move what others have in it.
    type: bool
    default: false
  place:
    description:
      - The namespace of the Lease. Where it is among O(objects) and not there yet, nothing but it is made before the Lease is held.
      - Where it is not there at all, the Lease is in C(default).
      - With policies of the Network Operator, the namespace of the operator, which keeps its labels of Pod Security.
    type: str
    default: default
  hold:
    description: Hold the Lease when all is done, for M(fabric.rdma.rollout_ready). M(fabric.rdma.rollout_lease) has to release it.
    type: bool
    default: false
  lease:
    description:
      - The Lease of this rollout that M(fabric.rdma.rollout_lease) has taken. If it is in O(place), the module continues with it. If it was
        taken before that namespace was there, the module takes one in O(place); whoever took the first keeps it.
      - From here on, O(lease_duration) counts in place of its own C(duration).
      - One that is no longer ours, because somebody has broken it, is a failure.
  lease_duration:
    description: Seconds after which the Lease expires when it is not renewed.
    type: int
    default: 120
seealso:
  - module: fabric.rdma.rollout_ready
  - module: fabric.rdma.rollout_lease
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
    inventory: "{{ request.inventory }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
objects:
  description:
    - What was done with each object, or would be done in check mode.
    - V(created), V(changed), V(unchanged), V(taken over), V(removed) or V(given up).
  returned: success
  type: dict
  sample:
    DaemonSet kube-system/rdma-shared-dp-ib-a100: created
    ConfigMap kube-system/rdma-shared-dp-ib-a100: unchanged
    DaemonSet kube-system/rdma-shared-dp-ib-v100: removed
labels:
  description: The first 20 nodes whose label C(rdma.fabric/class) was changed, and its new value. V(null) where it was removed.
  returned: success
  type: dict
  sample: {a100-1: ib-a100, v100-1: null}
labelled:
  description: The number of all nodes whose label was changed.
  returned: success
  type: int
  sample: 2
lease:
  description: The Lease, for O(fabric.rdma.rollout_ready#module:lease).
  returned: when it is held
  type: dict
  sample: {namespace: kube-system, holder: root@admin/1f0c2b7e, duration: 120}
"""

import contextlib
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import first_nodes
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import (
    DURATION,
    FIRST_PLACE,
    LEASE_OPTIONS,
    Lease,
    new_holder,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout


class Job:
    """What the module is to do, as often as it has to look."""

    def __init__(self, parameters: dict[str, t.Any]) -> None:
        self.parameters = parameters
        self.kube = Kube(parameters["kubeconfig"], parameters["context"])
        given = parameters["lease"] or {}
        # one that is elsewhere was taken before there was a place
        self.ours = given.get("namespace") == parameters["place"]
        holder = given["holder"] if given else new_holder()
        self.lease = Lease(self.kube, parameters["place"], holder, parameters["lease_duration"])

    def looked(self) -> Rollout:
        """A rollout that the API server would accept."""
        options = {key: self.parameters[key] for key in ("force", "inventory", "adopt", "place")}
        rollout = Rollout(self.kube, **options)
        rollout.look(self.parameters["objects"], self.parameters["nodes"], self.parameters["keep"])
        rollout.insist(self.parameters["known"], self.parameters["remove"])
        rollout.insist_on_drivers(self.parameters["reload_objections"], self.parameters["reload_undrained"])
        rollout.rehearse()
        return rollout

    def check(self) -> dict[str, t.Any]:
        other = patiently(self.lease.other_for_a_check)
        rollout = self.looked()
        rollout.warnings += [other] if other else []
        return told(rollout)

    def run(self) -> dict[str, t.Any]:
        if self.ours:
            # also where somebody has broken it: then it is not taken again
            self.lease.renew()
            return self._held([])
        if self.parameters["lease"]:
            Lease(self.kube, **self.parameters["lease"]).renew()
        if self.lease.take():
            return self._held([])
        rollout = self.looked()
        first = told(rollout)
        made = rollout.make_namespace(self.parameters["place"])
        if not made:
            # nothing of ours is in it, nor will be: one that is always there does as well
            self.lease = Lease(self.kube, FIRST_PLACE, self.lease.holder, self.lease.duration)
        self.lease.take_there()
        # what was looked at without the Lease is looked at once more; what is told is what there was at first
        return {**self._held(made), **first}

    def _held(self, already: t.Sequence[str]) -> dict[str, t.Any]:
        """All of it, while the Lease is held. already: what was done before."""
        held = False
        try:
            rollout = self.looked()
            result = told(rollout)
            rollout.perform(self.lease.renew, already)
            held = self.parameters["hold"]
        finally:
            if not held:
                self._release()
        if held:
            lease = self.lease
            result["lease"] = {"namespace": lease.namespace, "holder": lease.holder, "duration": lease.duration}
        return result

    def _release(self) -> None:
        # an API server that no longer answers has just been told of; the Lease expires
        with contextlib.suppress(KubeError):
            self.lease.release()


def told(rollout: Rollout) -> dict[str, t.Any]:
    return {
        "changed": rollout.changed,
        "objects": rollout.actions(),
        "labels": first_nodes(rollout.labels),
        "labelled": len(rollout.labels),
        "diff": rollout.diff(),
        "warnings": rollout.warnings,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "objects": {"type": "list", "elements": "dict", "required": True},
            "nodes": {"type": "dict", "required": True},
            "keep": {"type": "list", "elements": "str", "default": []},
            "known": {"type": "list", "elements": "str", "default": []},
            "remove": {"type": "list", "elements": "str", "default": []},
            "reload_objections": {"type": "dict", "default": {}},
            "reload_undrained": {"type": "bool", "default": False},
            "inventory": {"type": "str", "default": "default"},
            "adopt": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "place": {"type": "str", "default": "default"},
            "hold": {"type": "bool", "default": False},
            "lease": LEASE_OPTIONS,
            "lease_duration": {"type": "int", "default": DURATION},
        },
        supports_check_mode=True,
    )
    try:
        job = Job(module.params)
        result = job.check() if module.check_mode else job.run()
    except FabricError as exc:
        module.fail_json(msg=str(exc), invocation=invocation(module.params))
    for warning in job.kube.warnings + result.pop("warnings"):
        module.warn(warning)
    module.exit_json(invocation=invocation(module.params), **result)


if __name__ == "__main__":
    main()

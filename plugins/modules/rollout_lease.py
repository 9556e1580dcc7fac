#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_lease
short_description: Take, release or break the Lease of a rollout
version_added: "0.1.0"
description:
  - A rollout holds the Lease C(fabric-rdma-rollout) in the namespace of its objects, so that two rollouts with the same namespace never run
    at the same time. A Lease in the namespace C(default) stops the rollouts of every namespace.
  - M(fabric.rdma.rollout) takes and releases it by itself. Steps that run before it take the Lease with this module, and keep it for it.
  - A Lease whose holder was killed expires after O(duration). O(state=broken) does not wait for that.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    support: full
    details:
      - With O(state=held), another rollout that is under way is a warning.
  diff_mode:
    support: full
    details:
      - It shows the holder.
  idempotent:
    support: full
options:
  namespace:
    description: Where the Lease is.
    type: str
    required: true
  holder:
    description:
      - Who holds it, as M(fabric.rdma.rollout) or this module has returned it. Needed for O(state=released).
      - With O(state=held), the Lease of this holder is renewed, and reported as unchanged. One that is gone, or somebody else's by now, is a
        failure, since whoever has broken it wants the rollout to stop. By default, a new holder takes it.
    type: str
  held_in:
    description:
      - With O(state=held), the namespace in which O(holder) has the Lease already, where that is another one, such as V(default) because
        O(namespace) was not there yet. It is renewed there, and taken in O(namespace), too.
    type: str
  duration:
    description: Seconds after which a held Lease expires if it is not renewed.
    type: int
    default: 120
  state:
    description:
      - V(held) takes the Lease, in the namespace C(default) where O(namespace) is not there yet. Somebody else's, in any of the two, is a
        failure that says who rolls out, and since when.
      - V(released) deletes the Lease if O(holder) holds it.
      - V(broken) deletes it whoever holds it. A rollout that still runs stops when it renews the Lease,
        with its first change after a third of O(duration).
    type: str
    choices: [held, released, broken]
    default: released
seealso:
  - module: fabric.rdma.rollout
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Lock out other rollouts meanwhile
  fabric.rdma.rollout_lease:
    namespace: nvidia-network-operator
    duration: 720
    state: held
  delegate_to: localhost
  run_once: true
  register: held

- name: Roll out with it
  fabric.rdma.rollout:
    objects: "{{ request.objects }}"
    nodes: "{{ request.nodes }}"
    place: nvidia-network-operator
    lease: "{{ held.lease }}"
  delegate_to: localhost
  run_once: true

- name: Let the next rollout begin at once, after one whose controller has died
  fabric.rdma.rollout_lease:
    namespace: kube-system
    state: broken
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
lease:
  description: The Lease, for O(fabric.rdma.rollout#module:lease).
  returned: O(state=held), not in check mode
  type: dict
  sample: {namespace: nvidia-network-operator, holder: root@admin/1f0c2b7e, duration: 720}
holder:
  description: The holder whose Lease was deleted. V(null) if nothing was deleted, since it was free or, with O(state=released), somebody else's.
  returned: O(state=released) or O(state=broken)
  type: str
  sample: root@admin/1f0c2b7e
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import (
    DURATION,
    FIRST_PLACE,
    Lease,
    new_holder,
)


def changed(before: t.Optional[str], after: t.Optional[str]) -> dict[str, t.Any]:
    """What is said of a Lease by its holder, and of the one that is there afterwards: "" where it names nobody, None without a Lease."""
    if before == after:
        return {"changed": False}
    shown = [{} if holder is None else {"holder": holder} for holder in (before, after)]
    return {"changed": True, "diff": {"before": shown[0], "after": shown[1]}}


def predicted(lease: Lease, module: AnsibleModule) -> dict[str, t.Any]:
    """Who has begun before its namespace was there holds the one in FIRST_PLACE, and goes on with it."""
    places = [lease] if lease.namespace == FIRST_PLACE else [lease, Lease(lease.kube, FIRST_PLACE, lease.holder)]
    for each in places:
        other = patiently(each.other_for_a_check)
        if other:
            module.warn(other)
            return {"changed": False}
    held = lease.holder in [each.seen for each in places]
    return changed(lease.holder if held else lease.seen, lease.holder)


def told(lease: Lease) -> dict[str, t.Any]:
    return {"lease": {"namespace": lease.namespace, "holder": lease.holder, "duration": lease.duration}}


def hold(lease: Lease, module: AnsibleModule) -> dict[str, t.Any]:
    if module.params["holder"]:
        before = Lease(lease.kube, module.params["held_in"] or lease.namespace, lease.holder, lease.duration)
        # where somebody has broken it, it is not taken again
        (before.insist if module.check_mode else before.renew)()
        if before.namespace == lease.namespace:
            return {"changed": False, **({} if module.check_mode else told(before))}
    if module.check_mode:
        return predicted(lease, module)
    if not lease.take():
        lease = Lease(lease.kube, FIRST_PLACE, lease.holder, lease.duration)
        lease.take_there()
    return {**changed(lease.seen, lease.holder), **told(lease)}


def run(module: AnsibleModule) -> dict[str, t.Any]:
    parameters = module.params
    kube = connected(module)
    lease = Lease(kube, parameters["namespace"], parameters["holder"] or new_holder(), parameters["duration"])
    if parameters["state"] == "held":
        return hold(lease, module)
    holder = lease.release(parameters["state"] == "broken", module.check_mode)
    return {**changed(holder, None), "holder": holder or None}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "namespace": {"type": "str", "required": True},
            "holder": {"type": "str"},
            "held_in": {"type": "str"},
            "duration": {"type": "int", "default": DURATION},
            "state": {"type": "str", "choices": ["held", "released", "broken"], "default": "released"},
        },
        required_if=[("state", "released", ["holder"])],
        required_by={"held_in": ["holder"]},
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

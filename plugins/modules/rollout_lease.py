#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_lease
short_description: Release or break the Lease of a rollout
version_added: "0.1.0"
description:
  - Who rolls out holds the Lease C(fabric-rdma-rollout) in the namespace of the objects, so that two rollouts never change a
    cluster at the same time. M(fabric.rdma.rollout) takes it, this module gives it up.
  - A Lease whose holder was killed expires after two minutes. O(state=broken) does not wait for that.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - There is a Lease or there is none, and who held it is returned.
  idempotent:
    support: full
options:
  namespace:
    description: Where the Lease is.
    type: str
    required: true
  holder:
    description: Who holds it, as M(fabric.rdma.rollout) has returned it. Needed for O(state=released).
    type: str
  state:
    description:
      - V(released) deletes the Lease if O(holder) holds it.
      - V(broken) deletes it whoever holds it. A rollout that still runs stops before its next change.
    type: str
    choices: [released, broken]
    default: released
seealso:
  - module: fabric.rdma.rollout
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Let the next rollout begin at once, after one whose controller has died
  fabric.rdma.rollout_lease:
    namespace: kube-system
    state: broken
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
holder:
  description: Who held the Lease. V(null) when nobody did.
  returned: success
  type: str
  sample: root@admin/1f0c2b7e
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import Lease


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    parameters = module.params
    kube = Kube(parameters["kubeconfig"], parameters["context"])
    lease = Lease(kube, parameters["namespace"], parameters["holder"] or "")
    holder = lease.release(parameters["state"] == "broken", module.check_mode)
    return {"changed": holder is not None, "holder": holder}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "namespace": {"type": "str", "required": True},
            "holder": {"type": "str"},
            "state": {"type": "str", "choices": ["released", "broken"], "default": "released"},
        },
        required_if=[("state", "released", ["holder"])],
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except KubeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

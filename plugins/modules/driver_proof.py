#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: driver_proof
short_description: Remember that a driver still has to be proved
version_added: "0.1.0"
description:
  - A driver that is installed but not yet in the kernel cannot be proved, and neither can one whose installation was killed. This module
    records on the node, in C(/var/lib/fabric.rdma/driver-proof.json), that the proof is due, and which ports were Active with the
    previous driver.
  - M(fabric.rdma.ib_facts) tells of it in C(ofed.proof), and whether the node has booted since.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
options:
  state:
    description: V(due) remembers, V(done) forgets.
    type: str
    choices: [due, done]
    default: due
  method:
    description: Where the driver came from. Needed with O(state=due).
    type: str
    choices: [doca, mlnx_iso]
  version:
    description: Its release. Needed with O(state=due).
    type: str
  facts:
    description:
      - Facts of the node from before the change, with the subset C(devices). Needed with O(state=due).
      - If a proof is due already and these facts have no Active port, the ports on record are kept.
    type: dict
  installed:
    description:
      - Whether the installation has finished, and its build is right. Record V(false) before it begins, so that the next run reinstalls
        and proves what a killed run left.
    type: bool
    default: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Remember that the driver has still to be proved
  fabric.rdma.driver_proof:
    method: doca
    version: 2.9.1
    facts: "{{ ansible_facts['rdma'] }}"
"""

RETURN = r"""
proof:
  description: What is remembered now. Null when there is nothing.
  returned: success
  type: dict
  sample:
    method: doca
    release: 2.9.1
    installed: true
    boot_id: 5b0a1c0e-8a5f-4c8e-9d3f-0a6b1f2c3d4e
    devices: [{name: mlx5_0, pci: "0000:3b:00.0", ports: [{number: 1, state: Active, phys_state: LinkUp}]}]
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import active_ports
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import BOOT_ID, DRIVER_PROOF
from ansible_collections.fabric.rdma.plugins.module_utils._base.remembered import forget, recall, remember
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_proof import due


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["due", "done"], "default": "due"},
            "method": {"type": "str", "choices": ["doca", "mlnx_iso"]},
            "version": {"type": "str"},
            "facts": {"type": "dict"},
            "installed": {"type": "bool", "default": True},
        },
        required_if=[("state", "due", ("method", "version", "facts"))],
        supports_check_mode=True,
    )
    params = module.params
    wanted = None
    try:
        before = recall(DRIVER_PROOF)
        if params["state"] == "due":
            with open(BOOT_ID, encoding="ascii") as handle:
                boot_id = handle.read().strip()
            # what Ansible shows of the arguments, and keeps in events
            params["facts"] = {"devices": active_ports(params["facts"])}
            wanted = due(params, boot_id, before)
        changed = before != wanted
        if changed and not module.check_mode:
            if wanted is None:
                forget(DRIVER_PROOF)
            else:
                remember(DRIVER_PROOF, wanted)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}")
    if not changed:
        module.exit_json(changed=False, proof=wanted)
    texts = ["" if one is None else json.dumps(one, indent=1, sort_keys=True) + "\n" for one in (before, wanted)]
    module.exit_json(changed=True, proof=wanted, diff=difference(DRIVER_PROOF, *texts))


if __name__ == "__main__":
    main()

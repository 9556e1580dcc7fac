#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: driver_gate
short_description: List the reasons not to change the RDMA driver of a node now
version_added: "0.1.0"
description:
  - Looks for everything that a change of the driver stack would break, and for everything that would break the change. Each reason has
    a name, what was found, and what to do about it.
  - V(unsupported_card) is a card without an RDMA device for which the release has no driver.
  - V(installed_stack) is a vendor stack that has to be removed first. V(driver_container) is a driver container of the Network
    Operator, or what is left of one that was killed.
  - With O(activate=reload), V(default_route), V(ssh_path) and V(storage_mounts) are connections that run over the driver, directly or
    below bonds, VLANs, bridges and Open vSwitch. Only routes of the main table are considered.
  - With O(activate=reload), V(rdma_storage) is NFS, Lustre, NVMe, iSER or SRP over RDMA, also below LVM and md. V(storage_modules) and
    V(rdma_in_use) (programs that hold a uverbs, umad or issm device) prevent the driver from being unloaded.
  - An installation and a reboot disconnect nothing, so without O(activate=reload) only V(rdma_storage) of these remains, for a file system
    that the node boots from.
  - V(not_drained) is a running kubelet, without O(drained).
  - V(disk_space), V(kernel_headers) and V(secure_boot) are what a build on the node lacks.
  - V(no_way_back) is found by M(fabric.rdma.driver_packages), not by this module. O(override) takes its name.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  method:
    description: Where the driver comes from.
    type: str
    choices: [doca, mlnx_iso]
    default: doca
  version:
    description: Release that is wished for, of DOCA or MLNX_OFED.
    type: str
    required: true
  activate:
    description: How the new driver will be brought into the kernel.
    type: str
    choices: [none, reload, reboot]
    default: none
  drained:
    description: Somebody has drained the node, or will before the change.
    type: bool
    default: false
  min_free_mib:
    description:
      - Free space in MiB that C(/usr), C(/var) and C(/lib/modules) must have, C(/boot) up to 300 of it.
      - With O(method=mlnx_iso), C(/tmp) as well.
    type: int
    default: 3072
  override:
    description: Names of reasons that do not count. An unknown name is an error.
    type: list
    elements: str
    default: []
  root:
    description:
      - Directory with the node's files, which may be an unpacked capture, as in M(fabric.rdma.ib_facts).
      - For another root than V(/), free space, the SSH connection and programs are not looked at.
    type: path
    default: /
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Ask whether the driver may be changed
  fabric.rdma.driver_gate:
    version: 2.9.1
    activate: reload
    override: [disk_space]
  register: gate

- name: Check that nothing rules the change out
  ansible.builtin.assert:
    that: gate.blocked | length == 0
"""

RETURN = r"""
reasons:
  description: Every reason that was found, also those that are overridden.
  returned: success
  type: list
  elements: dict
  sample:
    - name: default_route
      found: the default route goes over bond0 -> ens1f0np0 (mlx5_core)
      remedy: "use ofed_activate: reboot, or give the node a management network on another card"
      overridden: false
refusals:
  description: The reasons that count as sentences, each with its name and remedy.
  returned: success
  type: list
  elements: str
  sample: ["ssh_path: this very connection goes over ens1f0np0 (mlx5_core) (use ofed_activate: reboot, or connect over another card)"]
blocked:
  description: Names of the reasons that count. Empty when the driver may be changed.
  returned: success
  type: list
  elements: str
  sample: [default_route]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.roots import open_root
from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import routes_answer
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_gate import (
    Asked,
    free_space,
    gate,
    parse_overrides,
    verbs_users,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.networks import ssh_connection


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "method": {"type": "str", "choices": ["doca", "mlnx_iso"], "default": "doca"},
            "version": {"type": "str", "required": True},
            "activate": {"type": "str", "choices": ["none", "reload", "reboot"], "default": "none"},
            "drained": {"type": "bool", "default": False},
            "min_free_mib": {"type": "int", "default": 3072},
            "override": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    live = os.path.realpath(params["root"]) == "/"
    try:
        overridden = parse_overrides(params["override"])
        tree = open_root(params["root"], routes_answer)
        reasons = gate(
            tree,
            Asked(
                method=params["method"],
                version=params["version"],
                activate=params["activate"],
                drained=params["drained"],
                ssh=ssh_connection(tree, os.getpid()) if live else None,
                free_mib=free_space(tree, params["min_free_mib"], params["method"]),
                holders=verbs_users(tree) if live and params["activate"] == "reload" else (),
            ),
        )
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    counting = [reason for reason in reasons if reason.name not in overridden]
    module.exit_json(
        changed=False,
        reasons=[{**reason._asdict(), "overridden": reason.name in overridden} for reason in reasons],
        refusals=["{}: {} ({})".format(*reason) for reason in counting],
        blocked=list(dict.fromkeys(reason.name for reason in counting)),
    )


if __name__ == "__main__":
    main()

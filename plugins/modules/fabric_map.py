#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_map
short_description: Ask a host what it sees of the switches
version_added: "0.1.0"
description:
  - Runs C(ibnetdiscover), which shows a whole InfiniBand subnet and needs access to C(umad), and C(lldpctl -f json), which shows where the
    Ethernet cables of this host end. Both only read.
  - A program that is missing, fails or does not end is reported, and is not an error.
  - P(fabric.rdma.rdma_fabric#filter) makes the map of it.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  programs:
    description: What to run.
    type: list
    elements: str
    choices: [ibnetdiscover, lldpctl]
    default: [ibnetdiscover, lldpctl]
  ports:
    description:
      - Ports from which C(ibnetdiscover) looks, one after another. Each is in one subnet.
      - Without any, it looks from the first Active port.
    type: list
    elements: dict
    default: []
    suboptions:
      device:
        description: RDMA device.
        type: str
        required: true
      port:
        description: Number of the port.
        type: int
        default: 1
  timeout:
    description: Seconds for each run of a program.
    type: int
    default: 120
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the fabric of an InfiniBand port, and at the Ethernet cables
  fabric.rdma.fabric_map:
    ports:
      - {device: mlx5_0, port: 1}
  register: seen
"""

RETURN = r"""
programs:
  description: One entry for each run. Runs of C(ibnetdiscover) that show the same links as an earlier one are left out.
  returned: success
  type: list
  elements: dict
  contains:
    program:
      description: Its name.
      returned: success
      type: str
      sample: lldpctl
    text:
      description: What it printed, empty when it failed.
      returned: success
      type: str
      sample: '{"lldp": {}}'
    error:
      description: Why there is no output; null if there is.
      returned: success
      type: str
      sample: lldpctl is not there
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._discover.fabric import look


def main() -> None:
    ports = {"device": {"type": "str", "required": True}, "port": {"type": "int", "default": 1}}
    module = AnsibleModule(
        argument_spec={
            "programs": {
                "type": "list",
                "elements": "str",
                "choices": ["ibnetdiscover", "lldpctl"],
                "default": ["ibnetdiscover", "lldpctl"],
            },
            "ports": {"type": "list", "elements": "dict", "options": ports, "default": []},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    params = module.params
    told = look(params["programs"], params["ports"], params["timeout"], module.get_bin_path)
    module.exit_json(changed=False, programs=told)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: link_counters
short_description: Read the counters of RDMA ports, and nothing else
version_added: "0.1.0"
description:
  - Reads the counters of RDMA ports, of their netdevs and of their hardware, with the time of the node. Two readings tell what has grown in
    between. Virtual functions whose card is on the node are left out.
  - Like the subset V(health) of M(fabric.rdma.ib_facts) without temperatures and cables, in a fraction of the time, and without a fact.
  - A counter that the kernel does not show is null, and not 0. Counters of the wire that are unknown are absent.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  root:
    description: Where the node's files are, as in M(fabric.rdma.ib_facts).
    type: path
    default: /
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Read the counters before the traffic
  fabric.rdma.link_counters:
  register: counters_before
"""

RETURN = r"""
reading:
  description: The counters, as in C(health) of M(fabric.rdma.ib_facts), with the time.
  returned: success
  type: dict
  contains:
    uptime_s:
      description: Seconds since the node was booted.
      returned: success
      type: float
      sample: 86400.25
    boot_id:
      description: Another one after each boot.
      returned: success
      type: str
      sample: 5b9f3c1e-1b1f-4f6e-8d53-0f2a8f4f3a10
    ports:
      description: Each port with its C(counters) and C(hw_counters).
      returned: success
      type: list
      elements: dict
      sample:
        - device: mlx5_0
          port: 1
          counters: {symbol_error: 0, link_downed: 1, port_rcv_errors: 0, port_xmit_wait: null}
          hw_counters: {out_of_sequence: 0, local_ack_timeout_err: 0}
    netdevs:
      description: Each netdev that an RDMA device uses, with C(carrier_downs), C(statistics), and the C(counters) of its wire.
      returned: success
      type: list
      elements: dict
      sample:
        - netdev: enp11s0f0np0
          device: mlx5_0
          carrier_downs: 1
          statistics: {rx_crc_errors: 0, rx_dropped: 0}
          counters: {rx_prio3_pause: 17}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.roots import open_root
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ethtool import counters_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import read_counters


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    try:
        reading = read_counters(open_root(module.params["root"], counters_answer))
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, reading=reading)


if __name__ == "__main__":
    main()

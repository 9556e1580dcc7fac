# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_lost_ports
short_description: Name the ports that were Active before a change and are not after it
version_added: "0.1.0"
description:
  - Compares the facts of a host from before and after a change. An empty list says that the host is not worse than before.
positional: after
options:
  _input:
    description: Facts from before the change, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma).
    type: dict
    required: true
  after:
    description: Facts from after the change.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Stop when a port was lost
  ansible.builtin.assert:
    that: before | fabric.rdma.rdma_lost_ports(ansible_facts['rdma']) | length == 0
"""

RETURN = r"""
_value:
  description: One sentence for each lost port.
  type: list
  elements: str
  sample: ["mlx5_0 (0000:3b:00.0) port 1 was Active and is Down (phys state Polling)"]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._needs import lost_ports


def rdma_lost_ports(before: t.Any, after: t.Any) -> t.List[str]:
    for what, value in (("before", before), ("after", after)):
        if not isinstance(value, t.Mapping):
            raise AnsibleFilterError(
                "fabric.rdma.rdma_lost_ports expects facts from %s the change, found %s" % (what, type(value).__name__)
            )
    return lost_ports(before, after)


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_lost_ports": rdma_lost_ports}

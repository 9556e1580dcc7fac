# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_fabric_asked
short_description: Say which hosts to ask for the map of the fabric
version_added: "0.1.0"
description:
  - Chooses two hosts of each group with InfiniBand, which see the whole subnets of their ports, and every host with Ethernet, which sees
    only its own cables.
positional: hosts
options:
  _input:
    description: Groups and facts as P(fabric.rdma.rdma_view#filter) returns them. Replayed hosts are left out.
    type: dict
    required: true
  hosts:
    description: Hosts that can be asked, usually the variable C(ansible_play_hosts).
    type: list
    elements: str
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show who would be asked
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_fabric_asked(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: For each host to ask, the C(programs) and C(ports) for M(fabric.rdma.fabric_map).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import Question


def rdma_fabric_asked(view: t.Any, hosts: t.Any) -> dict[str, Question]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import asked_hosts

    insist_on_mapping("rdma_fabric_asked", view, "the value of fabric.rdma.rdma_view", "groups", "facts")
    insist_on_list("rdma_fabric_asked", hosts, "hosts")
    try:
        return asked_hosts(view, {str(host) for host in hosts})
    except FabricError as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_fabric_asked: {exc}") from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_fabric_asked": rdma_fabric_asked}

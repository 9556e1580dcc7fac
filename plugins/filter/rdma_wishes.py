# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_wishes
short_description: Tell what is wrong with the wishes of all RDMA groups
version_added: "0.1.0"
description:
  - Checks every key, type and choice of the variables C(rdma_*) of all hosts of the RDMA groups, combinations that contradict each other,
    variables that look misspelt, and hosts whose facts have names of variables of this collection.
  - No host is connected to.
positional: groups, hosts
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  hosts:
    description: The hosts that the run is for. Those of the groups in C(rdma_groups) are always checked.
    type: list
    elements: str
    required: true
  plan:
    description: Also require what only a plan needs, C(rdma_groups) and C(rdma_resource).
    type: bool
    default: false
  given:
    description: Variables for the whole inventory that the play has, but not its hosts.
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is wrong with the wishes
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_wishes(groups, ansible_play_hosts_all, plan=true) }}"
"""

RETURN = r"""
_value:
  description: A sentence for each problem. Empty if there is none.
  type: list
  elements: str
  sample: ["group ib-a100: rdma_want has no key stat; it knows exclude, kinds, link_layer, min_rate_gbps, state; did you mean state?"]
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_wishes(hostvars: t.Any, groups: t.Any, hosts: t.Any, plan: bool = False, given: t.Any = None) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._inventory import inventory_problems

    insist_on_mapping("rdma_wishes", hostvars, "hostvars")
    insist_on_mapping("rdma_wishes", groups, "groups")
    insist_on_list("rdma_wishes", hosts, "hosts")
    return inventory_problems(hostvars, groups, [str(host) for host in hosts], bool(plan), given)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_wishes": rdma_wishes}

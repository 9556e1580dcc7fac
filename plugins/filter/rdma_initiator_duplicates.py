# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_initiator_duplicates
short_description: Find iSCSI initiator names that several hosts have
version_added: "0.1.0"
description:
  - Compares the initiator names of hosts, and decides which host keeps a name that several have. Cloned images share one, and
    two hosts with one name end each other's sessions.
  - The host with open sessions keeps the name. Where none has any, it is the first host by name. The order of the hosts makes no
    difference.
  - With O(fresh), a name from a fact cache is not compared, since the host may have another one by now.
  - Hosts whose facts do not tell their name, or that have one generated at each start, and hosts that are replayed from a capture
    (C(rdma_capture)), are not compared.
  - Fails when a host that is compared has facts that C(ib_facts) has gathered of another.
positional: hosts, fresh
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts to compare, usually C(groups['all']).
    type: list
    elements: str
    required: true
  fresh:
    description: Only compare hosts whose facts the role P(fabric.rdma.discover#role) gathered in this run.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check that the names are unique
  ansible.builtin.assert:
    that: hostvars | fabric.rdma.rdma_initiator_duplicates(groups['all']) | length == 0
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - One entry for each name that several hosts have, sorted by name.
    - C(keeper) is the host that keeps it. C(regenerate) are those that get another one. C(refused) are hosts with open
      sessions under the name of another host with open sessions. Then nobody keeps it, and none of them can be changed.
  type: list
  elements: dict
  sample:
    - name: iqn.1993-08.org.debian:01:a1b2c3d4e5f6
      hosts: [node1, node2]
      keeper: node1
      regenerate: [node2]
      refused: []
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_initiator_duplicates(hostvars: t.Any, hosts: t.Any, fresh: bool = False) -> list[dict[str, t.Any]]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiators import duplicate_initiators
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import facts_of, others_in_words, seen_in_this_run

    insist_on_mapping("rdma_initiator_duplicates", hostvars, "hostvars")
    insist_on_list("rdma_initiator_duplicates", hosts, "host names")
    facts = {}
    for host in hosts:
        variables = hostvars[host]
        if "rdma_capture" not in variables and (not fresh or seen_in_this_run(variables)):
            own = facts_of(variables)
            others = others_in_words(own, str(host))
            if others:
                raise AnsibleFilterError(others)
            facts[str(host)] = own.get("rdma") or {}
    return duplicate_initiators(facts)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_initiator_duplicates": rdma_initiator_duplicates}

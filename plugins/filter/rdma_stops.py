# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_stops
short_description: Tell why a turn of a rollout must not begin
version_added: "0.1.0"
description:
  - Checks how the hosts of the earlier turns ended. A host that began and did not end well (it failed, is worse than before, or no longer
    answers) is a reason, however Ansible counts it. So is a host of an earlier wave that had no turn or was held back.
positional: hosts, turn, place, outcome
options:
  _input:
    description:
      - The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts that have a turn.
    type: list
    elements: str
    required: true
  turn:
    description: Number of the turn that would begin.
    type: int
    required: true
  place:
    description: Name of the variable that has the turn of a host, as P(fabric.rdma.rdma_turns#filter) returns it.
    type: str
    required: true
  outcome:
    description:
      - Name of the variable that a host has once it has begun, with C(state) V(begun), V(finished), V(failed), V(worse) or V(held), C(step)
        and C(message).
    type: str
    required: true
seealso:
  - plugin: fabric.rdma.rdma_turns
    plugin_type: filter
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Look at what became of the hosts before
  ansible.builtin.set_fact:
    reasons: "{{ hostvars | fabric.rdma.rdma_stops(groups['rdma_prepare_now'], 2, 'turn', 'outcome') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: A sentence for each reason. Empty when the turn may begin.
  type: list
  elements: str
  sample: ["gpu-1 failed in ofed: No package matching 'doca-ofed' is available"]
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_stops(hostvars: t.Any, hosts: t.Any, turn: int, place: str, outcome: str) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import stops

    insist_on_mapping("rdma_stops", hostvars, "hostvars")
    known = {}
    for host in hosts:
        # once a host: each look puts all of its variables together
        own = hostvars[host]
        if place in own:
            known[str(host)] = {**own[place], "state": own.get(outcome)}
    # what nodes say is in it
    return t.cast(list[str], wrap_var(stops(known, int(turn))))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_stops": rdma_stops}

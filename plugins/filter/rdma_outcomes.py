# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_outcomes
short_description: Tell what became of each host of a run, and what to do
version_added: "0.1.0"
description:
  - Collects what a playbook keeps in variables of each host, even of one that was lost and no longer answers.
positional: hosts, outcome, failure, turn
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts of the run.
    type: list
    elements: str
    required: true
  outcome:
    description: Name of the variable that has what became of a host, with C(state), C(step) and C(message).
    type: str
    required: true
  failure:
    description: Name of the variable that has the same for a host that could not even be discovered.
    type: str
    required: true
  turn:
    description: Name of the variable that has the turn of a host, as P(fabric.rdma.rdma_turns#filter) returns it.
    type: str
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what went wrong
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_outcomes(ansible_play_hosts_all, 'outcome', 'failure', 'turn')).lines }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - C(schema) and C(hosts) with C(state) (V(finished), V(failed), V(worse), V(lost), V(held), V(unreachable)), C(wave), C(step), C(task),
      C(message) and C(remedy) by name. Hosts on which nothing had to be done are left out.
    - C(lines) are sentences to show, on the first twenty hosts that are not as they should be or were held back, and one that counts the others. C(bad) are
      the names of all of these, C(lost) of those that do not answer.
  type: dict
  sample:
    schema: 1
    hosts: {gpu-1: {state: finished, wave: 1, step: null, task: null, message: null, remedy: null}}
    lines: []
    bad: []
    lost: []
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

# Of how many hosts the lines tell: they go into events, and there may be thousands.
_MOST = 20


def rdma_outcomes(hostvars: t.Any, hosts: t.Any, outcome: str, failure: str, turn: str) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import outcome_lines, outcomes

    insist_on_mapping("rdma_outcomes", hostvars, "hostvars")
    said: dict[str, t.Any] = {}
    for host in hosts:
        # once a host: each look puts all of its variables together
        own = hostvars[host]
        state = own.get(outcome) or own.get(failure)
        place = own.get(turn)
        if state or place:
            said[str(host)] = {"wave": (place or {}).get("wave"), **(state or {})}
    document = outcomes(said)
    bad = [host for host, one in document["hosts"].items() if one["state"] not in ("finished", "held")]
    lost = [host for host, one in document["hosts"].items() if one["state"] in ("lost", "unreachable")]
    # what nodes say is in it
    return t.cast(
        dict[str, t.Any], wrap_var({**document, "lines": outcome_lines(document, _MOST), "bad": bad, "lost": lost})
    )


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_outcomes": rdma_outcomes}

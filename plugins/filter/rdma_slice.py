# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_slice
short_description: Tell whether a run is a slice of a sliced job of AWX
version_added: "0.1.0"
description:
  - AWX gives each slice an inventory that has its own hosts only. What is for all hosts looks at this first.
options:
  _input:
    description: Variables of a host of the run, among which those of AWX are looked for.
    type: dict
    required: true
  suffix:
    description:
      - Returns what the name of an artifact is to end with instead, which is C(_) and the number of the job in a slice. AWX joins what the
        slices of a job tell, and of two artifacts with the same name one would count for both.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Insist on the whole inventory
  ansible.builtin.assert:
    that: hostvars[inventory_hostname] | fabric.rdma.rdma_slice | length == 0

- name: Tell those who started this run
  ansible.builtin.set_stats:
    data:
      "example{{ hostvars[inventory_hostname] | fabric.rdma.rdma_slice(suffix=true) }}": {hosts: "{{ ansible_play_hosts | length }}"}
"""

RETURN = r"""
_value:
  description: That it is one, with the variables that say so, and what to do; with O(suffix), the end of a name. Empty when it is none.
  type: str
  sample: ""
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_slice(variables: t.Any, suffix: bool = False) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import slice_in_words, slice_suffix

    insist_on_mapping("rdma_slice", variables, "variables of a host")
    return slice_suffix(variables) if suffix else slice_in_words(variables) or ""


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_slice": rdma_slice}

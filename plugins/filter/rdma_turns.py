# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_turns
short_description: Tell in which order hosts are changed, and which at the same time
version_added: "0.1.0"
description:
  - Divides hosts into waves, and waves into turns, so that at no time more hosts are out of service (drained, restarting) than allowed.
  - A host whose last change never finished comes first.
positional: serial, limit, total, away, interrupted, slices
options:
  _input:
    description: Hosts that need something, in the order of the inventory.
    type: list
    elements: str
    required: true
  serial:
    description: Sizes of the waves, numbers or percentages of these hosts. The last one is repeated. At most eight.
    type: list
    elements: raw
    required: true
  limit:
    description: How many hosts may be out of service at the same time, a number or a percentage of O(total).
    type: raw
    required: true
  total:
    description: The number of hosts, with those on which nothing has to be done.
    type: int
    required: true
  away:
    description: Those of the hosts whose change takes them out of service.
    type: list
    elements: str
    default: []
  interrupted:
    description: Those of the hosts whose last change never finished. They come first, and count as O(away), too.
    type: list
    elements: str
    default: []
  slices:
    description:
      - The number of slices, of which these hosts are one. The slices change hosts at the same time, and each has its share of O(limit).
      - V(true) if their number is unknown. Each slice then takes its hosts out of service one by one.
    type: raw
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show who is changed when
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | fabric.rdma.rdma_turns([1, '10%', '100%'], 1, ansible_play_hosts | length, away=['gpu-1', 'gpu-2']) }}"
"""

RETURN = r"""
_value:
  description:
    - By host, C(turn) and C(wave), which count from 1, and C(level), the entry of O(serial) from 0 on that the wave comes from.
    - Turns of one level may be taken in any order, those of a lower level come first.
  type: dict
  sample: {gpu-1: {turn: 1, wave: 1, level: 0}, gpu-2: {turn: 2, wave: 2, level: 1}}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list


def rdma_turns(
    hosts: t.Any,
    serial: t.Any,
    limit: t.Any,
    total: int,
    away: t.Any = (),
    interrupted: t.Any = (),
    slices: t.Any = False,
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import plan_turns

    insist_on_list("rdma_turns", hosts, "host names")
    names = [str(host) for host in hosts]
    try:
        turns = plan_turns(names, serial, limit, total, set(map(str, away)), set(map(str, interrupted)), slices)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    return {
        host: {"turn": turn["number"], "wave": turn["wave"], "level": turn["level"]}
        for turn in turns
        for host in turn["hosts"]
    }


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_turns": rdma_turns}

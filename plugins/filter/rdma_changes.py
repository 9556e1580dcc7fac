# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_changes
short_description: Tell what differs between facts of hosts then and now
version_added: "0.1.0"
description:
  - Compares the facts of hosts with those of an earlier run. Times, counters and changes that are under way do not count.
positional: now, inventory
options:
  _input:
    description: Earlier facts by host, each as C(ansible_facts.rdma) was then, or the path of the C(facts.json) of an earlier run.
    type: raw
    required: true
  now:
    description: Current facts by host. Hosts that have none now are left out.
    type: dict
    required: true
  inventory:
    description: All hosts of the inventory. Without them, hosts that have left it are not reported.
    type: list
    elements: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what changed
  ansible.builtin.debug:
    msg: "{{ '/srv/rdma/facts.json' | fabric.rdma.rdma_changes({inventory_hostname: ansible_facts['rdma']}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(hosts) has what changed by host, at most twenty sentences each and the number of the others. C(new) names hosts that are new since then.
    - C(gone) names those that were known then and have left the inventory.
    - C(lines) has the same as text to show, at most two hundred lines and the number of the others.
  type: dict
  sample:
    hosts: {a100-1: ["devices mlx5_0 ports 1 state: Active, now Down"]}
    new: []
    gone: []
    lines: ["a100-1: devices mlx5_0 ports 1 state: Active, now Down"]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist, insist_on_list, insist_on_mapping


def rdma_changes(before: t.Any, now: t.Any, inventory: t.Any = None) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._changes import changes

    insist("rdma_changes", isinstance(before, (str, t.Mapping)), "facts by host, or the path of a facts.json", before)
    insist_on_mapping("rdma_changes", now, "facts of now by host")
    if inventory is not None:
        insist_on_list("rdma_changes", inventory, "hosts")
    try:
        return changes(before, now, inventory if inventory is None else [str(host) for host in inventory])
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_changes": rdma_changes}

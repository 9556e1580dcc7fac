# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_table
short_description: Show RDMA facts, a plan, a map of the fabric, checks of storage or what a system asks for as text of at most 100 columns
version_added: "0.1.0"
description:
  - From facts by host, one line for each port with its link layer, state, rate, netdev and PCI address, and with what the
    device plugin sees of it, and one for each host whose facts cannot be used.
  - From the plan of a group, one line for each class with its selectors, one for each port that is left out with the reason,
    and the warnings and errors.
  - From checks of storage prerequisites by host, one line for each check that fails, with its remedy, and one for all that pass on a host.
  - From a map of the fabric, one line for each switch that hosts are connected to, then the ports whose place is unknown, and what is
    wrong, with its remedy.
  - From the summary of a system, and from what was done to prepare hosts, one line for each row.
options:
  _input:
    description:
      - Facts by host, one group of the plan of P(fabric.rdma.rdma_selectors#filter), what P(fabric.rdma.rdma_storage#filter) says, by
        host, C(summary) of what P(fabric.rdma.rdma_system#filter) gives, what P(fabric.rdma.rdma_prepared#filter) gives, or the map that
        P(fabric.rdma.rdma_fabric#filter) gives.
    type: raw
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what a host has
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: ansible_facts['rdma']} | fabric.rdma.rdma_table }}"

- name: Show what is plugged in at which switch
  ansible.builtin.debug:
    msg: "{{ map | fabric.rdma.rdma_table }}"
"""

RETURN = r"""
_value:
  description: The table, lines joined by newlines. Empty when there is nothing to show.
  type: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

# Of the rows of a system, and of those of prepared hosts.
_HEADS = (("WHAT", "IS ASKED FOR"), ("HOSTS", "WHAT", "DETAILS"))
# Of a map of the fabric.
_MAP = ("switches", "leaves", "unplaced", "findings", "warnings")


def rdma_table(value: t.Any) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable, table
    from ansible_collections.fabric.rdma.plugins.module_utils._discover.table import device_table
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_table import storage_table
    from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed_group
    from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.table import fabric_table
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import sound_facts

    if isinstance(value, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in value):
        heads = next((each for each in _HEADS if all(len(row) == len(each) for row in value)), None)
        if heads is not None:
            return "\n".join(table(heads, value) if value else [])
    insist_on_mapping("rdma_table", value, "facts or checks by host, the plan of a group or a map of the fabric")
    if "exclusions" in value:
        return "\n".join(plan_table(completed_group(value)))
    # what belongs to a host of this name is a dictionary
    if isinstance(value.get("places"), (list, tuple)):
        insist_on_mapping("rdma_table", value, "a map of the fabric", *_MAP)
        return "\n".join(fabric_table(value))
    # facts of a host have no checks, and checks no schema
    if value and all(isinstance(own, t.Mapping) and "checks" in own and "schema" not in own for own in value.values()):
        return "\n".join(storage_table(value))
    sound, malformed = sound_facts(value)
    return "\n".join([*device_table(sound), *(printable(malformed[host]) for host in sorted(malformed))])


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_table": rdma_table}

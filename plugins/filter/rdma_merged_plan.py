# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_merged_plan
short_description: Join a plan with that of other groups from an earlier run
version_added: "0.1.0"
description:
  - A run that plans some of the groups must not remove the others from the plan.
  - A group that this run did not plan stays as it was while the inventory has a group of its name, with C(planned) false
    and the reason in C(kept). Hosts that are removed, or planned in another group now, leave it.
  - A group that could not be planned keeps the classes of the earlier plan beside its error.
  - A plan with such groups has no configuration for the whole cluster, since that would not cover them.
  - Hosts that are removed on purpose are in C(removed) of the plan, and in its C(warnings).
positional: path, groups, removed, remove
options:
  _input:
    description: The plan of P(fabric.rdma.rdma_selectors#filter).
    type: dict
    required: true
  path:
    description: The file of the earlier run on the controller. It need not exist; one that cannot be read is an error.
    type: path
    required: true
  groups:
    description: Names of all groups of the inventory.
    type: list
    elements: str
    required: true
  removed:
    description: Hosts that are removed on purpose, with their groups, as P(fabric.rdma.rdma_departures#filter) finds them.
    type: dict
    default: {}
  remove:
    description: The hosts and groups to remove, as the user named them.
    type: list
    elements: str
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Plan some of the groups
  ansible.builtin.set_fact:
    plan: "{{ view | fabric.rdma.rdma_selectors | fabric.rdma.rdma_merged_plan('/srv/rdma/plan.json', groups) }}"
  vars:
    view: "{{ hostvars | fabric.rdma.rdma_view(groups, ['ib-a100']) }}"
"""

RETURN = r"""
_value:
  description: The plan of all groups, in the form of P(fabric.rdma.rdma_selectors#filter).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan


def rdma_merged_plan(value: t.Any, path: str, groups: t.Any, removed: t.Any = None, remove: t.Any = ()) -> Plan:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import merged_plan

    insist_on_mapping("rdma_merged_plan", value, "the plan of fabric.rdma.rdma_selectors", "groups")
    # the variable groups has them as its keys
    insist_on_list("rdma_merged_plan", list(groups) if isinstance(groups, t.Mapping) else groups, "groups")
    try:
        return merged_plan(value, str(path), {str(name) for name in groups}, removed, list(remove))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_merged_plan": rdma_merged_plan}

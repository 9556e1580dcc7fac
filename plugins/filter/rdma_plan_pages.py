# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_plan_pages
short_description: Show all that is planned for a group on one page
version_added: "0.1.0"
description:
  - Makes a page of text for each group of the plan, also one that could not be planned, with the order of what is done, what its nodes
    need, the selectors of the device plugin with what they leave out, and what each further system brings, down to addresses of networks,
    selectors of DRA classes, charts, labels of nodes and files of workloads. What cannot be done, and warnings, follow below.
extends_documentation_fragment:
  - fabric.rdma.inventory
positional: groups, names, plan, asked
options:
  plan:
    description: The plan, as P(fabric.rdma.rdma_selectors#filter) makes it.
    type: dict
    required: true
  asked:
    description: By name of a system, C(pages) of what P(fabric.rdma.rdma_system#filter) gives.
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the plan of a group
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_plan_pages(groups, rdma_groups, plan_result))['ib-a100'] }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The page of each group, of at most 100 columns.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_plan_pages(hostvars: t.Any, groups: t.Any, names: t.Any, plan: t.Any, asked: t.Any = None) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._site import plan_pages

    for what, value in (("hostvars", hostvars), ("groups", groups), ("asked", asked or {})):
        insist_on_mapping("rdma_plan_pages", value, what)
    insist_on_mapping("rdma_plan_pages", plan, "a plan", "groups")
    insist_on_list("rdma_plan_pages", names, "group names")
    try:
        return plan_pages(hostvars, groups, [str(name) for name in names], plan, asked or {})
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_plan_pages": rdma_plan_pages}

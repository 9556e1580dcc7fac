# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_site
short_description: Collect the input of the systems that run in the cluster
version_added: "0.1.0"
description:
  - Takes the groups, their wishes and their facts from the variables of all hosts, and from O(rollout) what applies to the whole cluster.
  - Fails where hosts of a group differ in a wish that is for the cluster, and for a host whose facts have names of variables of this
    collection.
extends_documentation_fragment:
  - fabric.rdma.inventory
positional: groups, names, plan, rollout, fabric, allow_unusable
options:
  plan:
    description: The plan of P(fabric.rdma.rdma_selectors#filter).
    type: dict
    required: true
  rollout:
    description: The variable C(rdma_rollout).
    type: dict
    default: {}
  fabric:
    description: The map of the fabric, or the path of the file C(fabric.json) that the playbook C(fabric) left.
    type: raw
  allow_unusable:
    description:
      - The variable C(rdma_allow_unusable), whether a group is rolled out without those of its hosts that have no usable port. Otherwise it
        stays as it is.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the wishes of each group
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_site(groups, rdma_groups, plan_result)).wishes }}"
"""

RETURN = r"""
_value:
  description:
    - C(groups) has the hosts of each group, C(wishes) the wishes of each group by variable, C(facts) the facts by host, C(plan) the plan
      with C(planned=false) for every group that stays as it is, C(keep) these groups and those that are not in the plan, C(known) the nodes
      of all others and those that are removed on purpose, C(scope) the nodes of the whole inventory, the groups of the plan, and what is
      removed on purpose, C(cidrs) the variable C(rdma_cluster_cidrs), C(leaves) the names of the leaves of each host in the map of the
      fabric.
    - C(excusable) has the groups that stay only because hosts have no usable port, and that O(allow_unusable) would roll out.
    - C(inventory), C(node_names), C(registry), C(pull_secrets) and C(charts) are what O(rollout) has.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_site(
    hostvars: t.Any,
    groups: t.Any,
    names: t.Any,
    plan: t.Any,
    rollout: t.Any = None,
    fabric: t.Any = None,
    allow_unusable: t.Any = False,
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._site import scope_of, site_of
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import kept_groups, known_nodes
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import loaded

    for what, value in (("hostvars", hostvars), ("groups", groups), ("a plan", plan), ("rdma_rollout", rollout or {})):
        insist_on_mapping("rdma_site", value, what)
    insist_on_list("rdma_site", names, "group names")
    try:
        drawn = loaded(fabric, "fabric")
        own = [str(name) for name in names]
        site = site_of(hostvars, groups, own, plan, rollout or {}, drawn, bool(allow_unusable))
        keep = kept_groups(site, map(str, groups))
        return {**site, "keep": keep, "known": known_nodes(site), "scope": scope_of(site, groups)}
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_site": rdma_site}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_view
short_description: Collect facts and wishes of the RDMA groups
version_added: "0.1.0"
description:
  - Takes from the variables of all hosts what the cluster-wide steps need, the facts of P(fabric.rdma.ib_facts#module) and the wishes
    C(rdma_resource), C(rdma_want), C(rdma_selector_strategy), C(rdma_rails) and C(rdma_verify) of each group.
  - Fails for a group that the inventory does not have, except in a slice of a sliced job, for a wish that differs between hosts of a
    group, and for a host whose facts have names of variables of this collection.
extends_documentation_fragment:
  - fabric.rdma.inventory
positional: groups, names
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show which groups have facts
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_view(groups, rdma_groups)).groups.keys() }}"
"""

RETURN = r"""
_value:
  description:
    - C(groups) has the hosts and the wishes of each group, C(facts) the facts by host, C(without_facts) the groups without a
      host that has facts, C(unseen) for these what C(groups) has for the others.
    - C(malformed) has the hosts whose facts cannot be used, with what is wrong with them.
    - C(cached) has the hosts whose facts the role P(fabric.rdma.discover#role) did not gather in this run, with the time when they were
      gathered, null if unknown.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_view(hostvars: t.Any, groups: t.Any, names: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import cluster_view

    insist_on_mapping("rdma_view", hostvars, "hostvars")
    insist_on_mapping("rdma_view", groups, "groups")
    insist_on_list("rdma_view", names, "group names")
    try:
        return cluster_view(hostvars, groups, [str(name) for name in names])
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_view": rdma_view}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_dra_conflicts
short_description: Tell why DRANET cannot be given to a class, or taken from it
version_added: "0.1.0"
description:
  - A function is offered by the device plugin or by DRANET, never by both.
  - Only DRANET can take devices back from Pods, so it has to stay while claims hold devices of its nodes.
positional: drivers, claims, nodes, rollout, groups
options:
  _input:
    description: The objects that DRANET should have, as P(fabric.rdma.rdma_system#filter) makes them. Empty to remove it.
    type: list
    elements: dict
    required: true
  drivers:
    description: DaemonSets of this collection in the cluster.
    type: list
    elements: dict
    required: true
  claims:
    description: ResourceClaims of all namespaces.
    type: list
    elements: dict
    required: true
  nodes:
    description: What M(fabric.rdma.cluster_state) returns as RV(fabric.rdma.cluster_state#module:nodes).
    type: dict
    required: true
  rollout:
    description: The variable C(rdma_rollout).
    type: dict
    default: {}
  groups:
    description: Names of the groups to which the removal of DRANET is limited. All by default.
    type: list
    elements: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what keeps DRANET in the cluster
  ansible.builtin.debug:
    msg: "{{ [] | fabric.rdma.rdma_dra_conflicts(drivers.resources, claims.resources, state.nodes) }}"
"""

RETURN = r"""
_value:
  description: Sentences, an empty list if nothing prevents it.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_dra_conflicts(
    objects: t.Any, drivers: t.Any, claims: t.Any, nodes: t.Any, rollout: t.Any = None, groups: t.Any = None
) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import inventory_value
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import standing_problems

    for what, value in (("objects", objects), ("drivers", drivers), ("claims", claims)):
        insist_on_list("rdma_dra_conflicts", value, what)
    insist_on_mapping("rdma_dra_conflicts", nodes, "nodes by name")
    leaving = None if groups is None else [group_value(str(name)) for name in groups]
    return standing_problems(objects, drivers, claims, nodes, inventory_value(rollout or {}), leaving)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_dra_conflicts": rdma_dra_conflicts}

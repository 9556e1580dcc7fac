# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_handover
short_description: Give the steps by which classes go from the device plugin to DRANET, or back
version_added: "0.1.0"
description:
  - Classes are handed over one by one. A step begins only when all that the one before it waits for holds, so that the two never offer
    the same function at the same time.
  - The steps are the same for every run. A step that is done changes nothing, so that a run continues where another ended.
positional: after, rollout, plugin, drivers, state, groups
options:
  _input:
    description: What P(fabric.rdma.rdma_site#filter) gives.
    type: dict
    required: true
  after:
    description: What serves the classes afterwards.
    type: str
    choices: [dra, daemonset]
    required: true
  rollout:
    description: The variable C(rdma_rollout), whose C(classes) are handed over.
    type: dict
    required: true
  plugin:
    description: Objects of the device plugin for all classes, as P(fabric.rdma.rdma_rollout#filter) gives them.
    type: list
    elements: dict
    required: true
  drivers:
    description: DaemonSets of the device plugin and of DRANET, and ConfigMaps of the plugin, in the cluster. Nothing else of the plugin is deleted.
    type: list
    elements: dict
    required: true
  state:
    description: What M(fabric.rdma.cluster_state) returns.
    type: dict
  groups:
    description: Groups whose classes are handed over. All of O(rollout) by default.
    type: list
    elements: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the steps to DRANET
  ansible.builtin.debug:
    msg: "{{ site | fabric.rdma.rdma_handover('dra', rdma_rollout | default({}), [], []) }}"
  vars:
    site: "{{ hostvars | fabric.rdma.rdma_site(groups, rdma_groups, plan_result) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), sentences. If there are any, nothing may be done.
    - C(steps), each with C(class_name), C(why), what to delete (C(delete)), what DRANET is to have then (C(system), options of
      M(fabric.rdma.system_objects), V(null) where nothing of it changes), labels of nodes (C(labels)), what to apply (C(apply)) and
      what to wait for (C(wait), for M(fabric.rdma.handover_ready)).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_handover(
    site: t.Any,
    after: t.Any,
    rollout: t.Any,
    plugin: t.Any,
    drivers: t.Any,
    state: t.Any = None,
    groups: t.Any = None,
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.handover import handover_plan
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer

    insist_on_mapping("rdma_handover", site, "what fabric.rdma.rdma_site gives", "plan")
    if after not in ("dra", "daemonset"):
        raise AnsibleFilterError(f"rdma_handover_to is {after!r}; expected one of dra, daemonset")
    plain = Plainer(whole=True)
    looked = plain(state or {})
    try:
        steps, problems = handover_plan(
            str(after),
            plain(rollout or {}),
            t.cast(Site, site),
            plain(plugin),
            plain(drivers),
            looked.get("served"),
            groups,
            nodes=looked.get("nodes"),
        )
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    return {"steps": steps, "problems": problems}


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_handover": rdma_handover}

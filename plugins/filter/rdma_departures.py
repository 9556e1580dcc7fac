# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_departures
short_description: List hosts that earlier runs knew and this one lacks
version_added: "0.1.0"
description:
  - Compares the inventory with C(plan.json) and C(facts.json) of earlier runs. A host that was planned and is in no RDMA
    group any more, or that was discovered and is in no group at all, is missing, unless it is removed on purpose.
  - A slice of a sliced job of AWX, which has an inventory of its own hosts only, is recognised by its variables.
positional: groups, names, remove, variables
options:
  _input:
    description: The directory on the controller that has both files. They need not exist; one that cannot be read is an error.
    type: path
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  names:
    description: The RDMA groups that this run plans.
    type: list
    elements: str
    required: true
  remove:
    description: Hosts and groups that are removed on purpose.
    type: list
    elements: str
    default: []
  variables:
    description: Variables of a host of the run, among which those of AWX are looked for.
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check that no host of an earlier run is missing
  ansible.builtin.assert:
    that: found.refusal | length == 0
    fail_msg: "{{ found.refusal }}"
  vars:
    found: "{{ '/srv/rdma' | fabric.rdma.rdma_departures(groups, rdma_groups) }}"
"""

RETURN = r"""
_value:
  description:
    - C(missing) and C(removed) have hosts with the group that they were planned in, null for one that was only discovered.
    - C(refusal) says why this run must not plan, and what to do. Empty when it may.
  type: dict
  sample: {missing: {}, removed: {a100-7: ib-a100}, refusal: ""}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_departures(
    directory: t.Any, groups: t.Any, names: t.Any, remove: t.Any = (), variables: t.Any = None
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import found_departures

    insist_on_mapping("rdma_departures", groups, "groups")
    for value in (names, remove):
        insist_on_list("rdma_departures", value, "names")
    try:
        return found_departures(
            str(directory), groups, [str(name) for name in names], [str(name) for name in remove], variables or {}
        )
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_departures": rdma_departures}

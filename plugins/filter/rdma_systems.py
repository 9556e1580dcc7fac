# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_systems
short_description: List the wished systems in the order of their installation
version_added: "0.1.0"
description:
  - Returns the names of the roles that install what an inventory wishes for in a cluster, in the order of installation. Removal takes the
    reverse order.
extends_documentation_fragment:
  - fabric.rdma.inventory
positional: groups, names, everything, insist
options:
  everything:
    description: Return all systems, whatever is wished for.
    type: bool
    default: false
  insist:
    description: Fail where hosts of a group differ in a wish for a system.
    type: bool
    default: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what the cluster gets
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_systems(groups, rdma_groups) }}"
"""

RETURN = r"""
_value:
  description: Names of roles, such as C(device_plugin).
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_systems(
    hostvars: t.Any, groups: t.Any, names: t.Any, everything: bool = False, insist: bool = True
) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._site import wished

    insist_on_mapping("rdma_systems", hostvars, "hostvars")
    insist_on_mapping("rdma_systems", groups, "groups")
    insist_on_list("rdma_systems", names, "group names")
    try:
        return wished(hostvars, groups, [str(name) for name in names], bool(everything), bool(insist))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_systems": rdma_systems}

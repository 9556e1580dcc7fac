# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_label_value
short_description: Give the name of an inventory or a group as labels have it
version_added: "0.1.0"
description:
  - Gives the value of C(rdma.fabric/inventory) or C(rdma.fabric/group) on objects of an inventory or a group of this name.
options:
  _input:
    description: The name.
    type: str
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show which objects are of a group
  ansible.builtin.debug:
    msg: "kubectl get daemonsets -A -l rdma.fabric/group={{ 'ib_v100' | fabric.rdma.rdma_label_value }}"
"""

RETURN = r"""
_value:
  description: A valid value of a label, such as C(ib-v100).
  type: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist


def rdma_label_value(name: t.Any) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value

    insist("rdma_label_value", isinstance(name, (str, int)), "a name", name)
    return group_value(str(name))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_label_value": rdma_label_value}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_unusable
short_description: Tell which hosts have no port that their group wants
version_added: "0.1.0"
description:
  - Judges the ports of all hosts at once, each by the wish of its group, regardless of what the device plugin sees.
options:
  _input:
    description:
      - The value of P(fabric.rdma.rdma_view#filter). Hosts without facts are left out, those whose facts cannot be used are not.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check that every host has a usable port
  ansible.builtin.assert:
    that: unusable | length == 0
  vars:
    unusable: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_unusable }}"
"""

RETURN = r"""
_value:
  description:
    - What was found instead, as one sentence, by name of each host without a usable port.
    - Of a host whose facts cannot be used, what is wrong with them, beginning with C(host NAME).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_unusable(view: t.Any) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import unusable_hosts

    insist_on_mapping("rdma_unusable", view, "the value of fabric.rdma.rdma_view", "groups", "facts")
    try:
        return unusable_hosts(view)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_unusable": rdma_unusable}

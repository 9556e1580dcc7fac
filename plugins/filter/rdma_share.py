# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_share
short_description: Tell how many hosts a number or a percentage stands for
version_added: "0.1.0"
description:
  - Works as C(serial) of Ansible does. Percentages are rounded down, and mean at least one host.
positional: share
options:
  _input:
    description: How many hosts there are.
    type: int
    required: true
  share:
    description: A number of hosts, at least 1, or a percentage.
    type: raw
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Say how many nodes may be away
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts_all | length | fabric.rdma.rdma_share('5%') }}"
"""

RETURN = r"""
_value:
  description: The number.
  type: int
  sample: 3
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist


def rdma_share(count: t.Any, value: t.Any) -> int:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import share

    insist("rdma_share", str(count).isdecimal(), "a number of hosts", count)
    try:
        return share(value, int(count), "rdma_max_unavailable")
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_share": rdma_share}

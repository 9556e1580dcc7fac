# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_storage_table
short_description: Show checks of storage prerequisites as a plain-text table of at most 100 columns
version_added: "0.1.0"
description:
  - One line for each check that is not in order, with its remedy, and one for all those of a host that are.
options:
  _input:
    description: What P(fabric.rdma.rdma_storage#filter) says, by host.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the checks of a host
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: ansible_facts['rdma'] | fabric.rdma.rdma_storage} | fabric.rdma.rdma_storage_table }}"
"""

RETURN = r"""
_value:
  description: The table, lines joined by newlines. Empty when there is nothing to show.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_table


def rdma_storage_table(value: t.Any) -> str:
    if not isinstance(value, t.Mapping):
        raise AnsibleFilterError(
            "fabric.rdma.rdma_storage_table expects checks by host, found %s" % type(value).__name__
        )
    return "\n".join(storage_table(value))


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_storage_table": rdma_storage_table}

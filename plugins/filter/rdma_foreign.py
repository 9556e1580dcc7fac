# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_foreign
short_description: Find hosts whose facts would set variables of this collection, or are those of another host
version_added: "0.1.0"
description:
  - By default, Ansible turns facts into variables, which override those of the inventory. A node that somebody else controls can return
    facts of any name from any module, even into a fact cache.
  - ansible-core 2.21 lets hosts share what is gathered of any of them, where a task with C(run_once) runs before they have facts. A host
    must not be prepared from the facts of another.
  - No host is connected to.
positional: hosts
options:
  _input:
    description: The variable C(hostvars); for the host of the task alone, C(ansible_facts), with O(host).
    type: dict
    required: true
  hosts:
    description:
      - The hosts to look at, usually the variable C(ansible_play_hosts_all).
      - By default, the facts of the input are checked, whatever name the host claims.
    type: list
    elements: str
  host:
    description:
      - The name of the host whose facts the input is, usually the variable C(inventory_hostname). Facts that C(ib_facts) has gathered of
        another host are then found, too.
      - It is only used if no fact has the name of a variable of this collection or of Ansible.
    type: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check that no fact sets a wish
  ansible.builtin.assert:
    that: hostvars | fabric.rdma.rdma_foreign(ansible_play_hosts_all) | length == 0
  run_once: true

- name: Check that no fact of this node sets one, before a file of the controller goes to it
  ansible.builtin.assert:
    that: ansible_facts | fabric.rdma.rdma_foreign(host=inventory_hostname) | length == 0
"""

RETURN = r"""
_value:
  description: A sentence for each of the first ten such hosts, with the names of the facts or of the other host, and one that counts the others.
    Empty when all is well.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_foreign(hostvars: t.Any, hosts: t.Any = None, host: t.Any = None) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import foreign_hosts, foreign_of_host

    insist_on_mapping("rdma_foreign", hostvars, "hostvars")
    if hosts is None:
        return foreign_of_host(hostvars, None if host is None else str(host))
    insist_on_list("rdma_foreign", hosts, "hosts")
    return foreign_hosts(hostvars, [str(each) for each in hosts])


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_foreign": rdma_foreign}

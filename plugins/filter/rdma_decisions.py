# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_decisions
short_description: Tell what each host of a run has to have changed
version_added: "0.1.0"
description:
  - Says of many hosts at once what P(fabric.rdma.rdma_needs#filter) says of one, and which of them have to be changed. Wishes are read where
    the inventory or the command line has them.
  - A host for which nothing can be decided costs no other host anything.
positional: hosts
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  duplicates:
    description:
      - Initiator names that several hosts have, from P(fabric.rdma.rdma_initiator_duplicates#filter).
      - By default those that several of these hosts have. A replayed host has none.
    type: list
    elements: dict
  insist:
    description: Fail where nothing can be decided for one of the hosts.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show which nodes would be changed
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_decisions(ansible_play_hosts)).due }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - C(needs) has by host what P(fabric.rdma.rdma_needs#filter) returns.
    - C(due) has those on which something is to be done, each with C(roles) (those that have to run, in this order) and C(away) (whether the
      host is out of work meanwhile). A replayed host is never one.
    - C(open) names those of them whose last change never finished.
    - C(failed) says by host why nothing can be decided, C(duplicates) which initiator names several hosts have.
  type: dict
  sample:
    needs: {a100-1: {ofed: {needed: true, reasons: [ib_umad is not loaded], packages: false, modules: [ib_umad]}}}
    due: {a100-1: {roles: [ofed], away: false}}
    open: []
    failed: {}
    duplicates: []
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_decisions(hostvars: t.Any, hosts: t.Any, duplicates: t.Any = None, insist: bool = False) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._decisions import decisions

    insist_on_mapping("rdma_decisions", hostvars, "hostvars")
    insist_on_list("rdma_decisions", hosts, "host names")
    found = decisions(hostvars, hosts, duplicates)
    if insist and found["failed"]:
        raise AnsibleFilterError(". ".join(found["failed"].values()))
    return found


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_decisions": rdma_decisions}

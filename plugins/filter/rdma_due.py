# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_due
short_description: Tell which roles have to run on a host, out of what it needs
version_added: "0.1.0"
description:
  - Sums up what P(fabric.rdma.rdma_needs#filter) decided.
options:
  _input:
    description: What P(fabric.rdma.rdma_needs#filter) returns.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what has to run
  ansible.builtin.debug:
    msg: "{{ (ansible_facts['rdma'] | fabric.rdma.rdma_needs(rdma_ofed) | fabric.rdma.rdma_due).roles }}"
"""

RETURN = r"""
_value:
  description: >-
    C(roles) (those that have to run, in this order), and C(away) (bool, whether the host is out of service while they do).
  type: dict
  sample: {roles: [ofed], away: true}
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

WHAT = "what fabric.rdma.rdma_needs returns"


def rdma_due(needs: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import due

    insist_on_mapping("rdma_due", needs, WHAT)
    for need in needs.values():
        insist_on_mapping("rdma_due", need, WHAT, "needed")
    return due(needs)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_due": rdma_due}

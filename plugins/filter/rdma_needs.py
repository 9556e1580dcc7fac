# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_needs
short_description: Tell which preparing roles a host needs, and why
version_added: "0.1.0"
description:
  - Decides from the facts of one host what has to be changed on it. A converged host needs nothing, and no role runs on it.
positional: ofed, link_layer
options:
  _input:
    description: Facts of a host, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma), with the subset V(kernel).
    type: dict
    required: true
  ofed:
    description: The wish C(rdma_ofed). Its key C(method) is V(none) or V(inbox).
    type: dict
    default: {}
  link_layer:
    description: Link layer that the group wants. V(InfiniBand) also needs IPoIB.
    type: str
    default: InfiniBand
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Prepare only where something is missing
  ansible.builtin.include_role:
    name: fabric.rdma.ofed
  when: (ansible_facts['rdma'] | fabric.rdma.rdma_needs(rdma_ofed, 'Ethernet')).ofed.needed
"""

RETURN = r"""
_value:
  description:
    - By role, C(needed) (bool), C(reasons) (in words), and what the role has to do. For C(ofed), C(packages) (bool) and
      C(modules) (to load and to persist).
  type: dict
  sample:
    ofed: {needed: true, reasons: [ib_umad is not loaded], packages: false, modules: [ib_umad]}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._needs import NeedsError, host_needs


def rdma_needs(facts: t.Any, ofed: t.Any = None, link_layer: str = "InfiniBand") -> t.Dict[str, t.Any]:
    if not isinstance(facts, t.Mapping) or "kernel" not in facts:
        raise AnsibleFilterError(
            "fabric.rdma.rdma_needs expects the facts of a host with the subset kernel; run fabric.rdma.ib_facts first"
        )
    try:
        return host_needs(facts, {"ofed": ofed, "link_layer": link_layer})
    except NeedsError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_needs": rdma_needs}

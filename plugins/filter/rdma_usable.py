# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_usable
short_description: Tell which ports of a host a group wants, and why not the others
version_added: "0.1.0"
description:
  - Judges each port of one host by the group's wish, without asking what the device plugin sees.
positional: want
options:
  _input:
    description: Facts of a host, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma).
    type: dict
    required: true
  want:
    description: The wish C(rdma_want), as P(fabric.rdma.rdma_selectors#filter) describes it.
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Insist on a usable port
  ansible.builtin.assert:
    that: (ansible_facts['rdma'] | fabric.rdma.rdma_usable(rdma_want)).wanted | length > 0
"""

RETURN = r"""
_value:
  description:
    - C(wanted) has the C(device), C(port), C(rate_gbps), C(link_layer), C(netdev) and C(pci) of each usable port.
    - C(refused) has the C(device), C(port), C(netdev) and C(reason) of the others, C(found) the same as one sentence.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import PlanError, validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import usable_ports
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import refused_in_words


def rdma_usable(facts: t.Any, want: t.Any = None) -> t.Dict[str, t.Any]:
    if not isinstance(facts, t.Mapping):
        raise AnsibleFilterError("fabric.rdma.rdma_usable expects the facts of a host, found %s" % type(facts).__name__)
    try:
        checked = validate_wishes("of this host", {"resource": {"name": "any"}, "want": want})
    except PlanError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    wanted, refused = usable_ports(facts, checked["want"])
    return {"wanted": wanted, "refused": refused, "found": refused_in_words(refused)}


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_usable": rdma_usable}

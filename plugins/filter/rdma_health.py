# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_health
short_description: Find cards and links that are not as they should be
version_added: "0.1.0"
description:
  - Compares the cards of each group with each other, and with what they themselves and their slots can do.
  - Finds PCIe links that are slower than card, slot or neighbours, firmware and boards (PSID) that differ, ports that are slower than those of
    the other hosts, links that come and go, MTUs that differ, storms of pauses, errors on the wire, and cards that are too hot.
positional: _input
options:
  _input:
    description: Groups and facts as P(fabric.rdma.rdma_view#filter) returns them, the facts with the subsets V(devices) and V(health).
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is not as it should be
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_health | map(attribute='cause') }}"
"""

RETURN = r"""
_value:
  description:
    - Findings, the worst first. Each has C(id) (of the rule), C(severity) (V(error), V(warning) or V(note)), C(group), C(hosts), C(cause),
      C(evidence) (a list of lines) and C(remedy).
  type: list
  elements: dict
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.rules import health_findings


def rdma_health(view: t.Any) -> list[t.Any]:
    insist_on_mapping("rdma_health", view, "the value of fabric.rdma.rdma_view", "groups", "facts")
    # names of devices are the nodes' own: older versions of ansible-core would template them
    return t.cast("list[t.Any]", wrap_var(health_findings(view)))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_health": rdma_health}

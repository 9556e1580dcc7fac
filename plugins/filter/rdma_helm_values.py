# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_helm_values
short_description: Make the values of the Network Operator's chart
version_added: "0.1.0"
description:
  - Returns the values that follow from the settings (a mirror, pull secrets, Node Feature Discovery), overridden by those of the user.
  - A value that the chart of this release does not know is an error. Values of subcharts are not checked.
options:
  _input:
    description:
      - The keys C(version) (release of the operator), C(registry), C(image_pull_secrets) and C(helm).
      - C(helm) has the keys C(nfd) (V(true) by default), C(upgrade_crds) (V(true) by default) and C(values).
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the values for a cluster in which another operator brings Node Feature Discovery
  ansible.builtin.debug:
    msg: "{{ {'version': '26.4.1', 'helm': {'nfd': false}} | fabric.rdma.rdma_helm_values }}"
"""

RETURN = r"""
_value:
  description: Values of the chart.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_helm_values(settings: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import helm_values

    insist_on_mapping("rdma_helm_values", settings, "a dictionary of settings")
    try:
        return helm_values(settings)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_helm_values": rdma_helm_values}

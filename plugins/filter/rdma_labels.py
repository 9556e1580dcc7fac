# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_labels
short_description: Make scripts that label the nodes of each class of a plan
version_added: "0.1.0"
description:
  - The DaemonSets of P(fabric.rdma.rdma_manifests#filter) run on nodes that have the label C(rdma.fabric/class) of their class.
    The scripts give it to them, one C(kubectl label node) a line.
  - A host whose name is not valid for a Kubernetes node becomes a comment, and the script ends with an error.
positional: node_names
options:
  _input:
    description: The plan of P(fabric.rdma.rdma_selectors#filter).
    type: dict
    required: true
  node_names:
    description: Nodes whose name differs from their host's, by host (C(rdma_rollout.node_names)).
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the commands
  ansible.builtin.debug:
    msg: "{{ plan_result | fabric.rdma.rdma_labels(rdma_rollout.node_names | default({})) }}"
"""

RETURN = r"""
_value:
  description: Scripts by relative path of the file to write, such as C(ib-v100/ib-v100-device-1017-labels.sh).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_labels(plan: t.Any, node_names: t.Any = None) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import label_scripts
    from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed

    insist_on_mapping("rdma_labels", plan, "the plan of fabric.rdma.rdma_selectors", "groups")
    insist_on_mapping("rdma_labels", node_names or {}, "hosts with the names of their nodes")
    try:
        return label_scripts(completed(plan), node_names)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_labels": rdma_labels}

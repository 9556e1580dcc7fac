# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_staying
short_description: Name the Pods that still have to leave a node that is drained
version_added: "0.1.0"
description:
  - Pods that have ended, Pods of DaemonSets, and those that a kubelet runs from files may stay.
  - So may a Pod that started after the node was cordoned, that is not being deleted, and that tolerates a cordon. The scheduler would put
    the next one there as well.
positional: before
options:
  _input:
    description: Pods of the node, as M(fabric.rdma.kubernetes_info) returns them.
    type: list
    elements: dict
    required: true
  before:
    description: The same, from before it was cordoned.
    type: list
    elements: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Say what is left on a node
  ansible.builtin.debug:
    msg: "{{ pods.resources | fabric.rdma.rdma_staying(pods_before.resources) }}"
"""

RETURN = r"""
_value:
  description: The Pods, with their namespaces, and by when they have to end.
  type: list
  elements: str
  sample: ["training/job-0 (told to end by 2026-01-31T12:00:30Z)"]
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list


def rdma_staying(pods: t.Any, before: t.Any) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.drains import staying

    insist_on_list("rdma_staying", pods, "Pods")
    insist_on_list("rdma_staying", before, "Pods")
    return staying(pods, before)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_staying": rdma_staying}

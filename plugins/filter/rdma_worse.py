# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_worse
short_description: Name what a host has lost by a change
version_added: "0.1.0"
description:
  - Compares the facts of a host from before and after a change. Reports ports that were Active, services that ran (containerd, kubelet,
    iscsid, multipathd, nvidia-imex and those of the Kubernetes distribution), and a container runtime
    that was ready, if they no longer are.
  - A C(nvidia-imex) that the role C(nvidia_imex) masked with consent does not count as lost. One that it restored has to be what it was
    before.
  - An empty list says that the host is not worse than before.
  - Facts of two hosts are an error.
positional: after
options:
  _input:
    description: Facts from before the change, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma).
    type: dict
    required: true
  after:
    description: Facts from after the change. Subsets that one of them lacks are not compared.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Stop when the host is worse than before
  ansible.builtin.assert:
    that: before | fabric.rdma.rdma_worse(ansible_facts['rdma']) | length == 0
"""

RETURN = r"""
_value:
  description: One sentence for each thing that was lost.
  type: list
  elements: str
  sample: ["mlx5_0 (0000:3b:00.0) port 1 was Active and is Down (phys state Polling)", kubelet ran and no longer runs]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_worse(before: t.Any, after: t.Any) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._base.change import worse
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import GATHERED_OF, others_in_words

    for what, value in (("before", before), ("after", after)):
        insist_on_mapping("rdma_worse", value, f"facts from {what} the change")
    others = others_in_words({"rdma": before}, after.get(GATHERED_OF))
    if others:
        raise AnsibleFilterError(f"fabric.rdma.rdma_worse, facts from before the change: {others}")
    try:
        return worse(before, after)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        # the state before comes from a file of the node
        raise AnsibleFilterError(
            f"fabric.rdma.rdma_worse expects two results of ib_facts, found something else ({type(exc).__name__})"
        ) from None


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_worse": rdma_worse}

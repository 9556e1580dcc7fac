# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_dra_users
short_description: Tell who keeps NVIDIA's DRA driver in a cluster
version_added: "0.1.0"
description:
  - Once a driver has gone, a Pod whose claim has one of its devices cannot end, and a ComputeDomain cannot be deleted.
  - What could not be read from the cluster counts as a reason, too.
positional: domains, served
options:
  _input:
    description: What M(fabric.rdma.kubernetes_info) returns of ResourceClaims of all namespaces.
    type: dict
    required: true
  domains:
    description: What M(fabric.rdma.kubernetes_info) returns of ComputeDomains of all namespaces.
    type: dict
    required: true
  served:
    description: What M(fabric.rdma.cluster_state) returns as RV(fabric.rdma.cluster_state#module:served).
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what keeps the driver in the cluster
  ansible.builtin.debug:
    msg: "{{ claims | fabric.rdma.rdma_dra_users(domains, state.served) }}"
"""

RETURN = r"""
_value:
  description: Sentences, an empty list if nothing prevents it.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_dra_users(claims: t.Any, domains: t.Any, served: t.Any) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_removal import removal_problems

    for what, value in (("claims as read", claims), ("domains as read", domains), ("versions by API group", served)):
        insist_on_mapping("rdma_dra_users", value, what)
    devices, compute_domains = (each["resources"] if each.get("known") else None for each in (claims, domains))
    return removal_problems(devices, compute_domains, served)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_dra_users": rdma_dra_users}

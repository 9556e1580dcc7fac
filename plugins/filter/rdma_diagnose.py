# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_diagnose
short_description: Tell what is wrong with RDMA on hosts and in a cluster, why, and what to do about it
version_added: "0.1.0"
description:
  - Applies all rules of the collection (C(docs/troubleshooting.md) lists them) to facts, plan, objects of the cluster and logs.
  - Checks cards and links, too, if there are facts and groups.
  - Each finding has one cause and one remedy. Hosts with the same finding share it, group by group. The worst come first.
  - Logs are searched for fixed texts that the programs print. Nothing in them is evaluated.
options:
  _input:
    description:
      - What P(fabric.rdma.rdma_material#filter) returns, or a dictionary with some of its keys.
    type: dict
    required: true
  findings:
    description: Findings from elsewhere, in the same form. They are sorted in among the others.
    type: list
    elements: dict
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is wrong with the hosts
  ansible.builtin.debug:
    msg: "{{ ({'facts': facts_by_host} | fabric.rdma.rdma_diagnose).findings }}"

- name: Check that nothing is wrong
  ansible.builtin.assert:
    that: (material | fabric.rdma.rdma_diagnose).findings | selectattr('severity', 'equalto', 'error') | length == 0
"""

RETURN = r"""
_value:
  description: C(schema), C(findings), C(looked_at) and C(unread), as C(docs/doctor.schema.json) describes them.
  type: dict
  contains:
    schema:
      description: Version of this form.
      type: int
      sample: 1
    findings:
      description: Each with C(id), C(severity) (error, warning or note), C(group), C(hosts), C(cause), C(evidence) and C(remedy).
      type: list
      elements: dict
      sample:
        - id: memlock-8-mib
          severity: warning
          group: ib-a100
          hosts: [a100-1, a100-2]
          cause: containers may lock a few MiB of memory only
          evidence: ["a100-1: containers may lock 8192 KiB (RLIMIT_MEMLOCK)"]
          remedy: "rdma_memlock: {enabled: true} and ansible-playbook fabric.rdma.prepare"
    looked_at:
      description: The number of hosts, nodes, Pods and logs of which something was known.
      type: dict
      sample: {hosts: 2, nodes: 0, pods: 0, objects: 0, logs: 0}
    unread:
      description: Sentences on what could not be checked.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_diagnose(material: t.Any, findings: t.Any = ()) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import MATERIAL, material_of
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import document_of

    insist_on_mapping("rdma_diagnose", material, "a dictionary")
    try:
        given = material_of(**{key: material.get(key) for key in MATERIAL})
        return t.cast(dict[str, t.Any], wrap_var(document_of(given, findings)))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_diagnose": rdma_diagnose}

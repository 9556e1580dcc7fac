# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_bundle
short_description: Make the files of a bundle for a diagnosis elsewhere
version_added: "0.1.0"
description:
  - Makes the files of a directory from which P(fabric.rdma.rdma_material#filter) makes the same material, so that a diagnosis elsewhere
    finds the same.
options:
  _input:
    description:
      - What P(fabric.rdma.rdma_material#filter) returns, or a dictionary with some of its keys.
    type: dict
    required: true
  anonymize:
    description:
      - Replace names of hosts, also as hosts call themselves in their journals, and their domain, of servers that are mounted over RDMA,
        addresses, GUIDs, serial numbers of cables, names of iSCSI initiators, mail addresses and home directories, each by the same stand-in
        everywhere. Names of groups, resources, namespaces, Pods, devices and images are kept.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Make the files of a bundle
  ansible.builtin.set_fact:
    files: "{{ {'facts': facts_by_host} | fabric.rdma.rdma_bundle(anonymize=true) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: Text by path in the directory.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_bundle(material: t.Any, anonymize: bool = False) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import MATERIAL, material_of

    insist_on_mapping("rdma_bundle", material, "a dictionary")
    try:
        given = material_of(**{key: material.get(key) for key in MATERIAL})
        return t.cast(dict[str, str], wrap_var(bundle_files(given, boolean(anonymize))))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_bundle": rdma_bundle}

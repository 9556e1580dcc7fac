# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_storage
short_description: Tell what a host lacks for Longhorn, iSCSI and NFS volumes
version_added: "0.1.0"
description:
  - Checks the facts of one host in the terms of C(longhornctl check preflight), and says what has to be done.
positional: wish, duplicates, host, os_family
options:
  _input:
    description:
      - Facts of a host, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma), with the subsets V(kernel) and
        V(storage).
    type: dict
    required: true
  wish:
    description:
      - The wish C(rdma_storage). Its keys are C(iscsi), C(nfs), C(dm_crypt), C(multipath) (bool) and C(path), the directory of
        volumes.
    type: dict
    default: {}
  duplicates:
    description: Initiator names that several hosts have, from P(fabric.rdma.rdma_initiator_duplicates#filter).
    type: list
    elements: dict
    default: []
  host:
    description: The name of this host, also in O(duplicates). Facts that C(ib_facts) has gathered of another host are then refused.
    type: str
  os_family:
    description:
      - The family of distributions, as Ansible calls it, V(Debian), V(RedHat) or V(Suse). It decides the names of packages in C(install).
        By default, the facts do.
    type: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ (ansible_facts['rdma'] | fabric.rdma.rdma_storage(rdma_storage)).checks | rejectattr('status', 'eq', 'ok') }}"
"""

RETURN = r"""
_value:
  description:
    - C(checks), one entry for each check with C(check), C(status) (V(ok), V(warning) or V(error)), C(message) and C(remedy).
    - C(needed) (bool), C(reasons) and C(blocked) (in words). What is in C(blocked) has to be repaired by hand.
    - What has to be done, in C(packages) (bool), C(parts), C(tools), C(install) (the packages of both, by name), C(modules),
      C(unit), C(initiator), C(multipath) and C(restarts).
  type: dict
  sample:
    checks: [{check: modules, status: error, message: Module nfs is not loaded, remedy: "`modprobe nfs`"}]
    needed: true
    reasons: [Module nfs is not loaded]
    blocked: []
    packages: false
    parts: []
    tools: []
    install: []
    modules: [nfs]
    unit: null
    initiator: null
    multipath: false
    restarts: []
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_storage(
    facts: t.Any, wish: t.Any = None, duplicates: t.Any = (), host: t.Any = None, os_family: t.Any = None
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_needs import storage_needs
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import others_in_words

    what = "facts of a host, gathered by fabric.rdma.ib_facts with the subsets kernel and storage"
    insist_on_mapping("rdma_storage", facts, what, "kernel", "storage")
    name = None if host is None else str(host)
    others = others_in_words({"rdma": facts}, name)
    if others:
        raise AnsibleFilterError(others)
    try:
        needs = storage_needs(facts, wish, duplicates, name, os_family)
        return {**needs, "checks": storage_checks(facts, wish, duplicates, name)}
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_storage": rdma_storage}

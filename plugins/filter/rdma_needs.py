# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_needs
short_description: Tell which preparing roles a host needs, and why
version_added: "0.1.0"
description:
  - Decides from the facts of one host what has to be changed on it. A converged host needs nothing, and no role runs on it.
positional: ofed, link_layer
options:
  _input:
    description:
      - Facts of a host, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma), with the subset V(kernel).
      - C(roce_host) needs the subsets V(devices), V(management) and V(roce), C(storage_prereqs) the subset V(storage),
        C(containerd_memlock) V(runtime), C(nvidia_peermem) and C(nvidia_imex) V(devices) and V(gpus).
    type: dict
    required: true
  ofed:
    description: The wish C(rdma_ofed). Its key C(method) is V(none), V(inbox), V(doca) or V(mlnx_iso).
    type: dict
    default: {}
  link_layer:
    description: Link layer that the group wants. V(InfiniBand) also needs IPoIB.
    type: str
    default: InfiniBand
  storage:
    description: The wish C(rdma_storage).
    type: dict
    default: {}
  memlock:
    description: The wish C(rdma_memlock).
    type: dict
    default: {}
  gpudirect:
    description: The wish C(rdma_gpudirect).
    type: str
    choices: [auto, peermem, dmabuf, none]
    default: auto
  compute_domain:
    description: The wish C(rdma_compute_domain).
    type: dict
    default: {}
  duplicates:
    description: Initiator names that several hosts have, from P(fabric.rdma.rdma_initiator_duplicates#filter).
    type: list
    elements: dict
    default: []
  roce_host:
    description: The wish C(rdma_roce_host).
    type: dict
    default: {}
  want:
    description: The wish C(rdma_want). Only used for C(roce_host).
    type: dict
    default: {}
  host:
    description: The name of this host, also in O(duplicates). Facts that C(ib_facts) has gathered of another host are then refused.
    type: str
  os_family:
    description:
      - The family of distributions, as Ansible calls it, V(Debian), V(RedHat) or V(Suse). If given, C(ofed) has the C(names) of its
        packages.
    type: str
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Prepare only where something is missing
  ansible.builtin.include_role:
    name: fabric.rdma.ofed
  when: (ansible_facts['rdma'] | fabric.rdma.rdma_needs(rdma_ofed, 'Ethernet')).ofed.needed

- name: Show everything that a host needs
  ansible.builtin.debug:
    msg: "{{ ansible_facts['rdma'] | fabric.rdma.rdma_needs(rdma_ofed, storage=rdma_storage, memlock=rdma_memlock) }}"
"""

RETURN = r"""
_value:
  description:
    - By role, C(needed) (bool), C(reasons) (in words), and what the role has to do. The roles are in the order in which they
      have to run.
    - For C(storage_prereqs), what P(fabric.rdma.rdma_storage#filter) returns, without the checks.
    - For C(containerd_memlock), C(method), C(handlers) and C(containerd) (whether there is one).
    - For C(ofed), C(packages) (bool), C(modules) (to load and to persist), and with a driver of the vendor C(driver), C(activate) and
      C(pending). With O(os_family), C(names) with C(user_space), C(driver) (both lists) and C(headers) (of the running kernel, null if
      unknown).
    - For C(roce_host), C(blocked) (why it cannot be done) and C(pending) (what only a reboot brings), both in words.
    - For C(roce_host) and C(nvidia_imex), C(drain) says whether the change hurts Pods, so that they have to leave the node first.
    - For C(nvidia_peermem), C(way) (V(dmabuf), V(peermem) or V(none)), C(why), C(problems) with C(cause) and C(remedy),
      C(load), C(persist), and C(managed) with C(helm_values) where the GPU Operator has the driver.
    - For C(nvidia_imex), C(action) (V(mask), V(restore) or null) and C(before) (what the service was, with C(enabled) and C(running)).
  type: dict
  sample:
    ofed: {needed: true, reasons: [ib_umad is not loaded], packages: false, modules: [ib_umad]}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_needs(
    facts: t.Any,
    ofed: t.Any = None,
    link_layer: str = "InfiniBand",
    storage: t.Any = None,
    memlock: t.Any = None,
    gpudirect: str = "auto",
    duplicates: t.Any = (),
    host: t.Optional[str] = None,
    os_family: t.Any = None,
    roce_host: t.Any = None,
    want: t.Any = None,
    compute_domain: t.Any = None,
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import host_needs
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
        checked_facts,
        malformed_in_words,
        others_in_words,
    )

    insist_on_mapping(
        "rdma_needs", facts, "facts of a host, gathered by fabric.rdma.ib_facts with the subset kernel", "kernel"
    )
    for name, wish in (
        ("rdma_ofed", ofed),
        ("rdma_storage", storage),
        ("rdma_memlock", memlock),
        ("rdma_roce_host", roce_host),
        ("rdma_want", want),
        ("rdma_compute_domain", compute_domain),
    ):
        if wish is not None:
            insist_on_mapping("rdma_needs", wish, f"a dictionary in {name}")
    others = others_in_words({"rdma": facts}, host)
    if others:
        raise AnsibleFilterError(others)
    facts, _when, malformed = checked_facts(facts)
    if malformed:
        raise AnsibleFilterError(malformed_in_words(host or "of these facts", malformed))
    wishes = {
        "ofed": ofed,
        "link_layer": link_layer,
        "storage": storage,
        "memlock": memlock,
        "gpudirect": gpudirect,
        "duplicates": duplicates,
        "host": host,
        "os_family": os_family,
        "roce_host": roce_host,
        "want": want,
        "rdma_compute_domain": compute_domain,
    }
    try:
        return host_needs(facts, wishes)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_needs": rdma_needs}

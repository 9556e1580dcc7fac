# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_selectors
short_description: Plan device-plugin selectors that match the wanted ports and nothing else
version_added: "0.1.0"
description:
  - Finds, for each group, the sturdiest set of selectors of the shared device plugin that matches exactly the wanted PCI functions on every
    host of the group, and no other function on any of them.
  - Follows what the plugin really does. Kinds of selectors are ANDed, values of one kind are ORed, C(linkTypes) is compared with the type
    of the first netdev below the PCI function, port states and bond masters do not exist for it.
  - Tries the kinds C(vendors), C(deviceIDs), C(drivers) and C(linkTypes) alone and together. Sets that would match the fewest devices that
    are added later come first, among these the ones of fewer kinds, and C(ifNames) after all of them, because names differ between machines.
  - Splits a group into classes when no single configuration is exact on all of its hosts, and says which function on which host prevents
    it. Also splits where one configuration needs more names than several do, where a port of a host is down, and by the kubelet's directory.
  - With C(rails), gives each rail a resource of its own. A rail is one HCA with its GPUs under the same PCIe switch, or one GPU with its
    HCAs. Rails are numbered by GPU, so that a lost cable or a dead HCA shifts none, and the numbers mean the same on every host of a group.
    An error shows the two hosts that differ.
  - Finds one configuration for the whole cluster (C(NicClusterPolicy)) that is exact on all hosts of all groups, or says with a
    counter-example why there is none.
  - Gives the configuration of the SR-IOV network device plugin that offers the same functions.
  - A group for which even that is not possible, or with hosts that have no facts, has C(planned) false and says
    why in C(errors), with a counter-example (host, device, why). The other groups are planned.
  - Lists each device or port that is left out, with its host and the reason.
positional: groups, earlier
options:
  _input:
    description:
      - Facts by host, as P(fabric.rdma.ib_facts#module) returns them in the key C(rdma). A group is planned without those of its hosts
        whose facts are malformed. It names these with the field in C(malformed) and C(errors), and is not rolled out.
      - Without O(groups), the value of P(fabric.rdma.rdma_view#filter), which has both.
    type: dict
    required: true
  groups:
    description:
      - By name of group, the keys C(hosts) (list), C(resource), C(want), C(strategy) and C(rails).
      - C(resource) has the keys C(name) (required), C(prefix) (V(rdma) by default) and C(hca_max) (V(63) by default).
      - C(want) has the keys C(link_layer) (V(InfiniBand) or V(Ethernet)), C(state) (V(Active) or V(any)),
        C(min_rate_gbps), C(kinds) (some of V(pf), V(vf), V(sf), V(software)) and C(exclude) (RDMA, PCI or netdev names).
      - C(strategy) is V(auto), V(ifnames) (interface names alone) or V(device_ids) (device IDs, with other kinds than names where
        they are needed). A group that a strategy cannot serve exactly is not planned.
      - C(rails) is V(false) (the default), V(true) for resources named C({name}_gpu{rail}), or another pattern of names, in
        which C({name}) stands for the name of C(resource), C({rail}) for the number of the rail, from 1.
    type: dict
  earlier:
    description:
      - The file on the controller with the plan of an earlier run, which need not exist. Classes keep the names that they have there as
        long as their selectors only gain or lose values, so that a new card relabels no node.
      - Without it, a class is named after its selectors.
    type: path
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Plan one group
  ansible.builtin.set_fact:
    plan: "{{ {'node1': ansible_facts['rdma']} | fabric.rdma.rdma_selectors(wishes) }}"
  vars:
    wishes:
      ib-v100:
        hosts: [node1]
        resource: {name: rdma_v100}
        want: {link_layer: InfiniBand, min_rate_gbps: 100}

- name: Plan one resource for each GPU and the HCA under its switch
  ansible.builtin.set_fact:
    plan: "{{ facts_by_host | fabric.rdma.rdma_selectors(wishes) }}"
  vars:
    wishes:
      roce-rails:
        hosts: "{{ facts_by_host.keys() | list }}"
        resource: {name: shared_cx5}
        want: {link_layer: Ethernet, min_rate_gbps: 100}
        rails: true # rdma/shared_cx5_gpu1, rdma/shared_cx5_gpu2 and so on

- name: Plan all groups of the inventory
  ansible.builtin.set_fact:
    plan: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_selectors(earlier='/srv/rdma/plan.json') }}"
"""

RETURN = r"""
_value:
  description:
    - The plan. C(groups) has for each group its C(resource), the C(resources) one by one with their C(rail), whether it is
      C(planned), its C(classes), C(wanted) ports by host, C(rails) by host (C(rail), C(resource), C(gpus), C(devices)),
      C(exclusions) with their reasons, C(cached) hosts whose facts are not of this run with the time when they were
      gathered, C(malformed) hosts whose facts cannot be used with what is wrong with them, C(environment) for workloads by host
      (such as C(NCCL_IB_HCA) and C(UCX_NET_DEVICES)), C(warnings) and C(errors).
    - A class has a C(name), C(hosts), C(selectors) (with rails, those of all of them), C(matched_later) (what they would also match if it
      were added), C(pools) (C(resource), C(rail), C(selectors)), C(config) for the plugin's config.json, C(matches) by host, C(reason) (why
      it is not one with the other classes of the group) and C(sriov) (C(config) with the C(resourceList) of the SR-IOV network device
      plugin and the C(versions) of it that this holds for, or the C(reason) why there is none).
    - C(cluster) has the one C(config) for all groups with the C(selectors) by resource and the number of C(hosts) that it is
      exact on. Where there is none, C(errors) says why, and C(alternative) what to do. It does not know nodes without
      facts.
    - C(warnings) are of all groups together. C(schema) is the version of the form.
    - C(removed) and C(remove) are what P(fabric.rdma.rdma_merged_plan#filter) notes of hosts and groups that are removed.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan


def rdma_selectors(facts_by_host: t.Any, groups: t.Any = None, earlier: t.Optional[str] = None) -> Plan:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
    from ansible_collections.fabric.rdma.plugins.plugin_utils._collector import paused
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
        earlier_classes,
        sound_facts,
        unwrapped,
        without_devices,
    )

    cached: t.Mapping[str, t.Optional[str]] = {}
    malformed: dict[str, str] = {}
    viewed = False
    facts_by_host = unwrapped(facts_by_host)
    if groups is None and isinstance(facts_by_host, t.Mapping) and {"facts", "groups", "unseen"} <= set(facts_by_host):
        view = facts_by_host
        facts_by_host, groups, cached = view["facts"], {**view["groups"], **view["unseen"]}, view["cached"]
        malformed, viewed = dict(view["malformed"]), True
    for what, value in (("facts by host", facts_by_host), ("groups", groups)):
        insist_on_mapping("rdma_selectors", value, f"a dictionary of {what}")
    if not viewed:
        facts_by_host, malformed = sound_facts(facts_by_host)
    # facts that were gathered in part tell nothing that can be planned with
    malformed.update(without_devices(facts_by_host))
    try:
        classes = earlier_classes(str(earlier)) if earlier else None
        with paused():
            return plan_groups(facts_by_host, groups, cached, malformed, classes)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_selectors": rdma_selectors}

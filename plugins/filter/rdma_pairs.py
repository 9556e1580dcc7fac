# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_pairs
short_description: Plan which hosts measure against each other
version_added: "0.1.0"
description:
  - Pairs the hosts of each group inside their fabric, port by port, and orders the pairs into rounds. No host is in two pairs of a round,
    so that the pairs of a round can run at the same time without taking each other's bandwidth.
  - InfiniBand ports are paired with ports of the same subnet prefix, Ethernet ports need a RoCE v2 GID with an IPv4 address.
  - With O(plan), the same for Pods on these hosts, of the ports that the plan gives to Pods.
positional: hosts, settings
options:
  _input:
    description: Groups and facts as P(fabric.rdma.rdma_view#filter) returns them. Replayed hosts are left out.
    type: dict
    required: true
  hosts:
    description: Hosts that can be measured, usually the variable C(ansible_play_hosts).
    type: list
    elements: str
    required: true
  settings:
    description:
      - How to measure. Any of C(tests), C(topology) (V(pairs), V(ring), V(full), V(sample) or V(canary)), C(partners) and C(seed) of a
        sample, C(canaries), C(rails) (V(same) or V(all)), C(iterations), C(software_iterations), C(bandwidth_bytes), C(latency_bytes),
        C(qps), C(all_sizes), C(bidirectional), C(gpudirect) (V(none), V(auto), V(peermem) or V(dmabuf)), and the floors C(min_gbps),
        C(min_share), C(software_min_gbps), C(max_us), C(hardware_max_us), C(software_max_us). The wish C(rdma_verify) of a group
        comes before C(min_gbps), C(min_share) and C(max_us).
      - C(outliers) (V(name) or V(fail)), C(outlier_share), C(outlier_us) and C(software_outlier_share) say what is far from the median.
      - C(allow_unusable) lets a host of a group with a resource have nothing to measure with.
      - C(timeout), seconds that a client may take for one test, and C(forks), how many hosts run at a time, usually the variable
        C(ansible_forks), give the deadline of the servers.
    type: dict
    default: {}
  plan:
    description:
      - The plan, as P(fabric.rdma.rdma_selectors#filter) returns it. The pairs are for Pods then.
      - A host whose group has a resource, and whose Pods get nothing by the plan, is a defect among what cannot be measured.
    type: dict
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show who would measure against whom
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_pairs(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description:
    - C(rounds) is a list of lists of pairs with C(group), C(client), C(server) and C(tests), each test with both ends, sizes and
      its floor. With O(plan), a pair also has C(pods), with the C(resources) and C(devices) of Pods on the C(client) and the C(server).
    - C(jobs) has for each host what it does in each round, null where it does nothing. Its C(deadline) is the number of seconds after which
      its servers are no longer of use.
    - C(untested) has for each group the ports that cannot be measured, with the reason.
    - C(limits) says how far from the median of its group a result is named, and whether it fails then (C(fail), C(share), C(us), C(software_share)).
    - C(expected) has all hosts of the groups that are not replayed, whether they can be measured or not.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Port
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Pairs
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import Settings


def rdma_pairs(view: t.Any, hosts: t.Any, settings: t.Any = None, plan: t.Any = None) -> Pairs:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import validate_wishes
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import (
        ports_out_of_use,
        refused_in_words,
        usable_ports,
    )
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.pairs import pair_groups
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_evidence import pair_pods
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.settings import settings_from

    insist_on_mapping("rdma_pairs", view, "the value of fabric.rdma.rdma_view", "groups", "facts")
    insist_on_list("rdma_pairs", hosts, "hosts")
    if plan is not None:
        insist_on_mapping("rdma_pairs", plan, "a plan")
    present = {str(host) for host in hosts}
    groups: dict[str, list[str]] = {}
    wanted: dict[str, list[Port]] = {}
    lacks: dict[str, str] = {}
    try:
        checked: Settings = settings_from(settings or {})
        for name, group in view["groups"].items():
            live = (present & set(group["hosts"]) & set(view["facts"])) - set(group["replayed"])
            # Only the wish for ports matters here: a resource without a name can still carry traffic.
            want = validate_wishes(name, {"resource": {"name": "any"}, "want": group["want"]})["want"]
            if live:
                groups[name] = sorted(live)
            for host in live:
                wanted[host] = usable_ports(view["facts"][host], want)[0]
                if not wanted[host] and group["resource"] and not checked.allow_unusable:
                    known = "devices" in view["facts"][host]
                    none = "it has none of that kind" if known else "its facts have no devices: discover it again"
                    lacks[host] = refused_in_words(ports_out_of_use(view["facts"][host], want)) or none
        everyone = {**view["groups"], **view.get("unseen", {})}
        # Hosts that were lost before are missed in the result.
        expected = {host for group in everyone.values() for host in set(group["hosts"]) - set(group["replayed"])}
        wishes = {name: view["groups"][name].get("verify") for name in groups}
        if plan is None:
            planned = pair_groups(groups, view["facts"], wanted, checked, wishes, lacks)
        else:
            asked = {name: {"hosts": own, "resource": view["groups"][name]["resource"]} for name, own in groups.items()}
            planned = pair_pods(asked, view["facts"], wanted, plan, checked, wishes)
        return {**planned, "expected": sorted(expected)}
    except FabricError as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_pairs: {exc}") from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_pairs": rdma_pairs}

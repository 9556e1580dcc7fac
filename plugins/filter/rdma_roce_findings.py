# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_roce_findings
short_description: Tell where hosts of one group have RoCE set differently
version_added: "0.1.0"
description:
  - Compares MTU, trust, PFC, ECN, ToS, ARP and C(rp_filter) settings and the RDMA network namespace mode of all hosts of a group that
    wants Ethernet, and tells what differs, and on which hosts and network devices.
  - Where the group has the wish C(rdma_roce_host), it also tells what is not as wished.
  - What is missing in the facts of a host is not compared.
extends_documentation_fragment:
  - fabric.rdma.inventory
positional: groups, names
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show where RoCE is set differently
  ansible.builtin.debug:
    msg: "{{ hostvars | fabric.rdma.rdma_roce_findings(groups, rdma_groups) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: Sentences. An empty list if all hosts are alike, and as their group wishes.
  type: list
  elements: str
  sample:
    - "group roce: ports differ in the MTU: 9000 on gpu1..gpu7 (7 hosts); 1500 on gpu8 (enp11s0f0np0)"
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_roce_findings(hostvars: t.Any, groups: t.Any, names: t.Any) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_findings import roce_findings
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer, facts_of, sound_facts

    for what, value in (("hostvars", hostvars), ("groups", groups)):
        insist_on_mapping("rdma_roce_findings", value, what)
    insist_on_list("rdma_roce_findings", names, "groups")
    plain = Plainer()
    facts: dict[str, t.Any] = {}
    compared: dict[str, t.Any] = {}
    for name in (str(each) for each in names if each in groups):
        hosts = sorted(str(host) for host in groups[name] if host in hostvars)
        wishes: dict[str, t.Any] = {}
        for host in hosts:
            own = hostvars[host]
            found = facts_of(own).get("rdma")
            if found:
                facts[host] = found
            for key, variable in (("want", "rdma_want"), ("roce_host", "rdma_roce_host")):
                # as a rule the same for all: of a host with a wish of its own, its needs tell
                wishes.setdefault(key, plain(own.get(variable)))
        compared[name] = {"hosts": hosts, **wishes}
    try:
        # the plan names a host whose facts cannot be used
        return roce_findings(compared, sound_facts(facts)[0])
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_roce_findings": rdma_roce_findings}

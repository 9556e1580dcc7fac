# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_fabric
short_description: Make the map of the fabric
version_added: "0.1.0"
description:
  - Finds the leaf of each wanted port of an HCA in the output of C(ibnetdiscover) (InfiniBand) and C(lldpctl) (Ethernet).
  - Finds cables that are swapped, rails that do not share a leaf with those of the other hosts, and ports in another subnet.
positional: answers, plan, earlier, groups
options:
  _input:
    description: Groups and facts as P(fabric.rdma.rdma_view#filter) returns them.
    type: dict
    required: true
  answers:
    description: What M(fabric.rdma.fabric_map) returned, for each host that was asked.
    type: dict
    required: true
  plan:
    description:
      - The plan, as P(fabric.rdma.rdma_selectors#filter) returns it, or the path of the file that an earlier run left. Its rails are used.
      - Without rails, a port's rail is its place among the ports of its host that its group uses, even if one is down.
    type: raw
  earlier:
    description:
      - The map before this one, or the path of the file that it is in. Hosts that this run did not check (they are in O(groups), but
        C(--limit) excludes them or they are lost) stay where it has them.
    type: raw
  groups:
    description: C(groups) of the run, for O(earlier). Hosts that have left their group leave the map.
    type: dict
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show which hosts are at which leaf
  ansible.builtin.debug:
    msg: "{{ (hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_fabric(answers)).leaves }}"
"""

RETURN = r"""
_value:
  description:
    - The map, as the file C(docs/fabric.schema.json) of the collection describes it. It has C(schema), C(sources), C(switches), C(units),
      C(leaves), C(trunks), C(places), C(unplaced), C(findings) and C(warnings).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_fabric(
    view: t.Any, answers: t.Any, plan: t.Any = None, earlier: t.Any = None, groups: t.Any = None
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.build import fabric_map
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import loaded

    insist_on_mapping("rdma_fabric", view, "the value of fabric.rdma.rdma_view", "groups", "facts")
    insist_on_mapping("rdma_fabric", answers, "answers by host")
    insist_on_mapping("rdma_fabric", groups or {}, "groups of the inventory")
    try:
        there = {str(name): set(map(str, hosts)) for name, hosts in (groups or {}).items()}
        found = fabric_map(view, loaded(plan, "plan"), answers, loaded(earlier, "fabric"), there)
    except FabricError as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_fabric: {exc}") from exc
    # what switches call themselves is kept in a fact: older versions of ansible-core would template it
    return t.cast("dict[str, t.Any]", wrap_var(found))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_fabric": rdma_fabric}

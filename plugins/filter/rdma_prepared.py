# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_prepared
short_description: Show what preparing hosts changed, what was right, and what is left to do
version_added: "0.1.0"
description:
  - Makes rows of what was done, which P(fabric.rdma.rdma_table#filter) shows. Hosts with the same row share it.
  - What is left to the user are reboots, Pods to recreate, and values to set in the chart of NVIDIA's GPU Operator.
positional: hosts, before, after, memlock, check
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts of the play.
    type: list
    elements: str
    required: true
  before:
    description:
      - Name of the variable that has what a host needed, as P(fabric.rdma.rdma_needs#filter) returns it.
      - For a host without it, it is what the role C(discover) concluded, in C(discover_gathered). A host without that is left out.
    type: str
    required: true
  after:
    description: Name of the variable that has what it needs now.
    type: str
    required: true
  memlock:
    description: Name of the variable that has the result of M(fabric.rdma.containerd_memlock).
    type: str
    required: true
  check:
    description: Whether nothing was changed. The rows then say what would have been.
    type: bool
    default: false
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what was done
  ansible.builtin.debug:
    msg: "{{ rows | fabric.rdma.rdma_table }}"
  vars:
    rows: "{{ hostvars | fabric.rdma.rdma_prepared(ansible_play_hosts, 'before', 'after', 'memlock', ansible_check_mode) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: In each row, the hosts, what was done, and the details. Empty when there is nothing to show.
  type: list
  elements: list
  sample: [["node1, node2", changed, "ofed: ib_umad is not loaded"]]
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_prepared(
    hostvars: t.Any, hosts: t.Any, before: str, after: str, memlock: str, check: bool = False
) -> list[list[str]]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.table import prepared_rows
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import concluded

    insist_on_mapping("rdma_prepared", hostvars, "hostvars")
    insist_on_list("rdma_prepared", hosts, "host names")
    found = {}
    for host in hosts:
        variables = hostvars[host]
        needed = variables[before] if before in variables else concluded(variables)
        # the role discover may have been asked to conclude something else
        if is_needs(needed):
            found[str(host)] = {
                "before": needed,
                "after": variables.get(after),
                "replayed": "rdma_capture" in variables,
                "stale_containers": stale(variables.get(memlock)),
            }
    return [list(row) for row in prepared_rows(found, check)]


def is_needs(value: t.Any) -> bool:
    """Whether it is what rdma_needs returns."""
    return isinstance(value, t.Mapping) and all(
        isinstance(need, t.Mapping) and "needed" in need and isinstance(need.get("reasons"), (list, tuple))
        for need in value.values()
    )


def stale(result: t.Any) -> list[t.Any]:
    """The containers with an old limit of a module's result, of whatever form a node has made it."""
    found = result.get("stale_containers") if isinstance(result, t.Mapping) else None
    return [each for each in found if isinstance(each, t.Mapping)] if isinstance(found, (list, tuple)) else []


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_prepared": rdma_prepared}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_fabric_table
short_description: Show the map of the fabric as text
version_added: "0.1.0"
description:
  - One line for each switch that hosts are plugged in at, then the ports that nobody can place, and what is wrong, with its
    remedy. No line has more than 100 columns.
positional: _input
options:
  _input:
    description: The map, as P(fabric.rdma.rdma_fabric#filter) returns it.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the map
  ansible.builtin.debug:
    msg: "{{ map | fabric.rdma.rdma_fabric_table }}"
"""

RETURN = r"""
_value:
  description: Lines of text.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_fabric_table(value: t.Any) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric.table import fabric_table

    insist_on_mapping("rdma_fabric_table", value, "the value of fabric.rdma.rdma_fabric", "places")
    return fabric_table(value)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_fabric_table": rdma_fabric_table}

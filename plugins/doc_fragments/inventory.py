# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the filters that read the whole inventory."""

from __future__ import annotations


class ModuleDocFragment:
    """What they are given: the variables of all hosts, and which groups are meant."""

    DOCUMENTATION = r"""
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  names:
    description: Names of the RDMA groups, usually the variable C(rdma_groups).
    type: list
    elements: str
    required: true
"""

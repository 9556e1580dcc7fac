# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_told
short_description: Tell what earlier jobs of a workflow in AWX have told of prepare
version_added: "0.1.0"
description:
  - The playbook C(prepare) leaves an artifact, which AWX gives to later jobs of a workflow as a variable. Each slice leaves its own. The
    last run counts, with all its slices.
options:
  _input:
    description: Variables of a host of the run, among which the artifacts are.
    type: dict
    required: true
  path:
    description: Path of the file with outcomes on the controller, which slices do not write.
    type: path
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is known of the nodes that were prepared
  ansible.builtin.debug:
    msg: "{{ hostvars[inventory_hostname] | fabric.rdma.rdma_told('/srv/rdma/outcomes.json') }}"
"""

RETURN = r"""
_value:
  description:
    - C(lines), sentences on nodes that failed, and C(outcomes), the path of the file on how the nodes ended, or
      V({}) if an artifact tells of a later or a sliced run. The file may not exist.
  type: dict
  sample:
    lines: []
    outcomes: /srv/rdma/outcomes.json
"""

import os
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_told(variables: t.Any, path: str) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import told_elsewhere

    insist_on_mapping("rdma_told", variables, "variables of a host")
    path = os.path.expanduser(str(path))
    lines, file = told_elsewhere(variables, os.path.isfile(path))
    return {"lines": lines, "outcomes": path if file else {}}


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_told": rdma_told}

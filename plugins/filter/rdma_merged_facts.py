# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_merged_facts
short_description: Join facts with those of other hosts from an earlier run
version_added: "0.1.0"
description:
  - A run on some of the hosts must not shrink the file with the facts of all.
  - Hosts that this run did not see keep their earlier facts until they are removed, even those that are not in the inventory.
positional: path, removed
options:
  _input:
    description: Facts by host of this run.
    type: dict
    required: true
  path:
    description: The file of the earlier run on the controller. It need not exist; one that cannot be read is an error.
    type: path
    required: true
  removed:
    description: Hosts that are removed on purpose.
    type: list
    elements: str
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Write the facts of the hosts of the play
  ansible.builtin.copy:
    content: "{{ seen | fabric.rdma.rdma_merged_facts('/srv/rdma/facts.json') | to_nice_json }}"
    dest: /srv/rdma/facts.json
    mode: "0644"
  vars:
    seen: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, ['ansible_facts', 'rdma']))) }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: Facts by host, without what changes by itself, such as counters, open changes and times.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping


def rdma_merged_facts(value: t.Any, path: str, removed: t.Any = ()) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import merged_facts, unwrapped

    insist_on_mapping("rdma_merged_facts", value, "facts by host")
    insist_on_list("rdma_merged_facts", list(removed) if isinstance(removed, t.Mapping) else removed, "hosts")
    try:
        return merged_facts(unwrapped(value), str(path), {str(name) for name in removed})
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_merged_facts": rdma_merged_facts}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_json
short_description: Write what another filter returns as JSON, also where it is of thousands of hosts
version_added: "0.1.0"
description:
  - Makes the same text as P(ansible.builtin.to_nice_json#filter) with C(indent=2).
  - Since 2.19, ansible-core inspects each part of a value as it is read, which takes minutes for the facts of a few thousand hosts. This
    filter reads a value that comes directly from another filter without that.
options:
  _input:
    description: Dictionaries, lists, texts, numbers, booleans and null.
    type: raw
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Write the facts of all groups
  ansible.builtin.copy:
    content: "{{ (hostvars | fabric.rdma.rdma_view(groups, rdma_groups)).facts | fabric.rdma.rdma_json }}"
    dest: /srv/rdma/seen.json
    mode: "0644"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: JSON with sorted keys, indented by two blanks, without a newline at its end.
  type: str
"""

import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var


def _of_ansible(value: t.Any) -> t.Any:
    """A container of Ansible that no encoder of Python knows."""
    if isinstance(value, t.Mapping):
        return dict(value)
    if isinstance(value, t.Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is neither a dictionary, a list, a text, a number, a boolean nor null")


def rdma_json(value: t.Any) -> str:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import unwrapped

    try:
        text = json.dumps(unwrapped(value), indent=2, sort_keys=True, default=_of_ansible)
    except (TypeError, ValueError, RecursionError) as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_json cannot write this as JSON: {exc}") from exc
    # texts of nodes are in it
    return t.cast(str, wrap_var(text))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_json": rdma_json}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_redacted
short_description: Take secrets out of a message
version_added: "0.1.0"
description:
  - Replaces every text and number in O(values) that has more than three characters with asterisks, and removes user and password from every address.
  - Made for the error of a task with C(no_log), whose cause the user still needs.
positional: values
options:
  _input:
    description: The message.
    type: str
    required: true
  values:
    description: What may be secret, at any depth. Keys are not secret.
    type: raw
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Say why, without what was given
  ansible.builtin.fail:
    msg: "{{ installed.msg | fabric.rdma.rdma_redacted(values) }}"
"""

RETURN = r"""
_value:
  description: The message without them.
  type: str
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var


def rdma_redacted(message: t.Any, values: t.Any = None) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import redacted

    # a node may have said it
    return t.cast(str, wrap_var(redacted(str(message), values)))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_redacted": rdma_redacted}

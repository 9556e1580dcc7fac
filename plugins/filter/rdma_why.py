# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_why
short_description: Tell in one line why a task failed
version_added: "0.1.0"
description:
  - Takes what a task returned, for a loop what the first failed item returned, and of that the message, or what the program wrote. A known
    remedy follows.
positional: secrets
options:
  _input:
    description: The result, as C(ansible_failed_result) has it in a C(rescue) section.
    type: raw
    required: true
  secrets:
    description: What the line must not contain, at any depth, if it has more than three characters. Keys are not secret, passwords in addresses always are.
    type: raw
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Record why it failed
  ansible.builtin.set_fact:
    why: "{{ ansible_failed_result | fabric.rdma.rdma_why }}"

- name: Say why, without what was given
  ansible.builtin.fail:
    msg: "{{ installed | fabric.rdma.rdma_why(values) }}"
"""

RETURN = r"""
_value:
  description: One line of at most 2000 characters, and what to do. Empty when the task said nothing.
  type: str
  sample: No package matching 'doca-ofed' is available
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

_LONGEST = 2000
# What programs and collections of others say of something that they do not explain, all of it in a text, and what to do then.
_REMEDIES = {
    # kubernetes.core asks Helm 4 for options that only Helm 3 has
    ("executing Helm command", "unknown flag"): (
        "Helm 4 needs kubernetes.core 6.4.0 or newer: ansible-galaxy collection install --upgrade kubernetes.core"
    ),
}


def _remedy_of(text: str) -> str:
    """What to do about what another program has said, after a full stop; nothing where that is not known, or is said already."""
    for words, remedy in _REMEDIES.items():
        if all(word in text for word in words) and remedy not in text:
            return f". {remedy}"
    return ""


def _failed_item(result: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    items = result.get("results")
    for item in items if isinstance(items, (list, tuple)) else ():
        if isinstance(item, t.Mapping) and (item.get("failed") or item.get("unreachable")):
            return item
    return result


def rdma_why(result: t.Any, secrets: t.Any = None) -> str:
    """One line out of the result of a failed task, whatever its form."""
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import redacted

    if not isinstance(result, t.Mapping):
        return ""
    item = _failed_item(result)
    for known in (item, result):
        for key in ("msg", "stderr", "module_stderr", "stdout"):
            # before it is cut, as half of an address is none any more
            text = " ".join(redacted(str(known.get(key) or ""), secrets).split())
            if text:
                cut = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
                # a node may have said it
                return t.cast(str, wrap_var(cut + _remedy_of(text)))
    return ""


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_why": rdma_why}

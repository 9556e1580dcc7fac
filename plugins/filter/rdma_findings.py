# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_findings
short_description: Show findings as a plain text
version_added: "0.1.0"
description:
  - Makes a text of at most 100 columns, with cause, evidence and remedy of each finding, and what could not be looked at.
options:
  _input:
    description: What P(fabric.rdma.rdma_diagnose#filter) returns.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what is wrong with the hosts
  ansible.builtin.debug:
    msg: "{{ {'facts': facts_by_host} | fabric.rdma.rdma_diagnose | fabric.rdma.rdma_findings }}"
"""

RETURN = r"""
_value:
  description: Lines without control characters. The text ends with a newline.
  type: str
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def rdma_findings(document: t.Any) -> str:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.words import findings_text

    insist_on_mapping("rdma_findings", document, "what rdma_diagnose returns", "findings", "looked_at", "unread")
    return t.cast(str, wrap_var(findings_text(document["findings"], document["unread"], document["looked_at"])))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_findings": rdma_findings}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_slice
short_description: Tell whether a run is a slice of a sliced job of AWX
version_added: "0.1.0"
description:
  - AWX gives each slice an inventory with only its own hosts. What concerns all hosts checks this first.
options:
  _input:
    description: Variables of a host of the run, among which those of AWX are looked for.
    type: dict
    required: true
  tell:
    description:
      - V(words) says that the run is a slice.
      - V(suffix) is the end of the name of an artifact, which is C(_) and the number of the job in a slice. AWX merges the artifacts of the
        slices of a job, and keeps one of two with the same name.
      - V(run) is a number that all slices of a sliced job share. A later job has a larger one.
    type: str
    choices: [words, suffix, run]
    default: words
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check that the run sees the whole inventory
  ansible.builtin.assert:
    that: hostvars[inventory_hostname] | fabric.rdma.rdma_slice | length == 0

- name: Show what an artifact of this run is called
  ansible.builtin.debug:
    msg: "{{ 'example' ~ (hostvars[inventory_hostname] | fabric.rdma.rdma_slice('suffix')) }}"
"""

RETURN = r"""
_value:
  description: With V(words), what the run is and what to do, with V(suffix), the suffix. Both are empty if this is a whole job. With V(run), the number.
  type: str
  sample: ""
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist, insist_on_mapping


def rdma_slice(variables: t.Any, tell: str = "words") -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import (
        run_number,
        slice_in_words,
        slice_suffix,
    )

    insist_on_mapping("rdma_slice", variables, "variables of a host")
    insist("rdma_slice", tell in ("words", "suffix", "run"), "words, suffix or run", tell)
    if tell == "run":
        return str(run_number(variables))
    return slice_suffix(variables) if tell == "suffix" else slice_in_words(variables) or ""


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_slice": rdma_slice}

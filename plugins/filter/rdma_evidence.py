# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_evidence
short_description: Judge the measurements between hosts and between Pods
version_added: "0.1.0"
description:
  - Matches what P(fabric.rdma.perftest#module) returned on the hosts with the pairs that were planned, compares each figure with its floor,
    and names the cause of what could not be measured.
positional: results, pod_pairs, pod_results, job_results
options:
  _input:
    description: The pairs, as P(fabric.rdma.rdma_pairs#filter) returns them.
    type: dict
    required: true
  results:
    description:
      - For each host, a list with an entry for each round that it took part in, with the C(round) and the results C(server), C(client) and
        C(stop) of the module.
    type: dict
    required: true
  pod_pairs:
    description: The pairs for Pods, as P(fabric.rdma.rdma_pairs#filter) returns them with O(fabric.rdma.rdma_pairs#filter:plan).
    type: dict
  pod_results:
    description:
      - What P(fabric.rdma.pod_traffic#module) returned for them. Without its C(results), every pair is an error with its C(msg).
      - Or what a loop over V(look), the numbers of the rounds and V(ping) registered, each with the module's result.
    type: dict
    default: {}
  job_results:
    description:
      - What a loop over P(fabric.rdma.mpi_traffic#module) registered, whose items have a C(group) and a C(file). Only with O(pod_pairs).
    type: dict
    default: {}
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the table of each group
  ansible.builtin.debug:
    msg: "{{ (pairs | fabric.rdma.rdma_evidence(results)).tables }}"
"""

RETURN = r"""
_value:
  description:
    - C(groups) has the evidence of each group, with one entry for each test and what was not measured.
    - C(tables) has the same as text of at most 100 columns; many tests that passed share a line there.
    - C(expected) has the hosts that were to be measured.
    - C(failures) has one sentence for each test, look into a Pod, ping or job that did not pass, and for each port or host that should have
      been measured, with hosts, devices, figures, cause and remedy.
  type: dict
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping, plain


def rdma_evidence(
    pairs: t.Any, results: t.Any, pod_pairs: t.Any = None, pod_results: t.Any = None, job_results: t.Any = None
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Pairs
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.evidence import build_evidence
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_evidence import pod_evidence
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.tables import evidence_table

    insist_on_mapping("rdma_evidence", pairs, "the value of fabric.rdma.rdma_pairs", "rounds")
    insist_on_mapping("rdma_evidence", results, "results by host")
    for name, value in (
        ("pod_pairs", pod_pairs),
        ("pod_results", pod_results),
        ("job_results", job_results),
    ):
        if value is not None:
            insist_on_mapping("rdma_evidence", value, f"{name} as a dictionary")
    of_pods = pod_evidence(t.cast(Pairs, pod_pairs), pod_results or {}, job_results) if pod_pairs else None
    evidence = build_evidence(t.cast(Pairs, pairs), results, of_pods)
    tables = {name: "\n".join(evidence_table(group)) for name, group in evidence["groups"].items()}
    # It is kept in a fact, and holds what programs on the nodes printed: older versions of ansible-core would template that.
    return t.cast("dict[str, t.Any]", wrap_var(plain({**evidence, "tables": tables})))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_evidence": rdma_evidence}

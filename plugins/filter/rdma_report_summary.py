# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_report_summary
short_description: Say in a few lines of text what the RDMA groups have
version_added: "0.1.0"
description:
  - Makes a plain text of at most 100 columns, with a verdict, one line for each group, and the most important problems and notes.
  - Contains no control characters, whatever the names in the facts are.
positional: plan, evidence, groups
options:
  _input:
    description:
      - Facts by host, as M(fabric.rdma.ib_facts) returns them in the key C(rdma), or the path of a file that an earlier run has left
        them in. Files need not exist; one that has another form is an error.
    type: raw
    required: true
  plan:
    description:
      - The plan of P(fabric.rdma.rdma_selectors#filter), or the path of a file with one. An empty dictionary when there is none.
    type: raw
    required: true
  evidence:
    description: Documents of measurements of this run, one for each group, with the keys C(schema), C(group), C(tests) and C(untested).
    type: list
    elements: dict
    required: true
  groups:
    description: Names of hosts by RDMA group. Hosts without facts are shown as such.
    type: dict
    required: true
  earlier:
    description:
      - Evidence files as pairs of what M(ansible.builtin.find) tells of a file and its text. They are used for groups without
        evidence of this run, and shown with the time of the file.
    type: list
    elements: list
    default: []
  expected:
    description: Hosts that were to be measured in this run. A group of them without measurements is shown as such.
    type: list
    elements: str
    default: []
  outcomes:
    description:
      - What became of the nodes that were prepared, as P(fabric.rdma.rdma_outcomes#filter) returns it, or the path of a file with it.
    type: raw
  failures:
    description: Sentences on steps of this run that failed as a whole, such as the plan. They come before everything else.
    type: list
    elements: str
    default: []
seealso:
  - plugin: fabric.rdma.rdma_report_html
    plugin_type: filter
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show the summary
  ansible.builtin.debug:
    msg: "{{ (facts_by_host | fabric.rdma.rdma_report_summary(plan_result, [], {'ib-a100': groups['ib-a100']})).splitlines() }}"
"""

RETURN = r"""
_value:
  description: The text, ended by a newline.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import ReportError
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import loaded


def rdma_report_summary(
    facts: t.Any,
    plan: t.Any,
    evidence: t.Any,
    groups: t.Any,
    earlier: t.Any = (),
    expected: t.Any = (),
    outcomes: t.Any = None,
    failures: t.Any = (),
) -> str:
    try:
        # What nodes say is in it: never to be templated, wherever the text is kept.
        return t.cast(
            str,
            wrap_var(
                render_summary(
                    build(
                        loaded(facts, "facts"),
                        loaded(plan, "plan"),
                        evidence,
                        groups,
                        earlier=earlier,
                        expected=expected,
                        outcomes=loaded(outcomes, "outcomes"),
                        failures=failures,
                    )
                )
            ),
        )
    except ReportError as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_report_summary: {exc}") from exc
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_report_summary": rdma_report_summary}

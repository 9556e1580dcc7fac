# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_report
short_description: Show facts, plan and measurements as one self-contained HTML page, in a few lines, and as data
version_added: "0.1.0"
description:
  - Makes one page without scripts or outside resources. It has a verdict, findings with their remedies, for each group what was measured
    between its nodes and their Pods, its nodes with GPUs, RDMA ports and their state, what the device plugin will select and what not and
    why, and the map of the fabric.
  - Nodes that would look the same share one drawing, so that the page stays usable with a thousand of them.
  - Says the same in a plain text of at most 100 columns, with a verdict, one line for each group, and the most important problems and
    notes. It contains no control characters, whatever the names in the facts are.
  - Gives the same evidence as JSON (C(docs/report.schema.json)), as Markdown for a ticket, and as metrics for the textfile collector of
    Prometheus' node_exporter.
  - Compares it with an earlier report, and says what is worse and better.
  - All input is untrusted and escaped. The same input gives the same texts.
positional: plan, evidence, groups
options:
  _input:
    description:
      - Facts by host, as M(fabric.rdma.ib_facts) returns them in the key C(rdma), or the path of a file in which an earlier run left them.
        The file need not exist; a malformed one is an error.
    type: raw
    required: true
  plan:
    description:
      - The plan of P(fabric.rdma.rdma_selectors#filter), or the path of a file with one. An empty dictionary when there is none. A file
        that cannot be read as one is left out, and the page says so.
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
  title:
    description: Title of the page.
    type: str
    default: RDMA report
  generated:
    description: Text beside the title, such as the time. Empty by default, so that a page changes only when its content does.
    type: str
    default: ""
  earlier:
    description:
      - Evidence files, each as a pair of what M(ansible.builtin.find) returns for the file and its text. They are used for groups without
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
      - What became of the nodes that were prepared, as P(fabric.rdma.rdma_outcomes#filter) returns it, or the path of a file with it, which
        may be left out like that of O(plan).
    type: raw
  failures:
    description: Sentences on steps of this run that failed as a whole, such as the plan. They come before everything else.
    type: list
    elements: str
    default: []
  systems:
    description:
      - Files C(systems/NAME/state.json) that the roles of systems have written, as pairs like those of O(earlier). What each system is,
        whether it was rendered, applied or refused, and what Pods take of it.
    type: list
    elements: list
    default: []
  wished:
    description: Names of the systems that are asked for, as P(fabric.rdma.rdma_systems#filter) gives them.
    type: list
    elements: str
    default: []
  findings:
    description: What P(fabric.rdma.rdma_roce_findings#filter) says of RoCE settings. Each stands with its group.
    type: list
    elements: str
    default: []
  files:
    description:
      - C(fabric.json), C(doctor.json) and other files with findings, as pairs like those of O(earlier). Each finding has C(id), C(severity)
        (V(error), V(warning), V(note)), C(group), C(hosts), C(cause), C(evidence) and C(remedy).
    type: list
    elements: list
    default: []
  prepared:
    description: What preparing the nodes changed, as P(fabric.rdma.rdma_prepared#filter) returns it.
    type: list
    elements: list
    default: []
  compare:
    description: Path of the C(report.json) of an earlier report. A missing file, or one that is something else, is an error.
    type: path
    default: ""
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Write the report
  ansible.builtin.copy:
    content: "{{ (facts_by_host | fabric.rdma.rdma_report(plan_result, [], {'ib-a100': groups['ib-a100']})).page }}"
    dest: report.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The texts C(page) (HTML), C(summary), C(document) (JSON), C(ticket) (Markdown) and C(metrics); all but the first end with a newline.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.release import __version__ as ansible_version
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError


def rdma_report(
    facts: t.Any,
    plan: t.Any,
    evidence: t.Any,
    groups: t.Any,
    title: str = "RDMA report",
    generated: str = "",
    earlier: t.Any = (),
    expected: t.Any = (),
    outcomes: t.Any = None,
    failures: t.Any = (),
    systems: t.Any = (),
    wished: t.Any = (),
    findings: t.Any = (),
    files: t.Any = (),
    prepared: t.Any = (),
    compare: t.Any = "",
) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import completed_with
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.history import earlier_report
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.versions import collection_version
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import ReportError, as_list
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import loaded

    unread: list[str] = []
    try:
        model = build(
            loaded(facts, "facts"),
            _readable(plan, "plan", unread),
            evidence,
            groups,
            title,
            generated,
            earlier,
            expected,
            _readable(outcomes, "outcomes", unread),
            [*unread, *as_list(failures)],
            systems,
            wished,
            findings,
            files,
            prepared,
            {"collection": collection_version(), "ansible": ansible_version},
        )
        model, document = completed_with(model, earlier_report(str(compare)) if compare else None)
        # What nodes say is in it: never to be templated, wherever the text is kept.
        return t.cast(dict[str, str], wrap_var(_texts(model, document)))
    except ReportError as exc:
        raise AnsibleFilterError(f"fabric.rdma.rdma_report: {exc}") from exc
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


def _readable(value: t.Any, sort: str, unread: list[str]) -> t.Any:
    """A document. A file of another form is left out, and unread gets why: a page with the rest says more than no page."""
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import ViewError, loaded

    try:
        return loaded(value, sort)
    except ViewError as exc:
        if not isinstance(value, str):
            raise
        unread.append(exc.message)
        return {}


def _texts(model: t.Any, document: t.Any) -> dict[str, str]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import render_json
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.metrics import render_metrics
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
    from ansible_collections.fabric.rdma.plugins.plugin_utils._report.ticket import render_ticket

    return {
        "page": render_html(model),
        "summary": render_summary(model),
        "document": render_json(document),
        "ticket": render_ticket(model),
        "metrics": render_metrics(document),
    }


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_report": rdma_report}

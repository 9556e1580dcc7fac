# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model: the same from the same input, from whatever comes in."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.release import __version__
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.filter.rdma_report import rdma_report
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import completed_with, render_json
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.metrics import render_metrics
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import SUMMARY_WIDTH, render_summary
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.ticket import render_ticket
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.versions import collection_version
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import ReportError
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    JUNK,
    Page,
    a100_plan,
    facts_of,
    measurement,
    page_of,
    summary_of,
)


def replaced(value: Any, number: int, with_value: Any) -> tuple[Any, int]:
    """The structure with its number-th node replaced; and how many nodes are left to count."""
    if number == 0:
        return with_value, -1
    number -= 1
    if isinstance(value, dict):
        result: Any = {}
        for key, item in value.items():
            result[key], number = replaced(item, number, with_value) if number >= 0 else (item, number)
        return result, number
    if isinstance(value, list):
        result = []
        for item in value:
            new, number = replaced(item, number, with_value) if number >= 0 else (item, number)
            result.append(new)
        return result, number
    return value, number


@given(number=st.integers(1, 900), junk=JUNK)
def test_junk_anywhere_gives_a_page_or_a_plain_error(number: int, junk: Any) -> None:
    host = "ib-a100-1"
    document = {
        "facts": {host: facts_of(host)},
        "plan": a100_plan([host], []),
        "evidence": [{"schema": 1, "group": "ib-a100", "tests": [measurement(host, host, 1.0)]}],
        "groups": {"ib-a100": [host]},
    }
    changed, _left = replaced(document, number, junk)
    try:
        model = build(changed.get("facts"), changed.get("plan"), changed.get("evidence"), changed.get("groups"))
    except ReportError:
        return
    Page(render_html(model))
    assert all(len(line) <= SUMMARY_WIDTH for line in render_summary(model).splitlines())


def test_the_same_input_in_another_order_gives_the_same_bytes(sample: dict[str, Any]) -> None:
    turned = copy.deepcopy(sample)
    turned["facts"] = dict(reversed(list(turned["facts"].items())))
    turned["groups"]["ib-a100"].reverse()
    assert page_of(sample) == page_of(turned)
    assert summary_of(sample) == summary_of(turned)


def test_nothing_at_all_is_no_error() -> None:
    model = build({}, {}, [], {})
    assert "No RDMA group to report on" in Page(render_html(model)).words()
    assert "No RDMA group to report on" in render_summary(model)
    model = build(None, None, None, {"g": ["a", "b"]})
    assert "2 hosts without facts" in Page(render_html(model)).words()


def test_all_texts_are_made_of_one_model(sample: dict[str, Any]) -> None:
    arguments = [sample["facts"], sample["plan"], sample["evidence"], sample["groups"]]
    found = rdma_report(*arguments)
    versions = {"collection": collection_version(), "ansible": __version__}
    model, document = completed_with(build(*arguments, versions=versions), None)
    assert found == {
        "page": render_html(model),
        "summary": render_summary(model),
        "document": render_json(document),
        "ticket": render_ticket(model),
        "metrics": render_metrics(document),
    }
    assert all(text.endswith("\n") for text in found.values())
    with pytest.raises(
        AnsibleFilterError, match=r"fabric\.rdma\.rdma_report: facts: expected a dictionary, found list"
    ):
        rdma_report([], *arguments[1:])
    with pytest.raises(AnsibleFilterError, match="plan: schema 9 is not known"):
        rdma_report(arguments[0], {"schema": 9}, *arguments[2:])
    with pytest.raises(AnsibleFilterError, match="evidence: expected a list"):
        rdma_report(*arguments[:2], {"schema": 1}, arguments[3])


def test_what_failed_for_more_than_a_node_comes_first() -> None:
    failure = "The plan failed: <b>no</b> room"
    model = build({}, {}, [], {"a": ["n1"]}, failures=[failure, ""])
    assert model["verdict"]["state"] == "bad"
    assert model["verdict"]["text"].startswith("The run did not do all of its work; ")
    page = render_html(model)
    assert "What failed for more than a node" in page
    assert "The plan failed: &lt;b&gt;no&lt;/b&gt; room" in page
    assert render_summary(model).partition("✕  The plan failed")[2]
    assert "What failed for more than a node" not in render_html(build({}, {}, [], {"a": ["n1"]}))

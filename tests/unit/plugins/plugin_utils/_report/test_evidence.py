# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of this run and of earlier ones."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import SUMMARY_WIDTH, render_summary
from ansible_collections.fabric.rdma.tests.unit.contracts import evidence_of
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    JUNK,
    Page,
    measurement,
    model_of,
    saved,
    untested,
)


def test_what_was_measured_earlier_says_so(sample: dict[str, Any]) -> None:
    (old,) = sample["evidence"]
    sample["evidence"] = []
    model = model_of(sample, earlier=[saved(old)])
    words = Page(render_html(model)).words()
    assert words.count("measured earlier: 2023-11-14 22:13 UTC") == 3
    sample["groups"] |= {f"another-{number}-" + "x" * 30: [] for number in range(4)}
    lines = render_summary(model_of(sample, earlier=[saved(old)])).splitlines()
    assert all(len(line) <= SUMMARY_WIDTH for line in lines)
    sample["groups"] = {"ib-a100": ["ib-a100-1", "ib-a100-2", "ib-a100-3"]}
    assert "Measured earlier, not in this run: ib-a100." in words
    assert model["groups"][0]["measurements"] == 2
    old["tests"].append(measurement("ib-a100-1", "ib-a100-2", 20, "fail"))
    model = model_of(sample, earlier=[saved(old)])
    assert model["groups"][0]["state"] == "bad"
    assert "1 of 3 measurements failed (measured earlier: 2023-11-14 22:13 UTC)" in Page(render_html(model)).words()
    # where this run was to measure, an old success is not enough
    del old["tests"][-1]
    model = model_of(sample, earlier=[saved(old)], expected=["ib-a100-1"])
    assert model["groups"][0]["state"] == "warn"


def test_an_earlier_run_with_a_limit_has_not_measured_the_whole_group(sample: dict[str, Any]) -> None:
    """It wrote over what was known of the others, and that of two hosts says nothing of them."""
    sample["evidence"] = []
    limited = evidence_of("ib-a100", measurement("ib-a100-1", "ib-a100-2", 190))
    model = model_of(sample, earlier=[saved(limited)])
    (group,) = model["groups"]
    assert (group["state"], model["verdict"]["state"]) == ("warn", "warn")
    text = "1 host with a usable port is missing from the last measurement (2023-11-14 22:13 UTC): run the playbook verify for all hosts of the group"
    assert [(item["text"], item["hosts"]["names"]) for item in group["problems"] if item["state"] == "warn"] == [
        (text, ["ib-a100-3"])
    ]
    # why it had no partner is known
    limited["untested"] = untested("ib-a100-3", defect=False)
    assert model_of(sample, earlier=[saved(limited)])["groups"][0]["state"] == "ok"


def test_what_was_measured_in_this_run_is_not_mixed_with_a_file(sample: dict[str, Any]) -> None:
    old = evidence_of("ib-a100", measurement("ib-a100-1", "ib-a100-2", 20, "fail"))
    model = model_of(sample, earlier=[saved(old)])
    assert model["groups"][0]["state"] == "ok"
    assert "earlier" not in Page(render_html(model)).words()


def test_files_that_say_nothing_of_this_cluster_are_left_out(sample: dict[str, Any]) -> None:
    gone = evidence_of("ib-v100", measurement("old-1", "old-2", 1, "fail"))
    moved = evidence_of("ib-a100", measurement("ib-a100-1", "left", 1, "fail"))
    files = [saved(gone, "ib-v100.json"), saved(moved), saved("{", "half.json"), saved({"schema": 9}, "new.json")]
    sample["evidence"] = []
    model = model_of(sample, earlier=files)
    assert model["groups"][0]["measurements"] == 0
    assert model["groups"][0]["state"] == "info"
    assert [(item["state"], item["text"].partition(": ")[0]) for item in model["notes"]] == [
        ("info", "ib-a100"),
        ("warn", "evidence/half.json is left out, it cannot be read"),
        ("warn", "evidence/new.json is left out, it cannot be read"),
        ("info", "Earlier measurements of groups that are no longer RDMA groups are left out"),
    ]
    assert "old-1" not in Page(render_html(model)).words()


def test_evidence_of_another_form_is_left_out_with_the_place_that_is_wrong(sample: dict[str, Any]) -> None:
    (old,) = sample["evidence"]
    sample["evidence"] = []
    old["tests"][1]["bandwidth_gbps"] = {"peak": None, "average": "fast"}
    model = model_of(sample, earlier=[saved(old)])
    assert [item["text"] for item in model["notes"]] == [
        "evidence/ib-a100.json is left out, it cannot be read: tests[1].bandwidth_gbps.average is 'fast'; expected a number; put it "
        "right, or measure again"
    ]
    assert model["groups"][0]["measurements"] == 0


@given(JUNK, JUNK)
def test_junk_in_files_of_evidence_is_no_error(stat: Any, text: Any) -> None:
    files = [
        [stat, json.dumps(text)],
        [{"path": "x", "mtime": stat}, json.dumps({"schema": 1, "group": "g", "tests": text})],
    ]
    files += [stat, text, [stat, text]]
    model = build({}, {}, [], {"g": ["a"]}, earlier=files, expected=text)
    Page(render_html(model))
    assert all(len(line) <= SUMMARY_WIDTH for line in render_summary(model).splitlines())

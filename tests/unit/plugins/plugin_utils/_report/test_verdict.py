# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline."""

from __future__ import annotations

from typing import Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import Page, a100_plan, model_of


def test_a_group_that_is_only_planned_is_not_called_ready(sample: dict[str, Any]) -> None:
    sample["groups"]["other"] = ["ib-a100-2"]
    sample["groups"]["ib-a100"] = ["ib-a100-1", "ib-a100-3"]
    sample["plan"]["groups"]["other"] = a100_plan([], ["ib-a100-2"])["groups"]["ib-a100"]
    model = model_of(sample)
    assert [(group["name"], group["state"]) for group in model["groups"]] == [("ib-a100", "ok"), ("other", "info")]
    assert model["verdict"]["state"] == "info"
    assert model["verdict"]["text"] == "1 of 2 groups is ready; not measured yet: other"
    assert "Planned, not measured" in Page(render_html(model)).words()


def test_nodes_that_did_not_come_to_a_good_end_are_in_the_headline(sample: dict[str, Any]) -> None:
    """Before everything else, and those that were held back are not among them."""
    hosts = {
        "ib-a100-10": {"state": "failed", "step": "ofed", "message": "no room", "remedy": "make some"},
        "ib-a100-2": {"state": "lost", "remedy": "look at it"},
        "ib-a100-1": {"state": "finished"},
        "ib-a100-3": {"state": "held"},
    }
    model = model_of(sample, outcomes={"schema": 1, "hosts": hosts})
    assert model["verdict"]["state"] == "bad"
    assert model["verdict"]["text"] == "2 nodes did not finish: ib-a100-2, ib-a100-10"
    assert [(item["state"], item["text"]) for item in model["nodes"]] == [
        ("bad", "ib-a100-10 failed in the step ofed: no room. Remedy: make some."),
        ("bad", "ib-a100-2 was lost. Remedy: look at it."),
        ("warn", "Held back, and not touched: ib-a100-3."),
    ]
    sample["plan"]["groups"]["ib-a100"]["errors"] = ["no port is left"]
    text = model_of(sample, outcomes={"schema": 1, "hosts": {"n1": {"state": "lost"}}})["verdict"]["text"]
    assert text == "1 node did not finish: n1; group ib-a100 has a problem"


def test_without_a_plan_nothing_is_said_of_ports(sample: dict[str, Any]) -> None:
    """Such as where a job of a workflow has no directory in common with those before it."""
    sample["plan"] = None
    sample["evidence"] = []
    model = model_of(sample)
    assert model["verdict"] == {
        "state": "warn",
        "text": "No group has a plan here: ib-a100. Read the warnings",
        "detail": "No plan here says which ports are usable. Nothing has been measured between nodes yet.",
    }
    (text,) = [item["text"] for item in model["groups"][0]["problems"] if "plan" in item["text"]]
    assert "run the playbook plan, or set rdma_output_dir" in text
    assert "0/3" not in "".join(render_summary(model).split())


def test_groups_without_a_plan_do_not_count_as_nodes_without_ports(sample: dict[str, Any]) -> None:
    sample["groups"] = {"ib-a100": ["ib-a100-1"], "late": ["ib-a100-2", "ib-a100-3"]}
    model = model_of(sample)
    assert model["verdict"]["text"].startswith("1 of 2 groups has no plan here: late")
    assert model["verdict"]["detail"].startswith("1 of 1 node has a usable port.")

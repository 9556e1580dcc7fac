# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a problem of a group, what a note, and the state that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.problems import problems_of, state_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
from ansible_collections.fabric.rdma.tests.unit.contracts import plan_group
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    Page,
    group_of,
    measurement,
    model_of,
    page_of,
    summary_of,
    untested,
)


def test_hosts_without_facts_and_errors_of_the_plan_are_problems(sample: dict[str, Any]) -> None:
    del sample["facts"]["ib-a100-3"]
    sample["plan"]["groups"]["ib-a100"]["errors"] = [f"host ib-a100-{n} has no usable port (none)" for n in (1, 2)]
    group = group_of(sample)
    assert [item["text"] for item in group["problems"]] == [
        "2 hosts: each has no usable port (none)",
        "1 host without facts: not reached, or not discovered yet",
    ]
    assert group["state"] == "bad"
    assert "Group ib-a100 has a problem" in summary_of(sample)


def test_exclusive_namespaces_are_noted(sample: dict[str, Any]) -> None:
    sample["facts"]["ib-a100-2"]["kernel"]["rdma_netns"] = "exclusive"
    problem = group_of(sample)["problems"][0]
    assert problem["text"].startswith("RDMA namespaces are exclusive")
    assert problem["hosts"]["inline"] == "ib-a100-2"


@pytest.mark.parametrize("name", ["ib_read_bw", "ib_send_lat", "all_reduce_perf"])
@pytest.mark.parametrize("verdict", ["fail", "error"])
def test_a_failure_of_any_test_is_a_problem(sample: dict[str, Any], name: str, verdict: str) -> None:
    sample["evidence"][0]["tests"].append(measurement("ib-a100-1", "ib-a100-2", None, verdict) | {"test": name})
    group = group_of(sample)
    assert group["state"] == "bad"
    assert (group["measurements"], group["failed"]) == (3, 1)
    assert f"1 of 3 measurements failed, such as {name} from ib-a100-1 mlx5_1" in Page(page_of(sample)).words()
    assert summary_of(sample).splitlines()[0] == "✕  Group ib-a100 has a problem"


def test_a_host_without_a_port_is_told_of_once(sample: dict[str, Any]) -> None:
    """By the plan, and not again by what could not be measured."""
    sample["plan"]["groups"]["ib-a100"]["errors"] = ["host ib-a100-3 has no usable port (none)"]
    row = {"device": None, "port": None, "reason": "no port of the host is wanted and usable", "defect": True}
    sample["evidence"][0]["untested"] = [{**row, "host": "ib-a100-3"}, {**row, "host": "ib-a100-2"}]
    assert [(item["state"], item["text"]) for item in group_of(sample)["problems"]] == [
        ("bad", "ib-a100-3 has no usable port (none)"),
        ("bad", "ib-a100-2: not measured, no port of the host is wanted and usable"),
        ("info", "ib-a100-3: not measured, no port of the host is wanted and usable"),
    ]


def test_a_port_that_could_not_be_measured_is_a_problem_when_it_is_a_defect(sample: dict[str, Any]) -> None:
    sample["evidence"][0]["untested"] = untested("ib-a100-1", "ib-a100-2", defect=True)
    sample["evidence"][0]["untested"] += untested("ib-a100-3", defect=False)
    group = group_of(sample)
    assert group["state"] == "bad"
    assert [(item["state"], item["text"]) for item in group["problems"]] == [
        ("bad", "2 hosts mlx5_1 port 1: not measured, the port has no RoCE v2 GID"),
        ("info", "ib-a100-3 mlx5_1 port 1: not measured, no other host has a port in its fabric"),
    ]
    words = Page(page_of(sample)).words()
    assert "Group ib-a100 has a problem" in words
    assert "2 ports could not be measured." in words
    sample["evidence"][0]["untested"] = untested("ib-a100-3", defect=False)
    assert group_of(sample)["state"] == "ok"


@pytest.mark.parametrize("tests", [None, []])
def test_no_measurement_where_there_should_be_one_does_not_look_like_success(
    sample: dict[str, Any], tests: list[Any] | None
) -> None:
    """Whether the group has an empty document or none at all."""
    sample["evidence"] = [] if tests is None else [{"schema": 1, "group": "ib-a100", "tests": tests, "untested": []}]
    model = model_of(sample, expected=["ib-a100-1", "ib-a100-2"])
    assert (model["verdict"]["state"], model["groups"][0]["state"]) == ("warn", "warn")
    assert model["verdict"]["text"] == "Group ib-a100 is planned, not measured. Read the warnings"
    (item,) = [item for item in model["groups"][0]["problems"] if item["state"] == "warn"]
    assert item["text"] == "nothing was measured in this run, although 2 hosts could have been"
    assert "✓" not in render_summary(model)


def test_a_plan_that_is_kept_from_an_earlier_run_says_so(sample: dict[str, Any]) -> None:
    sample["plan"]["groups"]["ib-a100"]["kept"] = "from an earlier run: this one could not plan it"
    assert group_of(sample)["state"] == "warn"
    assert "the plan is from an earlier run: this one could not plan it" in Page(page_of(sample)).words()


def test_a_class_split_is_no_warning(sample: dict[str, Any]) -> None:
    """The sentence is the planner's own: when it changes there, it has to be known here."""
    hosts = {"ib-a100-1", "ib-a100-2"}
    plan = plan_group("ib-a100", {host: sample["facts"][host] for host in hosts}, {"resource": {"name": "x"}})
    assert len(plan["classes"]) == 2
    sample["plan"]["groups"]["ib-a100"]["warnings"] = plan["warnings"]
    sample["plan"]["groups"]["ib-a100"]["notes"] = plan.get("notes", [])
    group = group_of(sample)
    assert group["state"] == "ok"
    assert {item["state"] for item in group["problems"]} == {"info"}
    sample["plan"]["groups"]["ib-a100"]["warnings"].append("something else")
    assert group_of(sample)["state"] == "warn"


# --- parts of a group ------------------------------------------------------------------------------------------------

Json = dict[str, Any]
HOSTS = ["n1", "n2", "n3", "n4"]
NODES: list[tuple[str, Json]] = [(host, {"notes": []}) for host in HOSTS]
MEASURED: list[Json] = [{"failed": 0, "count": 1}]
BETWEEN: Json = {"client": {"host": "n1"}, "server": {"host": "n2"}}


def told(
    plan: Json, evidence: Json, expected: Sequence[str] = ("n1", "n2", "n3", "n4")
) -> tuple[str, list[tuple[str, str | None]]]:
    whole: Any = {"tests": [], "untested": [], **evidence}
    found = problems_of(plan, HOSTS, NODES, whole, MEASURED, list(expected))
    return state_of(found, True), [
        (item["text"], (item["hosts"] or {}).get("inline")) for item in found if item["state"] == "warn"
    ]


ALL: Json = {"tests": [BETWEEN, {"client": {"host": "n3"}, "server": {"host": "n4"}}]}


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (HOSTS, []),
        (["n1", "n2", "n3"], [("1 host not in the plan: run the playbook plan for all hosts of the group", "n4")]),
        # that of another inventory
        (["x1"], [("4 hosts not in the plan: run the playbook plan for all hosts of the group", "n1, n2, n3, n4")]),
    ],
)
def test_hosts_that_the_plan_does_not_know_are_named(planned: list[str], words: list[tuple[str, str]]) -> None:
    assert told({"hosts": planned}, ALL) == ("warn" if words else "ok", words)


@pytest.mark.parametrize(
    ("evidence", "expected", "hosts"),
    [
        (ALL, HOSTS, None),
        ({"tests": [BETWEEN]}, HOSTS, "n3, n4"),
        ({"tests": [BETWEEN]}, ["n1", "n2"], None),
        # of which it is said why, or what was seen in their Pods
        (
            {"tests": [BETWEEN], "untested": [{"host": "n3", "reason": "no"}], "inspections": [{"host": "n4"}]},
            HOSTS,
            None,
        ),
        ({"tests": [BETWEEN], "pings": [{"client": "n3", "server": "n4"}]}, HOSTS, None),
    ],
)
def test_hosts_that_were_to_be_measured_and_have_no_result_are_named(
    evidence: Json, expected: list[str], hosts: str | None
) -> None:
    text = "2 hosts should have been measured in this run, without a result"
    assert told({"hosts": HOSTS}, evidence, expected) == (("warn", [(text, hosts)]) if hosts else ("ok", []))

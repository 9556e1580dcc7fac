# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is worse and better than in an earlier report."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_report import rdma_report
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import document_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.history import compared
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import Page, model_of
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

Json = dict[str, Any]


def texts(history: Json, way: str) -> list[str]:
    return [row["text"] for row in history[way]]


def both(sample: Json, change: Any) -> Json:
    """What compared() says after a change of the document."""
    before = document_of(model_of(sample))
    after = copy.deepcopy(before)
    change(after["groups"]["ib-a100"], after)
    return compared(checked("report", before), checked("report", after))


def test_nothing_differs_from_itself(sample: Json) -> None:
    history = both(sample, lambda _group, _document: None)
    assert (history["count_worse"], history["count_better"]) == (0, 0)


@pytest.mark.parametrize(
    ("field", "value", "way", "said"),
    [
        ("state", "Down", "worse", "ib-a100: ib-a100-1: mlx5_1 port 1 was Active, and is Down"),
        ("rate_gbps", 100.0, "worse", "ib-a100: ib-a100-1: mlx5_1 port 1 had 200 Gb/s, and has 100 Gb/s"),
        ("rate_gbps", 400.0, "better", "ib-a100: ib-a100-1: mlx5_1 port 1 had 200 Gb/s, and has 400 Gb/s"),
        ("pcie_part", 0.5, "worse", "ib-a100: ib-a100-1: mlx5_1 port 1 had 100 % of its PCIe bandwidth, and has 50 %"),
    ],
)
def test_a_port_that_changed_is_reported(sample: Json, field: str, value: Any, way: str, said: str) -> None:
    def change(group: Json, _document: Json) -> None:
        port = next(port for port in group["nodes"]["ib-a100-1"]["ports"] if port["device"] == "mlx5_1")
        port[field] = value

    history = both(sample, change)
    assert texts(history, way) == [said]
    assert history[f"count_{'better' if way == 'worse' else 'worse'}"] == 0


def test_errors_that_grew_are_reported_and_a_counter_that_began_again_is_not(sample: Json) -> None:
    before = document_of(model_of(sample))
    after = copy.deepcopy(before)
    for document, counts in ((before, (5, 900)), (after, (12, 1))):
        for at, host in enumerate(("ib-a100-1", "ib-a100-2")):
            document["groups"]["ib-a100"]["nodes"][host]["ports"][0]["errors"] = {"symbol_error": counts[at]}
    assert texts(compared(before, after), "worse") == [
        "ib-a100: ib-a100-1 mlx5_0 port 1 has counted 7 more symbol_error"
    ]
    after["groups"]["ib-a100"]["nodes"]["ib-a100-2"]["ports"][0]["errors"] = {"symbol_error": 902}
    [row] = compared(before, after)["worse"]
    assert row["text"] == "ib-a100: 2 ports have counted more symbol_error"
    assert row["examples"] == ["ib-a100-1 mlx5_0 port 1: 7 more", "ib-a100-2 mlx5_0 port 1: 2 more"]


def test_measurements_are_compared_pair_by_pair_and_those_of_one_kind_are_one(sample: Json) -> None:
    def slower(group: Json, _document: Json) -> None:
        for test in group["measurements"]:
            test["value"] *= 0.5

    [row] = both(sample, slower)["worse"]
    assert row["text"] == "ib-a100: ib_write_bw of 2 pairs are worse"
    assert row["examples"][0] == "ib-a100-1 mlx5_1 → ib-a100-3 mlx5_1 was 196 Gb/s, and is 97.8 Gb/s"

    def a_little(group: Json, _document: Json) -> None:
        for test in group["measurements"]:
            test["value"] *= 0.97

    assert both(sample, a_little)["count_worse"] == 0

    def fails(group: Json, _document: Json) -> None:
        group["measurements"][0].update(verdict="error", value=None, message="Couldn't allocate MR")

    assert texts(both(sample, fails), "worse") == [
        "ib-a100: ib_write_bw of ib-a100-1 mlx5_1 → ib-a100-3 mlx5_1 fails now: was 196 Gb/s, and is without result: Couldn't allocate MR"
    ]


def a_job(**given: Any) -> Json:
    job = {"name": "nccl-rdma", "tool": "nccl-tests", "way": "rdma", "test": "all_reduce_perf", "ranks": 16}
    job.update(
        best_gbs=360.0, average_gbs=120.0, lowest_gbs=None, limit_gbs=None, verdict="pass", message="", remedy=None
    )
    return {**job, **given}


@pytest.mark.parametrize(
    ("before", "after", "way", "said"),
    [
        ({}, {"best_gbs": 350.0}, "worse", None),
        ({}, {"best_gbs": 180.0}, "worse", "is worse: was 360 GB/s, and is 180 GB/s"),
        ({"best_gbs": 180.0}, {}, "better", "is better: was 180 GB/s, and is 360 GB/s"),
        (
            {},
            {"best_gbs": None, "verdict": "error", "message": "NCCL found no HCA"},
            "worse",
            "fails now: was 360 GB/s, and is without result: NCCL found no HCA",
        ),
        ({"verdict": "fail", "message": "x"}, {}, "better", "passes now: was 360 GB/s, and is 360 GB/s"),
        ({"name": "other"}, {"best_gbs": 1.0}, "worse", None),
    ],
)
def test_jobs_over_several_nodes_are_compared(
    sample: Json, before: Json, after: Json, way: str, said: str | None
) -> None:
    old = document_of(model_of(sample))
    new = copy.deepcopy(old)
    old["groups"]["ib-a100"]["collectives"] = [a_job(**before)]
    new["groups"]["ib-a100"]["collectives"] = [a_job(**after)]
    history = compared(checked("report", old), checked("report", new))
    told = [f"ib-a100: all_reduce_perf over rdma (nccl-rdma) {said}"] if said else []
    assert (texts(history, way), history["count_worse"] + history["count_better"]) == (told, len(told))


def test_of_nvbandwidth_the_slowest_link_is_compared(sample: Json) -> None:
    def job(lowest: float) -> Json:
        return a_job(name="nvb", tool="nvbandwidth", way=None, test="d2d", best_gbs=800.0, lowest_gbs=lowest)

    old = document_of(model_of(sample))
    new = copy.deepcopy(old)
    old["groups"]["ib-a100"]["collectives"], new["groups"]["ib-a100"]["collectives"] = [job(790.0)], [job(395.0)]
    [row] = compared(checked("report", old), checked("report", new))["worse"]
    assert row["text"] == "ib-a100: d2d (nvb) is worse: was 790 GB/s, and is 395 GB/s"


def test_a_node_that_was_moved_to_another_group_is_neither_worse_nor_better(sample: Json) -> None:
    def change(group: Json, document: Json) -> None:
        other = document["groups"].setdefault("spare", {**copy.deepcopy(group), "nodes": {}, "measurements": []})
        other["nodes"]["ib-a100-3"] = group["nodes"].pop("ib-a100-3")

    history = both(sample, change)
    assert (history["worse"], history["better"]) == ([], [])
    assert history["groups"] == ["Groups that are new: spare", "Nodes in another group: ib-a100-3 (ib-a100 to spare)"]


@pytest.mark.parametrize("target", ["spare", "ib-v100"])
def test_a_node_that_was_moved_is_compared_with_itself(sample: Json, target: str) -> None:
    """Its findings come along, and are neither new nor gone; what has become of its ports is told."""
    before = document_of(model_of(sample))
    group = before["groups"]["ib-a100"]
    before["groups"]["ib-v100"] = {**copy.deepcopy(group), "nodes": {}, "measurements": []}
    after = copy.deepcopy(before)
    group = after["groups"]["ib-a100"]
    other = after["groups"].setdefault(target, {**copy.deepcopy(group), "nodes": {}, "measurements": []})
    node = other["nodes"]["ib-a100-3"] = group["nodes"].pop("ib-a100-3")
    port = next(port for port in node["ports"] if port["state"] == "Active")
    port["state"] = "Down"
    for document, count in ((before, 5), (after, 9)):
        name = "ib-a100" if document is before else target
        document["groups"][name]["nodes"]["ib-a100-3"]["ports"][0]["errors"] = {"symbol_error": count}
        told = {"cause": "its memory is slow", "evidence": [], "remedy": "", "source": ""}
        document["findings"] = [{"id": "x", "severity": "error", "group": name, "hosts": ["ib-a100-3"], **told}]
    history = compared(checked("report", before), checked("report", after))
    assert texts(history, "worse") == [
        f"{target}: ib-a100-3: {port['device']} port 1 was Active, and is Down",
        f"{target}: ib-a100-3 {node['ports'][0]['device']} port 1 has counted 4 more symbol_error",
    ]
    assert history["better"] == []


def test_of_many_nodes_that_were_moved_it_says_how_many(sample: Json) -> None:
    before = document_of(model_of(sample))
    node = next(iter(before["groups"]["ib-a100"]["nodes"].values()))
    before["groups"]["ib-a100"]["nodes"] = {f"n{number}": node for number in range(1, 12)}
    after = copy.deepcopy(before)
    after["groups"]["spare"] = {**after["groups"]["ib-a100"], "measurements": []}
    after["groups"]["ib-a100"] = {**after["groups"]["ib-a100"], "nodes": {}}
    moved = compared(checked("report", before), checked("report", after))["groups"][-1]
    assert moved.startswith("Nodes in another group: n1 (ib-a100 to spare), ")
    assert moved.endswith("n8 (ib-a100 to spare), and 3 more")


def test_groups_nodes_verdicts_and_findings_that_come_and_go_are_reported(sample: Json) -> None:
    finding = {"id": "x", "severity": "error", "group": "ib-a100", "hosts": ["a"], "cause": "it is slow"}

    def change(group: Json, document: Json) -> None:
        document["findings"].append({**finding, "evidence": [], "remedy": "", "source": ""})
        del group["nodes"]["ib-a100-3"]
        group["state"] = "bad"
        document["groups"]["new"] = {**copy.deepcopy(group), "nodes": {}, "measurements": []}

    history = both(sample, change)
    assert texts(history, "worse") == [
        'ib-a100: the verdict was "ready", and is "a problem"',
        "ib-a100: new: it is slow",
        "ib-a100: ib-a100-3 is no longer in the group",
    ]
    assert history["groups"] == ["Groups that are new: new"]


def test_a_finding_that_reaches_another_host_is_new_there(sample: Json) -> None:
    def finding(host: str, severity: str = "error") -> Json:
        told = {"cause": f"{host} is slow", "evidence": [], "remedy": "", "source": ""}
        return {"id": "x", "severity": severity, "group": "ib-a100", "hosts": [host], **told}

    before = document_of(model_of(sample))
    after = copy.deepcopy(before)
    before["findings"] = [finding("a"), finding("b"), finding("c", "note")]
    after["findings"] = [finding("a"), finding("c"), finding("d")]
    history = compared(checked("report", before), checked("report", after))
    assert texts(history, "worse") == ["ib-a100: new: c is slow", "ib-a100: new: d is slow"]
    assert texts(history, "better") == ["ib-a100: gone: b is slow"]


def test_a_slow_node_stands_out_of_all_that_it_makes_slow() -> None:
    model, document = a_history(a_cluster(30))
    words = Page(render_html(model)).words()
    assert "ib_write_bw between Pods of 59 pairs fail now; gpu-node-11 has a part in 58 of them" in words
    assert "Since 2026-11-01 08:00 UTC" in words
    assert document["history"]["worse"] == model["history"]["count_worse"]


def test_what_it_is_compared_with_has_to_be_a_report(sample: Json, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    arguments = [sample["facts"], sample["plan"], sample["evidence"], sample["groups"]]
    for content, why in (
        (None, "the earlier report to compare with, is not there; name the report.json"),
        ("{", "cannot be read as an earlier report: Expecting property name"),
        ("[" * 100_000, "cannot be read as an earlier report: it is nested too deeply"),
        ('{"schema": 2}', "is not a report to compare with: "),
    ):
        if content is not None:
            path.write_text(content)
        with pytest.raises(AnsibleFilterError) as failed:
            rdma_report(*arguments, compare=str(path))
        assert str(path) in str(failed.value)
        assert why in str(failed.value)
    path.write_text(rdma_report(*arguments)["document"])
    found = rdma_report(*arguments, compare=str(path))
    assert json.loads(found["document"])["history"] == {"with": "RDMA report", "worse": 0, "better": 0}
    assert "Nothing is worse than it was." in Page(found["page"]).words()

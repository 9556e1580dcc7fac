# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured: which comes first, in which unit, against which limit."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.measurements import measured_views
from ansible_collections.fabric.rdma.tests.unit import contracts
from ansible_collections.fabric.rdma.tests.unit.contracts import a_test
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    Page,
    group_of,
    measurement,
    page_of,
    summary_of,
)


def test_a_failed_measurement_is_a_problem_and_comes_first(sample: dict[str, Any]) -> None:
    tests = sample["evidence"][0]["tests"]
    tests += [measurement("ib-a100-1", "ib-a100-2", 20, "fail"), measurement("ib-a100-2", "ib-a100-1", None, "error")]
    group = group_of(sample)
    assert group["state"] == "bad"
    assert [row["word"] for row in group["measured"][0]["rows"]] == ["error", "failed", "passed", "passed"]
    assert group["measured"][0]["matrix"]["hosts"] == ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
    said = "2 of 4 measurements failed, such as ib_write_bw from ib-a100-2 mlx5_1 to ib-a100-1 mlx5_1: Port number 1"
    assert said in " ".join(summary_of(sample).split())
    assert "no result error; limit: at least 180 Gb/s. Port number 1 state is Down" in Page(page_of(sample)).words()


@pytest.mark.parametrize("name", ["ib_write_bw", "ib_write_lat"])
def test_of_failures_the_worst_comes_first_whichever_are_outliers(name: str) -> None:
    """The bars beside many nodes are eight: a pair without a result is among them, and nothing left out is worse."""
    late, hosts = name.endswith("_lat"), [f"n{number:02}" for number in range(30)]
    values = [None, *(float(value) for value in (range(101, 111) if late else range(10, 20)))]
    tests = [
        a_test(
            hosts[2 * at],
            hosts[2 * at + 1],
            None if late else value,
            test=name,
            latency_us={"typical": value} if late and value else None,
            floor={"max_us": 100} if late else {"min_gbps": 90},
            verdict="fail" if value else "error",
        )
        for at, value in enumerate(values)
    ]
    # neither the worst nor the one without a result
    mild = tests[1:6] if late else tests[6:]
    outliers = [
        {"level": "hosts", "test": name, "unit": "us", "median": 3.0, "ends": [test["client"]]} for test in mild
    ]
    (view,) = measured_views(tests, outliers)
    assert any(row["far"] for row in view["all"])
    found = [row["value"] for row in view["all"]]
    assert found == [None, *sorted((value for value in values if value), reverse=late)]
    assert (len(view["rows"]), view["more"]) == (8, 3)


@pytest.mark.parametrize("memory", [None, "cuda"])
def test_what_is_far_in_one_memory_says_nothing_of_the_other(memory: str | None) -> None:
    tests = [a_test("n1", "n2", 190.0), {**a_test("n1", "n2", 90.0), "memory": "cuda"}]
    own = {"memory": memory} if memory else {}
    outlier = {"level": "hosts", "test": "ib_write_bw", "unit": "Gb/s", "median": 9.0, "ends": [tests[0]["client"]]}
    views = measured_views(tests, [{**outlier, **own}])
    assert {view["variant"]: bool(view["outliers"]) for view in views} == {
        "": memory is None,
        "GPU memory by nvidia_peermem": memory == "cuda",
    }


def test_a_limit_far_away_does_not_flatten_the_bars(sample: dict[str, Any]) -> None:
    sample["evidence"][0]["tests"] = [
        {"test": "ib_write_lat", "latency_us": {"typical": value}, "floor": {"max_us": 100000}, "verdict": "pass"}
        for value in (1.5, 3.0)
    ]
    rows = group_of(sample)["measured"][0]["rows"]
    assert [(row["width"], row["tick"]) for row in rows] == [("100.0", None), ("50.0", None)]


def test_every_kind_of_test_is_shown_with_its_unit(sample: dict[str, Any]) -> None:
    read = measurement("ib-a100-1", "ib-a100-2", 190.0) | {"test": "ib_read_bw"}
    late = measurement("ib-a100-1", "ib-a100-2", None) | {"test": "ib_send_lat", "floor": {"max_us": 20}}
    late["latency_us"] = {"typical": None, "average": 2.5}
    sample["evidence"][0]["tests"] += [late, read]
    found = {item["title"]: (item["unit"], item["rows"][0]["text"]) for item in group_of(sample)["measured"]}
    assert list(found) == ["Write bandwidth", "Read bandwidth", "Send latency"]
    assert found["Read bandwidth"] == ("Gb/s", "190 Gb/s")
    assert found["Send latency"] == ("µs", "2.5 µs")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0, -1.5, 10**400])
@pytest.mark.parametrize("part", ["average", "floor", "all"])
def test_a_figure_that_cannot_be_is_no_result(sample: dict[str, Any], part: str, value: float) -> None:
    """Evidence of earlier runs, or of somebody else: it does not look like success, and no bar has an impossible width."""
    test = sample["evidence"][0]["tests"][0]
    if part == "floor":
        test["floor"] = {"min_gbps": value}
    else:
        test["bandwidth_gbps"] = {"peak": value, "average": value}
    if part == "all":
        test.update(message_bytes=value, iterations=value, mtu_bytes=value)
    page = page_of(sample)
    words = Page(page).words()
    assert not re.search(r"\b(nan|inf|infinity)\b", words + summary_of(sample), re.I)
    assert all(0 <= float(width) <= 100 for width in re.findall(r"width:\s*([^%;\"]+)%", page))
    if part != "floor":
        assert "no result" in words
        assert group_of(sample)["state"] == "bad"


def between_pods(test: dict[str, Any], **given: Any) -> dict[str, Any]:
    """The same, as Pods have measured it."""
    files = ["issm0", "rdma_cm", "umad0", "uverbs0"]
    pods = {
        "user": 1000,
        "memlock": {"soft": "unlimited", "hard": "unlimited"},
        "files": {"client": files, "server": files},
        "image": "registry.example/perftest:1",
    }
    return {**test, "level": "pods", "pods": {**pods, **given}}


def test_what_pods_measured_is_called_so(sample: dict[str, Any]) -> None:
    tests = sample["evidence"][0]["tests"]
    pods = [between_pods(measurement("ib-a100-1", "ib-a100-2", 0.073) | {"floor": {"min_gbps": 0.001}})]
    sample["evidence"][0]["tests"] = pods
    assert contracts.checked("evidence", sample["evidence"][0])
    assert "0.073 Gb/s between Pods\n" in summary_of(sample)
    assert "1 measurement between Pods, all within their limits." in summary_of(sample)
    words = Page(page_of(sample)).words()
    assert "Write bandwidth between Pods" in words
    assert "as user 1000; locked memory unlimited; /dev/infiniband: issm0, rdma_cm, umad0, uverbs0" in words
    # beside what hosts measured, it comes first
    sample["evidence"][0]["tests"] = tests + pods
    group = group_of(sample)
    assert group["measured_words"] == "0.073 Gb/s between Pods; 194 to 196 Gb/s between hosts"
    assert [item["title"] for item in group["measured"]] == ["Write bandwidth between Pods", "Write bandwidth"]
    assert "3 measurements between nodes, 1 of them between Pods" in summary_of(sample)


def test_what_pods_were_given_is_reported(sample: dict[str, Any]) -> None:
    limits = {"memlock": {"soft": "64", "hard": "unlimited"}, "files": {"client": [], "server": []}}
    failed = between_pods(measurement("ib-a100-1", "ib-a100-2", 190.0, "fail"), **limits)
    silent = between_pods(measurement("ib-a100-1", "ib-a100-2", None, "error"), user=None)
    sample["evidence"][0]["tests"] = [failed, silent, {**failed, "pods": 5}]
    (item,) = group_of(sample)["measured"]
    assert item["given"] == ["as user 1000; locked memory 64 KiB (soft), unlimited (hard); /dev/infiniband: empty"]
    assert group_of(sample)["measured_short"] == "3 of 3 failed; 190 Gb/s between Pods"
    assert "such as ib_write_bw between Pods from ib-a100-1" in " ".join(summary_of(sample).split())

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports and pairs are far from the others."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._verify.evidence import build_evidence
from ansible_collections.fabric.rdma.plugins.module_utils._verify.outliers import outliers, touches
from ansible_collections.fabric.rdma.plugins.module_utils._verify.rounds import schedule
from ansible_collections.fabric.rdma.plugins.module_utils._verify.tables import evidence_table
from ansible_collections.fabric.rdma.tests.unit.contracts import a_test, evidence_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pairs import node, plan, recorded

Json = dict[str, t.Any]
LIMITS: Json = {"fail": False, "share": 0.05, "us": 1.0, "software_share": 0.75}


def names(count: int) -> list[str]:
    return [f"n{index}" for index in range(count)]


def measured(count: int, value: t.Callable[[str, str], float], topology: str = "full", **given: t.Any) -> list[Json]:
    """A measurement of bandwidth for each pair of a topology."""
    pairs = [pair for one in schedule(names(count), topology) for pair in one]
    return [a_test(client, server, value(client, server), level="hosts", **given) for client, server in pairs]


def latency(client: str, server: str, us: float, **given: t.Any) -> Json:
    figures = {"min": us, "max": us, "typical": us, "average": us, "stdev": 0.0, "p99": us, "p999": us}
    more = {
        "test": "ib_write_lat",
        "latency_us": figures,
        "bandwidth_gbps": None,
        "floor": {"max_us": 20.0},
        "level": "hosts",
    }
    return a_test(client, server, **{**more, **given})


def named(entries: list[Json], **limits: t.Any) -> list[tuple[str, ...]]:
    return [(each["kind"], *(end["host"] for end in each["ends"])) for each in outliers(entries, {**LIMITS, **limits})]


@given(st.integers(3, 12), st.lists(st.floats(195.0, 197.5), min_size=66, max_size=66))
def test_nobody_is_named_where_all_is_well(count: int, figures: list[float]) -> None:
    own = iter(figures)
    assert named(measured(count, lambda _client, _server: next(own))) == []


@given(st.integers(3, 12), st.data())
def test_a_port_that_is_slow_with_everyone_is_named_and_its_peers_are_not(count: int, data: st.DataObject) -> None:
    sick = data.draw(st.sampled_from(names(count)))
    noise = data.draw(st.lists(st.floats(-0.5, 0.5), min_size=66, max_size=66))
    own = iter(noise)
    entries = measured(count, lambda *ends: (183.0 if sick in ends else 197.0) + next(own))
    assert named(entries) == [("port", sick)]


@given(st.integers(4, 12), st.data())
def test_a_pair_between_ports_that_are_well_is_named_though_it_is_above_its_floor(
    count: int, data: st.DataObject
) -> None:
    one, other = data.draw(st.sampled_from(list(itertools.combinations(names(count), 2))))
    entries = measured(count, lambda *ends: 181.0 if {one, other} == set(ends) else 197.0)
    found = outliers(entries, t.cast("t.Any", LIMITS))
    assert [(each["kind"], {end["host"] for end in each["ends"]}) for each in found] == [("pair", {one, other})]
    assert {entry["verdict"] for entry in entries} == {"pass"}
    assert found[0]["message"] == f"ib_write_bw: 181 Gb/s between the two; the median of {found[0]['of']} is 197 Gb/s"
    assert "both ports are well with others" in found[0]["remedy"]


def test_three_nodes_are_enough() -> None:
    """The slow one of three has two of three pairs: the median of pairs would blame the good ones."""
    assert named(measured(3, lambda *ends: 20.0 if "n1" in ends else 197.0)) == [("port", "n1")]
    slow_path = measured(3, lambda *ends: 20.0 if {"n0", "n2"} == set(ends) else 197.0)
    assert [{*each[1:]} for each in named(slow_path)] == [{"n0", "n2"}]


def test_two_that_met_nobody_else_share_the_blame() -> None:
    entries = measured(8, lambda *ends: 182.0 if "n2" in ends else 197.0, "pairs")
    (found,) = outliers(t.cast("t.Any", entries), t.cast("t.Any", LIMITS))
    assert [end["host"] for end in found["ends"]] == ["n2", "n3"]
    assert "measure both hosts against others" in found["remedy"]


def test_two_figures_have_no_median() -> None:
    assert named([a_test("a", "b", 197.0), a_test("c", "d", 20.0)]) == []


def test_latency_is_far_above_and_not_by_less_than_a_clock_tells() -> None:
    pairs = list(itertools.combinations(names(6), 2))
    entries = [latency(*pair, 4.0 if "n3" in pair else 1.9) for pair in pairs]
    assert named(entries) == [("port", "n3")]
    # 0.4 us are a longer cable
    assert named([latency(*pair, 2.3 if "n3" in pair else 1.9) for pair in pairs]) == []


def test_where_figures_differ_widely_nobody_is_named() -> None:
    """As on a machine that has much else to do: the spread is that of all."""
    own = iter([60.0, 90.0, 120.0, 150.0, 180.0, 75.0, 105.0, 135.0, 165.0, 195.0, 66.0, 99.0, 130.0, 160.0, 190.0])
    assert named(measured(6, lambda _client, _server: next(own))) == []


def test_software_may_differ_by_much_more() -> None:
    own = {
        frozenset(pair): value
        for pair, value in zip(itertools.combinations(names(3), 2), (0.19, 0.14, 0.07), strict=True)
    }
    noisy = measured(3, lambda *ends: own[frozenset(ends)], software=True)
    assert named(noisy) == []
    assert named(measured(3, lambda *ends: 0.02 if "n1" in ends else 0.15, software=True)) == [("port", "n1")]


def test_only_what_is_alike_is_compared() -> None:
    """Other programs, sizes, memory and rates have medians of their own."""
    entries = measured(4, lambda *_ends: 197.0)
    entries += measured(4, lambda *_ends: 94.7, memory="cuda")
    entries += measured(4, lambda *_ends: 46.0, test="ib_read_bw")
    entries += measured(4, lambda *_ends: 97.0, floor={"min_gbps": 90.0})
    entries += [latency(*pair, 2.0) for pair in itertools.combinations(names(4), 2)]
    assert named(entries) == []


def test_what_was_not_measured_is_no_figure() -> None:
    entries = measured(4, lambda *_ends: 197.0)
    assert named([*entries, a_test("n0", "n9", None, verdict="error")]) == []


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("vwxyz"), st.floats(0.001, 1e4)), max_size=30))
def test_any_figures_can_be_compared_and_their_order_says_nothing(rows: list[tuple[str, str, float]]) -> None:
    entries = [a_test(client, server, value) for client, server, value in rows]
    assert sorted(named(entries)) == sorted(named(entries[::-1]))


# --- in the evidence -------------------------------------------------------------------------------------------------


def lab(fail: bool) -> Json:
    """Three hosts whose pairs are in three rounds; the first pair is slow."""
    facts = {name: node(rate=200.0) for name in names(3)}
    planned = plan(facts, topology="full", tests=["ib_write_bw"], outliers="fail" if fail else "name")
    results: Json = {name: [] for name in facts}
    for number, (pair,) in enumerate(planned["rounds"]):
        row = f" 65536  5000  {197 - 15 * (number == 0)}  {197 - 15 * (number == 0)}  0.3\n"
        output = recorded("bandwidth-gbits-two-qps-client").partition(" 65536")[0] + row
        answer = {"results": [{"output": output, "status": 0}]}
        results[pair["client"]].append({"round": number, "client": answer})
        results[pair["server"]].append({"round": number, "server": {"results": [{}]}})
    return t.cast("Json", build_evidence(t.cast("t.Any", planned), results))


def test_an_outlier_with_the_memory_of_gpus_is_none_with_that_of_hosts() -> None:
    hosts = measured(4, lambda *_ends: 197.0)
    gpus = measured(4, lambda *ends: 183.0 if "n0" in ends else 197.0, memory="cuda")
    (found,) = outliers([*hosts, *gpus], LIMITS)
    assert found["memory"] == "cuda"
    assert [touches(found, entry) for entry in hosts] == [False] * len(hosts)
    assert [touches(found, entry) for entry in gpus] == ["n0" in hosts_of(entry) for entry in gpus]


def hosts_of(entry: Json) -> set[str]:
    return {entry["client"]["host"], entry["server"]["host"]}


def test_outliers_are_in_evidence_and_table_and_fail_nothing() -> None:
    found = lab(False)
    (far,) = found["groups"]["g"]["outliers"]
    assert (far["figure"], far["median"], far["unit"], far["of"]) == (182.0, 197.0, "Gb/s", 3)
    assert found["failures"] == []
    lines = evidence_table(found["groups"]["g"])
    assert "FAR FROM THE OTHERS" in "\n".join(lines)
    assert all(len(line) <= 100 for line in lines)


def test_outliers_fail_where_that_is_wished_for() -> None:
    found = lab(True)
    (failure,) = found["failures"]
    assert (
        "182 Gb/s >= 180 Gb/s; ib_write_bw: 182 Gb/s between the two; the median of 3 is 197 Gb/s. Remedy: " in failure
    )
    assert sorted(test["verdict"] for test in found["groups"]["g"]["tests"]) == ["fail", "pass", "pass"]


def test_evidence_of_earlier_versions_has_no_outliers() -> None:
    assert evidence_table(evidence_of("g", {**a_test("a", "b"), "level": "hosts"}))


@pytest.mark.parametrize("count", [2, 200])
def test_many_hosts_are_compared_at_once(count: int) -> None:
    assert named(measured(count, lambda *_ends: 197.0)) == []

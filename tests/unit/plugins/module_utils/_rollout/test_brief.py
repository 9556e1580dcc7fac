# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a change of many nodes: the first of them, and how many have which value."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import (
    NAMED,
    differences,
    first_nodes,
    label_pairs,
    line_pair,
    value_pair,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import invocation

NODES = [f"n{number:04}" for number in range(1, NAMED + 31)]
FIRST = NODES[:NAMED]


def test_of_a_long_argument_its_length_is_told() -> None:
    short = {
        "kubeconfig": "/etc/kube",
        "context": None,
        "force": False,
        "timeout": 60,
        "keep": ["a"],
        "lease": {"a": 1},
    }
    assert invocation(short) == {"module_args": short}
    long = {"nodes": dict.fromkeys(NODES, "gb200-device-1021"), "known": NODES * 10, "name": "x" * 2000}
    assert invocation({**short, **long})["module_args"] == {
        **short,
        "nodes": "(50 entries, which are not shown)",
        "known": "(500 entries, which are not shown)",
        "name": "(2000 characters, which are not shown)",
    }


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=5))
def test_no_argument_makes_the_result_long(arguments: dict[str, t.Any]) -> None:
    told = invocation(arguments)["module_args"]
    assert set(told) == set(arguments)
    assert all(len(json.dumps(value)) <= 1000 for value in told.values())


def test_few_nodes_are_told_of_each() -> None:
    before: dict[str, str | None] = {"b": "old", "a": None}
    assert value_pair(before, {"a": "new", "b": "new"}) == (before, {"a": "new", "b": "new"})
    # those that leave have nothing after it
    assert value_pair(before, {}) == (before, {})
    assert label_pairs({"a": {"x": None}}, {"a": {"x": "1"}}) == [("labels of node a", {"x": None}, {"x": "1"})]


def test_of_more_nodes_it_is_told_how_many_change_from_which_value_to_which() -> None:
    after = {node: "one" if node < "n0031" else "two" for node in NODES}
    before = {**dict.fromkeys(NODES), "n0050": "one"}
    shown = value_pair(before, after)
    assert shown[0] == dict.fromkeys(FIRST)
    told = {'none -> "one"': 10, 'none -> "two"': 19, '"one" -> "two"': 1}
    assert shown[1] == {**dict.fromkeys(FIRST, "one"), "30 more nodes": told}
    assert value_pair(after, {})[1] == {"30 more nodes": {'"one" -> none': 10, '"two" -> none': 20}}

    pairs = label_pairs(
        {node: {"x": value} for node, value in before.items()}, {node: {"x": v} for node, v in after.items()}
    )
    assert [what for what, _before, _after in pairs[:-1]] == [f"labels of node {node}" for node in FIRST]
    assert pairs[-1] == ("labels of 30 more nodes", {}, {"x": told})


def test_nodes_that_change_places_are_seen() -> None:
    """As many have each value before and after."""
    before = {node: "one" if number % 2 else "two" for number, node in enumerate(NODES)}
    after = {node: "two" if number % 2 else "one" for number, node in enumerate(NODES)}
    told = {'"one" -> "two"': 15, '"two" -> "one"': 15}
    assert value_pair(before, after)[1]["30 more nodes"] == told
    pairs = label_pairs({node: {"x": v} for node, v in before.items()}, {node: {"x": v} for node, v in after.items()})
    assert pairs[-1][2] == {"x": told}


def test_of_many_values_the_most_frequent_are_told() -> None:
    after = {node: "all" if number < 30 else str(number) for number, node in enumerate(NODES)}
    told = value_pair(dict.fromkeys(NODES), after)[1]["30 more nodes"]
    assert next(iter(told.items())) == ('none -> "all"', 10)
    assert len(told) == NAMED + 1
    assert sum(told.values()) == 30
    assert told["of other values"] == 1


def test_of_long_lists_of_lines_those_are_shown_that_differ() -> None:
    few = [f"line {number:03}" for number in range(NAMED)]
    assert line_pair(few, few[1:]) == (few, few[1:])
    many = [f"line {number:03}" for number in range(300)]
    assert line_pair(many, many[1:]) == (["line 000"], [])
    assert line_pair(many, [*many, "more"]) == ([], ["more"])
    assert line_pair([], many) == ([], [*few, "and 280 more"])


@pytest.mark.parametrize("count", [100, 10_000])
def test_a_cluster_of_any_size_is_told_in_as_many_words(count: int) -> None:
    nodes = [f"n{number:05}" for number in range(count)]
    told = [first_nodes(dict.fromkeys(nodes, "c")), value_pair(dict.fromkeys(nodes), dict.fromkeys(nodes, "c"))]
    pairs = label_pairs({node: {"x": None} for node in nodes}, {node: {"x": "1"} for node in nodes})
    assert len(pairs) == NAMED + 1
    assert len(json.dumps([told, pairs, invocation({"nodes": nodes})])) < 6_000


def test_a_small_difference_is_shown_as_ansible_does() -> None:
    after = {"data": {"config.json": "{}"}}
    entry = {"before_header": "ConfigMap a/b", "after_header": "ConfigMap a/b", "before": {}, "after": after}
    assert differences([("ConfigMap a/b", None, after)]) == [entry]
    assert differences([("ConfigMap a/b", after, None)]) == [{**entry, "before": after, "after": {}}]


def test_of_a_large_difference_the_first_lines_are_shown() -> None:
    large = {"spec": {"members": [{"node": f"n{number:05}"} for number in range(10_000)]}}
    one_less = {"spec": {"members": large["spec"]["members"][1:]}}
    ((told,),) = [entry.values() for entry in differences([("HyperNode leaf-1", large, one_less)])]
    lines = told.splitlines()
    assert lines[:2] == ["--- before: HyperNode leaf-1", "+++ after: HyperNode leaf-1"]
    assert [line for line in lines[2:] if line.startswith(("-", "+"))] == [
        "-            {",
        '-                "node": "n00000"',
        "-            },",
    ]
    ((whole,),) = [entry.values() for entry in differences([("HyperNode leaf-1", None, large)])]
    assert len(whole.splitlines()) == 201
    assert whole.endswith(" more lines, which are not shown)\n")
    # all of a file may be one line
    [entry] = differences([("ConfigMap a/b", None, {"data": {"config.json": "x" * 100_000}})])
    assert '+        "config.json": "xxx' in entry["prepared"]
    assert len(entry["prepared"]) < 2_000


def test_of_many_objects_those_that_are_too_many_are_named() -> None:
    """A HyperNode for each leaf is small, and there are as many as the cluster is large."""
    members = [{"selector": {"exactMatch": {"name": f"n{number:05}"}}} for number in range(32)]
    pairs = [(f"HyperNode leaf-{number:03}", None, {"spec": {"members": members}}) for number in range(500)]
    told = differences(pairs)
    assert told[0]["before_header"] == "HyperNode leaf-000"
    first = f"HyperNode leaf-{len(told) - 1:03}"
    assert told[-1]["prepared"].startswith(f"also changed, and not shown: {first}, ")
    assert told[-1]["prepared"].endswith(f" and {500 - (len(told) - 1) - 5} more\n")
    assert len(json.dumps(told)) < 202_000
    assert len(differences(pairs[:100])) == 100

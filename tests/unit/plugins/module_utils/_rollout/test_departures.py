# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host leaves a plan when somebody says so."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import (
    departures,
    refusal,
    removal_in_words,
    run_number,
    slice_in_words,
    slice_suffix,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_group, a_plan

PLAN = a_plan(
    a=a_group(a_class("x", "a1", "a2"), hosts=["a1", "a2", "a3"]),
    b=a_group(a_class("y", "b1"), a_class("z", "b2")),
    never=a_group(),
)
WHOLE = {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}


@pytest.mark.parametrize(
    ("groups", "names", "missing"),
    [
        (WHOLE, ["a", "b"], {}),
        # more does not mean less
        ({**WHOLE, "c": ["c1"]}, ["a", "b", "c"], {}),
        ({**WHOLE, "a": ["a1"]}, ["a", "b"], {"a2": "a", "a3": "a"}),
        ({"a": WHOLE["a"]}, ["a"], {"b1": "b", "b2": "b"}),
        # not planned this time, and there
        (WHOLE, ["a"], {}),
        # not planned this time, and a part of it is not there
        ({**WHOLE, "b": ["b2"]}, ["a"], {"b1": "b"}),
        # a group with another name, a host in another group
        ({"a": WHOLE["a"], "new": WHOLE["b"]}, ["a", "new"], {}),
        ({"a": ["a1", "a2"], "b": ["b1", "b2", "a3"]}, ["a", "b"], {}),
        # still in the inventory, and in no RDMA group
        ({**WHOLE, "a": ["a1", "a2"], "all": ["a3"]}, ["a", "b"], {"a3": "a"}),
        ({}, [], {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}),
    ],
)
def test_a_host_is_missing_until_somebody_removes_it(
    groups: dict[str, list[str]], names: list[str], missing: dict[str, str]
) -> None:
    assert departures(PLAN, [], groups, names, []) == (missing, {}, [])
    # and when it is said, by host or by group, nobody is
    for remove in (list(missing), list(set(missing.values()))):
        left, removed, _still = departures(PLAN, [], groups, names, remove)
        assert (left, removed) == ({}, missing)


def test_a_host_that_was_only_discovered_can_be_missing() -> None:
    assert departures(a_plan(), ["a1", "x"], WHOLE, ["a"], []) == ({"x": None}, {}, [])
    assert departures(PLAN, ["a1", "b1"], {"a": WHOLE["a"]}, ["a"], ["b2"]) == ({"b1": "b"}, {"b2": "b"}, [])


def test_a_host_that_has_moved_is_not_missing() -> None:
    """From a to b, which another run has planned already; what a says of it is older."""
    plan = a_plan(a=a_group(hosts=["a1", "a2"]), b=a_group(hosts=["a2", "b1"]))
    groups = {"a": ["a1"], "b": ["a2", "b1"]}
    assert departures(plan, [], groups, ["a"], []) == ({}, {}, [])
    assert departures(plan, [], groups, ["a"], ["a2"]) == ({}, {}, ["a2"])
    assert departures(plan, [], groups, ["a"], ["b"]) == ({}, {}, ["b"])


def test_a_group_goes_with_all_of_its_hosts() -> None:
    """Also with those that had no usable port, and are in no class."""
    plan = a_plan(a=a_group(a_class("x", "a1"), hosts=["a1", "bare"]), b=a_group(hosts=["b1"]))
    known = ["a1", "bare", "b1"]
    assert departures(plan, known, {"b": ["b1"]}, ["b"], ["a"]) == ({}, {"a1": "a", "bare": "a"}, [])


def test_who_was_taken_out_is_taken_out_while_it_is_said() -> None:
    """The run that wrote the plan may not have come as far as the cluster."""
    taken = a_plan({"removed": {"b1": "b", "b2": "b"}}, a=PLAN["groups"]["a"])
    left = {"a": WHOLE["a"]}
    assert departures(taken, [], left, ["a"], ["b"]) == ({}, {"b1": "b", "b2": "b"}, [])
    assert departures(taken, [], left, ["a"], ["b2"]) == ({}, {"b2": "b"}, [])
    assert departures(taken, [], left, ["a"], []) == ({}, {}, [])
    # one of them has come back
    assert departures(taken, [], {**left, "c": ["b1"]}, ["a", "c"], ["b"]) == ({}, {"b2": "b"}, [])


def test_what_is_to_go_must_be_out_of_the_inventory() -> None:
    _missing, removed, still = departures(PLAN, [], WHOLE, ["a", "b"], ["a1", "b", "unknown"])
    assert (removed, still) == ({}, ["a1", "b"])
    assert refusal({}, still, None).startswith(
        "rdma_rollout.remove names a1, b, which groups of this inventory that are planned for still have"
    )


def test_a_refusal_names_who_is_missing_and_how_to_let_them_go() -> None:
    assert refusal({}, [], None) == ""
    whole = refusal({"b1": "b", "b2": "b"}, [], None)
    assert "2 hosts that earlier runs know are not in the RDMA groups of this inventory: b1, b2 of group b." in whole
    assert "rdma_rollout.remove: [b1, b2]" in whole
    assert whole.endswith("Nothing was written or changed.")
    some = refusal({**{f"a{number:02}": "a" for number in range(20)}, "x": None}, [], None)
    assert "a08, a09 and 10 more of group a; x, whose facts are known" in some
    assert removal_in_words({}) == []
    assert removal_in_words({"b1": "b"}) == ["taken out on purpose (rdma_rollout.remove): b1 of group b"]


# What AWX gives a job, and a slice: a sliced job is a workflow that has the name of its job template.
AWX = {
    f"{maker}_{name}": value
    for maker in ("awx", "tower")
    for name, value in {
        "job_id": 12,
        "job_launch_type": "manual",
        "job_template_id": 9,
        "job_template_name": "prepare",
        "project_revision": "1c4b",
        "inventory_name": "gpus",
        "user_name": "admin",
    }.items()
}
SLICE = {
    **AWX,
    **{f"{maker}_job_launch_type": "workflow" for maker in ("awx", "tower")},
    **{f"{maker}_workflow_job_id": 11 for maker in ("awx", "tower")},
    **{f"{maker}_workflow_job_name": "prepare" for maker in ("awx", "tower")},
}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, None),
        ({"awx_job_slice_count": 1, "awx_job_slice_number": 0}, None),
        ({"awx_job_slice_count": ["3"]}, None),
        ({"my_job_slice_count": 3}, None),
        (
            {"awx_job_slice_count": 3, "awx_job_slice_number": 2, "tower_job_slice_count": 3},
            "slice 2 of 3 of a sliced job (awx_job_slice_number, awx_job_slice_count)",
        ),
        ({"tower_job_slice_count": "2"}, "one of 2 slices of a sliced job (tower_job_slice_count)"),
        (
            {"job_slice_count": 2, "job_slice_number": 1},
            "slice 1 of 2 of a sliced job (job_slice_number, job_slice_count)",
        ),
        (AWX, None),
        (SLICE, "a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)"),
        ({**SLICE, "awx_workflow_job_name": "nightly", "tower_workflow_job_name": "nightly"}, None),
        (
            {name: value for name, value in SLICE.items() if name.startswith("tower")},
            "a slice of a sliced job (tower_workflow_job_name, tower_job_template_name)",
        ),
        # whoever knows better says so
        ({**SLICE, "job_slice_count": 1}, None),
        # and nobody says so with what cannot be read
        ({**SLICE, "job_slice_count": ""}, "a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)"),
        ({**SLICE, "job_slice_count": [2]}, "a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)"),
        ({**AWX, "job_slice_count": ""}, None),
    ],
)
def test_a_slice_of_a_job_is_told_by_its_variables(variables: dict[str, t.Any], words: str | None) -> None:
    found = slice_in_words(variables)
    assert (found is None) is (words is None)
    if words and found:
        assert words in found
        assert "This run is" in refusal({}, [], found)


@pytest.mark.parametrize(
    ("variables", "suffix"),
    [
        ({}, ""),
        ({"awx_job_id": 12}, ""),
        ({**AWX, "awx_job_id": 12}, ""),
        ({**SLICE, "awx_job_id": 12, "tower_job_id": 13}, "_12"),
        ({"tower_job_slice_count": 2, "tower_job_id": "13"}, "_13"),
        ({"job_slice_count": 2, "awx_job_id": "{{ evil }}"}, "_0"),
        ({"job_slice_count": 2}, "_0"),
    ],
)
def test_what_a_slice_tells_has_a_name_of_its_own(variables: dict[str, t.Any], suffix: str) -> None:
    assert slice_suffix(variables) == suffix


def test_a_later_run_has_a_larger_number_which_all_its_slices_share() -> None:
    slices = [{**SLICE, "awx_workflow_job_id": 20, "awx_job_id": number} for number in (21, 22)]
    assert [run_number(each) for each in slices] == [20, 20]
    assert run_number({**AWX, "awx_workflow_job_id": 3, "awx_job_id": 23}) == 23
    assert run_number({}) == 0

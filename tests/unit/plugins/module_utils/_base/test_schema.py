# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker of facts against the real library for JSON Schema, and its bounds."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.schema import Checker
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import NEWER
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT

SCHEMA = json.loads((ROOT / "docs" / "facts.schema.json").read_text())
CHECKER = Checker(SCHEMA, NEWER)
CAPTURED = [gather(open_tree(str(path))) for path in sorted(CAPTURES.glob("*.capture"))]


@pytest.mark.parametrize("facts", CAPTURED)
def test_facts_of_recorded_nodes_are_right(facts: Any) -> None:
    assert CHECKER.problems(facts) == []


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in [(*way, key), *places(item, (*way, key))]]


PLACES = [(number, place) for number, facts in enumerate(CAPTURED) for place in places(facts)]
ODD = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        1.5,
        float("nan"),
        float("inf"),
        10**30,
        "",
        "x",
        "0000:3b:00.0",
        "0000:3b:00.0\n",
        [],
        {},
        ["x"],
        [None],
        [{}],
        {"x": 1},
        "Active",
        "pf",
        1,
    ]
)


def lenient(part: Any) -> Any:
    """The schema without what the checker lets pass: keys that are not known, and those that facts of earlier versions lack."""
    if not isinstance(part, dict):
        return [lenient(item) for item in part] if isinstance(part, list) else part
    left = {key: lenient(item) for key, item in part.items() if (key, item) != ("additionalProperties", False)}
    if isinstance(part.get("required"), list):
        left["required"] = [name for name in part["required"] if not any(each.endswith("." + name) for each in NEWER)]
    return left


LIBRARY = jsonschema.Draft202012Validator(lenient(SCHEMA))


@given(st.sampled_from(PLACES), ODD)
def test_it_refuses_what_the_library_refuses(where: tuple[int, tuple[Any, ...]], value: Any) -> None:
    facts = json.loads(json.dumps(CAPTURED[where[0]]))
    inner = facts
    for key in where[1][:-1]:
        inner = inner[key]
    inner[where[1][-1]] = value
    found = CHECKER.problems(facts)
    if not LIBRARY.is_valid(facts):
        assert found
    elif str(value) != "nan" and value not in (float("inf"), 10**30, "0000:3b:00.0\n"):
        assert not found


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (None, "it is None; expected a dictionary"),
        ([], "it is a list; expected a dictionary"),
        ({"warnings": []}, "schema is missing"),
        ({"schema": True, "warnings": []}, "schema is True; expected one of 1"),
        ({"schema": 1, "warnings": ["x" * 70_000]}, "warnings[0] is a text of 70000 characters; expected a text"),
        ({"schema": 1, "warnings": [""] * 30_000}, "warnings has 30000 entries; expected at most 20000"),
        ({"schema": 10**6000, "warnings": []}, "schema is a number of 19932 bits; expected one of 1"),
        (
            {"schema": 1, "warnings": [], "gpus": [{"pci": "3b:00.0"}]},
            "gpus[0].vendor is missing",
        ),
        ({"schema": 1, "warnings": [], "nvidia": 3}, "nvidia is 3; expected nothing or a dictionary"),
    ],
)
def test_what_is_wrong_is_named(facts: Any, problem: str) -> None:
    assert problem in CHECKER.problems(facts)


def test_only_a_few_problems_are_reported() -> None:
    assert len(CHECKER.problems({"schema": 1, "warnings": [None] * 10_000})) == 3


def test_what_was_right_once_is_not_looked_at_again() -> None:
    seen: set[tuple[int, int]] = set()
    facts = CAPTURED[0]
    assert CHECKER.problems(facts, seen) == []
    count = len(seen)
    again, other = {**facts}, {**facts, "gpus": facts["kernel"]}
    assert CHECKER.problems(again, seen) == []
    assert len(seen) == count + 1
    # the same value in another place is another question
    assert CHECKER.problems(other, seen) == ["gpus is a dictionary; expected a list"]


def test_facts_of_earlier_versions_may_lack_what_is_newer() -> None:
    ofed = {key: value for key, value in CAPTURED[0]["ofed"].items() if key not in ("packages", "proof")}
    assert len(ofed) == len(CAPTURED[0]["ofed"]) - 2
    facts = {"schema": 1, "warnings": [], "ofed": ofed}
    assert Checker(SCHEMA).problems(facts) == ["ofed.packages is missing", "ofed.proof is missing"]
    assert CHECKER.problems(facts) == []
    assert CHECKER.problems({**facts, "ofed": {"packages": 3, **ofed}})


def test_a_keyword_that_nobody_checks_is_an_error() -> None:
    message = "the schema has maxLength, which nobody here checks"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Checker({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}})


class Text(str):
    """What versions of Ansible before 2.19 make of a text that no template may be in."""

    __slots__ = ()


def test_texts_of_ansible_are_texts() -> None:
    def wrapped(value: Any) -> Any:
        if isinstance(value, dict):
            return {Text(key): wrapped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [wrapped(item) for item in value]
        return Text(value) if isinstance(value, str) else value

    for facts in CAPTURED:
        assert CHECKER.problems(wrapped(facts)) == []

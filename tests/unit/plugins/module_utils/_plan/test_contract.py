# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of a plan and of evidence, and their schemas, say the same."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan
from ansible_collections.fabric.rdma.plugins.module_utils._verify.contract import Evidence
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import PROGRAMS
from ansible_collections.fabric.rdma.tests.unit.schemas import checked, validator

Json = dict[str, t.Any]
SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def form(kind: t.Any) -> t.Any:
    """A type as nested dictionaries and lists."""
    if t.is_typeddict(kind):
        hints = t.get_type_hints(kind)
        return {"keys": {key: form(hint) for key, hint in hints.items()}, "required": kind.__required_keys__}
    if t.get_origin(kind) is t.Literal:
        return {"one of": t.get_args(kind)}
    if t.get_origin(kind) in (t.Union, types.UnionType):
        return sorted((form(each) for each in t.get_args(kind)), key=str)
    if t.get_origin(kind) is list:
        return {"items": form(t.get_args(kind)[0])}
    if t.get_origin(kind) is dict:
        return {"values": form(t.get_args(kind)[1])}
    return SCALARS.get(kind, "any")


def described(schema: Json) -> t.Any:
    """A schema in the same way."""
    if "const" in schema:
        return SCALARS[type(schema["const"])]
    if "enum" in schema:
        return {"one of": tuple(schema["enum"])}
    if "oneOf" in schema:
        return sorted((described(each) for each in schema["oneOf"]), key=str)
    if isinstance(schema["type"], list):
        return sorted(schema["type"], key=str)
    if schema["type"] == "array":
        return {"items": described(schema["items"])}
    if "properties" in schema:
        properties = {key: described(each) for key, each in schema["properties"].items()}
        return {"keys": properties, "required": frozenset(schema["required"])}
    return {"values": described(schema["additionalProperties"])} if schema["type"] == "object" else schema["type"]


def test_the_types_of_a_plan_are_those_of_its_schema() -> None:
    schema, kind = described(validator("plan").schema), form(Plan)
    # what is written has it always
    kind["required"] |= {"removed", "remove"}
    # the configuration of the SR-IOV plugin is handed on, and nobody looks into it
    [sriov] = [each["keys"]["sriov"] for each in (schema["keys"]["groups"]["values"]["keys"]["classes"]["items"],)]
    sriov["keys"]["config"] = [{"values": "any"}, "null"]
    kind["keys"]["groups"]["values"]["keys"]["classes"]["items"]["keys"]["sriov"]["keys"]["config"].sort(key=str)
    sriov["keys"]["config"].sort(key=str)
    assert kind == schema


def test_the_types_of_evidence_are_those_of_its_schema() -> None:
    schema, kind = described(validator("evidence").schema), form(Evidence)
    # the names of the programs are a table of ours, and what asks for them is a setting
    kind["keys"]["tests"]["items"]["keys"]["test"] = {"one of": PROGRAMS}
    assert kind == schema


def places(schema: Json, where: str) -> t.Iterator[tuple[str, Json]]:
    yield where, schema
    for key, each in schema.get("properties", {}).items():
        yield from places(each, f"{where}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from places(schema[key], where + "[]")
    for each in schema.get("oneOf", []):
        yield from places(each, where)


@pytest.mark.parametrize("sort", ["plan", "evidence", "outcomes", "state"])
def test_every_key_is_described_and_no_other_is_allowed(sort: str) -> None:
    schema = validator(sort).schema
    validator(sort).check_schema(schema)
    silent = [
        f"{where}.{key}"
        for where, part in places(schema, sort)
        for key, each in part.get("properties", {}).items()
        if not each.get("description")
    ]
    # those of the SR-IOV plugin's selectors speak for themselves
    assert [where for where in silent if ".sriov.config" not in where] == []
    objects = [(where, part) for where, part in places(schema, sort) if part.get("type") == "object"]
    assert [where for where, part in objects if part.get("additionalProperties", True) is True] == []


def test_a_number_in_the_place_of_a_text_is_found() -> None:
    one = {"state": "failed", "wave": 1, "step": 3, "task": None, "message": None, "remedy": None}
    with pytest.raises(AssertionError, match=r"^docs/outcomes\.schema\.json: \$\.hosts\.n\.step: 3 is not of type"):
        checked("outcomes", {"schema": 1, "hosts": {"n": one}})

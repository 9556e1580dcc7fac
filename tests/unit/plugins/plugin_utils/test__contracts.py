# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an earlier run left, whatever somebody has made of it: it is read, or is an error that names file and place."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.filter.rdma_report import rdma_report
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import label_scope, rollout_scope
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import NEWER, contract_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import completed_with, document_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.history import compared, earlier_report
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.files import record_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    ViewError,
    earlier_classes,
    found_departures,
    merged_plan,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import a_plan, a_test, evidence_of
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of
from ansible_collections.fabric.rdma.tests.unit.schemas import validator

Json = dict[str, Any]
Place = tuple[Any, ...]

HOSTS = {"a100": ["ib-a100-1", "ib-a100-2"], "rails": ["roce-rails-1"]}
WISHES: Json = {
    "a100": {"hosts": HOSTS["a100"], "resource": {"name": "rdma_a100"}},
    "rails": {
        "hosts": HOSTS["rails"],
        "resource": {"name": "shared"},
        "want": {"link_layer": "Ethernet", "min_rate_gbps": 100},
        "rails": True,
    },
}


@functools.cache
def facts() -> Json:
    names = [host for hosts in HOSTS.values() for host in hosts]
    return {name: facts_of(open_tree(str(CAPTURES / f"{name}.capture"))) for name in names}


@functools.cache
def text(sort: str) -> str:
    if sort == "plan":
        plan = merged_plan(plan_groups(facts(), WISHES), "nowhere.json", list(HOSTS), {"old": "a100"}, ["old"])
        return json.dumps(plan)
    latency = dict.fromkeys(("min", "max", "typical", "average", "stdev", "p99", "p999"), 1.5)
    tests = [a_test("n1", "n2"), a_test("n2", "n1", None, latency_us=latency, floor={"max_us": 20})]
    row = {"host": "n3", "device": None, "port": None, "reason": "x", "defect": False}
    one = {"state": "failed", "wave": 1, "step": "ofed", "task": "t", "message": "m", "remedy": "r"}
    documents: Json = {
        "evidence": {**evidence_of("g", *tests), "untested": [row]},
        "outcomes": {"schema": 1, "hosts": {"n1": one}},
        "state": {**record_of(a_request()), "state": "applied"},
        "report": a_report(),
    }
    return json.dumps(documents[sort])


def a_report() -> Json:
    """Of two groups, of which one has been measured, compared with itself."""
    arguments: list[Any] = [
        facts(),
        plan_groups(facts(), WISHES),
        [evidence_of("a100", a_test(*HOSTS["a100"][:2]))],
        HOSTS,
    ]
    finding = {
        "id": "x",
        "severity": "error",
        "group": "",
        "hosts": ["h"],
        "cause": "c",
        "evidence": ["e"],
        "remedy": "r",
    }
    saved = [{"path": "/o/doctor.json", "mtime": 0}, json.dumps({"findings": [finding]})]
    outcomes = {"schema": 1, "hosts": {"n": {"state": "lost"}}}
    model = build(
        *arguments,
        outcomes=outcomes,
        failures=["f"],
        files=[saved],
        prepared=[["n", "changed", "d"]],
        wished=["longhorn"],
    )
    report: Json = completed_with(model, document_of(model))[1]
    return report


def a_request() -> Request:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 1, "rdma/a": "2"}}}
    metadata = {"name": "one", "annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [limits]}}
    summary = [("networks", "a")]
    return {**empty_request("x"), "summary": summary, "problems": ["p"], "warnings": ["w"], "workloads": {"one": [pod]}}


def places(value: Any, way: Place = ()) -> Iterator[Place]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*way, key)
        yield from places(item, (*way, key))


SORTS = ("plan", "evidence", "outcomes", "report", "state")
PLACES = {sort: list(places(json.loads(text(sort)))) for sort in SORTS}
MISSING = object()
ODD = [None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, ["x"], [None], [{}], {"x": 1}, {"x": None}, MISSING]


def changed(sort: str, place: Place, value: Any) -> Any:
    document = json.loads(text(sort))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return document


def lenient(sort: str, part: Any, where: str = "") -> Any:
    """The schema without what is let pass: keys that are not known, and those that documents of earlier versions lack."""
    if not isinstance(part, dict):
        return part
    left = {key: value for key, value in part.items() if (key, value) != ("additionalProperties", False)}
    inside = where + "." if where else ""
    if "required" in part:
        left["required"] = [name for name in part["required"] if inside + name not in NEWER[sort]]
    for key in ("items", "additionalProperties"):
        if key in left:
            left[key] = lenient(sort, left[key], where)
    if "oneOf" in part:
        left["oneOf"] = [lenient(sort, each, where) for each in part["oneOf"]]
    if "properties" in part:
        left["properties"] = {key: lenient(sort, each, inside + key) for key, each in part["properties"].items()}
    return left


@functools.cache
def library(sort: str) -> Any:
    return validator(sort).evolve(schema=lenient(sort, validator(sort).schema))


@pytest.mark.parametrize("sort", SORTS)
@given(data=st.data())
def test_what_the_schema_refuses_is_refused_with_its_place(sort: str, data: st.DataObject) -> None:
    place, value = data.draw(st.sampled_from(PLACES[sort])), data.draw(st.sampled_from(ODD))
    document = changed(sort, place, value)
    found = contract_problems(sort, document)
    # a number that no machine has is none, too
    assert bool(found) == (not library(sort).is_valid(document) or value == 10**30)
    name = re.sub(r"^\.", "", "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place))
    assert not found or any(problem.startswith((name, name.rpartition(".")[0] or name)) for problem in found)


@pytest.mark.parametrize("sort", NEWER)
def test_what_earlier_versions_lack_is_in_the_schema(sort: str) -> None:
    def required(part: Json, where: str) -> Iterator[str]:
        inside = where + "." if where else ""
        yield from (inside + name for name in part.get("required", ()))
        for key in ("items", "additionalProperties"):
            if isinstance(part.get(key), dict):
                yield from required(part[key], where)
        for key, each in part.get("properties", {}).items():
            yield from required(each, inside + key)

    assert set(NEWER[sort]) <= set(required(validator(sort).schema, ""))


@given(st.sampled_from(PLACES["plan"]), st.sampled_from(ODD))
def test_a_plan_that_somebody_changed_is_used_or_is_an_error_with_its_path(
    tmp_path_factory: pytest.TempPathFactory, place: Place, value: Any
) -> None:
    """Never anything else, and all who read it agree."""
    directory = tmp_path_factory.getbasetemp()
    path = directory / "plan.json"
    document = changed("plan", place, value)
    path.write_text(json.dumps(document))
    problems = contract_problems("plan", document)
    inventory = {"a100": HOSTS["a100"][:1], "rails": HOSTS["rails"]}
    uses: list[Callable[[], Any]] = [
        lambda: found_departures(str(directory), inventory, list(inventory), ["ib-a100-2"], {}),
        lambda: plan_groups(facts(), WISHES, earlier=earlier_classes(str(path))),
        lambda: merged_plan(a_plan(), str(path), list(HOSTS), {"ib-a100-2": "a100"}, ["ib-a100-2"]),
    ]
    # a page does without it
    assert (str(path) in rdma_report(facts(), str(path), [], HOSTS)["summary"]) == bool(problems)
    for use in uses:
        if not problems:
            use()
            continue
        with pytest.raises(
            (ViewError, AnsibleFilterError), match=f"^{re.escape(str(path))} .*{re.escape(problems[0])}.*move it away"
        ):
            use()


@given(st.sampled_from(PLACES["report"]), st.sampled_from(ODD))
def test_a_report_that_somebody_changed_is_compared_or_refused(place: Place, value: Any) -> None:
    document = changed("report", place, value)
    if not contract_problems("report", document):
        sound = json.loads(text("report"))
        compared(document, sound)
        compared(sound, document)


def test_a_report_of_an_earlier_version_is_compared(tmp_path: Path) -> None:
    """It knows no jobs over GPUs."""
    document = json.loads(text("report"))
    for group in document["groups"].values():
        del group["collectives"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    assert compared(earlier_report(str(path)), json.loads(text("report")))["count_worse"] == 0


def test_what_is_kept_of_a_plan_of_an_earlier_version_is_shown_and_rolled_out(tmp_path: Path) -> None:
    document = json.loads(text("plan"))
    for entry in document["groups"].values():
        for key in ("cached", "hosts", "kept", "malformed", "planned", "rails", "resources"):
            del entry[key]
        for each in entry["classes"]:
            for key in ("matched_later", "pools", "reason", "sriov", "wishes"):
                del each[key]
    for key in ("cluster", "removed", "remove"):
        del document[key]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    merged = merged_plan(a_plan(), str(path), list(HOSTS))
    assert {name: entry["hosts"] for name, entry in merged["groups"].items()} == HOSTS
    assert all(plan_table(entry) for entry in merged["groups"].values())
    assert rollout_scope(merged)[1] == ["a100", "rails"]
    assert label_scope(merged, {}, HOSTS)["remove"] == []
    # the report shows such a file as it is
    assert "<h1" in rdma_report(facts(), str(path), [], HOSTS)["page"]


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    paths = {sort: str(tmp_path / f"{sort}.json") for sort in ("facts", "plan", "outcomes")}
    found = rdma_report(paths["facts"], paths["plan"], [], HOSTS, outcomes=paths["outcomes"])
    assert found == rdma_report({}, {}, [], HOSTS)


@pytest.mark.parametrize(
    ("sort", "content", "why"),
    [
        ("outcomes", "{", "Expecting property name"),
        ("outcomes", '{"schema": 1, "hosts": {"n": 3}}', "hosts.n is 3; expected a dictionary"),
        ("plan", "[]", "it is not a dictionary"),
        ("facts", "[]", "it is not a dictionary"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_path(sort: str, content: str, why: str, tmp_path: Path) -> None:
    """Facts are what a page is about; without the others it says more than no page."""
    path = tmp_path / f"{sort}.json"
    path.write_text(content)
    parts: Json = {"facts": facts(), "plan": {}, "outcomes": None, sort: str(path)}
    words = f"{path} cannot be read as the {sort} of an earlier run"

    def summary() -> str:
        arguments: Json = {"outcomes": parts["outcomes"], "failures": ["The rollout failed"]}
        return rdma_report(parts["facts"], parts["plan"], [], HOSTS, **arguments)["summary"]

    if sort == "facts":
        with pytest.raises(AnsibleFilterError, match=f"^{re.escape(words)}.*{re.escape(why)}"):
            summary()
        return
    said = " ".join(summary().split())
    assert re.search(f"{re.escape(words)}.*{re.escape(why)}.*The rollout failed", said), said

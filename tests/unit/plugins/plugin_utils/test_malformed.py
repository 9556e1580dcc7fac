# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose facts have not the form that they have to have costs that host, named with the field, and nobody else."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.plugins.filter import core, mathstuff
from ansible.plugins.test import core as tests
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import worse
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.table import device_table
from ansible_collections.fabric.rdma.plugins.module_utils._plan.rails import group_rails, rail_host
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import host_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.plugin_utils import _view
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import NEWER, Plainer, checked_facts, cluster_view
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT, facts_of
from ansible_collections.fabric.rdma.tests.unit.schemas import validator
from ansible_collections.fabric.rdma.tests.unit.steps import counted

Json = dict[str, Any]
Place = tuple[Any, ...]

MISSING = object()
ODD = [None, 7, -1, True, False, "x", "\0" * 200_000, [], {}, [None], {"x": None}, 10**400, MISSING]
# Two hosts that are alike, and one of another group.
GOOD = ("ib-a100-1", "ib-a100-2", "roce-rails-1")


@functools.cache
def captured(name: str) -> str:
    return json.dumps(facts_of(open_tree(str(CAPTURES / f"{name}.capture"))))


def filter_named(name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}")
    found: Callable[..., Any] = module.FilterModule().filters()[name]
    return found


def places(value: Any, way: Place = ()) -> Iterator[Place]:
    """The way to every field; of the items of a list, the first stands for all."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*way, key)
        yield from places(item, (*way, key))


def mutated(facts: Json, place: Place, value: Any) -> Json:
    inner: Any = facts
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return facts


def field(place: Place) -> str:
    """How a field is called for the user."""
    return re.sub(r"^\.", "", "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place))


WISHES: dict[str, Json] = {
    "a100": {"rdma_resource": {"name": "rdma_a100"}},
    "rails": {
        "rdma_resource": {"name": "shared"},
        "rdma_want": {"link_layer": "Ethernet", "min_rate_gbps": 100},
        "rdma_rails": True,
    },
}
GROUPS = {"a100": ["bad", "ib-a100-1", "ib-a100-2"], "rails": ["roce-rails-1"]}
RAILS = {"a100": ["ib-a100-1", "ib-a100-2"], "rails": ["bad", "roce-rails-1"]}


def hostvars(groups: dict[str, list[str]], bad: Any) -> Json:
    return {
        host: {"ansible_facts": {"rdma": bad if host == "bad" else json.loads(captured(host))}, **WISHES[name]}
        for name, hosts in groups.items()
        for host in hosts
    }


def planned(groups: dict[str, list[str]], bad: Any) -> tuple[Json, Json]:
    """(view, plan) of hosts of which one is bad."""
    view = filter_named("rdma_view")(hostvars(groups, bad), groups, list(groups))
    return view, filter_named("rdma_selectors")(view)


def of_others(plan: Json) -> Any:
    """What a plan has for the hosts that are not bad."""
    found = {}
    for name, entry in plan["groups"].items():
        found[name] = {
            "planned": entry["planned"],
            "classes": [
                {key: each[key] for key in ("name", "selectors", "config", "pools")} for each in entry["classes"]
            ],
            **{
                key: {host: rows for host, rows in entry[key].items() if host != "bad"}
                for key in ("wanted", "environment")
            },
            "hosts": sorted({host for each in entry["classes"] for host in each["hosts"]} - {"bad"}),
            "rails": {host: rows for host, rows in entry["rails"].items() if host != "bad"},
        }
    return found


@functools.cache
def without_bad(name: str) -> Any:
    groups = {"plain": GROUPS, "rails": RAILS}[name]
    return of_others(
        planned({key: [host for host in hosts if host != "bad"] for key, hosts in groups.items()}, None)[1]
    )


def is_valid(facts: Json, place: Place) -> bool:
    """By the real library for JSON Schema, of the part that was changed."""
    keys = {"schema", "warnings", "kernel", "ofed", place[0]}
    return bool(validator("facts").is_valid({key: facts[key] for key in keys if key in facts}))


def test_a_module_that_facts_of_an_earlier_version_lack_is_discovered_again() -> None:
    facts = mutated(json.loads(captured("ib-a100-1")), ("kernel", "modules", "nfs"), MISSING)
    found = filter_named("rdma_storage")(facts, {})["blocked"]
    assert "It is not known whether module nfs is loaded: discover the host again" in found


def everything_made_of(facts: Json, before: Json) -> None:
    """All that the facts of a host are asked for on its own behalf. A wish may be refused, in words."""
    device_table({"bad": facts})
    worse(facts, before)
    worse(before, facts)
    if "kernel" not in facts:
        return
    if "storage" in facts:
        storage_checks(facts, {"dm_crypt": True}, [], "bad")
    doca = {"method": "doca", "version": "2.9.1", "repository": "https://h/doca/2.9.1/", "key": "/k"}
    for ofed, gpudirect in (
        ({"method": "inbox"}, "auto"),
        (doca, "peermem"),
        ({"method": "mlnx_iso", "version": "24.10", "iso": "/i"}, "dmabuf"),
    ):
        # each role on its own, so that none hides what the next one would stumble over
        for subset in ("storage", "runtime", "nvidia"):
            own = {key: part for key, part in facts.items() if key not in {"storage", "runtime", "nvidia"} - {subset}}
            with contextlib.suppress(FabricError):
                host_needs(own, {"ofed": ofed, "gpudirect": gpudirect, "storage": {"dm_crypt": True}})


@pytest.mark.parametrize("name", ["plain", "rails"])
def test_any_field_may_be_anything(name: str) -> None:
    """One field after the other, each with everything odd. What is not refused is used everywhere, and some of what is refused."""
    groups, like = {"plain": (GROUPS, "ib-a100-1"), "rails": (RAILS, "roce-rails-1")}[name]
    [own] = [group for group, hosts in groups.items() if "bad" in hosts]
    refused, accepted = 0, 0
    before = json.loads(captured(like))
    whole = filter_named("rdma_view")(hostvars(groups, before), groups, list(groups))
    # equal parts are looked at once, as in a view of many hosts
    plain, seen = Plainer(), set[tuple[int, int]]()
    cases = [(place, value) for place in places(before) for value in ODD]
    for number, (place, value) in enumerate(cases):
        bad = mutated(json.loads(captured(like)), place, value)
        facts, _when, found = checked_facts(bad, plain, seen)
        problems = "; ".join(found)
        if problems:
            refused += 1
            assert field(place) in problems, (place, value)
        elif not is_valid(bad, place):
            # keys that facts of earlier versions lack may be missing
            assert value is MISSING, (place, value)
            assert field(place) in NEWER
        if not problems:
            accepted += 1
            everything_made_of(facts, before)
            view = {**whole, "facts": {**whole["facts"], "bad": facts}}
            plan = filter_named("rdma_selectors")(view)
            filter_named("rdma_unusable")(view)
            filter_named("rdma_pairs")(view, ["bad", *GOOD])
            render_html(build({"bad": facts}, plan, [], groups))
        # a view takes some milliseconds, and there are thousands of cases
        elif number % 97 == 0:
            view, plan = planned(groups, bad)
            unusable = filter_named("rdma_unusable")(view)
            filter_named("rdma_pairs")(view, ["bad", *GOOD])
            [error] = [error for error in plan["groups"][own]["errors"] if error.startswith("host bad: ")]
            assert problems in error
            assert plan["groups"][own]["malformed"] == {"bad": error}
            assert (unusable["bad"], list(view["malformed"])) == (error, ["bad"])
            assert "host bad: " in filter_named("rdma_table")({"bad": bad})
            assert of_others(plan) == without_bad(name), (place, value)
    assert refused > len(cases) / 2
    assert accepted > 300


def test_any_text_may_be_a_very_long_number() -> None:
    """Python refuses to read numbers of more than 4300 digits."""
    for like in ("ib-a100-1", "roce-rails-1"):
        before = json.loads(captured(like))
        count = 0
        for place in places(before):
            facts, _when, problems = checked_facts(mutated(json.loads(captured(like)), place, "9" * 5_000))
            if not problems:
                count += 1
                everything_made_of(facts, before)
        assert count > 20


def test_a_device_that_is_invisible_for_no_reason() -> None:
    facts = json.loads(captured("ib-a100-1"))
    facts["devices"][0]["plugin"].update(visible=False, reason=None)
    assert " no: unknown" in filter_named("rdma_table")({"bad": facts})


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (("ofed",), "ofed is missing"),
        (("kernel", "modules", "mlx5_core"), "kernel.modules.mlx5_core is missing"),
        (("storage", "programs", "cryptsetup"), "storage.programs.cryptsetup is missing"),
    ],
)
def test_what_roles_ask_for_is_there(place: Place, problem: str) -> None:
    assert checked_facts(mutated(json.loads(captured("ib-a100-1")), place, MISSING))[2] == [problem]


def crowded(devices: int, gpus: int, switches: int) -> Json:
    """A host with that many devices and GPUs, evenly under some switches."""
    facts: Json = json.loads(captured("roce-rails-1"))
    device, gpu = facts["devices"][0], facts["gpus"][0]
    roots = [f"0000:{bus:02x}:01.0" for bus in range(switches)]

    def address(domain: int, number: int) -> str:
        return f"{domain:04x}:{number // 256:02x}:{number // 8 % 32:02x}.{number % 8}"

    facts["devices"], facts["gpus"] = [], []
    for number in range(devices):
        own = {"name": f"m{number}", "pci": address(1, number), "node_guid": f"{number:016x}"}
        bridges = [roots[number % switches], address(3, number)]
        plugin = {**device["plugin"], "if_name": f"e{number}"}
        facts["devices"].append({**device, **own, "bridges": bridges, "plugin": plugin})
    for number in range(gpus):
        bridges = [roots[number % switches], address(4, number)]
        facts["gpus"].append({**gpu, "pci": address(2, number), "bridges": bridges, "nearest": []})
    return facts


@pytest.mark.parametrize("switches", [1, 128])
def test_as_many_devices_and_gpus_as_may_be_have_rails(switches: int) -> None:
    """They are not compared each with each: four times as many cost four times as much, not sixteen times."""

    def cost(devices: int, gpus: int) -> int:
        crowd = crowded(devices, gpus, switches)
        candidates = {device["pci"] for device in crowd["devices"]}
        rails, steps = counted(lambda: group_rails({"crowd": rail_host("crowd", crowd, candidates)})["crowd"])
        assert len(rails) == gpus
        return steps

    many, few = cost(2_048, 512), cost(512, 128)
    assert many < 5 * few, (few, many)


def test_more_devices_or_gpus_than_any_node_has_are_refused() -> None:
    for devices, gpus, problem in (
        (2_049, 1, "devices has 2049 entries; expected at most 2048"),
        (1, 513, "gpus has 513 entries; expected at most 512"),
    ):
        assert checked_facts(crowded(devices, gpus, 1))[2] == [problem]


@pytest.mark.parametrize(("what", "most"), [("netdevs", 4_096), ("ports", 1_000)])
def test_a_device_with_more_than_any_card_has_is_refused(what: str, most: int) -> None:
    facts = crowded(1, 1, 1)
    for count, problems in (
        (most, []),
        (most + 1, [f"devices[0].{what} has {most + 1} entries; expected at most {most}"]),
    ):
        facts["devices"][0][what] = [facts["devices"][0][what][0]] * count
        assert checked_facts(facts)[2] == problems


@pytest.mark.parametrize(
    "facts", [[], "x", 3, True, {"schema": 2, "devices": [], "warnings": []}, {"schema": 1, "warnings": []}]
)
def test_facts_that_are_no_facts(facts: Any) -> None:
    view, plan = planned(GROUPS, facts)
    assert [
        error for error in plan["groups"]["a100"]["errors"] if error.startswith("host bad: its facts cannot be used")
    ]
    assert plan["groups"]["a100"]["planned"]
    assert plan["groups"]["rails"]["planned"]
    assert plan["cluster"]["config"] is None
    assert filter_named("rdma_selectors")(view["facts"] | {"bad": facts}, view["groups"])["groups"]["a100"]["planned"]


@pytest.mark.parametrize("key", NEWER)
def test_facts_of_an_earlier_version_are_used(key: str) -> None:
    """A fact cache has what an earlier version found: of a key that came later, nothing."""
    facts = json.loads(captured("ib-a100-1"))
    proof: Json = {"method": "doca", "release": "2.9.1", "installed": True, "booted": False, "devices": []}
    facts["ofed"]["proof"] = proof
    place = tuple(key.split("."))
    assert checked_facts(mutated(facts, place, MISSING))[2] == []
    last = facts
    for part in place[:-1]:
        last = last[part]
    assert place[-1] not in last
    everything_made_of(facts, facts)


def test_facts_of_a_proof_that_does_not_tell_whether_it_was_installed() -> None:
    facts = json.loads(captured("ib-a100-1"))
    facts["ofed"]["proof"] = {"method": "doca", "release": "2.9.1", "booted": True, "devices": []}
    assert checked_facts(facts)[2] == []
    filter_named("rdma_needs")(facts, {"method": "none"}, gpudirect="none", host="n")


def test_a_group_with_a_malformed_host_is_not_rolled_out() -> None:
    """Whatever its user allows: nobody knows what the host has, so nobody takes it from there."""
    plan = planned(GROUPS, {"schema": 1, "devices": 3, "warnings": []})[1]
    group = plan["groups"]["a100"]
    assert (group["planned"], list(group["malformed"])) == (True, ["bad"])
    assert group["errors"][0] == group["malformed"]["bad"]
    assert plan["groups"]["rails"]["malformed"] == {}
    settings = {"namespace": "kube-system", "image": "plugin:v1", "priority_class": "x", "kubelet_root": "/k"}
    settings |= {"tolerations": [], "resources": {}}
    for allow in (False, True):
        request = filter_named("rdma_rollout")(plan, settings, GROUPS, allow)
        assert (request["keep"], list(request["nodes"])) == (["a100"], ["roce-rails-1"])


def insisted(plan: Json, allow: bool) -> str:
    """What the role plan fails with at its end, empty when it does not."""
    tasks = yaml.safe_load((ROOT / "roles" / "plan" / "tasks" / "insist.yml").read_text())
    names = {"plan_result": plan, "plan_allow_unusable": allow, "plan_output_dir": "out", "rdma_groups": list(GROUPS)}
    return failure(tasks[0], names)


def listed(lazy: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that gives a list where Jinja's own gives a generator, as Ansible has it."""
    return functools.wraps(lazy)(lambda *arguments, **options: list(lazy(*arguments, **options)))


def failure(task: Json, values: Json) -> str:
    """What an assertion among tasks fails with, empty when it does not."""
    environments = (NativeEnvironment(), jinja2.Environment(autoescape=False))
    for environment in environments:
        for plugins in (core.FilterModule, mathstuff.FilterModule):
            environment.filters.update(plugins().filters())
        for name in ("map", "select", "reject", "selectattr", "rejectattr"):
            environment.filters[name] = listed(environment.filters[name])
        environment.tests.update(tests.TestModule().tests())
        for name in ("rdma_view", "rdma_unusable"):
            environment.filters[f"fabric.rdma.{name}"] = filter_named(name)
    # a variable is there once all that it is made from is
    left = dict(task["vars"])
    while left:
        for name, text in list(left.items()):
            if not any(other in text for other in left if other != name):
                values = {**values, name: environments[0].from_string(text.strip()).render(values)}
                del left[name]
    assertion = task["ansible.builtin.assert"]
    good = environments[0].from_string(f"{{{{ {assertion['that']} }}}}").render(values)
    return "" if good else environments[1].from_string(assertion["fail_msg"]).render(values)


def test_a_discovered_host_with_malformed_facts_is_no_host_without_a_usable_port() -> None:
    tasks = yaml.safe_load((ROOT / "roles" / "discover" / "tasks" / "show.yml").read_text())
    [task] = [task for task in tasks if task["name"] == "Check that every host has a usable port"]
    bad = {"schema": 1, "devices": 3, "warnings": []}
    values: Json = {"groups": GROUPS, "rdma_groups": list(GROUPS)}
    values |= {"hostvars": hostvars(GROUPS, bad), "__discover_seen": ["bad", *GOOD]}
    said = failure(task, values)
    assert said.startswith(
        "Looked at 4 hosts. 1 of 4 hosts have facts that cannot be used. host bad: its facts cannot be used (devices is 3; "
    )
    assert said.endswith("discover it again. ")
    assert "usable port" not in said
    assert "unusable" not in said
    values["hostvars"]["ib-a100-1"]["ansible_facts"]["rdma"]["devices"] = []
    said = failure(task, values)
    assert "ib-a100-1 has no usable port. Found: no RDMA device at all. Correct rdma_want" in said
    assert "bad has no usable port" not in said
    assert failure(task, {**values, "__discover_seen": ["ib-a100-2"]}) == ""


def test_a_malformed_host_is_no_host_without_a_usable_port() -> None:
    plan = planned(GROUPS, {"schema": 1, "devices": 3, "warnings": []})[1]
    [error] = plan["groups"]["a100"]["errors"]
    assert error.endswith("discover it again")
    for allow in (False, True):
        said = insisted(plan, allow)
        assert error in said
        assert "unusable" not in said
    plan["groups"]["rails"]["errors"] = ["host roce-rails-1 has no usable port (x)"]
    assert "Plan: 1 error(s). host bad: " in insisted(plan, True)
    said = insisted(plan, False)
    assert "Plan: 2 error(s). host bad: " in said
    assert "Set rdma_allow_unusable" in said


def test_a_group_with_nothing_else_is_not_planned() -> None:
    plan = planned({"a100": ["bad"], "rails": ["roce-rails-1"]}, {"schema": 1, "devices": 3, "warnings": []})[1]
    assert list(plan["groups"]["a100"]["malformed"]) == ["bad"]
    assert not plan["groups"]["a100"]["planned"]
    assert "host bad: its facts cannot be used (devices is 3; expected a list)" in plan["groups"]["a100"]["errors"][1]
    assert plan["groups"]["rails"]["planned"]


def test_facts_that_are_nested_or_long_beyond_all_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _view._MOST_PARTS < 1_000_000
    monkeypatch.setattr(_view, "_MOST_PARTS", 20_000)
    deep: Any = []
    for _level in range(500):
        deep = [deep]
    for facts, words in (
        (deep, "is nested more than 60 levels deep"),
        ([[0] * 1000] * 30, "has more than 20000 parts"),
        # as YAML may have it; Python prints and reads no number of more than 4300 digits
        (16**5_000, "has a number of more than 4096 bits"),
        ({-(16**5_000): 1}, "has a number of more than 4096 bits"),
    ):
        bad = {**json.loads(captured("ib-a100-1")), "more": facts}
        plan = planned(GROUPS, bad)[1]
        [error] = [error for error in plan["groups"]["a100"]["errors"] if error.startswith("host bad: ")]
        assert words in error
        assert plan["groups"]["a100"]["planned"]
        assert "host bad" in filter_named("rdma_table")({"bad": bad})
        assert filter_named("rdma_merged_facts")({"bad": bad, "good": {}}, "/nowhere/facts.json") == {"good": {}}


@pytest.mark.parametrize(
    "wish",
    [
        {"rdma_resource": {"name": "no good"}},
        {"rdma_resource": {"name": None}},
        {"rdma_resource": [1]},
        {"rdma_want": {"state": "x"}},
        {"rdma_want": 3},
        {"rdma_selector_strategy": 5},
        {"rdma_rails": 7},
    ],
)
def test_an_invalid_wish_of_one_group_costs_that_group(wish: Json) -> None:
    own = hostvars(GROUPS, json.loads(captured("ib-a100-1")))
    good = filter_named("rdma_selectors")(cluster_view(own, GROUPS, list(GROUPS)))
    for host in GROUPS["a100"]:
        own[host].update(wish)
    view = filter_named("rdma_view")(own, GROUPS, list(GROUPS))
    plan = filter_named("rdma_selectors")(view)
    assert not plan["groups"]["a100"]["planned"]
    assert next(iter(wish)) in plan["groups"]["a100"]["errors"][0]
    assert plan["groups"]["rails"] == good["groups"]["rails"]
    if "rdma_want" not in wish:
        # traffic needs no resource
        assert filter_named("rdma_unusable")(view) == {}
        assert set(filter_named("rdma_pairs")(view, ["bad", *GOOD])["untested"]) == {"a100", "rails"}


def test_needs_of_a_malformed_host_are_an_error_with_its_name() -> None:
    bad = mutated(json.loads(captured("ib-a100-1")), ("kernel", "modules"), 3)
    message = "host bad: its facts cannot be used (kernel.modules is 3; expected a dictionary)"
    with pytest.raises(AnsibleFilterError, match=f"^{re.escape(message)}"):
        filter_named("rdma_needs")(bad, host="bad")


def test_initiator_names_of_malformed_hosts_are_not_compared() -> None:
    facts = json.loads(captured("ib-a100-1"))
    own: Json = {name: {"ansible_facts": {"rdma": json.loads(captured("ib-a100-1"))}} for name in ("a", "b")}
    same = filter_named("rdma_initiator_duplicates")(own, ["a", "b"])
    for value in (3, [1], {"iscsi": None}, {**facts["storage"], "iscsi": {"initiator_name": ["x"]}}):
        own["bad"] = {"ansible_facts": {"rdma": {**facts, "storage": value}}}
        assert filter_named("rdma_initiator_duplicates")(own, ["a", "b", "bad"]) == same

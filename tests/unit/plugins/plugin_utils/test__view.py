# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_material import rdma_material
from ansible_collections.fabric.rdma.plugins.filter.rdma_wish import rdma_wish
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils import _view
from ansible_collections.fabric.rdma.plugins.plugin_utils._site import plan_pages, site_of, wished
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    ViewError,
    cluster_view,
    earlier_classes,
    found_departures,
    merged_facts,
    merged_plan,
    unusable_hosts,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_group, a_plan
from ansible_collections.fabric.rdma.tests.unit.schemas import checked


class Text(str):
    """A string with something attached, as templating engines make them."""


class Number(int):
    pass


FACTS = {"schema": 1, "devices": [], "warnings": []}


def host(facts: Any = None, **variables: Any) -> dict[str, Any]:
    facts = FACTS if facts is None else facts
    return {"ansible_facts": {"rdma": facts} if facts else {}, "rdma_resource": {"name": "x"}, **variables}


@pytest.mark.parametrize("where", ["a", "beside"])
def test_a_node_that_makes_wishes_ends_the_view(where: str) -> None:
    """Whether it is planned or only in the run: its variables count for all."""
    hostvars = {"a": host(), "b": host(), "beside": host()}
    hostvars[where]["ansible_facts"]["rdma_rollout"] = {"image": "evil"}
    with pytest.raises(ViewError, match=rf"^host {where} has facts named rdma_rollout, which are variables of"):
        cluster_view(hostvars, {"g": ["a", "b"]}, ["g"], ["a", "b", "beside"])


def test_a_view_joins_facts_and_wishes_of_each_group() -> None:
    hostvars = {
        "b": host(rdma_want={"state": Text("any")}, rdma_capture="b.capture"),
        "a": host(rdma_want={"state": "any"}, rdma_selector_strategy=None, discover_gathered={"ansible_facts": {}}),
        "c": host(facts={}),
        "d": {},
    }
    groups = {"g": ["b", "a"], "none": ["c", "d"], "empty": [], "other": ["a"]}
    view = cluster_view(hostvars, groups, ["g", "none", "empty"])
    assert view == {
        "groups": {
            "g": {
                "hosts": ["a", "b"],
                "resource": {"name": "x"},
                "want": {"state": "any"},
                "strategy": None,
                "rails": None,
                "verify": None,
                "replayed": ["b"],
            }
        },
        "facts": {"a": FACTS, "b": FACTS},
        "without_facts": ["none", "empty"],
        "unseen": {
            "none": {
                "hosts": ["c", "d"],
                "resource": {"name": "x"},
                "want": None,
                "strategy": None,
                "rails": None,
                "verify": None,
                "replayed": [],
            },
            "empty": {
                "hosts": [],
                "resource": None,
                "want": None,
                "strategy": None,
                "rails": None,
                "verify": None,
                "replayed": [],
            },
        },
        "cached": {"b": None},
        "malformed": {},
    }


def test_a_view_has_plain_values_only() -> None:
    facts = {**FACTS, Text("k"): [Text("v"), Number(3), (True, None, 1.5)], "path": re.compile("x").pattern}
    view = cluster_view({"a": host(facts)}, {"g": ["a"]}, ["g"])
    found = view["facts"]["a"]
    assert found == {**FACTS, "k": ["v", 3, [True, None, 1.5]], "path": "x"}
    values = [*found, *found["k"][:2], *found["k"][2]]
    assert {type(value) for value in values} == {str, int, bool, type(None), float}


def test_equal_parts_of_hosts_are_one_object_and_nothing_else_is() -> None:
    """Thousands of hosts fit into memory; what only compares equal (1, 1.0, True) keeps its type."""
    odd = [1, 1.0, True, 0, False, None, "1", [1], [1.0], {"a": 1}, {"a": True}, {}, []]
    hostvars = {
        name: host({**FACTS, "cards": [{"name": "mlx5_0", "guid": name}], "same": {"x": ["y", 2.5]}, "odd": odd})
        for name in ("a", "b")
    }
    facts = cluster_view(hostvars, {"g": ["a", "b"]}, ["g"])["facts"]
    assert facts == {name: hostvars[name]["ansible_facts"]["rdma"] for name in ("a", "b")}
    assert repr(facts["a"]["odd"]) == repr(odd)
    assert facts["a"]["same"] is facts["b"]["same"]
    assert facts["a"]["cards"] is not facts["b"]["cards"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "g", "y"], "rdma_groups names x, y, which the inventory does not have; it has g, h"),
        (["h"], "group h: rdma_want differs between hosts a and b; set it for the group, not for a host"),
    ],
)
def test_an_inventory_that_makes_no_sense(names: list[str], message: str) -> None:
    hostvars = {"a": host(), "b": host(facts={}, rdma_want={"state": "any"})}
    with pytest.raises(ViewError, match=f"^{re.escape(message)}$"):
        cluster_view(hostvars, {"g": ["a"], "h": ["a", "b"]}, names)


def test_a_slice_does_without_groups_that_are_in_others() -> None:
    """AWX leaves a group out of the inventory of a slice that has neither hosts there nor variables."""
    sliced = {"awx_workflow_job_name": "rdma verify", "awx_job_template_name": "rdma verify"}
    view = cluster_view({"a": host(**sliced)}, {"g": ["a"], "empty": []}, ["g", "elsewhere", "empty"])
    assert list(view["groups"]) == ["g"]
    with pytest.raises(ViewError, match="rdma_groups names elsewhere, which the inventory does not have; it has g"):
        cluster_view({"a": host()}, {"g": ["a"]}, ["g", "elsewhere"])


class Counted(dict[str, Any]):
    """Each look into hostvars costs a merge of all variables of the host."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        self.looks += 1
        return super().__getitem__(key)


def test_each_host_is_looked_at_once() -> None:
    hostvars = Counted({name: host() for name in "abc"})
    cluster_view(hostvars, {"g": ["a", "b", "c"]}, ["g"])
    assert hostvars.looks == 3


def test_an_unusable_host_is_named_with_its_reason() -> None:
    down = {
        "number": 1,
        "link_layer": "InfiniBand",
        "state": "Down",
        "phys_state": None,
        "netdevs": [],
        "rate_gbps": 100,
    }
    device = {"name": "mlx5_0", "kind": "pf", "pci": None, "netdevs": [], "lag": None, "ports": [down]}
    facts = {"a": {**FACTS, "devices": [device]}, "b": FACTS}
    view = {"groups": {"g": {"hosts": ["a", "b", "c"], "want": None}}, "facts": facts}
    assert unusable_hosts(view) == {
        "a": "mlx5_0 port 1: port is Down (phys state unknown), the group wants Active",
        "b": "no RDMA device at all",
    }
    view["groups"]["g"]["want"] = {"state": "any"}
    assert list(unusable_hosts(view)) == ["b"]
    view["groups"]["g"]["want"] = {"stat": "any"}
    with pytest.raises(FabricError, match="group g: rdma_want has no key stat"):
        unusable_hosts(view)


def test_facts_of_hosts_that_a_run_did_not_see_stay(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    assert merged_facts({"a": {"schema": Number(1)}}, str(path)) == {"a": {"schema": 1}}
    path.write_text(json.dumps({"a": {"old": 1}, "b": {"old": 2}, "gone": {"old": 3}}))
    everybody = {"a": {"new": 1}, "b": {"old": 2}, "gone": {"old": 3}}
    assert merged_facts({"a": {"new": 1}}, str(path)) == everybody, "what an inventory lacks may only not be seen"
    del everybody["gone"]
    assert merged_facts({"a": {"new": 1}}, str(path), ["gone"]) == everybody
    # of a node that was changed in this run, they were gathered before its change ended
    open_change = {"since": "2026-01-01T00:00:00Z", "roles": ["ofed"]}
    assert merged_facts({"a": {"new": 1, "change": open_change}}, str(path), ["gone"]) == everybody


def planned(*classes: str, **more: Any) -> dict[str, Any]:
    return a_group(*(a_class(one, one) for one in classes), **more)


def test_a_plan_is_as_large_as_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of one host have a bound, which ten thousand together exceed."""
    assert _view._MOST_PARTS_OF_A_CLUSTER >= 100 * _view._MOST_PARTS
    monkeypatch.setattr(_view, "_MOST_PARTS", 1000)
    hosts = sorted(f"n{number}" for number in range(1001))
    plan = a_plan(g={**planned("n0"), "hosts": hosts})
    names = {"g": hosts}
    assert merged_plan(plan, "/nowhere/plan.json", ["g"], dict.fromkeys(hosts, "g"))["groups"]["g"]["hosts"] == hosts
    assert found_departures("/nowhere", names, ["g"], [], {})["refusal"] == ""
    assert rdma_material({"plan": plan})["plan"]["groups"]["g"]["hosts"] == hosts
    hostvars = {each: host() for each in hosts}
    assert site_of(hostvars, names, ["g"], plan, {})["plan"]["groups"]["g"]["hosts"] == hosts
    assert list(plan_pages(hostvars, names, ["g"], plan, {})) == ["g"]


def test_plans_of_groups_that_a_run_did_not_plan_stay(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    failed = planned(planned=False, errors=["no facts"])
    fresh = a_plan(now=planned("n2"), failed=failed, new=failed)
    names = ["now", "failed", "new", "other"]
    nobody: dict[str, Any] = {"removed": {}, "remove": []}
    assert merged_plan(fresh, str(path), names) == {**fresh, **nobody}
    groups = {"now": planned("n1"), "failed": planned("f", errors=["old"]), "other": planned("o"), "gone": planned("g")}
    old = json.dumps(a_plan({"warnings": ["old"]}, **groups))
    path.write_text(old)
    merged = merged_plan(fresh, str(path), names)
    assert merged["warnings"] == []
    assert merged["groups"] == {
        "now": planned("n2"),
        "failed": {
            **failed,
            "classes": planned("f")["classes"],
            "hosts": ["f"],
            "kept": "from an earlier run: this one could not plan it",
        },
        "new": failed,
        "other": planned("o", planned=False, kept="from an earlier run: rdma_groups of this one does not name it"),
    }
    # what is wrong with facts is of this run
    wrong = a_plan(failed={**failed, "malformed": {"n": "now"}})
    path.write_text(json.dumps(a_plan(failed=planned("f", malformed={"m": "then"}))))
    assert merged_plan(wrong, str(path), names)["groups"]["failed"]["malformed"] == {"n": "now"}
    path.write_text(old)
    # a configuration for the whole cluster would not know of what was kept
    config = {"periodicUpdateInterval": 300, "configList": []}
    cluster = {"config": config, "selectors": {"r": {}}, "errors": [], "alternative": None, "hosts": 1}
    whole = merged_plan({**fresh, "cluster": cluster}, str(path), names)["cluster"]
    assert (whole["config"], whole["selectors"]) == (None, {})
    assert whole["errors"] == [
        "kept from an earlier run: failed, other; a configuration that reaches the whole cluster must be planned with all of it"
    ]
    # and once more: what is kept stays kept
    path.write_text(json.dumps(merged))
    assert merged_plan(fresh, str(path), names) == merged


def test_a_host_that_moves_leaves_the_group_that_it_was_in(tmp_path: Path) -> None:
    """The group is not planned in this run; the one that the host is in now is."""
    path = tmp_path / "plan.json"
    old = a_group(a_class("x", "a1", "a2"))
    path.write_text(json.dumps(a_plan(a=old)))
    names = ["a", "b", "c"]

    def kept(**groups: Any) -> Any:
        return merged_plan(a_plan(**groups), str(path), names)["groups"]["a"]

    moved = kept(b=planned("a2", hosts=["a2"]))
    assert (moved["hosts"], moved["classes"][0]["hosts"], moved["planned"]) == (["a1"], ["a1"], False)
    # a group that could not be planned has nothing yet
    assert kept(b=planned(hosts=["a2"]) | {"planned": False})["hosts"] == ["a1", "a2"]
    assert kept(c=planned("c1", hosts=["c1"]))["classes"] == old["classes"]
    # the group itself could not be planned
    assert kept(a=planned(hosts=["a1", "a2"]) | {"planned": False})["hosts"] == ["a1", "a2"]
    path.write_text(json.dumps({**a_plan(), "groups": {"a": {**old, "hosts": "a1"}}}))
    with pytest.raises(ViewError, match="cannot be read as the plan of an earlier run"):
        kept()


def test_hosts_that_are_taken_out_leave_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    match = {"device": "mlx5_0", "pci": "0000:3b:00.0", "if_name": "ib0", "ports": [1]}
    excluded = {"device": "mlx5_1", "port": None, "netdev": None, "reason": "x"}
    classes = [
        a_class("both", "a", "b", matches={"a": [match], "b": [match]}),
        a_class("gone", "b", matches={"b": [match]}),
    ]
    exclusions = [{"host": "a", **excluded}, {"host": "b", **excluded}]
    entry = a_group(
        *classes,
        wanted={"a": [], "b": []},
        rails={"a": [], "b": []},
        environment={"a": {"x": "1"}, "b": {"x": "2"}},
        malformed={"a": "3", "b": "3"},
        exclusions=exclusions,
    )
    path.write_text(json.dumps(a_plan(other=entry)))
    merged = merged_plan(a_plan({"warnings": ["w"]}), str(path), ["other"], {"b": "other"}, ["b"])
    assert merged["removed"] == {"b": "other"}
    assert merged["remove"] == ["b"]
    assert merged["warnings"] == ["taken out on purpose (rdma_rollout.remove): b of group other", "w"]
    left = merged["groups"]["other"]
    assert left["classes"] == [a_class("both", "a", matches={"a": [match]})]
    assert left["exclusions"] == exclusions[:1]
    assert left["malformed"] == {"a": "3"}
    assert left["wanted"] == left["rails"] == {"a": []}
    assert left["environment"] == {"a": {"x": "1"}}


def test_what_earlier_runs_left_is_found(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(a_plan(g=a_group(a_class("x", "a", "b")))))
    (tmp_path / "facts.json").write_text(json.dumps({"a": {}, "c": {}}))
    found = found_departures(str(tmp_path), {"g": ["a"]}, ["g"], ["b"], {})
    assert found["missing"] == {"c": None}
    assert found["removed"] == {"b": "g"}
    assert "c, whose facts are known" in found["refusal"]
    nothing = found_departures(str(tmp_path / "nowhere"), {"g": ["a"]}, ["g"], [], {})
    assert nothing == {"missing": {}, "removed": {}, "refusal": ""}


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": {}} x', b"[]", b"\xff\xfe{}", b'"text"'])
def test_a_damaged_file_is_an_error_and_stays(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(ViewError, match=f"^{re.escape(str(path))} .* move it away .* Nothing was written"):
        merged_facts({}, str(path))
    assert path.read_bytes() == content
    with pytest.raises(ViewError, match="move it away"):
        merged_plan(a_plan(), str(path), [])


POOL: dict[str, Any] = {"resource": "r", "rail": 1, "selectors": {"deviceIDs": ["101b"]}}
CLASS = a_class("g-x", "a", pools=[POOL])
GROUP = a_group(CLASS)


def of_group(**given: Any) -> dict[str, Any]:
    return {**a_plan(), "groups": {"g": {**GROUP, **given}}}


def of_classes(*classes: Any) -> dict[str, Any]:
    return of_group(classes=list(classes))


def without(document: Any, key: str) -> Any:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (without(a_plan(), "groups"), "groups is missing"),
        ({**a_plan(), "schema": 2}, "schema is 2; expected one of 1"),
        ({**a_plan(), "groups": []}, "groups is a list; expected a dictionary"),
        ({**a_plan(), "groups": {"g": 1}}, "groups.g is 1; expected a dictionary"),
        ({**a_plan(), "groups": {"g": without(GROUP, "classes")}}, "groups.g.classes is missing"),
        (of_classes(1), "groups.g.classes[0] is 1; expected a dictionary"),
        (of_classes(without(CLASS, "hosts")), "groups.g.classes[0].hosts is missing"),
        (of_classes({**CLASS, "hosts": 3}), "groups.g.classes[0].hosts is 3; expected a list"),
        (of_classes({**CLASS, "hosts": [{}]}), "groups.g.classes[0].hosts[0] is a dictionary; expected a text"),
        (of_classes({**CLASS, "name": None}), "groups.g.classes[0].name is None; expected a text"),
        (of_classes({**CLASS, "matches": 1}), "groups.g.classes[0].matches is 1; expected a dictionary"),
        (of_classes({**CLASS, "pools": [1]}), "groups.g.classes[0].pools[0] is 1; expected a dictionary"),
        (
            of_classes(CLASS, {**CLASS, "pools": [{key: POOL[key] for key in ("resource", "selectors")}]}),
            "groups.g.classes[1].pools[0].rail is missing",
        ),
        (
            of_classes({**CLASS, "pools": [{**POOL, "selectors": {"deviceIDs": [[]]}}]}),
            "groups.g.classes[0].pools[0].selectors.deviceIDs[0] is a list; expected a text",
        ),
        (
            of_classes({**CLASS, "selectors": {"deviceIds": []}}),
            "groups.g.classes[0].selectors has the key 'deviceIds'; expected one of vendors, deviceIDs, drivers, linkTypes, ifNames",
        ),
        (of_group(exclusions=[1]), "groups.g.exclusions[0] is 1; expected a dictionary"),
        (of_group(wanted=[1]), "groups.g.wanted is a list; expected a dictionary"),
    ],
)
def test_a_damaged_plan_of_an_earlier_run_is_an_error_with_its_path(document: Any, why: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    message = f"{path} cannot be read as the plan of an earlier run ({why}); put it right, or move it away to start without it. "
    for ask in (
        lambda: merged_plan(a_plan(), str(path), ["g"], {"a": "g"}),
        lambda: earlier_classes(str(path)),
        lambda: found_departures(str(tmp_path), {"g": ["a"]}, ["g"], [], {}),
    ):
        with pytest.raises(ViewError, match=f"^{re.escape(message)}Nothing was written"):
            ask()
    assert json.loads(path.read_text()) == document


def test_a_plan_of_a_large_cluster_is_read(tmp_path: Path) -> None:
    """It may have more hosts and exclusions than any node has of anything."""
    hosts = [f"n{number}" for number in range(25_000)]
    excluded = {"device": "mlx5_1", "port": 1, "netdev": None, "reason": "x"}
    classes = [{**CLASS, "hosts": hosts}, a_class("g-old")]
    # the sentence on a host tells of all its devices
    errors = ["host n0 has no usable port (" + "mlx5_0: port is Down; " * 5000 + ")"]
    document = of_group(classes=classes, exclusions=[{"host": host, **excluded} for host in hosts], errors=errors)
    (tmp_path / "plan.json").write_text(json.dumps(document))
    assert earlier_classes(str(tmp_path / "plan.json")) == {"g": document["groups"]["g"]["classes"]}


# As the first version wrote it.
FIRST: dict[str, Any] = {
    "schema": 1,
    "groups": {
        "g": {
            "resource": "rdma/r",
            "classes": [{"name": "g", "hosts": ["a"], "selectors": {}, "config": None, "matches": {}}],
            "wanted": {"b": []},
            "exclusions": [],
            "environment": {},
            "warnings": [],
            "errors": [],
        }
    },
    "warnings": [],
}


def test_a_plan_of_the_first_version_is_read_and_becomes_one_of_this(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(FIRST))
    assert found_departures(str(tmp_path), {}, [], [], {})["missing"] == {"a": "g", "b": "g"}
    merged = merged_plan(a_plan(), str(path), ["g"])
    kept = "from an earlier run: rdma_groups of this one does not name it"
    assert merged["groups"]["g"] == a_group(
        a_class("g", "a"), hosts=["a", "b"], wanted={"b": []}, planned=False, kept=kept
    )
    assert earlier_classes(str(path)) == {"g": [a_class("g", "a")]}
    checked("plan", merged)


@pytest.mark.parametrize("variable", ["rdma_want", "rdma_resource"])
def test_a_wish_that_no_inventory_has_is_named(variable: str) -> None:
    """Its group, its host and its name, also where no playbook has looked at all wishes before."""
    variables = {"a1": {"ansible_facts": {}}, "b1": {"ansible_facts": {}, variable: {"hca_max": 10**2000}}}
    with pytest.raises(ViewError, match=f"^group b, host b1: {variable} has a number of more than 4096 bits"):
        cluster_view(variables, {"a": ["a1"], "b": ["b1"]}, ["a", "b"])
    with pytest.raises(ViewError, match=f"^group b, host b1: {variable} has a number of more than 4096 bits"):
        wished(variables, {"a": ["a1"], "b": ["b1"]}, ["a", "b"], everything=False)
    assert rdma_wish({"hca_max": 10**2000}, variable) == [f"{variable} has a number of more than 4096 bits"]

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters' own part: which types they take, and that an error of the core is one of Ansible."""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT, facts_of

FACTS = facts_of(open_tree(str(CAPTURES / "ib-a100-1.capture")))
GROUPS = {"ib-a100": {"hosts": ["n"], "resource": {"name": "rdma_a100"}}}
SETTINGS = {
    "namespace": "kube-system",
    "image": "registry.example/plugin:v1",
    "priority_class": "system-node-critical",
    "kubelet_root": "/var/lib/kubelet",
    "tolerations": [],
    "resources": {},
}


def filter_named(name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}")
    found: Callable[..., Any] = module.FilterModule().filters()[name]
    # what also sees the variables of the run, of which there are none here
    return functools.partial(found, None) if hasattr(found, "jinja_pass_arg") else found


PATTERN = "; expected a pattern of hosts, such as 'ib-a100' or 'ib-a100,!rack-7', or a list of them"
HELM_4 = "Helm 4 needs kubernetes.core 6.4.0 or newer: ansible-galaxy collection install --upgrade kubernetes.core"
NOBODY = ", which names no hosts, or has a '!' or '&' without a name; write which hosts, and then which of them are left out, such as 'rdma,!rack-7'"
SPLIT = (
    ", in which Ansible would split an IPv6 address or a regular expression at its colons; separate patterns by commas, and write regular expressions "
    "without colons"
)


@pytest.mark.parametrize("path", sorted((ROOT / "plugins" / "filter").glob("*.py")), ids=lambda path: path.stem)
def test_a_file_has_the_filter_of_its_name(path: Any) -> None:
    assert callable(filter_named(path.stem))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("rdma_selectors", ([], {}), "fabric.rdma.rdma_selectors expects a dictionary of facts by host, found list"),
        ("rdma_selectors", ({}, "x"), "fabric.rdma.rdma_selectors expects a dictionary of groups, found str"),
        ("rdma_unusable", ([],), "fabric.rdma.rdma_unusable expects the value of fabric.rdma.rdma_view, found list"),
        (
            "rdma_labels",
            ({},),
            "fabric.rdma.rdma_labels expects the plan of fabric.rdma.rdma_selectors, found a dictionary without groups",
        ),
        ("rdma_wishes", ([], {}, []), "fabric.rdma.rdma_wishes expects hostvars, found list"),
        ("rdma_wishes", ({}, {}, "h"), "fabric.rdma.rdma_wishes expects a list of hosts, found 'h'"),
        ("rdma_wish", ({}, "rdma_wnat"), "fabric.rdma.rdma_wish knows no variable rdma_wnat; did you mean rdma_want?"),
        ("rdma_departures", ("x", [], []), "fabric.rdma.rdma_departures expects groups, found list"),
        ("rdma_departures", ("x", {}, "g"), "fabric.rdma.rdma_departures expects a list of names, found 'g'"),
        ("rdma_merged_facts", ([], "x", []), "fabric.rdma.rdma_merged_facts expects facts by host, found list"),
        ("rdma_merged_facts", ({}, "x", "h"), "fabric.rdma.rdma_merged_facts expects a list of hosts, found 'h'"),
        (
            "rdma_merged_plan",
            ({}, "x", []),
            "fabric.rdma.rdma_merged_plan expects the plan of fabric.rdma.rdma_selectors, found a dictionary without groups",
        ),
        (
            "rdma_needs",
            (None,),
            "fabric.rdma.rdma_needs expects facts of a host, gathered by fabric.rdma.ib_facts with the subset kernel, "
            "found NoneType",
        ),
        (
            "rdma_needs",
            ({"devices": []},),
            "fabric.rdma.rdma_needs expects facts of a host, gathered by fabric.rdma.ib_facts with the subset kernel, "
            "found a dictionary without kernel",
        ),
        (
            "rdma_needs",
            (FACTS, {"method": "x"}),
            "rdma_ofed.method is 'x'; expected one of none, inbox, doca, mlnx_iso",
        ),
        ("rdma_needs", (FACTS, ["inbox"]), "fabric.rdma.rdma_needs expects a dictionary in rdma_ofed, found list"),
        (
            "rdma_needs",
            (FACTS, {}, "Ethernet", {}, {}, "x"),
            "rdma_gpudirect is 'x'; expected one of auto, peermem, dmabuf, none",
        ),
        ("rdma_worse", ([], {}), "fabric.rdma.rdma_worse expects facts from before the change, found list"),
        ("rdma_worse", ({}, 1), "fabric.rdma.rdma_worse expects facts from after the change, found int"),
        (
            "rdma_worse",
            ({"devices": 1}, {"devices": []}),
            "fabric.rdma.rdma_worse expects two results of ib_facts, found something else (TypeError)",
        ),
        ("rdma_pattern", (3,), f"rdma_hosts is {3!r}{PATTERN}"),
        ("rdma_pattern", (" ",), f"rdma_hosts is {' '!r}{PATTERN}"),
        ("rdma_pattern", ([],), f"rdma_hosts is {[]!r}{PATTERN}"),
        ("rdma_pattern", (["ib-a100", None],), f"rdma_hosts is {['ib-a100', None]!r}{PATTERN}"),
        ("rdma_pattern", ("!rack-7",), f"rdma_hosts is '!rack-7'{NOBODY}"),
        ("rdma_pattern", (["&rack-7", "!a1:!a2"],), f"rdma_hosts is '&rack-7,!a1,!a2'{NOBODY}"),
        ("rdma_pattern", ("rdma:!",), f"rdma_hosts is 'rdma,!'{NOBODY}"),
        ("rdma_pattern", (":,",), f"rdma_hosts is ':,'{PATTERN}"),
        ("rdma_pattern", (["gpu:!fd00::1", "a"],), f"rdma_hosts has 'gpu:!fd00::1'{SPLIT}"),
        ("rdma_pattern", ("~n(?:1|2),a",), f"rdma_hosts has '~n(?:1|2)'{SPLIT}"),
        ("rdma_pattern", ("a:!~b",), f"rdma_hosts has 'a:!~b'{SPLIT}"),
        ("rdma_label_value", ([],), "fabric.rdma.rdma_label_value expects a name, found []"),
        ("rdma_prepared", ([], [], "b", "a", "m"), "fabric.rdma.rdma_prepared expects hostvars, found list"),
        (
            "rdma_prepared",
            ({}, "n", "b", "a", "m"),
            "fabric.rdma.rdma_prepared expects a list of host names, found 'n'",
        ),
        (
            "rdma_table",
            ([1],),
            "fabric.rdma.rdma_table expects facts or checks by host, the plan of a group or a map of the fabric, found list",
        ),
        (
            "rdma_manifests",
            ({}, SETTINGS),
            "fabric.rdma.rdma_manifests expects the plan of fabric.rdma.rdma_selectors, found a dictionary without groups",
        ),
        (
            "rdma_needs",
            (FACTS, {}, "Ethernet", {}, {}, "auto", (), "n", None, []),
            "fabric.rdma.rdma_needs expects a dictionary in rdma_roce_host, found list",
        ),
        (
            "rdma_roce_findings",
            ([], {}, []),
            "fabric.rdma.rdma_roce_findings expects hostvars, found list",
        ),
        (
            "rdma_roce_findings",
            ({}, {}, "g"),
            "fabric.rdma.rdma_roce_findings expects a list of groups, found 'g'",
        ),
        (
            "rdma_roce_findings",
            ({"n": {"rdma_roce_host": {"mtu": 1}}}, {"g": ["n"]}, ["g"]),
            "rdma_roce_host.mtu is 1; expected a number of bytes from 1280 to 9978, such as 9000",
        ),
        ("rdma_view", ({}, [], []), "fabric.rdma.rdma_view expects groups, found list"),
        ("rdma_view", ({}, {}, "g"), "fabric.rdma.rdma_view expects a list of group names, found 'g'"),
        ("rdma_view", ({}, {"h": []}, ["g"]), "rdma_groups names g, which the inventory does not have; it has h"),
    ],
)
def test_what_is_not_taken(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"^{re.escape(message)}$"):
        filter_named(name)(*arguments)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"msg": " no\n  space "}, "no space"),
        ({"msg": "", "stderr": "dpkg: error\n"}, "dpkg: error"),
        # of a loop, the first item that failed, not what Ansible says of the loop
        ({"msg": "One or more items failed", "results": [{"msg": "ok"}, {"failed": True, "msg": "b"}]}, "b"),
        ({"msg": "All items completed", "results": [{"unreachable": True, "msg": "gone"}]}, "gone"),
        ({"msg": "x", "results": "y"}, "x"),
        ({"msg": "z" * 5000}, "z" * 1997 + "..."),
        (
            {"msg": "Failure when executing Helm command. Exited 1.\nstdout: \nstderr: Error: unknown flag: --all\n"},
            f"Failure when executing Helm command. Exited 1. stdout: stderr: Error: unknown flag: --all. {HELM_4}",
        ),
        ({}, ""),
        (None, ""),
    ],
)
def test_a_failed_task_says_why(result: Any, why: str) -> None:
    assert filter_named("rdma_why")(result) == why


def test_a_reason_has_no_password_in_it_also_where_it_is_cut() -> None:
    said = {"msg": "x" * 1980 + " https://admin:hunter2-and-more@host/doca"}
    assert "hunter2" not in filter_named("rdma_why")(said)
    assert filter_named("rdma_why")({"msg": "E: https://admin:hunter2@host/doca"}) == "E: https://host/doca"


def test_a_reason_has_none_of_what_is_secret_also_where_it_is_cut() -> None:
    said = {"msg": "x" * 1990 + " first line\nsecond line"}
    told = filter_named("rdma_why")(said, {"token": "first line\nsecond line"})
    assert told == "x" * 1990 + " *** ***"


def test_what_is_redacted_is_still_no_template() -> None:
    assert type(filter_named("rdma_redacted")("{{ 1 }}")) is type(filter_named("rdma_why")({"msg": "x"}))


def test_classes_keep_the_names_of_an_earlier_plan(tmp_path: Path) -> None:
    plan = filter_named("rdma_selectors")({"n": FACTS}, GROUPS)
    saved = tmp_path / "plan.json"
    saved.write_text(json.dumps(plan).replace("ib-a100-ibp161s0", "ib-a100-first"))
    later = filter_named("rdma_selectors")({"n": FACTS}, GROUPS, str(saved))
    assert [entry["name"] for entry in later["groups"]["ib-a100"]["classes"]] == ["ib-a100-first"]
    saved.write_text("{")
    with pytest.raises(AnsibleFilterError, match=re.escape(str(saved))):
        filter_named("rdma_selectors")({"n": FACTS}, GROUPS, str(saved))


def test_facts_become_objects() -> None:
    plan = filter_named("rdma_selectors")({"n": FACTS}, GROUPS)
    objects = filter_named("rdma_manifests")(plan, SETTINGS)
    assert list(objects) == ["ib-a100/ib-a100-ibp161s0-configmap.yaml", "ib-a100/ib-a100-ibp161s0-daemonset.yaml"]
    assert list(filter_named("rdma_labels")(plan)) == ["ib-a100/ib-a100-ibp161s0-labels.sh"]
    assert filter_named("rdma_table")(plan["groups"]["ib-a100"]).startswith("CLASS")
    assert filter_named("rdma_table")({"n": FACTS}).startswith("HOST")
    assert filter_named("rdma_worse")(FACTS, FACTS) == []


def test_facts_become_needs_and_needs_become_rows() -> None:
    needs = filter_named("rdma_needs")(FACTS, gpudirect="none", host="n")
    assert list(needs) == ["ofed", "storage_prereqs", "containerd_memlock", "nvidia_peermem", "nvidia_imex"]
    wished = filter_named("rdma_needs")(FACTS, gpudirect="none", roce_host={"netns": "shared"})
    assert list(wished) == [
        "ofed",
        "roce_host",
        "storage_prereqs",
        "containerd_memlock",
        "nvidia_peermem",
        "nvidia_imex",
    ]
    prepared = {"n": {"needed": needs, "rdma_capture": "x"}, "m": {}}
    rows = filter_named("rdma_prepared")(prepared, ["n", "m"], "needed", "left", "memlock")
    assert "not touched" in {what for _hosts, what, _details in rows}
    looked = {"n": {"discover_gathered": {"concluded": needs}, "rdma_capture": "x"}, "m": {"discover_gathered": {}}}
    assert filter_named("rdma_prepared")(looked, ["n", "m"], "needed", "left", "memlock") == rows
    # a node may answer anything
    for odd in ("x", 5, {"stale_containers": 7}, {"stale_containers": [5]}, {"stale_containers": {"a": 1}}):
        answered = {"n": {**looked["n"], "memlock": odd}}
        assert filter_named("rdma_prepared")(answered, ["n"], "needed", "left", "memlock") == rows
    # who uses the role discover may let it conclude anything
    for other in ("x", [], {"ofed": 1}, {"ofed": {"needed": True}}, {"ofed": {"needed": True, "reasons": 5}}):
        looked["n"]["discover_gathered"] = {"concluded": other}
        assert filter_named("rdma_prepared")(looked, ["n", "m"], "needed", "left", "memlock") == []
    assert filter_named("rdma_table")(rows).startswith("HOSTS")


HOSTVARS = {"n": {"ansible_facts": {"rdma": FACTS}, "rdma_resource": {"name": "rdma_a100"}}}


def test_variables_of_hosts_become_a_plan() -> None:
    plan = filter_named("rdma_selectors")({"n": FACTS}, GROUPS)
    view = filter_named("rdma_view")(HOSTVARS, {"ib-a100": ["n"]}, ["ib-a100"])
    assert filter_named("rdma_selectors")(view["facts"], view["groups"]) == plan
    whole = filter_named("rdma_selectors")(view)
    assert {name: {**entry, "cached": {}} for name, entry in whole["groups"].items()} == plan["groups"]
    assert whole["groups"]["ib-a100"]["cached"] == {"n": None}
    assert "not discovered by this run" in whole["warnings"][0]
    assert filter_named("rdma_unusable")(view) == {}
    # counters grow, and containerd starts again: with them a second run would change the file
    of_the_plan = {
        host: {key: value for key, value in facts.items() if key != "health"} for host, facts in view["facts"].items()
    }
    runtime = of_the_plan["n"]["runtime"]
    of_the_plan["n"]["runtime"] = {**runtime, "containerd": {**runtime["containerd"], "pid": None}}
    assert filter_named("rdma_merged_facts")(view["facts"], "nowhere.json") == of_the_plan
    assert filter_named("rdma_merged_plan")(plan, "nowhere.json", ["ib-a100"]) == {**plan, "removed": {}, "remove": []}
    found = filter_named("rdma_departures")("nowhere", {"ib-a100": ["n"]}, ["ib-a100"])
    assert found == {"missing": {}, "removed": {}, "refusal": ""}


def test_variables_of_hosts_are_checked() -> None:
    roce = {
        "n": {
            **HOSTVARS["n"],
            "rdma_want": {"link_layer": "Ethernet"},
            "rdma_roce_host": {"mtu": 9000, "persist": False},
        }
    }
    [finding] = filter_named("rdma_roce_findings")(roce, {"g": ["n"]}, ["g", "gone"])
    assert finding.startswith("group g: n: bond0 carries the default route or the connection to the host")
    assert filter_named("rdma_roce_findings")(HOSTVARS, {"g": ["n", "m"]}, ["g"]) == []
    assert filter_named("rdma_wish")({"state": "any"}, "rdma_want") == []
    wishes = {"n": {**HOSTVARS["n"], "rdma_groups": ["ib-a100"]}}
    assert filter_named("rdma_wishes")(wishes, {"ib-a100": ["n"]}, ["n"], plan=True) == []


@pytest.mark.parametrize(
    ("given", "kept"), [("false", True), ("no", True), (False, True), ("true", False), (True, False)]
)
def test_names_are_replaced_where_that_is_asked_for(given: Any, kept: bool) -> None:
    """An extra variable of the command line (-e doctor_anonymize=false) is a text."""
    files = filter_named("rdma_bundle")({"facts": {"node-7": {}}, "groups": {"g": ["node-7"]}}, given)
    assert ("node-7" in files["context.json"]) is kept


def test_two_hosts_are_not_compared() -> None:
    before, after = ({**FACTS, "gathered_of": host} for host in ("n1", "n2"))
    said = "^fabric.rdma.rdma_worse, facts from before the change: host n2 has the facts of host 'n1'"
    with pytest.raises(AnsibleFilterError, match=said):
        filter_named("rdma_worse")(before, after)
    assert filter_named("rdma_worse")(before, {**after, "gathered_of": "n1"}) == []


def test_a_summary_is_a_table_of_at_most_100_columns() -> None:
    shown = filter_named("rdma_table")
    lines = shown([("chart", "storage 1.2.3"), ("nodes", "n1, " * 40), ["bell", "\a"]]).splitlines()
    assert lines[:2] == ["WHAT   IS ASKED FOR", "chart  storage 1.2.3"]
    assert max(map(len, lines)) <= 100
    assert "\a" not in lines[-1]
    assert shown([]) == ""

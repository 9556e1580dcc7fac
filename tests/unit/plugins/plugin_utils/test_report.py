# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what it says, that it harms nobody, that it stays small and the same."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.filter.rdma_report_html import rdma_report_html
from ansible_collections.fabric.rdma.plugins.filter.rdma_report_summary import rdma_report_summary
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import plan_group
from ansible_collections.fabric.rdma.plugins.plugin_utils._report import (
    SUMMARY_WIDTH,
    ReportError,
    build,
    clean,
    render_html,
    render_summary,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import (
    a_class,
    a_config,
    a_group,
    a_plan,
    a_test,
    evidence_of,
)

CAPTURES = Path(__file__).resolve().parents[3] / "captures"
VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE = "</td><script>alert(1)</script>{{ 7 * 7 }}{% raw %}\" onload='x' javascript:x \x1b[31m\udcff\u202e&amp;"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def facts_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.expected.json").read_text(encoding="utf-8"))
    return found


def wanted(device: str, pci: str, rate: float, if_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    port = {"device": device, "port": 1, "rate_gbps": rate, "link_layer": "InfiniBand", "netdev": if_name, "pci": pci}
    return port, {"device": device, "pci": pci, "if_name": if_name, "ports": [1]}


def left_out(host: str, device: str, netdev: str, reason: str) -> dict[str, Any]:
    return {"host": host, "device": device, "port": 1, "netdev": netdev, "reason": reason}


def a100_plan(first: list[str], second: list[str]) -> dict[str, Any]:
    """Hosts of the first kind have the cable in mlx5_1, those of the second in mlx5_0."""
    plan = a_group(resource="rdma/rdma_a100", hosts=sorted(first + second))
    down = "port is Down (phys state Disabled), the group wants Active"
    kinds = (
        (first, ("mlx5_1", "0000:a1:00.0", 200.0, "ibp161s0"), ("mlx5_0", "ibp33s0")),
        (second, ("mlx5_0", "0000:21:00.0", 200.0, "ibp33s0"), ("mlx5_1", "ibp161s0")),
    )
    for hosts, picked, other in kinds:
        port, match = wanted(*picked)
        plan["classes"].append(
            a_class(
                f"ib-a100-{picked[3]}",
                *hosts,
                selectors={"ifNames": [picked[3]]},
                config=a_config("rdma_a100", ifNames=[picked[3]]),
                matches={host: [match] for host in hosts},
            )
        )
        for host in hosts:
            plan["wanted"][host] = [port]
            plan["environment"][host] = {"NCCL_IB_HCA": f"={picked[0]}:1"}
            plan["exclusions"].append(left_out(host, *other, down))
            plan["exclusions"].append(left_out(host, "mlx5_bond_0", "bond0", "Ethernet bond bond0 (active-backup)"))
    return a_plan(**{"ib-a100": plan})


def measurement(client: str, server: str, gbps: float | None, verdict: str = "pass") -> dict[str, Any]:
    message = "" if verdict == "pass" else "Port number 1 state is Down"
    return a_test(client, server, gbps, verdict=verdict, message=message)


@pytest.fixture
def sample() -> dict[str, Any]:
    """Three A100 nodes of two kinds, a plan, two measurements."""
    hosts = ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
    tests = [measurement("ib-a100-1", "ib-a100-3", 195.6), measurement("ib-a100-3", "ib-a100-1", 194.0)]
    return {
        "facts": {host: facts_of(host) for host in hosts},
        "plan": a100_plan(["ib-a100-1", "ib-a100-3"], ["ib-a100-2"]),
        "evidence": [evidence_of("ib-a100", *tests)],
        "groups": {"ib-a100": hosts},
    }


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails when a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data + " "

    def words(self) -> str:
        return " ".join(self.text.split())


def page_of(sample: dict[str, Any], **more: str) -> str:
    return render_html(build(sample["facts"], sample["plan"], sample["evidence"], sample["groups"], **more))


def summary_of(sample: dict[str, Any]) -> str:
    return render_summary(build(sample["facts"], sample["plan"], sample["evidence"], sample["groups"]))


def group_of(sample: dict[str, Any]) -> dict[str, Any]:
    model = build(sample["facts"], sample["plan"], sample["evidence"], sample["groups"])
    found: dict[str, Any] = model["groups"][0]
    return found


def test_the_page_says_what_is_there(sample: dict[str, Any]) -> None:
    words = Page(page_of(sample)).words()
    for text in (
        "Group ib-a100 is ready",
        "3 of 3 nodes have a usable port. 2 measurements between nodes, all within their limits.",
        "3 nodes, 12 GPUs, 6 of 9 ports active. Pods ask for rdma/rdma_a100",
        "GPU A100 80 GB",
        "mlx5_1 ★ selected InfiniBand, ● Active , 200 Gb/s",
        "✕ Down (Disabled)",
        "switched off here or by the switch",
        "bond0, active-backup of enp225s0f0np0 and enp225s0f1np1",
        "interface ibp161s0",
        "port is Down (phys state Disabled), the group wants Active",
        '"resourceName": "rdma_a100"',
        "NCCL_IB_HCA==mlx5_1:1",
        "194 Gb/s passed; limit: at least 180 Gb/s",
        "the default route runs over an RDMA driver",
    ):
        assert text in words


def test_nodes_that_look_the_same_share_a_card(sample: dict[str, Any]) -> None:
    kinds = group_of(sample)["kinds"]
    assert [(kind["host"], kind["hosts"]["count"]) for kind in kinds] == [("ib-a100-1", 2), ("ib-a100-2", 1)]


def test_each_rail_is_shown_with_its_resource() -> None:
    subsets = ("devices", "gpus", "kernel", "management")
    hosts = {f"rail-{n}": gather(open_tree(str(CAPTURES / f"roce-rails-{n}.capture")), subsets) for n in (1, 2)}
    wishes = {"resource": {"name": "roce"}, "want": {"link_layer": "Ethernet"}, "rails": True}
    plan = {"schema": 1, "groups": {"rails": plan_group("rails", hosts, wishes)}, "warnings": []}
    rails = {"facts": hosts, "plan": plan, "evidence": [], "groups": {"rails": list(hosts)}}
    words = Page(page_of(rails)).words()
    for number in range(1, 9):
        assert f"rdma/roce_gpu{number} : interface enp{10 + number}s0f0np0" in words
    assert "rdma/roce_gpu1..8" in summary_of(rails)


def test_the_rate_of_a_port_that_is_down_is_not_shown(sample: dict[str, Any]) -> None:
    node = group_of(sample)["kinds"][0]["node"]
    ports = {device["name"]: device["ports"][0] for device in node["devices"]}
    assert ports["mlx5_0"]["rate"] == "\u2013"
    assert ports["mlx5_1"]["rate"] == "200 Gb/s"
    assert (ports["mlx5_0"]["decision"], ports["mlx5_1"]["decision"]) == ("out", "selected")


def test_pairs_of_gpu_and_hca_are_framed_and_a_numa_node_is_not() -> None:
    names = ["roce-rails-1", "gb200-1", "ib-v100-1"]
    facts = {name: facts_of(name) for name in names}
    model = build(facts, {}, [], {name: [name] for name in names})
    panels = {group["name"]: group["kinds"][0]["node"]["panels"] for group in model["groups"]}
    assert [len(panel["frames"]) for panel in panels["roce-rails-1"]] == [8]
    assert all(len(frame["gpus"]) == 1 == len(frame["cards"]) for frame in panels["roce-rails-1"][0]["frames"])
    assert [(len(panel["frames"]), len(panel["gpus"])) for panel in panels["gb200-1"]] == [(0, 2), (0, 2)]
    # two functions of one card are drawn as one card; the far GPUs have none
    assert [(len(panel["cards"]), len(panel["gpus"])) for panel in panels["ib-v100-1"]] == [(1, 2), (0, 2)]


def test_a_port_that_the_plugin_cannot_offer_is_not_called_selected(sample: dict[str, Any]) -> None:
    for item in sample["plan"]["groups"]["ib-a100"]["classes"]:
        item.update(matches={}, config=None, selectors={})
    group = group_of(sample)
    assert group["selected"] == 0
    assert group["selected_words"] == "none; 3 ports usable on the hosts"
    assert "usable on the host, not offered by the plugin" in Page(page_of(sample)).words()


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


def test_a_limit_far_away_does_not_flatten_the_bars(sample: dict[str, Any]) -> None:
    sample["evidence"][0]["tests"] = [
        {"test": "ib_write_lat", "latency_us": {"typical": value}, "floor": {"max_us": 100000}, "verdict": "pass"}
        for value in (1.5, 3.0)
    ]
    rows = group_of(sample)["measured"][0]["rows"]
    assert [(row["width"], row["tick"]) for row in rows] == [("100.0", None), ("50.0", None)]


def test_hosts_without_facts_and_errors_of_the_plan_are_problems(sample: dict[str, Any]) -> None:
    del sample["facts"]["ib-a100-3"]
    sample["plan"]["groups"]["ib-a100"]["errors"] = [f"host ib-a100-{n} has no usable port (none)" for n in (1, 2)]
    group = group_of(sample)
    assert [item["text"] for item in group["problems"]] == [
        "2 hosts: each has no usable port (none)",
        "1 host without facts: not reached, or not discovered yet",
    ]
    assert group["state"] == "bad"
    assert "Group ib-a100 has a problem" in summary_of(sample)


def test_exclusive_namespaces_are_noted(sample: dict[str, Any]) -> None:
    sample["facts"]["ib-a100-2"]["kernel"]["rdma_netns"] = "exclusive"
    problem = group_of(sample)["problems"][0]
    assert problem["text"].startswith("RDMA namespaces are exclusive")
    assert problem["hosts"]["inline"] == "ib-a100-2"


# --- what was measured, and when --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ib_read_bw", "ib_send_lat", "all_reduce_perf"])
@pytest.mark.parametrize("verdict", ["fail", "error"])
def test_a_failure_of_any_test_is_a_problem(sample: dict[str, Any], name: str, verdict: str) -> None:
    sample["evidence"][0]["tests"].append(measurement("ib-a100-1", "ib-a100-2", None, verdict) | {"test": name})
    group = group_of(sample)
    assert group["state"] == "bad"
    assert (group["measurements"], group["failed"]) == (3, 1)
    assert f"1 of 3 measurements failed, such as {name} from ib-a100-1 mlx5_1" in Page(page_of(sample)).words()
    assert summary_of(sample).splitlines()[0] == "✕  Group ib-a100 has a problem"


def test_every_kind_of_test_is_shown_with_its_unit(sample: dict[str, Any]) -> None:
    read = measurement("ib-a100-1", "ib-a100-2", 190.0) | {"test": "ib_read_bw"}
    late = measurement("ib-a100-1", "ib-a100-2", None) | {"test": "ib_send_lat", "floor": {"max_us": 20}}
    late["latency_us"] = {"typical": None, "average": 2.5}
    sample["evidence"][0]["tests"] += [late, read]
    found = {item["title"]: (item["unit"], item["rows"][0]["text"]) for item in group_of(sample)["measured"]}
    assert list(found) == ["Write bandwidth", "Read bandwidth", "Send latency"]
    assert found["Read bandwidth"] == ("Gb/s", "190 Gb/s")
    assert found["Send latency"] == ("µs", "2.5 µs")


def untested(*hosts: str, defect: bool) -> list[dict[str, Any]]:
    reason = "the port has no RoCE v2 GID" if defect else "no other host has a port in its fabric"
    return [{"host": host, "device": "mlx5_1", "port": 1, "reason": reason, "defect": defect} for host in hosts]


def test_a_port_that_could_not_be_measured_is_a_problem_when_it_is_a_defect(sample: dict[str, Any]) -> None:
    sample["evidence"][0]["untested"] = untested("ib-a100-1", "ib-a100-2", defect=True)
    sample["evidence"][0]["untested"] += untested("ib-a100-3", defect=False)
    group = group_of(sample)
    assert group["state"] == "bad"
    assert [(item["state"], item["text"]) for item in group["problems"]] == [
        ("bad", "2 hosts mlx5_1 port 1: not measured, the port has no RoCE v2 GID"),
        ("info", "ib-a100-3 mlx5_1 port 1: not measured, no other host has a port in its fabric"),
    ]
    words = Page(page_of(sample)).words()
    assert "Group ib-a100 has a problem" in words
    assert "2 ports could not be measured." in words
    sample["evidence"][0]["untested"] = untested("ib-a100-3", defect=False)
    assert group_of(sample)["state"] == "ok"


def model_of(sample: dict[str, Any], **more: Any) -> dict[str, Any]:
    return build(sample["facts"], sample["plan"], sample["evidence"], sample["groups"], **more)


@pytest.mark.parametrize("tests", [None, []])
def test_no_measurement_where_there_should_be_one_does_not_look_like_success(
    sample: dict[str, Any], tests: list[Any] | None
) -> None:
    """Whether the group has an empty document or none at all."""
    sample["evidence"] = [] if tests is None else [{"schema": 1, "group": "ib-a100", "tests": tests, "untested": []}]
    model = model_of(sample, expected=["ib-a100-1", "ib-a100-2"])
    assert (model["verdict"]["state"], model["groups"][0]["state"]) == ("warn", "warn")
    assert model["verdict"]["text"] == "Group ib-a100 is planned, not measured. Read the notes"
    (item,) = [item for item in model["groups"][0]["problems"] if item["state"] == "warn"]
    assert item["text"] == "nothing was measured in this run, although 2 hosts could have been"
    assert "✓" not in render_summary(model)


def test_a_group_that_is_only_planned_is_not_called_ready(sample: dict[str, Any]) -> None:
    sample["groups"]["other"] = ["ib-a100-2"]
    sample["groups"]["ib-a100"] = ["ib-a100-1", "ib-a100-3"]
    sample["plan"]["groups"]["other"] = a100_plan([], ["ib-a100-2"])["groups"]["ib-a100"]
    model = model_of(sample)
    assert [(group["name"], group["state"]) for group in model["groups"]] == [("ib-a100", "ok"), ("other", "info")]
    assert model["verdict"]["state"] == "info"
    assert model["verdict"]["text"] == "1 of 2 groups is ready; not measured yet: other"
    assert "Planned, not measured" in Page(render_html(model)).words()


def saved(document: Any, name: str = "ib-a100.json", mtime: Any = 1700000000.0) -> list[Any]:
    text = document if isinstance(document, str) else json.dumps(document)
    return [{"path": f"/output/evidence/{name}", "mtime": mtime}, text]


def test_what_was_measured_earlier_says_so(sample: dict[str, Any]) -> None:
    (old,) = sample["evidence"]
    sample["evidence"] = []
    model = model_of(sample, earlier=[saved(old)])
    words = Page(render_html(model)).words()
    assert words.count("measured earlier: 2023-11-14 22:13 UTC") == 3
    sample["groups"] |= {f"another-{number}-" + "x" * 30: [] for number in range(4)}
    lines = render_summary(model_of(sample, earlier=[saved(old)])).splitlines()
    assert all(len(line) <= SUMMARY_WIDTH for line in lines)
    sample["groups"] = {"ib-a100": ["ib-a100-1", "ib-a100-2", "ib-a100-3"]}
    assert "Measured earlier, not in this run: ib-a100." in words
    assert model["groups"][0]["measurements"] == 2
    old["tests"].append(measurement("ib-a100-1", "ib-a100-2", 20, "fail"))
    model = model_of(sample, earlier=[saved(old)])
    assert model["groups"][0]["state"] == "bad"
    assert "1 of 3 measurements failed (measured earlier: 2023-11-14 22:13 UTC)" in Page(render_html(model)).words()
    # where this run was to measure, an old success is not enough
    del old["tests"][-1]
    model = model_of(sample, earlier=[saved(old)], expected=["ib-a100-1"])
    assert model["groups"][0]["state"] == "warn"


def test_what_was_measured_in_this_run_is_not_mixed_with_a_file(sample: dict[str, Any]) -> None:
    old = evidence_of("ib-a100", measurement("ib-a100-1", "ib-a100-2", 20, "fail"))
    model = model_of(sample, earlier=[saved(old)])
    assert model["groups"][0]["state"] == "ok"
    assert "earlier" not in Page(render_html(model)).words()


def test_files_that_say_nothing_of_this_cluster_are_left_out(sample: dict[str, Any]) -> None:
    gone = evidence_of("ib-v100", measurement("old-1", "old-2", 1, "fail"))
    moved = evidence_of("ib-a100", measurement("ib-a100-1", "left", 1, "fail"))
    files = [saved(gone, "ib-v100.json"), saved(moved), saved("{", "half.json"), saved({"schema": 9}, "new.json")]
    sample["evidence"] = []
    model = model_of(sample, earlier=files)
    assert model["groups"][0]["measurements"] == 0
    assert model["groups"][0]["state"] == "info"
    assert [(item["state"], item["text"].partition(": ")[0]) for item in model["notes"]] == [
        ("info", "ib-a100"),
        ("warn", "evidence/half.json is left out, it cannot be read"),
        ("warn", "evidence/new.json is left out, it cannot be read"),
        ("info", "Earlier measurements of what is no RDMA group any more are left out"),
    ]
    assert "old-1" not in Page(render_html(model)).words()


def test_evidence_of_another_form_is_left_out_with_the_place_that_is_wrong(sample: dict[str, Any]) -> None:
    (old,) = sample["evidence"]
    sample["evidence"] = []
    old["tests"][1]["bandwidth_gbps"] = {"peak": None, "average": "fast"}
    model = model_of(sample, earlier=[saved(old)])
    assert [item["text"] for item in model["notes"]] == [
        "evidence/ib-a100.json is left out, it cannot be read: tests[1].bandwidth_gbps.average is 'fast'; expected a number; put it "
        "right, or measure again"
    ]
    assert model["groups"][0]["measurements"] == 0


@given(JUNK, JUNK)
def test_junk_in_files_of_evidence_is_no_error(stat: Any, text: Any) -> None:
    files = [
        [stat, json.dumps(text)],
        [{"path": "x", "mtime": stat}, json.dumps({"schema": 1, "group": "g", "tests": text})],
    ]
    files += [stat, text, [stat, text]]
    model = build({}, {}, [], {"g": ["a"]}, earlier=files, expected=text)
    Page(render_html(model))
    assert all(len(line) <= SUMMARY_WIDTH for line in render_summary(model).splitlines())


def test_a_plan_that_is_kept_from_an_earlier_run_says_so(sample: dict[str, Any]) -> None:
    sample["plan"]["groups"]["ib-a100"]["kept"] = "from an earlier run: this one could not plan it"
    assert group_of(sample)["state"] == "warn"
    assert "the plan is from an earlier run: this one could not plan it" in Page(page_of(sample)).words()


def test_a_class_split_is_no_warning(sample: dict[str, Any]) -> None:
    """The sentence is the planner's own: when it changes there, it has to be known here."""
    hosts = {"ib-a100-1", "ib-a100-2"}
    plan = plan_group("ib-a100", {host: sample["facts"][host] for host in hosts}, {"resource": {"name": "x"}})
    assert len(plan["classes"]) == 2
    sample["plan"]["groups"]["ib-a100"]["warnings"] = plan["warnings"]
    sample["plan"]["groups"]["ib-a100"]["notes"] = plan.get("notes", [])
    group = group_of(sample)
    assert group["state"] == "ok"
    assert {item["state"] for item in group["problems"]} == {"info"}
    sample["plan"]["groups"]["ib-a100"]["warnings"].append("something else")
    assert group_of(sample)["state"] == "warn"


# --- harmless -----------------------------------------------------------------------------------------------------------


def poison(value: Any) -> Any:
    """The same structure with hostile text at the end of every string."""
    if isinstance(value, dict):
        return {key: poison(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poison(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_hostile_text_changes_no_markup(sample: dict[str, Any]) -> None:
    hosts = {host: host + HOSTILE for host in sample["facts"]}
    bad = {
        "facts": {hosts[host]: poison(facts) for host, facts in sample["facts"].items()},
        "plan": {"schema": 1, "groups": {"g" + HOSTILE: poison(sample["plan"]["groups"]["ib-a100"])}},
        "evidence": [{"schema": 1, "group": "g" + HOSTILE, "tests": poison(sample["evidence"][0]["tests"])}],
        "groups": {"g" + HOSTILE: list(hosts.values())},
    }
    page = page_of(bad, title=HOSTILE, generated=HOSTILE)
    parsed = Page(page)
    assert {tag for tag, _attributes in parsed.tags} <= {tag for tag, _attributes in Page(page_of(sample)).tags} | {
        "h3",
        "li",
    }
    assert "{{ 7 * 7 }}" in parsed.text
    assert "49" not in re.sub(r"[0-9a-f.:]*49[0-9a-f.:]*", "", parsed.text)
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("script", "iframe", "img", "object", "base", "form", "link")
        assert not re.search(r"[^0-9a-z:.%-]", attributes.get("style") or "")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", page)
    page.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", summary_of(bad))


def test_the_page_needs_nothing_from_outside(sample: dict[str, Any]) -> None:
    page = page_of(sample)
    assert not re.search(r"https?:|url\(|@import|\bsrc=", page)
    assert "default-src 'none'" in page


def replaced(value: Any, number: int, with_value: Any) -> tuple[Any, int]:
    """The structure with its number-th node replaced; and how many nodes are left to count."""
    if number == 0:
        return with_value, -1
    number -= 1
    if isinstance(value, dict):
        result: Any = {}
        for key, item in value.items():
            result[key], number = replaced(item, number, with_value) if number >= 0 else (item, number)
        return result, number
    if isinstance(value, list):
        result = []
        for item in value:
            new, number = replaced(item, number, with_value) if number >= 0 else (item, number)
            result.append(new)
        return result, number
    return value, number


@given(number=st.integers(1, 900), junk=JUNK)
def test_junk_anywhere_gives_a_page_or_a_plain_error(number: int, junk: Any) -> None:
    host = "ib-a100-1"
    document = {
        "facts": {host: facts_of(host)},
        "plan": a100_plan([host], []),
        "evidence": [{"schema": 1, "group": "ib-a100", "tests": [measurement(host, host, 1.0)]}],
        "groups": {"ib-a100": [host]},
    }
    changed, _left = replaced(document, number, junk)
    try:
        model = build(changed.get("facts"), changed.get("plan"), changed.get("evidence"), changed.get("groups"))
    except ReportError:
        return
    Page(render_html(model))
    assert all(len(line) <= SUMMARY_WIDTH for line in render_summary(model).splitlines())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0, -1.5, 10**400])
@pytest.mark.parametrize("part", ["average", "floor", "all"])
def test_a_figure_that_cannot_be_is_no_result(sample: dict[str, Any], part: str, value: float) -> None:
    """Evidence of earlier runs, or of somebody else: it does not look like success, and no bar has a width that is none."""
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


def test_clean() -> None:
    assert clean("a\tb\r\nc") == "a b c"
    assert clean("\x1b[2J\udcff\u202e") == "\ufffd[2J\ufffd\ufffd"
    assert clean("x" * 50, 10) == "x" * 9 + "…"
    assert clean(None) == "None"


# --- stable, small, readable --------------------------------------------------------------------------------------------


def test_the_same_input_in_another_order_gives_the_same_bytes(sample: dict[str, Any]) -> None:
    turned = copy.deepcopy(sample)
    turned["facts"] = dict(reversed(list(turned["facts"].items())))
    turned["groups"]["ib-a100"].reverse()
    assert page_of(sample) == page_of(turned)
    assert summary_of(sample) == summary_of(turned)


@pytest.mark.parametrize(("alike", "size"), [(True, 500_000), (False, 5_000_000)])
def test_a_thousand_hosts(alike: bool, size: int) -> None:
    hosts = [f"gpu-node-{number:04}.cluster.example.com" for number in range(1000)]
    base = facts_of("ib-a100-1")
    facts = {}
    for number, host in enumerate(hosts):
        facts[host] = json.loads(json.dumps(base))
        # what is every node's own never makes it another kind of node
        facts[host]["devices"][0]["node_guid"] = f"b8ce:f603:0010:{number:04x}"
        facts[host]["devices"][1]["ports"][0]["lid"] = number
        if not alike:
            facts[host]["devices"][0]["firmware"] = f"20.38.{number}"
    tests = [
        measurement(client, server, 190.0 + index % 7)
        for index, (client, server) in enumerate(itertools.pairwise(hosts))
    ]
    started = time.monotonic()
    model = build(facts, a100_plan(hosts, []), [{"schema": 1, "group": "ib-a100", "tests": tests}], {"ib-a100": hosts})
    page = render_html(model)
    seconds = time.monotonic() - started
    print(
        f"\n1000 hosts, {'alike' if alike else 'all different'}: {len(page.encode()) / 1e6:.2f} MB in {seconds:.1f} s"
    )
    assert len(page.encode()) < size
    assert seconds < limit(30)
    assert hosts[-1] in page
    Page(page)


def test_the_summary_fits_a_terminal(sample: dict[str, Any]) -> None:
    lines = summary_of(sample).splitlines()
    assert lines[0] == "✓  Group ib-a100 is ready"
    assert "✓  ib-a100  3      rdma/rdma_a100  1 x 200 Gb/s InfiniBand  194 to 196 Gb/s" in lines
    sample["groups"].update({f"a-group-with-a-rather-long-name-{number}": ["nowhere"] for number in range(8)})
    sample["plan"]["groups"]["ib-a100"]["warnings"] = ["x" * 300, "word " * 80]
    lines = summary_of(sample).splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= SUMMARY_WIDTH for line in lines)


def test_people_who_do_not_see_colours_or_use_a_mouse(sample: dict[str, Any]) -> None:
    parsed = Page(page_of(sample))
    assert [tag for tag, _attributes in parsed.tags].count("h1") == 1
    assert dict(parsed.tags)["html"]["lang"] == "en"
    headers = [attributes for tag, attributes in parsed.tags if tag == "th"]
    assert headers
    assert all(attributes.get("scope") in ("row", "col") for attributes in headers)
    ids = [attributes["id"] for _tag, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _tag, attributes in parsed.tags:
        for name in ("href", "aria-labelledby"):
            target = (attributes.get(name) or "").removeprefix("#")
            assert not target or target in ids


def test_time_appears_only_when_given(sample: dict[str, Any]) -> None:
    assert not re.search(r"20\d\d-\d\d", Page(page_of(sample)).text)
    assert "2026-01-02" in Page(page_of(sample, generated="2026-01-02")).words()


def test_nothing_at_all_is_no_error() -> None:
    model = build({}, {}, [], {})
    assert "No RDMA group to report on" in Page(render_html(model)).words()
    assert "No RDMA group to report on" in render_summary(model)
    model = build(None, None, None, {"g": ["a", "b"]})
    assert "2 hosts without facts" in Page(render_html(model)).words()


@pytest.mark.parametrize("render", [rdma_report_html, rdma_report_summary])
def test_filters(sample: dict[str, Any], render: Any) -> None:
    arguments = [sample["facts"], sample["plan"], sample["evidence"], sample["groups"]]
    assert "ib-a100" in render(*arguments)
    with pytest.raises(AnsibleFilterError, match="facts: expected a dictionary, found list"):
        render([], *arguments[1:])
    with pytest.raises(AnsibleFilterError, match="plan: schema 9 is not known"):
        render(arguments[0], {"schema": 9}, *arguments[2:])
    with pytest.raises(AnsibleFilterError, match="evidence: expected a list"):
        render(*arguments[:2], {"schema": 1}, arguments[3])


def test_what_failed_for_more_than_a_node_comes_first() -> None:
    failure = "The plan failed: <b>no</b> room"
    model = build({}, {}, [], {"a": ["n1"]}, failures=[failure, ""])
    assert model["verdict"]["state"] == "bad"
    assert model["verdict"]["text"].startswith("The run did not do all of its work; ")
    page = render_html(model)
    assert "What failed for more than a node" in page
    assert "The plan failed: &lt;b&gt;no&lt;/b&gt; room" in page
    assert render_summary(model).partition("✕  The plan failed")[2]
    assert "What failed for more than a node" not in render_html(build({}, {}, [], {"a": ["n1"]}))

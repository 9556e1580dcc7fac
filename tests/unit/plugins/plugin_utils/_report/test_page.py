# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: what it says, that it harms nobody, that it stays small."""

from __future__ import annotations

import itertools
import json
import re
import time
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import (
    completed_with,
    document_of,
    render_json,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.metrics import render_metrics
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.ticket import render_ticket
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.exposition import read_metrics
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    Page,
    a100_plan,
    facts_of,
    measurement,
    model_of,
    page_of,
    summary_of,
)
from ansible_collections.fabric.rdma.tests.unit.schemas import checked


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


def poison(value: Any) -> Any:
    """The same structure with hostile text at the end of every string."""
    if isinstance(value, dict):
        return {key: poison(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poison(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value


HOSTILE = "</td><script>alert(1)</script>{{ 7 * 7 }}{% raw %}\" onload='x' javascript:x \x1b[31m\udcff\u202e&amp;"


def harmless(page: str) -> Page:
    """A page in which nothing but its own markup is."""
    parsed = Page(page)
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("script", "iframe", "img", "object", "base", "form", "link")
        assert not re.search(r"[^0-9a-z:.%-]", attributes.get("style") or "")
        assert re.fullmatch(r"[Mhvlmz0-9 .-]*", attributes.get("d") or "")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", page)
    page.encode("utf-8")
    return parsed


def test_hostile_text_changes_no_markup(sample: dict[str, Any]) -> None:
    hosts = {host: host + HOSTILE for host in sample["facts"]}
    bad = {
        "facts": {hosts[host]: poison(facts) for host, facts in sample["facts"].items()},
        "plan": {"schema": 1, "groups": {"g" + HOSTILE: poison(sample["plan"]["groups"]["ib-a100"])}},
        "evidence": [{"schema": 1, "group": "g" + HOSTILE, "tests": poison(sample["evidence"][0]["tests"])}],
        "groups": {"g" + HOSTILE: list(hosts.values())},
    }
    page = page_of(bad, title=HOSTILE, generated=HOSTILE)
    parsed = harmless(page)
    assert {tag for tag, _attributes in parsed.tags} <= {tag for tag, _attributes in Page(page_of(sample)).tags} | {
        "h3",
        "li",
        "ol",
    }
    assert "{{ 7 * 7 }}" in parsed.text
    assert "49" not in re.sub(r"[0-9a-f.:]*49[0-9a-f.:]*", "", parsed.text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", summary_of(bad))


def test_hostile_text_in_every_leaf_of_every_document_changes_nothing() -> None:
    """All parts of a page are there: findings, history, pictures, links, fabric, versions."""
    honest = a_cluster(40)
    bad = {key: poison(value) for key, value in honest.items() if key not in ("facts", "groups", "files")}
    bad["facts"] = {host + HOSTILE: poison(facts) for host, facts in honest["facts"].items()}
    bad["groups"] = {name + HOSTILE: poison(hosts) for name, hosts in honest["groups"].items()}
    bad["plan"]["groups"] = {name + HOSTILE: group for name, group in bad["plan"]["groups"].items()}
    bad["files"] = [[told, json.dumps(poison(json.loads(text)))] for told, text in honest["files"]]
    for group in bad["evidence"]:
        for test, own in zip(group["tests"], honest["evidence"][0]["tests"], strict=True):
            # words that are looked for
            test.update({key: own[key] for key in ("level", "verdict")})
    model = build(**bad, title=HOSTILE, generated=HOSTILE)
    other = document_of(build(**{**bad, "evidence": [], "files": []}))
    model, document = completed_with(model, other)
    parsed = harmless(render_html(model))
    ours = {tag for tag, _attributes in Page(render_html(a_history(honest)[0])).tags}
    assert {tag for tag, _attributes in parsed.tags} <= ours
    assert {"svg", "ol", "dl"} <= {tag for tag, _attributes in parsed.tags}
    checked("report", json.loads(render_json(document)))
    read_metrics(render_metrics(document))
    for text in (render_summary(model), render_ticket(model), render_json(document), render_metrics(document)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", text)


def test_the_page_needs_nothing_from_outside(sample: dict[str, Any]) -> None:
    page = page_of(sample)
    assert not re.search(r"https?:|url\(|@import|\bsrc=", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(("alike", "size"), [(True, 500_000), (False, 5_000_000)])
def test_a_page_of_a_thousand_hosts_stays_small(alike: bool, size: int) -> None:
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


def test_a_screen_reader_finds_language_headers_and_targets(sample: dict[str, Any]) -> None:
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


def test_headings_are_in_order_and_every_table_and_picture_has_a_name() -> None:
    for page in (render_html(a_history(a_cluster(30))[0]), render_html(a_history(a_cluster(3))[0])):
        parsed = Page(page)
        levels = [int(tag[1]) for tag, _attributes in parsed.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
        tables = [attributes for tag, attributes in parsed.tags if tag == "table"]
        captions = [tag for tag, _attributes in parsed.tags if tag == "caption"]
        assert len(tables) == len(captions) + len([each for each in tables if "aria-label" in each])
        for tag, attributes in parsed.tags:
            if tag == "svg":
                assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label"), attributes


def test_time_appears_only_when_given(sample: dict[str, Any]) -> None:
    assert not re.search(r"20\d\d-\d\d", Page(page_of(sample)).text)
    assert "2026-01-02" in Page(page_of(sample, generated="2026-01-02")).words()


def a_record(**more: Any) -> list[Any]:
    """state.json of a system, as Ansible finds and reads it."""
    record = {
        "schema": 1,
        "system": "secondary_network",
        "state": "applied",
        "summary": [["network fabric (roce)", "macvlan on enp1s0f0np0"]],
        "problems": [],
        "warnings": ["group roce: two netdevs of a host are in one subnet"],
        "uses": {
            "fabric": {"annotations": {"k8s.v1.cni.cncf.io/networks": "default/fabric"}, "resources": {"rdma/roce": 1}}
        },
        "workloads": {"workloads/roce-fabric.yaml": "kind: Pod\nmetadata: {name: fabric}\n"},
        **more,
    }
    return [{"path": f"/output/systems/{record['system']}/state.json"}, json.dumps(record)]


def test_systems_are_shown_with_their_state_and_what_pods_take(sample: dict[str, Any]) -> None:
    page = render_html(
        model_of(sample, systems=[a_record()], wished=["device_plugin", "secondary_network", "longhorn"])
    )
    words = Page(page).words()
    for text in (
        "secondary_network ✓ Applied",
        "longhorn i Planned",
        "network fabric (roce) macvlan on enp1s0f0np0",
        "group roce: two netdevs of a host are in one subnet",
        "k8s.v1.cni.cncf.io/networks: default/fabric",
        "rdma/roce: 1",
        "systems/secondary_network/workloads/roce-fabric.yaml",
        "kind: Pod metadata: {name: fabric}",
    ):
        assert text in words, text
    assert "What else the cluster gets" not in page_of(sample)


def test_a_system_that_was_refused_is_a_note_on_top(sample: dict[str, Any]) -> None:
    record = a_record(system="vgpu", state="refused", problems=["host gpu-1 without the runtime nvidia"])
    model = model_of(sample, systems=[record])
    assert [note["text"] for note in model["notes"]] == ["vgpu was refused: host gpu-1 without the runtime nvidia"]
    words = Page(render_html(model)).words()
    assert "vgpu ✕ Refused" in words
    assert "nobody asks for it any more" in words


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 2, "system": "x", "state": "applied"}', "[" * 100000])
def test_a_state_that_nobody_can_read_is_a_note(sample: dict[str, Any], text: str) -> None:
    model = model_of(sample, systems=[[{"path": "/output/systems/x/state.json"}, text]])
    assert [note["text"] for note in model["notes"]] == ["/output/systems/x/state.json is not what a run has written"]
    assert model["systems"] == []


def test_hostile_text_of_systems_and_findings_changes_no_markup(sample: dict[str, Any]) -> None:
    [told, text] = a_record(problems=["p"])
    record = poison(json.loads(text)) | {"state": "refused"}
    record["workloads"] = {"workloads/" + HOSTILE: HOSTILE + "\n" + HOSTILE}
    record["uses"] = {HOSTILE: {"annotations": {HOSTILE: HOSTILE}, "resources": {HOSTILE: HOSTILE}}}
    findings = ["group ib-a100: " + HOSTILE]
    honest = {tag for tag, _attributes in Page(render_html(model_of(sample, systems=[a_record()], wished=["x"]))).tags}
    parsed = Page(
        render_html(model_of(sample, systems=[[told, json.dumps(record)]], wished=[HOSTILE], findings=findings))
    )
    assert {tag for tag, _attributes in parsed.tags} == honest
    assert not [name for _tag, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert "{{ 7 * 7 }}" in parsed.text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", parsed.text)


def test_findings_on_roce_settings_stand_with_their_group(sample: dict[str, Any]) -> None:
    sample["groups"]["ib"] = []
    findings = [
        "group ib-a100: ports differ in the MTU: 9000 on a; 1500 on b",
        "group ib: x",
        "group gone: y",
        "no group",
    ]
    groups = {group["name"]: group for group in model_of(sample, findings=findings)["groups"]}
    texts = [item["text"] for item in groups["ib-a100"]["problems"]]
    assert "RoCE: ports differ in the MTU: 9000 on a; 1500 on b" in texts
    assert groups["ib-a100"]["state"] == "warn"
    assert "RoCE: x" in [item["text"] for item in groups["ib"]["problems"]]
    assert "RoCE: ports differ in the MTU" in Page(render_html(model_of(sample, findings=findings))).words()

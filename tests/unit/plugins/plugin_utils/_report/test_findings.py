# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: from whatever file, with their group, merged, worst first; and what traffic says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    JUNK,
    Page,
    group_of,
    measurement,
    model_of,
    saved,
)

Json = dict[str, Any]


def a_finding(**given: Any) -> Json:
    return {
        "id": "pcie-narrow",
        "severity": "error",
        "group": "ib-a100",
        "hosts": ["ib-a100-2"],
        "cause": "the PCIe link is narrow",
        "evidence": ["x8 of x16"],
        "remedy": "reseat the card",
        **given,
    }


def with_findings(sample: Json, *findings: Json) -> Json:
    return model_of(sample, files=[saved({"findings": list(findings)}, "doctor.json")])


def test_remedies_come_first_and_say_where_they_are_from(sample: Json) -> None:
    page = render_html(with_findings(sample, a_finding()))
    words = Page(page).words()
    assert (
        "What to do ✕ Error the PCIe link is narrow Remedy reseat the card Evidence x8 of x16 "
        "pcie-narrow (doctor.json, 2023-11-14 22:13 UTC). Group ib-a100. 1 node: ib-a100-2"
    ) in words
    assert words.index("What to do ✕") < words.index("Usable nodes")


@pytest.mark.parametrize(("severity", "state"), [("error", "bad"), ("warning", "warn"), ("note", "ok")])
def test_a_finding_changes_the_verdict_on_its_group(sample: Json, severity: str, state: str) -> None:
    model = with_findings(sample, a_finding(severity=severity))
    assert model["groups"][0]["state"] == state
    assert model["verdict"]["state"] == state


def test_a_finding_without_a_group_gets_that_of_its_hosts_or_is_for_all(sample: Json) -> None:
    model = with_findings(sample, a_finding(group=""), a_finding(id="y", group="", hosts=[], cause="the switch is hot"))
    assert {each["id"]: each["group"] for each in model["findings"]} == {"pcie-narrow": "ib-a100", "y": ""}
    sample["groups"]["other"] = []
    model = with_findings(sample, a_finding(group="", hosts=[], cause="the switch is hot"))
    assert model["groups"][0]["state"] == "ok"
    assert model["verdict"]["state"] == "bad"


def test_a_problem_of_no_group_is_in_the_headline(sample: Json) -> None:
    model = with_findings(sample, a_finding(group="", hosts=[]))
    assert model["verdict"]["text"] == "A problem was found that is not of one group; group ib-a100 is ready"


def test_the_same_finding_of_several_hosts_is_one_and_errors_come_first(sample: Json) -> None:
    findings = [a_finding(hosts=[f"ib-a100-{number}"], evidence=[f"e{number}"]) for number in (3, 1, 2)]
    model = with_findings(sample, a_finding(severity="note", id="n"), *findings, a_finding(severity="warning", id="w"))
    assert [each["id"] for each in model["findings"]] == ["pcie-narrow", "w", "n"]
    assert model["findings"][0]["names"] == ["ib-a100-1", "ib-a100-2", "ib-a100-3"]


def test_what_many_hosts_have_alike_is_one_finding_on_the_page_and_all_of_it_in_the_data(sample: Json) -> None:
    def told(host: str, device: str, errors: int) -> Json:
        cause = f"{host}: {device} port 1 has had errors"
        remedy = f"`lspci -s 0000:{errors:02x}:00.0` on {host}"
        return a_finding(id="e", hosts=[host], cause=cause, evidence=[f"symbol_error: {errors}"], remedy=remedy)

    hosts = [f"ib-a100-{number}" for number in range(1, 31)]
    sample["groups"]["ib-a100"] = hosts
    few = [told(host, "mlx5_7", 3) for host in hosts[:2]]
    model = with_findings(sample, *(told(host, "mlx5_3", 10 + at) for at, host in enumerate(hosts)), *few)
    many, *others = (each for each in model["findings"] if each["id"] == "e")
    assert many["cause"] == "ib-a100-1: mlx5_3 port 1 has had errors (and 29 more like it)"
    assert many["names"] == hosts
    assert many["evidence"][:2] == ["ib-a100-1: symbol_error: 10", "ib-a100-2: symbol_error: 11"]
    assert many["remedy"] == "`lspci -s 0000:0a:00.0` on ib-a100-1"
    # another device is another cause, and two of a kind are few
    assert [each["names"] for each in others] == [["ib-a100-1"], ["ib-a100-2"]]
    assert len([each for each in model["all_findings"] if each["id"] == "e"]) == 32
    assert len([item for item in model["groups"][0]["all_problems"] if "has had errors" in item["text"]]) == 3


def test_no_paragraph_has_a_list_that_unfolds_in_it(sample: Json) -> None:
    """A browser ends the paragraph there, and what follows stands below it and in another size."""
    hosts = [f"ib-a100-{number}" for number in range(1, 31)]
    sample["groups"]["ib-a100"] = hosts
    page = render_html(with_findings(sample, a_finding(hosts=hosts)))
    assert "and 26 more</summary>" in page
    # nothing comes behind such a list: it would stand on a line of its own
    assert re.search(r"</details>\s*</div>\s*</li>", page)
    assert not re.search(r"<p[ >](?:(?!</p>).)*?<(?:details|div|ul)\b", page, re.DOTALL)


def test_traffic_that_fails_is_a_finding_with_its_remedy_and_the_host_that_all_have_in_common(sample: Json) -> None:
    hosts = [f"h{number}" for number in range(8)]
    sample["groups"] = {"ib-a100": hosts}
    sample["evidence"][0]["tests"] = [measurement("h0", host, 10.0, "fail") for host in hosts[1:]]
    [finding] = model_of(sample)["findings"]
    assert finding["names"] == ["h0"]
    assert (
        finding["cause"] == "ib_write_bw is not within its limit in 7 of 7 measurements; h0 has a part in all of them"
    )
    assert finding["remedy"] == "look at the ports, cables and PCIe links of h0 first"
    sample["evidence"][0]["tests"][0].update(
        verdict="error", bandwidth_gbps=None, message="Couldn't allocate MR", remedy="lift it"
    )
    assert {each["remedy"] for each in model_of(sample)["findings"]} >= {"lift it"}


def test_outliers_of_the_evidence_are_warnings_and_marked(sample: Json) -> None:
    outlier = {
        "kind": "pair",
        "level": "hosts",
        "test": "ib_write_bw",
        "ends": [{"host": host, "device": "mlx5_1", "port": 1} for host in ("ib-a100-1", "ib-a100-3")],
        "figure": 195.6,
        "median": 390.0,
        "unit": "Gb/s",
        "of": 12,
        "message": "far below the median of 390 Gb/s",
        "remedy": "look at the cable",
    }
    sample["evidence"][0]["outliers"] = [outlier]
    model = model_of(sample)
    [finding] = model["findings"]
    assert (finding["severity"], finding["remedy"]) == ("warning", "look at the cable")
    assert [row["far"] for row in model["groups"][0]["measured"][0]["all"]] == [True, True]
    assert "far from the median of 390 Gb/s" in Page(render_html(model)).words()
    assert group_of(sample)["state"] == "warn"


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_a_note(sample: Json, text: str) -> None:
    model = model_of(sample, files=[[{"path": "/out/doctor.json", "mtime": 0}, text]])
    assert model["notes"][0]["text"].startswith("doctor.json is left out, it cannot be read: ")


def test_what_the_doctor_could_not_look_at_is_a_note_and_no_problem(sample: Json) -> None:
    """That it has found nothing says nothing then."""
    unread = ["there is no kubeconfig", "host x: the journal cannot be read"]
    document = {"findings": [], "unread": unread}
    model = model_of(sample, files=[saved(document, "doctor.json")])
    told = "doctor.json, 2023-11-14 22:13 UTC: not looked at: there is no kubeconfig (and 1 more, in the file)"
    assert model["notes"] == [{"state": "info", "text": told}]
    assert model["verdict"] == model_of(sample)["verdict"]
    assert told in Page(render_html(model)).words()
    assert model_of(sample, files=[saved({"findings": [], "unread": []}, "doctor.json")])["notes"] == []


@given(JUNK)
def test_junk_in_such_files_is_no_error(junk: Any) -> None:
    for document in (
        junk,
        {"findings": junk},
        {"unread": junk},
        {"findings": [a_finding(hosts=junk, evidence=junk, remedy=junk)]},
    ):
        files = [[{"path": "/out/doctor.json", "mtime": junk}, json.dumps(document, default=str)]]
        Page(render_html(build({}, {}, [], {"g": ["a"]}, files=files)))

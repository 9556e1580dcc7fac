# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as data: its form, that nothing is lost in it, that it is the same for the same input."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import contract_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import document_of, render_json
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import model_of
from ansible_collections.fabric.rdma.tests.unit.schemas import checked


def test_it_has_the_form_of_its_schema(sample: dict[str, Any]) -> None:
    for document in (
        document_of(model_of(sample)),
        document_of(build({}, {}, [], {"g": ["a"]})),
        a_history(a_cluster(14))[1],
    ):
        again = checked("report", json.loads(render_json(document)))
        assert again == document
        assert contract_problems("report", again) == []


def test_every_measurement_and_every_finding_is_in_it() -> None:
    parts = a_cluster(40)
    # more findings than a page shows
    many = [
        {
            "id": f"x-{number}",
            "severity": "note",
            "group": "",
            "hosts": [],
            "cause": f"c{number}",
            "evidence": [],
            "remedy": "",
        }
        for number in range(100)
    ]
    parts["files"].append([{"path": "/out/doctor.json", "mtime": 0}, json.dumps({"findings": many})])
    model = build(**parts)
    document = document_of(model)
    assert len(document["groups"]["gpu-roce"]["measurements"]) == len(parts["evidence"][0]["tests"])
    assert len([each for each in document["findings"] if each["id"].startswith("x-")]) == 100
    assert len(model["findings"]) + model["more_findings"] == len(document["findings"])
    assert {port["leaf"] for port in document["groups"]["gpu-roce"]["nodes"]["gpu-node-40"]["ports"]} == {
        f"leaf-2-rail{rail}" for rail in range(8)
    }


def test_the_same_input_in_another_order_gives_the_same_bytes(sample: dict[str, Any]) -> None:
    text = render_json(document_of(model_of(sample)))
    sample["groups"]["ib-a100"].reverse()
    sample["evidence"][0]["tests"].reverse()
    sample["facts"] = dict(reversed(sample["facts"].items()))
    assert render_json(document_of(model_of(sample))) == text

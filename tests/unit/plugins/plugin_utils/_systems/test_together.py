# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases that nobody has tried together are warned of, and the documentation has the table that decides it."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DRA_LINES,
    GPU_LINES,
    LINES,
    LONGHORN_IMAGES,
    TOGETHER,
    VOLCANO_LINES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.together import untried
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

NODES = {
    "a": {"kubelet": "v1.36.3"},
    "b": {"kubelet": "v1.36.3"},
    "c": {"kubelet": "v1.34.2+k3s1"},
    "d": {"kubelet": None},
}


def a_chart(name: str, version: str) -> Chart:
    own = {"release": "r", "namespace": "n", "repository": None, "values": {}, "privileged": False}
    return t.cast(Chart, {**own, "chart": name, "version": version})


@pytest.mark.parametrize(
    ("chart", "version", "said"),
    [
        (
            "volcano",
            "1.15.1",
            ["Volcano 1.15 is published for Kubernetes 1.24 to 1.35, not for the 1.36 of nodes a and b"],
        ),
        ("longhorn", "1.12.1", []),
        ("gpu-operator", "v26.3.3", []),
        (
            "gpu-operator",
            "v25.10.1",
            ["GPU Operator 25.10 is published for Kubernetes 1.30 to 1.34, not for the 1.36 of nodes a and b"],
        ),
        ("gpu-operator", "v25.3.4", ["the 1.36 of nodes a and b", "the 1.34 of node c"]),
        # a line that the table does not know, a chart of somebody else, a preview
        ("gpu-operator", "v27.1.0", []),
        ("spiderpool", "1.2.2", []),
        ("volcano", "1.15.1-alpha.1", []),
    ],
)
def test_a_cluster_that_a_release_is_not_published_for_is_warned_of(chart: str, version: str, said: list[str]) -> None:
    found = untried([a_chart(chart, version)], NODES, None)
    assert len(found) == len(said)
    for word in said:
        assert any(word in each for each in found), found
    assert untried([a_chart(chart, version)], None, None) == []


@pytest.mark.parametrize(
    ("operator", "driver", "said"),
    [
        (
            "v26.3.3",
            "0.5.0",
            "NVIDIA's DRA driver 0.5 is not what the GPU Operator 26.3 is published with, which is 25.12 or 0.4",
        ),
        ("v26.3.3", "0.4.1", None),
        # of which nothing is said
        ("v25.3.4", "0.5.0", None),
        ("v27.1.0", "0.5.0", None),
        (None, "0.5.0", None),
    ],
)
def test_two_releases_that_are_not_published_together_are_warned_of(
    operator: str | None, driver: str, said: str | None
) -> None:
    charts = [a_chart("oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu", driver)]
    found = untried(charts, None, {"version": operator})
    assert len(found) == bool(said)
    assert not said or said in found[0]
    assert untried(charts, None, {"version": operator, "enabled": False}) == []


def test_every_request_is_looked_at() -> None:
    site = a_site({"g": ({}, [])})
    request = request_of("gpu_operator", {"version": "v25.3.4"}, site, {**NOTHING_KNOWN, "nodes": NODES})
    assert [each for each in request["warnings"] if "is published for Kubernetes 1.29 to 1.33" in each]


def test_every_line_that_can_be_chosen_has_a_row_but_those_of_which_nothing_is_said() -> None:
    lines = {
        "Network Operator": set(LINES) - {(26, 7)},
        "GPU Operator": set(GPU_LINES),
        "NVIDIA's DRA driver": set(DRA_LINES),
        "Longhorn": set(LONGHORN_IMAGES),
        "Volcano": set(VOLCANO_LINES),
    }
    assert {name: set(rows) for name, rows in TOGETHER.items()} == lines


def test_the_documentation_has_the_same_table() -> None:
    section = (ROOT / "docs" / "support.md").read_text().partition("## What goes together\n")[2].partition("\n## ")[0]
    shown = [
        tuple(cell.strip() for cell in line.split("|")[1:-1])
        for line in section.splitlines()
        if re.match(r"\| [A-Z]", line)
    ]
    table = []
    for name, rows in TOGETHER.items():
        for line, row in rows.items():
            oldest, newest = row.kubernetes
            span = f"1.{oldest} and newer" if newest is None else f"1.{oldest} to 1.{newest}"
            table.append((f"{name} {in_dots(line)}", span, ", ".join(map(in_dots, row.dra_driver))))
    assert shown == table

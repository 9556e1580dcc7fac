# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node: its ports, its cards, what the plan says of them."""

from __future__ import annotations

from typing import Any

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of as discovered
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    Page,
    facts_of,
    group_of,
    page_of,
)


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


def test_a_software_device_is_drawn_where_its_function_is() -> None:
    machine = Machine()
    machine.soft_roce(numa_node=1)
    machine.port(machine.hca("rxe0", None, parent="eth0"))
    model = build({"n": discovered(machine)}, {}, [], {"lab": ["n"]})
    [group] = model["groups"]
    panels = group["kinds"][0]["node"]["panels"]
    assert [(panel["title"], [[view["name"] for view in card] for card in panel["cards"]]) for panel in panels] == [
        ("NUMA node 1", [["mlx5_0"]]),
        ("Software devices", [["rxe0"]]),
    ]
    assert [view["notes"] for view in group["kinds"][0]["node"]["devices"]] == ["software", "software"]


def test_a_port_that_the_plugin_cannot_offer_is_not_called_selected(sample: dict[str, Any]) -> None:
    for item in sample["plan"]["groups"]["ib-a100"]["classes"]:
        item.update(matches={}, config=None, selectors={})
    group = group_of(sample)
    assert group["selected"] == 0
    assert group["selected_words"] == "none; 3 ports usable on the hosts"
    assert "usable on the host, not offered by the plugin" in Page(page_of(sample)).words()

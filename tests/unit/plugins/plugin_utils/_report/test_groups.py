# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group: its kinds of nodes, its resources."""

from __future__ import annotations

from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.contracts import a_plan, plan_group
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import (
    CAPTURES,
    Page,
    group_of,
    page_of,
    summary_of,
)


def test_nodes_that_look_the_same_share_a_card(sample: dict[str, Any]) -> None:
    kinds = group_of(sample)["kinds"]
    assert [(kind["host"], kind["hosts"]["count"]) for kind in kinds] == [("ib-a100-1", 2), ("ib-a100-2", 1)]


def test_each_rail_is_shown_with_its_resource() -> None:
    subsets = ("devices", "gpus", "kernel", "management")
    hosts = {f"rail-{n}": gather(open_tree(str(CAPTURES / f"roce-rails-{n}.capture")), subsets) for n in (1, 2)}
    wishes = {"resource": {"name": "roce"}, "want": {"link_layer": "Ethernet"}, "rails": True}
    plan = a_plan(rails=plan_group("rails", hosts, wishes))
    rails = {"facts": hosts, "plan": plan, "evidence": [], "groups": {"rails": list(hosts)}}
    words = Page(page_of(rails)).words()
    for number in range(1, 9):
        assert f"rdma/roce_gpu{number} : interface enp{10 + number}s0f0np0" in words
    assert "rdma/roce_gpu1..8" in summary_of(rails)

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo's recorded nodes get is written down: plan, objects and report change only when somebody means them to.

Their facts are written down beside the captures (test_capture_trees.py). Where a change is meant, write all of it down again:
python -m ansible_collections.fabric.rdma.tests.unit.test_demo_inventory (in .collections).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.filter.rdma_manifests import rdma_manifests
from ansible_collections.fabric.rdma.plugins.filter.rdma_report import rdma_report
from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import OPERATOR
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "inventories" / "demo" / "group_vars"
CAPTURES = ROOT / "tests" / "captures"
HOSTS = {
    "gb200": ["gb200-1", "gb200-2"],
    "ib-a100": ["a100-1", "a100-2", "a100-3"],
    "ib-v100": ["v100-1", "v100-2"],
    "roce-rails": ["rails-1", "rails-2"],
}


@functools.cache
def planned() -> tuple[dict[str, Any], Plan]:
    """Facts and plan of the groups of recorded nodes."""
    facts, groups = {}, {}
    for group, hosts in HOSTS.items():
        wishes = yaml.safe_load((DEMO / f"{group}.yml").read_text())
        capture = Path(wishes["rdma_capture"]).name
        for host in hosts:
            facts[host] = gather(open_tree(str(CAPTURES / capture.replace("{{ inventory_hostname }}", host))))
        groups[group] = {
            "hosts": hosts,
            "resource": wishes["rdma_resource"],
            "want": wishes["rdma_want"],
            "strategy": "auto",
            "rails": wishes.get("rdma_rails", False),
        }
    return facts, rdma_selectors(facts, groups)


def plan() -> Plan:
    return planned()[1]


def objects() -> dict[str, Any]:
    """Objects of the device plugin and policies of the Network Operator, by path."""
    plugin = {**engine_defaults("daemonset"), "pod_security": False}
    operator = {
        **engine_defaults("network_operator"),
        "engine": "network_operator",
        "version": OPERATOR,
        "ofed_driver": {},
    }
    return {**rdma_manifests(plan(), plugin), **rdma_manifests(plan(), operator)}


def report() -> dict[str, Any]:
    """The report as data, as a summary and as a ticket, without the versions of what made it."""
    made = rdma_report(*planned(), [], HOSTS, generated="2026-01-01")
    document = json.loads(made["document"])
    assert document.pop("versions")
    ticket = [line for line in made["ticket"].splitlines() if not line.startswith("- collection `")]
    return {"document": document, "summary": made["summary"].splitlines(), "ticket": ticket}


WRITTEN_DOWN = {"demo-objects.json": objects, "demo-plan.json": plan, "demo-report.json": report}


def text(name: str) -> str:
    return json.dumps(WRITTEN_DOWN[name](), indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("name", WRITTEN_DOWN)
def test_recorded_nodes_get_what_is_written_down(name: str) -> None:
    assert text(name) == (CAPTURES / name).read_text()


if __name__ == "__main__":
    for written in WRITTEN_DOWN:
        (CAPTURES / written).write_text(text(written))

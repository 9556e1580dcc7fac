# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo's recorded nodes get is written down: it changes only when somebody means it to.

Where that is so, write it down again: python -m ansible_collections.fabric.rdma.tests.unit.test_demo_inventory (in .collections).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.fabric.rdma.plugins.filter.rdma_manifests import rdma_manifests
from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import OPERATOR
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "inventories" / "demo" / "group_vars"
CAPTURES = ROOT / "tests" / "captures"
WRITTEN_DOWN = CAPTURES / "demo-objects.json"
HOSTS = {
    "gb200": ["gb200-1", "gb200-2"],
    "ib-a100": ["a100-1", "a100-2", "a100-3"],
    "ib-v100": ["v100-1", "v100-2"],
    "roce-rails": ["rails-1", "rails-2"],
}


def objects() -> dict[str, Any]:
    """Objects of the device plugin and policies of the Network Operator, by path, for the groups of recorded nodes."""
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
    plan = rdma_selectors(facts, groups)
    plugin = {**engine_defaults("daemonset"), "pod_security": False}
    operator = {
        **engine_defaults("network_operator"),
        "engine": "network_operator",
        "version": OPERATOR,
        "ofed_driver": {},
    }
    return {**rdma_manifests(plan, plugin), **rdma_manifests(plan, operator)}


def text() -> str:
    return json.dumps(objects(), indent=1, sort_keys=True) + "\n"


def test_recorded_nodes_get_the_objects_that_are_written_down() -> None:
    assert text() == WRITTEN_DOWN.read_text()


if __name__ == "__main__":
    WRITTEN_DOWN.write_text(text())

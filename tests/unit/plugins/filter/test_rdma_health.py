# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_health import rdma_health
from ansible_collections.fabric.rdma.plugins.filter.rdma_view import rdma_view
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, facts_of


def test_findings_of_the_hosts_of_an_inventory() -> None:
    facts = facts_of(open_tree(str(CAPTURES / "ib-v100-1.capture")))
    slow = copy.deepcopy(facts)
    slow["devices"][1]["pcie"]["width"] = 8
    hostvars = {"n1": {"ansible_facts": {"rdma": facts}}, "n2": {"ansible_facts": {"rdma": slow}}}
    [found] = rdma_health(rdma_view(hostvars, {"g": ["n1", "n2"]}, ["g"]))
    assert (found["id"], found["severity"], found["hosts"]) == ("pcie-degraded", "error", ["n2"])


def test_what_is_no_view_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="expects the value of"):
        rdma_health({"facts": {}})

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A variable that nobody reads is told, and so is a fact that would be a variable of ours."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._plan.names import foreign_facts, misspelt
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES

ROOT = Path(__file__).resolve().parents[5]


def test_a_variable_that_looks_like_one_of_ours_is_misspelt() -> None:
    assert misspelt([*VARIABLES, "rdma_own_helper", "other", "rdma", "ansible_user"]) == []
    assert misspelt(["rdma_ressource", "rmda_want", "rdma_wants"]) == [
        "nobody reads the variable rdma_ressource; did you mean rdma_resource?",
        "nobody reads the variable rdma_wants; did you mean rdma_want?",
        "nobody reads the variable rmda_want; did you mean rdma_want?",
    ]


def test_a_fact_that_would_be_a_variable_is_found() -> None:
    names = ["rdma", "distribution", "os_family", "site", "default_ipv4", "lab", "virtualization_type"]
    assert foreign_facts(names) == []
    evil = ["rdma_rollout", "device_plugin_image", "__plan_fresh", "ansible_rdma_want", "ofed_repository"]
    assert foreign_facts(names + evil) == sorted(evil)
    prefixes = [path.name for path in (ROOT / "roles").iterdir() if path.is_dir()]
    assert foreign_facts([f"{name}_x" for name in prefixes]) == sorted(f"{name}_x" for name in prefixes)
    texts = [path.read_text() for top in ("playbooks", "roles") for path in (ROOT / top).rglob("*.yml")]
    private = {name for text in texts for name in re.findall(r"\b__[a-z]\w+", text)}
    assert len(private) > 100
    assert foreign_facts(private) == sorted(private)
    # by these a slice is told
    slices = ["awx_job_slice_count", "job_slice_count", "job_slice_number", "tower_workflow_job_name"]
    assert foreign_facts(slices) == slices
    magic = ["group_names", "inventory_dir", "inventory_hostname", "omit", "role_path"]
    assert foreign_facts(magic) == magic

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_fabric import rdma_fabric
from ansible_collections.fabric.rdma.plugins.filter.rdma_fabric_asked import rdma_fabric_asked
from ansible_collections.fabric.rdma.plugins.filter.rdma_table import rdma_table
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._fabric.fabrics import answers_of, view_of

CABLES = {"n1": "AB", "n2": "AB"}


def test_answers_become_a_map_and_a_table(tmp_path: Path) -> None:
    view = view_of(CABLES)
    assert set(rdma_fabric_asked(view, ["n1", "n2"])) == {"n1", "n2"}
    found = rdma_fabric(view, answers_of(view, CABLES), str(tmp_path / "plan.json"))
    assert len(found["places"]) == 4
    assert rdma_table(found).splitlines()[1].startswith("leaf-A")


def test_an_earlier_map_has_the_hosts_that_are_not_looked_at(tmp_path: Path) -> None:
    view, path = view_of(CABLES), tmp_path / "fabric.json"
    answers, groups = answers_of(view, CABLES), {"g": ["n1", "n2"]}
    whole = rdma_fabric(view, answers, None, str(path), groups)
    path.write_text(json.dumps(whole))
    del view["facts"]["n2"]
    assert rdma_fabric(view, answers, None, str(path), groups)["places"] == whole["places"]
    path.write_text("{}")
    with pytest.raises(AnsibleFilterError, match=r"fabric\.json cannot be read as the fabric of an earlier run"):
        rdma_fabric(view, answers, None, str(path), groups)


def test_a_host_may_have_the_name_of_a_part_of_the_map() -> None:
    assert rdma_table({"places": {}}).startswith("host places: ")


def test_a_plan_that_cannot_be_read_is_an_error_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(AnsibleFilterError, match=r"plan\.json cannot be read as the plan of an earlier run"):
        rdma_fabric(view_of(CABLES), {}, str(path))


def test_malformed_input_is_refused() -> None:
    view = view_of(CABLES)
    for call in (
        lambda: rdma_fabric({}, {}),
        lambda: rdma_fabric(view, []),
        lambda: rdma_fabric_asked({}, []),
        lambda: rdma_fabric_asked(view, "n1"),
        lambda: rdma_table({"places": []}),
    ):
        with pytest.raises(AnsibleFilterError, match="expects"):
            call()

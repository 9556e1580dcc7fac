# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of the fabric map say what its schema says."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric import contract
from ansible_collections.fabric.rdma.plugins.plugin_utils._health.contract import Finding, Severity
from ansible_collections.fabric.rdma.tests.unit.schemas import validator

LISTS = {
    "places": contract.Place,
    "switches": contract.Switch,
    "trunks": contract.Trunk,
    "units": contract.Unit,
    "unplaced": contract.Unplaced,
    "sources": contract.Told,
    "findings": Finding,
}


@pytest.mark.parametrize("name", LISTS)
def test_rows_have_the_keys_of_the_schema(name: str) -> None:
    row = validator("fabric").schema["properties"][name]["items"]
    assert set(t.get_type_hints(LISTS[name])) == set(row["properties"]) == set(row["required"])


def test_the_map_has_the_keys_of_the_schema() -> None:
    schema = validator("fabric").schema
    assert set(t.get_type_hints(contract.FabricMap)) == set(schema["properties"]) == set(schema["required"])


def test_a_finding_has_one_of_three_severities() -> None:
    row = validator("fabric").schema["properties"]["findings"]["items"]
    assert row["properties"]["severity"]["enum"] == list(t.get_args(Severity))

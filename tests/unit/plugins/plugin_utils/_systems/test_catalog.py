# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one list of all systems: in an order that holds, and told apart by what is wished for."""

from __future__ import annotations

import ast
import re
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import CLUSTER_WIDE, OF_A_GROUP
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import (
    SYSTEMS,
    request_of,
    wished_systems,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import RequestError
from ansible_collections.fabric.rdma.tests.cluster.test_all_systems import PROVED
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

Json = dict[str, t.Any]
NAMES = [system.name for system in SYSTEMS]
RAILS = {
    "rdma_want": {"link_layer": "Ethernet", "exclude": ["bond0"]},
    "rdma_rails": True,
    "rdma_networks": [
        {
            "name": "fabric",
            "kind": "macvlan",
            "rails": True,
            "ipam": {"type": "whereabouts", "range": "192.168.0.0/16", "per_rail": 24},
        }
    ],
}


def test_what_a_system_needs_comes_before_it() -> None:
    for number, system in enumerate(SYSTEMS):
        assert set(system.after) <= set(NAMES[:number]), system.name


def test_every_system_is_a_role_that_the_playbooks_tell_what_to_do() -> None:
    tasks = yaml.safe_load((ROOT / "playbooks" / "tasks" / "systems.yml").read_text())
    (told,) = [task["vars"] for task in tasks if "ansible.builtin.include_role" in task]
    assert told == {f"{name}_method": "{{ systems_method }}" for name in NAMES}
    for name in NAMES:
        specs = yaml.safe_load((ROOT / "roles" / name / "meta" / "argument_specs.yml").read_text())
        assert specs["argument_specs"]["main"]["options"][f"{name}_method"]["choices"] == ["render", "apply", "remove"]


@pytest.mark.parametrize("name", NAMES)
def test_every_system_comes_changes_and_goes_on_a_real_api_server(name: str) -> None:
    """What the cases of a real control plane say of themselves is true, and no system is without one."""
    assert set(PROVED) == set(NAMES)
    sources = []
    for each in PROVED[name]:
        file, _colons, test = each.partition("::")
        text = (ROOT / "tests" / "cluster" / file).read_text()
        (function,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == test]
        sources.append(ast.unparse(function))
    whole = "\n".join(sources)
    steps = (r"run\('rollout', '--check'\)", r"\(\w+\.run\('rollout'\)\) == 0", r"run\('uninstall'(?!, '--check')")
    # which says what would go
    for step in (*steps, r"said = ' '\.join\(\w+\.run\('uninstall', '--check'"):
        assert re.search(step, whole), step
    # once to bring it, once without a change, once with another wish
    assert len(re.findall(r"run\('rollout'\)", whole)) >= 3


def test_every_system_is_asked_for_by_a_wish_that_there_is() -> None:
    for system in SYSTEMS:
        assert system.variable in (OF_A_GROUP if system.of_groups else CLUSTER_WIDE)


@pytest.mark.parametrize(
    ("wishes", "cluster", "found"),
    [
        ({}, {}, ["device_plugin"]),
        ({"g": {}}, {"rdma_rollout": {"method": "apply"}}, ["device_plugin"]),
        ({"g": {"rdma_networks": []}}, {}, ["device_plugin"]),
        ({"g": {}, "h": RAILS}, {}, ["device_plugin", "secondary_network"]),
        ({}, {"rdma_longhorn": {"version": "1.12.1"}}, ["device_plugin", "longhorn"]),
        ({}, {"rdma_longhorn": {"version": "1.12.1", "enabled": False}}, ["device_plugin"]),
        ({}, {"rdma_rollout": {"engine": "dra"}}, ["dra"]),
    ],
)
def test_what_is_wished_for_comes(wishes: Json, cluster: Json, found: list[str]) -> None:
    assert wished_systems(wishes, cluster) == found


@pytest.mark.parametrize("name", ["device_plugin", "longhrn", ""])
def test_a_name_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(RequestError, match=f"there is no system '{name}'"):
        request_of(name, {}, a_site({"roce-rails": (RAILS, ["roce-rails-1"])}), NOTHING_KNOWN)


def test_images_are_all_that_objects_pull() -> None:
    site = a_site({"roce-rails": (RAILS, ["roce-rails-1", "roce-rails-2"])})
    wish = {"multus": {"install": True}, "whereabouts": {"install": True}}
    request = request_of("secondary_network", wish, site, NOTHING_KNOWN)
    assert request["problems"] == []
    text = yaml.safe_dump_all(request["objects"])
    pulled = {line.split("image: ")[1].strip() for line in text.splitlines() if "image: " in line}
    assert pulled
    assert set(request["images"]) == pulled

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one list of all systems: in an order that holds, and told apart by what is wished for."""

from __future__ import annotations

import ast
import re
import typing as t

import jinja2
import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import CLUSTER_WIDE, OF_A_GROUP, problems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import (
    SYSTEMS,
    request_of,
    wished_systems,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import RequestError, Site
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
    # all that cannot be is said together, and nothing is applied that cannot be
    assert told.pop("cluster_system_insist") == "{{ systems_method != 'render' }}"
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


@pytest.mark.parametrize("method", ["render", "apply", "remove"])
@pytest.mark.parametrize("wish", [{}, {"enabled": True}, {"enabled": False}, None])
def test_a_wish_that_is_switched_off_takes_nothing_away(method: str, wish: Json | None) -> None:
    """Also where a role is used alone: what an applied request has not, the cluster is to have no more."""
    tasks = yaml.safe_load((ROOT / "roles" / "cluster_system" / "tasks" / "main.yml").read_text())
    *_others, told, done = tasks
    off = method == "apply" and (wish or {}).get("enabled") is False
    for task, expected in ((told, off), (done, not off)):
        condition = jinja2.Environment(autoescape=True).compile_expression(task["when"])
        assert condition(cluster_system_method=method, cluster_system_wish=wish) is expected, task["name"]


@pytest.mark.parametrize("name", ["device_plugin", "longhrn", ""])
def test_an_unknown_system_is_an_error(name: str) -> None:
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


# --- malformed versions -------------------------------------------------------------------------------------------------

BAD_VERSIONS = [
    "",
    "latest",
    "1",
    "1.x",
    "1.2",
    "1.2.3.4",
    "1.2.3; reboot",
    "../../x",
    "1.2.3 ",
    "v1.16.0-alpha.1",
    1.1,
    -1,
    True,
    [],
    {},
]
VERSIONED: dict[str, tuple[str, str, Json]] = {
    "rdma_multus.version": ("secondary_network", "multus", {"install": True}),
    "rdma_whereabouts.version": ("secondary_network", "whereabouts", {"install": True}),
    "rdma_spiderpool.version": ("secondary_network", "spiderpool", {"install": True}),
    "rdma_gpu_operator.version": ("gpu_operator", "", {}),
    "rdma_compute_domain.version": ("compute_domain", "", {}),
    "rdma_longhorn.version": ("longhorn", "", {}),
    "rdma_vgpu.version": ("vgpu", "", {"groups": ["ib-v100"], "stop_device_plugin": True}),
    "rdma_rollout.dranet.version": ("dra", "dranet", {}),
}


def versioned_site() -> Site:
    groups = {
        "roce-rails": (RAILS, ["roce-rails-1", "roce-rails-2"]),
        "ib-v100": ({"rdma_gpudirect": "none"}, ["ib-v100-1"]),
        "gb200": ({"rdma_compute_domain": {"feature_gates": {}}}, ["gb200-1"]),
    }
    return a_site(groups)


@pytest.fixture(scope="module")
def all_kinds() -> Site:
    return versioned_site()


@pytest.mark.parametrize("version", BAD_VERSIONS, ids=repr)
@pytest.mark.parametrize("key", VERSIONED)
def test_a_malformed_version_is_refused_by_its_name(all_kinds: Site, key: str, version: t.Any) -> None:
    """By the table of wishes, or by the system, of which nothing is done then."""
    system, section, wish = VERSIONED[key]
    variable = key.partition(".")[0]
    own: Json = {**wish, "version": version}
    told = {"dranet": own, "engine": "dra"} if section == "dranet" else own
    found = problems(variable, told)
    if not found:
        request = request_of(
            system, {section: told} if system == "secondary_network" else told, all_kinds, NOTHING_KNOWN
        )
        found = [text for text in request["problems"] if text.startswith(key)]
    assert [text for text in found if key in text], found


@pytest.mark.parametrize("version", [*BAD_VERSIONS, None], ids=repr)
def test_a_malformed_version_of_the_network_operator_is_refused_by_its_name(version: t.Any) -> None:
    found = problems("rdma_rollout", {"engine": "network_operator", "operator_version": version})
    if not found:
        with pytest.raises(ManifestError, match=r"rdma_rollout\.operator_version|Network Operator 1\.2\.3 is too old"):
            operator_release(version)


@pytest.mark.parametrize(
    "image", ["mirror.example.com/x", "mirror.example.com/x:latest", "x:v1/y", "x:v1; reboot", "x@sha256:12", "x:"]
)
@pytest.mark.parametrize("name", ["multus", "whereabouts"])
def test_an_image_that_may_change_under_its_nodes_is_refused(all_kinds: Site, name: str, image: str) -> None:
    request = request_of("secondary_network", {name: {"install": True, "image": image}}, all_kinds, NOTHING_KNOWN)
    assert [
        text for text in request["problems"] if text.startswith(f"rdma_{name}.image is {image}, which is not pinned")
    ]


@pytest.mark.parametrize(
    "image", ["mirror.example.com:5000/x:v4.3.0", "x@sha256:" + 64 * "a", "x:v1@sha256:" + 64 * "a"]
)
def test_an_image_of_a_release_is_taken(all_kinds: Site, image: str) -> None:
    wish = {name: {"install": True, "image": image} for name in ("multus", "whereabouts")}
    request = request_of("secondary_network", wish, all_kinds, NOTHING_KNOWN)
    assert request["problems"] == []
    assert set(request["images"]) == {image}

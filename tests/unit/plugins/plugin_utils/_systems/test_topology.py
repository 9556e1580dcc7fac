# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes are labelled with the leaves that they are at, those that are on the map of the fabric."""

from __future__ import annotations

import re

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.topology import request
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

HOSTS = ["ib-v100-1", "ib-v100-2"]
LABEL = "topology.fabric.rdma/leaf"
WISH = {"labels": True}


def site_of(**leaves: list[str]) -> Site:
    site = a_site({"ib-v100": ({}, HOSTS)})
    site["leaves"] = {name.replace("_", "-"): own for name, own in leaves.items()}
    return site


def test_nodes_at_the_same_leaves_have_the_same_label() -> None:
    one = request(WISH, site_of(ib_v100_1=["leaf-1"], ib_v100_2=["leaf-1"]))
    assert one["node_labels"] == {host: {LABEL: "leaf-1"} for host in HOSTS}
    assert (one["problems"], one["warnings"]) == ([], [])
    rails = request(WISH, site_of(ib_v100_1=["leaf-1", "leaf-2"], ib_v100_2=["leaf-1", "leaf-2"]))["node_labels"]
    assert len({labels[LABEL] for labels in rails.values()}) == 1
    other = request(WISH, site_of(ib_v100_1=["leaf-1", "leaf-2"], ib_v100_2=["leaf-1", "leaf-3"]))["node_labels"]
    assert len({labels[LABEL] for labels in other.values()}) == 2


def test_a_host_that_is_not_on_the_map_gets_none_and_is_named() -> None:
    found = request(WISH, site_of(ib_v100_2=["leaf-1"]))
    assert set(found["node_labels"]) == {"ib-v100-2"}
    [warning] = found["warnings"]
    assert "ib-v100-1" in warning


def test_without_a_map_it_says_what_to_run_first() -> None:
    found = request(WISH, a_site({"ib-v100": ({}, HOSTS)}))
    assert found["node_labels"] == {}
    [problem] = found["problems"]
    assert "run the playbook fabric first" in problem


def test_nothing_is_labelled_that_nobody_asked_for() -> None:
    for wish in ({}, {"labels": False}):
        found = request(wish, site_of(ib_v100_1=["leaf-1"]))
        assert (found["node_labels"], found["problems"]) == ({}, [])


def test_whatever_switches_call_themselves_is_a_value_of_a_label() -> None:
    for name in ("MF0;leaf-1:MQM8700/U1", "x" * 300, "", "a b", "\x1b[2J", "-"):
        labels = request(WISH, site_of(ib_v100_1=[name]))["node_labels"]["ib-v100-1"]
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", labels[LABEL]), name


def test_another_label_and_other_names_of_nodes() -> None:
    site = site_of(ib_v100_1=["leaf-1"])
    site["node_names"] = {"ib-v100-1": "worker-1"}
    found = request({"labels": True, "label": "example.com/rack"}, site)
    assert found["node_labels"] == {"worker-1": {"example.com/rack": "leaf-1"}}

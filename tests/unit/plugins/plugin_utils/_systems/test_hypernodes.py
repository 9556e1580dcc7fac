# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HyperNodes are a tree with every planned node in it once, as near to the others as the plan knows."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.hypernodes import hypernodes
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site, insist

V100 = ["ib-v100-1", "ib-v100-2"]
A100 = ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
RAILS = ["roce-rails-1", "roce-rails-2"]
ROCE = {"rdma_want": {"link_layer": "Ethernet"}, "rdma_rails": True}


def site_of() -> Site:
    return a_site({"ib-v100": ({}, V100), "ib-a100": ({}, A100), "roce": (ROCE, RAILS)})


def with_prefix(site: Site, prefix: str, *hosts: str) -> Site:
    """The same with a subnet prefix of the fabric's own."""
    for host in hosts:
        for device in site["facts"][host]["devices"]:
            for port in device["ports"]:
                for gid in port["gids"]:
                    gid["gid"] = gid["gid"].replace("fe80:0000:0000:0000", prefix)
    return site


def tree(items: list[Json]) -> dict[str, tuple[int, set[str]]]:
    return {
        item["metadata"]["name"]: (
            item["spec"]["tier"],
            {member["selector"]["exactMatch"]["name"] for member in item["spec"]["members"]},
        )
        for item in items
    }


def leaves(items: list[Json]) -> list[set[str]]:
    return sorted((own for tier, own in tree(items).values() if tier == 1), key=sorted)


def test_hypernodes_are_as_their_definition_has_them() -> None:
    found, _warnings = hypernodes(site_of(), None)
    assert found
    for item in found:
        insist(item, "hypernodes.topology.volcano.sh")


@pytest.mark.parametrize("prefix", [None, "fec0:0000:0000:0001"])
def test_every_planned_node_is_in_one_tree_once(prefix: str | None) -> None:
    site = site_of()
    if prefix:
        with_prefix(site, prefix, *V100, *A100)
    found, _warnings = hypernodes(site, None)
    by_name = tree(found)
    assert len(by_name) == len(found)
    nodes = [node for tier, own in by_name.values() if tier == 1 for node in own]
    assert sorted(nodes) == sorted([*V100, *A100, *RAILS])
    for tier in (2, 3):
        below = [name for above, own in by_name.values() if above == tier for name in own]
        assert sorted(below) == sorted(name for name, (own, _members) in by_name.items() if own == tier - 1)
    # lower tiers first, since they are applied in this order
    assert [item["spec"]["tier"] for item in found] == sorted(item["spec"]["tier"] for item in found)


def test_groups_of_one_subnet_are_one_fabric_and_others_are_not() -> None:
    found, warnings = hypernodes(with_prefix(site_of(), "fec0:0000:0000:0001", *V100, *A100), None)
    fabrics = [own for tier, own in tree(found).values() if tier == 3]
    assert sorted(map(len, fabrics)) == [1, 2]
    assert warnings == []
    apart = with_prefix(with_prefix(site_of(), "fec0:0000:0000:0001", *V100), "fec0:0000:0000:0002", *A100)
    assert len([own for tier, own in tree(hypernodes(apart, None)[0]).values() if tier == 3]) == 3


def test_fabrics_that_nobody_can_tell_apart_are_not_taken_for_one() -> None:
    found, (warning,) = hypernodes(site_of(), None)
    assert len([own for tier, own in tree(found).values() if tier == 3]) == 3
    assert "groups ib-a100, ib-v100, roce" in warning


def test_a_host_with_other_rails_is_farther_away() -> None:
    site = site_of()
    assert {"roce-rails-1", "roce-rails-2"} in leaves(hypernodes(site, None)[0])
    site["plan"]["groups"]["roce"]["rails"]["roce-rails-2"].pop()
    found = leaves(hypernodes(site, None)[0])
    assert {"roce-rails-1"} in found
    assert {"roce-rails-2"} in found


def test_nvlink_cliques_are_the_nearest() -> None:
    label = "nvidia.com/gpu.clique"
    nodes: t.Any = {host: {"labels": {label: f"a.{number}"}} for number, host in enumerate(V100)}
    found = leaves(hypernodes(site_of(), nodes)[0])
    assert {"ib-v100-1"} in found
    assert {"ib-v100-2"} in found


def test_names_stay_when_another_group_comes() -> None:
    alone, _warnings = hypernodes(a_site({"ib-v100": ({}, V100)}), None)
    assert {item["metadata"]["name"] for item in alone} < {
        item["metadata"]["name"] for item in hypernodes(site_of(), None)[0]
    }


def test_nodes_have_the_names_of_the_cluster() -> None:
    site = site_of()
    site["node_names"]["ib-v100-1"] = "n1.example.com"
    assert {"n1.example.com", "ib-v100-2"} in leaves(hypernodes(site, None)[0])


def test_hosts_at_other_leaves_are_apart_where_a_map_knows_them() -> None:
    site = site_of()
    without = leaves(hypernodes(site, None)[0])
    assert set(RAILS) in without
    site["leaves"] = {RAILS[0]: ["leaf-1"], RAILS[1]: ["leaf-2"]}
    found, _warnings = hypernodes(site, None)
    assert [own for own in leaves(found) if own & set(RAILS)] == [{RAILS[0]}, {RAILS[1]}]
    # those that are not on the map stay as they were
    assert [own for own in leaves(found) if not own & set(RAILS)] == [own for own in without if not own & set(RAILS)]


def test_nodes_of_a_group_that_stays_keep_their_places() -> None:
    """Also in the HyperNode of a fabric, which others are in, too."""
    site = with_prefix(site_of(), "fec0:0000:0000:0001", *V100, *A100)
    standing = hypernodes(site, None)[0]
    site["plan"]["groups"]["ib-a100"].update(planned=False, classes=[], errors=["a switch is down"])
    found, warnings = hypernodes(site, None, standing)
    assert tree(found) == tree(standing)
    assert [text for text in warnings if text.endswith("since the group does: a switch is down")]
    # a host that comes is beside them, one that goes on purpose is not
    site["plan"]["groups"]["ib-v100"]["classes"][0]["hosts"].append("new")
    site["groups"]["ib-v100"].append("new")
    site["plan"]["removed"] = {A100[0]: "ib-a100"}
    now = leaves(hypernodes(site, None, standing)[0])
    assert set(A100[1:]) in now
    assert any({*V100} < own or own == {"new"} for own in now)
    # where nobody has looked, only the others can be told of
    bare, (warning, *_more) = hypernodes(site, None)
    assert not {*A100} & {node for own in leaves(bare) for node in own}
    assert "and are not among these: a switch is down" in warning

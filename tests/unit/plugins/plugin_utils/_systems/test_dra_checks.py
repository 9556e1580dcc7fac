# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps DRANET from coming to a class, or from going from it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_dra_conflicts import rdma_dra_conflicts
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import standing_problems

Json = dict[str, Any]
NODES = {name: {"labels": {"rdma.fabric/dra": slug}} for name, slug in (("n1", "a"), ("n2", "a"), ("n3", "b"))}


def driver(slug: str, app: str = "dranet", inventory: str = "default") -> Json:
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": slug,
        "rdma.fabric/group": f"group-{slug}",
        "rdma.fabric/inventory": inventory,
    }
    metadata = {"name": f"{app}-{slug}", "namespace": "kube-system", "labels": labels}
    template = {"spec": {"nodeSelector": {"rdma.fabric/dra": slug}}}
    return {"kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}


def claim(node: str, name: str = "c", of: str = "dra.net") -> Json:
    results = [{"driver": of, "pool": node, "device": "pci-0000-3b-00-0"}]
    return {
        "metadata": {"name": name, "namespace": "training"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def test_a_class_that_the_plugin_serves_is_not_offered_twice() -> None:
    plugin = driver("a", "rdma-shared-dp")
    (said,) = standing_problems([driver("a"), driver("b")], [plugin], [], NODES, "default")
    assert said.startswith("the device plugin still serves a, and would offer the same functions")
    assert standing_problems([driver("b")], [plugin], [], NODES, "default") == []


def test_a_driver_stays_while_claims_have_devices_of_its_nodes() -> None:
    (said,) = standing_problems([], [driver("a"), driver("b")], [claim("n2")], NODES, "default")
    assert (
        said
        == "DRANET would go from class a, and claims have devices of its nodes, so that their Pods could no longer "
        "end: training/c (node n2). End these Pods first"
    )


@pytest.mark.parametrize(
    "claims",
    [[], [claim("n3")], [claim("n1", of="gpu.nvidia.com")], [{"metadata": {"name": "c", "namespace": "x"}}]],
    ids=["none", "another class", "another driver", "not allocated"],
)
def test_claims_of_others_keep_no_driver(claims: list[Json]) -> None:
    assert standing_problems([driver("b")], [driver("a"), driver("b")], claims, NODES, "default") == []


def test_a_node_that_has_left_the_cluster_is_taken_for_one_of_the_driver() -> None:
    assert standing_problems([], [driver("a")], [claim("gone")], NODES, "default") != []


def test_drivers_of_other_inventories_and_groups_stay_anyway() -> None:
    claims = [claim("n1")]
    assert standing_problems([], [driver("a", inventory="other")], claims, NODES, "default") == []
    assert standing_problems([], [driver("a")], claims, NODES, "default", ["group-b"]) == []
    assert standing_problems([], [driver("a")], claims, NODES, "default", ["group-a"]) != []


def test_the_filter_takes_names_as_the_inventory_has_them() -> None:
    drivers = [driver("a", inventory="site-1")]
    given = (drivers, [claim("n1")], NODES, {"inventory": "site-1"})
    assert rdma_dra_conflicts([], *given, ["group-b"]) == []
    assert len(rdma_dra_conflicts([], *given, ["group-a"])) == 1
    assert len(rdma_dra_conflicts([], *given)) == 1
    with pytest.raises(AnsibleFilterError, match="expects a list of drivers"):
        rdma_dra_conflicts([], "x", [], {})

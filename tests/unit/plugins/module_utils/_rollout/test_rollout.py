# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout finds of an earlier one, where a real API server does not come that far: tests/cluster has all else."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    GROUP_LABEL,
    GROUPS_ANNOTATION,
    INVENTORY_LABEL,
    MANAGED_BY,
    POLICY_VERSION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout

Json = dict[str, t.Any]


class Cluster:
    """The ConfigMap of a class in the namespace rdma, and its DaemonSet if it serves. readable: whether ConfigMaps may be seen."""

    def __init__(self, readable: bool = True, serves: bool = False) -> None:
        self.readable, self.serves = readable, serves

    def kinds(self, _version: str) -> Json:
        return {}

    def find(self, _path: str, _doing: str) -> None:
        return None

    def list(self, path: str, _doing: str, metadata_only: bool = False, **_query: str) -> list[Json]:
        del metadata_only
        configmaps = path.endswith("/namespaces/rdma/configmaps")
        if not configmaps and not (self.serves and path.endswith("/daemonsets")):
            return []
        if configmaps and not self.readable:
            raise KubeError("configmaps is forbidden", 403)
        labels = {"app.kubernetes.io/managed-by": MANAGED_BY, GROUP_LABEL: "g", INVENTORY_LABEL: "default"}
        applied = [{"manager": FIELD_MANAGER, "operation": "Apply"}]
        return [{"metadata": {"name": "c", "namespace": "rdma", "labels": labels, "managedFields": applied}}]


def removed(cluster: Cluster, place: str) -> Json:
    rollout = Rollout(t.cast("t.Any", cluster), place=place)
    rollout.look([], {}, [])
    return rollout.actions()


def test_what_a_removal_that_was_killed_has_left_goes() -> None:
    """Between the last DaemonSet of a namespace and its ConfigMap: nothing of ours tells of that namespace any more."""
    assert removed(Cluster(), "rdma") == {"ConfigMap rdma/c": "removed"}
    assert removed(Cluster(), "elsewhere") == {}


def test_who_may_not_see_config_maps_of_a_place_without_ours_goes_on() -> None:
    assert removed(Cluster(readable=False), "rdma") == {}
    with pytest.raises(KubeError, match=r"^configmaps is forbidden"):
        removed(Cluster(readable=False, serves=True), "rdma")


class OfTheOperator(Cluster):
    """A NicClusterPolicy of an inventory for a class of group a on node n1, and one of group b on n2 and n3."""

    def __init__(self, inventory: str = "default", affinity: bool = True) -> None:
        super().__init__()
        self.inventory, self.affinity = inventory, affinity

    def kinds(self, version: str) -> Json:
        return {"NicClusterPolicy": ("nicclusterpolicies", False)} if version == POLICY_VERSION else {}

    def path(self, item: Json) -> str:
        return str(item["kind"])

    def find(self, _path: str, _doing: str) -> Json:  # type: ignore[override]
        row = {"key": CLASS_LABEL, "operator": "In", "values": ["a-x", "b-x"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
        return {
            "kind": "NicClusterPolicy",
            "metadata": {
                "name": "nic-cluster-policy",
                "annotations": {GROUPS_ANNOTATION: "a-x=a,b-x=b", INVENTORY_LABEL: self.inventory},
                "managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply"}],
            },
            "spec": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            if self.affinity
            else {},
        }

    def list(self, path: str, _doing: str, metadata_only: bool = False, **_query: str) -> list[Json]:
        if not path.endswith("/nodes"):
            return []
        classes = {"n1": "a-x", "n2": "b-x", "n3": "b-x"}
        return [{"metadata": {"name": name, "labels": {CLASS_LABEL: value}}} for name, value in classes.items()]


@pytest.mark.parametrize("affinity", [True, False])
def test_the_policy_tells_of_which_group_its_classes_are(affinity: bool) -> None:
    """A group is taken out by its name, also where no file of an earlier run tells of its hosts, and never by accident.

    Without rdma_rollout.node_affinity, only the annotation has its classes.
    """
    rollout = Rollout(t.cast("t.Any", OfTheOperator(affinity=affinity)))
    rollout.look([], {}, [])
    assert rollout.strays(["n1"], []) == {"n2": "b-x", "n3": "b-x"}
    assert "nothing in the cluster tells" not in rollout.told(rollout.strays(["n1"], []))
    assert rollout.strays(["n1"], ["b"]) == {}
    with pytest.raises(KubeError, match=r"^Nothing was changed. 2 nodes have the label"):
        rollout.insist(["n1"], ["a"])


def test_the_policy_of_another_inventory_tells_nothing() -> None:
    rollout = Rollout(t.cast("t.Any", OfTheOperator("elsewhere")))
    rollout.look([], {}, [])
    assert rollout.strays([], []) == {}

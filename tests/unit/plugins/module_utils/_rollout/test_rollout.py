# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout finds of an earlier one, where a real API server does not come that far: tests/cluster has all else."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
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


# --- what somebody changes between look and change ---------------------------------------------------------------------

POLICY = f"/apis/{POLICY_VERSION}/nicclusterpolicies/nic-cluster-policy"
NODE = "/api/v1/nodes/n1"


class Precise(Kube):
    """An API server that has a few objects by their paths, and insists on what a change insists on. Only its answers are played."""

    def __init__(self, **plurals: str) -> None:
        self.plurals, self.server, self.items = plurals, "https://api.example", t.cast("dict[str, Json]", {})
        # what was changed, and what somebody else does before the next change
        self.written: list[str] = []
        self.meanwhile: t.Callable[[], None] | None = None

    def kinds(self, version: str) -> dict[str, tuple[str, bool]]:
        del version
        return {kind: (plural, False) for kind, plural in self.plurals.items()}

    def put(self, path: str, item: Json, manager: str = FIELD_MANAGER) -> None:
        """What somebody writes, ours by default."""
        old = self.items.get(path, {"metadata": {}})["metadata"]
        spec = {"f:" + key: {} for key in item.get("spec") or {}}
        entries = [entry for entry in old.get("managedFields") or [] if entry["manager"] != manager]
        entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": spec}}
        version = str(int(old.get("resourceVersion", "0")) + 1)
        metadata = {"uid": path, **item["metadata"], "resourceVersion": version, "managedFields": [*entries, entry]}
        self.items[path] = {**item, "metadata": metadata}

    def request(
        self, method: str, path: str, doing: str, query: t.Any = (), body: t.Any = None, *_more: str, **_headers: str
    ) -> Json:  # type: ignore[override]
        found = self.items.get(path)
        if method == "GET":
            if found is None and "limit" not in dict(query):
                raise KubeError(f"cannot {doing}: not found", 404)
            items = [item for place, item in self.items.items() if place.rpartition("/")[0] == path]
            return copy.deepcopy(found if found is not None else {"items": items})
        body = json.loads(body) if isinstance(body, str) else body
        dry_run = ("dryRun", "All") in list(query) or "dryRun" in body
        if self.meanwhile is not None and not dry_run:
            self.meanwhile()
            self.meanwhile, found = None, self.items.get(path)
        metadata = body.get("preconditions") or body.get("metadata") or {}
        wanted = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
        now = (found or {"metadata": {}})["metadata"]
        if any(now.get(key) != value for key, value in wanted.items()):
            raise KubeError(f"cannot {doing}: it is another by now", 409)
        if not dry_run:
            self.written.append(f"{method} {path}")
            if found is not None:
                now["resourceVersion"] += "1"
        return copy.deepcopy(found or body)


def leaving(*managers: str) -> Precise:
    """A cluster with a NicClusterPolicy of which these have applied the device plugin."""
    cluster = Precise(NicClusterPolicy="nicclusterpolicies", NicNodePolicy="nicnodepolicies")
    metadata = {"name": "nic-cluster-policy", "annotations": {INVENTORY_LABEL: "default"}}
    spec = {"rdmaSharedDevicePlugin": {}, "secondaryNetwork": {}}
    item: Json = {"apiVersion": POLICY_VERSION, "kind": "NicClusterPolicy", "metadata": metadata, "spec": spec}
    for manager in managers:
        cluster.put(POLICY, {**item, "metadata": {**metadata}}, manager)
    return cluster


def node_policy() -> Json:
    spec = {"rdmaSharedDevicePlugin": {}}
    return {"apiVersion": POLICY_VERSION, "kind": "NicNodePolicy", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("managers", "wanted"),
    [((FIELD_MANAGER, "helm"), ()), (("helm",), (node_policy(),)), ((FIELD_MANAGER,), ())],
    ids=["our fields", "sections of others", "whole"],
)
def test_a_policy_that_is_taken_over_before_we_leave_it_stays(
    managers: tuple[str, ...], wanted: tuple[Json, ...]
) -> None:
    cluster = leaving(*managers)
    rollout = Rollout(cluster, force=True)
    rollout.look(wanted, {}, [])
    rollout.rehearse()
    theirs = {"rdmaSharedDevicePlugin": {"image": "mine"}}
    cluster.meanwhile = lambda: cluster.put(POLICY, {**cluster.items[POLICY], "spec": theirs}, "kubectl")
    with pytest.raises(KubeError, match=r"was changed by kubectl since it was looked at, and is left as it is"):
        rollout.perform()
    assert cluster.written == []


def test_a_policy_that_is_gone_before_we_leave_it_does_not_come_again() -> None:
    """Server-side apply would make it, with nothing in it."""
    cluster = leaving(FIELD_MANAGER, "helm")
    rollout = Rollout(cluster)
    rollout.look([], {}, [])
    rollout.rehearse()
    cluster.meanwhile = cluster.items.clear
    with pytest.raises(KubeError, match=r"NicClusterPolicy nic-cluster-policy was deleted by somebody"):
        rollout.perform()
    assert cluster.written == []


def test_of_two_steps_out_of_a_policy_the_second_finds_what_the_first_has_left() -> None:
    """Our fields, then sections of others."""
    cluster = leaving(FIELD_MANAGER, "helm")
    rollout = Rollout(cluster, force=True)
    rollout.look([node_policy()], {}, [])
    rollout.rehearse()
    rollout.perform()
    assert cluster.written[:2] == [f"PATCH {POLICY}"] * 2


def labelled(value: str | None, **more: str) -> Json:
    labels = {**({CLASS_LABEL: value} if value else {}), **more}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}


@pytest.mark.parametrize("before", [None, "old"])
def test_a_label_that_somebody_changes_before_us_stays(before: str | None) -> None:
    cluster = Precise()
    cluster.put(NODE, labelled(before), "kubectl")
    rollout = Rollout(cluster)
    rollout.look([], {"n1": "new"}, [])
    rollout.rehearse()
    cluster.meanwhile = lambda: cluster.put(NODE, labelled("theirs"), "somebody")
    with pytest.raises(KubeError, match=r"Node n1 was changed by somebody since it was looked at"):
        rollout.perform()
    assert cluster.written == []


def test_what_else_becomes_of_a_node_is_no_change_of_its_label() -> None:
    cluster = Precise()
    cluster.put(NODE, labelled("old"), "kubectl")
    rollout = Rollout(cluster)
    rollout.look([], {"n1": "new"}, [])
    rollout.rehearse()
    cluster.meanwhile = lambda: cluster.put(NODE, labelled("old", zone="a"), "kubelet")
    rollout.perform()
    assert cluster.written == [f"PATCH {NODE}"]

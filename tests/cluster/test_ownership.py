# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have made, or change while we look, on a real API server: it is neither adopted without a word nor deleted."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.class_change import ClassChange
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import rollout_request
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, INVENTORY_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_config, a_group, a_plan, rollout_settings

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

SPACE = "/api/v1/namespaces/rdma"
NAME = "rdma-shared-dp-g"
DAEMON_SET = f"/apis/apps/v1/namespaces/rdma/daemonsets/{NAME}"
CONFIG_MAP = f"{SPACE}/configmaps/{NAME}"


def request(
    *groups: str, inventory: str = "default", pod_security: bool = True, resource: str = "r"
) -> dict[str, t.Any]:
    """What the plan of groups with one class each, and no node, asks of a cluster."""
    config = a_config(resource, vendors=["15b3"])
    plan = a_plan(**{group: a_group(a_class(group, config=config)) for group in groups})
    return rollout_request(plan, rollout_settings(pod_security=pod_security, inventory=inventory))


def looked(kube: Kube, wanted: dict[str, t.Any], **options: t.Any) -> Rollout:
    """A rollout that is about to change something."""
    rollout = Rollout(kube, inventory=wanted["inventory"], **options)
    rollout.look(wanted["objects"], wanted["nodes"], wanted["keep"])
    rollout.rehearse()
    return rollout


def roll_out(kube: Kube, wanted: dict[str, t.Any], **options: t.Any) -> dict[str, str]:
    rollout = looked(kube, wanted, **options)
    rollout.perform()
    return rollout.actions()


def read(kube: Kube, path: str) -> dict[str, t.Any]:
    found = kube.find(path, "read")
    assert found is not None
    return found


def edit(kube: Kube, path: str, body: dict[str, t.Any]) -> None:
    """What somebody else does."""
    kube.request("PATCH", path, "edit", [("fieldManager", "somebody")], body, "application/merge-patch+json")


def make(kube: Kube, item: dict[str, t.Any]) -> None:
    """What somebody else makes of our object, labels and all."""
    path = {"ConfigMap": f"{SPACE}/configmaps", "DaemonSet": "/apis/apps/v1/namespaces/rdma/daemonsets"}[item["kind"]]
    kube.request("POST", path, "make", [("fieldManager", "kubectl-create")], item)


@pytest.fixture
def space(site: Site) -> Site:
    """A namespace, and no node."""
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    return site


def test_an_object_of_our_name_and_shape_is_not_adopted_without_a_word(space: Site) -> None:
    kube, wanted = space.kube, request("g")
    for item in wanted["objects"][1:]:
        make(kube, item)
    before = space.objects()
    with pytest.raises(KubeError) as refused:
        looked(kube, wanted)
    assert "Nothing was changed. 2 objects of our names are there already" in str(refused.value)
    assert f"DaemonSet rdma/{NAME} (made by kubectl-create)" in str(refused.value)
    assert "rdma_rollout.adopt: true" in str(refused.value)
    assert space.objects() == before
    # nor is it deleted when nothing of that name is wanted
    rollout = looked(kube, request())
    rollout.perform()
    assert space.objects() == before
    assert [text.split(" has our label")[0] for text in rollout.warnings] == [
        f"DaemonSet rdma/{NAME}",
        f"ConfigMap rdma/{NAME}",
    ]
    taken = roll_out(kube, wanted, adopt=True)
    assert [what for name, what in taken.items() if name != "Namespace rdma"] == ["taken over"] * 2
    assert roll_out(kube, wanted)[f"DaemonSet rdma/{NAME}"] == "unchanged"


def test_two_inventories_leave_each_other_alone(space: Site) -> None:
    kube = space.kube
    roll_out(kube, request("g", inventory="one"))
    with pytest.raises(KubeError, match=r"DaemonSet rdma/\S+ \(of inventory 'one'\)"):
        looked(kube, request("g", inventory="two"))
    roll_out(kube, request("h", inventory="two"))
    both = space.objects()
    assert len(both) == 4
    assert "removed" not in roll_out(kube, request("h", inventory="two")).values()
    roll_out(kube, request(inventory="two"))
    assert {name for name in both if name not in space.objects()} == {
        f"{kind} rdma-shared-dp-h" for kind in ("ConfigMap", "DaemonSet")
    }


def test_what_an_earlier_version_rolled_out_is_taken_over_when_that_is_said(space: Site) -> None:
    """It named no inventory."""
    kube, wanted = space.kube, request("g", "left")
    for item in wanted["objects"]:
        labels = {key: value for key, value in item["metadata"]["labels"].items() if key != INVENTORY_LABEL}
        kube.apply({**item, "metadata": {**item["metadata"], "labels": labels}}, dry_run=False)
    before, generation = space.objects(), read(kube, DAEMON_SET)["metadata"]["generation"]
    with pytest.raises(KubeError, match="rolled out by an earlier version, which named no inventory"):
        looked(kube, request("g"))
    assert space.objects() == before
    rollout = looked(kube, request("g"), adopt=True)
    shown = {each["before_header"]: each for each in rollout.diff()}
    assert set(shown) == {
        f"{kind} rdma/rdma-shared-dp-{name}" for kind in ("ConfigMap", "DaemonSet") for name in ("g", "left")
    }
    diff = shown[f"DaemonSet rdma/{NAME}"]
    assert INVENTORY_LABEL not in diff["before"]["metadata"]["labels"]
    assert diff["after"]["metadata"]["labels"][INVENTORY_LABEL] == "default"
    rollout.perform()
    assert sorted(space.objects()) == [f"ConfigMap {NAME}", f"DaemonSet {NAME}"]
    assert read(kube, DAEMON_SET)["metadata"]["generation"] == generation, "no Pod restarts for it"


@pytest.mark.parametrize("groups", [("g",), ()], ids=["apply", "delete"])
def test_what_is_taken_over_between_look_and_change_is_left_as_it_is(space: Site, groups: tuple[str, ...]) -> None:
    kube = space.kube
    roll_out(kube, request("g"))
    # something to change, and something to delete
    wanted = request(*groups)
    for item in wanted["objects"][1:]:
        item["metadata"]["labels"]["more"] = "yes"
    rollout = looked(kube, wanted)
    edit(kube, DAEMON_SET, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}})
    edit(kube, CONFIG_MAP, {"data": {"config.json": "{}"}})
    before = read(kube, DAEMON_SET), read(kube, CONFIG_MAP)
    with pytest.raises(KubeError) as refused:
        rollout.perform()
    assert f"rdma/{NAME} was changed by somebody since it was looked at, and is left as it is" in str(refused.value)
    after = read(kube, DAEMON_SET), read(kube, CONFIG_MAP)
    assert [each["metadata"]["resourceVersion"] for each in before] == [
        each["metadata"]["resourceVersion"] for each in after
    ]


def test_a_label_that_somebody_changes_between_look_and_change_is_left_as_it_is(space: Site) -> None:
    kube = space.kube
    space.groups = {"ib-v100": space.groups["ib-v100"]}
    space.nodes()
    wanted = {**request("g"), "nodes": {"v100-1": "g", "v100-2": "g"}}
    rollout = looked(kube, wanted)
    node = "/api/v1/nodes/v100-2"
    edit(kube, "/api/v1/nodes/v100-1", {"metadata": {"labels": {"zone": "a"}}})
    edit(kube, node, {"metadata": {"labels": {CLASS_LABEL: "theirs"}}})
    with pytest.raises(KubeError, match="Node v100-2 was changed by somebody since it was looked at, and is left as"):
        rollout.perform()
    assert space.classes() == {"v100-1": "g", "v100-2": "theirs"}
    # one that is made again under the same name has none of them
    rollout = looked(kube, wanted)
    kube.request("DELETE", node, "delete")
    kube.request("POST", "/api/v1/nodes", "make", body={"metadata": {"name": "v100-2"}})
    with pytest.raises(KubeError, match="Node v100-2 was changed by"):
        rollout.perform()
    assert "v100-2" not in space.classes()
    kube.request("DELETE", node, "delete")


def test_what_was_recreated_between_look_and_delete_is_left_as_it_is(space: Site) -> None:
    kube, wanted = space.kube, request("g")
    roll_out(kube, wanted)
    rollout = looked(kube, request())
    kube.request("DELETE", DAEMON_SET, "delete")
    make(kube, next(item for item in wanted["objects"] if item["kind"] == "DaemonSet"))
    uid = read(kube, DAEMON_SET)["metadata"]["uid"]
    with pytest.raises(KubeError, match=f"DaemonSet rdma/{NAME} was changed by kubectl-create"):
        rollout.perform()
    assert read(kube, DAEMON_SET)["metadata"]["uid"] == uid


def test_what_a_controller_writes_meanwhile_is_no_change(space: Site) -> None:
    kube = space.kube
    roll_out(kube, request("g"))
    rollout = looked(kube, request())
    body = {"status": {"numberUnavailable": 7}}
    kube.merge(DAEMON_SET + "/status", "count", body, dry_run=False)
    assert rollout.actions()[f"DaemonSet rdma/{NAME}"] == "removed"
    rollout.perform()
    assert space.objects() == {}


def test_what_somebody_deletes_meanwhile_is_gone(space: Site) -> None:
    kube = space.kube
    roll_out(kube, request("g"))
    rollout = looked(kube, request())
    kube.request("DELETE", DAEMON_SET, "delete")
    rollout.perform()
    assert space.objects() == {}


def test_what_somebody_is_deleting_goes(space: Site) -> None:
    """In the foreground, an object stays until all that it has made has gone."""
    kube = space.kube
    roll_out(kube, request("g"))
    edit(kube, DAEMON_SET, {"metadata": {"finalizers": ["example.com/theirs"]}})
    rollout = looked(kube, request())
    kube.request("DELETE", DAEMON_SET, "delete")
    rollout.perform()
    assert read(kube, DAEMON_SET)["metadata"]["deletionTimestamp"]
    edit(kube, DAEMON_SET, {"metadata": {"finalizers": None}})
    assert space.objects() == {}


def test_what_is_made_at_the_same_time_is_told(space: Site) -> None:
    kube, wanted = space.kube, request("g")
    rollout = looked(kube, wanted)
    make(kube, next(item for item in wanted["objects"] if item["kind"] == "DaemonSet"))
    with pytest.raises(KubeError, match=f"DaemonSet rdma/{NAME} was made by kubectl-create at the same time"):
        rollout.perform()


# --- steps of a handover, which are made long before they are taken ------------------------------------------------------


def a_step(kube: Kube, gone: t.Sequence[dict[str, t.Any]], *objects: dict[str, t.Any], **options: t.Any) -> ClassChange:
    change = ClassChange(kube, **options)
    change.look(gone, objects, {})
    change.rehearse()
    return change


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}},
        {"spec": {"template": {"metadata": {"annotations": {"theirs": "yes"}}}}},
    ],
    ids=["taken over", "changed"],
)
def test_what_has_changed_since_a_step_was_made_is_not_deleted(space: Site, body: dict[str, t.Any]) -> None:
    kube = space.kube
    roll_out(kube, request("g"))
    seen = [read(kube, DAEMON_SET), read(kube, CONFIG_MAP)]
    edit(kube, DAEMON_SET, body)
    before = space.objects()
    with pytest.raises(KubeError, match=rf"^Nothing was changed\. DaemonSet rdma/{NAME} was changed by somebody since"):
        a_step(kube, seen)
    assert space.objects() == before
    # what has not changed goes, whatever its controller has counted meanwhile
    seen = [read(kube, DAEMON_SET), read(kube, CONFIG_MAP)]
    kube.merge(DAEMON_SET + "/status", "count", {"status": {"numberUnavailable": 7}}, dry_run=False)
    if "spec" in body:
        a_step(kube, seen).perform()
        assert space.objects() == {}
        assert a_step(kube, seen).changed is False
        return
    with pytest.raises(KubeError, match=r"is without our label app\.kubernetes\.io/managed-by, and is not deleted"):
        a_step(kube, seen)


def test_a_step_does_not_bring_what_somebody_has_made_already(space: Site) -> None:
    kube = space.kube
    objects = request("g")["objects"][1:]
    make(kube, objects[1])
    before = space.objects()
    with pytest.raises(KubeError, match=rf"DaemonSet rdma/{NAME} \(made by kubectl-create\)"):
        a_step(kube, [], *objects)
    assert space.objects() == before
    a_step(kube, [], *objects, adopt=True).perform()
    assert a_step(kube, [], *objects).changed is False


def test_a_step_labels_nodes_that_are_there(space: Site) -> None:
    kube = space.kube
    space.groups = {"ib-v100": space.groups["ib-v100"]}
    space.nodes()
    change = ClassChange(kube)
    change.look([], [], {"v100-1": {CLASS_LABEL: "g"}})
    change.rehearse()
    assert space.classes() == {}
    assert [(each["before"], each["after"]) for each in change.diff()] == [({CLASS_LABEL: None}, {CLASS_LABEL: "g"})]
    change.perform()
    assert space.classes() == {"v100-1": "g"}
    with pytest.raises(KubeError, match=r"^Nothing was changed\. Not in the cluster \S+: v100-9\."):
        ClassChange(kube).look([], [], {"v100-9": {CLASS_LABEL: "g"}})


# --- Pod Security ----------------------------------------------------------------------------------------------------


def pod_security(kube: Kube) -> list[str]:
    labels = read(kube, SPACE)["metadata"]["labels"]
    return [key for key in labels if key.startswith("pod-security")]


def test_a_namespace_loses_our_labels_when_nothing_of_ours_is_left(space: Site) -> None:
    kube = space.kube
    edit(kube, SPACE, {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "privileged"}}})
    roll_out(kube, request("g", inventory="one"))
    roll_out(kube, request("h", inventory="two"))
    assert len(pod_security(kube)) == 3
    assert "Namespace rdma" not in roll_out(kube, request(inventory="two"))
    assert len(pod_security(kube)) == 3, "the other's Pods are privileged, too"
    rollout = looked(kube, request(inventory="one"))
    assert rollout.changed
    shown = {each["before_header"]: each for each in rollout.diff()}["Namespace rdma"]
    assert "pod-security.kubernetes.io/enforce" in shown["before"]["metadata"]["labels"]
    assert "pod-security.kubernetes.io/enforce" not in shown["after"]["metadata"]["labels"]
    assert len(pod_security(kube)) == 3
    rollout.perform()
    assert pod_security(kube) == ["pod-security.kubernetes.io/warn"], "what somebody else has set stays"
    assert looked(kube, request(inventory="one")).changed is False


def test_labels_of_kube_system_are_set_only_for_who_asks(small: Site) -> None:
    """By the playbook: it is where the plugin goes when nobody names a namespace."""
    del small.rollout["namespace"]
    small.rollout["timeout"] = 0

    def labels() -> list[str]:
        found = read(small.kube, "/api/v1/namespaces/kube-system")["metadata"]["labels"]
        return [key for key in found if key.startswith("pod-security")]

    small.run("rollout")
    assert sorted(small.objects()) == [
        f"{kind} rdma-shared-dp-ib-v100-device-1017" for kind in ("ConfigMap", "DaemonSet")
    ]
    assert labels() == []
    small.rollout["pod_security"] = True
    small.run("rollout")
    assert len(labels()) == 3
    small.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": ["device_plugin"]}))
    assert (small.objects(), labels()) == ({}, [])


def test_labels_that_nobody_asks_for_any_more_go(space: Site) -> None:
    """As on kube-system, to which an earlier version gave them without being asked."""
    kube = space.kube
    roll_out(kube, request("g"))
    assert roll_out(kube, request("g", pod_security=False))["Namespace rdma"] == "given up"
    assert pod_security(kube) == []
    assert looked(kube, request("g", pod_security=False)).changed is False

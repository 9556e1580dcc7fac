# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a system on a real API server: what comes, what changes, what goes, and what is somebody else's."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    GROUP_LABEL,
    POD_SECURITY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects_ready import wait_for_objects
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SPENT_ANNOTATION, SystemRollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane
from ansible_collections.fabric.rdma.tests.cluster.test_all_systems import chart as packed

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
SPACE = "rdma"
RECORD = "ConfigMap rdma/fabric-rdma-storage"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config(name: str, group: str | None = None, **data: str) -> Json:
    labels = {GROUP_LABEL: group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "data": data,
    }


def account(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SPACE}}


def definition(plural: str = "widgets", kind: str = "Widget") -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example"},
        "spec": {"group": "test.example", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(name: str, size: t.Any = 1) -> Json:
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "test.example/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}}


@pytest.fixture
def space(site: Site) -> t.Iterator[Kube]:
    """With the namespace of the test; without its definitions afterwards."""
    body = {"metadata": {"name": SPACE}}
    site.kube.request("POST", "/api/v1/namespaces", "make", body=body)
    yield site.kube
    for name in definitions(site.kube):
        with contextlib.suppress(KubeError):
            # it may be on its way already
            site.kube.request("DELETE", f"{CRDS}/{name}", "delete")
    site.kube.forget_kinds()
    end = time.monotonic() + limit(60)
    while definitions(site.kube):
        assert time.monotonic() < end
        time.sleep(0.2)


def definitions(kube: Kube) -> list[str]:
    return [each["metadata"]["name"] for each in kube.list(CRDS, "list") if each["spec"]["group"] == "test.example"]


def looked(
    kube: Kube,
    *objects: Json,
    keep: t.Iterable[str] = (),
    charts: t.Sequence[str] = (),
    only: t.Any = None,
    labels: t.Any = None,
    known: t.Any = None,
    opened: t.Sequence[str] = (),
    **options: t.Any,
) -> SystemRollout:
    kube.forget_kinds()
    rollout = SystemRollout(kube, "storage", SPACE, **options)
    rollout.look(copy.deepcopy(list(objects)), keep, charts, only, labels, known, opened)
    rollout.rehearse()
    return rollout


def roll_out(kube: Kube, *objects: Json, **options: t.Any) -> dict[str, str]:
    """What is done with each object, by the kind and the name that it has in SPACE."""
    rollout = looked(kube, *objects, **options)
    rollout.perform()
    assert rollout.changed is bool(rollout.diff())
    return {name.replace(f" {SPACE}/", " "): what for name, what in rollout.actions().items()}


def found(kube: Kube, name: str) -> Json | None:
    return kube.find(f"/api/v1/namespaces/{SPACE}/configmaps/{name}", "read")


def edit(kube: Kube, name: str, **data: str) -> None:
    """What somebody else does."""
    path = f"/api/v1/namespaces/{SPACE}/configmaps/{name}"
    kube.request("PATCH", path, "edit", [("fieldManager", "somebody")], {"data": data}, "application/merge-patch+json")


def test_what_is_asked_for_comes_stays_changes_and_goes(space: Kube) -> None:
    record = "ConfigMap fabric-rdma-storage"
    first = roll_out(space, config("a", size="1"), account("b"))
    assert first == {record: "created", "ConfigMap a": "created", "ServiceAccount b": "created"}
    again = looked(space, config("a", size="1"), account("b"))
    assert (again.changed, again.diff()) == (False, [])
    assert roll_out(space, config("a", size="2")) == {
        record: "unchanged",
        "ConfigMap a": "changed",
        "ServiceAccount b": "removed",
    }
    # of a kind that nobody asks for any more, too, and without knowing what there was
    assert roll_out(space) == {"ConfigMap a": "removed", record: "removed"}
    assert looked(space).changed is False


def test_a_rehearsal_changes_nothing(space: Kube) -> None:
    roll_out(space, config("a"))
    rollout = looked(space, config("b"))
    assert rollout.changed
    assert found(space, "a") is not None
    assert found(space, "b") is None


def test_one_refusal_and_nothing_is_changed(space: Kube) -> None:
    wrong = {**config("b"), "date": {}}
    with pytest.raises(
        KubeError, match=r"Nothing was changed\. .*ConfigMap rdma/b: this cluster does not know a field: date"
    ):
        looked(space, config("a"), wrong)
    assert found(space, "a") is None
    assert found(space, "fabric-rdma-storage") is None


def test_what_a_finalizer_holds_is_waited_for_and_not_forgotten(space: Kube) -> None:
    roll_out(space, definition(), widget("a"), account("b"))
    path = f"/apis/test.example/v1/namespaces/{SPACE}/widgets/a"
    space.merge(path, "hold it", {"metadata": {"finalizers": ["test.example/held"]}}, dry_run=False)
    with pytest.raises(KubeError, match=r"Widget rdma/a \(finalizers: test\.example/held\)"):
        looked(space).perform(patience=Patience(2, 1))
    # who may have to let it go is still there
    assert space.find(f"/api/v1/namespaces/{SPACE}/serviceaccounts/b", "read") is not None
    assert definitions(space) == ["widgets.test.example"]
    assert found(space, "fabric-rdma-storage") is not None
    assert looked(space).actions()["Widget rdma/a"] == "removed"
    space.merge(path, "let it go", {"metadata": {"finalizers": None}}, dry_run=False)
    assert roll_out(space)[RECORD.replace(f" {SPACE}/", " ")] == "removed"
    assert (definitions(space), looked(space).changed) == ([], False)


def test_what_others_have_made_is_not_adopted_without_a_word(space: Kube) -> None:
    path = f"/api/v1/namespaces/{SPACE}/configmaps"
    space.request("POST", path, "make", [("fieldManager", "kubectl-create")], config("a", size="9"))
    with pytest.raises(KubeError, match=r"ConfigMap rdma/a \(made by kubectl-create\)"):
        looked(space, config("a", size="9"))
    assert roll_out(space, config("a", size="9"), adopt=True)["ConfigMap a"] == "taken over"
    assert roll_out(space, config("a", size="9"))["ConfigMap a"] == "unchanged"


def test_what_looks_like_ours_is_left_alone(space: Kube) -> None:
    """Labels can be copied: who has applied it counts."""
    roll_out(space, config("a"))
    ours = found(space, "a")
    assert ours is not None
    copied = {**config("copy"), "metadata": {"name": "copy", "labels": ours["metadata"]["labels"]}}
    space.request("POST", f"/api/v1/namespaces/{SPACE}/configmaps", "make", [("fieldManager", "somebody")], copied)
    rollout = looked(space)
    rollout.perform()
    assert any("ConfigMap rdma/copy has our labels, but others have made it" in text for text in rollout.warnings)
    assert found(space, "copy") is not None
    assert found(space, "a") is None


def test_another_inventory_keeps_what_it_has(space: Kube) -> None:
    roll_out(space, config("a"), inventory="one")
    assert looked(space, inventory="two").changed is False
    with pytest.raises(KubeError, match="of inventory 'one'"):
        looked(space, config("a"), inventory="two")
    assert found(space, "a") is not None


def test_two_inventories_may_have_the_same_system(space: Kube) -> None:
    """Each remembers its own, also where names of inventories differ only in what names of objects may not have."""
    for name in ("default", "Site_1", "site-1"):
        roll_out(space, config(f"of-{len(name)}-{name.lower().replace('_', '')}"), inventory=name)
    records = {item["metadata"]["name"] for item in space.list(f"/api/v1/namespaces/{SPACE}/configmaps", "list")}
    assert len({name for name in records if name.startswith("fabric-rdma-storage")}) == 3
    assert set(roll_out(space, inventory="Site_1").values()) == {"removed"}
    assert found(space, "of-6-site1") is None
    assert found(space, "of-6-site-1") is not None
    assert found(space, "fabric-rdma-storage") is not None


def test_another_system_keeps_what_it_has(space: Kube) -> None:
    other = SystemRollout(space, "secondary_network", SPACE)
    other.look([config("a")])
    other.rehearse()
    other.perform()
    assert roll_out(space, config("b")) == {"ConfigMap fabric-rdma-storage": "created", "ConfigMap b": "created"}
    roll_out(space)
    kept = found(space, "a")
    assert kept is not None
    assert kept["metadata"]["labels"][SYSTEM_LABEL] == "secondary-network"


def test_groups_that_are_kept_keep_what_they_have(space: Kube) -> None:
    roll_out(space, config("a", "one"), config("b", "two"))
    assert roll_out(space, keep=["one"]) == {"ConfigMap b": "removed"}
    # what is left is found again
    assert roll_out(space)["ConfigMap a"] == "removed"


def test_labels_of_nodes_come_and_go_with_the_system(space: Kube, site: Site) -> None:
    """And one that somebody has changed since is theirs."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes({"theirs": "yes"})
    first, second = site.groups["ib-v100"]["hosts"]

    def labels(node: str) -> Json:
        found = site.node(node)["metadata"]["labels"]
        return {key: value for key, value in found.items() if key in ("disk", "theirs")}

    wanted = {first: {"disk": "true"}, second: {"disk": "true"}}
    rollout = looked(space, config("a"), labels=wanted)
    assert rollout.labels == wanted
    assert labels(first) == {"theirs": "yes"}
    rollout.perform()
    assert labels(first) == labels(second) == {"disk": "true", "theirs": "yes"}
    assert looked(space, config("a"), labels=wanted).changed is False
    site.kube.merge(f"/api/v1/nodes/{second}", "label", {"metadata": {"labels": {"disk": "other"}}}, dry_run=False)
    gone = looked(space)
    assert gone.labels == {first: {"disk": None}}
    gone.perform()
    assert (labels(first), labels(second)) == ({"theirs": "yes"}, {"disk": "other", "theirs": "yes"})


def test_a_system_of_labels_alone_is_remembered_and_goes(space: Kube, site: Site) -> None:
    """It has no object and no chart that would tell of it."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    first, _second = site.groups["ib-v100"]["hosts"]
    looked(space, labels={first: {"leaf": "one"}}).perform()
    assert looked(space, labels={first: {"leaf": "one"}}).changed is False
    looked(space, labels={first: {"leaf": "two"}}).perform()
    assert site.node(first)["metadata"]["labels"]["leaf"] == "two"
    looked(space).perform()
    assert "leaf" not in site.node(first)["metadata"].get("labels", {})
    assert looked(space).changed is False


def test_a_label_that_was_there_before_stays(space: Kube, site: Site) -> None:
    """Whoever set it has not set it for us."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes({"disk": "true"})
    first, second = site.groups["ib-v100"]["hosts"]
    site.kube.merge(f"/api/v1/nodes/{second}", "label", {"metadata": {"labels": {"disk": None}}}, dry_run=False)
    wanted = {first: {"disk": "true"}, second: {"disk": "true"}}
    rollout = looked(space, config("a"), labels=wanted)
    assert rollout.labels == {second: {"disk": "true"}}
    rollout.perform()
    assert looked(space, config("a"), labels=wanted).changed is False
    gone = looked(space)
    assert gone.labels == {second: {"disk": None}}
    gone.perform()
    assert site.node(first)["metadata"]["labels"]["disk"] == "true"


@pytest.mark.parametrize("steps", range(6))
def test_labels_are_taken_off_also_when_a_run_is_killed_between_two_steps(space: Kube, site: Site, steps: int) -> None:
    """Labels that nobody asks for any more, and a new value of one, while the system stays."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    first, second = site.groups["ib-v100"]["hosts"]
    roll_out(space, config("a"), labels={first: {"disk": "true", "kind": "one"}, second: {"disk": "true"}})
    wanted = {first: {"kind": "two"}}
    left = steps

    def until_killed() -> None:
        nonlocal left
        if not left:
            raise KubeError("killed")
        left -= 1

    rollout = looked(space, config("a"), labels=wanted)
    # the last of these runs come to the end
    with contextlib.suppress(KubeError):
        rollout.perform(until_killed)
    roll_out(space, config("a"), labels=wanted)
    labels = {node: site.node(node)["metadata"].get("labels", {}) for node in (first, second)}
    assert [labels[node].get("disk") for node in (first, second)] == [None, None]
    assert labels[first]["kind"] == "two"
    assert looked(space, config("a"), labels=wanted).changed is False
    roll_out(space)
    assert "kind" not in site.node(first)["metadata"].get("labels", {})


def open_space(name: str) -> Json:
    labels = {POD_SECURITY + "enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def test_a_namespace_has_privileged_pods_only_as_long_as_it_needs_them(space: Kube) -> None:
    def may() -> t.Any:
        found = space.find(f"/api/v1/namespaces/{SPACE}", "read")
        assert found is not None
        return found["metadata"]["labels"].get(POD_SECURITY + "enforce")

    roll_out(space, open_space(SPACE), config("a"))
    assert may() == "privileged"
    # another system has its Pods there
    metadata = {"name": "other", "namespace": SPACE, "labels": {"app.kubernetes.io/managed-by": "fabric.rdma"}}
    template = {"metadata": {"labels": {"app": "o"}}, "spec": {"containers": [{"name": "o", "image": "o"}]}}
    spec = {"selector": {"matchLabels": {"app": "o"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{SPACE}/daemonsets"
    space.request("POST", path, "make", body={"metadata": metadata, "spec": spec})
    assert looked(space).actions() == {"ConfigMap rdma/a": "removed", RECORD: "removed"}
    space.request("DELETE", f"{path}/other", "delete")
    assert roll_out(space, config("a")) == {
        "ConfigMap fabric-rdma-storage": "changed",
        "ConfigMap a": "unchanged",
        "Namespace rdma": "given up",
    }
    assert may() is None
    assert looked(space, config("a")).changed is False
    roll_out(space, open_space(SPACE), config("a"))
    roll_out(space)
    assert may() is None


def test_a_namespace_of_a_chart_is_closed_once_the_chart_has_gone(space: Kube) -> None:
    """Also where the run that removed the chart was killed after that; not while its uninstaller may have to run, nor another system."""
    chart = f"{SPACE}/database"
    rollout = SystemRollout(space, "storage", SPACE)
    rollout.remember([chart], [SPACE])
    rollout.rehearse()
    rollout.perform()
    assert release(space, "database") == chart
    space.apply(open_space(SPACE), dry_run=False)
    roll_out(space, config("a"), charts=[chart], opened=[SPACE])
    assert looked(space, config("a"), charts=[chart], opened=[SPACE]).changed is False

    first = looked(space)
    assert first.old_charts == [chart]
    assert "Namespace rdma" not in first.actions()
    first.perform()
    secrets = f"/api/v1/namespaces/{SPACE}/secrets"
    space.request("DELETE", f"{secrets}/sh.helm.release.v1.database.v1", "delete")
    other = SystemRollout(space, "vgpu", SPACE)
    other.remember([f"{SPACE}/other"], [SPACE])
    other.rehearse()
    other.perform()
    assert "Namespace rdma" not in looked(space).actions()
    space.request("DELETE", f"/api/v1/namespaces/{SPACE}/configmaps/fabric-rdma-vgpu", "delete")
    assert roll_out(space) == {"ConfigMap fabric-rdma-storage": "removed", "Namespace rdma": "given up"}
    found_now = space.find(f"/api/v1/namespaces/{SPACE}", "read")
    assert found_now is not None
    assert POD_SECURITY + "enforce" not in (found_now["metadata"].get("labels") or {})


def test_a_node_that_is_to_be_labelled_and_is_not_there_is_named(space: Kube) -> None:
    with pytest.raises(
        KubeError, match=r"Nothing was changed\. 1 of 1 nodes .*: nowhere\. Name them in rdma_rollout\.node_names"
    ):
        looked(space, config("a"), labels={"nowhere": {"disk": "true"}})
    assert found(space, "a") is None


def test_what_is_of_one_group_goes_alone(space: Kube) -> None:
    roll_out(space, config("a", "one"), config("b", "two"), config("c"))
    rollout = looked(space, only=["one"])
    rollout.perform()
    assert rollout.actions() == {"ConfigMap rdma/a": "removed"}
    assert roll_out(space) == {
        "ConfigMap b": "removed",
        "ConfigMap c": "removed",
        "ConfigMap fabric-rdma-storage": "removed",
    }


def test_an_object_comes_with_its_definition(space: Kube) -> None:
    """And is checked by it as soon as it is there."""
    first = looked(space, definition(), widget("w"))
    assert any("Widget rdma/w" in text for text in first.warnings)
    first.perform()
    assert looked(space, definition(), widget("w")).changed is False
    with pytest.raises(KubeError, match="Nothing was changed"):
        looked(space, definition(), widget("w", size="large"))
    assert roll_out(space) == {
        "Widget w": "removed",
        "CustomResourceDefinition widgets.test.example": "removed",
        "ConfigMap fabric-rdma-storage": "removed",
    }


def test_a_definition_of_which_others_have_objects_stays(space: Kube) -> None:
    roll_out(space, definition(), widget("ours"))
    space.forget_kinds()
    path = f"/apis/test.example/v1/namespaces/{SPACE}/widgets"
    space.request("POST", path, "make", [("fieldManager", "somebody")], widget("theirs"))
    rollout = looked(space)
    rollout.perform()
    (said,) = rollout.warnings
    assert said == "CustomResourceDefinition widgets.test.example stays: others have objects of it (Widget rdma/theirs)"
    left = space.list(path, "list")
    assert [item["metadata"]["name"] for item in left] == ["theirs"]
    # it is not forgotten: it goes once nobody has any of it
    assert looked(space).changed is False
    space.request("DELETE", f"{path}/theirs", "delete")
    assert roll_out(space) == {
        "CustomResourceDefinition widgets.test.example": "removed",
        "ConfigMap fabric-rdma-storage": "removed",
    }


def test_a_definition_goes_with_objects_that_hold_nothing(space: Kube) -> None:
    """Of a kind of which the system makes objects by itself, as Whereabouts makes pools: those in use keep it."""
    own = definition()
    own["metadata"]["annotations"] = {SPENT_ANNOTATION: "spec.size"}
    roll_out(space, own, config("a"))
    space.forget_kinds()
    path = f"/apis/test.example/v1/namespaces/{SPACE}/widgets"
    for name, spec in (("spent", {}), ("empty", {"size": 0}), ("used", {"size": 1})):
        body = {**widget(name), "spec": spec}
        space.request("POST", path, "make", [("fieldManager", "somebody")], body)
    rollout = looked(space)
    assert rollout.warnings == [
        "CustomResourceDefinition widgets.test.example stays: others have objects of it (Widget rdma/used)"
    ]
    rollout.perform()
    assert len(space.list(path, "list")) == 3
    space.request("DELETE", f"{path}/used", "delete")
    assert roll_out(space) == {
        "CustomResourceDefinition widgets.test.example": "removed",
        "ConfigMap fabric-rdma-storage": "removed",
    }


def test_a_kind_that_nobody_defines_is_named(space: Kube) -> None:
    with pytest.raises(KubeError, match=r"the cluster does not know Widget of test\.example/v1"):
        looked(space, widget("w"))
    # a check in which a chart that brings it was not installed
    rollout = looked(space, widget("w"), pending=True)
    assert rollout.actions()["Widget rdma/w"] == "created"


def test_what_somebody_changes_meanwhile_is_left_as_it_is(space: Kube) -> None:
    roll_out(space, config("a", size="1"))
    rollout = looked(space, config("a", size="2"))
    edit(space, "a", colour="blue")
    with pytest.raises(KubeError, match="ConfigMap rdma/a was changed by somebody since it was looked at"):
        rollout.perform()
    assert found(space, "a")["data"] == {"size": "1", "colour": "blue"}  # type: ignore[index]


def test_a_label_that_somebody_changes_meanwhile_is_left_as_it_is(space: Kube, site: Site) -> None:
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    first, second = site.groups["ib-v100"]["hosts"]
    roll_out(space, config("a"), labels={first: {"disk": "true"}, second: {"disk": "true"}})
    rollout = looked(space, config("a"))
    assert rollout.labels == {first: {"disk": None}, second: {"disk": None}}
    path = "/api/v1/nodes/"
    site.kube.merge(path + first, "label", {"metadata": {"labels": {"zone": "a"}}}, dry_run=False)
    site.kube.merge(path + second, "label", {"metadata": {"labels": {"disk": "theirs"}}}, dry_run=False)
    with pytest.raises(KubeError, match=f"Node {second} was changed by .* since it was looked at"):
        rollout.perform()
    assert "disk" not in site.node(first)["metadata"]["labels"]
    assert site.node(second)["metadata"]["labels"]["disk"] == "theirs"


def test_a_record_that_somebody_changes_meanwhile_is_not_overwritten(space: Kube, site: Site) -> None:
    """It is written when a run begins, and again when it ends."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    first, _second = site.groups["ib-v100"]["hosts"]
    roll_out(space, config("a"), labels={first: {"disk": "true"}})
    rollout = looked(space, config("a"), labels={first: {"leaf": "one"}})
    steps = 0

    def before_each() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            edit(space, "fabric-rdma-storage", theirs="yes")

    with pytest.raises(KubeError, match="fabric-rdma-storage was changed by somebody since it was looked at"):
        rollout.perform(before_each)
    assert steps == 3, "its own, a label, and what was to be forgotten"
    assert found(space, "fabric-rdma-storage")["data"]["theirs"] == "yes"  # type: ignore[index]
    roll_out(space, config("a"), labels={first: {"leaf": "one"}})
    assert looked(space, config("a"), labels={first: {"leaf": "one"}}).changed is False


def test_fields_that_others_have_set_are_taken_only_with_force(space: Kube) -> None:
    roll_out(space, config("a", size="1"))
    edit(space, "a", size="7")
    with pytest.raises(KubeError, match="others have set the same fields"):
        looked(space, config("a", size="1"))
    assert roll_out(space, config("a", size="1"), force=True)["ConfigMap a"] == "changed"


def test_a_chart_is_remembered_until_it_is_gone(space: Kube) -> None:
    secret = f"/api/v1/namespaces/{SPACE}/secrets"
    body = {"metadata": {"name": "sh.helm.release.v1.c.v1", "labels": {"owner": "helm", "name": "c"}}}
    space.request("POST", secret, "make", body=body)
    roll_out(space, charts=[f"{SPACE}/c"])
    rollout = looked(space)
    assert rollout.old_charts == [f"{SPACE}/c"]
    # whoever was to remove it may have been killed
    assert RECORD not in rollout.actions()
    space.request("DELETE", f"{secret}/sh.helm.release.v1.c.v1", "delete")
    rollout = looked(space)
    assert (rollout.old_charts, rollout.actions()) == ([], {RECORD: "removed"})
    rollout.perform()
    assert found(space, "fabric-rdma-storage") is None


def release(space: Kube, name: str) -> str:
    """What Helm keeps of a release."""
    body = {"metadata": {"name": f"sh.helm.release.v1.{name}.v1", "labels": {"owner": "helm", "name": name}}}
    space.request("POST", f"/api/v1/namespaces/{SPACE}/secrets", "make", body=body)
    return f"{SPACE}/{name}"


def test_a_record_of_somebody_else_says_nothing(space: Kube, site: Site) -> None:
    """Neither a release nor a label goes for it."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    node = next(iter(site.groups["ib-v100"]["hosts"]))
    chart = release(space, "database")
    rollout = SystemRollout(space, "storage", SPACE, inventory="one")
    rollout.look([], charts=[chart], labels={node: {"disk": "true"}})
    rollout.rehearse()
    rollout.perform()
    other = looked(space, inventory="two")
    assert (other.old_charts, other.labels, other.actions()) == ([], {}, {})
    ours = looked(space, inventory="one")
    assert (ours.old_charts, ours.labels) == ([chart], {node: {"disk": None}})


def test_a_release_of_somebody_else_is_not_adopted_without_a_word(space: Kube) -> None:
    chart = release(space, "database")
    rollout = SystemRollout(space, "storage", SPACE)
    with pytest.raises(
        KubeError, match=r"Nothing was changed\. Releases .*: rdma/database .*rdma_rollout\.adopt: true"
    ):
        rollout.remember([chart])
    rollout = SystemRollout(space, "storage", SPACE, adopt=True)
    rollout.remember([chart])
    rollout.rehearse()
    rollout.perform()
    # from then on it is this inventory's
    again = SystemRollout(space, "storage", SPACE)
    again.remember([chart])
    again.rehearse()
    assert again.changed is False
    assert looked(space).old_charts == [chart]


def helm(directory: Path, site: Site, *words: str) -> None:
    command = [control_plane.find_helm(), "--kubeconfig", str(site.kubeconfig), "--namespace", SPACE, *words]
    environment = {**os.environ, "HELM_CACHE_HOME": str(directory), "HELM_CONFIG_HOME": str(directory)}
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=limit(60))


def remember(space: Kube, chart: str, adopt: bool = False) -> None:
    rollout = SystemRollout(space, "storage", SPACE, adopt=adopt)
    rollout.remember([chart])
    rollout.rehearse()
    rollout.perform()


def test_a_release_that_somebody_else_has_put_in_the_place_of_ours_is_not_ours(
    space: Kube, site: Site, tmp_path: Path
) -> None:
    """By a real Helm, which knows nothing of us."""
    packed(tmp_path, "database", "1.0.0")
    package, name = str(tmp_path / "database-1.0.0.tgz"), f"{SPACE}/database"
    remember(space, name)
    helm(tmp_path, site, "install", "database", package)
    # a run that was killed here goes on
    remember(space, name)
    roll_out(space, config("a"), charts=[name])
    # an upgrade by hand leaves it ours, also when Helm has forgotten how it began
    helm(tmp_path, site, "upgrade", "database", package, "--set", "a=b", "--history-max", "1")
    remember(space, name)
    roll_out(space, config("a"), charts=[name])
    assert looked(space, config("a"), charts=[name]).changed is False

    helm(tmp_path, site, "uninstall", "database")
    helm(tmp_path, site, "install", "database", package)
    with pytest.raises(
        KubeError, match=r"Nothing was changed\. Releases .*: rdma/database .*rdma_rollout\.adopt: true"
    ):
        remember(space, name)
    leaving = looked(space)
    assert leaving.old_charts == []
    assert leaving.warnings == [
        "release rdma/database is not the one that a rollout has installed: somebody else has put another in its place, and it is left alone"
    ]

    remember(space, name, adopt=True)
    remember(space, name)
    assert looked(space).old_charts == [name]
    # ours that somebody has removed may come again
    helm(tmp_path, site, "uninstall", "database")
    remember(space, name)
    helm(tmp_path, site, "install", "database", package)
    roll_out(space, config("a"), charts=[name])
    assert looked(space).old_charts == [name]


def test_what_helm_did_not_install_is_forgotten(space: Kube) -> None:
    """Whoever installs it later is somebody else; what another run was killed at stays remembered."""
    name, other = f"{SPACE}/database", f"{SPACE}/cache"
    for chart in (name, other):
        remember(space, chart)
    rollout = SystemRollout(space, "storage", SPACE)
    rollout.remember([], tried=[name])
    rollout.rehearse()
    rollout.perform()
    release(space, "database")
    with pytest.raises(KubeError, match=r"Nothing was changed\. Releases .*: rdma/database "):
        remember(space, name)
    # what has come of what was tried is ours from then on
    release(space, "cache")
    rollout = SystemRollout(space, "storage", SPACE)
    rollout.remember([], tried=[other])
    rollout.rehearse()
    rollout.perform()
    assert looked(space).old_charts == [other]


def test_nodes_that_are_not_in_a_run_keep_their_labels(space: Kube, site: Site) -> None:
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    first, second = site.groups["ib-v100"]["hosts"]
    roll_out(space, config("a"), labels={first: {"disk": "true"}, second: {"disk": "true"}})
    part = looked(space, config("a"), labels={}, known=[first])
    assert part.labels == {first: {"disk": None}}
    part.perform()
    assert looked(space, config("a"), labels={}, known=[first]).changed is False
    # it is not forgotten
    assert looked(space).labels == {second: {"disk": None}}


def test_a_record_that_somebody_has_spoilt_is_an_error(space: Kube) -> None:
    roll_out(space, config("a"))
    edit(space, "fabric-rdma-storage", kinds="{")
    with pytest.raises(KubeError, match=r"ConfigMap rdma/fabric-rdma-storage is not what a rollout wrote.*Delete it"):
        looked(space)


def test_waiting_ends_with_what_is_missing(space: Kube) -> None:
    roll_out(space, config("a", size="1"))
    there = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": SPACE,
        "name": "a",
        "path": "data.size",
        "value": "1",
    }
    assert wait_for_objects(space, [there], Patience(0, 1))[0] == []
    other = {**there, "value": "2"}
    gone = {"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": SPACE, "name": "d", "path": ""}
    said, _waited = wait_for_objects(space, [other, gone], Patience(0, 1))
    assert said == ["ConfigMap rdma/a: data.size is 1, not 2", "DaemonSet rdma/d does not exist"]


def test_what_is_waited_for_may_be_of_a_kind_that_is_not_served_yet(space: Kube) -> None:
    wait = {"apiVersion": "test.example/v1", "kind": "Widget", "namespace": SPACE, "name": "w", "path": "spec.size"}
    said, _waited = wait_for_objects(space, [{**wait, "value": "1"}], Patience(0, 1))
    assert said == ["Widget rdma/w: the cluster does not serve Widget of test.example/v1"]

    def define(_seconds: float) -> None:
        roll_out(space, definition(), widget("w"))

    assert wait_for_objects(space, [{**wait, "value": "1"}], Patience(60, 1, sleep=define))[0] == []

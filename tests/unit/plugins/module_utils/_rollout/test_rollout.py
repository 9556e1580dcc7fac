# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout finds of an earlier one, where a real API server does not come that far: tests/cluster has all else."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout import endings
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    APP_NAME,
    CLASS_LABEL,
    GROUP_LABEL,
    GROUPS_ANNOTATION,
    INVENTORY_LABEL,
    MANAGED_BY,
    POLICY_VERSION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER, describe
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import STATE_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

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


def labelled(value: str | None, name: str = "n1", **more: str) -> Json:
    labels = {**({CLASS_LABEL: value} if value else {}), **more}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


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


# --- two plugins of one resource on a node ------------------------------------------------------------------------------


def of_a_class(kind: str, slug: str, namespace: str = "kube-system") -> Json:
    labels = {
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/name": APP_NAME,
        "app.kubernetes.io/instance": slug,
        GROUP_LABEL: slug,
        INVENTORY_LABEL: "default",
    }
    version = "apps/v1" if kind == "DaemonSet" else "v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": f"{kind.lower()}-{slug}", "namespace": namespace, "labels": labels},
    }


def serving(slug: str) -> Server:
    """A cluster of which one node is in a class, with the Pod of its plugin."""
    server = Server(labelled(slug), of_a_class("Pod", slug))
    for kind in ("DaemonSet", "ConfigMap"):
        server.put(of_a_class(kind, slug), FIELD_MANAGER)
    for name in ("kube-system", "rdma"):
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return server


def looks_while_one_ends(monkeypatch: pytest.MonkeyPatch, server: t.Any, pod: str | None) -> list[list[str]]:
    """What was written before each look at plugins that have to end. After the first one, a Pod (NAMESPACE/pods/NAME) has."""
    done: list[list[str]] = []
    clock = iter(range(1000))

    def pause(_seconds: float) -> None:
        done.append(server.written)
        server.items.pop(f"/api/v1/namespaces/{pod}", None)

    monkeypatch.setattr(endings, "_UNTIL_ENDED", Patience(5, 1, clock=lambda: next(clock), sleep=pause))
    return done


@pytest.mark.parametrize(("slug", "namespace"), [("new", "kube-system"), ("old", "rdma")], ids=["renamed", "moved"])
@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "its node is down"])
def test_a_plugin_has_ended_before_the_next_of_its_node_comes(
    slug: str, namespace: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it ends, a plugin removes the socket of its resource, also the one of who came after it."""
    server = serving("old")
    done = looks_while_one_ends(monkeypatch, server, "kube-system/pods/pod-old" if ends else None)
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, slug, namespace) for kind in ("ConfigMap", "DaemonSet")], {"n1": slug}, [])
    rollout.rehearse()
    rollout.perform()
    goes = [f"delete {kind} kube-system/{kind.lower()}-old" for kind in ("ConfigMap", "DaemonSet")]
    # where the next run looks for more than DaemonSets, the rest can go last
    last = [goes.pop(0)] if slug == "new" else []
    assert done[0] == goes
    assert (len(done) == 1) is ends
    labels = ["label node n1"] if slug == "new" else []
    come = [f"apply {kind} {namespace}/{kind.lower()}-{slug}" for kind in ("ConfigMap", "DaemonSet")]
    assert server.written == [*goes, *come, *labels, *last]


def test_a_plugin_that_a_killed_run_has_removed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ConfigMap tells of it."""
    server = serving("old")
    del server.items["/apis/apps/v1/namespaces/kube-system/daemonsets/daemonset-old"]
    done = looks_while_one_ends(monkeypatch, server, "kube-system/pods/pod-old")
    rollout = Rollout(server)
    rollout.look([of_a_class("DaemonSet", "new")], {"n1": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    assert done == [[]]


def test_a_namespace_is_closed_before_its_plugin_goes() -> None:
    """Of a run that is killed after that, nothing there tells the next one to look at it."""
    server = serving("old")
    path = "/api/v1/namespaces/kube-system"
    fields = {"f:metadata": {"f:labels": {"f:pod-security.kubernetes.io/enforce": {}}}}
    entry = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    server.items[path]["metadata"]["managedFields"].append(entry)
    del server.items["/api/v1/namespaces/kube-system/pods/pod-old"]
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, "old", "rdma") for kind in ("ConfigMap", "DaemonSet")], {"n1": "old"}, [])
    rollout.rehearse()
    rollout.perform()
    assert server.written[:3] == [
        "apply Namespace kube-system",
        *(f"delete {kind} kube-system/{kind.lower()}-old" for kind in ("ConfigMap", "DaemonSet")),
    ]


@pytest.mark.parametrize("driver", [False, True])
def test_a_policy_of_which_the_nodes_get_another_goes_first(driver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renamed group. Where the policy brings a driver, the next plugin waits for the next driver."""
    server = Server(labelled("old"))
    server.served["/apis/" + POLICY_VERSION] = {"NicNodePolicy": "nicnodepolicies"}  # type: ignore[index]
    spec: Json = {"rdmaSharedDevicePlugin": {"config": "{}"}, **({"ofedDriver": {}} if driver else {})}
    policies = [{**of_a_class("NicNodePolicy", slug), "apiVersion": POLICY_VERSION} for slug in ("old", "new")]
    for policy in policies:
        del policy["metadata"]["namespace"]
    server.put({**policies[0], "spec": spec}, FIELD_MANAGER)
    rollout = Rollout(server)
    rollout.look([{**policies[1], "spec": spec}], {"n1": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    steps = ["delete NicNodePolicy nicnodepolicy-old", "apply NicNodePolicy nicnodepolicy-new", "label node n1"]
    assert server.written == (steps[1:] + steps[:1] if driver else steps)


@pytest.mark.parametrize("whole", [True, False], ids=["NicNodePolicy", "NicClusterPolicy"])
def test_plugins_of_the_operator_have_ended_too(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator takes them away some time after their policy has gone."""
    server = Server(labelled("old"))
    server.served["/apis/" + POLICY_VERSION] = {  # type: ignore[index]
        "NicNodePolicy": "nicnodepolicies",
        "NicClusterPolicy": "nicclusterpolicies",
    }
    server.put({"kind": "Namespace", "metadata": {"name": "kube-system"}})
    policy = {**of_a_class("NicNodePolicy", "old"), "apiVersion": POLICY_VERSION}
    del policy["metadata"]["namespace"]
    if not whole:
        annotations = {INVENTORY_LABEL: "default", GROUPS_ANNOTATION: "old=old"}
        metadata = {"name": "nic-cluster-policy", "annotations": annotations}
        policy = {**policy, "kind": "NicClusterPolicy", "metadata": metadata}
    made = server.put({**policy, "spec": {"rdmaSharedDevicePlugin": {"config": "{}"}}}, FIELD_MANAGER)

    def part(kind: str, owner: Json, **labels: str) -> Json:
        metadata = {"name": kind.lower(), "namespace": "operator", "labels": labels}
        owners = [{"uid": owner["metadata"]["uid"]}]
        spec = {"selector": {"matchLabels": {"app": "dp"}}} if kind == "DaemonSet" else {}
        return server.put({"kind": kind, "metadata": {**metadata, "ownerReferences": owners}, "spec": spec}, "operator")

    plugin = part("DaemonSet", made, **{"nvidia.network-operator.state": "state-RDMA-device-plugin"})
    part("Pod", plugin, app="dp")
    # the plugin of a policy that stays
    labels, owners = {"app": "dp"}, [{"uid": "another"}]
    metadata = {"name": "other", "namespace": "operator", "labels": labels, "ownerReferences": owners}
    server.put({"kind": "Pod", "metadata": metadata})
    done = looks_while_one_ends(monkeypatch, server, "operator/pods/pod")
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, "new") for kind in ("ConfigMap", "DaemonSet")], {"n1": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    assert done == [[f"delete {policy['kind']} {policy['metadata']['name']}"]]
    assert server.written[1:] == [
        *(f"apply {kind} kube-system/{kind.lower()}-new" for kind in ("ConfigMap", "DaemonSet")),
        "label node n1",
    ]


@pytest.mark.parametrize("policy", [False, True], ids=["DaemonSet", "NicNodePolicy"])
def test_a_plugin_has_ended_before_the_next_of_a_node_that_moves_between_classes_comes(
    policy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes of a group offer the same resource: that of the old one runs on for other nodes."""
    server = Server(labelled("old"), labelled("old", "n2"))
    server.put({"kind": "Namespace", "metadata": {"name": "kube-system"}})
    server.served["/apis/" + POLICY_VERSION] = {"NicNodePolicy": "nicnodepolicies"}  # type: ignore[index]
    kinds = ["NicNodePolicy"] if policy else ["ConfigMap", "DaemonSet"]

    def wanted(slug: str) -> list[Json]:
        found = [of_a_class(kind, slug) for kind in kinds]
        if policy:
            found[0].update(apiVersion=POLICY_VERSION, spec={"rdmaSharedDevicePlugin": {"config": "{}"}})
            del found[0]["metadata"]["namespace"]
        return found

    made = [server.put(item, FIELD_MANAGER) for item in wanted("old")]
    labels = of_a_class("Pod", "old")["metadata"]["labels"]
    owners: list[Json] = []
    if policy:
        metadata = {"name": "d", "namespace": "kube-system", "labels": {STATE_LABEL: "state-RDMA-device-plugin"}}
        owners = [{"uid": made[0]["metadata"]["uid"]}]
        spec = {"selector": {"matchLabels": {"app.kubernetes.io/instance": "old"}}}
        daemon_set = {"kind": "DaemonSet", "metadata": {**metadata, "ownerReferences": owners}, "spec": spec}
        owners = [{"uid": server.put(daemon_set)["metadata"]["uid"]}]
    for node in ("n1", "n2"):
        metadata = {"name": "p-" + node, "namespace": "kube-system", "labels": labels, "ownerReferences": owners}
        server.put({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}})
    done = looks_while_one_ends(monkeypatch, server, "kube-system/pods/p-n1")
    rollout = Rollout(server)
    rollout.look([*wanted("old"), *wanted("new")], {"n1": "new", "n2": "old"}, [])
    rollout.rehearse()
    rollout.perform()
    come = [f"apply {describe(item)}" for item in wanted("new")]
    assert done == [[*come, "label node n1"]]
    assert server.written == [*come, "label node n1", "label node n1"]
    assert server.items[NODE]["metadata"]["labels"] == {CLASS_LABEL: "new"}


def test_plugins_that_end_one_after_the_other_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector takes some twenty Pods a second: of thousands of nodes, it comes to the last ones after minutes."""
    server, clock = serving("old"), iter(range(1000))
    pods = [
        server.place(
            server.put(
                {**of_a_class("Pod", "old"), "metadata": {**of_a_class("Pod", "old")["metadata"], "name": f"p{n}"}}
            )
        )
        for n in range(9)
    ]
    monkeypatch.setattr(
        endings,
        "_UNTIL_ENDED",
        Patience(5, 1, clock=lambda: next(clock), sleep=lambda _: pods and server.items.pop(pods.pop())),
    )
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, "new") for kind in ("ConfigMap", "DaemonSet")], {"n1": "new"}, [])
    rollout.rehearse()
    renewed: list[int] = []
    rollout.perform(lambda: renewed.append(len(pods)))
    assert pods == []
    # the Lease outlasts that
    assert {*renewed} == {*range(10)}


def test_who_may_not_list_pods_is_told_that_nothing_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serving("old")
    listed = server.list

    def refused(path: str, doing: str, **query: t.Any) -> list[Json]:
        if path.endswith("/pods") and "/namespaces/" in path:
            raise KubeError(f"{doing}: pods is forbidden", 403)
        return listed(path, doing, **query)

    monkeypatch.setattr(server, "list", refused)
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, "new") for kind in ("ConfigMap", "DaemonSet")], {"n1": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    assert server.items[NODE]["metadata"]["labels"] == {CLASS_LABEL: "new"}
    (warning,) = server.warnings
    assert "have ended: list Pods of kube-system: pods is forbidden" in warning


def test_plugins_that_stay_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a NicClusterPolicy that others have a part of, too."""
    server = Server(labelled("old"))
    server.served["/apis/" + POLICY_VERSION] = {"NicClusterPolicy": "nicclusterpolicies"}  # type: ignore[index]
    server.put({"kind": "Namespace", "metadata": {"name": "kube-system"}})
    spec: Json = {"rdmaSharedDevicePlugin": {}, "sriovDevicePlugin": {}}
    annotations = {INVENTORY_LABEL: "default", GROUPS_ANNOTATION: "old=old"}
    policy = {
        "apiVersion": POLICY_VERSION,
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy", "annotations": annotations},
        "spec": spec,
    }
    made = server.put(policy, FIELD_MANAGER)
    owners = [{"uid": made["metadata"]["uid"]}]
    for entry, section in (("f:rdmaSharedDevicePlugin", FIELD_MANAGER), ("f:sriovDevicePlugin", "helm")):
        row = {"manager": section, "operation": "Apply", "fieldsV1": {"f:spec": {entry: {}}}}
        place = server.place(policy)
        kept = server.items[place]["metadata"]["managedFields"]
        server.items[place]["metadata"]["managedFields"] = [each for each in kept if "fieldsV1" in each] + [row]
    labels = {"nvidia.network-operator.state": "state-SRIOV-device-plugin"}
    metadata = {"name": "sriov", "namespace": "operator", "labels": labels, "ownerReferences": owners}
    plugin = server.put({"kind": "DaemonSet", "metadata": metadata, "spec": {"selector": {"matchLabels": {"a": "b"}}}})
    owners = [{"uid": plugin["metadata"]["uid"]}]
    server.put({"kind": "Pod", "metadata": {**metadata, "labels": {"a": "b"}, "ownerReferences": owners}})
    paused: list[float] = []
    monkeypatch.setattr(endings, "_UNTIL_ENDED", Patience(3, 1, clock=lambda: len(paused), sleep=paused.append))
    rollout = Rollout(server)
    rollout.look([of_a_class(kind, "new") for kind in ("ConfigMap", "DaemonSet")], {"n1": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    assert paused == []


def test_a_plugin_of_which_no_node_gets_another_goes_last() -> None:
    server = serving("old")
    rollout = Rollout(server)
    server.put({**labelled(None), "metadata": {"name": "n2", "labels": {}}})
    rollout.look([of_a_class("DaemonSet", "new")], {"n2": "new"}, [])
    rollout.rehearse()
    rollout.perform()
    assert server.written[0] == "apply DaemonSet kube-system/daemonset-new"
    assert server.written[-2:] == [
        f"delete {kind} kube-system/{kind.lower()}-old" for kind in ("DaemonSet", "ConfigMap")
    ]


def test_another_inventory_has_no_class_of_the_same_name_wherever_it_is() -> None:
    """Nodes are told apart by the name of their class alone."""
    server = serving("old")
    theirs = of_a_class("DaemonSet", "old", "rdma")
    theirs["metadata"]["labels"][INVENTORY_LABEL] = "west"
    server.put(theirs, FIELD_MANAGER)
    wanted = [of_a_class("DaemonSet", "old")]
    with pytest.raises(KubeError, match=r"another one: DaemonSet rdma/daemonset-old \(inventory 'west'\)"):
        Rollout(server).look(wanted, {"n1": "old"}, [])
    # also where objects are taken over: that one is none of them, and would run beside ours
    with pytest.raises(KubeError, match=r"roll out where they are with rdma_rollout.adopt: true"):
        Rollout(server, adopt=True).look(wanted, {"n1": "old"}, [])
    Rollout(server, adopt=True).look([of_a_class("DaemonSet", "old", "rdma")], {"n1": "old"}, [])
    # no class of ours
    Rollout(server).look([], {}, [])
    # a configuration that was left behind runs nothing
    server.items["/api/v1/namespaces/rdma/configmaps/configmap-old"] = {
        **of_a_class("ConfigMap", "old", "rdma"),
        "metadata": {**theirs["metadata"], "name": "configmap-old"},
    }
    del server.items["/apis/apps/v1/namespaces/rdma/daemonsets/daemonset-old"]
    Rollout(server, place="rdma").look(wanted, {"n1": "old"}, [])
    theirs["metadata"]["labels"][INVENTORY_LABEL] = "default"
    server.put(theirs, FIELD_MANAGER)
    Rollout(server).look(wanted, {"n1": "old"}, [])


def test_a_policy_of_another_inventory_has_no_class_of_the_same_name() -> None:
    rollout = Rollout(t.cast("t.Any", OfTheOperator("elsewhere")))
    with pytest.raises(KubeError, match=r"another one: NicClusterPolicy nic-cluster-policy \(inventory 'elsewhere'\)"):
        rollout.look([], {"n1": "a-x"}, [])
    Rollout(t.cast("t.Any", OfTheOperator("elsewhere"))).look([], {"n1": "c"}, [])
    rollout = Rollout(t.cast("t.Any", OfTheOperator("elsewhere")), adopt=True)
    rollout.look([], {"n1": "a-x"}, [])
    assert rollout.actions() == {"NicClusterPolicy nic-cluster-policy": "removed"}

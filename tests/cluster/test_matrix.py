# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every module that speaks to an API server: a check predicts and changes nothing, a second run finds nothing to do,
a difference is shown exactly when something changes, what is returned is what RETURN describes, and the examples work."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, SYSTEM_LABEL
from ansible_collections.fabric.rdma.tests.cluster.test_interrupted import module
from ansible_collections.fabric.rdma.tests.cluster.test_ownership import request
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import differs, insist_on_return

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
# a resource that no plugin advertises any more
OLD = "rdma/old"


def said(site: Site, name: str, arguments: Json, check: bool = False) -> Json:
    with module(site.kubeconfig, arguments, check=check, name=name) as process:
        result = json.loads(process.communicate()[0])
    result.pop("invocation", None)
    return t.cast("Json", result)


def changes(site: Site, name: str, arguments: Json) -> Json:
    """Puts a module that has something to do through all of it; what it says of the change."""
    kept = state(site)
    predicted = said(site, name, arguments, check=True)
    assert (predicted["changed"], state(site)) == (True, kept), predicted
    done = said(site, name, arguments)
    assert done["changed"] is True, done
    assert done["diff"] == predicted["diff"]
    assert state(site) != kept
    after = state(site)
    again = [said(site, name, arguments), said(site, name, arguments, check=True)]
    assert [each["changed"] for each in again] == [False, False]
    assert state(site) == after
    for each in (predicted, done, *again):
        insist_on_return(name, each)
        assert differs(each.get("diff")) is each["changed"], name
    return done


def state(site: Site) -> t.Any:
    """What a module may change: objects, Leases, labels and resources."""
    leases = site.kube.list("/apis/coordination.k8s.io/v1/leases", "list Leases")
    held = [
        (each["metadata"]["namespace"], each["metadata"]["uid"])
        for each in leases
        if "fabric" in each["metadata"]["name"]
    ]
    nodes = site.kube.list("/api/v1/nodes", "list nodes")
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") for node in nodes}
    # what a kubelet reports comes and goes by itself
    stale = [node["metadata"]["name"] for node in nodes if OLD in node["status"].get("capacity", {})]
    return site.objects(), of_systems(site), held, labels, stale


def of_systems(site: Site) -> dict[str, str]:
    """What systems have, with the version that the server gives it: it changes with every write."""
    found = {}
    for kind, path in (("ConfigMap", "/api/v1/configmaps"), ("DaemonSet", "/apis/apps/v1/daemonsets")):
        for item in site.kube.list(path, "list", labelSelector=SYSTEM_LABEL):
            # a DaemonSet's status is the controller's
            version = item["metadata"]["generation"] if kind == "DaemonSet" else item["metadata"]["resourceVersion"]
            found[f"{kind} {item['metadata']['name']}"] = f"{item['metadata']['uid']} {version}"
    return found


def test_modules_of_a_rollout_keep_the_rules_of_the_matrix(site: Site) -> None:
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    wanted = {**request("g"), "nodes": {"v100-1": "g"}, "known": ["v100-1"]}
    changes(site, "rollout", wanted)
    changed = json.loads(json.dumps(wanted).replace("registry.example/plugin:v1", "registry.example/plugin:v2"))
    assert changes(site, "rollout", changed)["objects"]["DaemonSet rdma/rdma-shared-dp-g"] == "changed"
    waited = {"name": "g", "namespace": "rdma", "daemon_set": "rdma-shared-dp-g", "nodes": ["v100-1"]}
    ready = said(site, "rollout_ready", {**waited, "resources": {"rdma/r": 63}, "timeout": 60})
    assert (ready["changed"], ready["missing"]) == (False, [])
    insist_on_return("rollout_ready", ready)
    there = said(site, "rollout_departures", {"hosts": ["v100-1"]})
    assert there["changed"] is False
    insist_on_return("rollout_departures", there)
    gone = said(site, "rollout_departures", {"hosts": []})
    assert "v100-1" in gone["msg"]
    insist_on_return("rollout_departures", gone)
    changes(site, "rollout", {**wanted, "objects": [], "nodes": {}})
    # bad input
    kept = state(site)
    wanted["objects"][2]["spec"]["templat"] = {}
    for check in (True, False):
        assert "does not know a field: " in said(site, "rollout", wanted, check)["msg"]
    for wrong, words in (
        ({"nodes": []}, "has no nodes"),
        ({"resources": {}}, "has no resources"),
        ({"resources": {"rdma/r": "many"}}, "rdma/r is 'many', which must be a whole number"),
        ({"node_resources": {"v100-1": {"rdma/r": -1}}}, "node_resources of v100-1: rdma/r is -1"),
        ({"node_resources": {"v100-1": 1}}, "1 must be a dictionary"),
    ):
        asked = {**waited, "resources": {"rdma/r": 63}, **wrong}
        for check in (True, False):
            assert words in said(site, "rollout_ready", asked, check)["msg"]
    assert state(site) == kept


def test_what_is_beside_a_rollout_fits_the_matrix(site: Site) -> None:
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    site.kubelets.give_up("v100-2", OLD)
    changes(site, "stale_resources", {"resources": [OLD], "verify": 0})
    for check in (True, False):
        refused = said(site, "stale_resources", {"resources": ["no name"], "verify": 0}, check)
        assert "'no name' is not the name of an extended resource" in refused["msg"]
    access = said(site, "cluster_access", {})
    assert (access["changed"], access["server"]) == (False, site.kube.server)
    insist_on_return("cluster_access", access)
    for check in (True, False):
        kept = state(site)
        seen = said(site, "cluster_snapshot", {}, check)
        assert (seen["changed"], sorted(seen["cluster"]["nodes"]), state(site)) == (False, ["v100-1", "v100-2"], kept)
        insist_on_return("cluster_snapshot", seen)
    for check in (True, False):
        assert "NAMESPACE/NAME" in said(site, "cluster_snapshot", {"pods": ["train-0"]}, check)["msg"]
    lease = {"namespace": "default", "state": "held"}
    mine = said(site, "rollout_lease", lease)["lease"]["holder"]
    # in a namespace that came later, the same holder has it, too
    second = {**lease, "namespace": "kube-system", "holder": mine, "held_in": "default"}
    # a check takes for granted that the namespace is not there, and that the first place is gone on with
    assert [said(site, "rollout_lease", second, check)["changed"] for check in (True, False, False)] == [
        False,
        True,
        False,
    ]
    for place in ("kube-system", "default"):
        broken = changes(site, "rollout_lease", {"namespace": place, "state": "broken"})
        assert (broken["holder"], broken["diff"]) == (mine, {"before": {"holder": mine}, "after": {}})
    kept = state(site)
    for check in (True, False):
        assert "told to stop" in said(site, "rollout_lease", {**lease, "holder": mine}, check)["msg"]
    assert state(site) == kept
    # in a namespace that is not there yet, the other place has it
    elsewhere = {**lease, "namespace": "not-there-yet"}
    held = said(site, "rollout_lease", elsewhere)["lease"]
    assert held["namespace"] == "default"
    refused = said(site, "rollout_lease", elsewhere, check=True)
    assert refused["changed"] is False
    assert f"is held by {held['holder']}" in json.dumps(refused["warnings"])
    taken = {"namespace": "default", "state": "broken"}
    changes(site, "rollout_lease", taken)
    kept = state(site)
    for check in (True, False):
        assert "holder" in said(site, "rollout_lease", {"namespace": "default"}, check)["msg"]
        assert "No Name" in said(site, "rollout_lease", {**lease, "namespace": "No Name"}, check)["msg"]
    assert state(site) == kept


def daemon_set(name: str) -> Json:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "rdma"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }


def test_modules_of_a_system_keep_the_rules_of_the_matrix(small: Site) -> None:
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    # what the examples say, where the tests may clear it away
    multus = daemon_set("kube-multus-ds")
    network: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "network", "namespace": "rdma"}}
    wanted = {"system": "test", "place": "rdma", "objects": [{**network, "data": {"mtu": "1500"}}, multus]}
    changes(small, "system_objects", wanted)
    wanted["objects"] = [{**network, "data": {"mtu": "9000"}}, multus]
    assert changes(small, "system_objects", wanted)["objects"]["ConfigMap rdma/network"] == "changed"

    def call(name: str, arguments: Json) -> Json:
        given = json.loads(json.dumps(arguments).replace("kube-system", "rdma"))
        given.pop("kubeconfig", None)
        return said(small, name, {**given, "place": "rdma"} if name == "system_objects" else given)

    (seen,) = run_examples("cluster_state", call)
    assert (seen["changed"], "v1" in seen["served"][""], sorted(seen["nodes"])) == (False, True, ["v100-1", "v100-2"])
    insist_on_return("cluster_state", seen)
    # what the API server has made of --service-cluster-ip-range
    items = small.kube.list("/apis/networking.k8s.io/v1/servicecidrs", "list ServiceCIDRs")
    assert seen["service_cidrs"] == [cidr for item in items for cidr in item["spec"]["cidrs"]] != []
    (read,) = run_examples("kubernetes_info", call)
    assert (read["changed"], read["known"], read["resources"]) == (False, True, [])
    insist_on_return("kubernetes_info", read)
    named = {"api_version": "v1", "kind": "Node", "name": "v100-1"}
    (node,) = said(small, "kubernetes_info", named)["resources"]
    assert (node["kind"], node["metadata"]["name"]) == ("Node", "v100-1")
    assert said(small, "kubernetes_info", {**named, "name": "v100-9"})["resources"] == []
    unknown = said(small, "kubernetes_info", {"api_version": "longhorn.io/v1beta2", "kind": "Volume"})
    assert (unknown["known"], unknown["resources"]) == (False, [])
    (ready,) = run_examples("system_ready", call)
    assert ready["missing"] == []
    waits = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "rdma", "name": "none"}]
    late = said(small, "system_ready", {"system": "test", "waits": waits, "timeout": 1, "interval": 1})
    assert (late["failed"], len(late["missing"])) == (True, 1)
    insist_on_return("system_ready", late)
    (handed,) = run_examples("handover_ready", call)
    assert handed["missing"] == []
    conditions = [{"what": "allocatable", "nodes": ["v100-1"], "resources": {"rdma/none": 1}}]
    late = said(small, "handover_ready", {"class_name": "c", "conditions": conditions, "timeout": 1, "interval": 1})
    assert late["missing"] == ["node v100-1: allocatable rdma/none is 0, not 1"]
    insist_on_return("handover_ready", late)
    (plugin,) = run_examples("handover_objects", call)
    assert plugin["objects"] == {"ConfigMap default/rdma-shared-dp-g": "created"}
    path = "/api/v1/namespaces/default/configmaps/rdma-shared-dp-g"
    made = small.kube.find(path, "read")
    changes(small, "handover_objects", {"delete": [made], "labels": {"v100-1": {CLASS_LABEL: "g"}}})
    for check in (True, False):
        wrong = {"labels": {"v100-9": {CLASS_LABEL: "g"}}}
        assert "v100-9" in said(small, "handover_objects", wrong, check)["msg"]
    brought, removed = run_examples("system_objects", call)
    assert brought["objects"]["ConfigMap default/rdma-network"] == "created"
    assert removed["objects"]["ConfigMap default/rdma-network"] == "removed"
    # bad input
    kept = state(small)
    wanted["objects"][0]["date"] = {}
    for check in (True, False):
        assert "does not know a field: date" in said(small, "system_objects", wanted, check)["msg"]
    assert state(small) == kept
    changes(small, "system_objects", {**wanted, "objects": []})


def test_examples_return_what_return_describes(site: Site) -> None:
    site.groups = {"ib-a100": site.groups["ib-a100"]}
    site.nodes()
    nodes = dict.fromkeys(("a100-1", "a100-2"), "ib-a100")
    asked = {**request("ib-a100", resource="rdma_a100"), "nodes": nodes, "known": list(nodes), "remove": []}
    known = {"request": asked, "groups": {"all": list(nodes), "ib-a100": list(nodes)}}

    def call(name: str, arguments: Json) -> Json:
        """On the cluster of the tests, in namespaces that it has."""
        given = {key: value for key, value in arguments.items() if key != "kubeconfig"}
        places = {"nvidia-network-operator": "default", "kube-system": "rdma"}
        given |= {key: places[given[key]] for key in ("namespace", "place") if key in given}
        # it waits for as long as a kubelet does for its plugin, five minutes and more: nobody here reports the entry again
        given |= {"verify": 5} if name == "stale_resources" else {}
        return said(site, name, given)

    run_examples("cluster_access", call)
    run_examples("cluster_snapshot", call)
    (rolled_out,) = run_examples("rollout", call, **known)
    assert rolled_out["labels"] == nodes
    (ready,) = run_examples("rollout_ready", call)
    assert ready["missing"] == []
    (departures,) = run_examples("rollout_departures", call, **known)
    assert departures["strays"] == {}
    held, again, broken = run_examples("rollout_lease", call, **known)
    assert (held["changed"], again["changed"], broken["holder"]) == (True, False, None)
    said(site, "rollout_lease", {"namespace": "default", "state": "broken"})
    site.kubelets.give_up("a100-1", "rdma/hca_shared_devices_a")
    (stale,) = run_examples("stale_resources", call)
    assert stale["removed"] == {"a100-1": ["rdma/hca_shared_devices_a"]}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor finds in objects of a real API server: taints, schedulers, DaemonSets and events are real, and what kubelets would say of
containers is written into the status of real Pods."""

from __future__ import annotations

import copy
import json
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DEVICE_PLUGIN
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import material_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose
from ansible_collections.fabric.rdma.tests.cluster.test_interrupted import module
from ansible_collections.fabric.rdma.tests.cluster.test_matrix import said
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor.samples import facts_of
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

if t.TYPE_CHECKING:
    from conftest import Limited, Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
IMAGE = DEVICE_PLUGIN
CLASS = {"rdma.fabric/class": "x"}
NIC = "feature.node.kubernetes.io/pci-15b3.present"
CONFIG: Json = {"configList": [{"resourceName": "r", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}
NODES = ["v100-1", "v100-2"]
SPACE = "/api/v1/namespaces/rdma"


class Ward:
    """Two nodes with a device plugin of somebody else's, so that nobody but the test says what becomes of it."""

    def __init__(self, site: Site) -> None:
        self.site, self.kube = site, site.kube
        site.groups = {"ib-v100": site.groups["ib-v100"]}
        site.nodes(CLASS)
        self.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})

    def plugin(self, config: str = json.dumps(CONFIG), waits: bool = True, **spec: t.Any) -> None:
        """Its ConfigMap, its DaemonSet, and by the controllers of the control plane its Pods."""
        metadata = {"name": "dp", "namespace": "rdma"}
        body: Json = {"metadata": metadata, "data": {"config.json": config}}
        self.kube.request("POST", f"{SPACE}/configmaps", "make", body=body)
        labels = {"app": "dp"}
        pod = {
            "nodeSelector": CLASS,
            "containers": [{"name": "c", "image": IMAGE}],
            "volumes": [{"name": "config", "configMap": {"name": "dp"}}],
            **spec,
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        body = {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        self.kube.request("POST", "/apis/apps/v1/namespaces/rdma/daemonsets", "make", body=body)
        end = time.monotonic() + limit(60)
        while waits and sum(pod["status"].get("phase") == "Running" for pod in self.pods()) < len(NODES):
            assert time.monotonic() < end
            time.sleep(0.3)

    def pods(self) -> list[Json]:
        return self.kube.list(f"{SPACE}/pods", "list", labelSelector="app=dp")

    def say(self, name: str, **status: t.Any) -> None:
        """What a kubelet reports of a Pod."""
        self.kube.merge(f"{SPACE}/pods/{name}/status", "report", {"status": status}, dry_run=False)

    def waits_for(self, reason: str, message: str = "", restarts: int = 3) -> None:
        """All Pods of the plugin."""
        state = {"waiting": {"reason": reason, "message": message}}
        row = {"name": "c", "image": IMAGE, "imageID": "", "ready": False, "restartCount": restarts, "state": state}
        for pod in self.pods():
            self.say(
                pod["metadata"]["name"], containerStatuses=[row], conditions=[{"type": "Ready", "status": "False"}]
            )

    def job(self, name: str, node: str | None = None, **container: t.Any) -> None:
        """A Pod that asks for the resource; node: where it is, whatever the scheduler would say."""
        given = {"name": "c", "image": "registry.example/train:1", "resources": {"limits": {"rdma/r": "1"}}}
        for key, value in container.items():
            given[key] = {"limits": {**given["resources"]["limits"], **value}} if key == "resources" else value
        spec = {"containers": [given], **({"nodeName": node} if node else {})}
        self.kube.request("POST", f"{SPACE}/pods", "make", body={"metadata": {"name": name}, "spec": spec})

    def findings(self, facts: Json | None = None) -> dict[str, Json]:
        result = said(self.site, "cluster_snapshot", {"logs_of": 0})
        insist_on_return("cluster_snapshot", result)
        found = diagnose(material_of(facts, {}, result["cluster"], result["logs"], {}, {}, result["unread"]))
        return {each["id"]: dict(each) for each in found}

    def wait_for(self, rule: str) -> Json:
        end = time.monotonic() + limit(60)
        while rule not in (found := self.findings()):
            assert time.monotonic() < end, found
            time.sleep(0.5)
        return found[rule]


@pytest.fixture
def ward(site: Site) -> Ward:
    return Ward(site)


def test_a_taint_keeps_the_plugin_away(ward: Ward) -> None:
    taint = {"key": "account", "value": "x", "effect": "NoSchedule"}
    ward.kube.merge("/api/v1/nodes/v100-1", "taint", {"spec": {"taints": [taint]}}, dry_run=False)
    ward.plugin(waits=False)
    found = ward.wait_for("resource-zero")
    assert found["hosts"] == ["v100-2"]
    tainted = ward.findings()["plugin-tainted"]
    assert tainted["hosts"] == ["v100-1"]
    assert "rdma_rollout.tolerations" in tainted["remedy"]
    # and the general one is not told beside it
    assert "plugin-not-on-node" not in ward.findings()


def test_a_cordoned_node_gets_no_job(ward: Ward) -> None:
    ward.plugin()
    body = {"spec": {"unschedulable": True}}
    for name in NODES:
        ward.kube.merge(f"/api/v1/nodes/{name}", "cordon", body, dry_run=False)
    ward.job("train")
    found = ward.wait_for("node-cordoned")
    assert found["hosts"] == NODES
    end = time.monotonic() + limit(30)
    # once the scheduler has said so, it is an error
    while ward.findings()["node-cordoned"]["severity"] != "error":
        assert time.monotonic() < end
        time.sleep(0.5)


def test_a_node_that_discovery_has_not_marked(ward: Ward) -> None:
    ward.kube.merge("/api/v1/nodes/v100-2", "mark", {"metadata": {"labels": {NIC: "true"}}}, dry_run=False)
    ward.plugin(waits=False, nodeSelector={NIC: "true"})
    assert ward.wait_for("nfd-label-missing")["hosts"] == ["v100-1"]


def test_a_configuration_that_no_pod_has_read(ward: Ward) -> None:
    ward.plugin()
    assert "configuration-newer" not in ward.findings()
    # the API server writes times in seconds
    time.sleep(2)
    changed = copy.deepcopy(CONFIG)
    changed["configList"][0]["rdmaHcaMax"] = 10
    ward.kube.merge(f"{SPACE}/configmaps/dp", "change", {"data": {"config.json": json.dumps(changed)}}, dry_run=False)
    found = ward.findings()
    assert found["configuration-newer"]["hosts"] == NODES
    assert found["configuration-newer"]["remedy"] == "kubectl -n rdma rollout restart daemonset dp"
    assert "resource-zero" not in found


def test_a_plugin_that_runs_and_offers_nothing(ward: Ward) -> None:
    ward.plugin()
    found = ward.findings()
    assert list(found) == ["resource-zero"]
    assert found["resource-zero"]["hosts"] == NODES
    # exclusive namespaces explain it
    facts = facts_of("ib-v100-1", kernel__rdma_netns="exclusive")
    found = ward.findings(dict.fromkeys(NODES, facts))
    assert found["exclusive-namespaces"]["hosts"] == NODES
    assert "resource-zero" not in found
    # so do selectors that match nothing there
    other = {"configList": [{"resourceName": "r", "rdmaHcaMax": 63, "selectors": {"vendors": ["8086"]}}]}
    ward.kube.merge(f"{SPACE}/configmaps/dp", "change", {"data": {"config.json": json.dumps(other)}}, dry_run=False)
    assert ward.findings(dict.fromkeys(NODES, facts_of("ib-v100-1")))["selectors-match-nothing"]["hosts"] == NODES


@pytest.mark.parametrize(
    "config", ["{'configList': []}", json.dumps(CONFIG).replace('"r"', '"rdma-hca"')], ids=["json", "name"]
)
def test_a_plugin_that_refuses_its_configuration(ward: Ward, config: str) -> None:
    ward.plugin(config)
    ward.waits_for("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    found = ward.findings()
    assert found["plugin-configuration-refused"]["hosts"] == NODES
    assert not {"plugin-crashes", "resource-zero"} & set(found)


def test_a_plugin_that_crashes_and_an_image_that_nobody_has(ward: Ward) -> None:
    ward.plugin()
    ward.waits_for("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    found = ward.findings()
    assert found["plugin-crashes"]["hosts"] == NODES
    ward.waits_for("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')
    found = ward.findings()
    assert found["image-not-pulled"]["hosts"] == NODES
    assert not {"plugin-crashes", "resource-zero"} & set(found)


def test_a_plugin_that_waits_for_the_driver_of_the_operator(ward: Ward) -> None:
    ward.plugin(initContainers=[{"name": "mofed-validation", "image": "registry.example/init:1"}])
    row = {
        "name": "mofed-validation",
        "image": "registry.example/init:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    pod = next(pod for pod in ward.pods() if pod["spec"]["nodeName"] == "v100-1")
    ward.say(pod["metadata"]["name"], initContainerStatuses=[row], conditions=[{"type": "Ready", "status": "False"}])
    found = ward.findings()["mofed-wait"]
    assert found["hosts"] == ["v100-1"]
    assert "no policy of the operator has a driver" in found["cause"]


def test_a_kubelet_that_was_restarted(ward: Ward) -> None:
    ward.plugin()
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
    event = {
        "metadata": {"name": "v100-1.started"},
        "involvedObject": {"kind": "Node", "name": "v100-1"},
        "type": "Normal",
        "reason": "Starting",
        "message": "Starting kubelet.",
        "lastTimestamp": later,
    }
    ward.kube.request("POST", "/api/v1/namespaces/default/events", "make", body=event)
    found = ward.findings()
    ward.kube.request("DELETE", "/api/v1/namespaces/default/events/v100-1.started", "delete")
    assert found["kubelet-restarted"]["hosts"] == ["v100-1"]
    assert found["resource-zero"]["hosts"] == ["v100-2"]


def test_jobs_that_cannot_have_what_they_need(ward: Ward) -> None:
    """One that no node has room for, one that a kubelet refused, one without IPC_LOCK, one that its memory limit has ended."""
    ward.job("late")
    ward.job("plain", "v100-1")
    ward.job("small", "v100-1", resources={"memory": "64Mi"}, securityContext={"capabilities": {"add": ["IPC_LOCK"]}})
    ward.job("refused", "v100-2", securityContext={"privileged": True})
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    row = {"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 1, "state": {}, "lastState": ended}
    end = time.monotonic() + limit(30)
    while ward.kube.find(f"{SPACE}/pods/small", "read")["status"].get("phase") != "Running":  # type: ignore[index]
        assert time.monotonic() < end
        time.sleep(0.3)
    ward.say("small", containerStatuses=[row])
    words = (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices rdma/r"
    )
    ward.say("refused", phase="Failed", reason="UnexpectedAdmissionError", message=words)
    late = ward.wait_for("pod-waits-for-resource")
    assert "Insufficient rdma/r" in late["evidence"][0]
    found = ward.findings()
    assert found["pod-refused-by-kubelet"]["hosts"] == ["v100-2"]
    assert found["mr-memory-limit"]["evidence"] == [
        "Pod rdma/small on v100-1 was killed for its memory (OOMKilled), its limit is 64Mi"
    ]
    assert any("rdma/plain" in line for line in found["pod-without-ipc-lock"]["evidence"])
    assert not any("rdma/small" in line or "refused" in line for line in found["pod-without-ipc-lock"]["evidence"])


def said_to(user: Limited, arguments: Json) -> Json:
    with module(user.kubeconfig, arguments, check=False, name="cluster_snapshot") as process:
        return t.cast("Json", json.loads(process.communicate()[0]))


def test_who_may_not_read_something_is_told_of_the_rest(ward: Ward, limited: Limited) -> None:
    ward.plugin()
    ward.job("train")
    nothing = said_to(limited, {"pods": ["rdma/train"]})
    assert nothing["cluster"]["nodes"] == {}
    assert nothing["cluster"]["pods"] == []
    assert any("may not list nodes" in line for line in nothing["unread"])
    # of what they may not read nobody says that it is not there
    assert not any("there is no Pod" in line for line in nothing["unread"])
    # one of their own they may ask about by its name
    limited.grant("fabric-rdma-own", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    end = time.monotonic() + limit(30)
    while not (own := said_to(limited, {"pods": ["rdma/train", "rdma/none"], "logs_of": 0}))["cluster"]["pods"]:
        assert time.monotonic() < end, own["unread"]
        time.sleep(0.5)
    assert [pod["metadata"]["name"] for pod in own["cluster"]["pods"]] == ["train"]
    assert "there is no Pod rdma/none" in own["unread"]
    ward.kube.request("DELETE", f"{SPACE}/pods/train", "delete", body={"gracePeriodSeconds": 0})
    # who may not list Pods is not told that they are missing
    core = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    limited.grant("fabric-rdma-some", core, {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list"]})
    end = time.monotonic() + limit(30)
    while len((some := said_to(limited, {"logs_of": 0}))["cluster"]["daemon_sets"]) != 1:
        assert time.monotonic() < end, some["unread"]
        time.sleep(0.5)
    assert sorted(some["cluster"]["nodes"]) == NODES
    assert any("may not list pods" in line for line in some["unread"])
    assert diagnose(material_of({}, {}, some["cluster"], [], {}, {}, some["unread"])) == []
    limited.grant("fabric-rdma-doctor", *limited.documented("doctor"))
    # without policies of the operator nobody asks for them
    end = time.monotonic() + limit(30)
    while (allowed := said_to(limited, {"logs_of": 0}))["unread"]:
        assert time.monotonic() < end, allowed["unread"]
        time.sleep(0.5)
    assert sorted(allowed["cluster"]["nodes"]) == NODES
    assert len(allowed["cluster"]["pods"]) == 2


def test_nothing_secret_is_kept(ward: Ward) -> None:
    secret = [{"name": "TOKEN", "value": "hunter2"}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    ward.plugin()
    ward.job("train", "v100-1", env=secret, command=["sh", "-c", "run --password hunter2"])
    body = {"metadata": {"name": "other"}, "data": {"password": "hunter2"}}
    ward.kube.request("POST", f"{SPACE}/configmaps", "make", body=body)
    result = said(ward.site, "cluster_snapshot", {})
    text = json.dumps(result["cluster"])
    assert "NCCL_DEBUG" in text
    assert "hunter2" not in text
    # nodes that are played have no logs, and this is said
    assert any("read the log of" in line for line in result["unread"])


def test_the_playbooks_find_the_same_live_and_in_their_bundle(ward: Ward) -> None:
    ward.plugin()
    ward.kube.merge("/api/v1/nodes/v100-2", "cordon", {"spec": {"unschedulable": True}}, dry_run=False)
    site = ward.site
    output = site.run("doctor", "-e", "doctor_fail_on=error", fails=True)
    assert "ERROR resource-zero: group ib-v100" in output
    live = checked("doctor", json.loads((site.directory / "output" / "doctor.json").read_text()))
    assert {"resource-zero", "node-cordoned"} <= {each["id"] for each in live["findings"]}
    site.run("doctor_bundle", "-e", "doctor_anonymize=true")
    bundle = site.directory / "output" / "bundle"
    assert "v100" not in (bundle / "cluster.json").read_text().replace("ib-v100", "")
    site.run("doctor_bundle")
    site.run("doctor", "-e", f"doctor_directory={bundle}")
    assert json.loads((site.directory / "output" / "doctor.json").read_text()) == live

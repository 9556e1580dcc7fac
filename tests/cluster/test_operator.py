# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine: network_operator on a real API server with the operator's real definitions. Only the operator itself is played."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import kubernetes
import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    LINES,
    OPERATOR,
    OPERATOR_IMAGES,
    SHARED_PLUGIN_IMAGE,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import SYSTEM_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import Lease
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_manifests
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane, definitions
from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from conftest import Kubelets, Limited, Site

pytestmark = pytest.mark.cluster

HERE = Path(__file__).resolve().parent

# A git directory of the operator's sources, whose tags have the definitions of the releases that the folder has none of.
SOURCE = os.environ.get("FABRIC_RDMA_OPERATOR_SOURCE")
NAMES = ("nicclusterpolicies", "nicnodepolicies")
GROUP = "mellanox.com"
API = f"{GROUP}/v1alpha1"
BASE = f"/apis/{API}"
SPACE = "nvidia-network-operator"
RECORDS = "/api/v1/namespaces/kube-system/configmaps"
NIC = "feature.node.kubernetes.io/pci-15b3.present"
WAIT = "network.nvidia.com/operator.mofed.wait"
SECTIONS = {
    "rdmaSharedDevicePlugin": ("state-RDMA-device-plugin", "rdma-shared-dp-ds", "rdma-devices"),
    "sriovDevicePlugin": (
        "state-SRIOV-device-plugin",
        "network-operator-sriov-device-plugin",
        "network-operator-sriovdp-config",
    ),
}


class Operator:
    """What the Network Operator does for its policies: labels, a ConfigMap and a DaemonSet for each section, the status.

    Names, labels and owners are those of release 26.4 (pkg/state, manifests/).
    """

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        # it looks at nothing
        self.away = False
        # releases before 26.1 leave Pods alone when their configuration changes
        self.restarts = True
        # nodes that have no driver yet
        self.waiting: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Operator:
        with contextlib.suppress(KubeError):
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
            self.kube.request("POST", "/api/v1/namespaces", "make", body=space)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.3):
            with contextlib.suppress(KubeError):
                if not self.away:
                    self.reconcile()

    def reconcile(self) -> None:
        for node in self.kube.list("/api/v1/nodes", "list"):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            value = None if labels.get(NIC) != "true" else "true" if name in self.waiting else "false"
            if labels.get(WAIT) != value:
                body = {"metadata": {"labels": {WAIT: value}}}
                self.kube.merge(f"/api/v1/nodes/{name}", "label", body, dry_run=False)
        for plural, kind in zip(NAMES, ("NicClusterPolicy", "NicNodePolicy"), strict=True):
            for policy in self.kube.list(f"{BASE}/{plural}", "list"):
                states = [self.section(kind, policy, section) for section in SECTIONS]
                worst = "notReady" if "notReady" in [row["state"] for row in states] else "ready"
                status = {"state": worst, "appliedStates": states}
                if policy.get("status") != status:
                    path = f"{BASE}/{plural}/{policy['metadata']['name']}/status"
                    query = [("fieldManager", "network-operator")]
                    self.kube.request(
                        "PATCH", path, "report", query, {"status": status}, "application/merge-patch+json"
                    )

    def section(self, kind: str, policy: dict[str, t.Any], section: str) -> dict[str, str]:
        state, base, config = SECTIONS[section]
        own = policy["metadata"]["name"]
        suffix = "" if kind == "NicClusterPolicy" else f"-{own}"
        place = f"/apis/apps/v1/namespaces/{SPACE}/daemonsets/{base}{suffix}"
        spec = policy.get("spec") or {}
        if section not in spec:
            if self.kube.find(place, "read"):
                self.kube.request("DELETE", place, "delete")
            return {"name": state, "state": "ignore"}
        owner = {
            "apiVersion": API,
            "kind": kind,
            "name": own,
            "uid": policy["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels = {
            "nvidia.network-operator.state": state,
            "ds-owner": kind if kind == "NicClusterPolicy" else f"nnp-{own}",
        }
        metadata = {"namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
        text = spec[section]["config"]
        self.apply(
            f"/api/v1/namespaces/{SPACE}/configmaps/{config}{suffix}",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {**metadata, "name": config + suffix},
                # as its template puts it into YAML
                "data": yaml.safe_load(f"config.json: '{text}'"),
            },
        )
        template = self.template(spec, section, config + suffix)
        template["metadata"]["labels"] = {"app": base + suffix, "ds-owner": labels["ds-owner"]}
        made = self.apply(
            place,
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {**metadata, "name": base + suffix},
                "spec": {"selector": {"matchLabels": {"app": base + suffix}}, "template": template},
            },
        )
        status = made.get("status") or {}
        done = status.get("observedGeneration") == made["metadata"]["generation"] and status.get(
            "numberAvailable", 0
        ) == status.get("desiredNumberScheduled", 0)
        return {"name": state, "state": "ready" if done else "notReady"}

    def template(self, spec: dict[str, t.Any], section: str, config: str) -> dict[str, t.Any]:
        """Of the Pods of a section. config: the ConfigMap that they read."""
        own = spec[section]
        pod: dict[str, t.Any] = {
            "hostNetwork": True,
            "nodeSelector": {NIC: "true", WAIT: "false", **(spec.get("nodeSelector") or {})},
            "tolerations": spec.get("tolerations") or [],
            "containers": [{"name": "plugin", "image": f"{own['image']}:{own['version']}"}],
            "volumes": [{"name": "config", "configMap": {"name": config}}],
        }
        if spec.get("nodeAffinity"):
            pod["affinity"] = {"nodeAffinity": spec["nodeAffinity"]}
        metadata: dict[str, t.Any] = {}
        if self.restarts:
            metadata["annotations"] = {"nvidia.network-operator.config-hash": str(hash(own["config"]))}
        return {"metadata": metadata, "spec": pod}

    def apply(self, path: str, item: dict[str, t.Any]) -> dict[str, t.Any]:
        query = [("fieldManager", "network-operator"), ("force", "true")]
        content = "application/apply-patch+yaml; charset=utf-8"
        return self.kube.request("PATCH", path, "make", query, json.dumps(item), content)


# --- the definitions --------------------------------------------------------------------------------------------------


RELEASES = [f"{year}.{month}.0" for year, month in LINES]
# those that have policies for nodes
BOTH = RELEASES[RELEASES.index("26.4.0") :]
KINDS = {version: NAMES if version in BOTH else NAMES[:1] for version in RELEASES}


def in_folder() -> dict[str, dict[str, t.Any]]:
    """The newest definitions that the folder has, by plural."""
    return definitions.newest(GROUP, KINDS)


def define(kube: Kube, item: dict[str, t.Any]) -> None:
    """Bring a definition, and wait until the API server goes by it: it has a field that no other has."""
    item = copy.deepcopy(item)
    marker = f"test{time.monotonic_ns()}"
    for version in item["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][marker] = {"type": "string"}
    name, kind = item["metadata"]["name"], item["spec"]["names"]["kind"]
    query = [("fieldManager", "tests"), ("force", "true")]
    content = "application/apply-patch+yaml; charset=utf-8"
    kube.request("PATCH", f"{definitions.PLACE}/{name}", "define", query, json.dumps(item), content)
    probe = {"apiVersion": API, "kind": kind, "metadata": {"name": "probe"}, "spec": {marker: "x"}}
    end = time.monotonic() + limit(60)
    while True:
        try:
            # one that has never looked this kind up
            Kube(kube.source).apply(probe, dry_run=True)
            return
        except KubeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


@pytest.fixture(scope="session")
def defined(kube: Kube) -> dict[str, dict[str, t.Any]]:
    found = in_folder()
    if set(found) != set(NAMES):
        pytest.skip(
            f"no definitions of the Network Operator in {definitions.FOLDER}: its policies were not tried {definitions.ELSEWHERE}"
        )
    for item in found.values():
        define(kube, item)
    return found


@pytest.fixture
def operator(site: Site, defined: dict[str, t.Any]) -> t.Iterator[Operator]:
    del defined
    site.rollout = {
        "engine": "network_operator",
        "operator_version": OPERATOR,
        "helm": {"install": False},
        "timeout": int(limit(60)),
    }
    kube = Kube(site.kube.source)
    with Operator(kube) as there:
        yield there
        for plural in NAMES:
            for item in kube.list(f"{BASE}/{plural}", "list"):
                kube.request("DELETE", f"{BASE}/{plural}/{item['metadata']['name']}", "delete")
        # what is remembered of an operator is in a namespace that stays
        for item in kube.list(RECORDS, "list", labelSelector=f"{SYSTEM_LABEL}=network-operator"):
            kube.request("DELETE", f"{RECORDS}/{item['metadata']['name']}", "delete")


def policies(kube: Kube) -> dict[str, str]:
    """NicNodePolicies with the version that changes with every write of theirs but their status."""
    items = kube.list(f"{BASE}/nicnodepolicies", "list")
    return {item["metadata"]["name"]: f"{item['metadata']['uid']} {item['metadata']['generation']}" for item in items}


def cluster_policy(kube: Kube) -> dict[str, t.Any] | None:
    return kube.find(f"{BASE}/nicclusterpolicies/nic-cluster-policy", "read")


def make(kube: Kube, item: dict[str, t.Any], manager: str = "somebody") -> None:
    plural = NAMES[0] if item["kind"] == "NicClusterPolicy" else NAMES[1]
    kube.request("POST", f"{BASE}/{plural}", "make", [("fieldManager", manager)], {"apiVersion": API, **item})


def flat(output: str) -> str:
    return " ".join(output.split())


MULTUS = {"image": "multus-cni", "repository": OPERATOR_IMAGES, "version": f"network-operator-v{OPERATOR}"}
PLUGIN = {
    "image": SHARED_PLUGIN_IMAGE,
    "repository": OPERATOR_IMAGES,
    "version": f"network-operator-v{OPERATOR}",
    "config": '{"configList": [{"resourceName": "theirs", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}',
}


# --- every release ----------------------------------------------------------------------------------------------------


def variants(plan: dict[str, t.Any], version: str) -> t.Iterator[dict[str, t.Any]]:
    """Every shape that objects of a release have."""
    hosts = [host for group in plan["groups"].values() for entry in group["classes"] for host in entry["hosts"]]
    quiet = {"management": {"rdma_backed": False, "mounts_over_rdma": []}, "ofed": {"flavour": "inbox"}}
    full = {
        "tolerations": [{"operator": "Exists"}],
        "cdi": True,
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": 134217728}},
        "registry": "mirror.example:5000/nv",
        "image_pull_secrets": ["pull"],
        "facts": dict.fromkeys(hosts, quiet),
        "ofed_methods": dict.fromkeys(hosts, "none"),
        "ofed_driver": {
            "version": LINES[26, 1].drivers[2],
            "env": {"CREATE_IFNAMES_UDEV": True},
            "force_precompiled": False,
            "repo_config": "repositories",
            "cert_config": "certificates",
            "upgrade_policy": {
                "auto_upgrade": True,
                "safe_load": True,
                "drain": {"pod_selector": "app=x"},
                "wait_for_completion": {"pod_selector": "job", "timeout_seconds": 60},
            },
        },
    }
    ways: list[dict[str, t.Any]] = [{}, full, {"node_affinity": False}]
    if version in BOTH:
        ways += [{**way, "policy": "cluster"} for way in ways] + [{"sriov": list(plan["groups"])}]
    for way in ways:
        yield from operator_manifests(plan, {"version": version, **way}).values()


def own_definitions() -> list[definitions.Release]:
    """Of each release that has definitions of its own, in their order: those of the folder, else those of the sources."""
    own = definitions.releases(GROUP, KINDS)
    show = ["git", "-C", str(SOURCE), "-c", "safe.directory=*"]
    tags = subprocess.run([*show, "tag"], check=True, capture_output=True, text=True).stdout.split() if SOURCE else []
    there = {each.version for each in own}
    for version in RELEASES:
        if SOURCE and version not in there:
            wanted = [tag for tag in [f"v{version}", *reversed(tags)] if tag in tags and tag.startswith(f"v{version}")]
            assert wanted, f"no tag of {version} in {SOURCE}"
            items = []
            for name in KINDS[version]:
                path = f"{wanted[0]}:deployment/network-operator/crds/{GROUP}_{name}.yaml"
                text = subprocess.run([*show, "show", path], check=True, capture_output=True, text=True).stdout
                items.append(yaml.safe_load(text))
            own.append(definitions.Release(version, f"{wanted[0]} in {SOURCE}", items))
    return sorted(own, key=lambda each: RELEASES.index(each.version))


def test_every_release_of_the_operator_takes_the_objects(site: Site) -> None:
    """Every object of a release is taken under strict validation, by the release's own definitions and by the newest."""
    own = own_definitions()
    if not own:
        pytest.skip(
            f"no release of the Network Operator has definitions of its own in {definitions.FOLDER}: none was tried {definitions.ELSEWHERE}"
        )
    # what no field was removed of: the sections that are made here are in all definitions from 24.10 on
    site.groups = {name: site.groups[name] for name in ("ib-v100", "gb200")}
    site.rollout = {}
    site.run("plan")
    plan = load(site.directory / "output" / "plan.json")
    assert plan["cluster"]["config"], "one configuration serves both groups"
    objects = {version: list(variants(plan, version)) for version in RELEASES}

    def taken(version: str, by: str) -> int:
        # one that has never looked the kinds up
        kube = Kube(site.kube.source)
        for item in objects[version]:
            try:
                kube.apply(item, dry_run=True)
            except KubeError as exc:
                pytest.fail(f"{item['kind']} {item['metadata']['name']} of {version} under {by}: {exc}")
        print(f"{version}: {len(objects[version])} objects, {by}", flush=True)
        return len(objects[version])

    newest, count = own[-1].version, 0
    try:
        for release in own:
            for item in release.items:
                define(site.kube, item)
            count += taken(release.version, f"its own definitions ({release.origin})")
        broken = copy.deepcopy(objects[newest][0])
        broken["spec"]["rdmaSharedDevicePlugin"]["nodeAffinity"] = {}
        with pytest.raises(KubeError, match="does not know a field"):
            Kube(site.kube.source).apply(broken, dry_run=True)
        # the newest are those that the server has now
        for version in RELEASES:
            if version != newest:
                taken(version, f"definitions of {newest}")
    finally:
        # the other tests go by these
        for item in in_folder().values():
            define(site.kube, item)
    tried, files = {release.version for release in own}, [file for release in own for file in release.files]
    print(f"{len(tried)} releases with definitions of their own, {count} objects", flush=True)
    print(f"{len(files)} files of {definitions.FOLDER}: {', '.join(files)}", flush=True)
    if missing := [version for version in RELEASES if version not in tried]:
        print(f"without definitions of their own (FABRIC_RDMA_OPERATOR_SOURCE can bring them): {', '.join(missing)}")


# --- node policies ----------------------------------------------------------------------------------------------------


def changed(output: str) -> int:
    recap = output[output.rindex("PLAY RECAP") :]
    return sum(int(word.partition("=")[2]) for word in recap.split() if word.startswith("changed="))


def test_each_class_gets_a_policy(site: Site, operator: Operator) -> None:
    del operator
    site.nodes({NIC: "true"})
    # somebody's own, for other nodes
    make(site.kube, {"kind": "NicNodePolicy", "metadata": {"name": "theirs"}, "spec": {"nodeSelector": {"x": "y"}}})
    shown = site.run("rollout", "--check")
    assert "kind: NicNodePolicy" in shown
    assert set(policies(site.kube)) == {"theirs"}
    assert site.classes() == {}
    site.run("rollout")
    before = policies(site.kube)
    classes = site.classes()
    assert len(set(classes.values())) == 5
    assert set(before) - {"theirs"} == set(classes.values()), "as the names are short enough"
    assert site.node("a100-2")["status"]["allocatable"]["rdma/rdma_a100"] == "63"
    assert site.objects() == {}, "nothing is made that the operator makes"
    assert cluster_policy(site.kube) is None
    assert changed(site.run("rollout")) == 0
    assert policies(site.kube) == before
    # a wish of one group, and a group that goes
    site.groups["ib-v100"]["rdma_resource"]["hca_max"] = 31
    del site.groups["gb200"]
    site.rollout["remove"] = ["gb200"]
    site.run("rollout")
    after = policies(site.kube)
    assert set(before) - set(after) == {"gb200-device-1021"}
    assert {name for name in after if after[name] != before[name]} == {"ib-v100-device-1017"}
    assert site.node("v100-1")["status"]["allocatable"]["rdma/rdma_v100"] == "31"
    assert "gb200-1" not in site.classes()


def test_a_group_gets_functions_where_that_is_wished_for(site: Site, operator: Operator, kubelets: Kubelets) -> None:
    del operator
    site.groups = {name: site.groups[name] for name in ("ib-v100", "gb200")}
    site.nodes({NIC: "true"})
    site.rollout["sriov"] = ["gb200"]
    kubelets.functions("gb200-1", 4)
    kubelets.functions("gb200-2", 3)
    site.rollout["timeout"] = int(limit(8))
    output = flat(site.run("rollout", fails=True))
    assert "allocatable is 3, not 4 on gb200-2" in output
    kubelets.functions("gb200-2", 4)
    # and its driver: refused where the role ofed sees to it, then overridden by name
    site.rollout.update(timeout=int(limit(60)), ofed_driver={"groups": ["gb200"]})
    output = flat(site.run("rollout", fails=True))
    assert "rdma_ofed.method inbox of group gb200 would both see to the driver" in output
    site.groups["gb200"]["rdma_ofed"] = {"method": "none"}
    output = flat(site.run("rollout", fails=True))
    assert "default_route: the default route of host gb200-1 (bond0) goes over the driver" in output
    site.rollout["ofed_driver"]["override"] = ["default_route"]
    site.run("rollout")
    assert site.node("gb200-1")["status"]["allocatable"]["rdma/rdma_gb200"] == "4"
    items = {item["metadata"]["name"]: item["spec"] for item in site.kube.list(f"{BASE}/nicnodepolicies", "list")}
    assert "ofedDriver" not in items["ib-v100-device-1017"]
    driver = items["gb200-device-1021"]["ofedDriver"]
    assert driver["version"] == LINES[26, 4].drivers[1]
    policy = driver["upgradePolicy"]
    assert (policy["autoUpgrade"], policy["maxParallelUpgrades"], policy["drain"]["force"]) == (False, 1, False)
    # out again: it would leave nodes that are in use
    site.rollout["ofed_driver"] = {"enabled": False, "override": ["default_route"]}
    output = flat(site.run("rollout", fails=True))
    assert "driver would leave gb200-1, gb200-2, and that reloads the one of the node" in output
    assert "removal: gb200-1, gb200-2 not cordoned" in output
    site.rollout["ofed_driver"]["override"] += ["removal"]
    site.run("rollout")
    items = {item["metadata"]["name"]: item["spec"] for item in site.kube.list(f"{BASE}/nicnodepolicies", "list")}
    assert "ofedDriver" not in items["gb200-device-1021"]


def test_what_keeps_a_class_from_serving_is_named(site: Site, operator: Operator, kubelets: Kubelets) -> None:
    site.groups = {"ib-a100": site.groups["ib-a100"]}
    site.rollout["timeout"] = int(limit(6))
    site.nodes({NIC: "true"})
    operator.away = True
    output = flat(site.run("rollout", fails=True))
    assert "the operator has not looked at NicNodePolicy ib-a100-ibp161s0 yet" in output
    operator.away = False
    site.kube.merge("/api/v1/nodes/a100-1", "blind", {"metadata": {"labels": {NIC: None}}}, dry_run=False)
    operator.waiting.add("a100-2")
    kubelets.breaks("a100-3")
    output = flat(site.run("rollout", fails=True))
    assert f"no label {NIC}=true on a100-1 (does Node Feature Discovery run there" in output
    assert "the DaemonSet wants to run on 1 nodes, the class has 2" in output
    assert "rdma/rdma_a100: allocatable is 0, not 63 on a100-1, a100-3" in output
    assert f"{WAIT} says on a100-2 that the operator's driver is not ready there" in output


# --- one policy for the cluster, and the way between ------------------------------------------------------------------


@pytest.fixture
def two(site: Site, operator: Operator) -> Site:
    """Two groups that one configuration serves."""
    del operator
    site.groups = {name: site.groups[name] for name in ("ib-v100", "gb200")}
    site.nodes({NIC: "true"})
    return site


@pytest.fixture
def webhook(kube: Kube) -> t.Iterator[None]:
    """What the operator's webhook enforces where it is on (pkg/policyoverlap): a section is in one kind of policy only."""
    base = "/apis/admissionregistration.k8s.io/v1"
    section = "has({}.spec) && has({}.spec.rdmaSharedDevicePlugin)"
    both = f"!({section.format('object', 'object')} && {section.format('params', 'params')})"
    rules: list[tuple[str, str, dict[str, t.Any], str]] = [
        (
            NAMES[1],
            "NicClusterPolicy",
            {"name": "nic-cluster-policy"},
            "NicClusterPolicy already defines {0}; NicNodePolicy {1}",
        ),
        (NAMES[0], "NicNodePolicy", {"selector": {}}, "NicNodePolicy {1} already defines {0}; NicClusterPolicy"),
    ]
    for resource, kind, reference, words in rules:
        message = words.format("rdmaSharedDevicePlugin", '"x"') + " cannot also define it"
        rule = {"apiGroups": ["mellanox.com"], "apiVersions": ["v1alpha1"], "resources": [resource]}
        spec = {
            "paramKind": {"apiVersion": API, "kind": kind},
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE", "UPDATE"]}]},
            "validations": [{"expression": both, "message": message}],
        }
        name = {"metadata": {"name": resource}}
        kube.request("POST", f"{base}/validatingadmissionpolicies", "make", body={**name, "spec": spec})
        binding = {
            "policyName": resource,
            "validationActions": ["Deny"],
            "paramRef": {**reference, "parameterNotFoundAction": "Allow"},
        }
        kube.request("POST", f"{base}/validatingadmissionpolicybindings", "make", body={**name, "spec": binding})
    yield
    for resource, _kind, _reference, _words in rules:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            kube.request("DELETE", f"{base}/{plural}/{resource}", "delete")


def refusal(kube: Kube, item: dict[str, t.Any]) -> str:
    """Why an object of somebody else is not taken, empty when it is."""
    try:
        # one that has not looked these kinds up before they were there
        Kube(kube.source).apply({"apiVersion": API, **item}, dry_run=True)
    except KubeError as exc:
        return str(exc)
    return ""


def deletions(kubeconfig: Path, since: str) -> list[int]:
    """The versions at which NicNodePolicies went."""
    api = kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(str(kubeconfig)))
    events = kubernetes.watch.Watch().stream(
        api.list_cluster_custom_object,
        *(*API.split("/"), "nicnodepolicies"),
        resource_version=since,
        timeout_seconds=1,
    )
    return [int(each["object"]["metadata"]["resourceVersion"]) for each in events if each["type"] == "DELETED"]


def wait_for_the_webhook(kube: Kube) -> None:
    """Until it refuses a section that is in the cluster policy: the API server learns of new rules a moment later."""
    end = time.monotonic() + limit(60)
    one = {"kind": "NicNodePolicy", "metadata": {"name": "one"}, "spec": {"rdmaSharedDevicePlugin": PLUGIN}}
    while "cannot also define it" not in (text := refusal(kube, one)):
        assert time.monotonic() < end, f"the webhook refuses a section that is in the cluster policy, not: {text}"
        time.sleep(0.3)


def test_one_policy_becomes_many_and_one_again(two: Site, operator: Operator, webhook: None) -> None:
    """What others have in the NicClusterPolicy stays, a section is never in both, and both ways end where they began."""
    del webhook
    kube = two.kube
    theirs = {"kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}}
    make(kube, {**theirs, "spec": {"secondaryNetwork": {"multus": MULTUS}}})
    two.rollout["policy"] = "cluster"
    output = flat(two.run("rollout", fails=True))
    assert "has secondaryNetwork of others, whose Pods nodeAffinity and tolerations would move, too" in output
    assert "Nothing was changed." in output
    assert two.classes() == {}
    two.rollout.update(node_affinity=False, tolerations=[])
    two.run("rollout")
    first = cluster_policy(kube)
    assert first is not None
    assert first["spec"]["secondaryNetwork"]["multus"]["image"] == "multus-cni"
    assert set(first["spec"]) == {"secondaryNetwork", "rdmaSharedDevicePlugin"}
    assert changed(two.run("rollout")) == 0
    wait_for_the_webhook(kube)
    # to many: the operator does nothing meanwhile, so that versions tell the order
    operator.away = True
    two.rollout.update(policy="node", timeout=0)
    shown = two.run("rollout", "--check")
    assert "given up" in shown
    assert policies(kube) == {}
    two.run("rollout")
    between = cluster_policy(kube)
    assert between is not None
    assert set(between["spec"]) == {"secondaryNetwork"}
    made = kube.list(f"{BASE}/nicnodepolicies", "list")
    assert len(made) == 2
    given_up = int(between["metadata"]["resourceVersion"])
    assert all(int(item["metadata"]["resourceVersion"]) > given_up for item in made), "the section was gone first"
    operator.away = False
    two.rollout["timeout"] = int(limit(60))
    two.run("rollout")
    assert changed(two.run("rollout")) == 0
    # and back
    again = {**theirs, "spec": {"rdmaSharedDevicePlugin": PLUGIN}}
    assert "cannot also define it" in refusal(kube, again)
    operator.away = True
    since = max(item["metadata"]["resourceVersion"] for item in kube.list(f"{BASE}/nicnodepolicies", "list"))
    two.rollout.update(policy="cluster", timeout=0)
    two.run("rollout")
    last = cluster_policy(kube)
    assert last is not None
    assert last["spec"] == first["spec"]
    assert policies(kube) == {}
    gone = deletions(two.kubeconfig, since)
    assert len(gone) == 2
    assert max(gone) < int(last["metadata"]["resourceVersion"]), "the node policies were gone first"
    operator.away = False
    two.rollout["timeout"] = int(limit(60))
    two.run("rollout")
    assert two.node("gb200-1")["status"]["allocatable"]["rdma/rdma_gb200"] == "63"
    assert changed(two.run("rollout")) == 0


def test_from_daemon_sets_to_the_operator_and_back(two: Site) -> None:
    operator_way, own_way = two.rollout, {"namespace": "rdma", "timeout": int(limit(60))}
    two.rollout = own_way
    two.run("rollout")
    assert len(two.objects()) == 4
    two.rollout = {**operator_way, "operator_version": "26.1.2"}
    two.run("rollout")
    assert two.objects() == {}
    item = cluster_policy(two.kube)
    assert item is not None
    assert item["spec"]["rdmaSharedDevicePlugin"]["version"] == "network-operator-v26.1.2"
    # a class that goes takes its label along, also where no object was its own
    del two.groups["gb200"]
    # where no file of an earlier run tells of the group, the policy does
    known = [two.directory / "output" / name for name in ("plan.json", "facts.json")]
    for path in known:
        path.rename(two.directory / path.name)
    assert "gb200-1 (class gb200-" in flat(two.run("rollout", "--check", fails=True))
    two.rollout["remove"] = ["gb200"]
    two.run("rollout", "--check")
    for path in known:
        (two.directory / path.name).rename(path)
    two.run("rollout", "--check")
    # that run ended before it came to the cluster
    two.run("plan")
    assert set(two.classes()) == {"gb200-1", "gb200-2", "v100-1", "v100-2"}
    two.run("rollout")
    assert set(two.classes()) == {"v100-1", "v100-2"}
    two.rollout = own_way
    two.run("rollout")
    assert cluster_policy(two.kube) is None, "nobody else has anything in it"
    assert len(two.objects()) == 2


def test_policies_go_by_group_and_what_others_have_stays(two: Site) -> None:
    kube = two.kube
    theirs = {"kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}}
    make(kube, {**theirs, "spec": {"secondaryNetwork": {"multus": MULTUS}}})
    first = cluster_policy(kube)
    assert first is not None
    two.rollout.update(policy="node", node_affinity=False, tolerations=[])
    two.run("rollout")
    before, classes = policies(kube), two.classes()
    assert (len(before), len(classes)) == (2, 4)

    # a look says what would go, and changes nothing
    said = flat(two.run("uninstall", "--check"))
    for name in before:
        assert f"NicNodePolicy {name}: removed" in said
    assert (policies(kube), two.classes()) == (before, classes)

    two.run("uninstall", "-e", json.dumps({"rdma_uninstall_groups": ["gb200"]}))
    left = policies(kube)
    assert len(left) == 1
    assert left.items() < before.items()
    assert set(two.classes()) == {"v100-1", "v100-2"}
    two.run("uninstall")
    assert (policies(kube), two.classes()) == ({}, {})
    assert changed(two.run("uninstall")) == 0

    # of the policy of all, only our section goes
    two.rollout["policy"] = "cluster"
    two.run("rollout")
    whole = cluster_policy(kube)
    assert whole is not None
    assert set(whole["spec"]) == {"secondaryNetwork", "rdmaSharedDevicePlugin"}
    said = flat(two.run("uninstall", "--check"))
    assert "NicClusterPolicy nic-cluster-policy: given up" in said
    looked = cluster_policy(kube)
    assert looked is not None
    assert looked["spec"] == whole["spec"]
    two.run("uninstall")
    last = cluster_policy(kube)
    assert last is not None
    assert last["spec"] == first["spec"]
    assert two.classes() == {}
    assert changed(two.run("uninstall")) == 0


def test_what_others_have_is_theirs(two: Site) -> None:
    kube = two.kube
    theirs = {"kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}}
    tolerations = [{"key": "theirs", "operator": "Exists"}]
    make(kube, {**theirs, "spec": {"rdmaSharedDevicePlugin": PLUGIN, "tolerations": tolerations}}, "kubectl")
    before = cluster_policy(kube)
    assert before is not None
    output = flat(two.run("rollout", fails=True))
    assert "NicClusterPolicy nic-cluster-policy has rdmaSharedDevicePlugin (set by kubectl)" in output
    assert "rdma_rollout.force" in output
    two.rollout["policy"] = "cluster"
    output = flat(two.run("rollout", fails=True))
    assert 'spec.tolerations (set by "kubectl"' in output
    after = cluster_policy(kube)
    assert after is not None
    assert (policies(kube), after["spec"], two.classes()) == ({}, before["spec"], {})
    two.rollout.update(policy="node", force=True)
    two.run("rollout")
    taken = cluster_policy(kube)
    assert taken is not None
    assert taken["spec"] == {"tolerations": tolerations}
    assert len(policies(kube)) == 2
    # a node policy of somebody else keeps us from a cluster policy
    kube.request("DELETE", f"{BASE}/nicclusterpolicies/nic-cluster-policy", "delete")
    spec = {"nodeSelector": {"x": "y"}, "rdmaSharedDevicePlugin": PLUGIN}
    make(kube, {"kind": "NicNodePolicy", "metadata": {"name": "theirs"}, "spec": spec})
    two.rollout["policy"] = "cluster"
    output = flat(two.run("rollout", fails=True))
    assert "NicNodePolicy theirs has rdmaSharedDevicePlugin" in output
    assert len(policies(kube)) == 3


@pytest.mark.parametrize("sections", [False, True], ids=["our fields", "sections of others"])
def test_a_policy_that_is_taken_over_before_we_leave_it_is_left_as_it_is(
    site: Site, operator: Operator, sections: bool
) -> None:
    """Also with force, which was given for what was there."""
    operator.away = True
    kube = Kube(site.kube.source)
    theirs = {"apiVersion": API, "kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}}
    spec: dict[str, t.Any] = {"secondaryNetwork": {"multus": MULTUS}}
    make(kube, {**theirs, "spec": {**spec, "rdmaSharedDevicePlugin": PLUGIN} if sections else spec})
    if not sections:
        kube.apply({**theirs, "spec": {"rdmaSharedDevicePlugin": PLUGIN}}, dry_run=False)
    rollout = Rollout(kube, force=True, adopt=True, place=SPACE)
    own = {"apiVersion": API, "kind": "NicNodePolicy", "metadata": {"name": "own"}}
    rollout.look([{**own, "spec": {"nodeSelector": {"x": "y"}, "rdmaSharedDevicePlugin": PLUGIN}}], {}, [])
    rollout.rehearse()
    path, image = f"{BASE}/nicclusterpolicies/nic-cluster-policy", {"image": "theirs"}
    body = {"spec": {"rdmaSharedDevicePlugin": image}}
    kube.request("PATCH", path, "edit", [("fieldManager", "kubectl")], body, "application/merge-patch+json")
    with pytest.raises(
        KubeError, match=r"was changed by kubectl(, somebody)? since it was looked at, and is left as it is"
    ):
        rollout.perform()
    left = cluster_policy(kube)
    assert left is not None
    # the server adds defaults of its own
    assert {key: left["spec"]["rdmaSharedDevicePlugin"][key] for key in PLUGIN} == {**PLUGIN, **image}
    assert policies(kube) == {}


def test_a_release_that_leaves_its_pods_alone(two: Site, operator: Operator) -> None:
    """Before 26.1, a changed configuration reaches no running plugin, and the error says how it does."""
    operator.restarts = False
    two.groups = {"ib-v100": two.groups["ib-v100"]}
    two.rollout["operator_version"] = "25.10.0"
    two.run("rollout")
    time.sleep(1.1)  # times of the API server are in seconds
    two.groups["ib-v100"]["rdma_resource"]["hca_max"] = 31
    two.rollout["timeout"] = int(limit(6))
    output = flat(two.run("rollout", fails=True))
    assert f"kubectl -n {SPACE} rollout restart daemonset rdma-shared-dp-ds" in output


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_before_anything_is_changed(site: Site, operator: Operator) -> None:
    del operator
    site.nodes({NIC: "true"})
    wishes = dict(site.rollout)
    for change, text in (
        ({"operator_version": "24.7.0"}, "24.7.0 is too old: choose a release of one of the lines 24.10"),
        ({"image": "x:1"}, "rdma_rollout has no key image with engine: network_operator"),
        ({"operator_version": "26.1.0"}, "no single configuration is exact for the whole cluster"),
        (
            {"ofed_driver": {"groups": ["ib-v100"]}},
            "rdma_ofed.method inbox of group ib-v100 would both see to the driver",
        ),
        ({"helm": {"instal": False}}, "instal"),
    ):
        site.rollout = {**wishes, **change}
        assert text in flat(site.run("rollout", fails=True))
    assert (policies(site.kube), site.classes(), cluster_policy(site.kube)) == ({}, {}, None)


def test_a_missing_definition_is_named(two: Site, defined: dict[str, dict[str, t.Any]]) -> None:
    two.kube.request("DELETE", f"{definitions.PLACE}/nicnodepolicies.mellanox.com", "delete")
    try:
        end = time.monotonic() + limit(30)
        while "NicNodePolicy" in Kube(two.kube.source).kinds(API) and time.monotonic() < end:
            time.sleep(0.3)
        output = flat(two.run("rollout", fails=True))
        assert "does not know NicNodePolicy of mellanox.com/v1alpha1" in output
        assert "policy: cluster does without" in output
        assert two.classes() == {}
    finally:
        define(two.kube, defined["nicnodepolicies"])


def test_missing_rights_are_named_and_those_of_the_readme_suffice(two: Site, limited: Limited) -> None:
    """With the rights of a DaemonSet's rollout, what is missing is named; with those of the README it works."""
    user = limited.kubeconfig
    limited.grant("rollout-own", *limited.documented("device_plugin"))
    output = flat(two.run("rollout", user=user, fails=True))
    assert f':{limited.name} may not get nicnodepolicies of API group "mellanox.com"' in output, output
    assert two.classes() == {}
    limited.grant("rollout-policies", *limited.documented("network_operator"))
    two.run("rollout", user=user)
    assert len(policies(two.kube)) == 2
    two.rollout["policy"] = "cluster"
    two.run("rollout", user=user)
    assert policies(two.kube) == {}


NEW = "operator-of-another-name"

# --- Helm -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def charted(two: Site) -> Site:
    """The operator is installed from a chart of the tests' own."""
    helm = control_plane.find_helm()
    print(subprocess.run([helm, "version", "--short"], check=True, capture_output=True, text=True).stdout.strip())
    chart = two.directory / "chart"
    shutil.copytree(HERE / "chart", chart)
    two.rollout["helm"] = {"chart": str(chart), "binary": helm, "nfd": False}
    return two


def test_the_operator_comes_by_its_chart(charted: Site) -> None:
    kube, helm = charted.kube, charted.rollout["helm"]
    values = f"/api/v1/namespaces/{SPACE}/configmaps/network-operator-values"
    place = f"/apis/apps/v1/namespaces/{SPACE}/deployments/network-operator"
    shown = flat(charted.run("rollout", "--check"))
    assert "A run without --check would install it, then apply 2 policies" in shown
    assert kube.find(place, "read") is None
    charted.rollout.update(registry="mirror.example/nv", image_pull_secrets=["pull"])
    helm["values"] = {"operator": {"tolerations": [{"operator": "Exists"}]}}
    charted.run("rollout")
    found, told = kube.find(place, "read"), kube.find(values, "read")
    assert found is not None
    assert told is not None
    pod = found["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"mirror.example/nv/network-operator:v{OPERATOR}"
    assert (pod["imagePullSecrets"], pod["tolerations"]) == ([{"name": "pull"}], [{"operator": "Exists"}])
    assert json.loads(told["data"]["nfd"]) == {"enabled": False, "deployNodeFeatureRules": True}
    space = kube.find(f"/api/v1/namespaces/{SPACE}", "read")
    assert space is not None
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert len(policies(kube)) == 2
    assert changed(charted.run("rollout")) == 0
    # with an operator there, a check goes to the end
    charted.groups["ib-v100"]["rdma_resource"]["hca_max"] = 31
    assert "rdmaHcaMax: 31" in charted.run("rollout", "--check")
    # an upgrade
    chart = Path(helm["chart"]) / "Chart.yaml"
    chart.write_text(chart.read_text().replace(OPERATOR, "26.7.0"))
    output = flat(charted.run("rollout", fails=True))
    assert f"is network-operator-26.7.0, not version {OPERATOR}" in output
    charted.rollout["operator_version"] = "26.7.0"
    charted.run("rollout")
    (one, other) = kube.list(f"{BASE}/nicnodepolicies", "list")
    versions = {item["spec"]["rdmaSharedDevicePlugin"]["version"] for item in (one, other)}
    assert versions == {"network-operator-v26.7.0"}


def helm(site: Site, *words: str) -> None:
    """What somebody does with Helm, who knows nothing of us."""
    command = [control_plane.find_helm(), "--kubeconfig", str(site.kubeconfig), "--namespace", SPACE, *words]
    environment = {**os.environ, "HELM_CACHE_HOME": str(site.directory), "HELM_CONFIG_HOME": str(site.directory)}
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=limit(60))


def test_an_operator_of_somebody_else_is_not_upgraded_without_a_word(charted: Site) -> None:
    kube, chart = charted.kube, charted.rollout["helm"]["chart"]
    record = f"{RECORDS}/fabric-rdma-network-operator"
    charted.rollout["timeout"] = 0

    def revisions() -> list[str]:
        selector = "owner=helm,name=network-operator"
        found = kube.list(f"/api/v1/namespaces/{SPACE}/secrets", "list", metadata_only=True, labelSelector=selector)
        return sorted(item["metadata"]["name"] for item in found)

    def refused(*arguments: str) -> None:
        before = revisions()
        output = flat(charted.run("rollout", *arguments, fails=True))
        assert "Nothing was changed. Releases of these names are there already" in output
        assert f"{SPACE}/network-operator (namespace/release)" in output
        assert "rdma_rollout.adopt: true" in output
        assert "rdma_rollout.helm.install: false uses the operator as it is" in output
        assert (revisions(), policies(kube), charted.classes()) == (before, {}, {})

    # a rollout whose Helm could not install it has none
    charted.rollout["helm"]["chart"] = str(charted.directory / "away")
    charted.run("rollout", fails=True)
    left = kube.find(record, "read")
    assert left is not None
    assert left["data"]["charts"] == "[]"
    charted.rollout["helm"]["chart"] = chart
    helm(charted, "install", "network-operator", chart)
    refused()
    charted.rollout["adopt"] = True
    charted.run("rollout")
    assert len(revisions()) == 2
    del charted.rollout["adopt"]
    # an upgrade by hand leaves it ours, and what stays is remembered
    helm(charted, "upgrade", "network-operator", chart, "--reuse-values")
    charted.run("rollout")
    charted.run("uninstall")
    assert policies(kube) == {}
    assert kube.find(record, "read") is not None
    # one that is put in its place does not become ours
    helm(charted, "uninstall", "network-operator")
    helm(charted, "install", "network-operator", chart)
    refused("--check")
    charted.run("uninstall")
    assert kube.find(record, "read") is None
    assert len(revisions()) == 1


def test_labels_of_kube_system_are_set_only_for_who_asks(charted: Site) -> None:
    """Where the operator is told to be there."""
    # the operator that is played here has another place
    charted.rollout.update(namespace="kube-system", timeout=0)

    def labels() -> list[str]:
        found = charted.kube.find("/api/v1/namespaces/kube-system", "read") or {"metadata": {}}
        return [key for key in found["metadata"]["labels"] if key.startswith("pod-security")]

    charted.run("rollout")
    assert charted.kube.find("/apis/apps/v1/namespaces/kube-system/deployments/network-operator", "read") is not None
    assert labels() == []
    charted.rollout["helm"]["pod_security"] = True
    charted.run("rollout")
    assert len(labels()) == 3
    # as long as the operator is there, its Pods need them
    charted.run("uninstall")
    assert len(labels()) == 3
    helm(charted, "uninstall", "network-operator", "--namespace", "kube-system")
    charted.run("uninstall")
    assert labels() == []


def test_helm_does_nothing_while_another_rollout_is_under_way(charted: Site) -> None:
    place = f"/apis/apps/v1/namespaces/{SPACE}/deployments/network-operator"
    other = Lease(charted.kube, SPACE, "root@elsewhere/1")
    assert other.take()
    assert f"Lease {SPACE}/fabric-rdma-rollout is held by root@elsewhere/1" in flat(charted.run("rollout", fails=True))
    assert charted.kube.find(place, "read") is None
    assert other.release()
    charted.run("rollout")
    assert charted.kube.find(place, "read") is not None
    assert other.release(whoever=True) is None, "it is given up at the end"
    assert Lease(charted.kube, "default", "").release(whoever=True) is None
    # also after a failure of Helm
    charted.rollout["helm"]["chart"] = "/nonexistent/chart"
    charted.run("rollout", fails=True)
    assert other.release(whoever=True) is None


def test_a_namespace_that_is_missing_is_made_under_the_lease(charted: Site) -> None:
    """Two that come at the same time see each other, whose labels the namespace has to have or not."""
    place, labels = f"/api/v1/namespaces/{NEW}", "pod-security.kubernetes.io/enforce"
    other = Lease(charted.kube, "default", "root@elsewhere/1")
    for pod_security in (False, True):
        # the operator that is played here has another place
        charted.rollout.update(namespace=NEW, timeout=0)
        charted.rollout["helm"]["pod_security"] = pod_security
        if not pod_security:
            assert other.take()
            assert "is held by root@elsewhere/1" in flat(charted.run("rollout", fails=True))
            assert charted.kube.find(place, "read") is None
            assert other.release()
        charted.run("rollout")
        found = charted.kube.find(place, "read")
        assert found is not None
        assert (labels in found["metadata"]["labels"]) is pod_security
        for name in (NEW, "default"):
            assert Lease(charted.kube, name, "").release(whoever=True) is None


def test_what_the_chart_does_not_know(charted: Site) -> None:
    charted.rollout["helm"]["values"] = {"operater": {}}
    assert "has no key operater" in flat(charted.run("rollout", fails=True))
    charted.rollout["helm"].update(values={"imagePullSecrets": []}, chart="/nonexistent/chart")
    assert "/nonexistent/chart" in flat(charted.run("rollout", fails=True))
    assert policies(charted.kube) == {}
    charted.rollout["helm"]["chart"] = str(charted.directory / "chart")
    charted.run("rollout", "-e", "device_plugin_method=render")
    rendered = charted.directory / "output" / "rendered"
    told = yaml.safe_load((rendered / "network-operator-values.yaml").read_text())
    assert told["nfd"] == {"enabled": False, "deployNodeFeatureRules": True}
    files = {path.relative_to(rendered).as_posix() for path in rendered.rglob("*.yaml")}
    assert files == {
        "network-operator-values.yaml",
        "gb200/gb200-device-1021-nicnodepolicy.yaml",
        "ib-v100/ib-v100-device-1017-nicnodepolicy.yaml",
    }
    for name in files - {"network-operator-values.yaml"}:
        Kube(charted.kube.source).apply(yaml.safe_load((rendered / name).read_text()), dry_run=True)
    # and what another policy makes of the same directory
    charted.rollout["policy"] = "cluster"
    charted.run("plan")
    files = {path.relative_to(rendered).as_posix() for path in rendered.rglob("*.yaml")}
    assert files == {"network-operator-values.yaml", "nic-cluster-policy.yaml"}
    charted.rollout["policy"] = "node"
    charted.run("plan")
    assert not (rendered / "nic-cluster-policy.yaml").exists()
    assert (rendered / "network-operator-values.yaml").exists()
    charted.rollout = {}
    charted.run("plan")
    files = {path.name.rpartition("-")[2] for path in rendered.rglob("*.yaml")}
    # kube-system is there
    assert files == {"configmap.yaml", "daemonset.yaml"}

# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every system of the cluster side by the playbooks, with the real definitions: what comes, that it stays, changes and goes.

Charts are stand-ins of the same name and version, which take any value: what the real ones make of them is theirs.
"""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DRA_DRIVER,
    DRA_LINES,
    GPU_OPERATOR,
    LONGHORN,
    VOLCANO,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL, POD_SECURITY, SYSTEM_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import FIRST_PLACE, Lease
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DRIVER
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane, definitions
from ansible_collections.fabric.rdma.tests.cluster.gate import Gate
from ansible_collections.fabric.rdma.tests.cluster.kubelets import NODE_ANNOTATION

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
WHEREABOUTS_GROUP = "whereabouts.cni.cncf.io"
WHEREABOUTS_PATH = f"/apis/{WHEREABOUTS_GROUP}/v1alpha1"
NADS = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
# as a kubelet labels its node
LINUX = {"kubernetes.io/os": "linux"}
CIDRS = {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"]}
RAILS = {
    "name": "fabric",
    "kind": "macvlan",
    "rails": True,
    "ipam": {"type": "whereabouts", "range": "192.168.0.0/16", "per_rail": 24},
}


def chart(directory: Path, name: str, version: str, *hooks: Json) -> None:
    """A packed chart that is nothing but a ConfigMap with its values. hooks: objects that Helm makes at certain times."""
    source = directory / "source" / name
    (source / "templates").mkdir(parents=True, exist_ok=True)
    (source / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": name, "version": version}))
    told = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"told-{name}"}}
    text = yaml.safe_dump(told) + "data:\n  values: {{ toJson .Values | quote }}\n"
    (source / "templates" / "told.yaml").write_text(text)
    (source / "templates" / "hooks.yaml").write_text(yaml.safe_dump_all(hooks))
    with tarfile.open(directory / f"{name}-{version}.tgz", "w:gz") as archive:
        archive.add(source, arcname=name)


def told(site: Site, namespace: str, name: str) -> Json:
    """The values that a chart was installed with."""
    found = site.kube.find(f"/api/v1/namespaces/{namespace}/configmaps/told-{name}", "read")
    assert found is not None
    return dict(json.loads(found["data"]["values"]))


def changes(output: str) -> int:
    """How many tasks have changed something."""
    return sum(int(count) for count in re.findall(r"changed=(\d+)", output))


def networks(site: Site) -> dict[str, Json]:
    site.kube.forget_kinds()
    if "NetworkAttachmentDefinition" not in site.kube.kinds("k8s.cni.cncf.io/v1"):
        return {}
    return {
        item["metadata"]["name"]: json.loads(item["spec"]["config"])["plugins"][0]
        for item in site.kube.list(NADS, "list", labelSelector=SYSTEM_LABEL)
    }


# what comes with the networks, and is for all groups
BROUGHT = (
    "DaemonSet kube-system/kube-multus-ds",
    "DaemonSet kube-system/whereabouts",
    "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io",
    f"CustomResourceDefinition ippools.{WHEREABOUTS_GROUP}",
)


def own_versions(site: Site) -> dict[str, str]:
    """Definitions, accounts and DaemonSets of systems, with the version that the server gives them."""
    paths = (definitions.PLACE, "/apis/apps/v1/daemonsets", "/api/v1/serviceaccounts", "/api/v1/configmaps")
    return {
        f"{path} {item['metadata']['name']}": str(
            item["metadata"]["generation"] if path.endswith("daemonsets") else item["metadata"]["uid"]
        )
        for path in paths
        for item in site.kube.list(path, "list", labelSelector=SYSTEM_LABEL)
    }


@pytest.fixture
def rails(site: Site) -> t.Iterator[Site]:
    """A group with a rail for each GPU, whose Pods get a network on each."""
    site.groups = {"roce-rails": {**site.groups["roce-rails"], "rdma_networks": [RAILS], "rdma_cluster_cidrs": CIDRS}}
    site.groups["roce-rails"] |= {"rdma_multus": {"install": True}, "rdma_whereabouts": {"install": True}}
    site.nodes(LINUX)
    yield site
    site.run("uninstall")


def test_networks_of_rails_come_change_and_go(rails: Site) -> None:
    checked = rails.run("rollout", "--check")
    assert "not rehearsed, since their definitions come with this rollout" in " ".join(checked.split())
    assert rails.kube.find("/api/v1/namespaces/kube-system/configmaps/fabric-rdma-secondary-network", "read") is None

    rails.run("rollout")
    first = networks(rails)
    assert sorted(first) == [f"fabric-rail{number}" for number in range(1, 1 + len(first))]
    assert len(first) > 1
    # each on a netdev of its own, with addresses of its own
    assert len({each["master"] for each in first.values()}) == len(first)
    assert len({each["ipam"]["range"] for each in first.values()}) == len(first)

    assert changes(rails.run("rollout")) == 0

    rails.groups["roce-rails"]["rdma_networks"] = [{**RAILS, "mtu": 1500}]
    rails.run("rollout")
    assert networks(rails) == {name: {**each, "mtu": 1500} for name, each in first.items()}

    # a look says what would go, and changes nothing
    whole = (networks(rails), own_versions(rails))
    said = " ".join(rails.run("uninstall", "--check").split())
    for name in (*(f"NetworkAttachmentDefinition default/{name}" for name in first), *BROUGHT):
        assert f"{name}: removed" in said
    assert (networks(rails), own_versions(rails)) == whole

    rails.run("uninstall", "-e", json.dumps({"rdma_uninstall_groups": ["roce-rails"]}))
    assert networks(rails) == {}
    # what all groups share stays until everything goes
    daemon_sets = "/apis/apps/v1/daemonsets"
    left = [item["metadata"]["name"] for item in rails.kube.list(daemon_sets, "list", labelSelector=SYSTEM_LABEL)]
    assert left
    rails.run("uninstall")
    assert rails.kube.list(daemon_sets, "list", labelSelector=SYSTEM_LABEL) == []
    assert "changed=0" in rails.run("uninstall").splitlines()[-2]


def pool(site: Site, name: str, **allocations: Json) -> None:
    """What Whereabouts makes for a range, once a Pod has asked for an address of it."""
    metadata = {"name": name, "namespace": "kube-system"}
    body = {"apiVersion": f"{WHEREABOUTS_GROUP}/v1alpha1", "kind": "IPPool", "metadata": metadata}
    body["spec"] = {"range": "192.168.0.0/24", "allocations": allocations}
    site.kube.request("POST", f"{WHEREABOUTS_PATH}/namespaces/kube-system/ippools", "make", body=body)


def test_pools_that_have_given_no_address_go_with_whereabouts(rails: Site) -> None:
    """It has made them itself. One of which a Pod has an address keeps the definition, which goes later."""
    definition = f"CustomResourceDefinition ippools.{WHEREABOUTS_GROUP}"
    rails.run("rollout")
    rails.kube.forget_kinds()
    pool(rails, "192.168.0.0-24")
    pool(rails, "192.168.1.0-24", **{"7": {"id": "x", "podref": "default/worker"}})
    said = " ".join(rails.run("uninstall").split())
    assert f"{definition} stays: others have objects of it (IPPool kube-system/192.168.1.0-24)" in said
    left = rails.kube.list(definitions.PLACE, "list", labelSelector=SYSTEM_LABEL)
    assert [item["metadata"]["name"] for item in left] == [f"ippools.{WHEREABOUTS_GROUP}"]
    assert len(rails.kube.list(f"{WHEREABOUTS_PATH}/ippools", "list")) == 2

    body = [{"op": "replace", "path": "/spec/allocations", "value": {}}]
    path = f"{WHEREABOUTS_PATH}/namespaces/kube-system/ippools/192.168.1.0-24"
    rails.kube.request("PATCH", path, "give back", [], body, "application/json-patch+json")
    assert f"{definition}: removed" in " ".join(rails.run("uninstall").split())
    assert rails.kube.list(definitions.PLACE, "list", labelSelector=SYSTEM_LABEL) == []


def test_a_system_that_nobody_wishes_for_any_more_is_reported_and_goes_alone(rails: Site) -> None:
    assert "The cluster still has" not in rails.run("rollout")
    plugin = rails.objects()
    assert plugin
    for wish in ("rdma_networks", "rdma_multus", "rdma_whereabouts"):
        del rails.groups["roce-rails"][wish]
    said = " ".join(rails.run("rollout").split())
    assert "The cluster still has secondary_network, which the inventory no longer asks for." in said
    assert networks(rails) != {}
    rails.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": ["secondary_network"]}))
    assert networks(rails) == {}
    assert rails.objects() == plugin
    assert "The cluster still has" not in rails.run("rollout")
    said = rails.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": ["network"]}), fails=True)
    assert "rdma_uninstall_systems names network; systems are device_plugin, dra, " in " ".join(said.split())


def test_a_network_that_cannot_be_is_refused_before_anything_is_changed(site: Site) -> None:
    wrong = {"name": "fabric", "kind": "macvlan", "ipam": {"type": "whereabouts", "range": "10.244.9.0/24"}}
    site.groups = {"ib-a100": {**site.groups["ib-a100"], "rdma_networks": [wrong], "rdma_cluster_cidrs": CIDRS}}
    site.nodes()
    output = " ".join(site.run("rollout", fails=True).split())
    assert "Take kind: ipoib" in output
    assert "10.244.0.0/16" in output
    # nothing at all, not even what comes before it
    assert site.objects() == {}
    assert site.kube.find("/api/v1/namespaces/kube-system/configmaps/fabric-rdma-secondary-network", "read") is None


# --- systems that come as charts ---------------------------------------------------------------------------------------

# As GPU nodes have them where the GPU Operator, or somebody else, has looked at them.
GPU_NODE = {**LINUX, "nvidia.com/gpu.present": "true"}


class Charted(t.NamedTuple):
    """A system, what is wished for it, its release, and what changes when the wish does."""

    system: str
    wish: Json
    # whose hosts it is for
    group: str
    namespace: str
    release: str
    chart: str
    version: str
    change: Json
    # where the value comes to, and its values before and after; text on the way is YAML
    path: tuple[str | int, ...]
    values: tuple[t.Any, t.Any]
    # what it brings beside the chart: DaemonSets, and labels of nodes
    beside: tuple[int, Json] = (0, {})
    # names of definitions and accounts that it brings once the wish has changed
    more: tuple[str, ...] = ()
    # what its nodes have to have
    labels: tuple[tuple[str, str], ...] = ()


CHARTED = [
    Charted(
        "longhorn",
        # recorded hosts were never prepared: on nodes that nobody discovers, it is for the user to know
        {"version": LONGHORN, "groups": [], "nodes": ["v100-1", "v100-2"]},
        "ib-v100",
        "longhorn-system",
        "longhorn",
        "longhorn",
        LONGHORN,
        {"default_class": False},
        ("persistence", "defaultClass"),
        (True, False),
        (0, {"node.longhorn.io/create-default-disk": "true"}),
    ),
    Charted(
        "gpu_operator",
        {"version": GPU_OPERATOR.removeprefix("v")},
        "ib-v100",
        "gpu-operator",
        "gpu-operator",
        "gpu-operator",
        GPU_OPERATOR,
        {"gdrcopy": True},
        ("gdrcopy", "enabled"),
        (False, True),
    ),
    Charted(
        "compute_domain",
        {"version": DRA_DRIVER},
        "gb200",
        "nvidia-dra-driver-gpu",
        "nvidia-dra-driver-gpu",
        DRA_LINES[0, 4].chart.rpartition("/")[2],
        DRA_DRIVER,
        {"feature_gates": {"CrashOnNVLinkFabricErrors": False}, "mpi_operator": "install"},
        ("featureGates",),
        (None, {"CrashOnNVLinkFabricErrors": False}),
        more=("mpijobs.kubeflow.org", "mpi-operator"),
        labels=(("nvidia.com/gpu.clique", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"),),
    ),
    Charted(
        "vgpu",
        {"version": VOLCANO, "groups": ["ib-v100"], "stop_device_plugin": True},
        "ib-v100",
        "volcano-system",
        "volcano",
        "volcano",
        VOLCANO,
        {"policy": "spread"},
        ("custom", "scheduler_config_override", "tiers", 1, "plugins", -1, "arguments", "deviceshare.SchedulePolicy"),
        ("binpack", "spread"),
        (1, {"nvidia.com/gpu.deploy.device-plugin": "false"}),
    ),
]


def at(values: t.Any, path: t.Sequence[str | int]) -> t.Any:
    for part in path:
        values = yaml.safe_load(values) if isinstance(values, str) else values
        values = values.get(part) if isinstance(part, str) else values[part]
    return values


def beside(site: Site, case: Charted) -> tuple[int, Json]:
    """What there is of a system beside its chart."""
    selector = f"{SYSTEM_LABEL}={case.system.replace('_', '-')}"
    sets = site.kube.list("/apis/apps/v1/daemonsets", "list", labelSelector=selector)
    labels = [site.node(name)["metadata"]["labels"] for name in site.groups[case.group]["hosts"]]
    return len(sets), {
        key: value for key, value in case.beside[1].items() if all(own.get(key) == value for own in labels)
    }


def wished(site: Site, case: Charted, *hooks: Json) -> Json:
    """The wishes of the group that wants a chart."""
    site.groups = {case.group: dict(site.groups[case.group])}
    site.nodes({**GPU_NODE, **dict(case.labels)})
    charts = site.directory / "charts"
    charts.mkdir()
    chart(charts, case.chart, case.version, *hooks)
    # nothing is waited for: what these charts bring runs nowhere
    site.rollout |= {"charts": str(charts), "helm": {"binary": control_plane.find_helm()}, "timeout": 0}
    place = site.groups[case.group]
    place[f"rdma_{case.system}"] = case.wish
    return place


@pytest.mark.parametrize("case", CHARTED, ids=[each.system for each in CHARTED])
def test_a_chart_comes_stays_changes_and_goes(site: Site, case: Charted) -> None:
    place = wished(site, case)
    releases, selector = f"/api/v1/namespaces/{case.namespace}/secrets", f"owner=helm,name={case.release}"

    site.run("rollout", "--check")
    assert site.kube.list(releases, "list", labelSelector=selector) == []
    assert beside(site, case) == (0, {})
    site.run("rollout")
    first = told(site, case.namespace, case.chart)
    assert at(first, case.path) == case.values[0]
    assert beside(site, case) == case.beside
    assert changes(site.run("rollout")) == 0
    assert len(site.kube.list(releases, "list", labelSelector=selector)) == 1

    place[f"rdma_{case.system}"] = {**case.wish, **case.change}
    site.run("rollout")
    assert at(told(site, case.namespace, case.chart), case.path) == case.values[1]
    assert beside(site, case) == case.beside
    assert {*case.more} <= {key.rpartition(" ")[2] for key in own_versions(site)}

    # a look says what would go, and changes nothing
    said = " ".join(site.run("uninstall", "--check").split())
    assert f"release {case.namespace}/{case.release}: removed" in said
    for key in case.beside[1]:
        assert key in said
    assert told(site, case.namespace, case.chart)
    assert beside(site, case) == case.beside
    site.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": [case.system]}))
    assert site.kube.find(f"/api/v1/namespaces/{case.namespace}/configmaps/told-{case.chart}", "read") is None
    assert site.kube.list(releases, "list", labelSelector="owner=helm") == []
    assert beside(site, case) == (0, {})
    assert own_versions(site) == {}
    space = site.kube.find(f"/api/v1/namespaces/{case.namespace}", "read")
    assert space is not None
    assert not [key for key in space["metadata"].get("labels") or {} if key.startswith(POD_SECURITY)]
    # the device plugin is another system
    assert site.objects() != {}
    again = site.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": [case.system]}))
    assert changes(again) == 0


def records(site: Site, system: str) -> list[Json]:
    """What the cluster remembers of a system."""
    found = site.kube.list("/api/v1/configmaps", "list", labelSelector=SYSTEM_LABEL)
    return [item for item in found if item["metadata"]["name"] == f"fabric-rdma-{system}"]


def test_a_release_that_helm_cannot_remove_whole_is_named_and_remembered(site: Site) -> None:
    case = next(each for each in CHARTED if each.system == "gpu_operator")
    # what it makes before it removes anything else is what the cluster refuses
    metadata = {"name": "No_Name", "annotations": {"helm.sh/hook": "pre-delete"}}
    wished(site, case, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    site.run("rollout")
    alone = ("-e", json.dumps({"rdma_uninstall_systems": [case.system]}))
    said = " ".join(site.run("uninstall", *alone, fails=True).split())
    assert "No_Name" in said, "Helm's own reason"
    assert told(site, case.namespace, case.chart)

    # Helm calls it uninstalling from now on, and lists it no longer
    said = " ".join(site.run("uninstall", *alone, fails=True).split())
    assert (
        f"{case.namespace}/{case.release} (namespace/release) could not be removed completely: see with `helm status`"
        in said
    )
    assert "`helm uninstall --no-hooks`" in said
    [record] = records(site, "gpu-operator")
    assert f"{case.namespace}/{case.release}" in record["data"]["charts"]

    words = [
        "--kubeconfig",
        str(site.kubeconfig),
        "--namespace",
        case.namespace,
        "uninstall",
        "--no-hooks",
        case.release,
    ]
    subprocess.run([control_plane.find_helm(), *words], check=True, capture_output=True)
    site.run("uninstall", *alone)
    assert records(site, "gpu-operator") == []
    assert changes(site.run("uninstall", *alone)) == 0


SETTINGS: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "settings.longhorn.io"},
    "spec": {
        "group": "longhorn.io",
        "scope": "Namespaced",
        "names": {"plural": "settings", "singular": "setting", "kind": "Setting", "listKind": "SettingList"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"value": {"type": "string"}}},
                },
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def settings(site: Site) -> t.Iterator[str]:
    """Where Longhorn keeps its settings, on a cluster that has their definition for as long as a test runs."""
    site.kube.request("POST", DEFINITIONS, "define", body=SETTINGS)
    yield "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/settings"
    site.kube.request("DELETE", f"{DEFINITIONS}/settings.longhorn.io", "delete")


def test_what_a_killed_removal_of_longhorn_has_unlocked_is_locked_by_a_rollout(site: Site, settings: str) -> None:
    wished(site, CHARTED[0])
    site.run("rollout")
    metadata = {"name": "deleting-confirmation-flag", "annotations": {"rdma.fabric/unlocked": "true"}}
    body = {"apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "metadata": metadata, "value": "true"}
    site.kube.request("POST", settings, "unlock", body=body)
    site.run("rollout")
    setting = site.kube.find(f"{settings}/deleting-confirmation-flag", "read")
    assert setting is not None
    assert (setting["value"], setting["metadata"].get("annotations", {})) == ("false", {})
    assert changes(site.run("rollout")) == 0

    # what its administrator has unlocked stays so
    site.kube.merge(f"{settings}/deleting-confirmation-flag", "unlock", {"value": "true"}, dry_run=False)
    assert changes(site.run("rollout")) == 0
    site.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": ["longhorn"]}))


# --- claims in place of the device plugin ------------------------------------------------------------------------------

RESOURCES = "/apis/resource.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/leases"


def claims(site: Site) -> dict[str, list[str]]:
    """What there is of DRANET: names by kind."""
    paths = {
        "DaemonSet": "/apis/apps/v1/daemonsets",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "DeviceClass": f"{RESOURCES}/deviceclasses",
        "ResourceClaimTemplate": f"{RESOURCES}/resourceclaimtemplates",
    }
    found = {
        kind: sorted(
            "/".join(filter(None, (item["metadata"].get("namespace"), item["metadata"]["name"])))
            for item in site.kube.list(path, "list", labelSelector=f"{SYSTEM_LABEL}=dra")
        )
        for kind, path in paths.items()
    }
    labels = {
        name: site.node(name)["metadata"].get("labels") or {}
        for group in site.groups.values()
        for name in group["hosts"]
    }
    found["nodes"] = sorted(name for name, own in labels.items() if DRA_LABEL in own)
    return {kind: names for kind, names in found.items() if names}


def allocated(site: Site, node: str) -> None:
    """A claim that has a device of a node, as the scheduler writes it."""
    path = f"{RESOURCES}/namespaces/training/resourceclaims"
    request = {"name": "rdma", "exactly": {"deviceClassName": "any"}}
    body = {"metadata": {"name": "user"}, "spec": {"devices": {"requests": [request]}}}
    site.kube.request("POST", path, "make", body=body)
    row = {"driver": DRIVER, "pool": node, "device": "pci-0000-03-00-0", "request": "rdma"}
    status = {"status": {"allocation": {"devices": {"results": [row]}}}}
    site.kube.merge(f"{path}/user/status", "allocate", status, dry_run=False)


def forget_claims(site: Site) -> None:
    """What of DRANET is in no namespace of the test."""
    # of a run that a test has killed
    Lease(site.kube, FIRST_PLACE, "").release(whoever=True)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    paths = (f"{rbac}/clusterroles", f"{rbac}/clusterrolebindings", f"{RESOURCES}/deviceclasses")
    for path in (*paths, "/api/v1/namespaces/kube-system/configmaps"):
        for item in site.kube.list(path, "list", labelSelector=f"{SYSTEM_LABEL}=dra"):
            site.kube.request("DELETE", f"{path}/{item['metadata']['name']}", "delete")


@pytest.fixture
def claimed(site: Site) -> t.Iterator[Site]:
    """A group that DRANET is to serve, and the namespace of those who use it."""
    site.groups = {"gb200": dict(site.groups["gb200"])}
    site.nodes(LINUX)
    site.rollout |= {"engine": "dra", "claims": {"namespaces": ["training"]}}
    for name in ("training", "inference"):
        site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": name}})
    forget_claims(site)
    yield site
    forget_claims(site)


def test_claims_come_stay_change_and_go(claimed: Site) -> None:
    claimed.run("rollout", "--check")
    assert claims(claimed) == {}

    claimed.run("rollout")
    slug, resource = "gb200-device-1021", "gb200-device-1021-rdma-gb200"
    whole = {
        "DaemonSet": [f"rdma/dranet-{slug}"],
        "ClusterRole": ["dranet"],
        "DeviceClass": [resource],
        "ResourceClaimTemplate": [f"training/{resource}", f"training/{resource}-all"],
        "nodes": ["gb200-1", "gb200-2"],
    }
    assert claims(claimed) == whole
    # the device plugin serves nobody beside it
    assert claimed.objects() == {}
    (own,) = claimed.kube.list(f"{RESOURCES}/deviceclasses", "list", labelSelector=f"{SYSTEM_LABEL}=dra")
    assert 'device.driver == "dra.net"' in own["spec"]["selectors"][0]["cel"]["expression"]
    assert changes(claimed.run("rollout")) == 0

    claimed.rollout["claims"] = {"namespaces": ["inference"]}
    claimed.run("rollout")
    moved = [f"inference/{resource}", f"inference/{resource}-all"]
    assert claims(claimed) == {**whole, "ResourceClaimTemplate": moved}

    alone = ("-e", json.dumps({"rdma_uninstall_systems": ["dra"]}))
    said = " ".join(claimed.run("uninstall", "--check", *alone).split())
    for name in (f"DeviceClass {resource}", f"DaemonSet rdma/dranet-{slug}", "labels of node gb200-1"):
        assert f"{name}: removed" in said
    assert claims(claimed) == {**whole, "ResourceClaimTemplate": moved}
    # a claim has a device of a node: its Pod could not end without the driver
    allocated(claimed, "gb200-1")
    said = " ".join(claimed.run("uninstall", *alone, fails=True).split())
    assert f"DRANET would go from class {slug}, and claims have devices of its nodes" in said
    assert "training/user (node gb200-1)" in said
    # nor is one taken away of which a busy API server does not tell whose devices it has
    with Gate(claimed.kubeconfig) as gate:
        gate.silent = {RESOURCES}
        user = claimed.changed_kubeconfig("silent", server=gate.url)
        said = " ".join(claimed.run("uninstall", *alone, fails=True, user=user).split())
    assert "cannot look up resource.k8s.io/v1" in said
    assert claims(claimed) == {**whole, "ResourceClaimTemplate": moved}
    claimed.kube.request("DELETE", f"{RESOURCES}/namespaces/training/resourceclaims/user", "delete")
    claimed.run("uninstall", *alone)
    assert claims(claimed) == {}
    assert changes(claimed.run("uninstall", *alone)) == 0


def test_what_dranet_serves_leaves_on_purpose_only(claimed: Site) -> None:
    """An inventory that is a copy without a group, where no file of an earlier run remembers it: as jobs of AWX begin."""
    second = claimed.groups["gb200"]["hosts"].pop("gb200-2")
    claimed.groups["gb200-b"] = {
        **claimed.groups["gb200"],
        "hosts": {"gb200-2": second},
        "rdma_resource": {"name": "rdma_b"},
    }
    claimed.run("rollout")
    before = claims(claimed)
    assert (len(before["DaemonSet"]), before["nodes"]) == (2, ["gb200-1", "gb200-2"])

    whole = claimed.groups
    claimed.groups = {"gb200": whole["gb200"]}
    (claimed.directory / "output").rename(claimed.directory / "elsewhere")
    output = " ".join(claimed.run("rollout", fails=True).split())
    told = (
        r"The system dra has \d that this inventory does not know: DaemonSet rdma/dranet-gb200-b\S* \(group gb200-b\), "
    )
    assert re.search(told, output), output
    assert "node gb200-2" in output
    assert "Nothing was written or changed." in output
    # whoever takes the role alone is refused as well
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.dra"}, "vars": {"dra_method": "apply"}}
    play = [{"hosts": "rdma", "gather_facts": False, "tasks": [role]}]
    alone = claimed.directory / "alone.yml"
    alone.write_text(json.dumps(play))
    output = " ".join(claimed.run(str(alone.with_suffix("")), fails=True).split())
    assert re.search(r"Nothing was changed\. " + told, output), output
    claimed.groups = whole
    assert claims(claimed) == before

    # who says so takes it out: also the node is no longer DRANET's
    claimed.groups = {"gb200": whole["gb200"]}
    claimed.rollout["remove"] = ["gb200-b"]
    claimed.run("rollout")
    claimed.groups = whole
    after = claims(claimed)
    assert after["nodes"] == ["gb200-1"]
    assert after["DaemonSet"] == [name for name in before["DaemonSet"] if "gb200-b" not in name]
    # and nothing is left to be said: without the wish, the plan is written once more
    claimed.groups = {"gb200": whole["gb200"]}
    del claimed.rollout["remove"]
    claimed.run("rollout")
    assert changes(claimed.run("rollout")) == 0
    claimed.groups = whole
    assert claims(claimed) == after


def test_of_two_rollouts_of_a_system_at_once_one_is_refused(claimed: Site) -> None:
    """One takes the Lease and brings all of it; the other is told who has it, and changes nothing."""
    # nobody plays the nodes: as long as they do not run its Pods, the first one waits
    nodes = list(claimed.groups["gb200"]["hosts"])
    for node in nodes:
        claimed.kube.request("DELETE", f"/api/v1/nodes/{node}", "delete")
        body = {"metadata": {"name": node, "labels": LINUX}}
        claimed.kube.request("POST", "/api/v1/nodes", f"make {node}", body=body)
    claimed.rollout["timeout"] = int(limit(300))
    both = [claimed.start("rollout"), claimed.start("rollout")]
    try:
        end = time.monotonic() + limit(900)
        while all(each.poll() is None for each in both):
            assert time.monotonic() < end
            time.sleep(0.5)
        (second,) = [each for each in both if each.poll() is not None]
        (first,) = [each for each in both if each is not second]
        said = " ".join(second.communicate()[0].split())
        assert second.returncode != 0
        # the namespace of the Lease comes with the first one
        words = (
            r"Nothing was changed\. Another rollout is under way: Lease (default|rdma)/fabric-rdma-rollout is held by"
        )
        assert re.search(words, said), said
        for node in nodes:
            claimed.kubelets.annotate(node, NODE_ANNOTATION, "yes")
        said = first.communicate()[0]
        assert first.returncode == 0, said
    finally:
        for each in both:
            each.kill()
        for node in nodes:
            claimed.kubelets.annotate(node, NODE_ANNOTATION, "yes")
    assert sorted(claims(claimed)) == ["ClusterRole", "DaemonSet", "DeviceClass", "ResourceClaimTemplate", "nodes"]
    assert [
        item for item in claimed.kube.list(LEASES, "list") if item["metadata"]["name"] == "fabric-rdma-rollout"
    ] == []


# --- labels that tell where nodes are plugged in ----------------------------------------------------------------------

LEAF_LABEL = "topology.fabric.rdma/leaf"


def draw(site: Site, **leaves: str) -> None:
    """The map that the playbook fabric would leave: the leaf of each host, by its name with underscores."""
    hosts = {name.replace("_", "-"): leaf for name, leaf in leaves.items()}
    places = [
        {
            "host": host,
            "group": "gb200",
            "device": "mlx5_0",
            "port": 1,
            "netdev": None,
            "link_layer": "InfiniBand",
            "rail": 0,
            "subnet": None,
            "leaf": leaf,
            "leaf_port": "1",
        }
        for host, leaf in hosts.items()
    ]
    switches = [
        {"id": leaf, "name": leaf, "link_layer": "InfiniBand", "leaf": True} for leaf in sorted({*hosts.values()})
    ]
    nothing: Json = {name: [] for name in ("trunks", "units", "unplaced", "sources", "findings", "warnings")}
    output = site.directory / "output"
    output.mkdir(exist_ok=True)
    found = {"schema": 1, "places": places, "switches": switches, "leaves": {}, **nothing}
    (output / "fabric.json").write_text(json.dumps(found))


def leaf_labels(site: Site) -> dict[str, str]:
    nodes = {
        item["metadata"]["name"]: item["metadata"].get("labels") or {}
        for item in site.kube.list("/api/v1/nodes", "list")
    }
    return {name: labels[LEAF_LABEL] for name, labels in nodes.items() if LEAF_LABEL in labels}


def test_labels_of_leaves_come_change_and_go(site: Site) -> None:
    site.groups = {"gb200": {**site.groups["gb200"], "rdma_topology": {"labels": True}}}
    site.nodes(LINUX)
    said = " ".join(site.run("rollout", "--check", fails=True).split())
    assert "no planned host is on the map of the fabric: run the playbook fabric first" in said
    draw(site, gb200_1="leaf-1", gb200_2="leaf-1")
    site.run("rollout", "--check")
    assert leaf_labels(site) == {}

    site.run("rollout")
    assert leaf_labels(site) == {"gb200-1": "leaf-1", "gb200-2": "leaf-1"}
    assert changes(site.run("rollout")) == 0

    draw(site, gb200_1="leaf-1", gb200_2="leaf-2")
    site.run("rollout")
    assert leaf_labels(site) == {"gb200-1": "leaf-1", "gb200-2": "leaf-2"}

    alone = ("-e", json.dumps({"rdma_uninstall_systems": ["topology"]}))
    said = " ".join(site.run("uninstall", "--check", *alone).split())
    for name in ("gb200-1", "gb200-2"):
        assert f"labels of node {name}: removed" in said
    assert len(leaf_labels(site)) == 2
    site.run("uninstall", *alone)
    assert leaf_labels(site) == {}
    assert changes(site.run("uninstall", *alone)) == 0


# By system, the tests in which it is checked, comes, stays as it is, changes and goes: none of the catalogue is without.
PROVED = {
    "device_plugin": [
        "test_all_groups.py::test_a_wish_of_one_group_touches_only_what_is_its_own",
        "test_all_groups.py::test_what_is_gone_goes_and_what_is_not_ours_stays",
        "test_uninstall.py::test_groups_go_one_after_the_other_and_others_stay",
        "test_operator.py::test_policies_go_by_group_and_what_others_have_stays",
    ],
    "dra": ["test_all_systems.py::test_claims_come_stay_change_and_go"],
    "secondary_network": ["test_all_systems.py::test_networks_of_rails_come_change_and_go"],
    "topology": ["test_all_systems.py::test_labels_of_leaves_come_change_and_go"],
    **{each.system: ["test_all_systems.py::test_a_chart_comes_stays_changes_and_goes"] for each in CHARTED},
}

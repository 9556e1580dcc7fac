# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every system of the cluster side by the playbooks, with the real definitions: what comes, that it stays, changes and goes.

Charts are stand-ins of the same name and version, which take any value: what the real ones make of them is theirs.
"""

from __future__ import annotations

import json
import re
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GPU_OPERATOR, LONGHORN
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import POD_SECURITY, SYSTEM_LABEL
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
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


def chart(directory: Path, name: str, version: str) -> None:
    """A packed chart that is nothing but a ConfigMap with its values."""
    source = directory / "source" / name
    (source / "templates").mkdir(parents=True, exist_ok=True)
    (source / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": name, "version": version}))
    told = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"told-{name}"}}
    text = yaml.safe_dump(told) + "data:\n  values: {{ toJson .Values | quote }}\n"
    (source / "templates" / "told.yaml").write_text(text)
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

    rails.run("uninstall", "-e", json.dumps({"rdma_uninstall_groups": ["roce-rails"]}))
    assert networks(rails) == {}
    # what all groups share stays until everything goes
    daemon_sets = "/apis/apps/v1/daemonsets"
    left = [item["metadata"]["name"] for item in rails.kube.list(daemon_sets, "list", labelSelector=SYSTEM_LABEL)]
    assert left
    rails.run("uninstall")
    assert rails.kube.list(daemon_sets, "list", labelSelector=SYSTEM_LABEL) == []
    assert "changed=0" in rails.run("uninstall").splitlines()[-2]


def test_a_system_that_nobody_wishes_for_any_more_is_told_and_goes_alone(rails: Site) -> None:
    assert "nobody wishes for" not in rails.run("rollout")
    plugin = rails.objects()
    assert plugin
    for wish in ("rdma_networks", "rdma_multus", "rdma_whereabouts"):
        del rails.groups["roce-rails"][wish]
    said = " ".join(rails.run("rollout").split())
    assert "The cluster still has secondary_network, which nobody wishes for any more." in said
    assert networks(rails) != {}
    rails.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": ["secondary_network"]}))
    assert networks(rails) == {}
    assert rails.objects() == plugin
    assert "nobody wishes for" not in rails.run("rollout")
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
    # for a group: its name
    group: str
    namespace: str
    chart: str
    version: str
    change: Json
    # where the value comes to, and its values before and after
    path: tuple[str, ...]
    values: tuple[t.Any, t.Any]


CHARTED = [
    Charted(
        "longhorn",
        # recorded hosts were never prepared: on nodes that nobody discovers, it is for the user to know
        {"version": LONGHORN, "groups": [], "nodes": ["v100-1", "v100-2"]},
        "",
        "longhorn-system",
        "longhorn",
        LONGHORN,
        {"default_class": False},
        ("persistence", "defaultClass"),
        (True, False),
    ),
    Charted(
        "gpu_operator",
        {"version": GPU_OPERATOR.removeprefix("v")},
        "",
        "gpu-operator",
        "gpu-operator",
        GPU_OPERATOR,
        {"gdrcopy": True},
        ("gdrcopy", "enabled"),
        (False, True),
    ),
]


def at(values: t.Any, path: t.Sequence[str]) -> t.Any:
    for part in path:
        values = values[part]
    return values


@pytest.mark.parametrize("case", CHARTED, ids=[each.system for each in CHARTED])
def test_a_chart_comes_stays_changes_and_goes(site: Site, case: Charted) -> None:
    site.groups = {"ib-v100": dict(site.groups["ib-v100"])}
    site.nodes(GPU_NODE)
    charts = site.directory / "charts"
    charts.mkdir()
    chart(charts, case.chart, case.version)
    # nothing is waited for: what these charts bring runs nowhere
    site.rollout |= {"charts": str(charts), "helm": {"binary": control_plane.find_helm()}, "timeout": 0}
    place = site.groups["ib-v100"]
    place[f"rdma_{case.system}"] = case.wish
    releases = f"/api/v1/namespaces/{case.namespace}/secrets"

    site.run("rollout", "--check")
    assert site.kube.list(releases, "list", labelSelector="owner=helm") == []
    site.run("rollout")
    first = told(site, case.namespace, case.chart)
    assert at(first, case.path) == case.values[0]
    assert changes(site.run("rollout")) == 0
    assert len(site.kube.list(releases, "list", labelSelector="owner=helm")) == 1

    place[f"rdma_{case.system}"] = {**case.wish, **case.change}
    site.run("rollout")
    assert at(told(site, case.namespace, case.chart), case.path) == case.values[1]

    # a look changes nothing
    site.run("uninstall", "--check")
    assert told(site, case.namespace, case.chart)
    site.run("uninstall", "-e", json.dumps({"rdma_uninstall_systems": [case.system]}))
    assert site.kube.find(f"/api/v1/namespaces/{case.namespace}/configmaps/told-{case.chart}", "read") is None
    assert site.kube.list(releases, "list", labelSelector="owner=helm") == []
    space = site.kube.find(f"/api/v1/namespaces/{case.namespace}", "read")
    assert space is not None
    assert not [key for key in space["metadata"].get("labels") or {} if key.startswith(POD_SECURITY)]
    # the device plugin is another system
    assert site.objects() != {}
    site.run("uninstall")
    assert changes(site.run("uninstall")) == 0
